//! What an experiment has found so far.

use ackwise_cli::text;
use ackwise_switchback::{Block, Effect, Level, Metric as Judged, Verdict, judge};
use serde::Serialize;

use super::outcome::{METRICS, Metric, Outcome};
use crate::gateway::rate;

/// What is added to both sides of a pair, as a share of the mean of what both directions carry: a
/// few packets more or less of a direction that is hardly used are no effect. It damps the effect
/// on a direction that carries little.
const NEGLIGIBLE: f64 = 0.002;

/// The setup, for whoever reads the report.
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

/// The effect on one metric.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    pub metric: &'static str,
    /// Whether the verdict depends on it.
    pub judged: bool,
    /// Pairs that say something.
    pub pairs: usize,
    /// With the policy to without it.
    pub ratio: f64,
    pub low: f64,
    /// Without a bound as long as nothing is excluded (`null` in JSON).
    pub high: f64,
}

/// The report.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    pub verdict: Verdict,
    /// Why it ended.
    pub ended: String,
    pub effects: Vec<Found>,
    pub setup: Setup,
    pub blocks: Vec<Outcome>,
}

/// The pairs of consecutive blocks: with the policy, without it. A block without its other half is
/// left out.
fn pairs(blocks: &[Outcome]) -> impl Iterator<Item = (&Outcome, &Outcome)> {
    blocks.chunks_exact(2).map(|pair| match pair[0].policy {
        Block::On => (&pair[0], &pair[1]),
        Block::Off => (&pair[1], &pair[0]),
    })
}

/// Judges the blocks so far.
pub fn report(setup: &Setup, blocks: &[Outcome], ended: String) -> Report {
    let (effects, verdict) = effects(setup, blocks, &METRICS);
    Report {
        verdict,
        ended,
        effects,
        setup: setup.clone(),
        blocks: blocks.to_vec(),
    }
}

/// The verdict so far, and the effects on which it depends.
pub fn judged(setup: &Setup, blocks: &[Outcome]) -> (Vec<Found>, Verdict) {
    let judged = METRICS.iter().take_while(|metric| metric.judged).count();
    effects(setup, blocks, &METRICS[..judged])
}

fn effects(setup: &Setup, blocks: &[Outcome], metrics: &[Metric]) -> (Vec<Found>, Verdict) {
    let shared_by = METRICS.iter().filter(|metric| metric.judged).count();
    let level = Level::new(setup.error).expect("checked with the arguments");
    let level = level.shared_by(shared_by);
    let (mut effects, mut known) = (Vec::new(), Vec::new());
    for metric in metrics {
        let mut effect = Effect::default();
        for (on, off) in pairs(blocks) {
            let (Some(a), Some(b)) = ((metric.value)(on), (metric.value)(off)) else {
                continue;
            };
            // The same for both sides, and it does not change if they change places.
            let some = if metric.name.ends_with("data") {
                (negligible(on) + negligible(off)) / 2.0
            } else {
                0.0
            };
            effect.add(a + some, b + some);
        }
        let interval = effect.interval(level);
        // A sender sees of the round trip only what the data take, at its least.
        let judged = metric.judged && !(metric.name == "RTT" && setup.position == "sender");
        if judged && effect.pairs() > 0 {
            known.push(Judged {
                better: metric.better,
                ratio: effect.ratio(),
                interval,
            });
        }
        effects.push(Found {
            metric: metric.name,
            judged,
            pairs: effect.pairs(),
            ratio: effect.ratio(),
            low: interval.low,
            high: interval.high,
        });
    }
    (effects, judge(&known, setup.difference))
}

fn negligible(outcome: &Outcome) -> f64 {
    NEGLIGIBLE * (outcome.data_bytes_per_s + outcome.reverse_bytes_per_s)
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
        Verdict::Undecided => "Not known yet: more pairs, longer blocks or more traffic would \
             tell."
            .to_owned(),
    }
}

/// The values of the blocks with and without the policy, as medians.
pub fn medians(
    blocks: &[Outcome],
    value: fn(&Outcome) -> Option<f64>,
) -> (Option<f64>, Option<f64>) {
    let of = |policy| {
        let of_kind = blocks.iter().filter(|block| block.policy == policy);
        let mut values: Vec<_> = of_kind.filter_map(value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    (of(Block::Off), of(Block::On))
}

/// A value of a metric for a person.
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

/// A ratio as a change in per cent. A bound beyond a factor of a hundred bounds nothing yet.
pub fn change(ratio: f64) -> String {
    if (0.01..100.0).contains(&ratio) {
        format!("{:+.1} %", (ratio - 1.0) * 100.0)
    } else {
        "?".to_owned()
    }
}

/// A ratio of an effect as a change; nothing if no pair says anything.
pub fn changes(found: &Found, ratio: f64) -> String {
    if found.pairs > 0 {
        change(ratio)
    } else {
        "-".to_owned()
    }
}

/// What a person reads at the end.
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
        "{}\n{} pairs of blocks; {}\n\n{}\nThe change lies between the last two columns, with an \
         error of at most {} % for all judged metrics together.\n",
        sentence(report),
        pairs,
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
    fn verdicts_follow_from_blocks() {
        let same = (1e6, 1e5, 40.0);
        assert_eq!(verdict(same, same), Verdict::NoDifference);
        assert_eq!(verdict((1.3e6, 1e5, 40.0), same), Verdict::Helps);
        assert_eq!(verdict((1.3e6, 0.7e5, 40.0), same), Verdict::Harms);
        assert_eq!(verdict((1e6, 1e5, 60.0), same), Verdict::Harms);
        // A direction that is hardly used says nothing, whatever its ratio is.
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
        // What has no bound yet is `null`, and valid JSON.
        let few = report(&setup(), &some[..2], String::new());
        let json = serde_json::to_value(&few).unwrap();
        assert_eq!(json["verdict"], "undecided");
        assert!(json["effects"][0]["high"].is_null(), "{json}");
    }
}
