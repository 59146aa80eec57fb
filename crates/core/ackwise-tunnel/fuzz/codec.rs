//! Passes arbitrary packets through both variants of the codec, and arbitrary bundles to its
//! decoder.
//!
//! - In both variants, the packets that go in come out, whatever they look like.
//! - A rejected bundle yields no packet and leaves nothing behind: a second decoder, which never
//!   saw it, behaves the same from then on.
//! - The packets of an accepted bundle pass through both variants again unchanged.
//! - A bundle never yields more or longer packets than it may.
//!
//! Input: byte 0 is the trace, byte 1 the flows; then come operations, as in `step`.

use ackwise_headers::{checksum, protocol};
use ackwise_tunnel::{Decoder, Encoder, MIN_BUNDLE, Packets, Pushed, Variant};

use crate::input::{Script, acks};

/// Bounds on the number of packets in a bundle, and on the length of one.
const MAX_PACKETS: usize = 1024;
const MAX_PACKET_LEN: usize = 1 << 16;

/// Both ends of one variant, and a decoder that sees only what was sent.
struct Ends {
    encoder: Encoder,
    decoder: Decoder,
    untouched: Decoder,
    /// A foreign bundle was accepted: nothing can be said about later ones.
    diverged: bool,
    number: u64,
    waiting: Vec<Vec<u8>>,
    sent: Vec<(u64, Vec<u8>)>,
}

impl Ends {
    fn new(variant: Variant, flows: u16) -> Ends {
        Ends {
            encoder: Encoder::new(variant, flows),
            decoder: Decoder::new(flows),
            untouched: Decoder::new(flows),
            diverged: false,
            number: 0,
            waiting: Vec::new(),
            sent: Vec::new(),
        }
    }

    fn push(&mut self, packet: &[u8]) {
        if self.encoder.push(packet) != Pushed::Refused {
            self.waiting.push(packet.to_vec());
        }
    }

    /// Sends the waiting packets, in as many bundles as it takes; some may be lost.
    fn bundle(&mut self, room: usize, lost: bool) {
        let (mut touched, mut untouched) = (Packets::default(), Packets::default());
        while !self.encoder.is_empty() {
            self.number += 1;
            let mut bytes = Vec::new();
            let made = self.encoder.finish(self.number, None, room, &mut bytes);
            assert!(made.packets > 0 && bytes.len() <= room);
            if !lost {
                let seen = self.decoder.decode(self.number, &bytes, &mut touched);
                let plain = self.untouched.decode(self.number, &bytes, &mut untouched);
                let decoded = plain.expect("nothing is missing");
                assert_eq!(decoded.packets, made.packets);
                assert!(self.diverged || seen == plain);
            }
            self.sent.push((self.number, bytes));
        }
        self.waiting.sort_unstable();
        assert!(lost || sorted(&untouched) == self.waiting);
        assert!(lost || self.diverged || sorted(&touched) == self.waiting);
        self.waiting.clear();
    }

    fn acknowledge(&mut self) {
        if let Some(feedback) = self.untouched.feedback() {
            self.encoder.acknowledge(&feedback);
        }
    }

    /// Passes the decoder a bundle that was not sent.
    fn attack(&mut self, number: u64, bundle: &[u8]) {
        let before = self.decoder.feedback();
        let mut packets = Packets::default();
        match self.decoder.decode(number, bundle, &mut packets) {
            Ok(decoded) => {
                assert_eq!(decoded.packets, packets.len());
                self.diverged |= decoded.wants_feedback;
                check_again(&packets);
            }
            Err(_) => {
                assert!(packets.is_empty());
                assert_eq!(self.decoder.feedback(), before);
            }
        }
    }

    fn step(&mut self, operation: u8, mut script: Script) {
        match operation % 8 {
            2 => self.acknowledge(),
            3 => self.bundle(MIN_BUNDLE + 8 * usize::from(script.byte()), false),
            4 => self.bundle(MIN_BUNDLE, true),
            5 => {
                let number = (self.number + 2).saturating_sub(script.byte().into());
                self.attack(number, script.bytes());
            }
            6 => {
                if let Some(which) = script.recent(self.sent.len()) {
                    let (number, mut bytes) = self.sent[which].clone();
                    let ahead = u64::from(script.byte() % 4);
                    script.change(&mut bytes);
                    self.attack(number + ahead, &bytes);
                }
            }
            7 => {
                if let Some(which) = script.recent(self.sent.len()) {
                    let (number, bytes) = self.sent[which].clone();
                    self.attack(number, &bytes);
                }
            }
            _ => {}
        }
    }
}

/// The packets in a canonical order.
fn sorted(packets: &Packets) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = packets.iter().map(<[u8]>::to_vec).collect();
    all.sort_unstable();
    all
}

/// The packets that a decoder restored must pass the codec like any others.
fn check_again(packets: &Packets) {
    assert!(packets.len() <= MAX_PACKETS);
    assert!(packets.iter().all(|packet| packet.len() <= MAX_PACKET_LEN));
    for variant in [Variant::Aligned, Variant::Entropy] {
        let mut ends = Ends::new(variant, 16);
        for packet in packets.iter() {
            ends.push(packet);
        }
        ends.bundle(1400, false);
    }
}

/// Corrects the checksums of a changed packet, so that it is not carried uncompressed.
fn repair(packet: &mut [u8]) {
    let (addresses, start) = match packet.first().map(|first| first >> 4) {
        Some(4) => (12, usize::from(packet[0] & 15) * 4),
        Some(6) => (8, 40),
        _ => return,
    };
    if start < 20 || packet.len() < start + 20 {
        return;
    }
    if start < 40 {
        packet[10..12].fill(0);
        let ip = checksum::of(&packet[..start]);
        packet[10..12].copy_from_slice(&ip);
    }
    let (head, tcp) = packet.split_at_mut(start);
    tcp[16..18].fill(0);
    // If an IPv4 header has options, its end is used as the addresses, and the checksum is wrong.
    let value = checksum::of_segment(&head[addresses..start.min(40)], protocol::TCP, tcp);
    tcp[16..18].copy_from_slice(&value);
}

pub fn run(input: &[u8]) {
    let mut script = Script(input);
    let acks = acks(script.byte());
    let flows = u16::from(script.byte() % 16);
    let variants = [Variant::Aligned, Variant::Entropy];
    let mut ends = variants.map(|variant| Ends::new(variant, flows.max(1)));
    let mut next = acks.iter().cycle();
    let mut operations = 0;
    while !script.is_over() && operations < 200 {
        operations += 1;
        let operation = script.byte();
        match operation % 8 {
            0 => {
                for packet in next.by_ref().take(1 + usize::from(script.byte() % 64)) {
                    ends.iter_mut().for_each(|ends| ends.push(packet));
                }
            }
            1 => {
                let mut packet = next.next().cloned().unwrap_or_default();
                script.change(&mut packet);
                if operation & 8 == 0 {
                    repair(&mut packet);
                }
                ends.iter_mut().for_each(|ends| ends.push(&packet));
            }
            _ => {
                // Both read the same arguments; each decides how many of them it needs.
                let arguments = script.bytes();
                for ends in &mut ends {
                    ends.step(operation, Script(arguments));
                }
            }
        }
    }
    for ends in &mut ends {
        ends.bundle(1400, false);
    }
}
