//! Two directions on one medium, to the nanosecond.

use ackwise_queue::{
    Departure, DropTail, HalfDuplex, Link, LinkConfig, Nanos, QueueLimit, Verdict,
};
use ackwise_rng::{Probability, Rng};

type Wire = Link<u32, DropTail<u32>>;

struct Pair {
    links: [Wire; 2],
    medium: HalfDuplex,
}

impl Pair {
    fn new(rates: [u64; 2], delay_ns: Nanos) -> Pair {
        let mut links = rates.map(|rate| {
            Link::drop_tail(LinkConfig {
                rate_bps: Some(rate),
                delay_ns,
                queue: QueueLimit::Packets(1000),
                ..LinkConfig::default()
            })
        });
        let medium = HalfDuplex::new(links.each_mut());
        Pair { links, medium }
    }

    fn send(&mut self, direction: usize, packet: u32, len: u32, now: Nanos) {
        let verdict = self
            .medium
            .enqueue(self.links.each_mut(), direction, packet, len, now);
        assert_eq!(verdict, Verdict::Queued);
    }

    /// What has arrived by `now`: (direction, packet, time).
    fn arrived(&mut self, now: Nanos) -> Vec<(usize, u32, Nanos)> {
        self.medium.advance(self.links.each_mut(), now);
        let mut out = Vec::new();
        for (direction, link) in self.links.iter_mut().enumerate() {
            while let Some(departure) = link.pop_due(now) {
                if let Departure::Delivered { packet, due_ns, .. } = departure {
                    out.push((direction, packet, due_ns));
                }
            }
        }
        out
    }

    /// Polls as an engine does, from wake-up to wake-up.
    fn drain(&mut self) -> Vec<(usize, u32, Nanos)> {
        let mut out = Vec::new();
        while let Some(at) = self.links.iter().filter_map(Link::next_wakeup).min() {
            out.extend(self.arrived(at));
        }
        out.sort_by_key(|&(_, _, due)| due);
        out
    }
}

const MS: Nanos = 1_000_000;

#[test]
fn they_alternate_and_then_the_longer_queue_goes_on() {
    // 125 bytes take 1 ms and 2 ms.
    let mut pair = Pair::new([1_000_000, 500_000], 0);
    for packet in 0..4 {
        pair.send(0, packet, 125, 0);
    }
    for packet in 10..12 {
        pair.send(1, packet, 125, 0);
    }
    let expected = [
        (0, 0, MS),
        (1, 10, 3 * MS),
        (0, 1, 4 * MS),
        (1, 11, 6 * MS),
        (0, 2, 7 * MS),
        (0, 3, 8 * MS),
    ];
    assert_eq!(pair.drain(), expected);
}

#[test]
fn a_late_poll_finds_what_an_early_one_would_have_found() {
    let mut pair = Pair::new([1_000_000, 1_000_000], 5 * MS);
    for packet in 0..3 {
        pair.send(0, packet, 125, 0);
    }
    pair.send(1, 10, 125, MS / 2);
    // The medium is free for a while; the first to arrive gets it.
    pair.send(1, 11, 125, 10 * MS);
    pair.send(0, 3, 125, 10 * MS + 1);
    let mut found = pair.arrived(100 * MS);
    found.sort_by_key(|&(_, _, due)| due);
    let expected = [
        (0, 0, 6 * MS),
        (1, 10, 7 * MS),
        (0, 1, 8 * MS),
        (0, 2, 9 * MS),
        (1, 11, 16 * MS),
        (0, 3, 17 * MS),
    ];
    assert_eq!(found, expected);
}

#[test]
fn never_two_at_once_and_nothing_lost() {
    let rates = [1_000_000, 250_000];
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let mut pair = Pair::new(rates, 3 * MS);
        let (mut now, mut lens, mut found) = (0, Vec::new(), Vec::new());
        for packet in 0..400 {
            now += rng.below(3 * MS);
            let direction = usize::from(rng.happens(Probability::from_fraction(0.4)));
            let len = 20 + rng.below(300) as u32;
            lens.push(len);
            pair.send(direction, packet, len, now);
            if rng.happens(Probability::from_fraction(0.5)) {
                found.extend(pair.arrived(now));
            }
        }
        found.extend(pair.drain());
        assert_eq!(found.len(), lens.len());
        // When each was on the medium; rounding may add a nanosecond.
        let mut busy: Vec<(Nanos, Nanos)> = found
            .iter()
            .map(|&(direction, packet, due)| {
                let time = u64::from(lens[packet as usize]) * 8_000_000_000 / rates[direction];
                (due - 3 * MS - time, due - 3 * MS)
            })
            .collect();
        busy.sort_unstable();
        for two in busy.windows(2) {
            assert!(two[0].1 <= two[1].0 + 1, "seed {seed}: {two:?}");
        }
    }
}

#[test]
fn a_direction_alone_is_an_ordinary_link() {
    let mut pair = Pair::new([50_000_000, 50_000_000], 20 * MS);
    let mut alone: Wire = Link::drop_tail(*pair.links[0].config());
    for packet in 0..100 {
        let now = u64::from(packet) * 100_000;
        pair.send(0, packet, 1514, now);
        assert_eq!(alone.enqueue(packet, 1514, now), Verdict::Queued);
    }
    for (_, packet, due) in pair.drain() {
        let expected = Departure::Delivered {
            packet,
            copies: 1,
            due_ns: due,
        };
        assert_eq!(alone.pop_due(due), Some(expected));
    }
    let [used, unused] = pair.links.map(|link| *link.stats());
    assert_eq!(used.queue_packet_ns, alone.stats().queue_packet_ns);
    assert_eq!(unused.sent_packets, 0);
}
