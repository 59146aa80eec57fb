//! `run --into` and `report --merge`: a scenario's runs on many machines.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_scenario::record::Report;
use ackwise_scenario::{Engine, Progress, Scenario};
use ackwise_store::{RunSet, Store, StoreError};
use anyhow::bail;
use serde::Serialize;

use crate::cli::RunArgs;
use crate::engines;
use crate::system;

/// The outcome for the selected runs.
#[derive(Serialize)]
struct Outcome {
    /// The set to which the results belong.
    set: String,
    /// Number of selected runs, limited to the shard if there is one.
    runs: usize,
    /// Runs that already had results.
    present: usize,
    /// Runs that were done now and have results.
    added: usize,
    /// Runs that had errors and have no results.
    failed: usize,
}

/// Does the runs of `only` that have no result in a directory yet, and adds their results there.
pub fn run(
    args: &RunArgs,
    into: &Path,
    format: Format,
    scenario: &Scenario,
    only: Vec<String>,
    cancel: &Arc<AtomicBool>,
) -> anyhow::Result<()> {
    let set = RunSet::new(scenario, args.engine, kernel(args)?.as_deref());
    let store = Store::open(into).map_err(refused)?;
    let all = scenario.runs();
    let places: BTreeMap<&str, usize> = all
        .iter()
        .enumerate()
        .map(|(place, run)| (run.id.as_str(), place))
        .collect();
    let mine = match args.shard {
        Some(shard) => shard.of(only),
        None => only,
    };
    let mine: HashSet<&str> = mine.iter().map(String::as_str).collect();
    let mut wanted = all.clone();
    wanted.retain(|run| mine.contains(run.id.as_str()));
    let runs = wanted.len();
    let missing: Vec<String> = store
        .missing(&set, wanted)
        .map_err(refused)?
        .into_iter()
        .map(|run| run.id)
        .collect();
    let mut outcome = Outcome {
        set: set.id().to_owned(),
        runs,
        present: runs - missing.len(),
        added: 0,
        failed: 0,
    };
    let mut keeper = Keeper {
        store: &store,
        set: &set,
        scenario,
        places,
        cancel,
        outcome: &mut outcome,
        refused: None,
    };
    if !missing.is_empty() {
        let mut watch = |progress: &Progress<'_>| keeper.take(progress);
        engines::run(
            args.engine,
            args,
            format,
            scenario,
            cancel,
            &missing,
            &mut watch,
        )?;
    }
    if let Some(error) = keeper.refused {
        bail!(
            "{error}: the result of a run cannot be kept\n  \
             make room there and repeat the command: it runs what is missing"
        );
    }
    report_outcome(into, &outcome, format, cancel.load(Ordering::Relaxed))
}

/// Adds each result as its run ends.
struct Keeper<'a> {
    store: &'a Store,
    set: &'a RunSet,
    scenario: &'a Scenario,
    /// Each run's index among all runs of the scenario, by its id.
    places: BTreeMap<&'a str, usize>,
    cancel: &'a AtomicBool,
    outcome: &'a mut Outcome,
    /// The reason why a result could not be added.
    refused: Option<StoreError>,
}

impl Keeper<'_> {
    fn take(&mut self, progress: &Progress<'_>) {
        let Progress::Finished { run, context, .. } = progress else {
            return;
        };
        if !run.errors.is_empty() {
            self.outcome.failed += 1;
            return;
        }
        let Some(&place) = self.places.get(run.id.as_str()) else {
            return;
        };
        let place = (place, self.places.len());
        match self.store.put(self.set, self.scenario, run, context, place) {
            Ok(()) => self.outcome.added += 1,
            Err(error) => {
                // The results of the other runs could not be stored either.
                self.cancel.store(true, Ordering::Relaxed);
                self.refused.get_or_insert(error);
            }
        }
    }
}

/// Reports the outcome; returns an error if runs are missing.
fn report_outcome(
    into: &Path,
    outcome: &Outcome,
    format: Format,
    stopped: bool,
) -> anyhow::Result<()> {
    match format {
        Format::Json => text::print_json(outcome)?,
        Format::Text => text::print(&format!(
            "{}: {} of {} runs were there, {} were added; set {}\n",
            into.display(),
            outcome.present,
            outcome.runs,
            outcome.added,
            outcome.set
        ))?,
    }
    if outcome.failed > 0 {
        bail!(
            "{} runs had errors, and have no results; the same command runs them again",
            outcome.failed
        );
    }
    if stopped && outcome.present + outcome.added < outcome.runs {
        bail!("stopped by a signal; the same command runs what is missing");
    }
    Ok(())
}

/// The files that a merge of a directory reads.
pub fn results(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    open(directory)?.results().map_err(refused)
}

/// Opens a directory of results. Reading must not create it.
fn open(directory: &Path) -> anyhow::Result<Store> {
    if !directory.is_dir() {
        let what = format!("{}: not a directory", directory.display());
        let hint = "--merge takes what `ackwise-lab run FILE --into DIR` has written";
        return Err(BadInput::new(what).hint(hint).into());
    }
    Store::open(directory).map_err(refused)
}

/// Refuses a new Parquet file among the results: the next merge would take it for one of them.
pub fn check_beside<'a>(
    directory: &Path,
    outputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), BadInput> {
    let folder = directory.canonicalize().ok();
    let is_beside = |output: &Path| {
        let parent = output.parent().filter(|it| !it.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok();
        parent == folder && output.extension().is_some_and(|it| it == "parquet")
    };
    match outputs.into_iter().find(|output| is_beside(output)) {
        Some(output) => Err(BadInput::new(format!(
            "{}: the next --merge would take it for the result of a run",
            output.display()
        ))
        .hint("name a file in another directory")),
        None => Ok(()),
    }
}

/// The report of all results in a directory.
pub fn merge(directory: &Path, set: Option<&str>) -> anyhow::Result<Report> {
    let merged = open(directory)?.merge(set).map_err(refused)?;
    let there = merged.report.runs.len();
    if there < merged.scenario_runs {
        tracing::warn!(
            "{}: results of {there} of the scenario's {} runs for '{}'",
            directory.display(),
            merged.scenario_runs,
            merged.report.engine
        );
    }
    Ok(merged.report)
}

/// The description of everything that went into the kernel, if the engine runs one.
fn kernel(args: &RunArgs) -> anyhow::Result<Option<String>> {
    match args.engine {
        Engine::Sim => Ok(None),
        Engine::Virtual => system::kernel_sources(args.kernel.as_ref()).map(Some),
        Engine::Live => Err(BadInput::new(
            "--into keeps runs that are the same each time, but those of '--on live' differ",
        )
        .hint("use --on sim or --on virtual, or --output FILE")
        .into()),
    }
}

fn refused(error: StoreError) -> anyhow::Error {
    BadInput::new(error.to_string()).into()
}
