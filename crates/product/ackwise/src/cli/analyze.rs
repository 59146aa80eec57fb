//! The arguments of `ackwise analyze`.

use std::path::PathBuf;

use ackwise_config::uplink::rate;
use clap::Args;

pub const HELP: &str = "\
Examples:
  ackwise analyze downloads.pcap
  ackwise analyze --up 5mbit --down 100mbit downloads.pcapng.gz
  tcpdump -i eth0 -s 128 -w - tcp | ackwise analyze -
  ackwise analyze --wifi 65mbit --policy adaptive --policy every-n:n=8 air.pcap

The headers are enough: tcpdump -s 128. Begin the capture before the connections: their SYNs say
which TCP options are in use. Nothing is sent anywhere.";

/// `ackwise analyze`.
#[derive(Debug, Args)]
pub struct AnalyzeArgs {
    /// Capture files: pcap or pcapng, plain or compressed by gzip or zstd; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// A policy to evaluate, with its parameters: `every-n:n=8`; may be repeated [default: adaptive,
    /// every-n, rate-limit, tack, police]
    #[arg(long = "policy", value_name = "NAME[:KEY=VALUE,…]")]
    pub policies: Vec<String>,

    /// Rate of the uplink, which carries the ACKs: `5mbit`, `300 kbit/s`
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub up: Option<u64>,

    /// Rate of the downlink, which carries the data
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub down: Option<u64>,

    /// Also compute airtime, for a Wi-Fi channel of this rate
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub wifi: Option<u64>,

    /// Write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write the flows as comma-separated values
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}
