//! What can be wrong with a policy's name or parameters.

use std::fmt;

/// What is wrong with a policy's name or parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no such policy.
    #[error("there is no policy {name:?}; there are {}", known.join(", "))]
    UnknownPolicy {
        /// The name that was asked for.
        name: String,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// The policy has no such parameter.
    #[error("policy {policy} has no parameter {name:?}; {}", Known(known))]
    UnknownParam {
        /// The policy.
        policy: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names it has.
        known: Vec<&'static str>,
    },
    /// The value is no number.
    #[error("{policy}: {name} must be a whole number, not {value:?}")]
    NotANumber {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: String,
    },
    /// The value is outside of what the parameter may be.
    #[error("{policy}: {name} must be from {min} to {max}{unit}, not {value}",
        unit = if unit.is_empty() { String::new() } else { format!(" {unit}") })]
    OutOfRange {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: u64,
        /// The least it may be.
        min: u32,
        /// The most it may be.
        max: u32,
        /// Its unit.
        unit: &'static str,
    },
    /// A part of `policy:name=value,...` that has no `=`.
    #[error("{part:?} is not name=value (a policy is written every-n:n=8,warm=0)")]
    NotAPair {
        /// The part.
        part: String,
    },
}

struct Known<'a>(&'a [&'static str]);

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("it has none");
        }
        write!(f, "it has {}", self.0.join(", "))
    }
}
