//! The end that sends data.

use std::sync::Arc;

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{Pacing, Recovery};

use super::classic::Classic;
use super::config::{SenderConfig, UNLIMITED};
use super::congestion::Control;
use super::congestion_window::CongestionWindow;
use super::cwnd_validation::CwndValidation;
use super::hystart::Round;
use super::pacing::Pacer;
use super::rtt::Rtt;
use super::selective::Selective;
use super::stats::SenderStats;
use crate::packet::{Direction, Flags, FlowId, Packet, Sack};
use crate::time::NEVER;

/// Linux: no chunk is longer.
const CHUNK_BYTES: u64 = 65_536;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// `open` was not called.
    Closed,
    /// The SYN is out, or about to be.
    Opening,
    /// Data flow.
    Open,
    /// All data are acknowledged; the FIN is out, or about to be.
    Closing,
    /// Nothing more happens.
    Done,
}

/// What the timer is for. There is one, as in Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    Retransmit,
    /// A tail loss probe (RFC 8985 §7).
    Probe,
    /// Reordering has had its time (RFC 8985 §6).
    Reorder,
}

/// A TCP sender. It has data to send when it was supplied with them, and knows
/// neither their contents nor the time.
///
/// After [`Sender::open`], [`Sender::supply`], [`Sender::close`],
/// [`Sender::on_packet`] and [`Sender::on_timer`], ask [`Sender::poll_transmit`]
/// until it has nothing, then [`Sender::next_timer`] for when to come back.
#[derive(Debug, Clone)]
pub struct Sender {
    pub(super) flow: FlowId,
    pub(super) config: Arc<SenderConfig>,
    phase: Phase,
    /// A SYN or FIN is to be sent.
    control_due: bool,
    closing: bool,
    /// Up to here there are data.
    supplied: u64,
    /// First byte not acknowledged, next to be sent, and first never sent.
    pub(super) una: u64,
    pub(super) nxt: u64,
    pub(super) max: u64,
    /// Right edge of the window that the receiver offers.
    edge: u64,
    /// The window in the last ACK.
    offered: u64,
    pub(super) window: CongestionWindow,
    pub(super) rtt: Rtt,
    pub(super) control: Control,
    pub(super) hystart: Round,
    pub(super) validation: CwndValidation,
    pub(super) classic: Classic,
    /// With SACK, instead of `classic`.
    pub(super) selective: Option<Box<Selective>>,
    timer: Timer,
    timer_at: Nanos,
    /// Paces at the rate of a congestion control that has one.
    pub(super) pacer: Pacer,
    /// Nothing new leaves before.
    pace_at: Nanos,
    /// Nor before an ACK comes after that.
    pausing: bool,
    /// What may still leave for this event.
    pub(super) burst: u32,
    /// New segments of the chunk that is being sent, and its most: see
    /// [`Sender::ends_chunk`].
    chunk: u32,
    chunk_most: u32,
    pub(super) last_sent: Nanos,
    /// The newest TSval of the receiver.
    tsrecent: u64,
    /// To be told with the next data: CWR, and that an ACK came marked.
    pub(super) owe_cwr: bool,
    owe_ack_ce: bool,
    /// No second reduction for ECN before this is acknowledged.
    ecn_recover: u64,
    /// In the slow start after a timeout.
    pub(super) slow_restart: bool,
    pub(super) stats: SenderStats,
}

impl Sender {
    /// A sender that does nothing until it is opened.
    pub fn new(flow: FlowId, config: Arc<SenderConfig>) -> Sender {
        let sack = matches!(config.recovery, Recovery::Sack | Recovery::Rack);
        let mut sender = Sender {
            flow,
            phase: Phase::Closed,
            control_due: false,
            closing: false,
            supplied: 0,
            una: 0,
            nxt: 0,
            max: 0,
            // The SYN-ACK tells; without a handshake the first ACK does.
            edge: u64::MAX,
            offered: 0,
            window: CongestionWindow::new(&config),
            rtt: Rtt::new(),
            control: Control::new(&config, flow),
            hystart: Round::new(),
            validation: CwndValidation::default(),
            classic: Classic::default(),
            selective: None,
            timer: Timer::Retransmit,
            timer_at: NEVER,
            pacer: Pacer::default(),
            pace_at: 0,
            pausing: false,
            burst: 0,
            chunk: 0,
            chunk_most: 0,
            last_sent: 0,
            tsrecent: 0,
            owe_cwr: false,
            owe_ack_ce: false,
            ecn_recover: 0,
            slow_restart: false,
            stats: SenderStats {
                rtt_min_ns: Nanos::MAX,
                ..SenderStats::default()
            },
            config,
        };
        sender.selective = sack.then(|| Selective::new(sender.control.is_model_based()));
        sender
    }

    /// Opens the connection: by a handshake, or at once if the model has none.
    pub fn open(&mut self, now: Nanos) {
        if self.phase != Phase::Closed {
            return;
        }
        self.renew_burst();
        if self.config.handshake {
            self.phase = Phase::Opening;
            self.control_due = true;
        } else {
            self.phase = Phase::Open;
            self.stats.established_at = Some(now);
            self.start_model(now);
        }
    }

    /// More data to send; `u64::MAX` never ends.
    pub fn supply(&mut self, bytes: u64) {
        self.note_app_limited();
        self.supplied = self.supplied.saturating_add(bytes).min(UNLIMITED);
        self.renew_burst();
    }

    /// No more data: a FIN follows the last byte.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Whether everything was acknowledged after [`Sender::close`], FIN included.
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Bytes that were supplied and not sent yet.
    pub fn unsent(&self) -> u64 {
        self.supplied - self.max
    }

    /// Bytes sent and not acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.max - self.una
    }

    /// The first byte that is not acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.una
    }

    /// The congestion window, bytes; inflation by duplicates not included.
    pub fn cwnd(&self) -> u64 {
        self.window.cwnd
    }

    /// The slow-start threshold, bytes; huge before the first loss.
    pub fn ssthresh(&self) -> u64 {
        self.window.ssthresh
    }

    /// The smoothed round-trip time, once there is one.
    pub fn srtt(&self) -> Option<Nanos> {
        self.rtt.srtt(&self.config.rto)
    }

    /// The retransmission timeout as it stands, backed off.
    pub fn rto(&self) -> Nanos {
        self.rtt.rto(&self.config.rto)
    }

    /// What was counted.
    pub fn stats(&self) -> &SenderStats {
        &self.stats
    }

    /// The configuration.
    pub fn config(&self) -> &SenderConfig {
        &self.config
    }

    /// A packet of the receiver arrived.
    pub fn on_packet(&mut self, p: &Packet, now: Nanos) {
        match self.phase {
            Phase::Opening if p.flags.contains(Flags::SYN | Flags::ACK) => self.on_syn_ack(p, now),
            Phase::Open if p.flags.contains(Flags::ACK) && !p.flags.contains(Flags::SYN) => {
                self.on_ack(p, now);
            }
            Phase::Closing if p.flags.contains(Flags::FIN) => {
                self.phase = Phase::Done;
                self.timer_at = NEVER;
            }
            _ => {}
        }
        self.finish(now);
    }

    fn on_syn_ack(&mut self, p: &Packet, now: Nanos) {
        self.phase = Phase::Open;
        self.control_due = false;
        self.stats.established_at = Some(now);
        // Sent twice without timestamps: which one is answered, nobody knows (Karn).
        if self.rtt.backoff() == 0 {
            self.sample(self.last_sent, now);
            self.classic_time(p, now);
        }
        if u32::from(self.rtt.backoff()) >= self.config.lost_syns {
            // RFC 5681 §3.1.
            self.window.set(self.mss());
            if self.config.lost_syn_halves {
                self.window.ssthresh = 2 * self.mss();
            }
        }
        self.rtt.reset_backoff();
        self.timer_at = NEVER;
        self.edge = p.window;
        self.offered = p.window;
        self.tsrecent = p.tsval;
        self.renew_burst();
        self.start_model(now);
    }

    fn on_ack(&mut self, p: &Packet, now: Nanos) {
        if p.ack > self.max || p.ack < self.una {
            return;
        }
        self.stats.acks += 1;
        self.tsrecent = self.tsrecent.max(p.tsval);
        self.renew_burst();
        self.pausing &= now < self.pace_at;
        self.owe_ack_ce |= p.flags.contains(Flags::CE);
        let ece = self.config.ecn && p.flags.contains(Flags::ECE);
        if self.selective.is_some() {
            self.selective_ack(p, now, ece);
        } else {
            if ece {
                self.on_ece(p.ack);
            }
            self.classic_ack(p, now, ece);
        }
        self.offered = p.window;
        self.edge = p.ack.saturating_add(p.window);
    }

    /// RFC 3168 §6.1.2: once per window of data.
    fn on_ece(&mut self, ack: u64) {
        if ack <= self.ecn_recover || self.classic.recovering {
            return;
        }
        self.stats.ecn_reductions += 1;
        self.halve(0);
        self.ecn_recover = self.max;
        self.owe_cwr = true;
    }

    /// RFC 5681 §2: nothing new, no data, same window, something outstanding.
    pub(super) fn is_duplicate(&self, p: &Packet) -> bool {
        p.payload == 0
            && p.ack == self.una
            && (self.max > self.una || self.config.idle_duplicates)
            && (p.window == self.offered || self.offered == 0)
    }

    pub(super) fn is_synthetic(&self, p: &Packet) -> bool {
        p.flags.contains(Flags::SYNTHETIC)
    }

    /// Moves `una`.
    pub(super) fn take_ack(&mut self, p: &Packet) {
        self.stats.acked_bytes += p.ack - self.una;
        self.una = p.ack;
        self.nxt = self.nxt.max(self.una);
    }

    pub(super) fn sample(&mut self, sent: Nanos, now: Nanos) {
        let rtt = now - sent;
        self.stats.rtt_samples += 1;
        self.stats.rtt_last_ns = rtt;
        self.stats.rtt_sum_ns += u128::from(rtt);
        self.stats.rtt_min_ns = self.stats.rtt_min_ns.min(rtt);
        self.rtt
            .sample(&self.config.rto, sent, now, self.una, self.nxt);
    }

    pub(super) fn mss(&self) -> u64 {
        u64::from(self.config.mss)
    }

    fn renew_burst(&mut self) {
        self.chunk = 0;
        self.burst = match self.config.max_burst {
            0 => u32::MAX,
            n => n,
        };
    }

    pub(super) fn timer(&self) -> Timer {
        self.timer
    }

    pub(super) fn timer_at(&self) -> Nanos {
        self.timer_at
    }

    pub(super) fn set_timer(&mut self, timer: Timer, at: Nanos) {
        self.timer = timer;
        self.timer_at = at;
    }

    /// Starts the retransmission timer.
    pub(super) fn arm(&mut self, now: Nanos) {
        self.set_timer(Timer::Retransmit, now.saturating_add(self.rto()));
    }

    /// After an ACK of new data: the timer starts anew if something is outstanding
    /// (RFC 6298 §5.2 and §5.3).
    pub(super) fn rearm(&mut self, now: Nanos) {
        // With no ACK to come, the timer ends the pause between two bursts.
        let waits = self.config.pacing == Pacing::BurstByAcks && self.supplied > self.max;
        if self.max > self.una || waits {
            self.arm(now);
        } else {
            self.timer_at = NEVER;
        }
    }

    /// Ends the connection once all data were acknowledged.
    fn finish(&mut self, now: Nanos) {
        if self.phase != Phase::Open || !self.closing || self.una < self.supplied {
            return;
        }
        self.stats.finished_at = Some(now);
        if self.config.handshake {
            self.phase = Phase::Closing;
            self.control_due = true;
        } else {
            self.phase = Phase::Done;
        }
    }

    /// A time that [`Sender::next_timer`] named has come.
    pub fn on_timer(&mut self, now: Nanos) {
        if self.pacer.fires(now) {
            self.renew_burst();
        }
        let paced = self.pace_at > 0 && now >= self.pace_at;
        if paced && self.config.pacing != Pacing::BurstByAcks {
            self.pace_at = 0;
            self.renew_burst();
        }
        // Too early: nothing happens, so nothing may leave either.
        if now < self.timer_at {
            return;
        }
        self.renew_burst();
        self.pausing &= now < self.pace_at;
        self.timer_at = NEVER;
        match (self.phase, self.timer) {
            (Phase::Closed | Phase::Done, _) => {}
            (Phase::Opening | Phase::Closing, _) => {
                self.control_due = true;
                self.rtt.back_off(&self.config.rto);
            }
            (Phase::Open, Timer::Retransmit) => self.on_timeout(now),
            (Phase::Open, Timer::Probe) => self.probe_tail(now),
            (Phase::Open, Timer::Reorder) => self.reorder_timeout(now),
        }
    }

    fn on_timeout(&mut self, now: Nanos) {
        if self.max == self.una {
            // Nothing is lost; ns-2 starts again slowly.
            self.window.set(self.mss());
            self.arm(now);
            return;
        }
        self.stats.timeouts += 1;
        if self.selective.is_some() {
            self.selective_timeout(now);
        } else {
            self.classic_timeout();
        }
        self.rtt.back_off(&self.config.rto);
        if self.config.pacing != Pacing::BurstByAcks {
            self.pace_at = 0;
        }
        self.arm(now);
    }

    /// When to call [`Sender::on_timer`], if nothing happens before.
    pub fn next_timer(&self) -> Option<Nanos> {
        let mut at = self.timer_at;
        if self.pace_at > 0
            && self.phase == Phase::Open
            && self.config.pacing != Pacing::BurstByAcks
        {
            at = at.min(self.pace_at);
        }
        if let Some(departure) = self.pacer.timer() {
            at = at.min(departure);
        }
        (at != NEVER).then_some(at)
    }

    /// The next packet to leave now.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        match self.phase {
            Phase::Closed | Phase::Done => None,
            Phase::Opening | Phase::Closing => self.control(now),
            Phase::Open => {
                self.finish(now);
                if self.phase != Phase::Open {
                    return self.poll_transmit(now);
                }
                self.data(now)
            }
        }
    }

    fn control(&mut self, now: Nanos) -> Option<Packet> {
        if !std::mem::take(&mut self.control_due) {
            return None;
        }
        let flag = if self.phase == Phase::Opening {
            Flags::SYN
        } else {
            Flags::FIN | Flags::ACK
        };
        self.last_sent = now;
        self.arm(now);
        Some(self.packet(flag, self.max, 0, now))
    }

    fn data(&mut self, now: Nanos) -> Option<Packet> {
        if self.max == self.una && self.supplied > self.nxt {
            self.restart(now);
        }
        if self.selective.is_some() {
            return self.data_selective(now);
        }
        if std::mem::take(&mut self.classic.resend) && self.max > self.una {
            let len = self.mss().min(self.max - self.una);
            self.nxt = self.nxt.max(self.una + len);
            return Some(self.segment(self.una, len, now));
        }
        let len = self.next_new()?;
        let window = self.classic_allowance().min(self.config.window_limit);
        let end = self.nxt + len;
        let full = end - self.una > window;
        if full && self.max > self.una {
            self.validation
                .note(self.una, self.nxt, self.nxt - self.una, true);
            return None;
        }
        if !self.may_leave(now, window) {
            return None;
        }
        let seq = std::mem::replace(&mut self.nxt, end);
        let p = self.segment(seq, len, now);
        self.validation
            .note(self.una, self.nxt, self.nxt - self.una, false);
        Some(p)
    }

    fn data_selective(&mut self, now: Nanos) -> Option<Packet> {
        if !self.may_leave(now, self.window.cwnd.min(self.config.window_limit)) {
            return None;
        }
        let Some(next) = self.selective_next(now) else {
            // Nothing left: what was taken from the burst is given back.
            self.burst = self.burst.saturating_add(1);
            return None;
        };
        if !next.again {
            self.nxt = next.seq + next.len;
        }
        let p = self.segment(next.seq, next.len, now);
        self.selective_sent(now, &next);
        Some(p)
    }

    /// Whether pacing and the limit of bursts let a segment out now.
    fn may_leave(&mut self, now: Nanos, window: u64) -> bool {
        // Limited Transmit asks nobody.
        let single = self.config.recovery_burst > 0 && self.classic.is_first(self.config.dupthresh);
        if (now < self.pace_at || self.pausing) && !single {
            return false;
        }
        if self.chunk == 0 && !self.pacer.may_leave(now) && !self.is_forced() {
            return false;
        }
        if self.burst > 0 {
            self.burst -= 1;
            return true;
        }
        if matches!(self.config.pacing, Pacing::Burst | Pacing::BurstByAcks) && !single {
            // The next burst leaves after this one's share of the round trip.
            let segments = (window / self.mss()).max(1);
            let burst = match self.config.recovery_burst {
                most if most > 0 && self.classic.dupacks > 0 => most,
                _ => self.config.max_burst,
            };
            self.pace_at = now + self.burst_rtt8() * u64::from(burst) / (8 * segments);
            self.pausing = self.config.pacing == Pacing::BurstByAcks;
        }
        false
    }

    /// The length of the new segment at `nxt`, if there are data and the receiver
    /// has room for them.
    pub(super) fn next_new(&self) -> Option<u64> {
        let mut len = self.mss().min(self.supplied - self.nxt);
        let offered = self.edge.saturating_sub(self.nxt);
        // A window smaller than a segment must not stop the flow for ever.
        if offered < len && self.max == self.una {
            len = offered;
        }
        (len > 0 && len <= offered).then_some(len)
    }

    /// Whether one more new segment may leave behind the one that leaves now.
    fn has_room(&self) -> bool {
        let Some(len) = self.next_new() else {
            return false;
        };
        let (used, window) = match &self.selective {
            Some(s) => (
                u64::from(s.board.in_flight()) * self.mss(),
                self.window.cwnd,
            ),
            None => (self.nxt - self.una, self.classic_allowance()),
        };
        used + len <= window.min(self.config.window_limit)
    }

    /// Whether the next new segment is the first of a chunk.
    pub(super) fn starts_chunk(&self) -> bool {
        self.chunk == 0
    }

    /// The segments of a chunk, at most.
    pub(super) fn chunk_segments(&self) -> u32 {
        let segments = (self.pacing_rate() >> 10).min(CHUNK_BYTES) / self.mss();
        (segments as u32).max(self.control.min_chunk())
    }

    /// Linux hands new segments down in chunks of a millisecond at its pacing rate,
    /// two segments at least (`tcp_tso_autosize()`), and pushes the last of a chunk
    /// that has several (`__tcp_transmit_skb()`). True for that one.
    fn ends_chunk(&mut self, again: bool) -> bool {
        if again {
            self.chunk = 0;
            return false;
        }
        if self.chunk == 0 {
            self.chunk_most = self.chunk_segments();
        }
        self.chunk += 1;
        if self.chunk < self.chunk_most && self.has_room() {
            return false;
        }
        std::mem::take(&mut self.chunk) > 1
    }

    fn segment(&mut self, seq: u64, len: u64, now: Nanos) -> Packet {
        let again = seq < self.max;
        let end = seq + len;
        let mut flags = Flags::ACK;
        if self.config.ecn && !again {
            // Retransmissions are not ECT (RFC 3168 §6.1.5).
            flags |= Flags::ECT;
            if std::mem::take(&mut self.owe_cwr) {
                flags |= Flags::CWR;
            }
        }
        if std::mem::take(&mut self.owe_ack_ce) && self.config.ack_ecn {
            flags |= Flags::ACK_CE_ECHO;
        }
        if again {
            flags |= Flags::RETRANSMIT;
            self.stats.retransmits += 1;
            self.stats.retransmitted_bytes += len;
            if self
                .classic
                .timed
                .is_some_and(|(timed, _)| seq < timed && end >= timed)
            {
                self.classic.timed = None;
            }
        } else {
            self.max = end;
            self.classic.timed.get_or_insert((end, now));
        }
        if self.config.ask_ack && (again || !self.has_room()) {
            flags |= Flags::ACK_REQUEST;
        }
        if end == self.supplied || self.config.push_bursts && self.ends_chunk(again) {
            flags |= Flags::PSH;
        }
        self.stats.data_segments += 1;
        self.stats.data_bytes += len;
        self.last_sent = now;
        if self.timer_at == NEVER {
            self.arm(now);
        }
        if let Some(rate) = self.control.pacing_rate() {
            let last = self.chunk == 0 || end == self.supplied;
            let segments = self.stats.data_segments;
            self.pacer.on_sent(now, len, last, segments, rate);
        } else if self.config.pacing == Pacing::Linux {
            let wire = u128::from(u64::from(self.config.header) + len) * 1_000_000_000;
            let gap = wire / u128::from(self.pacing_rate());
            self.pace_at = self.pace_at.max(now) + gap as Nanos;
        }
        self.packet(flags, seq, len as u32, now)
    }

    fn packet(&self, mut flags: Flags, seq: u64, payload: u32, now: Nanos) -> Packet {
        if self.config.timestamps {
            flags |= Flags::TIMESTAMPS;
        }
        Packet {
            flow: self.flow,
            direction: Direction::Data,
            flags,
            wire_len: self.config.header + payload,
            payload,
            seq,
            ack: 0,
            window: self.told_window(),
            tsval: now,
            tsecr: self.tsrecent,
            sack: Sack::default(),
        }
    }

    /// What the window field of data says: what may come back, or for a receiver
    /// that wants to know it the congestion window in whole segments.
    fn told_window(&self) -> u64 {
        if !self.config.cwnd_hint {
            return 65_535;
        }
        let window = self.window.cwnd.min(self.config.window_limit);
        (window / self.mss()).max(1) * self.mss()
    }

    /// How losses are repaired.
    pub fn recovery(&self) -> Recovery {
        self.config.recovery
    }
}
