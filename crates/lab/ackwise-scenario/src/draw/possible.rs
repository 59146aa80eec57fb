//! The possible values of a name: a case for any other value never applies, and may be a typing
//! error.

use std::collections::BTreeMap;

use ackwise_config::Span;
use ackwise_config::diagnostic::{closest, suggest};
use ackwise_config::section::Section;

use super::definition::{Case, Definition, Range, Rule};
use super::expression::Expression;
use super::value::{Drawn, Quantity};
use super::{Definitions, POPULATION, Population, each, of_population, order};

/// Maximum number of values in an error message.
const MAX_LISTED: usize = 20;

/// A possible value of a name, or a range of them.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    One(Drawn),
    Within(Range),
}

/// The possible values of a name; `None` if they are not known before the draw.
type Possible = Option<Vec<Piece>>;

/// A case for a value, over all populations in which its definition applies.
struct Exploration {
    on: String,
    value: String,
    possible: Possible,
}

/// Refuses each case for a value that the name never has, unless the value looks like one that was
/// left out on purpose.
pub(super) fn check_cases(section: &Section<'_>, common: &Definitions, populations: &[Population]) {
    // The key is the place of the value, because several populations may share a definition.
    let mut explored: BTreeMap<(usize, usize), Exploration> = BTreeMap::new();
    for population in each(populations) {
        let definitions = of_population(common, population);
        let Some(known) = possible(&definitions, population) else {
            continue;
        };
        for definition in definitions.values() {
            explore(definition, &known, &mut explored);
        }
    }
    for (
        (start, end),
        Exploration {
            on,
            value,
            possible,
        },
    ) in explored
    {
        let Some(possible) = possible else { continue };
        if possible.iter().any(|piece| piece.has(&value)) || is_left_out(&value, &possible) {
            continue;
        }
        let span: Span = start..end;
        section.error(&span, refusal(&on, &value, &possible));
    }
}

/// Whether a value looks like one that was left out on purpose: it has the type of the others, and
/// is not a typing error for one of them. Thus one line narrows a population, and its cases can
/// stay.
fn is_left_out(value: &str, possible: &[Piece]) -> bool {
    if spelled(value, possible).is_some() {
        return false;
    }
    let words: Vec<String> = possible.iter().filter_map(Piece::word).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_flag = matches!(value, "true" | "false");
    possible.iter().any(|piece| match piece {
        Piece::One(Drawn::Flag(_)) => is_flag,
        Piece::One(Drawn::Quantity(_)) | Piece::Within(_) => is_number(value),
        Piece::One(Drawn::Word(_)) => closest(value, &words).is_none(),
    })
}

/// The canonical form of a plain number that the name can have: `8` for `8.0`.
fn spelled(value: &str, possible: &[Piece]) -> Option<String> {
    let number = Quantity::number(value.parse().ok()?);
    let spelled = Drawn::Quantity(number).setting().to_string();
    let can_be = possible.iter().any(|piece| match piece {
        Piece::One(drawn) => *drawn == Drawn::Quantity(number),
        Piece::Within(range) => range.can_be(&spelled),
    });
    can_be.then_some(spelled)
}

fn is_number(value: &str) -> bool {
    value.parse::<f64>().is_ok() || Quantity::parse(value).is_some()
}

fn refusal(on: &str, value: &str, possible: &[Piece]) -> String {
    let words: Vec<String> = possible.iter().filter_map(Piece::word).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let suggested = suggest(value, &words);
    let hint = match spelled(value, possible) {
        Some(spelled) => format!("; write {spelled}"),
        // All possible values are listed anyway.
        None if suggested.starts_with("; known") => String::new(),
        None => suggested,
    };
    let all = possible.iter().take(MAX_LISTED).map(Piece::text);
    let listed = all.collect::<Vec<_>>().join(", ");
    let more = if possible.len() > MAX_LISTED {
        ", …"
    } else {
        ""
    };
    format!(
        "'{on}' is never '{value}', so that this case never applies; it can be {listed}{more}{hint}"
    )
}

/// Adds the values for which a definition has cases.
fn explore(
    definition: &Definition,
    known: &BTreeMap<String, Possible>,
    explored: &mut BTreeMap<(usize, usize), Exploration>,
) {
    let Rule::Case(case) = &definition.rule else {
        return;
    };
    let here = known.get(&case.on).cloned().flatten();
    for (value, span) in &case.spans {
        let found = explored.entry((span.start, span.end));
        let found = found.or_insert_with(|| Exploration {
            on: case.on.clone(),
            value: value.clone(),
            possible: Some(Vec::new()),
        });
        found.possible = join(found.possible.take(), here.clone());
    }
    for inner in case.inner() {
        explore(inner, known, explored);
    }
}

/// The possible values of each name in one population.
fn possible(
    definitions: &Definitions,
    population: Option<&Population>,
) -> Option<BTreeMap<String, Possible>> {
    let mut known: BTreeMap<String, Possible> = BTreeMap::new();
    if let Some(population) = population {
        let name = Piece::One(Drawn::Word(population.name.clone()));
        known.insert(POPULATION.to_owned(), Some(vec![name]));
    }
    // A name that depends on itself has been refused already.
    for name in order::order(definitions, &[POPULATION]).ok()? {
        let values = of(&definitions[&name], &known);
        known.insert(name, values);
    }
    Some(known)
}

fn of(definition: &Definition, known: &BTreeMap<String, Possible>) -> Possible {
    match &definition.rule {
        Rule::Constant(value) => Some(vec![Piece::One(value.clone())]),
        Rule::Uniform(range) | Rule::LogUniform(range) => Some(vec![Piece::Within(*range)]),
        Rule::Choice(choices) => {
            let values = choices.iter().map(|choice| choice.value.clone());
            Some(values.map(Piece::One).collect())
        }
        Rule::Case(case) => of_case(case, known),
        Rule::Expression(Expression::Name(other)) => {
            let values = known.get(other).cloned().flatten()?;
            Some(values.into_iter().map(Piece::rounded).collect())
        }
        Rule::Expression(Expression::Constant(quantity)) => {
            Some(vec![Piece::One(Drawn::Quantity(quantity.rounded()))])
        }
        Rule::Expression(_) => None,
    }
}

fn of_case(case: &Case, known: &BTreeMap<String, Possible>) -> Possible {
    let inner = case.inner().map(|inner| of(inner, known));
    inner.fold(Some(Vec::new()), join)
}

fn join(one: Possible, other: Possible) -> Possible {
    let mut all = one?;
    for piece in other? {
        if !all.contains(&piece) {
            all.push(piece);
        }
    }
    Some(all)
}

impl Piece {
    fn has(&self, value: &str) -> bool {
        match self {
            Piece::One(drawn) => drawn.setting().to_string() == value,
            Piece::Within(range) => range.can_be(value),
        }
    }

    /// The value as an expression sees it.
    fn rounded(self) -> Piece {
        match self {
            Piece::One(Drawn::Quantity(quantity)) => {
                Piece::One(Drawn::Quantity(quantity.rounded()))
            }
            other => other,
        }
    }

    /// The word that a typing error may stand for.
    fn word(&self) -> Option<String> {
        match self {
            Piece::One(Drawn::Word(_) | Drawn::Flag(_)) => Some(self.text()),
            Piece::One(Drawn::Quantity(_)) | Piece::Within(_) => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Piece::One(drawn) => drawn.setting().to_string(),
            Piece::Within(range) => {
                let [low, high] = range.ends().map(|end| Drawn::Quantity(end).setting());
                format!("{low} to {high}")
            }
        }
    }
}
