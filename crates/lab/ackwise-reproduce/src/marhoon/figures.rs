//! Figures 3 to 12: queue, drops, windows and throughput of the paper's two arms.

use ackwise_report::{Axis, Figure, Line, Style};
use ackwise_scenario::record::{QueueRecord, Run};

use super::arms::{ARMS, Arm, first_five, rate_between};
use super::{ACK_QUEUE, CC, DATA_QUEUE, DURATION_S};
use crate::{Error, Outcome, Reproduced};

/// Number of points of a line on the page.
const POINTS: usize = 500;
/// Seconds that one point of a throughput line averages.
const WINDOW_S: f64 = 1.0;

/// Numbers of the paper's figures for an arm.
struct Numbers {
    queue: u8,
    data_drops: u8,
    ack_drops: u8,
    windows: u8,
    throughput: u8,
}

/// Adds the figures of the first seed's run for each of the paper's arms. Other arms have no
/// figures, since tables say more about them.
pub(super) fn add(outcome: &Outcome, all: &mut Reproduced) -> Result<(), Error> {
    let asym = (&ARMS[1], numbers(3, 5, 7, 9, 11));
    let baseline = (&ARMS[0], numbers(4, 6, 8, 10, 12));
    let mut figures = Vec::new();
    for (arm, numbers) in [asym, baseline] {
        let runs = outcome.runs(arm.name, CC, &[]);
        let run = *runs.first().ok_or_else(|| outcome.lacks("runs"))?;
        figures.push((numbers.queue, queue(outcome, run, arm, &numbers)?));
        figures.push((numbers.data_drops, data_drops(outcome, run, arm, &numbers)?));
        figures.push((numbers.ack_drops, ack_drops(outcome, run, arm, &numbers)?));
        figures.push((numbers.windows, windows(outcome, run, arm, &numbers)?));
        figures.push((numbers.throughput, throughput(outcome, run, arm, &numbers)?));
    }
    figures.sort_by_key(|(number, _)| *number);
    all.figures
        .extend(figures.into_iter().map(|(_, figure)| figure));
    Ok(())
}

fn numbers(queue: u8, data_drops: u8, ack_drops: u8, windows: u8, throughput: u8) -> Numbers {
    Numbers {
        queue,
        data_drops,
        ack_drops,
        windows,
        throughput,
    }
}

fn figure(number: u8, what: &str, arm: &Arm, y: &str) -> Figure {
    let title = format!("Fig. {number}: {what}, {}", arm.title);
    Figure::new(
        &format!("fig{number}"),
        &title,
        Axis::new("time, s"),
        Axis::new(y),
    )
}

fn queue(outcome: &Outcome, run: &Run, arm: &Arm, n: &Numbers) -> Result<Figure, Error> {
    let record = outcome.queue(run, DATA_QUEUE)?;
    let points = record
        .t_s
        .iter()
        .copied()
        .zip(record.length_packets.iter().copied());
    Ok(figure(n.queue, "uplink queue", arm, "packets")
        .caption(
            "Published: with AF and ACC the queue fluctuates strongly all the time; with NewReno \
             only between 6 and 10 s.",
        )
        .line(Line::new("queue", Style::Line, points).thin(POINTS)))
}

fn cumulative(record: &QueueRecord, of: &[u64]) -> Vec<(f64, f64)> {
    let points = record.t_s.iter().copied().zip(of.iter().map(|v| *v as f64));
    points.collect()
}

fn data_drops(outcome: &Outcome, run: &Run, arm: &Arm, n: &Numbers) -> Result<Figure, Error> {
    let record = outcome.queue(run, DATA_QUEUE)?;
    let points = cumulative(record, &record.drops_so_far);
    Ok(figure(
        n.data_drops,
        "drops on the uplink",
        arm,
        "packets since the start",
    )
    .caption("Published: 270 in the end with AF and ACC, 130 with NewReno.")
    .line(Line::new("dropped", Style::Steps, points).thin(POINTS)))
}

fn ack_drops(outcome: &Outcome, run: &Run, arm: &Arm, n: &Numbers) -> Result<Figure, Error> {
    let record = outcome.queue(run, ACK_QUEUE)?;
    let mut shown = figure(
        n.ack_drops,
        "ACKs lost on the downlink",
        arm,
        "ACKs since the start",
    )
    .caption("Published: 14 000 with AF and ACC, 22 000 with NewReno.")
    .line(
        Line::new(
            "dropped by RED",
            Style::Line,
            cumulative(record, &record.drops_so_far),
        )
        .thin(POINTS),
    );
    if !record.filtered_so_far.is_empty() {
        let points = cumulative(record, &record.filtered_so_far);
        shown = shown.line(Line::new("filtered", Style::Line, points).thin(POINTS));
    }
    Ok(shown)
}

fn windows(outcome: &Outcome, run: &Run, arm: &Arm, n: &Numbers) -> Result<Figure, Error> {
    let mut shown = figure(n.windows, "windows of the first five", arm, "segments").caption(
        "Published: with AF and ACC more fluctuation and long timeouts; with NewReno smoother, \
         and some flows never time out.",
    );
    for first in first_five(outcome, run)? {
        let series = outcome.flow(run, &first.name)?.series.as_ref();
        let series =
            series.ok_or_else(|| outcome.lacks(format_args!("series of {}", first.name)))?;
        let windows = series.cwnd_segments.iter().map(|v| v.unwrap_or(f64::NAN));
        let points = series.t_s.iter().copied().zip(windows);
        shown = shown.line(Line::new(&first.name, Style::Line, points).thin(POINTS));
    }
    Ok(shown)
}

fn throughput(outcome: &Outcome, run: &Run, arm: &Arm, n: &Numbers) -> Result<Figure, Error> {
    let mut shown = figure(n.throughput, "throughput of the first five", arm, "Mbit/s").caption(
        "Published: with AF and ACC high in the beginning, then choked; with NewReno higher and \
         steady.",
    );
    for first in first_five(outcome, run)? {
        let mut points = Vec::new();
        let mut at = WINDOW_S;
        while at <= DURATION_S {
            let rate = rate_between(outcome, run, &first.name, arm, (at - WINDOW_S, at))?;
            points.push((at, rate));
            at += WINDOW_S;
        }
        shown = shown.line(Line::new(&first.name, Style::Line, points));
    }
    Ok(shown)
}
