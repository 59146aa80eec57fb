//! Frames and packets on the air.

use ackwise_queue::Nanos;

use ackwise_sim::packet::Packet;

/// A node, by its number.
pub type NodeId = usize;

/// An IP packet.
#[derive(Debug, Clone)]
pub struct Datagram {
    /// The node that created it.
    pub from: NodeId,
    /// The destination; `None` for all who hear it.
    pub to: Option<NodeId>,
    /// Hops that it may still take.
    pub ttl: u8,
    /// Length in bytes, IP header included.
    pub bytes: u32,
    /// The content.
    pub body: Body,
}

/// Content of an IP packet.
#[derive(Debug, Clone)]
pub enum Body {
    /// A TCP segment.
    Tcp(Packet),
    /// Padding of a source that always has something to send.
    Filler,
    /// RREQ (RFC 3561 §5.1).
    Request {
        /// Hops taken so far.
        hops: u8,
        /// Number of the search among those of `origin` (RREQ ID).
        id: u32,
        /// The node that is searched for.
        target: NodeId,
        /// The newest known sequence number of the target.
        target_seq: Option<u32>,
        /// The node that searches.
        origin: NodeId,
        /// The sequence number of `origin`.
        origin_seq: u32,
    },
    /// RREP (RFC 3561 §5.2).
    Reply {
        /// Hops taken so far.
        hops: u8,
        /// The node that was found.
        target: NodeId,
        /// The sequence number of `target`.
        target_seq: u32,
        /// How long the route is valid.
        lifetime: Nanos,
        /// The node that searched.
        origin: NodeId,
    },
    /// Hello: an RREP of its sender for itself (RFC 3561 §6.9).
    Hello {
        /// The sequence number of the sender.
        seq: u32,
    },
    /// RERR (RFC 3561 §5.3): the nodes that can no longer be reached.
    RouteError(Vec<Unreachable>),
}

/// A node that can no longer be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreachable {
    /// The node.
    pub node: NodeId,
    /// Its last known sequence number.
    pub seq: u32,
}

/// A link-layer frame.
#[derive(Debug, Clone)]
pub enum Frame {
    /// A frame that carries a packet.
    Data {
        /// Number of the exchange; a retransmission keeps it.
        number: u64,
        /// The neighbour that receives it; `None` for a broadcast.
        to: Option<NodeId>,
        /// Length in bytes without the PHY header.
        bytes: u32,
        /// The packet.
        load: Datagram,
    },
    /// Acknowledges the frame with this number.
    Ack {
        /// See [`Frame::Data`].
        number: u64,
        /// The node that sent the acknowledged frame.
        to: NodeId,
    },
}

impl Frame {
    /// Length in bytes without the PHY header.
    pub fn bytes(&self) -> u32 {
        match self {
            Frame::Data { bytes, .. } => *bytes,
            Frame::Ack { .. } => crate::timing::ACK_BYTES,
        }
    }
}
