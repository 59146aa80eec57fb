//! The programs that measure round trips behind a queue (see `bpf/delay.bpf.c`).

use std::io;
use std::os::fd::OwnedFd;

use ackwise_bandwidth::{Sample, Sent};
use ackwise_bpf::delay as sys;
use ackwise_netdev::packet_socket::{self, Layer, Receives};
use ackwise_netdev::{AttachMode, AttachOptions, Attachment, Direction, Error, Interface, Order};
use aya::maps::{Array, MapData, PerCpuArray, PerCpuValues};
use aya::programs::{ProgramError, SchedClassifier, SocketFilter};
use aya::{Ebpf, EbpfLoader};

/// What keeps the programs attached.
enum Attached {
    /// The filter of this packet socket.
    Socket { _socket: OwnedFd },
    /// Two tc programs.
    Tc { _programs: [Attachment; 2] },
}

/// The programs, attached until this is dropped.
pub struct Delay {
    sent: Array<MapData, sys::aw_delay_sent>,
    samples: PerCpuArray<MapData, sys::aw_delay_sample>,
    _attached: Attached,
    _bpf: Ebpf,
}

impl std::fmt::Debug for Delay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delay").finish_non_exhaustive()
    }
}

impl Delay {
    /// Times what passes the interface behind its queue discipline. `overhead` is what a packet
    /// costs on the link beyond itself, in bytes; `None` uses the device's value. Needs CAP_BPF and
    /// CAP_NET_RAW.
    ///
    /// # Errors
    /// If a capability is missing, or the kernel refuses.
    pub fn behind_qdisc(interface: &Interface, overhead: Option<i32>) -> Result<Self, Error> {
        // The program sees packets from the IP header on.
        let overhead = overhead.unwrap_or(interface.header_len().into());
        let mut bpf = load(interface, overhead)?;
        let program = bpf
            .program_mut("ackwise_delay")
            .ok_or(ProgramError::NotLoaded);
        let program = program.and_then(TryInto::<&mut SocketFilter>::try_into);
        let fail = |why: ProgramError| Error::program(&interface.name, &why);
        let program = program.map_err(fail)?;
        program.load().map_err(fail)?;
        let socket =
            packet_socket::open(Layer::Network).map_err(Error::system("open a packet socket"))?;
        // Attach before binding, so that the socket never receives a packet.
        program
            .attach(&socket)
            .map_err(|e| Error::program(&interface.name, &e))?;
        packet_socket::bind(&socket, Some(interface.index), Receives::All)
            .map_err(Error::system("bind a packet socket"))?;
        Self::of(bpf, Attached::Socket { _socket: socket })
    }

    /// Times what passes the interface, behind the existing tc programs and before its queue
    /// discipline. `overhead` is what a packet costs on the link beyond itself, in bytes. Needs
    /// CAP_BPF and CAP_NET_ADMIN.
    ///
    /// # Errors
    /// If a capability is missing, or the kernel refuses.
    pub fn behind_tc(
        interface: &Interface,
        overhead: i32,
        mode: AttachMode,
    ) -> Result<Self, Error> {
        let mut bpf = load(interface, overhead - i32::from(interface.header_len()))?;
        let mut attach = |name, direction| {
            let program = bpf.program_mut(name).ok_or(ProgramError::NotLoaded);
            program
                .and_then(TryInto::<&mut SchedClassifier>::try_into)
                .and_then(SchedClassifier::load)
                .map_err(|e| Error::program(&interface.name, &e))?;
            let options = AttachOptions {
                interface: &interface.name,
                direction,
                mode,
                order: Order::Last,
            };
            Attachment::attach(&mut bpf, name, &options)
        };
        let programs = [
            attach("ackwise_delay_out", Direction::Egress)?,
            attach("ackwise_delay_in", Direction::Ingress)?,
        ];
        Self::of(
            bpf,
            Attached::Tc {
                _programs: programs,
            },
        )
    }

    fn of(mut bpf: Ebpf, attached: Attached) -> Result<Self, Error> {
        let mut map = |name| bpf.take_map(name).ok_or_else(|| Error::no_map(name));
        let (sent, samples) = (map("sent")?, map("samples")?);
        Ok(Self {
            sent: Array::try_from(sent).map_err(Error::map("sent"))?,
            samples: PerCpuArray::try_from(samples).map_err(Error::map("samples"))?,
            _attached: attached,
            _bpf: bpf,
        })
    }

    /// Returns what has left since the start, as it counts on the link.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn sent(&self) -> io::Result<Sent> {
        let sent = self.sent.get(&0, 0).map_err(io::Error::other)?;
        Ok(Sent {
            bytes: sent.bytes,
            squared_lengths: sent.lengths,
        })
    }

    /// Returns the round trip with the shortest wait since the last call, if any ended. A round
    /// trip that ends during the call may be lost.
    ///
    /// # Errors
    /// If the map cannot be read or written.
    pub fn sample(&mut self) -> io::Result<Option<Sample>> {
        let values = self.samples.get(&0, 0).map_err(io::Error::other)?;
        // A sample that a program had begun to write when all were reset has no time.
        let least = values.iter().filter(|one| one.count > 0 && one.left_ns > 0);
        let Some(least) = least.min_by_key(|one| (one.is_data == 0, one.waited_us)) else {
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

/// Loads the object. Each packet costs `overhead` bytes beyond the bytes that the programs see.
fn load(interface: &Interface, overhead: i32) -> Result<Ebpf, Error> {
    let options = sys::aw_delay_options { overhead };
    EbpfLoader::new()
        .override_global("delay_options", &options, true)
        .load(sys::OBJECT)
        .map_err(|e| Error::program(&interface.name, &e))
}

#[cfg(test)]
mod tests;
