//! Every row of every paper is judged: by a tolerance, or with a reason why not.

use ackwise_report::{Basis, Experiment, Source, Verdict};
use ackwise_reproduce::{Engine, Error, RunScenario, by_name, reproduce, unlisted};
use ackwise_scenario::record::{Report, Run, StretchBin};
use ackwise_scenario::{RunSpec, Scenario};
use ackwise_sim::RunOptions;

/// Executes in full the runs whose numbers a test checks. All others are copies of one of these,
/// or of a run with a hundredth of the transfer; the test checks only which rows they give.
struct Simulated {
    /// Whether the numbers of a run are checked, by the scenario's name.
    real: fn(&str, &RunSpec) -> bool,
}

impl RunScenario for Simulated {
    fn run(
        &self,
        engine: Engine,
        scenario: &Scenario,
        only: &[String],
        _: &mut (dyn FnMut(usize) + Send),
    ) -> Result<Report, Error> {
        assert_eq!(engine, Engine::Sim);
        let wanted: Vec<RunSpec> = scenario
            .runs()
            .into_iter()
            .filter(|run| only.contains(&run.id))
            .collect();
        let real = wanted.iter().filter(|run| (self.real)(&scenario.name, run));
        let real: Vec<String> = real.map(|run| run.id.clone()).collect();
        let (text, ids) = match real.is_empty() {
            true => (shortened(&scenario.source.text), only[..1].to_vec()),
            false => (scenario.source.text.to_string(), real),
        };
        let options = RunOptions {
            only: ids,
            ..RunOptions::default()
        };
        let report = ackwise_sim::run(&Scenario::parse("here.toml", &text)?, &options, &mut |_| {});
        let mut report = report.unwrap_or_else(|error| panic!("{error}"));
        let ran = std::mem::take(&mut report.runs);
        report.runs = wanted
            .into_iter()
            .map(|spec| {
                let found = ran.iter().find(|run| run.id == spec.id);
                found.cloned().unwrap_or_else(|| Run {
                    id: spec.id,
                    arm: spec.arm,
                    cc: spec.cc,
                    seed: spec.seed,
                    point: spec.point,
                    ..ran[0].clone()
                })
            })
            .collect();
        Ok(report)
    }
}

fn shortened(text: &str) -> String {
    text.replace("\"400 MiB\"", "\"4 MiB\"")
        .replace("\"200 MiB\"", "\"2 MiB\"")
}

fn rows(paper: &str, real: fn(&str, &RunSpec) -> bool) -> Vec<Experiment> {
    let paper = by_name(paper).unwrap();
    let report = reproduce(paper, None, false, &Simulated { real }, |_| {}).unwrap();
    let summary = report.summary();
    let counted = summary.published;
    assert!(counted.within + counted.outside > 0);
    // A tolerance missing from the list would be missing in docs/papers/README.md.
    let unlisted = unlisted(&paper.tolerances(), &report.experiments);
    assert_eq!(unlisted, [""; 0]);
    report.experiments
}

/// A row beside a published value has a tolerance, or says why it cannot have one; a row that was
/// not run says why.
fn are_judged(rows: &[Experiment]) {
    for row in rows {
        let verdict = row.verdict();
        if verdict != Verdict::Within {
            assert_ne!(row.reason(), "", "{}", row.id);
        }
        assert_ne!(row.reason(), "no tolerance is stated", "{}", row.id);
        let calculated = row.basis == Basis::Calculated;
        assert!(!calculated || verdict != Verdict::Within, "{}", row.id);
        let silent = row.published.is_none() && row.basis != Basis::NotRun;
        assert_eq!(silent, verdict == Verdict::NotPublished, "{}", row.id);
    }
}

fn verdict(rows: &[Experiment], id: &str) -> Verdict {
    let found = rows.iter().find(|row| row.id == id);
    found.unwrap_or_else(|| panic!("no row {id}")).verdict()
}

#[test]
fn pavilanskas_says_of_each_row_how_it_stands() {
    let fig8 = "window-45-each-its-own";
    let rows = rows("pavilanskas", |scenario, run| {
        scenario == "two-sessions" && run.arm == "window-45-each-its-own"
    });
    are_judged(&rows);
    // Rates of the two sessions, their sum, their shares, and when they end.
    for id in [
        "fig8/{}/tcp1",
        "fig8/{}/tcp2",
        "fig8/{}/total",
        "fig8/{}/jain",
    ] {
        let id = format!("pavilanskas/{}", id.replace("{}", fig8));
        assert_eq!(verdict(&rows, &id), Verdict::Within, "{id}");
    }
    for name in ["tcp1", "tcp2"] {
        let id = format!("pavilanskas/fig9/{fig8}/{name}-ends");
        assert_eq!(verdict(&rows, &id), Verdict::Within, "{id}");
    }
    // What a simulator cannot show, and what is arithmetic.
    for id in ["fig6", "fig7-25", "fig7-60"] {
        let id = format!("pavilanskas/not-run/{id}");
        assert_eq!(verdict(&rows, &id), Verdict::NotRun);
    }
    let fig9 = rows
        .iter()
        .any(|row| row.id == "pavilanskas/not-run/fig9-ends");
    assert!(!fig9, "a simulated session goes on until its end");
    let id = "pavilanskas/criterion/window";
    assert_eq!(verdict(&rows, id), Verdict::NotComparable);
    // A hundredth of the file is not the transfer.
    assert_eq!(verdict(&rows, "pavilanskas/fig4/0"), Verdict::Outside);
}

#[test]
fn marhoon_says_of_each_row_how_it_stands() {
    let rows = rows("marhoon", |scenario, run| {
        scenario == "marhoon" && ["baseline", "asym-af"].contains(&run.arm.as_str())
    });
    are_judged(&rows);
    // Medians over the ten draws of start times; for timeouts the draws differ.
    for (id, expected) in [
        ("throughput", Verdict::Within),
        ("data-drops", Verdict::Outside),
        ("acks-removed", Verdict::Outside),
        ("ack-queue-drops", Verdict::Outside),
        ("queue-deviation", Verdict::Outside),
        ("window-deviation", Verdict::Outside),
        ("timeouts", Verdict::Undecided),
    ] {
        let id = format!("marhoon/ratio/{id}");
        assert_eq!(verdict(&rows, &id), expected, "{id}");
    }
    // The paper prints five averages, but not their mean.
    let mean = rows
        .iter()
        .find(|row| row.id == "marhoon/asym-af/throughput");
    assert_eq!(mean.unwrap().source, Some(Source::Derived));
    let id = "marhoon/baseline/throughputs";
    assert_eq!(verdict(&rows, id), Verdict::NotComparable);
}

#[test]
fn saldana_says_of_each_row_how_it_stands() {
    let rows = rows("saldana", |scenario, run| {
        let ten = run.point.values().any(|value| value == "10 ms");
        let cc = ["tahoe", "reno"].contains(&run.cc.as_str());
        scenario == "table1" && ten && cc || scenario == "single" && run.arm == "mux-50ms"
    });
    are_judged(&rows);
    for (id, expected) in [
        ("fig2/mux-50ms/goodput", Verdict::Within),
        ("fig2/mux-50ms/interval", Verdict::Within),
        ("table1/reno/10ms", Verdict::Within),
        ("table1/tahoe/10ms", Verdict::Outside),
    ] {
        let id = format!("saldana/{id}");
        assert_eq!(verdict(&rows, &id), expected, "{id}");
    }
    let cells = rows
        .iter()
        .filter(|row| row.id.starts_with("saldana/table1/"));
    assert_eq!(cells.count(), 20);
    assert_eq!(verdict(&rows, "saldana/not-run/bundle"), Verdict::NotRun);
    // The paper prints the cells, but not which of them is the greatest.
    let greatest = rows.iter().find(|row| row.id == "saldana/claim/5ms");
    assert_eq!(greatest.unwrap().source, Some(Source::Derived));
    let id = "saldana/sizes/acks-per-bundle";
    assert_eq!(verdict(&rows, id), Verdict::NotComparable);
}

/// The ramp of DDA (2, 5, 9 segments) lies within the ten segments whose ACKs the contract lets
/// pass, so DDA amounts to an ACK for four segments. A ramp that begins later would show.
#[test]
fn under_the_contract_dda_is_an_ack_for_four_segments() {
    const TEXT: &str = r#"
[scenario]
name = "ramp"
duration = "20 s"

[[node]]
name = "sender"

[[node]]
name = "receiver"

[[link]]
name = "wan"
between = ["sender", "receiver"]
both = { rate = "2 Mbit/s", delay = "200 ms", queue = "1000 packets" }

[[flow]]
name = "bulk"
from = "sender"
to = "receiver"
app = "bulk"
bytes = "200 kB"

[sweep]
cc = ["reno"]

[[arm]]
name = "baseline"

[[arm]]
name = "dda"
policy = "dda"
at = "receiver"
link = "wan"
hold = "300 ms"
environment = "stack"

[[arm]]
name = "every"
policy = "every-n"
at = "receiver"
link = "wan"
hold = "300 ms"
environment = "stack"
set = { n = [4], warm = 0 }

[[arm]]
name = "later"
policy = "dda"
at = "receiver"
link = "wan"
hold = "300 ms"
environment = "stack"
set = { l1 = [30], l2 = [50], l3 = [90] }
"#;
    let scenario = Scenario::parse("ramp.toml", TEXT).unwrap_or_else(|error| panic!("{error}"));
    let report = ackwise_sim::run(&scenario, &RunOptions::default(), &mut |_| {}).unwrap();
    let [stock, dda, every, later] = &report.runs[..] else {
        panic!("{} runs", report.runs.len());
    };
    let of = |run: &Run| -> Vec<(u32, u64)> {
        let bins = run.totals.stretch.iter().flatten();
        bins.map(|bin: &StretchBin| (bin.segments, bin.acks))
            .collect()
    };
    assert_eq!(of(dda), of(every));
    assert!(of(dda).iter().any(|(segments, _)| *segments == 4));
    assert_ne!(of(later), of(every));
    let acks = |run: &Run| run.totals.acks_on_wire;
    assert!(acks(dda) < acks(later) && acks(later) < acks(stock));
}
