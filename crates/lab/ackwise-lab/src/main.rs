//! The researcher's command.

mod bar;
mod cli;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(
    target_os = "linux",
    expect(dead_code, reason = "there only its names are tested")
)]
mod elsewhere;
mod engine_name;
mod engines;
mod error;
mod input;
#[cfg(target_os = "linux")]
mod linux;
mod radio;
mod run;
mod shards;
mod trace;
mod traces;
mod tunnel_bench;
mod written;

use std::process::ExitCode;

use ackwise_cli::{man, text};
use clap::{CommandFactory, Parser};

use cli::{Cli, Command, ScenarioCommand};
#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

fn main() -> ExitCode {
    system::begin();
    // clap exits with 2 on bad arguments and with 0 after --help, which match our exit codes.
    let cli = Cli::parse();
    ackwise_cli::start_log(cli.global.verbose);
    ackwise_cli::finish("ackwise-lab", dispatch(&cli), error::is_bad_input)
}

fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    let format = cli.global.format;
    match &cli.command {
        Command::Run(args) => run::run(args, format),
        Command::Report(args) => run::report(args, format),
        Command::System(command) => system::run(command, format),
        Command::Scenario(ScenarioCommand::Check { files }) => run::check(files, format),
        Command::Trace(args) => trace::trace(args, format),
        Command::TunnelBench(args) => tunnel_bench::bench(args, format),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "ackwise-lab", &mut script);
            text::print(&String::from_utf8_lossy(&script))
        }
        Command::Man { directory } => man::write(Cli::command(), "1", directory),
    }
}
