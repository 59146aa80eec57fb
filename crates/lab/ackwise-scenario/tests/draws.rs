//! `[sweep.draw]` and `zip`: values lie in their ranges, follow the values on which they depend,
//! and are the same for the same file and seed.

use std::collections::BTreeMap;
use std::path::Path;

use ackwise_scenario::{Engine, Filter, RunSpec, Scenario, ScenarioError};

const NETWORK: &str = r#"
[scenario]
name = "drawn"
duration = "5 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
both = { rate = "10 Mbit/s", queue = { limit = "10 packets" } }
[[flow]]
name = "down"
from = "a"
to = "b"
app = "bulk"
[[flow]]
name = "up"
from = "b"
to = "a"
app = "bulk"
"#;

const DRAWN: &str = r#"
[sweep.draw]
n = 400
seed = 3
cc = { choice = ["cubic", "reno"], weights = [3, 1] }
down = { log-uniform = ["10 Mbit/s", "200 Mbit/s"] }
ratio = { log-uniform = [20, 320] }
rtt = { uniform = ["15 ms", "600 ms"] }
depth = { log-uniform = ["10 ms", "3 s"] }
upload = { choice = [true, false], weights = [1, 2] }
up = "down / ratio"
link.wan.forward.rate = "down"
link.wan.reverse.rate = "up"
link.wan.both.delay = "rtt / 2"
link.wan.reverse.queue.limit = "max(up * depth, 3000 B)"
link.wan.forward.loss = { uniform = ["0 %", "1 %"] }
flow.down.connections = { uniform = [1, 8] }
flow.up.connections = { case = "upload", true = 1, else = 0 }
"#;

fn parse(sweep: &str) -> Scenario {
    let text = format!("{NETWORK}{sweep}");
    Scenario::parse("drawn.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

/// The values of each point, by name.
fn points(scenario: &Scenario) -> Vec<BTreeMap<String, String>> {
    scenario.runs().into_iter().map(|run| run.point).collect()
}

#[test]
fn values_lie_in_their_ranges_and_spread_over_them() {
    let scenario = parse(DRAWN);
    let runs = scenario.runs();
    assert_eq!(runs.len(), 400);
    let (mut thin, mut steep, mut most) = (0, 0, 0);
    let (mut with_upload, mut cubic) = (0, 0);
    for run in &runs {
        let seen = scenario.at(run).unwrap();
        let link = &seen.links[0];
        let down = link.forward.rate_bps.unwrap();
        let up = link.reverse.rate_bps.unwrap();
        assert!((10_000_000..=200_000_000).contains(&down), "{down}");
        let ratio: u64 = run.point["ratio"].parse().unwrap();
        assert!((20..=320).contains(&ratio), "{ratio}");
        assert!((down as f64 / ratio as f64 / up as f64 - 1.0).abs() < 1e-3);
        let rtt = (link.forward.delay + link.reverse.delay).as_secs_f64();
        assert!((0.015..=0.6).contains(&rtt), "{rtt}");
        assert_eq!(link.forward.delay, link.reverse.delay);
        assert!((0.0..=0.01).contains(&link.forward.loss));
        // 44.7 Mbit/s and 80 are the medians of log-uniform draws.
        thin += u32::from(down < 44_721_000);
        steep += u32::from(ratio < 80);
        most += u32::from(seen.flows[0].connections == 8);
        assert!((1..=8).contains(&seen.flows[0].connections));
        // A flow without connections does not exist.
        assert_eq!(
            seen.flows.len(),
            1 + usize::from(run.point["upload"] == "true")
        );
        with_upload += u32::from(seen.flows.len() == 2);
        cubic += u32::from(run.cc == "cubic");
    }
    // Five standard deviations: 50 of 400 by halves, 33 by eighths, 47 by thirds, 43 by quarters.
    assert!((150..=250).contains(&thin), "{thin}");
    assert!((150..=250).contains(&steep), "{steep}");
    assert!((17..=83).contains(&most), "{most}");
    assert!((86..=180).contains(&with_upload), "{with_upload}");
    assert!((257..=343).contains(&cubic), "{cubic}");
}

#[test]
fn a_queue_is_a_time_at_the_rate() {
    let scenario = parse(DRAWN);
    for run in scenario.runs().iter().take(20) {
        let bytes = |text: &str| text.strip_suffix(" B").unwrap().parse::<f64>().unwrap();
        let queue = bytes(&run.point["link.wan.reverse.queue.limit"]);
        let up = scenario.at(run).unwrap().links[0].reverse.rate_bps.unwrap() as f64;
        let depth = ackwise_config::units::time(&run.point["depth"]).unwrap();
        let wanted = (up * depth.as_secs_f64() / 8.0).max(3000.0);
        assert!((queue / wanted - 1.0).abs() < 1e-3, "{queue} {wanted}");
    }
}

/// Draws are the same on every machine and in every version: these are the values that this file
/// had when draws were introduced.
#[test]
fn draws_are_as_they_were() {
    let scenario = parse(DRAWN);
    let first = &scenario.runs()[0];
    assert_eq!(first.id, "baseline/cubic/1/point=1");
    let shown: Vec<String> = ["down", "ratio", "rtt", "depth", "upload", "up"]
        .iter()
        .map(|name| first.point[*name].clone())
        .collect();
    assert_eq!(
        shown.join(", "),
        "104.7 Mbit/s, 101, 596.3 ms, 1.897 s, false, 1.037 Mbit/s"
    );
}

/// Another name, before the others.
const EARLY: &str =
    "seed = 3\nearly = { uniform = [1, 9] }\nlink.wan.forward.jitter = \"early * 1 ms\"";

#[test]
fn a_point_depends_on_seed_name_and_number_alone() {
    let all = points(&parse(DRAWN));
    assert_eq!(all, points(&parse(DRAWN)));
    // Fewer points are a prefix of more points.
    let fewer = points(&parse(&DRAWN.replace("n = 400", "n = 7")));
    assert_eq!(fewer, all[..7]);
    // Another name does not change the others, wherever it stands.
    let more = points(&parse(&DRAWN.replace("seed = 3", EARLY)));
    for (with, without) in more.iter().zip(&all) {
        assert!(without.iter().all(|(name, value)| with[name] == *value));
    }
    // Another seed gives other values.
    let other = points(&parse(&DRAWN.replace("seed = 3", "seed = 4")));
    assert!(other.iter().zip(&all).all(|(a, b)| a["down"] != b["down"]));
}

const REPEATED: &str = r#"
[sweep.draw]
n = 30
seed = 3
cc = { choice = ["cubic", "reno"] }
rtt = { uniform = ["15 ms", "600 ms"] }
repeat = { n = 4, off = { uniform = [0.96, 1.0] } }
link.wan.both.delay = "rtt / 2 * off"
"#;

#[test]
fn a_repeat_draws_anew_what_it_names_and_nothing_else() {
    let arms = "[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"other\"\n";
    let scenario = parse(&format!("{REPEATED}{arms}"));
    let draw = scenario.sweep.draw.as_ref().unwrap();
    assert_eq!((draw.count, draw.repeats, draw.points.len()), (30, 4, 120));
    let runs = scenario.runs();
    assert_eq!(runs.len(), 240);
    let mut offs = Vec::new();
    for of_point in runs.chunks(8) {
        let first = &of_point[0];
        for (at, run) in of_point.iter().enumerate() {
            assert_eq!((run.draw, &run.cc), (first.draw, &first.cc));
            assert_eq!(run.point["rtt"], first.point["rtt"]);
            assert_eq!(run.point["repeat"], (at / 2 + 1).to_string());
            // All arms of a repeat have the same line.
            assert_eq!(run.point, of_point[at / 2 * 2].point);
            let off: f64 = run.point["off"].parse().unwrap();
            assert!((0.96..=1.0).contains(&off), "{off}");
            offs.push(run.point["off"].clone());
            let rtt = ackwise_config::units::time(&run.point["rtt"]).unwrap();
            let delay = scenario.at(run).unwrap().links[0].forward.delay;
            let found = delay.as_secs_f64() / rtt.as_secs_f64() * 2.0;
            assert!((found / off - 1.0).abs() < 2e-3, "{found} {off}");
        }
    }
    assert_eq!(runs[3].id, "other/cubic/1/point=1/repeat=2");
    offs.sort();
    offs.dedup();
    assert!(offs.len() > 95, "{}", offs.len());
}

#[test]
fn the_first_repeat_is_the_point_that_is_run_once() {
    let four = parse(REPEATED).runs();
    let once = parse(&REPEATED.replace("n = 4", "n = 1")).runs();
    assert_eq!(once.len(), 30);
    for (one, repeats) in once.iter().zip(four.chunks(4)) {
        let mut first = repeats[0].clone();
        assert_eq!(first.point.remove("repeat").as_deref(), Some("1"));
        assert_eq!(first.point, one.point);
        assert_eq!(first.id, format!("{}/repeat=1", one.id));
    }
}

/// A congestion control that depends on a redrawn value through another name.
const CC_BY_BAND: &str = "band = { case = \"wide\", true = 1, else = 0 }\n\
                          cc = { case = \"band\", 1 = { choice = [\"cubic\"] }, else = { choice = [\"reno\"] } }";

#[test]
fn what_a_repeat_cannot_draw_is_told_with_its_place() {
    let file = |from: &str, to: &str| format!("{NETWORK}{}", REPEATED.replace(from, to));
    let off = "off = { uniform = [0.96, 1.0] }";
    for (text, complaint) in [
        (file("n = 4, ", ""), "has no 'n'"),
        (file("n = 4", "n = 0"), "'n' must be between 1 and 1000"),
        (file("n = 4", "n = 900"), "are 27000 lines; 20000 at most"),
        (file(&format!(", {off}"), ""), "nothing is redrawn"),
        (
            file("seed = 3", &format!("seed = 3\n{off}")),
            "keep one of the two",
        ),
        (
            file("off = {", "cc = { choice = [\"cubic\"] }, off = {"),
            "one congestion control",
        ),
        (
            file("seed = 3", "seed = 3\ngroup = [\"off\"]"),
            "'off' differs between the repeats of a point; leave it out",
        ),
        (
            file(
                "seed = 3",
                "seed = 3\ngroup = [\"band\"]\nband = { case = \"wide\", true = 1, else = 0 }",
            )
            .replace("off = {", "wide = { choice = [true, false] }, off = {"),
            "'band' differs between the repeats of a point, as it depends on 'wide'; leave it out",
        ),
        (
            file("cc = { choice = [\"cubic\", \"reno\"] }", CC_BY_BAND)
                .replace("off = {", "wide = { choice = [true, false] }, off = {"),
            "'cc' depends on 'band', which differs between the repeats of a point; they have one",
        ),
        (
            file(&format!("{{ n = 4, {off} }}"), "4"),
            "'repeat' must be a table, not a whole number",
        ),
    ] {
        let error = Scenario::parse("drawn.toml", &text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(complaint), "{complaint}: {error}");
        assert!(error.contains("drawn.toml:"), "{error}");
    }
}

/// Two populations: in the first, `x` is redrawn through `off`; in the second it is not. `SECOND`
/// stands for additional definitions of the second.
const OF_POPULATIONS: &str = r#"
[sweep.draw]
n = 10
repeat = { n = 2, off = { choice = [0.9, 1] } }
link.wan.both.delay = "10 ms * off"
link.wan.both.jitter = "1 ms * x"
[[sweep.draw.population]]
name = "first"
cc = { choice = ["reno"] }
x = { case = "off", 1 = 1, else = 0 }
[[sweep.draw.population]]
name = "second"
x = { choice = [0, 1] }
SECOND
"#;

#[test]
fn what_one_population_draws_anew_stays_in_another() {
    let file = |second: &str| OF_POPULATIONS.replace("SECOND", second);
    let by = |name: &str| {
        format!(
            "cc = {{ case = \"{name}\", 1 = {{ choice = [\"cubic\"] }}, else = {{ choice = [\"reno\"] }} }}"
        )
    };
    // Each repeat of a point of the second population has the same x, so its cc may depend on it. y
    // may too, and of the two only x is listed as one that differs somewhere.
    let y = "y = { case = \"x\", 1 = 1, else = 0 }\nlink.wan.forward.loss = \"y * 1 %\"";
    let second = format!("{}\n{y}", by("x"));
    let scenario = parse(&file(&second));
    let draw = scenario.sweep.draw.as_ref().unwrap();
    let differ = ["link.wan.both.delay", "link.wan.both.jitter", "off", "x"];
    assert_eq!(draw.redrawn, differ);
    // A cc that depends on `off` there would differ between repeats.
    let text = format!("{NETWORK}{}", file(&by("off")));
    let error = Scenario::parse("drawn.toml", &text)
        .unwrap_err()
        .to_string();
    assert!(error.contains("'cc' depends on 'off'"), "{error}");
    // The other population's cc depends on nothing that differs, and is not reported.
    assert_eq!(error.matches("congestion control").count(), 1, "{error}");
    assert!(error.contains("cc = { case"), "{error}");
}

#[test]
fn a_congestion_control_that_no_population_uses_is_not_accused() {
    let common =
        "cc = { case = \"off\", 1 = { choice = [\"cubic\"] }, else = { choice = [\"reno\"] } }";
    let file = |second: &str| {
        let text = OF_POPULATIONS.replace("SECOND", second);
        let text = text.replace("n = 10\n", &format!("n = 10\n{common}\n"));
        Scenario::parse("drawn.toml", &format!("{NETWORK}{text}"))
    };
    file("cc = { choice = [\"cubic\"] }").unwrap_or_else(|e| panic!("{e}"));
    let error = file("").unwrap_err().to_string();
    assert_eq!(error.matches("'cc' depends on 'off'").count(), 1, "{error}");
}

/// A misspelt name would change no run, and the record would show it.
#[test]
fn a_name_that_nothing_uses_is_refused() {
    let refusal = |from: &str, to: &str| {
        let text = format!("{NETWORK}{}", DRAWN.replace(from, to));
        let error = Scenario::parse("drawn.toml", &text).unwrap_err();
        error.to_string()
    };
    let seed = "seed = 3";
    for (to, line, complaint) in [
        (
            "seed = 3\ndephh = { uniform = [\"1 ms\", \"2 ms\"] }",
            27,
            "nothing uses 'dephh'; did you mean 'depth'?",
        ),
        // Neither does what only an unused name uses change anything.
        (
            "seed = 3\nslow = { uniform = [1, 2] }\nother = \"slow * 2\"",
            28,
            "nothing uses 'other'; use it in the value of a path or in 'group', or remove it",
        ),
        (
            "seed = 3\ngroups = { choice = [1, 2] }",
            27,
            "nothing uses 'groups'; did you mean 'group'?",
        ),
        (
            "seed = 3\nrepeat = { n = 2, of = { uniform = [1, 2] } }",
            27,
            "nothing uses 'of'",
        ),
    ] {
        let error = refusal(seed, to);
        assert!(error.contains(complaint), "{complaint}: {error}");
        assert!(
            error.starts_with(&format!("drawn.toml:{line}:")),
            "{line}: {error}"
        );
        assert_eq!(error.matches("nothing uses").count(), 1, "{error}");
    }
}

#[test]
fn one_population_or_group_that_uses_a_name_is_enough() {
    let thin = "[[sweep.draw.population]]\nname = \"thin\"\n";
    let wide = "[[sweep.draw.population]]\nname = \"wide\"\n";
    let spread = "seed = 3\nspread = { choice = [1, 2] }";
    let path = "link.wan.forward.jitter = \"spread * 1 ms\"\n";
    let draw = |seed: &str, populations: &[&str]| {
        let drawn = DRAWN.replace("seed = 3", seed);
        let text = format!("{NETWORK}{drawn}{}", populations.concat());
        Scenario::parse("drawn.toml", &text).map_err(|e| e.to_string())
    };
    // The name is common, and one population alone uses it.
    draw(spread, &[thin, path, wide]).unwrap();
    draw(spread, &[thin, wide, path]).unwrap();
    // It is a population's own, and another one's path uses that one's.
    let own = "spread = 3\n";
    draw("seed = 3", &[thin, own, wide, own, path]).unwrap();
    draw(&format!("{spread}\ngroup = [\"spread\"]"), &[]).unwrap();
    let error = draw(spread, &[thin, wide]).unwrap_err();
    assert!(error.contains("nothing uses 'spread'"), "{error}");
    // A typing error in one population, where the others have the right name.
    let error = draw("seed = 3", &[thin, "dpeth = \"1 s\"\n", wide]).unwrap_err();
    assert!(
        error.contains("nothing uses 'dpeth'; did you mean 'depth'?"),
        "{error}"
    );
    assert!(error.contains("dpeth = \"1 s\""), "{error}");
}

/// Names that only the drawn duration used are no mistakes of whoever asks for another duration.
#[test]
fn a_new_duration_needs_no_names_of_the_drawn_one() {
    let names = "seed = 3\nbase = { uniform = [1, 2] }\nlonger = \"base * 2\"";
    let more = "scenario.duration = \"longer * rtt * factor * 10\"\n";
    let tables = "[[sweep.draw.population]]\nname = \"a\"\nfactor = 1\n";
    let list =
        "population = [{ name = \"a\", factor = 1, scenario = { duration = \"factor * 9 s\" } }]\n";
    for more in [format!("{more}{tables}"), list.to_owned()] {
        let names = if more == list { "seed = 3" } else { names };
        let drawn = DRAWN.replace("seed = 3", names);
        let drawn = parse(&format!("{drawn}{more}"));
        let five = std::time::Duration::from_secs(5);
        let fixed = drawn.with_duration(five).unwrap_or_else(|e| panic!("{e}"));
        for (run, before) in fixed.runs().iter().zip(drawn.runs()).take(20) {
            assert_eq!(fixed.at(run).unwrap().duration, five);
            assert!(
                run.point
                    .iter()
                    .all(|(name, value)| before.point[name] == *value)
            );
            assert!(run.point.contains_key("rtt") && !run.point.contains_key("factor"));
            assert!(!run.point.contains_key("longer") && !run.point.contains_key("base"));
        }
    }
}

#[test]
fn arms_are_paired_on_the_same_lines() {
    let arms = "[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"other\"\non = \"virtual\"\n";
    let scenario = parse(&format!("{DRAWN}{arms}"));
    let runs = scenario.runs();
    for pair in runs.chunks(2) {
        assert_eq!(pair[0].point, pair[1].point);
        assert_eq!([&*pair[0].arm, &*pair[1].arm], ["baseline", "other"]);
    }
    let select = |engine, points: &[u32]| {
        let filter = Filter {
            engine: Some(engine),
            points: points.to_vec(),
            ..Filter::default()
        };
        scenario.select(&filter)
    };
    assert_eq!(select(Engine::Sim, &[]).unwrap().len(), 400);
    assert_eq!(select(Engine::Virtual, &[]).unwrap().len(), 800);
    let only = select(Engine::Sim, &[17, 30]).unwrap();
    let numbers: Vec<Option<u32>> = only.iter().map(|run| run.draw).collect();
    assert_eq!(numbers, [Some(17), Some(30)]);
    let error = select(Engine::Sim, &[401]).unwrap_err();
    assert!(matches!(error, ScenarioError::NothingSelected { .. }));
    assert!(error.to_string().contains("1 to 400"), "{error}");
}

/// The congestion controls of all flows of a run, by name, as its engine sees them.
fn senders(scenario: &Scenario, run: &RunSpec) -> BTreeMap<String, String> {
    let seen = scenario.at(run).unwrap_or_else(|e| panic!("{e}"));
    let flows = seen.flows.iter();
    flows
        .map(|flow| (flow.name.clone(), flow.cc(run).to_owned()))
        .collect()
}

/// All arms of a line have the same senders in the same flows, and lines differ in them.
fn assert_arms_share_their_senders(scenario: &Scenario, points: u32) {
    // The key is without the congestion control: a line's arms may not have several.
    let mut lines: BTreeMap<_, Vec<BTreeMap<String, String>>> = BTreeMap::new();
    let runs = scenario.runs();
    let first = |run: &&RunSpec| run.draw.is_some_and(|number| number <= points);
    for run in runs.iter().filter(first) {
        let arms = lines.entry((run.draw, &run.point, run.seed)).or_default();
        arms.push(senders(scenario, run));
    }
    let mut controls: Vec<&String> = Vec::new();
    for (line, arms) in &lines {
        assert_eq!(arms.len(), scenario.arms.len(), "{line:?}");
        assert!(arms.iter().all(|arm| *arm == arms[0]), "{line:?}: {arms:?}");
        controls.extend(arms[0].values());
    }
    controls.sort();
    controls.dedup();
    assert!(controls.len() > 1, "all lines have {controls:?}");
}

#[test]
fn the_arms_of_a_line_have_one_congestion_control() {
    let arms = r#"
[[arm]]
name = "baseline"
[[arm]]
name = "thin"
policy = "adaptive"
at = "b"
link = "wan"
[[arm]]
name = "short-queue"
change = { link.wan.reverse.queue.limit = "5 packets" }
"#;
    for cc in [
        "cc = { choice = [\"cubic\", \"bbr\", \"reno\"] }",
        "kind = { choice = [1, 2] }\ncc = { case = \"kind\", 1 = { choice = [\"reno\"] }, else = { choice = [\"cubic\", \"bbr\"] } }",
        "flow.down.cc = { choice = [\"cubic\", \"bbr\", \"reno\"] }\nflow.up.cc = { choice = [\"cubic\", \"reno\"] }",
    ] {
        let repeat = "repeat = { n = 2, off = { choice = [0.9, 1] } }";
        let draw = format!(
            "[sweep]\nseed = [1, 2]\n[sweep.draw]\nn = 12\n{repeat}\n{cc}\nlink.wan.both.delay = \"10 ms * off\"\n"
        );
        assert_arms_share_their_senders(&parse(&format!("{draw}{arms}")), u32::MAX);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios");
    let mut mixed = 0;
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if text.contains("[sweep.draw]") {
            let scenario = Scenario::load(&path).unwrap_or_else(|e| panic!("{e}"));
            assert_arms_share_their_senders(&scenario, 6);
            mixed += 1;
        }
    }
    assert!(mixed >= 3, "{mixed} scenarios draw lines");
}

#[test]
fn an_arm_of_drawn_lines_cannot_have_a_congestion_control_of_its_own() {
    let arms =
        "[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"other\"\nchange = { CHANGE = \"bbr\" }\n";
    for change in ["flow.down.cc", "\"flow.*.cc\"", "\"flow.up.cc\""] {
        let text = format!("{NETWORK}{DRAWN}{}", arms.replace("CHANGE", change));
        let error = Scenario::parse("drawn.toml", &text)
            .unwrap_err()
            .to_string();
        assert!(error.contains("one congestion control"), "{error}");
        assert_eq!(
            error.matches("differs between the arms").count(),
            1,
            "{error}"
        );
    }
    // Points that are not drawn may compare congestion controls as arms.
    let sweep = format!(
        "[sweep]\nseed = [1, 2]\n{}",
        arms.replace("CHANGE", "flow.down.cc")
    );
    assert_eq!(parse(&sweep).runs().len(), 4);
}

#[test]
fn populations_have_their_own_distributions() {
    let scenario = parse(
        r#"
[sweep.draw]
n = 300
down = { log-uniform = ["10 Mbit/s", "20 Mbit/s"] }
link.wan.both.rate = "down"
[[sweep.draw.population]]
name = "slow"
weight = 2
[[sweep.draw.population]]
name = "fast"
down = { log-uniform = ["100 Mbit/s", "200 Mbit/s"] }
link.wan.both.loss = "1 %"
[[sweep.draw.population]]
name = "never"
weight = 0
"#,
    );
    let draw = scenario.sweep.draw.as_ref().unwrap();
    assert_eq!(draw.group, ["population"]);
    let mut fast = 0;
    for run in scenario.runs() {
        let seen = scenario.at(&run).unwrap();
        let direction = &seen.links[0].forward;
        let rate = direction.rate_bps.unwrap();
        match run.point["population"].as_str() {
            "slow" => assert!(rate <= 20_000_000 && direction.loss == 0.0),
            "fast" => {
                fast += 1;
                assert!(rate >= 100_000_000 && direction.loss == 0.01);
            }
            other => panic!("{other}"),
        }
    }
    assert!((60..=140).contains(&fast), "{fast}");
}

#[test]
fn what_is_zipped_changes_together_beside_the_product() {
    let scenario = parse(
        r#"
[sweep]
link.wan.forward.loss = ["1 %", "2 %"]
zip = { link.wan.forward.rate = ["1 Mbit/s", "2 Mbit/s", "3 Mbit/s"], link.wan.reverse.rate = ["4 kbit/s", "5 kbit/s", "4 kbit/s"] }
"#,
    );
    let seen: Vec<[f64; 3]> = scenario
        .runs()
        .iter()
        .map(|run| {
            let link = scenario.at(run).unwrap().links.remove(0);
            [
                link.forward.loss * 100.0,
                link.forward.rate_bps.unwrap() as f64 / 1e6,
                link.reverse.rate_bps.unwrap() as f64 / 1e3,
            ]
        })
        .collect();
    let expected = [
        [1.0, 1.0, 4.0],
        [1.0, 2.0, 5.0],
        [1.0, 3.0, 4.0],
        [2.0, 1.0, 4.0],
        [2.0, 2.0, 5.0],
        [2.0, 3.0, 4.0],
    ];
    assert_eq!(seen, expected);
    let ids: Vec<String> = scenario.runs().into_iter().map(|run| run.id).collect();
    assert_eq!(
        ids[1],
        "baseline/cubic/1/link.wan.forward.loss=1 %/link.wan.forward.rate=2 Mbit/s/link.wan.reverse.rate=5 kbit/s"
    );
}

#[test]
fn a_policy_for_a_flow_that_is_not_there_is_not_there_either() {
    let scenario = parse(
        r#"
[sweep.draw]
n = 1
flow.up.connections = 0
[[arm]]
name = "baseline"
[[arm]]
name = "thin"
[[arm.place]]
policy = "adaptive"
at = "b"
link = "wan"
position = "receiver"
flows = ["down"]
[[arm.place]]
policy = "adaptive"
at = "a"
link = "wan"
position = "receiver"
flows = ["up"]
"#,
    );
    let seen = scenario.at(&scenario.runs()[1]).unwrap();
    assert_eq!(seen.arms[1].placements.len(), 1);
    assert_eq!(seen.arms[1].placements[0].flows, ["down"]);
}

#[test]
fn lines_are_what_they_say() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/lines.toml");
    let scenario = Scenario::load(file).unwrap();
    let text = &scenario.source.text.replace("n = 60", "n = 500");
    let scenario = Scenario::parse("lines.toml", text).unwrap();
    let points = scenario
        .runs()
        .into_iter()
        .filter(|run| run.arm == "baseline");
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for run in points {
        *seen.entry(run.point["population"].clone()).or_default() += 1;
        let at = scenario.at(&run).unwrap();
        let uploads = at.flows.iter().filter(|flow| flow.from == "client").count();
        assert_eq!(uploads == 1, run.point["upload"] == "true");
        assert!(at.flows.len() > uploads);
        if run.point["population"] == "thin" {
            let link = &at.links[0];
            let ratio = link.forward.rate_bps.unwrap() / link.reverse.rate_bps.unwrap();
            assert!((19..=321).contains(&ratio), "{ratio}");
        }
    }
    assert_eq!(seen.len(), 10, "{seen:?}");
    assert!((200..=300).contains(&seen["thin"]), "{seen:?}");
}
