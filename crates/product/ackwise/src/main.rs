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

use cli::{Cli, Command};
#[cfg(not(target_os = "linux"))]
use elsewhere as live;
#[cfg(target_os = "linux")]
use linux as live;

fn main() -> ExitCode {
    // clap ends the process with 2 on bad arguments and with 0 after --help: our own exit codes.
    let matches = lab::command().get_matches();
    if let Some((name, _)) = matches.subcommand()
        && lab::has(name)
    {
        return ackwise_cli::finish("ackwise", lab::exec(name), |_| false);
    }
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    ackwise_cli::start_log(cli.global.verbose);
    ackwise_cli::finish("ackwise", dispatch(&cli), |_| false)
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
