//! Scenario files that nobody meant to write: each is accepted, or each of its mistakes has a
//! place. Every run of an accepted file can be derived.

use std::path::{Path, PathBuf};

use ackwise_fuzz::{Target, corpus, template};
use ackwise_scenario::Scenario;

const NAME: &str = "some.toml";
/// Number of runs of a scenario that are derived.
const RUNS: usize = 3;

fn messages(text: &str) -> Vec<String> {
    let scenario = match Scenario::parse(NAME, text) {
        Ok(scenario) => scenario,
        Err(error) => {
            let found = error.diagnostics();
            assert!(!found.is_empty(), "{error}");
            let lines = text.split('\n').count();
            let shown = error.to_string();
            for mistake in found {
                assert!((1..=lines).contains(&mistake.line), "{mistake:?}");
                assert!(
                    !mistake.message.is_empty() && mistake.column >= 1,
                    "{mistake:?}"
                );
            }
            let place = format!("{NAME}:{}:{}", found[0].line, found[0].column);
            assert!(shown.contains(&place), "no {place} in: {shown}");
            let most = 50_000 + 100 * text.len();
            assert!(
                shown.len() < most,
                "{} bytes say what is wrong",
                shown.len()
            );
            return found.iter().map(|m| template(&m.message)).collect();
        }
    };
    for run in scenario.runs().iter().take(RUNS) {
        if let Err(error) = scenario.at(run) {
            panic!("the file is fine, but not its run {run:?}: {error}");
        }
    }
    vec!["fine".to_owned()]
}

#[test]
fn fuzz_scenario_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let shipped = [
        "asymmetric",
        "gateway",
        "quick",
        "tunnel",
        "request-response",
        "lossy",
    ];
    let file = |name: &&str| root.join(format!("../../../scenarios/{name}.toml"));
    let mut more: Vec<PathBuf> = shipped.iter().map(file).collect();
    more.extend(
        std::fs::read_dir(root.join("tests/mistakes"))
            .expect("files")
            .map(|entry| entry.expect("a file").path()),
    );
    more.sort();
    let words = [
        "[[link]]\n",
        "[[arm]]\n",
        "[sweep]\n",
        "[[flow]]\n",
        "name",
        "rate",
        "delay",
        "loss",
        "policy",
        "change",
        "duration",
        "seeds",
        "cc",
        "queue",
        "limit",
        "\"1 Mbit/s\"",
        "\"10 ms\"",
        "\"1 %\"",
        "\"adaptive\"",
        "\"cubic\"",
        "[1, 2]",
        "{ ",
        " }",
        " = ",
        ".",
        "true",
        "\n",
        "links",
        "both",
        "forward",
        "back",
    ];
    let target = Target {
        name: "scenario",
        corpus: corpus(env!("CARGO_MANIFEST_DIR"), "scenario"),
        extra_files: more,
        dictionary: &words,
        max_len: 16 << 10,
    };
    let seen = target.run(|bytes| messages(&String::from_utf8_lossy(bytes)));
    assert!(seen.messages > 50, "{seen:?}");
}
