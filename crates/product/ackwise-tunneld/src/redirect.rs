//! ACKs that are taken where they leave: the BPF program at the interface's egress, and the packets
//! that it passes on.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ackwise_config::tunnel::{OtherPackets, Tunnel as Config};
use ackwise_headers::{checksum, ip_offset};
use ackwise_netdev::{AttachMode, Interface, Role, TunDevice};
use ackwise_tunnel::MAX_UNCOMPRESSED;

use crate::Error;
use crate::hook::{Acks, Hook, Installed, Options, ProgramState};

/// The minimum time without a read after which the program lets packets pass. A process that has
/// not read for less than this may only have waited for a CPU.
const MIN_GRACE: Duration = Duration::from_millis(5);

/// The program at the egress of an interface.
#[derive(Debug)]
pub(crate) struct Redirect {
    pub interface: Interface,
    /// The device through which packets arrive that are not passed as copies.
    pub device: TunDevice,
    pub hook: Arc<Hook>,
    pub state: ProgramState,
    pub acks: Acks,
}

/// A frame that was taken, in the caller's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame {
    /// The offset of the IP header.
    pub ip: usize,
    /// The length of the frame.
    pub len: usize,
}

impl Redirect {
    /// Loads and attaches the program.
    pub fn install(
        config: &Config,
        interface: Interface,
        link: &TunDevice,
        cookie: u32,
        attach: AttachMode,
    ) -> Result<Redirect, Error> {
        // A VLAN tag that the interface would add itself is inside the frame here.
        let mtu = interface.mtu + 8;
        let device = TunDevice::open("awtunin%d", interface.kind, mtu, Role::Redirect)?;
        let options = Options {
            grace: config.period.max(MIN_GRACE),
            device: device.index,
            link: link.index,
            cookie,
            mark: config.fwmark,
            max_other: match config.other_packets {
                OtherPackets::Bypass => 0,
                OtherPackets::Carry => MAX_UNCOMPRESSED as u32,
            },
        };
        let peers = config.peers.iter().zip(0..);
        let allowed_ips =
            peers.flat_map(|(peer, index)| peer.allowed_ips.iter().map(move |ip| (index, ip)));
        let Installed { hook, state, acks } =
            Hook::install(&interface, &options, allowed_ips, attach)?;
        Ok(Redirect {
            interface,
            device,
            hook: Arc::new(hook),
            state,
            acks,
        })
    }

    /// Reads the next frame that was taken. `at_device` says whether to read the device, too,
    /// which takes a system call.
    pub fn take(&mut self, buffer: &mut [u8], at_device: bool) -> io::Result<Option<Frame>> {
        let kind = self.interface.kind;
        while let Some(len) = self.acks.take(buffer) {
            if let Some(ip) = ip_offset(&buffer[..len], kind) {
                checksum::complete_tcp(&mut buffer[ip..len]);
                return Ok(Some(Frame { ip, len }));
            }
        }
        if !at_device {
            return Ok(None);
        }
        while let Some(len) = self.device.recv(buffer)? {
            if let Some(ip) = ip_offset(&buffer[..len], kind) {
                return Ok(Some(Frame { ip, len }));
            }
        }
        Ok(None)
    }
}
