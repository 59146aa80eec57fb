//! `run` on the live engine, and `report` on its output.

use std::fs;
use std::process::{Command, Stdio};

use ackwise_testbed::program::{Ended, Program, must, root, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

const QUICK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios/quick.toml");

#[test]
fn a_run_prints_the_promised_record_and_writes_what_it_is_told() {
    root();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (html, csv, json) = (path("page.html"), path("csv"), path("record.json"));
    let out = LAB
        .command()
        .args([
            "--format",
            "json",
            "run",
            QUICK,
            "--on",
            "live",
            "--duration",
            "1s",
        ])
        .args(["--arm", "baseline", "--cc", "cubic", "--seed", "1"])
        .args(["--html", &html, "--csv", &csv, "--output", &json])
        .output()
        .unwrap();
    let Ended { code, out, err } = Ended::of(&out);
    assert_eq!(code, 0, "{err}");
    assert_eq!(err, "", "progress without a terminal");
    let record: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(record["scenario"]["duration_s"], 1.0);
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let run = &runs[0];
    assert_eq!(
        (&run["arm"], &run["cc"]),
        (&"baseline".into(), &"cubic".into())
    );
    for key in [
        "seed",
        "goodput_bps",
        "data_segments",
        "acks_on_wire",
        "retransmits",
    ] {
        assert!(run[key].is_number(), "{key}: {}", run[key]);
    }
    assert!(run["goodput_bps"].as_f64().unwrap() > 1e5, "{run}");
    assert!(run["acks_on_wire"].as_u64().unwrap() > 0, "{run}");
    assert!(run["rtt_us"]["p50"].as_f64() <= run["rtt_us"]["p99"].as_f64());

    assert!(fs::read_to_string(&html).unwrap().starts_with("<!"));
    assert!(
        fs::read_to_string(dir.path().join("csv/runs.csv"))
            .unwrap()
            .contains("baseline")
    );
    let Ended {
        code,
        out: again,
        err,
    } = LAB.run(&["--format", "json", "report", &json]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), record);
    let Ended {
        code, out: table, ..
    } = LAB.run(&["report", &json]);
    assert!(code == 0 && table.contains("baseline"), "{table}");
}

#[test]
fn what_a_scenario_has_not_is_not_run() {
    root();
    for (option, value) in [("--arm", "frob*"), ("--cc", "frob"), ("--seed", "999")] {
        let Ended { code, err, .. } = LAB.run(&["run", QUICK, "--on", "live", option, value]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(value) && err.contains("there are"), "{err}");
    }
    let Ended { code, err, .. } = LAB.run(&[
        "run",
        QUICK,
        "--on",
        "live",
        "--output",
        "/nowhere/at/all.json",
    ]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("/nowhere/at/all.json"), "{err}");
}

#[test]
fn an_interrupt_ends_it_soon_and_leaves_nothing() {
    root();
    let child = Command::new(LAB.path())
        .args(["run", QUICK, "--on", "live", "--duration", "60s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let ours = format!("ackwise-{}-", child.id());
    let namespaces = || {
        must("ip netns list")
            .lines()
            .filter(|l| l.starts_with(&ours))
            .count()
    };
    until("namespaces", || (namespaces() > 0).then_some(()));
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let Ended { code, err, .. } = Ended::of(&child.wait_with_output().unwrap());
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("stopped by a signal"), "{err}");
    assert_eq!(namespaces(), 0, "namespaces are left");
}
