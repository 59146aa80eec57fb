//! `/etc/ackwise/ackwise.toml`: its meaning, and the reports of mistakes in it.

use std::time::Duration;

use ackwise_config::interfaces::{Guard, Interfaces, UplinkQueue};
use ackwise_config::uplink::UplinkRate;

const ALL: &str = include_str!("corpus/interfaces/all.toml");
const MISTAKES: &str = include_str!("interfaces/mistakes.toml");

#[test]
fn every_key_is_read() {
    let read = Interfaces::parse("ackwise.toml", ALL).unwrap();
    let [wan, eth] = &read.all[..] else {
        panic!("{read:?}");
    };
    assert_eq!(wan.name.text, "wan0");
    let measured = UplinkRate {
        bps: 40_000_000,
        min_bps: Some(1_000_000),
    };
    assert_eq!(wan.up, Some(measured));
    assert_eq!(wan.overhead, Some(22));
    assert!(wan.router);
    assert_eq!(wan.queue, Some(UplinkQueue::Cake));
    assert_eq!(wan.policy.as_ref().unwrap().text, "every-n:n=4");
    assert_eq!(wan.guard, Some(Guard::Every(Duration::from_secs(600))));
    assert_eq!(wan.max_flows, Some(1000));
    assert_eq!(wan.metrics, Some(([127, 0, 0, 1], 9478).into()));
    assert_eq!(wan.user.as_deref(), Some("ackwise"));
    assert_eq!((eth.up, eth.guard), (None, Some(Guard::Off)));
    assert_eq!(read.by_name("eth0"), Some(eth));
    assert_eq!(read.by_name("eth1"), None);
}

#[test]
fn a_file_without_interfaces_is_fine() {
    assert!(Interfaces::parse("empty", "").unwrap().all.is_empty());
}

/// All mistakes are reported at once, each with its place.
#[test]
fn each_mistake_has_its_place() {
    let said = Interfaces::parse("ackwise.toml", MISTAKES).unwrap_err();
    let said: Vec<_> = said
        .diagnostics()
        .iter()
        .map(|it| format!("{}:{} {}", it.line, it.column, it.message))
        .collect();
    let wanted: Vec<_> = MISTAKES
        .lines()
        .filter_map(|line| line.strip_prefix("#! "))
        .collect();
    assert_eq!(said, wanted, "\n{}", said.join("\n"));
}
