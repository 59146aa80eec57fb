//! The scenarios that come with ackwise load, and say what they mean to say.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackwise_scenario::{Filter, NodeKind, Position, QueueLimit, Scenario, SettingValue};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|e| e == "toml") {
            into.push(path);
        }
    }
}

#[test]
fn all_load_under_their_own_name_and_say_what_they_show() {
    let mut files = Vec::new();
    collect(&folder(), &mut files);
    assert!(files.len() >= 8, "{files:?}");
    for path in files {
        let scenario = Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Some(scenario.name.as_ref()), path.file_stem());
        assert!(scenario.about.len() > 20, "{}", path.display());
        let runs = scenario.runs();
        let ids: BTreeSet<&str> = runs.iter().map(|run| run.id.as_str()).collect();
        assert_eq!(ids.len(), runs.len(), "ids are unique");
        for run in &runs {
            scenario
                .at(run)
                .unwrap_or_else(|e| panic!("{}: {e}", run.id));
        }
    }
}

#[test]
fn asymmetric_is_the_demo_of_the_readme() {
    let scenario = Scenario::load(folder().join("asymmetric.toml")).unwrap();
    assert_eq!(scenario.duration, Duration::from_secs(30));
    let arms: Vec<&str> = scenario.arms.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(
        arms,
        [
            "baseline",
            "adaptive",
            "every-n-2",
            "every-n-4",
            "every-n-8",
            "every-n-16",
            "every-n-32",
            "rate-limit",
            "tack"
        ]
    );
    assert_eq!(scenario.runs().len(), 27);
    assert_eq!(scenario.runs()[0].id, "baseline/cubic/1");
    assert_eq!(scenario.runs()[26].id, "tack/reno/1");
    let link = &scenario.links[0];
    assert_eq!(link.forward.rate_bps, Some(50_000_000));
    assert_eq!(link.reverse.rate_bps, Some(200_000));
    assert_eq!(
        link.forward.delay + link.reverse.delay,
        Duration::from_millis(40)
    );
    assert_eq!(link.reverse.queue, Some(QueueLimit::Packets(100)));
    assert!(!link.offload);
    let place = &scenario.arms[4].placements[0];
    assert_eq!(place.policy, "every-n");
    assert_eq!(place.position, Position::Receiver);
    assert_eq!(place.set[0].name, "n");
    assert_eq!(place.set[0].value, SettingValue::Integer(8));
    assert_eq!(scenario.locate(&place.set[0].value_span), (44, 20));
    assert_eq!(scenario.nodes[0].kind, NodeKind::Host);
}

#[test]
fn a_varied_value_is_seen_by_its_runs() {
    let scenario = Scenario::load(folder().join("lossy.toml")).unwrap();
    let runs = scenario.runs();
    assert_eq!(runs.len(), 2 * 2 * 6 * 3);
    assert_eq!(runs[0].id, "baseline/cubic/1/link.radio.forward.loss=0.1 %");
    let losses: Vec<f64> = [&runs[0], &runs[runs.len() - 1]]
        .iter()
        .map(|run| scenario.at(run).unwrap().links[0].forward.loss)
        .collect();
    assert_eq!(losses, [0.001, 0.01]);
    assert_eq!(scenario.at(&runs[0]).unwrap().links[0].reverse.loss, 0.0);
}

#[test]
fn runs_are_selected_by_pattern() {
    let scenario = Scenario::load(folder().join("asymmetric.toml")).unwrap();
    let filter = Filter {
        arms: vec!["every-n-*".into(), "baseline".into()],
        cc: vec!["reno".into()],
        seeds: vec!["1".into()],
    };
    let ids: Vec<String> = scenario
        .select(&filter)
        .unwrap()
        .into_iter()
        .map(|run| run.id)
        .collect();
    assert_eq!(ids.len(), 6);
    assert_eq!(ids[0], "baseline/reno/1");
    let nothing = Filter {
        arms: vec!["evry-*".into()],
        ..Filter::default()
    };
    let error = scenario.select(&nothing).unwrap_err().to_string();
    assert!(
        error.contains("no arm") && error.contains("every-n-32"),
        "{error}"
    );
}
