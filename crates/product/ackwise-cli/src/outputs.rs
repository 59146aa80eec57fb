//! The files that a command is to write: checks them before it starts, and writes them whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::error::BadInput;
use crate::text;

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
        if output == Path::new("-") {
            return Err(BadInput::new("-: an output needs the name of a file")
                .hint("name /dev/stdout for standard output, or ./- for a file of this name"));
        }
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

/// Writes a file whole or not at all: if the disk is full, what was there before stays. What is no
/// file, such as a terminal or a pipe, is written directly.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, contents: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let contents = contents.as_ref();
    let written = match replaced(path) {
        Some(target) => replace(&target, contents),
        None => fs::write(path, contents),
    };
    written.map_err(|error| {
        let what = format!("{}: cannot be written: {error}", path.display());
        anyhow::Error::new(error).context(format!(
            "{what}\n  make room there, or name another file to write to"
        ))
    })
}

/// Whether [`write()`] would replace a file that is there.
pub fn replaces(path: &Path) -> bool {
    replaced(path).is_some_and(|target| target.is_file())
}

/// The file that a path stands for, through all links; `None` if it has to be written directly.
fn replaced(path: &Path) -> Option<PathBuf> {
    // `/dev/stdout` may stand for a file that others write to as well.
    if ["/dev", "/proc"].iter().any(|at| path.starts_with(at)) {
        return None;
    }
    match path.symlink_metadata() {
        Ok(meta) if meta.is_file() => Some(path.to_owned()),
        Ok(_) => {
            let target = path.canonicalize().ok()?;
            target.is_file().then_some(target)
        }
        Err(_) => Some(path.to_owned()),
    }
}

/// How many names a partial file may have, so that one that a killed process left is no obstacle.
const MAX_PARTIALS: u32 = 100;

/// Writes a file under another name beside the target, and renames it when it is complete.
fn replace(target: &Path, contents: &[u8]) -> io::Result<()> {
    let (partial, mut file) = match new_partial(target) {
        Ok(new) => new,
        // Files may be writable in a directory that is not.
        Err(error) if is_denied(&error) => return fs::write(target, contents),
        Err(error) => return Err(error),
    };
    like(&file, target);
    let written = file.write_all(contents).and_then(|()| file.sync_all());
    drop(file);
    if let Err(error) = written {
        let _ = fs::remove_file(&partial);
        return Err(error);
    }
    if fs::rename(&partial, target).is_ok() {
        return Ok(());
    }
    // A file that is mounted into a container, or one of somebody else in a shared directory,
    // cannot be replaced.
    match fs::write(target, contents) {
        Ok(()) => {
            let _ = fs::remove_file(&partial);
            Ok(())
        }
        // What was there before may be lost, so the new contents must stay.
        Err(error) => Err(io::Error::new(
            error.kind(),
            format!("{error}; the new contents are in {}", partial.display()),
        )),
    }
}

/// Creates a file beside the target. A killed process with the same number, as in a container, may
/// have left one: it stays, since it may be that of a process in another container.
fn new_partial(target: &Path) -> io::Result<(PathBuf, File)> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    // A name has at most 255 bytes.
    let start: String = name.chars().take(40).collect();
    let process = std::process::id();
    let mut number = 0;
    loop {
        let name = format!(".{start}.{process}.{number}.partial");
        let partial = target.with_file_name(name);
        match File::create_new(&partial) {
            Ok(file) => return Ok((partial, file)),
            Err(error)
                if error.kind() == io::ErrorKind::AlreadyExists && number + 1 < MAX_PARTIALS =>
            {
                number += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_denied(error: &io::Error) -> bool {
    let kinds = [
        io::ErrorKind::PermissionDenied,
        io::ErrorKind::ReadOnlyFilesystem,
    ];
    kinds.contains(&error.kind())
}

/// Gives a new file the owner and permissions of the one that it replaces, as far as possible.
fn like(file: &File, target: &Path) {
    let Ok(meta) = target.metadata() else { return };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let _ = std::os::unix::fs::fchown(file, Some(meta.uid()), Some(meta.gid()));
    }
    let _ = file.set_permissions(meta.permissions());
}

/// Writes the results of a command one after the other. If one cannot be written, the others are
/// written nevertheless.
#[derive(Debug, Default)]
pub struct Results {
    failed: Option<anyhow::Error>,
}

impl Results {
    /// Takes the outcome of writing a result.
    pub fn take(&mut self, outcome: anyhow::Result<()>) {
        match (outcome, &self.failed) {
            (Ok(()), _) => {}
            (Err(error), None) => self.failed = Some(error),
            (Err(error), Some(_)) => text::note(&error.to_string()),
        }
    }

    /// Writes a file; returns whether it was written.
    pub fn write(&mut self, path: &Path, contents: impl AsRef<[u8]>) -> bool {
        let outcome = write(path, contents);
        let written = outcome.is_ok();
        self.take(outcome);
        written
    }

    /// Ends the writing.
    ///
    /// # Errors
    /// The first result that could not be written, and why.
    pub fn end(self) -> anyhow::Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
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
        let dash = check([Path::new("-")], []).expect_err("no name");
        assert!(dash.to_string().contains("/dev/stdout"), "{dash}");
        let null = Path::new("/dev/null");
        check([null, null], [null]).expect("it keeps nothing");
        assert_eq!(fs::read_to_string(at("in")).expect("a file"), "kept");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_is_replaced_as_what_it_is() {
        use std::os::unix::fs::PermissionsExt as _;

        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("old"), "old").expect("a file");
        fs::set_permissions(at("old"), fs::Permissions::from_mode(0o640)).expect("permissions");
        std::os::unix::fs::symlink("old", at("link")).expect("a link");
        let other = File::open(at("old")).expect("a file");
        write(&at("link"), "new").expect("written");
        write(&at("more"), "more").expect("written");
        assert!(at("link").is_symlink());
        assert_eq!(fs::read_to_string(at("old")).expect("a file"), "new");
        // Whoever still reads the earlier file reads it to its end.
        assert_eq!(io::read_to_string(other).expect("a file"), "old");
        let mode = at("old").metadata().expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).expect("files").count(), 3);
        write(Path::new("/dev/null"), "gone").expect("no file is made beside it");
    }

    /// In a container the number of the process is the same each time.
    #[test]
    fn a_partial_file_of_a_killed_process_is_no_obstacle() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = dir.path().join("report");
        let left = new_partial(&target).expect("a partial file").0;
        fs::write(&left, "left").expect("written");
        write(&target, "new").expect("written");
        assert_eq!(fs::read_to_string(&target).expect("a file"), "new");
        assert_eq!(fs::read_to_string(&left).expect("a file"), "left");
        assert_eq!(fs::read_dir(dir.path()).expect("files").count(), 2);
    }

    /// A directory can neither be replaced by a file nor be written.
    #[test]
    fn if_the_target_cannot_be_replaced_the_new_contents_stay() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = dir.path().join("report");
        fs::create_dir(&target).expect("a directory");
        let error = replace(&target, b"new").expect_err("it is a directory");
        let text = error.to_string();
        let (_, partial) = text
            .split_once("the new contents are in ")
            .expect("its name");
        assert_eq!(fs::read_to_string(partial).expect("a file"), "new");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_written_keeps_nothing_else() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut results = Results::default();
        results.write(Path::new("/dev/full"), "lost");
        results.write(Path::new("/nowhere/at/all"), "lost too");
        results.write(&dir.path().join("kept"), "kept");
        let error = results.end().expect_err("one is full");
        let text = error.to_string();
        assert!(text.contains("/dev/full: cannot be written"), "{text}");
        assert!(dir.path().join("kept").is_file());
    }
}
