//! Results on disk, so that an interrupted calibration can continue.
//!
//! The first line describes what the results are of; each other line has the experiments of one
//! boot. These are written at once, and count only together, since the later ones depend on the
//! earlier.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::Path;

use serde_json::Value;

use super::Found;

/// A file of results.
pub struct Journal {
    file: File,
    /// The results that it already contained.
    pub before: Vec<Vec<Found>>,
}

impl Journal {
    /// Opens or creates a file. `of` describes what the results are of.
    pub fn open(path: &Path, of: &Value) -> Result<Self, String> {
        let why = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        // A line without an end is from a process that was killed while writing.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines().enumerate();
        let mut read = Vec::new();
        let header = lines.next().map(|(_, line)| line);
        if let Some(header) = header {
            let header: Value = serde_json::from_str(header)
                .map_err(|error| format!("{}:1: {error}", path.display()))?;
            if header != *of {
                return Err(format!(
                    "{} has results of another calibration: {header}, and this is {of}; name \
                     another file by --journal, or remove it",
                    path.display()
                ));
            }
        }
        for (index, line) in lines {
            let boot = serde_json::from_str(line)
                .map_err(|error| format!("{}:{}: {error}", path.display(), index + 1))?;
            read.push(boot);
        }
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(why)?;
        file.set_len(whole as u64).map_err(why)?;
        if header.is_none() {
            writeln!(file, "{of}").map_err(why)?;
        }
        Ok(Self { file, before: read })
    }

    /// Adds the experiments of a boot.
    pub fn add(&mut self, boot: &[Found]) -> Result<(), String> {
        let mut line = serde_json::to_string(boot).expect("plain data");
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .map_err(|error| format!("cannot write the journal: {error}"))
    }
}
