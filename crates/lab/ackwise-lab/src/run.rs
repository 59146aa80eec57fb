//! `ackwise-lab run`, `report` and `scenario check`.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, outputs, text};
use ackwise_radio::scenario::RadioReport;
use ackwise_report::{AgreementResult, DRAWS_CSV, TableOptions};
use ackwise_scenario::record::Report;
use ackwise_scenario::{Engine, Filter, Scenario, ScenarioError};
use anyhow::{Context as _, bail};
use serde::Serialize;

use crate::cli::{RenderArgs, ReportArgs, RunArgs};
use crate::engines;
use crate::input;
use crate::radio;
use crate::shards;
use crate::system;
use crate::traces;
use crate::written::Writer;

/// Runs a scenario and shows the results.
pub fn run(args: &RunArgs, format: Format) -> anyhow::Result<()> {
    check_arguments(args)?;
    if radio::is_meant(&args.scenario) {
        return radio::run(args, format);
    }
    let scenario = wanted(args)?;
    let only = selected(&scenario, args, args.engine)?;
    let cancel = system::cancel_on_signals()?;
    if let Some(into) = &args.into {
        return shards::run(args, into, format, &scenario, only, &cancel);
    }
    let other_only = args.against.map(|engine| selected(&scenario, args, engine));
    let other_only = other_only.transpose()?.unwrap_or_default();
    if let Some(engine) = args.against {
        engines::check(engine, args, &scenario, &other_only)?;
    }
    let report = engines::run(
        args.engine,
        args,
        format,
        &scenario,
        &cancel,
        &only,
        &mut |_| (),
    )?;
    let stopped = || cancel.load(Ordering::Relaxed);
    let mut writer = Writer::new(report.runs.len(), only.len(), stopped());
    writer.make_directory(&args.render);
    if let Some(path) = &args.output {
        writer.file(path, || Ok(report.to_json()?));
    }
    let other = match args.against {
        Some(engine) if !stopped() => {
            let other = engines::run(
                engine,
                args,
                format,
                &scenario,
                &cancel,
                &other_only,
                &mut |_| (),
            )?;
            Some(other)
        }
        _ => None,
    };
    match (&other, format) {
        (Some(other), Format::Json) => {
            let agreements = ackwise_report::agreements(&report, other, &scenario);
            writer.take(text::print_json(&Both {
                report: &report,
                against: other,
                agreements: &agreements,
            }));
        }
        _ => print(&report, format, &mut writer),
    }
    files(&report, &args.render, &mut writer);
    if format == Format::Text {
        print_expectations(&report, &scenario, &mut writer);
        writer.name_page();
    }
    let judged = || {
        check_complete(&report, only.len(), stopped())?;
        match (&other, args.against) {
            (Some(other), _) => {
                check_complete(other, other_only.len(), stopped())?;
                agree(&report, other, &scenario, format)
            }
            (None, Some(engine)) => {
                bail!("stopped by a signal before '{engine}' ran; nothing was compared")
            }
            (None, None) => Ok(()),
        }
    };
    writer.take(judged());
    writer.end()
}

/// Shows what the scenario expects of its results, if it expects anything.
fn print_expectations(report: &Report, scenario: &Scenario, writer: &mut Writer) {
    let expected = ackwise_report::expectations(report, scenario);
    if !expected.is_empty() {
        let text = ackwise_report::expectations_text(&expected);
        writer.take(text::print(&format!("\n{text}")));
    }
}

/// The scenario with the duration and draws from the arguments.
fn wanted(args: &RunArgs) -> anyhow::Result<Scenario> {
    let mut scenario = load(&args.scenario)?;
    if let Some(duration) = args.duration {
        scenario = scenario.with_duration(duration)?;
    }
    if args.draw_seed.is_some() || args.draws.is_some() || args.repeats.is_some() {
        scenario = with_draws(&scenario, args)?;
    }
    if args.against.is_some() && scenario.agrees.is_empty() {
        return Err(BadInput::new(format!(
            "{}: it does not say how closely two engines have to agree",
            args.scenario.display()
        ))
        .hint("add [[agree]] with a 'metric' and 'within' (docs/scenarios.md)")
        .into());
    }
    Ok(scenario)
}

/// The ids of the runs that the arguments select on an engine.
fn selected(
    scenario: &Scenario,
    args: &RunArgs,
    engine: Engine,
) -> Result<Vec<String>, ScenarioError> {
    let filter = Filter {
        arms: args.arms.clone(),
        cc: args.cc.clone(),
        seeds: args.seeds.clone(),
        points: args.points.clone(),
        engine: None,
    };
    scenario.select_on(engine, filter)
}

/// The scenario with other draws. This edits the text, because every run reads it again.
fn with_draws(scenario: &Scenario, args: &RunArgs) -> anyhow::Result<Scenario> {
    if scenario.sweep.draw.is_none() {
        let file = args.scenario.display();
        return Err(BadInput::new(format!("{file}: no points are drawn here"))
            .hint(
                "leave out --draw-seed, --draws and --repeats, or add [sweep.draw] \
                 (docs/scenarios.md)",
            )
            .into());
    }
    let mut text: toml_edit::DocumentMut = scenario
        .source
        .text
        .parse()
        .context("reading the scenario again")?;
    if let Some(seed) = args.draw_seed {
        text["sweep"]["draw"]["seed"] = toml_edit::value(i64::from(seed));
    }
    if let Some(points) = args.draws {
        text["sweep"]["draw"]["n"] = toml_edit::value(i64::from(points));
    }
    if let Some(repeats) = args.repeats {
        let draw = &mut text["sweep"]["draw"];
        if draw.get("repeat").is_none() {
            let file = args.scenario.display();
            return Err(
                BadInput::new(format!("{file}: nothing is redrawn for a repeat"))
                    .hint("leave out --repeats, or add [sweep.draw.repeat] (docs/scenarios.md)")
                    .into(),
            );
        }
        draw["repeat"]["n"] = toml_edit::value(i64::from(repeats));
    }
    Ok(Scenario::parse(&scenario.source.path, &text.to_string())?)
}

/// The results of two engines.
#[derive(Serialize)]
struct Both<'a> {
    #[serde(flatten)]
    report: &'a Report,
    against: &'a Report,
    agreements: &'a [AgreementResult],
}

/// Reports how far two engines are apart; returns an error if that is too far.
fn agree(
    report: &Report,
    other: &Report,
    scenario: &Scenario,
    format: Format,
) -> anyhow::Result<()> {
    let results = ackwise_report::agreements(report, other, scenario);
    if format == Format::Text {
        let text = ackwise_report::agreements_text(&results);
        text::print(&format!(
            "\n{} and {}:\n{text}",
            report.engine, other.engine
        ))?;
    }
    let differ = results.iter().filter(|result| !result.met).count();
    if differ > 0 {
        bail!(
            "{} and {} differ in {differ} of {} numbers by more than the scenario allows",
            report.engine,
            other.engine,
            results.len()
        );
    }
    Ok(())
}

/// Returns an error if runs failed, or are missing because of a signal.
fn check_complete(report: &Report, wanted: usize, stopped: bool) -> anyhow::Result<()> {
    let failed = report
        .runs
        .iter()
        .filter(|run| !run.errors.is_empty())
        .count();
    if failed > 0 {
        bail!(
            "{failed} of {} runs had errors; their numbers are not to be trusted",
            report.runs.len()
        );
    }
    if stopped && report.runs.len() < wanted {
        bail!(
            "stopped by a signal after {} of {wanted} runs",
            report.runs.len()
        );
    }
    Ok(())
}

/// Shows the result of an earlier run.
pub fn report(args: &ReportArgs, format: Format) -> anyhow::Result<()> {
    let inputs = match &args.merge {
        Some(directory) => shards::results(directory)?,
        None => args.result.iter().cloned().collect(),
    };
    check_outputs(args.output.as_deref(), &args.render, &inputs)?;
    if let Some(directory) = &args.merge {
        let outputs = [&args.output, &args.render.html, &args.render.parquet];
        shards::check_beside(directory, outputs.into_iter().flatten())?;
        return merged(args, directory, format);
    }
    let path = args.result.as_deref().unwrap_or_else(|| Path::new("-"));
    let refused = |e: &dyn Display| {
        BadInput::new(format!("{}: {e}", path.display()))
            .hint("it must be what `ackwise-lab run --output` or `run --format json` wrote")
    };
    let bytes = input::read(path, 1, |start| matches!(start, [b'{' | b' ' | b'\n'] | []))?;
    let bytes = bytes.ok_or_else(|| refused(&"it is no JSON object"))?;
    let text = String::from_utf8(bytes).map_err(|e| refused(&e))?;
    if let Some(report) = RadioReport::from_json(&text).map_err(|e| refused(&e))? {
        return radio::show(&report, &args.render, format, Writer::whole());
    }
    let report = Report::from_json(&text).map_err(|e| refused(&e))?;
    if report.runs.is_empty() {
        return Err(refused(&"it has no runs").into());
    }
    show(&report, &args.render, format, Writer::whole())
}

/// Shows the merged results of a directory, and writes them as one record.
fn merged(args: &ReportArgs, directory: &Path, format: Format) -> anyhow::Result<()> {
    let report = shards::merge(directory, args.set.as_deref())?;
    let mut writer = Writer::whole();
    writer.make_directory(&args.render);
    if let Some(path) = &args.output {
        writer.file(path, || Ok(report.to_json()?));
    }
    show(&report, &args.render, format, writer)
}

/// Prints a report and writes the requested files.
fn show(
    report: &Report,
    render: &RenderArgs,
    format: Format,
    mut writer: Writer,
) -> anyhow::Result<()> {
    writer.make_directory(render);
    print(report, format, &mut writer);
    files(report, render, &mut writer);
    if format == Format::Text {
        writer.name_page();
    }
    writer.end()
}

/// Prints a report before files are written: it needs no room on a disk.
fn print(report: &Report, format: Format, writer: &mut Writer) {
    let outcome = match format {
        Format::Json => report
            .to_json()
            .map_err(Into::into)
            .and_then(|json| text::print(&format!("{}\n", json.trim_end()))),
        Format::Text => text::print(&ackwise_report::table(report, &TableOptions::detect())),
    };
    writer.take(outcome);
}

/// Writes the requested files.
fn files(report: &Report, render: &RenderArgs, writer: &mut Writer) {
    writer.page(render, || ackwise_report::html(report));
    if let Some(dir) = &render.csv {
        writer.file(&dir.join("runs.csv"), || Ok(report.runs_csv()?));
        writer.file(&dir.join("series.csv"), || Ok(report.series_csv()?));
        match ackwise_report::draws_csv(report) {
            Ok(Some(rows)) => {
                writer.file(&dir.join("draws.csv"), || Ok(rows));
            }
            // Those of an earlier experiment do not belong to these runs.
            Ok(None) => writer.remove(&dir.join("draws.csv"), &DRAWS_CSV),
            Err(error) => writer.take(Err(error.into())),
        }
    }
    if let Some(path) = &render.parquet {
        writer.file(path, || {
            let mut table = Vec::new();
            ackwise_store::write_report(report, &mut table)?;
            Ok(table)
        });
    }
}

/// Checks scenario files: shows every mistake of every file, then the verdict.
pub fn check(files: &[PathBuf], format: Format) -> anyhow::Result<()> {
    let checked_files: Vec<_> = files.iter().map(|file| Checked::of(file)).collect();
    let wrong = checked_files
        .iter()
        .filter(|c| !c.mistakes.is_empty())
        .count();
    match format {
        Format::Json => text::print_json(&serde_json::json!({ "files": checked_files }))?,
        Format::Text => {
            for checked in &checked_files {
                match &checked.summary {
                    Some(summary) => {
                        text::print(&format!("{}: {summary}\n", checked.file.display()))?
                    }
                    None => {
                        let rendered = text::printable(checked.rendered.trim_end());
                        text::print(&format!("{rendered}\n\n"))?;
                    }
                }
            }
        }
    }
    if wrong > 0 {
        return Err(
            BadInput::new(format!("{wrong} of {} files have mistakes", files.len())).into(),
        );
    }
    Ok(())
}

#[derive(Serialize)]
struct Checked {
    file: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<String>,
    mistakes: Vec<Mistake>,
    #[serde(skip)]
    rendered: String,
}

#[derive(Serialize)]
struct Mistake {
    line: usize,
    column: usize,
    message: String,
}

impl Checked {
    fn of(file: &Path) -> Self {
        let mut checked = Self {
            file: file.to_owned(),
            summary: None,
            mistakes: Vec::new(),
            rendered: String::new(),
        };
        let errors = match Scenario::load(file) {
            Err(_) if radio::is_meant(file) => match radio::load(file) {
                Ok(scenario) => {
                    let (arms, runs) = (scenario.arms.len(), scenario.runs().len());
                    checked.summary = Some(format!("{}: {arms} arms, {runs} runs", scenario.name));
                    Vec::new()
                }
                Err(e) => vec![e],
            },
            Ok(scenario) => {
                let errors = scenario.policy_mistakes();
                if errors.is_empty() {
                    let (arms, runs) = (scenario.arms.len(), scenario.runs().len());
                    checked.summary = Some(format!("{}: {arms} arms, {runs} runs", scenario.name));
                }
                errors
            }
            Err(e) => vec![e],
        };
        for e in &errors {
            checked.rendered.push_str(&format!("{e}\n"));
            checked
                .mistakes
                .extend(e.diagnostics().iter().map(|d| Mistake {
                    line: d.line,
                    column: d.column,
                    message: d.message.clone(),
                }));
            if e.diagnostics().is_empty() {
                checked.mistakes.push(Mistake {
                    line: 0,
                    column: 0,
                    message: e.to_string(),
                });
            }
        }
        checked
    }
}

fn load(path: &Path) -> Result<Scenario, ScenarioError> {
    let scenario = Scenario::load(path)?;
    match scenario.policy_mistakes().into_iter().next() {
        Some(e) => Err(e),
        None => Ok(scenario),
    }
}

/// Refuses arguments that belong to other kinds of runs before a run begins.
fn check_arguments(args: &RunArgs) -> Result<(), BadInput> {
    let render = &args.render;
    let inputs = traces::files(&args.scenario);
    let inputs = [vec![args.scenario.clone()], inputs].concat();
    check_outputs(args.output.as_deref(), render, &inputs)?;
    let engines = [Some(args.engine), args.against];
    if args.kernel.is_some() && !engines.contains(&Some(Engine::Virtual)) {
        return Err(BadInput::new("--kernel is for runs in virtual time")
            .hint("add `--on virtual`, or leave it out"));
    }
    let limits = args.max_events.or(args.max_memory).is_some();
    if limits && !engines.contains(&Some(Engine::Sim)) {
        return Err(
            BadInput::new("--max-events and --max-memory are for runs on the simulator")
                .hint("leave them out, or add `--on sim`"),
        );
    }
    let keeps = args.into.is_some() || render.parquet.is_some();
    if keeps && radio::is_meant(&args.scenario) {
        let file = args.scenario.display();
        let what = "--into and --parquet do not support radio networks";
        return Err(
            BadInput::new(format!("{file}: {what}")).hint("write its record to a file by --output")
        );
    }
    Ok(())
}

/// Checks that the outputs are writable, so that a mistyped path does not cost an hour of
/// measurements.
fn check_outputs(
    output: Option<&Path>,
    render: &RenderArgs,
    inputs: &[PathBuf],
) -> Result<(), BadInput> {
    let mut files: Vec<PathBuf> = [output, render.html.as_deref(), render.parquet.as_deref()]
        .into_iter()
        .flatten()
        .map(Path::to_owned)
        .collect();
    let directory = render.csv.as_deref().map(TrialDirectory::new).transpose()?;
    if let Some(TrialDirectory { path, .. }) = &directory {
        files.extend(["runs.csv", "series.csv", "draws.csv"].map(|name| path.join(name)));
    }
    let inputs = inputs.iter().map(PathBuf::as_path);
    outputs::check(files.iter().map(PathBuf::as_path), inputs)
}

/// A directory that is there while outputs are checked. When dropped, it leaves nothing that was
/// not there before: the command may still be refused.
struct TrialDirectory<'a> {
    path: &'a Path,
    /// What was not there before, the innermost first.
    missing: Vec<&'a Path>,
}

impl<'a> TrialDirectory<'a> {
    fn new(path: &'a Path) -> Result<Self, BadInput> {
        let named = path.ancestors().filter(|it| !it.as_os_str().is_empty());
        let missing = named.take_while(|it| it.symlink_metadata().is_err());
        let directory = Self {
            path,
            missing: missing.collect(),
        };
        fs::create_dir_all(path)
            .map_err(|e| BadInput::new(format!("{}: cannot be made: {e}", path.display())))?;
        Ok(directory)
    }
}

impl Drop for TrialDirectory<'_> {
    fn drop(&mut self) {
        for path in &self.missing {
            // One that somebody uses meanwhile stays.
            let _ = fs::remove_dir(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_after_the_last_run_stops_nothing() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../../scenarios/first-look.toml"
        );
        let scenario = load(Path::new(path)).expect("a scenario");
        let report = Report::new("sim", &scenario);
        check_complete(&report, 0, true).expect("all runs have ended");
        let error = check_complete(&report, 1, true).expect_err("one is missing");
        assert!(error.to_string().contains("0 of 1 runs"), "{error}");
    }
}
