//! What can go wrong with a directory of results.

use std::io;
use std::path::PathBuf;

use parquet::errors::ParquetError;

/// What can go wrong with a directory of results.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file or directory cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file is not a result.
    #[error("{}: {why}; remove it, and run its run again", path.display())]
    Broken {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// There is no result at all.
    #[error("{}: no results here; `ackwise-lab run FILE --into DIR` writes them", path.display())]
    Empty {
        /// Which directory.
        path: PathBuf,
    },
    /// There are results of several scenarios, engines or versions.
    #[error(
        "{}: results of {} sets, and one report is of one; choose it by `--set`:\n{}",
        path.display(),
        sets.len(),
        sets.join("\n")
    )]
    Several {
        /// Which directory.
        path: PathBuf,
        /// A line for each.
        sets: Vec<String>,
    },
    /// No result belongs to the set that was asked for.
    #[error("{}: no results of the set '{asked}'; there are:\n{}", path.display(), sets.join("\n"))]
    NoSuchSet {
        /// Which directory.
        path: PathBuf,
        /// What was asked for.
        asked: String,
        /// A line for each.
        sets: Vec<String>,
    },
    /// The table cannot be written.
    #[error("writing a Parquet table: {0}")]
    Table(#[from] ParquetError),
    /// A record cannot be written as JSON.
    #[error("writing a record: {0}")]
    Json(#[from] serde_json::Error),
}
