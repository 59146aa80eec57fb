//! Creates queues from the keys of a configuration file.

use std::num::NonZeroU32;
use std::time::Duration;

use ackwise_config::queues::QueueLimit as Limit;
use ackwise_config::queues::{AckFilter, FqCodel, Queue, Red, RedPreset};

use crate::{
    FilterConfig, FilterRule, FqCodelConfig, LinkConfig, Nanos, Place, QueueConfig, QueueLimit,
    RedConfig, RedUnit,
};

impl QueueConfig {
    /// Creates the configuration of a queue before `link` from the keys of a file. ns-2's RED
    /// depends on the rate and the delay of the link.
    #[must_use]
    pub fn from_keys(queue: &Queue, link: &LinkConfig) -> Self {
        // Without `..`, so that no key is forgotten. Only the kernel has cake.
        let Queue {
            limit,
            counts_sending,
            red,
            fq_codel,
            cake: _,
            ack_filter,
            acks_first,
        } = queue;
        let limit = match *limit {
            Limit::Packets(packets) => QueueLimit::Packets(packets as usize),
            Limit::Bytes(bytes) => QueueLimit::Bytes(bytes),
        };
        Self {
            limit: if *counts_sending {
                limit.with_one_in_service()
            } else {
                limit
            },
            red: red.as_ref().map(|keys| red_config(keys, link)),
            fq_codel: fq_codel.as_ref().map(|keys| fq_codel_config(keys, link)),
            ack_filter: ack_filter.map(|filter| FilterConfig {
                newest_sack: matches!(
                    filter,
                    AckFilter::Rfc3449 {
                        newest_sack: true,
                        ..
                    }
                ),
                ..FilterConfig::new(rule(filter))
            }),
            acks_first: acks_first.and_then(NonZeroU32::new),
            seed: link.seed,
        }
    }
}

fn rule(filter: AckFilter) -> FilterRule {
    match filter {
        AckFilter::Rfc3449 {
            keep,
            replace,
            max_stretch,
            newest_sack: _,
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

fn fq_codel_config(keys: &FqCodel, link: &LinkConfig) -> FqCodelConfig {
    let nanos = |time: Duration| Nanos::try_from(time.as_nanos()).unwrap_or(Nanos::MAX);
    let default = FqCodelConfig::new(link.rate_bps);
    FqCodelConfig {
        memory_limit: keys.memory_limit.unwrap_or(default.memory_limit),
        flows: keys.flows.unwrap_or(default.flows),
        quantum: keys.quantum,
        target_ns: keys.target.map(nanos),
        interval_ns: keys.interval.map_or(default.interval_ns, nanos),
        ce_threshold_ns: keys.ce_threshold.map(nanos),
        ecn: keys.ecn.unwrap_or(default.ecn),
        ack_share: keys.ack_share,
        ..default
    }
}

/// RED from a preset, with the keys that differ from it.
fn red_config(red: &Red, link: &LinkConfig) -> RedConfig {
    let rate = link.rate_bps.unwrap_or(u64::MAX);
    let mean_packet = red.mean_packet.unwrap_or(500);
    let mut config = match red.preset {
        RedPreset::Floyd => RedConfig {
            mean_packet,
            ..RedConfig::floyd(rate)
        },
        RedPreset::Ns2 => RedConfig::ns2(rate, mean_packet, link.delay_ns),
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
        // Mixed units are rejected when the file is read.
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
