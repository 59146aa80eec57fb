//! Packets for the peer: when a bundle leaves, and what is in it.

use super::{Actions, EXPEDITED_DIVISOR, OtherPackets, Tunnel};
use crate::classifier::PacketClass;
use crate::{Pushed, bundle};

impl Tunnel {
    /// Takes a packet for the peer. A bundle that is due leaves with the next [`Tunnel::tick`], so
    /// that packets that are read together leave together.
    pub fn packet(&mut self, packet: &[u8], now: u64, actions: &mut Actions) {
        let class = self.classifier.classify(packet, now / 1000);
        let wanted =
            class != PacketClass::Other || self.config.other_packets == OtherPackets::Carry;
        if !wanted || !self.peer_up || !self.push(packet, now, actions) {
            self.counters.bypassed += 1;
            actions.bypass.push(packet);
            return;
        }
        self.counters.packets_in += 1;
        self.counters.bytes_in += packet.len() as u64;
        let expedited = class == PacketClass::ExpeditedAck && self.config.expedite;
        self.counters.expedited += u64::from(expedited);
        let due = (self.last_bundle_at + self.bundle_interval(expedited, now)).max(now);
        self.next_after_idle |=
            self.bundle_due.is_none() && now >= self.last_bundle_at + self.period();
        self.bundle_due = Some(self.bundle_due.map_or(due, |before| before.min(due)));
        if self.is_full() {
            self.send_one(now, actions);
        }
    }

    /// The shortest time between the last bundle and the next.
    fn bundle_interval(&self, expedited: bool, now: u64) -> u64 {
        let period = self.period();
        if expedited {
            period / EXPEDITED_DIVISOR
        } else if self.last_after_idle && now < self.last_bundle_at + period / 2 {
            // The rest of a burst whose first packets left at once.
            period / 2
        } else {
            period
        }
    }

    /// Whether the waiting packets will fill a datagram.
    fn is_full(&mut self) -> bool {
        let (room, mean) = (self.room(), self.mean_size_x16);
        let session = self.sessions.current();
        session.is_some_and(|s| s.codecs.encoder.len() * mean / 16 >= room)
    }

    /// The longest bundle in bytes.
    fn room(&self) -> usize {
        self.pmtu.size() - self.config.security.overhead()
    }

    /// Passes a packet to the encoder. Returns whether it was accepted.
    fn push(&mut self, packet: &[u8], now: u64, actions: &mut Actions) -> bool {
        for _ in 0..2 {
            let Some(session) = self.sessions.current() else {
                return false;
            };
            if session.codecs.encoder.push(packet) != Pushed::Refused {
                if session.codecs.encoder.has_grown() {
                    self.sessions.enforce_memory_limit();
                }
                return true;
            }
            if session.codecs.encoder.is_empty() {
                return false;
            }
            self.send_all(now, actions);
        }
        false
    }

    /// Sends all waiting packets.
    pub(super) fn send_all(&mut self, now: u64, actions: &mut Actions) {
        self.bundle_due = None;
        self.last_bundle_at = now;
        self.last_after_idle = std::mem::take(&mut self.next_after_idle);
        while self.send_bundle(now, actions) > 0 {}
    }

    /// Sends a full bundle. Packets that did not fit leave when they are due.
    fn send_one(&mut self, now: u64, actions: &mut Actions) {
        self.last_bundle_at = now;
        self.last_after_idle = std::mem::take(&mut self.next_after_idle);
        if self.send_bundle(now, actions) == 0 {
            self.bundle_due = None;
        }
    }

    /// Sends as many waiting packets as fit into a bundle. Returns how many are left.
    fn send_bundle(&mut self, now: u64, actions: &mut Actions) -> usize {
        let room = self.room();
        let Some(session) = self.sessions.current() else {
            return 0;
        };
        if session.codecs.encoder.is_empty() {
            return 0;
        }
        self.plain.clear();
        let feedback = session.codecs.decoder.feedback();
        let number = session.next_number();
        let encoder = &mut session.codecs.encoder;
        let made = encoder.finish(number, feedback, room, &mut self.plain);
        self.sessions.enforce_memory_limit();
        let size_x16 = 16 * self.plain.len() / made.packets.max(1);
        self.mean_size_x16 = (7 * self.mean_size_x16 + size_x16) / 8;
        self.counters.bundles_out += 1;
        self.feedback_due = None;
        let before = self.counters.bytes_out;
        self.send(true, now, actions);
        self.counters.bundle_bytes_out += self.counters.bytes_out - before;
        made.left
    }

    /// Sends a bundle without packets: feedback, and perhaps a request for feedback.
    pub(super) fn send_empty(&mut self, wants_feedback: bool, now: u64, actions: &mut Actions) {
        let Some(session) = self.sessions.current() else {
            return;
        };
        self.plain.clear();
        let feedback = session.codecs.decoder.feedback();
        bundle::write_empty(feedback, wants_feedback, &mut self.plain);
        self.feedback_due = None;
        self.send(wants_feedback, now, actions);
    }
}
