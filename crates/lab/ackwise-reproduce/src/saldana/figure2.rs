//! Fig. 2: a download on its own, with its ACKs direct or released every 50 ms.

use ackwise_report::{Axis, Experiment, Figure, Line, Style};
use ackwise_scenario::record::Series;

use super::{FROM_S, PACKET_BYTES, TO_S};
use crate::series::{mean_interval, resets, wire_rate_bps};
use crate::{Error, Lab, Outcome, Reproduced};

const PATH: &str = "scenarios/papers/saldana-2013/single.toml";
const TEXT: &str = include_str!("../../../../../scenarios/papers/saldana-2013/single.toml");
/// The window after a reset of Tahoe, including what it gains until the next sample.
const RESET_SEGMENTS: f64 = 4.0;
/// The paper's figures begin with the flow and show about this much, in seconds.
const SHOWN_S: f64 = 100.0;

struct Half {
    arm: &'static str,
    part: &'static str,
    goodput: f64,
    /// Tolerance of `goodput`, as a share.
    near: f64,
    interval: f64,
    /// Tolerance of `interval`, in seconds.
    interval_near: f64,
    caption: &'static str,
}

const HALVES: [Half; 2] = [
    Half {
        arm: "baseline",
        part: "Fig. 2a: no multiplexing",
        goodput: 9.24,
        near: 0.015,
        interval: 7.0,
        interval_near: 0.3,
        caption: "Published: the window grows until the queue overflows and starts again, every \
                  7 s; 9.24 Mbit/s on average.",
    },
    Half {
        arm: "mux-50ms",
        part: "Fig. 2b: PE = 50 ms",
        goodput: 8.039,
        near: 0.02,
        interval: 9.5,
        interval_near: 1.0,
        caption: "Published: every 9.5 s, with oscillations on the way up, because ACKs come in \
                  bursts; 8.039 Mbit/s on average.",
    },
];

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let outcome = lab.run(PATH, TEXT)?;
    let mut means = Vec::new();
    for half in HALVES {
        let series = series(&outcome, half.arm)?;
        means.push(experiments(&outcome, &half, series, all)?);
        all.figures.push(figure(&half, series));
    }
    all.experiments.push(
        Experiment::new(
            "saldana/fig2/loss",
            "lost by PE = 50 ms, of the link",
            (means[0] - means[1]) / super::BOTTLENECK_BPS * 100.0,
        )
        .part(HALVES[1].part)
        .published(12.0)
        .within_by(2.0)
        .unit("%")
        .setup("difference of the two averages, as a share of 10 Mbit/s"),
    );
    Ok(())
}

fn series<'a>(outcome: &'a Outcome, arm: &str) -> Result<&'a Series, Error> {
    let run = outcome.one(arm, "tahoe", &[])?;
    let flow = outcome.flow(run, "b")?;
    let missing = || outcome.lacks(format_args!("series of run {}", run.id));
    flow.series.as_ref().ok_or_else(missing)
}

/// Adds the experiments of this half; returns its mean rate in bit/s.
fn experiments(
    outcome: &Outcome,
    half: &Half,
    series: &Series,
    all: &mut Reproduced,
) -> Result<f64, Error> {
    let rate = |from, to| {
        wire_rate_bps(series, PACKET_BYTES, from, to)
            .ok_or_else(|| outcome.lacks(format_args!("data_rate_hz of {}", half.arm)))
    };
    let goodput = rate(FROM_S, TO_S)?;
    let fell = resets(&series.t_s, &series.cwnd_segments, RESET_SEGMENTS);
    let late: Vec<f64> = fell.into_iter().filter(|t| *t > FROM_S).collect();
    let id = |what| format!("saldana/fig2/{}/{what}", half.arm);
    let setup = "sim; one Tahoe flow, 1460+40 B, RTT 80 ms, 10 Mbit/s, DropTail 50; 500…1000 s";
    all.experiments.extend([
        Experiment::new(id("goodput"), "average throughput", goodput / 1e6)
            .part(half.part)
            .published(half.goodput)
            .within_share(half.near)
            .unit("Mbit/s")
            .setup(setup)
            .note(
                "The paper averages the last 500 of 1000 s; whether in Fig. 2, too, it does not \
                 say. The first window is slower, see the next line.",
            ),
        Experiment::new(
            id("goodput-first-100s"),
            "average throughput, first 100 s",
            rate(0.0, SHOWN_S)? / 1e6,
        )
        .part(half.part)
        .unit("Mbit/s")
        .setup(setup.replace("500…1000", "0…100"))
        .note("For comparison: the published average is compared with the line above only."),
        match mean_interval(&late) {
            Some(interval) => Experiment::new(id("interval"), "from reset to reset", interval),
            None => Experiment::new(id("interval"), "from reset to reset", "no resets"),
        }
        .part(half.part)
        .published(half.interval)
        .within_by(half.interval_near)
        .unit("s")
        .setup(setup)
        .note("The paper's intervals are read off its figure."),
    ]);
    Ok(goodput)
}

fn figure(half: &Half, series: &Series) -> Figure {
    let until = series.t_s.iter().take_while(|t| **t <= SHOWN_S).count();
    let points = |values: &[Option<f64>], scale: f64| -> Vec<(f64, f64)> {
        let known = series.t_s.iter().zip(values).take(until);
        known
            .map(|(t, v)| (*t, v.map_or(f64::NAN, |v| v * scale)))
            .collect()
    };
    let rate = points(&series.data_rate_hz, PACKET_BYTES * 8.0 / 1e6);
    Figure::new(
        &format!("fig2-{}", half.arm),
        half.part,
        Axis::new("time, s"),
        Axis::new("throughput, Mbit/s"),
    )
    .caption(half.caption)
    .line(Line::new("throughput", Style::Line, rate).thin(1200))
}
