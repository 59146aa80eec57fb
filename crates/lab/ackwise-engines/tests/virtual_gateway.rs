//! A real gateway at the end of a link, in virtual time.

mod virtual_harness;

use ackwise_scenario::Scenario;
use ackwise_scenario::record::{QueueRecord, Report, Run};
use virtual_harness::{BASELINE, arm, lock_tests, run, two_hosts};

/// A download whose ACKs wait in this queue. One arm leaves the queue to the gateway.
fn scenario(duration: &str, queue: &str, more: &str) -> Scenario {
    let link = format!(
        r#"
forward = {{ rate = "10 Mbit/s", delay = "10 ms", queue = "60 packets" }}
reverse = {{ rate = "100 kbit/s", delay = "10 ms", queue = {queue} }}"#
    );
    let arms = format!(
        "{BASELINE}[[arm]]\nname = \"gateway\"\nchange = {{ \"link.wan.reverse.by\" = \"gateway\"{more} }}\n"
    );
    two_hosts(duration, &link, "app = \"bulk\"", &arms)
}

fn of<'a>(report: &'a Report, arm: &str) -> &'a Run {
    report.runs.iter().find(|run| run.arm == arm).unwrap()
}

fn acks(run: &Run) -> &QueueRecord {
    let found = run.queues.iter().find(|queue| queue.name == "wan.reverse");
    found.unwrap()
}

#[test]
fn with_the_same_queue_it_is_the_link() {
    let _lock = lock_tests();
    let report = run(&scenario("5 s", "\"30 packets\"", ""));
    let (link, gateway) = (of(&report, "baseline"), of(&report, "gateway"));
    let near = |what: &str, a: f64, b: f64, share: f64| {
        assert!((a - b).abs() <= share * b, "{what}: {a} and {b}");
    };
    let (a, b) = (&gateway.totals, &link.totals);
    near("goodput", a.goodput_bps, b.goodput_bps, 0.02);
    near("ACKs", a.acks_on_wire as f64, b.acks_on_wire as f64, 0.02);
    let (a, b) = (acks(gateway), acks(link));
    near("drops", a.drops as f64, b.drops as f64, 0.05);
    assert_eq!((a.max_packets, b.max_packets), (Some(30), Some(30)));
    assert!(a.arrivals.unwrap() > 1000 && a.drops > 100, "{a:?}");
    assert!(gateway.totals.content.as_ref().unwrap().ok);
}

#[test]
fn it_repeats_itself() {
    let _lock = lock_tests();
    let red = r#"{ limit = "60 packets", discipline = "red", min = "2 packets", max = "20 packets", weight = 0.1, max_probability = "50 %" }"#;
    let link = format!(", \"link.wan.reverse.queue\" = {red}");
    let scenario = scenario("3 s", "\"60 packets\"", &link);
    let (once, again) = (run(&scenario), run(&scenario));
    assert!(acks(of(&once, "gateway")).early_drops > 10);
    assert_eq!(once.to_json().unwrap(), again.to_json().unwrap());
}

/// Capacity of the forward direction: 1448 of a frame's 1514 bytes are payload.
const CAPACITY_BPS: f64 = 10e6 * 1448.0 / 1514.0;

#[test]
fn a_filter_gives_a_download_back_what_its_acks_took() {
    let _lock = lock_tests();
    let filter = r#"{ limit = "60 packets", ack_filter = "rfc3449-sack" }"#;
    let link = format!(", \"link.wan.reverse.queue\" = {filter}");
    let report = run(&scenario("6 s", "\"60 packets\"", &link));
    let share = |arm: &str| of(&report, arm).totals.goodput_bps / CAPACITY_BPS;
    assert!(share("baseline") < 0.5, "{}", share("baseline"));
    assert!(share("gateway") >= 0.95, "{}", share("gateway"));
    let queue = acks(of(&report, "gateway"));
    assert_eq!(queue.drops, 0, "{queue:?}");
    assert!(queue.filtered.unwrap() > 1000, "{queue:?}");
}

/// The datapath withholds behind the gateway's hook. What it re-emits has already been queued, and
/// must reach the datapath's own hook, which waits for it and would otherwise send it again.
#[test]
fn what_a_datapath_re_emits_is_not_queued_again() {
    let _lock = lock_tests();
    // An ACK every 60 ms, which is longer than any hold.
    let link = r#"
forward = { rate = "400 kbit/s", delay = "10 ms", queue = "20 packets" }
reverse = { rate = "100 kbit/s", delay = "10 ms", queue = { discipline = "fq_codel", ack_share = "25 %" }, by = "gateway" }"#;
    let report = run(&two_hosts(
        "6 s",
        link,
        "app = \"bulk\"",
        &arm("every-n", "set = { n = 8, warm = 0 }"),
    ));
    let gateway = of(&report, "every-n");
    let places = gateway.datapath.as_ref().unwrap().as_object().unwrap();
    let counters = places.values().next().unwrap();
    let release = &counters["release"];
    assert!(release["sent"].as_u64().unwrap() > 10, "{release}");
    assert_eq!(release["retried"], 0, "{release}");
    assert_eq!(counters["reemitted"], release["sent"], "{release}");
}

/// Without a filter and a share of ACKs it is the kernel's `fq_codel`, behind a shaper.
#[test]
fn its_fq_codel_is_the_kernel_s() {
    let _lock = lock_tests();
    let queue = r#"{ discipline = "fq_codel", limit = "500 packets", quantum = "1514 B", target = "5 ms" }"#;
    let report = run(&scenario("8 s", queue, ""));
    let (link, gateway) = (of(&report, "baseline"), of(&report, "gateway"));
    let (a, b) = (&gateway.totals, &link.totals);
    let near = |what: &str, a: f64, b: f64, share: f64| {
        assert!((a - b).abs() <= share * b, "{what}: {a} and {b}");
    };
    near("goodput", a.goodput_bps, b.goodput_bps, 0.15);
    near("ACKs", a.acks_on_wire as f64, b.acks_on_wire as f64, 0.05);
    near(
        "drops",
        acks(gateway).drops as f64,
        acks(link).drops as f64,
        0.1,
    );
    assert!(acks(link).drops > 50, "{:?}", acks(link));
}
