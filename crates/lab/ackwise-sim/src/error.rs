//! What can go wrong in the simulator.

use ackwise_scenario::{Flow, Scenario};

use crate::tcp;

/// Why a scenario was not simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A place in the scenario file asks for what the simulator does not have.
    #[error(transparent)]
    Invalid(#[from] ackwise_scenario::ScenarioError),
    /// It would take more than a limit allows.
    #[error("run {run} would take about {needed} {what}, and the limit is {limit}\n  {mend}")]
    TooLarge {
        /// The run.
        run: String,
        /// What it takes, e.g. `events`.
        what: &'static str,
        /// How much.
        needed: String,
        /// How much is allowed.
        limit: String,
        /// What to do about it.
        mend: String,
    },
    /// The caller has a policy for an arm that there is not.
    #[error("there is no arm '{arm}' for a policy of your own; there are {arms}")]
    NoSuchArm {
        /// What was asked for.
        arm: String,
        /// What there is.
        arms: String,
    },
    /// The threads could not be started.
    #[error("the threads for the runs could not be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

impl SimError {
    /// An error about what the file says at a path; `what` goes on after the name.
    pub(crate) fn at(scenario: &Scenario, path: &str, name: &str, what: &str) -> SimError {
        let place = scenario.place_of(path);
        scenario.error_at(&place, format!("'{name}' {what}")).into()
    }

    /// An error about an arm, which several values make several of; it points to where the name
    /// stands first as a quoted value or a key. `what` goes on after the name.
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
