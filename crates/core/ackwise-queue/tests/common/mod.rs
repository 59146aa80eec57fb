//! Packets for the tests of disciplines.
#![allow(dead_code, reason = "each test uses its part")]

use ackwise_policy::{Segment, sys};
use ackwise_queue::{
    Discipline, Ecn, FilterConfig, FilterRule, Nanos, Packet, Place, QueueConfig, QueueDiscipline,
    QueueLimit, Queued,
};

pub const ACK: u16 = sys::AW_TCP_ACK as u16;
pub const SYN: u16 = sys::AW_TCP_SYN as u16;
pub const FIN: u16 = sys::AW_TCP_FIN as u16;
pub const RST: u16 = sys::AW_TCP_RST as u16;
pub const PSH: u16 = sys::AW_TCP_PSH as u16;
pub const URG: u16 = sys::AW_TCP_URG as u16;
pub const ECE: u16 = sys::AW_TCP_ECE as u16;
pub const CWR: u16 = sys::AW_TCP_CWR as u16;
pub const AE: u16 = sys::AW_TCP_AE as u16;

/// A segment with an identifying number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TestPacket {
    pub id: u32,
    pub flow: u32,
    pub flags: u16,
    pub seq: u32,
    pub ack: u32,
    pub payload: u32,
    pub window: u16,
    pub ecn: Ecn,
    pub ts: Option<(u32, u32)>,
    pub sack: [(u32, u32); 4],
    pub n_sack: u32,
    pub unknown_option: bool,
    pub synthetic: bool,
}

/// An ACK of flow 0.
pub fn ack(id: u32, ack: u32) -> TestPacket {
    TestPacket {
        id,
        flow: 0,
        flags: ACK,
        seq: 0,
        ack,
        payload: 0,
        window: 10_000,
        ecn: Ecn::NotCapable,
        ts: None,
        sack: [(0, 0); 4],
        n_sack: 0,
        unknown_option: false,
        synthetic: false,
    }
}

impl TestPacket {
    pub fn flow(self, flow: u32) -> Self {
        Self { flow, ..self }
    }
    pub fn flags(self, flags: u16) -> Self {
        Self { flags, ..self }
    }
    pub fn seq(self, seq: u32) -> Self {
        Self { seq, ..self }
    }
    pub fn payload(self, payload: u32) -> Self {
        Self { payload, ..self }
    }
    pub fn window(self, window: u16) -> Self {
        Self { window, ..self }
    }
    pub fn ecn(self, ecn: Ecn) -> Self {
        Self { ecn, ..self }
    }
    pub fn ts(self, val: u32, ecr: u32) -> Self {
        Self {
            ts: Some((val, ecr)),
            ..self
        }
    }
    pub fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        self.sack[..blocks.len()].copy_from_slice(blocks);
        self.n_sack = blocks.len() as u32;
        self
    }
    pub fn unknown_option(self) -> Self {
        Self {
            unknown_option: true,
            ..self
        }
    }
    pub fn len(&self) -> u32 {
        let options = if self.ts.is_some() { 12 } else { 0 } + self.n_sack * 8;
        40 + options + self.payload
    }
}

impl Packet for TestPacket {
    type Flow = u32;

    fn flow(&self) -> u32 {
        self.flow
    }

    fn is_pure_ack(&self) -> bool {
        self.payload == 0 && self.flags & (SYN | FIN | RST) == 0 && self.flags & ACK != 0
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        assert_eq!(
            self.ecn,
            Ecn::Capable,
            "asked to mark what cannot be marked"
        );
        self.ecn = Ecn::Marked;
    }

    fn segment(&self) -> Option<Segment> {
        let mut raw = sys::aw_seg {
            ip_version: 4,
            ip_ecn: match self.ecn {
                Ecn::NotCapable => 0,
                Ecn::Capable => 2,
                Ecn::Marked => 3,
            },
            ttl: 64,
            seq: self.seq,
            ack: self.ack,
            payload: self.payload,
            len: self.len(),
            flags: self.flags,
            window: self.window,
            ce_bytes: u32::MAX,
            e0_bytes: u32::MAX,
            e1_bytes: u32::MAX,
            n_sack: self.n_sack,
            ..Default::default()
        };
        if let Some((val, ecr)) = self.ts {
            raw.opts |= sys::AW_OPT_TS as u16;
            raw.tsval = val;
            raw.tsecr = ecr;
        }
        for (index, (left, right)) in self.sack.iter().take(self.n_sack as usize).enumerate() {
            raw.opts |= sys::AW_OPT_SACK as u16;
            raw.sack[2 * index] = *left;
            raw.sack[2 * index + 1] = *right;
        }
        if self.unknown_option {
            raw.opts |= sys::AW_OPT_UNKNOWN as u16;
        }
        Some(Segment::from_raw(raw))
    }

    fn synthesize(&self, back: u32) -> Option<Self> {
        Some(Self {
            ack: self.ack.wrapping_sub(back),
            synthetic: true,
            ..*self
        })
    }
}

pub const RFC: FilterRule = FilterRule::Rfc3449 {
    keep: 0,
    place: Place::Append,
    max_stretch: None,
};

pub fn filtered(rule: FilterRule, limit: QueueLimit) -> QueueConfig {
    QueueConfig {
        ack_filter: Some(FilterConfig::new(rule)),
        ..QueueConfig::drop_tail(limit)
    }
}

/// A queue and its results.
pub struct TestQueue {
    pub queue: Discipline<TestPacket>,
    pub now: Nanos,
    /// Ids that were rejected, filtered, or dropped later.
    pub gone: Vec<u32>,
    evicted: std::collections::VecDeque<ackwise_queue::Evicted<TestPacket>>,
}

impl TestQueue {
    pub fn new(config: &QueueConfig) -> Self {
        Self {
            queue: Discipline::new(config),
            now: 0,
            gone: Vec::new(),
            evicted: std::collections::VecDeque::new(),
        }
    }

    /// Offers a packet one millisecond after the last; false if it was rejected.
    pub fn put(&mut self, packet: TestPacket) -> bool {
        self.now += 1_000_000;
        let queued = Queued {
            len: packet.len(),
            packet,
            arrived_ns: self.now,
        };
        let taken = match self.queue.enqueue(queued, &mut self.evicted) {
            Ok(()) => true,
            Err(evicted) => {
                self.gone.push(evicted.queued.packet.id);
                false
            }
        };
        self.gone
            .extend(self.evicted.drain(..).map(|e| e.queued.packet.id));
        taken
    }

    pub fn take(&mut self) -> Option<TestPacket> {
        self.now += 1_000_000;
        let queued = self.queue.dequeue(self.now, &mut self.evicted)?;
        Some(queued.packet)
    }

    /// The ids of all waiting packets, in the order in which they leave.
    pub fn drain(&mut self) -> Vec<u32> {
        std::iter::from_fn(|| self.take()).map(|p| p.id).collect()
    }

    /// Enqueues ACKs 1000, 2000, … and dequeues each at once, so that the flow is past its start;
    /// the last one is `segments` × 1000.
    pub fn grow(&mut self, flow: u32, segments: u32) {
        for segment in 1..=segments {
            assert!(self.put(ack(0, segment * 1000).flow(flow)));
            assert!(self.take().is_some());
        }
    }
}
