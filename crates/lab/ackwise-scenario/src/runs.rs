//! What has to be run: arms × congestion controls × seeds × varied values; and the empty
//! report that takes the results.

use std::collections::BTreeMap;

use crate::error::ScenarioError;
use crate::glob;
use crate::model::{RunSpec, Scenario, Sweep};
use crate::record::{Report, SCHEMA, ScenarioInfo};

/// Which runs are wanted. An empty list wants all; patterns know `*` and `?`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Names of arms.
    pub arms: Vec<String>,
    /// Congestion controls.
    pub cc: Vec<String>,
    /// Seeds.
    pub seeds: Vec<String>,
}

impl Filter {
    /// Whether every pattern matches something of what there is: one that does not is a
    /// slip of the hand.
    pub fn check(
        &self,
        arms: &[String],
        cc: &[String],
        seeds: &[String],
    ) -> Result<(), ScenarioError> {
        for (what, patterns, known) in [
            ("arm", &self.arms, arms),
            ("cc", &self.cc, cc),
            ("seed", &self.seeds, seeds),
        ] {
            for pattern in patterns {
                if !known.iter().any(|name| glob::matches(pattern, name)) {
                    return Err(ScenarioError::NothingSelected {
                        what,
                        pattern: pattern.clone(),
                        known: known.join(", "),
                    });
                }
            }
        }
        Ok(())
    }

    /// Whether a run with this arm, congestion control and seed is among those asked for.
    pub fn wants(&self, arm: &str, cc: &str, seed: u64) -> bool {
        let wanted = |patterns: &[String], name: &str| {
            patterns.is_empty() || patterns.iter().any(|p| glob::matches(p, name))
        };
        wanted(&self.arms, arm) && wanted(&self.cc, cc) && wanted(&self.seeds, &seed.to_string())
    }
}

impl Sweep {
    /// Every combination of the values in [`Sweep::vary`], the last path
    /// varying fastest; one empty combination if nothing is varied.
    pub fn points(&self) -> Vec<BTreeMap<String, String>> {
        let mut points = vec![BTreeMap::new()];
        for vary in &self.vary {
            points = points
                .iter()
                .flat_map(|point| {
                    vary.values.iter().map(|value| {
                        let mut point = point.clone();
                        point.insert(vary.path.clone(), value.clone());
                        point
                    })
                })
                .collect();
        }
        points
    }
}

impl Scenario {
    /// All runs. Those that are compared stand next to each other: for each
    /// varied value, congestion control and seed all arms, so that a slow
    /// drift of the machine hits them alike.
    pub fn runs(&self) -> Vec<RunSpec> {
        let mut runs = Vec::new();
        for point in self.sweep.points() {
            for cc in &self.sweep.cc {
                for &seed in &self.sweep.seeds {
                    for arm in &self.arms {
                        let mut id = format!("{}/{cc}/{seed}", arm.name);
                        for (path, value) in &point {
                            id.push_str(&format!("/{path}={value}"));
                        }
                        runs.push(RunSpec {
                            id,
                            arm: arm.name.clone(),
                            cc: cc.clone(),
                            seed,
                            point: point.clone(),
                        });
                    }
                }
            }
        }
        runs
    }

    /// The runs that a filter wants, in the same order. A pattern that matches
    /// nothing is an error, since it is a slip of the hand.
    pub fn select(&self, filter: &Filter) -> Result<Vec<RunSpec>, ScenarioError> {
        let seeds: Vec<String> = self.sweep.seeds.iter().map(u64::to_string).collect();
        let arms: Vec<String> = self.arms.iter().map(|arm| arm.name.clone()).collect();
        filter.check(&arms, &self.sweep.cc, &seeds)?;
        let mut runs = self.runs();
        runs.retain(|run| filter.wants(&run.arm, &run.cc, run.seed));
        Ok(runs)
    }
}

impl Report {
    /// An empty report of this version of the format.
    pub fn new(engine: &str, scenario: &Scenario) -> Report {
        Report {
            schema: SCHEMA,
            engine: engine.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: ScenarioInfo {
                name: scenario.name.clone(),
                about: scenario.about.clone(),
                duration_s: scenario.duration.as_secs_f64(),
                text: scenario.source.text.clone(),
            },
            ..Report::default()
        }
    }
}
