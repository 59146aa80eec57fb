//! A self-contained page: text, data, script and style.

use std::fmt::Write as _;

use ackwise_scenario::record::{Quantiles, Report, Run};
use ackwise_scenario::trace::TraceFiles;
use ackwise_scenario::{BASELINE, Metric, Scenario};

use crate::compare::{Comparison, Row, compare};
use crate::draws::Lines;
use crate::draws_html::draws_html;
use crate::expect::{ExpectationResult, expectations};
use crate::findings::{Tone, findings};
use crate::format::{change, escape, factor, grouped, percent, short};
use crate::frame::{Page, Plots, fill};
use crate::page_data::{PageData, embed};

const TEMPLATE: &str = include_str!("../assets/page.html");
const SCRIPT: &str = include_str!("../assets/page.js");

/// The report as one self-contained page.
///
/// Text and table work without scripts; plots need them.
pub fn html(report: &Report) -> String {
    let comparison = compare(report);
    let lines = Lines::of(report);
    let data = embed(&PageData::new(report, &comparison, lines.as_ref()))
        .unwrap_or_else(|_| "null".to_owned());
    let main = fill(
        TEMPLATE,
        &[
            ("findings", &findings_html(report, &comparison)),
            ("draws", &lines.as_ref().map(draws_html).unwrap_or_default()),
            ("table", &table_html(&comparison)),
            ("expectations", &expectations_html(report)),
            ("errors", &errors_html(report)),
            ("environment", &environment_html(report)),
            ("notes", &notes_html(report, &comparison)),
            ("scenario", &escape(&report.scenario.text)),
        ],
    );
    let lead = format!(
        "<p class=\"about\">{}</p>\n<ul class=\"chips\">{}</ul>",
        escape(&report.scenario.about),
        chips(report)
    );
    let page = Page {
        title: &escape(&report.scenario.name),
        lead: &lead,
        main: &main,
        version: &report.version,
        plots: Some(Plots {
            data: &data,
            script: SCRIPT,
        }),
        ..Page::default()
    };
    page.html()
}

fn chips(report: &Report) -> String {
    let environment = &report.environment;
    let engine = match report.engine.as_str() {
        "live" => "live: real Linux stack, real time",
        "virtual" => "virtual: real Linux stack, virtual time",
        "sim" => "simulated",
        other => other,
    };
    let mut chips = vec![engine.to_owned()];
    chips.extend(environment.kernel.clone());
    let completes = |run: &Run| run.totals.completion.is_some();
    let at_most = if report.runs.iter().any(completes) {
        "at most "
    } else {
        ""
    };
    let seconds = short_seconds(report.scenario.duration_s);
    chips.push(format!("{at_most}{seconds} s a run"));
    let runs = report.runs.len();
    chips.push(format!("{runs} run{}", if runs == 1 { "" } else { "s" }));
    chips.extend(environment.started.clone());
    chips
        .iter()
        .map(|chip| format!("<li>{}</li>", escape(chip)))
        .collect()
}

fn short_seconds(seconds: f64) -> String {
    if seconds.fract() == 0.0 {
        format!("{seconds:.0}")
    } else {
        format!("{seconds:.1}")
    }
}

fn findings_html(report: &Report, comparison: &Comparison) -> String {
    let mut html = String::new();
    for finding in findings(report, comparison) {
        let tone = match finding.tone {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Plain => "plain",
        };
        let _ = write!(
            html,
            "<li class=\"{tone}\"><span class=\"who\">{}</span><strong>{}</strong><span>{}</span></li>",
            escape(&finding.about),
            escape(&finding.figure),
            escape(&finding.caption)
        );
    }
    html
}

/// A column of the page's table: heading, unit, and a function for the cell's text and class.
struct Column {
    head: &'static str,
    unit: &'static str,
    show: fn(&Row) -> Option<(String, &'static str)>,
}

fn versus(row: &Row, metric: Metric) -> Option<f64> {
    (row.arm != BASELINE)
        .then(|| row.ratio(metric).map(|stat| stat.median))
        .flatten()
}

fn more_is_better(row: &Row, metric: Metric) -> Option<(String, &'static str)> {
    let ratio = versus(row, metric)?;
    let class = if ratio >= 1.05 {
        "good"
    } else if ratio < 0.98 {
        "bad"
    } else {
        ""
    };
    Some((factor(ratio), class))
}

fn less_is_better(
    row: &Row,
    metric: Metric,
    show: fn(f64) -> String,
) -> Option<(String, &'static str)> {
    let ratio = versus(row, metric)?;
    let class = if ratio <= 0.95 {
        "good"
    } else if ratio > 1.02 {
        "bad"
    } else {
        ""
    };
    Some((show(ratio), class))
}

fn median(row: &Row, metric: Metric, scale: f64) -> Option<(String, &'static str)> {
    let stat = row.stat(metric)?;
    let mut text = short(stat.median * scale);
    if stat.count > 1 {
        let half = (stat.max - stat.min) / 2.0 * scale;
        let _ = write!(text, " <small>±{}</small>", short(half));
    }
    Some((text, ""))
}

const COLUMNS: [Column; 16] = [
    Column {
        head: "Goodput",
        unit: "Mbit/s",
        show: |row| median(row, Metric::Goodput, 1e-6),
    },
    Column {
        head: "to baseline",
        unit: "ratio",
        show: |row| more_is_better(row, Metric::Goodput),
    },
    Column {
        head: "Done",
        unit: "transfers",
        show: |row| Some((grouped(row.value(Metric::Completions)?), "")),
    },
    Column {
        head: "to baseline",
        unit: "ratio",
        show: |row| more_is_better(row, Metric::Completions),
    },
    Column {
        head: "Late",
        unit: "of chunks",
        show: |row| Some((percent(row.value(Metric::LateShare)?), "")),
    },
    Column {
        head: "Done, median",
        unit: "ms",
        show: |row| median(row, Metric::CompletionP50, 1e-3),
    },
    Column {
        head: "to baseline",
        unit: "ratio",
        show: |row| less_is_better(row, Metric::CompletionP50, factor),
    },
    Column {
        head: "Done, p99",
        unit: "ms",
        show: |row| median(row, Metric::CompletionP99, 1e-3),
    },
    Column {
        head: "to baseline",
        unit: "ratio",
        show: |row| less_is_better(row, Metric::CompletionP99, factor),
    },
    Column {
        head: "Segments",
        unit: "per ACK",
        show: |row| median(row, Metric::SegmentsPerAck, 1.0),
    },
    Column {
        head: "ACKs/segment",
        unit: "to baseline",
        show: |row| less_is_better(row, Metric::AcksPerSegment, change),
    },
    Column {
        head: "ACK share",
        unit: "of uplink",
        show: |row| Some((percent(row.value(Metric::UplinkShare)?), "")),
    },
    Column {
        head: "RTT, median",
        unit: "ms",
        show: |row| median(row, Metric::RttP50, 1e-3),
    },
    Column {
        head: "RTT, p99",
        unit: "ms",
        show: |row| median(row, Metric::RttP99, 1e-3),
    },
    Column {
        head: "Retransmits",
        unit: "segments",
        show: |row| Some((grouped(row.value(Metric::Retransmits)?), "")),
    },
    Column {
        head: "CPU",
        unit: "s/GB",
        show: |row| median(row, Metric::CpuPerGigabyte, 1.0),
    },
];

fn table_html(comparison: &Comparison) -> String {
    let rows = || comparison.groups.iter().flat_map(|group| &group.rows);
    let used: Vec<&Column> = COLUMNS
        .iter()
        .skip(comparison.goodput_columns_to_skip())
        .filter(|column| rows().any(|row| (column.show)(row).is_some()))
        .collect();
    let mut html = String::from("<table><thead><tr><th scope=\"col\">Arm</th>");
    for column in &used {
        let _ = write!(
            html,
            "<th scope=\"col\">{}<span>{}</span></th>",
            column.head, column.unit
        );
    }
    html.push_str("</tr></thead>");
    for (index, group) in comparison.groups.iter().enumerate() {
        let _ = write!(
            html,
            "<tbody data-group=\"{index}\"><tr class=\"group\"><th scope=\"rowgroup\">{}</th>\
             <td colspan=\"{}\"></td></tr>",
            escape(&group.title()),
            used.len()
        );
        for row in &group.rows {
            let mark = if row.failed > 0 {
                " <span class=\"bad\" title=\"had errors, see below\">!</span>"
            } else {
                ""
            };
            let _ = write!(
                html,
                "<tr data-arm=\"{arm}\"><th scope=\"row\"><i class=\"swatch\"></i>{title}{mark}</th>",
                arm = escape(&row.arm),
                title = escape(&comparison.arm_title(row))
            );
            for column in &used {
                // Only numbers and our own words, so there is nothing to escape.
                let (text, class) = (column.show)(row).unwrap_or_default();
                let _ = write!(html, "<td class=\"{class}\">{text}</td>");
            }
            html.push_str("</tr>");
        }
        html.push_str("</tbody>");
    }
    html.push_str("</table>");
    html
}

fn expectations_html(report: &Report) -> String {
    let scenario = Scenario::parse_with("scenario", &report.scenario.text, &TraceFiles::nowhere());
    let results: Vec<ExpectationResult> = scenario
        .map(|scenario| expectations(report, &scenario))
        .unwrap_or_default();
    if results.is_empty() {
        return String::new();
    }
    let met = results.iter().filter(|result| result.met).count();
    let mut html = format!(
        "<section id=\"expected\"><h2>What was expected</h2><p>{met} of {} came true.</p>\
         <div class=\"scroll\"><table class=\"plain\"><thead><tr><th>Run</th><th></th><th>Found</th>\
         <th>Expected</th></tr></thead><tbody>",
        results.len()
    );
    for result in results {
        let (class, word) = match result.found {
            None => ("", "not judged"),
            Some(_) if result.met => ("good", "met"),
            Some(_) => ("bad", "missed"),
        };
        let why = if result.why.is_empty() {
            String::new()
        } else {
            format!("<small>{}</small>", escape(&result.why))
        };
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{} <span>{}</span></th><td class=\"{class}\">{word}</td>\
             <td>{}</td><td>{} {}{why}</td></tr>",
            escape(&result.arm),
            escape(&result.group),
            result.found.map_or("–".to_owned(), short),
            escape(&result.metric),
            escape(&result.bound),
        );
    }
    html.push_str("</tbody></table></div></section>");
    html
}

fn errors_html(report: &Report) -> String {
    let mut items = String::new();
    for run in report.runs.iter().filter(|run| crate::compare::failed(run)) {
        let mut errors = run.errors.clone();
        if errors.is_empty() {
            errors.push("contents differ from what was sent".to_owned());
        }
        let _ = write!(
            items,
            "<li><b>{}</b>: {}</li>",
            escape(&run.id),
            escape(&errors.join("; "))
        );
    }
    if items.is_empty() {
        return items;
    }
    format!(
        "<section id=\"errors\" class=\"bad\"><h2>What went wrong</h2><ul>{items}</ul></section>"
    )
}

fn lateness(quantiles: &Quantiles) -> String {
    let mut text = format!(
        "median {} µs, 99th percentile {} µs",
        short(quantiles.p50),
        short(quantiles.p99)
    );
    if let Some(max) = quantiles.max {
        let _ = write!(text, ", worst {} µs", short(max));
    }
    text
}

fn environment_html(report: &Report) -> String {
    let environment = &report.environment;
    let facts = [
        ("Engine", Some(report.engine.clone())),
        ("Kernel", environment.kernel.clone()),
        ("Machine", environment.machine.clone()),
        ("CPU", environment.cpu.clone()),
        ("CPUs", environment.cpus.map(|n| n.to_string())),
        ("Link emulator", environment.link_emulator.clone()),
        (
            "Link emulator late by",
            environment.link_lateness_us.as_ref().map(lateness),
        ),
        ("Datapath", environment.datapath.clone()),
        ("Started", environment.started.clone()),
        ("ackwise", Some(report.version.clone())),
    ];
    facts
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.filter(|v| !v.is_empty())?)))
        .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>", escape(&value)))
        .collect()
}

fn notes_html(report: &Report, comparison: &Comparison) -> String {
    let mut notes: Vec<String> = vec![
        "Data segments and ACKs are counted on the wire, behind the datapath; RTT is what the \
         sender measured."
            .to_owned(),
    ];
    if let Some(seeds) = comparison.seeds_text() {
        notes.push(format!(
            "Numbers are medians over {seeds}, ± half the range; ratios are formed seed by seed."
        ));
    } else if report.engine == "live" {
        notes.push(
            "One run for each line in real time: differences of a few per cent are noise."
                .to_owned(),
        );
    }
    notes.extend(report.notes.iter().cloned());
    notes
        .iter()
        .map(|note| format!("<li>{}</li>", escape(note)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::fill;

    #[test]
    fn what_is_put_in_is_not_looked_at_again() {
        let page = fill("<@{a}|@{b}|@{c}>", &[("a", "@{b}"), ("b", "x")]);
        assert_eq!(page, "<@{b}|x|>");
        assert_eq!(fill("@{a", &[("a", "x")]), "@{a");
    }
}
