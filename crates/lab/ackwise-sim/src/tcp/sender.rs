//! The end that sends data.

use std::sync::Arc;

use ackwise_policy::{AckRate, AckSeen};
use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{Pacing, Recovery};

use super::ack_rate::Windows;
use super::config::SenderConfig;
use super::loss_recovery::{Ack, AnyRecovery, LossRecovery, NextSegment};
use super::stats::SenderStats;
use super::tcb::{Tcb, Timer};
use crate::packet::{AckOption, Flags, FlowId, Packet};
use crate::time::NEVER;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// `open` was not called.
    Closed,
    /// The SYN is out, or about to be.
    Opening,
    /// Data flow.
    Open,
    /// All data are acknowledged, but the receiver's FIN has not come: a FIN leaves alone.
    Closing,
    /// The connection is closed.
    Done,
}

/// A TCP sender. It sends the data it is supplied with, and knows neither their contents
/// nor the time.
///
/// After [`Sender::open`], [`Sender::supply`], [`Sender::close`],
/// [`Sender::on_packet`] and [`Sender::on_timer`], call [`Sender::poll_transmit`]
/// until it returns `None`, then [`Sender::next_timer`] for the time of the next call.
#[derive(Debug, Clone)]
pub struct Sender {
    phase: Phase,
    /// Whether a SYN or FIN is to be sent.
    control_due: bool,
    /// Whether a FIN ends the data.
    closing: bool,
    tcb: Tcb,
    recovery: AnyRecovery,
}

impl Sender {
    /// A sender that does nothing until it is opened.
    pub fn new(flow: FlowId, config: Arc<SenderConfig>) -> Sender {
        let tcb = Tcb::new(flow, config);
        Sender {
            phase: Phase::Closed,
            control_due: false,
            closing: false,
            recovery: AnyRecovery::new(&tcb.config, tcb.control.is_model_based()),
            tcb,
        }
    }

    /// Opens the connection: by a handshake, or at once if the model has none.
    pub fn open(&mut self, now: Nanos) {
        if self.phase != Phase::Closed {
            return;
        }
        self.tcb.renew_burst();
        if self.tcb.config.handshake {
            self.phase = Phase::Opening;
            self.control_due = true;
        } else {
            self.phase = Phase::Open;
            self.tcb.stats.established_at = Some(now);
            self.recovery.on_established(&mut self.tcb, now);
        }
    }

    /// Adds data to send; `u64::MAX` never ends.
    pub fn supply(&mut self, bytes: u64) {
        self.recovery.on_supply(&self.tcb);
        self.tcb.supply(bytes);
        self.tcb.renew_burst();
    }

    /// Ends the data with a FIN.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Whether everything, including the FIN, was acknowledged after [`Sender::close`].
    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Bytes supplied and not yet sent.
    pub fn unsent(&self) -> u64 {
        self.tcb.unsent()
    }

    /// Bytes sent and not yet acknowledged.
    pub fn outstanding(&self) -> u64 {
        self.tcb.max - self.tcb.una
    }

    /// The first byte that is not acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.tcb.una
    }

    /// The congestion window in bytes, without inflation by duplicates.
    pub fn cwnd(&self) -> u64 {
        self.tcb.window.cwnd
    }

    /// The slow-start threshold in bytes; huge before the first loss.
    pub fn ssthresh(&self) -> u64 {
        self.tcb.window.ssthresh
    }

    /// The smoothed round-trip time, once one was measured.
    pub fn srtt(&self) -> Option<Nanos> {
        self.tcb.srtt()
    }

    /// The current retransmission timeout, including back-off.
    pub fn rto(&self) -> Nanos {
        self.tcb.rto()
    }

    /// The ACK Ratio, if ACK congestion control is on (RFC 5690).
    pub fn ack_ratio(&self) -> Option<u8> {
        self.tcb.ack_ratio.as_ref().map(|ratio| ratio.ratio())
    }

    /// How many times an ACK was found to be lost, with ACK congestion control.
    pub fn lost_acks(&self) -> u64 {
        self.tcb.ack_ratio.as_ref().map_or(0, |ratio| ratio.lost())
    }

    /// The counters.
    pub fn stats(&self) -> &SenderStats {
        &self.tcb.stats
    }

    /// The configuration.
    pub fn config(&self) -> &SenderConfig {
        &self.tcb.config
    }

    /// The loss recovery in use.
    pub fn recovery(&self) -> Recovery {
        self.tcb.config.recovery
    }

    /// Handles a packet from the receiver.
    pub fn on_packet(&mut self, p: &Packet, now: Nanos) {
        match self.phase {
            Phase::Opening if p.flags.contains(Flags::SYN | Flags::ACK) => self.on_syn_ack(p, now),
            Phase::Open if p.flags.contains(Flags::ACK) && !p.flags.contains(Flags::SYN) => {
                self.on_ack(p, now);
            }
            _ => {}
        }
        self.finish(now);
        // The receiver's FIN acknowledges the FIN of the last segment.
        if self.phase == Phase::Closing && p.flags.contains(Flags::FIN) {
            self.phase = Phase::Done;
            self.control_due = false;
            self.tcb.stop_timer();
        }
    }

    fn on_syn_ack(&mut self, p: &Packet, now: Nanos) {
        let tcb = &mut self.tcb;
        self.phase = Phase::Open;
        self.control_due = false;
        tcb.stats.established_at = Some(now);
        // A retransmitted SYN gives no sample: it is unknown which copy is answered (Karn).
        if tcb.rtt.backoff() == 0 {
            tcb.sample(tcb.last_sent, now);
            tcb.sample_for_bursts(p, now);
        }
        if u32::from(tcb.rtt.backoff()) >= tcb.config.lost_syns {
            // RFC 5681 §3.1.
            tcb.window.set(tcb.mss());
            if tcb.config.lost_syn_halves {
                tcb.window.ssthresh = 2 * tcb.mss();
            }
        }
        tcb.rtt.reset_backoff();
        tcb.stop_timer();
        tcb.edge = p.window;
        tcb.offered = p.window;
        tcb.tsrecent = p.tsval;
        let option = p.ack_option();
        tcb.ack_rate
            .on_syn_ack(option == Some(AckOption::Rate(AckRate::Capable)));
        if let Some(ratio) = &mut tcb.ack_ratio {
            ratio.on_syn_ack(option == Some(AckOption::Permitted));
        }
        tcb.renew_burst();
        self.recovery.on_established(tcb, now);
    }

    fn on_ack(&mut self, p: &Packet, now: Nanos) {
        let tcb = &mut self.tcb;
        if tcb.ack_ratio.is_some() {
            look_for_lost_acks(tcb, p);
        }
        if p.ack > tcb.max || p.ack < tcb.una {
            return;
        }
        tcb.stats.acks += 1;
        tcb.tsrecent = tcb.tsrecent.max(p.tsval);
        tcb.renew_burst();
        tcb.pausing &= now < tcb.pace_at;
        tcb.owe_ack_ce |= p.flags.contains(Flags::CE);
        let ece = tcb.config.ecn && p.flags.contains(Flags::ECE);
        let ack = Ack {
            packet: p,
            now,
            ece,
        };
        self.recovery.on_ack(tcb, ack);
        tcb.ack_rate.on_ack(tcb.una);
        tcb.offered = p.window;
        tcb.edge = p.ack.saturating_add(p.window);
    }

    /// Ends the connection once all data have been acknowledged.
    fn finish(&mut self, now: Nanos) {
        if self.phase != Phase::Open || !self.closing || self.tcb.una < self.tcb.supplied {
            return;
        }
        self.tcb.stats.finished_at = Some(now);
        if self.tcb.config.handshake {
            self.phase = Phase::Closing;
            self.control_due = true;
        } else {
            self.phase = Phase::Done;
        }
    }

    /// Handles the time that [`Sender::next_timer`] returned.
    pub fn on_timer(&mut self, now: Nanos) {
        let tcb = &mut self.tcb;
        if tcb.pacer.fires(now) {
            tcb.renew_burst();
        }
        let paced = tcb.pace_at > 0 && now >= tcb.pace_at;
        if paced && tcb.config.pacing != Pacing::BurstByAcks {
            tcb.pace_at = 0;
            tcb.renew_burst();
        }
        // Too early: nothing happens, so nothing may leave.
        if now < tcb.timer_at() {
            return;
        }
        tcb.renew_burst();
        tcb.pausing &= now < tcb.pace_at;
        tcb.stop_timer();
        match (self.phase, tcb.timer()) {
            (Phase::Closed | Phase::Done, _) => {}
            (Phase::Opening | Phase::Closing, _) => {
                self.control_due = true;
                tcb.rtt.back_off(&tcb.config.rto);
            }
            (Phase::Open, Timer::Retransmit) => self.on_timeout(now),
            (Phase::Open, Timer::Probe) => self.recovery.on_probe_timer(tcb, now),
            (Phase::Open, Timer::Reorder) => self.recovery.on_reorder_timer(tcb, now),
        }
    }

    fn on_timeout(&mut self, now: Nanos) {
        let tcb = &mut self.tcb;
        if tcb.max == tcb.una {
            // Nothing is lost; ns-2 restarts slowly.
            tcb.window.set(tcb.mss());
            tcb.arm(now);
            return;
        }
        tcb.stats.timeouts += 1;
        self.recovery.on_timeout(tcb, now);
        tcb.rtt.back_off(&tcb.config.rto);
        if tcb.config.pacing != Pacing::BurstByAcks {
            tcb.pace_at = 0;
        }
        tcb.arm(now);
    }

    /// When to call [`Sender::on_timer`], if no other event comes first.
    pub fn next_timer(&self) -> Option<Nanos> {
        let tcb = &self.tcb;
        let mut at = tcb.timer_at();
        if tcb.pace_at > 0 && self.phase == Phase::Open && tcb.config.pacing != Pacing::BurstByAcks
        {
            at = at.min(tcb.pace_at);
        }
        if let Some(departure) = tcb.pacer.timer() {
            at = at.min(departure);
        }
        (at != NEVER).then_some(at)
    }

    /// The next packet that may leave now.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        let mut packet = Packet::default();
        self.transmit_into(&mut packet, now).then_some(packet)
    }

    /// Writes the next packet that may leave now, and returns whether there is one.
    pub fn transmit_into(&mut self, packet: &mut Packet, now: Nanos) -> bool {
        if self.phase == Phase::Open {
            self.finish(now);
        }
        match self.phase {
            Phase::Open => self.data(packet, now),
            Phase::Closed | Phase::Done => false,
            Phase::Opening | Phase::Closing => self.control(packet, now),
        }
    }

    /// Writes a SYN or FIN.
    #[cold]
    fn control(&mut self, packet: &mut Packet, now: Nanos) -> bool {
        if !std::mem::take(&mut self.control_due) {
            return false;
        }
        let flag = if self.phase == Phase::Opening {
            Flags::SYN
        } else {
            Flags::FIN | Flags::ACK
        };
        self.tcb.last_sent = now;
        self.tcb.arm(now);
        *packet = self.tcb.packet(flag, self.tcb.max, 0, now);
        if flag == Flags::SYN {
            if self.tcb.config.ack_rate.is_some() {
                packet.set_ack_rate(AckRate::Capable);
            } else if self.tcb.ack_ratio.is_some() {
                packet.permit_ratio();
            }
        }
        true
    }

    #[inline]
    fn data(&mut self, packet: &mut Packet, now: Nanos) -> bool {
        if self.tcb.max == self.tcb.una && self.tcb.supplied > self.tcb.nxt {
            self.restart(now);
        }
        let Some(next) = self.recovery.next_segment(&mut self.tcb, now) else {
            return false;
        };
        self.segment(packet, &next, now);
        self.recovery.on_sent(&mut self.tcb, &next, now);
        true
    }

    /// Restarts after a pause.
    fn restart(&mut self, now: Nanos) {
        let tcb = &mut self.tcb;
        if tcb.last_sent == 0 {
            return;
        }
        let idle = now - tcb.last_sent;
        tcb.control.on_restart(idle, now);
        if tcb.control.is_model_based() {
            self.recovery.on_transmit_start(tcb, now);
        } else {
            tcb.restart_window(idle);
        }
    }

    /// Whether one more new segment may leave after the current one.
    fn has_room(&self) -> bool {
        let tcb = &self.tcb;
        let Some(len) = tcb.next_new() else {
            return false;
        };
        let window = self.recovery.send_window(tcb).min(tcb.config.window_limit);
        self.recovery.in_flight(tcb) + len <= window
    }

    /// Whether a segment is the last of a chunk of several segments. Linux hands new segments
    /// down in chunks of a millisecond at its pacing rate, at least two segments each
    /// (`tcp_tso_autosize()`), and sets PSH on the last segment of a chunk of several
    /// (`__tcp_transmit_skb()`).
    fn ends_chunk(&mut self, again: bool) -> bool {
        if again {
            self.tcb.chunk = 0;
            return false;
        }
        if self.tcb.chunk == 0 {
            self.tcb.chunk_most = self.tcb.chunk_segments();
        }
        self.tcb.chunk += 1;
        if self.tcb.chunk < self.tcb.chunk_most && self.has_room() {
            return false;
        }
        std::mem::take(&mut self.tcb.chunk) > 1
    }

    /// Whether a segment requests an immediate ACK.
    fn asks_ack(&self, next: &NextSegment) -> bool {
        let tcb = &self.tcb;
        let outstanding = tcb.config.ask_ack_once && tcb.ask_ack_end > tcb.una;
        tcb.config.ask_ack && (next.again || !outstanding && !self.has_room())
    }

    /// Sends a data segment.
    #[inline]
    fn segment(&mut self, packet: &mut Packet, next: &NextSegment, now: Nanos) {
        let tcb = &mut self.tcb;
        let mut flags = Flags::ACK;
        if tcb.config.ecn && !next.again {
            // Retransmissions are not ECT (RFC 3168 §6.1.5).
            flags |= Flags::ECT;
            if std::mem::take(&mut tcb.owe_cwr) {
                flags |= Flags::CWR;
            }
        }
        if std::mem::take(&mut tcb.owe_ack_ce) && tcb.config.ack_ecn {
            flags |= Flags::ACK_CE_ECHO;
        }
        if next.again {
            flags |= Flags::RETRANSMIT;
            tcb.stats.retransmits += 1;
            tcb.stats.retransmitted_bytes += u64::from(next.len);
        } else {
            tcb.max = next.end();
        }
        if self.asks_ack(next) {
            flags |= Flags::ACK_REQUEST;
            self.tcb.ask_ack_end = self.tcb.ask_ack_end.max(next.end());
        }
        let last = next.end() == self.tcb.supplied;
        if last || self.tcb.config.push_bursts && self.ends_chunk(next.again) {
            flags |= Flags::PSH;
        }
        if last && self.closing && self.tcb.config.fin_with_data {
            flags |= Flags::FIN;
        }
        let tcb = &mut self.tcb;
        tcb.stats.data_segments += 1;
        tcb.stats.data_bytes += u64::from(next.len);
        tcb.last_sent = now;
        if tcb.timer_at() == NEVER {
            tcb.arm(now);
        }
        tcb.pace(u64::from(next.len), last, now);
        *packet = tcb.packet(flags, next.seq, next.len, now);
        if tcb.config.ack_rate.is_some() {
            self.ask_ack_rate(packet, last);
        } else if self.tcb.ack_ratio.is_some() {
            tell_ack_ratio(&mut self.tcb, packet);
        }
    }

    /// Puts the ACK-rate request on a data segment.
    #[cold]
    fn ask_ack_rate(&mut self, packet: &mut Packet, last: bool) {
        let tcb = &mut self.tcb;
        let Some(request) = &tcb.config.ack_rate else {
            return;
        };
        let mss = tcb.mss();
        let windows = Windows {
            congestion: tcb.limited_cwnd() / mss,
            offered: tcb.offered / mss,
        };
        let end = packet.seq + u64::from(packet.payload);
        if let Some(option) = tcb.ack_rate.on_segment(request, windows, end, last) {
            packet.set_ack_rate(option);
        }
    }
}

/// The bytes that the sender may have outstanding.
fn usable_window(tcb: &Tcb) -> u64 {
    match tcb.offered {
        0 => tcb.limited_cwnd(),
        offered => tcb.limited_cwnd().min(offered),
    }
}

/// Looks for lost ACKs when an ACK arrives, before `tcb` has processed it.
#[cold]
fn look_for_lost_acks(tcb: &mut Tcb, p: &Packet) {
    if p.ack > tcb.max {
        return;
    }
    let seen = AckSeen {
        ack: p.ack,
        out_of_order: !p.sack.is_empty() || tcb.is_duplicate(p),
        // A simulated receiver sends every ACK that it owes.
        explained: false,
        una: tcb.una,
        max: tcb.max,
        window: usable_window(tcb),
        mss: tcb.config.mss,
    };
    if let Some(ratio) = &mut tcb.ack_ratio {
        ratio.on_ack(&seen);
    }
}

/// Puts the ACK Ratio on a data segment.
#[cold]
fn tell_ack_ratio(tcb: &mut Tcb, packet: &mut Packet) {
    let (window, mss, max) = (usable_window(tcb), tcb.config.mss, tcb.max);
    let end = packet.seq + u64::from(packet.payload);
    let Some(ratio) = &mut tcb.ack_ratio else {
        return;
    };
    if packet.flags.contains(Flags::RETRANSMIT) {
        ratio.on_retransmission(max);
    }
    if let Some(segments) = ratio.on_segment(end, window, mss) {
        packet.set_ack_ratio(segments);
    }
}
