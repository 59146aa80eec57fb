//! Runs a scenario's runs in parallel.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ackwise_scenario::record::{Report, Run, RunContext, Testbed};
use ackwise_scenario::{App, Progress, RunSpec, Scenario};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};

use crate::build;
use crate::error::SimError;
use crate::estimate;
use crate::options::RunOptions;
use crate::own_policy;
use crate::record;
use crate::recorder::{MAX_QUEUES, Recorder};
use crate::schedule::MAX_EVENTS;
use crate::time::nanos;

/// Called with progress reports, on any thread, but never concurrently.
pub type Observer<'a> = &'a mut (dyn FnMut(Progress<'_>) + Send);

/// Executes all runs of a scenario, several at a time. The report lists them in the
/// order of [`Scenario::runs`], whatever the number of threads.
///
/// Cancelled runs are left out of the report, which then says so in its notes.
///
/// # Errors
/// The scenario asks for what the simulator has no model of, or for more than
/// a limit allows; nothing was run in that case.
pub fn run(
    scenario: &Scenario,
    options: &RunOptions,
    observe: Observer<'_>,
) -> Result<Report, SimError> {
    run_these(scenario, &chosen(scenario, options), options, observe)
}

/// Checks whether [`run`] would accept a scenario, for callers with other work to do first.
///
/// # Errors
/// The same as [`run`].
pub fn check(scenario: &Scenario, options: &RunOptions) -> Result<(), SimError> {
    checked(scenario, &chosen(scenario, options), options).map(drop)
}

fn chosen(scenario: &Scenario, options: &RunOptions) -> Vec<RunSpec> {
    let mut runs = scenario.runs();
    if !options.only.is_empty() {
        let only: HashSet<&String> = options.only.iter().collect();
        runs.retain(|run| only.contains(&run.id));
    }
    runs
}

/// Checks that the runs have models and exceed no limit; returns the threads for them, or `None` if
/// they are executed one after another on this one.
fn checked(
    scenario: &Scenario,
    runs: &[RunSpec],
    options: &RunOptions,
) -> Result<Option<ThreadPool>, SimError> {
    build::check::policies(scenario)?;
    own_policy::check(scenario, &options.policies)?;
    let pool = match options.jobs {
        1 => None,
        jobs => Some(pool(jobs, runs.len())?),
    };
    let threads = pool.as_ref().map_or(1, ThreadPool::current_num_threads);
    estimate::check(scenario, runs, options, threads)?;
    Ok(pool)
}

/// Executes some of [`Scenario::runs`]. Callers that execute a few of very many at a time list them
/// only once. `RunOptions::only` is ignored here.
///
/// # Errors
/// The same as [`run`].
pub fn run_these(
    scenario: &Scenario,
    runs: &[RunSpec],
    options: &RunOptions,
    observe: Observer<'_>,
) -> Result<Report, SimError> {
    let pool = checked(scenario, runs, options)?;
    let observe = Mutex::new(observe);
    let tell = |progress: Progress<'_>| {
        let mut observe = observe.lock().unwrap_or_else(PoisonError::into_inner);
        (**observe)(progress);
    };
    let total = runs.len();
    let mut context = context(scenario);
    context.notes.extend(own_policy::notes(&options.policies));
    let one = |(index, spec)| {
        if options.cancel.load(Ordering::Relaxed) {
            return Ok(None);
        }
        tell(Progress::Started {
            run: spec,
            index,
            total,
        });
        let run = run_one(scenario, spec, options, &|elapsed| {
            tell(Progress::Running {
                index,
                elapsed,
                duration: scenario.duration,
            });
        })?;
        if let Some(run) = &run {
            tell(Progress::Finished {
                run,
                context: &context,
                index,
                total,
            });
        }
        Ok::<_, SimError>(run)
    };
    let outcome: Result<Vec<Option<Run>>, SimError> = match pool {
        Some(pool) => pool.install(|| {
            let runs = runs.par_iter().enumerate().with_max_len(1);
            runs.map(one).collect()
        }),
        None => runs.iter().enumerate().map(one).collect(),
    };
    let outcome = outcome?;
    let mut report = Report::new("sim", scenario);
    report.environment = context.environment;
    report.runs = outcome.into_iter().flatten().collect();
    report.notes = context.notes;
    let left = total - report.runs.len();
    if left > 0 {
        report
            .notes
            .push(format!("Cancelled: {left} of {total} runs are missing."));
    }
    Ok(report)
}

/// A thread pool for this many runs. It has no more threads than runs, since each thread takes memory
/// and time to start, and as many as there are CPUs if `jobs` is 0.
fn pool(jobs: usize, runs: usize) -> Result<ThreadPool, ThreadPoolBuildError> {
    ThreadPoolBuilder::new()
        .num_threads(jobs.min(runs.max(1)))
        .build()
}

/// How many times a run reports its progress.
const PROGRESS_REPORTS: u64 = 200;

/// Simulates one run; `None` if it was cancelled.
fn run_one(
    scenario: &Scenario,
    spec: &RunSpec,
    options: &RunOptions,
    tell: &dyn Fn(Duration),
) -> Result<Option<Run>, SimError> {
    let scenario = scenario.at(spec)?;
    let own = options.policies.get(&spec.arm);
    let mut built = build::build_with(&scenario, spec, own)?;
    // The estimate is an upper bound; a run that exceeds it by far is caught in a loop.
    let most = options.max_events.saturating_mul(2).min(MAX_EVENTS);
    built.network.max_events = most;
    let mut recorder = Recorder::new(&scenario, &built);
    let end = nanos(scenario.duration);
    let mut sample_at = match scenario.record.series {
        true => nanos(scenario.record.interval).max(1),
        false => end.saturating_add(1),
    };
    let step = (end / PROGRESS_REPORTS).max(1);
    let mut news_at = step;
    let mut cancelled = false;
    built.network.sample_at(sample_at.min(news_at));
    built.network.run(|network| {
        if network.now >= sample_at {
            sample_at = recorder.sample(network);
        }
        if network.now >= news_at {
            news_at += step;
            tell(Duration::from_nanos(network.now));
        }
        cancelled = options.cancel.load(Ordering::Relaxed);
        network.sample_at(sample_at.min(news_at));
        !cancelled
    });
    if cancelled {
        return Ok(None);
    }
    let (events, now) = (built.network.events(), built.network.now);
    let mut run = record::record(&scenario, spec, built, &recorder);
    if now < end {
        run.errors.push(format!(
            "stopped at {} s, after {events} events: either the run needs more (raise --max-events), \
             or the simulator loops at this time, which would be a bug in ackwise",
            now as f64 / 1e9
        ));
    }
    Ok(Some(run))
}

/// The context of the runs, common to all of them.
fn context(scenario: &Scenario) -> RunContext {
    let mut notes = vec![
        "Simulated: round-trip times are all samples of the senders; a policy's deadlines are met to \
         the nanosecond; contents are checked by their byte ranges."
            .to_owned(),
    ];
    let has = |app: fn(&App) -> bool| scenario.flows.iter().any(|flow| app(&flow.app));
    if has(|app| matches!(app, App::Iperf3 { .. })) {
        notes.push("An 'iperf3' flow is simulated as 'bulk'.".to_owned());
    }
    if scenario.links.len() * 2 > MAX_QUEUES && scenario.record.series {
        notes.push(format!(
            "Queue lengths over time are recorded for the {MAX_QUEUES} queues that most flows cross."
        ));
    }
    RunContext {
        environment: Testbed {
            link_emulator: Some("ackwise-queue, simulated".to_owned()),
            ..Testbed::default()
        },
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_threads_than_runs() {
        let threads = |jobs, runs| pool(jobs, runs).unwrap().current_num_threads();
        assert_eq!(threads(300, 3), 3);
        assert_eq!(threads(2, 3), 2);
        assert_eq!(threads(300, 0), 1);
        assert_eq!(threads(0, 1), rayon::current_num_threads());
    }
}
