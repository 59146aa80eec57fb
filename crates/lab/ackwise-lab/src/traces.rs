//! The trace files that a scenario names.

use std::path::{Path, PathBuf};

use ackwise_config::Source;
use toml_edit::{DocumentMut, Item, TableLike, Value};

/// The key whose values are paths, relative to the directory of the scenario.
const KEY: &str = "trace";

/// All trace files that a scenario names, also in its sweep and its arms. None if it cannot be read:
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
            Item::Value(Value::String(name)) if key == KEY => names.push(name.value().clone()),
            Item::Value(value) => of_value(value, names),
            Item::Table(table) => of_table(table, names),
            Item::ArrayOfTables(tables) => tables.iter().for_each(|it| of_table(it, names)),
            Item::None => {}
        }
    }
}

fn of_value(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::InlineTable(table) => of_table(table, names),
        Value::Array(values) => values.iter().for_each(|it| of_value(it, names)),
        _ => {}
    }
}
