//! A shaped queue that always has something to send, and a link behind it: a fluid model, in steps
//! of a millisecond.
#![allow(dead_code)]

use std::collections::VecDeque;

use ackwise_bandwidth::{Bounds, Estimator, Nanos, Observation, Sample, Sent};
use ackwise_rng::Rng;

pub const MS: Nanos = 1_000_000;
pub const OBSERVATION_MS: u64 = 25;

/// This many bytes in packets of this length.
pub fn packets(bytes: u64, length: u64) -> Sent {
    Sent {
        bytes,
        squared_lengths: bytes.wrapping_mul(length),
    }
}

/// This many bytes in full packets.
pub fn full_packets(bytes: u64) -> Sent {
    packets(bytes, 1514)
}

/// What the link carries in each millisecond, bit/s; it repeats.
pub type Trace = Vec<f64>;

/// Sprout's model of a cell: a Brownian motion between 0 and a maximum rate (NSDI 2013, §3.1), in
/// steps of 20 ms. Its mean is half of the maximum.
pub fn lte(seed: u64, mean_bps: f64, seconds: usize) -> Trace {
    let mut draws = Rng::stream(seed, 1);
    let most = 2.0 * mean_bps;
    let sigma = 0.2 * most * (0.02_f64).sqrt();
    let mut rate = mean_bps;
    let mut trace = Vec::new();
    for _ in 0..seconds * 50 {
        // Twelve uniform draws: nearly normal.
        let sum: f64 = (0..12)
            .map(|_| draws.below(1 << 20) as f64 / (1 << 20) as f64)
            .sum();
        rate += sigma * (sum - 6.0);
        if rate < 0.0 {
            rate = -rate;
        }
        if rate > most {
            rate = 2.0 * most - rate;
        }
        trace.extend([rate.max(most / 100.0); 20]);
    }
    trace
}

/// A new rate every `every` seconds, between a fifth and nine fifths of the mean.
pub fn steps(seed: u64, mean_bps: f64, seconds: usize, every: usize) -> Trace {
    let mut draws = Rng::stream(seed, 2);
    let mut trace = Vec::new();
    for second in 0..seconds {
        let rate = match trace.last() {
            Some(rate) if second % every != 0 => *rate,
            _ => mean_bps * (200 + draws.below(1600)) as f64 / 1000.0,
        };
        trace.extend([rate; 1000]);
    }
    trace
}

/// What sets the rate of the queue.
pub enum Law {
    /// Ours.
    Measured(Box<Estimator>),
    /// That of cake-autorate, according to its documentation.
    Pings(Pings),
    /// 95 % of the link's current rate.
    Perfect,
    /// This rate.
    Fixed(f64),
}

/// The law of cake-autorate with its defaults: six hosts are pinged every 0.3 s, a one-way delay is
/// assumed to be half of the round trip, and the rate changes by factors.
pub struct Pings {
    pub rate: f64,
    pub bounds: Bounds,
    pub base: f64,
    late: VecDeque<bool>,
    deltas: VecDeque<f64>,
    bloated_at: u64,
    decayed_at: u64,
    achieved: f64,
}

impl Pings {
    pub fn new(bounds: Bounds, base: f64) -> Self {
        Self {
            rate: base,
            bounds,
            base,
            late: VecDeque::from([false; 6]),
            deltas: VecDeque::from([0.0; 6]),
            bloated_at: 0,
            decayed_at: 0,
            achieved: 0.0,
        }
    }

    /// Takes an answer whose round trip waited for this long.
    fn answer(&mut self, ms: u64, waited_ms: f64) {
        let delta = waited_ms / 2.0;
        let packet_ms = 1514.0 * 8e3 / self.rate;
        let (late, up, down) = (30.0 + packet_ms, 10.0 + packet_ms, 60.0 + packet_ms);
        self.late.pop_front();
        self.late.push_back(delta > late);
        self.deltas.pop_front();
        self.deltas.push_back(delta);
        let mean = self.deltas.iter().sum::<f64>() / 6.0;
        let load = self.achieved / self.rate;
        if self.late.iter().filter(|it| **it).count() >= 3 {
            if ms > self.bloated_at + 300 {
                let part = ((mean - late) / (down - late)).clamp(0.0, 1.0);
                self.rate *= 0.99 - part * (0.99 - 0.75);
                self.bloated_at = ms;
                self.decayed_at = ms;
            }
        } else if load > 0.75 {
            if ms > self.bloated_at + 300 {
                let part = ((late - mean) / (late - up)).clamp(0.0, 1.0);
                self.rate *= 1.0 + part * 0.04;
                self.decayed_at = ms;
            }
        } else if ms > self.decayed_at + 1000 {
            self.rate = if self.rate > self.base {
                (self.rate * 0.99).max(self.base)
            } else {
                (self.rate * 1.01).min(self.base)
            };
            self.decayed_at = ms;
        }
        self.rate = self
            .rate
            .clamp(self.bounds.min_bps as f64, self.bounds.max_bps as f64);
    }
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The share of the link's capacity that was used.
    pub utilisation: f64,
    /// The wait behind the interface at each millisecond, ms, sorted.
    pub waits_ms: Vec<f64>,
    /// The final rate, bit/s.
    pub rate: f64,
}

impl Outcome {
    pub fn wait(&self, part: f64) -> f64 {
        let last = self.waits_ms.len() - 1;
        self.waits_ms[(part * last as f64) as usize]
    }
}

/// A packet that is being timed.
struct Probe {
    left: u64,
    bytes: f64,
    /// In the link's own count, which excludes what it dropped.
    queued: f64,
}

/// The path behind the interface.
#[derive(Clone)]
pub struct Path {
    /// The round trip without any wait, ms.
    pub rtt_ms: u64,
    /// The link's buffer, bytes.
    pub buffer: f64,
    /// The maximum random addition to a round trip, ms.
    pub noise_ms: u64,
    /// A wait elsewhere, ms, from a certain millisecond on.
    pub elsewhere: (u64, u64),
    /// The path beyond the link becomes longer by up to so many ms and shorter again, within so many ms.
    pub wander: (u64, u64),
    /// Nothing is timed from this millisecond on.
    pub blind_from: u64,
    /// The maximum time per second without samples, as while a loss is repaired, ms.
    pub gaps_ms: u64,
    /// What the senders offer, bit/s.
    pub offered_bps: f64,
    /// The milliseconds without anything to send.
    pub idle: std::ops::Range<u64>,
    /// If set, all packets are ACKs of this length, and the shaped queue drops those that a newer
    /// one supersedes.
    pub acks: Option<u64>,
    pub seed: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            rtt_ms: 40,
            buffer: 500_000.0,
            noise_ms: 3,
            elsewhere: (u64::MAX, 0),
            wander: (0, 1),
            blind_from: u64::MAX,
            gaps_ms: 0,
            offered_bps: f64::INFINITY,
            idle: 0..0,
            acks: None,
            seed: 1,
        }
    }
}

impl Path {
    /// Returns by how much the path beyond the link is longer in this millisecond: a triangle.
    fn wander_ms(&self, ms: u64) -> u64 {
        let (most, period) = self.wander;
        let at = ms % period;
        2 * most * at.min(period - at) / period
    }
}

/// The bytes that have flowed since the start, and what is on its way back.
#[derive(Default)]
struct Fluid {
    /// The backlog of the shaped queue.
    backlog: f64,
    sent: f64,
    /// What the link did not drop.
    taken: f64,
    served: f64,
    probes: VecDeque<Probe>,
    back: VecDeque<(u64, Sample)>,
    pings: VecDeque<(u64, f64)>,
    silent_until: u64,
}

impl Fluid {
    /// Runs a millisecond of a law's rate on a link's, both in bit/s; returns the bytes that the
    /// link served.
    fn flow(&mut self, rate: f64, link: f64, path: &Path, idle: bool) -> f64 {
        if !idle {
            // A greedy sender always has something queued.
            self.backlog =
                (self.backlog + path.offered_bps / 8000.0).min(100_000.0 + rate / 8000.0);
            let bytes = (rate / 8000.0).min(self.backlog);
            self.backlog -= bytes;
            self.sent += bytes;
            self.taken += bytes.min(path.buffer - (self.taken - self.served)).max(0.0);
        }
        let bytes = (link / 8000.0).min(self.taken - self.served);
        self.served += bytes;
        bytes
    }

    fn wait_ms(&self, link: f64) -> f64 {
        (self.taken - self.served) * 8000.0 / link
    }

    /// Times packets and pings that leave in this millisecond, and those that got through.
    fn time_packets(&mut self, ms: u64, link: f64, path: &Path, idle: bool, draws: &mut Rng) {
        let began = ms >= path.elsewhere.0;
        let elsewhere = if began { path.elsewhere.1 } else { 0 } + path.wander_ms(ms);
        if path.gaps_ms > 0 && ms.is_multiple_of(1000) {
            self.silent_until = ms + draws.below(path.gaps_ms);
        }
        if ms.is_multiple_of(4) && !idle {
            self.probes.push_back(Probe {
                left: ms,
                bytes: self.sent,
                queued: self.taken,
            });
        }
        while let Some(probe) = self.probes.front()
            && self.served + 1e-6 >= probe.queued
        {
            let noise = draws.below(path.noise_ms * 1000 + 1);
            let waited = (ms - probe.left + elsewhere) * 1000 + noise;
            let sample = Sample {
                left_ns: probe.left * MS,
                bytes: probe.bytes as u64,
                waited_us: waited as u32,
            };
            if ms < path.blind_from && ms >= self.silent_until {
                self.back.push_back((ms + path.rtt_ms + elsewhere, sample));
            }
            self.probes.pop_front();
        }
        if ms.is_multiple_of(50) {
            let wait = self.wait_ms(link);
            let comes = ms + wait as u64 + path.rtt_ms;
            self.pings.push_back((comes, wait + elsewhere as f64));
        }
    }

    /// Tells a law what it sees in this millisecond.
    fn update_law(&mut self, law: &mut Law, ms: u64, rate: f64, path: &Path, idle: bool) {
        match law {
            Law::Measured(it) if ms.is_multiple_of(OBSERVATION_MS) => {
                let mut least: Option<Sample> = None;
                while self.back.front().is_some_and(|(at, _)| *at <= ms) {
                    let (_, sample) = self.back.pop_front().unwrap();
                    if least.is_none_or(|least| sample.waited_us < least.waited_us) {
                        least = Some(sample);
                    }
                }
                it.observe(&Observation {
                    at_ns: ms * MS,
                    sent: packets(self.sent as u64, path.acks.unwrap_or(1514)),
                    backlog_bytes: if idle || path.acks.is_some() {
                        0
                    } else {
                        self.backlog as u64
                    },
                    has_dropped: path.acks.is_some() && !idle && path.offered_bps > rate,
                    sample: least,
                });
            }
            Law::Pings(it) => {
                if ms.is_multiple_of(200) {
                    it.achieved = if idle { 0.0 } else { rate };
                }
                while self.pings.front().is_some_and(|(at, _)| *at <= ms) {
                    let (_, waited) = self.pings.pop_front().unwrap();
                    it.answer(ms, waited);
                }
            }
            _ => {}
        }
    }
}

/// Runs a law for this many seconds; the first `warm` of them do not count.
pub fn run(law: &mut Law, trace: &Trace, path: &Path, seconds: u64, warm: u64) -> Outcome {
    let mut draws = Rng::stream(path.seed, 3);
    let mut fluid = Fluid::default();
    let (mut could, mut did) = (0.0, 0.0);
    let mut outcome = Outcome::default();
    for ms in 0..seconds * 1000 {
        let link = trace[ms as usize % trace.len()];
        let rate = match law {
            Law::Measured(it) => it.rate_bps() as f64,
            Law::Pings(it) => it.rate,
            Law::Perfect => 0.95 * link,
            Law::Fixed(rate) => *rate,
        };
        let idle = path.idle.contains(&ms);
        let bytes = fluid.flow(rate, link, path, idle);
        fluid.time_packets(ms, link, path, idle, &mut draws);
        fluid.update_law(law, ms, rate, path, idle);
        if ms >= warm * 1000 {
            could += link / 8000.0;
            did += bytes;
            outcome.waits_ms.push(fluid.wait_ms(link));
        }
    }
    outcome.utilisation = did / could;
    outcome.waits_ms.sort_by(f64::total_cmp);
    outcome.rate = match law {
        Law::Measured(it) => it.rate_bps() as f64,
        Law::Pings(it) => it.rate,
        Law::Perfect | Law::Fixed(_) => 0.0,
    };
    outcome
}
