//! The congestion window: how it opens, and by how much it closes.

use ackwise_scenario::tcp_model::Growth;

use super::config::SenderConfig;

/// `cwnd` and `ssthresh`, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub cwnd: u64,
    pub ssthresh: u64,
    /// Below a byte, in 1/65536: growth by a segment per window adds up exactly.
    frac: u64,
    /// Bytes (ABC) or segments (per segment) that count towards the next step.
    counted: u64,
}

const FRACTION: u32 = 16;

impl Window {
    pub fn new(c: &SenderConfig) -> Window {
        Window {
            cwnd: c.initial_window,
            ssthresh: c.initial_ssthresh,
            frac: 0,
            counted: 0,
        }
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Sets the window; what counted towards its growth is forgotten.
    pub fn set(&mut self, cwnd: u64) {
        self.cwnd = cwnd;
        self.frac = 0;
        self.counted = 0;
    }

    /// Reno's growth for an ACK of `acked` new bytes (RFC 5681 §3.1). `slow_restart`:
    /// this is the slow start after a timeout, in which ABC counts one segment
    /// (RFC 3465 §2.3).
    pub fn grow_reno(&mut self, c: &SenderConfig, acked: u64, slow_restart: bool) {
        let mss = u64::from(c.mss);
        match c.growth {
            Growth::PerAck if self.in_slow_start() => self.cwnd += mss,
            Growth::PerAck => self.creep(mss),
            Growth::PerSegment => {
                let left = self.slow_start(acked.div_ceil(mss) * mss) / mss;
                if left > 0 {
                    self.count_segments(left, mss);
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

    /// Slow start by what was acknowledged, up to the threshold; returns what is left.
    pub fn slow_start(&mut self, acked: u64) -> u64 {
        if !self.in_slow_start() {
            return acked;
        }
        let cwnd = (self.cwnd + acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd;
        left
    }

    /// A share of a segment, as `cwnd += 1/cwnd` in segments.
    fn creep(&mut self, mss: u64) {
        // mss < 2^16, so the product fits.
        let step = ((mss * mss) << FRACTION) / self.cwnd.max(1);
        let sum = self.frac + step;
        self.cwnd += sum >> FRACTION;
        self.frac = sum & ((1 << FRACTION) - 1);
    }

    /// A segment for each window of segments acknowledged.
    fn count_segments(&mut self, segments: u64, mss: u64) {
        self.count_towards(segments, self.cwnd / mss, mss);
    }

    /// A segment for each `per` segments acknowledged, as Linux counts: the step is
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
