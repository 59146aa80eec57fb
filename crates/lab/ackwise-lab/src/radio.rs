//! `run`, `report` and `scenario check` for scenarios of low-power radio.

use std::path::Path;
use std::sync::atomic::Ordering;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_config::Source;
use ackwise_radio::RadioOptions;
use ackwise_radio::scenario::{RadioReport, RadioScenario};
use ackwise_report::{DRAWS_CSV, TableOptions};
use ackwise_scenario::tables::SERIES_CSV;
use ackwise_scenario::{Engine, Filter, ScenarioError};
use anyhow::anyhow;

use crate::bar::CountBar;
use crate::cli::{RenderArgs, RunArgs};
use crate::system;
use crate::written::Writer;

/// Whether a file is meant to be a radio scenario. An unreadable file is not: its next reader
/// reports the error.
pub fn is_meant(path: &Path) -> bool {
    Source::read(path).is_ok_and(|source| RadioScenario::is_meant(&source.text))
}

/// Reads a radio scenario; this also checks policies and models.
pub fn load(path: &Path) -> Result<RadioScenario, ScenarioError> {
    let scenario = RadioScenario::load(path)?;
    ackwise_radio::check(&scenario)?;
    Ok(scenario)
}

/// Runs a radio scenario and shows the results.
pub fn run(args: &RunArgs, format: Format) -> anyhow::Result<()> {
    let mut scenario = load(&args.scenario)?;
    only_simulated(args)?;
    if let Some(duration) = args.duration {
        scenario = scenario.with_duration(duration)?;
    }
    let runs = scenario.select(&Filter {
        arms: args.arms.clone(),
        cc: args.cc.clone(),
        seeds: args.seeds.clone(),
        ..Filter::default()
    })?;
    let options = RadioOptions {
        cancel: system::cancel_on_signals()?,
        jobs: args.jobs.map_or(0, |jobs| jobs.get().into()),
    };
    let bar = CountBar::new(runs.len(), format);
    bar.show(scenario.name.clone());
    let done = |count: usize| bar.finished(count as u64);
    let report = ackwise_radio::run(&scenario, &runs, &options, &done);
    drop(bar);
    let report = report?;
    let stopped = options.cancel.load(Ordering::Relaxed);
    let mut writer = Writer::new(report.runs.len(), runs.len(), stopped);
    writer.make_directory(&args.render);
    if let Some(path) = &args.output {
        writer.file(path, || Ok(report.to_json()?));
    }
    if !writer.is_whole() {
        let (done, wanted) = (report.runs.len(), runs.len());
        writer.take(Err(anyhow!(
            "stopped by a signal after {done} of {wanted} runs"
        )));
    }
    show(&report, &args.render, format, writer)
}

/// Returns an error for an engine without radio.
fn only_simulated(args: &RunArgs) -> Result<(), BadInput> {
    let other = |engine: &Engine| *engine != Engine::Sim;
    let file = args.scenario.display();
    if let Some(engine) = [Some(args.engine), args.against]
        .into_iter()
        .flatten()
        .find(other)
    {
        return Err(BadInput::new(format!(
            "{file}: a radio scenario does not run on '{engine}': its nodes are radios with \
             802.15.4, AODV and batteries, which the links between Linux stacks do not have"
        ))
        .hint("run it with --on sim; docs/radio.md describes radio scenarios"));
    }
    let draws = args.draws.or(args.draw_seed).or(args.repeats);
    if draws.is_some() || !args.points.is_empty() {
        return Err(
            BadInput::new(format!("{file}: a radio scenario draws no points"))
                .hint("leave out --draw-seed, --draws, --repeats and --point"),
        );
    }
    if args.max_events.or(args.max_memory).is_some() {
        let message = format!("{file}: a radio scenario has no limit of events or memory");
        return Err(BadInput::new(message).hint("leave out --max-events and --max-memory"));
    }
    if args.against.is_some() {
        return Err(BadInput::new(format!(
            "{file}: only the simulator runs radio scenarios; there is nothing to \
                                   compare it with"
        ))
        .hint("leave out --against"));
    }
    Ok(())
}

/// Prints a record and writes the requested files.
pub fn show(
    report: &RadioReport,
    render: &RenderArgs,
    format: Format,
    mut writer: Writer,
) -> anyhow::Result<()> {
    if render.parquet.is_some() {
        return Err(
            BadInput::new("--parquet: a radio network has other columns")
                .hint("write them as CSV by --csv DIR")
                .into(),
        );
    }
    writer.make_directory(render);
    writer.take(match format {
        Format::Json => report
            .to_json()
            .map_err(Into::into)
            .and_then(|json| text::print(&json)),
        Format::Text => text::print(&ackwise_radio::table(report, &TableOptions::detect())),
    });
    writer.page(render, || ackwise_radio::html(report));
    if let Some(dir) = &render.csv {
        writer.file(&dir.join("runs.csv"), || Ok(report.runs_csv()?));
        // Those of an earlier experiment do not belong to these runs.
        writer.remove(&dir.join("series.csv"), &SERIES_CSV);
        writer.remove(&dir.join("draws.csv"), &DRAWS_CSV);
    }
    writer.end()
}
