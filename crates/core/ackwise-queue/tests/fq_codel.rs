//! FlowQueue-CoDel: its control law, fairness and bounds.

mod common;

use std::collections::{BTreeMap, VecDeque};

use ackwise_queue::{
    Departure, Discipline, DropCause, Ecn, Evicted, FilterConfig, FqCodelConfig, Link, LinkConfig,
    Nanos, QueueConfig, QueueDiscipline, QueueLimit, Queued, Verdict,
};
use common::{ACK, FIN, RFC, RST, SYN, TestPacket, URG, ack};
use proptest::prelude::*;

const MS: Nanos = 1_000_000;

/// Data of a flow: a packet 40 bytes longer than its payload.
fn data(id: u32, flow: u32, payload: u32) -> TestPacket {
    ack(id, 0).flow(flow).payload(payload)
}

fn config(fq_codel: FqCodelConfig) -> QueueConfig {
    QueueConfig {
        fq_codel: Some(fq_codel),
        seed: 1,
        ..QueueConfig::drop_tail(QueueLimit::Unlimited)
    }
}

/// Drops nothing, however long it waits.
fn patient() -> FqCodelConfig {
    FqCodelConfig {
        target_ns: Some(Nanos::MAX),
        flows: 65_536,
        ..FqCodelConfig::new(None)
    }
}

struct Queue {
    queue: Discipline<TestPacket>,
    evicted: VecDeque<Evicted<TestPacket>>,
}

impl Queue {
    fn new(config: &QueueConfig) -> Self {
        Self {
            queue: Discipline::new(config),
            evicted: VecDeque::new(),
        }
    }

    fn put(&mut self, packet: TestPacket, now: Nanos) -> bool {
        let queued = Queued {
            len: packet.len(),
            packet,
            arrived_ns: now,
        };
        self.queue.enqueue(queued, &mut self.evicted).is_ok()
    }

    fn take(&mut self, now: Nanos) -> Option<TestPacket> {
        let queued = self.queue.dequeue(now, &mut self.evicted)?;
        Some(queued.packet)
    }
}

/// The milliseconds at which CoDel drops from a queue that always stands, according to RFC 8289 §3:
/// after an interval above the target, and then interval / √count after the previous drop.
fn expected_drops(first: f64, interval: f64, drops: usize) -> Vec<u64> {
    let mut due = first + interval;
    let mut at = vec![due.ceil() as u64];
    for count in 1..drops {
        due += interval / (count as f64).sqrt();
        at.push(due.ceil() as u64);
    }
    at
}

#[test]
fn drops_follow_the_control_law() {
    let mut queue = Queue::new(&config(FqCodelConfig::new(None)));
    for id in 0..4_000 {
        assert!(queue.put(data(id, 7, 1_000), 0));
    }
    let mut drops = Vec::new();
    // Polled each millisecond; the first poll is at 10 ms, when all packets have waited for 10 ms.
    for ms in 10..2_000 {
        assert!(queue.take(ms * MS).is_some());
        for gone in queue.evicted.drain(..) {
            assert_eq!(gone.cause, DropCause::Discipline);
            drops.push(ms);
        }
    }
    assert!(drops.len() > 60, "{}", drops.len());
    assert_eq!(drops, expected_drops(10.0, 100.0, drops.len()));
    // The first values in a table of the law.
    assert_eq!(drops[..6], [110, 210, 281, 339, 389, 434]);
    assert_eq!(queue.queue.stats().early_drops, drops.len() as u64);
}

/// Keeps a queue standing over `span`, in ms, by adding a packet for each one taken.
fn stand(queue: &mut Queue, span: std::ops::Range<u64>, late: u64) -> Vec<u64> {
    let mut drops = Vec::new();
    for ms in span {
        while queue.queue.packets() < 8 {
            assert!(queue.put(data(0, 7, 1_000), (ms - late) * MS));
        }
        assert!(queue.take(ms * MS).is_some());
        drops.extend(queue.evicted.drain(..).map(|_| ms));
    }
    drops
}

#[test]
fn dropping_that_begins_again_goes_on_where_it_was() {
    let mut queue = Queue::new(&config(FqCodelConfig::new(None)));
    let before = stand(&mut queue, 100..700, 20);
    assert_eq!(
        before.len(),
        expected_drops(100.0, 100.0, 60)
            .iter()
            .filter(|ms| **ms < 700)
            .count()
    );
    // A pause of eight intervals without delay, and then the queue stands again.
    while queue.take(700 * MS).is_some() {}
    let again = stand(&mut queue, 1_500..2_000, 20);
    // It started with 1, and had dropped `before.len()` in all: it continues with one less.
    let count = before.len() as f64 - 1.0;
    let gap = again[1] - again[0];
    assert_eq!(gap, (100.0 / count.sqrt()).ceil() as u64);
    // After more than sixteen intervals it starts again.
    while queue.take(2_000 * MS).is_some() {}
    let anew = stand(&mut queue, 4_000..4_400, 20);
    assert_eq!(anew[1] - anew[0], 100);
}

#[test]
fn capable_packets_are_marked_instead() {
    for (ecn, ce_threshold_ns) in [(true, None), (false, None), (true, Some(3 * MS))] {
        let fq_codel = FqCodelConfig {
            ecn,
            ce_threshold_ns,
            ..FqCodelConfig::new(None)
        };
        let mut queue = Queue::new(&config(fq_codel));
        for id in 0..2_000 {
            assert!(queue.put(data(id, 7, 1_000).ecn(Ecn::Capable), 0));
        }
        let marked: Vec<u64> = (1..1_000)
            .filter(|ms| queue.take(ms * MS).unwrap().ecn == Ecn::Marked)
            .collect();
        let stats = queue.queue.stats();
        assert_eq!(stats.marks, marked.len() as u64);
        match (ecn, ce_threshold_ns) {
            (true, None) => {
                assert_eq!(stats.early_drops, 0);
                assert_eq!(marked, expected_drops(5.0, 100.0, marked.len()));
            }
            (false, _) => assert!(stats.marks == 0 && stats.early_drops > 10),
            // All that waited for more than 3 ms.
            (true, Some(_)) => assert_eq!(marked, (4..1_000).collect::<Vec<_>>()),
        }
    }
}

#[test]
fn a_thin_link_has_time_for_its_packets() {
    // 1514 bytes take 391 ms: packets arrive as fast as they leave, one behind another.
    let fq_codel = FqCodelConfig {
        ecn: false,
        ..FqCodelConfig::new(Some(31_000))
    };
    let rate = LinkConfig {
        rate_bps: Some(31_000),
        ..LinkConfig::default()
    };
    let mut link: Link<TestPacket, Discipline<TestPacket>> =
        Link::with_queue(rate, Discipline::new(&config(fq_codel)));
    for id in 0..200 {
        let now = u64::from(id) * 392 * MS;
        while let Some(departure) = link.pop_due(now) {
            drop(departure);
        }
        for _ in 0..if id == 0 { 2 } else { 1 } {
            assert_eq!(
                link.enqueue(data(id, 1, 1_474), 1_514, now),
                Verdict::Queued
            );
        }
    }
    assert_eq!(link.stats().dropped_discipline, 0);
    // Four standing packets are too many.
    for id in 0..200 {
        let now = (200 + u64::from(id)) * 392 * MS;
        while let Some(departure) = link.pop_due(now) {
            drop(departure);
        }
        while link.queue_packets() < 4 {
            assert_eq!(
                link.enqueue(data(id, 1, 1_474), 1_514, now),
                Verdict::Queued
            );
        }
    }
    assert!(link.stats().dropped_discipline > 10);
    // At a hundred times the rate, the same queue is short.
    link.set_rate(100_000_000);
    let before = link.stats().dropped_discipline;
    let start = 400 * 392 * MS;
    for id in 0..2_000_u32 {
        let now = start + u64::from(id) * MS;
        while let Some(departure) = link.pop_due(now) {
            drop(departure);
        }
        assert_eq!(
            link.enqueue(data(id, 1, 1_474), 1_514, now),
            Verdict::Queued
        );
    }
    assert!(link.stats().dropped_discipline <= before + 4);
}

#[test]
fn a_full_packet_is_as_long_as_the_link_has_it() {
    // Packets of 616 bytes take 159 ms, packets of 1514 bytes 391 ms.
    let drops = |full_packet, changed: Option<u32>| {
        let fq_codel = FqCodelConfig {
            ecn: false,
            full_packet,
            ..FqCodelConfig::new(Some(31_000))
        };
        let mut queue = Queue::new(&config(fq_codel));
        if let Some(bytes) = changed {
            queue.queue.full_packet_changed(bytes);
        }
        for now in (0..20_000).step_by(160) {
            // Each waits for three others, 480 ms.
            while queue.queue.packets() < 4 {
                queue.put(data(0, 1, 576), now * MS);
            }
            queue.take(now * MS);
        }
        queue.queue.stats().early_drops
    };
    // Targets of 587 ms and 239 ms.
    assert_eq!(drops(1_514, None), 0);
    assert!(drops(616, None) > 10);
    assert_eq!(drops(1_514, Some(616)), drops(616, None));
}

#[test]
fn nothing_is_dropped_or_marked_at_the_end() {
    let shared = FqCodelConfig {
        ack_share: Some(0.25),
        ce_threshold_ns: Some(MS),
        ..FqCodelConfig::new(Some(1_000_000))
    };
    let rate = LinkConfig {
        rate_bps: Some(1_000_000),
        ..LinkConfig::default()
    };
    let mut link: Link<TestPacket, Discipline<TestPacket>> =
        Link::with_queue(rate, Discipline::new(&config(shared)));
    for id in 0..100 {
        for packet in [
            data(id, 1, 1_460),
            data(id, 2, 1_460).ecn(Ecn::Capable),
            ack(id, 7).flow(3),
            ack(id, 7).flow(4).ecn(Ecn::Capable),
        ] {
            assert_eq!(link.enqueue(packet, packet.len(), 0), Verdict::Queued);
        }
    }
    // By then CoDel has begun to drop and to mark.
    let (mut left, mut gone) = (0, 0);
    let mut count = |departure| match departure {
        Departure::Delivered { .. } => left += 1,
        Departure::Dropped { .. } => gone += 1,
    };
    while let Some(departure) = link.pop_due(300 * MS) {
        count(departure);
    }
    let before = (*link.stats(), link.queue().stats());
    assert!(before.1.early_drops > 0 && before.1.marks > 0);
    link.end();
    while let Some(due) = link.next_wakeup() {
        link.pop_due(due.max(5_000 * MS)).map(&mut count);
    }
    let after = (*link.stats(), link.queue().stats());
    assert_eq!(after.1, before.1);
    assert_eq!(u64::from(gone as u32), before.1.early_drops);
    assert_eq!(left + gone, 400);
    assert!(after.0.delivered_packets > before.0.delivered_packets + 100);
}

#[test]
fn who_begins_to_send_leaves_first() {
    let mut queue = Queue::new(&config(patient()));
    for id in 0..20 {
        queue.put(data(id, 1, 1_460), 0);
        queue.put(data(100 + id, 2, 1_460), 0);
    }
    // Both have had their first turn.
    for _ in 0..4 {
        queue.take(0);
    }
    queue.put(data(500, 3, 80), 0);
    assert_eq!(queue.take(0).unwrap().id, 500);
    // A flow that sends one packet at a time gets no more than a turn per packet.
    let mut others = 0;
    for round in 0..20 {
        queue.put(data(600 + round, 3, 1_460), 0);
        others += u32::from(queue.take(0).unwrap().id < 500);
    }
    assert!(others >= 9, "{others}");
}

#[test]
fn an_ack_waits_for_one_packet_of_data_at_most() {
    let shared = FqCodelConfig {
        ack_share: Some(0.25),
        ..patient()
    };
    let mut queue = Queue::new(&config(shared));
    for id in 0..50 {
        queue.put(data(id, id % 5, 1_460), 0);
    }
    for id in 1_000..1_040 {
        assert!(queue.take(0).unwrap().id < 50);
        queue.put(ack(id, id).flow(9), 0);
        assert_eq!(queue.take(0).unwrap().id, id);
    }
}

#[test]
fn what_ends_a_connection_stays_behind_its_data() {
    let shared = FqCodelConfig {
        ack_share: Some(0.25),
        ..patient()
    };
    for (flags, overtakes) in [
        (ACK, true),
        (SYN, true),
        (SYN | ACK, true),
        (ACK | FIN, false),
        (FIN, false),
        (RST, false),
        (ACK | RST, false),
        (ACK | URG, false),
    ] {
        let mut queue = Queue::new(&config(shared));
        for id in 0..20 {
            queue.put(data(id, 1, 1_460), 0);
        }
        queue.put(ack(100, 7).flow(1).flags(flags), 0);
        let out: Vec<u32> = std::iter::from_fn(|| queue.take(0))
            .map(|packet| packet.id)
            .collect();
        let mut expected: Vec<u32> = (0..20).collect();
        expected.insert(if overtakes { 0 } else { 20 }, 100);
        assert_eq!(out, expected, "flags {flags:#x}");
    }
}

#[test]
fn stale_acks_are_dropped_while_newer_ones_wait() {
    let shared = FqCodelConfig {
        ack_share: Some(0.25),
        ..FqCodelConfig::new(None)
    };
    let mut queue = Queue::new(&config(shared));
    // Duplicates: no filter would remove them.
    for id in 0..40 {
        queue.put(ack(id, 7).flow(1), 0);
    }
    queue.put(ack(100, 7).flow(1).flags(ACK | FIN), 0);
    for id in 0..40 {
        queue.put(data(1_000 + id, 2, 1_460), 0);
    }
    // Within the target all leave; later the newest four. The FIN is not one of them: it goes with
    // data.
    assert_eq!(queue.take(4 * MS).unwrap().id, 0);
    let out: Vec<u32> = std::iter::from_fn(|| queue.take(20 * MS))
        .map(|packet| packet.id)
        .filter(|id| *id < 1_000)
        .collect();
    assert_eq!(out, [100, 36, 37, 38, 39]);
    assert_eq!(queue.queue.stats().early_drops, 35);
    // Without a share, in the queue of its flow, an ACK is a packet like any other.
    let mut queue = Queue::new(&config(FqCodelConfig::new(None)));
    for id in 0..40 {
        queue.put(ack(id, 7).flow(1), 0);
    }
    assert_eq!(queue.take(20 * MS).unwrap().id, 0);
}

#[test]
fn an_ack_is_stale_only_behind_newer_ones_of_its_flow() {
    // One queue for all flows.
    let shared = FqCodelConfig {
        ack_share: Some(0.25),
        flows: 1,
        ..FqCodelConfig::new(None)
    };
    let mut queue = Queue::new(&config(shared));
    // The only ACK of flow 1, and five of flow 3, among many of flow 2.
    let acks = (0..50).map(|id| match id {
        5 => (id, 1),
        10 | 15 | 20 | 25 | 30 => (id, 3),
        _ => (id, 2),
    });
    for (id, flow) in acks {
        queue.put(ack(id, 7).flow(flow), 0);
    }
    let out: Vec<u32> = std::iter::from_fn(|| queue.take(20 * MS))
        .map(|packet| packet.id)
        .collect();
    assert_eq!(out, [5, 15, 20, 25, 30, 46, 47, 48, 49]);
    assert_eq!(queue.queue.stats().early_drops, 41);
}

#[test]
fn stale_acks_that_are_capable_are_marked() {
    for ecn in [true, false] {
        let shared = FqCodelConfig {
            ack_share: Some(0.25),
            ecn,
            ..FqCodelConfig::new(None)
        };
        let mut queue = Queue::new(&config(shared));
        for id in 0..20 {
            queue.put(ack(id, 7).flow(1).ecn(Ecn::Capable), 0);
        }
        // It was already marked: the mark is neither lost nor counted.
        queue.put(ack(20, 7).flow(1).ecn(Ecn::Marked), 0);
        for id in 21..25 {
            queue.put(ack(id, 7).flow(1).ecn(Ecn::Capable), 0);
        }
        let out: Vec<(u32, bool)> = std::iter::from_fn(|| queue.take(20 * MS))
            .map(|packet| (packet.id, packet.ecn == Ecn::Marked))
            .collect();
        let stats = queue.queue.stats();
        if ecn {
            let expected: Vec<_> = (0..25).map(|id| (id, id <= 20)).collect();
            assert_eq!(out, expected);
            assert_eq!((stats.marks, stats.early_drops), (20, 0));
        } else {
            let expected: Vec<_> = (21..25).map(|id| (id, false)).collect();
            assert_eq!(out, expected);
            assert_eq!((stats.marks, stats.early_drops), (0, 21));
        }
    }
}

#[test]
fn the_longest_flow_makes_room() {
    let limited = QueueConfig {
        limit: QueueLimit::Packets(100),
        ..config(patient())
    };
    let mut queue = Queue::new(&limited);
    for id in 0..30 {
        queue.put(data(id, 1, 100), 0);
    }
    for id in 0..200 {
        assert!(queue.put(data(1_000 + id, 2, 1_000), 0));
        assert!(queue.queue.packets() <= 100);
    }
    assert!(
        queue
            .evicted
            .iter()
            .all(|gone| gone.queued.packet.flow == 2 && gone.cause == DropCause::QueueFull)
    );
    assert_eq!(queue.queue.stats().tail_drops, queue.evicted.len() as u64);
    // A packet that never fits is rejected.
    let memory = FqCodelConfig {
        memory_limit: 500,
        ..patient()
    };
    let mut queue = Queue::new(&config(memory));
    assert!(!queue.put(data(1, 1, 461), 0));
    assert!(queue.put(data(2, 1, 460), 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Flows that always have something to send differ by at most a quantum and a full packet.
    #[test]
    fn bytes_are_shared(
        quantum in 64_u32..2_000,
        sizes in prop::collection::vec(prop::collection::vec(1_u32..1_460, 60), 2..6),
        turns in 50_usize..55,
    ) {
        let fq_codel = FqCodelConfig { quantum: Some(quantum), ..patient() };
        let mut queue = Queue::new(&config(fq_codel));
        for (flow, sizes) in sizes.iter().enumerate() {
            for size in sizes {
                queue.put(data(0, flow as u32, *size), 0);
            }
        }
        let mut sent = vec![0_u32; sizes.len()];
        for _ in 0..turns {
            let packet = queue.take(0).unwrap();
            sent[packet.flow as usize] += packet.len();
            let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
            assert!(most - least <= quantum + 1_500, "{sent:?}");
        }
    }

    /// While both wait, ACKs get their share of the bytes over any time span, and data the rest:
    /// nobody starves.
    #[test]
    fn classes_keep_their_shares(
        share in 0.02_f64..0.98,
        sizes in prop::collection::vec((0_u32..3, 1_u32..1_460), 400),
    ) {
        let fq_codel = FqCodelConfig { ack_share: Some(share), ..patient() };
        let mut queue = Queue::new(&config(fq_codel));
        for (id, (flow, size)) in (0..).zip(&sizes) {
            queue.put(data(id, *flow, *size), 0);
        }
        for id in 0..4_000 {
            queue.put(ack(id, id).flow(10 + id % 3), 0);
        }
        // How far ACKs are ahead of their share, and behind it.
        let (mut ahead, mut least, mut most) = (0.0_f64, 0.0_f64, 0.0_f64);
        let mut left = (sizes.len(), 4_000);
        while left.0 > 0 && left.1 > 0 {
            let packet = queue.take(0).unwrap();
            if packet.payload > 0 {
                left.0 -= 1;
                ahead -= f64::from(packet.len()) * share;
            } else {
                left.1 -= 1;
                ahead += f64::from(packet.len()) * (1.0 - share);
            }
            least = least.min(ahead);
            most = most.max(ahead);
        }
        assert!(most - least <= 1_500.0 + 40.0, "{least} {most}");
    }

    /// Whatever arrives, every packet is accounted for, flows keep their order, and the bounds
    /// hold.
    #[test]
    fn bounds_hold_and_packets_are_conserved(
        steps in prop::collection::vec(
            (0_u32..6, prop_oneof![Just(0), 1_u32..1_460], 0_u64..40, 0_u8..3,
                prop_oneof![8 => Just(ACK), 1 => Just(ACK | FIN), 1 => Just(ACK | RST)]), 1..400),
        packets in 1_usize..40,
        memory_limit in 1_500_u64..40_000,
        ack_share in prop::option::of(0.01_f64..0.99),
        flows in 1_u32..9,
        filter in any::<bool>(),
        rate in prop::option::of(10_000_u64..100_000_000),
    ) {
        let fq_codel = FqCodelConfig {
            memory_limit,
            flows,
            ack_share,
            ..FqCodelConfig::new(rate)
        };
        let mut queue = Queue::new(&QueueConfig {
            limit: QueueLimit::Packets(packets),
            ack_filter: filter.then(|| FilterConfig::new(RFC)),
            ..config(fq_codel)
        });
        let (mut now, mut out, mut rejected) = (0, Vec::new(), 0);
        for (id, (flow, payload, gap, served, flags)) in (0..).zip(&steps) {
            now += gap * MS;
            let packet = if *payload == 0 {
                ack(id, id * 1_000).flow(*flow).flags(*flags)
            } else {
                data(id, *flow, *payload)
            };
            rejected += usize::from(!queue.put(packet, now));
            assert!(queue.queue.packets() <= packets);
            assert!(queue.queue.bytes() <= memory_limit);
            for _ in 0..*served {
                let before = queue.queue.packets();
                let packet = queue.take(now);
                assert_eq!(packet.is_some(), before > 0);
                out.extend(packet);
            }
        }
        while let Some(packet) = queue.take(now) {
            out.push(packet);
        }
        assert_eq!((queue.queue.packets(), queue.queue.bytes()), (0, 0));
        assert_eq!(out.len() + rejected + queue.evicted.len(), steps.len());
        let mut last = BTreeMap::new();
        for packet in &out {
            let class = packet.payload > 0 || packet.flags != ACK || ack_share.is_none();
            let before = last.insert((packet.flow, class), packet.id);
            assert!(before.is_none_or(|before| before < packet.id));
        }
    }
}
