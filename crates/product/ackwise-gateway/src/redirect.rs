//! The program at the interface's egress, which redirects packets to the gateway's device (see
//! `bpf/gateway.bpf.c`).

use std::os::fd::AsFd;
use std::time::Duration;

use ackwise_bpf::gateway as sys;
use ackwise_netdev::clock::monotonic_ns;
use ackwise_netdev::{AttachMode, AttachOptions, Attachment, Direction, Interface, Order};
use aya::maps::{Array, Map, MapData, PerCpuArray};
use aya::programs::SchedClassifier;
use aya::{Ebpf, EbpfLoader};

use crate::Error;

/// The program, which is also the name of its filter on clsact.
pub(crate) const PROGRAM: &str = "ackwise_gateway";
const CONTROL: &str = "control";
const COUNTERS: &str = "counters";

/// The packets that the program has counted, by what it did with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    pub taken: u64,
    pub taken_bytes: u64,
    pub returned: u64,
    pub other: u64,
    pub neighbour: u64,
    pub unattended: u64,
}

/// The program, attached until this is dropped.
pub(crate) struct Redirect {
    bpf: Ebpf,
    attachment: Attachment,
}

impl std::fmt::Debug for Redirect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redirect")
            .field("attachment", &self.attachment)
            .finish_non_exhaustive()
    }
}

impl Redirect {
    /// Loads and attaches the program. It redirects nothing before the first [`Heartbeat::beat`].
    /// `device` is the index of the device that packets are redirected to, `cookie` the mark of
    /// packets that come back from it.
    pub fn install(
        interface: &Interface,
        device: u32,
        cookie: u32,
        mode: AttachMode,
    ) -> Result<Self, Error> {
        let fail =
            |why: &dyn std::error::Error| ackwise_netdev::Error::program(&interface.name, why);
        let options = sys::aw_gateway_options {
            tun_ifindex: device,
            cookie,
        };
        let mut bpf = EbpfLoader::new()
            .override_global("gateway_options", &options, true)
            .load(sys::OBJECT)
            .map_err(|e| fail(&e))?;
        let program = bpf
            .program_mut(PROGRAM)
            .ok_or_else(|| ackwise_netdev::Error::no_program(PROGRAM))?;
        let program: &mut SchedClassifier = program.try_into().map_err(|e| fail(&e))?;
        program.load().map_err(|e| fail(&e))?;
        let attachment = Attachment::attach(
            &mut bpf,
            PROGRAM,
            &AttachOptions {
                interface: &interface.name,
                direction: Direction::Egress,
                mode,
                order: Order::First,
            },
        )?;
        Ok(Self { bpf, attachment })
    }

    /// Returns how the program is attached.
    pub fn mode(&self) -> AttachMode {
        self.attachment.mode()
    }

    /// Returns whether the program is still attached.
    pub fn is_attached(&self) -> bool {
        self.attachment.is_attached()
    }

    /// Returns the kernel's id of the program.
    pub fn program(&self) -> u32 {
        self.attachment.program()
    }

    /// Returns the heartbeat that keeps the program redirecting.
    pub fn heartbeat(&mut self) -> Result<Heartbeat, Error> {
        let Some(Map::Array(data)) = self.bpf.map_mut(CONTROL) else {
            return Err(no_map(CONTROL));
        };
        let fd = data.fd().as_fd().try_clone_to_owned();
        let fd = fd.map_err(Error::system("duplicate a map's descriptor"))?;
        let failed = ackwise_netdev::Error::map(CONTROL);
        let map = MapData::from_fd(fd).map_err(&failed)?;
        let map = Array::try_from(Map::Array(map)).map_err(&failed)?;
        Ok(Heartbeat(map))
    }

    /// Returns the counters, summed over all CPUs.
    pub fn counters(&self) -> Result<Counters, Error> {
        let failed = ackwise_netdev::Error::map(COUNTERS);
        let map = self.bpf.map(COUNTERS).ok_or_else(|| no_map(COUNTERS))?;
        let map: PerCpuArray<_, sys::aw_gateway_counters> =
            PerCpuArray::try_from(map).map_err(&failed)?;
        let values = map.get(&0, 0).map_err(&failed)?;
        Ok(values
            .iter()
            .fold(Counters::default(), |sum, one| Counters {
                taken: sum.taken + one.taken,
                taken_bytes: sum.taken_bytes + one.taken_bytes,
                returned: sum.returned + one.returned,
                other: sum.other + one.other,
                neighbour: sum.neighbour + one.neighbour,
                unattended: sum.unattended + one.unattended,
            }))
    }

    /// Detaches the program: packets take the ordinary path from now on. The counters can still be
    /// read.
    pub fn detach(&mut self) {
        self.attachment.detach();
    }
}

/// Tells the program that the gateway is running.
pub(crate) struct Heartbeat(Array<MapData, sys::aw_gateway_control>);

impl Heartbeat {
    /// Lets the program redirect packets for `span` from now on.
    pub fn beat(&mut self, span: Duration) -> Result<(), Error> {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        let alive = sys::aw_gateway_control {
            alive_until_ns: monotonic_ns().saturating_add(span),
        };
        let written = self.0.set(0, alive, 0);
        Ok(written.map_err(ackwise_netdev::Error::map(CONTROL))?)
    }
}

fn no_map(name: &str) -> Error {
    ackwise_netdev::Error::no_map(name).into()
}
