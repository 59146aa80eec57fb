//! The limit as a function of what the paper leaves open: the sender's window, and HyStart.

use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance, Value};

use super::CC;
use super::limit::{ALL_PASS, COLLAPSED, RATE, WHOLE, rate_text};
use crate::{Error, Lab, Outcome, Reproduced};

const PATH: &str = "scenarios/papers/pavilanskas-2010/window.toml";
const TEXT: &str = include_str!("../../../../../scenarios/papers/pavilanskas-2010/window.toml");
/// Shares of the ACKs dropped, in %.
const SHARES: [f64; 15] = [
    60.0, 70.0, 75.0, 80.0, 82.0, 84.0, 85.0, 86.0, 88.0, 90.0, 91.0, 92.0, 93.0, 94.0, 96.0,
];
/// Windows in segments; `None` for no limit.
const WINDOWS: [Option<u32>; 13] = [
    Some(10),
    Some(12),
    Some(13),
    Some(14),
    Some(16),
    Some(17),
    Some(18),
    Some(20),
    Some(24),
    Some(30),
    Some(45),
    Some(64),
    None,
];
const PART: &str = "The limit over the window and HyStart";
const SETUP: &str = "sim; window.toml: 200 MiB, otherwise as Fig. 4";
/// The paper's limit, with five points for the steps of its figure and of the shares here.
pub(super) const LIMIT: Tolerance = Tolerance::Range {
    low: 81.0,
    high: 90.0,
};
/// From this difference on, in points, a higher rate with more ACKs dropped is not noise.
const RISE: f64 = 5.0;

/// A sender's rate at each share, in % of its rate with all ACKs.
struct Curve {
    window: Option<u32>,
    hystart: bool,
    left: Vec<f64>,
}

impl Curve {
    fn of(outcome: &Outcome, window: Option<u32>, hystart: bool) -> Result<Curve, Error> {
        let arm = arm(window, hystart);
        let rate = |at: &str| {
            let run = outcome.one(&arm, CC, &[(RATE, at)])?;
            Ok::<f64, Error>(run.totals.goodput_bps)
        };
        let whole = rate(ALL_PASS)?;
        let left = |share: &f64| Ok(100.0 * rate(&rate_text(*share))? / whole);
        Ok(Curve {
            window,
            hystart,
            left: SHARES.iter().map(left).collect::<Result<_, Error>>()?,
        })
    }

    fn title(&self) -> String {
        let window = match self.window {
            Some(window) => format!("window {window}"),
            None => "no limit".to_owned(),
        };
        match self.hystart {
            true => window,
            false => format!("{window}, no HyStart"),
        }
    }

    /// The lowest share at which the transfer collapses.
    fn breaks(&self) -> Option<f64> {
        let mut points = SHARES.iter().zip(&self.left);
        let found = points.find(|(_, left)| holds(COLLAPSED, **left));
        found.map(|(share, _)| *share)
    }

    /// The rate left at 80 %.
    fn at_80(&self) -> f64 {
        let at = SHARES.iter().position(|share| *share == 80.0);
        at.map_or(f64::NAN, |at| self.left[at])
    }

    /// Whether the transfer is whole and collapses at the same shares as in the paper.
    fn is_the_papers(&self) -> bool {
        let breaks = self.breaks().is_some_and(|share| holds(LIMIT, share));
        breaks && holds(WHOLE, self.at_80())
    }

    /// At how many shares more is left than at the previous one.
    fn rises(&self) -> usize {
        let pairs = self.left.windows(2);
        pairs.filter(|pair| pair[1] > pair[0] + RISE).count()
    }
}

/// Whether a tolerance holds. Bounds ignore the published value.
fn holds(tolerance: Tolerance, measured: f64) -> bool {
    tolerance.holds(&"".into(), measured) == Some(true)
}

fn arm(window: Option<u32>, hystart: bool) -> String {
    match (window, hystart) {
        (None, true) => "baseline".to_owned(),
        (None, false) => "free-no-hystart".to_owned(),
        (Some(window), true) => format!("window-{window}"),
        (Some(window), false) => format!("window-{window}-no-hystart"),
    }
}

/// Why the transfer collapses, found by what keeps it whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// It is whole without HyStart.
    HyStart,
    /// It is whole with the widest limit that keeps slow start from overflowing the queue.
    Window,
    /// The same, where the window had no limit: slow start's losses are the cause.
    SlowStart,
    /// It is whole with none of these.
    Unexplained,
}

/// Why the transfer collapses at a share and a window; `None` if it does not.
fn cause(with: &Curve, without: &Curve, widest: &Curve, at: usize) -> Option<Cause> {
    let lost = |curve: &Curve| holds(COLLAPSED, curve.left[at]);
    Some(match () {
        () if !lost(with) => return None,
        () if !lost(without) => Cause::HyStart,
        () if lost(widest) => Cause::Unexplained,
        () if with.window.is_some() => Cause::Window,
        () => Cause::SlowStart,
    })
}

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let outcome = lab.run(PATH, TEXT)?;
    let curves = |hystart| {
        let curves = WINDOWS.map(|window| Curve::of(&outcome, window, hystart));
        curves.into_iter().collect::<Result<Vec<_>, Error>>()
    };
    let (on, off) = (curves(true)?, curves(false)?);
    for curve in on.iter().chain(&off) {
        all.experiments.extend(limits(curve));
    }
    all.experiments.push(both(&on, &off));
    all.experiments.extend(causes(&on, &off));
    all.figures
        .push(surface("limit-hystart", "HyStart on", &on));
    all.figures
        .push(surface("limit-no-hystart", "HyStart off", &off));
    all.figures.push(breaks(&on, &off));
    Ok(())
}

/// The rate left at 80 %, and the share at which the transfer collapses.
fn limits(curve: &Curve) -> [Experiment; 2] {
    let id = |what: &str| {
        format!(
            "pavilanskas/window/{}/{what}",
            arm(curve.window, curve.hystart)
        )
    };
    let title = curve.title();
    let breaks = curve.breaks().map_or("at none".into(), Value::from);
    let row = |row: Experiment| row.part(PART).unit("%").setup(SETUP).variant();
    [
        row(Experiment::new(
            id("at-80"),
            format!("{title}: rate left with 80 % dropped"),
            curve.at_80(),
        ))
        .published("whole")
        .tolerance(WHOLE),
        row(Experiment::new(
            id("breaks"),
            format!("{title}: least share that leaves less than half"),
            breaks,
        ))
        .published("above 85 %")
        .tolerance(LIMIT),
    ]
}

/// The windows that reproduce what the paper saw.
fn both(on: &[Curve], off: &[Curve]) -> Experiment {
    let fit: Vec<String> = on
        .iter()
        .chain(off)
        .filter(|curve| curve.is_the_papers())
        .map(Curve::title)
        .collect();
    let measured = match fit.is_empty() {
        true => "with none of these".to_owned(),
        false => fit.join("; "),
    };
    Experiment::new(
        "pavilanskas/window/both",
        "whole at 80 % and collapsed by 90 %",
        measured,
    )
    .part(PART)
    .published("whole to 80 %, fatal above 85 %")
    .setup(SETUP)
    .not_comparable(
        "the paper does not print its window, and HyStart is not mentioned: windows that do what it \
         saw are named, not chosen",
    )
}

/// Counts the cells of the surface by what has to change for them not to collapse.
fn causes(on: &[Curve], off: &[Curve]) -> Vec<Experiment> {
    let mut found = Vec::new();
    let widest = WINDOWS.iter().position(|window| *window == Some(64));
    if let Some(widest) = widest.map(|at| &off[at]) {
        for (with, without) in on.iter().zip(off) {
            found.extend((0..SHARES.len()).filter_map(|at| cause(with, without, widest, at)));
        }
    }
    let count = |cause| found.iter().filter(|one| **one == cause).count() as f64;
    let of = format!("of {}", found.len());
    let row = |id: &str, what: &str, cause: Cause, note: &str| {
        Experiment::new(format!("pavilanskas/window/cause/{id}"), what, count(cause))
            .part("Why it collapses, HyStart on: windows × shares that leave less than half")
            .unit(of.clone())
            .setup(SETUP)
            .note(note)
    };
    let rises = on.iter().chain(off).map(Curve::rises).sum::<usize>();
    let what = format!("shares at which more dropping leaves {RISE} points more");
    let on_all = format!("of {}", (SHARES.len() - 1) * 2 * WINDOWS.len());
    vec![
        Experiment::new("pavilanskas/window/cause/rises", what, rises as f64)
            .part(PART)
            .unit(on_all)
            .setup(SETUP)
            .note(
                "The dip of a window of 13 at 84 % is one: below its limit the rate is that of \
                 timeouts, and depends on which ACK after one is let pass. Nothing here explains \
                 them further. The timeout itself is the price of a starved window in all cells, \
                 not its cause: 200 ms each, hundreds in a transfer.",
            ),
        row(
            "hystart",
            "whole, or half at least, without HyStart",
            Cause::HyStart,
            "HyStart ends slow start early, here at 20 segments with any share. The window has to \
             grow from there by the few ACKs that pass, and a small one starves.",
        ),
        row(
            "window",
            "the window is too small for the gaps between ACKs",
            Cause::Window,
            "Whole with 64 segments and without HyStart. Without HyStart a window W breaks within \
             a step of 1 − 2/W.",
        ),
        row(
            "slow-start",
            "neither: no limit, and no HyStart",
            Cause::SlowStart,
            "Slow start overflows the queue; after the timeout the window stays small. Whole with \
             a limit of 64 segments.",
        ),
        row(
            "unexplained",
            "collapsed even with 64 segments and without HyStart",
            Cause::Unexplained,
            "",
        ),
    ]
}

/// The windows that are drawn: few enough to follow each by eye.
const DRAWN: [Option<u32>; 6] = [Some(10), Some(13), Some(17), Some(20), Some(45), None];

/// The rate left over the share of ACKs dropped, one line per window.
fn surface(id: &str, title: &str, curves: &[Curve]) -> Figure {
    let mut figure = Figure::new(
        id,
        &format!("Rate left over the share of ACKs dropped, {title}"),
        Axis::new("ACKs above the policer's rate, %"),
        Axis::new("rate left, %"),
    )
    .caption(
        "Published: whole to 80 %, fatal above 85 %, with a window that is not printed. Some of the \
         windows; all are in the table.",
    );
    for curve in curves.iter().filter(|curve| DRAWN.contains(&curve.window)) {
        let points = SHARES.into_iter().zip(curve.left.iter().copied());
        figure = figure.line(Line::new(&curve.title(), Style::Line, points));
    }
    figure
}

/// The share at which each window collapses.
fn breaks(on: &[Curve], off: &[Curve]) -> Figure {
    let points = |curves: &[Curve]| {
        let limited = curves.iter().filter_map(|curve| {
            let window = f64::from(curve.window?);
            Some((window, curve.breaks()?))
        });
        limited.collect::<Vec<_>>()
    };
    let formula = WINDOWS.iter().flatten().map(|window| {
        let window = f64::from(*window);
        (window, 100.0 * (1.0 - 2.0 / window))
    });
    Figure::new(
        "limit-window",
        "Least share that leaves less than half, over the window",
        Axis::new("window, segments"),
        Axis::new("ACKs dropped, %").begins_at(75.0),
    )
    .caption(
        "Published: above 85 %, with a window that is not printed. Dashed: 1 − 2/W, calculated. A window \
         without a point stands all shares that were run.",
    )
    .line(Line::new("1 − 2/W", Style::Published, formula))
    .line(Line::new("HyStart on", Style::Line, points(on)))
    .line(Line::new("HyStart off", Style::Line, points(off)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackwise_scenario::Scenario;

    #[test]
    fn the_scenario_has_the_windows_and_shares_that_are_asked_for() {
        let scenario = Scenario::parse(PATH, TEXT).unwrap();
        let vary = scenario.sweep.vary.iter().find(|v| v.path == RATE).unwrap();
        let shares = SHARES.iter().map(|share| rate_text(*share));
        let expected: Vec<String> = std::iter::once(ALL_PASS.to_owned()).chain(shares).collect();
        assert_eq!(vary.values, expected);
        for hystart in [true, false] {
            for window in WINDOWS {
                let name = arm(window, hystart);
                assert!(scenario.arms.iter().any(|arm| arm.name == name), "{name}");
            }
        }
        assert_eq!(scenario.arms.len(), 2 * WINDOWS.len());
    }

    fn curve(window: Option<u32>, left: impl Fn(f64) -> f64) -> Curve {
        Curve {
            window,
            hystart: true,
            left: SHARES.iter().map(|share| left(*share)).collect(),
        }
    }

    #[test]
    fn a_window_is_the_papers_only_if_both_halves_hold() {
        let step = |at: f64| curve(Some(18), move |share| if share < at { 100.0 } else { 8.0 });
        assert!(step(86.0).is_the_papers() && step(90.0).is_the_papers());
        assert!(!step(80.0).is_the_papers(), "lost where the paper is whole");
        assert!(!step(91.0).is_the_papers(), "whole where the paper is lost");
        let weak = curve(None, |share| if share < 86.0 { 90.0 } else { 8.0 });
        assert!(!weak.is_the_papers());
        assert_eq!(
            (step(86.0).breaks(), step(99.0).breaks()),
            (Some(86.0), None)
        );
        let dip = curve(None, |share| if share == 84.0 { 9.0 } else { 23.0 });
        assert_eq!((dip.rises(), step(86.0).rises()), (1, 0));
    }

    #[test]
    fn a_cause_is_what_has_to_change() {
        let (lost, whole) = (|_| 8.0, |_| 100.0);
        let of = |window, without: fn(f64) -> f64, widest: fn(f64) -> f64| {
            let [with, without] = [curve(window, lost), curve(window, without)];
            cause(&with, &without, &curve(Some(64), widest), 0)
        };
        assert_eq!(of(Some(45), whole, whole), Some(Cause::HyStart));
        assert_eq!(of(Some(13), lost, whole), Some(Cause::Window));
        assert_eq!(of(None, lost, whole), Some(Cause::SlowStart));
        assert_eq!(of(None, lost, lost), Some(Cause::Unexplained));
        let fine = curve(None, whole);
        assert_eq!(cause(&fine, &fine, &fine, 0), None);
    }
}
