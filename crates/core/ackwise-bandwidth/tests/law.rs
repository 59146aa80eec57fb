//! The control law on changing links, compared with the known rate and with cake-autorate's law.

mod model;

use ackwise_bandwidth::{Bounds, Estimator, Observation, Sample, State};
use model::{Law, MS, Outcome, Path, Pings, Trace, full_packets, lte, run, steps};
use proptest::prelude::*;

const BOUNDS: Bounds = Bounds {
    min_bps: 100_000,
    max_bps: 20_000_000,
};

fn ours() -> Law {
    Law::Measured(Box::new(Estimator::new(BOUNDS, BOUNDS.max_bps)))
}

fn constant(bps: f64) -> Trace {
    vec![bps; 1000]
}

/// Our result on a path like the usual one.
fn outcome(trace: &Trace, path: &Path) -> Outcome {
    run(&mut ours(), trace, path, 60, 5)
}

#[test]
fn it_finds_the_rate_and_keeps_the_queue_short() {
    // Starting at twenty times the link's rate over 600 ms takes longer (decision 32).
    let paths = [(400e3, 150), (1e6, 150), (5e6, 600), (15e6, 600)];
    for (link, max_ms) in paths {
        for rtt_ms in [5, 40, 150, 600].into_iter().filter(|it| *it <= max_ms) {
            let path = Path {
                rtt_ms,
                // Half a second.
                buffer: link / 16.0,
                ..Path::default()
            };
            let seen = outcome(&constant(link), &path);
            let packet_ms = 1514.0 * 8e3 / link;
            assert!(
                seen.utilisation > 0.97,
                "{link} {rtt_ms}: {}",
                seen.utilisation
            );
            assert!((0.9..1.1).contains(&(seen.rate / link)), "{link} {rtt_ms}");
            let wait = seen.wait(0.95);
            let bound = 40.0 + rtt_ms as f64 / 4.0 + 3.0 * packet_ms;
            assert!(wait < bound, "{link} {rtt_ms}: {wait} ms");
        }
    }
}

/// If a link has become much slower, all that the senders have in flight waits behind the
/// interface, and nothing before it, when the first sample in two seconds arrives.
#[test]
fn one_late_sample_of_a_long_wait_is_a_queue() {
    let mut estimator = Estimator::new(BOUNDS, 6_000_000);
    let (mut at_ns, mut sent_bytes) = (0, 0);
    let mut observe = |bytes: u64, backlog_bytes, waited_ms: Option<u64>| {
        at_ns += 25 * MS;
        sent_bytes += bytes;
        let sample = waited_ms.map(|waited| Sample {
            left_ns: at_ns - (30 + waited) * MS,
            bytes: sent_bytes - bytes * (30 + waited) / 25,
            waited_us: 1000 * waited as u32,
        });
        estimator.observe(&Observation {
            at_ns,
            sent: full_packets(sent_bytes),
            backlog_bytes,
            has_dropped: false,
            sample,
        })
    };
    for index in 0..200 {
        observe(18_750, 6_000, (index > 20).then_some(8));
    }
    // 1.5 Mbit/s from here on.
    for index in 0..85 {
        observe(4_687, 0, (index == 12).then_some(60));
    }
    let rate = observe(4_687, 0, Some(246));
    assert!(rate < 1_500_000, "{rate} on a link of 1.5 Mbit/s");
}

/// After a fall to a twentieth, a measurement needs a longer span than the samples that come cover.
/// The one that showed the fall holds until then.
#[test]
fn a_rising_wait_cuts_the_rate_before_the_next_measurement() {
    let mut estimator = Estimator::new(BOUNDS, 10_000_000);
    let (mut at_ns, mut sent_bytes) = (0, 0);
    let mut observe = |bytes: u64, left: u64, backlog_bytes, sample: Option<(u64, u32)>| {
        at_ns += 25 * MS;
        sent_bytes += bytes;
        let sample = sample.map(|(age_ms, waited_us)| Sample {
            left_ns: at_ns - age_ms * MS,
            bytes: sent_bytes - left,
            waited_us,
        });
        estimator.observe(&Observation {
            at_ns,
            sent: full_packets(sent_bytes),
            backlog_bytes,
            has_dropped: false,
            sample,
        })
    };
    for index in 0..200 {
        let waited_us = if index == 180 { 1_000 } else { 9_000 };
        observe(31_250, 11_250, 50_000, Some((10, waited_us)));
    }
    // 0.5 Mbit/s from here on: every second segment is answered, 48 ms after the one before.
    observe(31_250, 25_000, 50_000, Some((22, 8_000)));
    observe(31_250, 0, 4_500, None);
    observe(9_000, 62_222, 0, Some((69, 54_000)));
    observe(0, 0, 0, None);
    observe(3_028, 62_222, 0, Some((117, 100_000)));
    observe(0, 0, 0, None);
    let rate = observe(3_028, 62_222, 0, Some((165, 146_000)));
    assert!(rate < 1_000_000, "{rate} on a link of 0.5 Mbit/s");
}

/// This also holds if the modem's buffer is full at once, and drops.
#[test]
fn it_follows_a_link_that_falls_to_a_tenth_at_once() {
    for buffer in [30_000.0, 500_000.0] {
        let mut trace = constant(10e6);
        trace.resize(20_000, 10e6);
        trace.resize(60_000, 1e6);
        let path = Path {
            buffer,
            ..Path::default()
        };
        let mut law = ours();
        run(&mut law, &trace, &path, 23, 0);
        let Law::Measured(estimator) = &law else {
            unreachable!()
        };
        let rate = estimator.rate_bps() as f64;
        assert!(rate < 1.3e6, "{buffer}: {rate} three seconds later");
        let seen = run(&mut ours(), &trace, &path, 60, 30);
        assert!(seen.utilisation > 0.95, "{buffer}: {}", seen.utilisation);
        assert!(seen.wait(0.95) < 100.0, "{buffer}: {}", seen.wait(0.95));
    }
}

/// On every generated trace, the link is used at least as much as by cake-autorate's law, with a
/// shorter queue.
#[test]
fn it_is_no_worse_than_pings_on_links_that_change() {
    for name in ["lte", "steps"] {
        for seed in 1001..1009 {
            let trace = match name {
                "lte" => lte(seed, 5e6, 60),
                _ => steps(seed, 5e6, 60, 5),
            };
            let path = Path {
                seed,
                ..Path::default()
            };
            let ours = outcome(&trace, &path);
            let pings = run(
                &mut Law::Pings(Pings::new(BOUNDS, 5e6)),
                &trace,
                &path,
                60,
                5,
            );
            let perfect = run(&mut Law::Perfect, &trace, &path, 60, 5);
            println!(
                "{name} {seed}: utilisation {:.3} {:.3} {:.3}, p50 {:.0} {:.0} ms, p95 {:.0} {:.0} ms",
                ours.utilisation,
                pings.utilisation,
                perfect.utilisation,
                ours.wait(0.5),
                pings.wait(0.5),
                ours.wait(0.95),
                pings.wait(0.95)
            );
            assert!(ours.utilisation >= pings.utilisation, "{name} {seed}");
            assert!(ours.utilisation > 0.9, "{name} {seed}");
            assert!(ours.wait(0.95) <= pings.wait(0.95), "{name} {seed}");
        }
    }
}

#[test]
fn what_waits_elsewhere_does_not_throttle_it() {
    let seen = (1..13).map(|seed| {
        let path = Path {
            elsewhere: (10_000, 60),
            rtt_ms: [10, 40, 100][seed as usize % 3],
            seed,
            ..Path::default()
        };
        run(&mut ours(), &constant(5e6), &path, 120, 20).utilisation
    });
    let seen: Vec<f64> = seen.collect();
    let mean = seen.iter().sum::<f64>() / seen.len() as f64;
    assert!(mean > 0.9, "{seen:?}");
    assert!(seen.iter().all(|it| *it > 0.7), "{seen:?}");
}

/// A long wait elsewhere cuts the rate to the minimum, where it looks like the queue of a slow link.
#[test]
fn a_long_wait_elsewhere_does_not_hold_it_at_the_minimum() {
    for link in [1e6, 5e6, 15e6] {
        let path = Path {
            elsewhere: (10_000, 300),
            ..Path::default()
        };
        let seen = run(&mut ours(), &constant(link), &path, 120, 20);
        assert!(seen.utilisation > 0.5, "{link}: {}", seen.utilisation);
    }
    // Here it is such a queue.
    let path = Path {
        buffer: 105e3 / 4.0,
        ..Path::default()
    };
    let seen = run(&mut ours(), &constant(105e3), &path, 120, 10);
    assert!(seen.wait(0.5) < 400.0, "{} ms", seen.wait(0.5));
}

/// Whenever the delay of the path beyond the link rises, it looks like a queue.
#[test]
fn a_delay_that_goes_up_and_down_elsewhere_does_not_throttle_it() {
    for link in [5e6, 15e6] {
        for wander in [(30, 500), (30, 2_000), (50, 500), (50, 2_000)] {
            for seed in 1..4 {
                let path = Path {
                    wander,
                    buffer: link / 8.0,
                    seed,
                    ..Path::default()
                };
                let seen = outcome(&constant(link), &path);
                assert!(
                    seen.utilisation > 0.4,
                    "{link} {wander:?}: {}",
                    seen.utilisation
                );
            }
        }
    }
}

/// A longer round trip is not a queue of the link if nobody is limited: a call of 1 Mbit/s on a
/// link of 20 leaves the rate to others.
#[test]
fn a_longer_path_does_not_throttle_who_has_little_to_send() {
    // A long wait is fought for some seconds before it is accepted.
    for (more_ms, most) in [(8, 8), (15, 8), (60, 18)] {
        let path = Path {
            offered_bps: 1e6,
            elsewhere: (10_000, more_ms),
            ..Path::default()
        };
        let low = (11..60).filter(|&second| {
            let seen = run(&mut ours(), &constant(20e6), &path, second, 0);
            seen.rate < 10e6
        });
        let low = low.count();
        assert!(low <= most, "{more_ms} ms: low in {low} of 49 s");
    }
}

/// Two packets a second show a capacity at which eight take longer than a point counts, so that it is
/// not measured again.
#[test]
fn nor_who_sends_two_packets_a_second() {
    for waited_ms in [600, 900] {
        let mut estimator = Estimator::new(BOUNDS, BOUNDS.max_bps);
        let mut low_ms = 0;
        for index in 1..2400_u64 {
            let answered = index.saturating_sub((40 + waited_ms) / 25);
            let is_answered = answered > 0 && answered.is_multiple_of(20);
            let sample = is_answered.then_some(Sample {
                left_ns: answered * 25 * MS,
                bytes: answered / 20 * 1514,
                waited_us: 1000 * waited_ms as u32,
            });
            let rate = estimator.observe(&Observation {
                at_ns: index * 25 * MS,
                sent: full_packets(index / 20 * 1514),
                backlog_bytes: 0,
                has_dropped: false,
                sample,
            });
            low_ms += if rate < BOUNDS.max_bps / 2 { 25 } else { 0 };
        }
        assert!(low_ms < 20_000, "{waited_ms} ms: low for {low_ms} ms");
    }
}

/// An attempt to empty the queue that a silence interrupted says nothing of the queue that the next
/// connection finds.
#[test]
fn an_attempt_ends_with_the_traffic() {
    let mut estimator = Estimator::new(BOUNDS, 5_000_000);
    let (mut at_ns, mut sent_bytes) = (0, 0);
    let mut observe = |bytes: u64, waited_ms: Option<u64>| {
        at_ns += 25 * MS;
        sent_bytes += bytes;
        let sample = waited_ms.map(|waited| Sample {
            left_ns: at_ns - (10 + waited) * MS,
            bytes: sent_bytes - bytes * (10 + waited) / 25,
            waited_us: 1000 * waited as u32,
        });
        estimator.observe(&Observation {
            at_ns,
            sent: full_packets(sent_bytes),
            backlog_bytes: 50_000,
            has_dropped: false,
            sample,
        });
        estimator.state()
    };
    for _ in 0..40 {
        observe(15_625, Some(1));
    }
    // The queue is not empty for ten seconds, so that the rate is cut for one. It ends before that.
    for _ in 0..410 {
        observe(15_625, Some(100));
    }
    for _ in 0..400 {
        observe(0, None);
    }
    for index in 0..60 {
        let state = observe(15_625, Some(100));
        assert_eq!(state, State::Following, "after {index} samples");
    }
}

/// A link below the minimum rate looks like a wait elsewhere. Its queue is full in any case; when it
/// has become faster, the queue is short again.
#[test]
fn below_the_minimum_nothing_is_lost() {
    for low in [0.3, 0.95] {
        let mut trace = vec![low * BOUNDS.min_bps as f64; 60_000];
        trace.extend(vec![5e6; 60_000]);
        let path = Path {
            buffer: 5e6 / 16.0,
            ..Path::default()
        };
        let seen = run(&mut ours(), &trace, &path, 120, 70);
        assert!(seen.utilisation > 0.97, "{low}: {}", seen.utilisation);
        assert!(seen.wait(0.95) < 30.0, "{low}: {} ms", seen.wait(0.95));
    }
}

/// With a filter there is hardly an ACK in the shaped queue, and a full packet is as long as twenty
/// ACKs.
#[test]
fn where_only_acks_leave_a_short_queue_is_kept() {
    for link in [100e3, 200e3, 500e3] {
        let path = Path {
            acks: Some(80),
            buffer: link / 8.0,
            offered_bps: 10.0 * link,
            ..Path::default()
        };
        let mut law = Law::Measured(Box::new(Estimator::new(
            Bounds {
                min_bps: 50_000,
                max_bps: 20_000_000,
            },
            20_000_000,
        )));
        let seen = run(&mut law, &constant(link), &path, 60, 10);
        let (half, late) = (seen.wait(0.5), seen.wait(0.95));
        assert!(seen.utilisation > 0.95, "{link}: {}", seen.utilisation);
        assert!(half < 50.0 && late < 100.0, "{link}: {half} {late} ms");
    }
}

/// A clock that stood still while a machine slept causes this.
#[test]
fn a_wait_that_is_longer_than_the_round_trip_is_none() {
    let mut estimator = Estimator::new(BOUNDS, BOUNDS.max_bps);
    for index in 1..400_u64 {
        let at_ns = index * 25 * MS;
        let sample = Sample {
            left_ns: at_ns - at_ns.min(40 * MS),
            bytes: 1_000 * index,
            waited_us: 60_000_000,
        };
        let rate = estimator.observe(&Observation {
            at_ns,
            sent: full_packets(1_000 * index),
            backlog_bytes: 0,
            has_dropped: true,
            sample: Some(sample),
        });
        assert_eq!(rate, BOUNDS.max_bps);
    }
}

/// Keep-alives are not a load, however late their answers are.
#[test]
fn a_few_bytes_a_second_say_nothing_of_the_link() {
    let mut estimator = Estimator::new(BOUNDS, BOUNDS.max_bps);
    let mut sent_bytes = 0;
    for index in 0..4_000_u64 {
        let at_ns = index * 25 * MS;
        let answered = index % 40 == 39;
        let sample = answered.then(|| Sample {
            left_ns: at_ns - 975 * MS,
            bytes: sent_bytes,
            waited_us: 900_000,
        });
        sent_bytes += if answered { 66 } else { 0 };
        let rate = estimator.observe(&Observation {
            at_ns,
            sent: full_packets(sent_bytes),
            backlog_bytes: 0,
            has_dropped: false,
            sample,
        });
        assert_eq!(rate, BOUNDS.max_bps);
    }
}

/// While losses are repaired, nothing is timed for hundreds of milliseconds. A rate that was
/// computed to drain a queue does not stay in force until the next sample.
#[test]
fn where_samples_are_rare_the_rate_does_not_stay_low() {
    for rate in [1.5e6, 6e6] {
        for seed in 1..5 {
            let path = Path {
                gaps_ms: 900,
                seed,
                ..Path::default()
            };
            let seen = run(&mut ours(), &constant(rate), &path, 60, 20);
            assert!(
                seen.utilisation > 0.99,
                "{rate} {seed}: {}",
                seen.utilisation
            );
            assert!(seen.wait(0.95) < 60.0, "{rate} {seed}: {}", seen.wait(0.95));
        }
    }
}

/// A rate of long ago is no reason to return to it.
#[test]
fn after_a_silence_the_first_sample_that_waited_does_not_throttle_it() {
    let mut estimator = Estimator::new(BOUNDS, 300_000);
    let mut observe = |ms: u64, sample| {
        estimator.observe(&Observation {
            at_ns: ms * MS,
            sent: full_packets(600 * ms),
            backlog_bytes: 0,
            has_dropped: false,
            sample,
        })
    };
    let mut rate = 0;
    for ms in (0..60_000).step_by(25) {
        rate = observe(ms, None);
    }
    assert_eq!(rate, BOUNDS.max_bps);
    let waited = Sample {
        left_ns: 59_900 * MS,
        bytes: 600 * 59_900,
        waited_us: 20_000,
    };
    assert_eq!(observe(60_000, Some(waited)), BOUNDS.max_bps);
}

/// Traffic that cannot be timed is not held back by what was learnt before.
#[test]
fn without_round_trips_the_rate_rises() {
    let path = Path {
        blind_from: 0,
        ..Path::default()
    };
    assert_eq!(outcome(&constant(5e6), &path).rate, 20e6);
    let path = Path {
        blind_from: 20_000,
        ..Path::default()
    };
    let mut law = ours();
    run(&mut law, &constant(5e6), &path, 40, 0);
    let Law::Measured(estimator) = &mut law else {
        unreachable!()
    };
    assert_eq!(estimator.state(), State::Blind);
    assert_eq!(estimator.rate_bps(), BOUNDS.max_bps);
}

/// After a link was idle for 20 s, its earlier rate no longer counts.
#[test]
fn the_rate_of_an_idle_line_rises() {
    let path = Path {
        idle: 20_000..40_000,
        ..Path::default()
    };
    let mut law = ours();
    run(&mut law, &constant(5e6), &path, 39, 0);
    let Law::Measured(estimator) = &law else {
        unreachable!()
    };
    assert_eq!(estimator.rate_bps(), BOUNDS.max_bps);
}

proptest! {
    /// Whatever is seen, including absurd times, the rate stays within its bounds.
    #[test]
    fn the_rate_stays_within_its_bounds(
        min in 1_u64..1_000_000_000,
        more in 0_u64..10_000_000_000,
        start in any::<u64>(),
        observations in prop::collection::vec(
            (0_u64..5_000, 0_u64..10_000_000, prop::option::of((0_u64..20_000, 0_u64..10_000_000, any::<u32>()))),
            0..200,
        ),
    ) {
        let bounds = Bounds { min_bps: min, max_bps: min + more };
        let mut estimator = Estimator::new(bounds, start);
        let (mut at_ns, mut sent_bytes) = (30_000 * MS, 20_000_000);
        for (ms, bytes, sample) in observations {
            at_ns += ms * MS;
            sent_bytes += bytes;
            let sample = sample.map(|(ago_ms, behind, waited_us)| Sample {
                left_ns: at_ns - ago_ms * MS,
                bytes: sent_bytes - behind,
                waited_us,
            });
            let observation = Observation { at_ns, sent: full_packets(sent_bytes), backlog_bytes: bytes, has_dropped: bytes % 3 == 0, sample };
            let rate = estimator.observe(&observation);
            prop_assert!((min..=min + more).contains(&rate), "{rate}");
            prop_assert_eq!(rate, estimator.rate_bps());
        }
    }
}
