//! Names that nothing uses: they change no run, and may be typing errors.

use std::collections::BTreeSet;

use ackwise_config::diagnostic::closest;
use ackwise_config::section::Section;

use super::definition::Definition;
use super::{Definitions, KEYS, Population, definitions, is_path, populations, repeat};

/// Names by which a report groups points, and which nothing else has to use.
type Group = [String];

/// Refuses each name that no path, no other value and not `group` uses in any population.
pub(super) fn check(
    section: &Section<'_>,
    common: &Definitions,
    populations: &[Population],
    group: &Group,
) {
    let used = used(common, populations, group);
    let known = used.iter().copied().chain(KEYS);
    // One letter is close to any other.
    let known: Vec<&str> = known.filter(|name| name.len() > 1).collect();
    for (name, definition) in all(common, populations) {
        if is_path(name) || used.contains(name) {
            continue;
        }
        let hint = match closest(name, &known) {
            Some(best) => format!("did you mean '{best}'?"),
            None => "use it in the value of a path or in 'group', or remove it".to_owned(),
        };
        section.error(&definition.span, format!("nothing uses '{name}'; {hint}"));
    }
}

/// The names that nothing uses, in a `[sweep.draw]` without other mistakes.
pub(super) fn names(section: &Section<'_>) -> Option<BTreeSet<String>> {
    let mut common = definitions(section, section.table, &KEYS)?;
    common.extend(repeat::read(section)?.anew);
    let populations = populations(section)?;
    let words = section.words("group").unwrap_or_default();
    let group: Vec<String> = words.into_iter().map(|word| word.text).collect();
    let used = used(&common, &populations, &group);
    let all = all(&common, &populations).map(|(name, _)| name);
    let unused = all.filter(|name| !is_path(name) && !used.contains(name));
    Some(unused.map(str::to_owned).collect())
}

/// The names that something uses, in any population.
fn used<'a>(
    common: &'a Definitions,
    populations: &'a [Population],
    group: &'a Group,
) -> BTreeSet<&'a str> {
    let referred = all(common, populations).flat_map(|(_, definition)| definition.names());
    let grouped = group.iter().map(String::as_str);
    referred.chain(grouped).chain(["cc"]).collect()
}

/// All definitions, with their names.
fn all<'a>(
    common: &'a Definitions,
    populations: &'a [Population],
) -> impl Iterator<Item = (&'a str, &'a Definition)> {
    let own = populations.iter().flat_map(|one| one.own.iter());
    let both = common.iter().chain(own);
    both.map(|(name, definition)| (name.as_str(), definition))
}
