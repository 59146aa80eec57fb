//! The arguments of what needs Linux, as clap reads them.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use ackwise_cli::time::duration;
use ackwise_engines::virt::KernelChoice;
use ackwise_scenario::Engine;
use clap::{Args, Subcommand, ValueHint};

use crate::engine_name::engine;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Repeat the experiments of papers, and compare published with measured values
    #[command(after_help = REPRODUCE_HELP)]
    Reproduce(ReproduceArgs),
    /// Judge any device that handles ACKs: does it lose, delay or change what RFCs call news?
    #[command(after_help = CONFORM_HELP)]
    Conform(ConformArgs),
    /// Run eight downloads over a thin uplink between namespaces, with and without a tunnel (root)
    TunnelDemo(DemoArgs),
}

const REPRODUCE_HELP: &str = "\
Examples:
  ackwise-lab reproduce --list                      which papers there are, and what they run on
  ackwise-lab reproduce saldana                     a table of published and measured numbers
  ackwise-lab reproduce marhoon --format json
  ackwise-lab reproduce --html papers/              all that this machine can run, as pages
  ackwise-lab reproduce --all --archive papers/     the same with records, environment and hashes";

const CONFORM_HELP: &str = "\
Examples:
  ackwise-lab conform --all                                  known filters, and ackwise's own
  ackwise-lab conform --qdisc 'cake ack-filter' --kernel 7   a queue discipline of Linux 7
  ackwise-lab conform --setup rules.sh --pcap captures/      a tc or nft rule set
  ackwise-lab conform --between eth1 eth2                    a box between two interfaces (root)
A failed must stalls a connection or misleads a sender; a failed should costs it a sample or speed.
The exit code is 1 if a device fails a must, unless --all selected it, or if one could not be judged.";

/// `ackwise-lab reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// The papers [default: all that this machine can run]
    #[arg(value_name = "PAPER")]
    pub papers: Vec<String>,

    /// All papers that this machine can run, the same as without a name
    #[arg(long, conflicts_with_all = ["papers", "list"])]
    pub all: bool,

    /// List the papers, and run nothing
    #[arg(long, conflicts_with_all = ["papers", "html", "archive", "engine", "quick", "jobs"])]
    pub list: bool,

    /// The engine that runs their scenarios [default: the paper's own]
    #[arg(long = "on", value_name = "ENGINE", value_parser = engine())]
    pub engine: Option<Engine>,

    /// Vary less: fewer seeds, rates and settings, so that some verdicts are others than without it
    #[arg(long)]
    pub quick: bool,

    /// Number of runs at the same time [default: one per core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<NonZeroU16>,

    /// Write self-contained HTML pages with tables and figures into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub html: Option<PathBuf>,

    /// Write everything needed to check the numbers into this new directory: records, pages, hashes
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub archive: Option<PathBuf>,
}

/// `ackwise-lab conform`.
#[derive(Debug, Args)]
pub struct ConformArgs {
    /// Judge every built-in device; if one cannot be judged, continue, but end with exit code 1
    #[arg(long, conflicts_with_all = ["device", "qdisc", "setup", "between", "kernel", "live"])]
    pub all: bool,

    /// A built-in device, by name; may be repeated
    #[arg(long, value_name = "NAME")]
    pub device: Vec<String>,

    /// A queue discipline as `tc qdisc add` takes it, behind a shaper
    #[arg(long, value_name = "TEXT")]
    pub qdisc: Option<String>,

    /// A shell script that sets up a router: $IN is the interface at the receiver, $OUT the one at
    /// the sender
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub setup: Option<PathBuf>,

    /// A box that bridges two interfaces of this host: the one at the receiver, the one at the
    /// sender
    #[arg(long, num_args = 2, value_names = ["RECEIVER", "SENDER"])]
    pub between: Option<Vec<String>>,

    /// Run --qdisc and --setup in namespaces of this kernel and in real time, as root, not in
    /// virtual time
    #[arg(long, conflicts_with = "kernel")]
    pub live: bool,

    /// The kernel for --qdisc and --setup: `6.12`, `7`, `6.12-netfilter`, or an image's path
    /// [default: 6.12]
    #[arg(long, value_name = "RELEASE|FILE", value_hint = ValueHint::FilePath)]
    pub kernel: Option<KernelChoice>,

    /// Judge only this case, by name; may be repeated
    #[arg(long = "case", value_name = "NAME")]
    pub cases: Vec<String>,

    /// List devices and cases, and judge nothing
    #[arg(long)]
    pub list: bool,

    /// Write captures of what was sent and what arrived in each failed case into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub pcap: Option<PathBuf>,

    /// Write a self-contained HTML page to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,
}

/// `ackwise-lab tunnel-demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Length of each run [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}
