//! The sender's cwnd hint and a medium for both directions, on the real stack in virtual time.

mod virtual_harness;

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use virtual_harness::{BASELINE, lock_tests, of, run, run_pinned};

const RATE: u64 = 250_000;

/// Two hosts on a slow medium, segments of 88 bytes.
fn slow(duplex: &str, flow: &str, arms: &str) -> Scenario {
    let node = |name: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\n\
             sysctl = {{ \"net.ipv4.route.min_adv_mss\" = \"48\" }}\n"
        )
    };
    let text = format!(
        r#"
[scenario]
name = "hint"
duration = "60 s"
{}{}
[[link]]
name = "air"
between = ["sender", "receiver"]
duplex = "{duplex}"
mtu = 128
both = {{ rate = "250 kbit/s", delay = "200 us", loss = "1 %", queue = "50 packets" }}
[[flow]]
name = "data"
from = "sender"
to = "receiver"
{flow}
socket = {{ timestamps = false, window_scaling = false }}
[sweep]
cc = ["reno"]
{BASELINE}{arms}
"#,
        node("sender"),
        node("receiver"),
    );
    Scenario::parse("hint.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// `dca`, with a sender that sends hints and with one that does not.
fn arms() -> String {
    [false, true]
        .map(|tell| {
            format!(
                "[[arm]]\nname = \"{}\"\n\
                 [[arm.place]]\npolicy = \"dca\"\nat = \"receiver\"\nlink = \"air\"\n\
                 hold = \"300 ms\"\nhold_min = \"300 ms\"\n\
                 [[arm.place]]\npolicy = \"none\"\nat = \"sender\"\nlink = \"air\"\n\
                 cwnd_hint = {tell}\n",
                if tell { "told" } else { "untold" }
            )
        })
        .concat()
}

fn cwnd_hints(run: &Run) -> Option<u64> {
    run.datapath.as_ref().expect("two datapaths")["sender/air"]["cwnd_hints"].as_u64()
}

const BULK: &str = "app = \"bulk\"\nbytes = \"44 kB\"";

#[test]
fn a_receiver_that_is_told_waits_no_longer_than_the_sender_can_send() {
    let _lock = lock_tests();
    let report = run_pinned("hint", &slow("half", BULK, &arms()));
    for run in &report.runs {
        let content = run.totals.content.as_ref().expect("bytes are compared");
        assert!(content.ok, "{}", run.id);
        assert_eq!(content.bytes, 44_000, "{}", run.id);
        // One packet at a time: headers are 40 bytes of IP and TCP, and 14 of Ethernet.
        let bytes = run.totals.bytes
            + 54 * run.totals.data_segments
            + run.totals.ack_bytes_on_wire.unwrap_or(0)
            + 14 * run.totals.acks_on_wire;
        let busy_s = bytes as f64 * 8.0 / RATE as f64;
        assert!(busy_s < run.totals.duration_s, "{}: {busy_s} s", run.id);
    }
    let [untold, told_run] = ["untold", "told"].map(|arm| of(&report, arm));
    assert_eq!(cwnd_hints(untold), None);
    // The very first segments leave before the receiver has sent anything.
    assert!(
        cwnd_hints(told_run) >= Some(480),
        "{:?}",
        cwnd_hints(told_run)
    );
    // Without hints it holds for five and more segments whatever the window is.
    assert!(told_run.totals.goodput_bps > 1.5 * untold.totals.goodput_bps);
    let stock = of(&report, "baseline");
    assert!(told_run.totals.acks_on_wire < stock.totals.acks_on_wire * 3 / 4);
}

/// Answers leave as soon as they are requested: no segment may advertise less than the sender is
/// ready to receive.
#[test]
fn nothing_is_told_while_the_other_side_sends() {
    let _lock = lock_tests();
    let flow = "app = \"request-response\"\nrequest = \"60 B\"\nresponse = \"80 B\"\ncount = 50";
    let report = run(&slow("half", flow, &arms()));
    assert_eq!(cwnd_hints(of(&report, "told")), None);
}

/// A link is faster full duplex than half duplex, by the time that ACKs take.
#[test]
fn a_shared_medium_is_slower() {
    let _lock = lock_tests();
    let [half, full] = ["half", "full"].map(|duplex| {
        let report = run(&slow(duplex, BULK, ""));
        of(&report, "baseline").totals.clone()
    });
    assert!(full.goodput_bps > 1.1 * half.goodput_bps);
}
