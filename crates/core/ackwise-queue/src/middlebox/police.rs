//! A policer: what exceeds is dropped (Pavilanskas 2010).

use std::hash::Hash;

use super::bucket::{LengthMode, TokenBucket};
use crate::Nanos;
use crate::packet::{Packet, Select, Selector};
use ackwise_rng::{Probability, Rng};

/// How a policer chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Police {
    /// By a token bucket: the committed information rate and burst size.
    Bucket {
        /// CIR, bits per second.
        rate_bps: u64,
        /// CBS, bytes.
        burst_bytes: u64,
        /// What is counted.
        length: LengthMode,
    },
    /// Each with this probability.
    Random {
        /// Of being dropped.
        drop: Probability,
        /// Of the draws.
        seed: u64,
    },
    /// This share, evenly: with 4 of 5 the fifth passes.
    Even {
        /// The share that is dropped.
        drop: Probability,
    },
}

/// A policer. It knows nothing of the contract: it may lose a flow's last ACK, as
/// the paper's does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoliceConfig<F> {
    /// How it chooses.
    pub how: Police,
    /// Among what.
    pub what: Select<F>,
}

/// What a policer did with the packets that it is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoliceStats {
    /// Packets that conformed.
    pub passed: u64,
    /// Packets that did not, and were dropped.
    pub dropped: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
}

#[derive(Debug)]
enum State {
    Bucket(TokenBucket, LengthMode),
    Random(Probability, Rng),
    /// The share, and how much of a packet it owes, in 2⁻³².
    Even(u64, u64),
}

const WHOLE: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Policer<F> {
    state: State,
    what: Selector<F>,
    header: u32,
    stats: PoliceStats,
}

impl<F: Eq + Hash> Policer<F> {
    pub fn new(config: PoliceConfig<F>, header: u32) -> Self {
        let state = match config.how {
            Police::Bucket {
                rate_bps,
                burst_bytes,
                length,
            } => State::Bucket(TokenBucket::new(rate_bps, burst_bytes), length),
            Police::Random { drop, seed } => State::Random(drop, Rng::stream(seed, 17)),
            Police::Even { drop } => State::Even((drop.as_fraction() * WHOLE as f64) as u64, 0),
        };
        Self {
            state,
            what: Selector::new(config.what),
            header,
            stats: PoliceStats::default(),
        }
    }

    pub fn stats(&self) -> PoliceStats {
        self.stats
    }

    /// Whether a packet may pass.
    pub fn passes<P: Packet<Flow = F>>(&mut self, packet: &P, len: u32, now: Nanos) -> bool {
        if !self.what.takes(packet) {
            return true;
        }
        let len = len.saturating_sub(self.header);
        let passes = match &mut self.state {
            State::Bucket(bucket, length) => bucket.take(length.charge(len), now),
            State::Random(drop, rng) => !rng.happens(*drop),
            State::Even(share, owed) => {
                *owed += *share;
                let drop = *owed >= WHOLE;
                *owed -= if drop { WHOLE } else { 0 };
                !drop
            }
        };
        if passes {
            self.stats.passed += 1;
        } else {
            self.stats.dropped += 1;
            self.stats.dropped_bytes += u64::from(len);
        }
        passes
    }
}
