//! Helpers for the tests in virtual time.

#![allow(dead_code)]

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ackwise_engines::virt::{self, VirtualOptions};
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Report, Run};
use sha2::{Digest, Sha256};

/// Each test uses all cores.
static TEST_LOCK: Mutex<()> = Mutex::new(());

/// Waits for the test's turn.
pub fn lock_tests() -> MutexGuard<'static, ()> {
    TEST_LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Options with the tests' own first program for the guest.
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

/// Runs a scenario, and asserts that no run has errors.
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

/// Runs a scenario, and compares the result with `pins/NAME.txt` if the kernel is the one with
/// which the file was written: the mirror keeps only the newest. On another kernel it runs again,
/// and both results must be equal. `ACKWISE_BLESS=1` writes the file.
pub fn run_pinned(name: &str, scenario: &Scenario) -> Report {
    let report = run(scenario);
    let text = pins(&report);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pins/{name}.txt"));
    if std::env::var_os("ACKWISE_BLESS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let pinned = fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!("{}: {error}; ACKWISE_BLESS=1 makes it", path.display());
    });
    let kernel = |text: &str| text.lines().next().map(str::to_owned);
    if kernel(&pinned) == kernel(&text) {
        let path = path.display();
        let hint = "if this was meant to change, ACKWISE_BLESS=1 writes it down";
        assert_eq!(text, pinned, "{path}: {hint}");
    } else {
        let [it, here] = [&pinned, &text].map(|it| kernel(it).unwrap_or_default());
        eprintln!("{name}: pinned with {it}; on {here} two runs are compared instead");
        assert_eq!(text, pins(&run(scenario)), "{name}: a second run differs");
    }
    report
}

/// The kernel's version, and one line per run.
fn pins(report: &Report) -> String {
    let about = report.environment.kernel.as_deref().unwrap_or_default();
    let version = about
        .split(['(', ',', ' '])
        .find(|word| word.starts_with(|it: char| it.is_ascii_digit()) && word.contains('-'));
    let mut text = format!("kernel {}\n", version.unwrap_or("unknown"));
    report.runs.iter().for_each(|run| text.push_str(&line(run)));
    text
}

/// The pinned values of a run: numbers that a reader can compare, and a hash of the whole.
fn line(run: &Run) -> String {
    let totals = &run.totals;
    let mut line = format!(
        "{}: {} B, {} segments, {} ACKs, {} again",
        run.id, totals.bytes, totals.data_segments, totals.acks_on_wire, totals.retransmits
    );
    for place in run.datapath.iter().filter_map(|it| it.as_object()) {
        for counters in place.values() {
            let held = &counters["hold_times"];
            line.push_str(&format!(
                ", {} withheld, {} by deadline, {} held {} us",
                counters["withheld"], counters["reemitted"], held["count"], held["sum_us"]
            ));
        }
    }
    format!("{line}, record {}\n", hash(run))
}

/// The hash of a record, wherever it was made. It leaves out the datapath's memory, which says
/// nothing of the run and grows with each new policy.
pub fn hash(run: &Run) -> String {
    let mut run = run.clone();
    for place in run.datapath.iter_mut().filter_map(|it| it.as_object_mut()) {
        for counters in place.values_mut().filter_map(|it| it.as_object_mut()) {
            counters.remove("memory");
            counters.remove("memory_bytes");
        }
    }
    let text = serde_json::to_vec(&run).expect("a record is JSON");
    let digest = Sha256::digest(text);
    digest
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
