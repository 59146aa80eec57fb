//! The findings of an experiment so far.

use ackwise_cli::text;
use ackwise_switchback::{Block, Judge, Level, METRICS, Metric, MetricEffect, Outcome, Verdict};
use serde::Serialize;

use crate::linux::rates::rate;

/// Data at a lower rate are those of an idle line: keep-alives and the like.
const NOTICEABLE_BPS: u64 = 10_000;

/// The setup, for readers of the report.
#[derive(Debug, Clone, Serialize)]
pub struct Setup {
    pub interface: String,
    pub policy: String,
    pub position: String,
    pub block_s: f64,
    pub wash_out_s: f64,
    pub most_pairs: u32,
    pub difference: f64,
    pub error: f64,
    pub seed: u64,
    pub kernel: String,
    pub version: &'static str,
}

/// The report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub verdict: Verdict,
    /// Why the experiment ended.
    pub ended: String,
    pub effects: Vec<MetricEffect>,
    pub setup: Setup,
    pub blocks: Vec<Outcome>,
}

/// Judges the blocks so far.
pub fn report(setup: &Setup, blocks: &[Outcome], ended: String) -> Report {
    let (effects, verdict) = judge(setup).effects(blocks, &METRICS);
    Report {
        verdict,
        ended,
        effects,
        setup: setup.clone(),
        blocks: blocks.to_vec(),
    }
}

/// The verdict so far, and the effects on which it depends.
pub fn effects_and_verdict(setup: &Setup, blocks: &[Outcome]) -> (Vec<MetricEffect>, Verdict) {
    judge(setup).effects(blocks, Metric::judged())
}

fn judge(setup: &Setup) -> Judge {
    Judge {
        level: Level::new(setup.error).expect("checked with the arguments"),
        difference: setup.difference,
        judges_rtt: setup.position != "sender",
    }
}

/// A policy's name without its parameters.
pub fn policy_name(policy: &str) -> &str {
    policy.split(':').next().unwrap_or_default()
}

/// The verdict as a sentence.
pub fn sentence(report: &Report) -> String {
    let policy = policy_name(&report.setup.policy);
    let difference = report.setup.difference * 100.0;
    match report.verdict {
        Verdict::Helps => format!("{policy} helps on this line."),
        Verdict::Harms => format!("{policy} harms on this line: do not use it here."),
        Verdict::NoDifference => {
            format!("{policy} makes no difference larger than {difference} % here.")
        }
        Verdict::Undecided => match idle_rate(&report.blocks) {
            Some(most) => format!(
                "Not known: there was no traffic to compare. No block had more than {} of data; start \
                 a transfer, or choose a busier time.",
                rate(most)
            ),
            None => "Not known yet: it takes more pairs, longer blocks or more traffic.".to_owned(),
        },
    }
}

/// The highest rate of data in a block, bit/s, if no block had a noticeable one.
fn idle_rate(blocks: &[Outcome]) -> Option<u64> {
    let rates = blocks.iter().map(|block| block.data_bytes_per_s * 8.0);
    let most = rates.reduce(f64::max)? as u64;
    (most < NOTICEABLE_BPS).then_some(most)
}

/// The medians of the blocks with and without the policy.
pub fn medians(
    blocks: &[Outcome],
    value: fn(&Outcome) -> Option<f64>,
) -> (Option<f64>, Option<f64>) {
    let of = |policy| {
        let of_kind = blocks.iter().filter(|block| block.policy == policy);
        let mut values: Vec<_> = of_kind.filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        (n > 0).then(|| f64::midpoint(values[(n - 1) / 2], values[n / 2]))
    };
    (of(Block::Off), of(Block::On))
}

/// A value of a metric, formatted for a person.
pub fn shown(metric: &str, value: Option<f64>) -> String {
    let Some(value) = value else {
        return "-".to_owned();
    };
    match metric {
        "data" | "reverse data" | "ACK bytes" => rate((value * 8.0) as u64),
        "RTT" => text::micros(value * 1e3),
        "queue" => text::bytes(value as u64),
        "CPU" => format!("{:.1} %", value * 100.0),
        _ => format!("{}/s", text::count(value)),
    }
}

/// A ratio as a change in percent. A bound beyond a factor of a hundred does not bound anything
/// yet.
pub fn change(ratio: f64) -> String {
    if (0.01..100.0).contains(&ratio) {
        format!("{:+.1} %", (ratio - 1.0) * 100.0)
    } else {
        "?".to_owned()
    }
}

/// A ratio of an effect as a change; empty if no pair gives a value.
pub fn changes(found: &MetricEffect, ratio: f64) -> String {
    if found.pairs > 0 {
        change(ratio)
    } else {
        "-".to_owned()
    }
}

/// The report as text for a person.
pub fn in_text(report: &Report) -> String {
    let pairs = report.blocks.len() / 2;
    let mut rows = vec![
        ["", "without", "with", "change", "at least", "at most"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (found, metric) in report.effects.iter().zip(&METRICS) {
        let (off, on) = medians(&report.blocks, metric.value);
        let mark = if found.judged { "" } else { " (not judged)" };
        rows.push(vec![
            format!("{}{mark}", found.metric),
            shown(found.metric, off),
            shown(found.metric, on),
            changes(found, found.ratio),
            changes(found, found.low),
            changes(found, found.high),
        ]);
    }
    format!(
        "{}\n{}; {}\n\n{}\nThe change lies between the last two columns, with an \
         error of at most {} % for all judged metrics together.\n",
        sentence(report),
        match pairs {
            1 => "1 pair of blocks".to_owned(),
            _ => format!("{pairs} pairs of blocks"),
        },
        report.ended,
        text::columns(&rows, &[false, true, true, true, true, true]),
        report.setup.error * 100.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn setup() -> Setup {
        Setup {
            interface: "eth0".to_owned(),
            policy: "adaptive:max=32".to_owned(),
            position: "receiver".to_owned(),
            block_s: 10.0,
            wash_out_s: 2.0,
            most_pairs: 60,
            difference: 0.05,
            error: 0.05,
            seed: 1,
            kernel: "6.12".to_owned(),
            version: "0.1.0",
        }
    }

    pub fn block(policy: Block, data: f64, reverse: f64, rtt_ms: f64) -> Outcome {
        Outcome {
            policy,
            at_s: 0.0,
            seconds: 8.0,
            data_bytes_per_s: data,
            reverse_bytes_per_s: reverse,
            rtt_ms: Some(rtt_ms),
            withheld_per_s: 0.0,
            acks_per_s: 100.0,
            ack_bytes_per_s: 5_200.0,
            queue_bytes: None,
            retransmissions_per_s: None,
            cpu_share: Some(0.1),
        }
    }

    fn blocks(on: (f64, f64, f64), off: (f64, f64, f64)) -> Vec<Outcome> {
        let pair = [
            block(Block::On, on.0, on.1, on.2),
            block(Block::Off, off.0, off.1, off.2),
        ];
        pair.iter().cycle().take(80).cloned().collect()
    }

    fn verdict(on: (f64, f64, f64), off: (f64, f64, f64)) -> Verdict {
        report(&setup(), &blocks(on, off), String::new()).verdict
    }

    #[test]
    fn an_idle_line_is_called_idle() {
        let told = |data: f64| {
            let report = report(
                &setup(),
                &[block(Block::On, data, 0.0, 40.0)],
                String::new(),
            );
            assert_eq!(report.verdict, Verdict::Undecided);
            sentence(&report)
        };
        assert!(
            told(100.0).contains("no traffic to compare"),
            "{}",
            told(100.0)
        );
        assert!(told(1e6).contains("more pairs"), "{}", told(1e6));
        let report = report(&setup(), &[], String::new());
        assert!(sentence(&report).contains("more pairs"));
    }

    #[test]
    fn verdicts_follow_from_blocks() {
        let same = (1e6, 1e5, 40.0);
        assert_eq!(verdict(same, same), Verdict::NoDifference);
        assert_eq!(verdict((1.3e6, 1e5, 40.0), same), Verdict::Helps);
        assert_eq!(verdict((1.3e6, 0.7e5, 40.0), same), Verdict::Harms);
        assert_eq!(verdict((1e6, 1e5, 60.0), same), Verdict::Harms);
        // A direction that is hardly used says nothing, whatever its ratio.
        assert_eq!(
            verdict((1e6, 30.0, 40.0), (1e6, 90.0, 40.0)),
            Verdict::NoDifference
        );
        assert_eq!(
            report(&setup(), &[], String::new()).verdict,
            Verdict::Undecided
        );
    }

    #[test]
    fn the_order_of_a_pair_does_not_matter_and_half_a_pair_does_not_count() {
        let mut some = blocks((1.3e6, 1e5, 40.0), (1e6, 1e5, 40.0));
        let one = report(&setup(), &some, String::new());
        for pair in some.chunks_mut(2).step_by(2) {
            pair.swap(0, 1);
        }
        some.push(block(Block::On, 0.0, 0.0, 1e9));
        let other = report(&setup(), &some, String::new());
        for (a, b) in one.effects.iter().zip(&other.effects) {
            assert_eq!((a.low, a.high, a.pairs), (b.low, b.high, b.pairs));
        }
    }

    #[test]
    fn the_median_of_an_even_number_of_blocks_lies_between_the_two_in_the_middle() {
        let data = [1.0, 2.0, 4.0, 9.0].map(|data| block(Block::On, data, 0.0, 40.0));
        let of = |blocks: &[Outcome]| medians(blocks, |o| Some(o.data_bytes_per_s));
        assert_eq!(of(&data), (None, Some(3.0)));
        assert_eq!(of(&data[..3]), (None, Some(2.0)));
    }

    #[test]
    fn a_person_reads_what_changed() {
        let some = blocks((1.3e6, 1e5, 40.0), (1e6, 1e5, 40.0));
        let text = in_text(&report(&setup(), &some, "all pairs are done".to_owned()));
        for part in [
            "adaptive helps on this line.",
            "40 pairs of blocks; all pairs are done",
            "8.000 Mbit/s  10.400 Mbit/s",
            "queue (not judged)",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        let one = in_text(&report(&setup(), &some[..2], String::new()));
        assert!(one.contains("\n1 pair of blocks;"), "{one}");
        // A missing bound is `null`, which is valid JSON.
        let few = report(&setup(), &some[..2], String::new());
        let json = serde_json::to_value(&few).unwrap();
        assert_eq!(json["verdict"], "undecided");
        assert!(json["effects"][0]["high"].is_null(), "{json}");
    }
}
