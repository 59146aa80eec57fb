//! The arguments, as clap reads them.

use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use ackwise_netdev::Attach;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

/// Thins the ACKs of live TCP connections, safely, and shows what that did.
#[derive(Debug, Parser)]
#[command(
    name = "ackwise",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Cli {
    /// How results are printed: for a person, or for a program
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,

    /// Say more on standard error; twice for everything (RUST_LOG overrides)
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,

    #[command(subcommand)]
    pub command: Command,
}

/// For whom results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// Lines and tables
    #[default]
    Text,
    /// One JSON document on standard output
    Json,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Thin the ACKs that leave through an interface, until Ctrl-C
    #[command(after_help = ATTACH_HELP)]
    Attach(AttachArgs),
    /// Show what is attached, and what it did so far
    Status(StatusArgs),
    /// End the attachment of an interface
    Detach(DetachArgs),
    /// Own the slow direction of a link: shape, queue, mark, filter ACKs
    #[command(subcommand, after_help = GATEWAY_HELP)]
    Gateway(GatewayCommand),
    /// List the policies, or show one with its parameters
    Policies(PoliciesArgs),
    /// Run a scenario, and compare its arms
    Run(RunArgs),
    /// Show the result of an earlier run again
    Report(ReportArgs),
    /// Run the experiments of papers again: published beside measured
    #[command(after_help = REPRODUCE_HELP)]
    Reproduce(ReproduceArgs),
    /// Look at scenario files without running them
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    /// Carry the ACKs of many flows in few, small, authenticated packets
    #[command(subcommand)]
    Tunnel(crate::tunnel::TunnelCommand),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

const ATTACH_HELP: &str = "\
Examples:
  ackwise attach eth0 --dry-run                 what would go, without touching anything
  ackwise attach eth0                           the default policy, on the host that receives
  ackwise attach wan0 --position router --metrics 127.0.0.1:9478
  ackwise attach wwan0 --policy every-n --set n=4 --match remote-port=443

When the command ends, however it ends, every ACK passes again.";

const GATEWAY_HELP: &str = "\
Examples:
  ackwise gateway up wan0 --rate '1 Mbit/s' --ack-filter rfc3449 --acks-first
  ackwise gateway up ppp0 --rate '100 kbit/s' --header 8 --limit '50 packets' --ecn
  ackwise gateway up --config /etc/ackwise/gateway.toml
  ackwise gateway status --format json

When the command ends, however it ends, packets take the ordinary way again.";

const REPRODUCE_HELP: &str = "\
Examples:
  ackwise reproduce --list                      which papers there are, and what they run on
  ackwise reproduce saldana                     a table of published and measured numbers
  ackwise reproduce marhoon --format json
  ackwise reproduce --html papers/              all that this machine can run, as pages";

/// `ackwise attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// The interface through which the ACKs leave
    pub interface: String,

    /// Which policy; `ackwise policies` lists them; also as one is shown: every-n:n=4,warm=0
    #[arg(long, default_value = "adaptive", value_name = "NAME")]
    pub policy: String,

    /// A parameter of the policy; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Longest time that an ACK may be withheld, in milliseconds [default: 25, and a quarter of
    /// each flow's round trip if that is less]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub hold_ms: Option<Duration>,

    /// With --position sender: write the congestion window of this host's connections into the
    /// window field of their data, for a receiver with `dca` or `tda`. It limits what comes
    /// back, so it is for one-way transfers; off while the other side sends
    #[arg(long)]
    pub tell_window: bool,

    /// Where this interface stands, seen from the flows to thin
    #[arg(long, value_enum, default_value_t)]
    pub position: Position,

    /// Thin only flows that match: `remote=ADDRESS[/LEN]`, `local=ADDRESS[/LEN]`,
    /// `remote-port=PORT[-PORT]`, `local-port=PORT[-PORT]`; repeated: all must hold. Local is this
    /// host, or what lies behind this router
    #[arg(long = "match", value_name = "KEY=VALUE")]
    pub matches: Vec<String>,

    /// Most flows to follow at a time; a new one takes the place of the least recently seen
    #[arg(long, default_value_t = 65_536, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub max_flows: u32,

    /// Withhold nothing; count what would have been withheld
    #[arg(long)]
    pub dry_run: bool,

    /// How the program is attached: by a tcx link, or by a filter of the clsact queue
    #[arg(long, value_enum, default_value_t)]
    pub attach_mode: AttachMode,

    /// Serve Prometheus metrics on this address; port 0 takes any free port
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Detach after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}

/// Where an interface stands, seen from the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Position {
    /// On the host that receives data and sends the ACKs
    #[default]
    Receiver,
    /// Between the two: the ACKs leave here, forwarded
    Router,
    /// On the host that sends data: the ACKs arrive here
    Sender,
}

/// How a program gets to an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum AttachMode {
    /// tcx where the kernel has it, clsact otherwise
    #[default]
    Auto,
    /// tcx links (Linux 6.6)
    Tcx,
    /// A cls_bpf filter on a clsact queue
    Clsact,
}

impl From<AttachMode> for Attach {
    fn from(mode: AttachMode) -> Self {
        match mode {
            AttachMode::Auto => Attach::Auto,
            AttachMode::Tcx => Attach::Tcx,
            AttachMode::Clsact => Attach::Clsact,
        }
    }
}

/// `ackwise gateway`.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Be the gateway of an interface, until Ctrl-C
    Up(GatewayUpArgs),
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
    /// The interface whose outgoing direction is the bottleneck
    pub interface: Option<String>,

    /// Everything from a file (docs/gateway.md) instead of from arguments
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["interface", "rate", "least", "header", "limit", "red", "ecn", "ack_filter", "acks_first", "acc"])]
    pub config: Option<PathBuf>,

    /// What leaves is shaped to this rate, e.g. `1 Mbit/s`: a little less than the link has, so
    /// that packets wait here
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,

    /// The link's rate is measured by the round trips of TCP, and what leaves is shaped to it:
    /// between this and --rate
    #[arg(long, value_name = "RATE")]
    pub least: Option<String>,

    /// Bytes that each IP packet costs on the link beyond itself
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub header: u32,

    /// How much may wait, e.g. `50 packets` or `64 kB`
    #[arg(long, value_name = "LIMIT", default_value = "100 packets")]
    pub limit: String,

    /// Drop early (RED)
    #[arg(long)]
    pub red: bool,

    /// Mark instead of dropping, where a flow understands marks; implies --red
    #[arg(long)]
    pub ecn: bool,

    /// Take out ACKs that newer ones make redundant: rfc3449, rfc3449-sack, cake,
    /// cake-aggressive, ns2-append
    #[arg(long, value_name = "RULE")]
    pub ack_filter: Option<String>,

    /// ACKs leave before data; with a number, so many in a row at most
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true)]
    pub acks_first: Option<Option<u32>>,

    /// Tell data receivers of marked ACKs, where `ackwise attach --policy acc` looks for it
    /// (docs/gateway.md); implies --ecn
    #[arg(long)]
    pub acc: bool,

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

/// `ackwise status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only this interface
    pub interface: Option<String>,

    /// Show this many flows as well, those with most ACKs first
    #[arg(long, value_name = "N", default_value_t = 0, requires = "interface")]
    pub flows: usize,
}

/// `ackwise detach`.
#[derive(Debug, Args)]
pub struct DetachArgs {
    /// The interface
    pub interface: String,
}

/// `ackwise policies`.
#[derive(Debug, Args)]
pub struct PoliciesArgs {
    /// Only this one, with its parameters
    pub name: Option<String>,
}

/// What runs a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Network namespaces on the running kernel, in real time (root)
    Live,
    /// The same on a kernel of its own, in virtual time: exact, and without root
    Virtual,
    /// The simulator
    Sim,
}

/// `ackwise run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario
    #[arg(value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,

    /// What runs it
    #[arg(long = "on", value_enum)]
    pub engine: Engine,

    /// Runs it on this engine too, and judges by the scenario's [[agree]] whether both come to
    /// the same
    #[arg(long, value_name = "ENGINE", value_enum)]
    pub against: Option<Engine>,

    /// Only arms whose name matches this glob; may be repeated
    #[arg(long = "arm", value_name = "GLOB")]
    pub arms: Vec<String>,

    /// Only these of the scenario's congestion controls, globs; repeated or separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub cc: Vec<String>,

    /// Only these of the scenario's seeds; repeated or separated by commas
    #[arg(long = "seed", value_name = "N", value_delimiter = ',')]
    pub seeds: Vec<String>,

    /// How long traffic flows, instead of what the scenario says, e.g. `10s`
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,

    /// How many runs at the same time, in virtual time or on the simulator [default: one for each
    /// core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<NonZeroU16>,

    /// The kernel that runs in virtual time [default: what kernel/build made last]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub kernel: Option<PathBuf>,

    /// Refuse runs that would take more events than this, on the simulator
    #[arg(long, value_name = "N", default_value_t = ackwise_sim::RunOptions::MAX_EVENTS)]
    pub max_events: u64,

    /// Refuse runs that would take more memory than this together, bytes, on the simulator
    #[arg(long, value_name = "BYTES", default_value_t = ackwise_sim::RunOptions::MAX_MEMORY)]
    pub max_memory: u64,

    /// Write the record (JSON) to this file
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub render: RenderArgs,
}

/// Files that a report can be written to.
#[derive(Debug, Args)]
pub struct RenderArgs {
    /// Write a page with plots to this file; it opens without a network
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Write tables for other programs into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv: Option<PathBuf>,
}

/// `ackwise report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// What `run --output` or `run --format json` wrote
    #[arg(value_hint = ValueHint::FilePath)]
    pub result: PathBuf,

    #[command(flatten)]
    pub render: RenderArgs,
}

/// `ackwise reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Which papers [default: all that this machine can run]
    #[arg(value_name = "PAPER")]
    pub papers: Vec<String>,

    /// List the papers instead
    #[arg(long, conflicts_with_all = ["papers", "html", "engine", "quick", "jobs"])]
    pub list: bool,

    /// What runs their scenarios [default: the paper's own]
    #[arg(long = "on", value_enum)]
    pub engine: Option<Engine>,

    /// Vary less: what has a published number is run in full, spreads are over fewer runs
    #[arg(long)]
    pub quick: bool,

    /// How many runs at the same time [default: one for each core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<NonZeroU16>,

    /// Write pages with tables and figures into this directory; they open without a network
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub html: Option<PathBuf>,
}

/// `ackwise scenario`.
#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// Check scenario files and list every mistake with line and column
    Check {
        /// The files
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
}

/// A sender's retransmission timer is 200 ms at least on Linux; no hold may reach it.
const MAX_HOLD_MS: f64 = 200.0;
/// Below this a timer is no use: docs/decisions/0010-hold-bound.md.
const MIN_HOLD_MS: f64 = 1.0;

fn milliseconds(text: &str) -> Result<Duration, String> {
    let ms: f64 = text
        .parse()
        .map_err(|_| "not a number of milliseconds".to_owned())?;
    if !(MIN_HOLD_MS..=MAX_HOLD_MS).contains(&ms) {
        return Err(format!(
            "must lie between {MIN_HOLD_MS} and {MAX_HOLD_MS} milliseconds"
        ));
    }
    Ok(Duration::from_micros((ms * 1000.0).round() as u64))
}

/// A day's run is a service, not a duration.
const MAX_DURATION_S: f64 = 86_400.0;

pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| "write it like `30s`, `500ms` or `5m`".to_owned())?;
    let seconds = number
        * match unit {
            "ms" => 0.001,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(format!("unknown unit `{unit}`: use ms, s, m or h")),
        };
    if !(seconds > 0.0 && seconds <= MAX_DURATION_S) {
        return Err("must be more than 0 and at most 24h".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_are_read_and_bounded() {
        assert_eq!(milliseconds("2.5"), Ok(Duration::from_micros(2500)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for bad in ["0", "0.9", "-1", "201", "NaN", "inf", "soon", ""] {
            assert!(milliseconds(bad).is_err(), "{bad}");
        }
        for bad in [
            "0s", "-1s", "25h", "NaN", "1e99", "10 weeks", "s", "", "1ns",
        ] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }
}
