//! The queue disciplines, and how a configuration chooses one.
//!
//! Each discipline is one file here: it implements [`QueueDiscipline`] and [`FromConfig`], and has
//! a line in the list of [`Discipline`]. CONTRIBUTING.md shows the whole diff.

mod codel;
mod contract;
mod drop_tail;
mod filter;
mod flows;
mod fq_codel;
mod managed;
mod red;
mod store;

use std::collections::VecDeque;
use std::num::NonZeroU32;

pub use drop_tail::DropTail;
pub use filter::{FilterConfig, FilterRule, Place};
pub use fq_codel::FqCodelConfig;
pub use red::{RedConfig, RedUnit};

use crate::Nanos;
use crate::packet::Packet;
use crate::queue::{Evicted, QueueDiscipline, QueueLimit, QueueStats, Queued};

/// The configuration of a queue of any discipline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueConfig {
    /// How much it holds. Under RED, a byte limit applies to the queue that an arrival finds, as in
    /// ns-2: it may be exceeded by part of a packet.
    pub limit: QueueLimit,
    /// Drops or marks early (Floyd and Jacobson 1993).
    pub red: Option<RedConfig>,
    /// Flow queueing with CoDel (RFC 8290). It takes precedence over `red` and `acks_first`.
    pub fq_codel: Option<FqCodelConfig>,
    /// Removes ACKs that newer ones make redundant (RFC 3449 §5.2.1).
    pub ack_filter: Option<FilterConfig>,
    /// Sends ACKs before data (RFC 3449 §5.4.2), and with them the packets that open and close
    /// connections. After this many of them, one waiting data packet is sent.
    pub acks_first: Option<NonZeroU32>,
    /// The seed of RED's random draws and of the hash of flows.
    pub seed: u64,
}

impl QueueConfig {
    /// A drop-tail queue without anything else.
    #[must_use]
    pub fn drop_tail(limit: QueueLimit) -> Self {
        Self {
            limit,
            red: None,
            fq_codel: None,
            ack_filter: None,
            acks_first: None,
            seed: 0,
        }
    }
}

/// A discipline that a configuration can select.
trait FromConfig: Sized {
    /// Creates an empty queue, or returns `None` if the configuration selects another discipline.
    fn from_config(config: &QueueConfig) -> Option<Self>;
}

/// Generates [`Discipline`] from the list of disciplines: the enum, the choice by configuration,
/// and the static dispatch of each method.
macro_rules! disciplines {
    ($($(#[$doc:meta])* $name:ident($queue:ty),)+) => {
        /// A queue of any discipline, dispatched statically.
        #[derive(Debug)]
        pub enum Discipline<P: Packet> {
            $($(#[$doc])* $name($queue),)+
        }

        impl<P: Packet> Discipline<P> {
            /// Creates an empty queue of the discipline that the configuration selects.
            #[must_use]
            pub fn new(config: &QueueConfig) -> Self {
                $(if let Some(queue) = <$queue>::from_config(config) {
                    return Self::$name(queue);
                })+
                Self::DropTail(DropTail::new(config.limit))
            }

            /// What the discipline did, beyond what its link counts.
            #[must_use]
            pub fn stats(&self) -> QueueStats {
                QueueDiscipline::stats(self)
            }

            /// RED's average queue length, in its unit.
            #[must_use]
            pub fn red_average(&self) -> Option<f64> {
                QueueDiscipline::red_average(self)
            }
        }

        impl<P: Packet> QueueDiscipline<P> for Discipline<P> {
            fn enqueue(
                &mut self,
                queued: Queued<P>,
                evicted: &mut VecDeque<Evicted<P>>,
            ) -> Result<(), Evicted<P>> {
                match self {
                    $(Self::$name(queue) => queue.enqueue(queued, evicted),)+
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
                    $(Self::$name(queue) => queue.pass(queued, now, evicted),)+
                }
            }

            fn dequeue(
                &mut self,
                now: Nanos,
                evicted: &mut VecDeque<Evicted<P>>,
            ) -> Option<Queued<P>> {
                match self {
                    $(Self::$name(queue) => queue.dequeue(now, evicted),)+
                }
            }

            fn packets(&self) -> usize {
                match self {
                    $(Self::$name(queue) => queue.packets(),)+
                }
            }

            fn bytes(&self) -> u64 {
                match self {
                    $(Self::$name(queue) => queue.bytes(),)+
                }
            }

            fn stats(&self) -> QueueStats {
                match self {
                    $(Self::$name(queue) => queue.stats(),)+
                }
            }

            fn red_average(&self) -> Option<f64> {
                match self {
                    $(Self::$name(queue) => queue.red_average(),)+
                }
            }

            fn rate_changed(&mut self, bps: u64) {
                match self {
                    $(Self::$name(queue) => queue.rate_changed(bps),)+
                }
            }

            fn full_packet_changed(&mut self, bytes: u32) {
                match self {
                    $(Self::$name(queue) => queue.full_packet_changed(bytes),)+
                }
            }

            fn ends(&mut self) {
                match self {
                    $(Self::$name(queue) => queue.ends(),)+
                }
            }
        }
    };
}

// The first one that the configuration selects is used.
disciplines! {
    /// Flow queueing with CoDel, and a class for ACKs.
    FqCodel(Box<fq_codel::FqCodel<P>>),
    /// RED, ACK filters, and ACKs before data.
    Managed(Box<managed::Managed<P>>),
    /// First in, first out: the default.
    DropTail(DropTail<P>),
}
