//! Trace files beside a scenario, and rates and delays that change.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ackwise_scenario::trace::TraceFiles;
use ackwise_scenario::{Direction, Scenario};

fn text(both: &str, more: &str) -> String {
    format!(
        r#"
[scenario]
name = "changing"
duration = "1 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
both = {{ {both} }}
[[flow]]
name = "f"
from = "a"
to = "b"
app = "bulk"
{more}
"#
    )
}

fn forward(both: &str) -> Direction {
    let scenario = Scenario::parse("x.toml", &text(both, ""));
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    scenario.links[0].forward.clone()
}

#[test]
fn steps_and_hand_overs_are_read() {
    let steps = forward(
        "rate = { steps = [[\"0 s\", \"8 Mbit/s\"], [\"1 s\", \"0 bit/s\"]], repeat = \"4 s\" }, \
         delay = { steps = [[\"0 s\", \"20 ms\"], [\"3 s\", \"5 ms\"]] }",
    );
    assert_eq!(steps.rate_bps, Some(2_000_000));
    assert_eq!(steps.delay.as_millis(), 5);
    let changes = steps.changes().unwrap();
    assert_eq!(changes.delay.unwrap().at(2_999_999_999), 20_000_000);
    assert!(changes.outages.is_none());

    let handover = "rate = \"9 Mbit/s\", delay = { handover = { every = \"15 s\", \
                    delay = [\"20 ms\", \"40 ms\"], outage = [\"50 ms\", \"150 ms\"], seed = SEED } }";
    let [one, same, other] =
        ["1", "1", "2"].map(|seed| forward(&handover.replace("SEED", seed)).changes().unwrap());
    assert_eq!(one, same);
    assert_ne!(one.delay, other.delay);
    assert_eq!(one.rate.unwrap().mean_bps(), 9_000_000);
    let spans = one.outages.as_ref().unwrap().spans();
    assert_eq!(spans.len(), 255);
    for (span, round) in spans.iter().zip(1..) {
        assert_eq!(span.start, round * 15_000_000_000);
        assert!((50_000_000..=150_000_000).contains(&(span.end - span.start)));
    }
    let delay = one.delay.unwrap();
    let mut delays: Vec<u64> = (0..256).map(|n| delay.at(n * 15_000_000_000)).collect();
    assert_eq!(delay.at(14_999_999_999), delays[0]);
    let mean = delays.iter().sum::<u64>() / 256;
    // Uniform in 20 ms: the mean of 256 has a standard deviation of 0.36 ms.
    assert!((28_000_000..32_000_000).contains(&mean), "{mean}");
    delays.sort_unstable();
    assert!(delays[0] >= 20_000_000 && delays[255] <= 40_000_000);
}

#[test]
fn what_a_direction_refines_is_what_holds() {
    let refined = text(
        "rate = { steps = [[\"0 s\", \"8 Mbit/s\"]], repeat = \"4 s\" }, delay = { steps = [[\"0 s\", \"20 ms\"]] }",
        "",
    )
    .replace(
        "[[flow]]",
        "forward = { rate = \"1 Mbit/s\", delay = \"3 ms\" }\n[[flow]]",
    );
    let scenario = Scenario::parse("x.toml", &refined).unwrap();
    assert_eq!(scenario.links[0].forward.changes(), None);
    assert!(scenario.links[0].reverse.changes().is_some());
}

#[test]
fn a_trace_is_read_beside_its_scenario_and_once() {
    let directory = tempfile::tempdir().unwrap();
    let traces = directory.path().join("traces");
    fs::create_dir(&traces).unwrap();
    let path = directory.path().join("x.toml");
    let more = "[sweep]\nlink.wan.both.rate.trace = [\"traces/a\", \"traces/b\"]\n";
    fs::write(&path, text("rate = { trace = \"traces/a\" }", more)).unwrap();
    fs::write(traces.join("a"), "10\n20\n").unwrap();
    fs::write(traces.join("b"), "0 s 5 Mbit/s\n").unwrap();
    let scenario = Scenario::load(&path).unwrap();
    // What a run sees does not change while it runs.
    fs::remove_dir_all(&traces).unwrap();
    let rates: Vec<Option<u64>> = scenario
        .runs()
        .iter()
        .map(|run| scenario.at(run).unwrap().links[0].forward.rate_bps)
        .collect();
    // 1500 bytes and the link's 14 every 10 ms.
    assert_eq!(rates, [Some(1_211_200), Some(5_000_000)]);
    // The files as another machine gets them.
    let given = TraceFiles::given(scenario.files.texts());
    let there = Scenario::parse_with("x", &scenario.source.text, &given).unwrap();
    assert_eq!(there.links, scenario.links);
    // The files as a report sees them.
    let nowhere = TraceFiles::nowhere();
    assert!(Scenario::parse_with("x", &scenario.source.text, &nowhere).is_ok());
}

fn mistake(directory: &Path, trace: &[u8]) -> String {
    fs::write(directory.join("bad.trace"), trace).unwrap();
    let path = directory.join("x.toml");
    fs::write(&path, text("rate = { trace = \"bad.trace\" }", "")).unwrap();
    let error = Scenario::load(&path).unwrap_err();
    let found = error.diagnostics();
    assert_eq!(found.len(), 1, "{error}");
    assert_eq!((found[0].line, found[0].column), (12, 27), "{error}");
    found[0].message.clone()
}

#[test]
fn mistakes_in_a_trace_are_told_with_both_places() {
    let directory = tempfile::tempdir().unwrap();
    let message = mistake(directory.path(), b"1\n  x\n");
    let place = "in the trace 'bad.trace', line 2, column 3: 'x' is not a time";
    assert!(message.starts_with(place), "{message}");
    assert!(mistake(directory.path(), b"").contains("is empty"));
    assert!(mistake(directory.path(), b"\xff\xfe").contains("cannot read the trace"));
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("here")).unwrap();
    let path = directory.path().join("x.toml");
    fs::write(&path, text("rate = { trace = \"here\" }", "")).unwrap();
    let error = Scenario::load(&path).unwrap_err().to_string();
    assert!(error.contains("it is not a file"), "{error}");
}

#[test]
fn seeds_of_traces_can_be_drawn() {
    let more = "[sweep.draw]\nn = 3\nmean = { uniform = [\"10 Mbit/s\", \"30 Mbit/s\"] }\n\
                link.wan.both.rate.lte.seed = { uniform = [1, 1000] }\n\
                link.wan.both.rate.lte.mean = \"mean\"\n";
    let scenario = Scenario::parse("x.toml", &text("rate = \"1 Mbit/s\"", more));
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let rates: Vec<_> = scenario
        .runs()
        .iter()
        .map(|run| scenario.at(run).unwrap().links[0].forward.clone())
        .collect();
    assert_eq!(rates.len(), 3);
    for (one, rest) in rates.iter().zip(1..) {
        assert!(one.rate_changes.is_some());
        assert!(
            rates[rest..]
                .iter()
                .all(|other| other.rate_bps != one.rate_bps)
        );
    }
}

/// A duration that runs would not have is refused, where they get another one from.
#[test]
fn a_new_duration_is_that_of_every_run() {
    let read = |more: &str| Scenario::parse("x.toml", &text("rate = \"1 Mbit/s\"", more)).unwrap();
    let swept = "[sweep]\nscenario.duration = [\"2 s\", \"3 s\"]\n";
    let zipped = "[sweep]\nzip = { \"scenario.duration\" = [\"2 s\", \"3 s\"],\n\
                  link.wan.both.delay = [\"1 ms\", \"2 ms\"] }\n";
    let changed = "[[arm]]\nname = \"baseline\"\n[[arm]]\nname = \"long\"\n\
                   change = { \"scenario.duration\" = \"9 s\" }\n";
    for (more, said) in [
        (swept, "[sweep] varies"),
        (zipped, "[sweep] varies"),
        (changed, "this arm changes"),
    ] {
        let scenario = read(more);
        let line = scenario.source.text.lines().position(|line| {
            line.contains("scenario") && line.contains("duration") && line.contains('=')
        });
        let error = scenario
            .with_duration(Duration::from_secs(5))
            .unwrap_err()
            .to_string();
        let place = format!("x.toml:{}:", line.unwrap() + 1);
        assert!(error.contains(&place) && error.contains(said), "{error}");
        assert!(error.contains("'scenario.duration'"), "{error}");
    }
    let plain = read("");
    for nanos in [1_234_560_000, 500_000_000, 100_000_001] {
        let duration = Duration::from_nanos(nanos);
        assert_eq!(plain.with_duration(duration).unwrap().duration, duration);
    }
    for (duration, said) in [
        (
            Duration::from_nanos(1),
            "a duration of 1ns is too short; choose at least 100ms",
        ),
        (
            Duration::from_secs(700_000),
            "a duration of 700000s is too long; choose at most 604800s",
        ),
    ] {
        let error = plain.with_duration(duration).unwrap_err().to_string();
        assert_eq!(error, said);
    }
}

/// Runs are read without the sweep's values, since reading all of them for each run took minutes here.
#[test]
fn every_run_of_a_long_sweep_has_its_value() {
    let rates: Vec<String> = (1..=1500)
        .map(|rate| format!("\"{rate} kbit/s\""))
        .collect();
    let sweep = format!("[sweep]\nlink.wan.both.rate = [{}]\n", rates.join(", "));
    let scenario = Scenario::parse("x.toml", &text("rate = \"9 Mbit/s\"", &sweep)).unwrap();
    let runs = scenario.runs();
    for (run, rate) in runs.iter().zip(1..) {
        let seen = scenario.at(run).unwrap();
        assert_eq!(seen.links[0].forward.rate_bps, Some(rate * 1000));
        assert_eq!(seen.sweep, scenario.sweep);
    }
    assert_eq!(runs.len(), 1500);
}
