//! Mistakes in configuration files: what is wrong, where, and how to fix it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Byte range in the text of a file.
pub type Span = std::ops::Range<usize>;

/// The maximum number of mistakes reported for a file, from its start.
const MAX_MISTAKES: usize = 100;
/// The maximum length of a message in characters; a message may repeat text from the file.
const MAX_MESSAGE: usize = 400;
/// The maximum number of characters shown of a line, and of those before the mistake.
const EXCERPT: usize = 160;
const EXCERPT_BEFORE: usize = 100;

/// Why a configuration could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{}: cannot read this file: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
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
    /// Returns the mistakes in the file; empty for other errors.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        match self {
            ConfigError::Invalid(diagnostics) => &diagnostics.list,
            _ => &[],
        }
    }
}

/// All mistakes in one file, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    /// The file.
    pub path: PathBuf,
    /// The mistakes, at least one. If there are too many, these are the first.
    pub list: Vec<Diagnostic>,
    /// The number of mistakes that are not in the list.
    pub more: usize,
}

/// A mistake in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong and how to fix it.
    pub message: String,
    /// The text of the line, or the part of a long line that contains the mistake.
    pub source_line: String,
    /// The number of characters of the line before `source_line`.
    pub skipped: usize,
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
        match self.more {
            0 => Ok(()),
            1 => write!(f, "\n\n{}: and 1 more mistake", self.path.display()),
            more => write!(f, "\n\n{}: and {more} more mistakes", self.path.display()),
        }
    }
}

impl Diagnostic {
    fn render(&self, path: &Path, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        // The caret line repeats tabs, so that it lines up whatever their width.
        let lead: String = self
            .source_line
            .chars()
            .take(self.column - 1 - self.skipped)
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

/// The place of a mistake: its bytes, and its number among those at one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    start: usize,
    end: usize,
    nth: usize,
}

/// Collects the mistakes of a file while it is read.
#[derive(Debug, Default)]
pub struct Collector {
    /// The mistakes by position; those at one position are in the order in which they were found.
    found: BTreeMap<Place, String>,
    /// The number of further mistakes, which are not kept.
    more: usize,
}

impl Collector {
    /// Adds a mistake. The same message at the same position is kept once.
    pub fn error(&mut self, span: &Span, message: impl Into<String>) {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(MAX_MESSAGE) {
            message.truncate(end);
            message.push('…');
        }
        let place = |nth| Place {
            start: span.start,
            end: span.end,
            nth,
        };
        let mut here = self.found.range(place(0)..=place(usize::MAX));
        if here.any(|(_, other)| *other == message) {
            return;
        }
        let nth = self.found.len() + self.more;
        self.found.insert(place(nth), message);
        if self.found.len() > MAX_MISTAKES {
            self.found.pop_last();
            self.more += 1;
        }
    }

    /// Counts further mistakes, which are not shown.
    pub fn leave_out(&mut self, mistakes: usize) {
        self.more += mistakes;
    }

    /// Returns whether there is no mistake.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns the mistakes in the order of their positions, for a caller that extends their
    /// messages.
    pub fn into_found(self) -> Vec<(Span, String)> {
        let found = self.found.into_iter();
        found
            .map(|(place, message)| (place.start..place.end, message))
            .collect()
    }

    /// Returns all mistakes with the lines of the text that their positions refer to.
    pub fn finish(self, path: &Path, text: &str) -> Diagnostics {
        let found = self.found.into_iter();
        Diagnostics {
            path: path.to_owned(),
            list: found
                .map(|(place, message)| diagnostic(text, &place, message))
                .collect(),
            more: self.more,
        }
    }
}

fn diagnostic(text: &str, place: &Place, message: String) -> Diagnostic {
    let (line, column) = line_and_column(text, place.start);
    let whole = text.split('\n').nth(line - 1).unwrap_or("");
    let whole = whole.trim_end_matches('\r');
    let length = whole.chars().count();
    let skipped = match length > EXCERPT {
        true => (column - 1).saturating_sub(EXCERPT_BEFORE).min(length),
        false => 0,
    };
    let source_line: String = whole.chars().skip(skipped).take(EXCERPT).collect();
    let start = floor_char(text, place.start);
    let marked = &text[start..floor_char(text, place.end).max(start)];
    let rest = (source_line.chars().count() + skipped).saturating_sub(column - 1);
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
        skipped,
        width,
    }
}

/// Returns the end of a message about an unknown word: "; did you mean 'x'?" if a known word is
/// similar, otherwise the list of known words.
pub fn suggest(written: &str, known: &[&str]) -> String {
    match closest(written, known) {
        Some(best) => format!("; did you mean '{best}'?"),
        None if known.is_empty() => String::new(),
        None => format!("; known: {}", known.join(", ")),
    }
}

/// The known word for which the written one is probably a typo.
#[must_use]
pub fn closest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let length = lower.chars().count();
    known
        .iter()
        // A word of another length is at least that many edits away.
        .filter(|candidate| {
            let own = candidate.chars().count();
            length.abs_diff(own) <= 1 + own / 4
        })
        .map(|candidate| {
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            (distance, *candidate)
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.chars().count() / 4)
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Table;

    #[test]
    fn a_file_that_is_not_toml_is_told_in_few_words() {
        for (lines, end) in [
            (10, "not TOML: key with no value, expected `=`"),
            (11, "a.md: and 1 more mistake"),
            (300, "a.md: and 290 more mistakes"),
        ] {
            let text = "Some words.\n".repeat(lines);
            let mut errors = Collector::default();
            assert!(Table::parse(&text, &mut errors).is_none());
            let all = errors.finish(Path::new("a.md"), &text);
            assert_eq!(all.list.len(), 10);
            let shown = all.to_string();
            assert!(shown.starts_with("a.md:1:"), "{shown}");
            assert!(shown.contains(end), "{lines}: {shown}");
        }
    }

    /// A line of 60 kB with a mistake in each of its words was repeated for each of them.
    #[test]
    fn many_mistakes_in_a_long_line_are_told_in_few_words() {
        let text = format!("a = [{}]", "1, ".repeat(20_000));
        let mut errors = Collector::default();
        for n in 0..20_000 {
            errors.error(
                &(5 + 3 * n..6 + 3 * n),
                format!("no word: {}", "x".repeat(n)),
            );
        }
        let all = errors.finish(Path::new("a.toml"), &text);
        assert_eq!((all.list.len(), all.more), (100, 19_900));
        assert_eq!(all.list[99].column, 303);
        let shown = all.to_string();
        assert!(shown.len() < 80_000, "{} bytes", shown.len());
        assert!(
            shown.ends_with("a.toml: and 19900 more mistakes"),
            "{shown}"
        );
        // The caret is below the mistake.
        let lines: Vec<&str> = shown.lines().rev().skip(2).take(2).collect();
        let at = lines[0].find('^').expect("a caret");
        assert_eq!(lines[1].as_bytes()[at], b'1', "{shown}");
    }
}
