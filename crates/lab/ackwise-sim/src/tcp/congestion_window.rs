//! The congestion window: how it grows, and by how much it shrinks.

use ackwise_scenario::tcp_model::Growth;

use super::config::SenderConfig;

/// `cwnd` and `ssthresh`, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct CongestionWindow {
    pub cwnd: u64,
    pub ssthresh: u64,
    /// The fraction below a byte: growth by a segment per window adds up.
    frac: f64,
    /// Bytes (ABC) or segments (per-segment growth) counted towards the next step.
    counted: u64,
}

impl CongestionWindow {
    pub fn new(c: &SenderConfig) -> CongestionWindow {
        CongestionWindow {
            cwnd: c.initial_window,
            ssthresh: c.initial_ssthresh,
            frac: 0.0,
            counted: 0,
        }
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Sets the window, and forgets what was counted towards its growth.
    pub fn set(&mut self, cwnd: u64) {
        self.cwnd = cwnd;
        self.frac = 0.0;
        self.counted = 0;
    }

    /// Half the window, including the fraction, but at least a segment.
    pub fn halve(&mut self, c: &SenderConfig) {
        let least = u64::from(c.mss);
        if self.cwnd > c.window_limit {
            self.set((c.window_limit / 2).max(least));
            return;
        }
        let half = (self.cwnd as f64 + self.frac) / 2.0;
        self.set((half as u64).max(least));
        self.frac = (half - self.cwnd as f64).max(0.0);
    }

    /// Reno's growth for an ACK of `acked` new bytes (RFC 5681 §3.1). `slow_restart` marks
    /// the slow start after a timeout, in which ABC counts one segment
    /// (RFC 3465 §2.3).
    pub fn grow_reno(&mut self, c: &SenderConfig, acked: u64, slow_restart: bool) {
        let mss = u64::from(c.mss);
        match c.growth {
            Growth::PerAck if self.in_slow_start() => self.cwnd += mss,
            Growth::PerAck => self.grow_linearly(mss),
            Growth::PerSegment => {
                let left = self.slow_start(acked.div_ceil(mss) * mss) / mss;
                if left > 0 {
                    self.count_segments(left, mss);
                }
            }
            Growth::Singly => {
                for _ in 0..acked.div_ceil(mss) {
                    if self.in_slow_start() {
                        self.cwnd += mss;
                    } else {
                        self.grow_linearly(mss);
                    }
                }
            }
            Growth::Abc if self.in_slow_start() => {
                let limit = if slow_restart {
                    1
                } else {
                    u64::from(c.abc_limit)
                };
                self.cwnd += acked.min(limit * mss);
            }
            Growth::Abc => {
                self.counted += acked;
                if self.counted >= self.cwnd {
                    self.counted -= self.cwnd;
                    self.cwnd += mss;
                }
            }
        }
        self.cwnd = self.cwnd.min(c.window_limit.max(mss));
    }

    /// Slow start by the bytes acknowledged, up to the threshold; returns the bytes left over.
    pub fn slow_start(&mut self, acked: u64) -> u64 {
        if !self.in_slow_start() {
            return acked;
        }
        let cwnd = (self.cwnd + acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// Grows by a fraction of a segment, `cwnd += 1/cwnd` in segments.
    fn grow_linearly(&mut self, mss: u64) {
        let sum = self.frac + (mss * mss) as f64 / (self.cwnd as f64 + self.frac);
        self.cwnd += sum as u64;
        self.frac = sum - (sum as u64) as f64;
    }

    /// Grows by a segment for each window of segments acknowledged.
    fn count_segments(&mut self, segments: u64, mss: u64) {
        self.count_towards(segments, self.cwnd / mss, mss);
    }

    /// Grows by a segment for each `per` segments acknowledged, as Linux counts: the step is
    /// taken with the first ACK after the count is full.
    pub fn count_towards(&mut self, segments: u64, per: u64, mss: u64) {
        let per = per.max(1);
        if self.counted >= per {
            self.counted = 0;
            self.cwnd += mss;
        }
        self.counted += segments;
        if self.counted >= per {
            let steps = self.counted / per;
            self.counted -= steps * per;
            self.cwnd += steps * mss;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::configure;
    use ackwise_scenario::{SocketOptions, TcpModel};

    fn window(
        growth: Growth,
        abc_limit: u32,
        cwnd: u64,
        ssthresh: u64,
    ) -> (SenderConfig, CongestionWindow) {
        let model = TcpModel {
            growth: Some(growth),
            abc_limit: Some(abc_limit),
            segment: Some(1000),
            ..TcpModel::default()
        };
        let (c, _) = configure("newreno", &model, &SocketOptions::default(), 1500).unwrap();
        let mut w = CongestionWindow::new(&c);
        w.cwnd = cwnd;
        w.ssthresh = ssthresh;
        (c, w)
    }

    fn after(w: &mut CongestionWindow, c: &SenderConfig, acked: u64) -> u64 {
        w.grow_reno(c, acked, false);
        w.cwnd
    }

    #[test]
    fn per_ack_counts_acks() {
        let (c, mut w) = window(Growth::PerAck, 1, 2000, 4000);
        assert_eq!(
            after(&mut w, &c, 8000),
            3000,
            "an ACK counts once, whatever it covers"
        );
        assert_eq!(after(&mut w, &c, 1), 4000);
        // 4 + 1/4 + 1/4.25 + 1/4.4853 + 1/4.7083 = 4.9206: fractions add up.
        let sizes: Vec<u64> = (0..4).map(|_| after(&mut w, &c, 1000)).collect();
        assert_eq!(sizes, [4250, 4485, 4708, 4920]);
    }

    #[test]
    fn singly_is_as_many_acks() {
        let (c, mut w) = window(Growth::Singly, 1, 2000, 4000);
        // Two to the threshold, then 1/4, 1/4.25, 1/4.4853, 1/4.7083.
        assert_eq!(after(&mut w, &c, 6000), 4920);
    }

    /// The windows of ns-2 are real numbers.
    #[test]
    fn halves_keep_their_fraction() {
        let (c, mut w) = window(Growth::PerAck, 1, 4000, 4000);
        assert_eq!(after(&mut w, &c, 1), 4250);
        assert_eq!(after(&mut w, &c, 1), 4485);
        w.ssthresh = 2000;
        w.halve(&c);
        // 4.485294/2 = 2.242647; + 1/2.242647.
        assert_eq!(w.cwnd, 2242);
        assert_eq!(after(&mut w, &c, 1), 2688);
    }

    #[test]
    fn per_segment_counts_segments() {
        let (c, mut w) = window(Growth::PerSegment, 1, 2000, 5000);
        assert_eq!(after(&mut w, &c, 2000), 4000);
        // One to the threshold, the other three count.
        assert_eq!(after(&mut w, &c, 4000), 5000);
        assert_eq!(
            after(&mut w, &c, 2000),
            6000,
            "five segments of the five that the next step needs"
        );
        assert_eq!(
            after(&mut w, &c, 13_000),
            8000,
            "a stretch ACK of two windows"
        );
    }

    /// RFC 3465 §2.1, §2.2, §2.3.
    #[test]
    fn abc_counts_bytes() {
        let (c, mut w) = window(Growth::Abc, 2, 2000, 9000);
        assert_eq!(after(&mut w, &c, 500), 2500);
        assert_eq!(after(&mut w, &c, 8000), 4500, "L = 2");
        w.grow_reno(&c, 8000, true);
        assert_eq!(w.cwnd, 5500, "one segment after a timeout");
        w.set(10_000);
        assert_eq!(after(&mut w, &c, 9_999), 10_000);
        assert_eq!(after(&mut w, &c, 1), 11_000);
    }
}
