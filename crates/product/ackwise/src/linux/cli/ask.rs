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

  ackwise ask --ack-congestion-control          both ends: the loss of ACKs decides how many
  ackwise attach eth0 --policy every-n --set n=2 --obey-ack-rate     the receiver obeys

Existing connections and listening sockets are not affected: start the service after this command.
When the command ends, the requests end.";

/// `ackwise ask`.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// Ask for one ACK per N full-sized segments
    #[arg(long, value_name = "N", conflicts_with = "per_window",
          value_parser = clap::value_parser!(u32).range(1..=127))]
    pub segments: Option<u32>,

    /// Ask for N ACKs per congestion window
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub per_window: Option<u32>,

    /// Ask for fewer ACKs when some are lost, and for more when none are (RFC 5690), of peers that use
    /// this option too
    #[arg(long, conflicts_with_all = ["segments", "per_window"])]
    pub ack_congestion_control: bool,

    /// Only for the processes of this cgroup (version 2) [default: all]
    #[arg(long, value_name = "DIRECTORY")]
    pub cgroup: Option<PathBuf>,

    /// End after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}
