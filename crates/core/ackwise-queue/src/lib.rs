//! Network elements without I/O and without a clock.
//!
//! A [`Link`] is one direction of a wire: a queue discipline, a serialiser that sends at a rate,
//! and a delay line that may jitter, lose, duplicate or reorder. A [`Channel`] is a link with
//! middleboxes: a policer, a shaper and a multiplexer before its queue, and an ACK reconstructor
//! after the wire. Two links can share a medium ([`HalfDuplex`]). Rate and delay can change over
//! time ([`LinkChanges`]). Disciplines and middleboxes read packets through [`Packet`], and ask the
//! contract in `policy/` which ACKs may be removed.
//!
//! Time is an argument, in integer nanoseconds from any origin. Packets are opaque values (a
//! buffer, or an index into a pool) with a length. So the same elements serve the discrete-event
//! simulator and the emulator between two live network namespaces.
//!
//! ```
//! use ackwise_queue::{Departure, Link, LinkConfig, Verdict};
//!
//! // 8 Mbit/s is one byte a microsecond.
//! let mut link = Link::drop_tail(LinkConfig {
//!     rate_bps: Some(8_000_000),
//!     delay_ns: 5_000_000,
//!     ..LinkConfig::default()
//! });
//! assert!(matches!(link.enqueue("hello", 1000, 0), Verdict::Queued));
//! let due = link.next_wakeup().unwrap();
//! assert_eq!(due, 6_000_000);
//! assert!(link.pop_due(due - 1).is_none());
//! assert!(matches!(
//!     link.pop_due(due),
//!     Some(Departure::Delivered { packet: "hello", copies: 1, due_ns: 6_000_000 })
//! ));
//! ```
#![forbid(unsafe_code)]

mod changes;
mod channel;
mod discipline;
mod from_keys;
mod half_duplex;
mod link;
mod middlebox;
mod packet;
mod queue;
mod serialiser;
pub mod wifi;

pub use changes::{DelaySchedule, LinkChanges, Outage, Outages, RateSchedule, ScheduleError, Step};
pub use channel::{Channel, ChannelConfig, MiddleboxStats};
pub use discipline::{
    Discipline, DropTail, FilterConfig, FilterRule, FqCodelConfig, Place, QueueConfig, RedConfig,
    RedUnit,
};
pub use half_duplex::HalfDuplex;
pub use link::{Departure, Link, LinkConfig, LinkStats, Reorder, Verdict};
pub use middlebox::{
    BundleSizes, LengthMode, MuxConfig, MuxStats, PoliceConfig, PoliceMode, PoliceStats,
    ReconstructConfig, ReconstructStats, Release, ShapeConfig, ShapeStats, Spacing, TokenBucket,
};
pub use packet::{Ecn, Packet, Select};
pub use queue::{DropCause, Evicted, QueueDiscipline, QueueLimit, QueueStats, Queued, REASONS};
pub use serialiser::Serialiser;

/// A point in time or a duration, in nanoseconds. The caller chooses the origin.
pub type Nanos = u64;
