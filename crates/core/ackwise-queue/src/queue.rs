//! Queue disciplines: who waits, and who is turned away.

use std::collections::VecDeque;

use crate::Nanos;

/// A packet that waits, with what a discipline may decide by.
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

/// A packet that a discipline discards although it, or another in its place,
/// had been accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted<P> {
    /// What was discarded.
    pub queued: Queued<P>,
    /// Why.
    pub cause: DropCause,
}

/// The waiting room in front of a serialiser.
///
/// The packet that is being sent is no longer in the queue. A discipline may
/// discard at arrival (return the packet), or later any that it holds (push
/// them to `evicted`): RED is the former, CoDel and an ACK filter the latter.
pub trait QueueDiscipline<P> {
    /// Takes a packet in, or returns it with the cause of its rejection.
    ///
    /// # Errors
    /// The packet was not taken in.
    fn enqueue(
        &mut self,
        queued: Queued<P>,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<(), Evicted<P>>;

    /// A packet arrives while nothing waits and the wire is free: as if it were
    /// taken in, and then the next one chosen.
    ///
    /// # Errors
    /// The packet was not taken in.
    fn pass(
        &mut self,
        queued: Queued<P>,
        now: Nanos,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<Option<Queued<P>>, Evicted<P>> {
        self.enqueue(queued, evicted)?;
        Ok(self.dequeue(now, evicted))
    }

    /// Chooses the next packet to send at `now`.
    fn dequeue(&mut self, now: Nanos, evicted: &mut VecDeque<Evicted<P>>) -> Option<Queued<P>>;

    /// Packets that wait.
    fn packets(&self) -> usize;

    /// Bytes that wait.
    fn bytes(&self) -> u64;
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

/// First in, first out; what finds no room is dropped.
#[derive(Debug, Clone)]
pub struct DropTail<P> {
    limit: QueueLimit,
    waiting: VecDeque<Queued<P>>,
    bytes: u64,
}

impl<P> DropTail<P> {
    /// An empty queue.
    #[must_use]
    pub fn new(limit: QueueLimit) -> Self {
        Self {
            limit,
            waiting: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<P> QueueDiscipline<P> for DropTail<P> {
    fn enqueue(
        &mut self,
        queued: Queued<P>,
        _evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<(), Evicted<P>> {
        if !self
            .limit
            .has_room(self.waiting.len(), self.bytes, queued.len)
        {
            return Err(Evicted {
                queued,
                cause: DropCause::QueueFull,
            });
        }
        self.bytes += u64::from(queued.len);
        self.waiting.push_back(queued);
        Ok(())
    }

    #[inline]
    fn pass(
        &mut self,
        queued: Queued<P>,
        _now: Nanos,
        _evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<Option<Queued<P>>, Evicted<P>> {
        if self.limit.has_room(0, 0, queued.len) {
            return Ok(Some(queued));
        }
        Err(Evicted {
            queued,
            cause: DropCause::QueueFull,
        })
    }

    fn dequeue(&mut self, _now: Nanos, _evicted: &mut VecDeque<Evicted<P>>) -> Option<Queued<P>> {
        let queued = self.waiting.pop_front()?;
        self.bytes -= u64::from(queued.len);
        Some(queued)
    }

    fn packets(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
