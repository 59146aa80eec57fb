//! Errors of booting and running a machine.

use std::io;

/// Why a machine could not be booted, or did not finish.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no kernel to boot.
    #[error("{what}\n  {hint}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to get it.
        hint: String,
    },
    /// The kernel that was named does not exist: bad input.
    #[error("{what}\n  {hint}")]
    NoSuchKernel {
        /// How it was named, and what is missing.
        what: String,
        /// How to get it, or what else to name.
        hint: String,
    },
    /// The host's operating system refused something.
    #[error("{what}: {source}")]
    Os {
        /// The operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The machine failed.
    #[error("the virtual machine {what}; the end of its console:\n  {console}")]
    Failed {
        /// What happened to it.
        what: String,
        /// The last lines of its console.
        console: String,
    },
}

impl Error {
    /// Wraps a system error with the operation.
    pub(crate) fn os(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Os { what, source }
    }
}
