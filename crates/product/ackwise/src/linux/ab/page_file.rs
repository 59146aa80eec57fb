//! The file of `--html`. It is opened before privileges are dropped, and written when the
//! experiment is over.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use ackwise_cli::error::BadInput;

/// What a new file says until the experiment is over, also if the program is killed.
const UNFINISHED: &str = "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n\
    <p>This experiment has not ended. If ackwise was killed, run it again.</p>\n";

/// A file that stays unchanged until the page is written. A file that was created for the page is
/// removed if no page is written.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    /// The path of the file, while it is new and has no results.
    made: Option<PathBuf>,
}

impl PageFile {
    /// Opens the file for writing.
    pub fn open(path: &Path) -> Result<Self, BadInput> {
        let open = |new: bool| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).create_new(new).open(path)
        };
        let opened = match open(true) {
            Ok(file) => Ok((file, Some(path.to_owned()))),
            // Do not truncate yet: it may be the report of another experiment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                open(false).map(|file| (file, None))
            }
            Err(error) => Err(error),
        };
        let opened = opened.and_then(|(mut file, made)| {
            if made.is_some() {
                file.write_all(UNFINISHED.as_bytes()).inspect_err(|_| {
                    // It would stay without a page.
                    let _ = std::fs::remove_file(path);
                })?;
            }
            Ok((file, made))
        });
        let (file, made) = opened.map_err(|error| {
            BadInput::new(format!(
                "--html {}: cannot be written: {error}",
                path.display()
            ))
            .hint("name a file in a directory that is there and may be written to")
        })?;
        Ok(Self { file, made })
    }

    /// Replaces the contents of the file by the page.
    pub fn write(mut self, page: &str) -> io::Result<()> {
        self.made = None;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(page.as_bytes())
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        if let Some(path) = self.made.take()
            && let Err(error) = std::fs::remove_file(&path)
        {
            // Privileges are dropped by now, perhaps including the right to remove the file.
            tracing::warn!("{} stays, without results: {error}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_page_says_that_its_experiment_has_not_ended() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ab.html");
        let read = || fs::read_to_string(&path).unwrap();
        let page = PageFile::open(&path).unwrap();
        // Nothing is called when the program is killed now.
        assert!(read().contains("has not ended"), "{}", read());
        page.write("results").unwrap();
        assert_eq!(read(), "results");
        // An earlier page stays until there is another one.
        drop(PageFile::open(&path).unwrap());
        assert_eq!(read(), "results");
        PageFile::open(&path).unwrap().write("more").unwrap();
        assert_eq!(read(), "more");
        fs::remove_file(&path).unwrap();
        drop(PageFile::open(&path).unwrap());
        assert!(!path.exists());
    }
}
