//! The paper's two arms, and those that it left out, over seeds of start times.

use ackwise_report::{Experiment, Spread, Stat, Tolerance, Value};
use ackwise_rng::Rng;
use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;

use super::{ACK_QUEUE, CC, DATA_QUEUE, DURATION_S};
use crate::series::{mean, moments};
use crate::tolerances::range;
use crate::{Error, Lab, Outcome, Reproduced};

const PATH: &str = "scenarios/papers/marhoon/marhoon.toml";
const TEXT: &str = include_str!("../../../../../scenarios/papers/marhoon/marhoon.toml");
/// Seeds in a short version.
const QUICK_SEEDS: u64 = 3;
/// When all flows run, in seconds: the last may start by then.
const SETTLED_S: f64 = 5.0;
/// First stream of the engines' draws of start times (`Flow::start_within`).
const START_STREAM: u64 = 2000;

/// An arm, and the numbers that the paper prints for it, if any.
pub(super) struct Arm {
    pub name: &'static str,
    pub title: &'static str,
    /// Bytes of a data packet.
    packet: f64,
    data_drops: Option<f64>,
    ack_drops: Option<f64>,
    throughputs: Option<[f64; 5]>,
}

impl Arm {
    const fn ours(name: &'static str, title: &'static str) -> Arm {
        Arm {
            name,
            title,
            packet: 590.0,
            data_drops: None,
            ack_drops: None,
            throughputs: None,
        }
    }
}

pub(super) const ARMS: [Arm; 11] = [
    Arm {
        data_drops: Some(130.0),
        ack_drops: Some(22_000.0),
        throughputs: Some([0.4090416, 0.3201168, 0.3668448, 0.8564976, 0.7833376]),
        ..Arm::ours("baseline", "NewReno, RED")
    },
    Arm {
        packet: 600.0,
        data_drops: Some(270.0),
        ack_drops: Some(14_000.0),
        throughputs: Some([0.4134784, 0.2867584, 0.1887424, 0.3097984, 0.4215424]),
        ..Arm::ours("asym-af", "AF and ACC as ns-2 has them")
    },
    Arm {
        packet: 600.0,
        ..Arm::ours("asym-af-acc", "Asym, AF, and ACC that works")
    },
    Arm {
        packet: 600.0,
        ..Arm::ours(
            "asym-af-acc-early",
            "Asym, AF, and ACC that works, RED from 60 B on",
        )
    },
    Arm::ours("af", "AF alone"),
    Arm::ours("af-contract", "AF that keeps what matters"),
    Arm::ours("acc", "ACC that works"),
    Arm::ours("acc-marks", "ACC that works, RED that always marks"),
    Arm::ours("af-acc", "AF and ACC that works"),
    Arm::ours("af-acc-early", "AF and ACC that works, RED from 60 B on"),
    Arm::ours("acks-first", "ACKs first"),
];

/// Adds the experiments of the arms, and returns their runs.
pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<Outcome, Error> {
    let quick = lab.quick();
    let outcome = lab.run_where(PATH, TEXT, |run| !quick || run.seed <= QUICK_SEEDS)?;
    for arm in &ARMS {
        experiments(&outcome, arm, all)?;
    }
    verdict(&outcome, all)?;
    Ok(outcome)
}

/// A value of each run of an arm.
fn each<T>(
    outcome: &Outcome,
    arm: &Arm,
    of: impl Fn(&Run) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let runs = outcome.runs(arm.name, CC, &[]);
    if runs.is_empty() {
        return Err(outcome.lacks(format_args!("runs of {}", arm.name)));
    }
    runs.into_iter().map(of).collect()
}

/// An experiment with the median over the seeds of the start times, and their spread.
fn number(
    arm: &Arm,
    id: &str,
    what: &str,
    unit: &str,
    values: Vec<f64>,
    published: Option<(f64, Tolerance)>,
) -> Experiment {
    let spread = Spread::of("seeds of the start times", values);
    let median = spread.as_ref().map_or(f64::NAN, |s| s.median);
    let mut experiment = Experiment::new(format!("marhoon/{}/{id}", arm.name), what, median)
        .part(arm.title)
        .unit(unit)
        .setup(SETUP)
        .spread(spread);
    if let Some((value, tolerance)) = published {
        experiment = experiment.published(value).tolerance(tolerance);
    }
    experiment
}

/// Half an order of magnitude: the difference between two draws of the start times in one simulator.
pub(super) const MAGNITUDE: Tolerance = Tolerance::Factor { factor: 3.162 };
/// The tolerance of averages over flows: a fifth of the published number.
pub(super) const FIFTH: Tolerance = Tolerance::Relative { share: 0.2 };

/// Adds the experiments for every arm, then those for the paper's arms and for those with ACC.
fn experiments(outcome: &Outcome, arm: &Arm, all: &mut Reproduced) -> Result<(), Error> {
    let in_the_paper = arm.throughputs.is_some();
    let note = |experiment: Experiment, note: &str| {
        if in_the_paper {
            experiment.note(note)
        } else {
            experiment
        }
    };
    let drops = each(outcome, arm, |run| {
        Ok(outcome.queue(run, DATA_QUEUE)?.drops as f64)
    })?;
    let lost = each(outcome, arm, |run| removed(outcome, run))?;
    let means = each(outcome, arm, |run| {
        let first = first_five(outcome, run)?;
        Ok(first.iter().map(|f| f.rate_mbps(arm.packet)).sum::<f64>() / 5.0)
    })?;
    let totals = each(outcome, arm, |run| {
        Ok(run.totals.data_segments as f64 * arm.packet * 8.0 / DURATION_S / 1e6)
    })?;
    let mean = arm.throughputs.map(|five| five.iter().sum::<f64>() / 5.0);
    let [what_drops, what_removed, what_mean] = [
        "packets dropped on the uplink",
        "ACKs that the downlink took out",
        "mean of the first five",
    ];
    all.experiments.extend([
        note(
            number(
                arm,
                "data-drops",
                what_drops,
                "",
                drops,
                arm.data_drops.map(|drops| (drops, MAGNITUDE)),
            ),
            DROPS_NOTE,
        ),
        note(
            number(
                arm,
                "acks-removed",
                what_removed,
                "",
                lost,
                arm.ack_drops.map(|drops| (drops, MAGNITUDE)),
            ),
            REMOVED_NOTE,
        ),
        note(
            number(
                arm,
                "throughput",
                what_mean,
                "Mbit/s",
                means,
                mean.map(|mean| (mean, FIFTH)),
            )
            .derived(),
            THROUGHPUT_NOTE,
        ),
        number(arm, "total", "all 20 together", "Mbit/s", totals, None),
    ]);
    if in_the_paper {
        of_the_paper(outcome, arm, all)?;
    }
    if arm.name.contains("acc") {
        of_acc(outcome, arm, all)?;
    }
    Ok(())
}

/// Adds the experiments for the paper's own arms only.
fn of_the_paper(outcome: &Outcome, arm: &Arm, all: &mut Reproduced) -> Result<(), Error> {
    let queue = each(outcome, arm, |run| queue_moments(outcome, run))?;
    let (lengths, deviations): (Vec<f64>, Vec<f64>) = queue.into_iter().unzip();
    let timeouts = each(outcome, arm, |run| {
        let first = first_five(outcome, run)?;
        Ok(first.iter().map(|f| f.timeouts).sum::<u64>() as f64)
    })?;
    let calm = each(outcome, arm, |run| {
        let first = first_five(outcome, run)?;
        Ok(first.iter().filter(|f| f.timeouts == 0).count() as f64)
    })?;
    let number = |id, what, unit, values| number(arm, id, what, unit, values, None);
    let without = number(
        "calm",
        "of the first five, flows without a timeout",
        "",
        calm,
    );
    let without = match arm.name {
        "baseline" => without
            .published("some")
            .tolerance(Tolerance::Above { bound: 0.0 })
            .note("Fig. 10, in words."),
        _ => without,
    };
    all.experiments.extend([
        listed(outcome, arm)?,
        number("timeouts", "timeouts of the first five", "", timeouts),
        without,
        number("queue-mean", "uplink queue, mean", "packets", lengths),
        number(
            "queue-deviation",
            "uplink queue, deviation",
            "packets",
            deviations,
        )
        .note(QUEUE_NOTE),
    ]);
    Ok(())
}

/// Adds the experiments for the arms with ACC only.
fn of_acc(outcome: &Outcome, arm: &Arm, all: &mut Reproduced) -> Result<(), Error> {
    let marks = each(outcome, arm, |run| {
        Ok(outcome.queue(run, ACK_QUEUE)?.marks as f64)
    })?;
    let stretch = each(outcome, arm, |run| {
        let segments = run.totals.segments_per_ack();
        segments.ok_or_else(|| outcome.lacks(format_args!("ACKs in {}", run.id)))
    })?;
    let number = |id, what, values| number(arm, id, what, "", values, None);
    let what = "segments an ACK that left the server";
    all.experiments.extend([
        number("acks-marked", "ACKs that RED marked", marks),
        number("segments-per-ack", what, stretch).note(ACC_NOTE),
    ]);
    Ok(())
}

const SETUP: &str = "sim; marhoon.toml";
const QUEUE_NOTE: &str = "The paper says of its figures 3 and 4 that filtering makes the queue \
                          fluctuate more; it prints no number.";
const DROPS_NOTE: &str = "ns-2.35 with the same set-up, over ten seeds of its own: 151 to 1286, \
                          median 596 (NewReno), and 325 to 617, median 478 (Asym and AF).";
const ACC_NOTE: &str = "Without a mark d stays 1. Behind a filter hardly more than one ACK waits, fewer than \
                        RED needs to begin marking; RED of ns-2 drops what it could mark once the \
                        probability is above a tenth.";
const REMOVED_NOTE: &str = "ns-2 frees what it filters without counting a drop; the paper's \
                            number for filtering must be arrivals less departures.";
const THROUGHPUT_NOTE: &str = "Published in MBytes/sec, but Mbit/s by its digits. ns-2.35 over \
                               ten seeds: 0.26 to 0.72, median 0.49 (NewReno), and 0.28 to \
                               0.31, median 0.29 (Asym and AF).";

/// The averages of the first five flows to start, as a list.
fn listed(outcome: &Outcome, arm: &Arm) -> Result<Experiment, Error> {
    let list = |values: &[f64]| {
        let texts: Vec<String> = values.iter().map(|v| format!("{v:.2}")).collect();
        texts.join(" ")
    };
    let runs = outcome.runs(arm.name, CC, &[]);
    let run = runs.first().ok_or_else(|| outcome.lacks("runs"))?;
    let first = first_five(outcome, run)?;
    let rates: Vec<f64> = first.iter().map(|f| f.rate_mbps(arm.packet)).collect();
    let mut experiment = Experiment::new(
        format!("marhoon/{}/throughputs", arm.name),
        "the first five, Mbit/s",
        list(&rates),
    )
    .part(arm.title)
    .setup(format!("{SETUP}; seed {}", run.seed));
    if let Some(published) = arm.throughputs {
        experiment = experiment.published(list(&published)).not_comparable(
            "one draw of start times, which the paper does not print; the means are compared",
        );
    }
    Ok(experiment)
}

/// A comparison of two arms, seed by seed.
struct Ratio {
    id: &'static str,
    what: &'static str,
    of: fn(&Outcome, &Arm, &Run) -> Result<f64, Error>,
    /// What the paper says about it, and the tolerance for a faithful run.
    published: Option<(Value, Tolerance)>,
    note: &'static str,
}

/// Sets the published value; the paper does not print a ratio of two of its numbers, so it is derived.
pub(super) fn calculated(row: Experiment, published: Value) -> Experiment {
    let is_ratio = matches!(published, Value::Number(_));
    let row = row.published(published);
    if is_ratio { row.derived() } else { row }
}

fn ratios() -> [Ratio; 8] {
    let above = Tolerance::Above { bound: 1.0 };
    let below = Tolerance::Below { bound: 1.0 };
    [
        Ratio {
            id: "throughput",
            what: "throughput of the first five",
            of: |outcome, arm, run| {
                let first = first_five(outcome, run)?;
                Ok(first.iter().map(|f| f.rate_mbps(arm.packet)).sum())
            },
            published: Some((0.592.into(), FIFTH)),
            note: SIGN_NOTE,
        },
        Ratio {
            id: "total",
            what: "throughput of all 20",
            of: |_, arm, run| Ok(run.totals.data_segments as f64 * arm.packet),
            published: None,
            note: SIGN_NOTE,
        },
        Ratio {
            id: "data-drops",
            what: "drops on the uplink",
            of: |outcome, _, run| Ok(outcome.queue(run, DATA_QUEUE)?.drops as f64),
            published: Some((2.08.into(), range(1.3, 4.0))),
            note: "Figs. 5 and 6. Here, as in ns-2.35 with the same set-up, fewer are dropped.",
        },
        Ratio {
            id: "acks-removed",
            what: "ACKs that the downlink took out",
            of: |outcome, _, run| removed(outcome, run),
            published: Some((0.636.into(), below)),
            note: REMOVED_NOTE,
        },
        Ratio {
            id: "ack-queue-drops",
            what: "ACKs that RED dropped on the downlink, without those filtered",
            of: |outcome, _, run| Ok(outcome.queue(run, ACK_QUEUE)?.drops as f64),
            published: Some((0.636.into(), range(0.3, 1.0))),
            note: "The other reading of figures 7 and 8: next to none are left with the filter, where \
                   the paper has 14 000. Neither reading gives both the paper's number and its sign.",
        },
        Ratio {
            id: "queue-deviation",
            what: "deviation of the uplink queue",
            of: |outcome, _, run| Ok(queue_moments(outcome, run)?.1),
            published: Some(("more than 1".into(), above)),
            note: "Figs. 3 and 4, in words: with filtering the queue fluctuates more.",
        },
        Ratio {
            id: "timeouts",
            what: "timeouts of the first five",
            of: |outcome, _, run| {
                let first = first_five(outcome, run)?;
                Ok(first.iter().map(|f| f.timeouts).sum::<u64>() as f64)
            },
            published: Some(("more than 1".into(), above)),
            note: "Figs. 9 and 10, in words: long timeouts with filtering, and none for some flows \
                   without.",
        },
        Ratio {
            id: "window-deviation",
            what: "deviation of the windows of the first five",
            of: window_deviation,
            published: Some(("more than 1".into(), above)),
            note: "Figs. 9 and 10, in words: with filtering windows fluctuate more. In segments, as the \
                   figures draw them; the mean of five deviations over time.",
        },
    ]
}

/// The deviation over time of each of the first five windows while all flows run: their mean.
fn window_deviation(outcome: &Outcome, _: &Arm, run: &Run) -> Result<f64, Error> {
    let mut sum = 0.0;
    for first in first_five(outcome, run)? {
        let series = outcome.flow(run, &first.name)?.series.as_ref();
        let windows = series.and_then(|series| {
            let points = series.t_s.iter().zip(&series.cwnd_segments);
            moments(
                points
                    .filter(|(t, _)| **t > SETTLED_S)
                    .filter_map(|(_, v)| *v),
            )
        });
        let lacks = || outcome.lacks(format_args!("windows of {}", first.name));
        sum += windows.ok_or_else(lacks)?.1;
    }
    Ok(sum / 5.0)
}

fn removed(outcome: &Outcome, run: &Run) -> Result<f64, Error> {
    let queue = outcome.queue(run, ACK_QUEUE)?;
    Ok((queue.drops + queue.filtered.unwrap_or(0)) as f64)
}

/// The median of ratios. A seed with zero on both sides has no ratio. Where only NewReno has
/// zero, the ratio is infinite and counts, although a spread has no place for it.
fn median(ratios: &[f64]) -> f64 {
    Stat::of(ratios.iter().copied()).map_or(f64::NAN, |stat| stat.median)
}

/// The paper's conclusions as ratios of its arms, and those of the system that it meant to test.
fn verdict(outcome: &Outcome, all: &mut Reproduced) -> Result<(), Error> {
    let [baseline, others @ ..] = &ARMS;
    let against = |name: &str| others.iter().find(|arm| arm.name.ends_with(name));
    for (id, arm) in [
        ("ratio", against("asym-af")),
        ("ratio-acc", against("asym-af-acc")),
        ("ratio-acc-early", against("asym-af-acc-early")),
    ] {
        let Some(arm) = arm else { continue };
        for ratio in ratios() {
            let base = each(outcome, baseline, |run| (ratio.of)(outcome, baseline, run))?;
            let other = each(outcome, arm, |run| (ratio.of)(outcome, arm, run))?;
            let values: Vec<f64> = other.iter().zip(base).map(|(a, b)| a / b).collect();
            let median = median(&values);
            let spread = Spread::of("seeds of the start times", values);
            let row = Experiment::new(format!("marhoon/{id}/{}", ratio.id), ratio.what, median)
                .part(format!("{}, to NewReno", arm.title))
                .setup("sim; ratios formed seed by seed")
                .spread(spread)
                .note(ratio.note);
            let row = match ratio.published {
                Some((value, tolerance)) => calculated(row, value).tolerance(tolerance),
                None => row,
            };
            // ACC did nothing in the paper's ns-2, so arms where it works are variants.
            let acc = id != "ratio";
            all.experiments.push(if acc { row.variant() } else { row });
        }
    }
    Ok(())
}

const SIGN_NOTE: &str = "The flows that start first lose with AF, as published; all 20 together \
                         gain in most runs, which the paper does not look at.";

/// Mean and deviation of the uplink queue while all flows run.
pub(super) fn queue_moments(outcome: &Outcome, run: &Run) -> Result<(f64, f64), Error> {
    let queue = outcome.queue(run, DATA_QUEUE)?;
    let lengths = queue.t_s.iter().zip(&queue.length_packets);
    let late = lengths.filter(|(t, _)| **t > SETTLED_S).map(|(_, v)| *v);
    moments(late).ok_or_else(|| outcome.lacks(format_args!("queue lengths in {}", run.id)))
}

/// One of the five flows that start first.
pub(super) struct First {
    pub name: String,
    segments: u64,
    pub timeouts: u64,
}

impl First {
    /// Rate over the whole run in Mbit/s; packets count with headers, as in ns-2.
    pub(super) fn rate_mbps(&self, packet_bytes: f64) -> f64 {
        self.segments as f64 * packet_bytes * 8.0 / DURATION_S / 1e6
    }
}

/// Start of a flow after its `start`, in ns, as the engines draw it.
fn start_ns(scenario: &Scenario, index: usize, seed: u64) -> u64 {
    let flow = &scenario.flows[index];
    let within = u64::try_from(flow.start_within.as_nanos()).unwrap_or(u64::MAX);
    Rng::stream(seed, START_STREAM + index as u64).below(within.saturating_add(1))
}

/// The five flows that start first, in the order of their starts.
pub(super) fn first_five(outcome: &Outcome, run: &Run) -> Result<Vec<First>, Error> {
    let scenario = &outcome.scenario;
    let mut starts: Vec<(u64, usize)> = (0..scenario.flows.len())
        .map(|index| (start_ns(scenario, index, run.seed), index))
        .collect();
    starts.sort_unstable();
    let five = starts.into_iter().take(5);
    five.map(|(_, index)| {
        let name = scenario.flows[index].name.clone();
        let traffic = outcome.flow(run, &name)?;
        Ok(First {
            segments: traffic.data_segments,
            timeouts: traffic
                .timeouts
                .ok_or_else(|| outcome.lacks(format_args!("timeouts of {name}")))?,
            name,
        })
    })
    .collect()
}

/// Throughput over an interval, for the figures; see [`First::rate_mbps`].
pub(super) fn rate_between(
    outcome: &Outcome,
    run: &Run,
    name: &str,
    arm: &Arm,
    (from, to): (f64, f64),
) -> Result<f64, Error> {
    let traffic = outcome.flow(run, name)?;
    let series = traffic.series.as_ref();
    let rate = series.and_then(|s| mean(&s.t_s, &s.data_rate_hz, from, to));
    let rate = rate.ok_or_else(|| outcome.lacks(format_args!("series of {name}")))?;
    Ok(rate * arm.packet * 8.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn a_ratio_to_none_counts() {
        let infinite = f64::INFINITY;
        assert_eq!(median(&[infinite, 1.0, infinite]), infinite);
        assert_eq!(median(&[infinite, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[f64::NAN, 1.0]), 1.0);
        assert!(median(&[]).is_nan());
    }
}
