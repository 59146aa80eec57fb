//! The runs of a scenario (arms × congestion controls × seeds × varied values), and the empty
//! report for their results.

use std::collections::BTreeMap;

use crate::draw::REPEAT;
use crate::engine::Engine;
use crate::error::ScenarioError;
use crate::glob;
use crate::model::{DrawnPoint, RunSpec, Scenario, Sweep};
use crate::record::{Report, Run, SCHEMA, ScenarioInfo};

/// Selects runs. An empty list selects all; patterns may have `*` and `?`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Names of arms.
    pub arms: Vec<String>,
    /// Congestion controls.
    pub cc: Vec<String>,
    /// Seeds.
    pub seeds: Vec<String>,
    /// Numbers of drawn points.
    pub points: Vec<u32>,
    /// The engine: arms that are not for it are left out.
    pub engine: Option<Engine>,
}

impl Filter {
    /// Checks that every pattern matches something: one that does not is taken for a typing error.
    ///
    /// # Errors
    ///
    /// A pattern matches nothing; the error has the pattern and the existing values.
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

    /// Whether a run with this arm, congestion control and seed is selected.
    pub fn wants(&self, arm: &str, cc: &str, seed: u64) -> bool {
        let wanted = |patterns: &[String], name: &str| {
            patterns.is_empty() || patterns.iter().any(|p| glob::matches(p, name))
        };
        wanted(&self.arms, arm) && wanted(&self.cc, cc) && wanted(&self.seeds, &seed.to_string())
    }
}

impl Sweep {
    /// Every combination of the values in [`Sweep::vary`], the last path varying fastest, with each
    /// place of each of [`Sweep::zips`]; one empty combination if nothing is varied.
    pub fn points(&self) -> Vec<BTreeMap<String, String>> {
        let mut points = vec![BTreeMap::new()];
        let alone = self.vary.iter().map(std::slice::from_ref);
        for together in alone.chain(self.zips.iter().map(Vec::as_slice)) {
            let length = together.first().map_or(0, |vary| vary.values.len());
            points = points
                .iter()
                .flat_map(|point| {
                    (0..length).map(|index| {
                        let mut point: BTreeMap<String, String> = point.clone();
                        for vary in together {
                            let value = vary.values.get(index).cloned();
                            point.insert(vary.path.clone(), value.unwrap_or_default());
                        }
                        point
                    })
                })
                .collect();
        }
        points
    }

    /// The drawn point of a run, in the run's repeat.
    pub fn drawn(&self, run: &RunSpec) -> Option<&DrawnPoint> {
        let (draw, number) = (self.draw.as_ref()?, run.draw?);
        let repeat = match run.point.get(REPEAT) {
            Some(text) => text.parse().ok()?,
            None => 1,
        };
        let mut points = draw.points.iter();
        points.find(|point| (point.number, point.repeat) == (number, repeat))
    }

    /// The paths whose values are swept.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        let all = self.vary.iter().chain(self.zips.iter().flatten());
        all.map(|vary| vary.path.as_str())
    }
}

impl Scenario {
    /// All runs. Those that are compared are adjacent: for each varied value, drawn point,
    /// congestion control and seed all arms follow, so that a slow drift of the machine affects
    /// them equally.
    pub fn runs(&self) -> Vec<RunSpec> {
        let drawn: Vec<Option<&DrawnPoint>> = match &self.sweep.draw {
            Some(draw) => draw.points.iter().map(Some).collect(),
            None => vec![None],
        };
        let mut runs = Vec::new();
        for point in self.sweep.points() {
            for drawn in &drawn {
                self.runs_at(&point, *drawn, &mut runs);
            }
        }
        runs
    }

    fn runs_at(
        &self,
        varied: &BTreeMap<String, String>,
        drawn: Option<&DrawnPoint>,
        runs: &mut Vec<RunSpec>,
    ) {
        let own = drawn.and_then(|drawn| drawn.cc.as_ref());
        let all_cc = own.map_or(self.sweep.cc.as_slice(), std::slice::from_ref);
        let mut point = varied.clone();
        for value in drawn.iter().flat_map(|drawn| &drawn.values) {
            point.insert(value.name.clone(), value.value.to_string());
        }
        for cc in all_cc {
            for &seed in &self.sweep.seeds {
                for arm in &self.arms {
                    let mut id = format!("{}/{cc}/{seed}", arm.name);
                    for (path, value) in varied {
                        id.push_str(&format!("/{path}={value}"));
                    }
                    if let Some(drawn) = drawn {
                        id.push_str(&format!("/point={}", drawn.number));
                    }
                    if let Some(repeat) = point.get(REPEAT) {
                        id.push_str(&format!("/repeat={repeat}"));
                    }
                    runs.push(RunSpec {
                        id,
                        arm: arm.name.clone(),
                        cc: cc.clone(),
                        seed,
                        draw: drawn.map(|drawn| drawn.number),
                        point: point.clone(),
                    });
                }
            }
        }
    }

    /// The runs that a filter selects, in the same order. A pattern that matches nothing is an
    /// error, because it is taken for a typing error.
    ///
    /// # Errors
    ///
    /// A pattern matches nothing; the error has the pattern and the existing values.
    pub fn select(&self, filter: &Filter) -> Result<Vec<RunSpec>, ScenarioError> {
        let seeds: Vec<String> = self.sweep.seeds.iter().map(u64::to_string).collect();
        let arms: Vec<String> = self.arms.iter().map(|arm| arm.name.clone()).collect();
        filter.check(&arms, &self.sweep.cc, &seeds)?;
        let points = self.sweep.draw.as_ref().map_or(0, |draw| draw.count);
        for number in &filter.points {
            if !(1..=points).contains(number) {
                return Err(ScenarioError::NothingSelected {
                    what: "drawn point",
                    pattern: number.to_string(),
                    known: match points {
                        0 => "none, since [sweep] has no 'draw'".to_owned(),
                        _ => format!("1 to {points}"),
                    },
                });
            }
        }
        let not_here = |run: &RunSpec| {
            let arm = self.arms.iter().find(|arm| arm.name == run.arm);
            let on = arm.map_or(&[] as &[Engine], |arm| arm.on.as_slice());
            filter
                .engine
                .is_some_and(|engine| !on.is_empty() && !on.contains(&engine))
        };
        let point = |run: &RunSpec| run.draw.is_some_and(|it| filter.points.contains(&it));
        let mut runs = self.runs();
        runs.retain(|run| {
            filter.wants(&run.arm, &run.cc, run.seed)
                && (filter.points.is_empty() || point(run))
                && !not_here(run)
        });
        Ok(runs)
    }

    /// The ids of the runs that a filter selects on an engine. It is an error, too, if there are
    /// none.
    ///
    /// # Errors
    /// A pattern matches nothing, or everything that it matches is for other engines.
    pub fn select_on(&self, engine: Engine, filter: Filter) -> Result<Vec<String>, ScenarioError> {
        let runs = self.select(&Filter {
            engine: Some(engine),
            ..filter
        })?;
        if runs.is_empty() {
            return Err(ScenarioError::NothingForEngine {
                file: self.source.path.clone(),
                engine,
            });
        }
        Ok(runs.into_iter().map(|run| run.id).collect())
    }
}

impl Run {
    /// The part of the id that all arms of a line and all repeats of a drawn point share: the id
    /// without the arm and the repeat.
    pub fn line(&self) -> &str {
        let id = self.id.strip_prefix(&self.arm);
        let id = id.and_then(|id| id.strip_prefix('/')).unwrap_or(&self.id);
        let repeat = self.point.get(REPEAT);
        repeat
            .and_then(|n| id.strip_suffix(&format!("/{REPEAT}={n}")))
            .unwrap_or(id)
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
