//! The arguments of `ackwise up`, `ackwise down` and `ackwise check`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ackwise_cli::time::duration;
use ackwise_config::interfaces::UplinkQueue;
use ackwise_config::uplink::UplinkRate;
use clap::{Args, ValueEnum};

use super::AttachMode;
use super::ab::GuardArgs;

/// The file that `ackwise up` reads if no other file is named.
pub const CONFIG: &str = "/etc/ackwise/ackwise.toml";

/// Examples, shown after the help.
pub const HELP: &str = "\
Examples:
  ackwise up eth0 --explain      the facts and the decision, without touching anything
  ackwise up eth0                on the host that receives: thins ACKs
  ackwise up wan0 --up 4.75mbit  on the box with the uplink: cake at this rate, and thinned ACKs
  ackwise up wwan0 --up 1mbit..40mbit  where the rate changes: it is measured, between these
  ackwise up --all               every interface of /etc/ackwise/ackwise.toml

When the command ends, even by kill -9, a second process puts back the queue that it found; if
both are killed, `ackwise down` does.";

/// `ackwise up`.
#[derive(Debug, Clone, Args)]
pub struct UpArgs {
    /// The interface through which ACKs leave
    pub interface: Option<String>,

    /// Every interface of the configuration file, each in a process of its own
    #[arg(long, conflicts_with_all = [
        "interface", "rate", "overhead", "router", "queue", "policy", "guard", "guard_block", "no_guard",
        "metrics", "attach_mode", "user",
    ])]
    pub all: bool,

    /// What is wanted on each interface; options here take precedence
    /// [default: /etc/ackwise/ackwise.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What leaves is shaped to this rate, e.g. `5mbit` or `5 Mbit/s`: some 95 % of what the uplink
    /// has, so that packets wait here and not in the modem. `1mbit..40mbit`: to what the uplink has at
    /// each time, which is measured, between these; `auto`: from 100 kbit/s to 1 Gbit/s
    #[arg(long = "up", value_name = "RATE", value_parser = UplinkRate::parse)]
    pub rate: Option<UplinkRate>,

    /// Bytes that each IP packet costs on the uplink beyond itself
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(0..=256))]
    pub overhead: Option<u32>,

    /// This box owns the uplink behind this interface, whatever its routes say
    #[arg(long)]
    pub router: bool,

    /// Which queue to use at that rate [default: the kernel's cake, or the gateway's where the
    /// kernel has no cake]
    #[arg(long, value_enum)]
    pub queue: Option<QueueChoice>,

    /// Print the facts and the decision, and touch nothing
    #[arg(long)]
    pub explain: bool,

    /// Which policy thins; `ackwise policies` lists them [default: adaptive]
    #[arg(long, value_name = "NAME")]
    pub policy: Option<String>,

    #[command(flatten)]
    pub guard: GuardArgs,

    /// Do not compare the policy with nothing every five minutes, and keep it on even if it harms
    #[arg(long, conflicts_with_all = ["guard", "guard_block"])]
    pub no_guard: bool,

    /// Serve Prometheus metrics on this address; port 0 takes any free port
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// How programs are attached: by a tcx link, or by a filter of the clsact queue
    #[arg(long, value_enum, default_value_t)]
    pub attach_mode: AttachMode,

    /// Become this user once everything is set up [default: the user ackwise, if there is one and
    /// root starts it]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// End after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}

/// A queue that shapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueChoice {
    /// The kernel's cake, with adaptive before it
    Cake,
    /// The queue of `ackwise gateway`
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
    /// The interface [default: every one of this network namespace]
    pub interface: Option<String>,
}

/// `ackwise reload`.
#[derive(Debug, Args)]
pub struct ReloadArgs {
    /// The interface [default: every one of this network namespace, and with `ackwise up --all` those
    /// that the file describes now]
    pub interface: Option<String>,
}

/// Examples for `ackwise reload`, and what it does not do.
pub const RELOAD_HELP: &str = "\
Other parameters of the policy, another guard and another fixed rate of cake take effect in place: \
attachments, flows and withheld ACKs stay. A file with a mistake changes nothing (exit code 2). What \
takes another process is named, and left (exit code 1); under `ackwise up --all` it is done by \
starting that interface again.";
