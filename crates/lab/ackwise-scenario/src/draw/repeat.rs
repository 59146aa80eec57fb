//! `[sweep.draw.repeat]`: how often a point is run, and what is drawn anew each time.

use std::collections::BTreeSet;

use ackwise_config::section::Section;

use super::definition::Definition;
use super::{Definitions, Population, REPEAT, definitions, each, of_population, order};

/// Most repeats of a point.
const MAX_REPEATS: u32 = 1000;

/// How often each point is run, and what is drawn anew for each of its repeats.
pub(super) struct Repeats {
    pub count: u32,
    pub anew: Definitions,
}

/// Reads `[sweep.draw.repeat]`; `None` after a mistake. Without it each point is run once.
pub(super) fn read(section: &Section<'_>) -> Option<Repeats> {
    if !section.has(REPEAT) {
        return Some(Repeats {
            count: 1,
            anew: Definitions::new(),
        });
    }
    let (table, span) = section.table(REPEAT)?;
    let inner = Section::open_unchecked(table, span, "[sweep.draw.repeat]", section.errors);
    if !inner.has("n") {
        let message = "[sweep.draw.repeat] has no 'n', how often each point is run; add n = 4";
        inner.error(span, message);
        return None;
    }
    let count = inner.whole("n", 1, MAX_REPEATS);
    let anew = definitions(&inner, table, &["n"]);
    if anew.as_ref().is_some_and(Definitions::is_empty) {
        let message = "nothing is drawn anew, so that all repeats would be the same; add e.g. \
                       off = { uniform = [0.96, 1.0] }, and use it in the expression of a path";
        inner.error(span, message);
        return None;
    }
    Some(Repeats {
        count: count?,
        anew: anew?,
    })
}

/// What is drawn anew is drawn there alone, and what runs are grouped by stays.
pub(super) fn check_anew(
    section: &Section<'_>,
    anew: &Definitions,
    common: &Definitions,
    populations: &[Population],
) {
    for (name, definition) in anew {
        let elsewhere =
            common.contains_key(name) || populations.iter().any(|one| one.own.contains_key(name));
        if elsewhere {
            let message =
                format!("'{name}' is drawn once for each point, too; keep one of the two");
            section.error(&definition.span, message);
        }
    }
}

/// The names whose values differ between the repeats of a point: what is drawn anew, and what
/// depends on it.
pub(super) fn redrawn(
    common: &Definitions,
    populations: &[Population],
    anew: &Definitions,
) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = anew.keys().cloned().collect();
    for population in each(populations) {
        order::add_dependents(&of_population(common, population), &mut found);
    }
    found
}

/// Says on which of the names that differ between repeats another depends.
pub(super) fn depends_on(definition: &Definition, redrawn: &BTreeSet<String>) -> Option<String> {
    let names = definition.names();
    let found = names.into_iter().find(|name| redrawn.contains(*name));
    found.map(str::to_owned)
}

/// The repeats of a point have one congestion control.
pub(super) fn check_cc(
    section: &Section<'_>,
    common: &Definitions,
    populations: &[Population],
    redrawn: &BTreeSet<String>,
) {
    if !redrawn.contains("cc") {
        return;
    }
    let own = populations.iter().map(|one| &one.own);
    for definition in std::iter::once(common)
        .chain(own)
        .filter_map(|it| it.get("cc"))
    {
        let message = match depends_on(definition, redrawn) {
            Some(other) => format!(
                "'cc' depends on '{other}', which differs between the repeats of a point; they have \
                 one congestion control"
            ),
            None => "the repeats of a point have one congestion control; draw 'cc' in [sweep.draw]"
                .to_owned(),
        };
        section.error(&definition.span, message);
    }
}
