//! The arguments of `ackwise up`, `ackwise down` and `ackwise check`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ackwise_cli::time::duration;
use ackwise_config::interfaces::UplinkQueue;
use ackwise_config::uplink::UplinkRate;
use clap::{Args, ValueEnum};

use super::ab::GuardArgs;
use super::{AttachMode, max_flows};

/// The file that `ackwise up` reads if no other file is named.
pub const CONFIG: &str = "/etc/ackwise/ackwise.toml";

/// Examples, shown after the help.
pub const HELP: &str = "\
Examples:
  ackwise up eth0 --explain      the facts and the decision, without touching anything
  ackwise up eth0                on the host that receives: thins ACKs
  ackwise up wan0 --up 4.75mbit  on the box with the uplink: cake at this rate, and thinned ACKs
  ackwise up wwan0 --up 1mbit..40mbit  for a rate that varies: it is measured, between these
  ackwise up --all               every interface of /etc/ackwise/ackwise.toml

When the command ends, even by kill -9, a second process restores the queue that was there before;
if both are killed, `ackwise down` does.";

/// `ackwise up`.
#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    /// The interface through which ACKs leave
    pub interface: Option<String>,

    /// Set up every interface of the configuration file, each in a process of its own
    #[arg(long, conflicts_with_all = [
        "interface", "rate", "overhead", "router", "queue", "policy", "guard", "guard_block", "no_guard",
        "max_flows", "metrics", "attach_mode", "user",
    ])]
    pub all: bool,

    /// Configuration file; options on the command line take precedence
    /// [default: /etc/ackwise/ackwise.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Shape outgoing packets to this rate, e.g. `5mbit` or `5 Mbit/s`: some 95 % of the uplink's, so
    /// that packets queue here and not in the modem. `1mbit..40mbit` measures the uplink's current
    /// rate, between these two, and shapes to it; `auto` is from 100 kbit/s to 1 Gbit/s
    #[arg(long = "up", value_name = "RATE", value_parser = UplinkRate::parse)]
    pub rate: Option<UplinkRate>,

    /// Bytes that the uplink adds to each IP packet
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=256))]
    pub overhead: Option<u32>,

    /// Treat this interface as the uplink of a router, whatever the routes say
    #[arg(long)]
    pub router: bool,

    /// The queue that shapes to that rate [default: the kernel's cake, or the gateway's if the kernel
    /// has no cake]
    #[arg(long, value_enum)]
    pub queue: Option<QueueChoice>,

    /// Print the facts and the decision, and change nothing
    #[arg(long)]
    pub explain: bool,

    /// The policy, also with parameters: `every-n:n=4,warm=0`; `ackwise policies` lists them
    /// [default: adaptive]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,

    #[command(flatten)]
    pub guard: GuardArgs,

    /// Do not check every five minutes whether the policy harms, and keep it on even if it does
    #[arg(long, conflicts_with_all = ["guard", "guard_block"])]
    pub no_guard: bool,

    /// Maximum number of flows to track; a new one replaces the least recently seen. Fewer take less
    /// memory [default: 65536]
    #[arg(long, value_name = "N", value_parser = max_flows())]
    pub max_flows: Option<u32>,

    /// Serve Prometheus metrics on this address; port 0 takes any free port
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// How the BPF program is attached: by a tcx link, or by a filter of the clsact qdisc
    #[arg(long, value_enum, default_value_t)]
    pub attach_mode: AttachMode,

    /// Switch to this user once everything is set up [default: ackwise, if that user exists and root
    /// starts the command]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// End after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}

/// A queue that shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueChoice {
    /// The kernel's cake, with the policy before it
    Cake,
    /// The queue of `ackwise gateway`, without a policy
    Gateway,
}

impl From<QueueChoice> for UplinkQueue {
    fn from(choice: QueueChoice) -> Self {
        match choice {
            QueueChoice::Cake => UplinkQueue::Cake,
            QueueChoice::Gateway => UplinkQueue::Gateway,
        }
    }
}

/// `ackwise check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// The files
    #[arg(default_value = CONFIG)]
    pub files: Vec<PathBuf>,
}

/// `ackwise down`.
#[derive(Debug, Args)]
pub struct DownArgs {
    /// The interface [default: all in this network namespace]
    pub interface: Option<String>,
}

/// `ackwise reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// The interface [default: all in this network namespace, and with `ackwise up --all` those that
    /// the file describes now]
    pub interface: Option<String>,
}

/// Examples for `ackwise reload`, and what it does not do.
pub const RELOAD_HELP: &str = "\
Changes to the policy's parameters, to the guard and to a fixed rate of cake take effect in place: \
attachments, flows and withheld ACKs stay. A file with a mistake changes nothing (exit code 2). \
Changes that need a new process are listed and not made (exit code 1); `ackwise up --all` makes them \
by restarting that interface.";
