//! For the benchmark of packet paths only.

use std::fs::File;
use std::time::Duration;

use crate::frame::Parcel;
use crate::hook::Hook;
use ackwise_netdev::{Attach, BATCH, Interface, PacketSocket};

const COOKIE: u32 = 0x6177_0001;

/// What leaves by an interface is redirected to a device, as long as this lives.
#[derive(Debug)]
pub struct Detour(#[allow(dead_code)] Hook);

impl Detour {
    /// From `interface` to the device with index `to`.
    #[must_use]
    pub fn new(interface: &str, to: u32) -> Self {
        let interface = Interface::find(interface).expect("the benchmark made it");
        let mut hook = Hook::install(&interface, to, COOKIE, Attach::Tcx).expect("root, Linux 6.6");
        let mut heart = hook.heart().expect("a map");
        heart.beat(Duration::from_secs(3600)).expect("a map");
        Self(hook)
    }
}

/// The gateway's packet socket for an interface.
#[derive(Debug)]
pub struct WayOut(PacketSocket);

impl WayOut {
    /// Marks what it sends, as [`Detour`] expects it.
    #[must_use]
    pub fn new(interface: &str) -> Self {
        let interface = Interface::find(interface).expect("the benchmark made it");
        Self(PacketSocket::open(interface, COOKIE).expect("root"))
    }

    /// How many were sent.
    #[must_use]
    pub fn send(&self, frames: &[Parcel]) -> u64 {
        frames
            .chunks(BATCH)
            .map(|some| self.0.send(some).packets)
            .sum()
    }
}

/// The gateway's TAP device for an interface, and its index.
#[must_use]
pub fn tap(interface: &str) -> (File, u32) {
    let interface = Interface::find(interface).expect("the benchmark made it");
    let device = crate::gateway::device(&interface).expect("root");
    let index = device.index;
    (device.into_file(), index)
}
