//! The counters of a gateway.

use ackwise_gateway::Stats;

use super::Exported;
use super::family::Family;

impl Exported for Stats {
    fn families(&self) -> Vec<Family> {
        let s = self;
        let here = &[("interface", s.interface.as_str())][..];
        let gateway = [
            ("discipline", s.discipline.as_str()),
            ("device", s.device.as_str()),
        ];
        let counter = Family::counter;
        let rate = s.measured.map_or(s.rate_bps, |it| it.rate_bps);
        let mut all = packets(s, here);
        all.extend([
            Family::gauge("gateway", "A gateway, by its labels: always 1")
                .is(&[here, &gateway].concat(), 1.0),
            counter(
                "gateway_sent",
                "Size of the packets handed to the interface",
            )
            .in_bytes()
            .count(here, s.sent.bytes),
            counter("gateway_acks_filtered", "Size of the ACKs removed")
                .in_bytes()
                .count(here, s.filtered.bytes),
            Family::gauge("gateway_queue_packets", "Packets that wait")
                .is(here, s.waiting.packets as f64),
            Family::gauge("gateway_queue", "Bytes that wait")
                .in_bytes()
                .is(here, s.waiting.bytes as f64),
            Family::gauge("gateway_longest_wait", "The longest wait since the start")
                .in_seconds()
                .is(here, s.waiting.max_wait_us as f64 / 1e6),
            Family::gauge("rate", "The rate that outgoing packets are shaped to")
                .in_bytes_per_second()
                .bps(here, rate),
            Family::gauge("uptime", "Time since the start")
                .in_seconds()
                .is(here, s.uptime_s),
            counter("cpu", "CPU time of the thread that moves packets")
                .in_seconds()
                .spent(here, s.cpu_s),
        ]);
        all
    }
}

/// What happened to packets.
fn packets(s: &Stats, here: &[(&'static str, &str)]) -> Vec<Family> {
    let counter = Family::counter;
    let dropped = s.dropped.causes();
    let passed = &s.passed;
    vec![
        counter(
            "gateway_packets_taken",
            "Packets that the hook sent to the gateway",
        )
        .count(here, s.taken.packets),
        counter(
            "gateway_packets_read",
            "Packets read, each segment of an aggregate counted",
        )
        .count(here, s.read),
        counter("gateway_packets_sent", "Packets handed to the interface")
            .count(here, s.sent.packets),
        counter(
            "gateway_packets_marked",
            "Packets marked (ECN) instead of dropped",
        )
        .count(here, s.marked),
        counter(
            "gateway_acks_filtered",
            "ACKs removed because of a newer one",
        )
        .count(here, s.filtered.packets),
        counter("gateway_packets_dropped", "Packets dropped, by cause").counts(
            here,
            "cause",
            dropped.map(|cause| (cause.name, cause.packets)),
        ),
        counter(
            "gateway_packets_passed",
            "Packets that did not go through the queue, by cause",
        )
        .counts(
            here,
            "cause",
            [
                ("other", passed.other),
                ("neighbour", passed.neighbour),
                ("unattended", passed.unattended),
            ],
        ),
        counter(
            "gateway_ack_verdicts",
            "ACKs that the filter judged, by reason",
        )
        .counts(
            here,
            "reason",
            s.reasons.iter().map(|(k, v)| (k.as_str(), *v)),
        ),
    ]
}
