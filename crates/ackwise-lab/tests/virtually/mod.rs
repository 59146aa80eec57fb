//! What the tests in virtual time share.

#![allow(dead_code)]

use std::sync::{Mutex, MutexGuard, PoisonError};

use ackwise_lab::virt::{self, VirtualOptions};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Report, Run};
use sha2::{Digest, Sha256};

/// Each test uses all cores.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn of a test.
pub fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The tests' own first program for the guest.
pub fn options() -> VirtualOptions {
    VirtualOptions {
        init: Some(env!("CARGO_BIN_EXE_ackwise-guest").into()),
        ..VirtualOptions::default()
    }
}

/// Two hosts, one link and one flow; `arms` may hold sweeps too.
pub fn two_hosts(duration: &str, link: &str, flow: &str, arms: &str) -> Scenario {
    let text = format!(
        r#"
[scenario]
name = "virtual-test"
duration = "{duration}"
[[node]]
name = "sender"
[[node]]
name = "receiver"
[[link]]
name = "wan"
between = ["sender", "receiver"]
{link}
[[flow]]
name = "flow"
from = "sender"
to = "receiver"
{flow}
{arms}
"#
    );
    Scenario::parse("virtual-test.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

/// The stock receiver.
pub const BASELINE: &str = "[[arm]]\nname = \"baseline\"\n";

/// An arm with a policy at the receiver.
pub fn arm(policy: &str, set: &str) -> String {
    format!(
        "[[arm]]\nname = \"{policy}\"\npolicy = \"{policy}\"\nat = \"receiver\"\nlink = \"wan\"\n{set}\n"
    )
}

/// Runs a scenario; no run may have errors.
pub fn run(scenario: &Scenario) -> Report {
    run_with(scenario, &options())
}

pub fn run_with(scenario: &Scenario, options: &VirtualOptions) -> Report {
    let report =
        virt::run(scenario, options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    for run in &report.runs {
        assert_eq!(run.errors, Vec::<String>::new(), "{}", run.id);
    }
    assert_eq!(report.runs.len(), scenario.runs().len());
    report
}

pub fn of<'a>(report: &'a Report, arm: &str) -> &'a Run {
    report
        .runs
        .iter()
        .find(|run| run.arm == arm)
        .unwrap_or_else(|| panic!("no run of the arm {arm}"))
}

/// What identifies a record, whatever it was made on.
pub fn hash(run: &Run) -> String {
    let text = serde_json::to_vec(run).expect("a record is JSON");
    let digest = Sha256::digest(text);
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
