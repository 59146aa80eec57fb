//! Decides which errors of the lab's libraries mean bad input.

use std::error::Error;

use ackwise_scenario::ScenarioError;
use ackwise_sim::SimError;

use crate::system;

/// Whether an error means bad input, for which the command ends with exit code 2.
pub fn is_bad_input(error: &(dyn Error + 'static)) -> bool {
    error.is::<ScenarioError>()
        || matches!(
            error.downcast_ref(),
            Some(SimError::Invalid(_) | SimError::TooLarge { .. })
        )
        || system::is_bad_input(error)
}
