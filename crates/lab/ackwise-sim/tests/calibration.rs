//! How often experiments on simulated traffic are wrong, and how soon they find harm. The blocks
//! contain real simulated TCP. They are counted as in `ackwise ab`, and judged by its code after
//! every pair.
//!
//! `make calibrate` runs 1,000 experiments of each kind (`ACKWISE_EXPERIMENTS`); the default is a few.

use std::ops::ControlFlow;

use ackwise_rng::Rng;
use ackwise_scenario::{RunSpec, Scenario};
use ackwise_sim::build::Simulation;
use ackwise_sim::switchback::{Experiment, run};
use ackwise_switchback::{Block, Judge, Level, Metric, Outcome, Verdict};
use rayon::prelude::*;

/// The capacity in the direction of the data, in bit/s.
const RATE: f64 = 2e6;
const PAIRS: usize = 60;
const SECOND: u64 = 1_000_000_000;
const BLOCK: u64 = 2 * SECOND;
/// A number of pairs that stands for "not found within the experiment".
const NEVER: usize = usize::MAX;
/// Experiments of each kind by default.
const SOME: u64 = 20;

/// A kind of traffic.
struct Load {
    name: &'static str,
    /// The flows of a scenario. The first one, `f`, is the one whose ACKs are thinned.
    flows: &'static str,
    /// The share of the capacity that others leave, from the block and a phase between 0 and 1.
    capacity: fn(f64, f64) -> f64,
}

const BULK: &str = "{ name = \"f\", from = \"a\", to = \"b\", app = \"bulk\", connections = 4, \
                    start_within = \"1 s\" }";

/// Loads that use everything that the line carries.
const FULL: [Load; 5] = [
    Load {
        name: "one flow",
        flows: "{ name = \"f\", from = \"a\", to = \"b\", app = \"bulk\", start_within = \"1 s\" }",
        capacity: |_, _| 1.0,
    },
    Load {
        name: "four flows",
        flows: BULK,
        capacity: |_, _| 1.0,
    },
    Load {
        name: "short flows",
        flows: "{ name = \"f\", from = \"a\", to = \"b\", app = \"short-flows\", connections = 4, \
                sizes = [\"5 kB\", \"20 kB\", \"100 kB\"] }",
        capacity: |_, _| 1.0,
    },
    Load {
        name: "drift to a tenth",
        flows: BULK,
        capacity: |block, _| 0.1_f64.powf(block / (2 * PAIRS) as f64),
    },
    Load {
        name: "a daily pattern",
        flows: BULK,
        capacity: |block, phase| pattern(block / (2 * PAIRS) as f64 + phase),
    },
];

/// Varies between all and a fifth of the capacity, once per unit of time.
fn pattern(time: f64) -> f64 {
    0.6 + 0.4 * (std::f64::consts::TAU * time).sin()
}

/// Loads that change within a few blocks, leave a part of the line unused, or share it with flows
/// that are not thinned.
const OTHER: [Load; 4] = [
    Load {
        name: "a pattern of 24 blocks",
        flows: BULK,
        capacity: |block, phase| pattern(block / 24.0 + phase),
    },
    Load {
        name: "a flow that pauses",
        flows: "{ name = \"f\", from = \"a\", to = \"b\", app = \"chunks\", chunk = \"300 kB\", \
                period = \"3 s\", start_within = \"3 s\" }",
        capacity: |_, _| 1.0,
    },
    Load {
        name: "beside others' short flows",
        flows: "{ name = \"f\", from = \"a\", to = \"b\", app = \"bulk\", start_within = \"1 s\" }, \
                { name = \"g\", from = \"a\", to = \"b\", app = \"short-flows\", connections = 2, \
                sizes = [\"5 kB\", \"20 kB\", \"1 MB\"] }",
        capacity: |_, _| 1.0,
    },
    Load {
        name: "both directions",
        flows: "{ name = \"f\", from = \"a\", to = \"b\", app = \"bulk\", start_within = \"1 s\" }, \
                { name = \"g\", from = \"b\", to = \"a\", app = \"bulk\", start_within = \"1 s\" }",
        capacity: |_, _| 1.0,
    },
];

fn experiment(seed: u64, pairs: usize) -> Experiment {
    Experiment {
        seed,
        pairs,
        start: 3 * SECOND,
        block: BLOCK,
        wash_out: BLOCK / 5,
    }
}

fn scenario(flows: &str, policy: &str, seconds: u64) -> Scenario {
    let text = format!(
        r#"
node = [{{ name = "a" }}, {{ name = "b" }}]
link = [{{ name = "wan", between = ["a", "b"], forward = {{ rate = "2 Mbit/s", delay = "10 ms", queue = "20 packets", loss = "0.05%" }}, reverse = {{ rate = "1 Mbit/s", delay = "10 ms", queue = "50 packets" }} }}]
flow = [{flows}]
arm = [{{ name = "x", {policy}, at = "b", link = "wan" }}]
[scenario]
name = "calibration"
duration = "{seconds} s"
[record]
series = false
"#
    );
    Scenario::parse("calibration.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn spec(scenario: &Scenario, seed: u64) -> RunSpec {
    let mut spec = scenario.runs().remove(0);
    spec.seed = seed;
    spec
}

fn judge() -> Judge {
    Judge {
        level: Level::new(0.05).unwrap(),
        difference: 0.05,
        judges_rtt: true,
    }
}

/// What an experiment found, and after how many pairs.
#[derive(Debug, Clone, Copy, Default)]
struct Found {
    /// An effect on any judged metric.
    any: Option<usize>,
    /// An effect on the data.
    data: Option<usize>,
    /// The verdict that the policy harms.
    harms: Option<usize>,
}

/// Runs one experiment in which the line carries `factor` of its capacity while the policy is on.
/// Without harm it runs to its end; with harm it ends once the data and the verdict have shown it.
fn found(load: &Load, scenario: &Scenario, seed: u64, factor: f64) -> Found {
    let phase = (Rng::stream(seed, 77).next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    let begun = experiment(seed, PAIRS);
    let treat = |network: &mut Simulation, block: Block| {
        let at = network.now.saturating_sub(begun.start) as f64 / BLOCK as f64;
        let harm = if block == Block::On { factor } else { 1.0 };
        let rate = RATE * (load.capacity)(at, phase) * harm;
        network.set_rate(0, rate as u64);
    };
    let mut found = Found::default();
    let judge = |blocks: &[Outcome]| {
        let pair = blocks.len() / 2;
        for metric in judge().certain_effects(blocks) {
            found.any.get_or_insert(pair);
            if metric.name == "data" {
                found.data.get_or_insert(pair);
            }
        }
        if found.any.is_some() && found.harms.is_none() {
            let (_, verdict) = judge().effects(blocks, Metric::judged());
            found.harms = (verdict == Verdict::Harms).then_some(pair);
        }
        if found.data.is_some() && found.harms.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let spec = spec(scenario, seed);
    let blocks = run(scenario, &spec, &begun, treat, judge).unwrap_or_else(|e| panic!("{e}"));
    assert!(blocks.iter().any(|block| block.data_bytes_per_s > 0.0));
    found
}

fn experiments() -> u64 {
    let asked = std::env::var("ACKWISE_EXPERIMENTS").ok();
    asked.map_or(SOME, |n| {
        n.parse().expect("ACKWISE_EXPERIMENTS is a number")
    })
}

/// The permitted share of experiments that find an effect where there is none.
const ERROR: f64 = 0.05;

/// How many experiments may be wrong: their share of 1,000 or more. For fewer, the number that an
/// error of exactly that share exceeds with a probability below 1 in 1,000.
fn most_wrong(experiments: usize) -> usize {
    if experiments >= 1_000 {
        return (experiments as f64 * ERROR) as usize;
    }
    let n = experiments as f64;
    // The binomial distribution, summed from zero.
    let mut exactly = (1.0 - ERROR).powf(n);
    let mut at_most = exactly;
    let mut wrong = 0;
    while at_most < 0.999 {
        exactly *= (n - wrong as f64) / (wrong as f64 + 1.0) * ERROR / (1.0 - ERROR);
        at_most += exactly;
        wrong += 1;
    }
    wrong
}

fn all(load: &Load, factor: f64) -> Vec<Found> {
    let end = experiment(0, PAIRS).end() / SECOND + 1;
    let scenario = scenario(load.flows, "policy = \"none\", flows = [\"f\"]", end);
    let seeds = (1..=experiments()).into_par_iter();
    seeds
        .map(|seed| found(load, &scenario, seed, factor))
        .collect()
}

#[test]
fn without_an_effect_one_is_found_in_at_most_five_per_cent() {
    for load in FULL.iter().chain(&OTHER) {
        let all = all(load, 1.0);
        let any = all.iter().filter(|one| one.any.is_some()).count();
        let harms = all.iter().filter(|one| one.harms.is_some()).count();
        println!(
            "{}: of {} A/A experiments {any} found an effect, {harms} harm",
            load.name,
            all.len()
        );
        assert!(any <= most_wrong(all.len()), "{}: {any}", load.name);
    }
}

fn shown(pairs: usize) -> String {
    if pairs == NEVER {
        format!("more than {PAIRS}")
    } else {
        pairs.to_string()
    }
}

#[test]
fn a_loss_of_a_tenth_is_found_in_time() {
    // Where other flows come and go on the same line, the data of one flow are too noisy to show a
    // tenth of the capacity; the round-trip time shows it.
    let cases = FULL.iter().map(|load| (load, [25, 25]));
    let noisy = (&OTHER[2], [NEVER, 45]);
    for (load, [data_by, harms_by]) in cases.chain([noisy]) {
        let all = all(load, 0.9);
        let quantiles = |after: fn(&Found) -> Option<usize>| {
            let mut after: Vec<_> = all
                .iter()
                .map(|one| after(one).unwrap_or(usize::MAX))
                .collect();
            after.sort_unstable();
            let n = after.len();
            (after[(n - 1) / 2], after[(n * 95).div_ceil(100) - 1])
        };
        let ((half, late), (judged, last)) = (quantiles(|f| f.data), quantiles(|f| f.harms));
        println!(
            "{}: of {} experiments half find the loss of data after {} pairs, 95 % after {}; \
             the verdict 'harms' comes after {} and {}",
            load.name,
            all.len(),
            shown(half),
            shown(late),
            shown(judged),
            shown(last),
        );
        assert!(
            late <= data_by && last <= harms_by,
            "{}: {late} {last}",
            load.name
        );
    }
}

/// The interface's policy itself is on and off, not only a planted change.
#[test]
fn a_policy_thins_in_its_blocks_and_only_there() {
    let begun = experiment(5, 12);
    let scenario = scenario(FULL[0].flows, "policy = \"every-n\", set = { n = 8 }", 60);
    let spec = spec(&scenario, 5);
    let treat = |_: &mut Simulation, _: Block| {};
    let blocks = run(&scenario, &spec, &begun, treat, |_| {
        ControlFlow::Continue(())
    });
    let blocks = blocks.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(blocks.len(), 24);
    for block in &blocks {
        let withheld = block.withheld_per_s;
        match block.policy {
            Block::On => assert!(withheld > 20.0, "{block:?}"),
            Block::Off => assert!(withheld == 0.0, "{block:?}"),
        }
        assert!(block.rtt_ms.is_some_and(|ms| ms > 20.0), "{block:?}");
        // The line is full in both kinds of blocks.
        assert!(block.data_bytes_per_s > 0.9 * RATE / 8.0, "{block:?}");
    }
    let (effects, _) = judge().effects(&blocks, &ackwise_switchback::METRICS);
    let acks = effects
        .iter()
        .find(|effect| effect.metric == "ACKs")
        .unwrap();
    assert!(acks.high < 1.0, "{acks:?}");
}

#[test]
fn without_a_policy_at_an_interface_there_is_no_experiment() {
    let scenario = scenario(BULK, "policy = \"every-n\", environment = \"stack\"", 60);
    let spec = spec(&scenario, 1);
    let ended = run(
        &scenario,
        &spec,
        &experiment(1, 2),
        |_, _| {},
        |_| ControlFlow::Continue(()),
    );
    let message = ended
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(message.contains("nothing to turn on and off"), "{message}");
}

#[test]
fn few_experiments_say_less_than_many() {
    assert_eq!(most_wrong(1_000), 50);
    // 1 - (the sum of the first six terms of the binomial distribution) is 0.0003; of five, 0.0026.
    assert_eq!(most_wrong(20), 5);
}
