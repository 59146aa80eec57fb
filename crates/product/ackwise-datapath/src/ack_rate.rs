//! Asks for ACK rates on the sockets of a cgroup: TCP ACK Rate Request
//! (draft-ietf-tcpm-ack-rate-request), or ACK congestion control (RFC 5690), using the programs in
//! `bpf/ack_rate.bpf.c`.

use std::fs::File;
use std::path::{Path, PathBuf};

use ackwise_bpf::ack_rate as sys;
use ackwise_policy::AckRate;
use aya::maps::{MapData, PerCpuArray};
use aya::programs::cgroup_skb::CgroupSkbAttachType;
use aya::programs::{CgroupAttachMode, CgroupSkb, SockOps};
use aya::{Ebpf, EbpfLoader};
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, fstatfs};
use serde::Serialize;

use crate::Error;
use crate::error::{load_error, program_error};

const PROGRAM: &str = "ackwise_ask";
/// The program that looks at incoming ACKs.
const INCOMING_ACKS_PROGRAM: &str = "ackwise_ask_acks";

/// What the sockets ask of their peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckRateRequest {
    /// Nothing: they only announce that they support the option, so that a peer may ask them.
    Nothing,
    /// One ACK for this many segments, 1 to 127.
    Segments(u32),
    /// This many ACKs per congestion window, 1 to 64.
    PerWindow(u32),
    /// As many as the loss of ACKs suggests: ACK congestion control (RFC 5690). Both ends must have
    /// it.
    CongestionControl,
}

/// The counters of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct AckRateCounters {
    /// SYNs and SYN-ACKs that were sent with the option.
    pub offered: u64,
    /// Connections whose peer has the option, too.
    pub agreed: u64,
    /// Requests for a rate.
    pub asked: u64,
    /// Data packets that carried a request, before they were cut into segments.
    pub segments: u64,
    /// With ACK congestion control: ACKs that arrived on connections that agreed on it.
    pub acks: u64,
    /// Those of `acks` that say that no ACK is missing before them, whatever they cover.
    pub skipped: u64,
    /// ACKs that were found to be lost.
    pub lost: u64,
}

/// The programs on the sockets of a cgroup, attached until this is dropped.
#[derive(Debug)]
pub struct AckRateRequester {
    bpf: Ebpf,
}

/// Opens a cgroup of version 2, or says what is wrong with the path: for anything else the kernel
/// would only report a bad file descriptor.
fn open(cgroup: &Path) -> Result<File, String> {
    let system = |error: std::io::Error| error.to_string();
    // Before opening: a pipe would block until somebody writes.
    if !cgroup.metadata().map_err(system)?.is_dir() {
        return Err("it is not a directory".to_owned());
    }
    let group = File::open(cgroup).map_err(system)?;
    let system_of_files = fstatfs(&group).map_err(|errno| system(errno.into()))?;
    if system_of_files.filesystem_type() != CGROUP2_SUPER_MAGIC {
        return Err("it is not a cgroup of version 2".to_owned());
    }
    Ok(group)
}

impl AckRateRequester {
    /// The root cgroup, which contains all processes: where version 2 is mounted.
    ///
    /// # Errors
    /// [`Error::NoCgroup`] if version 2 is not mounted.
    pub fn root() -> Result<PathBuf, Error> {
        let mounts =
            std::fs::read_to_string("/proc/self/mounts").map_err(|source| Error::System {
                what: "read /proc/self/mounts",
                source,
            })?;
        mounts
            .lines()
            .filter_map(|line| {
                let mut fields = line.split(' ').skip(1);
                Some((fields.next()?, fields.next()?))
            })
            .find(|(_, kind)| *kind == "cgroup2")
            .map(|(path, _)| PathBuf::from(path))
            .ok_or(Error::NoCgroup)
    }

    /// Attaches the programs. Existing connections are left alone, and so are connections to
    /// sockets that are already listening: these answer without the option.
    ///
    /// # Errors
    /// If a number is out of range, there is no such cgroup, or the kernel refuses.
    pub fn attach(cgroup: &Path, request: AckRateRequest) -> Result<AckRateRequester, Error> {
        let range = |what, value: u32, most: u32| match value {
            _ if (1..=most).contains(&value) => Ok(()),
            _ => Err(Error::Option {
                what,
                value: u64::from(value),
                range: format!("from 1 to {most}"),
            }),
        };
        let mut options = sys::aw_ack_rate_options::default();
        match request {
            AckRateRequest::Nothing => {}
            AckRateRequest::Segments(segments) => {
                range("segments of an ACK", segments, u32::from(AckRate::MOST))?;
                options.segments = segments;
            }
            AckRateRequest::PerWindow(acks) => {
                range("ACKs of a window", acks, 64)?;
                options.per_window = acks;
            }
            AckRateRequest::CongestionControl => options.control = 1,
        }
        let group = open(cgroup).map_err(|why| Error::Cgroup {
            path: cgroup.to_owned(),
            why,
        })?;
        let mut bpf = EbpfLoader::new()
            .override_global("ack_rate_options", &options, true)
            .load(sys::OBJECT)
            .map_err(|error| load_error(error, 0))?;
        // Links take no flags, and let others attach beside them. The program for ACKs is attached
        // before any connection can ask for it.
        if request == AckRateRequest::CongestionControl {
            let program: &mut CgroupSkb = bpf
                .program_mut(INCOMING_ACKS_PROGRAM)
                .and_then(|program| program.try_into().ok())
                .ok_or_else(|| Error::Object(format!("program {INCOMING_ACKS_PROGRAM}")))?;
            let failed = |e| program_error(INCOMING_ACKS_PROGRAM, e);
            program.load().map_err(failed)?;
            let ingress = CgroupSkbAttachType::Ingress;
            program
                .attach(&group, ingress, CgroupAttachMode::Single)
                .map_err(failed)?;
        }
        let program: &mut SockOps = bpf
            .program_mut(PROGRAM)
            .and_then(|program| program.try_into().ok())
            .ok_or_else(|| Error::Object(format!("program {PROGRAM}")))?;
        program.load().map_err(|e| program_error(PROGRAM, e))?;
        program
            .attach(&group, CgroupAttachMode::Single)
            .map_err(|e| program_error(PROGRAM, e))?;
        Ok(AckRateRequester { bpf })
    }

    /// Returns the counters of the programs.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn counters(&self) -> Result<AckRateCounters, Error> {
        let map = self
            .bpf
            .map("counters")
            .ok_or_else(|| Error::Object("map counters".to_owned()))?;
        let map: PerCpuArray<&MapData, sys::aw_ack_rate_counters> = map.try_into()?;
        let mut sum = AckRateCounters::default();
        for one in map.get(&0, 0)?.iter() {
            sum.offered += one.offered;
            sum.agreed += one.agreed;
            sum.asked += one.asked;
            sum.segments += one.segments;
            sum.acks += one.acks;
            sum.skipped += one.skipped;
            sum.lost += one.lost;
        }
        Ok(sum)
    }
}
