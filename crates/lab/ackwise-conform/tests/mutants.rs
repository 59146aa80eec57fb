//! Tests the suite itself: a filter that keeps the rules passes, and one that breaks any of them is
//! caught by the case for that rule.

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
fn each_mutant_is_caught_by_its_case_and_each_case_can_be_failed() {
    assert!(Mutation::ALL.len() >= 40);
    let schedule = Schedule::new(&cases());
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut missed, mut seen) = (Vec::new(), HashSet::new());
        while let Some(&mutation) = Mutation::ALL.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = report(&schedule, Some(mutation));
            let failed: Vec<&str> = report.failed().map(|(it, _)| it.case.as_str()).collect();
            seen.extend(failed.iter().map(|case| (*case).to_owned()));
            if !failed.contains(&mutation.caught_by()) {
                let case = mutation.caught_by();
                missed.push(format!(
                    "{mutation:?}: {case} passed, these failed: {failed:?}"
                ));
            }
        }
        (missed, seen)
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut missed, mut seen) = (Vec::new(), HashSet::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let (its_missed, its_seen) = worker.join().expect("no panic");
            missed.extend(its_missed);
            seen.extend(its_seen);
        }
    });
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    let all = cases();
    let passed_by_all = all.iter().map(|case| case.name);
    let passed_by_all: Vec<_> = passed_by_all.filter(|it| !seen.contains(*it)).collect();
    assert_eq!(passed_by_all, [""; 0], "no mutant fails them");
}

#[test]
fn mutants_name_cases_that_are_there() {
    let names: HashSet<&str> = cases().iter().map(|case| case.name).collect();
    for mutation in Mutation::ALL {
        assert!(names.contains(mutation.caught_by()), "{mutation:?}");
    }
}
