//! The report as a self-contained page.

use ackwise_switchback::{Block, METRICS, MetricEffect, Outcome};

use super::report::{Report, changes, medians, policy_name, sentence, shown};
use crate::page::{self, escape, table, table_with_text};

const WIDTH: f64 = 720.0;
const COLORS: [(Block, &str, &str); 2] = [
    (Block::Off, "#718096", "without"),
    (Block::On, "#2b6cb0", "with"),
];

/// The page.
pub fn page(report: &Report) -> String {
    let s = &report.setup;
    let mut out = page::begin("Does thinning ACKs help here?");
    out.push_str(&format!(
        "<h1>Does {} help on {}?</h1>\n<div class=\"advice\">{} {} pairs of blocks; {}.</div>\n",
        escape(policy_name(&s.policy)),
        escape(&s.interface),
        escape(&sentence(report)),
        report.blocks.len() / 2,
        escape(&report.ended),
    ));
    out.push_str("<h2>Effects</h2>\n");
    intervals(&mut out, &report.effects);
    effects(&mut out, report);
    for metric in &METRICS[..3] {
        out.push_str(&format!("<h2>Each block: {}</h2>\n", metric.name));
        dots(&mut out, metric.name, &report.blocks, metric.value);
    }
    out.push_str("<h2>Setup</h2>\n");
    let rows = [
        ("interface", s.interface.clone()),
        ("policy", s.policy.clone()),
        ("position", s.position.clone()),
        ("block", format!("{} s", s.block_s)),
        ("wash-out, not counted", format!("{} s", s.wash_out_s)),
        ("maximum number of pairs", s.most_pairs.to_string()),
        ("smallest difference that matters", percent(s.difference)),
        ("accepted error", percent(s.error)),
        ("seed of the order", s.seed.to_string()),
        ("kernel", s.kernel.clone()),
        ("ackwise", s.version.to_owned()),
    ];
    let rows: Vec<_> = rows
        .into_iter()
        .map(|(what, value)| vec![what.to_owned(), value])
        .collect();
    table_with_text(&mut out, &["", ""], &rows);
    blocks(&mut out, &report.blocks);
    out.push_str(page::END);
    out
}

fn percent(share: f64) -> String {
    format!("{} %", share * 100.0)
}

fn effects(out: &mut String, report: &Report) {
    let rows: Vec<_> = report
        .effects
        .iter()
        .zip(&METRICS)
        .map(|(found, metric)| {
            let (off, on) = medians(&report.blocks, metric.value);
            vec![
                format!(
                    "{}{}",
                    found.metric,
                    if found.judged { "" } else { " (not judged)" }
                ),
                shown(found.metric, off),
                shown(found.metric, on),
                changes(found, found.ratio),
                changes(found, found.low),
                changes(found, found.high),
            ]
        })
        .collect();
    let head = ["", "without", "with", "change", "at least", "at most"];
    table(out, &head, &rows);
    out.push_str(
        "<p>The change lies between the last two columns, with the error below for all judged \
         metrics together, at whatever time the experiment is stopped.</p>\n",
    );
}

/// The intervals on a logarithmic axis from one half to two.
fn intervals(out: &mut String, effects: &[MetricEffect]) {
    const ROW: f64 = 26.0;
    let x = |ratio: f64| {
        let place = (ratio.clamp(0.5, 2.0).log2() + 1.0) / 2.0;
        160.0 + place * (WIDTH - 180.0)
    };
    let height = effects.len() as f64 * ROW + 24.0;
    out.push_str(&format!(
        "<div class=\"wide\"><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Effects with intervals\">"
    ));
    for ratio in [0.5, 0.7, 0.9, 1.0, 1.1, 1.4, 2.0] {
        out.push_str(&format!(
            "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{1}\" stroke=\"#999\" \
             stroke-width=\"{2}\"/><text x=\"{0:.1}\" y=\"{3}\" text-anchor=\"middle\">{ratio}\
             </text>",
            x(ratio),
            height - 22.0,
            if ratio == 1.0 { 2 } else { 1 },
            height - 4.0,
        ));
    }
    for (n, found) in effects.iter().enumerate() {
        let y = n as f64 * ROW + 13.0;
        out.push_str(&format!(
            "<text x=\"150\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            y + 5.0,
            escape(found.metric)
        ));
        if found.pairs == 0 {
            continue;
        }
        out.push_str(&format!(
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#2b6cb0\" \
             stroke-width=\"6\" stroke-opacity=\"0.45\"/><circle cx=\"{:.1}\" cy=\"{y:.1}\" \
             r=\"5\" fill=\"#2b6cb0\"/>",
            x(found.low),
            x(found.high),
            x(found.ratio),
        ));
    }
    out.push_str("</svg></div>\n");
}

/// The value of each block over time.
fn dots(out: &mut String, name: &str, blocks: &[Outcome], value: fn(&Outcome) -> Option<f64>) {
    const HEIGHT: f64 = 180.0;
    let most = blocks.iter().filter_map(value).fold(1e-9, f64::max);
    let end = blocks.last().map_or(1.0, |block| block.at_s.max(1.0));
    out.push_str(&format!(
        "<div class=\"wide\"><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\
         <line x1=\"0\" x2=\"{WIDTH}\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\" stroke=\"#999\"/>\
         <text x=\"0\" y=\"14\">{}</text>",
        HEIGHT + 22.0,
        escape(name),
        shown(name, Some(most)),
    ));
    for (n, (policy, color, label)) in COLORS.iter().enumerate() {
        out.push_str(&format!(
            "<text x=\"{}\" y=\"14\" style=\"fill:{color}\">● {label}</text>",
            WIDTH - 200.0 + 100.0 * n as f64
        ));
        for block in blocks.iter().filter(|block| block.policy == *policy) {
            if let Some(value) = value(block) {
                out.push_str(&format!(
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{color}\"/>",
                    6.0 + block.at_s / end * (WIDTH - 12.0),
                    HEIGHT - value / most * (HEIGHT - 24.0)
                ));
            }
        }
    }
    out.push_str(&format!(
        "<text x=\"{WIDTH}\" y=\"{}\" text-anchor=\"end\">{end:.0} s</text></svg></div>\n",
        HEIGHT + 18.0
    ));
}

fn blocks(out: &mut String, blocks: &[Outcome]) {
    out.push_str("<h2>Raw blocks</h2>\n");
    let mut head = vec!["block", "from"];
    head.extend(METRICS.iter().map(|metric| metric.name));
    let rows: Vec<_> = blocks
        .iter()
        .map(|block| {
            let policy = match block.policy {
                Block::On => "on",
                Block::Off => "off",
            };
            let mut row = vec![policy.to_owned(), format!("{:.1} s", block.at_s)];
            let values = METRICS
                .iter()
                .map(|metric| shown(metric.name, (metric.value)(block)));
            row.extend(values);
            row
        })
        .collect();
    table(out, &head, &rows);
}
