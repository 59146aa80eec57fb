//! Checks the pages, and that `docs/metrics.md`, the alert rules and the dashboard agree with them.

use std::collections::{BTreeMap, BTreeSet};

use ackwise_autorate::{Measured, State};
use ackwise_datapath::{HoldBucket, HoldTimes, Stats};

use super::*;

/// An attachment with every metric.
fn attached() -> Stats {
    Stats {
        ifname: "wan\"0".into(),
        policy: "every-n:n=4,warm=16".into(),
        acks: 100,
        withheld: 75,
        paused: true,
        measured_rate: Some(Measured {
            rate_bps: 8_000_000,
            min_bps: 1,
            max_bps: 2,
            link_bps: None,
            state: State::Growing,
            changes: 0,
            cpu_us: 0,
        }),
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
    }
}

fn gateway() -> ackwise_gateway::Stats {
    ackwise_gateway::Stats {
        interface: "wan0".into(),
        rate_bps: 8_000_000,
        reasons: [("held".to_owned(), 75)].into(),
        ..Default::default()
    }
}

fn tunnel() -> ackwise_tunneld::Stats {
    ackwise_tunneld::Stats {
        device: "awtun0".into(),
        peers: vec![
            ackwise_tunneld::PeerStats {
                name: "office".into(),
                up: true,
                rtt_ms: Some(12.5),
                ..Default::default()
            },
            ackwise_tunneld::PeerStats {
                name: "branch".into(),
                ..Default::default()
            },
        ],
        ..Default::default()
    }
}

fn pages(as_: Exposition) -> [String; 3] {
    [
        page(&attached(), as_).unwrap(),
        page(&gateway(), as_).unwrap(),
        page(&tunnel(), as_).unwrap(),
    ]
}

#[test]
fn the_page_is_what_prometheus_expects() {
    let page = page(&attached(), Exposition::OpenMetrics).unwrap();
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
        "ackwise_attachment{interface=\"wan\\\"0\",policy=\"every-n:n=4,warm=16\",dry_run=\"false\"} 1.0",
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

/// A metric as it is exported: type, unit and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Metric {
    kind: String,
    unit: String,
    labels: BTreeSet<String>,
}

/// The exported metrics, by the names that queries use. A histogram has the name of the whole.
fn exported() -> BTreeMap<String, Metric> {
    let mut all: BTreeMap<String, Metric> = BTreeMap::new();
    for page in pages(Exposition::OpenMetrics) {
        let (mut name, mut metric) = (String::new(), Metric::default());
        for line in page.lines() {
            if let Some(metadata) = line.strip_prefix("# TYPE ") {
                let (base, kind) = metadata.split_once(' ').unwrap();
                let suffix = if kind == "counter" { "_total" } else { "" };
                name = format!("{base}{suffix}");
                metric = Metric {
                    kind: kind.to_owned(),
                    ..Metric::default()
                };
            } else if let Some(metadata) = line.strip_prefix("# UNIT ") {
                metric.unit = metadata.split_once(' ').unwrap().1.to_owned();
            } else if !line.starts_with('#') {
                assert!(line.starts_with(&name), "{line}");
                let labels = line.split_once('{').unwrap().1.split_once('}').unwrap().0;
                let names = labels
                    .split(',')
                    .filter_map(|label| label.split_once("=\""));
                let names = names.map(|(name, _)| name.to_owned());
                let known = all.entry(name.clone()).or_insert_with(|| metric.clone());
                assert_eq!(
                    (&known.kind, &known.unit),
                    (&metric.kind, &metric.unit),
                    "{name}"
                );
                known.labels.extend(names.filter(|label| label != "le"));
            }
        }
    }
    all
}

/// The metrics listed in the manual: `| name | type | unit | labels | what |`.
fn documented() -> BTreeMap<String, Metric> {
    let page = include_str!("../../../../../../docs/metrics.md");
    let rows = page.lines().filter(|line| line.starts_with("| `ackwise_"));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{row}");
        let bare = |cell: &str| cell.replace('`', "");
        let labels = bare(cells[3]);
        let labels = labels.split(',').map(|label| label.trim().to_owned());
        let metric = Metric {
            kind: cells[1].to_owned(),
            unit: cells[2].to_owned(),
            labels: labels.collect(),
        };
        (bare(cells[0]), metric)
    })
    .collect()
}

#[test]
fn the_manual_lists_what_is_exported() {
    let (exported, documented) = (exported(), documented());
    for (name, metric) in &exported {
        assert_eq!(
            documented.get(name),
            Some(metric),
            "{name} in docs/metrics.md"
        );
    }
    for name in documented.keys() {
        assert!(exported.contains_key(name), "no program exports {name}");
    }
}

#[test]
fn a_page_for_whoever_does_not_ask_for_openmetrics() {
    let [page, _, _] = pages(Exposition::Text);
    for line in [
        "# HELP ackwise_acks_withheld_total ACKs withheld; in a dry run those that would have been",
        "# TYPE ackwise_acks_withheld_total counter",
        "# TYPE ackwise_paused gauge",
        "# TYPE ackwise_hold_time_seconds histogram",
    ] {
        assert!(
            page.lines().any(|it| it.starts_with(line)),
            "no {line} in\n{page}"
        );
    }
    assert!(
        !page.contains("# UNIT") && !page.contains("# EOF"),
        "{page}"
    );
    let browser = "text/html,application/xhtml+xml,*/*;q=0.8";
    assert_eq!(Exposition::accepted(browser), Exposition::Text);
    let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3";
    assert_eq!(Exposition::accepted(prometheus), Exposition::OpenMetrics);
}

/// The names of metrics in a text: words that begin with the prefix.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let words = words.filter(|word| word.starts_with("ackwise_"));
    let base = |word: &str| {
        let suffixes = ["_bucket", "_sum", "_count"].into_iter();
        let mut bases = suffixes.filter_map(|suffix| word.strip_suffix(suffix));
        bases.next().unwrap_or(word).to_owned()
    };
    words.map(base).collect()
}

#[test]
fn alert_rules_ask_for_what_is_exported() {
    let exported = exported();
    let rules = include_str!("../../../../../../packaging/prometheus/ackwise.rules.yml");
    let names = named(rules);
    assert!(names.len() > 3, "{names:?}");
    for name in names {
        assert!(exported.contains_key(&name), "no program exports {name}");
    }
}

/// `scripts/test-board` checks the rest of the dashboard.
#[test]
fn the_board_asks_for_what_is_exported() {
    let exported = exported();
    let board = include_str!("../../../../../../packaging/grafana/ackwise.json");
    let board: serde_json::Value = serde_json::from_str(board).unwrap();
    let panels = board["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array());
    let queries: Vec<_> = targets
        .flatten()
        .map(|it| it["expr"].as_str().unwrap())
        .collect();
    assert!(queries.len() > 10, "{queries:?}");
    for query in queries {
        let names = named(query);
        assert!(!names.is_empty(), "{query}");
        for name in names {
            assert!(exported.contains_key(&name), "no program exports {name}");
        }
    }
}
