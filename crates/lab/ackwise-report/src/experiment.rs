//! A row of a reproduction: what a paper printed, what was measured here, and how the two compare.

use serde::{Deserialize, Serialize};

use crate::value::Value;
use crate::verdict::{Basis, Source, Tolerance, Verdict};

/// The spread of a number over what the paper leaves open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// What was varied, e.g. `start offsets of B, 0 … 2 s`.
    pub over: String,
    /// Number of values.
    pub count: usize,
    /// Median.
    pub median: f64,
    /// Minimum.
    pub min: f64,
    /// Maximum.
    pub max: f64,
    /// 10th percentile, nearest rank.
    pub p10: f64,
    /// 90th percentile, nearest rank.
    pub p90: f64,
}

impl Spread {
    /// Summarizes values in any order. Values that are not finite are left out; `None` if nothing
    /// is left.
    pub fn of(over: &str, values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        use ackwise_scenario::record::nearest_rank;

        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        Some(Spread {
            over: over.to_owned(),
            count,
            median: (*sorted.get(count.checked_sub(1)? / 2)? + sorted[count / 2]) / 2.0,
            min: sorted[0],
            max: sorted[count - 1],
            p10: nearest_rank(&sorted, 0.10),
            p90: nearest_rank(&sorted, 0.90),
        })
    }
}

/// A number (or finding) of a paper, and our measurement of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Unique and stable: `PAPER/…`.
    pub id: String,
    /// The part of the paper: `Table I`, `Fig. 2`.
    pub part: String,
    /// What is measured, in a few words.
    pub what: String,
    /// Where and how: engine, scenario, and the relevant parts of the set-up.
    pub setup: String,
    /// The value in the paper; `null` if it has none.
    pub published: Option<Value>,
    /// The source of that value; `null` if there is none.
    pub source: Option<Source>,
    /// How far a faithful reproduction may be from that value; `null` if no tolerance is stated.
    pub tolerance: Option<Tolerance>,
    /// How the measured value was obtained.
    pub basis: Basis,
    /// The value measured here.
    pub measured: Value,
    /// The unit of both `published` and `measured`; empty for words.
    pub unit: String,
    /// The spread over what the paper leaves open; `null` for a single exact run.
    pub spread: Option<Spread>,
    /// 95 % confidence interval of the mean, if `measured` is a mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// What explains a difference, or what the number depends on.
    pub note: String,
    /// Why the value cannot be compared with the published one, or was not run; otherwise empty.
    #[serde(skip)]
    pub incomparable: String,
}

impl Experiment {
    /// A measured value without a published one, and without a note so far.
    pub fn new(id: impl Into<String>, what: impl Into<String>, measured: impl Into<Value>) -> Self {
        Experiment {
            id: id.into(),
            part: String::new(),
            what: what.into(),
            setup: String::new(),
            published: None,
            source: None,
            tolerance: None,
            basis: Basis::Measured,
            measured: measured.into(),
            unit: String::new(),
            spread: None,
            ci95: None,
            note: String::new(),
            incomparable: String::new(),
        }
    }

    /// An experiment of the paper that is not run here, and the reason.
    pub fn not_run(
        id: impl Into<String>,
        what: impl Into<String>,
        why: impl Into<String>,
    ) -> Experiment {
        Experiment {
            basis: Basis::NotRun,
            incomparable: why.into(),
            ..Experiment::new(id, what, "not run")
        }
    }

    /// Sets the part of the paper to which it belongs.
    pub fn part(mut self, part: impl Into<String>) -> Self {
        self.part = part.into();
        self
    }

    /// Sets the value that the paper prints.
    pub fn published(mut self, value: impl Into<Value>) -> Self {
        self.published = Some(value.into());
        self.source = Some(Source::Published);
        self
    }

    /// Marks the published value as calculated from what the paper prints, but not printed there.
    pub fn derived(mut self) -> Self {
        self.source = self.published.as_ref().map(|_| Source::Derived);
        self
    }

    /// Sets how far it may be from the published value.
    pub fn tolerance(mut self, tolerance: Tolerance) -> Self {
        self.tolerance = Some(tolerance);
        self
    }

    /// Sets the tolerance as a share of the published number.
    pub fn within_share(self, share: f64) -> Self {
        self.tolerance(Tolerance::Relative { share })
    }

    /// Sets the tolerance in the row's unit.
    pub fn within_by(self, by: f64) -> Self {
        self.tolerance(Tolerance::Absolute { by })
    }

    /// Marks the row as not comparable with the published value, with the reason.
    pub fn not_comparable(mut self, why: impl Into<String>) -> Self {
        self.incomparable = why.into();
        self
    }

    /// Marks the value as arithmetic on the paper's inputs.
    pub fn calculated(mut self) -> Self {
        self.basis = Basis::Calculated;
        self
    }

    /// Marks the row as a variant: one of several values of something that the paper leaves open, or
    /// another set-up than the paper's.
    pub fn variant(mut self) -> Self {
        self.basis = Basis::Variant;
        self
    }

    /// The range of the measured value: the confidence interval of a mean, or else p10 to p90.
    fn range(&self) -> Option<[f64; 2]> {
        let spread = self.spread.as_ref().map(|spread| [spread.p10, spread.p90]);
        self.ci95.or(spread)
    }

    /// The verdict on the measured value, compared with the published one.
    pub fn verdict(&self) -> Verdict {
        judge(self).0
    }

    /// The reason for the verdict; empty if it is `within`.
    pub fn reason(&self) -> &str {
        judge(self).1
    }

    /// Sets the unit of both numbers.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Sets where and how it was measured.
    pub fn setup(mut self, setup: impl Into<String>) -> Self {
        self.setup = setup.into();
        self
    }

    /// Sets the spread.
    pub fn spread(mut self, spread: Option<Spread>) -> Self {
        self.spread = spread;
        self
    }

    /// Sets the confidence interval of the mean.
    pub fn ci95(mut self, low: f64, high: f64) -> Self {
        self.ci95 = Some([low, high]);
        self
    }

    /// Sets a note that explains a difference.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// The verdict on a row and, unless it is within, the reason.
fn judge(row: &Experiment) -> (Verdict, &str) {
    if row.basis == Basis::NotRun {
        return (Verdict::NotRun, &row.incomparable);
    }
    let Some(published) = &row.published else {
        return (
            Verdict::NotPublished,
            "the paper prints no value to compare it with",
        );
    };
    if row.basis == Basis::Calculated {
        let why = match row.incomparable.as_str() {
            "" => "calculated from what the paper prints: nothing was measured",
            why => why,
        };
        return (Verdict::NotComparable, why);
    }
    if !row.incomparable.is_empty() {
        return (Verdict::NotComparable, &row.incomparable);
    }
    let Some(tolerance) = row.tolerance else {
        return (Verdict::NotComparable, "no tolerance is stated");
    };
    // A number was expected and none was measured, so the experiment failed.
    let Some(measured) = row.measured.number() else {
        return (Verdict::Outside, why(row, "it has no value"));
    };
    if row.range().is_some_and(|range| tolerance.splits(range)) {
        let why = match row.ci95 {
            Some(_) => "the confidence interval of the mean has the bound in it",
            None => "p10 and p90 of the runs lie on both sides of the bound",
        };
        return (Verdict::Undecided, why);
    }
    match tolerance.holds(published, measured) {
        Some(true) => (Verdict::Within, ""),
        Some(false) => (Verdict::Outside, why(row, "farther off than the tolerance")),
        None => (
            Verdict::NotComparable,
            "the tolerance needs a published number, but this is a word",
        ),
    }
}

/// The reason why a row is outside: its note, or `plain` if it has none.
fn why<'a>(row: &'a Experiment, plain: &'static str) -> &'a str {
    match row.note.as_str() {
        "" => plain,
        note => note,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(published: impl Into<Value>, measured: impl Into<Value>) -> Experiment {
        Experiment::new("x", "y", measured).published(published)
    }

    #[test]
    fn each_tolerance_has_an_inside_and_an_outside() {
        for (tolerance, inside, outside) in [
            (Tolerance::Relative { share: 0.1 }, 109.0, 111.0),
            (Tolerance::Absolute { by: 5.0 }, 95.0, 94.0),
            (Tolerance::Factor { factor: 2.0 }, 50.0, 49.0),
            (
                Tolerance::Range {
                    low: 0.0,
                    high: 1.0,
                },
                1.0,
                1.01,
            ),
            (Tolerance::Above { bound: 0.0 }, 0.1, 0.0),
            (Tolerance::Below { bound: 0.0 }, -0.1, 0.0),
            (Tolerance::AtLeast { bound: 9.0 }, 9.0, 8.9),
            (Tolerance::AtMost { bound: 9.0 }, 9.0, 9.1),
        ] {
            let verdict = |v: f64| row(100.0, v).tolerance(tolerance).verdict();
            assert_eq!(verdict(inside), Verdict::Within, "{tolerance:?}");
            assert_eq!(verdict(outside), Verdict::Outside, "{tolerance:?}");
        }
    }

    #[test]
    fn a_negative_published_number_has_its_share_on_both_sides() {
        let within = |v: f64| {
            let row = row(-20.0, v).tolerance(Tolerance::Relative { share: 0.2 });
            row.verdict() == Verdict::Within
        };
        assert!(within(-24.0) && within(-16.0));
        assert!(!within(-25.0) && !within(20.0));
    }

    #[test]
    fn what_has_no_number_is_outside_and_what_cannot_be_compared_says_why() {
        let near = Tolerance::Relative { share: 0.5 };
        let lost = row(38.3, "does not end").tolerance(near);
        assert_eq!(lost.verdict(), Verdict::Outside);
        assert_eq!(lost.reason(), "it has no value");
        assert_eq!(
            row(1.0, f64::NAN).tolerance(near).verdict(),
            Verdict::Outside
        );
        let word = row("about the same", 1.0).tolerance(near);
        assert_eq!(word.verdict(), Verdict::NotComparable);
        let other = row(30.0, 30.0)
            .tolerance(near)
            .not_comparable("another CPU");
        assert_eq!(other.verdict(), Verdict::NotComparable);
        assert_eq!(other.reason(), "another CPU");
        let unstated = row(30.0, 30.0);
        assert_eq!(unstated.verdict(), Verdict::NotComparable);
        assert_eq!(unstated.reason(), "no tolerance is stated");
    }

    #[test]
    fn a_sign_that_the_runs_do_not_tell_is_no_verdict() {
        let sign = |low, high| {
            let row = row("more", (low + high) / 2.0).ci95(low, high);
            row.tolerance(Tolerance::Above { bound: 0.0 }).verdict()
        };
        assert_eq!(sign(0.1, 0.9), Verdict::Within);
        assert_eq!(sign(-0.9, -0.1), Verdict::Outside);
        assert_eq!(sign(-0.1, 0.9), Verdict::Undecided);
        let near = row(1.0, 0.9).ci95(-0.1, 1.9).within_by(0.2);
        assert_eq!(near.verdict(), Verdict::Within, "a number, and no sign");
    }

    #[test]
    fn a_sign_on_which_runs_differ_is_undecided() {
        let sign = |values: [f64; 10]| {
            let spread = Spread::of("seeds", values);
            let median = spread.as_ref().map_or(f64::NAN, |spread| spread.median);
            let row = row("more", median).spread(spread);
            row.tolerance(Tolerance::Above { bound: 1.0 })
        };
        let most = sign([0.5, 0.6, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8]);
        assert_eq!(most.verdict(), Verdict::Undecided);
        let sides = "p10 and p90 of the runs lie on both sides of the bound";
        assert_eq!(most.reason(), sides);
        // p10 of ten values is the minimum, so no run is at the bound or below.
        let all = sign([1.1, 1.1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8]);
        assert_eq!(all.verdict(), Verdict::Within);
        assert_eq!(sign([1.0; 10]).verdict(), Verdict::Outside);
        // The confidence interval of the mean decides, whatever single runs do.
        assert_eq!(most.ci95(1.1, 1.5).verdict(), Verdict::Within);
        let number = row(1.4, 1.35).spread(Spread::of("seeds", [0.5, 1.35, 1.8]));
        assert_eq!(number.within_by(0.1).verdict(), Verdict::Within);
    }

    #[test]
    fn what_is_calculated_or_was_not_run_is_never_within() {
        let near = Tolerance::Relative { share: 0.5 };
        let sum = row(50.0, 50.0).tolerance(near).calculated();
        assert_eq!(sum.verdict(), Verdict::NotComparable);
        let absent = Experiment::not_run("x", "y", "needs a router").published(30.0);
        assert_eq!(absent.verdict(), Verdict::NotRun);
        assert_eq!(absent.reason(), "needs a router");
        assert_eq!(
            Experiment::new("x", "y", 1.0).verdict(),
            Verdict::NotPublished
        );
    }

    #[test]
    fn a_spread_is_of_what_is_finite() {
        assert_eq!(Spread::of("", []), None);
        let two = Spread::of("", [3.0, 1.0, f64::INFINITY]).unwrap();
        assert_eq!(
            (two.median, two.min, two.max, two.count),
            (2.0, 1.0, 3.0, 2)
        );
    }
}
