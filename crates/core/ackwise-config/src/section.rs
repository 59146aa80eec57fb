//! Reads typed values from a table and reports what is wrong with them.
//!
//! The methods that read a key return `None` if it is absent. If its value is wrong, they
//! report that and return `None`, too.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::time::Duration;

use crate::diagnostic::Span;
use crate::diagnostic::{Collector, suggest};
use crate::queues::QueueLimit;
use crate::tree::{Entry, Kind, Table, Value};
use crate::units::{self, Quantity};
use crate::uplink;

/// A text with its position in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The text.
    pub text: String,
    /// The position of the text.
    pub span: Span,
}

/// A table that is being read.
pub struct Section<'a> {
    /// The table.
    pub table: &'a Table,
    /// The position of its header, where missing keys are reported.
    pub span: Span,
    /// What the table describes, such as `link 'wan'`.
    pub what: String,
    /// Collects the mistakes.
    pub errors: &'a RefCell<Collector>,
}

impl<'a> Section<'a> {
    /// Opens a table. Keys other than `known` are mistakes.
    pub fn open(
        table: &'a Table,
        span: &Span,
        what: impl Into<String>,
        known: &[&str],
        errors: &'a RefCell<Collector>,
    ) -> Section<'a> {
        let section = Section::open_unchecked(table, span, what, errors);
        section.only(known);
        section
    }

    /// Opens a table without checking its keys.
    pub fn open_unchecked(
        table: &'a Table,
        span: &Span,
        what: impl Into<String>,
        errors: &'a RefCell<Collector>,
    ) -> Section<'a> {
        Section {
            table,
            span: span.clone(),
            what: what.into(),
            errors,
        }
    }

    /// Reports every key that is not `known`.
    pub fn only(&self, known: &[&str]) {
        for entry in &self.table.entries {
            if !known.contains(&entry.key.as_str()) {
                self.unknown(entry, known);
            }
        }
    }

    /// Reports a key that is not `known`.
    pub fn unknown(&self, entry: &Entry, known: &[&str]) {
        let (key, what) = (&entry.key, &self.what);
        let message = format!("unknown key '{key}' in {what}{}", suggest(key, known));
        self.error(&entry.key_span, message);
    }

    /// Reports a mistake at `span`.
    pub fn error(&self, span: &Span, message: impl Into<String>) {
        self.errors.borrow_mut().error(span, message);
    }

    /// Returns whether the table has a key.
    pub fn has(&self, key: &str) -> bool {
        self.table.entry(key).is_some()
    }

    /// Returns a key and its value.
    pub fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.table.entry(key)
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> Option<&'a Value> {
        self.table.get(key)
    }

    /// Returns the position of the value of a key, or of the header if the key is absent.
    pub fn span_of(&self, key: &str) -> Span {
        self.value(key)
            .map_or_else(|| self.span.clone(), |value| value.span.clone())
    }

    fn missing(&self, key: &str, example: &str) {
        self.error(
            &self.span,
            format!("{} has no '{key}'; add {key} = {example}", self.what),
        );
    }

    fn mismatch(&self, key: &str, value: &Value, wanted: &str) {
        self.error(
            &value.span,
            format!("'{key}' must be {wanted}, not {}", value.what()),
        );
    }

    /// Reads a text in quotes.
    pub fn word(&self, key: &str) -> Option<Word> {
        let value = self.value(key)?;
        match &value.kind {
            Kind::Text(text) => Some(Word {
                text: text.clone(),
                span: value.span.clone(),
            }),
            _ => {
                self.mismatch(key, value, "text in quotes");
                None
            }
        }
    }

    /// Reads a text that must be present; if it is not, the message shows `example`.
    pub fn required_word(&self, key: &str, example: &str) -> Option<Word> {
        if !self.has(key) {
            self.missing(key, example);
        }
        self.word(key)
    }

    /// Reads the key `name`, which must be present. Names appear in references, file names and
    /// the ids of runs.
    pub fn required_name(&self, example: &str) -> Option<Word> {
        let word = self.required_word("name", example)?;
        self.check_name(&word).then_some(word)
    }

    /// Checks that a text is a name: 1 to 40 letters, digits, `-` or `_`.
    pub fn check_name(&self, word: &Word) -> bool {
        let text = &word.text;
        let fine = (1..=40).contains(&text.len())
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
        if !fine {
            self.error(
                &word.span,
                format!(
                    "'{text}' is not a name: 1 to 40 letters, digits, '-' or '_', \
                     the first a letter or digit"
                ),
            );
        }
        fine
    }

    /// Reads an IP address and a port.
    pub fn socket_address(&self, key: &str) -> Option<SocketAddr> {
        let word = self.word(key)?;
        let address = word.text.parse();
        if address.is_err() {
            let message = format!(
                "'{key}': '{}' is not an address and a port such as \"127.0.0.1:9478\"",
                word.text
            );
            self.error(&word.span, message);
        }
        address.ok()
    }

    /// Reads `true` or `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        let value = self.value(key)?;
        match value.kind {
            Kind::Bool(flag) => Some(flag),
            _ => {
                self.mismatch(key, value, "true or false");
                None
            }
        }
    }

    /// Reads a whole number between two limits, which are included.
    pub fn whole(&self, key: &str, min: u32, max: u32) -> Option<u32> {
        let value = self.value(key)?;
        let Kind::Integer(number) = value.kind else {
            self.mismatch(key, value, "a whole number");
            return None;
        };
        match u32::try_from(number) {
            Ok(number) if (min..=max).contains(&number) => Some(number),
            _ => {
                self.error(
                    &value.span,
                    format!("'{key}' must be between {min} and {max}, not {number}"),
                );
                None
            }
        }
    }

    /// Reads a finite number, which may have a fraction.
    pub fn number(&self, key: &str) -> Option<f64> {
        let value = self.value(key)?;
        match value.kind {
            Kind::Integer(number) => Some(number as f64),
            Kind::Float(number) if number.is_finite() => Some(number),
            _ => {
                self.mismatch(key, value, "a finite number");
                None
            }
        }
    }

    /// Reads a finite number from `least` to `most`, in this unit.
    pub fn number_within(&self, key: &str, least: f64, most: f64, unit: &str) -> Option<f64> {
        let number = self.number(key)?;
        if (least..=most).contains(&number) {
            return Some(number);
        }
        let what = if number < 0.0 {
            "negative"
        } else {
            "out of range"
        };
        self.error(
            &self.span_of(key),
            format!("'{key}' is {what}: {number}; it must be between {least} and {most} {unit}"),
        );
        None
    }

    /// Reads one of the named choices.
    pub fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Option<T> {
        let word = self.word(key)?;
        let found = choices.iter().find(|(name, _)| *name == word.text);
        if found.is_none() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            self.error(
                &word.span,
                format!(
                    "unknown {key} '{}'{}",
                    word.text,
                    suggest(&word.text, &names)
                ),
            );
        }
        found.map(|(_, choice)| *choice)
    }

    /// Reads a list. A single value stands for a list of one.
    pub fn list(&self, key: &str) -> Option<Vec<&'a Value>> {
        let value = self.value(key)?;
        match &value.kind {
            Kind::Array(items) if items.is_empty() => {
                self.error(&value.span, format!("'{key}' is empty; leave it out"));
                None
            }
            Kind::Array(items) => Some(items.iter().collect()),
            _ => Some(vec![value]),
        }
    }

    /// Reads a list of distinct texts.
    pub fn words(&self, key: &str) -> Option<Vec<Word>> {
        let mut words: Vec<Word> = Vec::new();
        for item in self.list(key)? {
            let Kind::Text(text) = &item.kind else {
                self.mismatch(key, item, "a list of texts in quotes");
                return None;
            };
            if words.iter().any(|word| word.text == *text) {
                self.error(&item.span, format!("'{text}' is given twice"));
            }
            words.push(Word {
                text: text.clone(),
                span: item.span.clone(),
            });
        }
        Some(words)
    }

    fn quantity<T>(
        &self,
        key: &str,
        kind: Quantity,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        self.quantity_value(key, self.value(key)?, kind, parse)
    }

    fn quantity_value<T>(
        &self,
        key: &str,
        value: &Value,
        kind: Quantity,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let (what, example) = units::hint(kind);
        let message = match &value.kind {
            Kind::Text(text) => match parse(text) {
                Ok(quantity) => return Some(quantity),
                Err(message) => format!("'{key}': {message}"),
            },
            Kind::Integer(_) | Kind::Float(_) => {
                format!("'{key}' is {what} and needs a unit: write e.g. \"{example}\"")
            }
            _ => format!("'{key}' is {what} like \"{example}\", not {}", value.what()),
        };
        self.error(&value.span, message);
        None
    }

    /// Reads a rate in bits per second.
    pub fn rate(&self, key: &str) -> Option<u64> {
        self.quantity(key, Quantity::Rate, units::rate)
    }

    /// Reads a rate that may also be written as tc(8) does.
    pub fn rate_as_for_tc(&self, key: &str) -> Option<u64> {
        self.quantity(key, Quantity::Rate, uplink::rate)
    }

    /// Reads a time between two limits, which are included.
    pub fn time(&self, key: &str, min: Duration, max: Duration) -> Option<Duration> {
        let time = self.quantity(key, Quantity::Time, units::time)?;
        if time < min || time > max {
            let message = if time.is_zero() {
                format!("'{key}' must be more than zero")
            } else {
                format!("'{key}' must be between {min:?} and {max:?}, not {time:?}")
            };
            self.error(&self.span_of(key), message);
            return None;
        }
        Some(time)
    }

    /// Reads a size in bytes.
    pub fn size(&self, key: &str) -> Option<u64> {
        self.quantity(key, Quantity::Size, units::size)
    }

    /// Reads a size in bytes between two limits, which are included.
    pub fn size_within(&self, key: &str, min: u32, max: u32) -> Option<u32> {
        let size = self.size(key)?;
        let fit = u32::try_from(size).ok().filter(|n| (min..=max).contains(n));
        if fit.is_none() {
            self.error(
                &self.span_of(key),
                format!("'{key}' must be between {min} B and {max} B, not {size} B"),
            );
        }
        fit
    }

    /// Reads a list of distinct sizes in bytes.
    pub fn sizes(&self, key: &str) -> Option<Vec<u64>> {
        let mut sizes = Vec::new();
        for item in self.list(key)? {
            let size = self.quantity_value(key, item, Quantity::Size, units::size)?;
            if sizes.contains(&size) {
                self.error(&item.span, format!("{size} bytes are given twice"));
            }
            sizes.push(size);
        }
        Some(sizes)
    }

    /// Reads a probability, which is below 1 and written as `"1 %"`.
    pub fn probability(&self, key: &str) -> Option<f64> {
        self.quantity(key, Quantity::Share, units::probability)
    }

    /// Reads a share of any size, written as `"80 %"`.
    pub fn share(&self, key: &str) -> Option<f64> {
        self.quantity(key, Quantity::Share, units::share)
    }

    /// Reads the limit of a queue in packets or bytes.
    pub fn queue(&self, key: &str) -> Option<QueueLimit> {
        self.quantity(key, Quantity::Queue, units::queue)
    }

    /// Reads a table, and returns it with its position.
    pub fn table(&self, key: &str) -> Option<(&'a Table, &'a Span)> {
        let value = self.value(key)?;
        match &value.kind {
            Kind::Table(table) => Some((table, &value.span)),
            _ => {
                self.mismatch(key, value, "a table");
                None
            }
        }
    }

    /// Reads `[[key]]` tables, and returns them with their positions.
    pub fn tables(&self, key: &str) -> Vec<(&'a Table, &'a Span)> {
        let Some(value) = self.value(key) else {
            return Vec::new();
        };
        let Kind::Array(items) = &value.kind else {
            let message = format!("'{key}' is a list of tables: write [[{key}]], not [{key}]");
            // A table's span may be its header; the key always has a position.
            let span = self.entry(key).map_or(&value.span, |entry| &entry.key_span);
            self.error(span, message);
            return Vec::new();
        };
        let mut tables = Vec::new();
        for item in items {
            match &item.kind {
                Kind::Table(table) => tables.push((table, &item.span)),
                _ => self.mismatch(key, item, "a list of tables"),
            }
        }
        tables
    }
}
