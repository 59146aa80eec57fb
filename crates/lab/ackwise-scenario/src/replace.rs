//! Values of a scenario file that `[sweep]` and `change` replace.

use ackwise_config::Span;
use ackwise_config::diagnostic::{Collector, suggest};
use ackwise_config::tree::{Kind, Table, Value};

use crate::glob;
use crate::limits::MAX_NAMES;

/// Replaces the value at `path` (`link.wan.forward.loss`), creating tables as needed. The second
/// component names an entry of the list that the first one names, or several by a pattern with `*`
/// and `?`.
pub(crate) fn replace(
    tree: &mut Table,
    path: &str,
    path_span: &Span,
    value: &Value,
    errors: &mut Collector,
) {
    let parts: Vec<&str> = path.split('.').collect();
    let unknown = |what: String| format!("'{path}' does not name a value: {what}");
    if let Some(why) = too_long(&parts) {
        return errors.error(path_span, why);
    }
    let (list, name, rest) = match parts.as_slice() {
        ["record", key] if !key.is_empty() => {
            return tree.set(&["record", key], path_span, value);
        }
        ["scenario", "duration"] => {
            return tree.set(&["scenario", "duration"], path_span, value);
        }
        [list @ ("node" | "link" | "flow"), name, rest @ ..] => (*list, *name, rest),
        _ => {
            let message = unknown(
                "write node.NAME.…, link.NAME.…, flow.NAME.…, record.KEY or scenario.duration"
                    .to_owned(),
            );
            return errors.error(path_span, message);
        }
    };
    if rest.is_empty() || rest.iter().any(|part| part.is_empty()) || rest == ["name"] {
        return errors.error(
            path_span,
            unknown(format!("say which key of {list} '{name}'")),
        );
    }
    let mut names = Vec::new();
    let mut replaced = false;
    let found = tree.entries.iter_mut().find(|entry| entry.key == list);
    if let Some(Kind::Array(items)) = found.map(|entry| &mut entry.value.kind) {
        for item in items {
            let Kind::Table(table) = &mut item.kind else {
                continue;
            };
            match table.get("name").map(|value| value.kind.clone()) {
                Some(Kind::Text(text)) if glob::matches(name, &text) => {
                    if let Some(message) = overridden(list, table, &text, rest) {
                        errors.error(path_span, format!("'{path}' has no effect: {message}"));
                    }
                    table.set(rest, path_span, value);
                    replaced = true;
                }
                Some(Kind::Text(text)) => names.push(text),
                _ => {}
            }
        }
    }
    if replaced {
        return;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let message = unknown(format!(
        "there is no {list} '{name}'{}",
        suggest(name, &names)
    ));
    errors.error(path_span, message);
}

/// The error message for a path of too many names. It leaves the path out, which is long.
pub(crate) fn too_long(parts: &[&str]) -> Option<String> {
    let names = parts.len();
    (names > MAX_NAMES).then(|| {
        format!("a path has at most {MAX_NAMES} names with dots between, and this has {names}")
    })
}

/// Whether two paths set the same value: `link.*.forward.rate` sets that of `link.wan.both.rate`,
/// too. A path below another one sets a part of it.
pub(crate) fn overlap(tree: &Table, one: &str, other: &str) -> bool {
    let others = places(tree, other);
    let within = |a: &[String], b: &[String]| a.iter().zip(b).all(|(a, b)| a == b);
    places(tree, one)
        .iter()
        .any(|one| others.iter().any(|other| within(one, other)))
}

/// The places that a path stands for: one for each name that its pattern matches, and for each
/// direction of a link where it says `both`.
fn places(tree: &Table, path: &str) -> Vec<Vec<String>> {
    let parts: Vec<&str> = path.split('.').collect();
    let [list @ ("node" | "link" | "flow"), pattern, rest @ ..] = parts.as_slice() else {
        return vec![parts.into_iter().map(str::to_owned).collect()];
    };
    let paths: &[Vec<&str>] = match (*list, rest) {
        ("link", ["both", key @ ..]) => &["forward", "reverse"].map(|path| [&[path], key].concat()),
        _ => &[rest.to_vec()],
    };
    let items = match tree.get(list).map(|value| &value.kind) {
        Some(Kind::Array(items)) => items.as_slice(),
        _ => &[],
    };
    let mut places = Vec::new();
    for item in items {
        if let Kind::Table(table) = &item.kind
            && let Some(Kind::Text(name)) = table.get("name").map(|value| &value.kind)
            && glob::matches(pattern, name)
        {
            for path in paths {
                let place = [*list, name.as_str()]
                    .into_iter()
                    .chain(path.iter().copied());
                places.push(place.map(str::to_owned).collect());
            }
        }
    }
    places
}

/// What a link sets for one direction takes precedence over what it sets for both. This returns an
/// error message if `both` would have no effect.
fn overridden(list: &str, table: &Table, name: &str, rest: &[&str]) -> Option<String> {
    let ("link", ["both", key, ..]) = (list, rest) else {
        return None;
    };
    let has_own = |direction: &&str| match table.get(direction).map(|value| &value.kind) {
        Some(Kind::Table(own)) => own.get(key).is_some(),
        _ => false,
    };
    let direction = ["forward", "reverse"].into_iter().find(has_own)?;
    Some(format!(
        "{direction} of link '{name}' has a '{key}' of its own; write link.{name}.forward.{key} and \
         link.{name}.reverse.{key}"
    ))
}
