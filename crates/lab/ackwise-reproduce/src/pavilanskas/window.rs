//! The limit as a function of what the paper leaves open: the sender's window, HyStart, and which of
//! its two bursts the policer had.

use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance, Value};

use super::CC;
use super::limit::{ALL_PASS, COLLAPSED, RATE, WHOLE, rate_text};
use crate::tolerances::range;
use crate::{Error, Held, Lab, Outcome, Reproduced};

const PATH: &str = "scenarios/papers/pavilanskas-2010/window.toml";
const TEXT: &str = include_str!("../../../../../scenarios/papers/pavilanskas-2010/window.toml");
/// Shares of the ACKs dropped, in %.
const SHARES: [f64; 19] = [
    60.0, 70.0, 75.0, 80.0, 82.0, 84.0, 85.0, 86.0, 88.0, 90.0, 91.0, 92.0, 93.0, 94.0, 95.0, 96.0,
    97.0, 98.0, 99.0,
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
const PART: &str = "The limit over the window, HyStart and the burst";
const SETUP: &str = "sim; window.toml: 200 MiB, otherwise as Fig. 4";
/// The paper's limit, with five points for the steps of its figure and of the shares here.
pub(super) const LIMIT: Tolerance = range(81.0, 90.0);
/// Where a window that is set should break: from the share that starves it to five points above.
const fn breaks_at(window: u32) -> Tolerance {
    let starves = 100.0 * (1.0 - 2.0 / window as f64);
    range(starves, starves + 5.0)
}

const fn held(window: u32, rows: &'static str) -> Held {
    Held::new(rows, breaks_at(window), "%")
}

/// Tolerances of the windows; `docs/papers/README.md` prints them.
pub(super) const BREAKS: [Held; 12] = [
    held(10, "window 10: least share that leaves less than half"),
    held(12, "window 12: the same"),
    held(13, "window 13: the same"),
    held(14, "window 14: the same"),
    held(16, "window 16: the same"),
    held(17, "window 17: the same"),
    held(18, "window 18: the same"),
    held(20, "window 20: the same"),
    held(24, "window 24: the same"),
    held(30, "window 30: the same"),
    held(45, "window 45: the same"),
    held(64, "window 64: the same"),
];

/// What is varied besides the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    /// HyStart on, and the burst of the prose: the default.
    Default,
    /// HyStart off.
    NoHyStart,
    /// The burst of the listing.
    Listing,
}

const SETTINGS: [Setting; 3] = [Setting::Default, Setting::NoHyStart, Setting::Listing];

/// From this difference on, in points, a higher rate with more ACKs dropped is not noise.
const RISE: f64 = 5.0;

/// A sender's rate at each share, in % of its rate with all ACKs.
struct Curve {
    window: Option<u32>,
    setting: Setting,
    left: Vec<f64>,
}

impl Curve {
    fn of(outcome: &Outcome, window: Option<u32>, setting: Setting) -> Result<Curve, Error> {
        let arm = arm(window, setting);
        let rate = |at: &str| {
            let run = outcome.one(&arm, CC, &[(RATE, at)])?;
            Ok::<f64, Error>(run.totals.goodput_bps)
        };
        let whole = rate(ALL_PASS)?;
        let left = |share: &f64| Ok(100.0 * rate(&rate_text(*share))? / whole);
        Ok(Curve {
            window,
            setting,
            left: SHARES.iter().map(left).collect::<Result<_, Error>>()?,
        })
    }

    fn title(&self) -> String {
        let window = match self.window {
            Some(window) => format!("window {window}"),
            None => "no limit".to_owned(),
        };
        match self.setting {
            Setting::Default => window,
            Setting::NoHyStart => format!("{window}, no HyStart"),
            Setting::Listing => format!("{window}, the listing's burst"),
        }
    }

    /// The lowest share at which the transfer collapses.
    fn breaks(&self) -> Option<f64> {
        let mut points = SHARES.iter().zip(&self.left);
        let found = points.find(|(_, left)| holds(COLLAPSED, **left));
        found.map(|(share, _)| *share)
    }

    /// Whether less than half is left at the share with this index.
    fn collapses(&self, at: usize) -> bool {
        holds(COLLAPSED, self.left[at])
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

fn arm(window: Option<u32>, setting: Setting) -> String {
    match (window, setting) {
        (None, Setting::Default) => "baseline".to_owned(),
        (None, Setting::NoHyStart) => "free-no-hystart".to_owned(),
        (None, Setting::Listing) => "listing".to_owned(),
        (Some(window), Setting::Default) => format!("window-{window}"),
        (Some(window), Setting::NoHyStart) => format!("window-{window}-no-hystart"),
        (Some(window), Setting::Listing) => format!("listing-window-{window}"),
    }
}

/// How many cells of the surface (window × share, default setting) collapse, and what keeps them whole.
/// Both HyStart and the burst can be enough.
#[derive(Debug, Default, PartialEq, Eq)]
struct Causes {
    cells: usize,
    /// Whole without HyStart.
    hystart: usize,
    /// Whole with the burst of the listing.
    burst: usize,
    /// With neither, but with the burst of the listing and no limit of the window.
    window: usize,
    /// With none of these.
    unexplained: usize,
}

impl Causes {
    /// Counts the cells of a window; `widest` is the sender without a limit, with the listing's burst.
    fn add(&mut self, [default, no_hystart, listing]: [&Curve; 3], widest: &Curve) {
        for at in (0..SHARES.len()).filter(|at| default.collapses(*at)) {
            let [hystart, burst] = [no_hystart, listing].map(|curve| !curve.collapses(at));
            let window = !hystart && !burst && !widest.collapses(at);
            self.cells += 1;
            self.hystart += usize::from(hystart);
            self.burst += usize::from(burst);
            self.window += usize::from(window);
            self.unexplained += usize::from(!hystart && !burst && !window);
        }
    }
}

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let outcome = lab.run(PATH, TEXT)?;
    let of = |setting| {
        let curves = WINDOWS.map(|window| Curve::of(&outcome, window, setting));
        curves.into_iter().collect::<Result<Vec<_>, Error>>()
    };
    let [default, no_hystart, listing] = SETTINGS.map(of);
    let curves = [default?, no_hystart?, listing?];
    all.experiments
        .extend(curves.iter().flatten().flat_map(limits));
    all.experiments.push(both(&curves));
    all.experiments.extend(causes(&curves));
    for (curves, (id, title)) in curves.iter().zip([
        ("limit-hystart", "HyStart on"),
        ("limit-no-hystart", "HyStart off"),
        ("limit-listing", "the listing's burst"),
    ]) {
        all.figures.push(surface(id, title, curves));
    }
    all.figures.push(breaks(&curves));
    Ok(())
}

/// The rate left at 80 %, and the share at which the transfer collapses.
fn limits(curve: &Curve) -> [Experiment; 2] {
    let id = |what: &str| {
        format!(
            "pavilanskas/window/{}/{what}",
            arm(curve.window, curve.setting)
        )
    };
    let title = curve.title();
    let breaks = curve.breaks().map_or("at none".into(), Value::from);
    let row = |row: Experiment| row.part(PART).unit("%").setup(SETUP).variant();
    let note = match curve.window {
        Some(_) => {
            "The tolerance is what this window should give, from 1 − 2/W to five points above, not the \
             paper's 85 %."
        }
        None => "",
    };
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
        .tolerance(curve.window.map_or(LIMIT, breaks_at))
        .note(note),
    ]
}

/// The windows that reproduce what the paper saw.
fn both(curves: &[Vec<Curve>; 3]) -> Experiment {
    let fit: Vec<String> = curves
        .iter()
        .flatten()
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
        "the paper does not print its window, and HyStart is not mentioned: this row lists the \
         windows that reproduce both observations and selects none",
    )
}

/// Counts the cells of the surface by what has to change for them not to collapse.
fn causes(curves: &[Vec<Curve>; 3]) -> Vec<Experiment> {
    let mut found = Causes::default();
    let [default, no_hystart, listing] = curves;
    if let Some(widest) = listing.iter().find(|curve| curve.window.is_none()) {
        for ((default, no_hystart), listing) in default.iter().zip(no_hystart).zip(listing) {
            found.add([default, no_hystart, listing], widest);
        }
    }
    let of = format!("of {}", found.cells);
    let row = |id: &str, what: &str, count: usize, note: &str| {
        Experiment::new(format!("pavilanskas/window/cause/{id}"), what, count as f64)
            .part("Why it collapses, HyStart on: windows × shares that leave less than half")
            .unit(of.clone())
            .setup(SETUP)
            .note(note)
    };
    let rises = curves.iter().flatten().map(Curve::rises).sum::<usize>();
    let what = format!("shares at which more dropping leaves {RISE} points more");
    let on_all = format!("of {}", (SHARES.len() - 1) * SETTINGS.len() * WINDOWS.len());
    vec![
        Experiment::new("pavilanskas/window/cause/rises", what, rises as f64)
            .part(PART)
            .unit(on_all)
            .setup(SETUP)
            .note(
                "Below its limit the rate of a window is that of timeouts, and depends on which ACK \
                 passes after a timeout. Nothing here explains these steps further. The timeout \
                 itself is the price of a starved window in all cells, not its cause: 200 ms each, \
                 hundreds in a transfer.",
            ),
        row(
            "hystart",
            "whole, or half at least, without HyStart",
            found.hystart,
            "HyStart ends slow start early, here at 20 segments with any share. The window has to \
             grow from there by the few ACKs that pass, and a small one starves.",
        ),
        row(
            "burst",
            "whole, or half at least, with the burst of the listing",
            found.burst,
            "102400 bytes let 1969 ACKs pass before the first is dropped, 5 kB 96: the window has \
             grown by then. Some of these are whole without HyStart, too.",
        ),
        row(
            "window",
            "the window is too small for the gaps between ACKs",
            found.window,
            "Whole neither without HyStart nor with the burst of the listing, but with that burst \
             and no limit of the window.",
        ),
        row(
            "unexplained",
            "collapsed even with that burst and no limit",
            found.unexplained,
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
fn breaks([default, no_hystart, listing]: &[Vec<Curve>; 3]) -> Figure {
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
         without a point keeps at least half of its rate at every share that was run.",
    )
    .line(Line::new("1 − 2/W", Style::Published, formula))
    .line(Line::new("HyStart on", Style::Line, points(default)))
    .line(Line::new("HyStart off", Style::Line, points(no_hystart)))
    .line(Line::new("the listing's burst", Style::Line, points(listing)))
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
        for setting in SETTINGS {
            for window in WINDOWS {
                let name = arm(window, setting);
                assert!(scenario.arms.iter().any(|arm| arm.name == name), "{name}");
            }
        }
        assert_eq!(scenario.arms.len(), SETTINGS.len() * WINDOWS.len());
        for (held, window) in BREAKS.iter().zip(WINDOWS) {
            let rows = format!("window {}: ", window.unwrap());
            assert!(held.rows.starts_with(&rows), "{}", held.rows);
        }
    }

    fn curve(window: Option<u32>, left: impl Fn(f64) -> f64) -> Curve {
        Curve {
            window,
            setting: Setting::Default,
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
            (step(86.0).breaks(), step(99.5).breaks()),
            (Some(86.0), None)
        );
        let dip = curve(None, |share| if share == 84.0 { 9.0 } else { 23.0 });
        assert_eq!((dip.rises(), step(86.0).rises()), (1, 0));
    }

    #[test]
    fn a_window_that_is_set_breaks_where_it_starves() {
        let breaks = |window, share| holds(breaks_at(window), share);
        assert!(breaks(20, 90.0) && breaks(20, 95.0));
        assert!(!breaks(20, 89.0) && !breaks(20, 96.0));
        assert!(!breaks(10, 86.0), "the paper's limit is another's");
    }

    #[test]
    fn a_cause_is_what_has_to_change() {
        type Left = fn(f64) -> f64;
        let (lost, whole): (Left, Left) = (|_| 8.0, |_| 100.0);
        let of = |curves: [Left; 3], widest: Left| {
            let curves = curves.map(|left| curve(Some(13), left));
            let mut causes = Causes::default();
            causes.add(curves.each_ref(), &curve(None, widest));
            let n = SHARES.len();
            let Causes {
                cells,
                hystart,
                burst,
                window,
                unexplained,
            } = causes;
            [cells, hystart, burst, window, unexplained].map(|count| count / n)
        };
        assert_eq!(of([lost, whole, lost], whole), [1, 1, 0, 0, 0]);
        assert_eq!(of([lost, whole, whole], whole), [1, 1, 1, 0, 0]);
        assert_eq!(of([lost, lost, lost], whole), [1, 0, 0, 1, 0]);
        assert_eq!(of([lost, lost, lost], lost), [1, 0, 0, 0, 1]);
        assert_eq!(of([whole, lost, lost], lost), [0; 5]);
    }
}
