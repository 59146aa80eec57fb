//! `[sweep]`: the varied values, which replace others.

use std::collections::hash_map::Entry as Place;
use std::collections::{HashMap, HashSet};

use crate::draw;
use crate::model::{Sweep, Vary};
use crate::names::check_cc;
use crate::replace::overlap;
use ackwise_config::Span;
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::{Entry, Kind, Table, Value};
use ackwise_config::units;

/// Sections of the file in which values can be varied.
const VARIABLE: [&str; 5] = ["node", "link", "flow", "record", "scenario"];

/// A value of the file that is replaced: by a point of the sweep or by an arm.
pub(crate) struct Replacement<'a> {
    pub path: String,
    pub entry: &'a Entry,
}

pub(crate) fn sweep(top: &Section<'_>) -> Sweep {
    let mut sweep = Sweep {
        cc: Vec::new(),
        seeds: vec![1],
        vary: Vec::new(),
        zips: Vec::new(),
        draw: None,
    };
    let Some((table, span)) = top.table("sweep") else {
        return sweep;
    };
    let section = Section::open_unchecked(table, span, "[sweep]", top.errors);
    let mut known = vec!["cc", "seed", "zip", "draw"];
    known.extend(VARIABLE);
    known.extend(paths_of(table));
    section.only(&known);
    if let Some(words) = section.words("cc") {
        let fine: Vec<Word> = words
            .into_iter()
            .filter(|word| check_cc(&section, word))
            .collect();
        sweep.cc = fine.into_iter().map(|word| word.text).collect();
    } else {
        sweep.cc = draw::congestion_controls(top, table);
    }
    seeds(&section, &mut sweep);
    let mut replaced = varied(table);
    for replacement in &replaced {
        sweep.vary.push(Vary {
            path: replacement.path.clone(),
            values: texts(&section, replacement, true),
        });
    }
    if section.has("zip") {
        for (table, span) in zips(&section) {
            let together = replacements(table);
            sweep.zips.push(zip(&section, &together, span));
            replaced.extend(together);
        }
    }
    paths_differ(top, &replaced);
    sweep
}

fn seeds(section: &Section<'_>, sweep: &mut Sweep) {
    let Some(items) = section.list("seed") else {
        return;
    };
    sweep.seeds.clear();
    let mut known = HashSet::new();
    for item in items {
        match item.kind {
            Kind::Integer(seed) if seed >= 0 => {
                let seed = seed.unsigned_abs();
                if !known.insert(seed) {
                    section.error(&item.span, format!("seed {seed} is given twice"));
                }
                sweep.seeds.push(seed);
            }
            _ => section.error(&item.span, "a seed must be a whole number, not negative"),
        }
    }
}

/// The error message for a path that is set to a table, a list or a date.
pub(crate) fn not_plain(path: &str, value: &Value) -> String {
    let hint = match &value.kind {
        Kind::Table(_) => format!("; set its keys, e.g. {path}.KEY"),
        _ => String::new(),
    };
    format!("'{path}' cannot be set to {}{hint}", value.what())
}

/// What two spellings of a value share.
fn canonical(text: &str) -> String {
    units::canonical(text).unwrap_or_else(|| text.to_owned())
}

/// The values of a path, as text.
fn texts(section: &Section<'_>, replacement: &Replacement<'_>, differ: bool) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    let mut known: HashMap<String, String> = HashMap::new();
    for value in values(&replacement.entry.value) {
        let Some(text) = value.plain() else {
            section.error(&value.span, not_plain(&replacement.path, value));
            continue;
        };
        let earlier = differ.then(|| known.insert(canonical(&text), text.clone()));
        match earlier.flatten() {
            Some(earlier) if earlier == text => {
                section.error(&value.span, format!("'{text}' is given twice"));
            }
            Some(earlier) => {
                let message = format!("'{text}' is the same as '{earlier}'; keep one");
                section.error(&value.span, message);
            }
            None => texts.push(text),
        }
    }
    if texts.is_empty() {
        section.error(
            &replacement.entry.value.span,
            format!("'{}' is empty; leave it out", replacement.path),
        );
    }
    texts
}

/// Reads one `zip`: every path must have the same number of values.
fn zip(section: &Section<'_>, replaced: &[Replacement<'_>], span: &Span) -> Vec<Vary> {
    let mut together: Vec<Vary> = Vec::new();
    for replacement in replaced {
        let texts = texts(section, replacement, false);
        if let Some(first) = together.first()
            && first.values.len() != texts.len()
        {
            let message = format!(
                "'{}' has {} values and '{}' has {}; zipped paths need the same number of values",
                first.path,
                first.values.len(),
                replacement.path,
                texts.len()
            );
            section.error(&replacement.entry.value.span, message);
        }
        together.push(Vary {
            path: replacement.path.clone(),
            values: texts,
        });
    }
    places_differ(section, replaced, &together);
    if together.len() < 2 {
        let message = "'zip' needs two paths or more; write a single path without it";
        section.error(span, message);
    }
    together
}

/// Checks that no two places of a `zip` are equal, which would be the same runs twice.
fn places_differ(section: &Section<'_>, replaced: &[Replacement<'_>], together: &[Vary]) {
    let Some(first) = replaced.first() else {
        return;
    };
    let place = |index: usize| -> Option<Vec<String>> {
        let texts = together.iter().map(|vary| vary.values.get(index));
        texts.map(|text| text.map(|it| canonical(it))).collect()
    };
    let mut known: HashMap<Vec<String>, usize> = HashMap::new();
    for (index, value) in values(&first.entry.value).into_iter().enumerate() {
        let Some(here) = place(index) else { return };
        match known.entry(here) {
            Place::Occupied(earlier) => {
                let message = format!(
                    "places {} and {} of this zip are equal; keep one",
                    earlier.get() + 1,
                    index + 1
                );
                section.error(&value.span, message);
            }
            Place::Vacant(free) => {
                free.insert(index);
            }
        }
    }
}

/// Checks that no value is varied in two places of the sweep: runs would be labelled with values
/// that they do not have.
fn paths_differ(top: &Section<'_>, replaced: &[Replacement<'_>]) {
    for (index, later) in replaced.iter().enumerate() {
        let path = &later.path;
        let twice = |earlier: &&Replacement<'_>| {
            earlier.path == *path || overlap(top.table, &earlier.path, path)
        };
        let message = match replaced[..index].iter().find(twice) {
            Some(earlier) if earlier.path == *path => format!("'{path}' is varied twice; keep one"),
            Some(earlier) => format!(
                "'{path}' sets what '{}' sets, too, so that runs would be labelled with values \
                 that they do not have; keep one",
                earlier.path
            ),
            None => continue,
        };
        top.error(&later.entry.key_span, message);
    }
}

/// The tables of `zip`: one, or a list.
pub(crate) fn zips<'a>(sweep: &Section<'a>) -> Vec<(&'a Table, &'a Span)> {
    match sweep.value("zip") {
        Some(Value {
            kind: Kind::Table(table),
            span,
        }) => vec![(table, span)],
        _ => sweep.tables("zip"),
    }
}

/// A list's values, or the single one.
pub(crate) fn values(value: &Value) -> Vec<&Value> {
    match &value.kind {
        Kind::Array(items) => items.iter().collect(),
        _ => vec![value],
    }
}

/// Keys that are written as a quoted path.
fn paths_of(table: &Table) -> impl Iterator<Item = &str> {
    table
        .entries
        .iter()
        .map(|entry| entry.key.as_str())
        .filter(|key| key.contains('.'))
}

/// The entries of `[sweep]` that vary something other than cc and seed.
pub(crate) fn varied(sweep: &Table) -> Vec<Replacement<'_>> {
    let mut found = Vec::new();
    for entry in &sweep.entries {
        if VARIABLE.contains(&entry.key.as_str()) || entry.key.contains('.') {
            leaves(entry.key.clone(), entry, &mut found);
        }
    }
    found
}

/// The entries of a table of replacements, e.g. `change` of an arm.
pub(crate) fn replacements(table: &Table) -> Vec<Replacement<'_>> {
    let mut found = Vec::new();
    for entry in &table.entries {
        leaves(entry.key.clone(), entry, &mut found);
    }
    found
}

/// `a.b.c = …` and `"a.b.c" = …` are the same.
fn leaves<'a>(path: String, entry: &'a Entry, found: &mut Vec<Replacement<'a>>) {
    match &entry.value.kind {
        Kind::Table(table) if !table.entries.is_empty() => {
            for inner in &table.entries {
                leaves(format!("{path}.{}", inner.key), inner, found);
            }
        }
        _ => found.push(Replacement { path, entry }),
    }
}

/// The value that is written as `text`, from a list or a single value.
pub(crate) fn written<'a>(list: &'a Value, text: &str) -> Option<&'a Value> {
    let written = |value: &&Value| match &value.kind {
        Kind::Text(own) => own == text,
        _ => value.plain().as_deref() == Some(text),
    };
    values(list).into_iter().find(written)
}
