//! Directions of links, and the ways over them.

use ackwise_queue::wifi::WifiConfig;
use ackwise_queue::{HalfDuplex, Nanos};

use crate::interface_policy::Side;
use crate::packet_handle::PacketHandle;
use crate::time::NEVER;

/// What a line is made of.
pub type Wire = ackwise_queue::Channel<PacketHandle>;

/// An entry of the table of routes: which line comes next, and whether the flow
/// is counted on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop(u32);

impl Hop {
    /// The packet has arrived.
    pub const END: Hop = Hop(u32::MAX);
    const COUNTED: u32 = 1 << 31;
    const NARROWEST: u32 = 1 << 30;
    const LINE: u32 = Hop::NARROWEST - 1;

    /// Over this line; whether the flow is counted there, and whether it is the
    /// narrowest of the way.
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

    /// Whether something is counted there.
    pub(crate) fn watched(self) -> bool {
        self.0 > Hop::LINE
    }
}

/// A policy at one end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicyAt {
    /// Number of the policy.
    pub interface_policy: u16,
    /// What of it passes on this line.
    pub side: Side,
}

/// One direction of a link.
pub struct Line {
    /// Queue, rate, delay and what else stands there.
    pub wire: Wire,
    /// Whether it shares a medium with the other direction, its neighbour.
    pub(crate) shares: bool,
    /// The medium, which the first of the two has.
    pub(crate) medium: Option<HalfDuplex>,
    /// The event that is pending.
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

    /// Has the two directions of a link share a medium, of IEEE 802.11 if there is a `wifi`.
    pub fn share(lines: &mut [Line; 2], wifi: Option<WifiConfig>) {
        let [forward, reverse] = lines;
        let links = [forward.wire.link_mut(), reverse.wire.link_mut()];
        forward.medium = Some(match wifi {
            Some(config) => HalfDuplex::wifi(links, config),
            None => HalfDuplex::new(links),
        });
        (forward.shares, reverse.shares) = (true, true);
    }

    /// Puts a policy where packets enter, or where they leave. False if there
    /// is one already.
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
