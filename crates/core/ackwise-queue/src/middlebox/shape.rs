//! A shaper: packets that exceed a rate wait for their tokens.

use std::collections::VecDeque;

use super::bucket::{LengthMode, TokenBucket};
use crate::Nanos;
use crate::packet::{Packet, Select, Selector};

/// The parameters of a shaper. It is first in, first out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeConfig<F> {
    /// CIR, bits per second.
    pub rate_bps: u64,
    /// CBS, bytes. A packet larger than this is dropped.
    pub burst_bytes: u64,
    /// The bytes of a packet that count.
    pub length: LengthMode,
    /// The maximum number of packets that may wait.
    pub limit: usize,
    /// Which packets are shaped; the others pass.
    pub select: Select<F>,
}

/// What a shaper did with the packets that it shapes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShapeStats {
    /// Packets let through.
    pub passed: u64,
    /// Packets dropped because there was no room to wait.
    pub dropped: u64,
    /// The longest wait, in nanoseconds.
    pub wait_max_ns: Nanos,
    /// The maximum number of packets that waited at the same time.
    pub max_packets: usize,
}

/// A packet that waits for its tokens.
#[derive(Debug)]
struct Waiting<P> {
    packet: P,
    /// Length of the frame in bytes.
    len: u32,
    arrived: Nanos,
}

#[derive(Debug)]
pub(crate) struct Shaper<P: Packet> {
    config: ShapeConfig<P::Flow>,
    select: Selector<P::Flow>,
    header: u32,
    bucket: TokenBucket,
    waiting: VecDeque<Waiting<P>>,
    due: Option<Nanos>,
    stats: ShapeStats,
}

impl<P: Packet> Shaper<P> {
    pub fn new(config: ShapeConfig<P::Flow>, header: u32) -> Self {
        Self {
            select: Selector::new(config.select.clone()),
            header,
            bucket: TokenBucket::new(config.rate_bps, config.burst_bytes),
            waiting: VecDeque::with_capacity(config.limit.min(1024)),
            due: None,
            stats: ShapeStats::default(),
            config,
        }
    }

    pub fn stats(&self) -> ShapeStats {
        self.stats
    }

    pub fn matches(&self, packet: &P) -> bool {
        self.select.matches(packet)
    }

    pub fn packets(&self) -> usize {
        self.waiting.len()
    }

    /// The time at which the next packet leaves.
    pub fn due(&self) -> Option<Nanos> {
        self.due
    }

    /// Takes a packet, or hands it back if there is no room.
    pub fn offer(&mut self, packet: P, len: u32, now: Nanos) -> Result<(), P> {
        let charge = self.charge(len);
        if self.waiting.len() >= self.config.limit || u64::from(charge) > self.config.burst_bytes {
            self.stats.dropped += 1;
            return Err(packet);
        }
        self.waiting.push_back(Waiting {
            packet,
            len,
            arrived: now,
        });
        self.stats.max_packets = self.stats.max_packets.max(self.waiting.len());
        self.schedule(now);
        Ok(())
    }

    fn charge(&self, len: u32) -> u32 {
        self.config.length.charge(len.saturating_sub(self.header))
    }

    fn schedule(&mut self, now: Nanos) {
        let charge = self.waiting.front().map(|first| self.charge(first.len));
        self.due = charge.and_then(|charge| self.bucket.ready(charge, now));
    }

    /// The next packet, if it is due at `now`.
    pub fn pop(&mut self, now: Nanos) -> Option<(P, u32)> {
        self.due.filter(|due| *due <= now)?;
        let Waiting {
            packet,
            len,
            arrived,
        } = self.waiting.pop_front()?;
        let charge = self.charge(len);
        self.bucket.take(charge, now);
        self.stats.passed += 1;
        self.stats.wait_max_ns = self.stats.wait_max_ns.max(now.saturating_sub(arrived));
        self.schedule(now);
        Some((packet, len))
    }
}
