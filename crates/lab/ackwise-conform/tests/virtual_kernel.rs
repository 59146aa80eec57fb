//! Tests devices of Linux 6.12 in virtual time. `docs/conformance.md` has what is asserted here.

use std::path::Path;

use ackwise_conform::{DeviceReport, Level, Place, Schedule, by_name, in_virtual_time};

fn report(device: &str) -> DeviceReport {
    let built_in = by_name(device).unwrap_or_else(|error| panic!("{error}"));
    let place = built_in.place(&Schedule::new(&[]), None);
    let Ok(Place::Kernel(spec, kernel)) = place else {
        panic!("{device} runs on no kernel")
    };
    let init = Path::new(env!("CARGO_BIN_EXE_ackwise-conform-guest"));
    in_virtual_time(&spec, &[], Some(&kernel), Some(init), None)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn failures(report: &DeviceReport) -> Vec<String> {
    let failed = report.failed();
    failed
        .map(|(case, finding)| format!("{}: {:?} {}", case.case, finding.failure, finding.what))
        .collect()
}

fn failed(report: &DeviceReport, level: Level) -> Vec<&str> {
    let failed = report.failed().filter(|(case, _)| case.level == level);
    failed.map(|(case, _)| case.case.as_str()).collect()
}

/// The suite asks for no more than a router with a plain queue does.
#[test]
fn plain_queues_conform() {
    for device in ["pfifo", "cake-no-ack-filter"] {
        let report = report(device);
        assert_eq!(failures(&report), [""; 0], "{device}");
        assert_eq!(report.thinned(None), Some(0.0), "{device}");
    }
}

#[test]
fn the_datapath_conforms_and_thins() {
    let report = report("datapath-every-n");
    assert_eq!(failures(&report), [""; 0]);
    let thinned = report.thinned(Some("plain")).expect("ACKs");
    assert!(thinned > 20.0, "{thinned}");
}

/// cake loses AccECN marks where ACE wraps, and thins hardly any ACKs of other flows with AccECN.
#[test]
fn the_filter_of_cake_loses_wraps_of_ace() {
    let report = report("cake-ack-filter");
    assert_eq!(
        failed(&report, Level::Must),
        ["accecn-wraps"],
        "{:?}",
        failures(&report)
    );
    let thinned = |case| report.thinned(Some(case)).expect("ACKs");
    assert!(thinned("plain") > 30.0, "{}", thinned("plain"));
    assert!(thinned("accecn") < 5.0, "{}", thinned("accecn"));
}

/// The tunnel restores every ACK exactly. A RST that follows an ACK does not wait for its bundle.
#[test]
fn the_tunnel_loses_nothing() {
    let report = report("tunnel");
    assert_eq!(
        failed(&report, Level::Must),
        [""; 0],
        "{:?}",
        failures(&report)
    );
    assert_eq!(
        failed(&report, Level::Should),
        ["order"],
        "{:?}",
        failures(&report)
    );
    assert_eq!(report.thinned(Some("plain")), Some(0.0));
}
