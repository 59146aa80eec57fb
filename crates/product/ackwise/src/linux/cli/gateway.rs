//! The arguments of `ackwise gateway`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ackwise_cli::time::duration;
use clap::{Args, Subcommand, ValueHint};

use super::AttachMode;

/// Examples, shown after the help.
pub const HELP: &str = "\
Examples:
  ackwise gateway up wan0 --rate '1 Mbit/s'
  ackwise gateway up ppp0 --rate '100 kbit/s' --overhead 8 --limit '50 packets' --ecn
  ackwise gateway up --config /etc/ackwise/gateway.toml
  ackwise gateway status --format json

When the command ends, however it ends, packets take their normal path again.";

/// `ackwise gateway`.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Run the gateway of an interface, until Ctrl-C
    Up(Box<GatewayUpArgs>),
    /// Show the gateways of this network namespace
    Status(GatewayStatusArgs),
    /// Stop the gateway of an interface
    Down(GatewayDownArgs),
    /// Check configuration files without starting anything
    Check {
        /// The files
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
}

/// `ackwise gateway up`.
#[derive(Debug, Args)]
pub struct GatewayUpArgs {
    /// The interface whose outgoing direction is the bottleneck; with --config it must be the one that
    /// the file names
    pub interface: Option<String>,

    /// Read everything from this file (docs/gateway.md) instead of from arguments
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["rate", "min_rate", "overhead", "discipline", "limit", "ack_share", "red", "ecn", "ack_filter", "acks_first", "acc"])]
    pub config: Option<PathBuf>,

    /// Shape outgoing packets to this rate, e.g. `1 Mbit/s`: slightly below the link's, so that
    /// packets queue here
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,

    /// Measure the link's rate from the round-trip times of TCP, and shape to it, between this rate
    /// and --rate
    #[arg(long, value_name = "RATE")]
    pub min_rate: Option<String>,

    /// Bytes that the link adds to each IP packet
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub overhead: u32,

    /// The queue: `fq_codel`, `red` or `drop-tail` [default: fq_codel; red with --red, --ecn and
    /// --acc, drop-tail with --acks-first]
    #[arg(long, value_name = "NAME")]
    pub discipline: Option<String>,

    /// Limit of the queue, e.g. `50 packets` or `64 kB` [default: 10240 packets in fq_codel, else
    /// 100 packets]
    #[arg(long, value_name = "LIMIT")]
    pub limit: Option<String>,

    /// Share of the rate that ACKs get in fq_codel while data waits [default: 25 %]
    #[arg(long, value_name = "SHARE")]
    pub ack_share: Option<String>,

    /// Drop early (RED)
    #[arg(long)]
    pub red: bool,

    /// Mark packets instead of dropping them, if the flow is ECN-capable; implies --red
    #[arg(long)]
    pub ecn: bool,

    /// Remove queued ACKs that newer ones make redundant, by this rule: rfc3449, rfc3449-sack, cake,
    /// cake-aggressive, ns2-append, none [default: rfc3449-sack in fq_codel, else none]
    #[arg(long, value_name = "RULE")]
    pub ack_filter: Option<String>,

    /// Send ACKs before data, in a drop-tail or RED queue; with N, at most N in a row
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub acks_first: Option<Option<u32>>,

    /// Tell data receivers about marked ACKs, for `ackwise attach --policy acc` there
    /// (docs/gateway.md); implies --ecn
    #[arg(long)]
    pub acc: bool,

    /// Serve Prometheus metrics on this address; port 0 takes any free port
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Switch to this user once everything is set up [default: ackwise, if that user exists and root
    /// starts the command]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// How the BPF program is attached: by a tcx link, or by a filter of the clsact qdisc
    #[arg(long, value_enum, default_value_t)]
    pub attach_mode: AttachMode,

    /// End after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}

/// `ackwise gateway status`.
#[derive(Debug, Args)]
pub struct GatewayStatusArgs {
    /// Only this interface
    pub interface: Option<String>,
}

/// `ackwise gateway down`.
#[derive(Debug, Args)]
pub struct GatewayDownArgs {
    /// The interface
    pub interface: String,
}
