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
        // As programs write a policy with its parameters.
        let named = |policy: &str| {
            let (name, _) = policy.split_once(':')?;
            Policy::by_name(name).ok()
        };
        let mut mistakes = Vec::new();
        for placement in self.arms.iter().flat_map(|arm| &arm.placements) {
            let policy = match Policy::by_name(&placement.policy) {
                Ok(policy) => policy,
                Err(e) => {
                    let message = match named(&placement.policy) {
                        Some(policy) => format!(
                            "'policy' is a name alone; write policy = \"{}\", and its parameters \
                             in 'set'",
                            policy.name()
                        ),
                        None => says(&e),
                    };
                    mistakes.push(self.error_at(&placement.policy_span, message));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_behind_the_name_are_shown_their_place() {
        let text = r#"
            scenario = { name = "x", duration = "1 s" }
            node = [{ name = "a" }, { name = "b" }]
            link = [{ name = "ab", between = ["a", "b"] }]
            flow = [{ name = "f", from = "a", to = "b", app = "bulk" }]
            arm = [{ name = "eight", policy = "every-n:n=8", at = "b", link = "ab" }]
        "#;
        let scenario = Scenario::parse("x.toml", text).unwrap();
        let mistakes = scenario.policy_mistakes();
        assert_eq!(mistakes.len(), 1);
        let says = "write policy = \"every-n\", and its parameters in 'set'";
        assert!(mistakes[0].to_string().contains(says), "{}", mistakes[0]);
    }
}
