//! Converts a configuration to elements of `ackwise-queue`.

use std::fmt::Write;

pub use ackwise_config::gateway::Gateway as Config;
use ackwise_config::queues::QueueLimit as Limit;
use ackwise_config::queues::{AckFilter, Queue};
use ackwise_queue::{LinkConfig, QueueConfig};

/// The link that models the interface.
pub(crate) fn link(config: &Config) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(config.rate_bps),
        ..LinkConfig::default()
    }
}

/// The queue before the link. The link's delay, which ns-2's RED takes into account, is not known:
/// 0.
pub(crate) fn queue(config: &Config, seed: u64) -> QueueConfig {
    let link = LinkConfig {
        seed,
        ..link(config)
    };
    QueueConfig::from_keys(&config.queue, &link)
}

/// The discipline in a few words.
#[must_use]
pub fn describe(queue: &Queue) -> String {
    // Without `..`, so that a new discipline does not compile until it has a name here. The
    // description does not say whether the limit counts the packet being sent; a gateway has no
    // cake.
    let Queue {
        limit,
        counts_sending: _,
        red,
        fq_codel,
        cake: _,
        ack_filter,
        acks_first,
    } = queue;
    let name = match (red, fq_codel) {
        (_, Some(_)) => "fq_codel",
        (Some(_), None) => "RED",
        (None, None) => "drop-tail",
    };
    let ecn = if queue.marks() { " with ECN" } else { "" };
    let mut text = format!("{name}{ecn}");
    let _ = match limit {
        Limit::Packets(packets) => write!(text, ", {packets} packets"),
        Limit::Bytes(bytes) => write!(text, ", {bytes} B"),
    };
    text.push_str(match ack_filter {
        None => "",
        Some(AckFilter::Rfc3449 {
            newest_sack: true, ..
        }) => ", ACK filter rfc3449-sack",
        Some(AckFilter::Rfc3449 { .. }) => ", ACK filter rfc3449",
        Some(AckFilter::Ns2Append) => ", ACK filter ns2-append",
        Some(AckFilter::Cake { aggressive: false }) => ", ACK filter cake",
        Some(AckFilter::Cake { aggressive: true }) => ", ACK filter cake-aggressive",
    });
    if let Some(share) = fq_codel.and_then(|it| it.ack_share) {
        let _ = write!(text, ", {} % for ACKs", (share * 1e4).round() / 1e2);
    }
    match *acks_first {
        None => {}
        Some(u32::MAX) => text.push_str(", ACKs first"),
        Some(most) => {
            let _ = write!(text, ", up to {most} ACKs first");
        }
    }
    text
}
