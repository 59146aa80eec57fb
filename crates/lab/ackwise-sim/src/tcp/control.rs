//! The congestion window of a connection: when it grows, and what a loss or a pause leaves
//! of it. The congestion control decides; this module calls it and applies its answer.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{HyStart, IdleRestart, Pacing};

use super::congestion::Acked;
use super::hystart::{Ack, Round};
use super::tcb::Tcb;

/// Linux: the maximum by which a train may be longer, for segments that leave together.
const TRAIN_SLACK: Nanos = 1_000_000;
/// Linux: four times the 64 KiB of one large send.
const TRAIN_BYTES: u64 = 4 * 65_536;
const SECOND: u64 = 1_000_000_000;
/// Linux: the maximum length of a chunk.
const CHUNK_BYTES: u64 = 65_536;

/// The window and the threshold before a reduction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SavedWindow {
    cwnd: u64,
    ssthresh: u64,
}

impl Tcb {
    /// Grows the window for an ACK of `acked` new bytes.
    pub fn grow(&mut self, acked: u64, now: Nanos) {
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

    /// Hands an RTT sample to the congestion control and to HyStart.
    pub fn note_delay(&mut self, rtt: Nanos, now: Nanos) {
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

    /// The slow-start threshold after a loss, with `flight` bytes outstanding.
    pub fn threshold(&mut self, flight: u64) -> u64 {
        self.control.ssthresh(&self.config, &self.window, flight)
    }

    /// Reduces the threshold and the window at once. `extra` bytes of the outstanding data were sent
    /// beyond the window.
    pub fn halve(&mut self, extra: u64) {
        self.window.ssthresh = self.threshold((self.nxt - self.una).saturating_sub(extra));
        self.control.reduce(&self.config, &mut self.window);
    }

    /// Starts a reduction with `flight` bytes in flight. The threshold comes down at once, and so does
    /// the window unless it follows gradually: by PRR (RFC 6937), or as a model-based control
    /// decides.
    pub fn start_reduction(&mut self, flight: u64) {
        let before = self.window.cwnd;
        let target = self.threshold(flight);
        let gradual = self.config.prr || self.control.is_model_based();
        self.window.set(if gradual { before } else { target });
        self.window.ssthresh = target;
    }

    /// Ends a reduction: a window that followed gradually is set to the threshold. A
    /// model-based control sets the window itself.
    pub fn end_reduction(&mut self) {
        if !self.control.is_model_based() {
            self.window.set(self.window.ssthresh);
        }
    }

    /// The window and the threshold, for [`Tcb::undo_reduction`].
    pub fn saved_window(&self) -> SavedWindow {
        SavedWindow {
            cwnd: self.window.cwnd,
            ssthresh: self.window.ssthresh,
        }
    }

    /// Undoes an unnecessary reduction: the window and the threshold are at least what they were.
    /// A model-based control sets the window itself.
    pub fn undo_reduction(&mut self, saved: &SavedWindow) {
        if !self.control.is_model_based() {
            self.window.set(self.window.cwnd.max(saved.cwnd));
        }
        self.window.ssthresh = self.window.ssthresh.max(saved.ssthresh);
        self.stats.undos += 1;
    }

    /// Restarts slow start after a timeout.
    pub fn forget_growth(&mut self) {
        self.slow_restart = true;
        self.control.on_timeout();
        self.hystart = Round::new();
    }

    /// Adjusts the window when sending resumes after `idle` without data (RFC 5681 §4.1).
    pub fn restart_window(&mut self, idle: Nanos) {
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
                // The threshold keeps three quarters of the old window.
                self.window.ssthresh = self.window.ssthresh.max(cwnd / 4 * 3);
                let halvings = (idle / rto).min(63);
                let least = self.config.initial_window.min(cwnd);
                self.window.set((cwnd >> halvings).max(least));
            }
        }
    }

    /// The pacing rate in bytes per second: the congestion control's if it paces, else twice
    /// the window per round trip in slow start and 1.2 times the window afterwards.
    pub fn pacing_rate(&self) -> u64 {
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

    /// The maximum number of segments in a chunk.
    pub fn chunk_segments(&self) -> u32 {
        let segments = (self.pacing_rate() >> 10).min(CHUNK_BYTES) / self.mss();
        (segments as u32).max(self.control.min_chunk())
    }

    /// Records that a segment of `len` bytes leaves, and sets when the next may leave if the sender
    /// paces. `last` means that no more data wait behind it.
    pub fn pace(&mut self, len: u64, last: bool, now: Nanos) {
        if let Some(rate) = self.control.pacing_rate() {
            let last = self.chunk == 0 || last;
            let segments = self.stats.data_segments;
            self.pacer.on_sent(now, len, last, segments, rate);
        } else if self.config.pacing == Pacing::Linux {
            let wire = u128::from(u64::from(self.config.header) + len) * u128::from(SECOND);
            let gap = wire / u128::from(self.pacing_rate());
            self.pace_at = self.pace_at.max(now) + gap as Nanos;
        }
    }
}
