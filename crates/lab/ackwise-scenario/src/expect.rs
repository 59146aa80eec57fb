//! `[[expect]]`: the expected results.

use crate::glob::matches;
use crate::metric::Metric;
use crate::model::{Agree, App, Arm, BASELINE, Expect, Flow, Sweep};
use ackwise_config::Span;
use ackwise_config::diagnostic::suggest;
use ackwise_config::section::{Section, Word};

const EXPECT_KEYS: [&str; 9] = [
    "arm",
    "cc",
    "metric",
    "against",
    "min_ratio",
    "max_ratio",
    "min",
    "max",
    "why",
];

const BOUNDS: [&str; 4] = ["min_ratio", "max_ratio", "min", "max"];

/// Reads all `[[expect]]` tables.
pub(crate) fn expects(
    top: &Section<'_>,
    arms: &[Arm],
    sweep: &Sweep,
    flows: &[Flow],
) -> Vec<Expect> {
    let mut expects = Vec::new();
    for (table, span) in top.tables("expect") {
        let section = Section::open(table, span, "an expectation", &EXPECT_KEYS, top.errors);
        expects.extend(expect(&section, span, arms, sweep, flows));
    }
    expects
}

/// Reads one `[[expect]]` table; `None` if it names no arm or no metric.
fn expect(
    section: &Section<'_>,
    span: &Span,
    arms: &[Arm],
    sweep: &Sweep,
    flows: &[Flow],
) -> Option<Expect> {
    let arm_names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
    let ccs: Vec<&str> = sweep.cc.iter().map(String::as_str).collect();
    let arm = section.required_word("arm", "\"adaptive\"");
    if let Some(arm) = &arm {
        check_pattern(section, arm, "arm", &arm_names);
    }
    let cc = section.words("cc").unwrap_or_default();
    for pattern in &cc {
        check_pattern(section, pattern, "congestion control", &ccs);
    }
    if !section.has("metric") {
        section.error(
            span,
            "an expectation has no 'metric'; add metric = \"goodput\"",
        );
    }
    let metric = metric(section, flows);
    let against = against(section, &arm_names);
    let [min_ratio, max_ratio, min, max] = BOUNDS.map(|key| section.number(key));
    if !BOUNDS.iter().any(|key| section.has(key)) {
        section.error(
            span,
            "an expectation needs a bound: min_ratio, max_ratio, min or max",
        );
    }
    if (min_ratio.is_some() || max_ratio.is_some()) && !arm_names.contains(&against.as_str()) {
        section.error(
            span,
            format!("ratios are formed with arm '{against}', which does not exist"),
        );
    }
    for (low, high, key) in [(min_ratio, max_ratio, "max_ratio"), (min, max, "max")] {
        if low.zip(high).is_some_and(|(low, high)| low > high) {
            section.error(
                &section.span_of(key),
                format!("'{key}' is below the minimum: nothing can meet that"),
            );
        }
    }
    Some(Expect {
        arm: arm?.text,
        cc: cc.into_iter().map(|word| word.text).collect(),
        metric: metric?,
        against,
        min_ratio,
        max_ratio,
        min,
        max,
        why: section.word("why").map_or(String::new(), |why| why.text),
        span: span.clone(),
    })
}

/// Reads the key `metric`, and checks that the flows have it.
fn metric(section: &Section<'_>, flows: &[Flow]) -> Option<Metric> {
    let known: Vec<(&str, Metric)> = Metric::ALL.iter().map(|(m, name)| (*name, *m)).collect();
    let metric = section.choice("metric", &known)?;
    check_metric(section, metric, flows);
    Some(metric)
}

/// Reads the key `against`; [`BASELINE`] if it is absent.
fn against(section: &Section<'_>, arm_names: &[&str]) -> String {
    let Some(against) = section.word("against") else {
        return BASELINE.to_owned();
    };
    if !arm_names.contains(&against.text.as_str()) {
        let message = format!(
            "there is no arm '{}'{}",
            against.text,
            suggest(&against.text, arm_names)
        );
        section.error(&against.span, message);
    }
    against.text
}

/// Reads all `[[agree]]` tables.
pub(crate) fn agrees(top: &Section<'_>, arms: &[Arm], flows: &[Flow]) -> Vec<Agree> {
    let arm_names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
    let known = ["arm", "metric", "within"];
    let mut agrees = Vec::new();
    for (table, span) in top.tables("agree") {
        let section = Section::open(table, span, "an agreement", &known, top.errors);
        let arm = section.word("arm");
        if let Some(arm) = &arm {
            check_pattern(&section, arm, "arm", &arm_names);
        }
        for (key, example) in [("metric", "\"goodput\""), ("within", "\"3 %\"")] {
            if !section.has(key) {
                section.error(
                    span,
                    format!("an agreement has no '{key}'; add {key} = {example}"),
                );
            }
        }
        let metric = metric(&section, flows);
        let within = section.share("within");
        if within == Some(0.0) {
            section.error(
                &section.span_of("within"),
                "no two engines agree exactly; write e.g. within = \"3 %\"",
            );
        }
        let (Some(metric), Some(within)) = (metric, within) else {
            continue;
        };
        agrees.push(Agree {
            arm: arm.map_or_else(|| "*".to_owned(), |word| word.text),
            metric,
            within,
        });
    }
    agrees
}

fn check_pattern(section: &Section<'_>, pattern: &Word, what: &str, known: &[&str]) {
    if !known.iter().any(|name| matches(&pattern.text, name)) {
        section.error(
            &pattern.span,
            format!(
                "no {what} matches '{}'{}",
                pattern.text,
                suggest(&pattern.text, known)
            ),
        );
    }
}

fn check_metric(section: &Section<'_>, metric: Metric, flows: &[Flow]) {
    let completion = matches!(
        metric,
        Metric::CompletionP50 | Metric::CompletionP99 | Metric::Completions
    );
    let chunks = flows
        .iter()
        .any(|flow| matches!(flow.app, App::Chunks { .. }));
    if metric == Metric::LateShare && !chunks && !flows.is_empty() {
        section.error(
            &section.span_of("metric"),
            "only chunks can be late: add a flow with app = \"chunks\"",
        );
    }
    let ends = flows.iter().any(|flow| {
        !matches!(
            flow.app,
            App::Bulk { bytes: None } | App::Iperf3 { bytes: None }
        )
    });
    if completion && !ends && !flows.is_empty() {
        section.error(
            &section.span_of("metric"),
            "no flow completes anything: give one 'bytes', or another 'app'",
        );
    }
}
