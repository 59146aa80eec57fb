//! Loss recovery with selective acknowledgments.
//!
//! ```text
//!            loss found                    all that was out then is acknowledged
//!   Open ─────────────────▶ Recovery ──────────────────────────────────────────▶ Open
//!    │ ECN echo ▶ Reduced ────────────────────────────────────────────────────────┘
//!    └ timeout ─▶ Loss ───────────────────────────────────────────────────────────┘
//! ```
//!
//! RFC 6675 (duplicates above) or RFC 8985 (time, `rack.rs`) defines when a segment is lost.
//! The window follows RFC 6937 (`prr.rs`), or is set at once. The next segment is chosen by
//! RFC 6675's NextSeg(): lost segments, new data, and then segments that may be lost
//! (`next.rs`). The states and the undoing of unnecessary reductions are those of
//! Linux.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::Recovery;

use super::{Ack, LossRecovery, NextSegment};
use crate::packet::Packet;
use crate::tcp::control::SavedWindow;
use crate::tcp::delivery_rate::RateSampler;
use crate::tcp::recovery_state::RecoveryState;
use crate::tcp::scoreboard::Scoreboard;
use crate::tcp::tcb::{Gate, Tcb};
use news::News;
use prr::Prr;
use rack::Rack;
use timers::Probe;

mod model_based;
mod news;
mod next;
mod prr;
mod rack;
mod timers;

/// State of a sender with SACK.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selective {
    scoreboard: Scoreboard,
    state: RecoveryState,
    /// The state ends when this byte is acknowledged.
    recover: u64,
    /// The segment at this number leaves now, whatever the window.
    force: Option<u64>,
    /// Whether one new segment leaves now, whatever the window.
    force_new: bool,
    rack: Rack,
    probe: Option<Probe>,
    prr: Prr,
    undo: Option<Undo>,
    /// Segments that DSACKs have reported so far.
    dsacked: u64,
    /// RFC 6675: whether the rescue retransmission of this recovery was made.
    rescued: bool,
    /// RFC 6675: end of the highest segment that rule 3 has retransmitted.
    high_resent: u64,
    /// F-RTO (RFC 5682): whether no retransmission was needed so far, and whether new data go first.
    frto: bool,
    new_first: bool,
    /// The sampler for a congestion control that uses delivery-rate samples.
    rate: Option<Box<RateSampler>>,
}

/// The state before a reduction, until it is undone or the next one begins.
#[derive(Debug, Clone, Copy)]
struct Undo {
    window: SavedWindow,
    /// Nothing below this was retransmitted for the reduction.
    marker: u64,
    /// Retransmissions that no DSACK has reported yet.
    resent: u32,
    /// Whether anything was retransmitted.
    any: bool,
    /// When the first retransmission left.
    at: Nanos,
}

impl Undo {
    /// Whether DSACKs have reported every retransmission.
    fn by_dsack(&self) -> bool {
        self.any && self.resent == 0
    }
}

impl LossRecovery for Selective {
    fn on_established(&mut self, tcb: &mut Tcb, now: Nanos) {
        self.start_model(tcb, now);
    }

    fn on_supply(&mut self, tcb: &Tcb) {
        self.note_app_limited(tcb);
    }

    fn on_transmit_start(&mut self, tcb: &mut Tcb, now: Nanos) {
        self.restart_model(tcb, now);
    }

    fn on_ack(&mut self, tcb: &mut Tcb, ack: Ack<'_>) {
        let Ack { packet, now, .. } = ack;
        let out = self.scoreboard.len();
        let news = self.take_news(tcb, packet, now);
        let lost = self.scoreboard.lost();
        if tcb.config.recovery == Recovery::Rack {
            let counts = news.dsack && !news.dsack_of_probe;
            self.rack.note_dsack(counts, tcb.una, tcb.nxt);
        }
        self.probe_acked(tcb, packet.ack, &news);
        self.act(tcb, &ack, &news);
        let new_loss = self.scoreboard.lost() > lost;
        if news.advanced || self.sack_renews(news.sacked_oldest, now) {
            self.renew_timer(tcb, now);
        }
        if self.rate.is_some() {
            self.steer_model(tcb, u64::from(news.delivered), now);
        } else {
            self.update_congestion_state(tcb, &news, u64::from(out), new_loss, now);
        }
    }

    fn on_timeout(&mut self, tcb: &mut Tcb, now: Nanos) {
        let lost_before = self.state == RecoveryState::Loss;
        let again = lost_before && tcb.rtt.backoff() > 0;
        let fresh = self.state < RecoveryState::Recovery;
        if !again && (fresh || tcb.una >= self.recover || lost_before) {
            self.undo = Some(Undo {
                window: tcb.saved_window(),
                marker: tcb.una,
                resent: self.scoreboard.retrans(),
                any: self.scoreboard.retrans() > 0,
                at: now,
            });
            let out = self.in_flight(tcb);
            tcb.window.ssthresh = tcb.threshold(out);
        }
        self.mark_all_lost(tcb, now);
        let flight = u64::from(self.scoreboard.in_flight());
        tcb.window.set((flight + 1) * tcb.mss());
        tcb.forget_growth();
        self.frto = tcb.config.undo && (fresh || again);
        self.state = RecoveryState::Loss;
        self.recover = tcb.nxt;
        self.probe = None;
        self.force = Some(tcb.una);
        self.lose_model(tcb, now);
    }

    fn on_probe_timer(&mut self, tcb: &mut Tcb, now: Nanos) {
        self.probe_tail(tcb, now);
    }

    fn on_reorder_timer(&mut self, tcb: &mut Tcb, now: Nanos) {
        self.end_reordering(tcb, now);
    }

    fn next_segment(&mut self, tcb: &mut Tcb, now: Nanos) -> Option<NextSegment> {
        let gate = Gate {
            past_rate: self.force.is_some() || self.force_new,
            ..Gate::default()
        };
        if !tcb.may_leave(now, tcb.limited_cwnd(), gate) {
            return None;
        }
        let next = self.choose(tcb, now);
        if next.is_none() {
            // Nothing leaves: give the segment back to the burst.
            tcb.burst = tcb.burst.saturating_add(1);
        }
        next
    }

    fn on_sent(&mut self, tcb: &mut Tcb, next: &NextSegment, now: Nanos) {
        let flight = u64::from(self.scoreboard.len()) * tcb.mss();
        let full = self.in_flight(tcb) + tcb.mss() > tcb.window.cwnd;
        tcb.validation.note(tcb.una, tcb.nxt, flight, full);
        self.timer_after_send(tcb, next, now);
    }

    fn in_flight(&self, tcb: &Tcb) -> u64 {
        u64::from(self.scoreboard.in_flight()) * tcb.mss()
    }

    fn send_window(&self, tcb: &Tcb) -> u64 {
        tcb.window.cwnd
    }
}

impl Selective {
    /// The initial state. `samples` means that delivery-rate samples are taken.
    pub fn new(samples: bool) -> Selective {
        Selective {
            rate: samples.then(|| Box::new(RateSampler::new())),
            ..Selective::default()
        }
    }

    /// Changes state after an ACK.
    fn act(&mut self, tcb: &mut Tcb, ack: &Ack<'_>, news: &News) {
        let Ack { packet, now, ece } = *ack;
        self.new_first = false;
        if self.state == RecoveryState::Loss && self.leave_loss(tcb, packet, news) {
            return;
        }
        if tcb.una >= self.recover {
            match self.state {
                // Data that carry CWR must have been acknowledged.
                RecoveryState::Reduced if tcb.una > self.recover => self.end_reduction(tcb),
                RecoveryState::Recovery => {
                    if !self.try_undo(tcb, packet) {
                        self.end_reduction(tcb);
                        self.rack.forget_step();
                    }
                    self.state = RecoveryState::Open;
                }
                RecoveryState::Loss => {
                    self.try_undo(tcb, packet);
                    self.state = RecoveryState::Open;
                }
                _ => {}
            }
        }
        if self.state == RecoveryState::Recovery && self.undo_early(tcb, packet, news) {
            self.state = RecoveryState::Open;
        }
        if self.state == RecoveryState::Open && news.dsack {
            self.undo_late(tcb);
        }
        if !(self.state == RecoveryState::Loss && self.new_first) {
            self.find_losses(tcb, now);
        }
        if self.state < RecoveryState::Recovery && self.scoreboard.lost() > 0 {
            self.enter_recovery(tcb, now);
        } else if self.state == RecoveryState::Open && ece {
            self.start_reduction(tcb, RecoveryState::Reduced);
            tcb.stats.ecn_reductions += 1;
            tcb.owe_cwr = true;
        }
    }

    fn enter_recovery(&mut self, tcb: &mut Tcb, now: Nanos) {
        tcb.stats.fast_recoveries += 1;
        let window = tcb.saved_window();
        let fresh = self.state == RecoveryState::Open;
        if fresh {
            self.start_reduction(tcb, RecoveryState::Recovery);
        }
        self.state = RecoveryState::Recovery;
        self.recover = tcb.nxt;
        self.rescued = false;
        self.high_resent = 0;
        self.undo = fresh.then_some(Undo {
            window,
            marker: tcb.una,
            resent: self.scoreboard.retrans(),
            any: false,
            at: now,
        });
        // RFC 6675 §5 step 4.3: the first retransmission leaves, whatever the pipe.
        if !tcb.config.prr {
            self.force_lost();
        }
    }

    /// Makes the first lost segment leave now, if there is one.
    fn force_lost(&mut self) {
        if let Some(i) = self.scoreboard.next_lost() {
            self.force = self.scoreboard.get(i).map(|seg| seg.seq);
        }
    }

    /// Starts a reduction: the threshold comes down; the window follows by PRR, or at once.
    fn start_reduction(&mut self, tcb: &mut Tcb, state: RecoveryState) {
        self.prr = Prr {
            prior: tcb.window.cwnd / tcb.mss(),
            ..Prr::default()
        };
        tcb.start_reduction(self.in_flight(tcb));
        self.recover = tcb.nxt;
        self.state = state;
        self.probe = None;
        self.undo = None;
    }

    fn end_reduction(&mut self, tcb: &mut Tcb) {
        if self.state == RecoveryState::Reduced || self.undo.is_some() {
            tcb.end_reduction();
        }
        self.state = RecoveryState::Open;
    }

    /// Restores the window if nothing was lost after all; returns whether it did.
    fn try_undo(&mut self, tcb: &mut Tcb, p: &Packet) -> bool {
        let Some(undo) = self.undo.filter(|_| tcb.config.undo) else {
            return false;
        };
        // Eifel (RFC 3522): the echo is older than the first retransmission.
        let by_time = undo.any && tcb.config.timestamps && p.tsecr < undo.at;
        if !(undo.by_dsack() || by_time || !undo.any) {
            return false;
        }
        self.take_back(tcb, &undo);
        true
    }

    /// Undoes a reduction after the recovery, when the DSACKs of its last retransmissions arrive.
    fn undo_late(&mut self, tcb: &mut Tcb) {
        if let Some(undo) = self.undo.filter(Undo::by_dsack)
            && tcb.config.undo
        {
            self.take_back(tcb, &undo);
        }
    }

    fn take_back(&mut self, tcb: &mut Tcb, undo: &Undo) {
        self.undo_model(tcb);
        tcb.undo_reduction(&undo.window);
        self.undo = None;
    }

    /// Undoes a reduction during recovery, when DSACKs have reported every retransmission or a
    /// partial ACK answers an original.
    fn undo_early(&mut self, tcb: &mut Tcb, p: &Packet, news: &News) -> bool {
        let Some(undo) = self.undo.filter(|u| u.any && tcb.config.undo) else {
            return false;
        };
        let delayed = news.advanced
            && tcb.config.timestamps
            && p.tsecr < undo.at
            && self.scoreboard.retrans() == 0;
        if !(delayed || news.dsack && undo.by_dsack()) || !self.try_undo(tcb, p) {
            return false;
        }
        self.scoreboard.clear_lost();
        true
    }

    /// Handles an ACK after a timeout; true if the timeout was spurious (RFC 5682 §3.1, with SACK).
    fn leave_loss(&mut self, tcb: &mut Tcb, p: &Packet, news: &News) -> bool {
        let eifel = news.advanced
            && self
                .undo
                .is_some_and(|u| u.any && tcb.config.timestamps && p.tsecr < u.at);
        let original = self.frto && news.original;
        if tcb.config.undo && (eifel || original) {
            if let Some(undo) = &mut self.undo {
                undo.any = false;
            }
            self.try_undo(tcb, p);
            self.scoreboard.clear_lost();
            self.frto = false;
            self.state = RecoveryState::Open;
            return true;
        }
        if self.frto {
            if tcb.nxt > self.recover {
                if news.sacked || !news.advanced {
                    self.frto = false;
                }
            } else if news.advanced && tcb.una < self.recover {
                self.recover = tcb.nxt;
                self.new_first = tcb.next_new().is_some();
                self.frto = self.new_first;
            }
        }
        false
    }

    /// Sets the window after an ACK, unless the congestion control is model-based. `out`
    /// segments were outstanding before it.
    fn update_congestion_state(
        &mut self,
        tcb: &mut Tcb,
        news: &News,
        out: u64,
        new_loss: bool,
        now: Nanos,
    ) {
        let delivered = u64::from(news.delivered);
        match self.state {
            RecoveryState::Recovery | RecoveryState::Reduced if tcb.config.prr => {
                if delivered == 0 {
                    return;
                }
                let mss = tcb.mss();
                let in_flight = u64::from(self.scoreboard.in_flight());
                let advanced = news.advanced && !new_loss;
                let target = tcb.window.ssthresh / mss;
                let may = self.prr.send(target, in_flight, delivered, advanced);
                tcb.window.set((in_flight + may) * mss);
            }
            RecoveryState::Recovery | RecoveryState::Reduced => {}
            RecoveryState::Open | RecoveryState::Loss if news.advanced => {
                let segments = delivered.min(out.max(1));
                tcb.grow(segments * tcb.mss(), now);
            }
            RecoveryState::Open | RecoveryState::Loss => {}
        }
    }

    fn mark_all_lost(&mut self, tcb: &Tcb, now: Nanos) {
        for i in 0..self.scoreboard.len() as usize {
            let Some(seg) = self.scoreboard.get(i).copied() else {
                break;
            };
            let recent = tcb.config.recovery == Recovery::Rack
                && i > 0
                && self.rack.remaining(&seg, 0, now) > 0;
            if !recent {
                self.scoreboard.mark_lost(i);
            }
        }
    }
}
