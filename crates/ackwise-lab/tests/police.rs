//! A policer on an emulated link, and the policy that holds instead.

use ackwise_lab::live::{self, RunOptions};
use ackwise_scenario::Scenario;

const TEXT: &str = r#"
[scenario]
name = "police"
duration = "2 s"

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

#[test]
fn a_bridge_drops_acks_or_holds_them() {
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::geteuid() };
    assert_eq!(
        user, 0,
        "this test makes network namespaces: run it as root"
    );
    let scenario = Scenario::parse("police.toml", TEXT).unwrap();
    let report = live::run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap();
    let run = |arm: &str| report.runs.iter().find(|run| run.arm == arm).unwrap();
    let policed = |arm: &str| {
        let queues = &run(arm).queues;
        let queue = queues.iter().find(|queue| queue.name == "near.reverse");
        queue.unwrap().policed
    };
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
    // All but handshake and end are pure ACKs, of which exactly one in five stays.
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
