//! Runs scenarios on the simulator, in a thread while the interpreter continues; with policies of
//! Python, on the caller's thread.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use ackwise_scenario::record::Report;
use ackwise_scenario::{Progress, Scenario};
use ackwise_sim::{OwnPolicy, RunOptions, SimError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors;
use crate::own_policy::{Factory, Failure};

/// Interval between checks for signals.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The caller's policies: the arm, the name in the record, and a callable that makes a policy for
/// each flow.
pub type Policies = Vec<(String, String, Py<PyAny>)>;

/// Limits of the simulator.
pub struct Limits {
    /// Runs at a time; one per core if 0.
    pub jobs: usize,
    /// Maximum events of a run.
    pub max_events: u64,
    /// Maximum bytes of all runs together.
    pub max_memory: u64,
}

/// A progress report for the thread that holds the interpreter.
enum ProgressMessage {
    Started(String, usize, usize),
    Running(usize, f64),
    Finished(String, usize, usize),
}

impl ProgressMessage {
    fn of(progress: &Progress<'_>) -> Option<ProgressMessage> {
        Some(match progress {
            Progress::Started { run, index, total } => {
                ProgressMessage::Started(run.id.clone(), *index, *total)
            }
            Progress::Running { index, elapsed, .. } => {
                ProgressMessage::Running(*index, elapsed.as_secs_f64())
            }
            Progress::Finished {
                run, index, total, ..
            } => ProgressMessage::Finished(run.id.clone(), *index, *total),
            _ => return None,
        })
    }

    fn tell(&self, py: Python<'_>, observer: &Py<PyAny>) -> PyResult<()> {
        match self {
            ProgressMessage::Started(id, index, total) => {
                observer.call1(py, ("started", Some(id), *index, Some(*total), None::<f64>))
            }
            ProgressMessage::Running(index, elapsed) => observer.call1(
                py,
                (
                    "running",
                    None::<&str>,
                    *index,
                    None::<usize>,
                    Some(*elapsed),
                ),
            ),
            ProgressMessage::Finished(id, index, total) => observer.call1(
                py,
                ("finished", Some(id), *index, Some(*total), None::<f64>),
            ),
        }?;
        Ok(())
    }
}

/// Simulates a scenario. The interpreter is free meanwhile, except for calls to the policies. A signal,
/// or an exception of `observer` or of a policy, ends the runs.
pub fn simulate(
    py: Python<'_>,
    scenario: &Arc<Scenario>,
    only: Vec<String>,
    limits: &Limits,
    policies: Policies,
    observer: Option<&Py<PyAny>>,
) -> PyResult<Report> {
    let cancel = Arc::new(AtomicBool::new(false));
    let failure = Failure::new(&cancel);
    let factories = policies.into_iter().map(|(arm, name, make)| {
        let factory: Arc<dyn OwnPolicy> = Arc::new(Factory::new(py, &name, make, &failure)?);
        Ok((arm, factory))
    });
    let policies = factories.collect::<PyResult<_>>()?;
    let options = RunOptions {
        cancel,
        only,
        jobs: limits.jobs,
        max_events: limits.max_events,
        max_memory: limits.max_memory,
        policies,
    };
    let (stopped, outcome) = match options.policies.is_empty() {
        true => in_a_thread(py, scenario, options, observer)?,
        false => on_this_thread(py, scenario, &options, observer),
    };
    if let Some(error) = failure.take() {
        return Err(error);
    }
    stopped?;
    match outcome {
        Ok(report) => report.map_err(|e| errors::sim(py, &e)),
        Err(_) => Err(PyRuntimeError::new_err(
            "the simulator panicked, which is a bug in ackwise; standard error says where",
        )),
    }
}

/// What ended the runs, if anything did before their end, and the outcome of the thread.
type Ended = (PyResult<()>, thread::Result<Result<Report, SimError>>);

/// Executes runs in a thread of their own, and meanwhile passes reports on and checks for signals.
fn in_a_thread(
    py: Python<'_>,
    scenario: &Arc<Scenario>,
    options: RunOptions,
    observer: Option<&Py<PyAny>>,
) -> PyResult<Ended> {
    let (sender, receiver) = channel();
    let scenario = Arc::clone(scenario);
    let cancel = Arc::clone(&options.cancel);
    let has_observer = observer.is_some();
    let runs = thread::Builder::new()
        .name("ackwise-sim".to_owned())
        .spawn(move || work(&scenario, &options, has_observer, &sender))?;
    let stopped = watch(py, Mutex::new(receiver), observer, &cancel);
    Ok((stopped, py.detach(|| runs.join())))
}

/// Executes runs with policies of Python on this thread. So a signal interrupts a policy that does
/// not return, and debuggers and profilers see it.
fn on_this_thread(
    py: Python<'_>,
    scenario: &Scenario,
    options: &RunOptions,
    observer: Option<&Py<PyAny>>,
) -> Ended {
    let mut stopped = Ok(());
    let outcome = py.detach(|| {
        let mut observe = |progress: Progress<'_>| {
            if stopped.is_err() {
                return;
            }
            stopped = Python::attach(|py| {
                if let (Some(message), Some(observer)) = (ProgressMessage::of(&progress), observer)
                {
                    message.tell(py, observer)?;
                }
                py.check_signals()
            });
            if stopped.is_err() {
                options.cancel.store(true, Ordering::Relaxed);
            }
        };
        let runs = || ackwise_sim::run(scenario, options, &mut observe);
        panic::catch_unwind(AssertUnwindSafe(runs))
    });
    (stopped, outcome)
}

/// The thread that executes the runs.
fn work(
    scenario: &Scenario,
    options: &RunOptions,
    has_observer: bool,
    sender: &Sender<ProgressMessage>,
) -> Result<Report, SimError> {
    ackwise_sim::run(scenario, options, &mut |progress| {
        if let Some(message) = ProgressMessage::of(&progress).filter(|_| has_observer) {
            // Nobody receives reports any more after a cancellation.
            let _ = sender.send(message);
        }
    })
}

/// Passes reports on and checks for signals until the runs have ended.
fn watch(
    py: Python<'_>,
    messages: Mutex<Receiver<ProgressMessage>>,
    observer: Option<&Py<PyAny>>,
    cancel: &AtomicBool,
) -> PyResult<()> {
    let mut stopped = Ok(());
    loop {
        let next = py.detach(|| {
            let messages = messages.lock().unwrap_or_else(PoisonError::into_inner);
            messages.recv_timeout(SIGNAL_CHECK_INTERVAL)
        });
        let delivered = match (&next, observer) {
            (Err(RecvTimeoutError::Disconnected), _) => return stopped,
            (Ok(message), Some(observer)) if stopped.is_ok() => message.tell(py, observer),
            _ => Ok(()),
        };
        if let Err(error) = delivered.and_then(|()| py.check_signals()) {
            cancel.store(true, Ordering::Relaxed);
            stopped = stopped.and(Err(error));
        }
    }
}
