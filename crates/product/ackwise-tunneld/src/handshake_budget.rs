//! Limits the share of the packet thread's time that handshakes may take.
//!
//! Refusing a handshake, or asking for a proof of its address, also takes CPU time: 20 µs on a fast
//! machine. On the processor of a small router thousands of them per second take more than there
//! is, but ACKs must continue meanwhile. So handshakes get a share of the thread's time, and those
//! that arrive when it is used up are dropped unseen.

/// Handshakes get one part in this many of the time.
const SHARE: u64 = 4;
/// The maximum that can be saved up, in nanoseconds: some dozens of handshakes, for peers that
/// start at once.
const MAX_SAVED_NS: u64 = 10_000_000;

/// The time that is left for handshakes.
#[derive(Debug)]
pub(crate) struct HandshakeBudget {
    /// In nanoseconds; negative after a handshake that took longer than what was left.
    left: i64,
    /// When time was last added, in nanoseconds of a monotonic clock.
    at: u64,
}

impl HandshakeBudget {
    pub fn new(now: u64) -> Self {
        Self {
            left: MAX_SAVED_NS as i64,
            at: now,
        }
    }

    /// Returns whether there is time for a handshake. All times are in nanoseconds.
    pub fn has_time(&mut self, now: u64) -> bool {
        let earned = now.saturating_sub(self.at) / SHARE;
        // Less than a nanosecond is added at a later call.
        if earned > 0 {
            self.at = now;
        }
        let earned = i64::try_from(earned).unwrap_or(i64::MAX);
        self.left = self.left.saturating_add(earned).min(MAX_SAVED_NS as i64);
        self.left > 0
    }

    /// Subtracts the cost of a handshake, in nanoseconds of CPU time.
    pub fn spend(&mut self, cost: u64) {
        self.left = self.left.saturating_sub_unsigned(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The number of handshakes processed in ten seconds, and the time that they take.
    fn flood(per_second: u64, cost: u64) -> (u64, u64) {
        let mut budget = HandshakeBudget::new(SECOND);
        let looked_at = (0..10 * per_second).filter(|n| {
            let has_time = budget.has_time(SECOND + n * SECOND / per_second);
            if has_time {
                budget.spend(cost);
            }
            has_time
        });
        let count = looked_at.count() as u64;
        (count, count * cost)
    }

    #[test]
    fn a_fast_machine_looks_at_all() {
        assert_eq!(flood(10_000, 20_000).0, 100_000);
    }

    #[test]
    fn a_slow_machine_spends_its_share_and_no_more() {
        let (count, time) = flood(10_000, 400_000);
        assert!(
            time <= 10 * SECOND / SHARE + MAX_SAVED_NS + 400_000,
            "{time} ns"
        );
        // The whole share is used, so that an honest handshake has a chance.
        assert!(time >= 10 * SECOND / SHARE, "{count} in {time} ns");
    }

    #[test]
    fn peers_that_start_at_once_are_all_heard() {
        let mut budget = HandshakeBudget::new(0);
        for _ in 0..32 {
            assert!(budget.has_time(0));
            budget.spend(300_000);
        }
    }
}
