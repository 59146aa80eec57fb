//! From a configuration to elements of `ackwise-net`.

use std::fmt::Write;
use std::num::NonZeroU32;

use ackwise_net::{
    FilterConfig, FilterRule, LinkConfig, Place, QueueConfig, QueueLimit, RedConfig, RedUnit,
};
use ackwise_scenario::QueueLimit as Limit;
pub use ackwise_scenario::gateway::Gateway as Config;
use ackwise_scenario::queues::{AckFilter, Queue, Red, RedPreset};

/// The wire that the interface is taken for.
pub(crate) fn link(config: &Config) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(config.rate_bps),
        ..LinkConfig::default()
    }
}

/// What waits in front of it.
pub(crate) fn queue(config: &Config, seed: u64) -> QueueConfig {
    let queue = &config.queue;
    let limit = match queue.limit {
        Limit::Packets(packets) => QueueLimit::Packets(packets as usize),
        Limit::Bytes(bytes) => QueueLimit::Bytes(bytes),
    };
    QueueConfig {
        limit: if queue.counts_sending {
            limit.with_one_in_service()
        } else {
            limit
        },
        red: queue.red.as_ref().map(|one| red(one, config.rate_bps)),
        ack_filter: queue.ack_filter.map(|one| FilterConfig::new(rule(one))),
        acks_first: queue.acks_first.and_then(NonZeroU32::new),
        seed,
    }
}

fn rule(filter: AckFilter) -> FilterRule {
    match filter {
        AckFilter::Rfc3449 {
            keep,
            replace,
            max_stretch,
        } => FilterRule::Rfc3449 {
            keep,
            place: if replace {
                Place::Replace
            } else {
                Place::Append
            },
            max_stretch,
        },
        AckFilter::Ns2Append => FilterRule::Ns2Append,
        AckFilter::Cake { aggressive } => FilterRule::Cake { aggressive },
    }
}

/// A preset with what differs from it. ns-2's looks at the delay of its link, of
/// which a gateway knows nothing: 0.
fn red(red: &Red, rate_bps: u64) -> RedConfig {
    let mean_packet = red.mean_packet.unwrap_or(500);
    let mut config = match red.preset {
        RedPreset::Floyd => RedConfig {
            mean_packet,
            ..RedConfig::floyd(rate_bps)
        },
        RedPreset::Ns2 => RedConfig::ns2(rate_bps, mean_packet, 0),
    };
    match red.thresholds {
        Some([Limit::Packets(min), Limit::Packets(max)]) => {
            config.unit = RedUnit::Packets;
            (config.min, config.max) = (f64::from(min), f64::from(max));
        }
        Some([Limit::Bytes(min), Limit::Bytes(max)]) => {
            config.unit = RedUnit::Bytes;
            (config.min, config.max) = (min as f64, max as f64);
        }
        // Units that differ are refused when the file is read.
        _ => {}
    }
    config.max_p = red.max_probability.unwrap_or(config.max_p);
    config.weight = red.weight.unwrap_or(config.weight);
    config.gentle = red.gentle.unwrap_or(config.gentle);
    config.wait = red.wait.unwrap_or(config.wait);
    config.ecn = red.ecn;
    config.mark_limit = red.mark_limit.or(config.mark_limit);
    config
}

/// The discipline in a few words.
#[must_use]
pub fn describe(queue: &Queue) -> String {
    let mut text = match &queue.red {
        None => "drop-tail".to_owned(),
        Some(red) if red.ecn => "RED with ECN".to_owned(),
        Some(_) => "RED".to_owned(),
    };
    let _ = match queue.limit {
        Limit::Packets(packets) => write!(text, ", {packets} packets"),
        Limit::Bytes(bytes) => write!(text, ", {bytes} B"),
    };
    text.push_str(match queue.ack_filter {
        None => "",
        Some(AckFilter::Rfc3449 { .. }) => ", ACK filter rfc3449",
        Some(AckFilter::Ns2Append) => ", ACK filter ns2-append",
        Some(AckFilter::Cake { aggressive: false }) => ", ACK filter cake",
        Some(AckFilter::Cake { aggressive: true }) => ", ACK filter cake-aggressive",
    });
    match queue.acks_first {
        None => {}
        Some(u32::MAX) => text.push_str(", ACKs first"),
        Some(most) => {
            let _ = write!(text, ", up to {most} ACKs first");
        }
    }
    text
}
