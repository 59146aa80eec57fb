//! A TOML document as a tree in which every key and value has its position. Values can be replaced,
//! as `[sweep]` and `change` of scenarios do.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{Collector, Span};

/// The maximum number of syntax mistakes reported: in a file that is not TOML each line is one.
const MAX_SYNTAX_MISTAKES: usize = 10;

/// A value with its position in the file.
#[derive(Debug, Clone)]
pub struct Value {
    /// The position of the value.
    pub span: Span,
    /// The value itself.
    pub kind: Kind,
}

/// The kinds of values.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A text in quotes.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// A date or time. No key accepts one.
    Datetime,
    /// A list.
    Array(Vec<Value>),
    /// A table.
    Table(Table),
}

impl Value {
    /// Returns the kind of the value, for messages.
    pub fn what(&self) -> &'static str {
        match self.kind {
            Kind::Text(_) => "text",
            Kind::Integer(_) => "a whole number",
            Kind::Float(_) => "a number",
            Kind::Bool(_) => "true or false",
            Kind::Datetime => "a date",
            Kind::Array(_) => "a list",
            Kind::Table(_) => "a table",
        }
    }

    /// Returns a single value as it would be written on a command line, or `None` for dates,
    /// lists and tables.
    pub fn plain(&self) -> Option<String> {
        match &self.kind {
            Kind::Text(text) => Some(text.clone()),
            Kind::Integer(value) => Some(value.to_string()),
            Kind::Float(value) => Some(value.to_string()),
            Kind::Bool(value) => Some(value.to_string()),
            Kind::Datetime | Kind::Array(_) | Kind::Table(_) => None,
        }
    }
}

/// A table with its entries in the order of the file.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The keys and values.
    pub entries: Vec<Entry>,
}

/// A key with its value.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The key as written.
    pub key: String,
    /// The position of the key.
    pub key_span: Span,
    /// The value.
    pub value: Value,
}

impl Table {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Parses a document. Returns `None` and reports the mistakes if it is not TOML.
    pub fn parse(text: &str, errors: &mut Collector) -> Option<Table> {
        // JSON, which a program has written: as TOML, each of its lines would be a mistake.
        let start = text.len() - text.trim_start().len();
        if text[start..].starts_with('{') {
            let message = "JSON, and not TOML: name the file that was written by hand, not a \
                           result of it";
            errors.error(&(start..start + 1), message);
            return None;
        }
        let (document, mistakes) = DeTable::parse_recoverable(text);
        errors.leave_out(mistakes.len().saturating_sub(MAX_SYNTAX_MISTAKES));
        for mistake in mistakes.iter().take(MAX_SYNTAX_MISTAKES) {
            let span = mistake.span().unwrap_or(0..0);
            errors.error(&span, format!("not TOML: {}", mistake.message()));
        }
        if !mistakes.is_empty() {
            return None;
        }
        Some(table(document.get_ref(), errors))
    }

    /// Replaces the value at `path`, and creates tables as needed.
    pub fn set(&mut self, path: &[&str], span: &Span, value: &Value) {
        set(self, path, span, value);
    }
}

fn set(table: &mut Table, path: &[&str], span: &Span, value: &Value) {
    let [key, rest @ ..] = path else { return };
    // A key that is written with dots, like those of `sysctl`.
    let dotted = path.join(".");
    if let Some(entry) = table.entries.iter_mut().find(|entry| entry.key == dotted) {
        entry.value = value.clone();
        return;
    }
    let index = match table.entries.iter().position(|entry| entry.key == *key) {
        Some(index) => index,
        None => {
            table.entries.push(Entry {
                key: (*key).to_owned(),
                key_span: span.clone(),
                value: Value {
                    span: span.clone(),
                    kind: Kind::Table(Table::default()),
                },
            });
            table.entries.len() - 1
        }
    };
    let entry = &mut table.entries[index];
    if rest.is_empty() {
        entry.value = value.clone();
        return;
    }
    if !matches!(entry.value.kind, Kind::Table(_)) {
        entry.value = Value {
            span: span.clone(),
            kind: Kind::Table(Table::default()),
        };
    }
    if let Kind::Table(inner) = &mut entry.value.kind {
        set(inner, rest, span, value);
    }
}

fn table(source: &DeTable<'_>, errors: &mut Collector) -> Table {
    let mut entries: Vec<Entry> = source
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_span: key.span(),
            value: convert(value, errors),
        })
        .collect();
    entries.sort_by_key(|entry| entry.key_span.start);
    Table { entries }
}

fn convert(source: &Spanned<DeValue<'_>>, errors: &mut Collector) -> Value {
    let span = source.span();
    let kind = match source.get_ref() {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(integer) => match i64::from_str_radix(integer.as_str(), integer.radix()) {
            Ok(value) => Kind::Integer(value),
            Err(_) => {
                errors.error(&span, "this number is too large");
                Kind::Integer(0)
            }
        },
        DeValue::Float(float) => Kind::Float(float.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Kind::Bool(*value),
        DeValue::Datetime(_) => Kind::Datetime,
        DeValue::Array(items) => {
            Kind::Array(items.iter().map(|item| convert(item, errors)).collect())
        }
        DeValue::Table(inner) => Kind::Table(table(inner, errors)),
    };
    Value { span, kind }
}
