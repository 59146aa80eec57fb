//! Chooses the next segment (RFC 6675 §4, NextSeg()).

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::Recovery;

use super::{LossRecovery, NextSegment, Selective};
use crate::tcp::recovery_state::RecoveryState;
use crate::tcp::scoreboard::Mark;
use crate::tcp::tcb::Tcb;

const MS: Nanos = 1_000_000;

impl Selective {
    /// The next segment that the windows allow; it is recorded as sent.
    pub(super) fn choose(&mut self, tcb: &mut Tcb, now: Nanos) -> Option<NextSegment> {
        if let Some(seq) = self.force.take()
            && let Some(next) = self.resend(seq, now)
        {
            return Some(next);
        }
        if std::mem::take(&mut self.force_new)
            && let Some(len) = tcb.next_new()
        {
            return Some(self.send_new(tcb, len, now));
        }
        let repairing = self.state >= RecoveryState::Recovery;
        let counted = if repairing || tcb.config.limited_transmit {
            self.scoreboard.in_flight()
        } else {
            self.scoreboard.len()
        };
        if (u64::from(counted) + 1) * tcb.mss() > tcb.limited_cwnd() {
            let flight = u64::from(self.scoreboard.len()) * tcb.mss();
            tcb.validation.note(tcb.una, tcb.nxt, flight, true);
            return None;
        }
        if repairing
            && !self.new_first
            && let Some(i) = self.scoreboard.next_lost()
        {
            let seq = self.scoreboard.get(i)?.seq;
            return self.resend(seq, now);
        }
        if let Some(len) = tcb.next_new() {
            if tcb.config.defer_chunks && !repairing && self.waits(tcb, now) {
                return None;
            }
            return Some(self.send_new(tcb, len, now));
        }
        if self.state == RecoveryState::Recovery && tcb.config.recovery == Recovery::Sack {
            return self.last_resort(tcb, now);
        }
        None
    }

    /// Linux, `tcp_tso_should_defer()`: the rest of the window is less than a
    /// chunk, and the next ACK, which will allow more, is expected soon.
    fn waits(&self, tcb: &Tcb, now: Nanos) -> bool {
        let Some(first) = self.scoreboard.first() else {
            return false;
        };
        let last = tcb.last_sent.max(tcb.pacer.departure());
        if tcb.chunk > 0 || now.saturating_sub(last) > MS {
            return false;
        }
        let srtt = tcb.srtt().unwrap_or(0);
        let expected = first.sent + srtt;
        if expected > now + (srtt / 2).min(MS) {
            return false;
        }
        let mss = tcb.mss();
        let window = tcb.limited_cwnd();
        let left = window.saturating_sub(self.in_flight(tcb));
        let chunk = u64::from(tcb.chunk_segments()) * mss;
        left < chunk && left < window / 3 && tcb.unsent() > mss
    }

    /// RFC 6675 §4, NextSeg() rules 3 and 4.
    fn last_resort(&mut self, tcb: &Tcb, now: Nanos) -> Option<NextSegment> {
        if let Some(i) = self.scoreboard.next_unsacked(self.high_resent.max(tcb.una)) {
            let seg = *self.scoreboard.get(i)?;
            self.high_resent = seg.end();
            return self.resend(seg.seq, now);
        }
        if self.rescued {
            return None;
        }
        self.rescued = true;
        let i = self.scoreboard.last_unsacked()?;
        let seg = *self.scoreboard.get(i)?;
        if seg.mark.contains(Mark::RETRANS) {
            return None;
        }
        self.resend(seg.seq, now)
    }

    fn send_new(&mut self, tcb: &mut Tcb, len: u64, now: Nanos) -> NextSegment {
        let seq = tcb.nxt;
        tcb.nxt = seq + len;
        self.scoreboard.push(seq, len as u32, now);
        if let Some(rate) = &mut self.rate {
            rate.on_sent(now);
        }
        self.prr.out += 1;
        NextSegment {
            seq,
            len: len as u32,
            again: false,
        }
    }

    /// Retransmits the outstanding segment that begins at this number, if there is one.
    fn resend(&mut self, seq: u64, now: Nanos) -> Option<NextSegment> {
        let i = self.scoreboard.find(seq)?;
        let seg = self.scoreboard.resent(i, now)?;
        if let Some(rate) = &mut self.rate {
            rate.on_resent(i);
        }
        self.prr.out += 1;
        self.high_resent = self.high_resent.max(seg.end());
        // A tail loss probe belongs to no reduction.
        let repairing = self.state >= RecoveryState::Recovery;
        if let Some(undo) = self.undo.as_mut().filter(|_| repairing) {
            if !undo.any {
                undo.any = true;
                undo.at = now;
            }
            undo.resent += 1;
        }
        Some(NextSegment {
            seq,
            len: seg.len,
            again: true,
        })
    }
}
