//! Changes values of a scenario. It edits the text, because every run reads that again.

use std::time::Duration;

use ackwise_config::Source;
use ackwise_config::diagnostic::suggest;
use ackwise_config::section::Section;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::draw::unused_names;
use crate::error::ScenarioError;
use crate::glob;
use crate::limits::{MIN_DURATION, WEEK};
use crate::load::{arm_tables, changes_of, sweep_table, zipped};
use crate::model::Scenario;
use crate::replace::too_long;
use crate::sweep::{replacements, varied};

impl Scenario {
    /// The scenario with a new fixed duration; a draw of the duration is removed.
    ///
    /// # Errors
    /// The duration is out of range, the sweep or an arm sets another one, or the scenario has
    /// mistakes with that duration.
    pub fn with_duration(&self, duration: Duration) -> Result<Scenario, ScenarioError> {
        if !(MIN_DURATION..=WEEK).contains(&duration) {
            return Err(ScenarioError::Duration {
                duration,
                least: MIN_DURATION,
                most: WEEK,
            });
        }
        self.duration_is_its_own()?;
        let mut document = self.document()?;
        document["scenario"]["duration"] = toml_edit::value(exact(duration));
        if let Some(draw) = draw_of(&mut document) {
            for_each_draw(draw, &mut undraw_duration);
        }
        self.remove_unused_names(&mut document);
        self.again(&document)
    }

    /// Removes the drawn names that nothing uses any longer, and then those that only they used.
    fn remove_unused_names(&self, document: &mut DocumentMut) {
        loop {
            let source = Source {
                path: self.source.path.clone(),
                text: document.to_string(),
            };
            let unused =
                source.check(|tree, errors| Some(unused_names(sweep_table(tree)?, errors)));
            let unused = unused.unwrap_or_default();
            let Some(draw) = draw_of(document).filter(|_| !unused.is_empty()) else {
                return;
            };
            for_each_draw(draw, &mut |table| {
                for name in &unused {
                    table.remove(name);
                }
            });
        }
    }

    /// Checks that neither the sweep nor an arm sets the duration, so that a new one has an effect.
    fn duration_is_its_own(&self) -> Result<(), ScenarioError> {
        let checked = self.source.check(|tree, errors| {
            let top = Section::open_unchecked(tree, &(0..0), "a scenario", errors);
            let swept = sweep_table(tree).map(varied).unwrap_or_default();
            let swept = swept.into_iter().chain(zipped(&top).into_iter().flatten());
            let changed = arm_tables(tree).filter_map(changes_of);
            let sets = swept.map(|it| ("[sweep] varies", it)).chain(
                changed
                    .flat_map(replacements)
                    .map(|it| ("this arm changes", it)),
            );
            for (what, replacement) in sets.filter(|(_, it)| it.path == DURATION) {
                let message = format!(
                    "{what} '{DURATION}', so that another duration would have no effect; remove it \
                     here, or leave the duration as it is"
                );
                top.error(&replacement.entry.key_span, message);
            }
            Some(())
        });
        Ok(checked?)
    }

    /// The scenario with new values, given by their paths: `link.wan.forward.loss`, `sweep.cc`.
    /// After a list of tables, the next component of a path is the name of an entry, or a pattern
    /// with `*` and `?` for several. Missing tables are created; `None` removes a key.
    ///
    /// # Errors
    /// A path matches nothing, or the changed scenario has mistakes; their places refer to the
    /// changed text.
    pub fn with_values<'a>(
        &self,
        changes: impl IntoIterator<Item = (&'a str, Option<Item>)>,
    ) -> Result<Scenario, ScenarioError> {
        let mut document = self.document()?;
        for (path, value) in changes {
            let parts: Vec<&str> = path.split('.').collect();
            change(document.as_table_mut(), &parts, value.as_ref()).map_err(|why| {
                ScenarioError::NoSuchPath {
                    path: path.to_owned(),
                    why,
                }
            })?;
        }
        self.again(&document)
    }

    fn document(&self) -> Result<DocumentMut, ScenarioError> {
        let text = &self.source.text;
        text.parse::<DocumentMut>()
            .map_err(|e| self.error_at(&e.span().unwrap_or(0..0), e.message()))
    }

    fn again(&self, document: &DocumentMut) -> Result<Scenario, ScenarioError> {
        Scenario::parse_with(&self.source.path, &document.to_string(), &self.files)
    }
}

/// The path of the duration.
const DURATION: &str = "scenario.duration";

/// A time as the file has it, without rounding.
fn exact(time: Duration) -> String {
    let nanos = time.as_nanos();
    match [(1_000_000, "ms"), (1000, "us")]
        .into_iter()
        .find(|(factor, _)| nanos.is_multiple_of(*factor))
    {
        Some((factor, unit)) => format!("{} {unit}", nanos / factor),
        None => format!("{nanos} ns"),
    }
}

/// The table `[sweep.draw]`.
fn draw_of(document: &mut DocumentMut) -> Option<&mut dyn TableLike> {
    let sweep = document.get_mut("sweep")?.as_table_like_mut()?;
    sweep.get_mut("draw")?.as_table_like_mut()
}

/// Does something with `[sweep.draw]`, its table of repeats, and each of its populations.
fn for_each_draw(draw: &mut dyn TableLike, act: &mut dyn FnMut(&mut dyn TableLike)) {
    act(draw);
    if let Some(repeat) = draw.get_mut("repeat").and_then(|it| it.as_table_like_mut()) {
        act(repeat);
    }
    match draw.get_mut("population") {
        Some(Item::ArrayOfTables(list)) => list.iter_mut().for_each(|table| act(table)),
        Some(Item::Value(Value::Array(list))) => {
            let tables = list.iter_mut().filter_map(Value::as_inline_table_mut);
            tables.for_each(|table| act(table));
        }
        _ => {}
    }
}

/// Removes the draw of the duration.
fn undraw_duration(draw: &mut dyn TableLike) {
    draw.remove(DURATION);
    let scenario = draw
        .get_mut("scenario")
        .and_then(|it| it.as_table_like_mut());
    let empty = scenario.is_some_and(|scenario| {
        scenario.remove("duration");
        scenario.is_empty()
    });
    if empty {
        draw.remove("scenario");
    }
}

/// Changes the value at a path of the whole file.
fn change(top: &mut Table, path: &[&str], value: Option<&Item>) -> Result<(), String> {
    if let Some(why) = too_long(path) {
        return Err(why);
    }
    if path.iter().any(|part| part.is_empty()) {
        return Err("a name is missing between two dots".to_owned());
    }
    let [key, rest @ ..] = path else {
        return Err("it is empty".to_owned());
    };
    if rest.is_empty() {
        return put(top, path, value);
    }
    match top.get_mut(key) {
        Some(Item::ArrayOfTables(list)) => {
            let entries = list.iter_mut().map(|entry| entry as &mut dyn TableLike);
            in_list(entries, key, rest, value)
        }
        Some(Item::Value(Value::Array(list))) => {
            let entries = list.iter_mut().filter_map(|entry| {
                let table = entry.as_inline_table_mut()?;
                Some(table as &mut dyn TableLike)
            });
            in_list(entries, key, rest, value)
        }
        None if matches!(*key, "node" | "link" | "flow" | "arm") => {
            in_list(std::iter::empty(), key, rest, value)
        }
        None => {
            top.insert(key, Item::Table(Table::new()));
            put(top, path, value)
        }
        Some(_) => put(top, path, value),
    }
}

/// Changes a value in the entries of a list that the path names.
fn in_list<'a>(
    entries: impl Iterator<Item = &'a mut dyn TableLike>,
    list: &str,
    path: &[&str],
    value: Option<&Item>,
) -> Result<(), String> {
    let [name, rest @ ..] = path else {
        return Err(format!("say which {list}"));
    };
    if rest.is_empty() {
        return Err(format!("say which key of {list} '{name}'"));
    }
    let mut names = Vec::new();
    let mut found = false;
    for entry in entries {
        let own = entry.get("name").and_then(Item::as_str).map(str::to_owned);
        match own {
            Some(own) if glob::matches(name, &own) => {
                put(entry, rest, value)?;
                found = true;
            }
            Some(own) => names.push(own),
            None => {}
        }
    }
    if found {
        return Ok(());
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(format!(
        "there is no {list} '{name}'{}",
        suggest(name, &names)
    ))
}

/// Changes the value at a path below a table, and creates tables as needed.
fn put(table: &mut dyn TableLike, path: &[&str], value: Option<&Item>) -> Result<(), String> {
    // A key that is written with its dots, like those of `sysctl`.
    let dotted = path.join(".");
    let key = match path {
        [key] => *key,
        _ if table.contains_key(&dotted) => dotted.as_str(),
        [key, rest @ ..] => {
            if table.get(key).is_none_or(|item| !item.is_table_like()) {
                if value.is_none() {
                    return Err(format!("there is no '{dotted}' to remove"));
                }
                table.insert(key, Item::Value(InlineTable::new().into()));
            }
            let inner = table.get_mut(key).and_then(Item::as_table_like_mut);
            return match inner {
                Some(inner) => put(inner, rest, value),
                None => Err(format!("'{key}' is not a table")),
            };
        }
        [] => return Err("it is empty".to_owned()),
    };
    match value {
        Some(value) => {
            table.insert(key, value.clone());
            Ok(())
        }
        None if table.remove(key).is_some() => Ok(()),
        None => Err(format!("there is no '{key}' to remove")),
    }
}
