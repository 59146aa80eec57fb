//! A medium that both directions share, simulated.

use ackwise_scenario::Scenario;
use ackwise_scenario::record::Run;
use ackwise_sim::{RunOptions, run};

const RATE: f64 = 250_000.0;

fn slow(duplex: &str, model: &str, arms: &str) -> Scenario {
    let text = format!(
        r#"
[scenario]
name = "half"
duration = "60 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "air"
between = ["a", "b"]
duplex = "{duplex}"
mtu = 128
both = {{ rate = "250 kbit/s", delay = "200 us", queue = "2000 packets" }}
[[flow]]
name = "data"
from = "a"
to = "b"
app = "bulk"
bytes = "88 kB"
socket = {{ timestamps = false }}
model = {{ {model} }}
[sweep]
cc = ["reno"]
[[arm]]
name = "baseline"
{arms}
"#
    );
    Scenario::parse("half.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn runs(scenario: &Scenario) -> Vec<Run> {
    run(scenario, &RunOptions::default(), &mut |_| {})
        .unwrap_or_else(|error| panic!("{error}"))
        .runs
}

/// Seconds that data and ACKs took on the medium, with 40 bytes of TCP/IP and 14 of Ethernet
/// per packet.
fn busy(run: &Run) -> [f64; 2] {
    let data = run.totals.bytes + 54 * run.totals.data_segments;
    let acks = run.totals.ack_bytes_on_wire.unwrap_or(0) + 14 * run.totals.acks_on_wire;
    [data, acks].map(|bytes| bytes as f64 * 8.0 / RATE)
}

#[test]
fn acks_cost_the_time_that_they_take() {
    let half = &runs(&slow("half", "", ""))[0];
    let full = &runs(&slow("full", "", ""))[0];
    let [data, acks] = busy(half);
    let duration = half.totals.duration_s;
    // The difference is the handshake and the last ACK.
    assert!((duration - data - acks).abs() < 0.02, "{duration}");
    let [data, _] = busy(full);
    let duration = full.totals.duration_s;
    assert!((duration - data).abs() < 0.02, "{duration}");
}

#[test]
fn to_tell_at_a_place_is_to_tell_by_the_model() {
    let thinner = "[[arm.place]]\npolicy = \"tda\"\nat = \"b\"\nlink = \"air\"\n\
                   hold = \"300 ms\"\nhold_min = \"300 ms\"\n";
    let place = |tell: bool| {
        format!(
            "[[arm]]\nname = \"x\"\n{thinner}[[arm.place]]\npolicy = \"none\"\nat = \"a\"\n\
             link = \"air\"\ncwnd_hint = {tell}\n"
        )
    };
    let [placed, modelled, untold] = [
        ("", place(true)),
        ("cwnd_hint = true", place(false)),
        ("", place(false)),
    ]
    .map(|(model, arms)| runs(&slow("half", model, &arms))[1].clone());
    assert_eq!(placed.totals.acks_on_wire, modelled.totals.acks_on_wire);
    assert_eq!(placed.totals.duration_s, modelled.totals.duration_s);
    assert_ne!(placed.totals.acks_on_wire, untold.totals.acks_on_wire);
}
