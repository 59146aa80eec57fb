//! Checks the expectations of a scenario, and the agreement of two engines.

use std::fmt::Write as _;

use ackwise_scenario::record::{Report, Run};
use ackwise_scenario::{Expect, Metric, Scenario, glob_matches};
use serde::Serialize;

use crate::compare::{Stat, ratio};
use crate::format::short;

/// An expectation for one arm, congestion control and point of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExpectationResult {
    /// Name of the arm.
    pub arm: String,
    /// Congestion control and varied values.
    pub group: String,
    /// Name of the metric.
    pub metric: String,
    /// The bound in words: `≥ 3.5 × baseline`.
    pub bound: String,
    /// The median over seeds of the bounded number; `None` if the report does not have it. A ratio
    /// to zero is infinite, and `null` in JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<f64>,
    /// Whether it is met; `false` if nothing was found.
    pub met: bool,
    /// The reason for the expectation.
    pub why: String,
}

/// The limit, whether it is a minimum, and whether it bounds a ratio.
struct Bound {
    limit: f64,
    least: bool,
    relative: bool,
}

/// Checks every expectation of the scenario against the report, in file order. An expectation about
/// runs that are not in the report (because only some runs were selected) has no result.
pub fn expectations(report: &Report, scenario: &Scenario) -> Vec<ExpectationResult> {
    let mut results = Vec::new();
    for expect in &scenario.expects {
        let mut seen: Vec<(&str, String)> = Vec::new();
        for run in &report.runs {
            let speaks = glob_matches(&expect.arm, &run.arm)
                && (expect.cc.is_empty() || expect.cc.iter().any(|cc| glob_matches(cc, &run.cc)));
            let key = (run.arm.as_str(), group(run));
            if !speaks || seen.contains(&key) {
                continue;
            }
            seen.push(key);
            for bound in bounds(expect) {
                results.push(check(report, expect, run, &bound));
            }
        }
    }
    results
}

fn group(run: &Run) -> String {
    let mut title = run.cc.clone();
    for (path, value) in &run.point {
        let key = path.rsplit('.').next().unwrap_or(path);
        let _ = write!(title, " · {key} {value}");
    }
    title
}

fn bounds(expect: &Expect) -> Vec<Bound> {
    [
        (expect.min_ratio, true, true),
        (expect.max_ratio, false, true),
        (expect.min, true, false),
        (expect.max, false, false),
    ]
    .into_iter()
    .filter_map(|(limit, least, relative)| {
        Some(Bound {
            limit: limit?,
            least,
            relative,
        })
    })
    .collect()
}

fn check(report: &Report, expect: &Expect, like: &Run, bound: &Bound) -> ExpectationResult {
    let same = |run: &&Run| run.cc == like.cc && run.point == like.point;
    let values = report
        .runs
        .iter()
        .filter(same)
        .filter(|run| run.arm == like.arm)
        .filter_map(|run| {
            let value = expect.metric.of(run)?;
            if !bound.relative {
                return Some(value);
            }
            let base = report
                .runs
                .iter()
                .filter(same)
                .find(|base| base.arm == expect.against && base.seed == run.seed)?;
            Some(ratio(value, expect.metric.of(base)?))
        });
    let found = Stat::of(values).map(|stat| stat.median);
    let sign = if bound.least { '≥' } else { '≤' };
    let of = if bound.relative {
        format!(" × {}", expect.against)
    } else {
        String::new()
    };
    ExpectationResult {
        arm: like.arm.clone(),
        group: group(like),
        metric: expect.metric.name().to_owned(),
        bound: format!("{sign} {}{of}", bound.limit),
        found,
        met: found.is_some_and(|found| {
            if bound.least {
                found >= bound.limit
            } else {
                found <= bound.limit
            }
        }),
        why: expect.why.clone(),
    }
}

/// Formats the results as lines of text: first those that were missed, then those without a number,
/// then the others.
pub fn expectations_text(results: &[ExpectationResult]) -> String {
    let mut text = String::new();
    let mut sorted: Vec<_> = results.iter().collect();
    sorted.sort_by_key(|result| (result.met, result.found.is_none()));
    for result in sorted {
        let mark = match result.found {
            None => "–     ",
            Some(_) if result.met => "met   ",
            Some(_) => "MISSED",
        };
        let found = result.found.map_or(
            "not judged: the runs have no such number".to_owned(),
            |it| format!("found {}", short(it)),
        );
        let _ = write!(
            text,
            "{mark}  {} {}: {} {}, {found}",
            result.group, result.arm, result.metric, result.bound
        );
        if result.is_missed() && !result.why.is_empty() {
            let _ = write!(text, " ({})", result.why);
        }
        text.push('\n');
    }
    text
}

impl ExpectationResult {
    /// Whether a number was found but does not meet the expectation.
    pub fn is_missed(&self) -> bool {
        !self.met && self.found.is_some()
    }
}

/// The difference of two engines in one metric of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgreementResult {
    /// `RunSpec::id`.
    pub run: String,
    /// Name of the metric.
    pub metric: String,
    /// The two values.
    pub values: [Option<f64>; 2],
    /// Their difference as a share of their mean.
    pub difference: Option<f64>,
    /// The difference that the scenario allows.
    pub within: f64,
    /// Whether they agree; `false` if one of them lacks the metric.
    pub met: bool,
}

/// Compares two reports, run by run, by the `[[agree]]` tables of the scenario.
pub fn agreements(a: &Report, b: &Report, scenario: &Scenario) -> Vec<AgreementResult> {
    let mut results = Vec::new();
    for agree in &scenario.agrees {
        for run in a
            .runs
            .iter()
            .filter(|run| glob_matches(&agree.arm, &run.arm))
        {
            let Some(other) = b.runs.iter().find(|other| other.id == run.id) else {
                continue;
            };
            results.push(agreement(agree.metric, agree.within, run, other));
        }
    }
    results
}

fn agreement(metric: Metric, within: f64, a: &Run, b: &Run) -> AgreementResult {
    let values = [metric.of(a), metric.of(b)];
    let difference = match values {
        [Some(a), Some(b)] if a == b => Some(0.0),
        [Some(a), Some(b)] => Some((a - b).abs() / ((a.abs() + b.abs()) / 2.0)),
        _ => None,
    };
    AgreementResult {
        run: a.id.clone(),
        metric: metric.name().to_owned(),
        values,
        difference,
        within,
        met: difference.is_some_and(|difference| difference <= within),
    }
}

/// Formats the results as lines of text, disagreements first.
pub fn agreements_text(results: &[AgreementResult]) -> String {
    let mut text = String::new();
    let (met, missed): (Vec<_>, Vec<_>) = results.iter().partition(|r| r.met);
    for result in missed.iter().chain(&met) {
        let mark = if result.met { "agree " } else { "DIFFER" };
        let [a, b] = result
            .values
            .map(|v| v.map_or("no such number".to_owned(), short));
        let _ = write!(
            text,
            "{mark}  {} {}: {a} and {b}",
            result.run, result.metric
        );
        if let Some(difference) = result.difference {
            let percent = difference * 100.0;
            let allowed = result.within * 100.0;
            let _ = write!(text, ", {percent:.1} % apart (allowed {allowed:.1} %)");
        }
        text.push('\n');
    }
    text
}
