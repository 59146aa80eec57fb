//! How often experiments are wrong, and how soon they find harm, over difficult traffic: drift,
//! daily patterns, heavy tails, correlation, one flow. Each experiment looks after every pair, as
//! `ackwise ab` does.

use ackwise_rng::Rng;
use ackwise_switchback::{Block, Design, Effect, Level};

/// The number of experiments per kind of traffic.
const EXPERIMENTS: u64 = 1_000;
const PAIRS: usize = 80;

struct Noise(Rng);

impl Noise {
    fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The Irwin-Hall approximation: mean 0, variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// Goodput of consecutive blocks without any treatment.
type Traffic = fn(&mut Noise) -> Vec<f64>;

fn blocks(mut next: impl FnMut(usize) -> f64) -> Vec<f64> {
    (0..2 * PAIRS).map(&mut next).collect()
}

const TRAFFIC: [(&str, Traffic); 6] = [
    ("steady, 5 %", |noise| {
        blocks(|_| 10.0 * (0.05 * noise.normal()).exp())
    }),
    ("drift to a tenth", |noise| {
        blocks(|n| 10.0 * (-2.3 * n as f64 / 160.0 + 0.05 * noise.normal()).exp())
    }),
    ("a daily pattern", |noise| {
        let phase = noise.uniform() * std::f64::consts::TAU;
        blocks(|n| 10.0 * (1.5 + (n as f64 / 12.0 + phase).sin()) * (0.05 * noise.normal()).exp())
    }),
    ("heavy tails", |noise| {
        // Pareto with index 1.2: no finite variance.
        blocks(|_| noise.uniform().max(1e-9).powf(-1.0 / 1.2))
    }),
    ("correlated", |noise| {
        let mut state = 0.0;
        blocks(|_| {
            state = 0.95 * state + 0.1 * noise.normal();
            10.0 * f64::exp(state)
        })
    }),
    ("one flow that pauses", |noise| {
        blocks(|_| {
            if noise.uniform() < 0.3 {
                0.0
            } else {
                10.0 * (0.05 * noise.normal()).exp()
            }
        })
    }),
];

/// The pair after which the experiment first reports an effect.
fn found_after(traffic: Traffic, seed: u64, factor: f64, level: Level) -> Option<usize> {
    let outcomes = traffic(&mut Noise(Rng::stream(seed, 1)));
    let order: Vec<_> = Design::new(seed).take(2 * PAIRS).collect();
    let mut effect = Effect::default();
    for pair in 0..PAIRS {
        let (mut on, mut off) = (0.0, 0.0);
        for n in [2 * pair, 2 * pair + 1] {
            match order[n] {
                Block::On => on = outcomes[n] * factor,
                Block::Off => off = outcomes[n],
            }
        }
        effect.add(on, off);
        if effect.excludes(1.0, level) {
            return Some(pair + 1);
        }
    }
    None
}

#[test]
fn without_an_effect_one_is_found_in_at_most_five_per_cent() {
    let level = Level::new(0.05).unwrap();
    for (name, traffic) in TRAFFIC {
        let wrong =
            (0..EXPERIMENTS).filter(|seed| found_after(traffic, *seed, 1.0, level).is_some());
        let wrong = wrong.count();
        println!("{name}: {wrong} of {EXPERIMENTS} A/A experiments found an effect");
        assert!(wrong <= EXPERIMENTS as usize / 20, "{name}: {wrong}");
    }
}

#[test]
fn a_loss_of_a_tenth_is_found_in_time() {
    // As if two directions and the round-trip time were judged together.
    let level = Level::new(0.05).unwrap().shared_by(3);
    for (name, traffic) in &TRAFFIC[..3] {
        let mut after: Vec<_> = (0..EXPERIMENTS)
            .map(|seed| found_after(*traffic, seed, 0.9, level).unwrap_or(usize::MAX))
            .collect();
        after.sort_unstable();
        let (median, late) = (after[500], after[949]);
        println!("{name}: half after {median} pairs, 95 % after {late}");
        assert!(late <= 40, "{name}: {late}");
    }
}
