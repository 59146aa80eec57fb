//! RED compared with numbers worked out by hand.

mod common;

use std::num::NonZeroU32;

use ackwise_queue::{Ecn, QueueConfig, QueueDiscipline, QueueLimit, RedConfig, RedUnit};
use common::{ACK, FIN, RST, SYN, TestQueue, URG, ack};

fn queue(red: RedConfig, limit: QueueLimit) -> QueueConfig {
    QueueConfig {
        red: Some(red),
        seed: 7,
        ..QueueConfig::drop_tail(limit)
    }
}

/// Weight 1/2, so that averages are short numbers.
fn halves() -> RedConfig {
    RedConfig {
        weight: 0.5,
        min: 2.0,
        max: 4.0,
        max_p: 0.5,
        ..RedConfig::floyd(1_000_000_000)
    }
}

fn average(bench: &TestQueue) -> f64 {
    bench.queue.red_average().unwrap()
}

#[test]
fn the_average_follows_the_queue_that_an_arrival_finds() {
    let mut bench = TestQueue::new(&queue(halves(), QueueLimit::Packets(100)));
    let mut averages = Vec::new();
    for n in 1..=4 {
        assert!(bench.put(ack(n, 0).flow(n)));
        averages.push(average(&bench));
    }
    // The arrivals find 0, 1, 2, 3.
    assert_eq!(averages, [0.0, 0.5, 1.25, 2.125]);
}

/// Four ACKs in the queue of a link with 4000 packets of 500 B per second: one every 250 µs.
fn four_on_a_fast_link() -> TestQueue {
    let red = RedConfig {
        rate_bps: 16_000_000,
        ..halves()
    };
    let mut bench = TestQueue::new(&queue(red, QueueLimit::Packets(100)));
    for n in 1..=4 {
        assert!(bench.put(ack(n, 0).flow(n)));
    }
    assert_eq!(average(&bench), 2.125);
    bench
}

#[test]
fn it_ages_while_the_link_idles() {
    let mut bench = four_on_a_fast_link();
    bench.drain();
    // The last one of 40 B left at 8 ms and occupies the wire for 20 µs. By 10 ms, 1.98 ms have
    // passed since: 7 packets were missed, and the arrival finds none.
    bench.now = 9_000_000;
    assert!(bench.put(ack(5, 0)));
    assert_eq!(average(&bench), 2.125 / 256.0);
}

/// The rate may be a measured one: an idle link missed as many packets as its present rate gives.
#[test]
fn it_ages_by_the_rate_that_the_link_has() {
    let mut bench = four_on_a_fast_link();
    bench.queue.rate_changed(160_000);
    bench.drain();
    // One packet in 25 ms, and the last one of 40 B occupies the wire for 2 ms: none was missed.
    bench.now = 9_000_000;
    assert!(bench.put(ack(5, 0)));
    assert_eq!(average(&bench), 2.125 / 2.0);
}

#[test]
fn the_first_above_the_threshold_is_spared() {
    let red = RedConfig {
        max_p: 1.0,
        ..halves()
    };
    let mut bench = TestQueue::new(&queue(red, QueueLimit::Packets(100)));
    // Averages 0, 0.5, 1.25, 2.125: the fourth is the first above 2.
    assert!((1..=4).all(|n| bench.put(ack(n, 0).flow(n))));
    // The fifth finds 4: average 3.0625, p_b 0.53; it is the second since the spared one,
    // 2 p_b ≥ 1: certain.
    assert!(!bench.put(ack(5, 0).flow(5)));
    assert_eq!(bench.queue.stats().early_drops, 1);
}

#[test]
fn above_the_maximum_nothing_enters_unless_gentle() {
    let long = |gentle| {
        let red = RedConfig {
            weight: 1.0,
            min: 1.0,
            max: 4.0,
            max_p: 1e-9,
            gentle,
            ..halves()
        };
        let mut bench = TestQueue::new(&queue(red, QueueLimit::Packets(100)));
        let taken = (1..=50).filter(|n| bench.put(ack(*n, 0).flow(*n))).count();
        (taken, bench.queue.stats().forced_drops)
    };
    // The fifth is the first to find four.
    assert_eq!(long(false), (4, 46));
    let (taken, forced) = long(true);
    assert!((5..=8).contains(&taken), "{taken}");
    // Above twice the maximum, drops would be forced; the growing probability keeps the queue below
    // that.
    assert!(forced == 0 || taken == 8);
}

/// p_b = 0.5 · (3 − 2)/(4 − 2) = 1/4. Without `wait`, the n-th arrival is dropped with
/// 1/4 / (1 − n/4): after 1 to 3, each equally likely. With it, none is until n/4 ≥ 1, then with
/// 1/4 / (2 − n/4): after 4 to 7.
#[test]
fn drops_are_spread_evenly() {
    let gaps = |wait| {
        let red = RedConfig {
            weight: 1.0,
            max: 4.0,
            wait,
            ..halves()
        };
        let mut bench = TestQueue::new(&queue(red, QueueLimit::Packets(100)));
        for n in 1..=3 {
            assert!(bench.put(ack(n, 0).flow(n)));
        }
        // Three wait, the third was spared; every accepted packet is taken out again.
        let mut gaps = Vec::new();
        let mut since = 0;
        for n in 0..20_000 {
            since += 1;
            if bench.put(ack(n, 0)) {
                bench.take();
            } else {
                gaps.push(since);
                since = 0;
            }
        }
        gaps.remove(0);
        gaps
    };
    for (wait, expected) in [(false, 1..=3), (true, 4..=7)] {
        let gaps = gaps(wait);
        assert!(gaps.iter().all(|gap| expected.contains(gap)));
        let even = 100 / expected.clone().count();
        for gap in expected {
            let share = gaps.iter().filter(|g| **g == gap).count() * 100 / gaps.len();
            assert!(share.abs_diff(even) <= 2, "{gap}: {share} %");
        }
    }
}

#[test]
fn what_can_be_marked_is_marked() {
    let red = RedConfig {
        weight: 1.0,
        max: 1000.0,
        ecn: true,
        ..halves()
    };
    let mut bench = TestQueue::new(&queue(red, QueueLimit::Packets(1000)));
    for n in 1..=900 {
        assert!(bench.put(ack(n, 0).flow(n).ecn(Ecn::Capable)));
    }
    let marks = bench.queue.stats().marks;
    assert!(marks > 50, "{marks}");
    let marked = std::iter::from_fn(|| bench.take())
        .filter(|packet| packet.ecn == Ecn::Marked)
        .count();
    assert_eq!(marked as u64, marks);
    assert_eq!(bench.queue.stats().early_drops, 0);

    // Packets that cannot be marked are dropped, and so is everything above the limit of marks.
    for (ecn, mark_limit) in [(Ecn::NotCapable, None), (Ecn::Capable, Some(1e-9))] {
        let mut bench = TestQueue::new(&queue(
            RedConfig { mark_limit, ..red },
            QueueLimit::Packets(1000),
        ));
        for n in 1..=900 {
            bench.put(ack(n, 0).flow(n).ecn(ecn));
        }
        assert_eq!(bench.queue.stats().marks, 0);
        assert!(bench.queue.stats().early_drops > 50);
    }
}

/// In bytes, p_a is scaled by the ratio of the packet's length to a typical one: p_b is 0.1, and
/// the spared packet of 1500 B counts as 3. Then 40 B are dropped with
/// 0.1 / (1 − 0.3) · 40/500 = 1.1 %, 1500 B with 0.1 / (1 − 0.6) · 3 = 75 %.
#[test]
fn small_packets_are_dropped_less_often_in_bytes() {
    let drops = |payload: u32| {
        let red = RedConfig {
            unit: RedUnit::Bytes,
            weight: 1.0,
            min: 150_000.0,
            max: 153_000.0,
            max_p: 0.2,
            ..halves()
        };
        let dropped = |seed| {
            let mut bench = TestQueue::new(&QueueConfig {
                seed,
                ..queue(red, QueueLimit::Unlimited)
            });
            assert!((0..101).all(|n| bench.put(ack(n, 0).payload(1460))));
            !bench.put(ack(101, 0).payload(payload))
        };
        (0..2000).filter(|seed| dropped(*seed)).count()
    };
    let (small, large) = (drops(0), drops(1460));
    assert!((5..=41).contains(&small), "{small}");
    assert!((1420..=1580).contains(&large), "{large}");
}

/// The settings of ns-2.35 for a link of 300 kbit/s: thresholds of 5 and 15 packets of 500 B; and
/// for 100 Mbit/s, where 5 ms of the rate are more.
#[test]
fn automatic_settings() {
    let slow = RedConfig::ns2(300_000, 500, 30_000_000);
    assert_eq!((slow.min, slow.max), (2500.0, 7500.0));
    // ptc 75/s, rtt 3 · (0.03 + 1/75) = 0.13 s: 1 − exp(−1/97.5).
    assert!((slow.weight - 0.010_203_992_639_327_147).abs() < 2e-18);

    let fast = RedConfig::ns2(100_000_000, 500, 1_000_000);
    // ptc 25000/s; 0.005 · 25000 / 2 = 62.5 packets.
    assert_eq!((fast.min, fast.max), (31_250.0, 93_750.0));
    // rtt at least 0.1 s: 1 − exp(−1/25000).
    assert!((fast.weight - 3.999_920_001_066_657e-5).abs() < 1e-19);
}

/// Under RED, a byte limit applies to the queue that an arrival finds: 25 000 B hold 625 ACKs of
/// 40 B.
#[test]
fn the_limit_in_bytes_as_ns2_has_it() {
    let never = RedConfig {
        min: 1e12,
        max: 2e12,
        ..RedConfig::ns2(300_000, 500, 30_000_000)
    };
    let mut bench = TestQueue::new(&queue(never, QueueLimit::Bytes(25_000)));
    let taken = (0..700).filter(|n| bench.put(ack(*n, 0).flow(*n))).count();
    assert_eq!(taken, 625);
    assert_eq!(bench.queue.stats().tail_drops, 75);
    bench.take();
    assert!(bench.put(ack(0, 0).payload(1460)));
    assert_eq!(bench.queue.bytes(), 24_960 + 1500);
}

#[test]
fn ns2_counts_the_packet_in_service() {
    let limit = QueueLimit::Packets(50).with_one_in_service();
    let mut bench = TestQueue::new(&QueueConfig::drop_tail(limit));
    assert_eq!((0..60).filter(|n| bench.put(ack(*n, 0))).count(), 49);
    let limit = QueueLimit::Bytes(400).with_one_in_service();
    let mut bench = TestQueue::new(&QueueConfig::drop_tail(limit));
    assert_eq!((0..60).filter(|n| bench.put(ack(*n, 0))).count(), 9);
}

#[test]
fn acks_first_but_not_for_ever() {
    let config = QueueConfig {
        acks_first: NonZeroU32::new(2),
        ..QueueConfig::drop_tail(QueueLimit::Packets(100))
    };
    let mut bench = TestQueue::new(&config);
    for n in 1..=3 {
        assert!(bench.put(ack(n, 0).payload(1000)));
    }
    for n in 11..=17 {
        assert!(bench.put(ack(n, n)));
    }
    assert_eq!(bench.drain(), [11, 12, 1, 13, 14, 2, 15, 16, 3, 17]);
    // Packets that open a connection must not starve behind the ACKs of others.
    let mut bench = TestQueue::new(&config);
    assert!(bench.put(ack(1, 0).payload(1000)) && bench.put(ack(2, 1)));
    assert!(bench.put(ack(3, 0).flags(SYN | ACK)) && bench.put(ack(4, 2)));
    assert_eq!(bench.drain(), [2, 3, 1, 4]);
    // Packets that close one have their place behind the data of their flow.
    for end in [FIN | ACK, RST, URG | ACK] {
        let mut bench = TestQueue::new(&config);
        assert!(bench.put(ack(1, 0).payload(1000)) && bench.put(ack(2, 0).flags(end)));
        assert!(bench.put(ack(3, 1)));
        assert_eq!(bench.drain(), [3, 1, 2], "{end:#x}");
    }
    // They keep their order of arrival among themselves, and share one limit.
    let config = QueueConfig {
        acks_first: NonZeroU32::new(u32::MAX),
        ..QueueConfig::drop_tail(QueueLimit::Packets(2))
    };
    let mut bench = TestQueue::new(&config);
    assert!(bench.put(ack(1, 0).payload(1000)) && bench.put(ack(2, 1)));
    assert!(!bench.put(ack(3, 2)));
    assert_eq!(bench.drain(), [2, 1]);
}
