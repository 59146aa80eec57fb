//! `reproduce`: its arguments. What it measures is tested in its own crate.

mod common;

use common::outcome;
use serde_json::Value;

#[test]
fn papers_are_listed_with_what_they_run_on() {
    let (code, text, err) = outcome(&["reproduce", "--list"]);
    assert_eq!(code, 0, "{err}");
    for name in ["saldana", "marhoon", "pavilanskas", "conclusions", "ayadi"] {
        assert!(text.contains(name), "{name} in {text}");
    }
    let (code, json, err) = outcome(&["--format", "json", "reproduce", "--list"]);
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
        let (code, _, err) = outcome(arguments);
        assert_eq!(code, 2, "{arguments:?}: {err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
}
