//! `run` with drawn points: other draws, a single point, and refused arguments.

use ackwise_testbed::program::{Ended, Program};
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

const DRAWN: &str = r#"
[scenario]
name = "drawn"
duration = "1 s"
[[node]]
name = "server"
[[node]]
name = "client"
[[link]]
name = "wan"
between = ["server", "client"]
both = { rate = "1 Mbit/s", delay = "5 ms" }
[[flow]]
name = "down"
from = "server"
to = "client"
app = "bulk"
[[arm]]
name = "baseline"
[[arm]]
name = "elsewhere"
on = "virtual"
[sweep.draw]
n = 5
link.wan.both.rate = { log-uniform = ["1 Mbit/s", "5 Mbit/s"] }
"#;

fn run(text: &str, more: &[&str]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("drawn.toml");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    LAB.run(&[&["run", path, "--on", "sim", "--format", "json"], more].concat())
}

fn runs(more: &[&str]) -> Vec<Value> {
    let Ended { code, out, err } = run(DRAWN, more);
    assert_eq!(code, 0, "{err}");
    let record: Value = serde_json::from_str(&out).unwrap();
    record["runs"].as_array().unwrap().clone()
}

#[test]
fn a_point_that_is_run_alone_is_the_same_line() {
    let all = runs(&["--draw-seed", "7", "--draws", "8"]);
    let points: Vec<u64> = all
        .iter()
        .map(|run| run["draw"].as_u64().unwrap())
        .collect();
    assert_eq!(points, [1, 2, 3, 4, 5, 6, 7, 8]);
    let alone = runs(&["--draw-seed", "7", "--point", "4"]);
    assert_eq!(alone.len(), 1);
    assert_eq!(alone[0], all[3]);
    assert!(
        alone[0]["point"]["link.wan.both.rate"]
            .as_str()
            .unwrap()
            .ends_with(" Mbit/s")
    );
    assert_ne!(runs(&["--point", "4"])[0]["point"], alone[0]["point"]);
}

#[test]
fn repeats_are_asked_for_and_have_names_of_their_own() {
    let repeat = "n = 5\nrepeat = { n = 1, off = { uniform = [0.9, 1.1] } }\n";
    let text = DRAWN.replace("n = 5\n", repeat);
    let text = format!("{text}link.wan.both.delay = \"off * 5 ms\"\n");
    let Ended { code, out, err } = run(&text, &["--repeats", "2", "--point", "2,3"]);
    assert_eq!(code, 0, "{err}");
    let record: Value = serde_json::from_str(&out).unwrap();
    let ids: Vec<&str> = record["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["id"].as_str().unwrap())
        .collect();
    let expected = ["2/repeat=1", "2/repeat=2", "3/repeat=1", "3/repeat=2"];
    for (id, end) in ids.iter().zip(expected) {
        assert!(id.ends_with(end), "{id}");
    }
    assert_eq!(ids.len(), 4);
    let goodput = |at: usize| record["runs"][at]["goodput_bps"].as_f64().unwrap();
    assert_ne!(goodput(0), goodput(1));
}

#[test]
fn a_duration_that_is_asked_for_is_not_drawn() {
    let repeat =
        "[sweep.draw.repeat]\nn = 2\nlink.wan.both.loss = { uniform = [\"1 %\", \"2 %\"] }\n";
    for before in ["", repeat] {
        let duration = "scenario.duration = { uniform = [\"2 s\", \"3 s\"] }\n";
        let drawn = format!("{DRAWN}{before}{duration}");
        let Ended { code, out, err } = run(&drawn, &["--point", "1", "--duration", "500ms"]);
        assert_eq!(code, 0, "{err}");
        let record: Value = serde_json::from_str(&out).unwrap();
        for run in record["runs"].as_array().unwrap() {
            let seconds = run["duration_s"].as_f64().unwrap();
            assert!(seconds < 0.6, "{seconds}");
        }
    }
}

#[test]
fn what_cannot_be_drawn_is_bad_input() {
    let plain = DRAWN.split("[sweep.draw]").next().unwrap();
    let none = DRAWN.replace("n = 5", "n = 0");
    let backward = DRAWN.replace(r#"["1 Mbit/s", "5 Mbit/s"]"#, r#"["5 Mbit/s", "1 Mbit/s"]"#);
    for (text, more, complaint) in [
        (DRAWN, &["--point", "6"] as &[&str], "1 to 5"),
        (DRAWN, &["--draws", "0"], "--draws"),
        (
            DRAWN,
            &["--draws", "20000"],
            "'n' must be between 1 and 10000",
        ),
        (
            DRAWN,
            &["--arm", "elsewhere"],
            "nothing that was selected is for 'sim'",
        ),
        (plain, &["--draw-seed", "3"], "add [sweep.draw]"),
        (plain, &["--repeats", "3"], "add [sweep.draw]"),
        (DRAWN, &["--repeats", "3"], "add [sweep.draw.repeat]"),
        (plain, &["--point", "1"], "[sweep] has no 'draw'"),
        (&none, &[], "drawn.toml:24:5"),
        (&backward, &[], "write the smaller end first"),
    ] {
        let Ended { code, err, .. } = run(text, more);
        assert_eq!(code, 2, "{more:?}: {err}");
        assert!(err.contains(complaint), "{more:?}: {err}");
    }
}
