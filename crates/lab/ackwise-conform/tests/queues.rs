//! Judges the queues of this repository.

use ackwise_conform::{
    Device as _, DeviceReport, InProcess, Outcome, Queue, QueueFilter, Schedule, cases, judge,
};

fn report<F: QueueFilter>(name: &str, filter: F) -> DeviceReport {
    let schedule = Schedule::new(&cases());
    let mut device = InProcess::new(name, filter);
    let arrivals = device.run(&schedule).expect("no I/O");
    judge(name, &schedule, device.shaper(), &arrivals)
}

fn failures(report: &DeviceReport) -> Vec<String> {
    let failed = report.failed();
    failed
        .map(|(case, finding)| format!("{}: {:?} {}", case.case, finding.failure, finding.what))
        .collect()
}

/// A device that passes everything fails nothing: the cases ask for no more than a wire does.
#[test]
fn a_plain_queue_conforms() {
    let report = report("plain", Queue::plain());
    assert_eq!(failures(&report), [""; 0]);
    assert_eq!(report.thinned(None), Some(0.0));
}

#[test]
fn the_contract_conforms_and_thins() {
    let report = report("contract", Queue::contract());
    let failed: Vec<&str> = report
        .failed()
        .map(|(case, _)| case.case.as_str())
        .collect();
    // It sees only one direction, and cannot know which numbers were sent.
    assert_eq!(failed, ["number-never-sent"], "{:?}", failures(&report));
    let thinned = report.thinned(Some("plain")).expect("ACKs");
    assert!(thinned > 30.0, "{thinned}");
}

#[test]
fn the_filter_of_ns2_is_unsafe() {
    let report = report("ns-2", Queue::ns2());
    assert_eq!(report.outcome(), Outcome::Unsafe);
    let failed: Vec<&str> = report
        .failed()
        .map(|(case, _)| case.case.as_str())
        .collect();
    for case in [
        "ece-once",
        "sack-advances",
        "older-timestamp",
        "accecn-counter",
    ] {
        assert!(failed.contains(&case), "{case} passed; failed: {failed:?}");
    }
}
