//! Counts the rows of a report by verdict.

use std::fmt;

use serde::Serialize;

use crate::experiment::Experiment;
use crate::verdict::{Basis, Source, Verdict};

/// Number of rows by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counts {
    /// Farther from the published value than the tolerance.
    pub outside: usize,
    /// The sign is not decided by the runs.
    pub undecided: usize,
    /// Not run here.
    pub not_run: usize,
    /// No fair comparison is possible.
    pub not_comparable: usize,
    /// Within the tolerance.
    pub within: usize,
}

impl Counts {
    fn add(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Outside => self.outside += 1,
            Verdict::Undecided => self.undecided += 1,
            Verdict::NotRun => self.not_run += 1,
            Verdict::NotComparable => self.not_comparable += 1,
            Verdict::Within => self.within += 1,
            Verdict::NotPublished => {}
        }
    }

    fn sum(&self) -> usize {
        self.outside + self.undecided + self.not_run + self.not_comparable + self.within
    }
}

/// The verdicts of a report. Derived and calculated values are counted separately, because they are
/// not published or not measured. So are variants, of which one experiment may have many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Measured values with a published one, and experiments not run.
    pub published: Counts,
    /// Variants: one of the values that the paper leaves open.
    pub variants: Counts,
    /// Measured values compared with ones derived from the paper's numbers.
    pub derived: Counts,
    /// Results of arithmetic on the paper's inputs.
    pub calculated: usize,
    /// Measured values of which the paper says nothing.
    pub not_published: usize,
}

impl Summary {
    /// The summary of these rows.
    pub fn of(rows: &[Experiment]) -> Summary {
        let mut summary = Summary::default();
        for row in rows {
            let verdict = row.verdict();
            match (row.basis, row.source) {
                (Basis::Calculated, _) => summary.calculated += 1,
                (_, None) if row.basis != Basis::NotRun => summary.not_published += 1,
                (Basis::Variant, _) => summary.variants.add(verdict),
                (_, Some(Source::Derived)) => summary.derived.add(verdict),
                _ => summary.published.add(verdict),
            }
        }
        summary
    }
}

/// One line, failures first.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Beside published values: {}.", Listed(self.published))?;
        if self.variants.sum() > 0 {
            let listed = Listed(self.variants);
            write!(f, " With what the paper leaves open set: {listed}.")?;
        }
        if self.derived.sum() > 0 {
            let listed = Listed(self.derived);
            write!(
                f,
                " Beside values derived from the paper's, not counted: {listed}."
            )?;
        }
        if self.calculated > 0 {
            write!(f, " Calculated, not counted: {}.", self.calculated)?;
        }
        match self.not_published {
            0 => Ok(()),
            rows => write!(f, " Without a published value: {rows}."),
        }
    }
}

struct Listed(Counts);

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            outside,
            undecided,
            not_run,
            not_comparable,
            within,
        } = self.0;
        write!(
            f,
            "{outside} outside, {undecided} undecided, {not_run} not run, {not_comparable} not \
             comparable, {within} within"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Spread;
    use crate::value::Value;
    use crate::verdict::Tolerance;

    fn row(published: impl Into<Value>, measured: impl Into<Value>) -> Experiment {
        Experiment::new("x", "y", measured).published(published)
    }

    #[test]
    fn counts_keep_apart_what_was_published_derived_and_calculated() {
        let near = Tolerance::Relative { share: 0.1 };
        let rows = [
            row(1.0, 1.0).tolerance(near),
            row(1.0, 2.0).tolerance(near),
            row(1.0, 2.0).tolerance(near).variant(),
            row(1.0, 1.0).tolerance(near).derived(),
            row(1.0, 1.0).tolerance(near).calculated(),
            Experiment::not_run("x", "y", "why").published(1.0),
            Experiment::new("x", "y", 1.0),
            row("more", 1.0)
                .tolerance(Tolerance::Above { bound: 0.0 })
                .spread(Spread::of("seeds", [-1.0, 1.0, 2.0])),
        ];
        let summary = Summary::of(&rows);
        let counts = |outside, not_run, not_comparable, within| Counts {
            outside,
            undecided: 0,
            not_run,
            not_comparable,
            within,
        };
        let published = Counts {
            undecided: 1,
            ..counts(1, 1, 0, 1)
        };
        assert_eq!(summary.published, published);
        assert_eq!(summary.variants, counts(1, 0, 0, 0));
        assert_eq!(summary.derived, counts(0, 0, 0, 1));
        assert_eq!((summary.calculated, summary.not_published), (1, 1));
        let text = summary.to_string();
        let published = "Beside published values: 1 outside, 1 undecided, 1 not run, 0 not \
                         comparable, 1 within.";
        assert!(text.starts_with(published), "{text}");
        assert!(text.contains("Calculated, not counted: 1."), "{text}");
    }
}
