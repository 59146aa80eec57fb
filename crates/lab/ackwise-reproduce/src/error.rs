//! What can go wrong.

use crate::Engine;

/// Why a paper could not be reproduced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such paper.
    #[error("there is no paper '{name}'; there are {known}")]
    UnknownPaper {
        /// As it was asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The paper's experiments do not run on that engine.
    #[error("{paper} does not run on {engine}; it runs on {engines}")]
    WrongEngine {
        /// The paper.
        paper: &'static str,
        /// As it was asked for.
        engine: Engine,
        /// Those that it runs on.
        engines: String,
    },
    /// This machine lacks what it needs.
    #[error("{paper} cannot be run here: {why}")]
    Unavailable {
        /// The paper.
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
        /// Which scenario it ran.
        scenario: String,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Runs had errors; their numbers are not to be trusted.
    #[error("{scenario}: run {run} failed: {why}")]
    Run {
        /// Which scenario.
        scenario: String,
        /// Which run.
        run: String,
        /// What it said.
        why: String,
    },
    /// A run's record lacks what an experiment is derived from.
    #[error("{scenario}: {what}")]
    Record {
        /// Which scenario.
        scenario: String,
        /// What is missing.
        what: String,
    },
    /// Somebody asked to stop.
    #[error("stopped by a signal")]
    Cancelled,
}
