//! The ackwise command.

mod attach;
mod check;
mod cli;
mod engines;
mod error;
mod gateway;
mod http;
mod metrics;
mod notify;
mod options;
mod policies;
mod radio;
mod reproduce;
mod run;
mod status;
mod summary;
mod text;
mod tunnel;
mod tunnel_demo;
mod tunnel_run;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

use cli::{Cli, Command, ScenarioCommand};

fn main() -> ExitCode {
    // In a virtual machine this program is the first one: see `run --on virtual`.
    ackwise_engines::virt::run_if_guest();
    // The same in an emulated one: see `reproduce statkus`.
    ackwise_engines::slow::run_if_guest();
    // clap ends with 2 on bad arguments, and with 0 after --help: our own codes.
    let cli = Cli::parse();
    start_log(cli.verbose);
    match dispatch(&cli) {
        Ok(()) => ExitCode::from(error::EXIT_OK),
        Err(e) => {
            error::print(&e);
            ExitCode::from(error::exit_code(&e))
        }
    }
}

fn dispatch(cli: &Cli) -> anyhow::Result<()> {
    match &cli.command {
        Command::Attach(args) => attach::attach(args, cli.format),
        Command::Status(args) => status::status(args, cli.format),
        Command::Detach(args) => status::detach(args, cli.format),
        Command::Gateway(command) => gateway::gateway(command, cli.format),
        Command::Policies(args) => policies::show(args, cli.format),
        Command::Run(args) => run::run(args, cli.format),
        Command::Report(args) => run::report(args, cli.format),
        Command::Reproduce(args) => reproduce::reproduce(args, cli.format),
        Command::Scenario(ScenarioCommand::Check { files }) => run::check(files, cli.format),
        Command::Tunnel(command) => tunnel::tunnel(command, cli.format),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "ackwise", &mut script);
            text::print(&String::from_utf8_lossy(&script))
        }
    }
}

fn start_log(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
}
