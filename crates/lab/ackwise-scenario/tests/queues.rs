//! Queues and boxes are read as they are written, and can be swept.

use std::time::Duration;

use ackwise_config::queues::QueueLimit;
use ackwise_config::queues::{AckFilter, Length, PoliceHow, RedPreset};
use ackwise_scenario::{Environment, Scenario};

const TEXT: &str = r#"
[scenario]
name = "queues"
duration = "10 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[flow]]
name = "up"
from = "a"
to = "b"
app = "bulk"
[[link]]
name = "l"
between = ["a", "b"]
[link.forward]
rate = "10 Mbit/s"
queue = { limit = "50 packets", counts = "waiting-and-sending", acks_first = 8 }
police = { drop = "80 %", mode = "even", what = "everything" }
shape = { rate = "1 Mbit/s", burst = "5 kB", queue = "9 packets" }
reconstruct = true
[link.reverse]
rate = "300 kbit/s"
police = { rate = "100 kbit/s", burst = "5 kB", length = "ethernet-frame", flows = "up" }
mux = { period = "50 ms", max_packets = 40 }
[link.reverse.queue]
limit = "25 kB"
discipline = "red"
preset = "ns2"
min = "2500 B"
max = "7500 B"
ecn = true
mark_limit = "100 %"
ack_filter = { rule = "rfc3449", place = "replace", max_stretch = "12 kB" }
[sweep]
link.l.reverse.mux.period = ["5 ms", "10 ms"]
link.l.reverse.queue.ack_filter = ["cake", "ns2-append"]
[[arm]]
name = "baseline"
[[arm]]
name = "acc"
policy = "acc"
at = "b"
link = "l"
environment = "stack"
"#;

#[test]
fn every_key_arrives() {
    let scenario = Scenario::parse("queues.toml", TEXT).unwrap_or_else(|e| panic!("{e}"));
    let link = &scenario.links[0];
    let queue = link.forward.queue.as_ref().unwrap();
    assert!(queue.counts_sending && queue.red.is_none());
    assert_eq!(queue.acks_first, Some(8));
    let police = link.forward.police.as_ref().unwrap();
    assert_eq!(police.how, PoliceHow::Even(0.8));
    assert!(!police.what.pure_acks);
    let shape = link.forward.shape.as_ref().unwrap();
    assert_eq!((shape.packets, shape.bucket.burst), (9, 5_000));
    assert_eq!(link.forward.reconstruct.unwrap().threshold, 2);
    assert_eq!(
        link.forward.own_queue_keys(),
        [
            "queue.counts",
            "queue.acks_first",
            "police",
            "shape",
            "reconstruct"
        ]
    );

    let queue = link.reverse.queue.as_ref().unwrap();
    let red = queue.red.as_ref().unwrap();
    assert_eq!(red.preset, RedPreset::Ns2);
    assert_eq!(
        red.thresholds,
        Some([QueueLimit::Bytes(2_500), QueueLimit::Bytes(7_500)])
    );
    assert!(red.ecn && red.mark_limit == Some(1.0) && red.gentle.is_none());
    assert_eq!(
        queue.ack_filter,
        Some(AckFilter::Rfc3449 {
            keep: 0,
            replace: true,
            max_stretch: Some(12_000),
            newest_sack: false,
        })
    );
    let police = link.reverse.police.as_ref().unwrap();
    let PoliceHow::Bucket(bucket) = police.how else {
        panic!("{police:?}");
    };
    assert_eq!(bucket.length, Length::EthernetFrame);
    assert_eq!(police.what.flows, ["up"]);
    let mux = link.reverse.mux.as_ref().unwrap();
    assert_eq!(mux.period, Duration::from_millis(50));
    assert_eq!(
        (mux.phase, mux.max_packets),
        (Some(Duration::ZERO), Some(40))
    );
    assert_eq!(mux.sizes, [25, 8]);
    assert_eq!(
        scenario.arms[1].placements[0].environment,
        Environment::Stack
    );
}

#[test]
fn paths_lead_into_them() {
    let scenario = Scenario::parse("queues.toml", TEXT).unwrap_or_else(|e| panic!("{e}"));
    let runs = scenario.runs();
    assert_eq!(runs.len(), 8);
    let last = scenario.at(&runs[7]).unwrap_or_else(|e| panic!("{e}"));
    let reverse = &last.links[0].reverse;
    assert_eq!(
        reverse.mux.as_ref().unwrap().period,
        Duration::from_millis(10)
    );
    assert_eq!(
        reverse.queue.as_ref().unwrap().ack_filter,
        Some(AckFilter::Ns2Append)
    );
    assert!(reverse.queue.as_ref().unwrap().red.is_some());
}

#[test]
fn a_swept_period_of_zero_is_refused_where_it_stands() {
    let text = TEXT.replace("[\"5 ms\", \"10 ms\"]", "[\"5 ms\", \"0 ms\"]");
    let error = Scenario::parse("queues.toml", &text).unwrap_err();
    let found = &error.diagnostics()[0];
    let line = text
        .lines()
        .position(|line| line.contains("\"0 ms\""))
        .unwrap()
        + 1;
    assert_eq!((found.line, found.column), (line, 38));
    assert!(found.message.contains("'period' must be more than zero"));
}
