//! `[sweep.draw]`: points that are drawn at random from distributions.
//!
//! A point is a function of the file, the seed and its number: each name has a separate random
//! number stream for each point (`docs/decisions/0024-draws.md`).

mod definition;
mod expression;
mod order;
mod possible;
mod repeat;
mod unused;
mod value;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use ackwise_config::Span;
use ackwise_config::diagnostic::{Collector, suggest};
use ackwise_config::section::{Section, Word};
use ackwise_config::tree::{Entry, Kind, Table, Value};
use ackwise_rng::Rng;

use crate::glob::matches;
use crate::model::{Arm, Draw, DrawnPoint, DrawnValue, Rivals, SettingValue};
use definition::{Definition, Values};
use expression::{is_name, is_name_start};
use repeat::{Redrawn, Repeats};
use value::{Drawn, Type};

/// Maximum number of points; more are taken for a typing error.
const MAX_POINTS: u32 = 10_000;

/// Name of the variable that holds a point's population.
pub(crate) const POPULATION: &str = "population";

/// Name of the variable that holds the number of a run's repeat, from 1.
pub const REPEAT: &str = "repeat";

/// Maximum number of points including their repeats.
const MAX_ALL: u32 = 20_000;

/// Keys of `[sweep.draw]` that do not name drawn values.
const KEYS: [&str; 6] = ["n", "seed", "group", "against", POPULATION, REPEAT];

/// Sections of the file whose values can be drawn.
const SECTIONS: [&str; 5] = ["node", "link", "flow", "record", "scenario"];

/// Definitions by name.
type Definitions = BTreeMap<String, Definition>;

/// A part of the points that has different distributions.
struct Population {
    name: String,
    weight: f64,
    own: Definitions,
}

/// The words from which `cc` is drawn, before any checks.
pub(crate) fn congestion_controls(top: &Section<'_>, sweep: &Table) -> Vec<String> {
    let Some(Kind::Table(draw)) = sweep.get("draw").map(|value| &value.kind) else {
        return Vec::new();
    };
    let section = Section::open_unchecked(draw, &(0..0), "[sweep.draw]", top.errors);
    let mut found: Vec<String> = Vec::new();
    let populations = match draw.get(POPULATION).map(|value| &value.kind) {
        Some(Kind::Array(items)) => items.as_slice(),
        _ => &[],
    };
    let tables = populations.iter().filter_map(|item| match &item.kind {
        Kind::Table(table) => Some(table),
        _ => None,
    });
    for table in std::iter::once(draw).chain(tables) {
        let read = table
            .get("cc")
            .and_then(|value| definition::read(&section, "cc", value));
        for word in read.iter().flat_map(Definition::words) {
            if !found.contains(&word) {
                found.push(word);
            }
        }
    }
    found
}

/// The drawn names of a sweep that nothing uses; none if the draw has other mistakes.
pub(crate) fn unused_names(sweep: &Table, errors: &RefCell<Collector>) -> BTreeSet<String> {
    let Some(Kind::Table(draw)) = sweep.get("draw").map(|value| &value.kind) else {
        return BTreeSet::new();
    };
    let section = Section::open_unchecked(draw, &(0..0), "[sweep.draw]", errors);
    unused::names(&section).unwrap_or_default()
}

/// Reads `[sweep.draw]` and draws its points; `None` without one or after a mistake.
pub(crate) fn draw(top: &Section<'_>, arms: &[Arm]) -> Option<Draw> {
    let (sweep, _) = top.table("sweep")?;
    let entry = sweep.entry("draw")?;
    let outer = Section::open_unchecked(sweep, &entry.key_span, "[sweep]", top.errors);
    let (table, _) = outer.table("draw")?;
    let section = Section::open_unchecked(table, &entry.key_span, "[sweep.draw]", top.errors);
    if !section.has("n") {
        let message = "[sweep.draw] has no 'n', the number of points; add n = 40";
        section.error(&section.span, message);
    }
    let n = section.whole("n", 1, MAX_POINTS);
    let seed = seed(&section);
    let common = definitions(&section, table, &KEYS);
    let populations = populations(&section);
    let repeats = repeat::read(&section);
    let names_are_fine = common.is_some() && populations.is_some() && repeats.is_some();
    let (mut common, populations) = (common.unwrap_or_default(), populations.unwrap_or_default());
    if common.is_empty() && populations.is_empty() && names_are_fine {
        let message = "nothing is drawn; add e.g. link.wan.forward.rate = { log-uniform = \
                       [\"10 Mbit/s\", \"200 Mbit/s\"] }";
        section.error(&section.span, message);
        return None;
    }
    let against = against(&section, arms);
    let repeats = repeats.filter(|_| names_are_fine)?;
    repeat::check_anew(&section, &repeats.anew, &common, &populations);
    common.extend(repeats.anew.clone());
    let kinds = kinds(&section, &common, &populations)?;
    possible::check_cases(&section, &common, &populations);
    check_cc(&section, sweep, &kinds);
    let redrawn = repeat::redrawn(&common, &populations, &repeats.anew);
    repeat::check_cc(&section, &repeats.anew, &redrawn);
    let group = group(&section, &common, &populations, &redrawn);
    if top.errors.borrow().is_empty() {
        unused::check(&section, &common, &populations, &group);
    }
    if !top.errors.borrow().is_empty() {
        return None;
    }
    let (n, all) = (n?, n?.saturating_mul(repeats.count));
    if all > MAX_ALL {
        let message = format!(
            "{n} points with {} repeats each are {all} lines; {MAX_ALL} at most: draw fewer points, or \
             repeat them less often",
            repeats.count
        );
        section.error(&section.span, message);
        return None;
    }
    let mut points = Vec::new();
    let source = Source {
        section: &section,
        seed: seed?,
        common: &common,
        populations: &populations,
        repeats: &repeats,
    };
    for number in 1..=n {
        for repeat in 1..=repeats.count {
            points.push(source.point(number, repeat)?);
        }
    }
    Some(Draw {
        seed: seed?,
        points,
        count: n,
        repeats: repeats.count,
        redrawn: all_of(&redrawn),
        group,
        against,
        span: section.span.clone(),
    })
}

fn seed(section: &Section<'_>) -> Option<u64> {
    let Some(value) = section.value("seed") else {
        return Some(1);
    };
    match value.kind {
        Kind::Integer(seed) if seed >= 0 => Some(seed.unsigned_abs()),
        _ => {
            section.error(&value.span, "a seed must be a whole number, not negative");
            None
        }
    }
}

/// The definitions in a table; `None` after a mistake.
fn definitions(section: &Section<'_>, table: &Table, keys: &[&str]) -> Option<Definitions> {
    let mut leaves = Vec::new();
    for entry in &table.entries {
        if keys.contains(&entry.key.as_str()) {
            continue;
        }
        collect(entry.key.clone(), entry, &mut leaves);
    }
    let mut found = Definitions::new();
    let mut fine = true;
    for Leaf { name, entry } in leaves {
        fine &= name_is_fine(section, &name, &entry.key_span);
        match definition::read(section, &name, &entry.value) {
            Some(definition) if found.contains_key(&name) => {
                section.error(&definition.span, format!("'{name}' is given twice"));
                fine = false;
            }
            Some(definition) => {
                found.insert(name, definition);
            }
            None => fine = false,
        }
    }
    fine.then_some(found)
}

/// A name, and the entry of the table where its path ends.
struct Leaf<'a> {
    name: String,
    entry: &'a Entry,
}

/// `a.b.c = …` and `"a.b.c" = …` are the same.
fn collect<'a>(name: String, entry: &'a Entry, found: &mut Vec<Leaf<'a>>) {
    let first = name.split('.').next().unwrap_or(&name);
    match &entry.value.kind {
        Kind::Table(table)
            if SECTIONS.contains(&first)
                && !table.entries.is_empty()
                && !definition::is_definition(&entry.value) =>
        {
            for inner in &table.entries {
                collect(format!("{name}.{}", inner.key), inner, found);
            }
        }
        _ => found.push(Leaf { name, entry }),
    }
}

fn name_is_fine(section: &Section<'_>, name: &str, span: &Span) -> bool {
    // Paths are checked where they replace a value.
    let first = name.split('.').next().unwrap_or(name);
    if SECTIONS.contains(&first) {
        return true;
    }
    let message = if name.contains('.') {
        format!(
            "'{name}' does not name a value: write node.NAME.…, link.NAME.…, flow.NAME.…, \
             record.KEY or scenario.duration{}",
            suggest(first, &SECTIONS)
        )
    } else if name == POPULATION {
        format!("'{name}' is the name of the [[sweep.draw.population]]; use another")
    } else if name == REPEAT {
        format!("'{name}' is the number of the repeat ([sweep.draw.repeat]); use another")
    } else if name.starts_with(is_name_start) && name.chars().all(is_name) && name.len() <= 40 {
        return true;
    } else {
        format!(
            "'{name}' is not a name that expressions can use: 1 to 40 letters, digits or '_', the \
             first a letter or '_'"
        )
    };
    section.error(span, message);
    false
}

fn populations(section: &Section<'_>) -> Option<Vec<Population>> {
    let mut found: Vec<Population> = Vec::new();
    let mut fine = true;
    if !section.has(POPULATION) {
        return Some(found);
    }
    for (table, span) in section.tables(POPULATION) {
        let mut one = Section::open_unchecked(table, span, "a population", section.errors);
        let name = one.required_name("\"lte\"");
        if let Some(name) = &name {
            one.what = format!("population '{}'", name.text);
            if found.iter().any(|other| other.name == name.text) {
                let message = format!("there is another population '{}'", name.text);
                one.error(&name.span, message);
                fine = false;
            }
        }
        let weight = match one.value("weight") {
            None => Some(1.0),
            Some(value) => {
                let weight = definition::weight(value);
                if weight.is_none() {
                    one.error(
                        &value.span,
                        "a weight must be a finite number, not negative",
                    );
                }
                weight
            }
        };
        let own = definitions(&one, table, &["name", "weight"]);
        match (name, weight, own) {
            (Some(name), Some(weight), Some(own)) => found.push(Population {
                name: name.text,
                weight,
                own,
            }),
            _ => fine = false,
        }
    }
    if fine && found.iter().map(|one| one.weight).sum::<f64>() <= 0.0 {
        let span = section.span_of(POPULATION);
        section.error(&span, "the weights of the populations are all zero");
        fine = false;
    }
    fine.then_some(found)
}

/// The definitions of a population, whose own take precedence over the common ones.
fn of_population(common: &Definitions, population: Option<&Population>) -> Definitions {
    let mut all = common.clone();
    if let Some(population) = population {
        all.extend(population.own.clone());
    }
    all
}

/// Each population, or a single `None` if there are no populations.
fn each(populations: &[Population]) -> Vec<Option<&Population>> {
    match populations {
        [] => vec![None],
        some => some.iter().map(Some).collect(),
    }
}

/// The types of all names in each population; `None` after a mistake.
fn kinds(
    section: &Section<'_>,
    common: &Definitions,
    populations: &[Population],
) -> Option<Vec<definition::Types>> {
    let mut kinds = Vec::new();
    for population in each(populations) {
        let definitions = of_population(common, population);
        let given = population.map(|_| (POPULATION.to_owned(), Type::Word));
        let at = population.map_or(String::new(), |one| {
            format!(" in population '{}'", one.name)
        });
        match order::kinds(&definitions, given.into_iter().collect()) {
            Ok(known) => kinds.push(known),
            Err(mistake) => {
                let message = format!("{}{at}", mistake.message);
                section.error(&mistake.span, message);
                return None;
            }
        }
    }
    Some(kinds)
}

/// Checks that `cc` is a word, and not both drawn and swept.
fn check_cc(section: &Section<'_>, sweep: &Table, kinds: &[definition::Types]) {
    let drawn: Vec<Type> = kinds
        .iter()
        .filter_map(|one| one.get("cc").copied())
        .collect();
    let span = section
        .entry("cc")
        .map_or(section.span.clone(), |entry| entry.key_span.clone());
    if drawn.iter().any(|kind| *kind != Type::Word) {
        let message =
            "'cc' is the name of a congestion control: cc = { choice = [\"cubic\", \"bbr\"] }";
        section.error(&span, message);
    }
    if !drawn.is_empty() && drawn.len() < kinds.len() {
        let message = "'cc' is drawn in some populations only; draw it in [sweep.draw]";
        section.error(&section.span, message);
    }
    if !drawn.is_empty() && sweep.get("cc").is_some() {
        let message = "'cc' is in [sweep], too; keep one of the two";
        section.error(&span, message);
    }
}

/// The names that differ between the repeats of a point in at least one population.
fn all_of(redrawn: &[Redrawn]) -> Vec<String> {
    let all: BTreeSet<&String> = redrawn.iter().flat_map(|one| &one.names).collect();
    all.into_iter().cloned().collect()
}

/// The names by whose values a report groups the points.
fn group(
    section: &Section<'_>,
    common: &Definitions,
    populations: &[Population],
    redrawn: &[Redrawn],
) -> Vec<String> {
    let own = populations.iter().flat_map(|one| one.own.iter());
    let definitions: Vec<(&String, &Definition)> = common.iter().chain(own).collect();
    let mut known: Vec<&str> = definitions.iter().map(|(name, _)| name.as_str()).collect();
    if !populations.is_empty() {
        known.push(POPULATION);
    }
    if !section.has("group") {
        let usual = [POPULATION, "cc"];
        let found = usual.iter().filter(|name| known.contains(name));
        return found.map(|name| (*name).to_owned()).collect();
    }
    let words = section.words("group").unwrap_or_default();
    for Word { text, span } in &words {
        if !known.contains(&text.as_str()) {
            let hint = suggest(text, &known);
            section.error(
                span,
                format!("nothing is drawn under the name '{text}'{hint}"),
            );
        }
        if let Some(one) = redrawn.iter().find(|one| one.names.contains(text)) {
            let on = one.behind(text);
            let why = on.map_or(String::new(), |on| format!(", as it depends on '{on}'"));
            let message =
                format!("'{text}' differs between the repeats of a point{why}; leave it out");
            section.error(span, message);
        }
        let many =
            |(name, definition): &&(&String, &Definition)| *name == text && !definition.is_of_few();
        if definitions.iter().any(|one| many(&one)) {
            let message = format!(
                "'{text}' has a value of its own at each point; group by what is drawn with \
                 'choice', 'case' of such, or as a whole number"
            );
            section.error(span, message);
        }
    }
    words.into_iter().map(|word| word.text).collect()
}

/// The sets of arms with whose best member each arm is compared.
fn against(section: &Section<'_>, arms: &[Arm]) -> Vec<Rivals> {
    let Some((table, span)) = section.table("against") else {
        return vec![Rivals {
            name: "best".to_owned(),
            arms: vec!["*".to_owned()],
        }];
    };
    let inner = Section::open_unchecked(table, span, "'against'", section.errors);
    let mut found = Vec::new();
    for entry in &table.entries {
        let patterns = inner.words(&entry.key).unwrap_or_default();
        for Word { text, span } in &patterns {
            if !arms.iter().any(|arm| matches(text, &arm.name)) {
                let known: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
                let hint = suggest(text, &known);
                inner.error(span, format!("no arm matches '{text}'{hint}"));
            }
        }
        found.push(Rivals {
            name: entry.key.clone(),
            arms: patterns.into_iter().map(|word| word.text).collect(),
        });
    }
    found
}

/// The random number stream of a name at a point. It depends only on the name and the number, so
/// that other names and more points do not change it.
fn stream(seed: u64, name: &str, number: u32) -> Rng {
    // 64-bit FNV-1a (RFC 9923).
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let of_name = Rng::stream(seed, hash).next_u64();
    Rng::stream(of_name, number.into())
}

/// The input for drawing points.
struct Source<'a> {
    section: &'a Section<'a>,
    seed: u64,
    /// The common definitions, including those that are redrawn for each repeat.
    common: &'a Definitions,
    populations: &'a [Population],
    repeats: &'a Repeats,
}

impl Source<'_> {
    /// The stream of a name at a point, or in a repeat of the point if the name is redrawn.
    fn stream(&self, name: &str, number: u32, repeat: u32) -> Rng {
        let mut of_point = stream(self.seed, name, number);
        match self.repeats.anew.contains_key(name) {
            true => Rng::stream(of_point.next_u64(), repeat.into()),
            false => of_point,
        }
    }

    /// One repeat of a point; `None` after a mistake.
    fn point(&self, number: u32, repeat: u32) -> Option<DrawnPoint> {
        let mut values = Values::new();
        let population = chosen(self.populations, &stream(self.seed, POPULATION, number));
        if let Some(population) = population {
            let name = Drawn::Word(population.name.clone());
            values.insert(POPULATION.to_owned(), name);
        }
        let definitions = of_population(self.common, population);
        let names = order::order(&definitions, &[POPULATION]).ok()?;
        for name in names {
            let definition = &definitions[&name];
            match definition.value(&values, &self.stream(&name, number, repeat)) {
                Ok(Drawn::Quantity(quantity))
                    if !quantity.amount.is_finite() || quantity.amount < 0.0 =>
                {
                    let amount = quantity.amount;
                    let message = format!(
                        "at point {number} '{name}' comes to {amount}; let it be a number from zero on"
                    );
                    self.section.error(&definition.span, message);
                    return None;
                }
                Ok(value) => {
                    values.insert(name, value);
                }
                Err(message) => {
                    let message = format!("at point {number} '{name}': {message}");
                    self.section.error(&definition.span, message);
                    return None;
                }
            }
        }
        let cc = values.get("cc").map(|value| value.setting().to_string());
        let spans = |name: &String| {
            definitions
                .get(name)
                .map_or(self.section.span.clone(), |it| it.span.clone())
        };
        let drawn = values.iter().map(|(name, value)| DrawnValue {
            name: name.clone(),
            value: value.setting(),
            span: spans(name),
        });
        let mut values: Vec<DrawnValue> = drawn.collect();
        if self.repeats.count > 1 {
            values.push(DrawnValue {
                name: REPEAT.to_owned(),
                value: SettingValue::Integer(repeat.into()),
                span: self.section.span.clone(),
            });
        }
        Some(DrawnPoint {
            number,
            repeat,
            cc,
            values,
        })
    }
}

fn chosen<'a>(populations: &'a [Population], rng: &Rng) -> Option<&'a Population> {
    let total: f64 = populations.iter().map(|one| one.weight).sum();
    let mut left = definition::unit(rng) * total;
    let mut last = None;
    for one in populations.iter().filter(|one| one.weight > 0.0) {
        last = Some(one);
        if left < one.weight {
            break;
        }
        left -= one.weight;
    }
    last
}

/// Whether a name is the path of a value in the file.
fn is_path(name: &str) -> bool {
    let first = name.split('.').next();
    name.contains('.') && first.is_some_and(|first| SECTIONS.contains(&first))
}

impl DrawnValue {
    /// Whether it replaces a value of the file; otherwise it is a name on which others depend.
    pub(crate) fn is_path(&self) -> bool {
        is_path(&self.name)
    }

    /// The value as it would be in a file.
    pub(crate) fn tree(&self) -> Value {
        let kind = match &self.value {
            SettingValue::Integer(value) => Kind::Integer(*value),
            SettingValue::Float(value) => Kind::Float(*value),
            SettingValue::Bool(value) => Kind::Bool(*value),
            SettingValue::Text(value) => Kind::Text(value.clone()),
        };
        Value {
            span: self.span.clone(),
            kind,
        }
    }
}
