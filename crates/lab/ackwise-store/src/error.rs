//! Errors of a directory of results.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// An error of a directory of results.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file is not a result.
    #[error("{}: {why}; remove this file and repeat its run", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There are no results.
    #[error("{}: no results here; `ackwise-lab run FILE --into DIR` writes them", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
    /// There are results of several scenarios, engines or versions.
    #[error(
        "{}: results of {} sets, and a report is of one; choose it with `--set`:\n{}",
        path.display(),
        sets.len(),
        sets.join("\n")
    )]
    Several {
        /// The directory.
        path: PathBuf,
        /// One line per set.
        sets: Vec<String>,
    },
    /// No result belongs to the requested set.
    #[error("{}: no results of the set '{asked}'; the sets here are:\n{}", path.display(), sets.join("\n"))]
    NoSuchSet {
        /// The directory.
        path: PathBuf,
        /// The requested set.
        asked: String,
        /// One line per set.
        sets: Vec<String>,
    },
    /// The table cannot be written.
    #[error("writing a Parquet table: {0}")]
    Table(#[from] ParquetError),
    /// A record cannot be written as JSON.
    #[error("writing a record: {0}")]
    Json(#[from] serde_json::Error),
}
