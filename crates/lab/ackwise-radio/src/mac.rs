//! The state of a node's MAC: unslotted CSMA/CA with acknowledgments (IEEE 802.15.4-2006
//! §7.5.1.4, §7.5.6.4).

use std::collections::VecDeque;

use ackwise_queue::Nanos;

use crate::frame::{Datagram, NodeId};

/// What a node's MAC does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Backoff,
    /// It has looked since then whether the channel is clear.
    Look(Nanos),
    Turn,
    Sending,
    /// It waits for an acknowledgment.
    Wait,
    /// The pause after a frame.
    Pause,
}

/// A packet that waits at a node.
#[derive(Debug)]
pub(crate) struct Queued {
    /// The neighbour that it is for; `None`: all.
    pub to: Option<NodeId>,
    pub datagram: Datagram,
}

/// An exchange of a frame and its acknowledgment, as the receiver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The neighbour that sent the frame.
    pub from: NodeId,
    /// Its number, the same when the frame is sent again.
    pub number: u64,
}

/// A source that always has a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filler {
    /// The node that sends.
    pub from: NodeId,
    /// The neighbour that it sends to; `None`: all, without acknowledgment.
    pub to: Option<NodeId>,
    /// Bytes above the MAC.
    pub bytes: u32,
}

#[cfg(test)]
impl Filler {
    pub fn new(from: NodeId, to: Option<NodeId>, bytes: u32) -> Filler {
        Filler { from, to, bytes }
    }
}

/// The MAC of a node.
#[derive(Debug, Default)]
pub(crate) struct Mac {
    pub phase: Phase,
    /// Packets not sent yet; the first one is being sent.
    pub waiting: VecDeque<Queued>,
    /// Number of the exchange for the first one.
    pub number: u64,
    /// Looks at the channel in this try.
    pub looks: u32,
    /// The back-off exponent (BE).
    pub exponent: u32,
    /// Times that the frame was sent again.
    pub tries: u32,
    /// Timers that carry another token are void.
    pub token: u32,
    /// The copies of the first frame end then, where a sleeping neighbour is to hear one.
    pub train: Option<Nanos>,
    /// The last exchange that came from each neighbour.
    seen: Vec<Exchange>,
}

impl Mac {
    /// Whether that exchange came before; it has now.
    pub fn repeats(&mut self, exchange: Exchange) -> bool {
        match self.seen.iter_mut().find(|last| last.from == exchange.from) {
            Some(last) => std::mem::replace(last, exchange) == exchange,
            None => {
                self.seen.push(exchange);
                false
            }
        }
    }
}
