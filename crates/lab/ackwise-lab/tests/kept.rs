//! What a stopped run or a full disk must not destroy.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ackwise_testbed::program::{Ended, Program, until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

const SCENARIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../scenarios/first-look.toml"
);
const RADIO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../scenarios/papers/ayadi-2013/chain.toml"
);

/// Runs the command, and interrupts it as soon as it handles signals.
fn interrupted(arguments: &[&str]) -> Ended {
    let child = Command::new(LAB.path())
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    until("a handler", || {
        let status = fs::read_to_string(&status).ok()?;
        let caught = status.lines().find_map(|it| it.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).ok()?;
        (caught & 1 << (Signal::SIGINT as i32 - 1) != 0).then_some(())
    });
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    Ended::of(&child.wait_with_output().unwrap())
}

/// Runs the command on a disk that takes a few KiB of each file.
fn on_a_full_disk(arguments: &[&str]) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$@\"", "sh"]);
    Ended::of(&command.arg(LAB.path()).args(arguments).output().unwrap())
}

fn names(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory).unwrap();
    let names = files.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn an_interrupted_run_leaves_earlier_results() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (record, page, tables) = (path("r.json"), path("p.html"), path("csv"));
    fs::create_dir(&tables).unwrap();
    for file in [&record, &page, &path("csv/runs.csv")] {
        fs::write(file, "earlier").unwrap();
    }
    for scenario in [SCENARIO, RADIO] {
        let long = match scenario {
            SCENARIO => &["--duration", "300s", "-j", "1"][..],
            _ => &["-j", "1"],
        };
        let outputs = ["--output", &record, "--html", &page, "--csv", &tables];
        let Ended { code, err, .. } = interrupted(&[&["run", scenario], long, &outputs].concat());
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("stopped by a signal after"), "{err}");
        for file in [&record, &page, &path("csv/runs.csv")] {
            assert_eq!(fs::read_to_string(file).unwrap(), "earlier", "{file}");
        }
        if scenario == SCENARIO {
            // No run has ended.
            assert_eq!(names(dir.path()), ["csv", "p.html", "r.json"]);
            assert_eq!(names(Path::new(&tables)), ["runs.csv"]);
        }
    }
}

#[test]
fn a_full_disk_keeps_the_earlier_file_and_shows_the_table() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (record, page) = (path("r.json"), path("p.html"));
    fs::write(&record, "earlier").unwrap();
    let run = ["run", SCENARIO, "--duration", "100ms"];
    let outputs = ["--output", &record, "--html", &page];
    let Ended { code, out, err } = on_a_full_disk(&[&run[..], &outputs].concat());
    assert_eq!(code, 1, "{err}");
    for said in [
        "r.json: cannot be written",
        "p.html: cannot be written",
        "make room",
    ] {
        assert!(err.contains(said), "no {said:?} in: {err}");
    }
    assert!(out.contains("adaptive"), "no table: {out}");
    assert!(!out.contains("The page"), "{out}");
    assert_eq!(fs::read_to_string(&record).unwrap(), "earlier");
    assert_eq!(names(dir.path()), ["r.json"]);

    // A result that cannot be kept is no bad input.
    let results = path("results");
    let Ended { code, err, .. } = on_a_full_disk(&[&run[..], &["--into", &results]].concat());
    assert_eq!(code, 1, "{err}");
    let said = [
        &results,
        ".parquet: ",
        "File too large",
        "repeat the command",
    ];
    assert!(said.iter().all(|it| err.contains(*it)), "{err}");
    assert!(names(Path::new(&results)).is_empty());
}

#[test]
fn the_pages_of_papers_are_results_as_well() {
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().to_str().unwrap();
    let index = dir.path().join("index.html");
    fs::write(&index, "earlier").unwrap();
    let reproduce = [
        "reproduce",
        "marhoon",
        "--quick",
        "--on",
        "sim",
        "--html",
        pages,
    ];
    let Ended { code, err, .. } = interrupted(&reproduce);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("stopped by a signal"), "{err}");
    assert_eq!(names(dir.path()), ["index.html"]);

    let Ended { code, out, err } = on_a_full_disk(&reproduce);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains("Marhoon"), "no table: {out}");
    assert!(err.contains("index.html: cannot be written"), "{err}");
    assert_eq!(fs::read_to_string(&index).unwrap(), "earlier");
}

#[test]
fn a_full_standard_output_loses_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("r.json");
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = Command::new(LAB.path());
    command.args(["run", SCENARIO, "--duration", "100ms", "--output"]);
    let output = command.arg(&record).stdout(full).output().unwrap();
    let Ended { code, err, .. } = Ended::of(&output);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("standard output: cannot be written"), "{err}");
    assert!(fs::read_to_string(&record).unwrap().contains("\"runs\""));
}
