//! The eBPF datapath on the real stack, in virtual time: what holds exactly.

mod virtually;

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use virtually::{BASELINE, arm, of, run, turn, two_hosts};

const CLEAN: &str = r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "200 packets" }"#;

fn counters(run: &Run) -> &serde_json::Value {
    &run.datapath.as_ref().expect("an arm with a policy")["receiver/wan"]
}

fn count(run: &Run, name: &str) -> u64 {
    counters(run)[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no counter {name}"))
}

/// What holds on every path: no byte is lost or changed, every withheld ACK
/// left or was made needless, none was lost in between.
fn assert_contract(run: &Run) {
    let id = &run.id;
    assert!(run.totals.content.as_ref().is_some_and(|it| it.ok), "{id}");
    // `adaptive` leaves a sender alone that recovers all the time.
    assert!(
        run.arm == "adaptive" || count(run, "withheld") > 0,
        "{id}: nothing was withheld"
    );
    assert_eq!(count(run, "unparsable"), 0, "{id}");
    let release = &counters(run)["release"];
    for never in ["ring_full", "lost", "send_errors", "checksums_wrong"] {
        assert_eq!(release[never].as_u64(), Some(0), "{id}: {never}");
    }
    // Time stands still while the daemon works; what wakes it is an irq_work,
    // which User Mode Linux does at the next tick, of 1 ms.
    let late = counters(run)["lateness"]["max_us"].as_u64().unwrap_or(0);
    assert!(late <= 1_100, "{id}: {late} µs late");
}

fn thinned(link: &str, flow: &str, sweep: &str) -> Scenario {
    let arms = format!(
        "{sweep}\n{BASELINE}{}{}",
        arm("every-n", "set = { n = 8 }"),
        arm("adaptive", "")
    );
    two_hosts("2 s", link, flow, &arms)
}

#[test]
fn every_congestion_control_keeps_its_bytes() {
    let _turn = turn();
    let sweep = "[sweep]\ncc = [\"cubic\", \"reno\", \"bbr\", \"dctcp\"]";
    let report = run(&thinned(CLEAN, "app = \"bulk\"", sweep));
    for run in report.runs.iter().filter(|run| run.arm != "baseline") {
        assert_contract(run);
        let stock = report
            .runs
            .iter()
            .find(|other| other.arm == "baseline" && other.cc == run.cc)
            .unwrap();
        let (thinned, stock) = (run.totals.acks_on_wire, stock.totals.acks_on_wire);
        // `adaptive` leaves the start alone, most of so short a run.
        let most = if run.arm == "adaptive" {
            stock
        } else {
            stock / 2
        };
        assert!(thinned <= most, "{}: {thinned} of {stock} ACKs", run.id);
    }
}

#[test]
fn the_contract_holds_under_loss_and_reordering() {
    let _turn = turn();
    for link in [
        r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "200 packets", loss = "0.5 %" }"#,
        r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "200 packets", reorder = { probability = "1 %", delay = "3 ms" } }"#,
    ] {
        let report = run(&thinned(link, "app = \"bulk\"", ""));
        for arm in ["every-n", "adaptive"] {
            assert_contract(of(&report, arm));
            // What tells the sender of holes is never withheld.
            let sacks = of(&report, arm).totals.acks.map_or(0, |kinds| kinds.sack);
            assert!(sacks > 0, "{arm}: no SACK on a path that loses or reorders");
        }
    }
}

#[test]
fn acks_with_ecn_and_without_sack_keep_the_contract() {
    let _turn = turn();
    for option in ["ecn", "sack", "timestamps"] {
        let on = option == "ecn";
        let flow = format!("app = \"bulk\"\nsocket = {{ {option} = {on} }}");
        let report = run(&thinned(CLEAN, &flow, ""));
        for arm in ["every-n", "adaptive"] {
            assert_contract(of(&report, arm));
        }
    }
}

#[test]
fn what_is_counted_is_what_crosses_the_wire() {
    let _turn = turn();
    let report = run(&thinned(CLEAN, "app = \"bulk\"", ""));
    for arm in ["every-n", "adaptive"] {
        let run = of(&report, arm);
        let left = count(run, "acks") - count(run, "withheld") + count(run, "reemitted");
        // The ACKs that open and end a connection are seen by one of the two alone.
        let differ = run.totals.acks_on_wire.abs_diff(left);
        assert!(differ <= 1, "{arm}: {differ}");
    }
}
