//! Mistakes in configuration files: what is wrong, where, and how to mend it.

use std::fmt;
use std::path::{Path, PathBuf};

/// Byte range in the text of a file.
pub type Span = std::ops::Range<usize>;

/// Why a configuration could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: cannot read this file: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file has mistakes.
    #[error("{0}")]
    Invalid(Diagnostics),
    /// A configuration cannot be written, because it names a path that is not UTF-8.
    #[error("{}: a TOML file can only name paths in UTF-8; rename this file", .0.display())]
    NotUtf8(PathBuf),
    /// A configuration cannot be written as TOML.
    #[error("cannot write the configuration as TOML: {0}")]
    Write(String),
}

impl ConfigError {
    /// Returns the mistakes in the file; none for other errors.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            ConfigError::Invalid(diagnostics) => &diagnostics.list,
            _ => &[],
        }
    }
}

/// All mistakes in one file, in the order of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    /// The file.
    pub path: PathBuf,
    /// The mistakes; there is at least one.
    pub list: Vec<Diagnostic>,
}

/// A mistake in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong and how to mend it.
    pub message: String,
    /// The text of the line.
    pub source_line: String,
    /// The number of characters that are wrong, at least 1.
    pub width: usize,
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            item.render(&self.path, f)?;
        }
        Ok(())
    }
}

impl Diagnostic {
    fn render(&self, path: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        // The caret line repeats tabs, so that it lines up whatever their width.
        let lead: String = self
            .source_line
            .chars()
            .take(self.column - 1)
            .map(|c| if c == '\t' { '\t' } else { ' ' })
            .collect();
        write!(
            f,
            "{}:{}:{}: {}\n {number} | {}\n {:blank$} | {lead}{}",
            path.display(),
            self.line,
            self.column,
            self.message,
            self.source_line,
            "",
            "^".repeat(self.width),
            blank = number.len(),
        )
    }
}

/// Returns line and column of a byte of a text. Both count from 1; columns are characters.
pub(crate) fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = &text[..floor_char(text, byte)];
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    (line, before[start..].chars().count() + 1)
}

fn floor_char(text: &str, byte: usize) -> usize {
    let mut at = byte.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Collects the mistakes of a file while it is read.
#[derive(Debug, Default)]
pub struct Collector {
    found: Vec<(Span, String)>,
}

impl Collector {
    /// Adds a mistake. The same message at the same position is kept once.
    pub fn error(&mut self, span: &Span, message: impl Into<String>) {
        let entry = (span.clone(), message.into());
        if !self.found.contains(&entry) {
            self.found.push(entry);
        }
    }

    /// Returns whether there is no mistake.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns all mistakes with the lines of the text that their positions refer to.
    pub fn finish(mut self, path: &Path, text: &str) -> Diagnostics {
        self.found.sort_by_key(|(span, _)| (span.start, span.end));
        let list = self
            .found
            .into_iter()
            .map(|(span, message)| {
                let (line, column) = line_and_column(text, span.start);
                let source_line = text
                    .split('\n')
                    .nth(line - 1)
                    .unwrap_or("")
                    .trim_end_matches('\r')
                    .to_owned();
                let marked = &text[floor_char(text, span.start)
                    ..floor_char(text, span.end).max(floor_char(text, span.start))];
                let rest = source_line.chars().count().saturating_sub(column - 1);
                let width = marked
                    .split('\n')
                    .next()
                    .unwrap_or("")
                    .chars()
                    .count()
                    .clamp(1, rest.max(1));
                Diagnostic {
                    line,
                    column,
                    message,
                    source_line,
                    width,
                }
            })
            .collect();
        Diagnostics {
            path: path.to_owned(),
            list,
        }
    }
}

/// Returns the end of a message about an unknown word: "; did you mean 'x'?" if a known word
/// is similar, or the list of known words.
pub fn suggest(written: &str, known: &[&str]) -> String {
    match closest(written, known) {
        Some(best) => format!("; did you mean '{best}'?"),
        None if known.is_empty() => String::new(),
        None => format!("; known: {}", known.join(", ")),
    }
}

fn closest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = written.to_lowercase();
    known
        .iter()
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            (distance, *candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}
