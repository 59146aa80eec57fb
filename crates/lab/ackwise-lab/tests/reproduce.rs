//! The arguments of `reproduce`. Its measurements are tested in its own crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use ackwise_testbed::program::{Ended, Program};
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

#[test]
fn papers_are_listed_with_what_they_run_on() {
    let Ended {
        code,
        out: text,
        err,
    } = LAB.run(&["reproduce", "--list"]);
    assert_eq!(code, 0, "{err}");
    for name in ["saldana", "marhoon", "pavilanskas", "conclusions", "ayadi"] {
        assert!(text.contains(name), "{name} in {text}");
    }
    let Ended {
        code,
        out: json,
        err,
    } = LAB.run(&["--format", "json", "reproduce", "--list"]);
    assert_eq!(code, 0, "{err}");
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["papers"][0]["name"], "saldana");
    assert_eq!(json["papers"][0]["engines"][0], "sim");
}

#[test]
fn what_cannot_be_is_bad_input() {
    for (arguments, expected) in [
        (&["reproduce", "saldanha"][..], "saldana, marhoon"),
        (
            &["reproduce", "conclusions", "--on", "live"],
            "it runs on sim",
        ),
        (&["reproduce", "--list", "saldana"], "--list"),
        (&["reproduce", "saldana", "--jobs", "0"], "--jobs"),
        (
            &["reproduce", "saldana", "--html", "/proc/nowhere"],
            "/proc/nowhere",
        ),
        (
            &["reproduce", "saldana", "--archive", "/proc/nowhere"],
            "/proc/nowhere",
        ),
        (&["reproduce", "--all", "saldana"], "--all"),
    ] {
        let Ended { code, err, .. } = LAB.run(arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
}

/// The lines of `SHA256SUMS`: path and hash.
fn sums(archive: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(archive.join("SHA256SUMS")).unwrap();
    let pairs = text.lines().map(|line| line.split_once("  ").unwrap());
    pairs
        .map(|(sum, path)| (path.to_owned(), sum.to_owned()))
        .collect()
}

/// All files below a directory, as paths in it.
fn files(root: &Path, directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(root, &path, found);
        } else {
            found.push(
                path.strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            );
        }
    }
}

#[test]
fn an_archive_has_what_checks_it_and_comes_out_the_same_again() {
    let directory = tempfile::tempdir().unwrap();
    let archives = ["first", "second"].map(|name| directory.path().join(name));
    for archive in &archives {
        let path = archive.to_str().unwrap();
        let arguments = [
            "reproduce",
            "marhoon",
            "--on",
            "sim",
            "--quick",
            "--archive",
        ];
        let Ended { code, err, .. } = LAB.run(&[&arguments[..], &[path]].concat());
        assert_eq!(code, 0, "{err}");
    }
    let [first, second] = archives.each_ref().map(|archive| sums(archive));

    // Every file has a checksum, which an independent program confirms.
    let mut there = Vec::new();
    files(&archives[0], &archives[0], &mut there);
    there.retain(|path| path != "SHA256SUMS");
    there.sort();
    assert!(there.iter().eq(first.keys()), "{there:?}");
    let check = Command::new("sha256sum")
        .args(["--check", "--quiet", "SHA256SUMS"])
        .current_dir(&archives[0])
        .output()
        .unwrap();
    assert!(check.status.success(), "{check:?}");

    // Simulated results have the same bytes under the same name.
    let exact = |path: &str| path.starts_with("records/") || path == "pages/experiments.json";
    let records = first.keys().filter(|path| exact(path)).count();
    assert!(records > 4, "{there:?}");
    for (path, sum) in first.iter().filter(|(path, _)| exact(path)) {
        assert_eq!(second.get(path), Some(sum), "{path}");
    }

    // The program accepts the scenario files.
    let scenario = there.iter().find(|path| path.ends_with(".toml")).unwrap();
    let checked = LAB.run(&[
        "scenario",
        "check",
        archives[0].join(scenario).to_str().unwrap(),
    ]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    let environment = fs::read_to_string(archives[0].join("environment.json")).unwrap();
    let environment: Value = serde_json::from_str(&environment).unwrap();
    assert!(
        environment["machine"]["kernel"].is_string(),
        "{environment}"
    );
    assert_eq!(environment["command"][1], "reproduce");

    // Nothing is overwritten.
    let Ended { code, err, .. } = LAB.run(&[
        "reproduce",
        "marhoon",
        "--archive",
        archives[0].to_str().unwrap(),
    ]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("it is not empty"), "{err}");
    assert_eq!(sums(&archives[0]), first);
    // A refused directory is left unchanged.
    let taken = directory.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("mine"), "mine").unwrap();
    let path = taken.to_str().unwrap();
    let Ended { code, err, .. } = LAB.run(&["reproduce", "marhoon", "--archive", path]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("mine"), "{err}");
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
}

/// The citation file must name the version that is released.
#[test]
fn the_citation_names_this_version() {
    let text = include_str!("../../../../CITATION.cff");
    let version = format!("\nversion: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{text}");
    let repository = format!("\nrepository-code: {}\n", env!("CARGO_PKG_REPOSITORY"));
    assert!(text.contains(&repository), "{text}");
}
