//! `ackwise run`, `report` and `scenario check`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackwise_lab::LabError;
use ackwise_lab::live::{self, Progress, RunOptions};
use ackwise_lab::virt::{self, VirtualOptions};
use ackwise_report::TableOptions;
use ackwise_scenario::record::Report;
use ackwise_scenario::{Filter, Scenario, ScenarioError};
use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::cli::{Engine, Format, RenderArgs, ReportArgs, RunArgs};
use crate::error::BadInput;
use crate::policies;
use crate::text;

/// Steps of the bar for each run.
const STEPS: u64 = 100;

/// Runs a scenario and shows what came out.
pub fn run(args: &RunArgs, format: Format) -> anyhow::Result<()> {
    let mut scenario = load(&args.scenario)?;
    if let Some(duration) = args.duration {
        scenario = with_duration(&scenario, duration)?;
    }
    let filter = Filter {
        arms: args.arms.clone(),
        cc: args.cc.clone(),
        seeds: args.seeds.clone(),
    };
    let runs = scenario.select(&filter)?;
    // An hour of measurements is not to be lost to a mistyped path.
    for file in args.output.iter().chain(&args.render.html) {
        writable(file)?;
    }
    let cancel = live::cancel_on_signals()?;
    let only: Vec<String> = runs.into_iter().map(|run| run.id).collect();
    let wanted = only.len();
    let report = engine(args, &scenario, &cancel, only)?;
    if let Some(path) = &args.output {
        fs::write(path, report.to_json()?)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    show(&report, &args.render, format)?;
    if format == Format::Text {
        let expected = ackwise_report::expectations(&report, &scenario);
        if !expected.is_empty() {
            text::print(&format!(
                "\n{}",
                ackwise_report::expectations_text(&expected)
            ))?;
        }
    }
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
    if cancel.load(Ordering::Relaxed) {
        bail!(
            "stopped by a signal after {} of {wanted} runs",
            report.runs.len()
        );
    }
    Ok(())
}

/// Runs `only` these runs on the engine that was asked for.
fn engine(
    args: &RunArgs,
    scenario: &Scenario,
    cancel: &Arc<AtomicBool>,
    only: Vec<String>,
) -> anyhow::Result<Report> {
    let cancel = Arc::clone(cancel);
    match args.engine {
        Engine::Live => {
            let options = RunOptions {
                cancel,
                only,
                ..RunOptions::default()
            };
            observed(options.only.len(), |observe| {
                live::run(scenario, &options, observe)
            })
        }
        Engine::Virtual => {
            let options = VirtualOptions {
                run: RunOptions {
                    cancel,
                    only,
                    ..RunOptions::default()
                },
                jobs: args.jobs.map(|jobs| jobs.get().into()),
                kernel: args.kernel.clone(),
                ..VirtualOptions::default()
            };
            observed(options.run.only.len(), |observe| {
                virt::run(scenario, &options, observe)
            })
        }
        Engine::Sim => {
            let options = ackwise_sim::RunOptions {
                cancel,
                only,
                jobs: args.jobs.map_or(0, |jobs| jobs.get().into()),
                max_events: args.max_events,
                max_memory: args.max_memory,
            };
            simulated(scenario, &options)
        }
    }
}

fn bar(runs: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {percent:>3} % {wide_msg} {eta} left")
        .expect("a constant template");
    ProgressBar::new(runs as u64 * STEPS).with_style(style)
}

fn share(elapsed: Duration, duration: Duration) -> u64 {
    let share = elapsed.as_secs_f64() / duration.as_secs_f64().max(1e-3);
    (share.min(1.0) * STEPS as f64) as u64
}

/// Simulates it, several runs at a time.
fn simulated(scenario: &Scenario, options: &ackwise_sim::RunOptions) -> anyhow::Result<Report> {
    use ackwise_sim::Progress;

    let bar = bar(options.only.len());
    // Of each run that goes on, how far it is.
    let mut done = vec![0; options.only.len()];
    let report = ackwise_sim::run(scenario, options, &mut |progress| {
        let (index, steps) = match progress {
            Progress::Started { run, index, .. } => {
                bar.set_message(run.id.clone());
                (index, 0)
            }
            Progress::Running {
                index,
                elapsed,
                duration,
            } => (index, share(elapsed, duration)),
            Progress::Finished { run, index, .. } => {
                for e in &run.errors {
                    bar.suspend(|| tracing::warn!("{}: {e}", run.id));
                }
                (index, STEPS)
            }
            _ => return,
        };
        if let Some(slot) = done.get_mut(index) {
            bar.inc(steps - std::mem::replace(slot, steps));
        }
    });
    bar.finish_and_clear();
    Ok(report?)
}

/// Runs it in the lab with a bar for whoever watches; otherwise in silence.
fn observed(
    runs: usize,
    run: impl FnOnce(live::Observer<'_>) -> Result<Report, LabError>,
) -> anyhow::Result<Report> {
    let bar = bar(runs);
    // Of each run that goes on, how far it is.
    let mut done = vec![0; runs];
    let report = run(&mut |progress| {
        let (index, steps) = match progress {
            Progress::Started { run, index, .. } => {
                bar.set_message(run.id.clone());
                bar.tick();
                (index, 0)
            }
            Progress::Running {
                index,
                elapsed,
                duration,
            } => (index, share(elapsed, duration)),
            Progress::Finished { run, index, .. } => {
                for e in &run.errors {
                    bar.suspend(|| tracing::warn!("{}: {e}", run.id));
                }
                (index, STEPS)
            }
            _ => return,
        };
        if let Some(slot) = done.get_mut(index) {
            bar.inc(steps - std::mem::replace(slot, steps));
        }
    });
    bar.finish_and_clear();
    Ok(report?)
}

/// The scenario with another duration: in its text, since every run reads that again.
fn with_duration(scenario: &Scenario, duration: Duration) -> anyhow::Result<Scenario> {
    let mut text: toml_edit::DocumentMut = scenario
        .source
        .text
        .parse()
        .context("reading the scenario again")?;
    text["scenario"]["duration"] = toml_edit::value(format!("{} ms", duration.as_millis()));
    Ok(Scenario::parse(&scenario.source.path, &text.to_string())?)
}

/// Shows the result of an earlier run.
pub fn report(args: &ReportArgs, format: Format) -> anyhow::Result<()> {
    let path = &args.result;
    let text = fs::read_to_string(path).map_err(|e| unreadable(path, &e))?;
    let report = Report::from_json(&text).map_err(|e| {
        BadInput::new(format!("{}: {e}", path.display()))
            .mend("it must be what `ackwise run --output` or `run --format json` wrote")
    })?;
    show(&report, &args.render, format)
}

fn show(report: &Report, render: &RenderArgs, format: Format) -> anyhow::Result<()> {
    let write = |path: &Path, text: String| {
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    };
    if let Some(path) = &render.html {
        write(path, ackwise_report::html(report))?;
    }
    if let Some(dir) = &render.csv {
        fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        write(&dir.join("runs.csv"), report.runs_csv()?)?;
        write(&dir.join("series.csv"), report.series_csv()?)?;
    }
    match format {
        Format::Json => text::print(&format!("{}\n", report.to_json()?.trim_end())),
        Format::Text => text::print(&ackwise_report::table(report, &TableOptions::detect())),
    }
}

/// Looks at scenario files: every mistake of every file, then the verdict.
pub fn check(files: &[PathBuf], format: Format) -> anyhow::Result<()> {
    let looked: Vec<_> = files.iter().map(|file| Checked::of(file)).collect();
    let wrong = looked.iter().filter(|c| !c.mistakes.is_empty()).count();
    match format {
        Format::Json => text::print_json(&serde_json::json!({ "files": looked }))?,
        Format::Text => {
            for checked in &looked {
                match &checked.summary {
                    Some(summary) => {
                        text::print(&format!("{}: {summary}\n", checked.file.display()))?
                    }
                    None => text::print(&format!("{}\n\n", checked.rendered.trim_end()))?,
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
            Ok(scenario) => {
                let errors = policy_mistakes(&scenario);
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
    match policy_mistakes(&scenario).into_iter().next() {
        Some(e) => Err(e),
        None => Ok(scenario),
    }
}

/// What the parser of scenarios cannot know: which policies there are, and what they take.
fn policy_mistakes(scenario: &Scenario) -> Vec<ScenarioError> {
    let mut mistakes = Vec::new();
    for placement in scenario.arms.iter().flat_map(|arm| &arm.placements) {
        if let Err(e) = policies::by_name(&placement.policy) {
            mistakes.push(scenario.error_at(&placement.policy_span, e.in_one_line()));
            continue;
        }
        for setting in &placement.set {
            let text = format!("{}={}", setting.name, setting.value);
            if let Err(e) = policies::configure(&placement.policy, &[text]) {
                mistakes.push(scenario.error_at(&setting.value_span, e.in_one_line()));
            }
        }
    }
    mistakes
}

fn unreadable(path: &Path, e: &io::Error) -> BadInput {
    BadInput::new(format!("{}: cannot be read: {e}", path.display()))
}

/// Whether a file can be written here, without touching what it has.
fn writable(path: &Path) -> Result<(), BadInput> {
    let existed = path.exists();
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|e| BadInput::new(format!("{}: cannot be written: {e}", path.display())))?;
    if !existed {
        let _ = fs::remove_file(path);
    }
    Ok(())
}
