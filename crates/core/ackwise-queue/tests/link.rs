//! A link, checked to the nanosecond.

use ackwise_queue::{
    Departure, DropCause, Evicted, Link, LinkConfig, Nanos, QueueDiscipline, QueueLimit, Queued,
    Reorder, Verdict,
};
use ackwise_rng::Probability;
use std::collections::VecDeque;

/// Runs a link until it is empty; returns (packet, copies, due).
fn drain<Q: QueueDiscipline<u32>>(link: &mut Link<u32, Q>) -> Vec<(u32, u32, Nanos)> {
    let mut out = Vec::new();
    while let Some(at) = link.next_wakeup() {
        while let Some(departure) = link.pop_due(at) {
            if let Departure::Delivered {
                packet,
                copies,
                due_ns,
            } = departure
            {
                assert_eq!(due_ns, at, "woken when something was due");
                out.push((packet, copies, due_ns));
            }
        }
    }
    out
}

#[test]
fn rate_and_delay_add_up() {
    let mut link = Link::drop_tail(LinkConfig {
        rate_bps: Some(50_000_000),
        delay_ns: 20_000_000,
        ..LinkConfig::default()
    });
    for packet in 0..3 {
        assert_eq!(link.enqueue(packet, 1514, 1_000), Verdict::Queued);
    }
    assert_eq!(link.queue_packets(), 2, "the third is being sent");
    assert_eq!(
        drain(&mut link),
        [
            (0, 1, 1_000 + 242_240 + 20_000_000),
            (1, 1, 1_000 + 484_480 + 20_000_000),
            (2, 1, 1_000 + 726_720 + 20_000_000),
        ]
    );
}

#[test]
fn a_wire_without_rate_only_delays() {
    let mut link = Link::drop_tail(LinkConfig {
        delay_ns: 7,
        ..LinkConfig::default()
    });
    for packet in 0..100 {
        assert_eq!(link.enqueue(packet, 9000, 3), Verdict::Queued);
    }
    assert_eq!(link.queue_packets(), 0);
    assert!(drain(&mut link).iter().all(|&(_, _, due)| due == 10));
}

#[test]
fn packet_limit_excludes_the_one_being_sent() {
    let mut link = Link::drop_tail(LinkConfig {
        rate_bps: Some(8_000_000),
        queue: QueueLimit::Packets(2),
        ..LinkConfig::default()
    });
    assert_eq!(link.enqueue(0, 1000, 0), Verdict::Queued);
    assert_eq!(link.enqueue(1, 1000, 0), Verdict::Queued);
    assert_eq!(link.enqueue(2, 1000, 0), Verdict::Queued);
    assert_eq!(
        link.enqueue(3, 1000, 0),
        Verdict::Rejected(3, DropCause::QueueFull)
    );
    // At 1 ms the first has left and the second is being sent.
    assert_eq!(
        link.enqueue(4, 1000, 999_999),
        Verdict::Rejected(4, DropCause::QueueFull)
    );
    assert_eq!(link.enqueue(5, 1000, 1_000_000), Verdict::Queued);
    assert_eq!(link.stats().dropped_queue, 2);
    assert_eq!(link.stats().queue_max_packets, 2);
    assert_eq!(link.stats().queue_max_bytes, 2000);
}

#[test]
fn byte_limit_counts_bytes() {
    let mut link = Link::drop_tail(LinkConfig {
        rate_bps: Some(8_000_000),
        queue: QueueLimit::Bytes(1500),
        ..LinkConfig::default()
    });
    assert_eq!(link.enqueue(0, 1000, 0), Verdict::Queued);
    assert_eq!(link.enqueue(1, 1000, 0), Verdict::Queued);
    assert!(matches!(link.enqueue(2, 501, 0), Verdict::Rejected(2, _)));
    assert_eq!(link.enqueue(3, 500, 0), Verdict::Queued);
    assert_eq!(link.queue_bytes(), 1500);
}

#[test]
fn the_mean_queue_is_exact() {
    let mut link = Link::drop_tail(LinkConfig {
        rate_bps: Some(8_000_000),
        ..LinkConfig::default()
    });
    // Three packets of 1 ms each: two wait for 1 ms, and one of them for another.
    for packet in 0..3 {
        assert_eq!(link.enqueue(packet, 1000, 0), Verdict::Queued);
    }
    drain(&mut link);
    assert_eq!(link.stats().queue_packet_ns, 3_000_000);
    assert_eq!(link.stats().wait_max_ns, 2_000_000);
    assert!((link.stats().queue_mean_packets(3_000_000) - 1.0).abs() < 1e-9);
}

#[test]
fn a_lost_packet_uses_the_wire_and_comes_back() {
    let mut link = Link::drop_tail(LinkConfig {
        rate_bps: Some(8_000_000),
        loss: Probability::ONE,
        ..LinkConfig::default()
    });
    assert_eq!(link.enqueue(9, 1000, 0), Verdict::Queued);
    assert_eq!(link.pop_due(999_999), None);
    assert_eq!(
        link.pop_due(1_000_000),
        Some(Departure::Dropped {
            packet: 9,
            cause: DropCause::Wire
        })
    );
    assert_eq!(link.stats().dropped_wire, 1);
    assert_eq!(link.stats().sent_bytes, 1000);
    assert_eq!(link.stats().delivered_packets, 0);
}

#[test]
fn duplicates_are_told() {
    let mut link = Link::drop_tail(LinkConfig {
        duplicate: Probability::ONE,
        ..LinkConfig::default()
    });
    assert_eq!(link.enqueue(1, 100, 5), Verdict::Queued);
    assert_eq!(drain(&mut link), [(1, 2, 5)]);
    assert_eq!(link.stats().duplicated, 1);
}

#[test]
fn one_held_back_is_overtaken_by_one_that_still_waits() {
    // Everything is held back by 10 ms, at 1 ms per packet: no in-order packet is in flight, yet
    // the wire must continue to send.
    let mut link = Link::drop_tail(LinkConfig {
        rate_bps: Some(8_000_000),
        reorder: Some(Reorder {
            probability: Probability::from_fraction(0.5),
            extra_delay_ns: 10_000_000,
        }),
        seed: 2,
        ..LinkConfig::default()
    });
    for packet in 0..20 {
        assert_eq!(link.enqueue(packet, 1000, 0), Verdict::Queued);
    }
    let out = drain(&mut link);
    assert_eq!(out.len(), 20);
    assert!(link.stats().reordered > 0);
    for (packet, _, due) in &out {
        let on_time = u64::from(packet + 1) * 1_000_000;
        assert!(
            *due == on_time || *due == on_time + 10_000_000,
            "{packet} at {due}"
        );
    }
    assert!(out.windows(2).any(|pair| pair[0].0 > pair[1].0), "{out:?}");
}

#[test]
fn jitter_keeps_order() {
    let mut link = Link::drop_tail(LinkConfig {
        rate_bps: Some(80_000_000),
        delay_ns: 1_000_000,
        jitter_ns: 5_000_000,
        seed: 11,
        ..LinkConfig::default()
    });
    for packet in 0..50 {
        assert_eq!(link.enqueue(packet, 1000, 0), Verdict::Queued);
    }
    let out = drain(&mut link);
    let order: Vec<u32> = out.iter().map(|&(packet, ..)| packet).collect();
    assert_eq!(order, (0..50).collect::<Vec<_>>());
    let extra = |&(packet, _, due): &(u32, u32, u64)| {
        i128::from(due) - i128::from(packet + 1) * 100_000 - 1_000_000
    };
    assert!(out.iter().any(|one| extra(one) > 1_000_000));
    assert!(out.iter().any(|one| extra(one) < 0), "shorter, too");
    assert!(
        out.iter()
            .all(|one| (-1_000_000..=5_000_000).contains(&extra(one)))
    );
}

#[test]
fn time_that_goes_back_is_ignored() {
    let mut link = Link::drop_tail(LinkConfig {
        rate_bps: Some(8_000_000),
        ..LinkConfig::default()
    });
    assert_eq!(link.enqueue(0, 1000, 5_000_000), Verdict::Queued);
    assert_eq!(link.enqueue(1, 1000, 0), Verdict::Queued);
    assert_eq!(drain(&mut link), [(0, 1, 6_000_000), (1, 1, 7_000_000)]);
}

/// Keeps only the newest packet, as an ACK filter does to its flow.
struct NewestOnly(Option<Queued<u32>>);

impl QueueDiscipline<u32> for NewestOnly {
    fn enqueue(
        &mut self,
        queued: Queued<u32>,
        evicted: &mut VecDeque<Evicted<u32>>,
    ) -> Result<(), Evicted<u32>> {
        if let Some(old) = self.0.replace(queued) {
            evicted.push_back(Evicted {
                queued: old,
                cause: DropCause::Discipline,
            });
        }
        Ok(())
    }
    fn dequeue(&mut self, _: Nanos, _: &mut VecDeque<Evicted<u32>>) -> Option<Queued<u32>> {
        self.0.take()
    }
    fn packets(&self) -> usize {
        usize::from(self.0.is_some())
    }
    fn bytes(&self) -> u64 {
        self.0.as_ref().map_or(0, |queued| u64::from(queued.len))
    }
}

#[test]
fn a_discipline_may_evict_what_it_holds() {
    let config = LinkConfig {
        rate_bps: Some(8_000_000),
        ..LinkConfig::default()
    };
    let mut link = Link::with_queue(config, NewestOnly(None));
    for packet in 0..4 {
        assert_eq!(link.enqueue(packet, 1000, 0), Verdict::Queued);
    }
    assert_eq!(
        link.next_wakeup(),
        Some(0),
        "evicted packets are handed back at once"
    );
    for packet in [1, 2] {
        assert_eq!(
            link.pop_due(0),
            Some(Departure::Dropped {
                packet,
                cause: DropCause::Discipline
            })
        );
    }
    assert_eq!(drain(&mut link), [(0, 1, 1_000_000), (3, 1, 2_000_000)]);
    assert_eq!(link.stats().dropped_discipline, 2);
}
