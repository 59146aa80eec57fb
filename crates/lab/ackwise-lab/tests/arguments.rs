//! Bad input: each is told what, where and how to mend it, and ends with 2.

mod common;

use std::fs;

use common::{ackwise_lab, outcome};
use serde_json::Value;

/// Ends with 2, prints nothing on standard output, and says this on standard error.
fn refused(args: &[&str], says: &[&str]) {
    let (code, out, err) = outcome(args);
    assert_eq!(code, 2, "{args:?}: {err}");
    assert_eq!(out, "", "{args:?}");
    for said in says {
        assert!(err.contains(said), "{args:?}: no {said:?} in: {err}");
    }
    assert!(!err.contains("panicked"), "{args:?}: {err}");
}

#[test]
fn scenarios_and_results() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    // Without --on it is the simulator.
    refused(
        &["run", "/nowhere.toml"],
        &["/nowhere.toml", "No such file"],
    );
    for engine in ["live", "virtual", "sim"] {
        refused(
            &["run", "/nowhere.toml", "--on", engine],
            &["/nowhere.toml", "No such file"],
        );
    }
    let broken = file("broken.toml", "name = \"x\"\nfrobs = 3\n[[link]\n");
    refused(&["run", &broken, "--on", "live"], &["broken.toml:3:"]);

    refused(&["report", "/nowhere.json"], &["/nowhere.json"]);
    let json = file("not.json", "{\"runs\": 3}");
    refused(&["report", &json], &["not.json", "ackwise-lab run"]);
    refused(
        &["report", dir.path().to_str().unwrap()],
        &["cannot be read"],
    );
}

#[test]
fn scenario_check_lists_every_mistake() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.toml");
    fs::write(&path, "nme = \"x\"\nfrobs = 3\n").unwrap();
    let (code, out, err) = outcome(&["scenario", "check", path.to_str().unwrap()]);
    assert_eq!(code, 2, "{err}");
    assert!(
        out.contains("s.toml:1:") && out.contains("s.toml:2:"),
        "{out}"
    );

    let (code, out, _) = outcome(&[
        "scenario",
        "check",
        "--format",
        "json",
        path.to_str().unwrap(),
    ]);
    assert_eq!(code, 2);
    let shown: Value = serde_json::from_str(&out).unwrap();
    let lines: Vec<_> = shown["files"][0]["mistakes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["line"])
        .collect();
    assert!(
        lines.contains(&&Value::from(1)) && lines.contains(&&Value::from(2)),
        "{out}"
    );
}

#[test]
fn the_scenarios_that_come_with_it_are_right() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|f| f.unwrap().path().to_str().unwrap().to_owned())
        .filter(|f| f.ends_with(".toml"))
        .collect();
    files.sort();
    assert!(
        files.iter().any(|f| f.ends_with("/asymmetric.toml")),
        "{files:?}"
    );
    let args: Vec<_> = ["scenario", "check"]
        .into_iter()
        .chain(files.iter().map(String::as_str))
        .collect();
    let (code, out, err) = outcome(&args);
    assert_eq!(code, 0, "{out}{err}");
}

#[test]
fn completions_are_a_script() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = outcome(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(
            out.contains("ackwise-lab") && out.contains("max-events"),
            "{shell}"
        );
    }
    refused(&["completions", "tcsh"], &["bash"]);
}

#[test]
fn the_version_is_the_workspaces() {
    ackwise_lab()
        .arg("--version")
        .assert()
        .success()
        .stdout(concat!("ackwise-lab ", env!("CARGO_PKG_VERSION"), "\n"));
}
