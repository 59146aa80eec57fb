//! The list of papers, and the function that reproduces one of them.

use ackwise_report::PaperReport;

use crate::claim::not_run;
use crate::{Engine, Error, Lab, Paper, Progress, RunScenario};

/// All papers, in the order in which they are listed.
pub fn papers() -> &'static [&'static dyn Paper] {
    &[
        &crate::saldana::Saldana,
        &crate::marhoon::Marhoon,
        &crate::pavilanskas::Pavilanskas,
        &crate::conclusions::Conclusions,
        &crate::statkus::Statkus,
        &crate::ayadi::Ayadi,
    ]
}

/// The paper with this name.
///
/// # Errors
///
/// No paper has this name; the error lists the names that exist.
pub fn by_name(name: &str) -> Result<&'static dyn Paper, Error> {
    let found = papers().iter().find(|paper| paper.name() == name);
    found.copied().ok_or_else(|| Error::UnknownPaper {
        name: name.to_owned(),
        known: names(papers().iter().map(|paper| paper.name())),
    })
}

/// The tolerances of all papers, as a Markdown table.
pub fn tolerances_table() -> String {
    let mut table = "| Paper | Rows | Tolerance |\n|---|---|---|\n".to_owned();
    for paper in papers() {
        for held in paper.tolerances() {
            let text = held.tolerance.text(held.unit);
            table.push_str(&format!("| {} | {} | {text} |\n", paper.name(), held.rows));
        }
    }
    table
}

/// Reproduces a paper on an engine; `None` selects the paper's default engine.
///
/// # Errors
///
/// The engine cannot reproduce this paper or lacks something on this machine, or a run fails.
pub fn reproduce(
    paper: &'static dyn Paper,
    engine: Option<Engine>,
    quick: bool,
    runner: &dyn RunScenario,
    progress: impl FnMut(Progress) + Send,
) -> Result<PaperReport, Error> {
    let engine = engine.unwrap_or(paper.engines()[0]);
    if !paper.engines().contains(&engine) {
        return Err(Error::WrongEngine {
            paper: paper.name(),
            engine,
            engines: names(paper.engines().iter().map(|engine| engine.name())),
        });
    }
    paper.available(engine).map_err(|why| Error::Unavailable {
        paper: paper.name(),
        why,
    })?;
    let lab = Lab::new(engine, quick, runner, progress);
    let before = load();
    let mut reproduced = paper.reproduce(&lab)?;
    let absent = not_run(
        paper.name(),
        engine,
        paper.claims(),
        &reproduced.experiments,
    );
    reproduced.experiments.extend(absent);
    let mut notes = reproduced.notes;
    if let (Engine::Live, Some(before), Some(after)) = (engine, before, load()) {
        notes.push(format!(
            "The machine's load was {before} before the runs, {after} after them; each is in real \
             time, once."
        ));
    }
    if quick {
        notes.push("A short version: spreads are over fewer runs.".to_owned());
    }
    Ok(PaperReport {
        name: paper.name().to_owned(),
        title: paper.title().to_owned(),
        source: paper.source().to_owned(),
        about: paper.about().to_owned(),
        engine: match engine {
            Engine::Sim => "simulated".to_owned(),
            Engine::Virtual => "real Linux stack, virtual time".to_owned(),
            Engine::Live => "real Linux stack, real time".to_owned(),
        },
        experiments: reproduced.experiments,
        figures: reproduced.figures,
        notes,
        missing: reproduced.missing,
        scenarios: lab.into_scenarios(),
    })
}

/// The load average of the last five minutes.
fn load() -> Option<String> {
    let all = std::fs::read_to_string("/proc/loadavg").ok()?;
    all.split(' ').nth(1).map(str::to_owned)
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
