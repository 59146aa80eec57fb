//! Definitions: how a name gets its value at a point.

use std::collections::BTreeMap;

use ackwise_config::Span;
use ackwise_config::section::Section;
use ackwise_config::tree::{Entry, Kind, Table, Value};
use ackwise_rng::Rng;

use super::expression::Expression;
use super::value::{Dimension, Drawn, Quantity, Type};

/// Keys that distinguish a definition from a table of further paths.
const KINDS: [&str; 4] = ["uniform", "log-uniform", "choice", "case"];

/// The definition of a name.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    /// Its place in the file.
    pub span: Span,
    /// The rule that gives the value.
    pub rule: Rule,
}

/// The ways in which a name gets its value.
#[derive(Debug, Clone)]
pub(super) enum Rule {
    /// `true`, `false` or a number.
    Constant(Drawn),
    /// Computed from other names.
    Expression(Expression),
    /// Uniform in a range.
    Uniform(Range),
    /// Log-uniform in a range.
    LogUniform(Range),
    /// One of several values.
    Choice(Vec<Weighted>),
    /// Depends on the value of another name.
    Case(Case),
}

/// A range that includes both ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    low: Quantity,
    high: Quantity,
    /// Whether only whole multiples of the unit are drawn.
    whole: bool,
}

/// One of several values, with its weight.
#[derive(Debug, Clone)]
pub(super) struct Weighted {
    pub value: Drawn,
    weight: f64,
}

/// Definitions that depend on the value of another name.
#[derive(Debug, Clone)]
pub(super) struct Case {
    /// The other name.
    pub on: String,
    /// The definition for each value, as text.
    by_value: BTreeMap<String, Definition>,
    /// The places of the values in the file.
    pub spans: BTreeMap<String, Span>,
    /// The definition for any other value.
    otherwise: Option<Box<Definition>>,
}

/// Values by name.
pub(super) type Values = BTreeMap<String, Drawn>;

/// Types of values by name.
pub(super) type Types = BTreeMap<String, Type>;

/// Whether a table is a definition, and not a table of further paths.
pub(super) fn is_definition(value: &Value) -> bool {
    match &value.kind {
        Kind::Table(table) => KINDS.iter().any(|key| table.get(key).is_some()),
        _ => true,
    }
}

/// Reads a definition; `None` after a mistake.
pub(super) fn read(section: &Section<'_>, name: &str, value: &Value) -> Option<Definition> {
    let rule = match &value.kind {
        Kind::Text(text) => match Expression::parse(text) {
            Ok(expression) => Rule::Expression(expression),
            Err(message) => {
                section.error(&value.span, format!("'{name}': {message}"));
                return None;
            }
        },
        Kind::Table(table) => return table_rule(section, name, table, &value.span),
        _ => match Drawn::of(value) {
            Some(constant) => Rule::Constant(constant),
            None => {
                let message = format!(
                    "'{name}' is {}; write {{ uniform = [1, 8] }}, {{ log-uniform = [\"10 Mbit/s\", \
                     \"200 Mbit/s\"] }}, {{ choice = [\"a\", \"b\"] }}, {{ case = \"name\", … }} or an \
                     expression in quotes",
                    value.what()
                );
                section.error(&value.span, message);
                return None;
            }
        },
    };
    Some(Definition {
        span: value.span.clone(),
        rule,
    })
}

fn table_rule(outer: &Section<'_>, name: &str, table: &Table, span: &Span) -> Option<Definition> {
    let what = format!("'{name}'");
    let section = Section::open_unchecked(table, span, what, outer.errors);
    let kinds: Vec<&Entry> = KINDS.iter().filter_map(|key| section.entry(key)).collect();
    let [kind] = kinds.as_slice() else {
        let message = format!(
            "'{name}' needs one of {}: write e.g. {{ uniform = [\"15 ms\", \"600 ms\"] }}",
            KINDS.join(", ")
        );
        section.error(span, message);
        return None;
    };
    let rule = match kind.key.as_str() {
        "case" => Rule::Case(case(&section, name)?),
        "choice" => {
            section.only(&["choice", "weights"]);
            Rule::Choice(choice(&section, name)?)
        }
        key => {
            section.only(&[key]);
            let log = key == "log-uniform";
            let range = range(&section, name, kind, log)?;
            match log {
                true => Rule::LogUniform(range),
                false => Rule::Uniform(range),
            }
        }
    };
    Some(Definition {
        span: span.clone(),
        rule,
    })
}

fn range(section: &Section<'_>, name: &str, entry: &Entry, log: bool) -> Option<Range> {
    let span = &entry.value.span;
    let key = &entry.key;
    let Kind::Array(items) = &entry.value.kind else {
        let message = format!(
            "'{key}' of '{name}' must be a list of two ends, not {}",
            entry.value.what()
        );
        section.error(span, message);
        return None;
    };
    let [low, high] = items.as_slice() else {
        let message = format!(
            "'{key}' of '{name}' has two ends, the smallest and the largest value, not {}",
            items.len()
        );
        section.error(span, message);
        return None;
    };
    let end = |value: &Value| match Drawn::of(value) {
        Some(Drawn::Quantity(quantity)) => Some(quantity),
        _ => {
            let message = format!(
                "an end of '{name}' is a number or a quantity with a unit, e.g. 8 or \"200 Mbit/s\""
            );
            section.error(&value.span, message);
            None
        }
    };
    let (first, second) = (end(low), end(high));
    let range = Range {
        low: first?,
        high: second?,
        whole: [low, high]
            .iter()
            .all(|end| matches!(end.kind, Kind::Integer(_))),
    };
    let (a, b) = (range.low.dimension, range.high.dimension);
    if a != b {
        let message = format!("the ends of '{name}' are {a} and {b}; write both in the same unit");
        section.error(span, message);
        return None;
    }
    if range.low.amount >= range.high.amount {
        let message = format!(
            "the range of '{name}' ends where it begins or before: write the smaller end first, \
             or the value itself if it does not vary"
        );
        section.error(span, message);
        return None;
    }
    if log && range.low.amount <= 0.0 {
        let message = format!(
            "a logarithm needs more than zero: let '{name}' begin above zero, or use 'uniform'"
        );
        section.error(&low.span, message);
        return None;
    }
    let whole = range.whole || range.low.dimension == Dimension::Packets;
    Some(Range { whole, ..range })
}

fn choice(section: &Section<'_>, name: &str) -> Option<Vec<Weighted>> {
    let items = section.list("choice")?;
    let mut values: Vec<Drawn> = Vec::new();
    for item in &items {
        let Some(value) = Drawn::of(item) else {
            let message = format!("'{name}' cannot be {}", item.what());
            section.error(&item.span, message);
            return None;
        };
        if let Some(first) = values.first()
            && first.kind() != value.kind()
        {
            let message = format!(
                "the choices of '{name}' are of one kind: this is {}, the first is {}",
                value.kind(),
                first.kind()
            );
            section.error(&item.span, message);
            return None;
        }
        if values.contains(&value) {
            let message = format!("'{}' is given twice; use 'weights'", value.setting());
            section.error(&item.span, message);
        }
        values.push(value);
    }
    let weights = match section.has("weights") {
        true => weights(section, name, values.len())?,
        false => vec![1.0; values.len()],
    };
    let pairs = values.into_iter().zip(weights);
    Some(
        pairs
            .map(|(value, weight)| Weighted { value, weight })
            .collect(),
    )
}

fn weights(section: &Section<'_>, name: &str, wanted: usize) -> Option<Vec<f64>> {
    let items = section.list("weights")?;
    let mut weights = Vec::new();
    for item in &items {
        let weight = weight(item);
        if weight.is_none() {
            section.error(&item.span, "a weight must be a finite number, not negative");
        }
        weights.extend(weight);
    }
    let span = section.span_of("weights");
    if items.len() != wanted {
        let message = format!(
            "'{name}' has {wanted} choices and {} weights; write one for each",
            items.len()
        );
        section.error(&span, message);
        return None;
    }
    if weights.len() == wanted && weights.iter().sum::<f64>() <= 0.0 {
        section.error(&span, format!("the weights of '{name}' are all zero"));
        return None;
    }
    (weights.len() == wanted).then_some(weights)
}

/// A weight, if the value is a valid one.
pub(super) fn weight(value: &Value) -> Option<f64> {
    let weight = match value.kind {
        Kind::Integer(number) => number as f64,
        Kind::Float(number) => number,
        _ => return None,
    };
    (0.0..=1e9).contains(&weight).then_some(weight)
}

fn case(section: &Section<'_>, name: &str) -> Option<Case> {
    let on = section.word("case")?.text;
    let mut case = Case {
        on,
        by_value: BTreeMap::new(),
        spans: BTreeMap::new(),
        otherwise: None,
    };
    let mut fine = true;
    for entry in &section.table.entries {
        if entry.key == "case" {
            continue;
        }
        let Some(definition) = read(section, name, &entry.value) else {
            fine = false;
            continue;
        };
        match entry.key.as_str() {
            "else" => case.otherwise = Some(Box::new(definition)),
            key => {
                let value = canonical(key);
                if case.by_value.contains_key(&value) {
                    let message = format!("there is another case for '{value}'");
                    section.error(&entry.key_span, message);
                    fine = false;
                }
                case.spans.insert(value.clone(), entry.key_span.clone());
                case.by_value.insert(value, definition);
            }
        }
    }
    if fine && case.by_value.is_empty() {
        let message =
            format!("'{name}' has no case; write e.g. {{ case = \"upload\", true = 1, else = 0 }}");
        section.error(&section.span, message);
        return None;
    }
    fine.then_some(case)
}

/// A value in the form in which drawn values are written: `1 Mbit/s` for `1000 kbit/s`.
fn canonical(text: &str) -> String {
    let quantity = Quantity::parse(text).map(Drawn::Quantity);
    quantity.map_or(text.to_owned(), |it| it.setting().to_string())
}

impl Case {
    /// The definitions of all cases.
    pub(super) fn inner(&self) -> impl Iterator<Item = &Definition> {
        self.by_value.values().chain(self.otherwise.as_deref())
    }
}

impl Definition {
    /// The names on which it depends.
    pub(super) fn names(&self) -> Vec<&str> {
        match &self.rule {
            Rule::Expression(expression) => expression.names(),
            Rule::Case(case) => {
                let mut names = vec![case.on.as_str()];
                names.extend(case.inner().flat_map(Definition::names));
                names
            }
            _ => Vec::new(),
        }
    }

    /// Its values if it is a choice between words.
    pub(super) fn words(&self) -> Vec<String> {
        match &self.rule {
            Rule::Choice(choices) => {
                let word = |choice: &Weighted| match &choice.value {
                    Drawn::Word(word) => Some(word.clone()),
                    _ => None,
                };
                choices.iter().filter_map(word).collect()
            }
            Rule::Case(case) => case.inner().flat_map(Definition::words).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it has few possible values, so that points can be grouped by it.
    pub(super) fn is_of_few(&self) -> bool {
        match &self.rule {
            Rule::Choice(_) | Rule::Constant(_) => true,
            Rule::Uniform(range) | Rule::LogUniform(range) => range.whole,
            Rule::Case(case) => case.inner().all(Definition::is_of_few),
            Rule::Expression(_) => false,
        }
    }

    /// The type of its values.
    ///
    /// # Errors
    /// It uses values of the wrong type, or of several types.
    pub(super) fn kind(&self, known: &Types) -> Result<Type, String> {
        match &self.rule {
            Rule::Constant(value) => Ok(value.kind()),
            Rule::Expression(expression) => expression.kind(&|name| known.get(name).copied()),
            Rule::Uniform(range) | Rule::LogUniform(range) => {
                Ok(Type::Quantity(range.low.dimension))
            }
            Rule::Choice(choices) => choices
                .first()
                .map(|choice| choice.value.kind())
                .ok_or_else(|| "there is nothing to choose".to_owned()),
            Rule::Case(case) => {
                let mut all: Option<Type> = None;
                for one in case.inner() {
                    let kind = one.kind(known)?;
                    if let Some(first) = all.filter(|first| *first != kind) {
                        return Err(format!(
                            "its cases are {first} and {kind}; write all of one kind"
                        ));
                    }
                    all = Some(kind);
                }
                all.ok_or_else(|| "there is no case".to_owned())
            }
        }
    }

    /// The value at a point, from a separate random number stream.
    ///
    /// # Errors
    /// No case applies, or an expression has no value.
    pub(super) fn value(&self, known: &Values, rng: &Rng) -> Result<Drawn, String> {
        let share = unit(rng);
        match &self.rule {
            Rule::Constant(value) => Ok(value.clone()),
            Rule::Expression(expression) => {
                let value = expression.value(&|name| known.get(name).cloned())?;
                Ok(match value {
                    Drawn::Quantity(quantity) => Drawn::Quantity(quantity.rounded()),
                    other => other,
                })
            }
            Rule::Uniform(range) => Ok(Drawn::Quantity(range.even(share))),
            Rule::LogUniform(range) => Ok(Drawn::Quantity(range.log_even(share))),
            Rule::Choice(choices) => Ok(chosen(choices, share).clone()),
            Rule::Case(case) => {
                let on = known.get(&case.on).map(|value| value.setting().to_string());
                let on = on.ok_or_else(|| format!("'{}' is not known here", case.on))?;
                let found = case.by_value.get(&on).or(case.otherwise.as_deref());
                let found = found.ok_or_else(|| {
                    let known: Vec<&str> = case.by_value.keys().map(String::as_str).collect();
                    format!(
                        "there is a case for {} only, and none for {} = {on}; add it or 'else'",
                        known.join(", "),
                        case.on
                    )
                })?;
                // The draw is the same whichever case applies.
                found.value(known, rng)
            }
        }
    }
}

/// A number from 0 (included) to 1 (excluded), in steps of 2⁻⁵³. It does not advance the stream, so
/// that a name takes one draw at a point, however its cases are nested.
pub(super) fn unit(rng: &Rng) -> f64 {
    let bits = rng.clone().next_u64() >> 11;
    bits as f64 / (1u64 << 53) as f64
}

fn chosen(choices: &[Weighted], share: f64) -> &Drawn {
    let total: f64 = choices.iter().map(|choice| choice.weight).sum();
    let mut left = share * total;
    let mut last = &choices[0];
    for choice in choices.iter().filter(|choice| choice.weight > 0.0) {
        last = choice;
        if left < choice.weight {
            break;
        }
        left -= choice.weight;
    }
    &last.value
}

impl Range {
    /// The smallest and the largest value.
    pub(super) fn ends(self) -> [Quantity; 2] {
        [self.low, self.high]
    }

    /// Whether a value can be drawn that is written as `text`.
    pub(super) fn can_be(self, text: &str) -> bool {
        let number = || text.parse().ok().map(Quantity::number);
        let Some(quantity) = Quantity::parse(text).or_else(number) else {
            return false;
        };
        quantity.dimension == self.low.dimension
            && (!self.whole || quantity.is_whole())
            && (self.low.amount..=self.high.amount).contains(&quantity.amount)
            && Drawn::Quantity(quantity).setting().to_string() == text
    }

    /// A value rounded for writing, but within the range.
    fn within(self, amount: f64) -> Quantity {
        let dimension = self.low.dimension;
        let quantity = Quantity { amount, dimension };
        let rounded = if self.whole {
            quantity
        } else {
            quantity.rounded()
        };
        Quantity {
            amount: rounded.amount.clamp(self.low.amount, self.high.amount),
            dimension,
        }
    }

    fn even(self, share: f64) -> Quantity {
        let (low, high) = (self.low.amount, self.high.amount);
        match self.whole {
            true => self.within((low + share * (high - low + 1.0)).floor()),
            false => self.within(low + share * (high - low)),
        }
    }

    fn log_even(self, share: f64) -> Quantity {
        let (low, high) = (self.low.amount, self.high.amount);
        let end = if self.whole { high + 1.0 } else { high };
        // libm instead of the platform's functions, so that every machine draws the same values.
        let (from, to) = (libm::log(low), libm::log(end));
        let drawn = libm::exp(from + share * (to - from));
        match self.whole {
            true => self.within(drawn.floor()),
            false => self.within(drawn),
        }
    }
}
