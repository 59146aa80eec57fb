//! The design and the statistics of switchback experiments, without I/O and without a clock.
//!
//! An experiment is a sequence of pairs of blocks. In each pair the treatment is on in one block
//! and off in the other, and a coin decides which comes first. The outcomes of the two are compared
//! on a logarithmic scale. If the treatment has no effect, the coin makes each difference symmetric
//! around zero, whatever the traffic does: no variance has to be known, and nothing else is
//! assumed.
//!
//! ```
//! use ackwise_switchback::{Effect, Level};
//!
//! let mut goodput = Effect::default();
//! for _ in 0..40 {
//!     goodput.add(9.0e6, 10.0e6);
//! }
//! let interval = goodput.interval(Level::new(0.05).unwrap());
//! assert!(interval.high < 1.0, "a loss of 10 % is one");
//! ```
#![forbid(unsafe_code)]

mod design;
mod effect;
mod judge;
mod outcome;
mod verdict;

pub use design::{Block, Design};
pub use effect::{Effect, Interval, Level};
pub use judge::{Judge, MetricEffect, effect};
pub use outcome::{
    Counters, CpuTime, FlowRtt, IDLE_MS, METRICS, Metric, Outcome, Samples, Span, median_rtt_us,
};
pub use verdict::{Better, Verdict};
