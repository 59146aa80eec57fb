//! The limit as a function of what the paper leaves open: the sender's window, HyStart, and which of
//! its two bursts the policer had.

use ackwise_report::{Axis, Experiment, Figure, Line, Style, Tolerance, Value};

use super::CC;
use super::limit::{ALL_PASS, COLLAPSED, RATE, WHOLE, rate_text};
use crate::tolerances::range;
use crate::{Error, Lab, Outcome, Reproduced};

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
/// The paper's limit, and five points above it: the first share that collapses depends on how far
/// apart the shares are.
pub(super) const LIMIT: Tolerance = range(85.0, 90.0);

/// The share of dropped ACKs, in %, from which a window starves: 1 − 2/W.
fn starves_from(window: u32) -> f64 {
    100.0 * (1.0 - 2.0 / f64::from(window))
}

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

    /// Whether a window that is set collapses where 1 − 2/W has it, or up to five points above.
    fn breaks_where_it_starves(&self) -> bool {
        let Some((window, share)) = self.window.zip(self.breaks()) else {
            return false;
        };
        let from = starves_from(window);
        (from..=from + 5.0).contains(&share)
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

/// How many cells of the surface (window × share, default setting) collapse, and which change, alone,
/// keeps at least half of the rate. More than one can be enough.
#[derive(Debug, Default, PartialEq, Eq)]
struct Causes {
    cells: usize,
    /// Whole without HyStart.
    hystart: usize,
    /// Whole with the burst of the listing.
    burst: usize,
    /// Whole without a limit of the window.
    window: usize,
    /// With none of these alone.
    none_alone: usize,
    /// The cells of `none_alone` that are whole with the burst of the listing and without a limit of the
    /// window.
    together: usize,
}

impl Causes {
    /// Counts the cells of a window. `free` has no limit of the window; `both` has none either, and the
    /// burst of the listing.
    fn add(&mut self, [default, no_hystart, listing]: [&Curve; 3], free: &Curve, both: &Curve) {
        for at in (0..SHARES.len()).filter(|at| default.collapses(*at)) {
            let whole = |curve: &Curve| !curve.collapses(at);
            let alone = [no_hystart, listing, free].map(whole);
            let [hystart, burst, window] = alone.map(usize::from);
            let none = !alone.contains(&true);
            self.cells += 1;
            self.hystart += hystart;
            self.burst += burst;
            self.window += window;
            self.none_alone += usize::from(none);
            self.together += usize::from(none && whole(both));
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
    all.experiments.push(starved(&curves));
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
        Some(window) => {
            let from = Value::from(starves_from(window));
            format!("This window starves from {from} % on, calculated as 1 − 2/W.")
        }
        None => String::new(),
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
        .tolerance(LIMIT)
        .note(note),
    ]
}

/// How many windows break where they starve. The paper prints no window, so this is beside nothing of it.
fn starved(curves: &[Vec<Curve>; 3]) -> Experiment {
    let set = curves.iter().flatten().filter(|one| one.window.is_some());
    let count = set.filter(|one| one.breaks_where_it_starves()).count();
    let all = SETTINGS.len() * WINDOWS.iter().flatten().count();
    Experiment::new(
        "pavilanskas/window/starved",
        "windows that break where they starve",
        count as f64,
    )
    .part(PART)
    .unit(format!("of {all}"))
    .setup(SETUP)
    .note(
        "From 1 − 2/W to five points above, for each window and setting: whether this formula explains \
         the limit, and not whether it is the paper's.",
    )
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
    let [free, both] =
        [default, listing].map(|curves| curves.iter().find(|it| it.window.is_none()));
    if let Some((free, both)) = free.zip(both) {
        for ((default, no_hystart), listing) in default.iter().zip(no_hystart).zip(listing) {
            found.add([default, no_hystart, listing], free, both);
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
             grown by then. Some of these are whole with another change alone, too.",
        ),
        row(
            "window",
            "whole, or half at least, without a limit of the window",
            found.window,
            "The window is too small for the gaps between ACKs. HyStart and the burst are as in the \
             cell.",
        ),
        row(
            "none-alone",
            "collapsed with each of these changes alone",
            found.none_alone,
            &format!(
                "Without a limit of the window and with the burst of the listing together, {} of these \
                 are whole, or half at least.",
                found.together
            ),
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
    let windows = WINDOWS.iter().flatten();
    let formula = windows.map(|window| (f64::from(*window), starves_from(*window)));
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
    use ackwise_report::Verdict;
    use ackwise_scenario::Scenario;

    use super::*;

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

    fn breaks_at(window: Option<u32>, at: f64) -> Curve {
        curve(window, move |share| if share < at { 100.0 } else { 8.0 })
    }

    #[test]
    fn a_window_is_judged_by_what_the_paper_prints() {
        let verdict = |window, at| {
            let [_, breaks] = limits(&breaks_at(window, at));
            assert_eq!(breaks.published, Some("above 85 %".into()));
            breaks.verdict()
        };
        for window in [Some(10), Some(20), None] {
            assert_eq!(verdict(window, 84.0), Verdict::Outside);
            assert_eq!(verdict(window, 86.0), Verdict::Within);
            assert_eq!(verdict(window, 90.0), Verdict::Within);
            assert_eq!(verdict(window, 95.0), Verdict::Outside);
            assert_eq!(verdict(window, 99.5), Verdict::Outside);
        }
    }

    #[test]
    fn where_a_window_starves_is_counted_beside_no_published_value() {
        let starves = |window, at| breaks_at(window, at).breaks_where_it_starves();
        assert!(starves(Some(20), 90.0) && starves(Some(20), 95.0));
        assert!(!starves(Some(20), 88.0) && !starves(Some(20), 96.0));
        assert!(!starves(None, 90.0) && !starves(Some(20), 99.5));
        let of = |at| vec![breaks_at(Some(20), at), breaks_at(None, at)];
        let row = starved(&[of(91.0), of(95.0), of(85.0)]);
        assert_eq!(
            (row.measured.number(), row.unit.as_str()),
            (Some(2.0), "of 36")
        );
        assert_eq!(row.verdict(), Verdict::NotPublished);
    }

    #[test]
    fn a_cause_is_the_change_that_is_enough_alone() {
        type Left = fn(f64) -> f64;
        let (lost, whole): (Left, Left) = (|_| 8.0, |_| 100.0);
        let of = |curves: [Left; 3], free: Left, both: Left| {
            let curves = curves.map(|left| curve(Some(13), left));
            let [free, both] = [free, both].map(|left| curve(None, left));
            let mut causes = Causes::default();
            causes.add(curves.each_ref(), &free, &both);
            let n = SHARES.len();
            let Causes {
                cells,
                hystart,
                burst,
                window,
                none_alone,
                together,
            } = causes;
            [cells, hystart, burst, window, none_alone, together].map(|count| count / n)
        };
        assert_eq!(of([lost, whole, lost], lost, whole), [1, 1, 0, 0, 0, 0]);
        assert_eq!(of([lost, whole, whole], lost, whole), [1, 1, 1, 0, 0, 0]);
        assert_eq!(of([lost, lost, lost], whole, whole), [1, 0, 0, 1, 0, 0]);
        assert_eq!(of([lost, lost, lost], lost, whole), [1, 0, 0, 0, 1, 1]);
        assert_eq!(of([lost, lost, lost], lost, lost), [1, 0, 0, 0, 1, 0]);
        assert_eq!(of([whole, lost, lost], lost, lost), [0; 6]);
    }
}
