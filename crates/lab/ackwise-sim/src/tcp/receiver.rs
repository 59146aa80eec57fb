//! The end that receives data and acknowledges.

use std::sync::Arc;

use ackwise_policy::AckRate;
use ackwise_queue::Nanos;

use super::config::ReceiverConfig;
use super::delack::{DelayedAck, Seen};
use super::reassembly::{Arrival, Reassembly};
use super::receive_window::ReceiveWindow;
use super::stack::{Candidate, Stack, StackPolicy};
use super::stats::ReceiverStats;
use crate::packet::{AckOption, AckRateOption, Block, Direction, Flags, FlowId, Packet, Sack};
use crate::time::NEVER;

/// What the receiver owes the sender now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Nothing,
    SynAck,
    Ack,
    /// An ACK sent twice, because it duplicates one that was held.
    AckTwice,
    /// The ACK for what a policy held, whose hold is over.
    HeldAck,
    FinAck,
    /// The ACK for the data, and then the FIN of an application that closes its side.
    AckThenFin,
}

/// A TCP receiver whose application reads at once. It knows bytes only by their
/// sequence numbers.
///
/// After [`Receiver::on_packet`] and [`Receiver::on_timer`], call
/// [`Receiver::poll_transmit`] until it returns `None`, then
/// [`Receiver::next_timer`] for the time of the next call.
#[derive(Debug, Clone)]
pub struct Receiver {
    flow: FlowId,
    config: Arc<ReceiverConfig>,
    data: Reassembly,
    delack: DelayedAck,
    /// A policy that replaces `delack`.
    stack: Option<Box<Stack>>,
    receive_window: ReceiveWindow,
    /// How long the SYN was on its way.
    syn_took: Nanos,
    /// When the SYN-ACK left, until it is answered.
    syn_ack_at: Option<Nanos>,
    /// From then until an ACK alone would have come, as Linux measures it.
    handshake_rtt: Option<Nanos>,
    /// From then until the first segment came, whose transmission counts. It decides how long SACKs
    /// are compressed, and the rates in scenarios/papers/pavilanskas-2010 were derived with it.
    first_segment_rtt: Option<Nanos>,
    owed: Owed,
    /// The held ACK, if ECE has changed since: it leaves before the owed one.
    before_ece: Option<Packet>,
    /// Number of the last ACK sent, if any.
    last_ack: Option<u64>,
    /// Where the data end, once a FIN has arrived.
    fin: Option<u64>,
    /// TS.Recent (RFC 7323 §4.3).
    ts_recent: u64,
    /// The ACK-rate option in the sender's SYN.
    may_be_asked: Option<AckOption>,
    /// Whether to echo congestion until the sender answers (RFC 3168 §6.1.3).
    ece: bool,
    stats: ReceiverStats,
}

impl Receiver {
    /// A receiver that waits for a connection.
    pub fn new(flow: FlowId, config: Arc<ReceiverConfig>) -> Receiver {
        Receiver {
            flow,
            data: Reassembly::default(),
            delack: DelayedAck::new(),
            stack: config.policy.is_some().then(Box::default),
            receive_window: ReceiveWindow::new(&config),
            syn_ack_at: None,
            syn_took: 0,
            handshake_rtt: None,
            first_segment_rtt: None,
            owed: Owed::Nothing,
            before_ece: None,
            last_ack: None,
            fin: None,
            ts_recent: 0,
            may_be_asked: None,
            ece: false,
            stats: ReceiverStats::default(),
            config,
        }
    }

    /// Bytes delivered to the application, in order and each once.
    pub fn delivered(&self) -> u64 {
        self.data.next()
    }

    /// Whether all data up to the FIN have been delivered.
    pub fn is_done(&self) -> bool {
        self.stats.finished_at.is_some()
    }

    /// The counters.
    pub fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// The configuration.
    pub fn config(&self) -> &ReceiverConfig {
        &self.config
    }

    /// Sets the hop count of the following packets, for policies that use it; the default is 1.
    pub fn set_hops(&mut self, hops: u8) {
        if let Some(stack) = &mut self.stack {
            stack.set_hops(hops);
        }
    }

    /// Handles a packet from the sender.
    pub fn on_packet(&mut self, p: &Packet, now: Nanos) {
        if p.flags.contains(Flags::SYN) {
            self.ts_recent = p.tsval;
            self.syn_took = now.saturating_sub(p.tsval);
            self.may_be_asked = p.ack_option();
            self.owed = Owed::SynAck;
            self.with_stack(|_, stack, policy| stack.shake(policy, p, false, now));
            return;
        }
        if let Some(at) = self.syn_ack_at.take() {
            // The sender does not answer by an ACK alone, as Linux does, but by its first segment.
            // The ACK would have taken as long as the SYN.
            let answered = p.tsval.clamp(at, now);
            self.handshake_rtt = Some((answered - at + self.syn_took).min(now - at));
            self.first_segment_rtt = Some(now - at);
        }
        if p.flags.contains(Flags::FIN) {
            self.fin = Some(p.seq + u64::from(p.payload));
        }
        if p.payload > 0 {
            self.on_data(p, now);
        }
        if self.fin.is_some_and(|end| self.data.next() >= end) {
            // The application closes its side at once.
            if p.flags.contains(Flags::FIN) || !self.is_done() {
                self.owed = match self.owed {
                    Owed::Ack | Owed::AckTwice => Owed::AckThenFin,
                    _ => Owed::FinAck,
                };
            }
            self.stats.finished_at.get_or_insert(now);
        }
    }

    fn on_data(&mut self, p: &Packet, now: Nanos) {
        self.stats.data_segments += 1;
        let segment = Block {
            start: p.seq,
            end: p.seq + u64::from(p.payload),
        };
        // Data beyond the window are answered but not kept (RFC 9293 §3.10.7.4).
        if segment.end > self.data.next().saturating_add(self.config.window) {
            self.owed = Owed::Ack;
            return;
        }
        if self.config.ecn && self.ece_after(p) != self.ece {
            self.release_held(now);
        }
        let marked = self.note_ecn(p);
        // RFC 7323 §4.3: the oldest segment that the next ACK will cover.
        if p.seq <= self.last_ack.unwrap_or(0) {
            self.ts_recent = self.ts_recent.max(p.tsval);
        }
        let before = self.data.next();
        let arrival = self.data.insert(segment);
        match arrival {
            Arrival::InOrder | Arrival::FillsGap => {
                self.stats.delivered_bytes += self.data.next() - before;
                self.stats.last_delivery_at = Some(now);
            }
            Arrival::OutOfOrder => self.stats.out_of_order += 1,
            Arrival::Duplicate => self.stats.duplicates += 1,
        }
        let held = self.data.held();
        // Without SACK a duplicate ACK must not look like a window update.
        let may_open = match arrival {
            Arrival::InOrder | Arrival::FillsGap => true,
            Arrival::OutOfOrder => self.config.sack,
            Arrival::Duplicate => false,
        };
        let opens = may_open
            && self
                .receive_window
                .on_segment(&self.config, p.payload, held);
        let seen = Seen {
            arrival,
            holes: self.data.has_holes(),
            marked,
            pushed: p.flags.contains(Flags::PSH),
            payload: p.payload,
            opens,
            next: self.data.next(),
            unacked: self.data.next() - self.last_ack.unwrap_or(0),
            rtt: self.rtt(),
            handshake_rtt: self.handshake_rtt,
        };
        if self.stack.is_some() {
            // While there are holes Linux compresses SACKs, whatever the policy.
            let at_once = self.delack.on_data(&self.config, &seen, now);
            let together = self.config.compress_sack && seen.holes && !at_once;
            if !together {
                self.delack.stop_timer();
            }
            self.ask_policy(p, together, now);
        } else if self.delack.on_data(&self.config, &seen, now) {
            self.owed = Owed::Ack;
        }
        if p.flags.contains(Flags::ACK_REQUEST) && self.owed == Owed::Nothing {
            // An ACK that a policy holds leaves as at its deadline.
            self.owed = match self.stack {
                Some(_) => Owed::HeldAck,
                None => Owed::Ack,
            };
        }
        if self.data.next() > before {
            let echo = (self.config.timestamps && p.payload >= self.config.mss).then_some(p.tsecr);
            self.receive_window
                .on_read(&self.config, self.data.next(), echo, now);
        }
    }

    /// The receiver's estimate of the round trip, or the first segment's if that was shorter.
    fn rtt(&self) -> Option<Nanos> {
        match (self.receive_window.rtt(), self.first_segment_rtt) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn with_stack(&mut self, f: impl FnOnce(&mut Receiver, &mut Stack, &StackPolicy)) {
        if let (Some(mut stack), Some(policy)) = (self.stack.take(), self.config.policy) {
            f(self, &mut stack, &policy);
            self.stack = Some(stack);
        }
    }

    /// For `environment = "stack"`: asks the policy about the ACK that would leave now.
    fn ask_policy(&mut self, p: &Packet, together: bool, now: Nanos) {
        self.with_stack(|r, stack, policy| {
            stack.on_data(policy, p, now);
            let candidate = r.ack_packet(now);
            match stack.candidate(policy, &candidate, now) {
                Candidate::Send { .. } if together => {}
                Candidate::Send { twice: false } => r.owed = Owed::Ack,
                Candidate::Send { twice: true } => r.owed = Owed::AckTwice,
                Candidate::Held => r.stats.withheld += 1,
            }
        });
    }

    /// ECE refers to the bytes that its ACK covers (RFC 8257 §3.2), so a held ACK leaves
    /// first, with its own number and the old ECE.
    fn release_held(&mut self, now: Nanos) {
        if !self.stack.as_ref().is_some_and(|stack| stack.holds()) {
            return;
        }
        let p = self.ack(now);
        self.with_stack(|_, stack, policy| stack.left(policy, &p, now));
        self.before_ece = Some(p);
    }

    /// Whether ECE is set once this segment has arrived.
    fn ece_after(&self, p: &Packet) -> bool {
        p.flags.contains(Flags::CE) || (self.ece && !p.flags.contains(Flags::CWR))
    }

    /// RFC 3168 §6.1.3; returns whether the state of the echo changed, or a mark arrived.
    fn note_ecn(&mut self, p: &Packet) -> bool {
        if !self.config.ecn {
            return false;
        }
        let marked = p.flags.contains(Flags::CE);
        let after = self.ece_after(p);
        let before = std::mem::replace(&mut self.ece, after);
        self.stats.ce_marks += u64::from(marked);
        before != after || marked
    }

    /// Handles the time that [`Receiver::next_timer`] returned.
    pub fn on_timer(&mut self, now: Nanos) {
        if self
            .stack
            .as_ref()
            .is_some_and(|stack| now >= stack.deadline())
        {
            self.stats.delayed_acks += 1;
            self.owed = Owed::HeldAck;
        } else if self.delack.on_timer(&self.config, now) {
            self.stats.delayed_acks += 1;
            self.owed = Owed::Ack;
        }
    }

    /// When to call [`Receiver::on_timer`], if no other event comes first.
    pub fn next_timer(&self) -> Option<Nanos> {
        let held = self.stack.as_ref().map_or(NEVER, |stack| stack.deadline());
        let at = held.min(self.delack.deadline());
        Some(at).filter(|at| *at != NEVER)
    }

    /// The next packet that may leave now.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Packet> {
        let mut packet = Packet::default();
        self.transmit_into(&mut packet, now).then_some(packet)
    }

    /// Writes the next packet that may leave now, and returns whether there is one.
    pub fn transmit_into(&mut self, packet: &mut Packet, now: Nanos) -> bool {
        if self.before_ece.is_none() {
            match self.owed {
                Owed::Nothing => return false,
                Owed::Ack => {
                    self.owed = Owed::Nothing;
                    self.write_ack(packet, now);
                    return true;
                }
                _ => {}
            }
        }
        match self.transmit_rare(now) {
            Some(rare) => {
                *packet = rare;
                true
            }
            None => false,
        }
    }

    #[cold]
    fn transmit_rare(&mut self, now: Nanos) -> Option<Packet> {
        if let Some(held) = self.before_ece.take() {
            return Some(held);
        }
        match std::mem::replace(&mut self.owed, Owed::Nothing) {
            Owed::Nothing => None,
            Owed::SynAck => {
                self.syn_ack_at = Some(now);
                let mut p = self.packet(Flags::SYN | Flags::ACK, now);
                if self.config.knows_ack_rate {
                    match self.may_be_asked {
                        Some(AckOption::Rate(AckRate::Capable)) => p.set_ack_rate(AckRate::Capable),
                        Some(AckOption::Permitted) => p.permit_ratio(),
                        _ => {}
                    }
                }
                self.with_stack(|_, stack, policy| stack.shake(policy, &p, true, now));
                Some(p)
            }
            Owed::AckTwice => {
                self.owed = Owed::Ack;
                Some(self.ack(now))
            }
            Owed::HeldAck => {
                let p = self.ack(now);
                self.with_stack(|_, stack, policy| stack.left(policy, &p, now));
                Some(p)
            }
            Owed::AckThenFin => {
                self.owed = Owed::FinAck;
                Some(self.ack(now))
            }
            Owed::FinAck => Some(self.fin_ack(now)),
            Owed::Ack => Some(self.ack(now)),
        }
    }

    /// The ACK that would leave now.
    fn ack_packet(&mut self, now: Nanos) -> Packet {
        let mut packet = Packet::default();
        self.write_candidate(&mut packet, now);
        packet
    }

    #[inline]
    fn write_candidate(&mut self, packet: &mut Packet, now: Nanos) {
        let mut flags = Flags::ACK;
        if self.ece {
            flags |= Flags::ECE;
        }
        if self.config.ack_ecn {
            flags |= Flags::ECT;
        }
        *packet = self.packet(flags, now);
        if self.config.sack && self.data.has_news() {
            packet.sack = self.data.sack(self.config.dsack);
            if self.config.sack_adds && !packet.sack.is_empty() {
                // Two NOPs, kind and length, and eight bytes per block (RFC 2018 §3).
                packet.wire_len += 4 + 8 * packet.sack.blocks().len() as u32;
            }
        }
    }

    #[inline]
    fn write_ack(&mut self, packet: &mut Packet, now: Nanos) {
        self.write_candidate(packet, now);
        self.data.on_ack_sent();
        let number = self.data.next();
        self.stats.acks += 1;
        self.stats.dup_acks += u64::from(self.last_ack == Some(number));
        self.stats.sack_acks += u64::from(!packet.sack.is_empty());
        self.delack.on_ack_sent();
        self.last_ack = Some(number);
    }

    #[cold]
    fn ack(&mut self, now: Nanos) -> Packet {
        let mut packet = Packet::default();
        self.write_ack(&mut packet, now);
        packet
    }

    /// The FIN of the other direction, which also acknowledges the data.
    fn fin_ack(&mut self, now: Nanos) -> Packet {
        self.data.on_ack_sent();
        self.delack.on_ack_sent();
        self.last_ack = Some(self.data.next());
        let ece = if self.ece { Flags::ECE } else { Flags::empty() };
        self.packet(Flags::FIN | Flags::ACK | ece, now)
    }

    /// The ACK that data of the other direction carry; it does not leave by itself. `None` if
    /// nothing has arrived yet.
    pub fn piggyback(&mut self, now: Nanos) -> Option<Packet> {
        if self.stats.data_segments == 0 {
            return None;
        }
        if matches!(self.owed, Owed::Ack | Owed::AckTwice | Owed::HeldAck) {
            self.owed = Owed::Nothing;
        }
        let p = self.ack_packet(now);
        self.data.on_ack_sent();
        self.delack.on_ack_piggybacked();
        self.last_ack = Some(p.ack);
        self.with_stack(|_, stack, policy| stack.left(policy, &p, now));
        Some(p)
    }

    /// A packet without SACK blocks.
    #[inline]
    fn packet(&mut self, mut flags: Flags, now: Nanos) -> Packet {
        if self.config.timestamps {
            flags |= Flags::TIMESTAMPS;
        }
        Packet {
            flow: self.flow,
            direction: Direction::Ack,
            ack_rate: AckRateOption::NONE,
            flags,
            wire_len: self.config.header,
            payload: 0,
            seq: 0,
            ack: self.data.next(),
            window: self.receive_window.window(self.data.next()),
            tsval: now,
            tsecr: self.ts_recent,
            sack: Sack::default(),
        }
    }
}
