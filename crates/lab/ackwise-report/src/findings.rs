//! The main findings of a report, in sentences.

use ackwise_scenario::record::Report;
use ackwise_scenario::{BASELINE, Metric};
use serde::Serialize;

use crate::compare::{Comparison, Row, Stat, failed};
use crate::format::{change, factor, percent};

/// A sentence about the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The subject in a word or two: an arm or `contents`.
    pub about: String,
    /// The most important number.
    pub figure: String,
    /// The meaning of the number.
    pub caption: String,
    /// Good, bad or neither.
    pub tone: Tone,
}

/// Whether a finding is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Neither.
    Plain,
}

/// The headline: what the arm of most interest did, what got worse, and whether the numbers can be
/// trusted. The arm of most interest is `adaptive`, or else the one whose worst goodput ratio is
/// best.
pub fn findings(report: &Report, comparison: &Comparison) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut arms: Vec<&str> = Vec::new();
    for row in comparison.groups.iter().flat_map(|group| &group.rows) {
        if row.arm != BASELINE && !arms.contains(&row.arm.as_str()) {
            arms.push(&row.arm);
        }
    }
    let worst = |arm: &str, metric| range(comparison, arm, metric).map(|stat| stat.min);
    let best = arms
        .iter()
        .copied()
        .find(|arm| *arm == "adaptive")
        .or_else(|| {
            arms.iter().copied().max_by(|a, b| {
                let [a, b] = [a, b].map(|arm| worst(arm, Metric::Goodput).unwrap_or(0.0));
                a.total_cmp(&b)
            })
        });
    if let Some(arm) = best {
        findings.extend(about_arm(comparison, arm));
    }
    let hurt: Vec<(f64, &str, String)> = comparison
        .groups
        .iter()
        .flat_map(|group| group.rows.iter().map(move |row| (group, row)))
        .filter(|(_, row)| row.arm != BASELINE)
        .filter_map(|(group, row)| {
            let ratio = row.ratio(Metric::Goodput)?.median;
            (ratio < 0.98).then(|| (ratio, row.arm.as_str(), group.title()))
        })
        .collect();
    if let Some((ratio, arm, group)) = hurt.iter().min_by(|a, b| a.0.total_cmp(&b.0)) {
        let others = match hurt.len() - 1 {
            0 => String::new(),
            1 => "; one other lost too".to_owned(),
            n => format!("; {n} others lost too"),
        };
        findings.push(Finding {
            about: (*arm).to_owned(),
            figure: change(*ratio),
            caption: format!("goodput with {group}: the worst{others}"),
            tone: Tone::Bad,
        });
    }
    findings.push(trust(report));
    findings
}

/// The ratios of an arm over all groups: the smallest and largest median.
fn range(comparison: &Comparison, arm: &str, metric: Metric) -> Option<Stat> {
    let rows = comparison.groups.iter().filter_map(|group| group.row(arm));
    Stat::of(rows.filter_map(|row: &Row| Some(row.ratio(metric)?.median)))
}

fn about_arm(comparison: &Comparison, arm: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let completes = comparison.only_completes();
    let mut push = |figure, caption: &str, good: bool, bad: bool| {
        findings.push(Finding {
            about: arm.to_owned(),
            figure,
            caption: caption.to_owned(),
            tone: match (good, bad) {
                (true, _) => Tone::Good,
                (_, true) => Tone::Bad,
                _ => Tone::Plain,
            },
        });
    };
    let span = |stat: Stat, show: fn(f64) -> String, unit: &str| {
        let [low, high] = [stat.min, stat.max].map(show);
        if low == high {
            low
        } else {
            format!("{} to {high}", low.strip_suffix(unit).unwrap_or(&low))
        }
    };
    if let Some(stat) = range(comparison, arm, Metric::Goodput).filter(|_| !completes) {
        let caption = "the baseline's goodput";
        push(
            span(stat, factor, "×"),
            caption,
            stat.min >= 1.05,
            stat.min < 0.98,
        );
    }
    if let Some(stat) = range(comparison, arm, Metric::CompletionP50) {
        let caption = "the baseline's median completion time";
        push(
            span(stat, factor, "×"),
            caption,
            stat.max <= 0.98,
            stat.max > 1.02,
        );
    }
    // A transfer that did not finish has no time, so that times alone do not show it.
    let done = range(comparison, arm, Metric::Completions);
    if let Some(stat) = done.filter(|stat| stat.min < 0.98) {
        let caption = "the baseline's completed transfers";
        push(span(stat, factor, "×"), caption, false, true);
    }
    if let Some(stat) = range(comparison, arm, Metric::AcksPerSegment) {
        let caption = "ACKs for each data segment";
        push(
            span(stat, change, " %"),
            caption,
            stat.max < 0.95,
            stat.max > 1.05,
        );
    }
    if let Some(stat) = range(comparison, arm, Metric::RttP50) {
        let caption = "median round-trip time";
        push(
            span(stat, change, " %"),
            caption,
            stat.max < 0.95,
            stat.max > 1.1,
        );
    }
    findings
}

fn trust(report: &Report) -> Finding {
    let bad = report.runs.iter().filter(|run| failed(run)).count();
    let checked = report
        .runs
        .iter()
        .filter(|run| {
            run.totals.content.is_some() || run.flows.iter().any(|f| f.traffic.content.is_some())
        })
        .count();
    let runs = report.runs.len();
    if bad > 0 {
        return Finding {
            about: "trust".to_owned(),
            figure: format!("{bad} of {runs}"),
            caption: "runs had errors; see below first".to_owned(),
            tone: Tone::Bad,
        };
    }
    if checked == 0 {
        return Finding {
            about: "contents".to_owned(),
            figure: runs.to_string(),
            caption: "runs without errors; contents were not checked".to_owned(),
            tone: Tone::Plain,
        };
    }
    Finding {
        about: "contents".to_owned(),
        figure: percent(checked as f64 / runs as f64),
        caption: format!("of {runs} runs checked: every byte arrived as it was sent"),
        tone: Tone::Good,
    }
}
