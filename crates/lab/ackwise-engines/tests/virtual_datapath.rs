//! The eBPF datapath on the real stack, in virtual time: exact assertions.

mod virtual_harness;

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use virtual_harness::{BASELINE, arm, lock_tests, of, run, run_pinned, two_hosts};

const CLEAN: &str = r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "200 packets" }"#;

fn counters(run: &Run) -> &serde_json::Value {
    &run.datapath.as_ref().expect("an arm with a policy")["receiver/wan"]
}

fn count(run: &Run, name: &str) -> u64 {
    counters(run)[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no counter {name}"))
}

/// What holds on every path: no byte is lost or changed, and every withheld ACK left or was
/// superseded; none was lost in between.
fn assert_contract(run: &Run) {
    let id = &run.id;
    assert!(run.totals.content.as_ref().is_some_and(|it| it.ok), "{id}");
    // `adaptive` leaves a sender alone that is always in recovery.
    assert!(
        run.arm == "adaptive" || count(run, "withheld") > 0,
        "{id}: nothing was withheld"
    );
    assert_eq!(count(run, "unparsable"), 0, "{id}");
    let release = &counters(run)["release"];
    for never in [
        "ring_full",
        "lost",
        "unlocked",
        "send_errors",
        "checksums_wrong",
    ] {
        assert_eq!(release[never].as_u64(), Some(0), "{id}: {never}");
    }
    // Time stands still while the daemon works. It is woken by an irq_work, which User Mode Linux
    // runs at the next tick, of 1 ms.
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
    let _lock = lock_tests();
    let sweep = "[sweep]\ncc = [\"cubic\", \"reno\", \"bbr\", \"dctcp\"]";
    let report = run_pinned(
        "congestion-controls",
        &thinned(CLEAN, "app = \"bulk\"", sweep),
    );
    for run in report.runs.iter().filter(|run| run.arm != "baseline") {
        assert_contract(run);
        let stock = report
            .runs
            .iter()
            .find(|other| other.arm == "baseline" && other.cc == run.cc)
            .unwrap();
        let (thinned, stock) = (run.totals.acks_on_wire, stock.totals.acks_on_wire);
        // `adaptive` leaves the start alone, which is most of such a short run.
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
    let _lock = lock_tests();
    for (name, link) in [
        (
            "loss",
            r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "200 packets", loss = "0.5 %" }"#,
        ),
        (
            "reordering",
            r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "200 packets", reorder = { probability = "1 %", delay = "3 ms" } }"#,
        ),
    ] {
        let report = run_pinned(name, &thinned(link, "app = \"bulk\"", ""));
        for arm in ["every-n", "adaptive"] {
            assert_contract(of(&report, arm));
            // ACKs that report holes to the sender are never withheld.
            let sacks = of(&report, arm).totals.acks.map_or(0, |kinds| kinds.sack);
            assert!(sacks > 0, "{arm}: no SACK on a path that loses or reorders");
        }
    }
}

#[test]
fn acks_with_ecn_and_without_sack_keep_the_contract() {
    let _lock = lock_tests();
    for option in ["ecn", "sack", "timestamps"] {
        let on = option == "ecn";
        let flow = format!("app = \"bulk\"\nsocket = {{ {option} = {on} }}");
        let report = run_pinned(option, &thinned(CLEAN, &flow, ""));
        for arm in ["every-n", "adaptive"] {
            assert_contract(of(&report, arm));
        }
    }
}

/// A queue that marks: each change of what an ACK echoes leaves at once, and senders get as many
/// congestion signals as without thinning.
#[test]
fn marks_reach_the_sender() {
    let _lock = lock_tests();
    let link = r#"
forward = { rate = "20 Mbit/s", delay = "10 ms", queue = { limit = "200 packets", discipline = "red", min = "15 packets", max = "45 packets", mean_packet = "1514 B", ecn = true } }
reverse = { rate = "20 Mbit/s", delay = "10 ms", queue = "200 packets" }"#;
    let sweep = "[sweep]\ncc = [\"cubic\", \"dctcp\"]";
    let flow = "app = \"bulk\"\nsocket = { ecn = true }";
    let report = run_pinned("marks", &thinned(link, flow, sweep));
    for run in &report.runs {
        assert!(run.queues[0].marks > 0, "{}: no marks", run.id);
        assert_eq!(run.queues[0].drops, 0, "{}", run.id);
        let rtt = run.totals.rtt_us.as_ref().expect("samples").p50;
        assert!(
            rtt < 45_000.0,
            "{}: {rtt} µs, as if the sender had not learned of the marks",
            run.id
        );
        if run.arm != "baseline" {
            assert_contract(run);
            assert!(
                counters(run)["reasons"]["ecn"].as_u64() > Some(0),
                "{}",
                run.id
            );
        }
    }
}

/// An uplink that an ACK for every second segment overloads: `adaptive` sends few enough, and none
/// waits longer than its bound.
#[test]
fn adaptive_on_a_thin_uplink() {
    let _lock = lock_tests();
    let link = r#"
forward = { rate = "50 Mbit/s", delay = "20 ms", queue = "256 packets" }
reverse = { rate = "200 kbit/s", delay = "20 ms", queue = "128 KiB" }"#;
    let arms = format!(
        "[sweep]\ncc = [\"cubic\", \"bbr\"]\n{BASELINE}{}",
        arm("adaptive", "")
    );
    let report = run_pinned(
        "thin-uplink",
        &two_hosts("5 s", link, "app = \"bulk\"", &arms),
    );
    for run in report.runs.iter().filter(|run| run.arm == "adaptive") {
        assert_contract(run);
        let stock = report
            .runs
            .iter()
            .find(|it| it.arm == "baseline" && it.cc == run.cc);
        let gain = run.totals.goodput_bps / stock.unwrap().totals.goodput_bps;
        assert!(gain > 3.0, "{}: {gain}", run.id);
        // D is at most 25 ms; the ticker is a tick late.
        let held = counters(run)["hold_times"]["buckets"].as_array().unwrap();
        let longest = held.iter().rfind(|bucket| bucket["count"] != 0);
        let longest = longest.unwrap()["below_us"].as_u64().unwrap();
        assert!(longest <= 27_000, "{}: {longest} µs", run.id);
    }
}

#[test]
fn what_is_counted_is_what_crosses_the_wire() {
    let _lock = lock_tests();
    let report = run(&thinned(CLEAN, "app = \"bulk\"", ""));
    for arm in ["every-n", "adaptive"] {
        let run = of(&report, arm);
        let left = count(run, "acks") - count(run, "withheld") + count(run, "reemitted");
        // The ACKs that open and end a connection are seen by only one of the two.
        let differ = run.totals.acks_on_wire.abs_diff(left);
        assert!(differ <= 1, "{arm}: {differ}");
    }
}

/// Two flows leave by one interface, and a policy applies to the second.
#[test]
fn one_of_two_flows_is_thinned() {
    let _lock = lock_tests();
    let arms = format!(
        "\n[[flow]]\nname = \"second\"\nfrom = \"sender\"\nto = \"receiver\"\napp = \"bulk\"\n{BASELINE}{}",
        arm("every-n", "set = { n = 8, warm = 0 }\nflows = [\"second\"]")
    );
    let report = run(&two_hosts("2 s", CLEAN, "app = \"bulk\"", &arms));
    let thinned = report.runs.iter().find(|run| run.arm == "every-n").unwrap();
    let per_ack = |name: &str| {
        let flow = thinned.flows.iter().find(|flow| flow.flow == name).unwrap();
        flow.traffic.data_segments as f64 / flow.traffic.acks_on_wire as f64
    };
    let first = &thinned.flows[0].flow;
    assert!(per_ack(first) < 2.2, "{first}: {}", per_ack(first));
    assert!(per_ack("second") > 4.0, "{}", per_ack("second"));
}

/// An ACK that was held until its deadline waits in the same flow of the queue as the others, so
/// that it does not fall behind newer ones.
#[test]
fn a_queue_that_separates_flows_keeps_the_order_of_acks() {
    let _lock = lock_tests();
    let link = r#"
forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "50 packets" }
reverse = { rate = "200 kbit/s", delay = "10 ms", queue = "64 KiB" }"#;
    let named = |name: &str, queue: &str| {
        let queue = format!(
            "set = {{ n = 4 }}\nchange = {{ \"link.wan.reverse.queue\" = {{ limit = \"4 MB\", {queue} }} }}"
        );
        arm("every-n", &queue).replacen("name = \"every-n\"", &format!("name = \"{name}\""), 1)
    };
    let arms = [
        "\n[[flow]]\nname = \"up\"\nfrom = \"receiver\"\nto = \"sender\"\napp = \"bulk\"\n",
        BASELINE,
        &named("fq_codel", "discipline = \"fq_codel\""),
        &named(
            "cake",
            "discipline = \"cake\", ack_filter = \"cake-aggressive\"",
        ),
    ];
    let flow = "app = \"bulk\"\nconnections = 4";
    let report = run(&two_hosts("10 s", link, flow, &arms.concat()));
    for run in report.runs.iter().filter(|run| run.arm != "baseline") {
        let reemitted = count(run, "reemitted");
        assert!(reemitted > 100, "{}: {reemitted}", run.id);
        let old = run.totals.acks.expect("ACKs by kind").old;
        assert_eq!(old, 0, "{}", run.id);
    }
}

/// An upload shares the FIFO: no thinning shortens it, so every ACK passes. Before a queue that
/// separates flows, thinning continues, and both directions gain.
#[test]
fn an_upload_ends_the_thinning_where_it_shares_the_queue() {
    let _lock = lock_tests();
    let link = r#"
forward = { rate = "30 Mbit/s", delay = "40 ms", queue = "250 packets" }
reverse = { rate = "300 kbit/s", delay = "40 ms", queue = "64 KiB" }"#;
    let fair = r#"change = { "link.wan.reverse.queue" = { limit = "10240 packets", discipline = "fq_codel" } }"#;
    let named = |name: &str, arm: &str| arm.replacen("name = \"adaptive\"", name, 1);
    let arms = [
        "\n[[flow]]\nname = \"up\"\nfrom = \"receiver\"\nto = \"sender\"\napp = \"bulk\"\n",
        BASELINE,
        &arm("adaptive", "flows = [\"flow\"]"),
        &format!("[[arm]]\nname = \"fair\"\n{fair}\n"),
        &named("name = \"fair-adaptive\"", &arm("adaptive", fair)),
    ];
    let report = run(&two_hosts("10 s", link, "app = \"bulk\"", &arms.concat()));
    let goodput = |arm: &str, flow: &str| {
        let flows = &of(&report, arm).flows;
        let flow = flows.iter().find(|it| it.flow == flow).expect("a flow");
        flow.traffic.goodput_bps
    };
    let saved = |arm: &str| {
        let run = of(&report, arm);
        let saved = count(run, "withheld") - count(run, "reemitted");
        saved as f64 / count(run, "acks") as f64
    };
    assert!(saved("adaptive") < 0.05, "{}", saved("adaptive"));
    let share = goodput("adaptive", "flow") / goodput("baseline", "flow");
    assert!(share > 0.95, "{share}");
    assert!(saved("fair-adaptive") > 0.3, "{}", saved("fair-adaptive"));
    for (flow, least) in [("flow", 1.0), ("up", 1.5)] {
        let gain = goodput("fair-adaptive", flow) / goodput("fair", flow);
        assert!(gain >= least, "{flow}: {gain}");
    }
}
