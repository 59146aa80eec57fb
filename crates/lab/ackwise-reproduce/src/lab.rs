//! The lab: runs the scenarios of experiments.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use ackwise_radio::scenario::{RadioReport, RadioScenario, RadioSpec};
use ackwise_scenario::record::{FlowRecord, QueueRecord, Report, Run, Traffic};
use ackwise_scenario::{Engine, RunSpec, Scenario};

use crate::Error;

/// Something that runs scenarios: the engines, or a test double.
pub trait RunScenario: Sync {
    /// Executes the scenario's runs whose ids are in `only`, and reports how many are done.
    ///
    /// # Errors
    ///
    /// A run fails, or the user cancels.
    fn run(
        &self,
        engine: Engine,
        scenario: &Scenario,
        only: &[String],
        done: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Report, Error>;

    /// Executes these runs of a radio scenario, and reports how many are done. A runner without
    /// radios need not implement it.
    ///
    /// # Errors
    ///
    /// A run fails, or the user cancels.
    fn run_radio(
        &self,
        scenario: &RadioScenario,
        _runs: &[RadioSpec],
        _done: &(dyn Fn(usize) + Sync),
    ) -> Result<RadioReport, Error> {
        Err(Error::Record {
            scenario: scenario.name.clone(),
            what: "there are no radios here to run it on".to_owned(),
        })
    }

    /// A flag that is set when the user cancels.
    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

/// Progress of the reproduction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress {
    /// How many runs there will be in total.
    Expected(usize),
    /// A scenario starts.
    Scenario {
        /// Name of the scenario.
        name: String,
        /// Number of its runs.
        runs: usize,
    },
    /// How many of its runs are done.
    Done(usize),
    /// A step without countable parts, e.g. a build.
    Step(String),
}

/// What a paper's module needs to run its experiments.
pub struct Lab<'a> {
    engine: Engine,
    quick: bool,
    runner: &'a dyn RunScenario,
    progress: Mutex<Box<dyn FnMut(Progress) + Send + 'a>>,
    ran: Mutex<Vec<(String, String)>>,
}

impl<'a> Lab<'a> {
    /// A lab with this engine.
    pub fn new(
        engine: Engine,
        quick: bool,
        runner: &'a dyn RunScenario,
        progress: impl FnMut(Progress) + Send + 'a,
    ) -> Lab<'a> {
        Lab {
            engine,
            quick,
            runner,
            progress: Mutex::new(Box::new(progress)),
            ran: Mutex::new(Vec::new()),
        }
    }

    /// The engine that runs scenarios.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Whether to try fewer values of what is varied. Runs that are compared with a published number
    /// are done in full all the same.
    pub fn quick(&self) -> bool {
        self.quick
    }

    /// Reports how many runs there will be, so that the remaining work can be shown.
    pub fn expect(&self, runs: usize) {
        self.tell(Progress::Expected(runs));
    }

    /// A flag that is set when the user cancels.
    pub fn cancel(&self) -> Arc<AtomicBool> {
        self.runner.cancel()
    }

    /// Calls `work` for each element, as many at a time as there are cores, and reports how many are
    /// done. The results are in the order of the elements.
    ///
    /// # Errors
    ///
    /// The first error that `work` returns.
    pub fn each<T: Sync, R: Send>(
        &self,
        name: &str,
        all: &[T],
        work: impl Fn(&T) -> Result<R, Error> + Sync,
    ) -> Result<Vec<R>, Error> {
        self.tell(Progress::Scenario {
            name: name.to_owned(),
            runs: all.len(),
        });
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        let worker = || {
            while let Some((index, one)) = {
                let index = next.fetch_add(1, Ordering::Relaxed);
                all.get(index).map(|one| (index, one))
            } {
                let result = work(one);
                if result.is_err() {
                    next.store(all.len(), Ordering::Relaxed);
                }
                let mut results = lock(&results);
                results.push((index, result));
                self.tell(Progress::Done(results.len()));
            }
        };
        let cores = thread::available_parallelism().map_or(1, |count| count.get());
        thread::scope(|scope| {
            for _ in 0..cores.min(all.len()) {
                scope.spawn(worker);
            }
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(index, _)| *index);
        results.into_iter().map(|(_, result)| result).collect()
    }

    /// Reports the current step.
    pub fn step(&self, what: &str) {
        self.tell(Progress::Step(what.to_owned()));
    }

    fn tell(&self, progress: Progress) {
        (lock(&self.progress))(progress);
    }

    /// Executes all runs of a scenario in `scenarios/papers/`, given by its path and its text.
    ///
    /// # Errors
    ///
    /// The text is not a valid scenario, or a run fails.
    pub fn run(&self, path: &str, text: &str) -> Result<Outcome, Error> {
        self.run_where(path, text, |_| true)
    }

    /// Executes the runs of a scenario that `wanted` selects.
    ///
    /// # Errors
    ///
    /// The text is not a valid scenario, or a run fails.
    pub fn run_where(
        &self,
        path: &str,
        text: &str,
        wanted: impl Fn(&RunSpec) -> bool,
    ) -> Result<Outcome, Error> {
        let scenario = Scenario::parse(path, text)?;
        self.note(path, text);
        let runs = scenario.runs().into_iter().filter(|run| wanted(run));
        let only: Vec<String> = runs.map(|run| run.id).collect();
        self.tell(Progress::Scenario {
            name: scenario.name.clone(),
            runs: only.len(),
        });
        let mut done = |runs| self.tell(Progress::Done(runs));
        let report = self.runner.run(self.engine, &scenario, &only, &mut done)?;
        let outcome = Outcome { scenario, report };
        let mut bad = outcome.report.runs.iter().filter_map(|run| {
            let why = match &run.errors[..] {
                // A connection that never got going on a busy machine says nothing about ACKs.
                [] if self.engine != Engine::Sim && run.totals.bytes == 0 => {
                    "nothing arrived; if the machine is busy, try again".to_owned()
                }
                [] => return None,
                errors => errors.join("; "),
            };
            Some((run.id.clone(), why))
        });
        match bad.next() {
            Some((run, why)) => Err(Error::Run {
                scenario: outcome.scenario.name.clone(),
                run,
                why,
            }),
            None => Ok(outcome),
        }
    }

    /// Executes the runs of a radio scenario that `wanted` selects.
    ///
    /// # Errors
    ///
    /// The text is not a valid scenario, or a run fails.
    pub fn run_radio(
        &self,
        path: &str,
        text: &str,
        wanted: impl Fn(&RadioSpec) -> bool,
    ) -> Result<RadioReport, Error> {
        let scenario = RadioScenario::parse(path, text)?;
        self.note(path, text);
        let mut runs = scenario.runs();
        runs.retain(|run| wanted(run));
        self.tell(Progress::Scenario {
            name: scenario.name.clone(),
            runs: runs.len(),
        });
        let done = |runs| self.tell(Progress::Done(runs));
        self.runner.run_radio(&scenario, &runs, &done)
    }

    /// Remembers the file of a scenario that is run.
    fn note(&self, path: &str, text: &str) {
        let mut ran = lock(&self.ran);
        if !ran.iter().any(|(name, _)| name == path) {
            ran.push((path.to_owned(), text.to_owned()));
        }
    }

    /// The scenario files that were run, as path and text.
    pub(crate) fn into_scenarios(self) -> Vec<(String, String)> {
        self.ran
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a mutex. Data that a panicking thread left behind are still valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runs of a scenario, with accessors.
pub struct Outcome {
    /// The scenario that was run.
    pub scenario: Scenario,
    /// The report of its runs.
    pub report: Report,
}

impl Outcome {
    /// The error that the record lacks something.
    pub fn lacks(&self, what: impl fmt::Display) -> Error {
        Error::Record {
            scenario: self.scenario.name.clone(),
            what: format!("the record has no {what}"),
        }
    }

    /// The runs of an arm and a congestion control at a point of the sweep, in the scenario's
    /// order. The point lists paths with their values as written in the scenario.
    pub fn runs(&self, arm: &str, cc: &str, point: &[(&str, &str)]) -> Vec<&Run> {
        let runs = self.report.runs.iter();
        runs.filter(|run| run.arm == arm && run.cc == cc && at(run, point))
            .collect()
    }

    /// The first run that [`runs`](Self::runs) returns.
    ///
    /// # Errors
    ///
    /// There is no such run.
    pub fn one(&self, arm: &str, cc: &str, point: &[(&str, &str)]) -> Result<&Run, Error> {
        let first = self.runs(arm, cc, point).into_iter().next();
        first.ok_or_else(|| self.lacks(format_args!("run {arm}/{cc} at {point:?}")))
    }

    /// A flow of a run. A run of a single flow keeps it in its totals.
    ///
    /// # Errors
    ///
    /// The run has no flow of this name.
    pub fn flow<'a>(&self, run: &'a Run, name: &str) -> Result<&'a Traffic, Error> {
        if run.flows.is_empty() && run.flow.as_deref().is_none_or(|only| only == name) {
            return Ok(&run.totals);
        }
        let found = run
            .flows
            .iter()
            .find(|flow: &&FlowRecord| flow.flow == name);
        found
            .map(|flow| &flow.traffic)
            .ok_or_else(|| self.lacks(format_args!("flow '{name}' in run {}", run.id)))
    }

    /// A queue of a run, `link.forward` or `link.reverse`.
    ///
    /// # Errors
    ///
    /// The run has no queue of this name.
    pub fn queue<'a>(&self, run: &'a Run, name: &str) -> Result<&'a QueueRecord, Error> {
        let found = run.queues.iter().find(|queue| queue.name == name);
        found.ok_or_else(|| self.lacks(format_args!("queue '{name}' in run {}", run.id)))
    }
}

/// Whether a run is at this point of the sweep.
fn at(run: &Run, point: &[(&str, &str)]) -> bool {
    let is = |(path, value): &(&str, &str)| run.point.get(*path).is_some_and(|v| v == value);
    point.iter().all(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A runner whose runs each carry this many bytes.
    struct Carries(u64);

    impl RunScenario for Carries {
        fn run(
            &self,
            _: Engine,
            _: &Scenario,
            only: &[String],
            _: &mut (dyn FnMut(usize) + Send),
        ) -> Result<Report, Error> {
            let run = |id: &String| {
                let mut run = Run::default();
                run.id.clone_from(id);
                run.totals.bytes = self.0;
                run
            };
            let runs = only.iter().map(run).collect();
            Ok(Report {
                runs,
                ..Report::default()
            })
        }
    }

    #[test]
    fn what_is_done_at_once_keeps_its_order_and_ends_at_an_error() {
        let runner = Carries(1);
        let mut reports = Vec::new();
        let lab = Lab::new(Engine::Virtual, false, &runner, |progress| {
            reports.push(progress);
        });
        let all: Vec<u64> = (0..20).collect();
        let squares = lab.each("squares", &all, |n| Ok(n * n)).unwrap();
        assert!(squares.iter().zip(&all).all(|(square, n)| *square == n * n));
        let failing = lab.each("failing", &all, |n| match n {
            0 => Err(Error::Cancelled),
            _ => Ok(*n),
        });
        assert!(matches!(failing, Err(Error::Cancelled)));
        drop(lab);
        assert_eq!(reports[20], Progress::Done(20));
        assert!(reports.len() < 21 + 21, "{}", reports.len());
    }

    #[test]
    fn a_run_that_carries_nothing_is_no_measurement() {
        const PATH: &str = "scenarios/papers/saldana-2013/single-real.toml";
        const TEXT: &str =
            include_str!("../../../../scenarios/papers/saldana-2013/single-real.toml");
        let run = |bytes| {
            let runner = Carries(bytes);
            let lab = Lab::new(Engine::Live, false, &runner, |_| {});
            lab.run(PATH, TEXT).map(|outcome| outcome.report.runs.len())
        };
        assert_eq!(run(1).unwrap(), 14);
        let error = run(0).unwrap_err().to_string();
        assert!(error.contains("nothing arrived"), "{error}");
    }
}
