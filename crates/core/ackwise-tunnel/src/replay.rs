//! Recorded ACKs through both ends of a tunnel, and every packet compared.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use ackwise_rng::{Probability, Rng};

use crate::trace::Seen;
use crate::{Decoder, Encoder, Feedback, Packets, Variant};

/// What a datagram has beside the bundle: IPv4 and UDP (28), the header of the datagram
/// (4) and the tag (16).
pub const OVERHEAD: usize = 28 + crate::HEADER + crate::TAG;

/// How ACKs are replayed.
#[derive(Debug, Clone)]
pub struct Replay {
    /// How they are written.
    pub variant: Variant,
    /// The multiplexing period.
    pub period_ns: u64,
    /// The round trip of the tunnel: feedback is that old.
    pub rtt_ns: u64,
    /// Of bundles, and of feedback.
    pub loss: Probability,
    /// Of bundles that are late by up to three periods.
    pub reorder: Probability,
    /// Of bundles that arrive twice.
    pub duplicate: Probability,
    /// Of all draws.
    pub seed: u64,
    /// Flows that both ends keep.
    pub max_flows: u16,
    /// Room in a datagram for a bundle.
    pub room: usize,
    /// From when on bytes are counted.
    pub count_from_ns: u64,
}

impl Replay {
    /// 10 ms, a round trip of 40 ms, nothing goes wrong, all bytes count.
    pub fn new(variant: Variant) -> Replay {
        Replay {
            variant,
            period_ns: 10_000_000,
            rtt_ns: 40_000_000,
            loss: Probability::ZERO,
            reorder: Probability::ZERO,
            duplicate: Probability::ZERO,
            seed: 1,
            max_flows: 1024,
            room: 1400,
            count_from_ns: 0,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// ACKs that went in.
    pub acks: usize,
    /// Bundles that were sent.
    pub bundles: usize,
    /// ACKs that were counted, and the bytes that carried them with all headers.
    pub counted: usize,
    /// See `counted`.
    pub bytes: usize,
    /// Bundles among those.
    pub counted_bundles: usize,
    /// Bytes of feedback in the other direction, with all headers, if each bundle is
    /// answered by a datagram of its own.
    pub feedback_bytes: usize,
    /// ACKs that were in bundles which got lost.
    pub lost_with_bundles: usize,
    /// Of the others, those that were not restored.
    pub lost_beyond: usize,
    /// Packets that came out but never went in.
    pub wrong: usize,
    /// Packets that stood in a bundle whole.
    pub whole: usize,
    /// Time taken to collect and compress.
    pub mux: Duration,
    /// Time taken to restore.
    pub demux: Duration,
}

impl Outcome {
    /// Bytes on the wire with all headers, for each ACK.
    pub fn bytes_per_ack(&self) -> f64 {
        self.bytes as f64 / self.counted.max(1) as f64
    }
}

/// What is under way.
enum Event {
    Bundle { number: u64, bytes: Vec<u8> },
    Feedback(Feedback),
}

struct Run<'a> {
    replay: &'a Replay,
    encoder: Encoder,
    decoder: Decoder,
    rng: Rng,
    outcome: Outcome,
    /// What is under way, by arrival and order of dispatch.
    under_way: BTreeMap<(u64, u64), Event>,
    number: u64,
    dispatched: u64,
    packets: Packets,
    /// Packets that went in, and how often they have yet to come out.
    expected: HashMap<Box<[u8]>, usize>,
    arrived: std::collections::HashSet<u64>,
}

/// Replays.
pub fn replay(trace: &[Seen], replay: &Replay) -> Outcome {
    let mut run = Run {
        replay,
        encoder: Encoder::new(replay.variant, replay.max_flows),
        decoder: Decoder::new(replay.max_flows),
        rng: Rng::new(replay.seed),
        outcome: Outcome::default(),
        under_way: BTreeMap::new(),
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
    let mut tick = replay.period_ns;
    while let Some(first) = rest.first() {
        // Ticks at which nothing waits are nothing.
        tick = tick.max(first.at_ns / replay.period_ns * replay.period_ns + replay.period_ns);
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
    fn bundle(&mut self, acks: &[Seen], now: u64) {
        let mut started = Instant::now();
        for ack in acks {
            if self.encoder.push(&ack.packet) == crate::Pushed::Refused {
                // Too many wait, unless it can never be taken.
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

    /// Sends what waits.
    fn release(&mut self, now: u64) {
        while !self.encoder.is_empty() {
            self.number += 1;
            let mut bytes = Vec::with_capacity(self.replay.room);
            let started = Instant::now();
            let room = self.replay.room;
            let made = self.encoder.finish(self.number, None, room, &mut bytes);
            self.outcome.mux += started.elapsed();
            self.outcome.bundles += 1;
            self.outcome.whole += made.whole;
            if now >= self.replay.count_from_ns {
                self.outcome.counted += made.packets;
                self.outcome.counted_bundles += 1;
                self.outcome.bytes += bytes.len() + OVERHEAD;
            }
            if self.rng.happens(self.replay.loss) {
                self.outcome.lost_with_bundles += made.packets;
                continue;
            }
            let mut at = now + self.replay.rtt_ns / 2;
            if self.rng.happens(self.replay.reorder) {
                at += self.rng.below(3 * self.replay.period_ns);
            }
            if self.rng.happens(self.replay.duplicate) {
                let again = at + self.rng.below(3 * self.replay.period_ns);
                self.dispatch(again, self.number, bytes.clone());
            }
            self.dispatch(at, self.number, bytes);
        }
    }

    fn dispatch(&mut self, at: u64, number: u64, bytes: Vec<u8>) {
        self.dispatched += 1;
        let event = Event::Bundle { number, bytes };
        self.under_way.insert((at, self.dispatched), event);
    }

    fn until(&mut self, now: u64) {
        while let Some(entry) = self.under_way.first_entry() {
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
            // Taken twice, or not at all: the packets missing or too many will tell.
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
        Encoder::new(self.replay.variant, 1).finish(1, answer, 0, &mut bytes);
        self.outcome.feedback_bytes += bytes.len() + OVERHEAD;
        if !self.rng.happens(self.replay.loss) {
            self.dispatched += 1;
            let key = (at + self.replay.rtt_ns / 2, self.dispatched);
            self.under_way.insert(key, Event::Feedback(feedback));
        }
    }

    fn finish(mut self) -> Outcome {
        let missing: usize = self.expected.values().sum();
        self.outcome.lost_beyond = missing.saturating_sub(self.outcome.lost_with_bundles);
        self.outcome
    }
}
