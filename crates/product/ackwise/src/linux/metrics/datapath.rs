//! The counters of an attachment.

use ackwise_datapath::Stats;

use super::Exported;
use super::family::Family;

/// A counter: name, value, help.
type Counter = (&'static str, fn(&Stats) -> u64, &'static str);

/// The counters of segments, packets, flows or events.
const COUNTERS: &[Counter] = &[
    (
        "acks_seen",
        |s| s.acks,
        "Segments of the ACK direction of tracked flows",
    ),
    (
        "acks_withheld",
        |s| s.withheld,
        "ACKs withheld; in a dry run those that would have been",
    ),
    (
        "acks_reemitted",
        |s| s.reemitted,
        "Withheld ACKs that were sent at their deadline",
    ),
    (
        "acks_saved",
        |s| s.packets_saved,
        "ACKs that never had to leave",
    ),
    (
        "acks_superseded",
        |s| s.superseded,
        "Holds that ended because a newer ACK left",
    ),
    (
        "acks_lost",
        |s| s.release.lost,
        "Withheld ACKs given up after the last try to send them",
    ),
    (
        "data_segments",
        |s| s.data_segments,
        "Data segments of tracked flows",
    ),
    ("syns", |s| s.syns, "SYNs in both directions"),
    ("packets", |s| s.packets, "Packets seen in both directions"),
    (
        "packets_unparsable",
        |s| s.unparsable,
        "Packets not understood, which always pass",
    ),
    (
        "flows_created",
        |s| s.flows_created,
        "Flows tracked since the start",
    ),
    (
        "flows_failed",
        |s| s.flows_failed,
        "Flows that could not be tracked",
    ),
    (
        "send_errors",
        |s| s.release.send_errors,
        "Re-emissions that the kernel refused",
    ),
];

/// The counters of bytes.
const BYTE_COUNTERS: &[Counter] = &[
    (
        "acks_seen",
        |s| s.ack_bytes,
        "Size of the ACKs seen, from the IP header on",
    ),
    (
        "acks_withheld",
        |s| s.withheld_bytes,
        "Size of the withheld ACKs",
    ),
    (
        "acks_saved",
        |s| s.bytes_saved,
        "Size of the ACKs that never had to leave",
    ),
    ("data", |s| s.data_bytes, "Payload of the data segments"),
];

impl Exported for Stats {
    fn families(&self) -> Vec<Family> {
        let s = self;
        let here = [("interface", s.ifname.as_str())];
        let here = &here[..];
        let truth = |it: bool| f64::from(u8::from(it));
        let attachment = [
            here,
            &[
                ("policy", s.policy.as_str()),
                ("dry_run", if s.dry_run { "true" } else { "false" }),
            ],
        ];
        let mut all = vec![
            Family::gauge("attachment", "An attachment, by its labels: always 1")
                .is(&attachment.concat(), 1.0),
        ];
        let counter =
            |(name, value, help): &Counter| Family::counter(name, help).count(here, value(s));
        all.extend(COUNTERS.iter().map(counter));
        all.extend(BYTE_COUNTERS.iter().map(|it| counter(it).in_bytes()));
        let reasons = s.reasons.iter().map(|(k, v)| (k.as_str(), *v));
        let causes = s.fail_open.iter().map(|(k, v)| (k.as_str(), *v));
        all.extend([
            Family::counter(
                "ack_verdicts",
                "Segments of the ACK direction, by the reason for their verdict",
            )
            .counts(here, "reason", reasons),
            Family::counter(
                "fail_open",
                "ACKs that passed because they could not be held, by cause",
            )
            .counts(here, "cause", causes),
            Family::gauge("uptime", "Time since the start")
                .in_seconds()
                .is(here, s.uptime_s),
            Family::gauge("maps", "Kernel memory of all maps")
                .in_bytes()
                .is(here, s.memory_bytes as f64),
            Family::gauge("interface_up", "1 while the interface is there")
                .is(here, truth(s.interface_alive)),
            Family::gauge(
                "paused",
                "1 while every ACK passes: the guard has found harm, or compares a block without \
                 the policy",
            )
            .is(here, truth(s.paused)),
        ]);
        let rate = Family::gauge("rate", "The rate that outgoing packets are shaped to");
        let rate = rate.in_bytes_per_second();
        all.extend(
            s.measured_rate
                .as_ref()
                .map(|it| rate.bps(here, it.rate_bps)),
        );
        let mut lateness = Family::gauge(
            "release_lateness",
            "How much later than its bound a re-emitted ACK passed the hook, since the start",
        )
        .in_seconds();
        let l = &s.lateness;
        for (percentile, us) in [
            ("50", l.p50_us),
            ("90", l.p90_us),
            ("99", l.p99_us),
            ("100", l.max_us),
        ] {
            let labels = [here, &[("percentile", percentile)]].concat();
            lateness = lateness.is(&labels, us as f64 / 1e6);
        }
        all.extend([lateness, hold_times(s, here)]);
        all
    }
}

fn hold_times(s: &Stats, here: &[(&'static str, &str)]) -> Family {
    let h = &s.hold_times;
    let mut buckets: Vec<(f64, u64)> = h
        .buckets
        .iter()
        .map(|b| (b.below_us.map_or(f64::MAX, |us| us as f64 / 1e6), b.count))
        .collect();
    if buckets.last().is_none_or(|(below, _)| *below != f64::MAX) {
        buckets.push((f64::MAX, 0));
    }
    Family::histogram(
        "hold_time",
        "How long ACKs were held, until a newer one left or until their re-emission",
    )
    .in_seconds()
    .distributed(here, h.sum_us as f64 / 1e6, h.count, buckets)
}
