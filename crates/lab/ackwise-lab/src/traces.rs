//! The trace files that a scenario names.

use std::path::{Path, PathBuf};

use ackwise_config::Source;
use toml_edit::{DocumentMut, Item, TableLike, Value};

/// Whether a key's values may be paths, relative to the directory of the scenario. A sweep and an arm
/// may have the whole path of `trace` as a key. A draw may choose the file under any name.
fn names_files(key: &str) -> bool {
    key.rsplit('.').next() == Some("trace") || key == "choice"
}

/// All trace files that a scenario names, also in its sweep, its draws and its arms. None if it cannot be read:
/// its next reader reports the error.
pub fn files(scenario: &Path) -> Vec<PathBuf> {
    let Ok(source) = Source::read(scenario) else {
        return Vec::new();
    };
    let Ok(document) = source.text.parse::<DocumentMut>() else {
        return Vec::new();
    };
    let directory = scenario.parent().unwrap_or(Path::new(""));
    let mut names = Vec::new();
    of_table(document.as_table(), &mut names);
    names.into_iter().map(|it| directory.join(it)).collect()
}

fn of_table(table: &dyn TableLike, names: &mut Vec<String>) {
    for (key, item) in table.iter() {
        match item {
            _ if names_files(key) => all(item, names),
            Item::Value(value) => of_value(value, names),
            Item::Table(table) => of_table(table, names),
            Item::ArrayOfTables(tables) => tables.iter().for_each(|it| of_table(it, names)),
            Item::None => {}
        }
    }
}

/// All strings below a key: a sweep has a list of them, and a draw a choice.
fn all(item: &Item, names: &mut Vec<String>) {
    match item {
        Item::Value(value) => all_of_value(value, names),
        Item::Table(table) => table.iter().for_each(|(_, it)| all(it, names)),
        Item::ArrayOfTables(tables) => tables
            .iter()
            .flat_map(|table| table.iter())
            .for_each(|(_, it)| all(it, names)),
        Item::None => {}
    }
}

fn all_of_value(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(name) => names.push(name.value().clone()),
        Value::Array(values) => values.iter().for_each(|it| all_of_value(it, names)),
        Value::InlineTable(table) => table.iter().for_each(|(_, it)| all_of_value(it, names)),
        _ => {}
    }
}

fn of_value(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::InlineTable(table) => of_table(table, names),
        Value::Array(values) => values.iter().for_each(|it| of_value(it, names)),
        _ => {}
    }
}
