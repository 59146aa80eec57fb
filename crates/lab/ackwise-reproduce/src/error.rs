//! Errors of the reproduction.

use crate::Engine;

/// Why a paper could not be reproduced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such paper.
    #[error("there is no paper '{name}'; there are {known}")]
    UnknownPaper {
        /// The requested name.
        name: String,
        /// The papers that exist.
        known: String,
    },
    /// The paper's experiments do not run on that engine.
    #[error("{paper} does not run on {engine}; it runs on {engines}")]
    WrongEngine {
        /// Name of the paper.
        paper: &'static str,
        /// The requested engine.
        engine: Engine,
        /// The engines that it runs on.
        engines: String,
    },
    /// This machine lacks something that the paper needs.
    #[error("{paper} cannot be run here: {why}")]
    Unavailable {
        /// Name of the paper.
        paper: &'static str,
        /// What is missing, and how to get it.
        why: String,
    },
    /// A scenario file is wrong.
    #[error(transparent)]
    Scenario(#[from] ackwise_scenario::ScenarioError),
    /// The engine failed.
    #[error("{scenario}: {source}")]
    Engine {
        /// Name of the scenario.
        scenario: String,
        /// The engine's error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Runs had errors, so their numbers cannot be trusted.
    #[error("{scenario}: run {run} failed: {why}")]
    Run {
        /// Name of the scenario.
        scenario: String,
        /// Id of the run.
        run: String,
        /// The error of the run.
        why: String,
    },
    /// A run's record lacks something that an experiment needs.
    #[error("{scenario}: {what}")]
    Record {
        /// Name of the scenario.
        scenario: String,
        /// What is missing.
        what: String,
    },
    /// The user asked to stop.
    #[error("stopped by a signal")]
    Cancelled,
}
