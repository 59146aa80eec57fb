//! Exact results of simulated experiments, to the packet.

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Report;
use ackwise_sim::RunOptions;

/// Fig. 2 of Saldana, its first 100 s: the numbers behind its averages.
#[test]
fn saldana_figure_2_is_exact() {
    let text = include_str!("../../../../scenarios/papers/saldana-2013/single.toml")
        .replace("\"1000 s\"", "\"100 s\"");
    let scenario = Scenario::parse("single.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let report = ackwise_sim::run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap();
    let counts: Vec<_> = report
        .runs
        .iter()
        .map(|run| {
            (
                run.arm.as_str(),
                run.totals.data_segments,
                run.totals.retransmits,
            )
        })
        .collect();
    assert_eq!(
        counts,
        [("baseline", 76_988, 242), ("mux-50ms", 65_377, 241)]
    );
}

/// Runs the wanted runs of a scenario.
fn run(name: &str, text: &str, wanted: impl Fn(&ackwise_scenario::RunSpec) -> bool) -> Report {
    let scenario = Scenario::parse(name, text).unwrap_or_else(|e| panic!("{e}"));
    let only = scenario.runs().into_iter().filter(|run| wanted(run));
    let options = RunOptions {
        only: only.map(|run| run.id).collect(),
        ..RunOptions::default()
    };
    ackwise_sim::run(&scenario, &options, &mut |_| {}).unwrap()
}

/// Marhoon's arms, the first 20 s of one draw of start times: segments that arrived, retransmissions,
/// timeouts, drops on the data link, and ACKs dropped, filtered and marked.
#[test]
fn marhoon_is_exact() {
    let text = include_str!("../../../../scenarios/papers/marhoon/marhoon.toml")
        .replace("duration = \"50 s\"", "duration = \"20 s\"");
    let arms = [
        "baseline",
        "asym-af",
        "af-contract",
        "acc-marks",
        "af-acc-early",
    ];
    let report = run("marhoon.toml", &text, |run| {
        run.seed == 1 && arms.contains(&run.arm.as_str())
    });
    let counts: Vec<_> = report
        .runs
        .iter()
        .map(|run| {
            let queue = |name| run.queues.iter().find(|q| q.name == name).unwrap();
            let (data, acks) = (queue("shared.forward"), queue("shared.reverse"));
            let t = &run.totals;
            (
                run.arm.as_str(),
                [t.data_segments, t.retransmits, t.timeouts.unwrap()],
                [
                    data.drops,
                    acks.drops,
                    acks.filtered.unwrap_or(0),
                    acks.marks,
                ],
            )
        })
        .collect();
    assert_eq!(
        counts,
        [
            ("baseline", [25_259, 2054, 13], [518, 6378, 0, 0]),
            ("asym-af", [24_645, 881, 22], [423, 0, 11_555, 0]),
            ("af-contract", [38_217, 1157, 49], [706, 0, 20_244, 0]),
            ("af-acc-early", [37_701, 1178, 52], [714, 2, 19_208, 1031]),
            ("acc-marks", [27_759, 923, 17], [607, 356, 0, 936]),
        ]
    );
}

const PAVILANSKAS_RATE: &str = "link.br-r.reverse.police.rate";

/// The shares of Pavilanskas are shares of the ACKs that the counted sender makes where all pass, and
/// are dropped.
#[test]
fn pavilanskas_drops_the_shares_that_it_names() {
    let text = include_str!("../../../../scenarios/papers/pavilanskas-2010/policed.toml");
    let shares = [
        ("10 Mbit/s", 0.0),
        ("1379.1 kbit/s", 20.0),
        ("344.8 kbit/s", 80.0),
        ("172.4 kbit/s", 90.0),
    ];
    let report = run("policed.toml", text, |run| {
        let rate = run.point[PAVILANSKAS_RATE].as_str();
        run.arm == "window-free" && shares.iter().any(|(of, _)| *of == rate)
    });
    assert_eq!(report.runs.len(), shares.len());
    for run in &report.runs {
        let rate = run.point[PAVILANSKAS_RATE].as_str();
        let (_, share) = shares.iter().find(|(of, _)| *of == rate).unwrap();
        let totals = &run.totals;
        let policed = run.queues.iter().filter_map(|q| q.policed).sum::<u64>();
        let dropped = 100.0 * policed as f64 / totals.acks_on_wire as f64;
        assert!((dropped - share).abs() < 1.5, "{rate}: {dropped} %");
        if *share == 0.0 {
            let acks_per_s = totals.acks_on_wire as f64 / totals.duration_s;
            assert!((acks_per_s - 4144.0).abs() < 1.0, "{acks_per_s}");
        }
    }
}

/// Fig. 4 of Pavilanskas: a window of 13 around the share that starves it.
#[test]
fn pavilanskas_limit_is_exact() {
    let text = include_str!("../../../../scenarios/papers/pavilanskas-2010/policed.toml")
        .replace("\"400 MiB\"", "\"40 MiB\"");
    let report = run("policed.toml", &text, |run| {
        let rates = ["10 Mbit/s", "689.6 kbit/s", "241.3 kbit/s", "206.9 kbit/s"];
        run.arm == "baseline" && rates.contains(&run.point[PAVILANSKAS_RATE].as_str())
    });
    let counts: Vec<_> = report
        .runs
        .iter()
        .map(|run| {
            let policed = run.queues.iter().filter_map(|q| q.policed).sum::<u64>();
            let t = &run.totals;
            (t.data_segments, t.retransmits, t.timeouts.unwrap(), policed)
        })
        .collect();
    assert_eq!(
        counts,
        [
            (28_967, 0, 0, 0),
            (28_967, 0, 0, 9064),
            (28_967, 0, 0, 12_947),
            (29_058, 91, 91, 5698),
        ]
    );
}
