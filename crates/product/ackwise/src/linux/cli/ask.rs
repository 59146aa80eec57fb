//! The arguments of `ackwise ask`.

use std::path::PathBuf;
use std::time::Duration;

use ackwise_cli::time::duration;
use clap::Args;

pub const HELP: &str = "\
Examples:
  ackwise ask --per-window 8                    the sender: eight ACKs for each congestion window
  ackwise ask --segments 16 --cgroup /sys/fs/cgroup/system.slice/caddy.service
  ackwise ask                                   the receiver: its peers may ask it
  ackwise attach eth0 --policy every-n --set n=1 --obey-ack-rate     and it obeys

  ackwise ask --ack-congestion-control          both ends: lost ACKs tell how many are asked for
  ackwise attach eth0 --policy every-n --set n=2 --obey-ack-rate     the receiver obeys

Connections that are there already, and sockets that listen already, stay as they are: start the
service after this command. When the command ends, nobody asks any more.";

/// `ackwise ask`.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Ask for one ACK for so many full-sized segments
    #[arg(long, value_name = "N", conflicts_with = "per_window",
          value_parser = clap::value_parser!(u32).range(1..=127))]
    pub segments: Option<u32>,

    /// Ask for so many ACKs in a congestion window
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub per_window: Option<u32>,

    /// Ask for fewer ACKs when some are lost on the way, and for more again when none are (RFC
    /// 5690), of peers that have this option as well
    #[arg(long, conflicts_with_all = ["segments", "per_window"])]
    pub ack_congestion_control: bool,

    /// For the processes of this cgroup (version 2) [default: all]
    #[arg(long, value_name = "DIRECTORY")]
    pub cgroup: Option<PathBuf>,

    /// End after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}
