//! The one clock that everything in a run is measured by.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: the same in every namespace and thread.
#[must_use]
pub fn now_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Whether computing takes no time.
static FREE: AtomicBool = AtomicBool::new(false);

/// From now on computing takes no time in this process, and nobody asks the
/// kernel how much it took.
pub(crate) fn computing_is_free() {
    FREE.store(true, Ordering::Relaxed);
}

/// Nanoseconds of CPU, user and system, that the calling thread has used.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    if FREE.load(Ordering::Relaxed) {
        return 0;
    }
    read(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: ClockId) -> u64 {
    // Both clocks exist on every Linux; a failure would read as "no time passed".
    clock_gettime(clock).map_or(0, |time| {
        u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Seconds of a span of nanoseconds.
#[must_use]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Nanoseconds of a duration, saturating.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
