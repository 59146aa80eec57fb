//! The order in which names get their values, and their types.

use std::collections::{BTreeMap, BTreeSet};

use ackwise_config::Span;
use ackwise_config::diagnostic::suggest;

use super::definition::{Definition, Types};

/// A mistake in a definition.
#[derive(Debug)]
pub(super) struct Mistake {
    /// Its place in the file.
    pub span: Span,
    /// The message.
    pub message: String,
}

/// Sorts the names so that each comes after those on which it depends. The names in `given` are
/// known beforehand.
///
/// # Errors
/// A name is unknown, or depends on itself.
pub(super) fn order(
    definitions: &BTreeMap<String, Definition>,
    given: &[&str],
) -> Result<Vec<String>, Mistake> {
    let mut walk = Walk {
        definitions,
        given,
        done: Vec::new(),
        open: Vec::new(),
    };
    for name in definitions.keys() {
        walk.visit(name)?;
    }
    Ok(walk.done)
}

struct Walk<'a> {
    definitions: &'a BTreeMap<String, Definition>,
    given: &'a [&'a str],
    done: Vec<String>,
    /// Names whose dependencies are being visited, outermost first.
    open: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, name: &'a str) -> Result<(), Mistake> {
        let Some(definition) = self.definitions.get(name) else {
            return Ok(());
        };
        if self.done.iter().any(|done| done == name) {
            return Ok(());
        }
        if let Some(at) = self.open.iter().position(|open| *open == name) {
            let mut circle = self.open[at..].to_vec();
            circle.push(name);
            let message = format!(
                "'{name}' depends on itself: {}; draw one of them",
                circle.join(" → ")
            );
            return Err(Mistake {
                span: definition.span.clone(),
                message,
            });
        }
        self.open.push(name);
        for other in definition.names() {
            if !self.definitions.contains_key(other) && !self.given.contains(&other) {
                let keys = self.definitions.keys().map(String::as_str);
                let known: Vec<&str> = keys.chain(self.given.iter().copied()).collect();
                let message = format!(
                    "'{name}' depends on '{other}', which is not drawn{}",
                    suggest(other, &known)
                );
                return Err(Mistake {
                    span: definition.span.clone(),
                    message,
                });
            }
            self.visit(other)?;
        }
        self.open.pop();
        self.done.push(name.to_owned());
        Ok(())
    }
}

/// The type of each name.
///
/// # Errors
/// A definition uses values of the wrong type, an unknown name, or itself.
pub(super) fn kinds(
    definitions: &BTreeMap<String, Definition>,
    given: Types,
) -> Result<Types, Mistake> {
    let names: Vec<String> = given.keys().cloned().collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut known = given;
    for name in order(definitions, &names)? {
        let definition = &definitions[&name];
        let kind = definition.kind(&known).map_err(|message| Mistake {
            span: definition.span.clone(),
            message: format!("'{name}': {message}"),
        })?;
        known.insert(name, kind);
    }
    Ok(known)
}

/// Adds to `found` the names that depend on one of its names, directly or indirectly.
pub(super) fn add_dependents(
    definitions: &BTreeMap<String, Definition>,
    found: &mut BTreeSet<String>,
) {
    loop {
        let depends =
            |definition: &Definition| definition.names().iter().any(|it| found.contains(*it));
        let more = definitions
            .iter()
            .filter(|(name, it)| !found.contains(*name) && depends(it));
        let more: Vec<String> = more.map(|(name, _)| name.clone()).collect();
        if more.is_empty() {
            return;
        }
        found.extend(more);
    }
}
