//! Reading a scenario, and looking at it as one of its runs does.

use std::cell::RefCell;
use std::path::Path;

use crate::build;
use crate::error::ScenarioError;
use crate::limits::MAX_RUNS;
use crate::model::{RunSpec, Scenario};
use crate::replace::replace;
use crate::sweep::{replacements, varied, written};
use ackwise_config::diagnostic::Collector;
use ackwise_config::section::Section;
use ackwise_config::tree::{Kind, Table, Value};
use ackwise_config::{Source, Span};

impl Scenario {
    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// The file cannot be read, or has mistakes.
    pub fn load(path: impl AsRef<Path>) -> Result<Scenario, ScenarioError> {
        Scenario::from_source(&Source::read(path.as_ref())?)
    }

    /// Checks the text of a scenario; `name` stands for the file in messages.
    ///
    /// Besides the scenario as written, every value of the sweep and every
    /// `change` of an arm is checked, each for itself.
    ///
    /// # Errors
    /// All mistakes, with line and column.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::from_source(&Source {
            path: name.as_ref().to_owned(),
            text: text.to_owned(),
        })
    }

    fn from_source(source: &Source) -> Result<Scenario, ScenarioError> {
        Ok(source.check(|tree, errors| {
            let scenario = build::scenario(tree, source, errors);
            if errors.borrow().is_empty() {
                check_variants(tree, scenario.as_ref()?, source, errors);
            }
            scenario
        })?)
    }

    /// The scenario as a run sees it: with the varied values of its point, and
    /// with the changes of its arm.
    ///
    /// # Errors
    /// The changed scenario has mistakes.
    pub fn at(&self, run: &RunSpec) -> Result<Scenario, ScenarioError> {
        Ok(self.source.check(|tree, errors| {
            let mut changed = tree.clone();
            for replacement in sweep_table(tree).map(varied).unwrap_or_default() {
                let value = run
                    .point
                    .get(&replacement.path)
                    .and_then(|text| written(&replacement.entry.value, text));
                if let Some(value) = value {
                    let span = &replacement.entry.key_span;
                    let mut errors = errors.borrow_mut();
                    replace(&mut changed, &replacement.path, span, value, &mut errors);
                }
            }
            let arm = self.arms.iter().find(|arm| arm.name == run.arm);
            if let Some(table) = arm.and_then(|arm| arm_table(tree, &arm.span)) {
                apply_changes(&mut changed, table, errors);
            }
            build::scenario(&changed, &self.source, errors)
        })?)
    }

    /// Line and column, both from 1, where something begins in the file.
    pub fn locate(&self, span: &Span) -> (usize, usize) {
        self.source.locate(span)
    }

    /// An error about a place in the file, for what only an engine can know,
    /// e.g. that a policy has no such parameter.
    pub fn error_at(&self, span: &Span, message: impl Into<String>) -> ScenarioError {
        self.source.error_at(span, message).into()
    }
}

fn sweep_table(tree: &Table) -> Option<&Table> {
    match &tree.get("sweep")?.kind {
        Kind::Table(table) => Some(table),
        _ => None,
    }
}

/// The `[[arm]]` whose name stands at `span`.
fn arm_table<'a>(tree: &'a Table, span: &Span) -> Option<&'a Table> {
    let Kind::Array(items) = &tree.get("arm")?.kind else {
        return None;
    };
    items.iter().find_map(|item| match &item.kind {
        Kind::Table(table) if table.get("name")?.span == *span => Some(table),
        _ => None,
    })
}

fn apply_changes(tree: &mut Table, arm: &Table, errors: &RefCell<Collector>) {
    let Some(Value {
        kind: Kind::Table(changes),
        ..
    }) = arm.get("change")
    else {
        return;
    };
    for change in replacements(changes) {
        let mut errors = errors.borrow_mut();
        if change.entry.value.plain().is_none() {
            let message = format!(
                "'{}' cannot be set to {}",
                change.path,
                change.entry.value.what()
            );
            errors.error(&change.entry.value.span, message);
            continue;
        }
        let span = &change.entry.key_span;
        replace(tree, &change.path, span, &change.entry.value, &mut errors);
    }
}

/// Builds the scenario with each value of the sweep, and with each arm's changes.
fn check_variants(tree: &Table, scenario: &Scenario, source: &Source, errors: &RefCell<Collector>) {
    let runs = scenario
        .sweep
        .vary
        .iter()
        .map(|vary| vary.values.len())
        .chain([
            scenario.sweep.cc.len(),
            scenario.sweep.seeds.len(),
            scenario.arms.len(),
        ])
        .try_fold(1usize, usize::checked_mul)
        .unwrap_or(usize::MAX);
    if runs > MAX_RUNS {
        let span = tree.entry("sweep").map_or(0..0, |e| e.key_span.clone());
        let message = format!("these are more than {MAX_RUNS} runs; sweep less");
        return errors.borrow_mut().error(&span, message);
    }
    for replacement in sweep_table(tree).map(varied).unwrap_or_default() {
        let values = match &replacement.entry.value.kind {
            Kind::Array(items) => items.iter().collect(),
            _ => vec![&replacement.entry.value],
        };
        for value in values {
            let mut changed = tree.clone();
            let span = &replacement.entry.key_span;
            replace(
                &mut changed,
                &replacement.path,
                span,
                value,
                &mut errors.borrow_mut(),
            );
            build::scenario(&changed, source, errors);
        }
    }
    let top = Section::open_unchecked(tree, &(0..0), "a scenario", errors);
    for (table, span) in top.tables("arm") {
        let arm = Section::open_unchecked(table, span, "an arm", errors);
        if arm.table("change").is_some() {
            let mut changed = tree.clone();
            apply_changes(&mut changed, table, errors);
            build::scenario(&changed, source, errors);
        }
    }
}
