//! Errors in a policy's name or parameters.

use std::fmt;

/// An error in a policy's name or parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no such policy.
    #[error("there is no policy {name:?}; the policies are {}", known.join(", "))]
    UnknownPolicy {
        /// The name that was asked for.
        name: String,
        /// The names of all policies.
        known: Vec<&'static str>,
    },
    /// The policy has no such parameter.
    #[error("policy {policy} has no parameter {name:?}; {}", Known(known))]
    UnknownParam {
        /// The policy.
        policy: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names of its parameters.
        known: Vec<&'static str>,
    },
    /// The value is not a number.
    #[error("{policy}: {name} must be a whole number, not {value:?}")]
    NotANumber {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: String,
    },
    /// The value is outside the parameter's range.
    #[error("{policy}: {name} must be from {min} to {max}{unit}, not {value}",
        unit = if unit.is_empty() { String::new() } else { format!(" {unit}") })]
    OutOfRange {
        /// The policy.
        policy: &'static str,
        /// The parameter.
        name: &'static str,
        /// What was given.
        value: u64,
        /// The smallest value it may have.
        min: u32,
        /// The largest value it may have.
        max: u32,
        /// Its unit.
        unit: &'static str,
    },
    /// A part of `policy:name=value,...` has no `=`.
    #[error("{part:?} is not name=value (a policy is written every-n:n=8,warm=0)")]
    NotAPair {
        /// The part.
        part: String,
    },
}

impl ConfigError {
    /// How to fix it, in one line: the name that was probably meant, or where the names are listed.
    #[must_use]
    pub fn advice(&self) -> String {
        match self {
            ConfigError::UnknownPolicy { name, known } => match nearest(name, known) {
                Some(near) => format!("did you mean {near}?"),
                None => "`ackwise policies` says what each does".to_owned(),
            },
            ConfigError::UnknownParam {
                policy,
                name,
                known,
            } => match nearest(name, known) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("`ackwise policies {policy}` lists names and bounds"),
            },
            ConfigError::NotANumber { policy, .. } | ConfigError::OutOfRange { policy, .. } => {
                format!("`ackwise policies {policy}` lists names and bounds")
            }
            ConfigError::NotAPair { .. } => {
                "write name=value, with a comma between two of them".to_owned()
            }
        }
    }
}

/// The known name that was probably meant.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let close = |k: &&&str| strsim::damerau_levenshtein(name, k) <= 1 + k.chars().count() / 3;
    let near = known.iter().filter(close);
    near.min_by_key(|k| strsim::damerau_levenshtein(name, k))
        .copied()
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

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_recognised_and_nonsense_is_not() {
        let near = |name| nearest(name, &["adaptive", "every-n", "tack"]);
        assert_eq!(near("adaptiv"), Some("adaptive"));
        assert_eq!(near("every_n"), Some("every-n"));
        assert_eq!(near("frobnicate"), None);
    }
}
