//! Errors of the lab.

use std::io;

/// The reason why the lab could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A precondition of the live engine is not met.
    #[error("{what}\n  {hint}")]
    Missing {
        /// What is missing.
        what: String,
        /// How to provide it.
        hint: String,
    },
    /// The scenario asks for something that cannot be built.
    #[error("the scenario cannot be built: {0}")]
    Scenario(String),
    /// A place in the scenario file names something that does not exist.
    #[error(transparent)]
    Invalid(#[from] ackwise_scenario::ScenarioError),
    /// The datapath could not be attached.
    #[error("the datapath on {interface} of {node}: {source}")]
    Datapath {
        /// The node.
        node: String,
        /// Its interface.
        interface: String,
        /// The cause.
        source: Box<ackwise_datapath::Error>,
    },
    /// A program that the lab runs failed.
    #[error("`{command}` failed ({status}): {stderr}")]
    Command {
        /// The command line.
        command: String,
        /// Exit status.
        status: String,
        /// Standard error.
        stderr: String,
    },
    /// The operating system refused an operation.
    #[error("{what}: {source}")]
    Os {
        /// The operation.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// An emulated machine did not do its job; the text includes its last output.
    #[error("{0}")]
    Guest(String),
    /// A virtual machine could not be booted, or failed.
    #[error(transparent)]
    Machine(#[from] ackwise_uml::Error),
    /// The reason why a run in a virtual machine failed.
    #[error("{0}")]
    Run(String),
    /// The reason why every run of the scenario in a virtual machine fails.
    #[error("{0}")]
    InGuest(String),
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// A thread of the lab panicked.
    #[error("{0} panicked; this is a bug in ackwise")]
    Panicked(&'static str),
}

impl LabError {
    /// Whether the next run will fail in the same way.
    #[must_use]
    pub fn is_of_scenario(&self) -> bool {
        matches!(
            self,
            Self::Scenario(_)
                | Self::Missing { .. }
                | Self::Invalid(_)
                | Self::InGuest(_)
                | Self::Machine(
                    ackwise_uml::Error::Missing { .. } | ackwise_uml::Error::NoSuchKernel { .. }
                )
        )
    }

    /// Whether the caller named something that does not or cannot exist.
    #[must_use]
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Scenario(_)
                | Self::Invalid(_)
                | Self::Machine(ackwise_uml::Error::NoSuchKernel { .. })
        )
    }

    /// Wraps a system error with the operation that failed.
    pub fn os(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Os { what, source }
    }

    /// Wraps an `errno` of the `nix` crate with the operation that failed.
    pub fn errno(what: impl Into<String>) -> impl FnOnce(nix::Error) -> Self {
        let what = what.into();
        move |errno| Self::Os {
            what,
            source: errno.into(),
        }
    }
}
