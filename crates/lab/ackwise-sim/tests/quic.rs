//! Flows over QUIC.

use ackwise_scenario::Scenario;
use ackwise_scenario::record::{Report, Run};
use ackwise_sim::{RunOptions, SimError, run};

fn scenario(mtu: u32, app: &str, extension: &str) -> Scenario {
    let text = format!(
        r#"
[scenario]
name = "quic"
duration = "10 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "ab"
between = ["a", "b"]
mtu = {mtu}
both = {{ delay = "20 ms" }}
forward = {{ rate = "20 Mbit/s", queue = "100 packets", loss = "0.1 %" }}
reverse = {{ rate = "200 kbit/s", queue = "100 packets" }}
[[flow]]
name = "f"
from = "a"
to = "b"
transport = "quic"
{app}
{extension}
[sweep]
cc = ["cubic", "bbr"]
[[arm]]
name = "baseline"
[[arm]]
name = "adaptive"
policy = "adaptive"
at = "b"
link = "ab"
"#
    );
    Scenario::parse("quic.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

fn report(scenario: &Scenario) -> Result<Report, SimError> {
    run(scenario, &RunOptions::default(), &mut |_| {})
}

fn runs(scenario: &Scenario) -> Vec<Run> {
    let report = report(scenario).unwrap_or_else(|error| panic!("{error}"));
    for run in &report.runs {
        assert!(run.errors.is_empty(), "{}: {:?}", run.id, run.errors);
    }
    report.runs
}

const BULK: &str = "app = \"bulk\"";

#[test]
fn a_policy_leaves_quic_alone() {
    let runs = runs(&scenario(1500, BULK, ""));
    let find = |arm: &str, cc: &str| {
        let found = runs.iter().find(|run| run.arm == arm && run.cc == cc);
        found.expect("a run").totals.clone()
    };
    for cc in ["cubic", "bbr"] {
        assert_eq!(find("baseline", cc), find("adaptive", cc));
        assert!(find("baseline", cc).goodput_bps > 1e6);
    }
}

/// QUIC's ACKs are short and nobody thins them, so a queue that they fill is not shortened: TCP keeps
/// all its ACKs (docs/decisions/0048-not-tcp.md).
#[test]
fn thinning_takes_nothing_from_tcp_beside_quic() {
    let text = include_str!("../../../../scenarios/quic-beside-tcp.toml");
    let scenario = Scenario::parse("quic-beside-tcp.toml", text).expect("a scenario");
    let wanted = |arm: &str| ["baseline", "adaptive"].contains(&arm);
    let only = scenario.runs().into_iter().filter(|run| wanted(&run.arm));
    let options = RunOptions {
        only: only.map(|run| run.id).collect(),
        ..RunOptions::default()
    };
    let report = run(&scenario, &options, &mut |_| {}).unwrap_or_else(|error| panic!("{error}"));
    let goodput = |arm: &str| -> Vec<f64> {
        let runs = report.runs.iter().filter(|run| run.arm == arm);
        let tcp = runs.flat_map(|run| run.flows.iter().find(|flow| flow.flow == "tcp"));
        tcp.map(|flow| flow.traffic.goodput_bps).collect()
    };
    let (baseline, adaptive) = (goodput("baseline"), goodput("adaptive"));
    assert_eq!((baseline.len(), adaptive.len()), (3, 3), "three seeds");
    for (nothing, thinned) in baseline.iter().zip(&adaptive) {
        assert!(*thinned > 0.97 * nothing, "{adaptive:?} of {baseline:?}");
    }
}

#[test]
fn the_extension_frees_a_thin_uplink() {
    let every_second = &runs(&scenario(1500, BULK, ""))[0].totals.clone();
    let few = "quic = { ack_eliciting_threshold = 31 }";
    let asked = &runs(&scenario(1500, BULK, few))[0].totals.clone();
    assert!(
        asked.acks_on_wire * 3 < every_second.acks_on_wire * 2,
        "{} and {}",
        asked.acks_on_wire,
        every_second.acks_on_wire
    );
    assert!(asked.goodput_bps > every_second.goodput_bps);
}

#[test]
fn two_reports_are_the_same() {
    let scenario = scenario(
        1500,
        "app = \"short-flows\"\nsizes = [\"3 kB\", \"300 kB\"]\ncount = 10",
        "",
    );
    let json = || {
        report(&scenario)
            .expect("a report")
            .to_json()
            .expect("json")
    };
    assert_eq!(json(), json());
    let completion = &runs(&scenario)[0].totals.completion;
    let done: u64 = completion.iter().map(|of| of.count).sum();
    assert_eq!(done, 20);
}

#[test]
fn chunks_arrive_over_quic() {
    let app = "app = \"chunks\"\nchunk = \"100 kB\"\nperiod = \"1 s\"";
    let runs = runs(&scenario(1500, app, ""));
    let done: u64 = runs[0].totals.completion.iter().map(|of| of.count).sum();
    assert!(done >= 9, "{done}");
}

#[test]
fn what_quic_does_not_tell_is_not_in_the_record() {
    let run = &runs(&scenario(1500, BULK, ""))[0];
    assert_eq!(run.totals.timeouts, None);
    let series = run.totals.series.as_ref().expect("a series");
    assert!(series.cwnd_segments.iter().any(Option::is_some));
    assert!(series.inflight_segments.iter().all(Option::is_none));
}

#[test]
fn what_quic_does_not_have_is_refused() {
    let refused = |scenario: &Scenario| report(scenario).unwrap_err().to_string();
    let small = refused(&scenario(1000, BULK, ""));
    assert!(
        small.contains("QUIC needs datagrams of 1200 bytes (RFC 9000 §14), not 972"),
        "{small}"
    );
    let text = scenario(1500, BULK, "").source.text.replace("bbr", "tahoe");
    let tahoe = Scenario::parse("quic.toml", &text).expect("a scenario");
    let own = refused(&tahoe);
    assert!(
        own.contains(
            "runs QUIC with 'tahoe', which the simulator has no model of (it has reno, cubic, bbr)"
        ),
        "{own}"
    );
}
