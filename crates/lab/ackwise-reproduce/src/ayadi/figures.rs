//! The paper's figures, with error bars.

use ackwise_report::{Axis, Figure, Line, Mean, Style};

use super::points::{Metric, Place, Points};
use super::{Arm, CHAIN, Fields, OWN, PAPER};
use crate::{Error, Reproduced};

/// Arms drawn beside those of the paper.
const BESIDE: [&str; 10] = [
    "tcp",
    "dca",
    "tda",
    "tack",
    "hop",
    "hop-patient",
    "hop-abc",
    "hop-untold",
    "tda-ask",
    "tda-ask-once",
];
/// Arms compared with TCP with d = 1.
const RELATIVE: [&str; 7] = ["tcp-d2", "dda", "daa", "dca", "tda", "hop", "hop-patient"];
const BARS: &str = "Bars: 95 % confidence intervals of ten seeds.";

pub(super) fn add(fields: &Fields, all: &mut Reproduced) -> Result<(), Error> {
    chain(&fields.chain, all)?;
    all.figures.push(energy_saved(&fields.chain)?);
    let mut wide: Vec<&Arm> = PAPER
        .iter()
        .filter(|arm| !arm.name.ends_with(['3', '4']))
        .collect();
    wide.extend(&OWN);
    flows(&fields.flows, &wide, all)?;
    cross(&fields.cross, &wide, all)?;
    all.figures.push(grid(&fields.grid, &wide)?);
    Ok(())
}

/// Figures 1a to 1c, also with the arms that the paper did not try.
fn chain(points: &Points, all: &mut Reproduced) -> Result<(), Error> {
    let of_paper: Vec<&Arm> = PAPER.iter().collect();
    let known = || PAPER.iter().chain(&OWN).chain(&CHAIN);
    let beside: Vec<&Arm> = BESIDE
        .iter()
        .filter_map(|name| known().find(|arm| arm.name == *name))
        .collect();
    let one = |hops: u64| Place::new(hops, 1);
    for (metric, letter, published) in [
        (
            Metric::Throughput,
            "a",
            "DCA and TDA above TCP everywhere, DCA above TDA from 6 hops.",
        ),
        (
            Metric::Energy,
            "b",
            "all below TCP, 20 % at 2 hops, 10 % at 10.",
        ),
        (Metric::Efficiency, "c", "DCA best, then TDA, then TCP."),
    ] {
        for (id, title, arms) in [
            ("", "", &of_paper),
            ("-beside", ", beside what the paper did not try", &beside),
        ] {
            let figure = Figure::new(
                &format!("fig1{letter}{id}"),
                &format!("Fig. 1{letter}: {} over a chain{title}", metric.name()),
                Axis::new("hops"),
                axis(metric),
            );
            let xs: Vec<(f64, Place)> = (2..=10).map(|hops| (hops as f64, one(hops))).collect();
            let figure = figure.caption(format!("Published: {published} {BARS}"));
            all.figures
                .push(figure.lines(lines(points, arms, metric, &xs)?));
        }
    }
    Ok(())
}

/// Figure 3: several flows over chains of various lengths.
fn flows(points: &Points, arms: &[&Arm], all: &mut Reproduced) -> Result<(), Error> {
    for hops in [2, 6, 10] {
        let xs = [2, 4, 6].map(|flows| (flows as f64, Place::new(hops, flows)));
        all.figures.push(
            Figure::new(
                &format!("fig3-{hops}"),
                &format!("Fig. 3: several flows over a chain of {hops} hops"),
                Axis::new("flows"),
                axis(Metric::Efficiency),
            )
            .caption(format!("Published: all above TCP, TDA above DCA. {BARS}"))
            .lines(lines(points, arms, Metric::Efficiency, &xs)?),
        );
    }
    Ok(())
}

/// Figure 5: crosses of various sizes.
fn cross(points: &Points, arms: &[&Arm], all: &mut Reproduced) -> Result<(), Error> {
    for flows in [2, 6] {
        let xs = [2, 4, 6, 8].map(|hops| (hops as f64, Place::new(hops, flows)));
        all.figures.push(
            Figure::new(
                &format!("fig5-{flows}"),
                &format!("Fig. 5: a cross with {flows} flows"),
                Axis::new("hops"),
                axis(Metric::Efficiency),
            )
            .caption(format!(
                "Published: all above TCP, more so with 6 flows. {BARS}"
            ))
            .lines(lines(points, arms, Metric::Efficiency, &xs)?),
        );
    }
    Ok(())
}

/// Figure 7: one grid, with a point for each scheme.
fn grid(points: &Points, arms: &[&Arm]) -> Result<Figure, Error> {
    let mut figure = Figure::new(
        "fig7",
        "Fig. 7: a grid of 5 × 5, three flows across and one down",
        Axis::new("scheme, in the order of the legend"),
        axis(Metric::Efficiency),
    )
    .caption(format!("Published: DCA best. {BARS}"));
    for (at, arm) in arms.iter().enumerate() {
        let xs = [(at as f64 + 1.0, Place::new(4, 4))];
        for line in lines(points, &[*arm], Metric::Efficiency, &xs)? {
            figure = figure.line(Line {
                style: Style::Points,
                ..line
            });
        }
    }
    Ok(figure)
}

/// Figure 1b relative to TCP with d = 1, where differences are visible.
fn energy_saved(chain: &Points) -> Result<Figure, Error> {
    let mut figure = Figure::new(
        "fig1b-relative",
        "Fig. 1b, against TCP with d = 1",
        Axis::new("hops"),
        Axis::new("energy, % more than TCP, d = 1"),
    )
    .caption(format!(
        "Published: \"about 20 percent\" less at 2 hops and \"about 10\" at 10, of all delayed \
         variants against a TCP whose d is not said. {BARS}"
    ))
    .line(Line::new(
        "published",
        Style::Published,
        [(2.0, -20.0), (10.0, -10.0)],
    ));
    let known = PAPER.iter().chain(&OWN);
    for arm in known.filter(|arm| RELATIVE.contains(&arm.name)) {
        let mut means = Vec::new();
        for hops in 2..=10 {
            let at = Place::new(hops, 1);
            let gains = chain.gains(arm.name, "tcp", at, Metric::Energy)?;
            means.extend(Mean::of(gains).map(|mean| (hops as f64, mean)));
        }
        figure = figure.line(barred(arm, &means));
    }
    Ok(figure)
}

fn axis(metric: Metric) -> Axis {
    let label = format!("{}, {}", metric.name(), metric.unit());
    match metric {
        Metric::Efficiency => Axis::log(&label),
        _ => Axis::new(&label),
    }
}

/// One line per arm through these places.
fn lines(
    points: &Points,
    arms: &[&Arm],
    metric: Metric,
    xs: &[(f64, Place)],
) -> Result<Vec<Line>, Error> {
    arms.iter()
        .map(|arm| {
            let mut means = Vec::new();
            for (x, at) in xs {
                let values = points.values(arm.name, *at, |run| metric.of(run))?;
                means.extend(Mean::of(values).map(|mean| (*x, mean)));
            }
            Ok(barred(arm, &means))
        })
        .collect()
}

/// Means over x with their confidence intervals.
fn barred(arm: &Arm, means: &[(f64, Mean)]) -> Line {
    let middle = means.iter().map(|(x, mean)| (*x, mean.mean));
    let ends = means
        .iter()
        .filter_map(|(_, mean)| mean.ci95().map(|[low, high]| (low, high)));
    Line::new(arm.title, Style::Line, middle).bars(ends)
}
