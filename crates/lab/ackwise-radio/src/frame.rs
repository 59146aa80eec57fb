//! What is on the air.

use ackwise_queue::Nanos;

use ackwise_sim::packet::Packet;

/// A node, by its number.
pub type NodeId = usize;

/// An IP packet.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// Who made it.
    pub from: NodeId,
    /// Whom it is for; `None`: all who hear it.
    pub to: Option<NodeId>,
    /// Hops that it may still take.
    pub ttl: u8,
    /// Bytes, IP header included.
    pub bytes: u32,
    /// What it carries.
    pub body: Body,
}

/// What an IP packet carries.
#[derive(Debug, Clone)]
pub enum Body {
    /// A segment.
    Tcp(Packet),
    /// Padding of a source that always has something to send.
    Filler,
    /// RREQ (RFC 3561 §5.1).
    Request {
        /// Hops it has taken.
        hops: u8,
        /// Number of the search among those of `origin` (RREQ ID).
        id: u32,
        /// Who is looked for.
        target: NodeId,
        /// The target's newest known number.
        target_seq: Option<u32>,
        /// Who looks.
        origin: NodeId,
        /// Its own number.
        origin_seq: u32,
    },
    /// RREP (RFC 3561 §5.2).
    Reply {
        /// Hops it has taken.
        hops: u8,
        /// Who was found.
        target: NodeId,
        /// Its number.
        target_seq: u32,
        /// How long the way is good for.
        lifetime: Nanos,
        /// Who looked.
        origin: NodeId,
    },
    /// Hello: an RREP of its sender for itself (RFC 3561 §6.9).
    Hello {
        /// Its number.
        seq: u32,
    },
    /// RERR (RFC 3561 §5.3): who can no longer be reached.
    Broken(Vec<Unreachable>),
}

/// A node that can no longer be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable {
    /// The node.
    pub node: NodeId,
    /// Its last known sequence number.
    pub seq: u32,
}

/// A frame of the link.
#[derive(Debug, Clone)]
pub enum Frame {
    /// One with a packet in it.
    Data {
        /// Number of the exchange, the same when sent again.
        number: u64,
        /// The neighbour that it is for; `None`: all.
        to: Option<NodeId>,
        /// Bytes without those of the PHY.
        bytes: u32,
        /// Its load.
        load: Datagram,
    },
    /// Answers the frame of that number.
    Ack {
        /// See [`Frame::Data`].
        number: u64,
        /// Who sent it.
        to: NodeId,
    },
}

impl Frame {
    /// Bytes without those of the PHY.
    pub fn bytes(&self) -> u32 {
        match self {
            Frame::Data { bytes, .. } => *bytes,
            Frame::Ack { .. } => crate::timing::ACK_BYTES,
        }
    }
}
