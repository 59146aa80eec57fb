//! The arguments of what works on live packets, as clap reads them.

pub mod ab;
pub mod ask;
pub mod gateway;
pub mod probe;
pub mod top;
pub mod tunnel;
pub mod up;

use std::net::SocketAddr;
use std::time::Duration;

use ackwise_cli::time::duration;
use clap::builder::RangedI64ValueParser;
use clap::{Args, Subcommand, ValueEnum};

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Detect an interface's role, thin ACKs there, shape if asked to, and restore everything at the end
    #[command(after_help = up::HELP)]
    Up(up::UpArgs),
    /// Stop `ackwise up`, and restore what a killed one left behind
    Down(up::DownArgs),
    /// Have `ackwise up` reread its configuration file, without dropping withheld ACKs
    #[command(after_help = up::RELOAD_HELP)]
    Reload(up::ReloadArgs),
    /// Check configuration files of `ackwise up`: print what they ask for, or every mistake
    Check(up::CheckArgs),
    /// Thin the ACKs that leave through an interface, until Ctrl-C
    // Unlike `ackwise up`, this has no guard unless it is asked for.
    #[command(after_help = ATTACH_HELP, mut_arg("guard_block", |block| block.requires("guard")))]
    Attach(AttachArgs),
    /// Announce that this host's TCP knows ACK rate requests, and send them, until Ctrl-C
    #[command(after_help = ask::HELP)]
    Ask(ask::AskArgs),
    /// Show what is attached, with its counters
    Status(StatusArgs),
    /// Watch live: rates, ACKs saved and why others were not, flows, queues, round-trip times
    #[command(after_help = top::HELP)]
    Top(top::TopArgs),
    /// Test with an experiment on live traffic whether thinning helps here
    #[command(after_help = ab::HELP)]
    Ab(ab::AbArgs),
    /// Detach from an interface
    Detach(DetachArgs),
    /// Run the queue of a link's slow direction: shape, mark, filter ACKs
    #[command(subcommand, after_help = gateway::HELP)]
    Gateway(gateway::GatewayCommand),
    /// Measure with a partner what the path between the two does to ACKs
    #[command(after_help = probe::HELP)]
    Probe(probe::ProbeArgs),
    /// Carry the ACKs of many flows in few, small, authenticated packets
    #[command(subcommand)]
    Tunnel(tunnel::TunnelCommand),
}

const ATTACH_HELP: &str = "\
Examples:
  ackwise attach eth0 --dry-run                 counts what it would withhold, withholds nothing
  ackwise attach eth0                           the default policy, on the host that receives
  ackwise attach wan0 --position router --metrics 127.0.0.1:9478
  ackwise attach wwan0 --policy every-n --set n=4 --match remote-port=443

When the command ends, however it ends, every ACK passes again.";

/// What is thinned, where and by which policy: `ackwise attach` and `ackwise ab`.
#[derive(Debug, Args)]
pub struct ThinArgs {
    /// The interface through which the ACKs leave
    pub interface: String,

    /// The policy, also with parameters: `every-n:n=4,warm=0`; `ackwise policies` lists them
    #[arg(long, default_value = "adaptive", value_name = "NAME")]
    pub policy: String,

    /// A parameter of the policy; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// Longest time that an ACK may be withheld, in milliseconds, from 1 to 200; a quarter of the
    /// flow's round trip limits it as well [default: 25]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub hold_ms: Option<Duration>,

    /// The position of this interface on the path of the flows to thin
    #[arg(long, value_enum, default_value_t)]
    pub position: Position,

    /// Thin only flows that match: `remote=ADDRESS[/LEN]`, `local=ADDRESS[/LEN]`,
    /// `remote-port=PORT[-PORT]`, `local-port=PORT[-PORT]`; may be repeated: all must match. Local is
    /// this host, or the hosts behind this router
    #[arg(long = "match", value_name = "KEY=VALUE")]
    pub matches: Vec<String>,

    /// Maximum number of flows to track; a new one replaces the least recently seen
    #[arg(long, default_value_t = 65_536, value_name = "N", value_parser = max_flows())]
    pub max_flows: u32,

    /// How the BPF program is attached: by a tcx link, or by a filter of the clsact qdisc
    #[arg(long, value_enum, default_value_t)]
    pub attach_mode: AttachMode,

    /// Switch to this user once everything is set up [default: ackwise, if that user exists and root
    /// starts the command]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
}

/// Accepts a number of flows.
pub fn max_flows() -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(64..=1_048_576)
}

/// `ackwise attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    #[command(flatten)]
    pub thin: ThinArgs,

    /// With --position sender: write the congestion window of this host's connections into the
    /// window field of their data, for a receiver with `dca` or `tda`. This limits what the other
    /// side may send, so it is for one-way transfers, and is off while the other side sends
    #[arg(long)]
    pub cwnd_hint: bool,

    /// With --position sender: set a reserved bit in the last packet that the window allows, and in
    /// retransmissions. It asks a receiver with --obey-ack-rate for an immediate ACK
    #[arg(long)]
    pub ack_request: bool,

    /// With --policy every-n on the host that receives: take n from the sender's TCP ACK Rate
    /// Requests, and never withhold an ACK that --ack-request asks for. Flows that do not ask keep the
    /// n that is set. `ackwise ask` on this host tells senders that they may ask
    #[arg(long)]
    pub obey_ack_rate: bool,

    /// Withhold nothing; count what would have been withheld
    #[arg(long, conflicts_with = "guard")]
    pub dry_run: bool,

    #[command(flatten)]
    pub guard: ab::GuardArgs,

    /// Serve Prometheus metrics on this address; port 0 takes any free port
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,

    /// Detach after this time, e.g. `30s`, `5m` [default: run until told to stop]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Duration>,
}

/// The position of an interface on the path of the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Position {
    /// On the host that receives data and sends the ACKs
    #[default]
    Receiver,
    /// On a router between the two, which forwards the ACKs
    Router,
    /// On the host that sends data: the ACKs arrive here
    Sender,
}

/// How a program is attached to an interface.
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

impl From<AttachMode> for ackwise_netdev::AttachMode {
    fn from(mode: AttachMode) -> Self {
        match mode {
            AttachMode::Auto => ackwise_netdev::AttachMode::Auto,
            AttachMode::Tcx => ackwise_netdev::AttachMode::Tcx,
            AttachMode::Clsact => ackwise_netdev::AttachMode::Clsact,
        }
    }
}

/// `ackwise status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Only this interface
    pub interface: Option<String>,

    /// Also show this many flows of INTERFACE, those with the most ACKs first
    #[arg(long, value_name = "N", default_value_t = 0, requires = "interface")]
    pub flows: usize,
}

/// `ackwise detach`.
#[derive(Debug, Args)]
pub struct DetachArgs {
    /// The interface
    pub interface: String,
}

/// A sender's retransmission timer is at least 200 ms on Linux; no hold may reach it.
const MAX_HOLD_MS: f64 = 200.0;
/// A shorter timer is useless: docs/decisions/0010-hold-bound.md.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_bounded() {
        assert_eq!(milliseconds("2.5"), Ok(Duration::from_micros(2500)));
        for bad in ["0", "0.9", "-1", "201", "NaN", "inf", "soon", ""] {
            assert!(milliseconds(bad).is_err(), "{bad}");
        }
    }
}
