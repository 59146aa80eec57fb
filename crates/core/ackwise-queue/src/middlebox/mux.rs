//! Periodic multiplexing: packets wait for the next tick and leave together (Saldana et al. 2013;
//! TCM-TF).
//!
//! The demultiplexer at the end of the link restores the packets at the same moment, so a bundle is
//! simply a number of packets that leave at one time. The bytes that they would take as a bundle
//! with compressed headers are counted, and charged to the link if so configured.

use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroU64};

use crate::Nanos;
use crate::packet::{Packet, Select, Selector};

/// The time at which a bundle leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// At `phase + k · period`, whenever packets arrive, so that delays vary from 0 to `period`.
    Ticks {
        /// The first tick.
        phase: Nanos,
    },
    /// One period after the arrival of its first packet.
    FirstPacket,
}

/// The length of a bundle: `header_bytes + Σ packet_bytes` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BundleSizes {
    /// Header bytes of a bundle: IPv4 20, L2TPv3 4, PPP 1 (RFC 4170).
    pub header_bytes: u32,
    /// Bytes of each packet in it: PPPMux 2, compressed headers 6.
    pub packet_bytes: u32,
}

impl Default for BundleSizes {
    fn default() -> Self {
        Self {
            header_bytes: 25,
            packet_bytes: 8,
        }
    }
}

/// A multiplexer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MuxConfig<F> {
    /// The multiplexing period, PE.
    pub period: NonZeroU64,
    /// The time at which a bundle leaves.
    pub release: Release,
    /// A bundle leaves as soon as it has this many packets.
    pub max_packets: NonZeroU32,
    /// A bundle leaves before it would exceed this length in bytes, such as an MTU.
    pub max_bytes: Option<u32>,
    /// The length of a bundle.
    pub sizes: BundleSizes,
    /// Whether the link carries the bundle's bytes instead of the packets' own. If so, the bundle's
    /// header is charged to its first packet.
    pub compress: bool,
    /// Which packets are bundled; the others pass.
    pub select: Select<F>,
}

impl<F> MuxConfig<F> {
    /// The default for the maximum number of packets in a bundle.
    pub const MAX_PACKETS: NonZeroU32 = NonZeroU32::new(65_536).unwrap();
}

/// What a multiplexer did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MuxStats {
    /// Bundles that left.
    pub bundles: u64,
    /// Packets in them.
    pub packets: u64,
    /// Bytes of the packets without bundling.
    pub native_bytes: u64,
    /// Bytes of the bundles.
    pub bundle_bytes: u64,
    /// Packets in the largest bundle.
    pub largest: u64,
    /// The sum of all waits, in nanoseconds.
    pub wait_ns: u128,
    /// The longest wait, in nanoseconds.
    pub wait_max_ns: Nanos,
}

#[derive(Debug)]
struct Held<P> {
    packet: P,
    len: u32,
    first: bool,
    arrived: Nanos,
}

#[derive(Debug)]
pub(crate) struct Mux<P: Packet> {
    config: MuxConfig<P::Flow>,
    select: Selector<P::Flow>,
    header: u32,
    held: VecDeque<Held<P>>,
    /// Number of packets at the front that belong to closed bundles.
    closed: usize,
    /// The time at which they were closed.
    closed_at: Nanos,
    /// The time at which the open bundle leaves.
    due: Option<Nanos>,
    stats: MuxStats,
}

impl<P: Packet> Mux<P> {
    pub fn new(config: MuxConfig<P::Flow>, header: u32) -> Self {
        Self {
            select: Selector::new(config.select.clone()),
            config,
            header,
            held: VecDeque::with_capacity(64),
            closed: 0,
            closed_at: 0,
            due: None,
            stats: MuxStats::default(),
        }
    }

    pub fn stats(&self) -> MuxStats {
        self.stats
    }

    pub fn matches(&self, packet: &P) -> bool {
        self.select.matches(packet)
    }

    pub fn packets(&self) -> usize {
        self.held.len()
    }

    /// The time at which [`pop`](Self::pop) next returns a packet.
    pub fn due(&self) -> Option<Nanos> {
        if self.closed > 0 {
            Some(self.closed_at)
        } else {
            self.due
        }
    }

    fn open(&self) -> usize {
        self.held.len() - self.closed
    }

    fn open_bytes(&self, packets: usize) -> u64 {
        let BundleSizes {
            header_bytes,
            packet_bytes,
        } = self.config.sizes;
        u64::from(header_bytes) + u64::from(packet_bytes) * packets as u64
    }

    /// The time at which a bundle that begins at `now` leaves.
    fn release(&self, now: Nanos) -> Nanos {
        let period = self.config.period.get();
        match self.config.release {
            Release::FirstPacket => now.saturating_add(period),
            Release::Ticks { phase } if now <= phase => phase,
            Release::Ticks { phase } => {
                let ticks = (now - phase).div_ceil(period);
                phase.saturating_add(ticks.saturating_mul(period))
            }
        }
    }

    /// Takes a packet.
    pub fn offer(&mut self, packet: P, len: u32, now: Nanos) {
        let longer = self.open_bytes(self.open() + 1);
        let most = self.config.max_bytes.map_or(u64::MAX, u64::from);
        if self.open() > 0 && longer > most {
            self.close(now);
        }
        let first = self.open() == 0;
        if first {
            self.due = Some(self.release(now));
        }
        self.held.push_back(Held {
            packet,
            len,
            first,
            arrived: now,
        });
        if self.open() >= self.config.max_packets.get() as usize {
            self.close(now);
        }
    }

    fn close(&mut self, now: Nanos) {
        let packets = self.open();
        self.stats.bundles += 1;
        self.stats.bundle_bytes += self.open_bytes(packets);
        self.stats.largest = self.stats.largest.max(packets as u64);
        self.closed = self.held.len();
        self.closed_at = now;
        self.due = None;
    }

    /// The next packet whose bundle has left by `now`, and the bytes that it takes on the link.
    pub fn pop(&mut self, now: Nanos) -> Option<(P, u32)> {
        if self.closed == 0 {
            let due = self.due.filter(|due| *due <= now)?;
            self.close(due);
        }
        let held = self.held.pop_front()?;
        self.closed -= 1;
        let wait = self.closed_at.saturating_sub(held.arrived);
        self.stats.packets += 1;
        self.stats.native_bytes += u64::from(held.len.saturating_sub(self.header));
        self.stats.wait_ns += u128::from(wait);
        self.stats.wait_max_ns = self.stats.wait_max_ns.max(wait);
        let BundleSizes {
            header_bytes,
            packet_bytes,
        } = self.config.sizes;
        let len = match (self.config.compress, held.first) {
            (false, _) => held.len,
            (true, true) => self.header + header_bytes + packet_bytes,
            (true, false) => packet_bytes,
        };
        Some((held.packet, len))
    }
}
