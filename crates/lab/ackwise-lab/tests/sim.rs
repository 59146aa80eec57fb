//! `run --on sim`: no root, no network.

use ackwise_testbed::program::{Ended, Program};
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

const QUICK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios/quick.toml");

#[test]
fn a_simulated_run_prints_the_promised_record() {
    let args = ["--format", "json", "run", QUICK, "--on", "sim"];
    let Ended { code, out, err } =
        LAB.run(&[&args[..], &["--cc", "cubic", "--jobs", "1"]].concat());
    assert_eq!(code, 0, "{err}");
    assert_eq!(err, "", "progress without a terminal");
    let record: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(record["engine"], "sim");
    let runs = record["runs"].as_array().unwrap();
    assert!(!runs.is_empty());
    for run in runs {
        assert!(run["goodput_bps"].as_f64().unwrap() > 1e5, "{run}");
        assert!(run["acks_on_wire"].as_u64().unwrap() > 0, "{run}");
        assert_eq!(run["content"]["ok"], true, "{run}");
    }
    let again = LAB
        .run(&[&args[..], &["--cc", "cubic", "--jobs", "2"]].concat())
        .out;
    assert_eq!(again, out, "the same on any number of threads");
}

#[test]
fn what_the_simulator_cannot_do_is_bad_input() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("westwood.toml");
    let quick = std::fs::read_to_string(QUICK).unwrap();
    std::fs::write(&path, quick + "[sweep]\ncc = [\"westwood\"]\n").unwrap();
    let Ended { code, err, .. } = LAB.run(&["run", path.to_str().unwrap(), "--on", "sim"]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("'westwood'")
            && err.contains("bbr")
            && err.contains("cubic")
            && err.contains("--cc"),
        "{err}"
    );
    let Ended { code, err, .. } = LAB.run(&["run", QUICK, "--on", "sim", "--max-events", "10"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--max-events") && err.contains(QUICK), "{err}");
}

#[test]
fn the_first_look_shows_a_table_a_page_and_a_line_for_each_run() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("page.html");
    let scenario = QUICK.replace("quick", "first-look");
    let html = page.to_str().unwrap();
    let Ended { code, out, err } = LAB.run(&["run", &scenario, "--html", html]);
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = err.lines().collect();
    assert_eq!(lines.len(), 6, "{err}");
    for (index, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("{} of 6: ", index + 1)), "{line}");
        assert!(line.ends_with(" Mbit/s"), "{line}");
    }
    assert!(out.contains("adaptive") && !out.contains("MISSED"), "{out}");
    assert!(
        out.contains(&format!("The page with plots: {html}\n")),
        "{out}"
    );
    assert!(std::fs::read_to_string(page).unwrap().contains("uPlot"));
}
