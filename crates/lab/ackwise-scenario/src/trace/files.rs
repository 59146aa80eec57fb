//! Trace files that a scenario names.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Trace;
use super::text::parse;
use ackwise_queue::Step;

/// Maximum size of a file.
const MAX_BYTES: u64 = 256 << 20;

/// The traces that a scenario names. Each file is read once, so that all runs of a scenario see
/// the same.
#[derive(Debug, Clone)]
pub struct TraceFiles {
    from: From,
    read: Arc<Mutex<BTreeMap<String, Read>>>,
}

/// The source of the texts.
#[derive(Debug, Clone)]
enum From {
    /// Paths are relative to this directory.
    Directory(PathBuf),
    /// All texts were given.
    Given,
    /// There are no texts, and a constant rate stands for each trace. For callers that do not run
    /// the scenario.
    Nowhere,
}

#[derive(Debug, Clone)]
struct Read {
    text: String,
    trace: Result<Arc<Trace>, String>,
}

/// Two scenarios are equal whether or not their traces have been read.
impl PartialEq for TraceFiles {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl TraceFiles {
    /// The files that a scenario at `path` names, relative to its directory.
    #[must_use]
    pub fn beside(path: &Path) -> Self {
        let directory = path.parent().unwrap_or(Path::new("")).to_owned();
        Self::new(From::Directory(directory))
    }

    /// Texts by the names that the scenario uses.
    #[must_use]
    pub fn given(texts: BTreeMap<String, String>) -> Self {
        Self::new(From::Given).with_texts(texts)
    }

    /// The same, with these texts by the names that the scenario uses, which are not read any more.
    #[must_use]
    pub fn with_texts(self, texts: BTreeMap<String, String>) -> Self {
        for (name, text) in texts {
            // A mistake in it is reported to whoever asks for it.
            let _ = self.keep(&name, text);
        }
        self
    }

    /// Reads no file and replaces every trace by a constant rate, to look at a scenario whose files
    /// are elsewhere.
    #[must_use]
    pub fn nowhere() -> Self {
        Self::new(From::Nowhere)
    }

    fn new(from: From) -> Self {
        Self {
            from,
            read: Arc::default(),
        }
    }

    /// The texts read so far, by name.
    #[must_use]
    pub fn texts(&self) -> BTreeMap<String, String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = read.iter();
        texts
            .map(|(name, read)| (name.clone(), read.text.clone()))
            .collect()
    }

    /// Reads the trace with this name.
    ///
    /// # Errors
    /// The trace cannot be read; the text says what is wrong, where, and how to fix it.
    pub(crate) fn trace(&self, name: &str) -> Result<Arc<Trace>, String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(read) = read.get(name) {
            return read.trace.clone();
        }
        drop(read);
        match &self.from {
            From::Nowhere => Ok(Arc::new(Trace::Steps {
                steps: vec![Step {
                    at_ns: 0,
                    value: 1_000_000,
                }],
                period: None,
            })),
            From::Given => Err(format!("the trace '{name}' was not handed over")),
            From::Directory(directory) => {
                let path = directory.join(name);
                let text = read_file(&path).map_err(|why| {
                    let path = path.display();
                    format!(
                        "cannot read the trace {path}: {why}; a path is relative to the \
                         scenario's directory"
                    )
                })?;
                self.keep(name, text)
            }
        }
    }

    fn keep(&self, name: &str, text: String) -> Result<Arc<Trace>, String> {
        let trace = match parse(&text) {
            Ok(trace) => Ok(Arc::new(trace)),
            Err(mistake) => Err(format!("in the trace '{name}', {mistake}")),
        };
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = read.entry(name.to_owned()).or_insert(Read { text, trace });
        kept.trace.clone()
    }
}

fn read_file(path: &Path) -> Result<String, Box<dyn fmt::Display>> {
    let shown = |error: std::io::Error| -> Box<dyn fmt::Display> { Box::new(error) };
    let about = fs::metadata(path).map_err(shown)?;
    if !about.is_file() {
        return Err(Box::new("it is not a file"));
    }
    if about.len() > MAX_BYTES {
        return Err(Box::new("it is larger than 256 MiB"));
    }
    fs::read_to_string(path).map_err(shown)
}
