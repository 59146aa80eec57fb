//! The researcher's command.

mod archive;
mod cli;
mod conform;
mod engines;
mod error;
mod radio;
mod reproduce;
mod run;
mod shards;
mod trace;
mod tunnel_bench;
mod tunnel_demo;

use std::process::ExitCode;

use ackwise_cli::{man, text};
use clap::{CommandFactory, Parser};

use cli::{Cli, Command, ScenarioCommand};

fn main() -> ExitCode {
    // In a virtual machine this program is the first process: see `run --on virtual`.
    ackwise_engines::virt::run_if_guest();
    // The same holds in an emulated machine: see `reproduce statkus`.
    ackwise_engines::emulated::run_if_guest();
    // And one that tries a device: see `conform`.
    ackwise_conform::run_if_guest();
    // clap ends the process with 2 on bad arguments and with 0 after --help: our own exit codes.
    let cli = Cli::parse();
    ackwise_cli::start_log(cli.global.verbose);
    ackwise_cli::finish("ackwise-lab", dispatch(&cli), error::is_bad_input)
}

fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    let format = cli.global.format;
    match &cli.command {
        Command::Run(args) => run::run(args, format),
        Command::Report(args) => run::report(args, format),
        Command::Reproduce(args) => reproduce::reproduce(args, format),
        Command::Scenario(ScenarioCommand::Check { files }) => run::check(files, format),
        Command::Trace(args) => trace::trace(args),
        Command::Conform(args) => conform::conform(args, format),
        Command::TunnelBench(args) => tunnel_bench::bench(args, format),
        Command::TunnelDemo(args) => tunnel_demo::demo(args, format),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "ackwise-lab", &mut script);
            text::print(&String::from_utf8_lossy(&script))
        }
        Command::Man { directory } => man::write(Cli::command(), "1", directory),
    }
}
