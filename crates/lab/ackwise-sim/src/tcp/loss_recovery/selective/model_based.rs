//! Loss recovery for a model-based congestion control: it provides delivery-rate samples,
//! and applies the window that the control decides on.

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

    /// Starts the model when the connection is established.
    pub(super) fn start_model(&mut self, tcb: &mut Tcb, now: Nanos) {
        if let Some(rate) = &mut self.rate {
            rate.set_handshake(tcb.srtt(), now);
        }
        if let Some(rate) = &self.rate {
            let path = self.path(tcb, rate, now);
            tcb.control.on_established(&path);
        }
    }

    /// Handles new data from the application. If all earlier data have left, and the window would
    /// have allowed more, then the packets in flight do not show the path's rate.
    pub(super) fn note_app_limited(&mut self, tcb: &Tcb) {
        let in_flight = u64::from(self.scoreboard.in_flight());
        let idle = tcb.unsent() < tcb.mss()
            && in_flight * tcb.mss() < tcb.window.cwnd
            && self.scoreboard.lost() <= self.scoreboard.retrans();
        if let Some(rate) = self.rate.as_mut().filter(|_| idle) {
            rate.set_app_limited(in_flight);
        }
    }

    /// Restarts the model: the first segment after a pause is about to leave.
    pub(super) fn restart_model(&self, tcb: &mut Tcb, now: Nanos) {
        if let Some(rate) = &self.rate {
            let path = self.path(tcb, rate, now);
            if let Some(cwnd) = tcb.control.on_transmit_start(&path) {
                tcb.window.set(cwnd * path.mss);
            }
        }
    }

    /// Applies the model's decision after an ACK that delivered `delivered` segments.
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

    /// Tells the model that the retransmission timer fired.
    pub(super) fn lose_model(&self, tcb: &mut Tcb, now: Nanos) {
        if let Some(rate) = &self.rate {
            let path = self.path(tcb, rate, now);
            tcb.control.on_loss_state(&path);
        }
    }

    /// Tells the model that the last reduction was unnecessary.
    pub(super) fn undo_model(&self, tcb: &mut Tcb) {
        if let Some(rate) = &self.rate {
            let path = self.path(tcb, rate, rate.delivered_at());
            tcb.control.on_undo(&path);
        }
    }
}
