//! Sleep compared with sums by hand.

use std::time::Duration;

use crate::mac::SaturatedSource;
use crate::scenario::{EnergyModel, RadioModel, Routing, SleepModel};
use crate::world::RadioResult;

use super::*;

const US: Nanos = 1_000;
const MS: Nanos = 1_000 * US;
const SECOND: Nanos = 1_000 * MS;
const INTERVAL: Nanos = 125 * MS;

fn radio() -> RadioModel {
    RadioModel {
        routing: Routing::Static,
        sleep: Some(SleepModel {
            wake_up: Duration::from_millis(125),
            phase_lock: true,
        }),
        ..RadioModel::default()
    }
}

/// Runs a world without flows until this time.
fn run(world: &mut World, until: Nanos) -> RadioResult {
    while world.step(until) {}
    world.result(0)
}

/// A world whose nodes wake at these times, and every 125 ms after them.
fn world(places: &[(f64, f64)], model: &RadioModel, phases: &[Nanos]) -> World {
    let mut world = World::new(places, model, &[], 1);
    world.queue.clear();
    for (node, phase) in phases.iter().enumerate() {
        world.nodes[node].sleeper.phase = *phase;
        world.at(*phase, Event::Check(node));
    }
    world
}

const TWO: [(f64, f64); 2] = [(0.0, 0.0), (30.0, 0.0)];

/// Joules of a radio that was on and silent, received, and sent for these times, and slept for the
/// rest of the total time `all`.
fn joules(on: Nanos, received: Nanos, sent: Nanos, all: Nanos) -> f64 {
    let volts = 3.0;
    let asleep = all - on - received - sent;
    let charge = |time: Nanos, ma: f64| time as f64 * 1e-9 * ma * 1e-3;
    volts * (charge(on, 1.38) + charge(received, 19.6) + charge(sent, 17.0) + charge(asleep, 0.06))
}

/// Two checks of 192 µs every 125 ms. With 1.38 mA on and 0.06 mA off:
/// (0.384 * 1.38 + 124.616 * 0.06) / 125 = 0.0640550 mA; with 19.6 mA on, 0.1200269 mA.
#[test]
fn the_mean_current_of_an_idle_node_over_an_hour() {
    for (idle_ma, mean_ma) in [(1.38, 0.064_055_04), (19.6, 0.120_026_88)] {
        let model = RadioModel {
            energy: EnergyModel {
                idle_ma,
                ..EnergyModel::default()
            },
            ..radio()
        };
        let mut world = World::new(&TWO, &model, &[], 5);
        let result = run(&mut world, 3600 * SECOND);
        for joules in &result.joules {
            let ma = joules / 3.0 / 3600.0 * 1e3;
            assert!((ma / mean_ma - 1.0).abs() < 1e-9, "{ma} {mean_ma}");
        }
        // 0.384 of 125 ms.
        let asleep = result.asleep.unwrap();
        assert!((asleep - (1.0 - 0.384 / 125.0)).abs() < 1e-12, "{asleep}");
    }
}

/// One frame of 99 bytes, 3.360 ms on the air, between nodes that wake at 20 and 60 ms. The
/// sender has it at 0 and draws no back-off. Its CCA takes 592 µs, and its turnaround 192 µs. Copies
/// begin at 0.784 ms and every 3.760 ms. The sixteenth, from 57.184 to 60.544, is sensed by the
/// check at 60; the seventeenth, from 60.944 to 64.304, is received, and acknowledged from
/// 64.496 to 64.848.
#[test]
fn an_exchange_with_a_neighbour_whose_time_is_not_known() {
    let mut model = radio();
    (model.mac.min_be, model.mac.max_be) = (0, 0);
    let mut world = world(&TWO, &model, &[20 * MS, 60 * MS]);
    send(&mut world, 88);
    let result = run(&mut world, 100 * MS);
    assert_eq!((result.nodes[0].frames, result.nodes[1].acks), (17, 1));
    assert_eq!(world.delivered, 1);
    // The sender's own check at 20 ms happens while it sends.
    let sender = joules(
        (592 + 192 + 16 * 400 + 192) * US,
        352 * US,
        17 * 3360 * US,
        100 * MS,
    );
    let receiver = joules((944 + 192) * US, 3360 * US, 352 * US, 100 * MS);
    assert!((result.joules[0] - sender).abs() < 1e-12, "{result:?}");
    assert!((result.joules[1] - receiver).abs() < 1e-12, "{result:?}");
    assert_eq!(world.nodes[0].sleeper.locked, [1]);
}

/// Queues a packet of node 0 for node 1.
fn send(world: &mut World, bytes: u32) {
    let datagram = crate::frame::Datagram {
        from: 0,
        to: Some(1),
        ttl: 1,
        bytes,
        body: crate::frame::Body::Filler,
    };
    world.enqueue(0, Some(1), datagram);
}

/// The next packet is for the check at 185 ms: a copy from 184.808 ms on, which the check senses,
/// and one from 188.568 to 191.928 that is received, and acknowledged until 192.472.
#[test]
fn an_exchange_with_one_whose_time_is_known_takes_two_copies() {
    let mut model = radio();
    (model.mac.min_be, model.mac.max_be) = (0, 0);
    let mut world = world(&TWO, &model, &[20 * MS, 60 * MS]);
    send(&mut world, 88);
    let first = run(&mut world, 100 * MS);
    send(&mut world, 88);
    let second = run(&mut world, 200 * MS);
    assert_eq!((second.nodes[0].frames, second.nodes[1].acks), (17 + 2, 2));
    let check = 2 * CHECK;
    // The sender's own check is at 145 ms.
    let sender = joules(
        check + (592 + 192 + 400 + 192) * US,
        352 * US,
        2 * 3360 * US,
        100 * MS,
    );
    let receiver = joules((3568 + 192) * US, 3360 * US, 352 * US, 100 * MS);
    let used = |node: usize| second.joules[node] - first.joules[node];
    assert!((used(0) - sender).abs() < 1e-12, "{}", used(0));
    assert!((used(1) - receiver).abs() < 1e-12, "{}", used(1));
}

/// A saturated sender that knows its neighbour's wake-ups delivers a frame at each of them, in two
/// copies: a check and seven slots of back-off ahead are shorter than a copy.
/// Without phase lock it sends from one of its neighbour's wake-ups to the next.
#[test]
fn a_frame_each_interval_and_what_phase_lock_saves() {
    let sent = |phase_lock| {
        let mut model = radio();
        model.sleep.as_mut().unwrap().phase_lock = phase_lock;
        let mut world = World::new(&TWO, &model, &[], 3);
        world.saturate(&[SaturatedSource::new(0, Some(1), 88)]);
        let result = world.run(600 * SECOND);
        assert_eq!((result.nodes[0].no_ack, result.nodes[0].retries), (0, 0));
        (result.nodes[0].frames as f64, world.delivered as f64)
    };
    let (copies, frames) = sent(true);
    assert!((frames - 600.0 / 0.125).abs() <= 2.0, "{frames}");
    // The first frame takes up to an interval of copies.
    assert!((0.0..36.0).contains(&(copies - 2.0 * frames)), "{copies}");
    let (copies, frames) = sent(false);
    let all = 125.0 / 3.76;
    let each = copies / frames;
    assert!((0.9 * all..all).contains(&each), "{each} {all}");
}

/// A broadcast is sent for a whole interval and a wake-up; each of three neighbours receives
/// it once, whenever it wakes.
#[test]
fn everybody_hears_what_is_for_all_once() {
    let places = [(0.0, 0.0), (30.0, 0.0), (0.0, 30.0), (-30.0, 0.0)];
    let mut model = radio();
    (model.mac.min_be, model.mac.max_be) = (0, 0);
    let phases = [5 * MS, MS, 62 * MS, 124 * MS];
    let mut world = world(&places, &model, &phases);
    let datagram = crate::frame::Datagram {
        from: 0,
        to: None,
        ttl: 1,
        bytes: 52,
        body: crate::frame::Body::Filler,
    };
    world.enqueue(0, None, datagram);
    let result = run(&mut world, SECOND);
    // 63 bytes with the MAC header take 2.208 ms, and a gap makes 2.608 ms, for 125.884 ms.
    assert_eq!(result.nodes[0].frames, 49);
    // No node passes it on.
    let unrouted: Vec<u64> = result.nodes.iter().map(|node| node.unrouted).collect();
    assert_eq!(unrouted, [0, 1, 1, 1]);
    assert!(result.nodes.iter().all(|node| node.acks == 0));
}

/// A node that wakes while a frame for another is in the air listens to one copy and sleeps.
#[test]
fn what_a_third_node_overhears() {
    let places = [(0.0, 0.0), (30.0, 0.0), (0.0, 30.0)];
    let mut model = radio();
    (model.mac.min_be, model.mac.max_be) = (0, 0);
    // The check at 10 ms hits the copy from 8.304 to 11.664; the next copy begins at 12.064.
    let mut world = world(&places, &model, &[80 * MS, 60 * MS, 10 * MS]);
    send(&mut world, 88);
    let result = run(&mut world, 100 * MS);
    let third = joules(2064 * US, 3360 * US, 0, 100 * MS);
    assert!((result.joules[2] - third).abs() < 1e-12, "{result:?}");
}

/// At 60 m frames are sensed but not received: the node waits no longer than the longest
/// frame and a gap take, eight times 592 µs.
#[test]
fn who_hears_noise_only_does_not_listen_for_long() {
    let places = [(0.0, 0.0), (30.0, 0.0), (-60.0, 0.0)];
    let mut model = radio();
    (model.mac.min_be, model.mac.max_be) = (0, 0);
    let mut world = world(&places, &model, &[80 * MS, 60 * MS, 10 * MS]);
    send(&mut world, 88);
    let result = run(&mut world, 100 * MS);
    let third = joules((192 + 8 * 592) * US, 0, 0, 100 * MS);
    assert!((result.joules[2] - third).abs() < 1e-12, "{result:?}");
}

/// Two senders and one receiver: the back-offs ahead of its wake-up decide which sender is first. The
/// other one finds the channel busy and takes the next wake-up.
#[test]
fn two_senders_take_turns() {
    let places = [(0.0, 0.0), (30.0, 0.0), (60.0, 0.0)];
    let model = radio();
    let mut world = World::new(&places, &model, &[], 2);
    world.saturate(&[
        SaturatedSource::new(0, Some(1), 88),
        SaturatedSource::new(2, Some(1), 88),
    ]);
    let result = world.run(600 * SECOND);
    let [a, b] = [0, 2].map(|node| result.nodes[node]);
    assert!(a.busy > 100 && b.busy > 100, "{a:?} {b:?}");
    // Neither starves, and most intervals carry a frame.
    let intervals = 600 * SECOND / INTERVAL;
    let delivered = world.delivered;
    assert!(delivered > intervals * 7 / 10, "{delivered} {intervals}");
    assert!(delivered <= intervals + 2, "{delivered} {intervals}");
}
