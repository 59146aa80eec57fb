//! The kernel's clocks.

use std::sync::LazyLock;

const NS_PER_S: i64 = 1_000_000_000;

/// By how many nanoseconds CLOCK_MONOTONIC of this process is ahead of the kernel's. This does not
/// change, because a process with threads stays in its time namespace.
static TIME_NAMESPACE_OFFSET_NS: LazyLock<i64> = LazyLock::new(|| {
    // Kernels without time namespaces do not have the file.
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets");
    offsets.map_or(0, |offsets| monotonic_offset_ns(&offsets))
});

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live timespec, which is filled in.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Reads the offset of CLOCK_MONOTONIC in nanoseconds from `/proc/PID/timens_offsets`
/// (time_namespaces(7)); 0 if the text has none.
fn monotonic_offset_ns(offsets: &str) -> i64 {
    let offset = offsets.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        // Older kernels print the clock's number.
        let clock = words.next()?;
        let is_monotonic = clock == "monotonic" || clock == "1";
        let [seconds, nanoseconds] = [words.next()?, words.next()?].map(str::parse::<i64>);
        is_monotonic.then_some((seconds.ok()?, nanoseconds.ok()?))
    });
    offset.map_or(0, |(seconds, nanoseconds)| {
        seconds.saturating_mul(NS_PER_S).saturating_add(nanoseconds)
    })
}

/// Returns the kernel's CLOCK_MONOTONIC in nanoseconds, the clock that BPF programs use: the offset
/// of a time namespace is subtracted. The clock stops while the machine is suspended.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC).saturating_add_signed(TIME_NAMESPACE_OFFSET_NS.saturating_neg())
}

/// Returns the CPU time of this thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        let here = "monotonic           0         0\nboottime            0         0\n";
        assert_eq!(monotonic_offset_ns(here), 0);
        let behind = "monotonic          -2  500000000\nboottime       86400         0\n";
        assert_eq!(monotonic_offset_ns(behind), -1_500_000_000);
        assert_eq!(
            monotonic_offset_ns("1 3600 7\n7 0 0\n"),
            3600 * NS_PER_S + 7
        );
        for strange in ["", "monotonic\n", "monotonic x 0\n"] {
            assert_eq!(monotonic_offset_ns(strange), 0, "{strange:?}");
        }
    }
}
