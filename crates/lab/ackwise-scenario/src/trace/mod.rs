//! Rates that change over time: files of traces, and generators.

mod files;
mod text;

use ackwise_queue::{RateSchedule, ScheduleError};

pub use files::TraceFiles;
pub(crate) use text::rate_or_zero;
pub use text::{Mistake, parse};

/// Bytes of an IP packet that a delivery opportunity of mahimahi carries. Its code counts 1504
/// bytes, with the header of a TUN device; here the `overhead` of a link takes that place.
pub const OPPORTUNITY_BYTES: u32 = 1500;

/// What a trace says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// Delivery opportunities as mahimahi has them, in milliseconds.
    Opportunities(Vec<u64>),
    /// A rate for each time; 0 or more bits per second.
    Steps {
        /// Nanoseconds and bits per second.
        steps: Vec<ackwise_queue::Step<u64>>,
        /// When it begins anew, nanoseconds.
        period: Option<u64>,
    },
}

impl Trace {
    /// What a link can carry by this trace; `overhead` bytes are the link's header of a packet.
    ///
    /// # Errors
    /// The trace is out of order, or carries nothing.
    pub fn schedule(&self, overhead: u32) -> Result<RateSchedule, ScheduleError> {
        match self {
            Trace::Opportunities(times) => {
                let times = times.iter().map(|ms| ms.saturating_mul(1_000_000));
                RateSchedule::opportunities(times.collect(), OPPORTUNITY_BYTES + overhead)
            }
            Trace::Steps { steps, period } => RateSchedule::steps(steps.clone(), *period),
        }
    }
}
