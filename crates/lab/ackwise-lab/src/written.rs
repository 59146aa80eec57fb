//! Writes the results of runs, also if a signal stopped some of them.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ackwise_cli::outputs::{self, Results};
use ackwise_cli::text;
use anyhow::Context as _;

use crate::cli::RenderArgs;

/// How many of the wanted runs there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All that were not stopped.
    Whole,
    /// A signal stopped some.
    Part,
    /// A signal stopped all.
    Nothing,
}

/// The results of a command. A stopped run replaces no earlier result.
#[derive(Debug)]
pub struct Writer {
    extent: Extent,
    results: Results,
    /// The page, if it was written.
    page: Option<PathBuf>,
}

impl Writer {
    /// Writes a report of this many runs; `stopped` says whether a signal arrived.
    pub fn new(done: usize, wanted: usize, stopped: bool) -> Self {
        let extent = match done {
            _ if !stopped || done >= wanted => Extent::Whole,
            0 => Extent::Nothing,
            _ => Extent::Part,
        };
        Self {
            extent,
            results: Results::default(),
            page: None,
        }
    }

    /// Writes a report that is complete.
    pub fn whole() -> Self {
        Self::new(0, 0, false)
    }

    /// Whether no signal stopped any of the runs.
    pub fn is_whole(&self) -> bool {
        self.extent == Extent::Whole
    }

    /// Makes the directory of the tables, if there are to be any. Other files may go there, too, so
    /// this comes first.
    pub fn make_directory(&mut self, render: &RenderArgs) {
        if self.extent == Extent::Nothing {
            return;
        }
        if let Some(directory) = &render.csv {
            let what = || format!("{}: cannot be made", directory.display());
            self.take(fs::create_dir_all(directory).with_context(what));
        }
    }

    /// Takes the outcome of another result, such as the text on standard output.
    pub fn take(&mut self, outcome: anyhow::Result<()>) {
        self.results.take(outcome);
    }

    /// Writes a file; returns its path if it was written. A part of the runs does not replace a
    /// file, but goes beside it.
    pub fn file<C: AsRef<[u8]>>(
        &mut self,
        path: &Path,
        contents: impl FnOnce() -> anyhow::Result<C>,
    ) -> Option<PathBuf> {
        let mut to = path.to_owned();
        match self.extent {
            Extent::Nothing => return None,
            Extent::Part if outputs::replaces(path) => {
                to = free_beside(path);
                text::note(&format!(
                    "{} stays as it was: only some runs have ended, and their results are in {}",
                    path.display(),
                    to.display()
                ));
            }
            Extent::Part | Extent::Whole => {}
        }
        match contents() {
            Ok(contents) => self.results.write(&to, contents).then_some(to),
            Err(error) => {
                self.take(Err(error));
                None
            }
        }
    }

    /// Removes a table that an earlier command wrote and that these results do not have. A file that
    /// does not begin with these columns is of somebody else, and stays.
    pub fn remove(&mut self, path: &Path, columns: &[&str]) {
        if self.extent == Extent::Whole && begins_with(path, columns) {
            let what = || format!("{}: cannot be removed", path.display());
            self.take(fs::remove_file(path).with_context(what));
        }
    }

    /// Writes the page, if there is to be one.
    pub fn page(&mut self, render: &RenderArgs, page: impl FnOnce() -> String) {
        if let Some(path) = &render.html {
            self.page = self.file(path, || Ok(page()));
        }
    }

    /// Says where the page is, so that it can be opened.
    pub fn name_page(&mut self) {
        let Some(path) = &self.page else { return };
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let outcome = text::print(&format!("\nThe page with plots: {}\n", path.display()));
        self.take(outcome);
    }

    /// Ends the writing.
    ///
    /// # Errors
    /// The first result that could not be written, and why.
    pub fn end(self) -> anyhow::Result<()> {
        self.results.end()
    }
}

/// Whether a file is a CSV table whose first columns are these.
fn begins_with(path: &Path, columns: &[&str]) -> bool {
    if !path.is_file() {
        return false;
    }
    let header = columns.join(",");
    // The header, and the character after it.
    let mut start = Vec::new();
    let read = File::open(path)
        .and_then(|file| file.take(header.len() as u64 + 1).read_to_end(&mut start));
    let rest = start.strip_prefix(header.as_bytes());
    read.is_ok() && rest.is_some_and(|rest| matches!(rest, [b',' | b'\n' | b'\r']))
}

/// A name beside a file that no file has, so that the results of another interrupted run stay, too.
fn free_beside(path: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let mut to = path.to_owned();
        to.as_mut_os_string().push(match number {
            1 => ".partial".to_owned(),
            _ => format!(".partial-{number}"),
        });
        if to.symlink_metadata().is_err() {
            return to;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_run_replaces_no_earlier_result() {
        let dir = tempfile::tempdir().expect("a directory");
        let old = dir.path().join("old.json");
        fs::write(&old, "earlier").expect("a file");
        let write = |done: usize, name: &str| {
            let mut writer = Writer::new(done, 3, true);
            let to = writer.file(&dir.path().join(name), || Ok("later"));
            writer.end().expect("written");
            to.map(|it| it.file_name().expect("a name").to_owned())
        };
        let none: [Option<std::ffi::OsString>; 2] = [write(0, "old.json"), write(0, "new.json")];
        assert_eq!(none, [None, None]);
        assert_eq!(write(2, "new.json"), Some("new.json".into()));
        assert_eq!(write(2, "old.json"), Some("old.json.partial".into()));
        assert_eq!(write(1, "old.json"), Some("old.json.partial-2".into()));
        assert_eq!(write(1, "old.json"), Some("old.json.partial-3".into()));
        assert_eq!(fs::read_to_string(&old).expect("a file"), "earlier");
        // The signal came after the last run.
        assert_eq!(write(3, "old.json"), Some("old.json".into()));
        assert_eq!(fs::read_to_string(&old).expect("a file"), "later");
        assert_eq!(fs::read_dir(dir.path()).expect("files").count(), 5);
    }

    #[test]
    fn only_a_table_of_ones_own_is_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.csv");
        for (text, stays) in [
            ("a,b\n1,2\n", false),
            ("a,b,c\n", false),
            ("a,b", true),
            ("a,bc\n", true),
            ("day,value\n", true),
        ] {
            fs::write(&path, text).expect("a file");
            let mut writer = Writer::whole();
            writer.remove(&path, &["a", "b"]);
            writer.end().expect("removed");
            assert_eq!(path.exists(), stays, "{text:?}");
        }
    }
}
