//! The runs of a radio scenario: fields × seeds × arms.

use super::RadioScenario;
use ackwise_scenario::Filter;
use ackwise_scenario::ScenarioError;

/// One run: an arm on a field, with a seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RadioSpec {
    /// Unique within the scenario: `ARM/SEED`, followed by `/hops=H/flows=F` if the file has more
    /// than one field.
    pub id: String,
    /// Index into [`RadioScenario::arms`].
    pub arm: usize,
    /// Index into [`RadioScenario::fields`].
    pub field: usize,
    /// The seed.
    pub seed: u64,
}

impl RadioScenario {
    /// All runs. Runs that are compared are adjacent.
    pub fn runs(&self) -> Vec<RadioSpec> {
        let mut runs = Vec::new();
        for (field, at) in self.fields.iter().enumerate() {
            for seed in 1..=u64::from(self.seeds) {
                for (arm, it) in self.arms.iter().enumerate() {
                    let mut id = format!("{}/{seed}", it.name);
                    if self.fields.len() > 1 {
                        id.push_str(&format!("/hops={}/flows={}", at.hops, at.flows.len()));
                    }
                    runs.push(RadioSpec {
                        id,
                        arm,
                        field,
                        seed,
                    });
                }
            }
        }
        runs
    }

    /// The runs that a filter selects, in the same order.
    ///
    /// # Errors
    /// A pattern that matches nothing, since it is likely a typo.
    pub fn select(&self, filter: &Filter) -> Result<Vec<RadioSpec>, ScenarioError> {
        let seeds: Vec<String> = (1..=self.seeds).map(|seed| seed.to_string()).collect();
        let arms: Vec<String> = self.arms.iter().map(|arm| arm.name.clone()).collect();
        let mut cc: Vec<String> = self.arms.iter().map(|arm| arm.cc.clone()).collect();
        cc.sort_unstable();
        cc.dedup();
        filter.check(&arms, &cc, &seeds)?;
        let mut runs = self.runs();
        runs.retain(|run| {
            let arm = &self.arms[run.arm];
            filter.wants(&arm.name, &arm.cc, run.seed)
        });
        Ok(runs)
    }
}
