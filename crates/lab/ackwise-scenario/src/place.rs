//! Finds the place of a value in a scenario file, for an engine that does not support it.

use ackwise_config::Span;
use ackwise_config::section::Section;
use ackwise_config::tree::{Kind, Table};

use crate::load::{arm_table, changes_of, sweep_table, zipped};
use crate::model::{RunSpec, Scenario};
use crate::replace::overlap;
use crate::sweep::{replacements, varied, written};

impl Scenario {
    /// The place in the file of a path such as `link.wan.forward.queue.gentle` or
    /// `node.sender.sysctl.net.ipv4.tcp_sack`. If the file has no such key there, for example
    /// because `[sweep]` sets it, this is the innermost table or name around it.
    #[must_use]
    pub fn place_of(&self, path: &str) -> Span {
        let found = self
            .source
            .check(|tree, _| Some(place(tree, &path.split('.').collect::<Vec<_>>())));
        found.unwrap_or(0..0)
    }

    /// The place from which a run has the value at a path: `change` of its arm, a drawn or swept
    /// value, or else [`place_of`](Scenario::place_of) the path.
    #[must_use]
    pub fn place_in(&self, run: &RunSpec, path: &str) -> Span {
        let found = self.source.check(|tree, errors| {
            let sets = |replaced: &str| overlap(tree, replaced, path);
            let arm = self.arms.iter().find(|arm| arm.name == run.arm);
            let changes = arm
                .and_then(|arm| arm_table(tree, &arm.span))
                .and_then(changes_of);
            let mut changes = changes.map(replacements).into_iter().flatten();
            if let Some(change) = changes.find(|change| sets(&change.path)) {
                return Some(change.entry.key_span.clone());
            }
            let mut drawn = self.sweep.drawn(run).into_iter().flat_map(|it| &it.values);
            if let Some(value) = drawn.find(|value| value.is_path() && sets(&value.name)) {
                return Some(value.span.clone());
            }
            let top = Section::open_unchecked(tree, &(0..0), "a scenario", errors);
            let alone = sweep_table(tree).map(varied).unwrap_or_default();
            let mut swept = alone.into_iter().chain(zipped(&top).into_iter().flatten());
            let replacement = swept.find(|replacement| sets(&replacement.path))?;
            let text = run.point.get(&replacement.path)?;
            let value = written(&replacement.entry.value, text)?;
            Some(value.span.clone())
        });
        found.unwrap_or_else(|_| self.place_of(path))
    }
}

fn place(tree: &Table, path: &[&str]) -> Span {
    let [list @ ("node" | "link" | "flow"), name, keys @ ..] = path else {
        return deepest(tree, path).map_or(0..0, |(_, span)| span);
    };
    let items = match tree.get(list).map(|value| &value.kind) {
        Some(Kind::Array(items)) => &items[..],
        _ => &[],
    };
    let tables = items.iter().filter_map(|item| match &item.kind {
        Kind::Table(table) => Some(table),
        _ => None,
    });
    for table in tables {
        let Some(named) = table.get("name") else {
            continue;
        };
        if named.plain().as_deref() != Some(*name) {
            continue;
        }
        // `both` applies to keys that neither direction sets itself.
        let own = deepest(table, keys);
        let both = match keys {
            ["forward" | "reverse", rest @ ..] => deepest(table, &[&["both"], rest].concat()),
            _ => None,
        };
        let found = [own, both].into_iter().flatten();
        return found
            .max_by_key(|(keys, _)| *keys)
            .map_or(named.span.clone(), |(_, span)| span);
    }
    0..0
}

/// The number of keys of a path that exist in a table, and the place of the last of them.
fn deepest(table: &Table, keys: &[&str]) -> Option<(usize, Span)> {
    // A key that is written with its dots, like those of `sysctl`.
    if let Some(entry) = table.entry(&keys.join(".")) {
        return Some((keys.len(), entry.key_span.clone()));
    }
    let (key, rest) = keys.split_first()?;
    let entry = table.entry(key)?;
    let inner = match &entry.value.kind {
        Kind::Table(table) => deepest(table, rest),
        _ => None,
    };
    Some(inner.map_or((1, entry.key_span.clone()), |(n, span)| (n + 1, span)))
}
