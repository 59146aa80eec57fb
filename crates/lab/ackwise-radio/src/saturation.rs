//! Compares the MAC with published models: one sender, and saturated contenders.

use crate::scenario::{MacModel, RadioModel, Routing};
use ackwise_queue::Nanos;

use crate::mac::SaturatedSource;
use crate::timing::{self, ACK_BYTES, CCA, TURNAROUND, UNIT_BACKOFF_PERIOD};
use crate::world::{RadioResult, World};

const SECOND: Nanos = 1_000_000_000;

fn radio(header: u32) -> RadioModel {
    RadioModel {
        routing: Routing::Static,
        mac: MacModel {
            header,
            ..MacModel::default()
        },
        ..RadioModel::default()
    }
}

/// Latré et al. 2005, 2.4 GHz: the time from one frame to the next in milliseconds, for
/// this many bytes of load and of addresses. It has a mean back-off of 3.5 slots, 6 bytes of
/// the PHY and 5 of the MAC, the turnaround and 11 bytes of acknowledgment, and the long pause.
/// It leaves out the CCA and the turnaround to sending before the frame.
fn latre_ms(load: u32, addresses: u32, acknowledged: bool) -> f64 {
    let answer = if acknowledged { 0.192 + 0.352 } else { 0.0 };
    3.5 * 0.32 + 0.032 * f64::from(6 + 5 + addresses + load) + answer + 0.64
}

fn kbit_per_s(load: u32, ms: f64) -> f64 {
    f64::from(8 * load) / ms
}

/// The paper's own result: 64.9 % of 250 kbit/s with the largest frame.
#[test]
fn the_formula_gives_what_its_paper_prints() {
    let share = kbit_per_s(122, latre_ms(122, 0, false)) / 250.0;
    assert!((share - 0.649).abs() < 0.0005, "{share}");
}

/// Frames per minute of a sender without contenders, with the CCA and the turnaround before
/// a frame or, as in Latré et al., without.
fn frames(load: u32, addresses: u32, to: Option<usize>, as_latre: bool) -> f64 {
    let mut world = World::new(&[(0.0, 0.0), (30.0, 0.0)], &radio(5 + addresses), &[], 7);
    if as_latre {
        (world.cca_time, world.turnaround) = (0, 0);
    }
    world.saturate(&[SaturatedSource::new(0, to, load)]);
    world.run(60 * SECOND).nodes[0].frames as f64
}

#[test]
fn one_hop_carries_what_latre_says_with_his_conventions() {
    // No addresses, short addresses in one network, and short addresses in two networks.
    for addresses in [0, 6, 8] {
        for load in [20, 60, 122 - addresses] {
            for to in [Some(1), None] {
                let ms = latre_ms(load, addresses, to.is_some());
                let measured = f64::from(8 * load) * frames(load, addresses, to, true) / 6e4;
                let ratio = measured / kbit_per_s(load, ms);
                assert!(
                    (ratio - 1.0).abs() < 0.01,
                    "{load} {addresses} {to:?}: {ratio}"
                );
                // The difference is the CCA of 8 symbols and the turnaround of 12.
                let ours = 6e4 / frames(load, addresses, to, false);
                assert!((ours - ms - 0.32).abs() < 0.02 * ms, "{ours} {ms}");
            }
        }
    }
}

/// Predictions for saturated contenders.
#[derive(Debug)]
struct Contention {
    /// Share of CCAs that find the channel busy.
    busy: f64,
    /// Share of frames that collide.
    collided: f64,
}

/// Saturated contenders that all hear one another, after Srivastava and Kumar (2012,
/// arXiv 1201.3001): each begins a CCA at a constant rate while it backs off, and the
/// channel renews itself. The first CCA of a cycle is at t = 0. A node that begins another
/// within the turnaround of 192 µs sends as well; a node that begins one later finds the
/// channel busy, until the exchange has ended.
fn fixed_point(mac: &MacModel, n: f64, bytes: u32) -> Contention {
    let us = |time: Nanos| time as f64 / 1e3;
    let (turnaround, cca_time) = (us(TURNAROUND), us(CCA));
    let stages: Vec<f64> = (0..=mac.max_backoffs)
        .map(|k| {
            let slots = (1u64 << (mac.min_be + k).min(mac.max_be)) - 1;
            us(UNIT_BACKOFF_PERIOD) * slots as f64 / 2.0
        })
        .collect();
    let (mut busy, mut collided) = (0.5, 0.1);
    for _ in 0..10_000 {
        let weight = |k: usize| f64::powi(busy, k as i32);
        let ccas: f64 = (0..stages.len()).map(weight).sum();
        let waits: f64 = stages.iter().enumerate().map(|(k, b)| weight(k) * b).sum();
        let rate = ccas / waits;
        let first = 1.0 / n;
        let joins = 1.0 - f64::exp(-rate * turnaround);
        let joined = 1.0 - f64::exp(-(n - 1.0) * rate * turnaround);
        let sends = first + (1.0 - first) * joins;
        // The frame, then the acknowledgment if the frame did not collide.
        let answer = (1.0 - collided) * us(TURNAROUND + timing::air(ACK_BYTES));
        let exchange = cca_time + us(timing::air(bytes)) + answer;
        let fails = (1.0 - sends) * rate * exchange;
        let next = fails / (fails + sends);
        collided = (first * joined + (1.0 - first) * joins) / sends;
        busy += 0.1 * (next - busy);
    }
    Contention { busy, collided }
}

fn contend(n: usize, bytes: u32) -> RadioResult {
    let radio = radio(11);
    let mut places = vec![(0.0, 0.0)];
    places.extend((0..n).map(|i| (1.0 + i as f64, 0.0)));
    let mut world = World::new(&places, &radio, &[], 1);
    let sources: Vec<SaturatedSource> = (1..=n)
        .map(|node| SaturatedSource::new(node, Some(0), bytes - 11))
        .collect();
    world.saturate(&sources);
    world.run(200 * SECOND)
}

#[test]
fn saturated_contenders_collide_as_often_as_the_model_says() {
    for (n, bytes) in [(2, 99), (5, 99), (10, 99), (2, 51), (10, 51)] {
        let model = fixed_point(&radio(11).mac, n as f64, bytes);
        let result = contend(n, bytes);
        let sum = |of: fn(&crate::NodeCounts) -> u64| -> f64 {
            result.nodes.iter().map(|node| of(node) as f64).sum()
        };
        let collided = sum(|n| n.retries + n.no_ack) / sum(|n| n.frames);
        let busy = sum(|n| n.busy) / sum(|n| n.ccas);
        let near = |measured: f64, published: f64| (measured / published - 1.0).abs() < 0.1;
        assert!(
            near(busy, model.busy) && near(collided, model.collided),
            "{n} x {bytes} B: {busy} {collided} {model:?}"
        );
    }
}
