//! What loss recovery does for a congestion control that works from a model of the path:
//! it gives it delivery-rate samples, and sets the window that it decides on.

use ackwise_queue::Nanos;

use super::Selective;
use crate::tcp::congestion::Path;
use crate::tcp::delivery_rate::RateSampler;
use crate::tcp::tcb::Tcb;

impl Selective {
    fn path(&self, tcb: &Tcb, rate: &RateSampler, now: Nanos) -> Path {
        Path {
            now,
            mss: tcb.mss(),
            cwnd: tcb.window.cwnd / tcb.mss(),
            in_flight: u64::from(self.scoreboard.in_flight()),
            delivered: rate.delivered(),
            delivered_at: rate.delivered_at(),
            lost: self.scoreboard.losses(),
            srtt: tcb.srtt(),
            departure: tcb.pacer.departure(),
            state: self.state,
            app_limited: rate.is_app_limited(),
        }
    }

    /// The connection is open.
    pub(super) fn start_model(&mut self, tcb: &mut Tcb, now: Nanos) {
        if let Some(rate) = &mut self.rate {
            rate.set_handshake(tcb.srtt(), now);
        }
        if let Some(rate) = &self.rate {
            let path = self.path(tcb, rate, now);
            tcb.control.on_established(&path);
        }
    }

    /// Data are supplied. If all that was supplied before has left, and the window would
    /// have let out more, then what is in flight does not show the path's rate.
    pub(super) fn note_app_limited(&mut self, tcb: &Tcb) {
        let in_flight = u64::from(self.scoreboard.in_flight());
        let idle = tcb.unsent() < tcb.mss()
            && in_flight * tcb.mss() < tcb.window.cwnd
            && self.scoreboard.lost() <= self.scoreboard.retrans();
        if let Some(rate) = self.rate.as_mut().filter(|_| idle) {
            rate.set_app_limited(in_flight);
        }
    }

    /// The first segment after a pause is about to leave.
    pub(super) fn restart_model(&self, tcb: &mut Tcb, now: Nanos) {
        if let Some(rate) = &self.rate {
            let path = self.path(tcb, rate, now);
            if let Some(cwnd) = tcb.control.on_transmit_start(&path) {
                tcb.window.set(cwnd * path.mss);
            }
        }
    }

    /// An ACK was dealt with; it delivered so many segments.
    pub(super) fn steer_model(&mut self, tcb: &mut Tcb, delivered: u64, now: Nanos) {
        let lost = self.scoreboard.losses();
        let Some(rate) = &mut self.rate else {
            return;
        };
        let sample = rate.take(delivered, lost, now);
        let Some(rate) = &self.rate else {
            return;
        };
        let path = self.path(tcb, rate, now);
        let Some(decision) = tcb.control.on_rate_sample(&sample, &path) else {
            return;
        };
        tcb.window.set(decision.cwnd * path.mss);
        if let Some(rate) = self.rate.as_mut().filter(|_| decision.app_limited) {
            rate.set_app_limited(path.in_flight);
        }
    }

    /// The retransmission timer fired.
    pub(super) fn lose_model(&self, tcb: &mut Tcb, now: Nanos) {
        if let Some(rate) = &self.rate {
            let path = self.path(tcb, rate, now);
            tcb.control.on_loss_state(&path);
        }
    }

    /// The last reduction was needless.
    pub(super) fn undo_model(&self, tcb: &mut Tcb) {
        if let Some(rate) = &self.rate {
            let path = self.path(tcb, rate, rate.delivered_at());
            tcb.control.on_undo(&path);
        }
    }
}
