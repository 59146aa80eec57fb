//! Drawn lines, chunks, and applications without end.

use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Completion, Report};
use ackwise_sim::{RunOptions, run};

const HOSTS: &str = r#"
[scenario]
name = "test"
duration = "21 s"
[[node]]
name = "server"
[[node]]
name = "client"
"#;

fn simulate(parts: &[&str]) -> Report {
    let text = [&[HOSTS], parts].concat().concat();
    let scenario = Scenario::parse("test.toml", &text).unwrap_or_else(|e| panic!("{e}"));
    let report = run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap();
    for run in &report.runs {
        assert!(run.errors.is_empty(), "{}: {:?}", run.id, run.errors);
    }
    report
}

fn link(rate: &str) -> String {
    format!(
        "[[link]]\nname = \"wan\"\nbetween = [\"server\", \"client\"]\n\
         both = {{ rate = \"{rate}\", delay = \"20 ms\", queue = \"100 packets\" }}\n"
    )
}

fn flow(app: &str) -> String {
    format!("[[flow]]\nname = \"f\"\nfrom = \"server\"\nto = \"client\"\n{app}\n")
}

fn completion(rate: &str, app: &str) -> Completion {
    let report = simulate(&[&link(rate), &flow(app)]);
    report.runs[0].totals.completion.clone().unwrap()
}

#[test]
fn chunks_are_in_time_where_the_line_carries_them() {
    let app = "app = \"chunks\"\nchunk = \"500 kB\"\nperiod = \"2 s\"";
    let fine = completion("4 Mbit/s", app);
    // Due at 0, 2, … 18 s: the tenth has until 20 s, and the eleventh until 22 s.
    assert_eq!((fine.count, fine.unfinished, fine.late), (10, 0, Some(0)));
    // 500 kB take a second, and 4 % more for headers, at 4 Mbit/s.
    let median = fine.time_us.p50 / 1e6;
    assert!((1.03..1.15).contains(&median), "{median}");
}

#[test]
fn chunks_are_late_where_it_does_not() {
    let app = "app = \"chunks\"\nchunk = \"1500 kB\"\nperiod = \"2 s\"";
    let late = completion("4 Mbit/s", app);
    assert_eq!(late.late, Some(10));
    assert_eq!(late.count + late.unfinished, 10);
    // 21 s carry 10.5 MB less the headers.
    assert_eq!(late.count, 6);
    // With enough time the same chunks are in time.
    let longer = completion("4 Mbit/s", &format!("{app}\ndeadline = \"9 s\""));
    assert!(longer.late < Some(10), "{:?}", longer.late);
    assert!(longer.late > Some(0), "{:?}", longer.late);
}

#[test]
fn several_connections_have_chunks_of_their_own() {
    let app = "app = \"chunks\"\nchunk = \"100 kB\"\nperiod = \"1 s\"\nconnections = 3";
    let all = completion("10 Mbit/s", app);
    assert_eq!((all.count, all.unfinished, all.late), (63, 0, Some(0)));
}

#[test]
fn applications_without_a_count_go_on_to_the_end() {
    let app = "app = \"request-response\"\nrequest = \"500 B\"\nresponse = \"20 kB\"";
    let exchanges = completion("10 Mbit/s", app);
    // At least two round trips of 40 ms first, then one, and 16 ms for the response.
    assert!((200..400).contains(&exchanges.count), "{}", exchanges.count);
    assert!(exchanges.unfinished <= 1);
    let app = "app = \"short-flows\"\nsizes = [\"10 kB\", \"100 kB\"]\nconnections = 2";
    let short = completion("10 Mbit/s", app);
    let [small, large] = short.by_size.as_slice() else {
        panic!("{:?}", short.by_size);
    };
    assert!(small.count > 40, "{}", small.count);
    // Each size comes once per round, two transfers at a time.
    assert!(small.count.abs_diff(large.count) <= 2);
}

const DRAWN: &str = r#"
[[link]]
name = "wan"
between = ["server", "client"]
forward = { rate = "1 Mbit/s", queue = { limit = "64 KiB" } }
reverse = { rate = "1 Mbit/s", queue = { limit = "64 KiB" } }
[[flow]]
name = "down"
from = "server"
to = "client"
app = "bulk"
[[flow]]
name = "up"
from = "client"
to = "server"
app = "bulk"
[[arm]]
name = "baseline"
[[arm]]
name = "every-n"
policy = "every-n"
at = "client"
link = "wan"
position = "receiver"
set = { n = 8 }
[sweep.draw]
n = 4
seed = 1
cc = { choice = ["cubic", "bbr", "reno"] }
down = { log-uniform = ["5 Mbit/s", "20 Mbit/s"] }
ratio = { log-uniform = [20, 320] }
rtt = { log-uniform = ["15 ms", "200 ms"] }
link.wan.forward.rate = "down"
link.wan.reverse.rate = "down / ratio"
link.wan.both.delay = "rtt / 2"
link.wan.reverse.queue.limit = "max(down / ratio * 200 ms, 3028 B)"
scenario.duration = "5 s"
flow.down.connections = { uniform = [1, 3] }
flow.up.connections = { uniform = [0, 1] }
"#;

/// A drawn line is the same line in every run, and carries the same bytes.
#[test]
fn a_small_draw_comes_to_what_it_came_to() {
    let report = simulate(&[DRAWN]);
    let found: Vec<String> = report
        .runs
        .iter()
        .map(|run| {
            let flows = 1.max(run.flows.len());
            format!("{} {flows} {}", run.id, run.totals.bytes)
        })
        .collect();
    let expected = [
        "baseline/bbr/1/point=1 1 2570200",
        "every-n/bbr/1/point=1 1 3926976",
        "baseline/cubic/1/point=2 2 3000256",
        "every-n/cubic/1/point=2 2 2174896",
        "baseline/bbr/1/point=3 2 4517760",
        "every-n/bbr/1/point=3 2 4665456",
        "baseline/bbr/1/point=4 1 1078760",
        "every-n/bbr/1/point=4 1 2315352",
    ];
    assert_eq!(found, expected);
}
