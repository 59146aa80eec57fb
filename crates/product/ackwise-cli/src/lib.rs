//! What the commands `ackwise` and `ackwise-lab` share: the options of every subcommand, errors and
//! their exit codes, text on a terminal, and manual pages.

pub mod error;
mod journal;
#[cfg(target_os = "linux")]
mod live_error;
pub mod man;
pub mod outputs;
pub mod policy;
pub mod text;
pub mod time;
pub mod unread;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The options that every subcommand takes.
#[derive(Debug, Clone, Copy, Args)]
pub struct GlobalArgs {
    /// Format of results: text for people, JSON for programs
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,

    /// Log more to standard error; twice for debug messages (RUST_LOG takes precedence)
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
/// everything. The environment variable `RUST_LOG` takes precedence: a level, or levels of crates
/// and modules, `info,ackwise_tunneld=debug`. An invalid value is ignored.
pub fn start_log(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let wanted = std::env::var("RUST_LOG").ok();
    let filter = wanted.and_then(|wanted| targets(&wanted));
    let filter = filter.unwrap_or_else(|| Targets::new().with_default(level));
    let log = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time();
    let log = if journal::is_stderr() {
        let plain = tracing_subscriber::fmt::format()
            .with_target(false)
            .with_level(false)
            .without_time();
        let log = log.with_ansi(false);
        log.event_format(journal::Prefixed(plain)).boxed()
    } else {
        log.boxed()
    };
    tracing_subscriber::registry().with(log).with(filter).init();
}

/// Parses `RUST_LOG`; `None` if it is empty or invalid.
fn targets(wanted: &str) -> Option<Targets> {
    let directives = wanted.split(',').map(str::trim);
    let directives: Vec<_> = directives.filter(|one| !one.is_empty()).collect();
    match directives.is_empty() {
        true => None,
        false => directives.join(",").parse().ok(),
    }
}

/// Prints the error of a command, if there is one, and returns the exit code. `is_bad_input`
/// recognises the errors of the program's own libraries.
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

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn rust_log_has_levels_and_targets() {
        let one = targets("info").unwrap();
        assert!(one.would_enable("ackwise", &Level::INFO));
        assert!(!one.would_enable("ackwise", &Level::DEBUG));
        let two = targets(" warn, ackwise_tunneld=debug,").unwrap();
        assert!(two.would_enable("ackwise_tunneld::worker", &Level::DEBUG));
        assert!(two.would_enable("ackwise", &Level::WARN));
        assert!(!two.would_enable("ackwise", &Level::INFO));
        assert!(targets("off").is_some_and(|off| !off.would_enable("ackwise", &Level::ERROR)));
        for nothing in ["", ",", "ackwise=loud"] {
            assert!(targets(nothing).is_none(), "{nothing}");
        }
    }
}
