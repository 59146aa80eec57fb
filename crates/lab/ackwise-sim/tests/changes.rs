//! Links that change over time, simulated.

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use ackwise_sim::{RunOptions, run};

fn one(forward: &str) -> Run {
    let text = format!(
        r#"
[scenario]
name = "changing"
duration = "20 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
forward = {{ queue = "200 kB", {forward} }}
reverse = {{ rate = "10 Mbit/s", delay = "5 ms" }}
[[flow]]
name = "f"
from = "a"
to = "b"
app = "bulk"
[sweep]
cc = ["cubic"]
[record]
interval = "100 ms"
"#
    );
    let scenario = Scenario::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::default(), &mut |_| {});
    let mut runs = report.unwrap_or_else(|error| panic!("{error}")).runs;
    assert!(runs[0].errors.is_empty(), "{:?}", runs[0].errors);
    runs.remove(0)
}

#[test]
fn a_flow_gets_what_the_steps_carry() {
    let steps =
        "rate = { steps = [[\"0 s\", \"16 Mbit/s\"], [\"1 s\", \"4 Mbit/s\"]], repeat = \"2 s\" }";
    let run = one(&format!("{steps}, delay = \"5 ms\""));
    // 10 Mbit/s less 52 bytes of TCP/IP and 14 of the link in each 1514.
    let most = 10e6 * 1448.0 / 1514.0;
    let got = run.totals.goodput_bps;
    assert!(got <= most && got > 0.97 * most, "{got} of {most}");
}

#[test]
fn a_hand_over_shows_in_the_round_trip() {
    let run = one(
        "rate = \"2 Mbit/s\", delay = { steps = [[\"0 s\", \"5 ms\"], [\"10 s\", \"105 ms\"]] }",
    );
    // For half of the time the delay is 100 ms longer.
    let steady = one("rate = \"2 Mbit/s\", delay = \"5 ms\"");
    let mean = |run: &Run| run.totals.rtt_us.and_then(|rtt| rtt.mean).unwrap();
    let more = mean(&run) - mean(&steady);
    assert!((20_000.0..80_000.0).contains(&more), "{more}");
}

#[test]
fn an_outage_stops_everything() {
    let handover = |outage: &str| {
        format!(
            "rate = \"10 Mbit/s\", delay = {{ handover = {{ every = \"1 s\", delay = \"5 ms\", \
             outage = \"{outage}\" }} }}"
        )
    };
    let whole = one(&handover("0 s")).totals.goodput_bps;
    let parts = one(&handover("200 ms")).totals.goodput_bps;
    // 19 outages in 20 s.
    let share = 1.0 - 19.0 * 0.2 / 20.0;
    assert!(
        parts <= share * whole * 1.01 && parts > 0.9 * share * whole,
        "{parts} {whole}"
    );
}
