//! Every mistake is reported at its place, with a way to fix it.
//!
//! `mistakes/*.toml` hold mistakes; the file of the same name with `.txt` holds the report.
//! `ACKWISE_BLESS=1 cargo test` regenerates the reports; review the diff.

use std::path::{Path, PathBuf};

use ackwise_scenario::Scenario;
use proptest::prelude::*;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mistakes");
    let mut cases: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    cases.sort();
    cases
}

fn report(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_name().unwrap();
    let error = Scenario::parse(name, &text).expect_err(&path.display().to_string());
    // Systems have different texts for a missing file.
    let missing = std::io::Error::from_raw_os_error(2).to_string();
    format!("{error}\n").replace(&missing, "No such file or directory (os error 2)")
}

#[test]
fn reports_are_as_written_down() {
    let cases = cases();
    assert!(cases.len() >= 8, "the cases are gone");
    let bless = std::env::var_os("ACKWISE_BLESS").is_some();
    for path in cases {
        let found = report(&path);
        let written = path.with_extension("txt");
        if bless {
            std::fs::write(&written, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&written).unwrap();
        assert_eq!(found, expected, "{}", path.display());
    }
}

/// Each line that ends in `#! text` is a mistake, whose report begins on that line and contains the
/// text; there is no other report.
#[test]
fn every_marked_line_is_reported_and_no_other() {
    let mut mistakes = 0;
    for path in cases() {
        let text = std::fs::read_to_string(&path).unwrap();
        if !text.contains("#!") {
            continue;
        }
        let error = Scenario::parse("x", &text).unwrap_err();
        let mut marks: Vec<(usize, &str)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            for mark in line.split("#!").skip(1) {
                marks.push((index + 1, mark.trim()));
            }
        }
        let found: Vec<(usize, &str)> = error
            .diagnostics()
            .iter()
            .map(|d| (d.line, d.message.as_str()))
            .collect();
        for (line, mark) in &marks {
            assert!(
                found
                    .iter()
                    .any(|(at, message)| at == line && message.contains(mark)),
                "{}:{line}: '{mark}' is not reported, but {found:#?}",
                path.display()
            );
        }
        assert_eq!(found.len(), marks.len(), "{}: {found:#?}", path.display());
        mistakes += marks.len();
    }
    assert!(mistakes >= 60, "{mistakes}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Scenario::load("/nonexistent/x.toml")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("/nonexistent/x.toml: cannot read"),
        "{error}"
    );
}

#[test]
fn an_engine_can_point_into_the_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/quick.toml");
    let scenario = Scenario::load(path).unwrap();
    let place = &scenario.arms[1].placements[0];
    let error = scenario.error_at(&place.policy_span, "there is no such policy");
    let diagnostic = &error.diagnostics()[0];
    assert_eq!((diagnostic.line, diagnostic.column), (31, 10));
    assert_eq!(diagnostic.width, "\"adaptive\"".len());
}

#[test]
fn what_stands_at_a_path_is_found_in_the_file() {
    let text = r#"[scenario]
name = "wan"
duration = "1 s"
[record]
capture = true
[[node]]
name = "wan"
sysctl = { "net.ipv4.tcp_sack" = "1" }
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["wan", "b"]
both = { rate = "1 Mbit/s", queue = { limit = "5 packets", discipline = "red" } }
forward = { delay = "1 ms" }
[[flow]]
name = "wan"
from = "wan"
to = "b"
app = "bulk"
[flow.socket]
mptcp = true
"#;
    let scenario = Scenario::parse("x", text).unwrap();
    let found = |path: &str| {
        let span = scenario.place_of(path);
        (scenario.locate(&span).0, text[span].to_owned())
    };
    let at = |line, text: &str| (line, text.to_owned());
    assert_eq!(found("record.capture"), at(5, "capture"));
    let sysctl = found("node.wan.sysctl.net.ipv4.tcp_sack");
    assert_eq!(sysctl, at(8, "\"net.ipv4.tcp_sack\""));
    assert_eq!(found("link.wan.forward.delay"), at(15, "delay"));
    let discipline = found("link.wan.forward.queue.discipline");
    assert_eq!(discipline, at(14, "discipline"));
    // A key that the file does not have gets the place of what is around it.
    assert_eq!(found("link.wan.forward.queue.gentle"), at(14, "queue"));
    assert_eq!(found("flow.wan.socket.mptcp"), at(22, "mptcp"));
    assert_eq!(found("flow.wan.cc"), at(17, "\"wan\""));
    assert_eq!(found("flow.other.cc"), at(1, ""));
}

/// Pieces of scenarios, whole and broken, so that random text gets past the first line.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z\\[\\]{}=\"'., 0-9\n#\t]{0,12}",
        ".{0,4}",
        prop::sample::select(vec![
            "[scenario]\n",
            "name = \"x\"\n",
            "duration = \"1 s\"\n",
            "[[node]]\n",
            "[[link]]\n",
            "[node]\n",
            "between = [\"x\", \"y\"]\n",
            "forward = { rate = \"1 kbit/s\" }\n",
            "[[flow]]\n",
            "from = \"x\"\n",
            "to = \"y\"\n",
            "app = \"bulk\"\n",
            "[sweep]\n",
            "\"link.x.both.loss\" = [\"1 %\"]\n",
            "link.x.both.loss = \"µ %\"\n",
            "[[arm]]\n",
            "policy = \"tack\"\n",
            "set = { n = [1, 2] }\n",
            "change = { \"flow.x.cc\" = \"reno\" }\n",
            "[[expect]]\n",
            "[[agree]]\n",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Each name would be a table in another one, and as many calls.
#[test]
fn a_path_of_very_many_names_is_refused() {
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/quick.toml");
    let good = std::fs::read_to_string(scenario).unwrap();
    for more in [29, 200_000] {
        let path = format!("link.wan.forward.{}b", "a.".repeat(more));
        for table in [
            format!("[sweep]\n\"{path}\" = [\"1\", \"2\"]\n"),
            format!("[sweep.draw]\nn = 1\n\"{path}\" = {{ choice = [\"1\"] }}\n"),
            format!("[[arm]]\nname = \"x\"\nchange = {{ \"{path}\" = 1 }}\n"),
        ] {
            let error = Scenario::parse("x", &format!("{good}\n{table}")).expect_err(&table[..30]);
            let says = format!(
                "a path has at most 32 names with dots between, and this has {}",
                more + 4
            );
            assert!(
                error.to_string().contains(&says),
                "{:.2000}",
                error.to_string()
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// Any text gives either a scenario, or a report that can be printed and whose places lie in
    /// the text.
    #[test]
    fn no_text_makes_it_panic(pieces in prop::collection::vec(piece(), 0..40)) {
        let text: String = pieces.concat();
        if let Err(error) = Scenario::parse("x", &text) {
            prop_assert!(!error.diagnostics().is_empty());
            prop_assert!(!error.to_string().is_empty());
            for diagnostic in error.diagnostics() {
                prop_assert!(diagnostic.line <= text.split('\n').count());
            }
        }
    }

    /// A shipped scenario with a few bytes changed.
    #[test]
    fn no_change_of_a_good_file_makes_it_panic(
        at in prop::collection::vec((0usize..4000, any::<char>(), 0usize..6), 1..6)
    ) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/lossy.toml");
        let mut text: Vec<char> = std::fs::read_to_string(path).unwrap().chars().collect();
        for (position, character, remove) in at {
            let position = position % text.len();
            let end = (position + remove).min(text.len());
            text.splice(position..end, [character]);
            if text.is_empty() {
                break;
            }
        }
        let text: String = text.into_iter().collect();
        if let Ok(scenario) = Scenario::parse("x", &text) {
            for run in scenario.runs().iter().take(3) {
                prop_assert!(scenario.at(run).is_ok());
            }
        }
    }
}
