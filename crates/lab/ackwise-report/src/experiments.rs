//! What a paper printed beside what came out here, for a terminal and as JSON.

use std::fmt;

use comfy_table::presets::NOTHING;
use comfy_table::{
    Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width,
};
use serde::{Deserialize, Serialize};
use textwrap::core::display_width;

use crate::format::short;
use crate::table::TableOptions;

/// Width of a terminal that tells none.
const WIDTH: u16 = 80;
/// The columns of the table; the last has the number of a note.
const HEADS: [&str; 5] = ["", "published", "measured", "p10 … p90 (n)", ""];
/// Least widths of the columns; the first gets what is left.
const MIN_WIDTHS: [usize; 5] = [0, 9, 8, 13, 4];

/// A number or a word: what was printed, what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// In the experiment's unit.
    Number(f64),
    /// Where the finding is not a number: `"completes"`, `"no reset"`.
    Text(String),
}

impl Value {
    /// The number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(v) => Some(*v),
            Value::Text(_) => None,
        }
    }
}

/// What is not finite has no place in JSON and becomes the word `undefined`.
impl From<f64> for Value {
    fn from(v: f64) -> Value {
        if v.is_finite() {
            Value::Number(v)
        } else {
            Value::Text("undefined".to_owned())
        }
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Value {
        Value::Text(v.to_owned())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Value {
        Value::Text(v)
    }
}

/// Numbers with at most four significant digits; words as they are.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(v) if v.abs() < 10_000.0 => {
                let digits = match v.abs() {
                    a if a >= 1000.0 => 0,
                    a if a >= 100.0 => 1,
                    a if a >= 10.0 => 2,
                    _ => 3,
                };
                let text = format!("{v:.digits$}");
                let text = match text.contains('.') {
                    true => text.trim_end_matches('0').trim_end_matches('.'),
                    false => &text,
                };
                f.write_str(if text == "-0" { "0" } else { text })
            }
            Value::Number(v) => f.write_str(&short(*v)),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// How a number scatters over what the paper left open.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// What was varied, e.g. `start offsets of B, 0 … 2 s`.
    pub over: String,
    /// How many values.
    pub count: usize,
    /// Median.
    pub median: f64,
    /// Least.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// 10th percentile, nearest rank.
    pub p10: f64,
    /// 90th percentile, nearest rank.
    pub p90: f64,
}

impl Spread {
    /// From values in any order; what is not finite is left out, `None` if nothing is left.
    pub fn of(over: &str, values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        use ackwise_scenario::record::nearest_rank;

        let mut sorted: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        Some(Spread {
            over: over.to_owned(),
            count,
            median: (*sorted.get(count.checked_sub(1)? / 2)? + sorted[count / 2]) / 2.0,
            min: sorted[0],
            max: sorted[count - 1],
            p10: nearest_rank(&sorted, 0.10),
            p90: nearest_rank(&sorted, 0.90),
        })
    }
}

/// A number (or finding) of a paper, and the same measured here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Unique and stable: `PAPER/…`.
    pub id: String,
    /// The part of the paper: `Table I`, `Fig. 2`.
    pub part: String,
    /// What is measured, in a few words.
    pub what: String,
    /// Where and how: engine, scenario, what matters of its set-up.
    pub setup: String,
    /// What the paper prints; `null` where it prints none.
    pub published: Option<Value>,
    /// What came out here.
    pub measured: Value,
    /// Of both; empty for words.
    pub unit: String,
    /// Over what the paper leaves open; `null` for a single exact run.
    pub spread: Option<Spread>,
    /// 95 % confidence interval of the mean, where `measured` is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// What explains a difference, or what the number hangs on.
    pub note: String,
}

impl Experiment {
    /// Measured, with nothing printed in the paper and nothing to say yet.
    pub fn new(id: impl Into<String>, what: impl Into<String>, measured: impl Into<Value>) -> Self {
        Experiment {
            id: id.into(),
            part: String::new(),
            what: what.into(),
            setup: String::new(),
            published: None,
            measured: measured.into(),
            unit: String::new(),
            spread: None,
            ci95: None,
            note: String::new(),
        }
    }

    /// The part of the paper that it belongs to.
    pub fn part(mut self, part: impl Into<String>) -> Self {
        self.part = part.into();
        self
    }

    /// What the paper prints.
    pub fn published(mut self, value: impl Into<Value>) -> Self {
        self.published = Some(value.into());
        self
    }

    /// The unit of both numbers.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Where and how it was measured.
    pub fn setup(mut self, setup: impl Into<String>) -> Self {
        self.setup = setup.into();
        self
    }

    /// How it scatters.
    pub fn spread(mut self, spread: Option<Spread>) -> Self {
        self.spread = spread;
        self
    }

    /// The confidence interval of the mean.
    pub fn ci95(mut self, low: f64, high: f64) -> Self {
        self.ci95 = Some([low, high]);
        self
    }

    /// What explains a difference.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }
}

/// What came of reproducing a paper.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PaperReport {
    /// Name on the command line, and stem of the page's file.
    pub name: String,
    /// Title of the paper.
    pub title: String,
    /// Authors, where, when.
    pub source: String,
    /// What it asks and what the reproduction says, in a few sentences.
    pub about: String,
    /// What ran it: engine, kernel, version.
    pub engine: String,
    /// In the order of the paper.
    pub experiments: Vec<Experiment>,
    /// In the order of the paper.
    pub figures: Vec<crate::Figure>,
    /// What a reader should know, in sentences.
    pub notes: Vec<String>,
    /// Why not all of it could be run here.
    pub missing: Vec<String>,
    /// Scenario files that were run: name and text.
    pub scenarios: Vec<(String, String)>,
}

/// `{"experiments":[…]}` of all papers, indented.
pub fn experiments_json(papers: &[PaperReport]) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Document<'a> {
        experiments: Vec<&'a Experiment>,
    }
    let experiments = papers.iter().flat_map(|p| &p.experiments).collect();
    serde_json::to_string_pretty(&Document { experiments })
}

/// The experiments as a table for a terminal, with the notes below it. Ends with a line feed.
///
/// The table is as wide as the terminal, and 80 columns at least.
pub fn experiments_table(paper: &PaperReport, options: &TableOptions) -> String {
    let width = options.width.unwrap_or(WIDTH).max(WIDTH);
    let mut notes: Vec<&str> = Vec::new();
    let rows: Vec<[String; 5]> = paper
        .experiments
        .iter()
        .map(|experiment| cells(experiment, &mut notes))
        .collect();
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width)
        .set_header(HEADS.map(Cell::new));
    if options.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let mut part = "";
    for (experiment, cells) in paper.experiments.iter().zip(&rows) {
        if experiment.part != part {
            part = &experiment.part;
            table.add_row(vec![Cell::new(part).add_attribute(Attribute::Bold)]);
        }
        table.add_row(cells);
    }
    lay_out(&mut table, &rows);
    let mut text = String::new();
    for line in [&paper.title, &paper.source] {
        text.push_str(&hanging("", line, width));
    }
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    for (index, note) in notes.iter().enumerate() {
        text.push_str(&hanging(&format!("[{}] ", index + 1), note, width));
    }
    for missing in &paper.missing {
        text.push_str(&hanging("Not run: ", missing, width));
    }
    text
}

/// Numbers to the right; no column narrower than its longest word, so that none is cut.
fn lay_out(table: &mut Table, rows: &[[String; 5]]) {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if (1..=3).contains(&index) {
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

fn cells<'a>(experiment: &'a Experiment, notes: &mut Vec<&'a str>) -> [String; 5] {
    let with_unit = |value: &Value| match value {
        Value::Number(_) if !experiment.unit.is_empty() => format!("{value} {}", experiment.unit),
        _ => value.to_string(),
    };
    let range = |low: f64, high: f64| format!("{} … {}", Value::from(low), Value::from(high));
    let spread = experiment.spread.as_ref();
    let spread = spread.map(|s| format!("{} ({})", range(s.p10, s.p90), s.count));
    let interval = experiment.ci95.map(|[low, high]| range(low, high));
    let mark = if experiment.note.is_empty() {
        String::new()
    } else {
        let known = notes.iter().position(|note| *note == experiment.note);
        let index = known.unwrap_or_else(|| {
            notes.push(&experiment.note);
            notes.len() - 1
        });
        format!("[{}]", index + 1)
    };
    [
        experiment.what.clone(),
        experiment
            .published
            .as_ref()
            .map_or("–".to_owned(), with_unit),
        with_unit(&experiment.measured),
        spread.or(interval).unwrap_or_default(),
        mark,
    ]
}

/// Wraps text to `width` columns, the lines after the first under the end of `lead`.
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
            "–",
            "[1]",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.contains("Not run: no kernel\n"), "{text}");
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
    }

    #[test]
    fn numbers_keep_what_a_paper_prints() {
        for (v, text) in [
            (9.24, "9.24"),
            (8.039, "8.039"),
            (0.413, "0.413"),
            (270.0, "270"),
            (14_000.0, "14\u{202f}000"),
            (-0.000_01, "0"),
            (61.92, "61.92"),
        ] {
            assert_eq!(Value::from(v).to_string(), text);
        }
        assert_eq!(Spread::of("", []), None);
        let two = Spread::of("", [3.0, 1.0, f64::INFINITY]).unwrap();
        assert_eq!(
            (two.median, two.min, two.max, two.count),
            (2.0, 1.0, 3.0, 2)
        );
    }
}
