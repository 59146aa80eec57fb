//! `run --on sim --against virtual`: the simulator and the real stack agree.

use std::time::Duration;

use ackwise_testbed::program::{Ended, Program};
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../scenarios/cross-check.toml"
);

fn against_virtual(scenario: &str, more: &[&str]) -> Ended {
    let args = ["run", scenario, "--on", "sim", "--against", "virtual"];
    let mut c = LAB.command();
    // Two cores that are shared with others.
    c.timeout(Duration::from_secs(600)).args(args).args(more);
    Ended::of(&c.output().unwrap())
}

/// Runs a scenario that stands beside [`SCENARIO`]; it compares this many pairs of numbers.
fn all_agree(name: &str, pairs: usize) {
    let scenario = SCENARIO.replace("cross-check", name);
    let Ended { code, out, err } = against_virtual(&scenario, &["--format", "json"]);
    assert_eq!(code, 0, "{out}{err}");
    let both: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(both["agreements"].as_array().unwrap().len(), pairs);
}

#[test]
fn reno_and_cubic_do_what_linux_does() {
    let json = [
        "--format",
        "json",
        "--arm",
        "baseline",
        "--arm",
        "every-n",
        "--duration",
        "20s",
    ];
    let Ended { code, out, err } = against_virtual(SCENARIO, &json);
    assert_eq!(code, 0, "{err}");
    let both: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(both["engine"], "sim");
    assert_eq!(both["against"]["engine"], "virtual");
    let agreements = both["agreements"].as_array().unwrap();
    // Two arms, two congestion controls, three metrics.
    assert_eq!(agreements.len(), 12);
    for one in agreements {
        assert_eq!(one["met"], true, "{one}");
    }
    // The simulator's side is exact.
    let acks: Vec<u64> = both["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["acks_on_wire"].as_u64().unwrap())
        .collect();
    assert_eq!(acks, [18_115, 4_663, 17_431, 4_617]);
}

/// Both ends send, and ACKs are piggybacked on data.
#[test]
fn requests_and_responses_do_what_they_do_on_linux() {
    // Two arms, two congestion controls, three metrics.
    all_agree("cross-check-requests", 12);
}

/// A connection for each transfer, with its handshake and its close.
#[test]
fn short_transfers_do_what_they_do_on_linux() {
    // Three arms, three congestion controls, four metrics.
    all_agree("cross-check-short", 36);
}

/// Segments come one at a time, up to 60 ms apart.
#[test]
fn single_segments_are_acknowledged_as_on_linux() {
    // Two arms, two congestion controls, two rates, two round trips, two metrics.
    all_agree("cross-check-slow", 32);
}

/// Deep and shallow queues, wide and thin uplinks, a minute each.
#[test]
fn bbr_does_what_linux_does() {
    let scenario = SCENARIO.replace("cross-check", "cross-check-bbr");
    let arms = ["--arm", "baseline", "--arm", "every-n"];
    let args = [&["--format", "json"], &arms[..]].concat();
    let Ended { code, out, err } = against_virtual(&scenario, &args);
    assert_eq!(code, 0, "{err}");
    let both: Value = serde_json::from_str(&out).unwrap();
    let agreements = both["agreements"].as_array().unwrap();
    // Two arms, two queues, two uplinks, three metrics.
    assert_eq!(agreements.len(), 24);
    for one in agreements {
        assert_eq!(one["met"], true, "{one}");
    }
    // The simulator's side is exact.
    let acks: Vec<u64> = both["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["acks_on_wire"].as_u64().unwrap())
        .collect();
    assert_eq!(
        acks,
        [
            48_753, 12_072, 48_487, 12_022, 48_845, 12_309, 48_505, 12_339
        ]
    );
}

/// A rate in steps on the downlink, delivery opportunities on the uplink, and a delay that changes.
#[test]
fn links_that_change_do_so_alike() {
    let scenario = SCENARIO.replace("cross-check", "cross-check-changing");
    let args = ["--format", "json", "--arm", "baseline"];
    let Ended { code, out, err } = against_virtual(&scenario, &args);
    assert_eq!(code, 0, "{err}");
    let both: Value = serde_json::from_str(&out).unwrap();
    let agreements = both["agreements"].as_array().unwrap();
    // Two congestion controls, three metrics.
    assert_eq!(agreements.len(), 6);
    for one in agreements {
        assert_eq!(one["met"], true, "{one}");
    }
}

#[test]
fn a_difference_is_a_failure() {
    let text = std::fs::read_to_string(SCENARIO).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("strict.toml");
    std::fs::write(
        &path,
        text.replace("within = \"5 %\"", "within = \"0.0001 %\""),
    )
    .unwrap();
    let one = ["--arm", "baseline", "--cc", "reno", "--duration", "1s"];
    let Ended { code, out, err } = against_virtual(path.to_str().unwrap(), &one);
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("sim and virtual differ in"), "{err}");
    assert!(out.contains("DIFFER  baseline/reno/1 acks"), "{out}");
}

#[test]
fn without_tolerances_there_is_nothing_to_judge() {
    let quick = SCENARIO.replace("cross-check", "quick");
    let Ended { code, err, .. } = LAB.run(&["run", &quick, "--on", "sim", "--against", "sim"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("[[agree]]"), "{err}");
}
