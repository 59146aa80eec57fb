//! The paper's two arms, and those that it left out, over seeds of start times.

use ackwise_net::Rng;
use ackwise_report::{Experiment, Spread};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;

use super::{ACK_QUEUE, CC, DATA_QUEUE, DURATION_S, figures};
use crate::series::{mean, moments};
use crate::{Error, Lab, Outcome, Reproduced};

const PATH: &str = "scenarios/papers/marhoon/marhoon.toml";
const TEXT: &str = include_str!("../../../../scenarios/papers/marhoon/marhoon.toml");
/// Seeds of a short version.
const QUICK_SEEDS: u64 = 3;
/// Streams of the engines' draws for start times begin here (`Flow::start_within`).
const START_STREAM: u64 = 2000;

/// An arm, and what the paper prints of it, if anything.
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

pub(super) const ARMS: [Arm; 7] = [
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
    Arm::ours("af", "AF alone"),
    Arm::ours("af-contract", "AF that keeps what matters"),
    Arm::ours("acc", "ACC that works"),
    Arm::ours("af-acc", "AF and ACC that works"),
    Arm::ours("acks-first", "ACKs first"),
];

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let quick = lab.quick();
    let outcome = lab.run_where(PATH, TEXT, |run| !quick || run.seed <= QUICK_SEEDS)?;
    for arm in &ARMS {
        experiments(&outcome, arm, all)?;
    }
    verdict(&outcome, all)?;
    figures::add(&outcome, all)
}

/// A number of each run of an arm.
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

fn experiments(outcome: &Outcome, arm: &Arm, all: &mut Reproduced) -> Result<(), Error> {
    let part = arm.title;
    let add = |id: &str, what: &str, unit: &str, values: Vec<f64>, published: Option<f64>| {
        let spread = Spread::of("seeds of the start times", values);
        let median = spread.as_ref().map_or(f64::NAN, |s| s.median);
        let mut experiment = Experiment::new(format!("marhoon/{}/{id}", arm.name), what, median)
            .part(part)
            .unit(unit)
            .setup(SETUP)
            .spread(spread);
        if let Some(value) = published {
            experiment = experiment.published(value);
        }
        experiment
    };
    let queue = each(outcome, arm, |run| queue_moments(outcome, run))?;
    let (lengths, deviations): (Vec<f64>, Vec<f64>) = queue.into_iter().unzip();
    let drops = each(outcome, arm, |run| {
        Ok(outcome.queue(run, DATA_QUEUE)?.drops as f64)
    })?;
    let lost = each(outcome, arm, |run| {
        let queue = outcome.queue(run, ACK_QUEUE)?;
        Ok((queue.drops + queue.filtered.unwrap_or(0)) as f64)
    })?;
    let red = each(outcome, arm, |run| {
        Ok(outcome.queue(run, ACK_QUEUE)?.drops as f64)
    })?;
    let timeouts = each(outcome, arm, |run| {
        let first = first_five(outcome, run)?;
        Ok(first.iter().map(|f| f.timeouts).sum::<u64>() as f64)
    })?;
    let means = each(outcome, arm, |run| {
        let first = first_five(outcome, run)?;
        Ok(first.iter().map(|f| f.rate_mbps(arm.packet)).sum::<f64>() / 5.0)
    })?;
    let totals = each(outcome, arm, |run| {
        Ok(run.totals.data_segments as f64 * arm.packet * 8.0 / DURATION_S / 1e6)
    })?;
    let published_mean = arm.throughputs.map(|five| five.iter().sum::<f64>() / 5.0);
    all.experiments.extend([
        add("queue-mean", "uplink queue, mean", "packets", lengths, None),
        add(
            "queue-deviation",
            "uplink queue, deviation",
            "packets",
            deviations,
            None,
        )
        .note(QUEUE_NOTE),
        add(
            "data-drops",
            "packets dropped on the uplink",
            "",
            drops,
            arm.data_drops,
        )
        .note(DROPS_NOTE),
        add(
            "acks-removed",
            "ACKs that the downlink took out",
            "",
            lost,
            arm.ack_drops,
        )
        .note(REMOVED_NOTE),
        add("acks-dropped", "of them dropped by RED", "", red, None),
        add("timeouts", "timeouts of the first five", "", timeouts, None),
        add(
            "throughput",
            "mean of the first five",
            "Mbit/s",
            means,
            published_mean,
        )
        .note(THROUGHPUT_NOTE),
        add("total", "all 20 together", "Mbit/s", totals, None),
    ]);
    all.experiments.push(listed(outcome, arm)?);
    Ok(())
}

const SETUP: &str = "sim; 20 NewReno of ns-2, 550 B of data a packet, window 1000, 30 ms and \
                     1…4.8 ms one way, DropTail 50 before 10 Mbit/s, RED before 300 kbit/s; 50 s";
const QUEUE_NOTE: &str = "The paper says of its figures 3 and 4 that filtering makes the queue \
                          fluctuate more; it prints no number.";
const DROPS_NOTE: &str = "ns-2.35 with the same set-up drops 151 to 663 (NewReno) and 396 to 429 \
                          (Asym and AF) over three seeds of its own: our senders lose more in \
                          slow start and when they are paced. Not explained yet.";
const REMOVED_NOTE: &str = "ns-2 frees what it filters without counting a drop; the paper's \
                            number for filtering must be arrivals less departures.";
const THROUGHPUT_NOTE: &str = "Published in MBytes/sec, but Mbit/s by its digits. Which flows \
                               are first is chance; the spread over seeds is wide.";

/// The averages of the first five starters, as a list.
fn listed(outcome: &Outcome, arm: &Arm) -> Result<Experiment, Error> {
    let list = |values: &[f64]| {
        let texts: Vec<String> = values.iter().map(|v| format!("{v:.3}")).collect();
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
        experiment = experiment.published(list(&published));
    }
    Ok(experiment)
}

/// The paper's conclusions, as ratios of its arms.
fn verdict(outcome: &Outcome, all: &mut Reproduced) -> Result<(), Error> {
    let [baseline, asym, ..] = &ARMS;
    let part = "AF and ACC as ns-2 has them, to NewReno";
    let ratios = |of: &dyn Fn(&Arm, &Run) -> Result<f64, Error>| -> Result<Vec<f64>, Error> {
        let base = each(outcome, baseline, |run| of(baseline, run))?;
        let other = each(outcome, asym, |run| of(asym, run))?;
        Ok(other.iter().zip(base).map(|(a, b)| a / b).collect())
    };
    let add = |id: &str, what: &str, values: Vec<f64>, published: f64| {
        let spread = Spread::of("seeds of the start times", values);
        let median = spread.as_ref().map_or(f64::NAN, |s| s.median);
        Experiment::new(format!("marhoon/ratio/{id}"), what, median)
            .part(part)
            .published(published)
            .setup("sim; ratios formed seed by seed")
            .spread(spread)
    };
    let throughput = ratios(&|arm, run| {
        let first = first_five(outcome, run)?;
        Ok(first.iter().map(|f| f.rate_mbps(arm.packet)).sum())
    })?;
    let total = ratios(&|arm, run| Ok(run.totals.data_segments as f64 * arm.packet))?;
    let drops = ratios(&|_, run| Ok(outcome.queue(run, DATA_QUEUE)?.drops as f64))?;
    let removed = ratios(&|_, run| {
        let queue = outcome.queue(run, ACK_QUEUE)?;
        Ok((queue.drops + queue.filtered.unwrap_or(0)) as f64)
    })?;
    let deviation = ratios(&|_, run| Ok(queue_moments(outcome, run)?.1))?;
    let mut total = add("total", "throughput of all 20", total, f64::NAN);
    total.published = None;
    let mut deviation = add(
        "queue-deviation",
        "deviation of the uplink queue",
        deviation,
        1.0,
    );
    deviation.published = Some("more than 1".into());
    all.experiments.extend([
        add(
            "throughput",
            "throughput of the first five",
            throughput,
            0.592,
        )
        .note(SIGN_NOTE),
        total.note(SIGN_NOTE),
        add("data-drops", "drops on the uplink", drops, 2.08),
        add(
            "acks-removed",
            "ACKs taken out on the downlink",
            removed,
            0.636,
        ),
        deviation,
    ]);
    Ok(())
}

const SIGN_NOTE: &str = "The sign of the paper's conclusion hangs on settings that it does not \
                         print, above all on how bursts of the Asym sender are limited: see \
                         the grid below.";

/// Mean and deviation of the uplink queue once all flows run.
fn queue_moments(outcome: &Outcome, run: &Run) -> Result<(f64, f64), Error> {
    let queue = outcome.queue(run, DATA_QUEUE)?;
    let lengths = queue.t_s.iter().zip(&queue.length_packets);
    let late = lengths.filter(|(t, _)| **t > 5.0).map(|(_, v)| *v);
    moments(late).ok_or_else(|| outcome.lacks(format_args!("queue lengths in {}", run.id)))
}

/// One of the five flows that started first.
pub(super) struct First {
    pub name: String,
    segments: u64,
    timeouts: u64,
}

impl First {
    /// Over the whole run, packets with headers, as ns-2 counts.
    fn rate_mbps(&self, packet_bytes: f64) -> f64 {
        self.segments as f64 * packet_bytes * 8.0 / DURATION_S / 1e6
    }
}

/// When each flow of a run starts, after its `start`, ns: the draw of the engines.
fn start_ns(scenario: &Scenario, index: usize, seed: u64) -> u64 {
    let flow = &scenario.flows[index];
    let within = u64::try_from(flow.start_within.as_nanos()).unwrap_or(u64::MAX);
    Rng::stream(seed, START_STREAM + index as u64).below(within.saturating_add(1))
}

/// The flows that start first, in the order of their starts.
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

/// Throughput over a window, for the figures; see [`First::rate_mbps`].
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
