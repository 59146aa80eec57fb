//! Names of a scenario: checks that they are unique and that references resolve.

use crate::model::Node;
use ackwise_config::diagnostic::suggest;
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::{Kind, Value};

/// Reports a name that is already taken.
pub(crate) fn unique(
    section: &Section<'_>,
    word: &Word,
    what: &str,
    mut taken: impl Iterator<Item = String>,
) {
    if taken.any(|name| name == word.text) {
        section.error(
            &word.span,
            format!("there is another {what} '{}'; names are unique", word.text),
        );
    }
}

/// Reports a reference to a node that does not exist.
pub(crate) fn check_node(section: &Section<'_>, word: &Word, nodes: &[Node]) -> bool {
    let known: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let found = known.contains(&word.text.as_str());
    if !found {
        section.error(
            &word.span,
            format!(
                "there is no node '{}'{}",
                word.text,
                suggest(&word.text, &known)
            ),
        );
    }
    found
}

/// The names in a list of tables, whether or not the tables have other mistakes.
pub(crate) fn table_names(top: &Section<'_>, key: &str) -> Vec<String> {
    let Some(Kind::Array(items)) = top.value(key).map(|value| &value.kind) else {
        return Vec::new();
    };
    let name = |item: &Value| match &item.kind {
        Kind::Table(table) => table.get("name").and_then(Value::plain),
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

/// Checks that this can be the name of a congestion control of Linux.
pub(crate) fn check_cc(section: &Section<'_>, word: &Word) -> bool {
    let fine = (1..=15).contains(&word.text.len())
        && word
            .text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-'));
    if !fine {
        section.error(
            &word.span,
            format!(
                "'{}' is not a congestion control; write e.g. \"cubic\", \"bbr\" or \"reno\"",
                word.text
            ),
        );
    }
    fine
}
