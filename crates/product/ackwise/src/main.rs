//! The operator's command.

mod ab;
mod analyze;
mod attach;
mod check;
mod cli;
mod gateway;
mod http;
mod lab;
mod looks;
mod metrics;
mod options;
mod page;
mod policies;
mod probe;
mod rates;
mod shared_daemon;
mod shared_datapath;
mod status;
mod summary;
mod top;
mod tunnel;
mod tunnel_run;
mod up;
mod watch;

use std::process::ExitCode;

use ackwise_cli::{man, text};
use clap::FromArgMatches;

use cli::{Cli, Command};

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
        Command::Up(args) => up::up(args, &cli.global),
        Command::Check(args) => up::check::check(args, format),
        Command::Reload(args) => up::reload::reload(args, format),
        Command::Down(args) => up::down::down(args, format),
        Command::Attach(args) => attach::attach(args, format),
        Command::Status(args) => status::status(args, format),
        Command::Top(args) => top::top(args, format),
        Command::Ab(args) => ab::ab(args, format),
        Command::Detach(args) => status::detach(args, format),
        Command::Gateway(command) => gateway::gateway(command, format),
        Command::Analyze(args) => analyze::analyze(args, format),
        Command::Probe(args) => probe::probe(args, format),
        Command::Policies(args) => policies::show(args, format),
        Command::Tunnel(command) => tunnel::tunnel(command, format),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut lab::command(), "ackwise", &mut script);
            text::print(&String::from_utf8_lossy(&script))
        }
        Command::Man { directory } => man::write(lab::command(), "8", directory),
    }
}
