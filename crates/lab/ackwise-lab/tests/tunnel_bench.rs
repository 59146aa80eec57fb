//! `ackwise-lab tunnel-bench`, from the outside. No root.

use ackwise_testbed::program::Program;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

#[test]
fn bench_prints_what_bundles_cost() {
    let run = LAB.run(&["tunnel-bench", "--format", "json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let report: serde_json::Value = serde_json::from_str(&run.out).expect("JSON");
    let size = |name: &str| report["bytes_per_ack"][name].as_f64().expect("a number");
    assert!(size("aligned") <= 4.2 && size("aligned") > 1.0);
    assert!(size("entropy") <= 3.0 && size("entropy") > 1.0);
    assert!(size("sack_heavy") <= 6.5 && size("sack_heavy") > 1.0);
    assert!(report["acks_per_bundle"].as_f64().expect("a number") >= 40.0);
    assert_eq!(report["wrong_headers"], 0);
    assert_eq!(report["lost_beyond_bundle"], 0);
    assert!(report["lost_with_bundles"].as_u64() > Some(0));
    assert!(report["mux_acks_per_s"].as_f64() > Some(0.0));
    assert!(report["demux_acks_per_s"].as_f64() > Some(0.0));
}

#[test]
fn bench_refuses_what_is_no_capture() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("x.pcap");
    std::fs::write(&path, "no capture").expect("written");
    let path = path.to_str().expect("UTF-8");
    LAB.refuses(
        &["tunnel-bench", "--pcap", path],
        &["x.pcap: not a pcap file"],
    );
}
