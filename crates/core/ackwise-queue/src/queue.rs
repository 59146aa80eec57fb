//! What every queue discipline has in common: the trait, the limit, and its counters.

use std::collections::VecDeque;

use ackwise_policy::Reason;

use crate::Nanos;

/// A packet that waits, and what a discipline may base its decisions on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued<P> {
    /// The packet itself; a discipline that looks inside bounds `P`.
    pub packet: P,
    /// Bytes that it takes on the wire.
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
    /// A newer ACK of its flow says all that it said.
    Filtered,
    /// It exceeded what a policer lets through.
    Policed,
    /// The wire lost it.
    Wire,
}

/// A packet that a discipline discards, at its arrival or after it was accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted<P> {
    /// What was discarded.
    pub queued: Queued<P>,
    /// Why.
    pub cause: DropCause,
}

/// A queue in front of a serialiser.
///
/// The packet that is being sent is no longer in the queue. A discipline may discard a
/// packet at arrival (it returns the packet), as RED does, or any packet that it holds later
/// (it pushes them to `evicted`), as CoDel and an ACK filter do.
pub trait QueueDiscipline<P> {
    /// Takes a packet in, or returns it with the cause of its rejection.
    ///
    /// # Errors
    /// The packet was rejected.
    fn enqueue(
        &mut self,
        queued: Queued<P>,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<(), Evicted<P>>;

    /// Takes a packet in while nothing waits and the wire is free, and chooses the next one
    /// to send. It must do what [`enqueue`](Self::enqueue) and [`dequeue`](Self::dequeue)
    /// would do.
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

    /// Takes out the next packet to send at `now`.
    fn dequeue(&mut self, now: Nanos, evicted: &mut VecDeque<Evicted<P>>) -> Option<Queued<P>>;

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Bytes that wait.
    fn bytes(&self) -> u64;

    /// What the discipline did, beyond what its link counts. All counters are 0 by default.
    fn stats(&self) -> QueueStats {
        QueueStats::default()
    }

    /// RED's average length of the queue, in its unit; `None` by default.
    fn red_average(&self) -> Option<f64> {
        None
    }

    /// Notes that the link has another rate from now on, in bits per second.
    fn rate_changed(&mut self, _bps: u64) {}

    /// Notes how long a full packet is from now on, in bytes as they count against the rate.
    fn full_packet_changed(&mut self, _bytes: u32) {}

    /// Notes that the link ends, and sends at once what still waits: from now on no packet is dropped
    /// or marked for the time that it has waited.
    fn ends(&mut self) {}
}

/// What a discipline did with packets, beyond what [`LinkStats`](crate::LinkStats)
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets that were dropped because the queue was full.
    pub tail_drops: u64,
    /// Packets that RED dropped by chance, or CoDel because they had waited.
    pub early_drops: u64,
    /// Packets that RED dropped because its average was too long.
    pub forced_drops: u64,
    /// Packets that RED or CoDel marked instead of dropping them.
    pub marks: u64,
    /// ACKs that a filter took out because of a newer one.
    pub filtered: u64,
    /// Bytes of the ACKs that were filtered.
    pub filtered_bytes: u64,
    /// ACKs that a filter judged by the contract, by [`Reason::id`]. Those that are held may
    /// be taken out; every other reason keeps an ACK.
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
    /// ACKs that the contract judged with this reason.
    #[must_use]
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons.get(reason.id() as usize).copied().unwrap_or(0)
    }
}

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// At most so many packets.
    Packets(usize),
    /// At most so many bytes; a packet that would exceed it is turned away.
    Bytes(u64),
    /// Everything is taken in.
    Unlimited,
}

impl QueueLimit {
    /// The limit as ns-2's drop-tail queue counts it, with the packet that is
    /// being sent: it drops an arrival that finds `limit − 1` waiting, or whose
    /// bytes would reach the limit.
    #[must_use]
    pub fn with_one_in_service(self) -> Self {
        match self {
            Self::Packets(packets) => Self::Packets(packets.saturating_sub(1)),
            Self::Bytes(bytes) => Self::Bytes(bytes.saturating_sub(1)),
            Self::Unlimited => Self::Unlimited,
        }
    }

    /// Whether `len` bytes more find room behind `packets` and `bytes`.
    pub(crate) fn has_room(self, packets: usize, bytes: u64, len: u32) -> bool {
        match self {
            Self::Packets(limit) => packets < limit,
            Self::Bytes(limit) => bytes + u64::from(len) <= limit,
            Self::Unlimited => true,
        }
    }

    /// Packets to make room for at once.
    pub(crate) fn room(self) -> usize {
        match self {
            Self::Packets(packets) => packets.min(4096),
            Self::Bytes(bytes) => usize::try_from(bytes / 512).map_or(4096, |n| n.min(4096)),
            Self::Unlimited => 64,
        }
    }
}
