//! A policer in virtual time: the kernel does token buckets, and the emulator does the other modes.

mod virtual_harness;

use std::fs;
use std::path::Path;

use ackwise_engines::topology::LinkBackend;
use ackwise_engines::virt;
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{QueueRecord, Report, Run, Traffic};
use virtual_harness::{BASELINE, lock_tests, options, run, run_with, two_hosts};

const LINK: &str = r#"
forward = { rate = "10 Mbit/s", delay = "5 ms", queue = "60 packets" }
reverse = { rate = "10 Mbit/s", delay = "5 ms", queue = "60 packets" }"#;
const BULK: &str = "app = \"bulk\"";

fn uplink(run: &Run) -> &QueueRecord {
    let found = run.queues.iter().find(|queue| queue.name == "wan.reverse");
    found.unwrap()
}

fn policed(police: &str) -> String {
    format!(
        "{BASELINE}[[arm]]\nname = \"policed\"\nchange = {{ \"link.wan.reverse.police\" = \
         {{ {police} }} }}\n"
    )
}

/// The baseline run and the policed run.
fn both(report: &Report) -> [&Run; 2] {
    let [whole, policed] = &report.runs[..] else {
        panic!("{} runs", report.runs.len());
    };
    assert_eq!(uplink(whole).policed.unwrap_or(0), 0);
    [whole, policed]
}

/// Asserts that a second run of the scenario gives the same report, packet for packet.
fn again(scenario: &Scenario, report: &Report) {
    assert_eq!(run(scenario).to_json().unwrap(), report.to_json().unwrap());
}

#[test]
fn four_of_five_acks_are_dropped_and_the_transfer_goes_on() {
    let _lock = lock_tests();
    let arms = policed("drop = \"80 %\", mode = \"even\"");
    let scenario = two_hosts("3 s", LINK, BULK, &arms);
    let report = run(&scenario);
    let [whole, policed] = both(&report);
    let queue = uplink(policed);
    let (dropped, passed) = (queue.policed.unwrap(), queue.arrivals.unwrap());
    assert!(dropped > 200, "{queue:?}");
    // Even: each fifth pure ACK passes, and so do segments that are not pure ACKs (a SYN, a FIN).
    assert!(
        (4 * passed - 20..=4 * passed).contains(&dropped),
        "{dropped} dropped, {passed} passed"
    );
    let share = policed.totals.goodput_bps / whole.totals.goodput_bps;
    assert!(share > 0.9, "{share}");
    assert!(policed.totals.content.as_ref().unwrap().ok);
    again(&scenario, &report);
}

/// The bucket pays for 100 of some 410 ACKs/s, 70 bytes each, plus ten at the start.
const BUCKET: &str = "rate = \"56 kbit/s\", burst = \"700 B\", length = \"ethernet-frame\"";

/// How much of the bucket's rate a flow used, with ACKs of `bytes` each.
fn used(traffic: &Traffic, bytes: f64) -> f64 {
    let paid = (700.0 + 7000.0 * traffic.duration_s) / bytes;
    traffic.acks_on_wire as f64 / paid
}

#[test]
fn a_bucket_is_the_kernel_s_and_lets_pass_what_the_emulator_s_does() {
    let _lock = lock_tests();
    let scenario = two_hosts("3 s", LINK, BULK, &policed(BUCKET));
    let report = run(&scenario);
    let [whole, policed] = both(&report);
    let made = report.environment.link_emulator.as_deref().unwrap();
    assert!(made.contains("netem"), "{made}");
    let queue = uplink(policed);
    assert!(queue.policed.unwrap() > 500, "{queue:?}");
    // At least a SYN and a FIN besides the ACKs.
    let others = queue.arrivals.unwrap() - policed.totals.acks_on_wire;
    assert!((2..=5).contains(&others), "{others}");
    let share = policed.totals.goodput_bps / whole.totals.goodput_bps;
    assert!(share > 0.9, "{share}");
    again(&scenario, &report);

    let mut emulated = options();
    emulated.run.backend = LinkBackend::Emulator;
    let report = run_with(&scenario, &emulated);
    let [_, other] = both(&report);
    for run in [policed, other] {
        let used = used(&run.totals, 70.0);
        assert!((0.95..=1.01).contains(&used), "{used}");
    }
    let ratio = other.totals.goodput_bps / policed.totals.goodput_bps;
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
}

#[test]
fn of_two_sessions_one_is_policed() {
    let _lock = lock_tests();
    // An arm cannot change a list, but it can change a rate.
    let police = BUCKET.replace("56 kbit/s", "10 Mbit/s");
    let link = LINK.replace(
        "reverse = {",
        &format!("reverse = {{ police = {{ {police}, flows = [\"flow\"] }},"),
    );
    let arms = format!(
        "{BASELINE}[[arm]]\nname = \"policed\"\n\
         change = {{ \"link.wan.reverse.police.rate\" = \"56 kbit/s\" }}\n"
    );
    // An IPv6 frame has 20 bytes more.
    for (version, bytes) in [(4, 70.0), (6, 90.0)] {
        let one = format!("socket = {{ ip = {version} }}\napp = \"bulk\"");
        let flows = format!(
            "{one}\n[[flow]]\nname = \"other\"\nfrom = \"sender\"\nto = \"receiver\"\n{one}"
        );
        let report = run(&two_hosts("3 s", &link, &flows, &arms));
        let [whole, policed] = both(&report);
        let traffic = |run: &Run, name: &str| {
            let found = run.flows.iter().find(|flow| flow.flow == name);
            found.unwrap().traffic.clone()
        };
        let [before, after] = [whole, policed].map(|run| traffic(run, "flow"));
        assert!(before.acks_on_wire > 2 * after.acks_on_wire, "{before:?}");
        let used = used(&after, bytes);
        assert!((0.95..=1.01).contains(&used), "{version}: {used}");
        assert!(traffic(policed, "other").acks_on_wire > before.acks_on_wire / 2);
        assert!(policed.totals.content.as_ref().unwrap().ok);
    }
}

/// A scenario of Pavilanskas 2010, shortened to a second.
fn pavilanskas(name: &str) -> Scenario {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/papers/pavilanskas-2010");
    let text = fs::read_to_string(root.join(name)).unwrap();
    let old = text.lines().find(|line| line.starts_with("duration = "));
    let text = text.replace(old.unwrap(), "duration = \"1 s\"");
    Scenario::parse(name, &text).unwrap_or_else(|error| panic!("{error}"))
}

/// Does the wanted runs twice, and asserts that the results are equal.
fn twice(scenario: &Scenario, wanted: impl Fn(&str) -> bool) -> Report {
    let mut options = options();
    let runs = scenario.runs().into_iter().map(|run| run.id);
    options.run.only = runs.filter(|id| wanted(id)).collect();
    let [once, again] = [(), ()].map(|()| virt::run(scenario, &options, &mut |_| {}).unwrap());
    assert_eq!(once.to_json().unwrap(), again.to_json().unwrap());
    assert_eq!(once.runs.len(), options.run.only.len());
    once
}

#[test]
fn the_paper_s_bridge_repeats_itself() {
    let _lock = lock_tests();
    let report = twice(&pavilanskas("live.toml"), |id| {
        ["baseline", "dropped-80", "held-80"].contains(&id.split('/').next().unwrap())
    });
    let rate = |arm: &str, buffer: &str| {
        let mut runs = report.runs.iter();
        let run = runs.find(|run| run.arm == arm && run.id.contains(buffer));
        run.unwrap().totals.goodput_bps
    };
    for buffer in ["16 KiB", "64 KiB"] {
        let whole = rate("baseline", buffer);
        assert!(rate("held-80", buffer) > 0.85 * whole, "{buffer}");
    }
    // A window of some 20 segments starves; one of 80 does not.
    assert!(rate("dropped-80", "16 KiB") < 0.3 * rate("baseline", "16 KiB"));
    assert!(rate("dropped-80", "64 KiB") > 0.95 * rate("baseline", "64 KiB"));
}

#[test]
fn of_the_paper_s_two_sessions_one_is_dropped_or_held() {
    let _lock = lock_tests();
    let report = twice(&pavilanskas("live-one.toml"), |id| {
        !id.contains("free") && !id.starts_with("baseline")
    });
    for run in &report.runs {
        let [first, second] = ["tcp1", "tcp2"].map(|name| {
            let found = run.flows.iter().find(|flow| flow.flow == name);
            let traffic = &found.unwrap().traffic;
            (traffic.goodput_bps, traffic.segments_per_ack.unwrap())
        });
        assert!(
            first.1 > 4.0 && second.1 < 2.2,
            "{}: {first:?} {second:?}",
            run.id
        );
        let share = first.0 / (first.0 + second.0);
        assert!((0.4..0.6).contains(&share), "{}: {share}", run.id);
    }
}
