//! Loss recovery with selective acknowledgments.
//!
//! ```text
//!            loss found                    all that was out then is acknowledged
//!   Open ─────────────────▶ Recovery ──────────────────────────────────────────▶ Open
//!    │ ECN echo ▶ Reduce ─────────────────────────────────────────────────────────┘
//!    └ timeout ─▶ Lost ───────────────────────────────────────────────────────────┘
//! ```
//!
//! What a loss is, says RFC 6675 (duplicates above) or RFC 8985 (time, `rack.rs`).
//! How the window comes down, says RFC 6937 (PRR), or it is set at once. What is
//! sent next, says RFC 6675's NextSeg(): what is lost, new data, and then what may
//! be lost. The states and the undoing of needless reductions are those of Linux.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::Recovery;

use super::delivery_rate::RateSampler;
use super::rack::Rack;
use super::scoreboard::{Mark, Scoreboard, Seg};
use super::sender::Sender;
use crate::packet::{Block, Packet};

const MS: Nanos = 1_000_000;

/// Where recovery stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    #[default]
    Open,
    /// The window comes down for an ECN echo.
    Reduce,
    /// Losses are repaired.
    Recovery,
    /// After a timeout.
    Lost,
}

/// What a sender with SACK remembers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selective {
    pub board: Scoreboard,
    pub state: State,
    /// The state ends when this is acknowledged.
    pub recover: u64,
    /// The segment at this number leaves now, whatever the window.
    pub force: Option<u64>,
    /// One new segment leaves now, whatever the window.
    pub force_new: bool,
    pub rack: Rack,
    prr: Prr,
    undo: Option<Undo>,
    /// RFC 6675: the rescue retransmission of this recovery was made.
    rescued: bool,
    /// RFC 6675: the highest that rule 3 has sent again.
    high_resent: u64,
    /// F-RTO (RFC 5682): no retransmission was needed so far; new data go first.
    frto: bool,
    new_first: bool,
    /// For a congestion control that works from delivery-rate samples.
    pub rate: Option<Box<RateSampler>>,
}

/// Proportional rate reduction (RFC 6937), in segments.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prr {
    pub prior: u64,
    pub delivered: u64,
    pub out: u64,
}

impl Prr {
    /// How many segments may leave for an ACK that delivered `delivered` of them.
    /// `advanced`: it moved the cumulative number and no new loss was found, so that
    /// the window may grow towards its target as in slow start.
    pub fn send(&mut self, target: u64, in_flight: u64, delivered: u64, advanced: bool) -> u64 {
        self.delivered += delivered;
        let may = if in_flight > target {
            (target * self.delivered)
                .div_ceil(self.prior.max(1))
                .saturating_sub(self.out)
        } else {
            let conserve = self.delivered.saturating_sub(self.out).max(delivered);
            (conserve + u64::from(advanced)).min(target - in_flight)
        };
        // The first retransmission leaves in any case.
        may.max(u64::from(self.out == 0))
    }
}

/// What was before a reduction, until the loss is proven.
#[derive(Debug, Clone, Copy)]
struct Undo {
    cwnd: u64,
    ssthresh: u64,
    /// Retransmissions that no DSACK has reported yet.
    resent: u32,
    any: bool,
    /// When the first of them left.
    at: Nanos,
}

/// What an ACK told.
#[derive(Debug, Clone, Copy, Default)]
struct News {
    /// Segments that it newly covers, by number or by SACK.
    delivered: u32,
    advanced: bool,
    sacked: bool,
    dsack: bool,
    /// Data that were sent once were delivered.
    original: bool,
    /// When the oldest and the newest segment left that it newly acknowledges and
    /// that were sent once; the same of those it SACKs.
    oldest: Option<Nanos>,
    newest: Option<Nanos>,
    sacked_oldest: Option<Nanos>,
    sacked_newest: Option<Nanos>,
    /// The lowest segment that was SACKed or acknowledged late.
    low: Option<u64>,
}

impl Sender {
    /// Takes the state out, so that both can be changed; put it back with
    /// [`Sender::put`].
    fn with<T>(&mut self, f: impl FnOnce(&mut Sender, &mut Selective) -> T) -> Option<T> {
        let mut s = self.selective.take()?;
        let result = f(self, &mut s);
        self.selective = Some(s);
        Some(result)
    }

    /// An ACK that is not older than the last.
    pub(super) fn selective_ack(&mut self, p: &Packet, now: Nanos, ece: bool) {
        self.with(|t, s| t.selective_ack_with(s, p, now, ece));
    }

    fn selective_ack_with(&mut self, s: &mut Selective, p: &Packet, now: Nanos, ece: bool) {
        let before = s.board.high_sacked();
        let out = s.board.len();
        if let Some(rate) = &mut s.rate {
            rate.prior_in_flight = u64::from(s.board.in_flight());
            rate.prior_lost = s.board.losses();
        }
        let duplicate = self.is_duplicate(p);
        let mut news = News {
            advanced: p.ack > self.una,
            ..News::default()
        };
        self.note_cumulative(s, p, now, before, &mut news);
        self.note_sack(s, p, now, before, &mut news);
        self.stats.dup_acks += u64::from(duplicate);
        self.note_rtt(s, p, now, &news);
        self.note_order(s, before, &news);
        let lost = s.board.lost();
        if self.config.recovery == Recovery::Rack {
            s.rack.note_dsack(news.dsack, self.una, self.nxt);
        }
        if news.advanced && s.rack.probe.is_some() {
            self.probe_acked(s, p.ack, news.dsack);
        }
        self.act(s, p, now, ece, &news);
        let new_loss = s.board.lost() > lost;
        if news.advanced || self.sack_renews(s, news.sacked_oldest, now) {
            self.renew_timer(s, now);
        }
        self.steer(s, &news, u64::from(out), new_loss, now);
    }

    /// What the cumulative number covers leaves the board.
    fn note_cumulative(
        &mut self,
        s: &mut Selective,
        p: &Packet,
        now: Nanos,
        before: u64,
        news: &mut News,
    ) {
        if !news.advanced {
            return;
        }
        while let Some(seg) = s.board.pop_below(p.ack) {
            let fresh = !seg.mark.contains(Mark::SACKED);
            if let Some(rate) = &mut s.rate {
                if fresh {
                    rate.on_delivered(0, seg.sent, seg.end());
                }
                rate.pop();
            }
            if !fresh {
                continue;
            }
            s.rack.advance(&seg, now);
            news.delivered += 1;
            if seg.mark.contains(Mark::EVER) {
                continue;
            }
            news.original = true;
            news.oldest.get_or_insert(seg.sent);
            news.newest = Some(seg.sent);
            if seg.end() <= before {
                news.low.get_or_insert(seg.seq);
            }
        }
        s.board.trim(p.ack);
        self.take_ack(p);
    }

    fn note_sack(
        &mut self,
        s: &mut Selective,
        p: &Packet,
        now: Nanos,
        before: u64,
        news: &mut News,
    ) {
        for (i, block) in p.sack.blocks().iter().enumerate() {
            if i == 0 && is_dsack(p) {
                news.dsack = true;
                if let Some(undo) = &mut s.undo {
                    undo.resent = undo.resent.saturating_sub(1);
                }
                continue;
            }
            let Selective {
                board, rack, rate, ..
            } = s;
            board.sack(*block, |index, seg| {
                if let Some(rate) = rate {
                    rate.on_delivered(index, seg.sent, seg.end());
                }
                news.delivered += 1;
                news.sacked = true;
                rack.advance(seg, now);
                if !seg.mark.contains(Mark::EVER) {
                    news.original = true;
                    news.sacked_oldest.get_or_insert(seg.sent);
                    news.sacked_newest = Some(seg.sent);
                    if seg.end() <= before {
                        news.low = Some(news.low.map_or(seg.seq, |low| low.min(seg.seq)));
                    }
                }
            });
        }
    }

    /// One RTT sample an ACK: of the oldest segment that it newly acknowledges, else
    /// that it SACKs, else by timestamps (RFC 7323 §4.1, RFC 6298 §3).
    fn note_rtt(&mut self, s: &mut Selective, p: &Packet, now: Nanos, news: &News) {
        if self.is_synthetic(p) {
            return;
        }
        if let Some(sent) = news.oldest.or(news.sacked_oldest) {
            self.sample(sent, now);
            self.rtt.reset_backoff();
        } else if news.advanced && self.config.timestamps && p.tsecr <= now {
            self.sample(p.tsecr, now);
            self.rtt.reset_backoff();
        }
        if let Some(sent) = news.newest.or(news.sacked_newest) {
            s.rack.min_rtt = s.rack.min_rtt.min((now - sent).max(1));
            if let Some(rate) = &mut s.rate {
                rate.rtt = Some(now - sent);
            }
            self.note_delay(now - sent, now);
        }
    }

    /// A segment that was delivered late but never sent again: the path reorders.
    fn note_order(&mut self, s: &mut Selective, before: u64, news: &News) {
        if let Some(low) = news.low {
            s.rack
                .reordered(before.saturating_sub(low), self.config.mss);
        }
    }

    /// The states.
    fn act(&mut self, s: &mut Selective, p: &Packet, now: Nanos, ece: bool, news: &News) {
        s.new_first = false;
        if s.state == State::Lost && self.leave_lost(s, p, news) {
            return;
        }
        if self.una >= s.recover {
            match s.state {
                // The answer to the echo must have been heard.
                State::Reduce if self.una > s.recover => self.end_reduction(s),
                State::Recovery => {
                    if !self.try_undo(s, p) {
                        self.end_reduction(s);
                        s.rack.forget_step();
                    }
                    s.undo = None;
                    s.state = State::Open;
                }
                State::Lost => {
                    self.try_undo(s, p);
                    s.undo = None;
                    s.state = State::Open;
                }
                _ => {}
            }
        }
        if s.state == State::Recovery && self.undo_early(s, p, news) {
            s.state = State::Open;
        }
        if !(s.state == State::Lost && s.new_first) {
            self.find_losses(s, now);
        }
        let open = matches!(s.state, State::Open | State::Reduce);
        if open && s.board.lost() > 0 {
            self.enter_recovery(s, now);
        } else if s.state == State::Open && ece {
            self.start_reduction(s, State::Reduce);
            self.stats.ecn_reductions += 1;
            self.owe_cwr = true;
        }
    }

    fn find_losses(&mut self, s: &mut Selective, now: Nanos) {
        if self.config.recovery == Recovery::Rack {
            self.rack_losses(s, now);
        } else {
            s.board.judge(self.config.dupthresh, self.config.mss);
        }
    }

    pub(super) fn enter_recovery(&mut self, s: &mut Selective, now: Nanos) {
        self.stats.fast_recoveries += 1;
        let (cwnd, ssthresh) = (self.window.cwnd, self.window.ssthresh);
        let fresh = s.state == State::Open;
        if fresh {
            self.start_reduction(s, State::Recovery);
        }
        s.state = State::Recovery;
        s.recover = self.nxt;
        s.rescued = false;
        s.high_resent = 0;
        s.undo = fresh.then_some(Undo {
            cwnd,
            ssthresh,
            resent: s.board.retrans(),
            any: false,
            at: now,
        });
        // RFC 6675 §5 step 4.3: the first one leaves, whatever the pipe.
        if !self.config.prr
            && let Some(i) = s.board.next_lost()
        {
            s.force = s.board.get(i).map(|seg| seg.seq);
        }
    }

    /// The threshold comes down; the window follows with PRR, or at once.
    pub(super) fn start_reduction(&mut self, s: &mut Selective, state: State) {
        let before = self.window.cwnd;
        let out = u64::from(s.board.in_flight()) * self.mss();
        let target = self.threshold(out);
        let gradual = self.config.prr || self.control.is_model_based();
        self.window.set(if gradual { before } else { target });
        self.window.ssthresh = target;
        s.recover = self.nxt;
        s.state = state;
        s.rack.probe = None;
        s.prr = Prr {
            prior: before / self.mss(),
            ..Prr::default()
        };
    }

    pub(super) fn end_reduction(&mut self, s: &mut Selective) {
        let reduced = s.state == State::Reduce || s.undo.is_some();
        if reduced && !self.control.is_model_based() {
            self.window.set(self.window.ssthresh);
        }
        s.state = State::Open;
    }

    /// Was nothing lost after all? Then the window is what it was.
    fn try_undo(&mut self, s: &mut Selective, p: &Packet) -> bool {
        let Some(undo) = s.undo.filter(|_| self.config.undo) else {
            return false;
        };
        let by_dsack = undo.any && undo.resent == 0;
        // Eifel (RFC 3522): the echo is older than the first retransmission.
        let by_time = undo.any && self.config.timestamps && p.tsecr < undo.at;
        if !(by_dsack || by_time || !undo.any) {
            return false;
        }
        if self.control.is_model_based() {
            self.undo_model(s);
        } else {
            self.window.set(self.window.cwnd.max(undo.cwnd));
        }
        self.window.ssthresh = self.window.ssthresh.max(undo.ssthresh);
        self.stats.undos += 1;
        s.undo = None;
        true
    }

    /// In the middle of a recovery: DSACKs have reported every retransmission, or a
    /// partial ACK answers an original.
    fn undo_early(&mut self, s: &mut Selective, p: &Packet, news: &News) -> bool {
        let Some(undo) = s.undo.filter(|u| u.any && self.config.undo) else {
            return false;
        };
        let delayed =
            news.advanced && self.config.timestamps && p.tsecr < undo.at && s.board.retrans() == 0;
        if !(delayed || news.dsack && undo.resent == 0) || !self.try_undo(s, p) {
            return false;
        }
        s.board.forgive();
        true
    }

    /// After a timeout; true if it was spurious (RFC 5682 §3.1, with SACK).
    fn leave_lost(&mut self, s: &mut Selective, p: &Packet, news: &News) -> bool {
        let eifel = news.advanced
            && s.undo
                .is_some_and(|u| u.any && self.config.timestamps && p.tsecr < u.at);
        let original = s.frto && news.original;
        if self.config.undo && (eifel || original) {
            if let Some(undo) = &mut s.undo {
                undo.any = false;
            }
            self.try_undo(s, p);
            s.board.forgive();
            s.frto = false;
            s.state = State::Open;
            return true;
        }
        if s.frto {
            if self.nxt > s.recover {
                if news.sacked || !news.advanced {
                    s.frto = false;
                }
            } else if news.advanced && self.una < s.recover {
                s.recover = self.nxt;
                s.new_first = self.next_new().is_some();
                s.frto = s.new_first;
            }
        }
        false
    }

    /// The window after an ACK.
    fn steer(&mut self, s: &mut Selective, news: &News, out: u64, new_loss: bool, now: Nanos) {
        let delivered = u64::from(news.delivered);
        if s.rate.is_some() {
            self.steer_model(s, delivered, now);
            return;
        }
        match s.state {
            State::Recovery | State::Reduce if self.config.prr => {
                if delivered == 0 {
                    return;
                }
                let mss = self.mss();
                let in_flight = u64::from(s.board.in_flight());
                let advanced = news.advanced && !new_loss;
                let may = s
                    .prr
                    .send(self.window.ssthresh / mss, in_flight, delivered, advanced);
                self.window.set((in_flight + may) * mss);
            }
            State::Recovery | State::Reduce => {}
            State::Open | State::Lost if news.advanced => {
                let segments = delivered.min(out.max(1));
                self.grow(segments * self.mss(), now);
            }
            State::Open | State::Lost => {}
        }
    }

    /// The retransmission timer fired.
    pub(super) fn selective_timeout(&mut self, now: Nanos) {
        self.with(|t, s| {
            let again = s.state == State::Lost && t.rtt.backoff() > 0;
            let fresh = matches!(s.state, State::Open | State::Reduce);
            if !again && (fresh || t.una >= s.recover || s.state == State::Lost) {
                s.undo = Some(Undo {
                    cwnd: t.window.cwnd,
                    ssthresh: t.window.ssthresh,
                    resent: s.board.retrans(),
                    any: s.board.retrans() > 0,
                    at: now,
                });
                let out = u64::from(s.board.in_flight()) * t.mss();
                t.window.ssthresh = t.threshold(out);
            }
            t.mark_all_lost(s, now);
            let flight = u64::from(s.board.in_flight());
            t.window.set((flight + 1) * t.mss());
            t.forget_growth();
            s.frto = t.config.undo && (fresh || again);
            s.state = State::Lost;
            s.recover = t.nxt;
            s.rack.probe = None;
            s.force = Some(t.una);
            t.lose_model(s, now);
        });
    }

    fn mark_all_lost(&self, s: &mut Selective, now: Nanos) {
        for i in 0..s.board.len() as usize {
            let Some(seg) = s.board.get(i).copied() else {
                break;
            };
            let recent = self.config.recovery == Recovery::Rack
                && i > 0
                && s.rack.remaining(&seg, 0, now) > 0;
            if !recent {
                s.board.mark_lost(i);
            }
        }
    }

    /// The next segment to leave: its number in the board and whether it is new.
    pub(super) fn selective_next(&mut self, now: Nanos) -> Option<Next> {
        self.with(|t, s| t.selective_next_with(s, now)).flatten()
    }

    fn selective_next_with(&mut self, s: &mut Selective, now: Nanos) -> Option<Next> {
        if let Some(seq) = s.force.take()
            && let Some(next) = self.resend(s, seq, now)
        {
            return Some(next);
        }
        if std::mem::take(&mut s.force_new)
            && let Some(len) = self.next_new()
        {
            return Some(self.send_new(s, len, now));
        }
        let repairing = matches!(s.state, State::Recovery | State::Lost);
        let flight = u64::from(s.board.in_flight());
        let counted = if repairing || self.config.limited_transmit {
            flight
        } else {
            u64::from(s.board.len())
        };
        let room = (counted + 1) * self.mss() <= self.window.cwnd.min(self.config.window_limit);
        if !room {
            self.validation.note(
                self.una,
                self.nxt,
                u64::from(s.board.len()) * self.mss(),
                true,
            );
            return None;
        }
        if repairing
            && !s.new_first
            && let Some(i) = s.board.next_lost()
        {
            let seq = s.board.get(i)?.seq;
            return self.resend(s, seq, now);
        }
        if let Some(len) = self.next_new() {
            if self.config.defer_chunks && !repairing && self.waits(s, now) {
                return None;
            }
            return Some(self.send_new(s, len, now));
        }
        if s.state == State::Recovery && self.config.recovery == Recovery::Sack {
            return self.last_resort(s, now);
        }
        None
    }

    /// Linux, `tcp_tso_should_defer()`: what is left of the window is less than a
    /// chunk, and the next ACK, which will allow more, is expected soon.
    fn waits(&mut self, s: &Selective, now: Nanos) -> bool {
        let Some(first) = s.board.first() else {
            return false;
        };
        let last = self.last_sent.max(self.pacer.departure());
        if !self.starts_chunk() || now.saturating_sub(last) > MS {
            return false;
        }
        let srtt = self.srtt().unwrap_or(0);
        let expected = first.sent + srtt;
        if expected > now + (srtt / 2).min(MS) {
            return false;
        }
        let mss = self.mss();
        let window = self.window.cwnd.min(self.config.window_limit);
        let left = window - (u64::from(s.board.in_flight()) * mss).min(window);
        let chunk = u64::from(self.chunk_segments()) * mss;
        left < chunk && left < window / 3 && self.unsent() > mss
    }

    /// RFC 6675 §4, NextSeg() rules 3 and 4.
    fn last_resort(&mut self, s: &mut Selective, now: Nanos) -> Option<Next> {
        if let Some(i) = s.board.next_unsacked(s.high_resent.max(self.una)) {
            let seg = *s.board.get(i)?;
            s.high_resent = seg.end();
            return self.resend(s, seg.seq, now);
        }
        if s.rescued {
            return None;
        }
        s.rescued = true;
        let i = s.board.last_unsacked()?;
        let seg = *s.board.get(i)?;
        if seg.mark.contains(Mark::RETRANS) {
            return None;
        }
        self.resend(s, seg.seq, now)
    }

    fn send_new(&mut self, s: &mut Selective, len: u64, now: Nanos) -> Next {
        let seq = self.nxt;
        s.board.push(seq, len as u32, now);
        if let Some(rate) = &mut s.rate {
            rate.on_sent(now);
        }
        s.prr.out += 1;
        Next {
            seq,
            len,
            again: false,
        }
    }

    fn resend(&mut self, s: &mut Selective, seq: u64, now: Nanos) -> Option<Next> {
        let i = s.board.find(seq)?;
        let seg = s.board.resent(i, now)?;
        if let Some(rate) = &mut s.rate {
            rate.on_resent(i);
        }
        s.prr.out += 1;
        s.high_resent = s.high_resent.max(seg.end());
        if let Some(undo) = &mut s.undo {
            if !undo.any {
                undo.any = true;
                undo.at = now;
            }
            undo.resent += 1;
        }
        Some(Next {
            seq,
            len: u64::from(seg.len),
            again: true,
        })
    }

    /// A segment left: its timers.
    pub(super) fn selective_sent(&mut self, now: Nanos, next: &Next) {
        self.with(|t, s| {
            let flight = u64::from(s.board.len()) * t.mss();
            let full = (u64::from(s.board.in_flight()) + 1) * t.mss() > t.window.cwnd;
            let nxt = t.nxt;
            t.validation.note(t.una, nxt, flight, full);
            t.timer_after_send(s, next, now);
        });
    }
}

/// A segment to leave.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next {
    pub seq: u64,
    pub len: u64,
    pub again: bool,
}

/// The first block lies below the number, or inside the second (RFC 2883 §4).
fn is_dsack(p: &Packet) -> bool {
    let within =
        |inner: &Block, outer: &Block| outer.start <= inner.start && inner.end <= outer.end;
    match p.sack.blocks() {
        [first, ..] if first.end <= p.ack => true,
        [first, second, ..] => within(first, second),
        _ => false,
    }
}

/// Whether a segment was sent after another: by time, then by number.
pub(crate) fn sent_after(a: (Nanos, u64), b: (Nanos, u64)) -> bool {
    a > b
}

impl Selective {
    /// Nothing is out. `samples`: delivery-rate samples are taken.
    pub fn new(samples: bool) -> Box<Selective> {
        Box::new(Selective {
            rate: samples.then(|| Box::new(RateSampler::new())),
            ..Selective::default()
        })
    }

    /// The first segment's time, if one is out.
    pub fn head(&self) -> Option<&Seg> {
        self.board.first()
    }
}
