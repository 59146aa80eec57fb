//! A policer: packets that exceed a rate are dropped (Pavilanskas 2010).

use std::hash::Hash;

use super::bucket::{LengthMode, TokenBucket};
use crate::Nanos;
use crate::packet::{Packet, Select, Selector};
use ackwise_rng::{Probability, Rng};

/// How a policer chooses the packets that it drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoliceMode {
    /// By a token bucket, with the committed information rate and burst size.
    Bucket {
        /// CIR, bits per second.
        rate_bps: u64,
        /// CBS, bytes.
        burst_bytes: u64,
        /// The bytes that are counted.
        length: LengthMode,
    },
    /// At random.
    Random {
        /// The probability of a drop.
        drop: Probability,
        /// The seed of the draws.
        seed: u64,
    },
    /// A fixed share, evenly spaced: if it drops 4 of 5, every fifth packet passes.
    Even {
        /// The share to drop.
        drop: Probability,
    },
}

/// A policer. It ignores the contract, so it may drop a flow's last ACK, as the one in the paper
/// does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoliceConfig<F> {
    /// How it chooses the packets that it drops.
    pub mode: PoliceMode,
    /// Which packets are policed; the others pass.
    pub select: Select<F>,
}

/// What a policer did with the packets that it polices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoliceStats {
    /// Packets that conformed.
    pub passed: u64,
    /// Packets that were dropped.
    pub dropped: u64,
    /// Bytes of the dropped packets.
    pub dropped_bytes: u64,
}

#[derive(Debug)]
enum State {
    Bucket(TokenBucket, LengthMode),
    Random(Probability, Rng),
    /// The share, and the fraction of a packet that is still to be dropped, in units of 2⁻³².
    Even(u64, u64),
}

const WHOLE: u64 = 1 << 32;

#[derive(Debug)]
pub(crate) struct Policer<F> {
    state: State,
    select: Selector<F>,
    header: u32,
    stats: PoliceStats,
}

impl<F: Eq + Hash> Policer<F> {
    pub fn new(config: PoliceConfig<F>, header: u32) -> Self {
        let state = match config.mode {
            PoliceMode::Bucket {
                rate_bps,
                burst_bytes,
                length,
            } => State::Bucket(TokenBucket::new(rate_bps, burst_bytes), length),
            PoliceMode::Random { drop, seed } => State::Random(drop, Rng::stream(seed, 17)),
            PoliceMode::Even { drop } => State::Even((drop.as_fraction() * WHOLE as f64) as u64, 0),
        };
        Self {
            state,
            select: Selector::new(config.select),
            header,
            stats: PoliceStats::default(),
        }
    }

    pub fn stats(&self) -> PoliceStats {
        self.stats
    }

    /// Whether a packet may pass.
    pub fn passes<P: Packet<Flow = F>>(&mut self, packet: &P, len: u32, now: Nanos) -> bool {
        if !self.select.matches(packet) {
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
