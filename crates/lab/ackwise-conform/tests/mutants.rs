//! The suite's own test: a filter that keeps the rules passes, and one that breaks any of
//! them is caught, by the case that is there for it.

mod reference;

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use ackwise_conform::{Device as _, DeviceReport, InProcess, Schedule, cases, judge};
use reference::{Mutation, Reference};

fn report(schedule: &Schedule, broken: Option<Mutation>) -> DeviceReport {
    let mut device = InProcess::new("reference", Reference::new(broken));
    let arrivals = device.run(schedule).expect("no I/O");
    judge("reference", schedule, device.shaper(), &arrivals)
}

fn failures(report: &DeviceReport) -> Vec<String> {
    let failed = report.failed();
    failed
        .map(|(case, finding)| format!("{}: {:?} {}", case.case, finding.failure, finding.what))
        .collect()
}

#[test]
fn a_filter_that_keeps_the_rules_passes_and_thins() {
    let report = report(&Schedule::new(&cases()), None);
    assert_eq!(failures(&report), [""; 0]);
    for case in ["plain", "accecn"] {
        let thinned = report.thinned(Some(case)).expect("ACKs");
        assert!(thinned > 20.0, "{case}: {thinned}");
    }
}

#[test]
fn each_mutant_is_caught_by_its_case() {
    assert!(Mutation::ALL.len() >= 40);
    let schedule = Schedule::new(&cases());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut missed = Vec::new();
        while let Some(&mutation) = Mutation::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = report(&schedule, Some(mutation));
            let failed: Vec<&str> = report.failed().map(|(it, _)| it.case.as_str()).collect();
            if !failed.contains(&mutation.caught_by()) {
                let case = mutation.caught_by();
                missed.push(format!(
                    "{mutation:?}: {case} passed, these failed: {failed:?}"
                ));
            }
        }
        missed
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let missed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|it| it.join().expect("no panic"));
        ended.flatten().collect()
    });
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// No case is there in vain: a mutant is caught by it, or it has a reason to be there.
#[test]
fn cases_without_a_mutant_of_their_own_are_known() {
    let caught: HashSet<&str> = Mutation::ALL.iter().map(|it| it.caught_by()).collect();
    let cases = cases();
    let without = cases.iter().filter(|case| !caught.contains(case.name));
    let names: Vec<&str> = without.map(|case| case.name).collect();
    assert!(names.len() < 24, "{names:?}");
}
