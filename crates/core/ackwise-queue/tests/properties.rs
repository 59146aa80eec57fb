//! Properties of every link under any traffic.

use ackwise_queue::{Departure, Link, LinkConfig, LinkStats, Nanos, QueueLimit, Reorder, Verdict};
use ackwise_rng::Probability;
use proptest::prelude::*;

/// An offered packet: nanoseconds after the previous one, and its length.
type Offer = (Nanos, u32);

#[derive(Debug, Clone)]
struct Outcome {
    /// (packet, copies, due), in order of arrival.
    delivered: Vec<(usize, u32, Nanos)>,
    rejected: Vec<usize>,
    lost: Vec<usize>,
    stats: LinkStats,
}

fn run(config: LinkConfig, offers: &[Offer]) -> Outcome {
    let mut link: Link<usize> = Link::drop_tail(config);
    let mut outcome = Outcome {
        delivered: Vec::new(),
        rejected: Vec::new(),
        lost: Vec::new(),
        stats: LinkStats::default(),
    };
    let mut now = 0;
    let collect = |link: &mut Link<usize>, at: Nanos, outcome: &mut Outcome| {
        while let Some(departure) = link.pop_due(at) {
            match departure {
                Departure::Delivered {
                    packet,
                    copies,
                    due_ns,
                } => {
                    outcome.delivered.push((packet, copies, due_ns));
                }
                Departure::Dropped { packet, .. } => outcome.lost.push(packet),
            }
        }
    };
    for (packet, &(gap, len)) in offers.iter().enumerate() {
        let next = now + gap;
        while let Some(at) = link.next_wakeup().filter(|&at| at <= next) {
            collect(&mut link, at, &mut outcome);
        }
        now = next;
        if let Verdict::Rejected(packet, _) = link.enqueue(packet, len, now) {
            outcome.rejected.push(packet);
        }
    }
    while let Some(at) = link.next_wakeup() {
        collect(&mut link, at, &mut outcome);
    }
    assert_eq!(link.backlog(), 0);
    outcome.stats = *link.stats();
    outcome
}

fn offers() -> impl Strategy<Value = Vec<Offer>> {
    prop::collection::vec((0_u64..2_000_000, 40_u32..9_000), 1..200)
}

fn limits() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (0_usize..50).prop_map(QueueLimit::Packets),
        (0_u64..100_000).prop_map(QueueLimit::Bytes),
        Just(QueueLimit::Unlimited),
    ]
}

fn rates() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![
        Just(None),
        (100_000_u64..10_000_000_000).prop_map(Some),
        Just(Some(200_000)),
    ]
}

prop_compose! {
    /// Any link that keeps order.
    fn ordered()(
        rate_bps in rates(), queue in limits(), delay_ns in 0_u64..100_000_000,
        jitter_ns in prop_oneof![Just(0), 0_u64..10_000_000],
        loss in 0.0..0.5_f64, duplicate in 0.0..0.5_f64, seed: u64,
    ) -> LinkConfig {
        LinkConfig {
            rate_bps, queue, delay_ns, jitter_ns, reorder: None, seed,
            loss: Probability::from_fraction(loss),
            duplicate: Probability::from_fraction(duplicate),
        }
    }
}

prop_compose! {
    /// Any link.
    fn any_link()(
        config in ordered(), probability in 0.0..0.9_f64, extra_delay_ns in 0_u64..50_000_000,
    ) -> LinkConfig {
        LinkConfig {
            reorder: Some(Reorder {
                probability: Probability::from_fraction(probability),
                extra_delay_ns,
            }),
            ..config
        }
    }
}

proptest! {
    #[test]
    fn every_packet_has_exactly_one_fate(config in any_link(), offers in offers()) {
        let outcome = run(config, &offers);
        let mut fates: Vec<usize> = outcome.delivered.iter().map(|&(packet, ..)| packet)
            .chain(outcome.rejected.iter().copied())
            .chain(outcome.lost.iter().copied())
            .collect();
        fates.sort_unstable();
        prop_assert_eq!(fates, (0..offers.len()).collect::<Vec<_>>());

        let stats = outcome.stats;
        prop_assert_eq!(stats.offered_packets, offers.len() as u64);
        prop_assert_eq!(stats.offered_packets, stats.delivered_packets + stats.dropped());
        prop_assert_eq!(stats.delivered_packets, outcome.delivered.len() as u64);
        prop_assert_eq!(stats.dropped_queue, outcome.rejected.len() as u64);
        prop_assert_eq!(stats.dropped_wire, outcome.lost.len() as u64);
        let bytes: u64 = outcome.delivered.iter().map(|&(packet, ..)| u64::from(offers[packet].1)).sum();
        prop_assert_eq!(stats.delivered_bytes, bytes);
    }

    #[test]
    fn order_is_kept_without_reordering(config in ordered(), offers in offers()) {
        let outcome = run(config, &offers);
        for pair in outcome.delivered.windows(2) {
            prop_assert!(pair[0].0 < pair[1].0);
            prop_assert!(pair[0].2 <= pair[1].2);
        }
    }

    #[test]
    fn arrivals_are_reported_in_order_of_time(config in any_link(), offers in offers()) {
        let outcome = run(config, &offers);
        for pair in outcome.delivered.windows(2) {
            prop_assert!(pair[0].2 <= pair[1].2, "{:?}", pair);
        }
    }

    #[test]
    fn no_window_carries_more_than_the_rate(
        config in ordered(), rate_bps in 100_000_u64..10_000_000_000, offers in offers(),
    ) {
        let config = LinkConfig { rate_bps: Some(rate_bps), jitter_ns: 0, ..config };
        let outcome = run(config, &offers);
        // Between the ends of packets i and j, the wire sent everything after i up to j.
        for first in 0..outcome.delivered.len() {
            let mut bytes = 0_u128;
            for second in first + 1..outcome.delivered.len() {
                bytes += u128::from(offers[outcome.delivered[second].0].1);
                let window = u128::from(outcome.delivered[second].2 - outcome.delivered[first].2);
                // Both ends are rounded up, so a window is short by less than 1 ns.
                prop_assert!(
                    bytes * 8_000_000_000 < (window + 1) * u128::from(rate_bps),
                    "{bytes} bytes in {window} ns"
                );
            }
        }
    }

    #[test]
    fn delay_is_exact_on_an_idle_wire(
        rate_bps in 1_000_000_u64..10_000_000_000, delay_ns in 0_u64..1_000_000_000,
        lens in prop::collection::vec(40_u32..1600, 1..20),
    ) {
        let config = LinkConfig { rate_bps: Some(rate_bps), delay_ns, ..LinkConfig::default() };
        let offers: Vec<Offer> = lens.iter().map(|&len| (20_000_000, len)).collect();
        let outcome = run(config, &offers);
        for &(packet, copies, due) in &outcome.delivered {
            let sent = 20_000_000 * (packet as u64 + 1);
            let bits = u64::from(offers[packet].1) * 8_000_000_000;
            prop_assert_eq!(copies, 1);
            prop_assert_eq!(due, sent + bits.div_ceil(rate_bps) + delay_ns);
        }
        prop_assert_eq!(outcome.delivered.len(), offers.len());
    }

    #[test]
    fn a_busy_wire_is_never_idle(rate_bps in 1_000_u64..10_000_000_000, lens in prop::collection::vec(40_u32..1600, 1..100)) {
        let config = LinkConfig { rate_bps: Some(rate_bps), ..LinkConfig::default() };
        let offers: Vec<Offer> = lens.iter().map(|&len| (0, len)).collect();
        let outcome = run(config, &offers);
        let bits: u128 = lens.iter().map(|&len| u128::from(len) * 8_000_000_000).sum();
        let last = outcome.delivered.last().map(|&(.., due)| u128::from(due));
        prop_assert_eq!(last, Some(bits.div_ceil(u128::from(rate_bps))));
    }

    #[test]
    fn the_same_seed_gives_the_same_run(config in any_link(), offers in offers()) {
        let first = run(config, &offers);
        let second = run(config, &offers);
        prop_assert_eq!(first.delivered, second.delivered);
        prop_assert_eq!(first.lost, second.lost);
        prop_assert_eq!(first.stats, second.stats);
    }

    #[test]
    fn loss_does_not_depend_on_other_effects(config in ordered(), offers in offers()) {
        let config = LinkConfig { queue: QueueLimit::Unlimited, ..config };
        let plain = run(LinkConfig { duplicate: Probability::ZERO, jitter_ns: 0, ..config }, &offers);
        let mut all = run(config, &offers);
        let mut plain_lost = plain.lost;
        all.lost.sort_unstable();
        plain_lost.sort_unstable();
        prop_assert_eq!(plain_lost, all.lost);
    }

    #[test]
    fn when_it_is_polled_makes_no_difference(config in any_link(), offers in offers(), step in 1_u64..5_000_000) {
        let woken = run(config, &offers);
        // Polled on a fixed grid instead, long after or before each wake-up.
        let mut link: Link<usize> = Link::drop_tail(config);
        let mut delivered = Vec::new();
        let (mut now, mut next_poll) = (0, 0);
        let poll = |link: &mut Link<usize>, at: Nanos, delivered: &mut Vec<_>| {
            while let Some(departure) = link.pop_due(at) {
                if let Departure::Delivered { packet, copies, due_ns } = departure {
                    delivered.push((packet, copies, due_ns));
                }
            }
        };
        for (packet, &(gap, len)) in offers.iter().enumerate() {
            now += gap;
            while next_poll <= now {
                poll(&mut link, next_poll, &mut delivered);
                next_poll += step;
            }
            let _ = link.enqueue(packet, len, now);
        }
        while link.backlog() > 0 {
            next_poll += step;
            poll(&mut link, next_poll, &mut delivered);
        }
        prop_assert_eq!(woken.delivered, delivered);
    }
}
