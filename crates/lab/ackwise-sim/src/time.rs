//! Time of the simulator: integer nanoseconds since the start of a run.

use std::time::Duration;

use ackwise_queue::Nanos;

/// A time that never comes: no event is pending, or no timer is set.
pub(crate) const NEVER: Nanos = Nanos::MAX;

/// A duration in nanoseconds, or the longest one if it does not fit.
pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A time in seconds.
pub(crate) fn seconds(ns: Nanos) -> f64 {
    ns as f64 / 1e9
}
