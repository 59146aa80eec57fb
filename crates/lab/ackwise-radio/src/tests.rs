//! The MAC compared with sums by hand and published formulas, and the network end to end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::scenario::{MacModel, RadioModel, RadioScenario, Routing};
use ackwise_config::queues::QueueLimit;
use ackwise_queue::Nanos;

use crate::mac::SaturatedSource;
use crate::report::{RadioOptions, run};
use crate::run::{Point, run_point, run_points};
use crate::timing::{self, UNIT_BACKOFF_PERIOD};
use crate::world::World;

const US: Nanos = 1_000;
const SECOND: Nanos = 1_000_000_000;

fn model(routing: Routing) -> RadioModel {
    RadioModel {
        routing,
        ..RadioModel::default()
    }
}

fn line(nodes: usize) -> Vec<(f64, f64)> {
    (0..nodes).map(|i| (30.0 * i as f64, 0.0)).collect()
}

/// A frame of 99 bytes without a back-off, in µs: 128 + 192 at the start, 105 bytes of
/// 32 each, 192, 11 bytes, and the long pause of 640.
#[test]
fn one_exchange_to_the_microsecond() {
    assert_eq!(timing::air(99), 3_360 * US);
    assert_eq!(timing::air(timing::ACK_BYTES), 352 * US);
    let mut radio = model(Routing::Static);
    (radio.mac.min_be, radio.mac.max_be) = (0, 0);
    let mut world = World::new(&line(2), &radio, &[], 1);
    world.saturate(&[SaturatedSource::new(0, Some(1), 88)]);
    let exchange = (128 + 192 + 3_360 + 192 + 352 + 640) * US;
    assert_eq!(exchange, 4_864 * US);
    // The last acknowledgment of ten ends 640 µs before the eleventh exchange.
    let result = world.run(10 * exchange - 640 * US);
    assert_eq!((result.nodes[0].frames, result.nodes[1].acks), (10, 10));
    let sent = 10.0 * 3.360e-3 * 51.0e-3;
    let heard = 10.0 * 0.352e-3 * 58.8e-3;
    let idle = (10.0 * 4.864e-3 - 0.640e-3 - 10.0 * 3.712e-3) * 4.14e-3;
    assert!((result.joules[0] - sent - heard - idle).abs() < 1e-9);
}

/// INETMANET's MAC with a window of one slot, in µs: 320 of back-off, 128, 192, 95 bytes of 32 each,
/// 192 and 11 bytes, and no pause; a lost frame costs a wait of 560 after its end.
#[test]
fn inetmanet_to_the_microsecond() {
    let mut radio = model(Routing::Static);
    radio.mac = MacModel::inetmanet_2011();
    (radio.mac.min_be, radio.mac.max_be) = (0, 0);
    let mut world = World::new(&line(2), &radio, &[], 1);
    world.saturate(&[SaturatedSource::new(0, Some(1), 88)]);
    let exchange = (320 + 128 + 192 + 3_040 + 192 + 352) * US;
    let result = world.run(10 * exchange);
    assert_eq!((result.nodes[0].frames, result.nodes[1].acks), (10, 10));
    let mut world = World::new(&line(2), &radio, &[], 1);
    world.air.disable_rx(1);
    world.saturate(&[SaturatedSource::new(0, Some(1), 88)]);
    let lost = (320 + 128 + 192 + 3_040 + 560) * US;
    let four = world.run(5 * lost - US).nodes[0];
    assert_eq!((four.retries, four.no_ack), (4, 0));
    let five = world.run(5 * lost).nodes[0];
    assert_eq!((five.frames, five.no_ack), (5, 1));
    // A radio that is set up for 1.08 ms assesses the channel for that much longer.
    radio.mac.look_setup = 1_080 * US;
    let mut world = World::new(&line(2), &radio, &[], 1);
    world.saturate(&[SaturatedSource::new(0, Some(1), 88)]);
    let result = world.run(10 * (exchange + 1_080 * US));
    assert_eq!((result.nodes[0].frames, result.nodes[1].acks), (10, 10));
}

/// Contenders that begin together collide exactly if several of them draw the minimum of the
/// back-offs: a node that draws one slot more sees the channel busy (320 + 128 > 320 µs). So
/// each round of n with w slots has P = 1 - n/w * sum over k of ((w-1-k)/w)^(n-1).
fn first_round(contenders: usize) -> f64 {
    let mut collided = 0;
    let rounds = 4_000;
    for seed in 0..rounds {
        let mut places = vec![(0.0, 0.0)];
        places.extend((0..contenders).map(|i| (1.0 + i as f64, 0.0)));
        let radio = model(Routing::Static);
        let mut world = World::new(&places, &radio, &[], seed);
        let fillers: Vec<_> = (1..=contenders)
            .map(|n| SaturatedSource::new(n, Some(0), 88))
            .collect();
        world.saturate(&fillers);
        // By then a node that drew the last of eight slots has begun, and no frame has ended.
        let result = world.run(8 * UNIT_BACKOFF_PERIOD);
        collided += u64::from(result.collisions > 0);
    }
    collided as f64 / rounds as f64
}

#[test]
fn two_and_ten_contenders_collide_as_often_as_they_draw_the_same() {
    for n in [2, 10] {
        let least = |k: i32| (f64::from(7 - k) / 8.0).powi(n - 1);
        let expected = 1.0 - f64::from(n) / 8.0 * (0..8).map(least).sum::<f64>();
        let measured = first_round(n as usize);
        // Three standard errors of 4000 rounds.
        let error = 3.0 * (expected * (1.0 - expected) / 4_000.0).sqrt();
        assert!(
            (measured - expected).abs() < error,
            "{n}: {measured} {expected}"
        );
    }
}

/// 0 and 2 do not hear each other; frames that they send at the same time are lost at 1.
#[test]
fn hidden_terminals_collide_and_capture_helps_the_nearer() {
    let saturated = |places: &[(f64, f64)], capture| {
        let mut radio = model(Routing::Static);
        radio.capture_db = capture;
        (radio.carrier_sense_m, radio.interference_m) = (50.0, 50.0);
        let mut world = World::new(places, &radio, &[], 3);
        world.saturate(&[
            SaturatedSource::new(0, Some(1), 88),
            SaturatedSource::new(2, Some(1), 88),
        ]);
        world.run(20 * SECOND)
    };
    let hidden = saturated(&[(0.0, 0.0), (40.0, 0.0), (80.0, 0.0)], None);
    assert!(hidden.nodes[0].no_ack > 100, "{:?}", hidden.nodes);
    let seen = saturated(&[(0.0, 0.0), (20.0, 0.0), (40.0, 0.0)], None);
    assert!(seen.nodes[0].no_ack < 3, "{:?}", seen.nodes);
    // The ratio of 10 m to 45 m is 13 dB.
    let near = saturated(&[(0.0, 0.0), (10.0, 0.0), (55.0, 0.0)], Some(6.0));
    let acked = |node: usize| near.nodes[node].frames - near.nodes[node].retries;
    assert_eq!(near.nodes[0].no_ack, 0);
    assert!(acked(2) * 2 < acked(0), "{:?}", near.nodes);
}

#[test]
fn bit_errors_cost_frames() {
    let mut radio = model(Routing::Static);
    radio.bit_errors = 1e-4;
    let mut world = World::new(&line(2), &radio, &[], 1);
    world.saturate(&[SaturatedSource::new(0, Some(1), 88)]);
    let result = world.run(60 * SECOND);
    // A frame of 105 and an acknowledgment of 11 bytes are both whole with probability 0.9114.
    let tries = result.nodes[0].frames as f64;
    let share = result.nodes[0].retries as f64 / tries;
    let lost = 1.0 - (1.0f64 - 1e-4).powi(8 * 116);
    assert!((share - lost).abs() < 0.01, "{share} {lost}");
}

fn scenario(radio: &str, policy: &str, more: &str) -> RadioScenario {
    let text = format!(
        "[scenario]\nname = \"t\"\nduration = \"600 s\"\ndata = \"48 kB\"\n[radio]\n{radio}\n\
         [[arm]]\nname = \"a\"\n{policy}\n[arm.model]\nstack = \"rfc\"\nsegment = \"48 B\"\n\
         initial_window = 1\ngrowth = \"per-ack\"\nwindow_limit = \"14 packets\"\n\
         limited_transmit = false\n{more}\n"
    );
    RadioScenario::parse("t.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

const FIRST: Point = Point {
    arm: 0,
    field: 0,
    seed: 1,
};

#[test]
fn a_transfer_ends_over_any_number_of_hops_and_is_the_same_twice() {
    for routing in ["static", "aodv"] {
        let radio =
            format!("topology = \"chain\"\nhops = [1, 2, 5]\ncapture = 4\nrouting = \"{routing}\"");
        let s = scenario(&radio, "", "ack_every = 1");
        for field in 0..3 {
            let point = Point { field, ..FIRST };
            let result = run_point(&s, point).unwrap();
            assert_eq!(result.flows[0].delivered, 48_000, "{routing} {field}");
            assert!(result.flows[0].duration.is_some(), "{routing} {field}");
            assert_eq!(run_point(&s, point).unwrap(), result);
            let other = run_point(&s, Point { seed: 2, ..point }).unwrap();
            assert_ne!(other.end, result.end);
            let routed: u64 = result.nodes.iter().map(|n| n.routing).sum();
            assert_eq!(routed > 0, routing == "aodv");
        }
    }
}

/// A relay passes a packet on after its own acknowledgment has left. Otherwise its first CCA
/// would find that acknowledgment.
#[test]
fn a_relay_acknowledges_before_it_contends() {
    let radio = "topology = \"chain\"\nhops = 2\nrouting = \"static\"\nmin_be = 0\nmax_be = 0";
    let mut s = scenario(radio, "", "");
    s.arms[0].model.window_limit = Some(QueueLimit::Packets(1));
    let result = run_point(&s, FIRST).unwrap();
    let relay = result.nodes[1];
    assert_eq!((relay.busy, relay.ccas), (0, relay.frames), "{relay:?}");
}

/// d = 2 sends half the ACKs, a policy that holds sends fewer, and a request for an ACK works.
#[test]
fn fewer_acks_on_the_air() {
    let acks = |policy: &str, more: &str| {
        let radio = "topology = \"chain\"\nhops = 1\nrouting = \"static\"";
        run_point(&scenario(radio, policy, more), FIRST)
            .unwrap()
            .flows[0]
            .clone()
    };
    let one = acks("", "ack_every = 1");
    assert!(one.acks >= 1000, "{one:?}");
    let two = acks("", "ack_every = 2");
    assert!((500..520).contains(&two.acks), "{two:?}");
    let four = acks("policy = \"dda\"", "");
    assert!((250..300).contains(&four.acks), "{four:?}");
    // With the hint, the policy sends one ACK per window of 14 segments; else it waits 500 ms.
    let with_hint = acks("policy = \"tda\"", "cwnd_hint = true");
    assert!(with_hint.acks < 150, "{with_hint:?}");
    let untold = acks("policy = \"tda\"", "");
    assert!(untold.duration > Some(30 * SECOND), "{untold:?}");
    let asked = acks("policy = \"tda\"", "ask_ack = true");
    assert!(asked.duration < Some(12 * SECOND), "{asked:?}");
}

#[test]
fn points_run_in_order_whatever_the_threads() {
    let s = scenario("topology = \"cross\"\nhops = [2, 4]", "", "");
    let points: Vec<Point> = (0..2)
        .flat_map(|field| {
            (1..4).map(move |seed| Point {
                field,
                seed,
                ..FIRST
            })
        })
        .collect();
    let cancel = AtomicBool::new(false);
    let one = run_points(&s, &points, 1, &cancel, &|_| ()).unwrap();
    let counts = Mutex::new(Vec::new());
    let count = |finished: usize| {
        // The other thread's next point ends meanwhile.
        std::thread::sleep(Duration::from_millis(20) / finished as u32);
        counts.lock().unwrap().push(finished);
    };
    let two = run_points(&s, &points, 2, &cancel, &count).unwrap();
    assert_eq!(counts.into_inner().unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(one.len(), 6);
    assert_eq!(one, two);
    let alone: Vec<_> = points.iter().map(|it| run_point(&s, *it).ok()).collect();
    assert_eq!(one, alone);
    // The second point is not begun.
    let stop = |_| cancel.store(true, Ordering::Relaxed);
    let stopped = run_points(&s, &points, 1, &cancel, &stop).unwrap();
    assert_eq!(stopped[0], one[0]);
    assert_eq!(stopped[1..], [const { None }; 5]);
    // After cancellation no point is begun: not even its policy is checked.
    let s = scenario(
        "topology = \"cross\"\nhops = [2, 4]",
        "policy = \"dac\"",
        "",
    );
    let none = run_points(&s, &points, 2, &cancel, &|_| panic!("a point has ended")).unwrap();
    assert_eq!(none, [const { None }; 6]);
}

/// A run that would take much longer ends early, and is not in the report.
#[test]
fn a_signal_ends_a_run() {
    let mut s = scenario("topology = \"chain\"\nhops = 10\nparallel = 4", "", "");
    s.duration = Duration::from_secs(100_000);
    s.bytes = 2_000_000;
    let options = RadioOptions {
        jobs: 1,
        ..RadioOptions::default()
    };
    let report = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            options.cancel.store(true, Ordering::Relaxed);
        });
        run(&s, &s.runs(), &options, &|_| panic!("a point has ended"))
    });
    assert_eq!(report.unwrap().runs, []);
}

#[test]
fn a_policy_that_does_not_exist_is_pointed_at() {
    let s = scenario("topology = \"chain\"", "policy = \"dac\"", "");
    let error = run_point(&s, FIRST).unwrap_err().to_string();
    assert!(
        error.starts_with("t.toml:9:10: there is no policy \"dac\""),
        "{error}"
    );
}

/// The paper's longest chain, with the MAC of its simulator: everything arrives, over as many
/// hops as the TTLs show, and each hop carries all of the data.
#[test]
fn ten_hops_carry_a_transfer() {
    for routing in ["static", "aodv"] {
        let radio = format!(
            "topology = \"chain\"\nhops = 10\ncapture = 4\nmax_be = 8\nmax_backoffs = 5\n\
             max_retries = 4\nrouting = \"{routing}\""
        );
        let result = run_point(&scenario(&radio, "", "ack_every = 2"), FIRST).unwrap();
        let flow = &result.flows[0];
        assert_eq!(flow.delivered, 48_000, "{routing}");
        // A window of one segment would take ten exchanges of data and of ACKs per segment, 104 s;
        // without any ACK the maximum is one segment per 18 ms.
        let duration = flow.duration.unwrap();
        assert!(
            (18 * SECOND..104 * SECOND).contains(&duration),
            "{routing}: {duration}"
        );
        for (node, counts) in result.nodes[..10].iter().enumerate() {
            assert!(counts.frames >= 1_000, "{routing} {node}: {counts:?}");
        }
        assert!(result.nodes[10].acks >= 1_000, "{routing}");
    }
}

/// Throughput per joule over three seeds: fewer ACKs pay on any path, and `hop` is better
/// than either of the policies that it is made of.
#[test]
fn hop_is_ahead_of_dca_and_tda() {
    let efficiency = |hops: u32, policy: &str| -> f64 {
        let radio = format!(
            "topology = \"chain\"\nhops = {hops}\ncapture = 4\nmax_be = 8\nmax_backoffs = 5\n\
             max_retries = 4\nrouting = \"static\""
        );
        let s = scenario(
            &radio,
            &format!("policy = \"{policy}\""),
            "cwnd_hint = true",
        );
        let run = |seed| run_point(&s, Point { seed, ..FIRST }).unwrap().efficiency();
        (1..=3).map(run).sum::<f64>() / 3.0
    };
    for hops in [1, 3, 10] {
        let hop = efficiency(hops, "hop");
        for other in ["every-n:n=2,warm=0", "dca", "tda"] {
            let theirs = efficiency(hops, other);
            assert!(
                hop > theirs,
                "{hops} hops: {hop} against {other}'s {theirs}"
            );
        }
    }
}
