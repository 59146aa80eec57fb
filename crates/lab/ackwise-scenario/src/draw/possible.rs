//! Which values a name can have: a case for another one never applies, and may be a slip of the hand.

use std::collections::BTreeMap;

use ackwise_config::Span;
use ackwise_config::diagnostic::{closest, suggest};
use ackwise_config::section::Section;

use super::definition::{Case, Definition, Range, Rule};
use super::expression::Expression;
use super::value::{Drawn, Quantity};
use super::{Definitions, POPULATION, Population, each, of_population, order};

/// Most values that a message lists.
const LISTED: usize = 20;

/// A value that a name can have, or several.
#[derive(Debug, Clone, PartialEq)]
enum Piece {
    One(Drawn),
    Within(Range),
}

/// What a name can be; `None` if that is not known before it is drawn.
type Possible = Option<Vec<Piece>>;

/// A case for a value, over all populations in which its definition holds.
struct Looked {
    on: String,
    value: String,
    possible: Possible,
}

/// Refuses each case for a value that the name it looks at never has, unless it looks like one that was left
/// out.
pub(super) fn check_cases(section: &Section<'_>, common: &Definitions, populations: &[Population]) {
    // By where the value stands: several populations may have the same definition.
    let mut looked: BTreeMap<(usize, usize), Looked> = BTreeMap::new();
    for population in each(populations) {
        let definitions = of_population(common, population);
        let Some(known) = possible(&definitions, population) else {
            continue;
        };
        for definition in definitions.values() {
            look(definition, &known, &mut looked);
        }
    }
    for (
        (start, end),
        Looked {
            on,
            value,
            possible,
        },
    ) in looked
    {
        let Some(possible) = possible else { continue };
        if possible.iter().any(|piece| piece.has(&value)) || is_left_out(&value, &possible) {
            continue;
        }
        let span: Span = start..end;
        section.error(&span, refusal(&on, &value, &possible));
    }
}

/// Whether a value looks like one that was left out on purpose: of the kind that the others are, and no slip
/// of the hand for one of them. So a population is narrowed by one line, and its cases stay.
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

/// A plain number of those that a name can be is written in one way: that of `8.0` is `8`.
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
        // All that it can be is listed anyway.
        None if suggested.starts_with("; known") => String::new(),
        None => suggested,
    };
    let all = possible.iter().take(LISTED).map(Piece::text);
    let listed = all.collect::<Vec<_>>().join(", ");
    let more = if possible.len() > LISTED { ", …" } else { "" };
    format!(
        "'{on}' is never '{value}', so that this case never applies; it can be {listed}{more}{hint}"
    )
}

/// Adds what the cases of a definition look at.
fn look(
    definition: &Definition,
    known: &BTreeMap<String, Possible>,
    looked: &mut BTreeMap<(usize, usize), Looked>,
) {
    let Rule::Case(case) = &definition.rule else {
        return;
    };
    let here = known.get(&case.on).cloned().flatten();
    for (value, span) in &case.spans {
        let found = looked.entry((span.start, span.end));
        let found = found.or_insert_with(|| Looked {
            on: case.on.clone(),
            value: value.clone(),
            possible: Some(Vec::new()),
        });
        found.possible = join(found.possible.take(), here.clone());
    }
    for inner in case.inner() {
        look(inner, known, looked);
    }
}

/// Each name's values in one population.
fn possible(
    definitions: &Definitions,
    population: Option<&Population>,
) -> Option<BTreeMap<String, Possible>> {
    let mut known: BTreeMap<String, Possible> = BTreeMap::new();
    if let Some(population) = population {
        let name = Piece::One(Drawn::Word(population.name.clone()));
        known.insert(POPULATION.to_owned(), Some(vec![name]));
    }
    // What depends on itself has been refused.
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

    /// As an expression has it.
    fn rounded(self) -> Piece {
        match self {
            Piece::One(Drawn::Quantity(quantity)) => {
                Piece::One(Drawn::Quantity(quantity.rounded()))
            }
            other => other,
        }
    }

    /// What a slip of the hand can be meant to be.
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
