//! Runs whose results go into a directory that many machines share.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use ackwise_scenario::record::{Report, Run, RunContext};
use ackwise_scenario::{Engine, Progress, RunSpec};
use ackwise_sim::RunOptions;
use ackwise_store::{RunSet, Store, StoreError};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::errors;
use crate::number;
use crate::results::Record;
use crate::scenario::Scenario;

/// A scenario on the simulator, all of its runs, and the directory of their results.
#[pyclass(frozen, module = "ackwise._native")]
pub struct Sweep {
    scenario: Arc<ackwise_scenario::Scenario>,
    runs: Vec<RunSpec>,
    set: RunSet,
    store: Store,
}

/// The result of some runs: how many results were added, and the records of the runs with errors.
type Done = (usize, Vec<(usize, String)>);

/// Stores each result when its run ends.
struct Keeper<'a> {
    sweep: &'a Sweep,
    places: &'a [usize],
    options: &'a RunOptions,
    added: usize,
    failed: Vec<(usize, Report)>,
    refused: Option<StoreError>,
}

impl Keeper<'_> {
    fn take(&mut self, run: &Run, context: &RunContext, index: usize) {
        let Sweep {
            scenario,
            runs,
            set,
            store,
        } = self.sweep;
        let place = self.places[index];
        if !run.errors.is_empty() {
            let mut report = Report::new(set.engine().name(), scenario);
            report.add(run.clone(), context.clone());
            self.failed.push((place, report));
            return;
        }
        match store.put(set, scenario, run, context, (place, runs.len())) {
            Ok(()) => self.added += 1,
            Err(error) => {
                // The results of the other runs could not be stored either.
                let cancel = &self.options.cancel;
                cancel.store(true, std::sync::atomic::Ordering::Relaxed);
                self.refused.get_or_insert(error);
            }
        }
    }
}

impl Sweep {
    fn spec(&self, place: usize) -> PyResult<&RunSpec> {
        self.runs.get(place).ok_or_else(|| {
            let runs = self.runs.len();
            PyIndexError::new_err(format!("there is no run {place} of {runs}, counted from 0"))
        })
    }

    /// Those of the given runs that have no result yet.
    fn lacking(&self, places: Vec<usize>) -> Vec<usize> {
        let mut places = places;
        let key = |place: &usize| self.set.key(&self.runs[*place]);
        places.retain(|place| !self.store.contains(&key(place)));
        places
    }
}

#[pymethods]
impl Sweep {
    #[new]
    fn new(py: Python<'_>, scenario: &Scenario, into: PathBuf) -> PyResult<Self> {
        let scenario = Arc::clone(scenario.checked());
        py.detach(|| {
            let set = RunSet::new(&scenario, Engine::Sim, None);
            let store = Store::open(into)?;
            Ok(Self {
                runs: scenario.runs(),
                scenario,
                set,
                store,
            })
        })
        .map_err(|e: StoreError| errors::store(py, &e))
    }

    /// The id of the set of its results: 12 hexadecimal digits.
    #[getter]
    fn set(&self) -> &str {
        self.set.id()
    }

    /// The indexes of these runs among all runs of the scenario, and the indexes of those
    /// without a result.
    fn places(&self, py: Python<'_>, only: Vec<String>) -> PyResult<(Vec<usize>, Vec<usize>)> {
        py.detach(|| {
            let only: HashSet<String> = only.into_iter().collect();
            let wanted = |(_, run): &(usize, &RunSpec)| only.contains(&run.id);
            let all: Vec<(usize, &RunSpec)> = self.runs.iter().enumerate().filter(wanted).collect();
            let present = self.store.present(&self.set)?;
            let lacks = |run: &RunSpec| !present.contains(&self.set.key(run));
            let missing = all.iter().filter(|(_, run)| lacks(run));
            let missing = missing.map(|(place, _)| *place).collect();
            Ok((all.iter().map(|(place, _)| *place).collect(), missing))
        })
        .map_err(|e: StoreError| errors::store(py, &e))
    }

    /// The id of the run with an index.
    fn id(&self, place: usize) -> PyResult<&str> {
        Ok(&self.spec(place)?.id)
    }

    /// Executes those of these runs that have no result, one after another, and stores the
    /// results.
    fn run(
        &self,
        py: Python<'_>,
        places: Vec<usize>,
        max_events: &Bound<'_, PyAny>,
        max_memory: &Bound<'_, PyAny>,
    ) -> PyResult<Done> {
        for place in &places {
            self.spec(*place)?;
        }
        let options = RunOptions {
            jobs: 1,
            max_events: number::whole(max_events, "max_events", u64::MAX)?,
            max_memory: number::whole(max_memory, "max_memory", u64::MAX)?,
            ..RunOptions::default()
        };
        let (outcome, added, failed, refused) = py.detach(|| {
            let places = self.lacking(places);
            let runs: Vec<RunSpec> = places.iter().map(|at| self.runs[*at].clone()).collect();
            let mut keeper = Keeper {
                sweep: self,
                places: &places,
                options: &options,
                added: 0,
                failed: Vec::new(),
                refused: None,
            };
            let mut outcome = Ok(());
            if !runs.is_empty() {
                let mut watch = |progress: Progress<'_>| {
                    if let Progress::Finished {
                        run,
                        context,
                        index,
                        ..
                    } = progress
                    {
                        keeper.take(run, context, index);
                    }
                };
                outcome =
                    ackwise_sim::run_these(&self.scenario, &runs, &options, &mut watch).map(|_| ());
            }
            (outcome, keeper.added, keeper.failed, keeper.refused)
        });
        outcome.map_err(|e| errors::sim(py, &e))?;
        if let Some(error) = refused {
            return Err(errors::store(py, &error));
        }
        let failed = failed.into_iter().map(|(place, report)| {
            let text = report.to_json();
            let text = text.map_err(|e| errors::raise(py, "Error", (e.to_string(),)))?;
            Ok((place, text))
        });
        Ok((added, failed.collect::<PyResult<_>>()?))
    }

    /// The record of these runs; `failed` has the records of the failed ones.
    fn record(
        &self,
        py: Python<'_>,
        places: Vec<usize>,
        failed: Vec<(usize, String)>,
    ) -> PyResult<Record> {
        let runs: Vec<&RunSpec> = (places.iter())
            .map(|place| self.spec(*place))
            .collect::<PyResult<_>>()?;
        let mut given = BTreeMap::new();
        for (place, text) in failed {
            let report = Report::from_json(&text);
            let report = report.map_err(|e| errors::raise(py, "Error", (e.to_string(),)))?;
            given.insert(self.spec(place)?.id.clone(), report);
        }
        let report = py.detach(|| self.store.report_of(&self.set, &runs, &mut given));
        let report = report.map_err(|e| errors::store(py, &e))?;
        let none = || Report::new(self.set.engine().name(), &self.scenario);
        Ok(Record::new(report.unwrap_or_else(none)))
    }
}
