//! The file of `--html`. It is opened before privileges are dropped, and written when the
//! experiment is over.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ackwise_cli::error::BadInput;

/// A file that stays unchanged until the page is written. A file that was created for the page is
/// removed if no page is written.
#[derive(Debug)]
pub struct PageFile {
    file: File,
    /// The path of the file, while it is newly created and empty.
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
        self.file.write_all(page.as_bytes())
    }
}

impl Drop for PageFile {
    fn drop(&mut self) {
        if let Some(path) = self.made.take()
            && let Err(error) = std::fs::remove_file(&path)
        {
            // Privileges are dropped by now, perhaps including the right to remove the file.
            tracing::warn!("{} stays, and is empty: {error}", path.display());
        }
    }
}
