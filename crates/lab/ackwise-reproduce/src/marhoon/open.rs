//! The paper's comparison for other delays, windows, bursts and queues.

use ackwise_report::{Axis, Experiment, Figure, Line, Spread, Style};

use super::{CC, DATA_QUEUE, DURATION_S};
use crate::{Error, Lab, Outcome, Reproduced};

const PATH: &str = "scenarios/papers/marhoon/marhoon-open.toml";
const TEXT: &str = include_str!("../../../../../scenarios/papers/marhoon/marhoon-open.toml");
const DELAY: &str = "link.shared.both.delay";
const DELAYS_MS: [f64; 3] = [20.0, 30.0, 40.0];

/// The arm, a description, and the bytes of a packet.
const ARMS: [(&str, &str, f64); 7] = [
    ("baseline", "NewReno, RED, window 1000", 590.0),
    ("baseline-window-100", "NewReno, RED, window 100", 590.0),
    ("baseline-window-60", "NewReno, RED, window 60", 590.0),
    ("baseline-drop-tail", "NewReno, DropTail 50 for ACKs", 590.0),
    ("asym-af", "Asym and AF, bursts of 4", 600.0),
    (
        "asym-af-window-100",
        "Asym and AF, bursts of 4, window 100",
        600.0,
    ),
    ("asym-af-unpaced", "Asym and AF, any burst", 600.0),
];

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let quick = lab.quick();
    let outcome = lab.run_where(PATH, TEXT, |run| !quick || run.seed == 1)?;
    let mut figure = Figure::new(
        "open-total",
        "Throughput of all 20 for other settings",
        Axis::new("one-way delay of the shared link, ms"),
        Axis::new("Mbit/s"),
    )
    .caption("Not in the paper: what decides between its two arms is how the sender bursts.");
    for (arm, title, packet) in ARMS {
        let mut points = Vec::new();
        for delay in DELAYS_MS {
            let rates = totals(&outcome, arm, delay, packet)?;
            let drops = drops(&outcome, arm, delay)?;
            let spread = Spread::of("seeds of the start times", rates);
            let median = spread.as_ref().map_or(f64::NAN, |s| s.median);
            points.push((delay, median));
            if delay == DELAYS_MS[1] {
                all.experiments
                    .extend(experiments(arm, title, median, spread, drops));
            }
        }
        figure = figure.line(Line::new(title, Style::Line, points));
    }
    all.figures.push(figure);
    Ok(())
}

fn experiments(
    arm: &str,
    title: &str,
    median: f64,
    spread: Option<Spread>,
    drops: Vec<f64>,
) -> [Experiment; 2] {
    let part = "What the paper leaves open, at 30 ms";
    let drops = Spread::of("seeds of the start times", drops);
    let dropped = drops.as_ref().map_or(f64::NAN, |s| s.median);
    let setup = "sim; the network of the paper, one setting changed";
    [
        Experiment::new(format!("marhoon/open/{arm}/total"), title, median)
            .part(part)
            .unit("Mbit/s")
            .setup(setup)
            .spread(spread),
        Experiment::new(
            format!("marhoon/open/{arm}/data-drops"),
            "drops on the uplink",
            dropped,
        )
        .part(part)
        .setup(setup)
        .spread(drops),
    ]
}

fn totals(outcome: &Outcome, arm: &str, delay: f64, packet: f64) -> Result<Vec<f64>, Error> {
    let text = format!("{delay:.0} ms");
    let runs = outcome.runs(arm, CC, &[(DELAY, &text)]);
    if runs.is_empty() {
        return Err(outcome.lacks(format_args!("runs of {arm} at {text}")));
    }
    let rate = |segments: u64| segments as f64 * packet * 8.0 / DURATION_S / 1e6;
    Ok(runs
        .iter()
        .map(|run| rate(run.totals.data_segments))
        .collect())
}

fn drops(outcome: &Outcome, arm: &str, delay: f64) -> Result<Vec<f64>, Error> {
    let text = format!("{delay:.0} ms");
    let runs = outcome.runs(arm, CC, &[(DELAY, &text)]);
    let drops = |run| Ok(outcome.queue(run, DATA_QUEUE)?.drops as f64);
    runs.into_iter().map(drops).collect()
}
