//! `reproduce`: its arguments. What it measures is tested in its own crate.

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
    for (arguments, said) in [
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
    ] {
        let Ended { code, err, .. } = LAB.run(arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
}
