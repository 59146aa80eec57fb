//! Tolerances between measured and published numbers, and the verdicts on them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::value::Value;

/// The source of the value with which a measured one is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Printed in the paper, in numbers or words, or read off a figure.
    Published,
    /// Calculated here from what the paper prints.
    Derived,
}

/// How the value of a row was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// Measured in runs of the paper's experiment, as far as its set-up is known.
    #[default]
    Measured,
    /// Measured in runs with one of several possible values for what the paper leaves open, or in
    /// another set-up than the paper's.
    Variant,
    /// Arithmetic on the paper's inputs, without a run.
    Calculated,
    /// Not run by this command on this engine.
    NotRun,
}

/// How far a measured value may be from the published one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Tolerance {
    /// A share of the published number, e.g. 0.03 for 3 %.
    Relative {
        /// The share.
        share: f64,
    },
    /// An absolute difference in the unit of the row.
    Absolute {
        /// The largest difference.
        by: f64,
    },
    /// A factor by which it may be larger or smaller, such as an order of magnitude.
    Factor {
        /// The largest factor, above 1.
        factor: f64,
    },
    /// Between two values, both included.
    Range {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Above a bound: a sign, or a direction.
    Above {
        /// The bound, excluded.
        bound: f64,
    },
    /// Below a bound.
    Below {
        /// The bound, excluded.
        bound: f64,
    },
    /// At least a bound.
    AtLeast {
        /// The bound, included.
        bound: f64,
    },
    /// At most a bound.
    AtMost {
        /// The bound, included.
        bound: f64,
    },
}

impl Tolerance {
    /// Whether a measured number is within the tolerance; `None` if the tolerance needs a published
    /// number and the value is not one.
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

    /// Whether the tolerance asks for a sign that only one end of an interval has.
    pub(crate) fn splits(self, [low, high]: [f64; 2]) -> bool {
        match self {
            Tolerance::Above { bound } => low <= bound && bound < high,
            Tolerance::Below { bound } => low < bound && bound <= high,
            _ => false,
        }
    }

    /// The tolerance in words, with the unit of the row.
    pub fn text(self, unit: &str) -> String {
        let with = |v: f64| match unit {
            "" => Value::from(v).to_string(),
            unit => format!("{} {unit}", Value::from(v)),
        };
        match self {
            Tolerance::Relative { share } => format!("± {} %", Value::from(share * 100.0)),
            // For a percentage, an absolute difference is in percentage points.
            Tolerance::Absolute { by } if unit == "%" => format!("± {} points", Value::from(by)),
            Tolerance::Absolute { by } => format!("± {}", with(by)),
            Tolerance::Factor { factor } => format!("× or ÷ {}", Value::from(factor)),
            Tolerance::Range { low, high } if low == high => with(low),
            Tolerance::Range { low, high } => format!("{} … {}", Value::from(low), with(high)),
            Tolerance::Above { bound } => format!("> {}", with(bound)),
            Tolerance::Below { bound } => format!("< {}", with(bound)),
            Tolerance::AtLeast { bound } => format!("≥ {}", with(bound)),
            Tolerance::AtMost { bound } => format!("≤ {}", with(bound)),
        }
    }
}

/// The verdict on a row compared with the paper. The order is that of the count: negative ones
/// first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Farther from the published value than the tolerance.
    Outside,
    /// A sign is asked for, and the runs have both, so they do not decide it.
    Undecided,
    /// The paper has this experiment; it was not run here.
    NotRun,
    /// There is a published value, but no fair way to compare this one with it.
    NotComparable,
    /// Within the tolerance.
    Within,
    /// The paper says nothing of it.
    NotPublished,
}

impl Verdict {
    /// The name used in tables.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_one_value_is_one_value() {
        let range = |low, high| Tolerance::Range { low, high };
        assert_eq!(range(5.0, 5.0).text("ms"), "5 ms");
        assert_eq!(range(5.0, 5.5).text("ms"), "5 … 5.5 ms");
        assert_eq!(range(0.4, 0.4).text(""), "0.4");
    }
}
