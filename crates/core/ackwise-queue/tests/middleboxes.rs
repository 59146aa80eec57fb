//! Multiplexer, policer, shaper and reconstructor on a link.

mod common;

use std::num::{NonZeroU32, NonZeroU64};

use ackwise_queue::{
    BundleSizes, Channel, ChannelConfig, Departure, DropCause, LengthMode, LinkConfig, MuxConfig,
    Nanos, PoliceConfig, PoliceMode, QueueConfig, QueueLimit, ReconstructConfig, Release, Select,
    ShapeConfig, Spacing, Verdict,
};
use ackwise_rng::Probability;
use common::{ACK, TestPacket, ack};

const MS: Nanos = 1_000_000;

/// A link with 8 Mbit/s, one byte per microsecond, and a delay of 1 ms.
fn config() -> ChannelConfig<u32> {
    let link = LinkConfig {
        rate_bps: Some(8_000_000),
        delay_ns: MS,
        ..LinkConfig::default()
    };
    ChannelConfig::plain(link, QueueConfig::drop_tail(QueueLimit::Packets(50)))
}

/// Offers packets at their times. Returns the arrivals by id and time, and the rejected ids.
fn run(
    channel: &mut Channel<TestPacket>,
    offers: &[(Nanos, TestPacket)],
) -> (Vec<(u32, Nanos)>, Vec<u32>) {
    let mut arrived = Vec::new();
    let mut gone = Vec::new();
    let mut collect = |channel: &mut Channel<TestPacket>, until: Nanos, gone: &mut Vec<u32>| {
        while let Some(at) = channel.next_wakeup().filter(|at| *at <= until) {
            while let Some(departure) = channel.pop_due(at) {
                match departure {
                    Departure::Delivered { packet, due_ns, .. } => {
                        assert!(due_ns <= at);
                        arrived.push((packet.id, due_ns));
                    }
                    Departure::Dropped { packet, .. } => gone.push(packet.id),
                }
            }
        }
    };
    for (at, packet) in offers {
        collect(channel, *at, &mut gone);
        if let Verdict::Rejected(packet, _) = channel.enqueue(*packet, packet.len(), *at) {
            gone.push(packet.id);
        }
    }
    collect(channel, Nanos::MAX - 1, &mut gone);
    assert_eq!(channel.backlog(), 0);
    (arrived, gone)
}

fn mux() -> MuxConfig<u32> {
    MuxConfig {
        period: NonZeroU64::new(10 * MS).unwrap(),
        release: Release::Ticks { phase: 0 },
        max_packets: MuxConfig::<u32>::MAX_PACKETS,
        max_bytes: None,
        sizes: BundleSizes::default(),
        compress: false,
        select: Select::pure_acks(),
    }
}

#[test]
fn bundles_leave_at_ticks_back_to_back() {
    let mut channel = Channel::new(ChannelConfig {
        mux: Some(mux()),
        ..config()
    });
    let offers = [
        (MS, ack(1, 1)),
        (9 * MS, ack(2, 2)),
        (10 * MS, ack(3, 3)),
        (10 * MS + 1, ack(4, 4)),
        // A tick without an ACK; packets that are not ACKs pass.
        (25 * MS, ack(5, 5).payload(960)),
        (30 * MS, ack(6, 6)),
    ];
    let (arrived, gone) = run(&mut channel, &offers);
    assert!(gone.is_empty());
    // 40 µs each on the wire, plus 1 ms.
    let tick = |at: Nanos, nth: Nanos| at * MS + MS + nth * 40_000;
    assert_eq!(
        arrived,
        [
            (1, tick(10, 1)),
            (2, tick(10, 2)),
            (3, tick(10, 3)),
            (4, tick(20, 1)),
            (5, 25 * MS + 2 * MS),
            (6, tick(30, 1)),
        ]
    );
    let stats = channel.middleboxes().mux.unwrap();
    // The third came at a tick whose bundle had left: it does not wait, but leaves by itself.
    assert_eq!((stats.bundles, stats.packets, stats.largest), (4, 5, 2));
    // 25 per bundle and 8 per packet.
    assert_eq!(stats.bundle_bytes, 4 * 25 + 5 * 8);
    assert_eq!(stats.native_bytes, 200);
    assert_eq!(stats.wait_max_ns, 10 * MS - 1);
    assert_eq!(stats.wait_ns, u128::from(9 * MS + MS + 10 * MS - 1));
}

#[test]
fn ticks_have_a_phase() {
    let mut channel = Channel::new(ChannelConfig {
        mux: Some(MuxConfig {
            release: Release::Ticks { phase: 3 * MS },
            ..mux()
        }),
        ..config()
    });
    let (arrived, _) = run(
        &mut channel,
        &[(0, ack(1, 1)), (4 * MS, ack(2, 2)), (14 * MS, ack(3, 3))],
    );
    assert_eq!(
        arrived,
        [
            (1, 4 * MS + 40_000),
            (2, 14 * MS + 40_000),
            (3, 24 * MS + 40_000)
        ]
    );
}

#[test]
fn a_period_can_begin_with_a_bundle() {
    let mut channel = Channel::new(ChannelConfig {
        mux: Some(MuxConfig {
            release: Release::FirstPacket,
            ..mux()
        }),
        ..config()
    });
    let offers = [
        (4 * MS, ack(1, 1)),
        (13 * MS, ack(2, 2)),
        (15 * MS, ack(3, 3)),
    ];
    let (arrived, _) = run(&mut channel, &offers);
    assert_eq!(
        arrived,
        [
            (1, 15 * MS + 40_000),
            (2, 15 * MS + 80_000),
            (3, 26 * MS + 40_000)
        ]
    );
}

#[test]
fn a_bundle_leaves_early_when_it_is_full() {
    let mut channel = Channel::new(ChannelConfig {
        mux: Some(MuxConfig {
            max_packets: NonZeroU32::new(2).unwrap(),
            ..mux()
        }),
        ..config()
    });
    let offers = [(MS, ack(1, 1)), (2 * MS, ack(2, 2)), (3 * MS, ack(3, 3))];
    let (arrived, _) = run(&mut channel, &offers);
    assert_eq!(
        arrived,
        [
            (1, 3 * MS + 40_000),
            (2, 3 * MS + 80_000),
            (3, 11 * MS + 40_000)
        ]
    );

    // 25 + 2 · 8 = 41 fit into 48 bytes; a third packet does not.
    let mut channel = Channel::new(ChannelConfig {
        mux: Some(MuxConfig {
            max_bytes: Some(48),
            ..mux()
        }),
        ..config()
    });
    let (arrived, _) = run(&mut channel, &offers);
    assert_eq!(
        arrived,
        [
            (1, 4 * MS + 40_000),
            (2, 4 * MS + 80_000),
            (3, 11 * MS + 40_000)
        ]
    );
    assert_eq!(channel.middleboxes().mux.unwrap().bundles, 2);
}

/// The example of TCM-TF: 50 ACKs in one bundle take 425 bytes instead of 2000.
#[test]
fn a_link_can_carry_the_bundle_instead() {
    let mut channel = Channel::new(ChannelConfig {
        mux: Some(MuxConfig {
            compress: true,
            ..mux()
        }),
        queue: QueueConfig::drop_tail(QueueLimit::Unlimited),
        ..config()
    });
    let offers: Vec<(Nanos, TestPacket)> = (1..=50).map(|n| (MS, ack(n, n))).collect();
    let (arrived, _) = run(&mut channel, &offers);
    assert_eq!(arrived[0], (1, 11 * MS + 33_000));
    assert_eq!(arrived[49], (50, 11 * MS + 425_000));
    let stats = channel.middleboxes().mux.unwrap();
    assert_eq!((stats.bundle_bytes, stats.native_bytes), (425, 2000));
    assert_eq!(channel.link().stats().sent_bytes, 425);
}

/// A packet that a tick releases may find the queue full: it is returned as dropped.
#[test]
fn a_bundle_can_overflow_the_queue() {
    let mut channel = Channel::new(ChannelConfig {
        mux: Some(mux()),
        queue: QueueConfig::drop_tail(QueueLimit::Packets(2)),
        ..config()
    });
    let offers: Vec<(Nanos, TestPacket)> = (1..=5).map(|n| (MS, ack(n, n))).collect();
    let (arrived, gone) = run(&mut channel, &offers);
    assert_eq!(
        arrived.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(gone, [4, 5]);
    assert_eq!(channel.link().stats().dropped_queue, 2);
}

#[test]
fn only_chosen_flows_wait() {
    let mut channel = Channel::new(ChannelConfig {
        mux: Some(MuxConfig {
            select: Select {
                pure_acks: true,
                flows: vec![7],
            },
            ..mux()
        }),
        ..config()
    });
    let (arrived, _) = run(
        &mut channel,
        &[(MS, ack(1, 1).flow(7)), (MS, ack(2, 2).flow(8))],
    );
    assert_eq!(arrived, [(2, 2 * MS + 40_000), (1, 11 * MS + 40_000)]);
}

fn police(mode: PoliceMode) -> ChannelConfig<u32> {
    ChannelConfig {
        police: Some(PoliceConfig {
            mode,
            select: Select::pure_acks(),
        }),
        ..config()
    }
}

/// 100 kbit/s and 5 kB of 64-byte frames: 78 at once, then one every 5.12 ms.
#[test]
fn a_policer_lets_a_burst_and_then_its_rate_through() {
    let mut channel = Channel::new(police(PoliceMode::Bucket {
        rate_bps: 100_000,
        burst_bytes: 5_000,
        length: LengthMode::EthernetFrame,
    }));
    let offers: Vec<(Nanos, TestPacket)> = (0..2_000)
        .map(|n| (u64::from(n) * MS / 4, ack(n, n)))
        .collect();
    let (arrived, gone) = run(&mut channel, &offers);
    let stats = channel.middleboxes().police.unwrap();
    // 499.75 ms at 12.5 B/ms are 6246.875 B more: 11 246 B, or 175 frames of 64 bytes.
    assert_eq!(stats.passed, 175);
    assert_eq!(stats.dropped, 1825);
    assert_eq!(stats.dropped_bytes, 1825 * 40);
    assert_eq!((arrived.len(), gone.len()), (175, 1825));
    assert_eq!(arrived.iter().filter(|(id, _)| *id < 78).count(), 78);

    // Data are not policed.
    let data: Vec<(Nanos, TestPacket)> = (0..200)
        .map(|n| (u64::from(n) * MS, ack(n, n).payload(500)))
        .collect();
    let now = Nanos::MAX / 2;
    let later: Vec<(Nanos, TestPacket)> = data
        .iter()
        .map(|(at, packet)| (now + at, *packet))
        .collect();
    assert!(run(&mut channel, &later).1.is_empty());
}

#[test]
fn a_policer_charges_for_ip_packets() {
    // 14 bytes of each length are the link's: 40 remain, and three fit into 120.
    let mut channel = Channel::new(ChannelConfig {
        header: 14,
        ..police(PoliceMode::Bucket {
            rate_bps: 1,
            burst_bytes: 120,
            length: LengthMode::Ip,
        })
    });
    let taken = (0..5)
        .filter(|n| matches!(channel.enqueue(ack(*n, *n), 54, 0), Verdict::Queued))
        .count();
    assert_eq!(taken, 3);
}

#[test]
fn a_share_can_be_dropped_evenly_or_by_chance() {
    let drop = Probability::from_fraction(0.8);
    let offers: Vec<(Nanos, TestPacket)> = (1..=10_000)
        .map(|n| (u64::from(n) * MS, ack(n, n)))
        .collect();
    let mut even = Channel::new(police(PoliceMode::Even { drop }));
    let (arrived, _) = run(&mut even, &offers);
    assert!(arrived.windows(2).all(|pair| pair[1].0 - pair[0].0 == 5));
    assert_eq!(arrived.len(), 2000);
    let mut random = Channel::new(police(PoliceMode::Random { drop, seed: 3 }));
    let (arrived, gone) = run(&mut random, &offers);
    // Six standard deviations of 40.
    assert!((1760..=2240).contains(&arrived.len()), "{}", arrived.len());
    assert_eq!(arrived.len() + gone.len(), 10_000);
    assert!(matches!(
        (1..100).find_map(|n| match even.enqueue(ack(n, n), 40, 20_000 * MS) {
            Verdict::Rejected(_, cause) => Some(cause),
            Verdict::Queued => None,
        }),
        Some(DropCause::Policed)
    ));
}

/// 80 kbit/s is 10 B per millisecond: after a burst of two, one ACK every 4 ms.
#[test]
fn a_shaper_delays_what_exceeds() {
    let mut channel = Channel::new(ChannelConfig {
        shape: Some(ShapeConfig {
            rate_bps: 80_000,
            burst_bytes: 80,
            length: LengthMode::Ip,
            limit: 3,
            select: Select::pure_acks(),
        }),
        ..config()
    });
    let offers: Vec<(Nanos, TestPacket)> = (1..=7).map(|n| (MS, ack(n, n))).collect();
    let (arrived, gone) = run(&mut channel, &offers);
    let at = |at: Nanos| (at + 1) * MS + 40_000;
    assert_eq!(
        arrived,
        [
            (1, at(1)),
            (2, at(1) + 40_000),
            (3, at(5)),
            (4, at(9)),
            (5, at(13))
        ]
    );
    assert_eq!(gone, [6, 7]);
    let stats = channel.middleboxes().shape.unwrap();
    assert_eq!((stats.passed, stats.dropped), (5, 2));
    assert_eq!((stats.wait_max_ns, stats.max_packets), (12 * MS, 3));
}

fn reconstruct(spacing: Spacing) -> ChannelConfig<u32> {
    ChannelConfig {
        reconstruct: Some(ReconstructConfig {
            threshold: 2_000,
            step: 2_000,
            spacing,
            gap: 10 * MS,
            ..ReconstructConfig::default()
        }),
        ..ChannelConfig::plain(
            LinkConfig::default(),
            QueueConfig::drop_tail(QueueLimit::Unlimited),
        )
    }
}

/// (ack, synthetic, time) of everything that comes out.
fn acks(
    channel: &mut Channel<TestPacket>,
    offers: &[(Nanos, TestPacket)],
) -> Vec<(u32, bool, Nanos)> {
    let mut out = Vec::new();
    let mut collect = |channel: &mut Channel<TestPacket>, until: Nanos| {
        while let Some(at) = channel.next_wakeup().filter(|at| *at <= until) {
            while let Some(departure) = channel.pop_due(at) {
                let Departure::Delivered { packet, due_ns, .. } = departure else {
                    panic!("nothing is dropped here");
                };
                out.push((packet.ack, packet.synthetic, due_ns));
            }
        }
    };
    for (at, packet) in offers {
        collect(channel, *at);
        assert!(matches!(
            channel.enqueue(*packet, packet.len(), *at),
            Verdict::Queued
        ));
    }
    collect(channel, Nanos::MAX - 1);
    assert_eq!(channel.backlog(), 0);
    out
}

#[test]
fn a_stretch_is_filled_evenly() {
    let mut channel = Channel::new(reconstruct(Spacing::Even));
    let out = acks(
        &mut channel,
        &[
            (0, ack(1, 1_000)),
            (10 * MS, ack(2, 9_000)),
            (20 * MS, ack(3, 11_000)),
        ],
    );
    // 8000 bytes are four steps over the mean gap of 10 ms.
    assert_eq!(
        out,
        [
            (1_000, false, 0),
            (3_000, true, 10 * MS),
            (5_000, true, 12 * MS + MS / 2),
            (7_000, true, 15 * MS),
            (9_000, false, 17 * MS + MS / 2),
            (11_000, false, 20 * MS),
        ]
    );
    let stats = channel.middleboxes().reconstruct.unwrap();
    assert_eq!((stats.generated, stats.delayed), (3, 1));
    assert_eq!(stats.wait_max_ns, 7 * MS + MS / 2);
}

#[test]
fn ns2_spaces_by_the_raw_gap_and_so_falls_behind() {
    let mut channel = Channel::new(reconstruct(Spacing::Ns2));
    let out = acks(
        &mut channel,
        &[
            (0, ack(1, 1_000)),
            (10 * MS, ack(2, 7_000)),
            (20 * MS, ack(3, 13_000)),
        ],
    );
    let times: Vec<Nanos> = out.iter().map(|(.., at)| at / MS).collect();
    assert_eq!(times, [0, 10, 20, 30, 40, 50, 60]);
    let numbers: Vec<u32> = out.iter().map(|(ack, ..)| *ack).collect();
    assert_eq!(numbers, [1_000, 3_000, 5_000, 7_000, 9_000, 11_000, 13_000]);
}

#[test]
fn duplicates_and_sack_are_not_filled_and_keep_their_order() {
    let mut channel = Channel::new(reconstruct(Spacing::Even));
    let out = acks(
        &mut channel,
        &[
            (0, ack(1, 1_000)),
            (10 * MS, ack(2, 9_000)),
            (11 * MS, ack(3, 9_000)),
            (12 * MS, ack(4, 9_000).sack(&[(10_000, 11_000)])),
            (40 * MS, ack(5, 29_000).sack(&[(30_000, 31_000)])),
            (41 * MS, ack(6, 99_000).flags(ACK | common::FIN)),
        ],
    );
    let numbers: Vec<(u32, bool)> = out.iter().map(|(ack, made, _)| (*ack, *made)).collect();
    assert_eq!(
        numbers,
        [
            (1_000, false),
            (3_000, true),
            (5_000, true),
            (7_000, true),
            (9_000, false),
            (9_000, false),
            (9_000, false),
            (29_000, false),
            (99_000, false),
        ]
    );
}

/// No ACK exceeds the real ACKs that arrived.
#[test]
fn nothing_is_forged_beyond_the_newest() {
    for spacing in [Spacing::Even, Spacing::Ns2] {
        let mut channel = Channel::new(reconstruct(spacing));
        let mut offers = vec![(0, ack(0, 0_u32.wrapping_sub(3_000)))];
        let mut number = 0_u32.wrapping_sub(3_000);
        for n in 1..300_u32 {
            number = number.wrapping_add(n * 7919 % 20_000);
            offers.push((u64::from(n) * MS, ack(n, number)));
        }
        let out = acks(&mut channel, &offers);
        let mut highest = out[0].0;
        for (number, made, at) in out {
            let newest = offers.iter().rfind(|(came, _)| *came <= at).unwrap().1.ack;
            assert!(newest.wrapping_sub(number) as i32 >= 0, "{spacing:?}");
            if made {
                assert!(
                    number.wrapping_sub(highest) as i32 > 0,
                    "{spacing:?}: goes back"
                );
            }
            highest = number;
        }
        assert_eq!(highest, number);
    }
}
