//! The comparison for a terminal.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;

use ackwise_scenario::record::Report;
use ackwise_scenario::{BASELINE, Metric};
use comfy_table::{
    Attribute, Cell, CellAlignment, Color, ContentArrangement, Table, presets::NOTHING,
};

use crate::compare::{Comparison, Group, Row, Stat, compare, failed};
use crate::draws_text::draws_text;
use crate::format::{change, factor, grouped, percent, short};

/// How the table is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TableOptions {
    /// Whether to use colours.
    pub color: bool,
    /// Width of the terminal in columns; unlimited if `None`.
    pub width: Option<u16>,
}

impl TableOptions {
    /// Options for standard output: colours on a terminal unless `NO_COLOR` is set.
    pub fn detect() -> TableOptions {
        let quiet = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        TableOptions {
            color: std::io::stdout().is_terminal() && !quiet,
            width: None,
        }
    }

    /// The same, with the width of the terminal, if standard output is one.
    pub fn detect_width() -> TableOptions {
        TableOptions {
            width: Table::new().width(),
            ..TableOptions::detect()
        }
    }
}

/// The text of a cell, and whether it is good news.
struct Shown {
    text: String,
    tone: Tone,
}

#[derive(Clone, Copy, PartialEq)]
enum Tone {
    Good,
    Bad,
    Plain,
}

struct Column {
    head: &'static str,
    show: fn(&Row) -> Option<Shown>,
}

fn plain(text: String) -> Option<Shown> {
    Some(Shown {
        text,
        tone: Tone::Plain,
    })
}

/// The median and, over several seeds, the spread.
fn spread(stat: Stat, scale: f64) -> String {
    let median = short(stat.median * scale);
    if stat.count < 2 {
        return median;
    }
    let half = (stat.max - stat.min) / 2.0 * scale;
    format!("{median} ±{}", short(half))
}

fn judged(
    row: &Row,
    metric: Metric,
    good: fn(f64) -> bool,
    bad: fn(f64) -> bool,
    show: fn(f64) -> String,
) -> Option<Shown> {
    if row.arm == BASELINE {
        return None;
    }
    let ratio = row.ratio(metric)?.median;
    let tone = match (good(ratio), bad(ratio)) {
        (true, _) => Tone::Good,
        (_, true) => Tone::Bad,
        _ => Tone::Plain,
    };
    Some(Shown {
        text: show(ratio),
        tone,
    })
}

const COLUMNS: [Column; 16] = [
    Column {
        head: "goodput\nMbit/s",
        show: |row| plain(spread(row.stat(Metric::Goodput)?, 1e-6)),
    },
    Column {
        head: "vs\nbase",
        show: |row| judged(row, Metric::Goodput, |r| r >= 1.05, |r| r < 0.98, factor),
    },
    Column {
        head: "done",
        show: |row| plain(grouped(row.value(Metric::Completions)?)),
    },
    Column {
        head: "vs\nbase",
        // Omitted if all have the same number, to save width.
        show: |row| {
            judged(
                row,
                Metric::Completions,
                |r| r >= 1.05,
                |r| r < 0.98,
                factor,
            )
            .filter(|shown| shown.text != factor(1.0))
        },
    },
    Column {
        head: "late",
        show: |row| plain(percent(row.value(Metric::LateShare)?)),
    },
    Column {
        head: "p50\nms",
        show: |row| plain(short(row.value(Metric::CompletionP50)? / 1e3)),
    },
    Column {
        head: "vs\nbase",
        show: |row| {
            judged(
                row,
                Metric::CompletionP50,
                |r| r <= 0.98,
                |r| r > 1.02,
                factor,
            )
        },
    },
    Column {
        head: "p99\nms",
        show: |row| plain(short(row.value(Metric::CompletionP99)? / 1e3)),
    },
    Column {
        head: "vs\nbase",
        show: |row| {
            judged(
                row,
                Metric::CompletionP99,
                |r| r <= 0.98,
                |r| r > 1.02,
                factor,
            )
        },
    },
    Column {
        head: "segs\n/ACK",
        show: |row| plain(short(row.value(Metric::SegmentsPerAck)?)),
    },
    Column {
        head: "ACKs/seg\nvs base",
        show: |row| {
            judged(
                row,
                Metric::AcksPerSegment,
                |r| r < 0.95,
                |r| r > 1.05,
                change,
            )
        },
    },
    Column {
        head: "ACKs of\nuplink",
        show: |row| plain(percent(row.value(Metric::UplinkShare)?)),
    },
    Column {
        head: "RTT p50\nms",
        show: |row| plain(short(row.value(Metric::RttP50)? / 1e3)),
    },
    Column {
        head: "RTT p99\nms",
        show: |row| plain(short(row.value(Metric::RttP99)? / 1e3)),
    },
    Column {
        head: "re-\ntransm.",
        show: |row| plain(grouped(row.value(Metric::Retransmits)?)),
    },
    Column {
        head: "CPU\ns/GB",
        show: |row| plain(short(row.value(Metric::CpuPerGigabyte)?)),
    },
];

/// Maximum number of drawn points that are shown one by one. For more, the distributions suffice.
const MAX_LISTED_POINTS: usize = 4;

/// The comparison: arms × congestion control (× varied values), medians over
/// seeds. Columns that no run has are left out. Ends with a line feed.
pub fn table(report: &Report, options: &TableOptions) -> String {
    let drawn = draws_text(report);
    let whole = report.runs.iter().filter(|run| !failed(run));
    let arms: BTreeSet<&str> = whole.map(|run| run.arm.as_str()).collect();
    let points: BTreeSet<Option<u32>> = report.runs.iter().map(|run| run.draw).collect();
    match drawn {
        // The distributions of a single arm say nothing.
        Some(text) if points.len() > MAX_LISTED_POINTS && arms.len() != 1 => {
            text + &legend(report, &compare(report))
        }
        Some(text) => format!("{}\n{text}", comparison_table(report, options)),
        None => comparison_table(report, options),
    }
}

fn comparison_table(report: &Report, options: &TableOptions) -> String {
    let comparison = compare(report);
    let rows = || comparison.groups.iter().flat_map(|group| &group.rows);
    let skipped = comparison.goodput_columns_to_skip();
    let used: Vec<&Column> = COLUMNS
        .iter()
        .skip(skipped)
        .filter(|column| rows().any(|row| (column.show)(row).is_some()))
        .collect();
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    if let Some(width) = options.width {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    if options.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let completes = rows().any(|row| row.value(Metric::Completions).is_some());
    let head = |column: &&Column| match completes {
        true => narrow(column.head),
        false => column.head,
    };
    let heads = ["", "arm"].into_iter().chain(used.iter().map(head));
    table.set_header(heads.enumerate().map(|(index, head)| {
        Cell::new(head)
            .set_alignment(alignment(index))
            .add_attribute(Attribute::Dim)
    }));
    for (index, group) in comparison.groups.iter().enumerate() {
        if index > 0 {
            table.add_row(vec![Cell::new("")]);
        }
        add_group(&mut table, &comparison, group, &used);
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&legend(report, &comparison));
    let nodes = crate::nodes_table(report);
    if !nodes.is_empty() {
        text.push('\n');
        text.push_str(&nodes);
    }
    text
}

/// A heading of shorter lines: with completion times, the table has more columns than a terminal
/// has room for.
fn narrow(head: &'static str) -> &'static str {
    match head {
        "ACKs/seg\nvs base" => "ACKs/\nseg vs\nbase",
        "RTT p50\nms" => "RTT\np50\nms",
        "RTT p99\nms" => "RTT\np99\nms",
        head => head,
    }
}

fn alignment(column: usize) -> CellAlignment {
    if column < 2 {
        CellAlignment::Left
    } else {
        CellAlignment::Right
    }
}

fn add_group(table: &mut Table, comparison: &Comparison, group: &Group, used: &[&Column]) {
    for (index, row) in group.rows.iter().enumerate() {
        let title = if index == 0 {
            group.title()
        } else {
            String::new()
        };
        let mut arm = comparison.arm_title(row);
        if row.failed > 0 {
            arm.push_str(" !");
        }
        let mut cells = vec![
            Cell::new(title).add_attribute(Attribute::Bold),
            Cell::new(arm),
        ];
        for column in used {
            let shown = (column.show)(row).unwrap_or(Shown {
                text: String::new(),
                tone: Tone::Plain,
            });
            let cell = Cell::new(shown.text).set_alignment(CellAlignment::Right);
            cells.push(match shown.tone {
                Tone::Good => cell.fg(Color::Green),
                Tone::Bad => cell.fg(Color::Red),
                Tone::Plain => cell,
            });
        }
        table.add_row(cells);
    }
}

fn legend(report: &Report, comparison: &Comparison) -> String {
    let mut text = String::new();
    if let Some(seeds) = comparison.seeds_text() {
        text.push_str(&format!(
            "\nMedian over {seeds}; ± half the range. Ratios are formed seed by seed.\n"
        ));
    }
    let bad: Vec<String> = report
        .runs
        .iter()
        .filter(|run| failed(run))
        .map(|run| {
            let why = if run.errors.is_empty() {
                "contents differ from what was sent".to_owned()
            } else {
                run.errors.join("; ")
            };
            format!("! {}: {why}\n", run.id)
        })
        .collect();
    if !bad.is_empty() {
        text.push('\n');
        text.push_str(&bad.concat());
    }
    text
}
