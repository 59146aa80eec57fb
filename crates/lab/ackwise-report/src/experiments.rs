//! What a paper printed beside what was measured here, for a terminal and as JSON.

use std::collections::BTreeMap;

use comfy_table::presets::NOTHING;
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};
use serde::Serialize;
use textwrap::core::display_width;

use crate::experiment::Experiment;
use crate::summary::Summary;
use crate::table::TableOptions;
use crate::value::Value;
use crate::verdict::{Basis, Source, Verdict};

/// Width of the table if none is given.
const WIDTH: u16 = 80;
/// Stands in the table where a part begins, whose title is as wide as the table.
const PART: &str = "§";
/// Begins and ends bold text on a terminal.
const BOLD: [&str; 2] = ["\x1b[1m", "\x1b[0m"];
/// The column headings; the last column has the number of a note.
const HEADINGS: [&str; COLUMNS] = ["", "published", "measured", "p10 … p90 (n)", "verdict", ""];
const COLUMNS: usize = 6;
/// Minimum widths of the columns; the first one gets the rest.
const MIN_WIDTHS: [usize; COLUMNS] = [0, 9, 8, 9, 7, 4];

/// The reproduction of a paper.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PaperReport {
    /// Name on the command line, and stem of the page's file.
    pub name: String,
    /// Title of the paper.
    pub title: String,
    /// Authors, venue and year.
    pub source: String,
    /// What the paper asks and what the reproduction shows, in a few sentences.
    pub about: String,
    /// The engine, kernel and version.
    pub engine: String,
    /// The experiments, in the order of the paper.
    pub experiments: Vec<Experiment>,
    /// The figures, in the order of the paper.
    pub figures: Vec<crate::Figure>,
    /// Sentences that a reader should know.
    pub notes: Vec<String>,
    /// Reasons why parts of it could not be run here.
    pub missing: Vec<String>,
    /// Name and text of the scenario files that were run.
    pub scenarios: Vec<(String, String)>,
}

impl PaperReport {
    /// The number of its rows by verdict.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.experiments)
    }
}

/// `{"summary":{…},"missing":{…},"experiments":[…]}` of all papers, indented. The summary, and what
/// could not be run with the reason, have an entry for each paper.
///
/// # Errors
///
/// A number cannot be represented in JSON.
pub fn experiments_json(papers: &[PaperReport]) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        #[serde(flatten)]
        experiment: &'a Experiment,
        verdict: Verdict,
        reason: &'a str,
    }
    #[derive(Serialize)]
    struct Document<'a> {
        summary: BTreeMap<&'a str, Summary>,
        missing: BTreeMap<&'a str, &'a [String]>,
        experiments: Vec<Row<'a>>,
    }
    let rows = papers.iter().flat_map(|paper| &paper.experiments);
    serde_json::to_string_pretty(&Document {
        summary: papers
            .iter()
            .map(|paper| (paper.name.as_str(), paper.summary()))
            .collect(),
        missing: papers
            .iter()
            .map(|paper| (paper.name.as_str(), &paper.missing[..]))
            .collect(),
        experiments: rows
            .map(|experiment| Row {
                experiment,
                verdict: experiment.verdict(),
                reason: experiment.reason(),
            })
            .collect(),
    })
}

/// The experiments as a table for a terminal, with the notes below it. Ends with a line feed.
///
/// The table is at least 80 columns wide, which is also its width if none is given. Values in
/// parentheses are derived from what the paper prints, or calculated from it.
pub fn experiments_table(paper: &PaperReport, options: &TableOptions) -> String {
    let width = options.width.unwrap_or(WIDTH).max(WIDTH);
    let mut notes: Vec<&str> = Vec::new();
    let rows: Vec<[String; COLUMNS]> = paper
        .experiments
        .iter()
        .map(|experiment| cells(experiment, &mut notes))
        .collect();
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(HEADINGS.map(Cell::new));
    if options.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let mut parts: Vec<&str> = Vec::new();
    for (experiment, cells) in paper.experiments.iter().zip(&rows) {
        if parts.last().copied().unwrap_or_default() != experiment.part {
            parts.push(&experiment.part);
            table.add_row([PART]);
        }
        table.add_row(cells);
    }
    lay_out(&mut table, &rows);
    let mut text = String::new();
    for line in [&paper.title, &paper.source] {
        text.push_str(&hanging("", line, width));
    }
    text.push_str(&hanging("", &paper.summary().to_string(), width));
    let mut parts = parts.into_iter();
    for line in table.lines() {
        match line.trim_end() {
            PART => {
                let part = hanging("", parts.next().unwrap_or_default(), width);
                let [bold, plain] = if options.color { BOLD } else { ["", ""] };
                text.extend([bold, &part, plain]);
            }
            line => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    for (index, note) in notes.iter().enumerate() {
        text.push_str(&hanging(&format!("[{}] ", index + 1), note, width));
    }
    for missing in &paper.missing {
        text.push_str(&hanging("Not run: ", missing, width));
    }
    text
}

/// Right-aligns numbers, and hides columns that are empty. No column is narrower than its longest
/// word, so that no word is cut.
fn lay_out(table: &mut Table, rows: &[[String; COLUMNS]]) {
    for (index, column) in table.column_iter_mut().enumerate() {
        if rows.iter().all(|row| row[index].is_empty()) {
            column.set_constraint(ColumnConstraint::Hidden);
            continue;
        }
        column.set_padding((0, 2));
        if (1..=4).contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        if index > 0 {
            let words = rows.iter().flat_map(|row| row[index].split(' '));
            let longest = words.map(display_width).max().unwrap_or(0);
            let width = u16::try_from(longest.max(MIN_WIDTHS[index]) + 2).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width)));
        }
    }
}

fn cells<'a>(experiment: &'a Experiment, notes: &mut Vec<&'a str>) -> [String; COLUMNS] {
    let with_unit = |value: &Value| match value {
        Value::Number(_) if !experiment.unit.is_empty() => format!("{value} {}", experiment.unit),
        _ => value.to_string(),
    };
    let range = |low: f64, high: f64| format!("{} … {}", Value::from(low), Value::from(high));
    let spread = experiment.spread.as_ref();
    let spread = spread.map(|s| format!("{} ({})", range(s.p10, s.p90), s.count));
    let interval = experiment.ci95.map(|[low, high]| range(low, high));
    let mut mark = |note: &'a str| {
        if note.is_empty() {
            return String::new();
        }
        let known = notes.iter().position(|known| *known == note);
        let index = known.unwrap_or_else(|| {
            notes.push(note);
            notes.len() - 1
        });
        format!("[{}]", index + 1)
    };
    // The notes also say why something is not comparable or was not run.
    let marks = mark(&experiment.incomparable) + &mark(&experiment.note);
    let published = match (&experiment.published, experiment.source) {
        (Some(value), Some(Source::Derived)) => format!("({})", with_unit(value)),
        (Some(value), _) => with_unit(value),
        (None, _) => "–".to_owned(),
    };
    let measured = match experiment.basis {
        Basis::Calculated => format!("({})", with_unit(&experiment.measured)),
        _ => with_unit(&experiment.measured),
    };
    [
        experiment.what.clone(),
        published,
        measured,
        spread.or(interval).unwrap_or_default(),
        experiment.verdict().to_string(),
        marks,
    ]
}

/// Wraps text to `width` columns, with later lines indented to the end of `lead`.
fn hanging(lead: &str, text: &str, width: u16) -> String {
    let indent = " ".repeat(display_width(lead));
    let options = textwrap::Options::new(usize::from(width))
        .initial_indent(lead)
        .subsequent_indent(&indent);
    textwrap::fill(text, options) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Spread;

    fn paper() -> PaperReport {
        let spread = Spread::of("offsets", (0..=10).map(f64::from));
        PaperReport {
            name: "x".to_owned(),
            title: "A paper".to_owned(),
            source: "Somebody, 2013".to_owned(),
            experiments: vec![
                Experiment::new("x/a", "a single flow without anything in its way", 9.317)
                    .part("Fig. 2")
                    .published(9.24)
                    .within_share(0.015)
                    .unit("Mbit/s")
                    .note("counted at the receiver, over the last half of the run, with headers, as the paper's tool does")
                    .spread(spread),
                Experiment::new("x/b", "what becomes of it", "collapses").part("Fig. 2"),
            ],
            missing: vec!["no kernel".to_owned()],
            ..PaperReport::default()
        }
    }

    #[test]
    fn the_table_fits_and_has_every_number() {
        let text = experiments_table(&paper(), &TableOptions::default());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for part in [
            "9.24 Mbit/s",
            "9.317 Mbit/s",
            "1 … 9 (11)",
            "collapses",
            "within",
            "Beside published values: 0 outside",
            "–",
            "[1]",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.contains("Not run: no kernel\n"), "{text}");
    }

    #[test]
    fn titles_have_the_whole_width_and_empty_columns_none() {
        let title = "Figs. 4, 5: what becomes of a flow while 0 … 80 % of its ACKs are dropped";
        let row = Experiment::new("x/d", "transfer time relative to that with all ACKs", 1.0);
        let paper = PaperReport {
            experiments: vec![row.part(title).published(1.0)],
            ..PaperReport::default()
        };
        let text = experiments_table(&paper, &TableOptions::default());
        assert!(text.contains(&format!("\n{title}\n")), "{text}");
        assert!(!text.contains("p90"), "{text}");
        assert!(
            text.contains("transfer time relative to that with all"),
            "{text}"
        );
    }

    #[test]
    fn words_of_a_value_are_not_cut() {
        let mut paper = paper();
        paper.experiments.push(
            Experiment::new("x/c", "which of them wins here", "per-destination")
                .published("collapses at 85 %"),
        );
        let text = experiments_table(&paper, &TableOptions::default());
        for whole in ["per-destination", "collapses at"] {
            assert!(text.contains(whole), "{whole} in\n{text}");
        }
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn json_has_what_was_promised_and_no_null_measured() {
        let mut paper = paper();
        paper
            .experiments
            .push(Experiment::new("x/c", "nothing there", f64::NAN));
        let json: serde_json::Value =
            serde_json::from_str(&experiments_json(&[paper]).unwrap()).unwrap();
        let keys = [
            "id",
            "what",
            "setup",
            "published",
            "measured",
            "unit",
            "spread",
            "note",
            "source",
            "tolerance",
            "basis",
            "verdict",
            "reason",
        ];
        for experiment in json["experiments"].as_array().unwrap() {
            for key in keys {
                assert!(experiment.get(key).is_some(), "{key} in {experiment}");
            }
            assert!(!experiment["measured"].is_null(), "{experiment}");
        }
        assert_eq!(json["experiments"][0]["published"], 9.24);
        assert_eq!(json["experiments"][0]["spread"]["p90"], 9.0);
        assert!(json["experiments"][1]["published"].is_null());
        assert_eq!(json["experiments"][2]["measured"], "undefined");
        assert_eq!(json["experiments"][0]["verdict"], "within");
        assert_eq!(json["experiments"][0]["tolerance"]["share"], 0.015);
        assert_eq!(json["experiments"][0]["source"], "published");
        assert_eq!(json["experiments"][1]["verdict"], "not-published");
        assert_eq!(json["summary"]["x"]["published"]["within"], 1);
        assert_eq!(json["missing"]["x"][0], "no kernel");
    }
}
