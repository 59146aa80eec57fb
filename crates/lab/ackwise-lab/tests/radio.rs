//! Radio scenarios on the command line.

use std::path::{Path, PathBuf};

use ackwise_testbed::program::{Ended, Program};
use serde_json::Value;

/// The command under test.
const LAB: Program = Program::new(env!("CARGO_BIN_EXE_ackwise-lab"));

const CHAIN: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../../scenarios/papers/ayadi-2013/chain.toml"
);

const SMALL: &str = "[scenario]\nname = \"small\"\ndata = \"4800 B\"\nseeds = 3\n\
                     [radio]\ntopology = \"chain\"\nhops = [1, 2]\ncapture = 4\n\
                     [[arm]]\nname = \"tcp\"\nmodel = { segment = \"48 B\", ack_every = 1 }\n\
                     [[arm]]\nname = \"dca\"\npolicy = \"dca\"\n\
                     model = { segment = \"48 B\", cwnd_hint = true }\n";

fn file(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("t.toml");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_run_is_a_table_a_record_and_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = file(dir.path(), SMALL);
    let scenario = scenario.to_str().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (record, page, tables) = (path("r.json"), path("p.html"), path("csv"));
    let args = ["run", scenario, "--on", "sim", "-o", &record];
    let Ended { code, out, err } =
        LAB.run(&[&args[..], &["--html", &page, "--csv", &tables]].concat());
    assert_eq!(code, 0, "{err}");
    // Without a terminal there is a line per run: two arms, two lengths, three seeds.
    let progress: Vec<_> = (1..=12).map(|n| format!("{n} of 12: small")).collect();
    assert_eq!(err.lines().collect::<Vec<_>>(), progress);
    assert!(out.contains("1 hop, 1 flow   tcp"), "{out}");
    assert!(out.contains("2 hops, 1 flow  tcp"), "{out}");
    assert!(out.contains("Means of 3 seeds, ± half the 95 % confidence interval"));
    let html = std::fs::read_to_string(&page).unwrap();
    for part in [
        "figure-0-1",
        "kbit/s per J",
        "\"bars\":",
        "topology = &quot;chain&quot;",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let csv = std::fs::read_to_string(dir.path().join("csv/runs.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 2 * 3);

    let Ended {
        code,
        out: again,
        err,
    } = LAB.run(&["report", &record]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(again, out, "a record shows what its run showed");
    let Ended {
        code, out: json, ..
    } = LAB.run(&[
        "--format", "json", "run", scenario, "--on", "sim", "-j", "1",
    ]);
    assert_eq!(code, 0);
    assert_eq!(json, std::fs::read_to_string(&record).unwrap());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["world"], &json["engine"]),
        (&"radio".into(), &"sim".into())
    );
    for run in json["runs"].as_array().unwrap() {
        assert_eq!(run["flows"][0]["bytes"], 4800, "{run}");
        assert_eq!(run["unfinished"], 0, "{run}");
        let efficiency =
            run["throughput_bps"].as_f64().unwrap() / run["energy_j"].as_f64().unwrap();
        let recorded = run["efficiency_bps_per_j"].as_f64().unwrap();
        assert!((efficiency / recorded - 1.0).abs() < 1e-12, "{run}");
    }
}

/// One run of the paper's chain, to the last joule: the numbers change only with the model.
#[test]
fn a_point_of_the_papers_chain_is_exact() {
    let args = [
        "--format", "json", "run", CHAIN, "--on", "sim", "--seed", "1",
    ];
    let Ended { code, out, err } =
        LAB.run(&[&args[..], &["--arm", "tcp", "--arm", "dca"]].concat());
    assert_eq!(code, 0, "{err}");
    let record: Value = serde_json::from_str(&out).unwrap();
    let runs = record["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 9 * 2);
    let counts = |id: &str| {
        let run = runs.iter().find(|run| run["id"] == id).unwrap();
        let keys = ["data_segments", "acks", "timeouts", "frames", "collisions"];
        let energy = (run["energy_j"].as_f64().unwrap() * 1e6).round() as u64;
        (keys.map(|key| run[key].as_u64().unwrap()), energy)
    };
    assert_eq!(
        [4, 10].map(|hops| counts(&format!("tcp/1/hops={hops}/flows=1"))),
        [
            ([1042, 1000, 2, 8631, 263], 4_483_226),
            ([1054, 1000, 2, 21_003, 607], 12_826_600)
        ]
    );
    assert_eq!(
        [4, 10].map(|hops| counts(&format!("dca/1/hops={hops}/flows=1"))),
        [
            ([1015, 352, 1, 5737, 105], 3_353_656),
            ([1024, 502, 0, 15_696, 344], 10_335_676)
        ]
    );
}

#[test]
fn other_engines_refuse_and_say_why() {
    for engine in ["live", "virtual"] {
        let Ended { code, out, err } = LAB.run(&["run", CHAIN, "--on", engine]);
        assert_eq!((code, out.as_str()), (2, ""));
        assert_eq!(
            err,
            format!(
                "ackwise-lab: {CHAIN}: a radio scenario does not run on '{engine}': its nodes are \
                 radios with 802.15.4, AODV and batteries, which the links between Linux stacks \
                 do not have\n  run it with --on sim; docs/radio.md describes radio \
                 scenarios\n"
            )
        );
    }
    let Ended { code, err, .. } = LAB.run(&["run", CHAIN, "--on", "sim", "--against", "sim"]);
    assert_eq!(code, 2);
    assert!(err.contains("leave out --against"), "{err}");
    let Ended { code, err, .. } = LAB.run(&["run", CHAIN, "--on", "sim", "--arm", "nobody"]);
    assert_eq!(code, 2);
    assert!(
        err.contains("no arm of this scenario matches 'nobody'"),
        "{err}"
    );
}

/// Each mistake as the user sees it; `run` and `scenario check` report the same.
#[test]
fn mistakes_say_what_where_and_how_to_mend_it() {
    let arm = "[[arm]]\nname = \"tcp\"\n";
    let places = "[scenario]\n[radio]\ntopology = \"positions\"\n";
    let chain = "[scenario]\n[radio]\ntopology = \"chain\"\n";
    let flow = "[[flow]]\nfrom = 0\nto = 2\n";
    let cases = [
        (
            format!("{places}positions = [[0, 0], [30, 0], [90, 0]]\n{flow}{arm}"),
            "5:1: there is no path from node 0 to node 2: nodes 1 and 2, the nearest across the gap, are 60.0 m apart, and a radio reaches 50 m\n 5 | [[flow]]\n   | ^^^^^^^^",
        ),
        (
            format!("{chain}hops = [2, 64]\n{arm}"),
            "4:12: the hop limit: 'hops' must be between 1 and 63, not 64\n 4 | hops = [2, 64]\n   |            ^^",
        ),
        (
            format!("{chain}{arm}model = {{ segment = \"80 B\" }}\n"),
            "6:9: a segment of 80 B makes a frame of 131 B, and a frame may have 127 B; lower 'segment' by 4 B\n 6 | model = { segment = \"80 B\" }\n   |         ^^^^^^^^^^^^^^^^^^^^",
        ),
        (
            format!("{chain}[energy]\nrx = -19.6\n{arm}"),
            "5:6: 'rx' is negative: -19.6; it must be between 0 and 10000 mA\n 5 | rx = -19.6\n   |      ^^^^^",
        ),
        (
            format!("{places}positions = [[0, 0], [30], [60, 0]]\n{flow}{arm}"),
            "4:22: the position of node 1 must be a pair of numbers in metres, e.g. [30, 0]\n 4 | positions = [[0, 0], [30], [60, 0]]\n   |                      ^^^^",
        ),
        (
            format!("{places}{flow}{arm}"),
            "3:12: 'positions' is missing: write a pair in metres for each node, e.g. positions = [[0, 0], [30, 0]]\n 3 | topology = \"positions\"\n   |            ^^^^^^^^^^^",
        ),
        (format!("{chain}{arm}policy = \"dcq\"\n"), "6:10: "),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (text, expected) in cases {
        let path = file(dir.path(), &text);
        let path = path.to_str().unwrap();
        let Ended { code, out, err } = LAB.run(&["run", path, "--on", "sim"]);
        assert_eq!((code, out.as_str()), (2, ""), "{text}");
        let golden = format!("ackwise-lab: {path}:{expected}");
        if expected.contains('\n') {
            assert_eq!(err, format!("{golden}\n"), "{text}");
        } else {
            assert!(err.starts_with(&golden) && err.contains("dcq"), "{err}");
        }
        let Ended { code, out, .. } = LAB.run(&["scenario", "check", path]);
        assert_eq!(code, 2, "{text}");
        assert!(out.starts_with(&format!("{path}:{expected}")), "{out}");
    }
    let Ended { code, out, .. } = LAB.run(&["scenario", "check", CHAIN]);
    assert_eq!(code, 0);
    assert!(out.ends_with("chain: 19 arms, 1710 runs\n"), "{out}");
}

#[test]
fn a_duration_is_checked_and_a_limit_that_does_not_exist_refused() {
    for (more, says) in [
        (
            ["--duration", "1ns"],
            "1ns is too short; choose at least 1s",
        ),
        (["--max-events", "9"], "no limit of events or memory"),
        (
            ["--max-memory", "9"],
            "leave out --max-events and --max-memory",
        ),
    ] {
        LAB.refuses(&["run", CHAIN, more[0], more[1]], &[says]);
    }
}
