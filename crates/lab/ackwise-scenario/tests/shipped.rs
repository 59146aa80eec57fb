//! The shipped scenarios load, and have the intended content.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ackwise_config::queues::{Queue, QueueLimit};
use ackwise_scenario::{Filter, NodeKind, Position, Scenario, SettingValue};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios")
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
    // ackwise-radio reads those with a table [radio].
    files.retain(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        !text.lines().any(|line| line == "[radio]")
    });
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
    let queue = Queue::drop_tail(QueueLimit::Bytes(128 * 1024));
    assert_eq!(link.reverse.queue, Some(queue));
    assert!(!link.offload);
    let place = &scenario.arms[4].placements[0];
    assert_eq!(place.policy, "every-n");
    assert_eq!(place.position, Position::Receiver);
    assert_eq!(place.set[0].name, "n");
    assert_eq!(place.set[0].value, SettingValue::Integer(8));
    let (line, column) = scenario.locate(&place.set[0].value_span);
    let text = std::fs::read_to_string(folder().join("asymmetric.toml")).unwrap();
    assert!(text.lines().nth(line - 1).unwrap()[column - 1..].starts_with("8, 16"));
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
        ..Filter::default()
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

/// The examples of `docs/scenarios.md` are scenarios, or parts of one.
#[test]
fn the_documentation_tells_the_truth() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/scenarios.md");
    let text = std::fs::read_to_string(docs).unwrap();
    let examples: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let whole = examples[0];
    let scenario = Scenario::parse("whole", whole).unwrap();
    assert_eq!(scenario.runs().len(), 1);
    assert_eq!(scenario.runs()[0].id, "baseline/cubic/1");
    assert_eq!(examples.len(), 7);
    let beside = folder().join("changing.toml");
    let changing = Scenario::parse(&beside, &format!("{whole}\n{}", examples[1]));
    let changing = changing.unwrap_or_else(|e| panic!("{e}"));
    assert!(changing.links[1].forward.changes().is_some());
    let all = format!(
        "{whole}\n[[arm]]\nname = \"baseline\"\n{}\n{}",
        examples[2], examples[3]
    );
    let scenario = Scenario::parse("all", &all).unwrap_or_else(|e| panic!("{e}"));
    let arms: Vec<&str> = scenario.arms.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(arms, ["baseline", "every-n-2", "every-n-4", "every-n-8"]);
    assert_eq!(scenario.runs().len(), 4 * 2 * 3 * 2);
    let zip = Scenario::parse("zip", &format!("{whole}\n{}", examples[4])).unwrap();
    assert_eq!(zip.runs().len(), 2);
    let upload =
        "[[flow]]\nname = \"upload\"\nfrom = \"receiver\"\nto = \"sender\"\napp = \"bulk\"";
    let drawn = format!("{whole}\n{upload}\n{}", examples[5]);
    // The example of repeats is inserted into that of draws.
    let both = drawn.replace(
        "n = 40\n",
        &format!("n = 40\n{}", examples[6].replace("rtt / 2", "20 ms")),
    );
    let repeated = Scenario::parse("repeated", &both).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(repeated.runs().len(), 160);
    let drawn = Scenario::parse("drawn", &drawn).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(drawn.runs().len(), 40);
    for (metric, name) in ackwise_scenario::Metric::ALL {
        assert!(
            text.contains(&format!("`{name}`")),
            "{metric:?} is not described"
        );
    }
}

fn with(rest: &str) -> Scenario {
    let base = "[scenario]\nname = \"x\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\n\
                [[node]]\nname = \"b\"\n[[node]]\nname = \"r\"\nkind = \"router\"\n\
                [[link]]\nname = \"ar\"\nbetween = [\"a\", \"r\"]\n\
                both = { rate = \"1 Mbit/s\", delay = \"1 ms\" }\nforward = { delay = \"2 ms\" }\n\
                [[link]]\nname = \"rb\"\nbetween = [\"r\", \"b\"]\n\
                [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\napp = \"bulk\"\n";
    Scenario::parse("x", &format!("{base}{rest}")).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn lists_of_parameters_expand_in_order() {
    let scenario = with(
        "[[arm]]\nname = \"p{m}\"\npolicy = \"p\"\nat = \"r\"\nlink = \"rb\"\n\
         set = { k = true, m = [1, 2], rate = [\"8 kbit/s\", 0.5] }\nhold = \"20 ms\"\n\
         [[arm]]\nname = \"baseline\"\n",
    );
    let names: Vec<&str> = scenario.arms.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(
        names,
        ["baseline", "p1-8kbit-s", "p1-0.5", "p2-8kbit-s", "p2-0.5"],
        "the baseline comes first wherever it stands"
    );
    let place = &scenario.arms[4].placements[0];
    let set: Vec<String> = place
        .set
        .iter()
        .map(|s| format!("{}={}", s.name, s.value))
        .collect();
    assert_eq!(set, ["k=true", "m=2", "rate=0.5"]);
    assert_eq!(place.position, Position::Router);
    assert_eq!(place.hold, Some(Duration::from_millis(20)));
}

#[test]
fn an_arm_can_have_policies_at_several_places() {
    let scenario = with(
        "[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"both\"\n\
         [[arm.place]]\npolicy = \"p\"\nat = \"b\"\nlink = \"rb\"\nset = { n = [1, 2] }\n\
         [[arm.place]]\npolicy = \"q\"\nat = \"a\"\nlink = \"ar\"\nset = { n = 7 }\n",
    );
    assert_eq!(scenario.arms.len(), 3);
    let places = &scenario.arms[2].placements;
    assert_eq!(places.len(), 2);
    assert_eq!(
        (places[0].position, places[1].position),
        (Position::Receiver, Position::Sender)
    );
    assert_eq!(places[0].set[0].value, SettingValue::Integer(2));
    assert_eq!(places[1].set[0].value, SettingValue::Integer(7));
}

#[test]
fn both_is_refined_and_arms_change_what_they_name() {
    let scenario = with(
        "[sweep]\n\"flow.f.connections\" = [1, 3]\nseed = 9\n\
         [[arm]]\nname = \"baseline\"\n\
         [[arm]]\nname = \"slow\"\nchange = { \"link.ar.reverse.rate\" = \"9 kbit/s\", node.a.sysctl.\"net.ipv4.tcp_sack\" = 0 }\n",
    );
    let link = &scenario.links[0];
    assert_eq!(link.forward.delay, Duration::from_millis(2));
    assert_eq!(link.reverse.delay, Duration::from_millis(1));
    assert_eq!(link.forward.rate_bps, Some(1_000_000));
    assert!(scenario.links[1].forward.is_plain());
    let runs = scenario.runs();
    let ids: Vec<&str> = runs.iter().map(|run| run.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "baseline/cubic/9/flow.f.connections=1",
            "slow/cubic/9/flow.f.connections=1",
            "baseline/cubic/9/flow.f.connections=3",
            "slow/cubic/9/flow.f.connections=3",
        ]
    );
    let seen = scenario.at(&runs[3]).unwrap();
    assert_eq!(seen.flows[0].connections, 3);
    assert_eq!(seen.links[0].reverse.rate_bps, Some(9000));
    assert_eq!(seen.links[0].forward.rate_bps, Some(1_000_000));
    assert_eq!(seen.nodes[0].sysctl["net.ipv4.tcp_sack"], "0");
    let seen = scenario.at(&runs[0]).unwrap();
    assert_eq!(seen.flows[0].connections, 1);
    assert_eq!(seen.links[0].reverse.rate_bps, Some(1_000_000));
}

#[test]
fn a_pattern_changes_every_part_that_it_names() {
    let flow = "[[flow]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\napp = \"bulk\"\n";
    let scenario = with(&format!(
        "{flow}[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"late\"\n\
         change = {{ \"flow.*.start\" = \"9 ms\", \"link.?r.mtu\" = 900 }}\n"
    ));
    let seen = scenario.at(&scenario.runs()[1]).unwrap();
    let starts: Vec<Duration> = seen.flows.iter().map(|flow| flow.start).collect();
    assert_eq!(starts, [Duration::from_millis(9); 2]);
    assert_eq!((seen.links[0].mtu, seen.links[1].mtu), (900, 1500));
}

#[test]
fn a_parameter_that_is_set_already_is_replaced() {
    let base = "[scenario]\nname = \"x\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\n\
                [node.sysctl]\n\"net.ipv4.tcp_sack\" = 1\n[[node]]\nname = \"b\"\n\
                [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\n\
                [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\napp = \"bulk\"\n\
                [sweep]\n\"node.a.sysctl.net.ipv4.tcp_sack\" = [0, 1]\n";
    let scenario = Scenario::parse("x", base).unwrap_or_else(|e| panic!("{e}"));
    let values: Vec<String> = scenario
        .runs()
        .iter()
        .map(|run| scenario.at(run).unwrap().nodes[0].sysctl["net.ipv4.tcp_sack"].clone())
        .collect();
    assert_eq!(values, ["0", "1"]);
}

#[test]
fn a_flow_that_fixes_its_congestion_control_keeps_it() {
    let flow = "[[flow]]\nname = \"g\"\nfrom = \"a\"\nto = \"b\"\napp = \"bulk\"\ncc = \"reno\"\n";
    let scenario = with(&format!("{flow}[sweep]\ncc = [\"bbr\"]\n"));
    let run = &scenario.runs()[0];
    assert_eq!(scenario.flows[0].cc(run), "bbr");
    assert_eq!(scenario.flows[1].cc(run), "reno");
}
