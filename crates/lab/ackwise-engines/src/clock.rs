//! The clock by which everything in a run is measured.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`: the same in every namespace and thread.
#[must_use]
pub fn now_ns() -> u64 {
    read(ClockId::CLOCK_MONOTONIC)
}

/// Whether computation takes no time, as in virtual time.
static COMPUTATION_IS_FREE: AtomicBool = AtomicBool::new(false);

/// Declares that computation takes no time in this process: CPU clocks then read 0 and the kernel
/// is no longer asked.
pub(crate) fn set_computation_free() {
    COMPUTATION_IS_FREE.store(true, Ordering::Relaxed);
}

/// Nanoseconds of CPU, user and system, that the calling thread has used.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    if COMPUTATION_IS_FREE.load(Ordering::Relaxed) {
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

/// Converts nanoseconds to seconds.
#[must_use]
pub fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Converts a duration to nanoseconds, saturating.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
