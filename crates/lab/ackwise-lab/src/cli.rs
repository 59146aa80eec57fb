//! The arguments, as clap reads them.

use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;

use ackwise_cli::GlobalArgs;
use ackwise_cli::time::duration;
use ackwise_scenario::Engine;
use ackwise_store::Shard;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

use crate::engine_name::engine;
use crate::system;

/// Run scenarios on a simulator, on real Linux in virtual time or on this kernel, and compare
/// ways to thin ACKs.
#[derive(Debug, Parser)]
#[command(
    name = "ackwise-lab",
    version,
    propagate_version = true,
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub global: GlobalArgs,

    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario, and compare its arms
    Run(RunArgs),
    /// Show the result of an earlier run
    Report(ReportArgs),
    #[command(flatten)]
    System(system::Command),
    /// Check scenario files without running them
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    /// Print the trace of a varying link rate, generated from published statistics
    #[command(after_help = TRACE_HELP)]
    Trace(TraceArgs),
    /// Measure what bundling ACKs costs: recorded ACKs pass both ends, and every packet is compared
    #[command(after_help = BENCH_HELP)]
    TunnelBench(BenchArgs),
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Write the manual pages into a directory, for packages
    #[command(hide = true)]
    Man {
        /// The directory, which is created if it does not exist
        directory: PathBuf,
    },
}

const BENCH_HELP: &str = "\
Bytes include all headers: IPv4, UDP, the datagram's own and the tag of its encryption. Counting
begins at 200 ms, when both sides know the flows. Speeds are those of one core, without encryption,
the best of 20 passes; they are measured, and vary.";

const TRACE_HELP: &str = "\
Examples:
  ackwise-lab trace lte --seed 1 --duration 60s > lte.trace
  ackwise-lab trace 5g --mean '300 Mbit/s' --as mahimahi > 5g.trace

In a scenario, write rate = { trace = \"lte.trace\" }, or without a file
rate = { lte = { mean = \"20 Mbit/s\", seed = 1 } }. docs/links.md has the sources.";

/// `ackwise-lab run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The scenario file
    #[arg(value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,

    /// The engine that runs it
    #[arg(long = "on", value_name = "ENGINE", value_parser = engine(), default_value_t = Engine::Sim)]
    pub engine: Engine,

    /// Also run it on this engine, and check by the scenario's [[agree]] tables whether both results
    /// agree
    #[arg(long, value_name = "ENGINE", value_parser = engine())]
    pub against: Option<Engine>,

    /// Run only arms whose name matches this glob; may be repeated
    #[arg(long = "arm", value_name = "GLOB")]
    pub arms: Vec<String>,

    /// Run only these of the scenario's congestion controls (globs); repeated or separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub cc: Vec<String>,

    /// Run only these of the scenario's seeds; repeated or separated by commas
    #[arg(long = "seed", value_name = "N", value_delimiter = ',')]
    pub seeds: Vec<String>,

    /// Draw the scenario's points with this seed
    #[arg(long, value_name = "N")]
    pub draw_seed: Option<u32>,

    /// Draw N points
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub draws: Option<u32>,

    /// Run each drawn point N times, as [sweep.draw.repeat] describes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: Option<u32>,

    /// Run only these drawn points, by number; repeated or separated by commas
    #[arg(long = "point", value_name = "N", value_delimiter = ',')]
    pub points: Vec<u32>,

    /// How long traffic flows, e.g. `10s` [default: the scenario's duration]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,

    /// Number of runs at the same time, in virtual time or on the simulator [default: one per core]
    #[arg(long, short, value_name = "N", value_parser = jobs)]
    pub jobs: Option<NonZeroU16>,

    /// The kernel that runs in virtual time: `6.12` or `7`, as last built by kernel/build, or the
    /// path of an image [default: 6.12]
    #[arg(long, value_name = "RELEASE|FILE", value_hint = ValueHint::FilePath)]
    pub kernel: Option<system::Kernel>,

    /// Refuse runs that would take more events than this, on the simulator [default: 10000000000]
    #[arg(long, value_name = "N")]
    pub max_events: Option<u64>,

    /// Refuse runs that would together take more memory than this, in bytes, on the simulator
    /// [default: 4294967296]
    #[arg(long, value_name = "BYTES")]
    pub max_memory: Option<u64>,

    /// Write the record (JSON) to this file
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,

    /// Keep each run's result in this directory, and do only the runs that are missing there: many
    /// machines may share the directory, and any of them may be killed
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath,
          conflicts_with_all = ["against", "output", "html", "csv", "parquet"])]
    pub into: Option<PathBuf>,

    /// Do only a part of the runs, e.g. `3/8` for the third of eight parts
    // With a conflict with `into` itself, clap would not apply `requires`.
    #[arg(long, value_name = "I/N", requires = "into",
          conflicts_with_all = ["against", "output", "html", "csv", "parquet"])]
    pub shard: Option<Shard>,

    #[command(flatten)]
    pub render: RenderArgs,
}

/// Files that a report can be written to.
#[derive(Debug, Args)]
pub struct RenderArgs {
    /// Write a self-contained HTML page with plots to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub html: Option<PathBuf>,

    /// Write the tables as CSV files into this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub csv: Option<PathBuf>,

    /// Write the columns of `runs.csv` to this Parquet file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub parquet: Option<PathBuf>,
}

/// `ackwise-lab report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The record that `run --output` or `run --format json` wrote
    #[arg(value_hint = ValueHint::FilePath, required_unless_present = "merge")]
    pub result: Option<PathBuf>,

    /// Merge the results that `run --into` wrote to this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "result")]
    pub merge: Option<PathBuf>,

    /// The set to merge, by its first digits, if the directory has results of several scenarios
    // With a conflict with `merge` itself, clap would not apply `requires`.
    #[arg(
        long,
        value_name = "SET",
        requires = "merge",
        conflicts_with = "result"
    )]
    pub set: Option<String>,

    /// Write the merged record (JSON) to this file
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "merge",
          conflicts_with = "result")]
    pub output: Option<PathBuf>,

    #[command(flatten)]
    pub render: RenderArgs,
}

/// `ackwise-lab scenario`.
#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// Check scenario files and list every mistake with line and column
    Check {
        /// The files
        #[arg(required = true, value_hint = ValueHint::FilePath)]
        files: Vec<PathBuf>,
    },
}

/// What a generated trace is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceKind {
    /// A device in an LTE cell: Brownian motion, as Sprout models it
    Lte,
    /// A pedestrian in a 5G cell: shadowing by 3GPP
    #[value(name = "5g")]
    Nr,
    /// A terminal of a low-Earth-orbit constellation: a new rate every 15 s
    Leo,
}

/// The format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// A time and a rate per line
    Steps,
    /// One line per delivery opportunity of 1500 bytes: its time in ms
    Mahimahi,
}

/// `ackwise-lab trace`.
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// The kind of link
    pub kind: TraceKind,

    /// The mean rate over all seeds; that of a single trace differs
    #[arg(long, value_name = "RATE", value_parser = ackwise_scenario::trace::mean_rate, default_value = "20 Mbit/s")]
    pub mean: u64,

    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u32,

    /// Length of the trace, after which it repeats
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10m")]
    pub duration: Duration,

    /// Format of the trace
    #[arg(long = "as", value_name = "FORMAT", default_value = "steps")]
    pub shape: TraceFormat,
}

/// `ackwise-lab tunnel-bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Use the ACKs of this file instead of the recorded ones: a pcap of one direction, with whole
    /// frames
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub pcap: Option<PathBuf>,

    /// The multiplexing period, in milliseconds
    #[arg(long, default_value_t = 10, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub period_ms: u64,

    /// The tunnel's round-trip time, in milliseconds: the bundles that others refer to are that old
    #[arg(long, default_value_t = 40, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=2000))]
    pub rtt_ms: u64,
}

/// Parses the number of concurrent runs.
fn jobs(text: &str) -> Result<NonZeroU16, String> {
    text.parse()
        .map_err(|_| format!("give a whole number from 1 to {}", u16::MAX))
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
    fn the_help_names_the_limits_of_the_simulator() {
        let mut command = Cli::command();
        let help = command.find_subcommand_mut("run").unwrap();
        let help = help.render_long_help().to_string();
        for limit in [
            ackwise_sim::RunOptions::MAX_EVENTS,
            ackwise_sim::RunOptions::MAX_MEMORY,
        ] {
            assert!(help.contains(&format!("[default: {limit}]")), "{limit}");
        }
    }
}
