//! Tolerances of the rows: the list that `docs/papers/README.md` prints.

use std::collections::BTreeSet;

use ackwise_report::{Experiment, Tolerance};

/// A tolerance that some rows of a paper have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    /// The rows, in a few words.
    pub rows: &'static str,
    /// How far they may deviate from the paper.
    pub tolerance: Tolerance,
    /// Their unit; empty if they have none.
    pub unit: &'static str,
}

impl Held {
    pub(crate) const fn new(rows: &'static str, tolerance: Tolerance, unit: &'static str) -> Held {
        Held {
            rows,
            tolerance,
            unit,
        }
    }
}

pub(crate) const fn share(share: f64) -> Tolerance {
    Tolerance::Relative { share }
}

pub(crate) const fn by(by: f64) -> Tolerance {
    Tolerance::Absolute { by }
}

pub(crate) const fn range(low: f64, high: f64) -> Tolerance {
    Tolerance::Range { low, high }
}

pub(crate) const fn above(bound: f64) -> Tolerance {
    Tolerance::Above { bound }
}

pub(crate) const fn below(bound: f64) -> Tolerance {
    Tolerance::Below { bound }
}

pub(crate) const fn at_least(bound: f64) -> Tolerance {
    Tolerance::AtLeast { bound }
}

pub(crate) const fn at_most(bound: f64) -> Tolerance {
    Tolerance::AtMost { bound }
}

/// The rows whose tolerance is missing from their paper's list.
pub fn unlisted<'a>(held: &[Held], rows: &'a [Experiment]) -> Vec<&'a str> {
    let listed: BTreeSet<String> = held.iter().map(|h| h.tolerance.text(h.unit)).collect();
    let text = |row: &Experiment| Some(row.tolerance?.text(&row.unit));
    let absent = rows
        .iter()
        .filter(|row| text(row).is_some_and(|text| !listed.contains(&text)));
    absent.map(|row| row.id.as_str()).collect()
}
