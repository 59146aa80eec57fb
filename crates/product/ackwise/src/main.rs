//! The operator's command.

mod analyze;
mod cli;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(
    target_os = "linux",
    expect(dead_code, reason = "there only its names are tested")
)]
mod elsewhere;
mod lab;
#[cfg(target_os = "linux")]
mod linux;
mod page;
mod policies;

use std::process::ExitCode;

use ackwise_cli::{man, text};
use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue};

use cli::{Cli, Command};
#[cfg(not(target_os = "linux"))]
use elsewhere as live;
#[cfg(target_os = "linux")]
use linux as live;

fn main() -> ExitCode {
    // clap exits with 2 on bad arguments and with 0 after --help, as our own exit codes do.
    let matches = lab::command()
        .try_get_matches()
        .unwrap_or_else(|error| with_tip(error).exit());
    if let Some((name, _)) = matches.subcommand()
        && lab::has(name)
    {
        return ackwise_cli::finish("ackwise", lab::exec(name), |_| false);
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    ackwise_cli::start_log(cli.global.verbose);
    ackwise_cli::finish("ackwise", dispatch(&cli), |_| false)
}

/// Adds a tip: an option with an optional value takes it only after `=`, so the next word is a
/// separate argument.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let word = word.clone();
    let given: Vec<_> = std::env::args_os().collect();
    let follows = |option: &&&str| {
        given
            .windows(2)
            .any(|pair| pair == [**option, word.as_str()])
    };
    if let Some(option) = ["--guard", "--acks-first"].iter().find(follows) {
        let tip = format!("write {option}={word}");
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    error
}

fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    let format = cli.global.format;
    match &cli.command {
        Command::Live(command) => live::run(command, &cli.global),
        Command::Analyze(args) => analyze::analyze(args, format),
        Command::Policies(args) => policies::show(args, format),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut lab::command(), "ackwise", &mut script);
            text::print(&String::from_utf8_lossy(&script))
        }
        Command::Man { directory } => man::write(lab::command(), "8", directory),
    }
}
