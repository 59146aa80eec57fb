//! The flow itself, in virtual time: CPU costs nothing, so what remains is the effect of limiting
//! on the traffic.

use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance, Value};
use ackwise_scenario::record::{Quantiles, Series, Traffic};

use super::drop::{LIMITED, first, per_ack};
use super::slow::HALVED_RTT;
use crate::series::mean;
use crate::tolerances::{above, by, range};
use crate::{Error, Lab, Reproduced};

const PART: &str = "A link that is not short of CPU (Figs 5 to 8, 11 to 19)";
const SETUP: &str = "100 s bulk, cubic, 20 Mbit/s, 10 ms round trip, a queue of 400 \
    packets that holds the whole window (tcp_rmem 256 KiB), tcp_ack_limit 2000, real stack in \
    virtual time";

/// Lower edges of the bins of 5 ms that 10 to 20 ms have: the most frequent RTT without limiting.
pub(super) const MODE: Tolerance = range(10.0, 15.0);
/// That of 5 to 10 ms: the most frequent RTT with limiting.
pub(super) const MODE_LIMITED: Tolerance = range(5.0, 5.0);
/// Tolerance of what is said to be the same.
pub(super) const SAME: Tolerance = by(0.02);
/// The paper has several, so there must be some.
pub(super) const SOME: Tolerance = above(0.0);

const SCENARIOS: [(&str, &str, &str); 3] = [
    (
        "unmodified",
        "papers/statkus-2021/unmodified.toml",
        include_str!("../../../../../scenarios/papers/statkus-2021/unmodified.toml"),
    ),
    (
        "rate-limit",
        "papers/statkus-2021/rate-limit.toml",
        include_str!("../../../../../scenarios/papers/statkus-2021/rate-limit.toml"),
    ),
    (
        "rate-limit-literal",
        "papers/statkus-2021/rate-limit-literal.toml",
        include_str!("../../../../../scenarios/papers/statkus-2021/rate-limit-literal.toml"),
    ),
];

/// A flow, and what its record must have to be judged.
struct Flow {
    name: &'static str,
    traffic: Traffic,
    series: Series,
    rtt_us: Quantiles,
    /// Lower edge of the most frequent RTT, in ms.
    mode_ms: f64,
}

impl Flow {
    /// Takes the flow out of a record; otherwise what the record lacks.
    fn of(name: &'static str, traffic: &Traffic) -> Result<Flow, &'static str> {
        let series = traffic.series.clone().ok_or("series")?;
        let mode_ms = mode(&histogram(&series.rtt_us)).ok_or("samples of the RTT")?;
        Ok(Flow {
            name,
            traffic: traffic.clone(),
            rtt_us: traffic.rtt_us.ok_or("round-trip times")?,
            series,
            mode_ms,
        })
    }
}

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let mut flows = Vec::new();
    for (name, path, text) in SCENARIOS {
        let outcome = lab.run(path, text)?;
        let run = outcome.one("baseline", "cubic", &[])?;
        let flow = Flow::of(name, outcome.flow(run, "iperf")?);
        flows.push(flow.map_err(|what| outcome.lacks(what))?);
    }
    for flow in &flows {
        numbers(flow, all);
    }
    compared(&flows, all);
    drawings(&flows, all);
    Ok(())
}

/// Claims about the limited flow relative to the unmodified one.
fn compared(flows: &[Flow], all: &mut Reproduced) {
    modes(flows, all);
    if let Some((stock, limited)) = flows.split_first() {
        for flow in limited {
            beside_stock(flow, stock, all);
        }
    }
}

/// Figs 15 and 16: the most frequent RTT.
fn modes(flows: &[Flow], all: &mut Reproduced) {
    for flow in flows {
        let (published, tolerance) = match flow.name {
            "unmodified" => ("10 to 20", MODE),
            _ => ("5 to 10", MODE_LIMITED),
        };
        all.experiments.push(
            add(
                "mode",
                flow.name,
                "most frequent RTT, lower edge of its 5 ms",
                flow.mode_ms.into(),
                "ms",
            )
            .published(published)
            .tolerance(tolerance)
            .note(
                "Published (Figs 15, 16, whose numbers the text swaps): 10 to 20 ms without \
                     limiting, 5 to 10 ms with it, between virtual machines whose CPU is the \
                     queue. Here a queue of data is, which limiting does not shorten.",
            ),
        );
    }
}

/// Compares a limited flow with the unmodified one.
fn beside_stock(flow: &Flow, stock: &Flow, all: &mut Reproduced) {
    let (name, series) = (flow.name, &flow.series);
    let acks = || series.t_s.iter().copied().zip(per_ack(series));
    let start = first(acks(), 0.0, |v| v > LIMITED);
    all.experiments.push(
        add(
            "start",
            name,
            "ACKs are limited from",
            start.map_or("never".into(), Value::from),
            "s",
        )
        .published("19 to 20 s")
        .not_comparable(
            "Published: 19 to 20 s (Fig. 6). With tcp_ack_limit 2000 that would be about 200 \
                 segments a second, far below the paper's rates; so it used another threshold, or \
                 losses delayed the start; it prints no rate. Here two windows of 2000 segments take 2.4 \
                 s, and a change of r by one each 1.2 s shows half a second to one later.",
        ),
    );
    let until = start.unwrap_or(f64::INFINITY) - 0.5;
    let goodput = |series: &Series| mean(&series.t_s, &series.goodput_bps, 0.0, until);
    let ratio = goodput(series)
        .zip(goodput(&stock.series))
        .map(|(limited, stock)| limited / stock);
    all.experiments.push(
        add(
            "before",
            name,
            "goodput before ACKs are limited, of the unmodified one",
            ratio.map_or("no sample".into(), Value::from),
            "",
        )
        .published(1.0)
        .tolerance(SAME)
        .note("Published: the same (Figs 5, 6)."),
    );
    all.experiments.push(
        add(
            "own-drops",
            name,
            "segments sent again, with limiting alone",
            (flow.traffic.retransmits as f64).into(),
            "",
        )
        .published("several")
        .not_comparable(
            "published (Fig. 6) of drops at about 45 s that limiting itself leads to; here the queue \
                 holds the whole window, so that nothing can be dropped",
        ),
    );
    let rtt = flow.rtt_us.p50 / stock.rtt_us.p50;
    all.experiments.push(
        add(
            "rtt-ratio",
            name,
            "median RTT, of the unmodified one",
            rtt.into(),
            "",
        )
        .published(0.5)
        .tolerance(HALVED_RTT)
        .note(
            "Published: almost halved between virtual machines, higher between routers. \
                     Here CPU costs nothing, so no queue of ACKs is there to be shortened; a \
                     held ACK adds its wait.",
        ),
    );
}

fn add(key: &str, name: &str, what: &str, measured: Value, unit: &str) -> Experiment {
    Experiment::new(
        format!("statkus/link-{key}-{name}"),
        format!("{name}: {what}"),
        measured,
    )
    .part(PART)
    .unit(unit)
    .setup(SETUP)
}

/// The lower edge of a histogram's highest bar.
fn mode(bars: &[(f64, f64)]) -> Option<f64> {
    let highest = bars.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (highest.1 > 0.0).then_some(highest.0)
}

fn numbers(flow: &Flow, all: &mut Reproduced) {
    let (traffic, series) = (&flow.traffic, &flow.series);
    let whole = |column: &[Option<f64>]| mean(&series.t_s, column, 0.0, f64::INFINITY);
    let or = |value: Option<f64>, word: &str| value.map_or(word.into(), Value::from);
    let measured = [
        (
            "goodput",
            "goodput",
            (traffic.goodput_bps / 1e6).into(),
            "Mbit/s",
        ),
        (
            "acks",
            "segments per ACK",
            or(traffic.segments_per_ack(), "no ACK"),
            "",
        ),
        (
            "rtt-p50",
            "median RTT",
            (flow.rtt_us.p50 / 1000.0).into(),
            "ms",
        ),
        (
            "rtt-p99",
            "99th percentile of RTT",
            (flow.rtt_us.p99 / 1000.0).into(),
            "ms",
        ),
        (
            "retransmits",
            "segments sent again",
            (traffic.retransmits as f64).into(),
            "",
        ),
        (
            "cwnd",
            "mean congestion window",
            or(whole(&series.cwnd_segments), "no samples"),
            "segments",
        ),
        (
            "ssthresh",
            "mean slow-start threshold",
            or(whole(&series.ssthresh_segments), "infinite throughout"),
            "segments",
        ),
    ];
    for (key, what, value, unit) in measured {
        all.experiments
            .push(add(key, flow.name, what, value, unit).note(
                "The paper prints no numbers of single runs. Its claim for a network that is \
             not congested: limiting changes neither throughput nor recovery.",
            ));
    }
}

const DRAWN: &str = "Virtual time, where CPU costs nothing; in the paper's figures it is the bottleneck. 20 Mbit/s, \
                     no loss, tcp_ack_limit 2000. Where lines coincide, only the last one is visible.";

/// A figure: id, title, axis, the column of the series, and a factor to the axis' unit.
type Drawing = (
    &'static str,
    &'static str,
    &'static str,
    fn(&Series) -> &[Option<f64>],
    f64,
);

fn drawings(flows: &[Flow], all: &mut Reproduced) {
    let wanted: [Drawing; 5] = [
        (
            "data",
            "Data rate (Figs 5, 6, 11, 12)",
            "goodput, Mbit/s",
            |s| &s.goodput_bps,
            1e-6,
        ),
        (
            "acks",
            "ACK rate (Figs 5, 6, 17)",
            "ACKs per second",
            |s| &s.ack_rate_hz,
            1.0,
        ),
        (
            "rtt",
            "Round-trip time (Figs 7, 8, 13, 14)",
            "round-trip time, ms",
            |s| &s.rtt_us,
            1e-3,
        ),
        (
            "cwnd",
            "Congestion window (Figs 18, 19)",
            "window, segments",
            |s| &s.cwnd_segments,
            1.0,
        ),
        (
            "ssthresh",
            "Slow-start threshold (Figs 18, 19)",
            "threshold, segments",
            |s| &s.ssthresh_segments,
            1.0,
        ),
    ];
    for (id, title, axis, column, factor) in wanted {
        let lines = flows.iter().map(|flow| {
            let points = flow.series.t_s.iter().zip(column(&flow.series));
            let points = points.map(|(t, v)| (*t, v.map_or(f64::NAN, |v| v * factor)));
            Line::new(flow.name, Style::Line, points)
        });
        all.figures.push(
            Figure::new(
                &format!("link-{id}"),
                title,
                Axis::new("time, s"),
                Axis::new(axis),
            )
            .caption(DRAWN)
            .lines(lines),
        );
    }
    let lines = flows
        .iter()
        .map(|flow| Line::new(flow.name, Style::Steps, histogram(&flow.series.rtt_us)));
    all.figures.push(
        Figure::new(
            "link-histogram",
            "Histogram of the round-trip time (Figs 15, 16)",
            Axis::new("round-trip time, ms"),
            Axis::new("share of the samples"),
        )
        .caption(
            "Bins of 5 ms, drawn at their lower edges. Published, between virtual machines: 10 to 20 ms \
             without limiting, 5 to 10 ms with it.",
        )
        .lines(lines),
    );
}

/// Shares of the samples in bins of 5 ms.
fn histogram(rtt_us: &[Option<f64>]) -> Vec<(f64, f64)> {
    const BIN_US: f64 = 5000.0;
    let known: Vec<f64> = rtt_us.iter().copied().flatten().collect();
    let bins = known.iter().map(|rtt| (rtt / BIN_US) as usize).max();
    (0..bins.map_or(0, |last| last + 2))
        .map(|bin| {
            let inside = known
                .iter()
                .filter(|rtt| (**rtt / BIN_US) as usize == bin)
                .count();
            (
                bin as f64 * BIN_US / 1000.0,
                inside as f64 / known.len() as f64,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenarios_are_what_is_asked_of_them() {
        for (name, path, text) in SCENARIOS {
            let scenario = ackwise_scenario::Scenario::parse(path, text).unwrap();
            let runs = scenario.runs();
            assert_eq!(scenario.name, name);
            assert_eq!(runs.len(), 1, "{name}");
            assert_eq!(
                (runs[0].arm.as_str(), runs[0].cc.as_str()),
                ("baseline", "cubic")
            );
        }
    }

    #[test]
    fn a_record_without_samples_is_an_error_and_has_no_verdict() {
        let lacks = |traffic: &Traffic| Flow::of("x", traffic).map(|flow| flow.mode_ms);
        let mut traffic = Traffic {
            rtt_us: Some(Quantiles::default()),
            ..Traffic::default()
        };
        assert_eq!(lacks(&traffic), Err("series"));
        let mut series = Series {
            t_s: vec![0.5],
            rtt_us: vec![None],
            ..Series::default()
        };
        traffic.series = Some(series.clone());
        assert_eq!(lacks(&traffic), Err("samples of the RTT"));
        series.rtt_us = vec![Some(12_000.0)];
        traffic.series = Some(series);
        assert_eq!(lacks(&traffic), Ok(10.0));
        // A threshold may be infinite in all samples.
        let mut all = Reproduced::default();
        numbers(&Flow::of("x", &traffic).unwrap(), &mut all);
        let threshold = all
            .experiments
            .iter()
            .find(|row| row.id.contains("ssthresh"));
        assert_eq!(threshold.unwrap().measured, "infinite throughout".into());
        traffic.rtt_us = None;
        assert_eq!(lacks(&traffic), Err("round-trip times"));
    }

    #[test]
    fn a_histogram_adds_up() {
        let bars = histogram(&[
            Some(1000.0),
            Some(4999.0),
            None,
            Some(12_000.0),
            Some(11_000.0),
        ]);
        assert_eq!(bars, [(0.0, 0.5), (5.0, 0.0), (10.0, 0.5), (15.0, 0.0)]);
        assert_eq!(histogram(&[None]), []);
        assert_eq!(mode(&bars[1..]), Some(10.0));
        assert_eq!((mode(&[]), mode(&[(0.0, 0.0)])), (None, None));
    }
}
