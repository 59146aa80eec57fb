//! A policer on an emulated link, and the policy that holds instead.

use std::sync::{Mutex, PoisonError};

use ackwise_engines::live::{self, RunOptions};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Report, Run};

const TEXT: &str = r#"
[scenario]
name = "police"
duration = "5 s"

[[node]]
name = "server"

[[node]]
name = "br"
kind = "bridge"

[[node]]
name = "client"

[[link]]
name = "near"
between = ["server", "br"]
both = { rate = "20 Mbit/s", delay = "20 ms", queue = "100 packets" }
reverse = { police = { drop = "0 %", mode = "even" } }

[[link]]
name = "far"
between = ["br", "client"]

[[flow]]
name = "down"
from = "server"
to = "client"
app = "bulk"

[sweep]
cc = ["cubic"]

[[arm]]
name = "baseline"

[[arm]]
name = "dropped"
change = { "link.near.reverse.police.drop" = "80 %" }

[[arm]]
name = "held"
policy = "police"
at = "br"
link = "near"
set = { cir = 5000, cbs = 5000 }
"#;

/// Each test has the machine to itself.
static TEST_LOCK: Mutex<()> = Mutex::new(());

fn report(text: &str) -> Report {
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::geteuid() };
    assert_eq!(
        user, 0,
        "this test makes network namespaces: run it as root"
    );
    let scenario = Scenario::parse("police.toml", text).unwrap();
    live::run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap()
}

fn run<'a>(report: &'a Report, arm: &str) -> &'a Run {
    report.runs.iter().find(|run| run.arm == arm).unwrap()
}

fn policed(run: &Run) -> Option<u64> {
    let mut queues = run.queues.iter();
    let queue = queues.find(|queue| queue.name == "near.reverse");
    queue.unwrap().policed
}

#[test]
fn a_bridge_drops_acks_or_holds_them() {
    let _lock = TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let report = report(TEXT);
    let run = |arm: &str| run(&report, arm);
    let policed = |arm: &str| policed(run(arm));
    for arm in ["baseline", "dropped", "held"] {
        assert!(
            run(arm).totals.bytes > 100_000,
            "{arm}: {:?}",
            run(arm).errors
        );
    }
    assert_eq!(policed("baseline"), Some(0));
    assert_eq!(policed("held"), Some(0));
    let dropped = policed("dropped").unwrap();
    let left = run("dropped").totals.acks_on_wire;
    // All ACKs but those of handshake and end are pure ACKs, of which exactly one in five remains.
    assert!(
        dropped.abs_diff(4 * left) <= 20,
        "{dropped} dropped, {left} left"
    );
    let held = run("held");
    let per_ack = held.totals.data_segments / held.totals.acks_on_wire.max(1);
    assert!(
        per_ack >= 3,
        "the contract let {per_ack} segments an ACK pass"
    );
}

/// Two sessions, of which the policer and the policy apply to the first.
fn of_the_first() -> String {
    let flow = "[[flow]]\nname = \"down\"\nfrom = \"server\"\nto = \"client\"\napp = \"bulk\"\n";
    let first = "flows = [\"down\"]";
    TEXT.replace(flow, &format!("{flow}\n{}", flow.replace("down", "other")))
        .replace("mode = \"even\"", &format!("mode = \"even\", {first}"))
        .replace(
            "policy = \"police\"",
            &format!("policy = \"police\"\n{first}"),
        )
}

#[test]
fn of_two_sessions_the_other_keeps_its_acks() {
    let _lock = TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let report = report(&of_the_first());
    let traffic = |arm: &str, name: &str| {
        let mut flows = run(&report, arm).flows.iter();
        flows
            .find(|flow| flow.flow == name)
            .unwrap()
            .traffic
            .clone()
    };
    let dropped = policed(run(&report, "dropped")).unwrap();
    let left = traffic("dropped", "down").acks_on_wire;
    assert!(
        dropped.abs_diff(4 * left) <= 20,
        "{dropped} dropped, {left} left"
    );
    for arm in ["dropped", "held"] {
        let per_ack = ["down", "other"].map(|name| {
            let traffic = traffic(arm, name);
            assert!(traffic.bytes > 100_000, "{arm}, {name}: {traffic:?}");
            traffic.data_segments as f64 / traffic.acks_on_wire as f64
        });
        assert!(per_ack[0] > 1.5 * per_ack[1], "{arm}: {per_ack:?}");
    }
}
