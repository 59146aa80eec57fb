//! The laboratory's subcommands, with and without the program `ackwise-lab`.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use ackwise_testbed::program::{Ended, install};
use common::ACKWISE;

/// A copy of the command in a directory of its own, without other programs.
fn alone(dir: &Path) -> Command {
    let program = dir.join("ackwise");
    ACKWISE.install(&program);
    let mut command = Command::new(program);
    command.env("PATH", dir.join("nowhere"));
    command
}

/// A laboratory that prints its arguments, one per line, and exits with 7.
fn laboratory(dir: &Path) {
    fs::create_dir_all(dir).unwrap();
    let script = dir.join("script");
    fs::write(&script, "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 7\n").unwrap();
    install(&script, &dir.join("ackwise-lab"));
}

#[test]
fn without_the_laboratory_its_subcommands_say_how_to_get_it() {
    let dir = tempfile::tempdir().unwrap();
    for name in [
        "run",
        "report",
        "reproduce",
        "scenario",
        "trace",
        "conform",
        "tunnel-bench",
        "tunnel-demo",
    ] {
        let Ended { code, out, err } =
            Ended::of(&alone(dir.path()).args([name, "x"]).output().unwrap());
        assert_eq!((code, out.as_str()), (2, ""), "{name}: {err}");
        for output in [name, "ackwise-lab", "PATH", "make install-lab"] {
            assert!(err.contains(output), "{name}: no {output:?} in: {err}");
        }
    }
}

#[test]
fn the_laboratory_beside_the_command_gets_all_arguments() {
    let dir = tempfile::tempdir().unwrap();
    laboratory(dir.path());
    let args = [
        "--format", "json", "run", "a b.toml", "--on", "sim", "-o", "x", "--help",
    ];
    let Ended { code, out, err } = Ended::of(&alone(dir.path()).args(args).output().unwrap());
    assert_eq!((code, err.as_str()), (7, ""));
    assert_eq!(out.lines().collect::<Vec<_>>(), args);
}

#[test]
fn the_laboratory_is_found_in_path() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().join("elsewhere");
    laboratory(&elsewhere);
    let mut command = alone(dir.path());
    let path = format!("{}:/usr/bin:/bin", elsewhere.display());
    let out = command
        .env("PATH", path)
        .args(["report", "r.json"])
        .output()
        .unwrap();
    let Ended { code, out, err } = Ended::of(&out);
    assert_eq!(
        (code, out.as_str(), err.as_str()),
        (7, "report\nr.json\n", "")
    );
}

#[test]
fn help_lists_the_laboratorys_subcommands_apart() {
    let dir = tempfile::tempdir().unwrap();
    let Ended { code, out, .. } = Ended::of(&alone(dir.path()).arg("--help").output().unwrap());
    assert_eq!(code, 0);
    let (own, lab) = out
        .split_once("With the laboratory installed (ackwise-lab):")
        .unwrap();
    assert!(
        own.contains("  attach") && !own.contains("  reproduce"),
        "{own}"
    );
    assert!(
        lab.contains("  run ") && lab.contains("  reproduce"),
        "{lab}"
    );
}
