//! Errors of a scenario.

use std::path::PathBuf;
use std::time::Duration;

use ackwise_config::{ConfigError, Diagnostic};

use crate::engine::Engine;

/// The reason why there is no scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file could not be read, or has mistakes.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The selection matches nothing in the scenario.
    #[error("no {what} of this scenario matches '{pattern}'; there are: {known}")]
    NothingSelected {
        /// `arm`, `cc` or `seed`.
        what: &'static str,
        /// The pattern.
        pattern: String,
        /// The values that exist.
        known: String,
    },
    /// The selection is for other engines only.
    #[error(
        "{}: nothing that was selected is for '{engine}'\n  choose other arms, congestion \
         controls, seeds or points, or another engine", file.display()
    )]
    NothingForEngine {
        /// The scenario's file.
        file: PathBuf,
        /// The engine.
        engine: Engine,
    },
    /// The duration that should replace that of the file is too short or too long.
    #[error("a duration of {duration:?} is {}", violated(*duration, *least, *most))]
    Duration {
        /// The duration.
        duration: Duration,
        /// The shortest one.
        least: Duration,
        /// The longest one.
        most: Duration,
    },
    /// A path to a value that should change does not exist.
    #[error("'{path}' does not name a value: {why}")]
    NoSuchPath {
        /// The path.
        path: String,
        /// The part that was not found.
        why: String,
    },
}

/// The bound that a duration violates. The other one is not named: what reads the duration may have
/// a narrower one.
fn violated(duration: Duration, least: Duration, most: Duration) -> String {
    match duration < least {
        true => format!("too short; choose at least {least:?}"),
        false => format!("too long; choose at most {most:?}"),
    }
}

impl ScenarioError {
    /// The mistakes in the file, if the error is about them.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            ScenarioError::Config(error) => error.diagnostics(),
            _ => &[],
        }
    }
}
