//! The sender's window: when it grows, and what a loss leaves of it.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{Growth, Halve, HyStart, IdleRestart, Pacing};

use super::config::Avoidance;
use super::hystart::{Ack, CSS_DIVISOR, Round};
use super::sender::Sender;

/// Linux: a train may be this much longer for segments that leave together.
const TRAIN_SLACK: Nanos = 1_000_000;
/// Linux: four times the 64 KiB of one large send.
const TRAIN_BYTES: u64 = 4 * 65_536;
const SECOND: u64 = 1_000_000_000;

impl Sender {
    /// An ACK of `acked` new bytes opens the window.
    pub(super) fn grow(&mut self, acked: u64, now: Nanos) {
        let slow_start = self.window.in_slow_start();
        if self.config.validate_window && !self.usage.may_grow(self.window.cwnd, slow_start) {
            return;
        }
        match self.config.avoidance {
            Avoidance::Reno => self
                .window
                .grow_reno(&self.config, acked, self.slow_restart),
            Avoidance::Cubic => self.grow_cubic(acked, now),
        }
        let most = self.config.window_limit.max(self.mss());
        self.window.cwnd = self.window.cwnd.min(most);
        if !self.window.in_slow_start() {
            self.slow_restart = false;
        }
    }

    fn grow_cubic(&mut self, acked: u64, now: Nanos) {
        let mss = self.mss();
        let mut segments = acked.div_ceil(mss);
        if self.window.in_slow_start() {
            if self.config.growth == Growth::PerAck {
                segments = 1;
            }
            let mut bytes = segments * mss;
            if self.hystart.is_conservative() {
                bytes /= CSS_DIVISOR;
            }
            if self.config.growth == Growth::Abc {
                bytes = bytes.min(u64::from(self.config.abc_limit) * mss);
            }
            segments = self.window.slow_start(bytes) / mss;
            if segments == 0 {
                return;
            }
        }
        let per = self.cubic.update(self.window.cwnd / mss, segments, now);
        self.window.count_towards(segments, per, mss);
    }

    /// An RTT sample for what watches delays.
    pub(super) fn note_delay(&mut self, rtt: Nanos, now: Nanos) {
        if self.config.avoidance == Avoidance::Cubic && !self.cubic.on_rtt(rtt, now) {
            return;
        }
        if !self.window.in_slow_start() {
            return;
        }
        let ack = Ack {
            now,
            rtt,
            una: self.una,
            nxt: self.nxt,
            cwnd: self.window.cwnd / self.mss(),
            paced: self.config.pacing != Pacing::Off,
        };
        let over = match self.config.hystart {
            HyStart::Off => false,
            HyStart::Linux => {
                let slack = (TRAIN_BYTES * SECOND / self.pacing_rate().max(1)).min(TRAIN_SLACK);
                self.hystart.linux(&ack, self.cubic.delay_min, slack)
            }
            HyStart::PlusPlus => self.hystart.plus_plus(&ack),
        };
        if over {
            self.window.ssthresh = self.window.cwnd;
        }
    }

    /// The slow-start threshold after a loss. `flight` is what is out.
    pub(super) fn threshold(&mut self, flight: u64) -> u64 {
        let mss = self.mss();
        let window = self.window.cwnd.min(self.config.window_limit);
        if self.config.avoidance == Avoidance::Cubic {
            return self
                .cubic
                .on_loss(window / mss, self.config.fast_convergence)
                * mss;
        }
        match self.config.halve {
            Halve::Flight => (flight / 2).max(2 * mss),
            Halve::Window => (window / 2 / mss * mss).max(2 * mss),
        }
    }

    /// Sets threshold and window. `extra` of what is out was sent beyond the window.
    pub(super) fn halve(&mut self, extra: u64) {
        self.window.ssthresh = self.threshold((self.nxt - self.una).saturating_sub(extra));
        if self.config.halve == Halve::Window && self.config.avoidance == Avoidance::Reno {
            // ns-2 keeps the half segment that the threshold loses.
            self.window.halve(&self.config);
        } else {
            self.window.set(self.window.ssthresh);
        }
    }

    /// After a timeout.
    pub(super) fn forget_growth(&mut self) {
        self.slow_restart = true;
        if self.config.avoidance == Avoidance::Cubic {
            self.cubic.on_timeout();
        }
        self.hystart = Round::new();
    }

    /// Data flow again after a pause (RFC 5681 §4.1).
    pub(super) fn restart(&mut self, now: Nanos) {
        let idle = now - self.last_sent;
        if self.last_sent == 0 || self.max > self.una {
            return;
        }
        self.cubic.on_restart(idle, now);
        let rto = self.rto();
        if idle <= rto {
            return;
        }
        match self.config.idle_restart {
            IdleRestart::Off => {}
            IdleRestart::Initial => {
                let cwnd = self.window.cwnd.min(self.config.initial_window);
                self.window.set(cwnd);
            }
            IdleRestart::Decay => {
                let cwnd = self.window.cwnd;
                // What it was is worth three quarters of it as a threshold.
                self.window.ssthresh = self.window.ssthresh.max(cwnd / 4 * 3);
                let halvings = (idle / rto).min(63);
                let least = self.config.initial_window.min(cwnd);
                self.window.set((cwnd >> halvings).max(least));
            }
        }
    }

    /// Bytes a second: twice the window per round trip in slow start, 1.2 times after.
    pub(super) fn pacing_rate(&self) -> u64 {
        let Some(srtt) = self.srtt().filter(|s| *s > 0) else {
            return u64::MAX;
        };
        let percent = if self.window.cwnd < self.window.ssthresh / 2 {
            200
        } else {
            120
        };
        let window = u128::from(self.window.cwnd.max(self.max - self.una));
        let rate = window * percent * u128::from(SECOND) / 100 / u128::from(srtt);
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}
