//! TCP over a Wi-Fi whose ACKs contend with data, simulated.

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use ackwise_sim::{RunOptions, run};

fn runs(wifi: &str) -> Vec<Run> {
    let text = format!(
        r#"
[scenario]
name = "wifi"
duration = "5 s"
[[node]]
name = "ap"
[[node]]
name = "station"
[[link]]
name = "air"
between = ["ap", "station"]
duplex = "half"
{wifi}
both = {{ rate = "65 Mbit/s", delay = "2 ms", queue = "300 packets" }}
[[flow]]
name = "f"
from = "ap"
to = "station"
app = "bulk"
[sweep]
cc = ["bbr"]
[[arm]]
name = "baseline"
[[arm]]
name = "every-32"
policy = "every-n"
at = "station"
link = "air"
set = {{ n = 32 }}
"#
    );
    let scenario = Scenario::parse("x.toml", &text).unwrap_or_else(|error| panic!("{error}"));
    let report = run(&scenario, &RunOptions::default(), &mut |_| {});
    let runs = report.unwrap_or_else(|error| panic!("{error}")).runs;
    for run in &runs {
        assert!(run.errors.is_empty(), "{:?}", run.errors);
    }
    runs
}

fn gain(runs: &[Run]) -> f64 {
    runs[1].totals.goodput_bps / runs[0].totals.goodput_bps
}

/// Without aggregation a segment takes 382 µs of the medium on average, and an ACK 197 µs: AIFS,
/// 7.5 slots, a preamble with its symbols, SIFS and an ACK. Contention saves back-off, since
/// two stations count down at the same time, and costs collisions.
#[test]
fn acks_cost_an_access_each_without_aggregation() {
    let runs = runs("wifi = { frames = 1 }");
    let baseline = &runs[0].totals;
    let acks = baseline.acks_on_wire as f64 / baseline.data_segments as f64;
    let most = 1448.0 * 8.0 / (382.5 + acks * (382.5 - 228.0 + 52.0 - 67.5));
    let share = baseline.goodput_bps / 1e6 / most;
    assert!(
        (0.85..1.1).contains(&share),
        "{} of {most}",
        baseline.goodput_bps
    );
    assert!(gain(&runs) > 1.05, "{}", gain(&runs));
}

#[test]
fn aggregation_takes_most_of_that_away() {
    let with = runs("wifi = true");
    let without = runs("wifi = { frames = 1 }");
    assert!(gain(&with) > 1.0 && gain(&with) < 1.05, "{}", gain(&with));
    assert!(with[0].totals.goodput_bps > 2.0 * without[0].totals.goodput_bps);
    // The same medium without contention and headers carries more.
    let plain = runs("wifi = false");
    assert!(plain[0].totals.goodput_bps > with[0].totals.goodput_bps);
}
