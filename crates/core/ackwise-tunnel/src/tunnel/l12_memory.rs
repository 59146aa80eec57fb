//! L12: the state of a peer's flows takes a bounded amount of memory, whatever the peer says. The
//! peer of these tests has valid keys, and lies.

use super::{Actions, Tunnel, TunnelConfig};
use crate::session_table::{MAX_SESSIONS, Opened, SessionConfig, SessionTable};
use crate::trace::{Recorded, TracedPacket};
use crate::{DecodeError, Decoder, Encoder, KeyPair, Packets, Pushed, Security, Variant};

const VARIANTS: [Variant; 2] = [Variant::Aligned, Variant::Entropy];
const FLOWS: u16 = 96;
const SECOND: u64 = 1_000_000_000;
/// The longest bundle that fits into a UDP datagram.
const MAX_BUNDLE: usize = 65_000;

/// The packet as one of another flow: both ports change so that the checksum stays correct.
fn of_flow(packet: &[u8], up: u16) -> Vec<u8> {
    let mut packet = packet.to_vec();
    for (at, up) in [(20, up), (22, up.wrapping_neg())] {
        let port = u16::from_be_bytes([packet[at], packet[at + 1]]).wrapping_add(up);
        packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
    }
    packet
}

/// ACKs of one flow.
fn one_flow(count: usize) -> Vec<TracedPacket> {
    let all = Recorded::Plain.read().expect("recorded");
    let first: Vec<u8> = all[0].packet[12..24].into();
    let same = all.into_iter().filter(|seen| seen.packet[12..24] == first);
    let flow: Vec<_> = same.take(count).collect();
    assert_eq!(flow.len(), count);
    flow
}

/// One end, and the sessions of a peer that can send anything in them.
struct Liar {
    end: Tunnel,
    sessions: SessionTable,
    limit: usize,
    largest: usize,
}

impl Liar {
    fn new(variant: Variant) -> Liar {
        let keys = [(); 2].map(|()| KeyPair::generate().expect("random numbers"));
        let security = [0, 1].map(|i| Security::Noise {
            secret: keys[i].secret,
            public: keys[i].public,
            peer: keys[1 - i].public,
        });
        let [ours, theirs] = security;
        let mut config = TunnelConfig::new(ours);
        config.variant = variant;
        config.max_flows = FLOWS;
        config.max_memory = 0;
        Liar {
            end: Tunnel::new(config),
            sessions: SessionTable::new(SessionConfig {
                security: theirs,
                variant,
                max_flows: FLOWS,
                max_memory: usize::MAX,
            }),
            limit: TunnelConfig::min_memory(variant, FLOWS),
            largest: 0,
        }
    }

    /// Takes a datagram from the liar, and returns the answers.
    fn take(&mut self, datagram: &[u8], now: u64) -> Vec<Vec<u8>> {
        let mut actions = Actions::default();
        let _ = self.end.datagram(datagram, now, &mut actions);
        let memory = self.end.memory();
        assert!(memory <= self.limit, "{memory} of {} bytes", self.limit);
        self.largest = self.largest.max(memory);
        actions.datagrams
    }

    /// Makes a session, which becomes the current one at both ends.
    fn new_session(&mut self, now: u64) {
        let initiation = self.sessions.initiate(now).expect("random numbers");
        for response in self.take(&initiation, now) {
            let opened = self.sessions.open(&response, now, &mut Vec::new());
            assert_eq!(opened, Ok(Opened::Established));
        }
    }

    fn say(&mut self, bundle: &[u8], now: u64) -> Vec<Vec<u8>> {
        let session = self.sessions.current().expect("a session");
        let datagram = session.seal(bundle).expect("short");
        self.take(&datagram, now)
    }

    /// Sends an ACK of each flow in each bundle. The encoder receives no feedback, so each leaves a
    /// state that the decoder might need.
    fn flood(&mut self, encoder: &mut Encoder, acks: &[TracedPacket], now: u64) {
        for seen in acks {
            for flow in 0..FLOWS {
                let pushed = encoder.push(&of_flow(&seen.packet, flow));
                assert_eq!(pushed, Pushed::Compressed);
            }
            let mut bundle = Vec::new();
            let number = self.sessions.current().expect("a session").next_number();
            let made = encoder.finish(number, None, MAX_BUNDLE, &mut bundle);
            assert_eq!((made.packets, made.left), (FLOWS.into(), 0));
            self.say(&bundle, now);
        }
    }
}

#[test]
fn l12_a_peer_that_lies_takes_no_more_memory_than_is_granted() {
    for variant in VARIANTS {
        let mut liar = Liar::new(variant);
        let acks = one_flow(100);
        let mut restored = 0;
        for n in 0..MAX_SESSIONS as u64 {
            // Sessions that both ends made at the same time would be another case.
            let now = (1 + 5 * n) * SECOND;
            liar.new_session(now);
            liar.flood(&mut Encoder::new(variant, FLOWS), &acks, now);
            let before = std::mem::replace(&mut restored, liar.end.counters().packets_out);
            assert_eq!(restored - before, 100 * u64::from(FLOWS), "{variant:?}");
        }
        // Otherwise the limit never took effect.
        assert!(
            liar.largest > liar.limit / 4 * 3,
            "{variant:?}: {}",
            liar.largest
        );
        // Once the peer is honest, nothing is missing: its feedback arrives, and so do all of its
        // ACKs.
        let now = 60 * SECOND;
        liar.new_session(now);
        let (mut encoder, undecodable) = (
            Encoder::new(variant, FLOWS),
            liar.end.counters().undecodable,
        );
        for seen in &acks {
            liar.flood(&mut encoder, std::slice::from_ref(seen), now);
            let session = liar.sessions.current().expect("a session");
            let number = session.next_number() - 1;
            encoder.acknowledge(&crate::Feedback {
                highest: number as u32,
                before: 0,
            });
        }
        assert_eq!(liar.end.counters().undecodable, undecodable);
        let honest = liar.end.counters().packets_out - restored;
        assert_eq!(honest, 100 * u64::from(FLOWS), "{variant:?}");
    }
}

/// The codecs of one direction, without loss between them.
struct Direction {
    encoder: Encoder,
    decoder: Decoder,
    number: u64,
}

impl Direction {
    /// Sends the same ACK for this many flows, and returns how many were not compressed.
    fn bundle(&mut self, ack: &TracedPacket, flows: u16) -> Result<usize, DecodeError> {
        for flow in 0..flows {
            self.encoder.push(&of_flow(&ack.packet, flow));
        }
        self.number += 1;
        let (mut bytes, mut packets) = (Vec::new(), Packets::default());
        let made = self
            .encoder
            .finish(self.number, None, MAX_BUNDLE, &mut bytes);
        self.decoder.decode(self.number, &bytes, &mut packets)?;
        let feedback = self.decoder.feedback().expect("some");
        self.encoder.acknowledge(&feedback);
        Ok(made.uncompressed)
    }
}

#[test]
fn l12_flows_that_were_used_least_recently_are_forgotten_first() {
    for (variant, at_encoder) in VARIANTS.into_iter().flat_map(|v| [(v, true), (v, false)]) {
        let mut both = Direction {
            encoder: Encoder::new(variant, 100),
            decoder: Decoder::new(100),
            number: 0,
        };
        let acks = one_flow(4);
        assert_eq!(both.bundle(&acks[0], 100), Ok(100));
        assert_eq!(both.bundle(&acks[1], 10), Ok(0));
        let (encoder, decoder) = (both.encoder.memory(), both.decoder.memory());
        if at_encoder {
            both.encoder.forget_flows(encoder / 3);
            assert!(both.encoder.memory() <= encoder - encoder / 3);
        } else {
            both.decoder.forget_flows(decoder / 3);
            assert!(both.decoder.memory() <= decoder - decoder / 3);
        }
        // The ten used last are still known; not all of the others are.
        assert_eq!(both.bundle(&acks[2], 10), Ok(0));
        match both.bundle(&acks[3], 100) {
            Ok(uncompressed) => assert!(at_encoder && (1..=90).contains(&uncompressed)),
            Err(error) => assert_eq!((at_encoder, error), (false, DecodeError::Reference)),
        }
    }
}
