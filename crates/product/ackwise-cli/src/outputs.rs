//! Checks the files that a command is to write before it starts.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::BadInput;

/// Refuses an output that cannot be written, that is also an input, or that is named twice. The
/// contents of the files are not changed.
///
/// # Errors
/// The first file that is refused, and why.
pub fn check<'a>(
    outputs: impl IntoIterator<Item = &'a Path>,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), BadInput> {
    let inputs: Vec<PathBuf> = inputs.into_iter().filter_map(file).collect();
    let mut seen = Vec::new();
    for output in outputs {
        let refuse = |why: &str| {
            Err(BadInput::new(format!("{}: {why}", output.display()))
                .hint("name another file to write to"))
        };
        if let Some(file) = file(output) {
            if inputs.contains(&file) {
                return refuse("it is what is read, and would be overwritten");
            }
            if seen.contains(&file) {
                return refuse("two outputs would be written there");
            }
            seen.push(file);
        }
        writable(output)?;
    }
    Ok(())
}

/// A canonical name for a file, however its path is written; `None` for what stores nothing, such
/// as a terminal.
fn file(path: &Path) -> Option<PathBuf> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() => None,
        Ok(_) => path.canonicalize().ok(),
        Err(_) => {
            let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
            Some(folder.join(path.file_name()?))
        }
    }
}

/// Checks that a file can be written here.
fn writable(path: &Path) -> Result<(), BadInput> {
    let meta = path.metadata();
    let existed = meta.is_ok();
    // Opening a pipe would block until it has a reader.
    if meta.is_ok_and(|meta| !meta.is_file() && !meta.is_dir()) {
        return Ok(());
    }
    let refused =
        |e: io::Error| BadInput::new(format!("{}: cannot be written: {e}", path.display()));
    let mut options = OpenOptions::new();
    options
        .append(true)
        .create(true)
        .open(path)
        .map_err(refused)?;
    if !existed {
        // If removing fails, an empty file stays.
        let _ = fs::remove_file(path);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn an_output_is_no_input_and_no_other_output() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("sub")).expect("a directory");
        fs::write(at("in"), "kept").expect("a file");
        std::os::unix::fs::symlink(at("in"), at("link")).expect("a link");
        let ask = |outputs: &[&str], inputs: &[&str]| {
            let paths = |names: &[&str]| names.iter().map(|name| at(name)).collect::<Vec<_>>();
            let (outputs, inputs) = (paths(outputs), paths(inputs));
            let (outputs, inputs) = (outputs.iter(), inputs.iter());
            let result = check(outputs.map(PathBuf::as_path), inputs.map(PathBuf::as_path));
            result.map_err(|e| e.to_string()).err().unwrap_or_default()
        };
        assert_eq!(ask(&["a", "b"], &["in"]), "");
        assert!(!at("a").exists() && !at("b").exists());
        for same in ["in", "link", "sub/../in"] {
            assert!(
                ask(&["a", same], &["in"]).contains("is what is read"),
                "{same}"
            );
        }
        assert!(ask(&["a", "sub/../a"], &["in"]).contains("two outputs"));
        assert!(ask(&["sub"], &[]).contains("sub: cannot be written: "));
        assert!(ask(&["none/a"], &[]).contains("none/a: cannot be written: "));
        let null = Path::new("/dev/null");
        check([null, null], [null]).expect("it keeps nothing");
        assert_eq!(fs::read_to_string(at("in")).expect("a file"), "kept");
    }
}
