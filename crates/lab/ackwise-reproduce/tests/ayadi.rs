//! `reproduce ayadi`: the rows that it lists, and points of its figures to the segment.

use std::collections::BTreeSet;

use ackwise_radio::scenario::{RadioReport, RadioScenario, RadioSpec};
use ackwise_radio::{RadioOptions, run};
use ackwise_report::experiments_json;
use ackwise_reproduce::{Engine, Error, RunScenario, by_name};
use ackwise_scenario::record::Report;
use ackwise_scenario::{Filter, Scenario};
use serde_json::Value;

/// Runs of 20 segments and two seeds: quick, and with the same rows.
struct Short;

impl RunScenario for Short {
    fn run(
        &self,
        _: Engine,
        _: &Scenario,
        _: &[String],
        _: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Report, Error> {
        panic!("nothing here runs over links")
    }

    fn run_radio(
        &self,
        scenario: &RadioScenario,
        runs: &[RadioSpec],
        done: &(dyn Fn(usize) + Sync),
    ) -> Result<RadioReport, Error> {
        let mut scenario = scenario.clone();
        scenario.bytes = 20 * 48;
        let runs: Vec<RadioSpec> = runs.iter().filter(|run| run.seed <= 2).cloned().collect();
        Ok(run(&scenario, &runs, &RadioOptions::default(), done)?)
    }
}

/// Each experiment has every key, and its measured value lies within its interval.
fn experiments_are_whole(experiments: &[Value]) {
    for experiment in experiments {
        for key in [
            "id",
            "what",
            "setup",
            "published",
            "measured",
            "unit",
            "spread",
            "note",
        ] {
            assert!(experiment.get(key).is_some(), "{key} in {experiment}");
        }
        let verdict = experiment["verdict"].as_str().unwrap();
        assert_ne!(
            experiment["reason"], "no tolerance is stated",
            "{experiment}"
        );
        if verdict == "not-run" {
            assert_ne!(experiment["reason"], "", "{experiment}");
            continue;
        }
        assert_eq!(
            verdict == "not-published",
            experiment["published"].is_null(),
            "{experiment}"
        );
        let measured = experiment["measured"].as_f64().unwrap();
        let end = |at: usize| experiment["ci95"][at].as_f64().unwrap();
        assert!(end(0) <= measured && measured <= end(1), "{experiment}");
    }
}

/// Every arm has its points in figures 1, 3, 5 and 7.
fn every_point_is_listed(ids: &BTreeSet<&str>) {
    let arms = [
        "tcp",
        "tcp-d2",
        "tcp-d3",
        "tcp-d4",
        "dda",
        "daa",
        "dca",
        "tda",
        "tack",
        "hop",
        "hop-patient",
    ];
    for arm in arms {
        for metric in ["throughput", "energy", "efficiency"] {
            for hops in 2..=10 {
                let id = format!("ayadi/fig1/{metric}/{arm}/{hops}-hops");
                assert!(ids.contains(id.as_str()), "{id}");
            }
        }
        for flows in [2, 4, 6] {
            let id = format!("ayadi/fig3/efficiency/{arm}/10-hops/{flows}-flows");
            assert!(ids.contains(id.as_str()), "{id}");
        }
        for flows in [2, 6] {
            let id = format!("ayadi/fig5/efficiency/{arm}/8-hops/{flows}-flows");
            assert!(ids.contains(id.as_str()), "{id}");
        }
        let id = format!("ayadi/fig7/efficiency/{arm}/4-hops/4-flows");
        assert!(ids.contains(id.as_str()), "{id}");
    }
}

#[test]
fn every_point_and_every_claim_is_listed_with_its_interval() {
    let paper = by_name("ayadi").unwrap();
    let report = ackwise_reproduce::reproduce(paper, None, false, &Short, |_| {}).unwrap();
    let json: Value =
        serde_json::from_str(&experiments_json(std::slice::from_ref(&report)).unwrap()).unwrap();
    let experiments = json["experiments"].as_array().unwrap();
    let ids: BTreeSet<&str> = experiments
        .iter()
        .map(|e| e["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), experiments.len(), "ids are unique");
    experiments_are_whole(experiments);
    every_point_is_listed(&ids);
    let published = |id: &str| {
        let found = experiments.iter().find(|e| e["id"] == id);
        found.unwrap_or_else(|| panic!("{id}"))["published"].clone()
    };
    assert_eq!(published("ayadi/fig1/energy/dca/2-hops"), Value::Null);
    assert_eq!(
        published("ayadi/claim/chain/energy/dca-to-tcp/2-hops"),
        -20.0
    );
    assert_eq!(
        published("ayadi/claim/chain/energy/tda-to-tcp/10-hops"),
        -10.0
    );
    assert_eq!(published("ayadi/claim/chain/dca-above-tda-far"), 5.0);
    assert_eq!(published("ayadi/claim/tda/one-hop"), "up to 205");
    let verdict = |id: &str| {
        let found = experiments.iter().find(|e| e["id"] == id);
        found.unwrap_or_else(|| panic!("{id}"))["verdict"].clone()
    };
    assert_eq!(verdict("ayadi/claim/tda/one-hop"), "not-comparable");
    // One scenario: the number of seeds that are ahead gives no verdict; the sign of the mean does.
    assert_eq!(verdict("ayadi/claim/grid/dca-above-tcp"), "not-comparable");
    assert_ne!(verdict("ayadi/claim/grid/dca-to-tcp"), "not-comparable");
    // A comparison with another d than the paper's is a variant.
    for experiment in experiments {
        let id = experiment["id"].as_str().unwrap();
        let other = ["-to-tcp-d2", "-above-tcp-d2"]
            .iter()
            .any(|d| id.contains(d));
        let judged = id.starts_with("ayadi/claim/") && !experiment["tolerance"].is_null();
        let other = other || id.starts_with("ayadi/claim/survey/") && id.contains("/standard/");
        if judged {
            let basis = if other { "variant" } else { "measured" };
            assert_eq!(experiment["basis"], basis, "{id}");
        }
    }
    let unlisted = ackwise_reproduce::unlisted(&paper.tolerances(), &report.experiments);
    assert_eq!(unlisted, [""; 0]);
    assert_eq!(verdict("ayadi/not-run/survey-ackcc"), "not-run");
    assert_eq!(verdict("ayadi/fig1/energy/dca/2-hops"), "not-published");
    assert_eq!(report.scenarios.len(), 14);
    assert!(
        report
            .figures
            .iter()
            .all(|figure| !figure.series.is_empty())
    );
    let bars = report.figures.iter().flat_map(|figure| &figure.series);
    let measured = bars.into_iter().filter(|line| line.name != "published");
    assert!(measured.into_iter().all(|line| line.bars.is_some()));
}

/// Six hops of figure 1 with the first seed: segments sent, ACKs, timeouts, frames, and
/// microjoules.
#[test]
fn a_point_of_figure_1_is_exact() {
    let text = include_str!("../../../../scenarios/papers/ayadi-2013/chain.toml");
    let scenario = RadioScenario::parse("chain.toml", text).unwrap_or_else(|e| panic!("{e}"));
    let arms = [
        "tcp",
        "tcp-d2",
        "dda",
        "daa",
        "dca",
        "tda",
        "tack",
        "hop",
        "hop-patient",
    ];
    let filter = Filter {
        arms: arms.map(str::to_owned).to_vec(),
        seeds: vec!["1".to_owned()],
        ..Filter::default()
    };
    let mut runs = scenario.select(&filter).unwrap();
    runs.retain(|run| scenario.fields[run.field].hops == 6);
    let report = run(&scenario, &runs, &RadioOptions::default(), &|_| {}).unwrap();
    let counts: Vec<_> = report
        .runs
        .iter()
        .map(|run| {
            (
                run.arm.as_str(),
                [run.data_segments, run.acks, run.timeouts, run.frames],
                (run.energy_j * 1e6).round() as u64,
            )
        })
        .collect();
    let exact = [
        ("tcp", [1054, 1000, 4, 12_882], 7_358_565),
        ("tcp-d2", [1026, 577, 2, 10_080], 6_123_427),
        ("dda", [1005, 339, 0, 8374], 5_374_140),
        ("daa", [1007, 301, 0, 8105], 5_276_922),
        ("dca", [1019, 347, 0, 8490], 5_400_272),
        ("tda", [1015, 290, 1, 8149], 5_288_179),
        ("tack", [1027, 590, 1, 10_177], 6_103_711),
        ("hop", [1014, 290, 0, 8134], 5_244_883),
        ("hop-patient", [1017, 305, 0, 8207], 5_268_858),
    ];
    assert_eq!(counts, exact);
}
