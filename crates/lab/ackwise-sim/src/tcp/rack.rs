//! RACK-TLP (RFC 8985), as Linux has it: a segment is lost when one that was sent
//! later has been delivered, and the time that reordering may take has passed.

use ackwise_queue::Nanos;

use super::scoreboard::{Mark, Seg};
use super::selective::{Next, Selective, State, sent_after};
use super::sender::{Sender, Timer};
use crate::time::NEVER;

const MS: Nanos = 1_000_000;
/// Least slack of a timer that waits for an ACK: two ticks of Linux.
const TIMER_SLACK: Nanos = 2 * MS;
/// How many recoveries a wider window for reordering lasts (RFC 8985 §6.2 step 4).
const PERSIST: u8 = 16;
/// Linux never takes a path for worse than this, in segments.
const MAX_REORDERING: u32 = 300;

/// Who was delivered last, and how much later others may come.
#[derive(Debug, Clone)]
pub(crate) struct Rack {
    /// When the newest delivered segment was sent, and its end.
    sent: (Nanos, u64),
    rtt: Nanos,
    advanced: bool,
    pub min_rtt: Nanos,
    reordering_seen: bool,
    /// Segments out of order that are no loss.
    reordering: u32,
    steps: u8,
    persist: u8,
    /// No further step before this is acknowledged.
    step_at: u64,
    /// A tail loss probe is out: all that was sent then, and whether it repeats data.
    pub probe: Option<(u64, bool)>,
}

impl Default for Rack {
    fn default() -> Rack {
        Rack {
            sent: (0, 0),
            rtt: 0,
            advanced: false,
            min_rtt: NEVER,
            reordering_seen: false,
            reordering: 3,
            steps: 1,
            persist: 0,
            step_at: 0,
            probe: None,
        }
    }
}

impl Rack {
    /// A segment was delivered (RFC 8985 §6.2 step 2).
    pub fn advance(&mut self, seg: &Seg, now: Nanos) {
        if seg.mark.contains(Mark::SACKED) {
            return;
        }
        let rtt = now - seg.sent;
        // Too early for an answer to the retransmission.
        if seg.mark.contains(Mark::EVER) && rtt < self.min_rtt {
            return;
        }
        self.advanced = true;
        self.rtt = rtt;
        let this = (seg.sent, seg.end());
        if sent_after(this, self.sent) {
            self.sent = this;
        }
    }

    /// A segment came `distance` bytes late.
    pub fn reordered(&mut self, distance: u64, mss: u32) {
        let segments = u32::try_from(distance / u64::from(mss) + 1).unwrap_or(u32::MAX);
        self.reordering = self.reordering.max(segments.min(MAX_REORDERING));
        self.reordering_seen = true;
    }

    /// A DSACK widens the window for reordering, once a round trip.
    pub fn note_dsack(&mut self, dsack: bool, una: u64, nxt: u64) {
        if dsack && una >= self.step_at {
            self.steps = self.steps.saturating_add(1);
            self.persist = PERSIST;
            self.step_at = nxt;
        }
    }

    /// A recovery ended that was needed.
    pub fn forget_step(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// How long a segment may still be on its way; 0 or less: it is lost.
    pub fn remaining(&self, seg: &Seg, window: Nanos, now: Nanos) -> i128 {
        i128::from(self.rtt) + i128::from(window) - i128::from(now - seg.sent)
    }

    /// RFC 8985 §6.2 step 4.
    fn window(&self, s: &Selective, dupthresh: u32, srtt: Nanos) -> Nanos {
        if !self.reordering_seen {
            let enough = s.board.sacked() >= self.reordering.max(dupthresh);
            if enough || matches!(s.state, State::Recovery | State::Lost) {
                return 0;
            }
        }
        (self.min_rtt / 4)
            .saturating_mul(u64::from(self.steps))
            .min(srtt)
    }
}

impl Sender {
    /// Marks what is lost, and sets the timer for what may be (RFC 8985 §6.2 step 5).
    pub(super) fn rack_losses(&mut self, s: &mut Selective, now: Nanos) {
        if std::mem::take(&mut s.rack.advanced)
            && let Some(wait) = self.rack_detect(s, now)
        {
            self.set_timer(Timer::Reorder, now + wait + TIMER_SLACK);
        }
    }

    fn rack_detect(&mut self, s: &mut Selective, now: Nanos) -> Option<Nanos> {
        let srtt = self.srtt().unwrap_or(0);
        let window = s.rack.window(s, self.config.dupthresh, srtt);
        let mut longest = None;
        for i in 0..s.board.len() as usize {
            let Some(seg) = s.board.get(i).copied() else {
                break;
            };
            let waits = seg.mark.contains(Mark::LOST) && !seg.mark.contains(Mark::RETRANS);
            if waits || seg.mark.contains(Mark::SACKED) {
                continue;
            }
            if !sent_after(s.rack.sent, (seg.sent, seg.end())) {
                // Segments that were sent once are in the order of their times.
                if seg.mark.contains(Mark::EVER) {
                    continue;
                }
                break;
            }
            let remaining = s.rack.remaining(&seg, window, now);
            if remaining <= 0 {
                s.board.mark_lost(i);
            } else {
                longest = longest.max(Some(remaining as Nanos));
            }
        }
        longest
    }

    /// The time for reordering is over.
    pub(super) fn reorder_timeout(&mut self, now: Nanos) {
        let Some(mut s) = self.selective.take() else {
            return;
        };
        let before = s.board.in_flight();
        let wait = self.rack_detect(&mut s, now);
        if s.board.in_flight() != before && s.state != State::Recovery {
            self.enter_recovery(&mut s, now);
            if self.config.prr && !self.control.is_model_based() {
                self.force_first(&mut s);
            }
        }
        match wait {
            Some(wait) => self.set_timer(Timer::Reorder, now + wait + TIMER_SLACK),
            None => self.rearm_from_head(&s, now),
        }
        self.selective = Some(s);
    }

    fn force_first(&mut self, s: &mut Selective) {
        if let Some(i) = s.board.next_lost() {
            s.force = s.board.get(i).map(|seg| seg.seq);
        }
    }

    /// RFC 8985 §7.2: when to probe the tail, if the sender may at all.
    fn probe_timeout(&self, s: &Selective, now: Nanos) -> Option<Nanos> {
        let open = matches!(s.state, State::Open | State::Reduce) && s.board.sacked() == 0;
        let open = open && s.board.lost() == 0 && s.board.retrans() == 0;
        if !self.config.tlp || !open || s.board.len() == 0 {
            return None;
        }
        let Some(srtt) = self.srtt() else {
            return Some(now + self.rto());
        };
        // One segment: its ACK may be delayed.
        let slack = if s.board.len() == 1 {
            self.config.rto.min
        } else {
            TIMER_SLACK
        };
        Some(now + 2 * srtt + slack)
    }

    /// After an ACK that moved on: a probe first, else the timeout.
    pub(super) fn renew_timer(&mut self, s: &Selective, now: Nanos) {
        if s.board.len() == 0 {
            self.set_timer(Timer::Retransmit, NEVER);
            return;
        }
        if self.timer() == Timer::Reorder && self.timer_at() != NEVER && self.timer_at() > now {
            return;
        }
        match self.probe_timeout(s, now) {
            Some(at) => self.set_timer(Timer::Probe, at.min(now + self.rto())),
            None => self.arm(now),
        }
    }

    /// The timeout, counted from when the first segment left.
    fn rearm_from_head(&mut self, s: &Selective, now: Nanos) {
        match s.head() {
            Some(head) => {
                let at = (head.sent + self.rto()).max(now + 1);
                self.set_timer(Timer::Retransmit, at);
            }
            None => self.set_timer(Timer::Retransmit, NEVER),
        }
    }

    /// A segment left.
    pub(super) fn timer_after_send(&mut self, s: &Selective, next: &Next, now: Nanos) {
        if next.again {
            // The first one: its timeout starts anew.
            let first = s.head().is_some_and(|head| head.seq == next.seq);
            let idle = self.timer_at() == NEVER;
            if idle || first && self.timer() != Timer::Reorder {
                self.arm(now);
            }
            return;
        }
        if self.timer_at() == NEVER || s.board.len() == 1 {
            self.arm(now);
        }
        if self.timer() == Timer::Reorder {
            return;
        }
        if let Some(at) = self.probe_timeout(s, now) {
            let head = s.head().map_or(now, |head| head.sent);
            self.set_timer(Timer::Probe, at.min((head + self.rto()).max(now + 1)));
        }
    }

    /// RFC 8985 §7.3: a new segment if there is one, else the last one again.
    pub(super) fn probe_tail(&mut self, now: Nanos) {
        let Some(mut s) = self.selective.take() else {
            return;
        };
        if s.rack.probe.is_none() && s.board.len() > 0 {
            self.stats.tail_probes += 1;
            if self.next_new().is_some() {
                s.force_new = true;
                s.rack.probe = Some((self.nxt, false));
            } else if let Some(seg) = s.board.last().copied() {
                s.force = Some(seg.seq);
                s.rack.probe = Some((self.nxt, true));
            }
            self.arm(now);
        } else {
            self.rearm_from_head(&s, now);
        }
        self.selective = Some(s);
    }

    /// RFC 8985 §7.4: did the probe repair a loss that nobody would have noticed?
    pub(super) fn probe_acked(&mut self, s: &mut Selective, ack: u64, dsack: bool) {
        let Some((end, repeats)) = s.rack.probe else {
            return;
        };
        if ack < end {
            return;
        }
        if !repeats || dsack {
            s.rack.probe = None;
        } else if ack > end {
            self.start_reduction(s, State::Reduce);
            self.end_reduction(s);
        }
    }

    /// A SACK renews the timer if its RTT is longer than the first segment is out.
    pub(super) fn sack_renews(&self, s: &Selective, sacked: Option<Nanos>, now: Nanos) -> bool {
        match (sacked, s.head()) {
            (Some(sent), Some(head)) => now - sent > now - head.sent,
            _ => false,
        }
    }
}
