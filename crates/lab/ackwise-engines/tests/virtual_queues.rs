//! Links of the kernel in virtual time: the wire that a scenario asks for, and the kernel's own
//! queue disciplines.

mod virtual_harness;

use ackwise_engines::live::RunOptions;
use ackwise_engines::topology::LinkBackend;
use ackwise_engines::virt::{self, VirtualOptions};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{QueueRecord, Report, Run};
use virtual_harness::{BASELINE, arm, lock_tests, of, options, run_pinned, run_with, two_hosts};

fn queue<'a>(run: &'a Run, name: &str) -> &'a QueueRecord {
    let found = run.queues.iter().find(|queue| queue.name == name);
    found.unwrap_or_else(|| panic!("{}: no queue {name}", run.id))
}

fn on(backend: LinkBackend, scenario: &Scenario) -> Run {
    let options = VirtualOptions {
        run: RunOptions {
            backend,
            ..RunOptions::default()
        },
        ..options()
    };
    run_with(scenario, &options).runs.remove(0)
}

/// One request and its response of a segment each: nothing queues, so the time is that of the wire.
/// 90 and 90 bytes at 1 Mbit/s, and 10 ms.
#[test]
fn a_wire_takes_its_time_to_the_microsecond() {
    let _lock = lock_tests();
    let link = r#"both = { rate = "1 Mbit/s", delay = "5 ms", queue = "9 packets" }"#;
    let flow = r#"app = "request-response"
request = "24 B"
response = "24 B"
count = 20"#;
    let scenario = two_hosts("2 s", link, flow, BASELINE);
    let netem = on(LinkBackend::Netem, &scenario);
    let time = netem.totals.completion.as_ref().expect("exchanges").time_us;
    // Two frames of 24 bytes, options and headers (66): 720 µs each.
    let wire = 2.0 * (5000.0 + 720.0);
    assert!(
        (wire..wire + 20.0).contains(&time.p50),
        "{} µs instead of {wire}",
        time.p50
    );
    assert_eq!(time.min, Some(time.p50));
}

/// An ACK for 16 segments lets twice as many leave in slow start, more than this queue holds.
#[test]
fn a_sender_that_paces_does_not_overflow_a_short_queue() {
    let _lock = lock_tests();
    let link = r#"
forward = { rate = "20 Mbit/s", delay = "150 ms", queue = "24 packets" }
reverse = { delay = "150 ms" }"#;
    let goodput = |flow: &str| {
        let arms = format!(
            "{BASELINE}{}[sweep]\ncc = [\"reno\"]\n",
            arm("every-n", "set = { n = 16, warm = 0 }")
        );
        let scenario = two_hosts("10 s", link, flow, &arms);
        of(&run_with(&scenario, &options()), "every-n")
            .totals
            .goodput_bps
    };
    let bursts = goodput("app = \"bulk\"");
    let paced = goodput("app = \"bulk\"\nsocket = { pacing = true }");
    assert!(paced > 2.0 * bursts, "{paced} instead of {bursts}");
}

/// The kernel's link and the emulator are two implementations of the same wire.
#[test]
fn the_emulator_agrees() {
    let _lock = lock_tests();
    let link = r#"
forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets" }
reverse = { rate = "1 Mbit/s", delay = "10 ms", queue = "16 KiB" }"#;
    let scenario = two_hosts("3 s", link, "app = \"bulk\"", BASELINE);
    let (kernel, emulator) = (
        on(LinkBackend::Netem, &scenario),
        on(LinkBackend::Emulator, &scenario),
    );
    let near = |what: &str, a: f64, b: f64, share: f64| {
        assert!((a - b).abs() <= share * b, "{what}: {a} and {b}");
    };
    let (a, b) = (&kernel.totals, &emulator.totals);
    near("goodput", a.goodput_bps, b.goodput_bps, 0.01);
    near("ACKs", a.acks_on_wire as f64, b.acks_on_wire as f64, 0.02);
    let rtt = |run: &Run| run.totals.rtt_us.as_ref().expect("samples").p50;
    near("RTT", rtt(&kernel), rtt(&emulator), 0.02);
    let drops = |run: &Run| queue(run, "wan.forward").drops as f64;
    assert!(drops(&kernel) > 0.0);
    near("drops", drops(&kernel), drops(&emulator), 0.25);
}

/// netem's losses come from the scenario's seed, and match the scenario's probability.
#[test]
fn the_wire_loses_and_doubles_what_it_should() {
    let _lock = lock_tests();
    let link = r#"both = { rate = "20 Mbit/s", delay = "1 ms", queue = "60 packets", loss = "1 %", duplicate = "2 %" }"#;
    let report = run_pinned(
        "loss-of-the-wire",
        &two_hosts("4 s", link, "app = \"bulk\"", BASELINE),
    );
    let run = &report.runs[0];
    let forward = queue(run, "wan.forward");
    let sent = forward.arrivals.unwrap() - forward.drops;
    let lost = forward.losses.unwrap() as f64 / sent as f64;
    assert!((0.006..0.014).contains(&lost), "{lost}");
    let arrived = run.totals.data_segments as f64;
    let expected = sent as f64 * (1.02 - lost);
    assert!((arrived - expected).abs() < 0.01 * expected, "{arrived}");
    assert!(run.totals.content.as_ref().unwrap().ok);
}

const THIN: &str = r#"
forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "100 packets" }
reverse = { rate = "100 kbit/s", delay = "10 ms", queue = "64 KiB" }"#;

/// An arm that changes the uplink's queue.
fn uplink(name: &str, queue: &str) -> String {
    format!(
        "[[arm]]\nname = \"{name}\"\nchange = {{ \"link.wan.reverse.queue\" = {{ {queue} }} }}\n"
    )
}

#[test]
fn cake_filters_acks_on_a_thin_uplink() {
    let _lock = lock_tests();
    let cake = r#"limit = "64 KiB", discipline = "cake""#;
    let arms = [
        BASELINE.to_owned(),
        uplink("cake", cake),
        uplink("filter", &format!(r#"{cake}, ack_filter = "cake""#)),
        uplink(
            "aggressive",
            &format!(r#"{cake}, ack_filter = "cake-aggressive""#),
        ),
    ];
    let report = run_pinned(
        "cake",
        &two_hosts("5 s", THIN, "app = \"bulk\"", &arms.concat()),
    );
    let goodput = |arm: &str| of(&report, arm).totals.goodput_bps;
    let filtered = |arm: &str| queue(of(&report, arm), "wan.reverse").filtered;
    assert_eq!(filtered("baseline"), None);
    assert_eq!(filtered("cake"), Some(0));
    for arm in ["filter", "aggressive"] {
        assert!(filtered(arm).unwrap() > 1000, "{arm}: {:?}", filtered(arm));
        // At least half as much again; in fact some three times as much.
        assert!(goodput(arm) > 1.5 * goodput("baseline"), "{arm}");
        // Filtered ACKs are neither dropped nor on the wire.
        let uplink = queue(of(&report, arm), "wan.reverse");
        let on_wire = of(&report, arm).totals.acks_on_wire;
        let gone = uplink.drops + uplink.filtered.unwrap();
        let arrived = uplink.arrivals.unwrap();
        assert!(
            arrived.abs_diff(on_wire + gone) <= 5,
            "{arm}: {arrived}, {on_wire}, {gone}"
        );
    }
}

/// Three downloads fill the uplink with ACKs, one flow each; an upload is one more flow.
#[test]
fn cake_gives_acks_a_share_and_knows_a_long_way() {
    let _lock = lock_tests();
    let cake = r#"limit = "4 MB", discipline = "cake", ack_filter = "cake-aggressive""#;
    let arms = [
        BASELINE.to_owned(),
        uplink("plain", cake),
        uplink("tin", &format!(r#"{cake}, ack_tin = "voice""#)),
        uplink("rtt", &format!(r#"{cake}, rtt = "1 s""#)),
    ];
    let link = r#"
forward = { rate = "20 Mbit/s", delay = "150 ms", queue = "300 packets" }
reverse = { rate = "200 kbit/s", delay = "150 ms", queue = "64 KiB" }"#;
    let flows = r#"app = "bulk"
connections = 3
[[flow]]
name = "upload"
from = "receiver"
to = "sender"
app = "bulk""#;
    let report = run_with(&two_hosts("20 s", link, flows, &arms.concat()), &options());
    let upload = |arm: &str| {
        let flows = of(&report, arm).flows.iter();
        let mut flow = flows.filter(|flow| flow.flow == "upload");
        flow.next().unwrap().traffic.goodput_bps
    };
    assert!(upload("tin") > 1.1 * upload("plain"));
    let uplink = |arm: &str| queue(of(&report, arm), "wan.reverse");
    assert!(uplink("tin").filtered.unwrap() > 100);
    // CoDel waits for a second before it drops, instead of a tenth of a second.
    assert!(uplink("rtt").drops < uplink("plain").drops);
}

#[test]
fn queues_of_the_kernel_keep_delay_down() {
    let _lock = lock_tests();
    let down = |name: &str, queue: &str| {
        format!(
            "[[arm]]\nname = \"{name}\"\nchange = {{ \"link.wan.forward.queue\" = {{ {queue} }} }}\n"
        )
    };
    let link = r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "500 packets" }"#;
    let arms = [
        BASELINE.to_owned(),
        down(
            "fq_codel",
            r#"limit = "500 packets", discipline = "fq_codel""#,
        ),
        down(
            "red",
            r#"limit = "500 packets", discipline = "red", min = "20 packets", max = "60 packets", mean_packet = "1514 B""#,
        ),
        down(
            "marks",
            r#"limit = "500 packets", discipline = "red", min = "20 packets", max = "60 packets", mean_packet = "1514 B", ecn = true"#,
        ),
    ];
    let flow = "app = \"bulk\"\nsocket = { ecn = true }";
    let report = run_pinned("disciplines", &two_hosts("5 s", link, flow, &arms.concat()));
    let rtt = |arm: &str| of(&report, arm).totals.rtt_us.as_ref().unwrap().p50;
    for arm in ["fq_codel", "red", "marks"] {
        assert!(rtt(arm) < 0.5 * rtt("baseline"), "{arm}: {} µs", rtt(arm));
    }
    let down = |arm: &str| queue(of(&report, arm), "wan.forward");
    assert!(down("red").early_drops > 0);
    assert!(down("marks").marks > 0);
    assert_eq!(down("marks").early_drops, 0);
    assert!(down("fq_codel").marks + down("fq_codel").drops > 0);
}

/// The kernel's TCP and the datapath run the same policy; on the same path they give the same
/// result.
#[test]
fn a_policy_in_the_stack_does_what_it_does_in_the_datapath() {
    let _lock = lock_tests();
    let stack = "[[arm]]\nname = \"stack\"\npolicy = \"adaptive\"\nat = \"receiver\"\nlink = \"wan\"\nenvironment = \"stack\"\n";
    let arms = [BASELINE.to_owned(), arm("adaptive", ""), stack.to_owned()];
    let scenario = |link: &str| two_hosts("5 s", link, "app = \"bulk\"", &arms.concat());
    let goodput = |report: &Report, arm: &str| of(report, arm).totals.goodput_bps;
    let acks = |report: &Report, arm: &str| {
        let totals = &of(report, arm).totals;
        totals.acks_on_wire as f64 / totals.data_segments as f64
    };
    let lossy = run_pinned("stack", &scenario(THIN));
    // A queue that never overflows.
    let lossless = run_with(
        &scenario(&THIN.replace("100 packets", "2000 packets")),
        &options(),
    );
    for report in [&lossy, &lossless] {
        for arm in ["adaptive", "stack"] {
            assert!(
                goodput(report, arm) > 1.5 * goodput(report, "baseline"),
                "{arm}"
            );
            assert!(acks(report, arm) < 0.3 * acks(report, "baseline"), "{arm}");
        }
        assert!(of(report, "stack").datapath.is_none());
    }
    assert_eq!(of(&lossless, "adaptive").totals.retransmits, 0);
    let ratio = |report: &Report| goodput(report, "stack") / goodput(report, "adaptive");
    let same = ratio(&lossless);
    assert!((0.9..1.1).contains(&same), "{same}");
    // During recovery the stack answers each segment at once, while the datapath withholds SACK
    // blocks that a later ACK covers.
    let behind = ratio(&lossy);
    assert!((0.8..1.1).contains(&behind), "{behind}");
}

#[test]
fn what_a_kernel_cannot_do_is_refused_before_anything_runs() {
    let scenario = two_hosts(
        "1 s",
        THIN,
        "app = \"bulk\"",
        &format!(
            "{BASELINE}{}",
            uplink("first", r#"limit = "9 packets", acks_first = true"#)
        ),
    );
    let error = virt::run(&scenario, &options(), &mut |_| panic!("it ran")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("queue.acks_first") && text.contains("--on sim"),
        "{text}"
    );
}
