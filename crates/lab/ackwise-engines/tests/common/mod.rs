//! Helpers for the tests of the live engine.

#![allow(dead_code)]

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ackwise_engines::live::{self, RunOptions};
use ackwise_engines::netns;
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Report, Run};

/// Tests run one at a time: each has real-time threads, and machines are small.
static TEST_LOCK: Mutex<()> = Mutex::new(());

/// Waits for the test's turn. Panics with a clear message if the test is not run as root.
pub fn lock_tests() -> MutexGuard<'static, ()> {
    assert!(
        nix::unistd::geteuid().is_root(),
        "these tests make network namespaces and need root: `make test` runs them with sudo"
    );
    TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A scenario of two hosts and one link, with a baseline arm.
pub fn two_hosts(duration: &str, link: &str, flow: &str) -> Scenario {
    scenario(
        duration,
        &format!(
            r#"
            [[node]]
            name = "sender"
            [[node]]
            name = "receiver"
            [[link]]
            name = "wan"
            between = ["sender", "receiver"]
            {link}
            {flow}
            "#
        ),
    )
}

/// A scenario with a baseline arm.
pub fn scenario(duration: &str, body: &str) -> Scenario {
    let text = format!(
        r#"
        [scenario]
        name = "lab-test"
        duration = "{duration}"
        {body}
        [sweep]
        cc = ["cubic"]
        [[arm]]
        name = "baseline"
        "#
    );
    Scenario::parse("lab-test.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// One bulk flow from sender to receiver.
pub const BULK: &str = r#"
    [[flow]]
    name = "bulk"
    from = "sender"
    to = "receiver"
    app = "bulk"
"#;

/// Runs a scenario, and checks that it leaves nothing behind.
pub fn run_with(scenario: &Scenario, options: &RunOptions) -> Report {
    let report =
        live::run(scenario, options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(mine(), Vec::<String>::new(), "namespaces are left");
    report
}

/// Waits for the turn and runs a scenario with a single run.
pub fn run(scenario: &Scenario) -> Run {
    let _lock = lock_tests();
    let run = only(run_with(scenario, &RunOptions::default()));
    assert_eq!(run.errors, Vec::<String>::new());
    run
}

/// Waits for the turn and runs a scenario of two hosts and one link.
pub fn run_two(duration: &str, link: &str, flow: &str) -> Run {
    run(&two_hosts(duration, link, flow))
}

/// The only run of a report.
pub fn only(mut report: Report) -> Run {
    assert_eq!(report.runs.len(), 1);
    report.runs.remove(0)
}

/// Namespaces created by this process.
pub fn mine() -> Vec<String> {
    of_process(std::process::id())
}

/// Namespaces created by a process.
pub fn of_process(pid: u32) -> Vec<String> {
    let stem = format!("ackwise-{pid}-");
    netns::own_namespaces()
        .into_iter()
        .filter(|name| name.starts_with(&stem))
        .collect()
}

/// The command that starts this test as another process.
pub fn myself(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1");
    command
}

/// Set in a process that [`myself`] started.
pub const CHILD: &str = "ACKWISE_LAB_TEST_CHILD";

/// Asserts what holds for every good run with one bulk flow over a link.
pub fn assert_sound(run: &Run, rate_bps: f64, rtt_us: f64) {
    assert_eq!(run.errors, Vec::<String>::new());
    let totals = &run.totals;
    let content = totals.content.as_ref().expect("contents are checked");
    assert!(content.ok, "{content:?}");
    assert_eq!(content.bytes, totals.bytes);
    assert!(totals.bytes > 0);
    assert!(
        totals.goodput_bps <= rate_bps,
        "{} bit/s over a link of {rate_bps}",
        totals.goodput_bps
    );
    let rtt = totals.rtt_us.expect("round-trip times are sampled");
    assert!(
        rtt.min.unwrap_or(0.0) >= rtt_us,
        "{rtt:?} is below the link's {rtt_us} µs"
    );
    assert!(totals.acks_on_wire > 0 && totals.data_segments > 0);
    let acks = totals.acks.expect("ACKs are counted by kind");
    assert_eq!(acks.total(), totals.acks_on_wire);
    // Every byte crossed in a segment of at most one MSS.
    assert!(totals.data_segments >= totals.bytes / 1460);
}
