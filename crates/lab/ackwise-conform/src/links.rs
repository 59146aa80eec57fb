//! Commands that create links, with names and the suite's shaper.

use ackwise_engines::{LabError, command};

use crate::schedule::Shaper;

/// The networks of the receiver and of the sender.
pub(crate) const NETWORKS: [[&str; 2]; 2] = [
    ["198.18.1.0/24", "fd98:1::/64"],
    ["198.18.2.0/24", "fd98:2::/64"],
];

/// Runs `ip` with these words as arguments.
pub(crate) fn ip(words: &str) -> Result<(), LabError> {
    let words: Vec<&str> = words.split_whitespace().collect();
    command::run("ip", &words).map(drop)
}

/// Sets up the suite's shaper with a queue discipline behind it. The burst is one ACK: a larger one
/// would let the first ACKs of a flow pass without a queue.
pub(crate) fn shape(device: &str, qdisc: &str) -> Result<(), LabError> {
    let rate = Shaper::SUITE.rate_bps.unwrap_or(0);
    for line in [
        format!("qdisc replace dev {device} root handle 1: htb default 1"),
        format!(
            "class add dev {device} parent 1: classid 1:1 htb rate {rate}bit burst 100 cburst 100 \
             quantum 1514"
        ),
        format!("qdisc add dev {device} parent 1:1 handle 2: {qdisc}"),
    ] {
        let words: Vec<&str> = line.split_whitespace().collect();
        command::run("tc", &words)?;
    }
    Ok(())
}
