//! `ackwise-lab reproduce`: the papers' experiments, run again.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_engines::{live, virt};
use ackwise_radio::RadioOptions;
use ackwise_radio::scenario::{RadioReport, RadioScenario, RadioSpec};
use ackwise_report::{
    PaperReport, TableOptions, experiments_html, experiments_json, experiments_table,
    papers_index_html,
};
use ackwise_reproduce::{Engine, Error, Paper, Progress, RunScenario, by_name, papers};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::Report;
use anyhow::{Context, bail};

use super::archive::{Archive, Recorder};
use super::cli::ReproduceArgs;
use crate::bar::CountBar;
use crate::written::Writer;

/// Reproduces papers and shows the results.
pub fn reproduce(args: &ReproduceArgs, format: Format) -> anyhow::Result<()> {
    if args.list {
        return list(format);
    }
    let chosen: Vec<&'static dyn Paper> = if args.papers.is_empty() {
        papers().to_vec()
    } else {
        let named: Result<_, Error> = args.papers.iter().map(|name| by_name(name)).collect();
        named?
    };
    if let Some(dir) = &args.html {
        // A mistyped path must not cost an hour of simulation.
        directory(dir)?;
    }
    let archive = args.archive.as_deref().map(Archive::begin).transpose()?;
    let engines = Engines {
        cancel: live::cancel_on_signals()?,
        jobs: args.jobs.map(|jobs| usize::from(jobs.get())),
    };
    let (reports, failures) = run_all(&chosen, args, format, &engines, archive.as_ref());
    let stopped = engines.cancel.load(Ordering::Relaxed);
    let mut writer = Writer::new(reports.len(), chosen.len(), stopped);
    // Printed before files are written: it needs no room on a disk.
    writer.take(print(&reports, format));
    if let Some(dir) = &args.html {
        write_pages(dir, &reports, &mut writer);
    }
    if let Some(archive) = &archive {
        // A failed or stopped archive is incomplete and gets no checksums.
        let complete = failures.is_empty() && writer.is_whole();
        writer.take(fill(archive, &reports, complete));
    }
    writer.take(finish(failures, writer.is_whole()));
    writer.end()
}

fn print(reports: &[PaperReport], format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => text::print(&format!("{}\n", experiments_json(reports)?)),
        Format::Text => {
            for (index, report) in reports.iter().enumerate() {
                let gap = if index > 0 { "\n" } else { "" };
                let table = experiments_table(report, &TableOptions::detect_width());
                text::print(&format!("{gap}{table}"))?;
            }
            Ok(())
        }
    }
}

/// Writes the pages of an archive and, if it is complete, what checks it.
fn fill(archive: &Archive, reports: &[PaperReport], complete: bool) -> anyhow::Result<()> {
    let pages = archive.pages();
    fs::create_dir_all(&pages).with_context(|| pages.display().to_string())?;
    let mut writer = Writer::whole();
    write_pages(&pages, reports, &mut writer);
    writer.end()?;
    match complete {
        true => archive.finish(reports),
        false => Ok(()),
    }
}

/// Runs every paper that can run, and says why the others cannot.
fn run_all(
    chosen: &[&'static dyn Paper],
    args: &ReproduceArgs,
    format: Format,
    engines: &Engines,
    archive: Option<&Archive>,
) -> (Vec<PaperReport>, Vec<Error>) {
    let mut reports = Vec::new();
    let mut failures = Vec::new();
    for paper in chosen {
        let bar = PaperBar::new(paper.name(), format);
        let recorder = archive.map(|archive| Recorder {
            runs: engines,
            archive,
            paper: paper.name(),
        });
        let runs: &dyn RunScenario = recorder.as_ref().map_or(engines, |recorder| recorder);
        let result = ackwise_reproduce::reproduce(*paper, args.engine, args.quick, runs, |p| {
            bar.show_progress(p)
        });
        drop(bar);
        match result {
            Ok(report) => reports.push(report),
            Err(Error::Cancelled) => break,
            // With all papers selected, those that this machine cannot run are reported and
            // skipped.
            Err(e @ (Error::Unavailable { .. } | Error::WrongEngine { .. }))
                if args.papers.is_empty() =>
            {
                reports.push(PaperReport {
                    name: paper.name().to_owned(),
                    title: paper.title().to_owned(),
                    source: paper.source().to_owned(),
                    about: paper.about().to_owned(),
                    engine: "not run".to_owned(),
                    missing: vec![e.to_string()],
                    ..PaperReport::default()
                });
            }
            Err(e) => failures.push(e),
        }
    }
    (reports, failures)
}

fn finish(mut failures: Vec<Error>, whole: bool) -> anyhow::Result<()> {
    if !whole {
        bail!("stopped by a signal; what was finished is above");
    }
    let Some(last) = failures.pop() else {
        return Ok(());
    };
    for failure in &failures {
        tracing::error!("{failure}");
    }
    Err(last.into())
}

fn write_pages(dir: &Path, reports: &[PaperReport], writer: &mut Writer) {
    for report in reports {
        let page = dir.join(format!("{}.html", report.name));
        writer.file(&page, || Ok(experiments_html(report)));
    }
    let index = dir.join("index.html");
    writer.file(&index, || Ok(papers_index_html(reports)));
    let document = dir.join("experiments.json");
    writer.file(&document, || Ok(experiments_json(reports)? + "\n"));
}

/// Creates the directory, and checks that it is writable.
fn directory(dir: &Path) -> Result<(), BadInput> {
    let refused = |e: std::io::Error| {
        BadInput::new(format!("{}: cannot be written: {e}", dir.display()))
            .hint("--html takes a directory for the pages")
    };
    fs::create_dir_all(dir).map_err(refused)?;
    let probe = dir.join("index.html");
    let existed = probe.exists();
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(&probe)
        .map_err(refused)?;
    if !existed {
        let _ = fs::remove_file(probe);
    }
    Ok(())
}

fn list(format: Format) -> anyhow::Result<()> {
    let missing = |paper: &dyn Paper| paper.available(paper.engines()[0]).err();
    match format {
        Format::Json => {
            let all: Vec<_> = papers()
                .iter()
                .map(|paper| {
                    let engines: Vec<_> = paper.engines().iter().map(|e| e.name()).collect();
                    serde_json::json!({
                        "name": paper.name(), "title": paper.title(), "source": paper.source(),
                        "engines": engines, "missing": missing(*paper),
                    })
                })
                .collect();
            text::print_json(&serde_json::json!({ "papers": all }))
        }
        Format::Text => {
            let mut out = String::new();
            for paper in papers() {
                let engines: Vec<_> = paper.engines().iter().map(|e| e.name()).collect();
                out.push_str(&format!(
                    "{:<14}{}\n{:<14}{}; on {}\n",
                    paper.name(),
                    paper.title(),
                    "",
                    paper.source(),
                    engines.join(", "),
                ));
                if let Some(why) = missing(*paper) {
                    out.push_str(&format!("{:<14}not on this machine: {why}\n", ""));
                }
            }
            text::print(&out)
        }
    }
}

/// The engines of this build.
struct Engines {
    cancel: Arc<AtomicBool>,
    jobs: Option<usize>,
}

impl Engines {
    fn sim(
        &self,
        scenario: &Scenario,
        only: &[String],
        done: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Report, Error> {
        let options = ackwise_sim::RunOptions {
            cancel: Arc::clone(&self.cancel),
            only: only.to_vec(),
            jobs: self.jobs.unwrap_or(0),
            ..ackwise_sim::RunOptions::default()
        };
        ackwise_sim::run(scenario, &options, &mut count(done)).map_err(|e| failed(scenario, e))
    }

    fn virt(
        &self,
        scenario: &Scenario,
        only: &[String],
        done: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Report, Error> {
        let options = virt::VirtualOptions {
            run: live::RunOptions {
                cancel: Arc::clone(&self.cancel),
                only: only.to_vec(),
                ..live::RunOptions::default()
            },
            jobs: self.jobs,
            ..virt::VirtualOptions::default()
        };
        virt::run(scenario, &options, &mut count(done)).map_err(|e| failed(scenario, e))
    }

    fn live(
        &self,
        scenario: &Scenario,
        only: &[String],
        done: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Report, Error> {
        let options = live::RunOptions {
            cancel: Arc::clone(&self.cancel),
            only: only.to_vec(),
            ..live::RunOptions::default()
        };
        live::run(scenario, &options, &mut count(done)).map_err(|e| failed(scenario, e))
    }
}

/// Counts finished runs.
fn count(
    done: &mut (dyn FnMut(usize) + Send),
) -> impl FnMut(ackwise_scenario::Progress<'_>) + Send {
    let mut finished = 0;
    move |progress| {
        if let ackwise_scenario::Progress::Finished { .. } = progress {
            finished += 1;
            done(finished);
        }
    }
}

impl RunScenario for Engines {
    fn cancel(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    fn run(
        &self,
        engine: Engine,
        scenario: &Scenario,
        only: &[String],
        done: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Report, Error> {
        let report = match engine {
            Engine::Live => self.live(scenario, only, done),
            Engine::Sim => self.sim(scenario, only, done),
            Engine::Virtual => self.virt(scenario, only, done),
        };
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        report
    }

    fn run_radio(
        &self,
        scenario: &RadioScenario,
        runs: &[RadioSpec],
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<RadioReport, Error> {
        let options = RadioOptions {
            cancel: Arc::clone(&self.cancel),
            jobs: self.jobs.unwrap_or(0),
        };
        let report = ackwise_radio::run(scenario, runs, &options, done)?;
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        Ok(report)
    }
}

fn failed(
    scenario: &Scenario,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::Engine {
        scenario: scenario.name.clone(),
        source: source.into(),
    }
}

/// The progress of one paper.
struct PaperBar {
    bar: CountBar,
    paper: &'static str,
    /// Number of runs of the earlier scenarios, and that number with this scenario's runs.
    before: AtomicU64,
    known: AtomicU64,
}

impl PaperBar {
    fn new(paper: &'static str, format: Format) -> PaperBar {
        PaperBar {
            bar: CountBar::new(0, format),
            paper,
            before: AtomicU64::new(0),
            known: AtomicU64::new(0),
        }
    }

    fn show_progress(&self, progress: Progress) {
        match progress {
            Progress::Expected(runs) => {
                let known = self.known.load(Ordering::Relaxed);
                self.bar.expect(known + runs as u64);
            }
            Progress::Scenario { name, runs } => {
                let before = self.known.fetch_add(runs as u64, Ordering::Relaxed);
                self.before.store(before, Ordering::Relaxed);
                self.bar.expect(before + runs as u64);
                self.bar.show(format!("{}: {name}", self.paper));
                self.bar.skip_to(before);
            }
            Progress::Done(runs) => {
                let before = self.before.load(Ordering::Relaxed);
                self.bar.finished(before + runs as u64);
            }
            Progress::Step(what) => self.bar.step(format!("{}: {what}", self.paper)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_reproduction_replaces_no_page() {
        let dir = tempfile::tempdir().expect("a directory");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect("a file");
        let names = ["index.html", "experiments.json", "marhoon.html"];
        for name in names {
            fs::write(dir.path().join(name), "earlier").expect("a file");
        }
        let report = PaperReport {
            name: "marhoon".to_owned(),
            ..PaperReport::default()
        };
        let write = |done| {
            let mut writer = Writer::new(done, 2, true);
            write_pages(dir.path(), std::slice::from_ref(&report), &mut writer);
            writer.end().expect("written");
        };
        write(1);
        for name in names {
            assert_eq!(read(name), "earlier");
            assert_ne!(read(&format!("{name}.partial")), "earlier");
        }
        write(2);
        for name in names {
            assert_eq!(read(name), read(&format!("{name}.partial")));
        }
    }
}
