//! The arguments, as clap reads them.

pub mod analyze;

use std::path::PathBuf;

use ackwise_cli::GlobalArgs;
use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::live;

/// Thin the ACKs of live TCP connections safely, and show the effect.
#[derive(Debug, Parser)]
#[command(
    name = "ackwise",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,

    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Live(live::Command),
    /// Report what the ACKs in a capture cost, and what policies would have withheld
    #[command(after_help = analyze::HELP)]
    Analyze(analyze::AnalyzeArgs),
    /// List the policies, or show one with its parameters
    Policies(PoliciesArgs),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Write the manual pages into a directory, for packages
    #[command(hide = true)]
    Man {
        /// The directory, which is created if it does not exist
        directory: PathBuf,
    },
}

/// `ackwise policies`.
#[derive(Debug, Args)]
pub struct PoliciesArgs {
    /// Show only this policy, with its parameters
    pub name: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
