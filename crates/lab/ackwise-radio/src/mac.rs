//! The state of a node's MAC: unslotted CSMA/CA with acknowledgments (IEEE 802.15.4-2006
//! §7.5.1.4, §7.5.6.4).

use std::collections::VecDeque;

use ackwise_queue::Nanos;

use crate::frame::{Datagram, NodeId};

/// State of a node's MAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Backoff,
    /// It assesses the channel (CCA), since this time.
    Cca(Nanos),
    Turnaround,
    Sending,
    /// It waits for an acknowledgment.
    AckWait,
    /// The pause after a frame.
    Pause,
}

/// A packet waiting at a node.
#[derive(Debug)]
pub(crate) struct Queued {
    /// The neighbour that receives it; `None` for a broadcast.
    pub to: Option<NodeId>,
    pub datagram: Datagram,
}

/// A frame and its acknowledgment, as the receiver sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// The neighbour that sent the frame.
    pub from: NodeId,
    /// Number of the exchange; a retransmission keeps it.
    pub number: u64,
}

/// A source that always has a frame to send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SaturatedSource {
    /// The node that sends.
    pub from: NodeId,
    /// The neighbour that it sends to; `None` for broadcasts, without acknowledgment.
    pub to: Option<NodeId>,
    /// Bytes above the MAC.
    pub bytes: u32,
}

#[cfg(test)]
impl SaturatedSource {
    pub fn new(from: NodeId, to: Option<NodeId>, bytes: u32) -> SaturatedSource {
        SaturatedSource { from, to, bytes }
    }
}

/// The MAC of a node.
#[derive(Debug, Default)]
pub(crate) struct Mac {
    pub phase: Phase,
    /// Packets not yet sent; the first one is being sent.
    pub waiting: VecDeque<Queued>,
    /// Number of the exchange for the first packet.
    pub number: u64,
    /// CCAs for this transmission that found the channel busy (NB of the standard).
    pub busy_ccas: u32,
    /// The back-off exponent (BE).
    pub exponent: u32,
    /// Retransmissions of the frame.
    pub tries: u32,
    /// Current token of the timers; timers with another token are void.
    pub token: u32,
    /// End of the train of copies of the first frame, if a sleeping neighbour must hear one.
    pub train: Option<Nanos>,
    /// The last exchange with each neighbour as the sender.
    seen: Vec<Exchange>,
}

impl Mac {
    /// Records an exchange; returns whether it repeats the last one.
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
