//! Directions of links, and the routes over them.

use ackwise_queue::wifi::WifiConfig;
use ackwise_queue::{HalfDuplex, Nanos};

use crate::interface_policy::Side;
use crate::packet_handle::PacketHandle;
use crate::time::NEVER;

/// The queue, boxes and wire of a line.
pub type Wire = ackwise_queue::Channel<PacketHandle>;

/// An entry of the table of routes: the next line, and whether the flow is counted on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop(u32);

impl Hop {
    /// The end of a route: the packet has arrived.
    pub const END: Hop = Hop(u32::MAX);
    const COUNTED: u32 = 1 << 31;
    const NARROWEST: u32 = 1 << 30;
    const LINE: u32 = Hop::NARROWEST - 1;

    /// A hop over this line, with whether the flow is counted there, and whether the line is the
    /// narrowest of the path.
    pub fn over(line: usize, counted: bool, narrowest: bool) -> Hop {
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        Hop(line as u32 | flag(counted, Hop::COUNTED) | flag(narrowest, Hop::NARROWEST))
    }

    pub(crate) fn line(self) -> usize {
        (self.0 & Hop::LINE) as usize
    }

    pub(crate) fn counted(self) -> bool {
        self.0 & Hop::COUNTED != 0
    }

    pub(crate) fn narrowest(self) -> bool {
        self.0 & Hop::NARROWEST != 0
    }

    /// Whether anything is counted on this hop.
    pub(crate) fn watched(self) -> bool {
        self.0 > Hop::LINE
    }
}

/// A policy at one end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyAt {
    /// Number of the policy.
    pub interface_policy: u16,
    /// Which direction of the flow passes the policy on this line.
    pub side: Side,
}

/// One direction of a link.
pub struct Line {
    /// Queue, rate, delay and the boxes on the line.
    pub wire: Wire,
    /// Whether the line shares a medium with the other direction, its neighbour in the list.
    pub(crate) shares: bool,
    /// The shared medium, stored in the first of the two directions.
    pub(crate) medium: Option<HalfDuplex>,
    /// When the pending event is due.
    pub(crate) due: Nanos,
    /// Bytes of the link's own header, which count against its rate.
    pub(crate) header: u32,
    /// The policy where packets enter.
    pub(crate) enter: Option<PolicyAt>,
    /// The policy where packets leave.
    pub(crate) leave: Option<PolicyAt>,
}

impl Line {
    /// An empty line.
    pub fn new(wire: Wire, header: u32) -> Line {
        Line {
            wire,
            shares: false,
            medium: None,
            due: NEVER,
            header,
            enter: None,
            leave: None,
        }
    }

    /// Makes the two directions of a link share a medium, IEEE 802.11 if `wifi` is given.
    pub fn share(lines: &mut [Line; 2], wifi: Option<WifiConfig>) {
        let [forward, reverse] = lines;
        let links = [forward.wire.link_mut(), reverse.wire.link_mut()];
        forward.medium = Some(match wifi {
            Some(config) => HalfDuplex::wifi(links, config),
            None => HalfDuplex::new(links),
        });
        (forward.shares, reverse.shares) = (true, true);
    }

    /// Places a policy where packets enter, or where they leave. Returns false if there is one
    /// already.
    pub fn place(&mut self, entering: bool, interface_policy: u16, side: Side) -> bool {
        let at = if entering {
            &mut self.enter
        } else {
            &mut self.leave
        };
        let policy = PolicyAt {
            interface_policy,
            side,
        };
        at.replace(policy).is_none()
    }
}
