//! The sender's window: when it grows, and what a loss leaves of it.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{HyStart, IdleRestart, Pacing};

use super::congestion::Acked;
use super::hystart::{Ack, Round};
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
        if self.config.validate_window && !self.validation.may_grow(self.window.cwnd, slow_start) {
            return;
        }
        let acked = Acked {
            now,
            bytes: acked,
            slow_restart: self.slow_restart,
            conservative: self.hystart.is_conservative(),
        };
        self.control.on_ack(&self.config, &acked, &mut self.window);
        let most = self.config.window_limit.max(self.mss());
        self.window.cwnd = self.window.cwnd.min(most);
        if !self.window.in_slow_start() {
            self.slow_restart = false;
        }
    }

    /// An RTT sample for what watches delays.
    pub(super) fn note_delay(&mut self, rtt: Nanos, now: Nanos) {
        let Some(least) = self.control.on_rtt(rtt, now) else {
            return;
        };
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
                self.hystart.linux(&ack, least, slack)
            }
            HyStart::PlusPlus => self.hystart.plus_plus(&ack),
        };
        if over {
            self.window.ssthresh = self.window.cwnd;
        }
    }

    /// The slow-start threshold after a loss. `flight` is what is out, bytes.
    pub(super) fn threshold(&mut self, flight: u64) -> u64 {
        self.control.ssthresh(&self.config, &self.window, flight)
    }

    /// Sets threshold and window. `extra` of what is out was sent beyond the window.
    pub(super) fn halve(&mut self, extra: u64) {
        self.window.ssthresh = self.threshold((self.nxt - self.una).saturating_sub(extra));
        self.control.reduce(&self.config, &mut self.window);
    }

    /// After a timeout.
    pub(super) fn forget_growth(&mut self) {
        self.slow_restart = true;
        self.control.on_timeout();
        self.hystart = Round::new();
    }

    /// Data flow again after a pause (RFC 5681 §4.1).
    pub(super) fn restart(&mut self, now: Nanos) {
        let idle = now - self.last_sent;
        if self.last_sent == 0 || self.max > self.una {
            return;
        }
        self.control.on_restart(idle, now);
        if self.control.is_model_based() {
            self.restart_model(now);
            return;
        }
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
    /// A congestion control that paces has a rate of its own.
    pub(super) fn pacing_rate(&self) -> u64 {
        if let Some(rate) = self.control.pacing_rate() {
            return rate;
        }
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
