//! The text of a configuration file.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use crate::diagnostic::{Collector, ConfigError, Span, line_and_column};
use crate::tree::Table;

/// The text of a configuration file and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The path as given, or a made-up name for text that is not in a file.
    pub path: PathBuf,
    /// The text itself.
    pub text: String,
}

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> Result<Source, ConfigError> {
        match std::fs::read_to_string(path) {
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

    /// Parses the text and hands its tree to `build`.
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
        let mut errors = errors.into_inner();
        match built {
            Some(built) if errors.is_empty() => Ok(built),
            _ => {
                if errors.is_empty() {
                    errors.error(&(0..0), "nothing can be made of this");
                }
                Err(ConfigError::Invalid(errors.finish(&self.path, &self.text)))
            }
        }
    }

    /// An error about one place in the text.
    pub fn error_at(&self, span: &Span, message: impl Into<String>) -> ConfigError {
        let mut errors = Collector::default();
        errors.error(span, message);
        ConfigError::Invalid(errors.finish(&self.path, &self.text))
    }

    /// Line and column, both from 1, where `span` begins.
    pub fn locate(&self, span: &Span) -> (usize, usize) {
        line_and_column(&self.text, span.start)
    }
}
