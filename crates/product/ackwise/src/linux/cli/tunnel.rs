//! The arguments of `ackwise tunnel`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ackwise_cli::time::duration;
use clap::{Args, Subcommand, ValueHint};

use super::AttachMode;

/// What `ackwise tunnel` does.
#[derive(Debug, Subcommand)]
pub enum TunnelCommand {
    /// Make a key pair: the private key is written to a file, the public key is printed
    Keygen(KeygenArgs),
    /// Print the public key of a private key, as `wg pubkey` does
    Pubkey(PubkeyArgs),
    /// Run one end of a tunnel, until Ctrl-C
    Up(UpArgs),
    /// Show the tunnels of this network namespace
    Status(StatusArgs),
    /// Stop a tunnel
    Down(DownArgs),
    /// Check configuration files without starting anything
    Check {
        /// The files (docs/tunnel.md)
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
}

/// `ackwise tunnel keygen`.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Where the private key is written; the file must not exist
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}

/// `ackwise tunnel pubkey`.
#[derive(Debug, Args)]
pub struct PubkeyArgs {
    /// The file with the private key [default: standard input]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// `ackwise tunnel up`.
#[derive(Debug, Args)]
pub struct UpArgs {
    /// The configuration file (docs/tunnel.md)
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,

    /// Serve Prometheus metrics on this address; port 0 takes any free port
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// End after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,

    /// How the BPF program is attached: by a tcx link, or by a filter of the clsact qdisc
    #[arg(long, value_enum, default_value_t = AttachMode::Auto, value_name = "HOW")]
    pub attach_mode: AttachMode,
}

/// `ackwise tunnel status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only the tunnel with this device
    #[arg(value_name = "DEVICE")]
    pub device: Option<String>,
}

/// `ackwise tunnel down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// The tunnel's device [default: that of the only tunnel, if there is one]
    #[arg(value_name = "DEVICE")]
    pub device: Option<String>,
}
