//! Why there is no scenario.

use std::path::PathBuf;

use ackwise_config::{ConfigError, Diagnostic};

use crate::engine::Engine;

/// Why there is no scenario.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file could not be read, or has mistakes.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nothing of the scenario was selected.
    #[error("no {what} of this scenario matches '{pattern}'; there are: {known}")]
    NothingSelected {
        /// `arm`, `cc` or `seed`.
        what: &'static str,
        /// The pattern.
        pattern: String,
        /// What could have been selected.
        known: String,
    },
    /// What was selected is for other engines.
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
    /// A path that should change a value names none.
    #[error("'{path}' does not name a value: {why}")]
    NoSuchPath {
        /// The path.
        path: String,
        /// What it does not find.
        why: String,
    },
}

impl ScenarioError {
    /// The mistakes in the file, if that is what it is about.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            ScenarioError::Config(error) => error.diagnostics(),
            _ => &[],
        }
    }
}
