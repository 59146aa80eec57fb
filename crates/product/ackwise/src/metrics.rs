//! The counters of an attachment as Prometheus wants them (OpenMetrics text).

use std::fmt;

use ackwise_datapath::Stats;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// The page for one scrape.
pub fn page(stats: Stats) -> Result<String, String> {
    let mut registry = Registry::with_prefix("ackwise");
    registry.register_collector(Box::new(Snapshot(stats)));
    let mut out = String::new();
    prometheus_client::encoding::text::encode(&mut out, &registry).map_err(|e| e.to_string())?;
    Ok(out)
}

#[derive(Debug)]
struct Snapshot(Stats);

/// A counter of [`Stats`].
struct Counter {
    /// Its name without the prefix `ackwise` and the unit.
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    value: fn(&Stats) -> u64,
}

const fn counter(name: &'static str, value: fn(&Stats) -> u64, help: &'static str) -> Counter {
    Counter {
        name,
        help,
        unit: None,
        value,
    }
}

const fn bytes(name: &'static str, value: fn(&Stats) -> u64, help: &'static str) -> Counter {
    Counter {
        name,
        help,
        unit: Some(Unit::Bytes),
        value,
    }
}

/// What is counted in segments, packets, flows or events.
const COUNTERS: &[Counter] = &[
    counter(
        "acks_seen",
        |s| s.acks,
        "Segments of the ACK direction of followed flows",
    ),
    counter(
        "acks_withheld",
        |s| s.withheld,
        "ACKs withheld; in a dry run those that would have been",
    ),
    counter(
        "acks_reemitted",
        |s| s.reemitted,
        "Withheld ACKs that left by themselves at their deadline",
    ),
    counter(
        "acks_saved",
        |s| s.packets_saved,
        "ACKs that never had to leave",
    ),
    counter(
        "acks_superseded",
        |s| s.superseded,
        "Holds that a newer ACK on its way out ended",
    ),
    counter(
        "acks_lost",
        |s| s.release.lost,
        "Withheld ACKs given up after the last try to send them",
    ),
    counter(
        "data_segments",
        |s| s.data_segments,
        "Data segments of followed flows",
    ),
    counter("syns", |s| s.syns, "SYNs in both directions"),
    counter("packets", |s| s.packets, "Packets seen in both directions"),
    counter(
        "packets_unparsable",
        |s| s.unparsable,
        "Packets not understood, which always pass",
    ),
    counter(
        "flows_created",
        |s| s.flows_created,
        "Flows followed since the start",
    ),
    counter(
        "flows_failed",
        |s| s.flows_failed,
        "Flows that could not be followed",
    ),
    counter(
        "send_errors",
        |s| s.release.send_errors,
        "Re-emissions that the kernel did not take",
    ),
];

/// What is counted in bytes.
const BYTE_COUNTERS: &[Counter] = &[
    bytes(
        "acks_seen",
        |s| s.ack_bytes,
        "Size of the ACKs seen, from the IP header on",
    ),
    bytes(
        "acks_withheld",
        |s| s.withheld_bytes,
        "Size of the withheld ACKs",
    ),
    bytes(
        "acks_saved",
        |s| s.bytes_saved,
        "Size of the ACKs that never had to leave",
    ),
    bytes("data", |s| s.data_bytes, "Payload of the data segments"),
];

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let s = &self.0;
        let mut to = Families {
            encoder,
            stats: s,
            interface: &escape(&s.ifname),
        };
        to.info(s)?;
        for counter in COUNTERS.iter().chain(BYTE_COUNTERS) {
            to.counter(counter)?;
        }
        to.labelled(
            "ack_verdicts",
            "ACK-direction segments by the reason for what became of them",
            "reason",
            s.reasons.iter().map(|(k, v)| (k.as_str(), *v)),
        )?;
        to.labelled(
            "fail_open",
            "ACKs that passed because they could not be held, by cause",
            "cause",
            s.fail_open.iter().map(|(k, v)| (k.as_str(), *v)),
        )?;
        to.gauge(
            "uptime",
            "Time since the attachment was made",
            Some(Unit::Seconds),
            s.uptime_s,
        )?;
        to.gauge(
            "maps",
            "Kernel memory of all maps",
            Some(Unit::Bytes),
            s.memory_bytes as f64,
        )?;
        to.gauge(
            "interface_up",
            "1 while the interface is there",
            None,
            f64::from(u8::from(s.interface_alive)),
        )?;
        to.gauge(
            "paused",
            "1 while every ACK passes, since the guard found harm or compares a block without",
            None,
            f64::from(u8::from(s.paused)),
        )?;
        to.lateness(s)?;
        to.hold_times(s)
    }
}

/// A label's value: the encoder writes it as it is, and an interface may have any name.
fn escape(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

struct Families<'a, 'e> {
    encoder: DescriptorEncoder<'e>,
    stats: &'a Stats,
    interface: &'a str,
}

impl Families<'_, '_> {
    fn info(&mut self, s: &Stats) -> fmt::Result {
        let value = ConstGauge::new(1i64);
        let mut family = self.encoder.encode_descriptor(
            "attachment",
            "What is attached: always 1",
            None,
            MetricType::Gauge,
        )?;
        let labels = [
            ("interface", escape(&s.ifname)),
            ("policy", escape(&s.policy)),
            ("dry_run", s.dry_run.to_string()),
        ];
        value.encode(family.encode_family(&labels)?)
    }

    fn counter(&mut self, counter: &Counter) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(
            counter.name,
            counter.help,
            counter.unit.as_ref(),
            MetricType::Counter,
        )?;
        let value = ConstCounter::new((counter.value)(self.stats));
        value.encode(family.encode_family(&[("interface", self.interface)])?)
    }

    fn gauge(&mut self, name: &str, help: &str, unit: Option<Unit>, v: f64) -> fmt::Result {
        let mut family =
            self.encoder
                .encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        ConstGauge::new(v).encode(family.encode_family(&[("interface", self.interface)])?)
    }

    fn labelled<'n>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        counts: impl Iterator<Item = (&'n str, u64)>,
    ) -> fmt::Result {
        let mut family = self
            .encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (value, n) in counts {
            let labels = [("interface", self.interface), (label, value)];
            ConstCounter::new(n).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn hold_times(&mut self, s: &Stats) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(
            "hold_time",
            "How long ACKs were held, to a newer one on its way out or to their re-emission",
            Some(&Unit::Seconds),
            MetricType::Histogram,
        )?;
        let h = &s.hold_times;
        let mut buckets: Vec<(f64, u64)> = h
            .buckets
            .iter()
            .map(|b| (b.below_us.map_or(f64::MAX, |us| us as f64 / 1e6), b.count))
            .collect();
        if buckets.last().is_none_or(|(below, _)| *below != f64::MAX) {
            buckets.push((f64::MAX, 0));
        }
        family
            .encode_family(&[("interface", self.interface)])?
            .encode_histogram::<NoLabelSet>(h.sum_us as f64 / 1e6, h.count, &buckets, None)
    }

    fn lateness(&mut self, s: &Stats) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(
            "release_lateness",
            "How much later than its bound a re-emitted ACK passed the hook, since the start",
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        let l = &s.lateness;
        for (quantile, us) in [
            ("0.5", l.p50_us),
            ("0.9", l.p90_us),
            ("0.99", l.p99_us),
            ("1", l.max_us),
        ] {
            let labels = [("interface", self.interface), ("quantile", quantile)];
            ConstGauge::new(us as f64 / 1e6).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ackwise_datapath::{HoldBucket, HoldTimes};

    use super::*;

    #[test]
    fn the_page_is_what_prometheus_expects() {
        let stats = Stats {
            ifname: "wan\"0".into(),
            policy: "every-n:n=4,warm=16".into(),
            acks: 100,
            withheld: 75,
            paused: true,
            reemitted: 5,
            bytes_saved: 3640,
            reasons: [("held".to_owned(), 75), ("sack".to_owned(), 3)].into(),
            fail_open: [("no-slot".to_owned(), 2)].into(),
            hold_times: HoldTimes {
                count: 9,
                sum_us: 8_000,
                buckets: vec![
                    HoldBucket {
                        below_us: Some(524),
                        count: 5,
                    },
                    HoldBucket {
                        below_us: Some(1048),
                        count: 4,
                    },
                ],
                ..HoldTimes::default()
            },
            ..Stats::default()
        };
        let page = page(stats).unwrap();
        for line in [
            "# HELP ackwise_acks_withheld ACKs withheld; in a dry run those that would have been",
            "# TYPE ackwise_acks_withheld counter",
            "ackwise_acks_withheld_total{interface=\"wan\\\"0\"} 75",
            "# UNIT ackwise_acks_saved_bytes bytes",
            "ackwise_acks_saved_bytes_total{interface=\"wan\\\"0\"} 3640",
            "ackwise_ack_verdicts_total{interface=\"wan\\\"0\",reason=\"sack\"} 3",
            "ackwise_paused{interface=\"wan\\\"0\"} 1.0",
            "# TYPE ackwise_hold_time_seconds histogram",
            "ackwise_hold_time_seconds_sum{interface=\"wan\\\"0\"} 0.008",
            "ackwise_hold_time_seconds_bucket{le=\"0.001048\",interface=\"wan\\\"0\"} 9",
            "ackwise_hold_time_seconds_bucket{le=\"+Inf\",interface=\"wan\\\"0\"} 9",
            "ackwise_fail_open_total{interface=\"wan\\\"0\",cause=\"no-slot\"} 2",
            "ackwise_attachment{interface=\"wan\\\"0\",policy=\"every-n:n=4,warm=16\",dry_run=\"false\"} 1",
        ] {
            assert!(page.lines().any(|l| l == line), "no {line} in\n{page}");
        }
        assert!(page.ends_with("# EOF\n"));
        // A family is described once, before its samples.
        for kind in ["# HELP", "# TYPE"] {
            let mut described: Vec<_> = page
                .lines()
                .filter(|l| l.starts_with(kind))
                .map(|l| l.split(' ').nth(2).unwrap())
                .collect();
            let all = described.len();
            described.sort_unstable();
            described.dedup();
            assert_eq!(described.len(), all, "{page}");
        }
    }
}
