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

When the command ends, however it ends, packets take the ordinary way again.";

/// `ackwise gateway`.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Be the gateway of an interface, until Ctrl-C
    Up(Box<GatewayUpArgs>),
    /// Show the gateways of this network namespace
    Status(GatewayStatusArgs),
    /// End the gateway of an interface
    Down(GatewayDownArgs),
    /// Look at configuration files without using them
    Check {
        /// The files
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
}

/// `ackwise gateway up`.
#[derive(Debug, Args)]
pub struct GatewayUpArgs {
    /// The interface whose outgoing direction is the bottleneck; with --config the one that the
    /// file has to name
    pub interface: Option<String>,

    /// Everything from a file (docs/gateway.md) instead of from arguments
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["rate", "min_rate", "overhead", "discipline", "limit", "ack_share", "red", "ecn", "ack_filter", "acks_first", "acc"])]
    pub config: Option<PathBuf>,

    /// What leaves is shaped to this rate, e.g. `1 Mbit/s`: a little less than the link has, so
    /// that packets wait here
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,

    /// The link's rate is measured by the round trips of TCP, and what leaves is shaped to it:
    /// between this and --rate
    #[arg(long, value_name = "RATE")]
    pub min_rate: Option<String>,

    /// Bytes that each IP packet costs on the link beyond itself
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub overhead: u32,

    /// The queue: `fq_codel`, `red` or `drop-tail` [default: fq_codel; red with --red, --ecn and
    /// --acc, drop-tail with --acks-first]
    #[arg(long, value_name = "NAME")]
    pub discipline: Option<String>,

    /// How much may wait, e.g. `50 packets` or `64 kB` [default: 10240 packets in fq_codel, else
    /// 100 packets]
    #[arg(long, value_name = "LIMIT")]
    pub limit: Option<String>,

    /// The share of the rate that ACKs get in fq_codel while data wait [default: 25 %]
    #[arg(long, value_name = "SHARE")]
    pub ack_share: Option<String>,

    /// Drop early (RED)
    #[arg(long)]
    pub red: bool,

    /// Mark instead of dropping, where a flow understands marks; implies --red
    #[arg(long)]
    pub ecn: bool,

    /// Take out ACKs that newer ones make redundant: rfc3449, rfc3449-sack, cake,
    /// cake-aggressive, ns2-append, none [default: rfc3449-sack in fq_codel, else none]
    #[arg(long, value_name = "RULE")]
    pub ack_filter: Option<String>,

    /// ACKs leave before data, in a queue that is drop-tail or RED; with a number, so many in a row
    /// at most
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub acks_first: Option<Option<u32>>,

    /// Tell data receivers of marked ACKs, where `ackwise attach --policy acc` looks for it
    /// (docs/gateway.md); implies --ecn
    #[arg(long)]
    pub acc: bool,

    /// Serve Prometheus metrics on this address; port 0 takes any free port
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Become this user once everything is set up [default: the user ackwise, if there is one and
    /// root starts it]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// How the hook is attached: by a tcx link, or by a filter of the clsact queue
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
