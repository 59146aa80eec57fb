//! Policies of the caller, for trying one out before it is written in C.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use ackwise_policy::HostedPolicy;
use ackwise_scenario::{Environment, Scenario};

use crate::error::SimError;

/// A policy of the caller. It decides at the interfaces where an arm has a policy, in place
/// of that policy; the contract around it is the same.
pub trait OwnPolicy: fmt::Debug + Send + Sync {
    /// Name of the policy in the record.
    fn name(&self) -> String;

    /// A fresh policy for a new flow.
    fn for_flow(&self) -> Box<dyn HostedPolicy>;
}

/// The callers' policies, by the names of the arms in which they decide.
pub type OwnPolicies = BTreeMap<String, Arc<dyn OwnPolicy>>;

/// Checks that each arm for which the caller has a policy has a place for it.
pub(crate) fn check(scenario: &Scenario, policies: &OwnPolicies) -> Result<(), SimError> {
    for name in policies.keys() {
        let Some(arm) = scenario.arms.iter().find(|arm| arm.name == *name) else {
            let arms: Vec<&str> = scenario.arms.iter().map(|arm| arm.name.as_str()).collect();
            return Err(SimError::NoSuchArm {
                arm: name.clone(),
                arms: arms.join(", "),
            });
        };
        let stack = |at: &&ackwise_scenario::Placement| at.environment == Environment::Stack;
        if arm.placements.is_empty() || arm.placements.iter().any(|at| stack(&at)) {
            let what = "has no interface at which a policy of your own could run; give it \
                        `policy = \"none\"`, `at` and `link`, without environment = \"stack\"";
            return Err(SimError::about(scenario, name, what));
        }
    }
    Ok(())
}

/// The notes about them in the record.
pub(crate) fn notes(policies: &OwnPolicies) -> impl Iterator<Item = String> + '_ {
    policies.iter().map(|(arm, own)| {
        format!(
            "In the arm '{arm}' the caller's policy '{}' decides instead of the one that the \
             scenario names.",
            own.name()
        )
    })
}
