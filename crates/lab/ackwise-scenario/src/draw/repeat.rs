//! `[sweep.draw.repeat]`: how often each point is run, and which names are redrawn for each repeat.

use std::collections::BTreeSet;

use ackwise_config::Span;
use ackwise_config::section::Section;

use super::{Definitions, Population, REPEAT, definitions, each, of_population, order};

/// Maximum number of repeats of a point.
const MAX_REPEATS: u32 = 1000;

/// The number of runs of each point, and the names that are redrawn for each repeat.
pub(super) struct Repeats {
    pub count: u32,
    pub anew: Definitions,
}

/// Reads `[sweep.draw.repeat]`; `None` after a mistake. Without the table, each point is run once.
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
        let message = "nothing is redrawn, so all repeats would be the same; add e.g. \
                       off = { uniform = [0.96, 1.0] }, and use it in the expression of a path";
        inner.error(span, message);
        return None;
    }
    Some(Repeats {
        count: count?,
        anew: anew?,
    })
}

/// Checks that a redrawn name is drawn nowhere else.
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

/// The names that differ between the repeats of the points of one population.
pub(super) struct Redrawn {
    /// The definitions of this population.
    definitions: Definitions,
    /// The redrawn names, and those that depend on them.
    pub names: BTreeSet<String>,
}

/// The names that differ between repeats, for each population: a name may depend on a redrawn name
/// in only one of them.
pub(super) fn redrawn(
    common: &Definitions,
    populations: &[Population],
    anew: &Definitions,
) -> Vec<Redrawn> {
    let of = |population| {
        let definitions = of_population(common, population);
        let mut names: BTreeSet<String> = anew.keys().cloned().collect();
        order::add_dependents(&definitions, &mut names);
        Redrawn { definitions, names }
    };
    each(populations).into_iter().map(of).collect()
}

impl Redrawn {
    /// The first of the names that differ between repeats on which `name` depends.
    pub(super) fn behind(&self, name: &str) -> Option<&str> {
        let names = self.definitions.get(name)?.names();
        names.into_iter().find(|other| self.names.contains(*other))
    }
}

/// Checks that all repeats of a point have the same congestion control.
pub(super) fn check_cc(section: &Section<'_>, anew: &Definitions, redrawn: &[Redrawn]) {
    if let Some(definition) = anew.get("cc") {
        let message =
            "the repeats of a point have one congestion control; draw 'cc' in [sweep.draw]";
        section.error(&definition.span, message);
        return;
    }
    let mut reported: Vec<&Span> = Vec::new();
    for one in redrawn {
        let (Some(definition), Some(other)) = (one.definitions.get("cc"), one.behind("cc")) else {
            continue;
        };
        // Several populations may share a definition.
        if reported.contains(&&definition.span) {
            continue;
        }
        reported.push(&definition.span);
        let message = format!(
            "'cc' depends on '{other}', which differs between the repeats of a point; they have \
             one congestion control"
        );
        section.error(&definition.span, message);
    }
}
