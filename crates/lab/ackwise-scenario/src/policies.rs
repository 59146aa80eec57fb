//! Checks the policies of a scenario: that they exist, and that they accept their parameters.

use ackwise_policy::{Config, ConfigError, Policy};

use crate::error::ScenarioError;
use crate::model::Scenario;

impl Scenario {
    /// Reports every policy that does not exist, and every parameter that a policy does not accept.
    ///
    /// The parser does not check them, because an engine may have policies of its own.
    #[must_use]
    pub fn policy_mistakes(&self) -> Vec<ScenarioError> {
        let says = |e: &ConfigError| format!("{e}; {}", e.advice());
        let mut mistakes = Vec::new();
        for placement in self.arms.iter().flat_map(|arm| &arm.placements) {
            let policy = match Policy::by_name(&placement.policy) {
                Ok(policy) => policy,
                Err(e) => {
                    mistakes.push(self.error_at(&placement.policy_span, says(&e)));
                    continue;
                }
            };
            let mut config = Config::new(policy);
            for setting in &placement.set {
                if let Err(e) = config.set(&setting.name, &setting.value.to_string()) {
                    let span = match e {
                        ConfigError::UnknownParam { .. } => &setting.name_span,
                        _ => &setting.value_span,
                    };
                    mistakes.push(self.error_at(span, says(&e)));
                }
            }
        }
        mistakes
    }
}
