//! The keys of a queue whose discipline is `fq_codel`.

use std::time::Duration;

use crate::queues::{FqCodel, QueueLimit};
use crate::section::Section;

/// The keys that other disciplines do not have.
pub const KEYS: [&str; 7] = [
    "memory_limit",
    "flows",
    "quantum",
    "target",
    "interval",
    "ce_threshold",
    "ack_share",
];

const MICROSECOND: Duration = Duration::from_micros(1);
const MAX_TIME: Duration = Duration::from_secs(60);
const MAX_FLOWS: u32 = 65_536;
/// The allowed quanta in bytes; no packet is longer than the largest.
const QUANTA: [u32; 2] = [64, 65_535];

/// Reads the keys of a queue with the given limit.
pub fn fq_codel(section: &Section<'_>, limit: QueueLimit, mtu: u32) -> FqCodel {
    let memory_limit = section.size("memory_limit");
    if memory_limit.is_some_and(|bytes| bytes < u64::from(mtu)) {
        let message = format!("this queue cannot hold a single packet of {mtu} bytes");
        section.error(&section.span_of("memory_limit"), message);
    }
    if memory_limit.is_some() && matches!(limit, QueueLimit::Bytes(_)) {
        section.error(
            &section.span_of("memory_limit"),
            "a 'limit' in bytes is 'memory_limit' already; leave one out",
        );
    }
    let target = section.time("target", MICROSECOND, MAX_TIME);
    let interval = section.time("interval", MICROSECOND, MAX_TIME);
    if let (Some(target), Some(interval)) = (target, interval)
        && target > interval
    {
        section.error(
            &section.span_of("target"),
            "'target' is more than 'interval': it is a twentieth of it (RFC 8289 §4.3)",
        );
    }
    let ack_share = section.share("ack_share");
    if ack_share.is_some_and(|share| !(share > 0.0 && share < 1.0)) {
        let message = "'ack_share' must be more than 0 % and less than 100 %";
        section.error(&section.span_of("ack_share"), message);
    }
    for key in ["acks_first", "counts"] {
        if let Some(entry) = section.entry(key) {
            let message = match key {
                "counts" => "fq_codel counts what waits; leave 'counts' out",
                _ => {
                    "fq_codel serves ACKs by 'ack_share', so that neither direction starves; \
                      leave 'acks_first' out"
                }
            };
            section.error(&entry.key_span, message);
        }
    }
    FqCodel {
        memory_limit,
        flows: section.whole("flows", 1, MAX_FLOWS),
        quantum: section.size_within("quantum", QUANTA[0], QUANTA[1]),
        target,
        interval,
        ce_threshold: section.time("ce_threshold", MICROSECOND, MAX_TIME),
        ecn: section.flag("ecn"),
        ack_share,
    }
}
