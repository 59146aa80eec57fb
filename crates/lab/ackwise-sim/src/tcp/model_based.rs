//! What the sender does for a congestion control that works from a model of the path:
//! it gives it delivery-rate samples, and sets the window that it decides on.

use ackwise_queue::Nanos;

use super::congestion::{Path, RecoveryState};
use super::delivery_rate::RateSampler;
use super::selective::{Selective, State};
use super::sender::Sender;

impl Sender {
    fn path(&self, s: &Selective, rate: &RateSampler, now: Nanos) -> Path {
        Path {
            now,
            mss: self.mss(),
            cwnd: self.window.cwnd / self.mss(),
            in_flight: u64::from(s.board.in_flight()),
            delivered: rate.delivered(),
            delivered_at: rate.delivered_at(),
            lost: s.board.losses(),
            srtt: self.srtt(),
            departure: self.pacer.departure(),
            state: match s.state {
                State::Open => RecoveryState::Open,
                State::Reduce => RecoveryState::Reduced,
                State::Recovery => RecoveryState::Recovery,
                State::Lost => RecoveryState::Loss,
            },
            app_limited: rate.is_app_limited(),
        }
    }

    /// The connection is open.
    pub(super) fn start_model(&mut self, now: Nanos) {
        let srtt = self.srtt();
        let Some(mut s) = self.selective.take() else {
            return;
        };
        if let Some(rate) = &mut s.rate {
            rate.set_handshake(srtt, now);
        }
        if let Some(rate) = &s.rate {
            let path = self.path(&s, rate, now);
            self.control.on_established(&path);
        }
        self.selective = Some(s);
    }

    /// Data are supplied. If all that was supplied before has left, and the window would
    /// have let out more, then what is in flight does not show the path's rate.
    pub(super) fn note_app_limited(&mut self) {
        let (mss, unsent, cwnd) = (self.mss(), self.unsent(), self.window.cwnd);
        let Some(s) = &mut self.selective else {
            return;
        };
        let in_flight = u64::from(s.board.in_flight());
        let idle = unsent < mss && in_flight * mss < cwnd && s.board.lost() <= s.board.retrans();
        if let Some(rate) = s.rate.as_mut().filter(|_| idle) {
            rate.set_app_limited(in_flight);
        }
    }

    /// The first segment after a pause is about to leave.
    pub(super) fn restart_model(&mut self, now: Nanos) {
        let Some(s) = self.selective.take() else {
            return;
        };
        if let Some(rate) = &s.rate {
            let path = self.path(&s, rate, now);
            if let Some(cwnd) = self.control.on_transmit_start(&path) {
                self.window.set(cwnd * path.mss);
            }
        }
        self.selective = Some(s);
    }

    /// An ACK was dealt with; it delivered so many segments.
    pub(super) fn steer_model(&mut self, s: &mut Selective, delivered: u64, now: Nanos) {
        let lost = s.board.losses();
        let Some(rate) = &mut s.rate else {
            return;
        };
        let sample = rate.take(delivered, lost, now);
        let Some(rate) = &s.rate else {
            return;
        };
        let path = self.path(s, rate, now);
        let Some(decision) = self.control.on_rate_sample(&sample, &path) else {
            return;
        };
        self.window.set(decision.cwnd * path.mss);
        if let Some(rate) = s.rate.as_mut().filter(|_| decision.app_limited) {
            rate.set_app_limited(path.in_flight);
        }
    }

    /// The retransmission timer fired.
    pub(super) fn lose_model(&mut self, s: &Selective, now: Nanos) {
        if let Some(rate) = &s.rate {
            let path = self.path(s, rate, now);
            self.control.on_loss_state(&path);
        }
    }

    /// The last reduction was needless.
    pub(super) fn undo_model(&mut self, s: &Selective) {
        if let Some(rate) = &s.rate {
            let path = self.path(s, rate, rate.delivered_at());
            self.control.on_undo(&path);
        }
    }

    /// Whether a segment is to leave whatever the window and the pacing.
    pub(super) fn is_forced(&self) -> bool {
        let forced = |s: &Selective| s.force.is_some() || s.force_new;
        self.selective.as_deref().is_some_and(forced)
    }
}
