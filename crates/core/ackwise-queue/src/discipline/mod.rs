//! Queue disciplines by configuration.

mod contract;
mod filter;
mod flows;
mod managed;
mod red;
mod store;

use std::collections::VecDeque;
use std::num::NonZeroU32;

use ackwise_policy::Reason;

pub use red::{RedConfig, RedUnit};

use crate::Nanos;
use crate::packet::Packet;
use crate::queue::{DropTail, Evicted, QueueDiscipline, QueueLimit, Queued};
use managed::Managed;

/// What a queue does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueConfig {
    /// How much it holds. Under RED a limit in bytes is one that an arrival must
    /// find not yet reached, as in ns-2: it may be exceeded by a part of a packet.
    pub limit: QueueLimit,
    /// Drops or marks early (Floyd and Jacobson 1993).
    pub red: Option<RedConfig>,
    /// Removes ACKs that newer ones make redundant (RFC 3449 §5.2.1).
    pub ack_filter: Option<FilterConfig>,
    /// ACKs leave before data (RFC 3449 §5.4.2), and with them what opens and ends
    /// connections; but after so many of them one packet of data that waits.
    pub acks_first: Option<NonZeroU32>,
    /// Of RED's draws.
    pub seed: u64,
}

impl QueueConfig {
    /// A drop-tail queue and nothing more.
    #[must_use]
    pub fn drop_tail(limit: QueueLimit) -> Self {
        Self {
            limit,
            red: None,
            ack_filter: None,
            acks_first: None,
            seed: 0,
        }
    }
}

/// An ACK filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterConfig {
    /// Which ACKs go.
    pub rule: FilterRule,
    /// Flows that are remembered. ACKs of further ones pass untouched while all
    /// of these have packets in the queue; else the one longest quiet is forgotten.
    pub max_flows: u32,
    /// Of [`FilterRule::Rfc3449`]: of duplicates with SACK blocks that wait, one goes when
    /// the next reports all that it does, and more. The contract keeps each, for a sender
    /// that counts them; one with SACK reads the blocks (RFC 6675).
    pub newest_sack: bool,
}

impl FilterConfig {
    /// Flows that a filter remembers if nothing else is said.
    pub const MAX_FLOWS: u32 = 16_384;

    /// A rule, for the default number of flows.
    #[must_use]
    pub fn new(rule: FilterRule) -> Self {
        Self {
            rule,
            max_flows: Self::MAX_FLOWS,
            newest_sack: false,
        }
    }
}

/// Which of the ACKs that wait an arriving ACK takes out. All compare numbers
/// modulo 2³², within a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterRule {
    /// Those that acknowledge less, and that the contract lets be withheld:
    /// its exemptions are RFC 3449's and more (`policy/include/ackwise/contract.h`).
    Rfc3449 {
        /// How many of the redundant ones stay, the newest ones.
        keep: u32,
        /// Where the arriving one goes.
        place: Place,
        /// No ACK comes to cover more bytes than this because others went.
        max_stretch: Option<u32>,
    },
    /// Those with a strictly lower number, whatever else they say; as ns-2's
    /// semantic packet queue with `filteracks_`.
    Ns2Append,
    /// sch_cake's `ack-filter` (conservative: one redundant ACK always stays) or
    /// `ack-filter-aggressive`; at most one a time.
    Cake {
        /// The last redundant one goes too, if the arriving one is next to it.
        aggressive: bool,
    },
}

/// Where an ACK goes whose elders were removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// To the tail, as every packet.
    Append,
    /// Into the place of the one nearest the head; unless an ACK of its flow that
    /// had to stay would be overtaken by that.
    Replace,
}

/// What a discipline did with packets, beyond what [`LinkStats`](crate::LinkStats)
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueStats {
    /// Packets turned away for want of room.
    pub tail_drops: u64,
    /// Packets that RED dropped by chance.
    pub early_drops: u64,
    /// Packets that RED dropped because its average was too long.
    pub forced_drops: u64,
    /// Packets that were marked instead.
    pub marks: u64,
    /// ACKs that a newer one took out.
    pub filtered: u64,
    /// Their bytes.
    pub filtered_bytes: u64,
    /// ACKs that a filter by the contract saw, by [`Reason::id`]: held are those
    /// that may be taken out, every other reason keeps.
    pub reasons: [u64; REASONS],
}

/// How many [`Reason`]s there are.
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
    /// ACKs that the contract judged so.
    #[must_use]
    pub fn reason(&self, reason: Reason) -> u64 {
        self.reasons.get(reason.id() as usize).copied().unwrap_or(0)
    }
}

/// A queue of any configuration, dispatched statically.
#[derive(Debug)]
pub enum Discipline<P: Packet> {
    /// First in, first out.
    DropTail(DropTail<P>),
    /// Whatever looks into packets.
    Managed(Box<Managed<P>>),
}

impl<P: Packet> Discipline<P> {
    /// An empty queue.
    #[must_use]
    pub fn new(config: &QueueConfig) -> Self {
        let plain =
            config.red.is_none() && config.ack_filter.is_none() && config.acks_first.is_none();
        if plain {
            Self::DropTail(DropTail::new(config.limit))
        } else {
            Self::Managed(Box::new(Managed::new(config)))
        }
    }

    /// What it did; all 0 for a drop-tail queue, whose link counts for it.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        match self {
            Self::DropTail(_) => QueueStats::default(),
            Self::Managed(managed) => *managed.stats(),
        }
    }

    /// RED's average, in its unit.
    #[must_use]
    pub fn red_average(&self) -> Option<f64> {
        match self {
            Self::DropTail(_) => None,
            Self::Managed(managed) => managed.red_average(),
        }
    }
}

impl<P: Packet> QueueDiscipline<P> for Discipline<P> {
    fn enqueue(
        &mut self,
        queued: Queued<P>,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<(), Evicted<P>> {
        match self {
            Self::DropTail(queue) => queue.enqueue(queued, evicted),
            Self::Managed(queue) => queue.enqueue(queued, evicted),
        }
    }

    #[inline]
    fn pass(
        &mut self,
        queued: Queued<P>,
        now: Nanos,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<Option<Queued<P>>, Evicted<P>> {
        match self {
            Self::DropTail(queue) => queue.pass(queued, now, evicted),
            Self::Managed(queue) => queue.pass(queued, now, evicted),
        }
    }

    fn dequeue(&mut self, now: Nanos, evicted: &mut VecDeque<Evicted<P>>) -> Option<Queued<P>> {
        match self {
            Self::DropTail(queue) => queue.dequeue(now, evicted),
            Self::Managed(queue) => queue.dequeue(now, evicted),
        }
    }

    fn packets(&self) -> usize {
        match self {
            Self::DropTail(queue) => queue.packets(),
            Self::Managed(queue) => queue.packets(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::DropTail(queue) => queue.bytes(),
            Self::Managed(queue) => queue.bytes(),
        }
    }
}
