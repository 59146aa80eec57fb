//! Loss recovery by cumulative ACKs alone: Tahoe, Reno, NewReno.
//!
//! The third duplicate ACK signals a loss. Tahoe restarts from there. Reno
//! and NewReno retransmit the missing segment and let each further duplicate
//! clock out a new one, by an inflated window (RFC 5681 §3.2). NewReno stays in
//! recovery until everything outstanding at its start is acknowledged, and takes a
//! partial ACK as the sign of the next hole (RFC 6582). A timeout goes back to the first
//! missing byte and retransmits everything after it, as the one-way agents of ns-2
//! and BSD do.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{Exit, Halve, PartialAck, Recovery};

use super::{Ack, LossRecovery, NextSegment};
use crate::packet::{Flags, Packet};
use crate::tcp::tcb::{Gate, Tcb};

/// State of Tahoe, Reno and NewReno.
#[derive(Debug, Clone, Default)]
pub(crate) struct Classic {
    dupacks: u32,
    /// Segments that Limited Transmit adds to the window.
    lent: u32,
    /// End of the data sent when the last reduction was made.
    recover: u64,
    /// Whether fast recovery is active.
    recovering: bool,
    /// Whether a partial ACK came in this recovery.
    partial: bool,
    /// Bytes that duplicates add to the window during recovery.
    inflation: u64,
    /// Whether to retransmit the segment at `una` whatever the window.
    resend: bool,
    /// The segment timed for the RTT when there are no timestamps.
    timed: Option<Timed>,
    /// No second ECN reduction before this byte is acknowledged.
    ecn_recover: u64,
}

/// A segment whose acknowledgment gives an RTT sample (RFC 6298 §3).
#[derive(Debug, Clone, Copy)]
struct Timed {
    /// Sequence number of the first byte after it.
    end: u64,
    /// When it left.
    sent: Nanos,
}

impl LossRecovery for Classic {
    fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack<'_>) {
        let Ack { packet, now, ece } = ack;
        if ece {
            self.on_ece(tcb, packet.ack);
        }
        let acked = packet.ack - tcb.una;
        if acked == 0 {
            if tcb.is_duplicate(packet) {
                self.on_duplicate(tcb, now);
                self.limit_burst(tcb);
            }
            return;
        }
        let partial = self.recovering
            && tcb.config.recovery == Recovery::NewReno
            && packet.ack < self.recover;
        tcb.take_ack(packet);
        self.sample(tcb, packet, now);
        if partial {
            self.on_partial_ack(tcb, acked, now);
            self.limit_burst(tcb);
            return;
        }
        tcb.sample_for_bursts(packet, now);
        let ended = std::mem::take(&mut self.recovering);
        self.dupacks = 0;
        self.lent = 0;
        self.inflation = 0;
        tcb.rearm(now);
        if ended {
            leave_recovery(tcb);
        }
        if !(ece || ended && tcb.config.recovery_exit != Exit::Grow) {
            tcb.grow(acked, now);
        }
    }

    fn on_timeout(&mut self, tcb: &mut Tcb, _now: Nanos) {
        let mss = tcb.mss();
        // The retransmission timed out again: the threshold stays (RFC 5681 §3.1).
        if tcb.config.halve == Halve::Window || tcb.rtt.backoff() == 0 {
            tcb.halve(0);
        }
        tcb.window.set(mss);
        tcb.forget_growth();
        tcb.nxt = tcb.una;
        *self = Classic {
            recover: tcb.max,
            ecn_recover: self.ecn_recover,
            // ns-2's Tahoe continues counting: no second Limited Transmit.
            dupacks: match tcb.config.recovery {
                Recovery::Tahoe => self.dupacks,
                _ => 0,
            },
            ..Classic::default()
        };
    }

    #[inline]
    fn next_segment(&mut self, tcb: &mut Tcb, now: Nanos) -> Option<NextSegment> {
        if std::mem::take(&mut self.resend) && tcb.max > tcb.una {
            let len = tcb.mss().min(tcb.max - tcb.una);
            tcb.nxt = tcb.nxt.max(tcb.una + len);
            return Some(NextSegment {
                seq: tcb.una,
                len: len as u32,
                again: true,
            });
        }
        let len = tcb.next_new()?;
        let window = self.send_window(tcb).min(tcb.config.window_limit);
        let end = tcb.nxt + len;
        if end - tcb.una > window && tcb.max > tcb.una {
            let flight = self.in_flight(tcb);
            tcb.validation.note(tcb.una, tcb.nxt, flight, true);
            return None;
        }
        if !tcb.may_leave(now, window, self.gate(tcb)) {
            return None;
        }
        let seq = std::mem::replace(&mut tcb.nxt, end);
        let flight = self.in_flight(tcb);
        tcb.validation.note(tcb.una, tcb.nxt, flight, false);
        Some(NextSegment {
            seq,
            len: len as u32,
            // `nxt` moves back after a timeout.
            again: seq < tcb.max,
        })
    }

    #[inline]
    fn on_sent(&mut self, _tcb: &mut Tcb, next: &NextSegment, now: Nanos) {
        let end = next.end();
        if !next.again {
            self.timed.get_or_insert(Timed { end, sent: now });
        } else if self
            .timed
            .is_some_and(|timed| next.seq < timed.end && end >= timed.end)
        {
            // Retransmitted: which copy is acknowledged is unknown (Karn).
            self.timed = None;
        }
    }

    fn in_flight(&self, tcb: &Tcb) -> u64 {
        tcb.nxt - tcb.una
    }

    fn send_window(&self, tcb: &Tcb) -> u64 {
        let mut window = tcb.window.cwnd;
        if self.recovering {
            window += self.inflation;
        } else if tcb.config.limited_transmit && self.dupacks < tcb.config.dupthresh {
            window += u64::from(self.lent) * tcb.mss();
        }
        window
    }
}

impl Classic {
    /// Whether duplicates were counted, but too few to signal a loss.
    fn is_first(&self, dupthresh: u32) -> bool {
        self.dupacks > 0 && self.dupacks < dupthresh
    }

    /// The exemptions of the next segment from limits other than the window.
    fn gate(&self, tcb: &Tcb) -> Gate {
        let limits = tcb.config.recovery_burst > 0;
        Gate {
            // Limited Transmit ignores bursts.
            past_bursts: limits && self.is_first(tcb.config.dupthresh),
            past_rate: false,
            burst: (limits && self.dupacks > 0).then_some(tcb.config.recovery_burst),
        }
    }

    /// Handles an ECN echo: one reduction per window of data (RFC 3168 §6.1.2).
    fn on_ece(&mut self, tcb: &mut Tcb, ack: u64) {
        if ack <= self.ecn_recover || self.recovering {
            return;
        }
        tcb.stats.ecn_reductions += 1;
        tcb.halve(0);
        self.ecn_recover = tcb.max;
        tcb.owe_cwr = true;
    }

    /// Takes an RTT sample from timestamps (RFC 7323 §4.3), else from the one timed segment
    /// (RFC 6298 §3).
    fn sample(&mut self, tcb: &mut Tcb, p: &Packet, now: Nanos) {
        let timed = self.timed.take_if(|timed| p.ack >= timed.end);
        if timed.is_some() {
            tcb.rtt.reset_backoff();
        }
        if p.flags.contains(Flags::SYNTHETIC) {
            return;
        }
        let sent = if tcb.config.timestamps {
            tcb.rtt.reset_backoff();
            Some(p.tsecr)
        } else {
            timed.map(|timed| timed.sent)
        };
        if let Some(sent) = sent.filter(|sent| *sent <= now) {
            tcb.sample(sent, now);
            tcb.note_delay(now - sent, now);
        }
    }

    /// ns-2's NewReno: while it counts duplicates, the first two let one segment leave each,
    /// whatever the window, and later ACKs at most two.
    fn limit_burst(&self, tcb: &mut Tcb) {
        let most = tcb.config.recovery_burst;
        if most > 0 {
            tcb.burst = if self.is_first(tcb.config.dupthresh) {
                u32::from(tcb.config.limited_transmit)
            } else {
                most
            };
        }
    }

    /// Handles a partial ACK (RFC 6582 §3.2 step 3).
    fn on_partial_ack(&mut self, tcb: &mut Tcb, acked: u64, now: Nanos) {
        let mss = tcb.mss();
        // Deflate by what was acknowledged, less the segment that leaves for it.
        if self.inflation > acked {
            self.inflation -= acked.saturating_sub(mss);
        } else {
            let below = acked - self.inflation;
            self.inflation = mss;
            tcb.window.cwnd = tcb.window.cwnd.saturating_sub(below).max(mss);
        }
        let first = !std::mem::replace(&mut self.partial, true);
        self.resend = true;
        if first || tcb.config.partial_ack == PartialAck::SlowButSteady {
            tcb.rearm(now);
        }
    }

    fn on_duplicate(&mut self, tcb: &mut Tcb, now: Nanos) {
        tcb.stats.dup_acks += 1;
        self.dupacks = self.dupacks.saturating_add(1);
        self.lent = self.dupacks;
        if self.dupacks > tcb.config.dupthresh && self.recovering {
            self.inflation += tcb.mss();
        }
        if self.dupacks != tcb.config.dupthresh || self.recovering {
            return;
        }
        // Duplicate ACKs caused by retransmissions of a recovery or a timeout are no new loss
        // (RFC 6582 §4.1; the first window is exempt).
        if tcb.config.avoid_repeat && tcb.una <= self.recover && tcb.una != 0 {
            return;
        }
        self.enter_recovery(tcb, now);
    }

    /// Enters recovery after duplicates have shown a loss.
    fn enter_recovery(&mut self, tcb: &mut Tcb, now: Nanos) {
        let mss = tcb.mss();
        tcb.stats.fast_recoveries += 1;
        // Segments sent by Limited Transmit do not count (RFC 5681 §3.2 step 2).
        let extra = if tcb.config.limited_transmit {
            u64::from(tcb.config.dupthresh - 1) * mss
        } else {
            0
        };
        tcb.halve(extra);
        self.recover = tcb.max;
        self.timed = None;
        if tcb.config.recovery == Recovery::Tahoe {
            tcb.window.set(mss);
            tcb.nxt = tcb.una;
        } else {
            self.recovering = true;
            self.partial = false;
            self.inflation = u64::from(tcb.config.dupthresh) * mss;
            self.resend = true;
        }
        tcb.arm(now);
    }
}

/// Sets the window when everything outstanding at the recovery's start is acknowledged.
fn leave_recovery(tcb: &mut Tcb) {
    match tcb.config.recovery_exit {
        Exit::Grow => {}
        Exit::Ssthresh => tcb.window.set(tcb.window.ssthresh),
        // RFC 6582 §3.2 step 3, option (1).
        Exit::Flight => {
            let mss = tcb.mss();
            let flight = (tcb.nxt - tcb.una).max(mss);
            tcb.window.set(tcb.window.ssthresh.min(flight + mss));
        }
    }
}
