//! What follows a drop, in virtual time: a second flow overflows the queue at second 50, the
//! search for the ACK rate restarts, and the sender recovers. In the paper limiting itself makes the
//! drop, so each row here with a published value is a variant, and answers no claim.

use ackwise_report::{Axis, Experiment, Figure, Line, Spread, Style, Tolerance, Value};
use ackwise_scenario::record::{Series, Traffic};

use crate::lab::Outcome;
use crate::series::{mean, moments};
use crate::tolerances::{below, range};
use crate::{Error, Lab, Reproduced};

const PART: &str = "After a drop (Figs 5, 6, 18, 19)";
const SETUP: &str = "100 s bulk, cubic, 20 Mbit/s, 10 ms round trip, tcp_rmem 256 KiB, a queue of \
    110 packets that a second flow of 4 MB overflows from second 50 on; tcp_ack_limit 2000, real \
    stack in virtual time";
const SCENARIO: (&str, &str) = (
    "papers/statkus-2021/after-a-drop.toml",
    include_str!("../../../../../scenarios/papers/statkus-2021/after-a-drop.toml"),
);
const ARMS: [(&str, &str); 3] = [
    ("baseline", "unmodified"),
    ("rate-limit", "rate-limit"),
    ("rate-limit-literal", "rate-limit-literal"),
];
/// When the second flow starts, in seconds; then a time by which all flows have recovered.
const COMES: f64 = 50.0;
const GONE: f64 = 65.0;
/// Start of the second flow; runs with the first value are drawn.
const START: &str = "flow.neighbour.start";
const STARTS: [&str; 5] = ["50 s", "50.01 s", "50.02 s", "50.03 s", "50.04 s"];
/// "The same" recovery time: up to a third longer or a quarter shorter.
pub(super) const ALIKE: Tolerance = range(0.75, 4.0 / 3.0);
/// "Slightly smaller".
pub(super) const SMALLER: Tolerance = below(1.0);
/// Segments per ACK above which ACKs count as limited: the unmodified rule has two.
pub(super) const LIMITED: f64 = 2.5;

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let outcome = lab.run(SCENARIO.0, SCENARIO.1)?;
    let mut lines: [Vec<Line>; 3] = Default::default();
    for (arm, name) in ARMS {
        let run = outcome.one(arm, "cubic", &[(START, STARTS[0])])?;
        let flow = outcome.flow(run, "iperf")?;
        let series = flow.series.clone().ok_or_else(|| outcome.lacks("series"))?;
        numbers(name, &series, all);
        let per_ack = series.t_s.iter().copied().zip(per_ack(&series));
        lines[0].push(Line::new(name, Style::Line, per_ack));
        for (slot, column) in [(1, &series.cwnd_segments), (2, &series.ssthresh_segments)] {
            let points = series.t_s.iter().zip(column);
            let points = points.map(|(t, v)| (*t, v.unwrap_or(f64::NAN)));
            lines[slot].push(Line::new(name, Style::Line, points));
        }
    }
    recoveries(&outcome, all)?;
    round_trips(&outcome, all)?;
    let titles = [
        ("drop-acks", "Segments per ACK around a drop (Figs 5, 6)"),
        ("drop-cwnd", "Congestion window around a drop (Figs 18, 19)"),
        (
            "drop-ssthresh",
            "Slow-start threshold around a drop (Figs 18, 19)",
        ),
    ];
    for ((id, title), lines) in titles.into_iter().zip(lines) {
        all.figures.push(
            Figure::new(id, title, Axis::new("time, s"), Axis::new("segments"))
                .caption(DRAWN)
                .lines(lines),
        );
    }
    Ok(())
}

const DRAWN: &str = "The first of five starts of a second flow, which overflows the queue from second 50 on: in the \
                     paper limiting itself makes the drop. Published: both recover alike, limited with a \
                     slightly lower threshold and a smaller window. The table has the medians of all five.";

/// A flow's recovery from its losses.
struct Recovery {
    retransmits: f64,
    /// Seconds from second 50 until its window is back near its earlier mean.
    whole: f64,
    /// The mean threshold after all flows have recovered, in segments.
    threshold: f64,
    /// The mean window until all flows have recovered, in segments.
    window: f64,
    /// The standard deviation of the window from second 50 on, in segments.
    deviation: f64,
}

impl Recovery {
    fn of(flow: &Traffic, series: &Series) -> Option<Recovery> {
        let column = |values: &[Option<f64>], from: f64, to: f64| -> Vec<(f64, f64)> {
            let points = series.t_s.iter().zip(values);
            let points = points.filter_map(|(t, v)| Some((*t, (*v)?)));
            points.filter(|(t, _)| (from..=to).contains(t)).collect()
        };
        let windows = column(&series.cwnd_segments, COMES, 100.0);
        let before = mean(&series.t_s, &series.cwnd_segments, COMES - 10.0, COMES)?;
        // The last time that the window is below: it falls more than once.
        let below = windows.iter().filter(|(_, v)| *v < 0.95 * before);
        let whole = below.map(|(t, _)| t - COMES).next_back().unwrap_or(0.0);
        Some(Recovery {
            retransmits: flow.retransmits as f64,
            whole,
            threshold: mean(&series.t_s, &series.ssthresh_segments, GONE, 100.0)?,
            window: mean(&series.t_s, &series.cwnd_segments, COMES, GONE)?,
            deviation: moments(windows.iter().map(|(_, v)| *v))?.1,
        })
    }
}

/// Figs 18 and 19: each limited flow relative to the unmodified one, start by start.
fn recoveries(outcome: &Outcome, all: &mut Reproduced) -> Result<(), Error> {
    let mut of_arms = Vec::new();
    for (arm, name) in ARMS {
        let mut of_starts = Vec::new();
        for start in STARTS {
            let run = outcome.one(arm, "cubic", &[(START, start)])?;
            let flow = outcome.flow(run, "iperf")?;
            let recovery = flow.series.as_ref().and_then(|s| Recovery::of(flow, s));
            of_starts.push(recovery.ok_or_else(|| outcome.lacks("windows"))?);
        }
        let spread = Spread::of(OVER, of_starts.iter().map(|r| r.retransmits));
        let median = spread.as_ref().map_or(f64::NAN, |s| s.median);
        let what = format!("{name}: segments sent again");
        let row = Experiment::new(format!("statkus/fig18-lost-{name}"), what, median);
        all.experiments
            .push(row.part(PART).setup(SETUP).spread(spread));
        of_arms.push((name, of_starts));
    }
    let Some(((_, stock), limited)) = of_arms.split_first() else {
        return Ok(());
    };
    for (name, recoveries) in limited {
        let ratio = |value: fn(&Recovery) -> f64| {
            let pairs = recoveries.iter().zip(stock);
            // A flow that lost nothing did not recover.
            let pairs = pairs.filter(|(a, b)| a.retransmits > 0.0 && b.retransmits > 0.0);
            Spread::of(OVER, pairs.map(|(a, b)| value(a) / value(b)))
        };
        let rows = [
            (
                "recovery",
                "time until the window is as before",
                ratio(|r| r.whole),
                "the same",
                ALIKE,
            ),
            (
                "threshold",
                "slow-start threshold after it",
                ratio(|r| r.threshold),
                "slightly smaller",
                SMALLER,
            ),
            (
                "window",
                "mean window until second 65",
                ratio(|r| r.window),
                "slightly smaller",
                SMALLER,
            ),
            (
                "steadier",
                "standard deviation of the window from second 50 on",
                ratio(|r| r.deviation),
                "steadier",
                SMALLER,
            ),
        ];
        for (key, what, spread, published, tolerance) in rows {
            let median = spread.as_ref().map(|s| s.median);
            let median = median.map_or("nothing was lost".into(), Value::from);
            let id = format!("statkus/fig18-{key}-{name}");
            all.experiments.push(
                Experiment::new(id, format!("{name}: {what}, of the unmodified one"), median)
                    .part(PART)
                    .setup(SETUP)
                    .spread(spread)
                    .published(published)
                    .tolerance(tolerance)
                    // The paper's losses come from limiting itself.
                    .variant()
                    .note(STAGED),
            );
        }
    }
    Ok(())
}

/// Fig. 8: the RTT from the drop until ACKs are limited again, relative to the unmodified flow's in the same
/// time, start by start.
fn round_trips(outcome: &Outcome, all: &mut Reproduced) -> Result<(), Error> {
    for (arm, name) in &ARMS[1..] {
        let mut ratios = Vec::new();
        for start in STARTS {
            let series = |arm: &str| -> Result<Series, Error> {
                let run = outcome.one(arm, "cubic", &[(START, start)])?;
                let series = outcome.flow(run, "iperf")?.series.clone();
                series.ok_or_else(|| outcome.lacks("series"))
            };
            let (stock, limited) = (series(ARMS[0].0)?, series(arm)?);
            let Some((from, to)) = unlimited(&limited) else {
                continue;
            };
            let rtt = |series: &Series| mean(&series.t_s, &series.rtt_us, from, to);
            ratios.extend(rtt(&limited).zip(rtt(&stock)).map(|(a, b)| a / b));
        }
        let spread = Spread::of(OVER, ratios);
        let median = spread.as_ref().map(|s| s.median);
        let id = format!("statkus/fig8-after-{name}");
        let what = format!("{name}: RTT until ACKs are limited again, of the unmodified one");
        let median = median.map_or("ACKs stay limited".into(), Value::from);
        all.experiments.push(
            Experiment::new(id, what, median)
                .part(PART)
                .setup(SETUP)
                .spread(spread)
                .published("the same")
                .tolerance(ALIKE)
                .variant()
                .note(
                    "Published in words, of Fig. 8: until the drop the RTT is higher, then it is the \
                     unmodified router's again. Here a second flow makes both lose, and CPU costs nothing.",
                ),
        );
    }
    Ok(())
}

/// From the drop, which ends limiting, until ACKs are limited again; in seconds.
fn unlimited(series: &Series) -> Option<(f64, f64)> {
    let acks = || series.t_s.iter().copied().zip(per_ack(series));
    let reset = first(acks(), COMES, |v| v < LIMITED)?;
    Some((reset, first(acks(), reset, |v| v > LIMITED)?))
}

const OVER: &str = "starts of the second flow";
const STAGED: &str = "Published in words, of Figs 18 and 19. There the losses come from limiting itself; here a \
     second flow makes both lose.";

/// Data segments per ACK in each interval.
pub(super) fn per_ack(series: &Series) -> impl Iterator<Item = f64> + '_ {
    let rates = series.data_rate_hz.iter().zip(&series.ack_rate_hz);
    rates.map(|(data, acks)| match (data, acks) {
        (Some(data), Some(acks)) if *acks > 0.0 => data / acks,
        _ => f64::NAN,
    })
}

/// Time of the first sample after `from` whose value satisfies `is`.
pub(super) fn first(
    points: impl IntoIterator<Item = (f64, f64)>,
    from: f64,
    is: impl Fn(f64) -> bool,
) -> Option<f64> {
    let mut points = points.into_iter();
    points.find(|(t, v)| *t > from && is(*v)).map(|(t, _)| t)
}

fn number(name: &str, key: &str, what: &str, value: Value, unit: &str) -> Experiment {
    let id = format!("statkus/drop-{key}-{name}");
    Experiment::new(id, format!("{name}: {what}"), value)
        .part(PART)
        .unit(unit)
        .setup(SETUP)
}

fn numbers(name: &str, series: &Series, all: &mut Reproduced) {
    if name != "unmodified" {
        limiting(name, series, all);
    }
    windows(name, series, all);
}

/// When ACKs are limited again, and how many segments an ACK covers until then.
fn limiting(name: &str, series: &Series, all: &mut Reproduced) {
    let acks = || series.t_s.iter().copied().zip(per_ack(series));
    let between = |from, to| {
        let inside = acks().filter(|(t, _)| *t > from && *t <= to);
        moments(inside.map(|(_, v)| v)).map_or(f64::NAN, |(mean, _)| mean)
    };
    let reset = first(acks(), COMES, |v| v < LIMITED);
    let restart = unlimited(series).map(|(reset, again)| again - reset);
    all.experiments.push(
        number(
            name,
            "restart",
            "from the drop until ACKs are limited again",
            restart.map_or("never".into(), Value::from),
            "s",
        )
        .published(6.0)
        .variant()
        .not_comparable(
            "in the paper the drop comes from limiting itself; here a second flow is to make it, at \
             a rate that was chosen so that the search takes as long as in its figures",
        )
        .note(
            "Published: drops at 45 s, limiting again at 51 s. Each further drop while the \
             second flow is there puts it off; after the last one 2000 segments pass, and two \
             measurements of 2000.",
        ),
    );
    let values = [
        (
            "acks-before",
            "segments per ACK, 10 s before it",
            between(COMES - 10.0, COMES),
        ),
        (
            "acks-at",
            "segments per ACK, 2 s after the first drop",
            reset.map_or(f64::NAN, |t| between(t, t + 2.0)),
        ),
        (
            "acks-end",
            "segments per ACK, last 10 s",
            between(90.0, 100.0),
        ),
    ];
    for (key, what, value) in values {
        all.experiments
            .push(number(name, key, what, value.into(), "").note(
                "Drawn in the paper, not printed: the ACK rate is the unmodified one's from the \
                 drop on, and falls again. The listing starts with an ACK for each segment.",
            ));
    }
}

/// The sender's windows and RTT after the start of the second flow.
fn windows(name: &str, series: &Series, all: &mut Reproduced) {
    let tail = |column: &[Option<f64>]| mean(&series.t_s, column, GONE, 100.0);
    let steady = moments(
        series
            .t_s
            .iter()
            .zip(&series.cwnd_segments)
            .filter(|(t, _)| **t > COMES)
            .filter_map(|(_, v)| *v),
    );
    let windows = [
        (
            "cwnd",
            "congestion window after it",
            tail(&series.cwnd_segments),
            "segments",
        ),
        (
            "ssthresh",
            "slow-start threshold after it",
            tail(&series.ssthresh_segments),
            "segments",
        ),
        (
            "cwnd-deviation",
            "standard deviation of the congestion window from second 50 on",
            steady.map(|(_, deviation)| deviation),
            "segments",
        ),
        (
            "rtt",
            "RTT after it",
            tail(&series.rtt_us).map(|us| us / 1000.0),
            "ms",
        ),
    ];
    for (key, what, value, unit) in windows {
        let value = value.unwrap_or(f64::NAN);
        all.experiments
            .push(number(name, key, what, value.into(), unit).note(
                "Drawn in the paper, not printed: the recovery is the same, with limiting the \
             threshold slightly lower and the window smaller and steadier; the RTT is the \
             unmodified one's again. The threshold shows whether there was a drop.",
            ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenario_is_what_is_asked_of_it() {
        let scenario = ackwise_scenario::Scenario::parse(SCENARIO.0, SCENARIO.1).unwrap();
        let runs = scenario.runs();
        let arms: Vec<&str> = runs.iter().map(|run| run.arm.as_str()).collect();
        assert_eq!(arms.len(), ARMS.len() * STARTS.len());
        for (arm, _) in ARMS {
            assert_eq!(arms.iter().filter(|one| **one == arm).count(), STARTS.len());
        }
        for start in STARTS {
            let at =
                |run: &ackwise_scenario::RunSpec| run.id.ends_with(&format!("{START}={start}"));
            assert_eq!(runs.iter().filter(|run| at(run)).count(), ARMS.len());
        }
        let second = scenario.flows.iter().find(|flow| flow.name == "neighbour");
        assert!(second.is_some());
    }

    #[test]
    fn the_first_is_after_the_bound_and_gaps_are_not_values() {
        let series = Series {
            t_s: vec![1.0, 2.0, 3.0, 4.0],
            data_rate_hz: vec![Some(10.0), Some(10.0), Some(10.0), Some(30.0)],
            ack_rate_hz: vec![Some(5.0), None, Some(0.0), Some(10.0)],
            ..Series::default()
        };
        let values: Vec<f64> = per_ack(&series).collect();
        assert_eq!((values[0], values[3]), (2.0, 3.0));
        assert!(values[1].is_nan() && values[2].is_nan());
        let points = || series.t_s.iter().copied().zip(per_ack(&series));
        assert_eq!(first(points(), 0.0, |v| v > 1.0), Some(1.0));
        assert_eq!(first(points(), 1.0, |v| v > 1.0), Some(4.0));
        assert_eq!(first(points(), 4.0, |v| v > 1.0), None);
    }
}
