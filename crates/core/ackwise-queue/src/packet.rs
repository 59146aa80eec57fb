//! What a discipline can read from a packet, and do to it.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

use ackwise_policy::Segment;
use siphasher::sip::SipHasher13;

/// The ECN field of the IP header (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable.
    NotCapable,
    /// ECN-capable and not marked.
    Capable,
    /// Congestion experienced.
    Marked,
}

/// A packet as disciplines and middleboxes see it: a simulated packet, or a buffer whose headers
/// were parsed by `ackwise_policy::parse`.
pub trait Packet {
    /// Identifies one direction of a connection.
    type Flow: Copy + Eq + Hash + Debug;

    /// The connection and direction of this packet.
    fn flow(&self) -> Self::Flow;

    /// A number by which flows are spread over queues. It is the same for all packets of a flow.
    fn flow_hash(&self, seed: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(seed, 0);
        self.flow().hash(&mut hasher);
        hasher.finish()
    }

    /// Whether it is a pure ACK: no payload, no SYN, FIN or RST.
    fn is_pure_ack(&self) -> bool;

    /// Whether it carries data, or may do so.
    fn carries_data(&self) -> bool {
        self.segment().is_none_or(|segment| segment.payload() > 0)
    }

    /// The ECN field of its IP header.
    fn ecn(&self) -> Ecn;

    /// Sets the congestion mark. Called for [`Ecn::Capable`] packets only.
    fn mark(&mut self);

    /// Its headers, as the contract reads them. `None` if it is not TCP or cannot be parsed; such a
    /// packet is never touched.
    fn segment(&self) -> Option<Segment>;

    /// A copy of this ACK that acknowledges `back` bytes less and is not a sample of the round-trip
    /// time, for ACK reconstruction (RFC 3449 §5.3.1). `None` if such a copy cannot be made.
    fn synthesize(&self, back: u32) -> Option<Self>
    where
        Self: Sized;
}

/// The packets that a middlebox acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select<F> {
    /// Only pure ACKs.
    pub pure_acks: bool,
    /// Only packets of these flows; of all flows if empty.
    pub flows: Vec<F>,
}

impl<F> Select<F> {
    /// Every pure ACK.
    #[must_use]
    pub fn pure_acks() -> Self {
        Self {
            pure_acks: true,
            flows: Vec::new(),
        }
    }

    /// Every packet.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            pure_acks: false,
            flows: Vec::new(),
        }
    }
}

/// A [`Select`] whose flow lookup takes constant time.
#[derive(Debug)]
pub(crate) struct Selector<F> {
    pure_acks: bool,
    flows: HashSet<F>,
}

impl<F: Eq + Hash> Selector<F> {
    pub fn new(select: Select<F>) -> Self {
        Self {
            pure_acks: select.pure_acks,
            flows: select.flows.into_iter().collect(),
        }
    }

    /// Whether `packet` is selected.
    pub fn matches<P: Packet<Flow = F>>(&self, packet: &P) -> bool {
        (!self.pure_acks || packet.is_pure_ack())
            && (self.flows.is_empty() || self.flows.contains(&packet.flow()))
    }
}
