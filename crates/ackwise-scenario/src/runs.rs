//! What has to be run: arms × congestion controls × seeds × varied values.

use std::collections::BTreeMap;

use crate::model::{RunSpec, Scenario, Sweep};

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
}
