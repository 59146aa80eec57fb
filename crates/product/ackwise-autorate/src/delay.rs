//! The program that times the way behind the queue (see `bpf/delay.bpf.c`).

use std::io;
use std::os::fd::OwnedFd;

use ackwise_bandwidth::{Sample, Sent};
use ackwise_bpf::delay as sys;
use ackwise_netdev::packet_socket::{self, Layer, Receives};
use ackwise_netdev::{Error, Interface};
use ackwise_policy::LinkKind;
use aya::maps::{Array, MapData, PerCpuArray, PerCpuValues};
use aya::programs::SocketFilter;
use aya::{Ebpf, EbpfLoader};

const ETHERNET_HEADER: i32 = 14;

/// The program and its socket, until this is dropped.
pub struct Delay {
    sent: Array<MapData, sys::aw_delay_sent>,
    samples: PerCpuArray<MapData, sys::aw_delay_sample>,
    /// Holds the program.
    _socket: OwnedFd,
    _bpf: Ebpf,
}

impl std::fmt::Debug for Delay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delay").finish_non_exhaustive()
    }
}

impl Delay {
    /// Loads the program and lets it see what passes the interface. `overhead` is what a packet costs
    /// on the link beyond itself, in bytes; `None` for what the device counts. Takes CAP_BPF and
    /// CAP_NET_RAW.
    ///
    /// # Errors
    /// A right is missing, or the kernel refuses.
    pub fn attach(interface: &Interface, overhead: Option<i32>) -> Result<Self, Error> {
        let fail = |why: &dyn std::error::Error| Error::program(&interface.name, why);
        let device = match interface.kind {
            LinkKind::Ethernet => ETHERNET_HEADER,
            LinkKind::Ip => 0,
        };
        let options = sys::aw_delay_options {
            overhead: overhead.unwrap_or(device),
        };
        let mut bpf = EbpfLoader::new()
            .override_global("delay_options", &options, true)
            .load(sys::OBJECT)
            .map_err(|e| fail(&e))?;
        let unusable = || Error::unusable("ackwise_delay");
        let program = bpf.program_mut("ackwise_delay").ok_or_else(unusable)?;
        let program: &mut SocketFilter = program.try_into().map_err(|_| unusable())?;
        program.load().map_err(|e| fail(&e))?;
        // The program sees packets from the IP header on.
        let socket =
            packet_socket::open(Layer::Network).map_err(Error::system("open a packet socket"))?;
        // Before it is bound, so that it never gets a packet.
        program.attach(&socket).map_err(|e| fail(&e))?;
        packet_socket::bind(&socket, Some(interface.index), Receives::All)
            .map_err(Error::system("bind a packet socket"))?;
        let map = |bpf: &mut Ebpf, name| bpf.take_map(name).ok_or_else(|| Error::unusable(name));
        let sent = Array::try_from(map(&mut bpf, "sent")?).map_err(|_| unusable())?;
        let samples = PerCpuArray::try_from(map(&mut bpf, "samples")?).map_err(|_| unusable())?;
        Ok(Self {
            sent,
            samples,
            _socket: socket,
            _bpf: bpf,
        })
    }

    /// Returns what has left since the start, as it counts on the link.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn sent(&self) -> io::Result<Sent> {
        let sent = self.sent.get(&0, 0).map_err(io::Error::other)?;
        Ok(Sent {
            bytes: sent.bytes,
            lengths: sent.lengths,
        })
    }

    /// Returns the round trip that waited least since the last call, if any ended. One that ends
    /// during the call may be lost.
    ///
    /// # Errors
    /// The map cannot be read or written.
    pub fn sample(&mut self) -> io::Result<Option<Sample>> {
        let values = self.samples.get(&0, 0).map_err(io::Error::other)?;
        let least = values.iter().filter(|one| one.count > 0);
        let Some(least) = least.min_by_key(|one| one.waited_us) else {
            return Ok(None);
        };
        let sample = Sample {
            left_ns: least.left_ns,
            bytes: least.bytes,
            waited_us: u32::try_from(least.waited_us).unwrap_or(u32::MAX),
        };
        let fresh: Vec<_> = values.iter().map(|_| Default::default()).collect();
        let fresh = PerCpuValues::try_from(fresh)?;
        self.samples.set(0, fresh, 0).map_err(io::Error::other)?;
        Ok(Some(sample))
    }
}
