//! Round-trip time and the retransmission timer (RFC 6298).

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::Estimator;

/// Bounds and other parameters of the timer; times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtoConfig {
    /// How the timeout follows from the samples.
    pub estimator: Estimator,
    /// The timeout before the first sample.
    pub initial: Nanos,
    /// The factor applied to the timeout before the bounds.
    pub factor: u32,
    /// The minimum.
    pub min: Nanos,
    /// The maximum, with or without back-off.
    pub max: Nanos,
    /// Granularity of the clock behind the samples; at least 1.
    pub tick: Nanos,
    /// After this many timeouts in a row the next sample counts as the first; 0 never.
    pub forget_after: u32,
}

/// Smoothed RTT, its variation, and the back-off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    /// 8 × SRTT in ticks (RFC) or nanoseconds (Linux); 0 before the first sample.
    srtt8: u64,
    /// 4 × RTTVAR, in the same unit.
    var4: u64,
    /// Linux: 4 × mean deviation, its maximum in this round, and the end of the round.
    mdev4: u64,
    mdev_max4: u64,
    round_end: u64,
    backoff: u8,
    /// Whether the next sample counts as the first (RFC 6298 §5.7).
    forgotten: bool,
}

impl Rtt {
    pub fn new() -> Rtt {
        Rtt {
            srtt8: 0,
            var4: 0,
            mdev4: 0,
            mdev_max4: 0,
            round_end: 0,
            backoff: 0,
            forgotten: false,
        }
    }

    /// Takes a sample from a segment sent at `sent`. `una` and `nxt` delimit Linux's rounds.
    pub fn sample(&mut self, c: &RtoConfig, sent: Nanos, now: Nanos, una: u64, nxt: u64) {
        if std::mem::take(&mut self.forgotten) {
            self.srtt8 = 0;
        }
        match c.estimator {
            // Clock ticks between the two times, as a coarse clock counts them.
            Estimator::Rfc => self.sample_rfc((now / c.tick).saturating_sub(sent / c.tick).max(1)),
            Estimator::Linux => self.sample_linux((now - sent).max(1), c.min, una, nxt),
        }
    }

    /// RFC 6298 §2.2 and §2.3.
    fn sample_rfc(&mut self, ticks: u64) {
        if self.srtt8 == 0 {
            self.srtt8 = ticks * 8;
            self.var4 = ticks * 2;
            return;
        }
        let error = ticks.abs_diff(self.srtt8 / 8);
        self.srtt8 = if ticks >= self.srtt8 / 8 {
            self.srtt8 + error
        } else {
            (self.srtt8 - error).max(1)
        };
        self.var4 = (self.var4 + error - self.var4 / 4).max(1);
    }

    /// Linux, `tcp_rtt_estimator()`: a falling RTT counts little as variation,
    /// and RTTVAR follows the largest deviation of each round trip.
    fn sample_linux(&mut self, rtt: u64, min: Nanos, una: u64, nxt: u64) {
        if self.srtt8 == 0 {
            self.srtt8 = rtt * 8;
            self.mdev4 = rtt * 2;
            self.var4 = self.mdev4.max(min);
            self.mdev_max4 = self.var4;
            self.round_end = nxt;
            return;
        }
        let srtt = self.srtt8 / 8;
        let mut error = i128::from(rtt) - i128::from(srtt);
        self.srtt8 = (i128::from(self.srtt8) + error).max(1) as u64;
        let mdev = i128::from(self.mdev4);
        if error < 0 {
            error = -error - mdev / 4;
            // A shorter RTT must not look like more variation.
            if error > 0 {
                error /= 8;
            }
        } else {
            error -= mdev / 4;
        }
        self.mdev4 = (mdev + error).max(0) as u64;
        if self.mdev4 > self.mdev_max4 {
            self.mdev_max4 = self.mdev4;
            self.var4 = self.var4.max(self.mdev_max4);
        }
        if una > self.round_end {
            if self.mdev_max4 < self.var4 {
                self.var4 -= (self.var4 - self.mdev_max4) / 4;
            }
            self.round_end = nxt;
            self.mdev_max4 = min;
        }
    }

    /// The smoothed RTT, once one was measured.
    pub fn srtt(&self, c: &RtoConfig) -> Option<Nanos> {
        let unit = match c.estimator {
            Estimator::Rfc => c.tick,
            Estimator::Linux => 1,
        };
        (self.srtt8 > 0).then(|| self.srtt8.saturating_mul(unit) / 8)
    }

    /// The timeout without back-off.
    pub fn base(&self, c: &RtoConfig) -> Nanos {
        if self.srtt8 == 0 {
            return c.initial;
        }
        match c.estimator {
            // SRTT + max(G, 4·RTTVAR), in ticks.
            Estimator::Rfc => ((self.srtt8 + (self.var4 * 8).max(8)) / 8)
                .saturating_mul(c.tick)
                .saturating_mul(u64::from(c.factor))
                .max(c.min),
            Estimator::Linux => (self.srtt8 / 8 + self.var4).saturating_mul(u64::from(c.factor)),
        }
        .min(c.max)
    }

    /// The timeout with back-off (RFC 6298 §5.5).
    pub fn rto(&self, c: &RtoConfig) -> Nanos {
        let base = self.base(c);
        base.checked_shl(u32::from(self.backoff))
            .filter(|rto| rto >> self.backoff == base)
            .unwrap_or(c.max)
            .min(c.max)
    }

    /// Backs off, as the timer has fired.
    pub fn back_off(&mut self, c: &RtoConfig) {
        self.backoff = (self.backoff + 1).min(16);
        self.forgotten |= c.forget_after > 0 && u32::from(self.backoff) >= c.forget_after;
    }

    /// A segment sent only once was acknowledged, so Karn's algorithm ends the back-off.
    pub fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// How many times in a row the timer fired.
    pub fn backoff(&self) -> u8 {
        self.backoff
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn config(estimator: Estimator, tick: Nanos) -> RtoConfig {
        RtoConfig {
            factor: 1,
            estimator,
            initial: 1000 * MS,
            min: 200 * MS,
            max: 60_000 * MS,
            tick,
            forget_after: 0,
        }
    }

    /// RFC 6298 §2: SRTT 100 and RTTVAR 50, then 112.5 and 62.5.
    #[test]
    fn the_rfc_by_hand() {
        let c = config(Estimator::Rfc, MS);
        let mut r = Rtt::new();
        assert_eq!(r.rto(&c), 1000 * MS);
        r.sample(&c, 0, 100 * MS, 0, 0);
        assert_eq!(r.rto(&c), 300 * MS);
        r.sample(&c, 0, 200 * MS, 0, 0);
        assert_eq!(r.srtt(&c), Some(112_500_000));
        assert_eq!(r.rto(&c), 362 * MS);
        r.back_off(&c);
        r.back_off(&c);
        assert_eq!(r.rto(&c), 4 * 362 * MS);
        for _ in 0..30 {
            r.back_off(&c);
        }
        assert_eq!(r.rto(&c), 60_000 * MS);
        r.reset_backoff();
        assert_eq!(r.rto(&c), 362 * MS);
    }

    /// RFC 6298 §5.7: the timeout stays as it was, backed off, until a sample arrives.
    #[test]
    fn what_is_too_old_is_forgotten() {
        let mut c = config(Estimator::Rfc, MS);
        c.forget_after = 4;
        for (timeouts, rto) in [(3, 362), (4, 600)] {
            let mut r = Rtt::new();
            r.sample(&c, 0, 100 * MS, 0, 0);
            for _ in 0..timeouts {
                r.back_off(&c);
            }
            assert_eq!(r.rto(&c), (300 * MS) << timeouts);
            r.reset_backoff();
            r.sample(&c, 0, 200 * MS, 0, 0);
            assert_eq!(r.rto(&c), rto * MS, "after {timeouts}");
        }
    }

    /// A clock of 10 ms counts in its own ticks: 84 ms are eight or nine.
    #[test]
    fn a_coarse_clock() {
        let c = config(Estimator::Rfc, 10 * MS);
        let mut r = Rtt::new();
        r.sample(&c, 4 * MS, 88 * MS, 0, 0);
        assert_eq!(r.srtt(&c), Some(80 * MS));
        let mut r = Rtt::new();
        r.sample(&c, 7 * MS, 91 * MS, 0, 0);
        assert_eq!(r.srtt(&c), Some(90 * MS));
    }

    /// Linux: the minimum is added to SRTT, and a falling RTT is no variation.
    #[test]
    fn linux_adds_its_minimum() {
        let c = config(Estimator::Linux, 1);
        let mut r = Rtt::new();
        r.sample(&c, 0, 40 * MS, 0, 10);
        assert_eq!(r.rto(&c), 240 * MS);
        for n in 1..100 {
            r.sample(&c, 0, 40 * MS, n * 10 + 1, n * 10 + 10);
        }
        assert_eq!(r.rto(&c), 240 * MS);
        r.sample(&c, 0, 20 * MS, 2000, 2010);
        assert_eq!(r.rto(&c), 237_500_000);
    }
}
