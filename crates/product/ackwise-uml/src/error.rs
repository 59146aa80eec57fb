//! Why a machine could not be booted, or did not come to its end.

use std::io;

/// Why a machine could not be booted, or did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no kernel to boot.
    #[error("{what}\n  {mend}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to get it.
        mend: String,
    },
    /// The kernel that somebody named is not there: bad input.
    #[error("{what}\n  {mend}")]
    NoSuchKernel {
        /// How it was named, and what is missing.
        what: String,
        /// How to get it, or what else to name.
        mend: String,
    },
    /// The host's operating system refused something.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The machine failed.
    #[error("the virtual machine {what}; the end of its console:\n  {console}")]
    Failed {
        /// What it did.
        what: String,
        /// The last lines that it printed.
        console: String,
    },
}

impl Error {
    /// Wraps an error of the system with what was tried.
    pub(crate) fn os(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Os { what, source }
    }
}
