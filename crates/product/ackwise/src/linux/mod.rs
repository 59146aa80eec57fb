//! The subcommands that work on live packets, on Linux.

mod ab;
mod ask;
mod attach;
mod check;
mod cli;
mod gateway;
mod http;
mod lookup;
mod metrics;
mod options;
mod per_daemon;
mod present;
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

use ackwise_cli::GlobalArgs;

pub use cli::Command;

/// What `--help` says in addition.
pub const NOTE: &str = "";

/// Runs a subcommand.
pub fn run(command: &Command, global: &GlobalArgs) -> anyhow::Result<()> {
    let format = global.format;
    match command {
        Command::Up(args) => up::up(args, global),
        Command::Check(args) => up::check::check(args, format),
        Command::Reload(args) => up::reload::reload(args, format),
        Command::Down(args) => up::down::down(args, format),
        Command::Attach(args) => attach::attach(args, format),
        Command::Ask(args) => ask::ask(args, format),
        Command::Status(args) => status::status(args, format),
        Command::Top(args) => top::top(args, format),
        Command::Ab(args) => ab::ab(args, format),
        Command::Detach(args) => status::detach(args, format),
        Command::Gateway(command) => gateway::gateway(command, format),
        Command::Probe(args) => probe::probe(args, format),
        Command::Tunnel(command) => tunnel::tunnel(command, format),
    }
}
