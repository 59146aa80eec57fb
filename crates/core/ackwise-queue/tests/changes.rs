//! Changing rates and delays, compared with clocks that advance by single nanoseconds.

use std::sync::Arc;

use ackwise_queue::{
    DelaySchedule, Departure, Link, LinkChanges, LinkConfig, Nanos, Outage, Outages, QueueLimit,
    RateSchedule, ScheduleError, Serialiser, Step, Verdict,
};
use proptest::prelude::*;

fn steps<T: Copy>(list: &[(Nanos, T)]) -> Vec<Step<T>> {
    list.iter()
        .map(|&(at_ns, value)| Step { at_ns, value })
        .collect()
}

/// A step function of time in a test: durations and values.
#[derive(Debug, Clone)]
struct Profile {
    parts: Vec<(Nanos, u64)>,
    repeats: bool,
    /// Start and length of an outage, and the time after which it repeats.
    outage: Option<(Nanos, Nanos, Nanos)>,
    origin: Nanos,
}

impl Profile {
    /// The rate in the nanosecond that begins at `t`, bits per second.
    fn rate(&self, t: Nanos) -> u64 {
        if let Some((start, length, period)) = self.outage {
            // The outages also repeat before the origin.
            let offset = (i128::from(t) - i128::from(self.origin)).rem_euclid(i128::from(period));
            if (i128::from(start)..i128::from(start + length)).contains(&offset) {
                return 0;
            }
        }
        let whole: Nanos = self.parts.iter().map(|part| part.0).sum();
        let own = i128::from(t) - i128::from(self.origin);
        let offset = match self.repeats {
            true => own.rem_euclid(i128::from(whole)),
            false => own.max(0),
        };
        let mut end = 0;
        for &(length, rate) in &self.parts {
            end += i128::from(length);
            if offset < end {
                return rate;
            }
        }
        self.parts.last().map_or(0, |part| part.1)
    }

    fn changes(&self) -> LinkChanges {
        let mut at_ns = 0;
        let mut list = Vec::new();
        for &(length, value) in &self.parts {
            list.push(Step { at_ns, value });
            at_ns += length;
        }
        let rate = RateSchedule::steps(list, self.repeats.then_some(at_ns)).unwrap();
        let outages = self.outage.map(|(start, length, period)| {
            let end = start + length;
            Arc::new(Outages::new(vec![Outage { start, end }], period).unwrap())
        });
        LinkChanges {
            rate: Some(Arc::new(rate)),
            outages,
            delay: None,
        }
    }
}

prop_compose! {
    fn profiles()(
        parts in prop::collection::vec((1_u64..60, prop_oneof![Just(0), 1_u64..4_000_000_000]), 1..6),
        last in 1_u64..4_000_000_000,
        repeats: bool,
        outage in prop::option::of((0_u64..50, 1_u64..40, 0_u64..200)),
        origin in 0_u64..500,
    ) -> Profile {
        let mut parts = parts;
        // Something can be sent in the end.
        parts.push((40, last));
        let outage = outage.map(|(start, length, more)| (start, length, start + length + 1 + more));
        Profile { parts, repeats, outage, origin }
    }
}

/// Offers: nanoseconds after the previous one, and bytes.
fn offers() -> impl Strategy<Value = Vec<(Nanos, u32)>> {
    prop::collection::vec((prop_oneof![Just(0), 0_u64..400], 0_u32..40), 1..30)
}

/// The time at which each packet has left a wire that reads the rate at every nanosecond.
fn by_the_nanosecond(profile: &Profile, offers: &[(Nanos, u32)]) -> Vec<Nanos> {
    let (mut arrival, mut free, mut done) = (0, 0, Vec::new());
    let (mut sent, mut wanted) = (0_u128, 0_u128);
    for &(gap, len) in offers {
        arrival += gap;
        if arrival > free {
            (free, sent, wanted) = (arrival, 0, 0);
        }
        wanted += u128::from(len) * 8_000_000_000;
        while sent < wanted {
            sent += u128::from(profile.rate(free));
            free += 1;
        }
        done.push(free);
    }
    done
}

proptest! {
    #[test]
    fn a_changing_rate_is_exact(profile in profiles(), offers in offers()) {
        let changes = profile.changes();
        let mut wire = Serialiser::new(None);
        let rate = changes.rate.as_ref().unwrap();
        wire.follow(rate, changes.outages.clone(), profile.origin);
        let mut arrival = 0;
        let mut found = Vec::new();
        for &(gap, len) in &offers {
            arrival += gap;
            found.push(wire.send(len, arrival));
        }
        prop_assert_eq!(found, by_the_nanosecond(&profile, &offers));
    }

    #[test]
    fn one_step_is_an_ordinary_rate(rate in 1_u64..20_000_000_000, offers in offers()) {
        let mut plain = Serialiser::new(Some(rate));
        let mut stepped = Serialiser::new(None);
        stepped.follow(&RateSchedule::constant(rate), None, 7);
        let mut arrival = 0;
        for (gap, len) in offers {
            arrival += gap;
            prop_assert_eq!(stepped.send(len, arrival), plain.send(len, arrival));
        }
    }
}

/// mahimahi's loop (`link_queue.cc`, `rationalize`): at each opportunity, the packets that have
/// arrived by then share its bytes, and one that does not fit continues with the next.
fn as_mahimahi_does(
    times: &[Nanos],
    bytes: u32,
    outage: impl Fn(Nanos) -> bool,
    arrivals: &[(Nanos, u32)],
) -> Vec<Nanos> {
    let mut done = vec![0; arrivals.len()];
    let mut next = 0;
    let mut missing = 0;
    let period = times[times.len() - 1];
    for round in 0.. {
        for &time in times {
            let now = round * period + time;
            if outage(now) {
                continue;
            }
            let mut left = bytes;
            while left > 0 && next < arrivals.len() {
                if missing == 0 {
                    if arrivals[next].0 > now {
                        break;
                    }
                    missing = arrivals[next].1;
                }
                let part = left.min(missing);
                left -= part;
                missing -= part;
                if missing == 0 {
                    done[next] = now;
                    next += 1;
                }
            }
            if next == arrivals.len() {
                return done;
            }
        }
    }
    done
}

/// What a link delivers if polled as an engine does.
fn delivered(link: &mut Link<usize>, arrivals: &[(Nanos, u32)]) -> Vec<Nanos> {
    let mut done = vec![0; arrivals.len()];
    let mut collect = |link: &mut Link<usize>, until: Nanos| {
        while let Some(at) = link.next_wakeup().filter(|&at| at <= until) {
            while let Some(departure) = link.pop_due(at) {
                if let Departure::Delivered { packet, due_ns, .. } = departure {
                    done[packet] = due_ns;
                }
            }
        }
    };
    for (packet, &(now, len)) in arrivals.iter().enumerate() {
        collect(link, now);
        assert_eq!(link.enqueue(packet, len, now), Verdict::Queued);
    }
    collect(link, Nanos::MAX);
    done
}

fn unlimited() -> Link<usize> {
    Link::drop_tail(LinkConfig {
        queue: QueueLimit::Unlimited,
        ..LinkConfig::default()
    })
}

proptest! {
    #[test]
    fn opportunities_are_used_as_mahimahi_uses_them(
        gaps in prop::collection::vec(0_u64..30, 1..12),
        bytes in 1_u32..50,
        offers in prop::collection::vec((0_u64..60, 1_u32..120), 1..40),
        outage in prop::option::of((0_u64..30, 1_u64..40)),
    ) {
        // The first opportunity is after 0: one at 0 is that at the end of the previous round.
        let mut at = 1;
        let times: Vec<Nanos> = gaps.iter().map(|gap| { at += gap; at }).collect();
        let rate = RateSchedule::opportunities(times.clone(), bytes).unwrap();
        prop_assert!(rate.is_opportunities());
        // Coprime to most periods, so that each opportunity is usable at some time.
        const AGAIN: Nanos = 1009;
        let outages = outage.map(|(start, length)| {
            Arc::new(Outages::new(vec![Outage { start, end: start + length }], AGAIN).unwrap())
        });
        let out = |now: Nanos| outage.is_some_and(|(start, length)| {
            (start..start + length).contains(&(now % AGAIN))
        });
        let mut now = 0;
        let arrivals: Vec<(Nanos, u32)> =
            offers.iter().map(|&(gap, len)| { now += gap; (now, len) }).collect();
        let mut link = unlimited();
        link.vary(&LinkChanges { rate: Some(Arc::new(rate)), outages, delay: None }, 0);
        prop_assert_eq!(
            delivered(&mut link, &arrivals),
            as_mahimahi_does(&times, bytes, out, &arrivals)
        );
    }

    #[test]
    fn another_origin_moves_everything(
        gaps in prop::collection::vec(1_u64..30, 1..12),
        offers in prop::collection::vec((0_u64..60, 1_u32..120), 1..40),
        origin in 0_u64..10_000,
    ) {
        let mut at = 0;
        let times: Vec<Nanos> = gaps.iter().map(|gap| { at += gap; at }).collect();
        let rate = Some(Arc::new(RateSchedule::opportunities(times, 40).unwrap()));
        let delay = DelaySchedule::steps(steps(&[(0, 100), (50, 10), (75, 300)]), Some(200));
        let changes = LinkChanges { rate, outages: None, delay: Some(Arc::new(delay.unwrap())) };
        let from = |origin: Nanos| {
            // At the origin itself, a repeating trace has its last opportunity.
            let mut now = origin + 1;
            let arrivals: Vec<(Nanos, u32)> =
                offers.iter().map(|&(gap, len)| { now += gap; (now, len) }).collect();
            let mut link = unlimited();
            link.vary(&changes, origin);
            let done = delivered(&mut link, &arrivals);
            done.into_iter().map(|at| at - origin).collect::<Vec<_>>()
        };
        prop_assert_eq!(from(origin), from(0));
    }
}

#[test]
fn a_rate_changes_while_a_packet_is_on_the_wire() {
    // 8 bits per microsecond, then 80: half of 1000 bytes takes 500 us, the rest 50.
    let rates = steps(&[(0, 8_000_000), (500_000, 80_000_000)]);
    let rate = RateSchedule::steps(rates, None).unwrap();
    let mut wire = Serialiser::new(None);
    wire.follow(&rate, None, 0);
    assert_eq!(wire.send(1000, 0), 550_000);
    assert_eq!(wire.send(1000, 0), 650_000);
    assert_eq!(rate.mean_bps(), 44_000_000);
}

#[test]
fn a_hand_over_keeps_order_and_sends_nothing_for_a_while() {
    let delay = DelaySchedule::steps(steps(&[(0, 40_000), (10_000, 5_000)]), Some(20_000));
    let delay = Arc::new(delay.unwrap());
    assert_eq!(
        (delay.min_delay(), delay.at(9_999), delay.at(30_000)),
        (5_000, 40_000, 5_000)
    );
    let outage = Outage {
        start: 10_000,
        end: 13_000,
    };
    let mut link = unlimited();
    let changes = LinkChanges {
        // One byte per nanosecond.
        rate: Some(Arc::new(RateSchedule::constant(8_000_000_000))),
        outages: Some(Arc::new(Outages::new(vec![outage], 20_000).unwrap())),
        delay: Some(delay),
    };
    link.vary(&changes, 0);
    // The second has sent 1000 of its bytes at 10 us; the third is after the outage.
    let arrivals = [(1_000, 100), (9_000, 1_500), (14_000, 100), (20_000, 100)];
    let done = delivered(&mut link, &arrivals);
    assert_eq!(done, [41_100, 41_100, 41_100, 60_100]);
}

#[test]
fn schedules_that_make_no_sense_are_refused() {
    use ScheduleError::{Backwards, Empty, LateStart, NothingSent, ShortPeriod};
    let rate = |list: &[(Nanos, u64)], period| RateSchedule::steps(steps(list), period).err();
    assert_eq!(rate(&[], None), Some(Empty));
    assert_eq!(rate(&[(1, 5)], None), Some(LateStart));
    assert_eq!(rate(&[(0, 5), (3, 6), (3, 7)], None), Some(Backwards(2)));
    assert_eq!(rate(&[(0, 5), (3, 6)], Some(3)), Some(ShortPeriod));
    assert_eq!(rate(&[(0, 5), (3, 0)], None), Some(NothingSent));
    assert_eq!(rate(&[(0, 5), (3, 0)], Some(4)), None);
    let chances = |list: &[Nanos]| RateSchedule::opportunities(list.to_vec(), 1500).err();
    assert_eq!(chances(&[]), Some(Empty));
    assert_eq!(chances(&[0, 0]), Some(NothingSent));
    assert_eq!(chances(&[2, 1]), Some(Backwards(1)));
    assert_eq!(chances(&[0, 1]), None);
    let out = |list: &[(Nanos, Nanos)], period| {
        let spans = list.iter().map(|&(start, end)| Outage { start, end });
        Outages::new(spans.collect(), period).err()
    };
    assert_eq!(out(&[], 9), Some(Empty));
    assert_eq!(out(&[(3, 3)], 9), Some(Backwards(0)));
    assert_eq!(out(&[(1, 3), (3, 4)], 9), Some(Backwards(1)));
    assert_eq!(out(&[(1, 10)], 9), Some(ShortPeriod));
    assert_eq!(out(&[(0, 9)], 9), Some(NothingSent));
}

#[test]
fn extremes_end() {
    let slow = RateSchedule::steps(steps(&[(0, 0), (5, 1)]), Some(10)).unwrap();
    let mut wire = Serialiser::new(None);
    let pause = Outage { start: 0, end: 9 };
    let outages = Arc::new(Outages::new(vec![pause], 10).unwrap());
    wire.follow(&slow, Some(outages), 3);
    // One bit in ten nanoseconds at a billionth per second: the end of time.
    assert_eq!(wire.send(u32::MAX, 0), Nanos::MAX);
    // Outages that cover all opportunities.
    let never = RateSchedule::opportunities(vec![10], 1500).unwrap();
    let pause = Outage { start: 9, end: 10 };
    let outages = Arc::new(Outages::new(vec![pause], 10).unwrap());
    let mut wire = Serialiser::new(None);
    wire.follow(&never, Some(outages), 0);
    assert_eq!(wire.send(1, 0), 10);
    let pause = Outage { start: 0, end: 1 };
    let outages = Arc::new(Outages::new(vec![pause], 10).unwrap());
    let mut wire = Serialiser::new(None);
    wire.follow(&never, Some(outages), 0);
    assert_eq!(wire.send(1, 0), Nanos::MAX);
}
