//! For the benchmark of packet paths only.

use std::fs::File;
use std::time::Duration;

use crate::frame::FrameBuf;
use crate::redirect::Redirect;
use ackwise_netdev::{AttachMode, BATCH, Interface, PacketSocket};

const COOKIE: u32 = 0x6177_0001;

/// Redirects what leaves through an interface to a device until this is dropped.
#[derive(Debug)]
pub struct RedirectAll(#[allow(dead_code)] Redirect);

impl RedirectAll {
    /// Redirects from `interface` to the device with index `to`.
    #[must_use]
    pub fn new(interface: &str, to: u32) -> Self {
        let interface = Interface::find(interface).expect("the benchmark made it");
        let mut redirect =
            Redirect::install(&interface, to, COOKIE, AttachMode::Tcx).expect("root, Linux 6.6");
        let mut heartbeat = redirect.heartbeat().expect("a map");
        heartbeat.beat(Duration::from_secs(3600)).expect("a map");
        Self(redirect)
    }
}

/// The gateway's packet socket for an interface.
#[derive(Debug)]
pub struct Sender(PacketSocket);

impl Sender {
    /// Opens a socket with the mark that [`RedirectAll`] lets pass.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        let interface = Interface::find(interface).expect("the benchmark made it");
        Self(PacketSocket::open(interface, COOKIE).expect("root"))
    }

    /// Sends frames and returns how many were sent.
    #[must_use]
    pub fn send(&self, frames: &[FrameBuf]) -> u64 {
        frames
            .chunks(BATCH)
            .map(|some| self.0.send(some).packets)
            .sum()
    }
}

/// Opens the gateway's TAP device for an interface and returns it with its index.
#[must_use]
pub fn tap(interface: &str) -> (File, u32) {
    let interface = Interface::find(interface).expect("the benchmark made it");
    let device = crate::gateway::open_device(&interface).expect("root");
    let index = device.index;
    (device.into_file(), index)
}
