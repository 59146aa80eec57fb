//! What all queue disciplines share: the trait, the limit and the counters.

use std::collections::VecDeque;

use ackwise_policy::Reason;

use crate::Nanos;

/// A waiting packet, and what a discipline may base its decisions on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued<P> {
    /// The packet itself; a discipline that examines it needs bounds on `P`.
    pub packet: P,
    /// Number of bytes that it takes on the wire.
    pub len: u32,
    /// When it arrived at the queue.
    pub arrived_ns: Nanos,
}

/// Why a packet was discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DropCause {
    /// The queue had no room.
    QueueFull,
    /// The discipline chose to drop (an early drop).
    Discipline,
    /// A newer ACK of the flow says all that it said.
    Filtered,
    /// It exceeded a policer's rate.
    Policed,
    /// The wire lost it.
    Wire,
}

/// A packet that a discipline discards, on arrival or after accepting it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted<P> {
    /// The discarded packet.
    pub queued: Queued<P>,
    /// Why.
    pub cause: DropCause,
}

/// A queue in front of a serialiser.
///
/// The packet that is being sent is no longer in the queue. A discipline may discard a packet on
/// arrival by returning it, as RED does, or later by pushing it to `evicted`, as CoDel and an ACK
/// filter do.
pub trait QueueDiscipline<P> {
    /// Enqueues a packet, or returns it with the reason for its rejection.
    ///
    /// # Errors
    /// The packet was rejected.
    fn enqueue(
        &mut self,
        queued: Queued<P>,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<(), Evicted<P>>;

    /// Enqueues a packet while nothing waits and the wire is free, and chooses the next packet to
    /// send. It must have the same effect as [`enqueue`](Self::enqueue) and
    /// [`dequeue`](Self::dequeue).
    ///
    /// # Errors
    /// The packet was rejected.
    fn pass(
        &mut self,
        queued: Queued<P>,
        now: Nanos,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<Option<Queued<P>>, Evicted<P>> {
        self.enqueue(queued, evicted)?;
        Ok(self.dequeue(now, evicted))
    }

    /// Removes and returns the next packet to send at `now`.
    fn dequeue(&mut self, now: Nanos, evicted: &mut VecDeque<Evicted<P>>) -> Option<Queued<P>>;

    /// Number of waiting packets.
    fn packets(&self) -> usize;

    /// Number of waiting bytes.
    fn bytes(&self) -> u64;

    /// What the discipline did, beyond what its link counts. All counters are 0 by default.
    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }

    /// RED's average queue length, in its unit; `None` by default.
    fn red_average(&self) -> Option<f64> {
        None
    }

    /// Sets the link's rate from now on, in bits per second.
    fn rate_changed(&mut self, _bps: u64) {}

    /// Sets the length of a full packet from now on, in bytes as they count against the rate.
    fn full_packet_changed(&mut self, _bytes: u32) {}

    /// Notes that the link ends, and sends the rest at once: from now on no packet is dropped or
    /// marked for the time that it has waited.
    fn ends(&mut self) {}
}

/// What a discipline did with packets, beyond what [`LinkStats`](crate::LinkStats)
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets that were dropped because the queue was full.
    pub tail_drops: u64,
    /// Packets that RED dropped at random, or CoDel for the time that they waited.
    pub early_drops: u64,
    /// Packets that RED dropped because its average was too high.
    pub forced_drops: u64,
    /// Packets that RED or CoDel marked instead of dropping them.
    pub marks: u64,
    /// ACKs that a filter removed because of a newer one.
    pub filtered: u64,
    /// Bytes of the filtered ACKs.
    pub filtered_bytes: u64,
    /// ACKs that a filter judged by the contract, by [`Reason::id`]. Those with the reason `held`
    /// may be removed; any other reason keeps an ACK.
    pub reasons: [u64; REASONS],
}

/// The number of [`Reason`]s.
pub const REASONS: usize = ackwise_policy::sys::AW_REASON_COUNT as usize;

impl Default for QueueStats {
    fn default() -> Self {
        Self {
            tail_drops: 0,
            early_drops: 0,
            forced_drops: 0,
            marks: 0,
            filtered: 0,
            filtered_bytes: 0,
            reasons: [0; REASONS],
        }
    }
}

impl QueueStats {
    /// Number of ACKs that the contract judged with this reason.
    #[must_use]
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons.get(reason.id() as usize).copied().unwrap_or(0)
    }
}

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// At most this many packets.
    Packets(usize),
    /// At most this many bytes; a packet that would exceed the limit is rejected.
    Bytes(u64),
    /// No limit.
    Unlimited,
}

impl QueueLimit {
    /// The limit as ns-2's drop-tail queue counts it, including the packet that is being sent: it
    /// drops an arrival that finds `limit − 1` packets waiting, or whose bytes would reach the
    /// limit.
    #[must_use]
    pub fn with_one_in_service(self) -> Self {
        match self {
            Self::Packets(packets) => Self::Packets(packets.saturating_sub(1)),
            Self::Bytes(bytes) => Self::Bytes(bytes.saturating_sub(1)),
            Self::Unlimited => Self::Unlimited,
        }
    }

    /// Whether there is room for `len` bytes behind `packets` and `bytes`.
    pub(crate) fn has_room(self, packets: usize, bytes: u64, len: u32) -> bool {
        match self {
            Self::Packets(limit) => packets < limit,
            Self::Bytes(limit) => bytes + u64::from(len) <= limit,
            Self::Unlimited => true,
        }
    }

    /// Number of packets to preallocate room for.
    pub(crate) fn room(self) -> usize {
        match self {
            Self::Packets(packets) => packets.min(4096),
            Self::Bytes(bytes) => usize::try_from(bytes / 512).map_or(4096, |n| n.min(4096)),
            Self::Unlimited => 64,
        }
    }
}
