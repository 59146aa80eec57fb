//! What is wrong with the policies of a scenario: which there are, and what they take.

use ackwise_policy::{Config, ConfigError, Policy};

use crate::error::ScenarioError;
use crate::model::Scenario;

impl Scenario {
    /// Every policy that there is not, and every parameter that one does not take.
    ///
    /// The parser does not look at them: an engine may have policies of its own.
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
