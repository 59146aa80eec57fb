//! What a run will take, before it starts.

use ackwise_scenario::{App, RunSpec, Scenario};

use crate::SimError;
use crate::run::RunOptions;

pub(crate) fn check(
    _scenario: &Scenario,
    _runs: &[RunSpec],
    _options: &RunOptions,
    _threads: usize,
) -> Result<(), SimError> {
    let _ = App::name;
    Ok(())
}
