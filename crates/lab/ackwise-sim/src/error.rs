//! Errors of the simulator.

use std::path::Path;

use ackwise_scenario::{Flow, RunSpec, Scenario};

use crate::tcp;

/// Why a scenario was not simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A place in the scenario file asks for what the simulator does not have.
    #[error(transparent)]
    Invalid(#[from] ackwise_scenario::ScenarioError),
    /// A run would take more than a limit allows.
    #[error(
        "{}: run {run} would take about {needed} {what}, and the limit is {limit}\n  {hint}",
        file.display()
    )]
    TooLarge {
        /// The scenario's file.
        file: Box<Path>,
        /// Id of the run.
        run: String,
        /// What the run takes, e.g. `events`.
        what: &'static str,
        /// How much it needs.
        needed: String,
        /// How much the limit allows.
        limit: String,
        /// How to avoid the error.
        hint: &'static str,
    },
    /// The caller has a policy for an arm that does not exist.
    #[error("there is no arm '{arm}' for a policy of your own; there are {arms}")]
    NoSuchArm {
        /// The arm that the caller named.
        arm: String,
        /// The arms that exist.
        arms: String,
    },
    /// The threads could not be started.
    #[error("the threads for the runs could not be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

impl SimError {
    /// An error at a path of the scenario file; `what` continues the sentence after the name.
    pub(crate) fn at(scenario: &Scenario, path: &str, name: &str, what: &str) -> SimError {
        let place = scenario.place_of(path);
        scenario.error_at(&place, format!("'{name}' {what}")).into()
    }

    /// An error at a path as one run sees it: where the run's arm or its point sets the path, or
    /// else where the file does. `what` continues the sentence after the name.
    pub(crate) fn in_run(
        scenario: &Scenario,
        spec: &RunSpec,
        path: &str,
        name: &str,
        what: &str,
    ) -> SimError {
        let place = scenario.place_in(spec, path);
        scenario.error_at(&place, format!("'{name}' {what}")).into()
    }

    /// An error about an arm; an arm with several values expands to several. It points to the first place
    /// where the name is a quoted value or a key. `what` continues the sentence after the name.
    pub(crate) fn about(scenario: &Scenario, name: &str, what: &str) -> SimError {
        let text = &scenario.source.text;
        let quoted = format!("\"{name}\"");
        let at = text.find(&quoted).or_else(|| text.find(name)).unwrap_or(0);
        scenario
            .error_at(&(at..at + name.len()), format!("'{name}' {what}"))
            .into()
    }

    /// An error about the TCP of a flow.
    pub(crate) fn no_model(scenario: &Scenario, flow: &Flow, error: &tcp::ConfigError) -> SimError {
        let what = format!("cannot be modelled: {error}");
        SimError::at(scenario, &format!("flow.{}", flow.name), &flow.name, &what)
    }
}
