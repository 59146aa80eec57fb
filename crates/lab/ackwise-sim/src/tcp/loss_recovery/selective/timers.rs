//! The timers of RACK-TLP (RFC 8985): the reordering timer and the tail loss probe. There
//! is one timer, as in Linux, for one of these or for the retransmission timeout.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::Recovery;

use super::news::News;
use super::rack::Limits;
use super::{NextSegment, Selective};
use crate::tcp::recovery_state::RecoveryState;
use crate::tcp::tcb::{Tcb, Timer};
use crate::time::NEVER;

/// Minimum slack of a timer that waits for an ACK: two Linux ticks.
const TIMER_SLACK: Nanos = 2_000_000;

/// An outstanding tail loss probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// First byte after everything sent when the probe left.
    pub end: u64,
    /// Whether the probe repeats data; otherwise it is a new segment.
    repeats: bool,
}

impl Selective {
    /// Marks lost segments after an ACK, and sets the timer for those that may be lost.
    pub(super) fn find_losses(&mut self, tcb: &mut Tcb, now: Nanos) {
        if tcb.config.recovery != Recovery::Rack {
            self.scoreboard.judge(tcb.config.dupthresh, tcb.config.mss);
        } else if self.rack.take_advanced()
            && let Some(wait) = self.detect(tcb, now)
        {
            tcb.set_timer(Timer::Reorder, now + wait + TIMER_SLACK);
        }
    }

    fn detect(&mut self, tcb: &Tcb, now: Nanos) -> Option<Nanos> {
        let limits = Limits {
            state: self.state,
            dupthresh: tcb.config.dupthresh,
            srtt: tcb.srtt().unwrap_or(0),
        };
        self.rack.detect(&mut self.scoreboard, &limits, now)
    }

    /// Handles the reordering timer.
    pub(super) fn end_reordering(&mut self, tcb: &mut Tcb, now: Nanos) {
        let before = self.scoreboard.in_flight();
        let wait = self.detect(tcb, now);
        if self.scoreboard.in_flight() != before && self.state != RecoveryState::Recovery {
            self.enter_recovery(tcb, now);
            if tcb.config.prr && !tcb.control.is_model_based() {
                self.force_lost();
            }
        }
        match wait {
            Some(wait) => tcb.set_timer(Timer::Reorder, now + wait + TIMER_SLACK),
            None => self.rearm_from_head(tcb, now),
        }
    }

    /// When to probe the tail, or `None` if the sender may not (RFC 8985 §7.2).
    fn probe_timeout(&self, tcb: &Tcb, now: Nanos) -> Option<Nanos> {
        let open = self.state < RecoveryState::Recovery && self.scoreboard.sacked() == 0;
        let open = open && self.scoreboard.lost() == 0 && self.scoreboard.retrans() == 0;
        if !tcb.config.tlp || !open || self.scoreboard.len() == 0 {
            return None;
        }
        let Some(srtt) = tcb.srtt() else {
            return Some(now + tcb.rto());
        };
        // A single segment's ACK may be delayed.
        let slack = if self.scoreboard.len() == 1 {
            tcb.config.rto.min
        } else {
            TIMER_SLACK
        };
        Some(now + 2 * srtt + slack)
    }

    /// Renews the timer after an ACK that advanced: a probe first, else the timeout.
    pub(super) fn renew_timer(&self, tcb: &mut Tcb, now: Nanos) {
        if self.scoreboard.len() == 0 {
            tcb.set_timer(Timer::Retransmit, NEVER);
            return;
        }
        if tcb.timer() == Timer::Reorder && tcb.timer_at() != NEVER && tcb.timer_at() > now {
            return;
        }
        match self.probe_timeout(tcb, now) {
            Some(at) => tcb.set_timer(Timer::Probe, at.min(now + tcb.rto())),
            None => tcb.arm(now),
        }
    }

    /// Sets the timeout, counted from when the first segment left.
    fn rearm_from_head(&self, tcb: &mut Tcb, now: Nanos) {
        let at = match self.scoreboard.first() {
            Some(head) => (head.sent + tcb.rto()).max(now + 1),
            None => NEVER,
        };
        tcb.set_timer(Timer::Retransmit, at);
    }

    /// Sets the timer after a segment has left.
    pub(super) fn timer_after_send(&self, tcb: &mut Tcb, next: &NextSegment, now: Nanos) {
        let head = self.scoreboard.first();
        if next.again {
            // It is the first outstanding segment: its timeout restarts.
            let first = head.is_some_and(|head| head.seq == next.seq);
            let idle = tcb.timer_at() == NEVER;
            if idle || first && tcb.timer() != Timer::Reorder {
                tcb.arm(now);
            }
            return;
        }
        if tcb.timer_at() == NEVER || self.scoreboard.len() == 1 {
            tcb.arm(now);
        }
        if tcb.timer() == Timer::Reorder {
            return;
        }
        if let Some(at) = self.probe_timeout(tcb, now) {
            let head = head.map_or(now, |head| head.sent);
            tcb.set_timer(Timer::Probe, at.min((head + tcb.rto()).max(now + 1)));
        }
    }

    /// Sends a probe: a new segment if there is one, else a repetition of the last one
    /// (RFC 8985 §7.3).
    pub(super) fn probe_tail(&mut self, tcb: &mut Tcb, now: Nanos) {
        if self.probe.is_some() || self.scoreboard.len() == 0 {
            self.rearm_from_head(tcb, now);
            return;
        }
        tcb.stats.tail_probes += 1;
        let repeats = tcb.next_new().is_none();
        if repeats {
            self.force = self.scoreboard.last().map(|seg| seg.seq);
        } else {
            self.force_new = true;
        }
        self.probe = Some(Probe {
            end: tcb.nxt,
            repeats,
        });
        tcb.arm(now);
    }

    /// Handles an ACK while a probe is outstanding. If the probe repaired a loss that would have gone
    /// unnoticed, the window is reduced, but not if the original has arrived as well (RFC 8985
    /// §7.4.2).
    pub(super) fn probe_acked(&mut self, tcb: &mut Tcb, ack: u64, news: &News) {
        let Some(probe) = self.probe.filter(|probe| ack >= probe.end) else {
            return;
        };
        if !probe.repeats || news.dsack_of_probe || news.repeats {
            self.probe = None;
        } else if ack > probe.end {
            self.start_reduction(tcb, RecoveryState::Reduced);
            self.end_reduction(tcb);
        }
    }

    /// Whether a SACK renews the timer: its RTT exceeds the age of the first segment.
    pub(super) fn sack_renews(&self, sacked: Option<Nanos>, now: Nanos) -> bool {
        match (sacked, self.scoreboard.first()) {
            (Some(sent), Some(head)) => now - sent > now - head.sent,
            _ => false,
        }
    }
}
