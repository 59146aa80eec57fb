//! `[sweep]`: what is varied, and the values that replace others.

use crate::model::{Sweep, Vary};
use crate::names::check_cc;
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::{Entry, Kind, Table, Value};

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
    };
    let Some((table, span)) = top.table("sweep") else {
        return sweep;
    };
    let section = Section::open_unchecked(table, span, "[sweep]", top.errors);
    let mut known = vec!["cc", "seed"];
    known.extend(VARIABLE);
    known.extend(paths_of(table));
    section.only(&known);
    if let Some(words) = section.words("cc") {
        let fine: Vec<Word> = words
            .into_iter()
            .filter(|word| check_cc(&section, word))
            .collect();
        sweep.cc = fine.into_iter().map(|word| word.text).collect();
    }
    if let Some(items) = section.list("seed") {
        sweep.seeds.clear();
        for item in items {
            match item.kind {
                Kind::Integer(seed) if seed >= 0 => {
                    let seed = seed.unsigned_abs();
                    if sweep.seeds.contains(&seed) {
                        section.error(&item.span, format!("seed {seed} stands here twice"));
                    }
                    sweep.seeds.push(seed);
                }
                _ => section.error(&item.span, "a seed is a whole number, not negative"),
            }
        }
    }
    for replacement in varied(table) {
        let values = match &replacement.entry.value.kind {
            Kind::Array(items) => items.iter().collect(),
            _ => vec![&replacement.entry.value],
        };
        let mut texts: Vec<String> = Vec::new();
        for value in values {
            match value.plain() {
                Some(text) if texts.contains(&text) => {
                    section.error(&value.span, format!("'{text}' stands here twice"));
                }
                Some(text) => texts.push(text),
                None => section.error(
                    &value.span,
                    format!("'{}' cannot be set to {}", replacement.path, value.what()),
                ),
            }
        }
        if texts.is_empty() {
            section.error(
                &replacement.entry.value.span,
                format!("'{}' is empty; leave it out", replacement.path),
            );
        }
        sweep.vary.push(Vary {
            path: replacement.path,
            values: texts,
        });
    }
    sweep
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

/// The value among `values` (a list or a single one) that is written `text`.
pub(crate) fn written<'a>(values: &'a Value, text: &str) -> Option<&'a Value> {
    let written = |value: &&Value| value.plain().as_deref() == Some(text);
    match &values.kind {
        Kind::Array(items) => items.iter().find(written),
        _ => Some(values).filter(written),
    }
}
