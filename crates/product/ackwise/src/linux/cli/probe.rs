//! The arguments of `ackwise probe`.

use std::net::IpAddr;

use ackwise_config::uplink::rate;
use clap::Args;

pub const HELP: &str = "\
Examples:
  ackwise probe --serve                    on the partner, until Ctrl-C
  ackwise probe server.example             what the path to it and back does to ACKs
  ackwise probe 2001:db8::7 --rate 1mbit   over a path whose slower direction has 1 Mbit/s

A probe takes some 35 seconds, on slow paths up to three minutes, and needs CAP_NET_RAW at both
ends. The partner's firewall must admit two TCP ports: --port, and the one above it. docs/probe.md
explains what is found, and how.";

/// The port of the control connection. Flows use the next one.
const PORT: u16 = 9479;

/// `ackwise probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// The partner: a name or an address
    #[arg(value_name = "HOST", conflicts_with_all = ["serve", "listen", "user"])]
    pub host: Option<String>,

    /// Serve as the partner of others, one at a time
    #[arg(long)]
    pub serve: bool,

    /// The TCP port of the control connection; flows come to the one above it
    #[arg(long, value_name = "PORT", default_value_t = PORT, value_parser = clap::value_parser!(u16).range(1..=65534))]
    pub port: u16,

    /// Rate of the path's slower direction, if it is below 7 Mbit/s: the probe's flows are slowed
    /// down to fit; at least 313kbit
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "serve")]
    pub rate: Option<u64>,

    /// Listen on this address only [default: all]
    #[arg(long, value_name = "ADDR", requires = "serve")]
    pub listen: Option<IpAddr>,

    /// Switch to this user once the sockets are open [default: ackwise, if that user exists and root
    /// starts the command]
    #[arg(long, value_name = "NAME", requires = "serve")]
    pub user: Option<String>,
}
