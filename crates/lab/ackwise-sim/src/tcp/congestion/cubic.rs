//! CUBIC (RFC 9438), in the integer arithmetic of Linux.
//!
//! ```text
//! W(t) = C (t - K)^3 + Wmax          C = 410/1024, beta = 717/1024
//! K    = cbrt((Wmax - cwnd) / C)     time in 1/1024 s, windows in segments
//! ```

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{Growth, Recovery, Stack};

use super::{Acked, CongestionControl, Variant};
use crate::packet::FlowId;
use crate::tcp::config::SenderConfig;
use crate::tcp::congestion_window::CongestionWindow;

/// Conservative slow start grows by a quarter (RFC 9406 §4.3, CSS_GROWTH_DIVISOR).
const CSS_DIVISOR: u64 = 4;
const BETA: u64 = 717;
const SCALE: u64 = 1024;
/// C · 1024.
const C: u64 = 410;
/// 2^40 / C: K in 1/1024 s is the cube root of this times segments.
const CUBE_FACTOR: u64 = (1 << 40) / C;
/// 8 · 3(1+β)/(1-β)/… as Linux rounds it: segments acknowledged for one of the
/// Reno-friendly window, in eighths of the window (RFC 9438 §4.3).
const FRIENDLY: u64 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);
const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// The state between two losses.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cubic {
    /// Wmax; 0 before the first loss.
    last_max: u64,
    epoch: Option<Nanos>,
    origin: u64,
    k: u64,
    /// Segments that must be acknowledged for each segment of growth.
    per: u64,
    last_cwnd: u64,
    last_time: Nanos,
    acked: u64,
    reno_cwnd: u64,
    /// Minimum RTT, 0 before the first sample.
    delay_min: Nanos,
}

impl CongestionControl for Cubic {
    const VARIANTS: &'static [Variant] = &[Variant {
        name: "cubic",
        stack: Stack::Linux,
        linux_recovery: Recovery::Rack,
        recovery: Recovery::Sack,
        hystart: true,
        needs_sack: false,
    }];

    fn new(_c: &SenderConfig, _flow: FlowId) -> Cubic {
        Cubic::default()
    }

    fn on_ack(&mut self, c: &SenderConfig, acked: &Acked, window: &mut CongestionWindow) {
        let mss = u64::from(c.mss);
        let mut segments = acked.bytes.div_ceil(mss);
        if window.in_slow_start() {
            if c.growth == Growth::PerAck {
                segments = 1;
            }
            let mut bytes = segments * mss;
            if acked.conservative {
                bytes /= CSS_DIVISOR;
            }
            if c.growth == Growth::Abc {
                bytes = bytes.min(u64::from(c.abc_limit) * mss);
            }
            segments = window.slow_start(bytes) / mss;
            if segments == 0 {
                return;
            }
        }
        let per = self.update(window.cwnd / mss, segments, acked.now);
        window.count_towards(segments, per, mss);
    }

    fn ssthresh(&mut self, c: &SenderConfig, window: &CongestionWindow, _in_flight: u64) -> u64 {
        let mss = u64::from(c.mss);
        let segments = window.cwnd.min(c.window_limit) / mss;
        self.reduced(segments, c.fast_convergence) * mss
    }

    /// HyStart does not judge in the first second of an epoch, when queues still drain.
    fn on_rtt(&mut self, rtt: Nanos, now: Nanos) -> Option<Nanos> {
        if self.epoch.is_some_and(|at| now - at < SECOND) {
            return None;
        }
        if self.delay_min == 0 || rtt < self.delay_min {
            self.delay_min = rtt.max(1);
        }
        Some(self.delay_min)
    }

    /// Forgets everything (RFC 9438 §4.8).
    fn on_timeout(&mut self) {
        *self = Cubic::default();
    }

    /// The curve does not advance during a pause.
    fn on_restart(&mut self, idle: Nanos, now: Nanos) {
        if let Some(epoch) = &mut self.epoch {
            *epoch = (*epoch + idle).min(now);
        }
    }
}

impl Cubic {
    /// Updates the growth; windows are segments. Returns how many acknowledged segments make the
    /// window grow by one.
    fn update(&mut self, cwnd: u64, acked: u64, now: Nanos) -> u64 {
        self.acked += acked;
        // The curve is evaluated no more often than the Linux clock ticks.
        let now = now / MS * MS;
        if self.last_cwnd == cwnd && now.saturating_sub(self.last_time) <= SECOND / 32 {
            return self.per.max(2);
        }
        if self.epoch.is_none() || now != self.last_time {
            self.curve(cwnd, acked, now);
        }
        self.apply_reno_friendliness(cwnd);
        self.per = self.per.max(2);
        self.per
    }

    fn curve(&mut self, cwnd: u64, acked: u64, now: Nanos) {
        self.last_cwnd = cwnd;
        self.last_time = now;
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.acked = acked;
            self.reno_cwnd = cwnd;
            if self.last_max <= cwnd {
                self.k = 0;
                self.origin = cwnd;
            } else {
                self.k = cube_root(CUBE_FACTOR * (self.last_max - cwnd));
                self.origin = self.last_max;
            }
            now
        });
        let target = self.at(now - epoch + self.delay_min);
        self.per = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            100 * cwnd
        };
        // Growth of at least 5 % a round trip while the bandwidth is unknown.
        if self.last_max == 0 {
            self.per = self.per.min(20);
        }
    }

    /// W(t), with `t` since the epoch began.
    fn at(&self, t: Nanos) -> u64 {
        let t = u128::from(t) * 1024 / u128::from(SECOND);
        let off = t.abs_diff(u128::from(self.k));
        let delta = (u128::from(C) * off * off * off) >> 40;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX / 4);
        if t < u128::from(self.k) {
            self.origin.saturating_sub(delta)
        } else {
            self.origin.saturating_add(delta)
        }
    }

    /// Grows no slower than Reno would have by now (RFC 9438 §4.3).
    fn apply_reno_friendliness(&mut self, cwnd: u64) {
        let per = (cwnd * FRIENDLY / 8).max(1);
        if self.acked > per {
            let steps = (self.acked - 1) / per;
            self.acked -= steps * per;
            self.reno_cwnd += steps;
        }
        if self.reno_cwnd > cwnd {
            self.per = self.per.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }

    /// The new threshold after a loss, in segments (RFC 9438 §4.6, §4.7).
    fn reduced(&mut self, cwnd: u64, fast_convergence: bool) -> u64 {
        self.epoch = None;
        self.last_max = if cwnd < self.last_max && fast_convergence {
            cwnd * (SCALE + BETA) / (2 * SCALE)
        } else {
            cwnd
        };
        (cwnd * BETA / SCALE).max(2)
    }
}

/// The integer cube root, rounded down.
fn cube_root(n: u64) -> u64 {
    let (mut root, mut n) = (0u64, u128::from(n));
    // Digit by digit: three bits of n for one bit of the root.
    let mut shift = 63;
    while shift >= 0 {
        root <<= 1;
        let step = (u128::from(root) * (u128::from(root) + 1) * 3 + 1) << shift;
        if n >= step {
            n -= step;
            root += 1;
        }
        shift -= 3;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_are_exact() {
        for (n, root) in [
            (0, 0),
            (1, 1),
            (7, 1),
            (8, 2),
            (26, 2),
            (27, 3),
            (1_000_000, 100),
        ] {
            assert_eq!(cube_root(n), root, "{n}");
        }
        assert_eq!(cube_root(u64::MAX), 2_642_245);
        for root in [3u64, 999, 65_535, 2_000_000] {
            assert_eq!(cube_root(root.pow(3)), root);
            assert_eq!(cube_root(root.pow(3) - 1), root - 1);
        }
    }

    /// Wmax 100, cwnd 70: K = cbrt(30 / 0.4004) = 4.2157 s.
    #[test]
    fn the_curve_is_that_of_the_rfc() {
        let mut c = Cubic::default();
        assert_eq!(c.reduced(100, true), 70);
        c.update(70, 1, 10 * SECOND);
        assert_eq!(c.origin, 100);
        assert!((4314..=4318).contains(&c.k), "{}", c.k);
        // W(0) = cwnd, W(K) = Wmax, W(2K) = Wmax + (Wmax - cwnd); C·1 s³ = 0.4.
        assert_eq!(c.at(0), 71, "1 above the cwnd of 70: integer rounding");
        assert_eq!(c.at(4_216 * MS), 100);
        assert_eq!(c.at(8_432 * MS), 130);
        assert_eq!(c.at(2_000 * MS), 100 - 4, "0.4004 · 2.2157³ = 4.36");
        assert_eq!(c.at(14_216 * MS), 500, "0.4004 · 10³ = 400.4");
    }

    #[test]
    fn a_smaller_window_gives_way() {
        let mut c = Cubic::default();
        c.reduced(100, true);
        // 80 < 100: Wmax = 80 · (1024 + 717) / 2048 = 68.
        assert_eq!(c.reduced(80, true), 56);
        assert_eq!(c.last_max, 68);
        let mut c = Cubic::default();
        c.reduced(100, false);
        c.reduced(80, false);
        assert_eq!(c.last_max, 80);
    }

    /// Far from Wmax and with a long RTT, CUBIC's curve is slower than Reno; it then
    /// grows like AIMD(0.53, 0.7).
    #[test]
    fn it_is_not_slower_than_reno() {
        let mut c = Cubic::default();
        c.reduced(20, true);
        // 15/8 of a window acknowledged for each segment.
        assert_eq!(FRIENDLY, 15);
        let mut cwnd = 14;
        let (mut counted, mut rounds) = (0, 0);
        let mut now = SECOND;
        while cwnd < 17 {
            rounds += 1;
            let round = cwnd;
            for _ in 0..round {
                now += 2 * MS;
                let per = c.update(cwnd, 1, now);
                counted += 1;
                if counted >= per {
                    counted = 0;
                    cwnd += 1;
                }
            }
        }
        assert!((5..=7).contains(&rounds), "0.53 a round trip: {rounds}");
    }
}
