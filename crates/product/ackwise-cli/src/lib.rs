//! What the commands `ackwise` and `ackwise-lab` share: the options that every subcommand takes,
//! errors with the exit codes that they end with, text on a terminal, and manual pages.

pub mod error;
mod journal;
pub mod man;
pub mod policy;
pub mod text;
pub mod time;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// The options that every subcommand takes.
#[derive(Debug, Clone, Copy, Args)]
pub struct GlobalArgs {
    /// How results are printed: for a person, or for a program
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,

    /// Say more on standard error; twice for everything (RUST_LOG overrides)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
}

/// For whom results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Lines and tables
    #[default]
    Text,
    /// One JSON document on standard output
    Json,
}

/// Sends the log to standard error: warnings, with one `--verbose` also information, with two
/// everything. The environment variable `RUST_LOG` takes precedence.
pub fn start_log(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time();
    if journal::is_stderr() {
        let plain = tracing_subscriber::fmt::format()
            .with_target(false)
            .with_level(false)
            .without_time();
        log.with_ansi(false)
            .event_format(journal::Prefixed(plain))
            .init();
    } else {
        log.init();
    }
}

/// Prints the error of a command, if it has one, and returns the exit code that belongs to it.
/// `is_bad_input` recognises the errors of the program's own libraries.
pub fn finish(
    program: &str,
    result: anyhow::Result<()>,
    is_bad_input: fn(&(dyn std::error::Error + 'static)) -> bool,
) -> ExitCode {
    match result {
        Ok(()) => ExitCode::from(error::EXIT_OK),
        Err(e) => {
            error::print(program, &e);
            ExitCode::from(error::exit_code(&e, is_bad_input))
        }
    }
}
