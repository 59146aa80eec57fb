//! Rates that change over time: trace files and generators.

mod files;
mod generate;
mod text;

use ackwise_queue::{RateSchedule, ScheduleError};

pub use files::TraceFiles;
pub use generate::{Generator, Recipe, SPAN_NS};
pub(crate) use text::rate_or_zero;
pub use text::{Mistake, mean_rate, parse};

/// Bytes of an IP packet in a delivery opportunity of mahimahi. Its code counts 1504 bytes, which
/// include the header of a TUN device; here the `overhead` of a link takes that place.
pub const OPPORTUNITY_BYTES: u32 = 1500;

/// The content of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trace {
    /// Delivery opportunities as in mahimahi, in milliseconds.
    Opportunities(Vec<u64>),
    /// A rate for each time; 0 or more bits per second.
    Steps {
        /// Times in nanoseconds, and rates in bits per second.
        steps: Vec<ackwise_queue::Step<u64>>,
        /// Period of the repetition, nanoseconds.
        period: Option<u64>,
    },
}

impl Trace {
    /// The rate schedule of a link with this trace; `overhead` is the size of the link's header in
    /// bytes.
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

    /// The text of the trace, in the format that [`parse`] reads.
    #[must_use]
    pub fn text(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = match self {
            Trace::Opportunities(times) => times.iter().try_for_each(|ms| writeln!(text, "{ms}")),
            Trace::Steps { steps, period } => {
                let mut each = steps.iter();
                each.try_for_each(|step| {
                    writeln!(text, "{} {} bit/s", Seconds(step.at_ns), step.value)
                })
                .and_then(|()| match period {
                    Some(period) => writeln!(text, "{} repeat", Seconds(*period)),
                    None => Ok(()),
                })
            }
        };
        text
    }

    /// The trace in mahimahi's format: an opportunity in each millisecond in which another 1500
    /// bytes have been carried. `None` for a trace that does not repeat, whose period is not a
    /// whole number of milliseconds, or that carries less than one opportunity.
    #[must_use]
    pub fn opportunities(&self) -> Option<Trace> {
        let Trace::Steps {
            steps,
            period: Some(period),
        } = self
        else {
            return match self {
                Trace::Opportunities(_) => Some(self.clone()),
                Trace::Steps { .. } => None,
            };
        };
        const EACH: u128 = OPPORTUNITY_BYTES as u128 * 8_000_000_000;
        let (mut times, mut carried) = (Vec::new(), 0u128);
        let ends = steps.iter().skip(1).map(|step| step.at_ns);
        for (step, end) in steps.iter().zip(ends.chain([*period])) {
            let before = carried;
            let rate = u128::from(step.value);
            carried += rate * u128::from(end - step.at_ns);
            for number in before / EACH + 1..=carried / EACH {
                let span = (number * EACH - before).div_ceil(rate.max(1)) as u64;
                times.push((step.at_ns + span).div_ceil(1_000_000));
            }
        }
        let whole = period % 1_000_000 == 0;
        let last = times.last_mut().filter(|_| whole)?;
        // The last opportunity sets the period of the file.
        *last = period / 1_000_000;
        Some(Trace::Opportunities(times))
    }
}

/// A time in seconds, exactly.
struct Seconds(u64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        let digits = format!("{rest:09}");
        match digits.trim_end_matches('0') {
            "" => write!(f, "{whole} s"),
            rest => write!(f, "{whole}.{rest} s"),
        }
    }
}
