//! Why there is no scenario.

use ackwise_config::{ConfigError, Diagnostic};

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
}

impl ScenarioError {
    /// The mistakes in the file, if that is what it is about.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            ScenarioError::Config(error) => error.diagnostics(),
            ScenarioError::NothingSelected { .. } => &[],
        }
    }
}
