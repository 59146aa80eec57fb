//! The text of a configuration file.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::diagnostic::{Collector, ConfigError, Span, line_and_column};
use crate::tree::Table;

/// The maximum length of a text in bytes: far more than any configuration has. It guards against
/// endless devices.
const MAX_LEN: u64 = 16 << 20;

/// The text of a configuration file and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The path as given, or a placeholder for text that is not in a file.
    pub path: PathBuf,
    /// The text itself.
    pub text: String,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is longer than 16 MiB.
    pub fn read(path: &Path) -> Result<Source, ConfigError> {
        match text_of(path) {
            Ok(text) => Ok(Source {
                path: path.to_owned(),
                text,
            }),
            Err(source) => Err(ConfigError::Read {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Parses the text and passes its tree to `build`.
    ///
    /// # Errors
    /// Every mistake that was noted, with line and column.
    pub fn check<T>(
        &self,
        build: impl FnOnce(&Table, &RefCell<Collector>) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let errors = RefCell::new(Collector::default());
        let tree = Table::parse(&self.text, &mut errors.borrow_mut());
        let built = tree.and_then(|tree| build(&tree, &errors));
        self.finished(built, errors)
    }

    /// Passes the tree of the text, which the caller has kept, to `build`.
    ///
    /// # Errors
    /// Every mistake that was noted, with line and column.
    pub fn check_again<T>(
        &self,
        tree: &Table,
        build: impl FnOnce(&Table, &RefCell<Collector>) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let errors = RefCell::new(Collector::default());
        let built = build(tree, &errors);
        self.finished(built, errors)
    }

    fn finished<T>(&self, built: Option<T>, errors: RefCell<Collector>) -> Result<T, ConfigError> {
        let mut errors = errors.into_inner();
        match built {
            Some(built) if errors.is_empty() => Ok(built),
            _ => {
                if errors.is_empty() {
                    errors.error(&(0..0), "this cannot be parsed");
                }
                Err(ConfigError::Invalid(errors.finish(&self.path, &self.text)))
            }
        }
    }

    /// Returns an error about one place in the text.
    pub fn error_at(&self, span: &Span, message: impl Into<String>) -> ConfigError {
        let mut errors = Collector::default();
        errors.error(span, message);
        ConfigError::Invalid(errors.finish(&self.path, &self.text))
    }

    /// Returns the line and column, both from 1, at which `span` begins.
    pub fn locate(&self, span: &Span) -> (usize, usize) {
        line_and_column(&self.text, span.start)
    }
}

fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?
        .take(MAX_LEN + 1)
        .read_to_string(&mut text)?;
    if read as u64 > MAX_LEN {
        let message = format!("it is longer than {} MiB", MAX_LEN >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        let error = Source::read(Path::new("/dev/zero")).unwrap_err();
        assert!(error.to_string().contains("/dev/zero"), "{error}");
        let ConfigError::Read { source, .. } = error else {
            panic!("{error}")
        };
        assert!(
            source.to_string().contains("longer than 16 MiB"),
            "{source}"
        );
    }
}
