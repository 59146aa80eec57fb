//! Reads a scenario, and derives the scenario of each of its runs.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use crate::build;
use crate::draw;
use crate::error::ScenarioError;
use crate::limits::MAX_RUNS;
use crate::model::{DrawnPoint, DrawnValue, Parsed, RunSpec, Scenario};
use crate::replace::{overlap, replace};
use crate::sweep::{Replacement, not_plain, replacements, values, varied, written, zips};
use crate::trace::TraceFiles;
use ackwise_config::diagnostic::Collector;
use ackwise_config::section::Section;
use ackwise_config::tree::{Entry, Kind, Table, Value};
use ackwise_config::{Source, Span};

impl Scenario {
    /// Reads and checks a scenario file.
    ///
    /// # Errors
    /// The file cannot be read, or has mistakes.
    pub fn load(path: impl AsRef<Path>) -> Result<Scenario, ScenarioError> {
        let path = path.as_ref();
        Scenario::from_source(&Source::read(path)?, &TraceFiles::beside(path))
    }

    /// Checks the text of a scenario; `name` stands for the file in messages.
    ///
    /// Besides the scenario as written, every value of the sweep and every `change` of an arm is
    /// checked separately.
    ///
    /// # Errors
    /// All mistakes, with line and column.
    pub fn parse(name: impl AsRef<Path>, text: &str) -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(&name, text, &TraceFiles::beside(name.as_ref()))
    }

    /// Checks the text of a scenario as [`parse`](Scenario::parse) does, with traces from `files`
    /// instead of from beside the file.
    ///
    /// # Errors
    /// All mistakes, with line and column.
    pub fn parse_with(
        name: impl AsRef<Path>,
        text: &str,
        files: &TraceFiles,
    ) -> Result<Scenario, ScenarioError> {
        let source = Source {
            path: name.as_ref().to_owned(),
            text: text.to_owned(),
        };
        Scenario::from_source(&source, files)
    }

    fn from_source(source: &Source, files: &TraceFiles) -> Result<Scenario, ScenarioError> {
        Ok(source.check(|tree, errors| {
            let mut scenario = build::scenario(tree, source, files, errors)?;
            if errors.borrow().is_empty() {
                let top = Section::open_unchecked(tree, &(0..0), "a scenario", errors);
                scenario.sweep.draw = draw::draw(&top, &scenario.arms);
            }
            if errors.borrow().is_empty() {
                check_variants(tree, &scenario, source, errors);
            }
            scenario.parsed = Parsed(Arc::new(tree.clone()));
            Some(scenario)
        })?)
    }

    /// The scenario of one run, with the varied values of its point and the changes of its arm.
    ///
    /// # Errors
    /// The changed scenario has mistakes.
    pub fn at(&self, run: &RunSpec) -> Result<Scenario, ScenarioError> {
        Ok(self.source.check_again(&self.parsed.0, |tree, errors| {
            let mut changed = without_values(tree);
            let top = Section::open_unchecked(tree, &(0..0), "a scenario", errors);
            let mut replaced = sweep_table(tree).map(varied).unwrap_or_default();
            replaced.extend(zipped(&top).into_iter().flatten());
            for replacement in replaced {
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
            if let Some(point) = self.sweep.drawn(run) {
                apply_point(&mut changed, point, errors);
            }
            let arm = self.arms.iter().find(|arm| arm.name == run.arm);
            if let Some(table) = arm.and_then(|arm| arm_table(tree, &arm.span)) {
                apply_changes(&mut changed, table, errors);
            }
            let mut seen = build::scenario(&changed, &self.source, &self.files, errors)?;
            seen.sweep.seeds.clone_from(&self.sweep.seeds);
            seen.sweep.vary.clone_from(&self.sweep.vary);
            seen.sweep.zips.clone_from(&self.sweep.zips);
            seen.parsed = self.parsed.clone();
            leave_out_idle_flows(&mut seen);
            if seen.flows.is_empty() {
                let span = tree.entry("flow").map_or(0..0, |it| it.key_span.clone());
                errors.borrow_mut().error(&span, NO_FLOW);
            }
            Some(seen)
        })?)
    }

    /// Line and column, both from 1, of the start of a span in the file.
    pub fn locate(&self, span: &Span) -> (usize, usize) {
        self.source.locate(span)
    }

    /// An error at a place in the file, for what only an engine can know, e.g. that a policy has no
    /// such parameter.
    pub fn error_at(&self, span: &Span, message: impl Into<String>) -> ScenarioError {
        self.source.error_at(span, message).into()
    }
}

/// The tree without the values of `[sweep]`, of which a run has one each. Otherwise, the work for
/// all runs would grow with the square of their number.
fn without_values(tree: &Table) -> Table {
    let mut kept = Table::default();
    for entry in &tree.entries {
        kept.entries.push(match &entry.value.kind {
            Kind::Table(sweep) if entry.key == "sweep" => {
                let needed = |it: &&Entry| matches!(it.key.as_str(), "cc" | "draw");
                let entries = sweep.entries.iter().filter(needed).cloned().collect();
                Entry {
                    key: entry.key.clone(),
                    key_span: entry.key_span.clone(),
                    value: Value {
                        span: entry.value.span.clone(),
                        kind: Kind::Table(Table { entries }),
                    },
                }
            }
            _ => entry.clone(),
        });
    }
    kept
}

/// Error message if no flow has a connection.
const NO_FLOW: &str = "no flow has a connection, so that nothing is sent";

/// Removes flows without a connection, and what is only for such flows.
fn leave_out_idle_flows(scenario: &mut Scenario) {
    scenario.flows.retain(|flow| flow.connections > 0);
    let names: Vec<&str> = scenario
        .flows
        .iter()
        .map(|flow| flow.name.as_str())
        .collect();
    let serves = |flows: &[String]| {
        flows.is_empty() || flows.iter().any(|name| names.contains(&name.as_str()))
    };
    for arm in &mut scenario.arms {
        arm.placements.retain(|place| serves(&place.flows));
    }
    let links = scenario.links.iter_mut();
    for direction in links.flat_map(|link| [&mut link.forward, &mut link.reverse]) {
        direction
            .police
            .take_if(|police| !serves(&police.what.flows));
        direction.shape.take_if(|shape| !serves(&shape.what.flows));
        direction.mux.take_if(|mux| !serves(&mux.what.flows));
    }
}

/// The replacements of each `zip`.
pub(crate) fn zipped<'a>(top: &Section<'a>) -> Vec<Vec<Replacement<'a>>> {
    let Some((table, span)) = top.table("sweep") else {
        return Vec::new();
    };
    let section = Section::open_unchecked(table, span, "[sweep]", top.errors);
    if !section.has("zip") {
        return Vec::new();
    }
    let tables = zips(&section).into_iter();
    tables.map(|(table, _)| replacements(table)).collect()
}

/// Sets the drawn values of a point.
fn apply_point(tree: &mut Table, point: &DrawnPoint, errors: &RefCell<Collector>) {
    for drawn in point.values.iter().filter(|drawn| drawn.is_path()) {
        let mut errors = errors.borrow_mut();
        replace(tree, &drawn.name, &drawn.span, &drawn.tree(), &mut errors);
    }
}

pub(crate) fn sweep_table(tree: &Table) -> Option<&Table> {
    match &tree.get("sweep")?.kind {
        Kind::Table(table) => Some(table),
        _ => None,
    }
}

/// All `[[arm]]` tables.
pub(crate) fn arm_tables(tree: &Table) -> impl Iterator<Item = &Table> {
    let items = match tree.get("arm").map(|value| &value.kind) {
        Some(Kind::Array(items)) => items.as_slice(),
        _ => &[],
    };
    items.iter().filter_map(|item| match &item.kind {
        Kind::Table(table) => Some(table),
        _ => None,
    })
}

/// The `[[arm]]` whose name is at `span`.
pub(crate) fn arm_table<'a>(tree: &'a Table, span: &Span) -> Option<&'a Table> {
    let named = |table: &&Table| table.get("name").is_some_and(|name| name.span == *span);
    arm_tables(tree).find(named)
}

/// The table `change` of an arm.
pub(crate) fn changes_of(arm: &Table) -> Option<&Table> {
    match &arm.get("change")?.kind {
        Kind::Table(changes) => Some(changes),
        _ => None,
    }
}

fn apply_changes(tree: &mut Table, arm: &Table, errors: &RefCell<Collector>) {
    let Some(changes) = changes_of(arm) else {
        return;
    };
    for change in replacements(changes) {
        let mut errors = errors.borrow_mut();
        if change.entry.value.plain().is_none() {
            let message = not_plain(&change.path, &change.entry.value);
            errors.error(&change.entry.value.span, message);
            continue;
        }
        let span = &change.entry.key_span;
        replace(tree, &change.path, span, &change.entry.value, &mut errors);
    }
}

/// The number of runs of a scenario; `usize::MAX` if it is too large.
fn runs(scenario: &Scenario) -> usize {
    let sweep = &scenario.sweep;
    let drawn = sweep.draw.as_ref();
    // A point that draws its congestion control has only that one.
    let of_point = |point: &DrawnPoint| point.cc.as_ref().map_or(sweep.cc.len(), |_| 1);
    let drawn = drawn.map_or(sweep.cc.len(), |it| it.points.iter().map(of_point).sum());
    let zipped = sweep.zips.iter().filter_map(|zip| zip.first());
    let lengths = sweep
        .vary
        .iter()
        .chain(zipped)
        .map(|vary| vary.values.len());
    lengths
        .chain([drawn, sweep.seeds.len(), scenario.arms.len()])
        .try_fold(1usize, usize::checked_mul)
        .unwrap_or(usize::MAX)
}

/// Builds the scenario with each value of the sweep, at each drawn point, and with each arm's
/// changes.
fn check_variants(tree: &Table, scenario: &Scenario, source: &Source, errors: &RefCell<Collector>) {
    if runs(scenario) > MAX_RUNS {
        let span = tree.entry("sweep").map_or(0..0, |e| e.key_span.clone());
        let message = format!("these are more than {MAX_RUNS} runs; sweep less");
        return errors.borrow_mut().error(&span, message);
    }
    let plain = without_values(tree);
    let build = |replaced: &[(&Replacement<'_>, &Value)]| {
        let mut changed = plain.clone();
        for (replacement, value) in replaced {
            let span = &replacement.entry.key_span;
            let mut errors = errors.borrow_mut();
            replace(&mut changed, &replacement.path, span, value, &mut errors);
        }
        build::scenario(&changed, source, &scenario.files, errors);
    };
    for replacement in sweep_table(tree).map(varied).unwrap_or_default() {
        for value in values(&replacement.entry.value) {
            build(&[(&replacement, value)]);
        }
    }
    let top = Section::open_unchecked(tree, &(0..0), "a scenario", errors);
    for zip in zipped(&top) {
        let lists: Vec<Vec<&Value>> = zip.iter().map(|it| values(&it.entry.value)).collect();
        for index in 0..lists.first().map_or(0, Vec::len) {
            let pairs = zip.iter().zip(&lists);
            let at: Vec<_> = pairs
                .filter_map(|(it, list)| Some((it, *list.get(index)?)))
                .collect();
            build(&at);
        }
    }
    check_points(tree, scenario, source, errors);
    for (table, span) in top.tables("arm") {
        let arm = Section::open_unchecked(table, span, "an arm", errors);
        if let Some((changes, _)) = arm.table("change") {
            if scenario.sweep.draw.is_some() {
                check_cc_is_shared(changes, errors);
            }
            let mut changed = plain.clone();
            apply_changes(&mut changed, table, errors);
            build::scenario(&changed, source, &scenario.files, errors);
        }
    }
}

/// Checks that the arms of a drawn line share one congestion control, because the distributions
/// describe the effect of the arms.
fn check_cc_is_shared(changes: &Table, errors: &RefCell<Collector>) {
    for change in replacements(changes) {
        if matches!(
            *change.path.split('.').collect::<Vec<_>>(),
            ["flow", _, "cc"]
        ) {
            let message = format!(
                "'{}' differs between the arms of a drawn line, which have one congestion control; draw 'cc' in \
                 [sweep.draw], or list it as 'cc' in [sweep]",
                change.path
            );
            errors.borrow_mut().error(&change.entry.key_span, message);
        }
    }
}

/// Checks that no two swept or drawn paths set the same value.
fn check_paths(tree: &Table, swept: &[&str], point: &DrawnPoint, found: &RefCell<Collector>) {
    for (index, DrawnValue { name, span, .. }) in point.values.iter().enumerate() {
        let drawn = point.values[..index].iter().map(|it| it.name.as_str());
        let swept = swept.iter().map(|path| (*path, "swept"));
        let mut others = swept.chain(drawn.map(|path| (path, "drawn")));
        let same = others.find(|(path, _)| path == name || overlap(tree, path, name));
        if let Some((path, how)) = same {
            let what = if path == name { "" } else { ", and sets this" };
            let message = format!("'{path}' is {how}{what}, too; keep one of the two");
            found.borrow_mut().error(span, message);
        }
    }
}

/// Builds the scenario at each drawn point. A mistake that many points share is reported for the
/// first one.
fn check_points(tree: &Table, scenario: &Scenario, source: &Source, errors: &RefCell<Collector>) {
    let Some(draw) = &scenario.sweep.draw else {
        return;
    };
    let swept: Vec<&str> = scenario.sweep.paths().collect();
    let mut seen: Vec<Span> = Vec::new();
    let plain = without_values(tree);
    for point in &draw.points {
        let found = RefCell::new(Collector::default());
        let mut changed = plain.clone();
        apply_point(&mut changed, point, &found);
        let built = build::scenario(&changed, source, &scenario.files, &found);
        if built.is_some_and(|it| it.flows.iter().all(|flow| flow.connections == 0)) {
            found.borrow_mut().error(&draw.span, NO_FLOW);
        }
        check_paths(tree, &swept, point, &found);
        for (span, message) in found.into_inner().into_found() {
            if seen.contains(&span) {
                continue;
            }
            let value = point.values.iter().find(|value| value.span == span);
            let at = match value {
                Some(value) => format!("point {}: {} = {}", point.number, value.name, value.value),
                None => format!("point {}", point.number),
            };
            errors
                .borrow_mut()
                .error(&span, format!("{message} ({at})"));
            seen.push(span);
        }
    }
}
