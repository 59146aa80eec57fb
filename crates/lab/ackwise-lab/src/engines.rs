//! Runs a scenario on any of the engines, with a progress bar.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ackwise_cli::Format;
use ackwise_scenario::record::Report;
use ackwise_scenario::{Engine, Progress, Scenario};

use crate::bar::Bar;
use crate::cli::RunArgs;
use crate::system;

/// Runs the runs in `only` on an engine, and shows progress as `format` asks for; `watch` also gets
/// the progress.
pub fn run(
    engine: Engine,
    args: &RunArgs,
    format: Format,
    scenario: &Scenario,
    cancel: &Arc<AtomicBool>,
    only: &[String],
    watch: &mut (dyn FnMut(&Progress<'_>) + Send),
) -> anyhow::Result<Report> {
    let (cancel, only) = (Arc::clone(cancel), only.to_vec());
    let mut bar = Bar::new(only.len(), format);
    let mut show_progress = |progress: Progress<'_>| {
        bar.show_progress(&progress);
        watch(&progress);
    };
    let report = match engine {
        Engine::Sim => {
            let options = ackwise_sim::RunOptions {
                cancel,
                ..simulated(args, only)
            };
            ackwise_sim::run(scenario, &options, &mut show_progress)?
        }
        Engine::Live => system::run_live(scenario, cancel, only, &mut show_progress)?,
        Engine::Virtual => {
            let kernel = args.kernel.as_ref();
            let jobs = args.jobs.map(|jobs| jobs.get().into());
            system::run_virtual(scenario, cancel, only, jobs, kernel, &mut show_progress)?
        }
    };
    Ok(report)
}

/// Checks that an engine can run these runs, before another engine runs them in vain.
pub fn check(
    engine: Engine,
    args: &RunArgs,
    scenario: &Scenario,
    only: &[String],
) -> anyhow::Result<()> {
    let only = only.to_vec();
    match engine {
        Engine::Sim => Ok(ackwise_sim::check(scenario, &simulated(args, only))?),
        Engine::Live => system::check_live(scenario),
        Engine::Virtual => system::check_virtual(scenario, only, args.kernel.as_ref()),
    }
}

fn simulated(args: &RunArgs, only: Vec<String>) -> ackwise_sim::RunOptions {
    ackwise_sim::RunOptions {
        only,
        jobs: args.jobs.map_or(0, |jobs| jobs.get().into()),
        max_events: args
            .max_events
            .unwrap_or(ackwise_sim::RunOptions::MAX_EVENTS),
        max_memory: args
            .max_memory
            .unwrap_or(ackwise_sim::RunOptions::MAX_MEMORY),
        ..ackwise_sim::RunOptions::default()
    }
}
