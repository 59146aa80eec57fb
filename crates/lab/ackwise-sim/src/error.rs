//! What can go wrong in the simulator.

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
    /// The threads could not be started.
    #[error("the threads for the runs could not be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}
