//! Checks files without using them.

use std::path::{Path, PathBuf};

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use serde_json::json;

/// Prints what each file describes, or all that is wrong with it.
pub fn files<T, E: std::error::Error + Send + Sync + 'static>(
    files: &[PathBuf],
    format: Format,
    load: impl Fn(&Path) -> Result<T, E>,
    describe: impl Fn(&T) -> String,
) -> anyhow::Result<()> {
    let mut mistakes = Vec::new();
    let mut found = Vec::new();
    for file in files {
        match load(file) {
            Ok(good) => {
                let (file, says) = (file.display().to_string(), describe(&good));
                if format == Format::Text {
                    text::print(&format!("{file}: {says}\n"))?;
                }
                found.push(json!({ "file": file, "says": says }));
            }
            Err(error) => mistakes.push(error),
        }
    }
    if format == Format::Json {
        let list: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        text::print_json(&json!({ "files": files.len(), "found": found, "mistakes": list }))?;
    }
    match mistakes.len() {
        0 => Ok(()),
        1 => Err(mistakes.remove(0).into()),
        _ => {
            let all: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
            Err(BadInput::new(all.join("\n\n")).into())
        }
    }
}
