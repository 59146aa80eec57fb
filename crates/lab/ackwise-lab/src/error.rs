//! Which errors of the laboratory's libraries are bad input.

use std::error::Error;

use ackwise_engines::LabError;
use ackwise_scenario::ScenarioError;
use ackwise_sim::SimError;

/// Whether an error means that the input is bad, so that the command ends with exit code 2.
pub fn is_bad_input(error: &(dyn Error + 'static)) -> bool {
    use ackwise_reproduce::Error as Reproduce;

    error.is::<ScenarioError>()
        || (error.downcast_ref()).is_some_and(ackwise_conform::Error::is_bad_input)
        || matches!(
            error.downcast_ref(),
            Some(Reproduce::UnknownPaper { .. } | Reproduce::WrongEngine { .. })
        )
        || matches!(
            error.downcast_ref(),
            Some(SimError::Invalid(_) | SimError::TooLarge { .. })
        )
        || error.downcast_ref().is_some_and(LabError::is_bad_input)
}
