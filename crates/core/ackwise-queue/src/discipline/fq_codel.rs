//! FlowQueue-CoDel (RFC 8290), with a class of its own for pure ACKs.
//!
//! ```text
//!                    ┌─ ACKs: new flows, old flows ─┐
//! arrival ─► filter ─┤                              ├─ by deficit in bytes ─► departure
//!                    └─ data: new flows, old flows ─┘
//! ```
//!
//! A flow is one of `flows` queues, chosen by a hash of its 5-tuple; each has CoDel's state
//! ([`super::codel`]) and a deficit. Flows that have just begun to send leave before the others,
//! for one quantum. If ACKs have a share, ACKs and data are two classes with their own flows. While
//! both wait, ACKs get that share of the bytes: an ACK leaves before data as long as its class has
//! not used up its share, so it waits for at most one data packet. A FIN or RST is in the data
//! class, so that it stays behind the data of its flow.

use std::collections::VecDeque;

use ackwise_policy::TcpFlags;

use super::codel::{Codel, Params};
use super::filter::Filter;
use super::store::{NONE, Store, Tag};
use super::{FromConfig, QueueConfig};
use crate::Nanos;
use crate::packet::{Ecn, Packet};
use crate::queue::{DropCause, Evicted, QueueDiscipline, QueueLimit, QueueStats, Queued};

/// The parameters of FlowQueue-CoDel, as `tc-fq_codel(8)` names them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FqCodelConfig {
    /// The maximum number of bytes that wait, in addition to the limit of the queue.
    pub memory_limit: u64,
    /// The number of queues that flows are spread over, in each class if ACKs have a share.
    pub flows: u32,
    /// The bytes that a flow may send per turn. `None`: what the link carries in 1/4096 s, at least
    /// 300 and at most 1514, as in sch_cake.
    pub quantum: Option<u32>,
    /// The acceptable sojourn time of a standing queue, in nanoseconds. `None`: 5 ms, or the time
    /// that the link needs for one and a half full packets, if that is more (RFC 8290 §5.2.2).
    pub target_ns: Option<Nanos>,
    /// The assumed round-trip time, in nanoseconds. If the target follows from the rate, it is
    /// lengthened by as much as the target exceeds 5 ms, and is at least twice the target.
    pub interval_ns: Nanos,
    /// ECN-capable packets that waited for longer than this are marked, in nanoseconds.
    pub ce_threshold_ns: Option<Nanos>,
    /// Marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// The share of the bytes that pure ACKs get while others wait, between 0 and 1; a SYN without
    /// data counts as a pure ACK. `None`: ACKs are in the queues of their flows.
    pub ack_share: Option<f64>,
    /// The rate of the link, in bits per second.
    pub rate_bps: Option<u64>,
    /// The length of a full packet in bytes, as it counts against the rate. It grows when a longer
    /// packet arrives.
    pub full_packet: u32,
}

impl FqCodelConfig {
    /// The defaults of `tc-fq_codel(8)`, except for what depends on the rate.
    #[must_use]
    pub fn new(rate_bps: Option<u64>) -> Self {
        Self {
            memory_limit: 32 << 20,
            flows: 1024,
            quantum: None,
            target_ns: None,
            interval_ns: 100_000_000,
            ce_threshold_ns: None,
            ecn: true,
            ack_share: None,
            rate_bps,
            full_packet: ETHERNET,
        }
    }

    /// CoDel's parameters for full packets of this many bytes.
    fn params(&self, full_packet: u32) -> Params {
        let time = |bytes: u64, rate: u64| {
            Nanos::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(rate.max(1)))
                .unwrap_or(Nanos::MAX)
        };
        let (target, interval) = match (self.target_ns, self.rate_bps) {
            (Some(target), _) => (target, self.interval_ns),
            (None, None) => (TARGET_NS, self.interval_ns),
            (None, Some(rate)) => {
                let target = TARGET_NS.max(time(u64::from(full_packet) * 3 / 2, rate));
                let later = self.interval_ns.saturating_add(target - TARGET_NS);
                (target, later.max(target.saturating_mul(2)))
            }
        };
        Params {
            target,
            interval,
            full_packet,
        }
    }

    fn quantum(&self) -> u32 {
        self.quantum.unwrap_or_else(|| {
            let rate = self.rate_bps.unwrap_or(u64::MAX);
            let bytes = rate / 8 / 4096;
            u32::try_from(bytes)
                .unwrap_or(u32::MAX)
                .clamp(300, ETHERNET)
        })
    }
}

/// CoDel's target if the time of a packet is short compared to it.
const TARGET_NS: Nanos = 5_000_000;
/// The default length of a full packet, bytes: Ethernet's.
const ETHERNET: u32 = 1514;
/// Bytes that a flow of ACKs may send per turn: one or two ACKs.
const ACK_QUANTUM: u32 = 128;
/// Number of packets dropped at once when the queue is too long, so that the longest flow is rarely
/// searched for.
const DROP_BATCH: u32 = 64;

/// This many of a flow's newest ACKs are never dropped as stale. A sender without SACK retransmits
/// at the third duplicate (RFC 5681 §3.2).
const FRESH_ACKS: usize = 4;
/// The maximum number of packets behind an ACK that are searched for newer ones of its flow, when
/// flows share a queue.
const MAX_SEARCH: usize = 64;

/// The list that a flow is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowList {
    Idle,
    New,
    Old,
}

#[derive(Debug, Clone, Copy)]
struct FlowQueue {
    list: FlowList,
    /// Bytes that it may still send in this turn.
    deficit: i64,
    /// The next flow in its ring.
    next: u32,
    codel: Codel,
}

/// Flows waiting for their turn, first in, first out.
#[derive(Debug, Clone, Copy)]
struct Ring {
    head: u32,
    tail: u32,
}

impl Ring {
    const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };

    fn push(&mut self, queues: &mut [FlowQueue], lane: u32) {
        queues[lane as usize].next = NONE;
        if self.tail == NONE {
            self.head = lane;
        } else {
            queues[self.tail as usize].next = lane;
        }
        self.tail = lane;
    }

    fn pop(&mut self, queues: &[FlowQueue]) {
        self.head = queues[self.head as usize].next;
        if self.head == NONE {
            self.tail = NONE;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Class {
    new: Ring,
    old: Ring,
    /// Bytes that a flow may send per turn.
    quantum: u32,
}

/// The class of packets with data, or of all packets.
const DATA: usize = 0;
/// The class of packets that may leave before the data of their flow.
const ACKS: usize = 1;
/// One byte, in the unit of shares.
const BYTE: i64 = 1 << 16;

/// How two classes share the link.
#[derive(Debug, Clone, Copy)]
struct Sharing {
    /// The share of ACKs in 1/65536.
    share: i64,
    /// The ACKs' credit, in 1/65536 bytes; they are next if it is not negative.
    credit: i64,
}

impl Sharing {
    fn new(share: f64) -> Self {
        Self {
            share: ((share * BYTE as f64) as i64).clamp(1, BYTE - 1),
            credit: 0,
        }
    }

    /// Accounts for a packet sent while the other class waits, or for data sent while it does not.
    fn sent(&mut self, class: usize, len: u32, full_packet: u32) {
        let len = i64::from(len);
        if class == ACKS {
            self.credit -= len * (BYTE - self.share);
        } else {
            // Unused share is not saved up beyond that of one full packet.
            let most = i64::from(full_packet) * self.share;
            self.credit = (self.credit + len * self.share).min(most);
        }
    }
}

/// FlowQueue-CoDel with a class for ACKs.
#[derive(Debug)]
pub struct FqCodel<P: Packet> {
    config: FqCodelConfig,
    limit: QueueLimit,
    seed: u64,
    params: Params,
    store: Store<P>,
    filter: Option<Filter<P::Flow>>,
    /// One queue per lane of the store: those of data, then those of ACKs.
    queues: Vec<FlowQueue>,
    classes: [Class; 2],
    sharing: Option<Sharing>,
    stats: QueueStats,
}

impl<P: Packet> FqCodel<P> {
    fn new(config: FqCodelConfig, queue: &QueueConfig) -> Self {
        let flows = config.flows.max(1);
        let lanes = flows as usize * if config.ack_share.is_some() { 2 } else { 1 };
        let class = Class {
            new: Ring::EMPTY,
            old: Ring::EMPTY,
            quantum: config.quantum(),
        };
        let idle = FlowQueue {
            list: FlowList::Idle,
            deficit: 0,
            next: NONE,
            codel: Codel::default(),
        };
        Self {
            config: FqCodelConfig { flows, ..config },
            limit: queue.limit,
            seed: queue.seed,
            params: config.params(config.full_packet),
            store: Store::with_capacity(queue.limit.room().min(1024), lanes).split_at(flows),
            filter: queue
                .ack_filter
                .map(|filter| Filter::new(filter, config.ack_share.is_some())),
            queues: vec![idle; lanes],
            classes: [
                class,
                Class {
                    quantum: ACK_QUANTUM,
                    ..class
                },
            ],
            sharing: config.ack_share.map(Sharing::new),
            stats: QueueStats::default(),
        }
    }

    fn class_of_lane(&self, lane: u32) -> usize {
        if lane < self.config.flows { DATA } else { ACKS }
    }

    fn lane_of(&self, packet: &P) -> u32 {
        let bucket = (packet.flow_hash(self.seed) % u64::from(self.config.flows)) as u32;
        if self.sharing.is_some() && may_overtake(packet) {
            self.config.flows + bucket
        } else {
            bucket
        }
    }

    fn packets_of(&self, class: usize) -> usize {
        if class == DATA {
            self.store.packets_below()
        } else {
            self.store.packets() - self.store.packets_below()
        }
    }

    /// Gives a flow that has packets its turn.
    fn wake(&mut self, lane: u32) {
        let class = self.class_of_lane(lane);
        let queue = &mut self.queues[lane as usize];
        if queue.list == FlowList::Idle {
            queue.list = FlowList::New;
            queue.deficit = i64::from(self.classes[class].quantum);
            self.classes[class].new.push(&mut self.queues, lane);
        }
    }

    /// Removes a packet from its lane without sending it.
    fn discard(&mut self, id: u32, cause: DropCause, evicted: &mut VecDeque<Evicted<P>>) {
        if let Some(filter) = &mut self.filter {
            filter.on_remove(&mut self.store, id);
        }
        if let Some(queued) = self.store.remove(id) {
            evicted.push_back(Evicted { queued, cause });
        }
    }

    fn is_too_long(&self) -> bool {
        self.store.bytes() > self.config.memory_limit
            || !match self.limit {
                QueueLimit::Packets(limit) => self.store.packets() <= limit,
                QueueLimit::Bytes(limit) => self.store.bytes() <= limit,
                QueueLimit::Unlimited => true,
            }
    }

    /// Drops half of the longest flow from its head, up to [`DROP_BATCH`] packets.
    fn shorten(&mut self, evicted: &mut VecDeque<Evicted<P>>) {
        let lanes = 0..self.queues.len() as u32;
        let Some(lane) = lanes.max_by_key(|lane| self.store.lane_bytes(*lane)) else {
            return;
        };
        let enough = self.store.lane_bytes(lane) / 2;
        for _ in 0..DROP_BATCH {
            let Some(id) = self.store.first(lane) else {
                return;
            };
            self.stats.tail_drops += 1;
            self.discard(id, DropCause::QueueFull, evicted);
            let queue = &mut self.queues[lane as usize];
            // As Linux does: a flow that overflows has been above the target for long.
            queue.codel.count = queue.codel.count.saturating_add(1);
            if self.store.lane_bytes(lane) <= enough {
                return;
            }
        }
    }

    /// The packet at the head of a lane, and whether CoDel may drop it.
    fn head(&mut self, lane: u32, now: Nanos) -> Option<(u32, bool)> {
        let codel = &mut self.queues[lane as usize].codel;
        let Some(id) = self.store.first(lane) else {
            codel.emptied();
            return None;
        };
        let behind = self.store.lane_bytes(lane) - u64::from(self.store.len(id));
        let arrived = self.store.queued_mut(id).map_or(now, |it| it.arrived_ns);
        let sojourn = now.saturating_sub(arrived);
        Some((id, codel.ok_to_drop(&self.params, now, sojourn, behind)))
    }

    /// Marks a packet; returns false if it has to be dropped instead.
    fn try_mark(&mut self, id: u32) -> bool {
        let Some(queued) = self.store.queued_mut(id).filter(|_| self.config.ecn) else {
            return false;
        };
        match queued.packet.ecn() {
            Ecn::NotCapable => return false,
            Ecn::Capable => {
                queued.packet.mark();
                self.stats.marks += 1;
            }
            Ecn::Marked => {}
        }
        true
    }

    fn early_drop(&mut self, id: u32, evicted: &mut VecDeque<Evicted<P>>) {
        self.stats.early_drops += 1;
        self.discard(id, DropCause::Discipline, evicted);
    }

    /// The next packet of a lane to send: `dequeue()` of RFC 8289 §5.5, with marks as in Linux.
    fn next_of(
        &mut self,
        lane: u32,
        now: Nanos,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Option<u32> {
        let at = lane as usize;
        let (mut id, mut ok_to_drop) = self.head(lane, now)?;
        if !self.queues[at].codel.is_dropping {
            if ok_to_drop {
                if !self.try_mark(id) {
                    self.early_drop(id, evicted);
                    id = self.head(lane, now)?.0;
                }
                self.queues[at].codel.start_dropping(&self.params, now);
            }
            return Some(id);
        }
        loop {
            let codel = &mut self.queues[at].codel;
            if !ok_to_drop {
                codel.is_dropping = false;
                return Some(id);
            }
            if now < codel.drop_next {
                return Some(id);
            }
            codel.count = codel.count.saturating_add(1);
            let (due, count) = (codel.drop_next, codel.count);
            if self.try_mark(id) {
                self.queues[at].codel.drop_next = self.params.next_drop(due, count);
                return Some(id);
            }
            self.early_drop(id, evicted);
            (id, ok_to_drop) = self.head(lane, now)?;
            if ok_to_drop {
                self.queues[at].codel.drop_next = self.params.next_drop(due, count);
            }
        }
    }

    /// Drops the oldest ACKs of a flow that have waited for longer than the target while newer ones
    /// of the flow wait behind them. Dropping ACKs does not slow them down, so CoDel's law alone
    /// would let those that no filter may remove wait for seconds. An ECN-capable ACK is marked
    /// instead, and leaves: a receiver that makes its ACKs ECN-capable sends fewer when it hears of
    /// the mark.
    fn drop_stale_acks(&mut self, lane: u32, now: Nanos, evicted: &mut VecDeque<Evicted<P>>) {
        while self.store.lane_packets(lane) as usize > FRESH_ACKS
            && let Some(id) = self.store.first(lane)
            && self.is_stale(id, now)
        {
            if self.try_mark(id) {
                return;
            }
            self.early_drop(id, evicted);
        }
    }

    /// Whether this is a pure ACK that has waited for longer than the target while [`FRESH_ACKS`]
    /// newer ones of its flow wait. Another flow may share the queue.
    fn is_stale(&self, id: u32, now: Nanos) -> bool {
        let Some(Queued {
            packet, arrived_ns, ..
        }) = self.store.queued(id)
        else {
            return false;
        };
        let is_late = now.saturating_sub(*arrived_ns) > self.params.target;
        if !is_late || !packet.is_pure_ack() {
            return false;
        }
        let flow = packet.flow();
        let behind = self.store.behind(id).take(MAX_SEARCH);
        let mut newer = behind.filter(|other| other.flow() == flow && other.is_pure_ack());
        newer.nth(FRESH_ACKS - 1).is_some()
    }

    /// The next packet of a class to send, and its lane (RFC 8290 §4.2).
    fn next_of_class(
        &mut self,
        class: usize,
        now: Nanos,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Option<(u32, u32)> {
        loop {
            let Class { new, old, quantum } = self.classes[class];
            let is_new = new.head != NONE;
            let lane = if is_new { new.head } else { old.head };
            if lane == NONE {
                return None;
            }
            let exhausted = self.queues[lane as usize].deficit <= 0;
            if class == ACKS && !exhausted {
                self.drop_stale_acks(lane, now, evicted);
            }
            if !exhausted && let Some(id) = self.next_of(lane, now, evicted) {
                return Some((lane, id));
            }
            let Class { new, old, .. } = &mut self.classes[class];
            let from = if is_new { &mut *new } else { &mut *old };
            from.pop(&self.queues);
            let queue = &mut self.queues[lane as usize];
            if exhausted {
                queue.deficit += i64::from(quantum);
            }
            // A new flow that runs empty passes once through the old flows, so that packets that
            // come one at a time cannot starve them.
            if exhausted || (is_new && old.head != NONE) {
                queue.list = FlowList::Old;
                old.push(&mut self.queues, lane);
            } else {
                queue.list = FlowList::Idle;
            }
        }
    }

    /// The class that is next, if packets wait.
    fn next_class(&self) -> usize {
        let waits = |class| self.packets_of(class) > 0;
        match &self.sharing {
            Some(sharing) if waits(ACKS) && (!waits(DATA) || sharing.credit >= 0) => ACKS,
            _ => DATA,
        }
    }
}

/// Whether a packet may leave before data of its flow that came earlier: a pure ACK, or a SYN
/// without data. A FIN or RST has its place behind these data: a receiver keeps a FIN that comes
/// before them as a gap, and challenges an RST (RFC 5961 §3.2). URG refers to data.
pub(super) fn may_overtake<P: Packet>(packet: &P) -> bool {
    packet.segment().is_some_and(|segment| {
        let flags = segment.flags();
        segment.payload() == 0
            && flags.intersects(TcpFlags::ACK | TcpFlags::SYN)
            && !flags.intersects(TcpFlags::FIN | TcpFlags::RST | TcpFlags::URG)
    })
}

impl<P: Packet> FromConfig for Box<FqCodel<P>> {
    fn from_config(config: &QueueConfig) -> Option<Self> {
        let fq_codel = config.fq_codel?;
        Some(Box::new(FqCodel::new(fq_codel, config)))
    }
}

impl<P: Packet> QueueDiscipline<P> for FqCodel<P> {
    fn enqueue(
        &mut self,
        queued: Queued<P>,
        evicted: &mut VecDeque<Evicted<P>>,
    ) -> Result<(), Evicted<P>> {
        let len = queued.len;
        if !self.limit.has_room(0, 0, len) || u64::from(len) > self.config.memory_limit {
            self.stats.tail_drops += 1;
            return Err(Evicted {
                queued,
                cause: DropCause::QueueFull,
            });
        }
        if len > self.params.full_packet {
            self.params = self.config.params(len);
        }
        let lane = self.lane_of(&queued.packet);
        let now = queued.arrived_ns;
        let arrival = self
            .filter
            .as_mut()
            .and_then(|filter| filter.inspect(&self.store, &queued.packet, now));
        match (&mut self.filter, arrival) {
            // The filter only removes packets without data.
            (Some(filter), Some(arrival)) => filter.admit(
                &mut self.store,
                queued,
                lane,
                &arrival,
                evicted,
                &mut self.stats,
            ),
            _ => {
                self.store.push(lane, queued, Tag::NONE);
            }
        }
        self.wake(lane);
        while self.is_too_long() {
            self.shorten(evicted);
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Nanos, evicted: &mut VecDeque<Evicted<P>>) -> Option<Queued<P>> {
        let class = self.next_class();
        let (lane, id) = self.next_of_class(class, now, evicted)?;
        if let Some(filter) = &mut self.filter {
            filter.on_dequeue(&mut self.store, id, now);
        }
        let mut queued = self.store.remove(id)?;
        let sojourn = now.saturating_sub(queued.arrived_ns);
        let is_late = self.config.ce_threshold_ns.is_some_and(|it| sojourn > it);
        if is_late && queued.packet.ecn() == Ecn::Capable {
            queued.packet.mark();
            self.stats.marks += 1;
        }
        self.queues[lane as usize].deficit -= i64::from(queued.len);
        let data_waits = self.packets_of(DATA) > 0;
        if let Some(sharing) = self
            .sharing
            .as_mut()
            .filter(|_| class == DATA || data_waits)
        {
            sharing.sent(class, queued.len, self.params.full_packet);
        }
        Some(queued)
    }

    fn packets(&self) -> usize {
        self.store.packets()
    }

    fn bytes(&self) -> u64 {
        self.store.bytes()
    }

    fn stats(&self) -> QueueStats {
        self.stats
    }

    fn rate_changed(&mut self, bps: u64) {
        self.config.rate_bps = Some(bps);
        self.params = self.config.params(self.params.full_packet);
        self.classes[DATA].quantum = self.config.quantum();
    }

    fn full_packet_changed(&mut self, bytes: u32) {
        self.config.full_packet = bytes;
        self.params = self.config.params(bytes);
    }

    fn ends(&mut self) {
        self.config.target_ns = Some(Nanos::MAX);
        self.config.ce_threshold_ns = None;
        self.params = self.config.params(self.params.full_packet);
    }
}
