//! How far a measured number may be from a published one, and what is said of it then.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// Where the value comes from that a measured one is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The paper prints it, in numbers or in words, or it can be read off a figure.
    Published,
    /// Calculated here from what the paper prints.
    Derived,
}

/// How the value of a row came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Runs of the paper's experiment, as far as its set-up is known.
    #[default]
    Measured,
    /// Runs with a value set that the paper leaves open, one of several.
    Variant,
    /// Arithmetic on the paper's inputs: nothing was run.
    Calculated,
    /// Not run by this command on this engine.
    NotRun,
}

/// How far a measured value may be from the published one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Tolerance {
    /// A share of the published number, 0.03 for 3 %.
    Relative {
        /// The share.
        share: f64,
    },
    /// An amount by which it may be more or less, in the unit of the row.
    Absolute {
        /// The most.
        by: f64,
    },
    /// A factor by which it may be greater or smaller: an order of magnitude.
    Factor {
        /// The greatest factor, above 1.
        factor: f64,
    },
    /// Between two values, both included.
    Range {
        /// Least.
        low: f64,
        /// Greatest.
        high: f64,
    },
    /// Greater than a bound: a sign, or a direction.
    Above {
        /// Excluded.
        bound: f64,
    },
    /// Less than a bound.
    Below {
        /// Excluded.
        bound: f64,
    },
    /// A bound or more.
    AtLeast {
        /// Included.
        bound: f64,
    },
    /// A bound or less.
    AtMost {
        /// Included.
        bound: f64,
    },
}

impl Tolerance {
    /// Whether a measured number lies within it; `None` where the published value that it
    /// refers to is no number.
    pub fn holds(self, published: &Value, measured: f64) -> Option<bool> {
        Some(match self {
            Tolerance::Relative { share } => {
                let value = published.number()?;
                (measured - value).abs() <= share * value.abs()
            }
            Tolerance::Absolute { by } => (measured - published.number()?).abs() <= by,
            Tolerance::Factor { factor } => {
                let times = measured / published.number()?;
                times <= factor && times >= 1.0 / factor
            }
            Tolerance::Range { low, high } => measured >= low && measured <= high,
            Tolerance::Above { bound } => measured > bound,
            Tolerance::Below { bound } => measured < bound,
            Tolerance::AtLeast { bound } => measured >= bound,
            Tolerance::AtMost { bound } => measured <= bound,
        })
    }

    /// Whether it asks for a sign, and one end of an interval has it and the other has not.
    pub(crate) fn splits(self, [low, high]: [f64; 2]) -> bool {
        match self {
            Tolerance::Above { bound } => low <= bound && bound < high,
            Tolerance::Below { bound } => low < bound && bound <= high,
            _ => false,
        }
    }

    /// In words, with the unit of the row.
    pub fn text(self, unit: &str) -> String {
        let with = |v: f64| match unit {
            "" => Value::from(v).to_string(),
            unit => format!("{} {unit}", Value::from(v)),
        };
        match self {
            Tolerance::Relative { share } => format!("± {} %", Value::from(share * 100.0)),
            // Of a share, what is added or taken away are points.
            Tolerance::Absolute { by } if unit == "%" => format!("± {} points", Value::from(by)),
            Tolerance::Absolute { by } => format!("± {}", with(by)),
            Tolerance::Factor { factor } => format!("× or ÷ {}", Value::from(factor)),
            Tolerance::Range { low, high } => format!("{} … {}", Value::from(low), with(high)),
            Tolerance::Above { bound } => format!("> {}", with(bound)),
            Tolerance::Below { bound } => format!("< {}", with(bound)),
            Tolerance::AtLeast { bound } => format!("≥ {}", with(bound)),
            Tolerance::AtMost { bound } => format!("≤ {}", with(bound)),
        }
    }
}

/// How a row stands to what the paper says. The order is that of the count: negative ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Farther from the published value than the tolerance.
    Outside,
    /// A sign is asked for, and the runs have both: they do not tell.
    Undecided,
    /// The paper has this experiment; it was not run here.
    NotRun,
    /// There is a published value, and no fair way to hold this one against it.
    NotComparable,
    /// Within the tolerance.
    Within,
    /// The paper says nothing of it.
    NotPublished,
}

impl Verdict {
    /// As it is written in tables.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Outside => "outside",
            Verdict::Undecided => "undecided",
            Verdict::NotRun => "not run",
            Verdict::NotComparable => "not comparable",
            Verdict::Within => "within",
            Verdict::NotPublished => "",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
