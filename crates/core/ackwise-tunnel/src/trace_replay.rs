//! Replays recorded ACKs through the encoder and the decoder, and compares every packet.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use ackwise_rng::{Probability, Rng};

use crate::trace::TracedPacket;
use crate::{Decoder, Encoder, Feedback, Packets, Variant};

/// The bytes of a datagram in addition to the bundle: the headers of IPv4 and UDP (28), the header
/// of the datagram (4) and the tag (16).
pub const OVERHEAD: usize = 28 + crate::HEADER_LEN + crate::TAG_LEN;

/// The parameters of a replay.
#[derive(Debug, Clone)]
pub struct ReplayConfig {
    /// The encoding.
    pub variant: Variant,
    /// The multiplexing period.
    pub period_ns: u64,
    /// The round-trip time of the tunnel, after which feedback arrives.
    pub rtt_ns: u64,
    /// The loss of bundles and of feedback.
    pub loss: Probability,
    /// The share of bundles that are late by up to three periods.
    pub reorder: Probability,
    /// The share of bundles that arrive twice.
    pub duplicate: Probability,
    /// The seed of all random draws.
    pub seed: u64,
    /// The number of flows whose state both ends keep.
    pub max_flows: u16,
    /// The largest bundle, in bytes.
    pub max_bundle: usize,
    /// The time from which bytes are counted.
    pub count_from_ns: u64,
}

impl ReplayConfig {
    /// Returns the defaults: a period of 10 ms, a round trip of 40 ms, no faults, and all bytes
    /// counted.
    pub fn new(variant: Variant) -> ReplayConfig {
        ReplayConfig {
            variant,
            period_ns: 10_000_000,
            rtt_ns: 40_000_000,
            loss: Probability::ZERO,
            reorder: Probability::ZERO,
            duplicate: Probability::ZERO,
            seed: 1,
            max_flows: 1024,
            max_bundle: 1400,
            count_from_ns: 0,
        }
    }
}

/// The result of a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The number of ACKs that were encoded.
    pub acks: usize,
    /// The number of bundles that were sent.
    pub bundles: usize,
    /// The number of ACKs that were counted.
    pub counted: usize,
    /// The bytes that carried these ACKs, with all headers.
    pub bytes: usize,
    /// The number of bundles that carried these ACKs.
    pub counted_bundles: usize,
    /// The bytes of feedback in the other direction, with all headers, if each bundle is answered
    /// by a datagram.
    pub feedback_bytes: usize,
    /// The number of ACKs in lost bundles.
    pub lost_with_bundles: usize,
    /// The number of other ACKs that were not restored.
    pub lost_beyond: usize,
    /// The number of restored packets that were never encoded.
    pub wrong: usize,
    /// The number of packets carried uncompressed.
    pub uncompressed: usize,
    /// The time that encoding took.
    pub mux: Duration,
    /// The time that decoding took.
    pub demux: Duration,
}

impl Outcome {
    /// Returns the bytes on the wire per ACK, with all headers.
    pub fn bytes_per_ack(&self) -> f64 {
        self.bytes as f64 / self.counted.max(1) as f64
    }
}

/// A datagram in flight.
enum Event {
    Bundle { number: u64, bytes: Vec<u8> },
    Feedback(Feedback),
}

struct Run<'a> {
    config: &'a ReplayConfig,
    encoder: Encoder,
    decoder: Decoder,
    rng: Rng,
    outcome: Outcome,
    /// The datagrams in flight, by arrival time and sending order.
    in_flight: BTreeMap<(u64, u64), Event>,
    number: u64,
    dispatched: u64,
    packets: Packets,
    /// The packets that were encoded, and how often each has yet to be restored.
    expected: HashMap<Box<[u8]>, usize>,
    arrived: std::collections::HashSet<u64>,
}

/// Replays a trace.
pub fn replay(trace: &[TracedPacket], config: &ReplayConfig) -> Outcome {
    let mut run = Run {
        config,
        encoder: Encoder::new(config.variant, config.max_flows),
        decoder: Decoder::new(config.max_flows),
        rng: Rng::new(config.seed),
        outcome: Outcome::default(),
        in_flight: BTreeMap::new(),
        number: 0,
        dispatched: 0,
        packets: Packets::default(),
        expected: HashMap::new(),
        arrived: std::collections::HashSet::new(),
    };
    for seen in trace {
        *run.expected.entry(seen.packet.clone()).or_default() += 1;
    }
    let mut rest = trace;
    let mut tick = config.period_ns;
    while let Some(first) = rest.first() {
        // Skip ticks at which nothing waits.
        tick = tick.max(first.at_ns / config.period_ns * config.period_ns + config.period_ns);
        let due = rest.partition_point(|seen| seen.at_ns < tick);
        let (now, later) = rest.split_at(due);
        run.until(tick);
        run.bundle(now, tick);
        rest = later;
    }
    run.until(u64::MAX);
    run.finish()
}

impl Run<'_> {
    fn bundle(&mut self, acks: &[TracedPacket], now: u64) {
        let mut started = Instant::now();
        for ack in acks {
            if self.encoder.push(&ack.packet) == crate::Pushed::Refused {
                // Too many packets wait, or the packet is never accepted.
                self.outcome.mux += started.elapsed();
                self.release(now);
                started = Instant::now();
                if self.encoder.push(&ack.packet) == crate::Pushed::Refused {
                    continue;
                }
            }
            self.outcome.acks += 1;
        }
        self.outcome.mux += started.elapsed();
        self.release(now);
    }

    /// Sends the waiting packets.
    fn release(&mut self, now: u64) {
        while !self.encoder.is_empty() {
            self.number += 1;
            let mut bytes = Vec::with_capacity(self.config.max_bundle);
            let started = Instant::now();
            let room = self.config.max_bundle;
            let made = self.encoder.finish(self.number, None, room, &mut bytes);
            self.outcome.mux += started.elapsed();
            self.outcome.bundles += 1;
            self.outcome.uncompressed += made.uncompressed;
            if now >= self.config.count_from_ns {
                self.outcome.counted += made.packets;
                self.outcome.counted_bundles += 1;
                self.outcome.bytes += bytes.len() + OVERHEAD;
            }
            if self.rng.happens(self.config.loss) {
                self.outcome.lost_with_bundles += made.packets;
                continue;
            }
            let mut at = now + self.config.rtt_ns / 2;
            if self.rng.happens(self.config.reorder) {
                at += self.rng.below(3 * self.config.period_ns);
            }
            if self.rng.happens(self.config.duplicate) {
                let again = at + self.rng.below(3 * self.config.period_ns);
                self.dispatch(again, self.number, bytes.clone());
            }
            self.dispatch(at, self.number, bytes);
        }
    }

    fn dispatch(&mut self, at: u64, number: u64, bytes: Vec<u8>) {
        self.dispatched += 1;
        let event = Event::Bundle { number, bytes };
        self.in_flight.insert((at, self.dispatched), event);
    }

    fn until(&mut self, now: u64) {
        while let Some(entry) = self.in_flight.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ((at, _), event) = entry.remove_entry();
            match event {
                Event::Feedback(feedback) => {
                    let started = Instant::now();
                    self.encoder.acknowledge(&feedback);
                    self.outcome.mux += started.elapsed();
                }
                Event::Bundle { number, bytes } => self.arrive(at, number, &bytes),
            }
        }
    }

    fn arrive(&mut self, at: u64, number: u64, bytes: &[u8]) {
        self.packets.clear();
        let started = Instant::now();
        let decoded = self.decoder.decode(number, bytes, &mut self.packets);
        self.outcome.demux += started.elapsed();
        let twice = !self.arrived.insert(number);
        if decoded.is_ok() == twice {
            // A bundle that is decoded twice is an error; a bundle that is not decoded shows up as
            // missing packets.
            self.outcome.wrong += usize::from(twice);
        }
        for packet in self.packets.iter() {
            match self.expected.get_mut(packet) {
                Some(left) if *left > 0 => *left -= 1,
                _ => self.outcome.wrong += 1,
            }
        }
        let Some(feedback) = self.decoder.feedback() else {
            return;
        };
        let mut bytes = Vec::new();
        let answer = Some(feedback);
        Encoder::new(self.config.variant, 1).finish(1, answer, 0, &mut bytes);
        self.outcome.feedback_bytes += bytes.len() + OVERHEAD;
        if !self.rng.happens(self.config.loss) {
            self.dispatched += 1;
            let key = (at + self.config.rtt_ns / 2, self.dispatched);
            self.in_flight.insert(key, Event::Feedback(feedback));
        }
    }

    fn finish(mut self) -> Outcome {
        let missing: usize = self.expected.values().sum();
        self.outcome.lost_beyond = missing.saturating_sub(self.outcome.lost_with_bundles);
        self.outcome
    }
}
