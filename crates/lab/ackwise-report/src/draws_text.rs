//! Drawn points for a terminal, and as CSV.

use ackwise_scenario::BASELINE;
use ackwise_scenario::record::{RecordError, Report, nearest_rank};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets::NOTHING};

use crate::draws::{Against, Line, Lines, Ratio, Score};

/// Percentiles of a distribution of ratios.
const PERCENTILES: [u32; 6] = [5, 10, 25, 50, 75, 90];

/// The row of the baseline beside itself.
const CHANCE: &str = "chance";

/// The row of what could be had by knowing the line.
const HINDSIGHT: &str = "hindsight";

/// The worst lines of each arm that are listed.
const WORST: usize = 2;

/// Ratios from here on are no loss worth a line.
const FINE: f64 = 0.97;

/// The distributions of a report with drawn points; `None` if it has none.
pub(crate) fn draws_text(report: &Report) -> Option<String> {
    let lines = Lines::of(report)?;
    let mut text = heading(&lines);
    for score in lines.scores() {
        for against in lines.against() {
            text.push_str(&distribution(&lines, score, &against));
        }
        for name in &lines.draw.group {
            text.push_str(&grouped(&lines, score, name));
        }
    }
    text.push_str(&worst(&lines));
    Some(text)
}

fn heading(lines: &Lines<'_>) -> String {
    let repeats = match lines.draw.repeats {
        1 => String::new(),
        repeats => format!(
            " Each line was run {repeats} times, and its means count; \"{CHANCE}\" is the baseline \
             of the odd repeats to that of the even ones."
        ),
    };
    let hindsight = match lines.draw.repeats == 1 || lines.draw.against.is_empty() {
        true => String::new(),
        false => format!(
            " \"{HINDSIGHT}\" is the best arm of the odd repeats beside the best one of the even ones: \
             what knowing the line would bring, by half of the repeats."
        ),
    };
    format!(
        "{} lines of points drawn with seed {}. Ratios are formed on the same line: 1 is equal, \
         more is better.{repeats}{hindsight}\n",
        lines.lines.len(),
        lines.draw.seed
    )
}

fn empty() -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.force_no_tty();
    table
}

/// A row of a table: text to the left, then numbers to the right.
fn row(first: &str, rest: impl IntoIterator<Item = String>) -> Vec<Cell> {
    let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let mut cells = vec![Cell::new(first)];
    cells.extend(rest.into_iter().map(number));
    cells
}

fn print(title: &str, table: &Table) -> String {
    let mut text = format!("\n{title}\n");
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn ratio_text(ratio: f64) -> String {
    match ratio.is_finite() {
        true => format!("{ratio:.2}"),
        false => "∞".to_owned(),
    }
}

fn quantile(ratios: &[Ratio<'_>], percent: u32) -> f64 {
    let sorted: Vec<f64> = ratios.iter().map(|it| it.ratio).collect();
    nearest_rank(&sorted, f64::from(percent) / 100.0)
}

/// The ratios of all arms, an arm each row.
fn distribution(lines: &Lines<'_>, score: &Score, against: &Against) -> String {
    let mut table = empty();
    let heads = PERCENTILES.map(|percent| format!("p{percent}"));
    let heads = ["lines".to_owned(), "least".to_owned()]
        .into_iter()
        .chain(heads);
    table.set_header(
        row("arm", heads)
            .into_iter()
            .map(|cell| cell.add_attribute(Attribute::Dim)),
    );
    let mut add = |name: &str, ratios: &[Ratio<'_>]| {
        let Some(least) = ratios.first() else {
            return;
        };
        let percentiles = PERCENTILES.map(|percent| ratio_text(quantile(ratios, percent)));
        let first = [ratios.len().to_string(), ratio_text(least.ratio)];
        table.add_row(row(name, first.into_iter().chain(percentiles)));
    };
    if let Against::Best(_) = against {
        add(HINDSIGHT, &lines.halves(score, against));
    }
    for arm in &lines.arms {
        if *arm == BASELINE && *against == Against::Baseline {
            add(CHANCE, &lines.halves(score, against));
        } else {
            add(arm, &lines.ratios(score, arm, against, &|_| true));
        }
    }
    print(&format!("{} {}", score.title(), against.title()), &table)
}

/// The ratios to nothing and to the first of the sets of rivals by a name of the points.
fn grouped(lines: &Lines<'_>, score: &Score, name: &str) -> String {
    let of_score = lines
        .lines
        .iter()
        .filter(|line| line.value(score, BASELINE).is_some());
    let mut values: Vec<&str> = of_score.filter_map(|line| line.drawn(name)).collect();
    values.sort_unstable();
    values.dedup();
    if values.len() < 2 {
        return String::new();
    }
    let mut text = String::new();
    for against in lines.against().iter().take(2) {
        let mut table = empty();
        let arms: Vec<&str> = lines
            .arms
            .iter()
            .copied()
            .filter(|arm| *arm != BASELINE)
            .collect();
        let heads = std::iter::once("lines").chain(arms.iter().copied());
        let heads = row(name, heads.map(str::to_owned));
        table.set_header(
            heads
                .into_iter()
                .map(|cell| cell.add_attribute(Attribute::Dim)),
        );
        for value in &values {
            let of_value = |line: &Line<'_>| line.drawn(name) == Some(value);
            let mut most = 0;
            let cells: Vec<String> = arms
                .iter()
                .map(|arm| {
                    let ratios = lines.ratios(score, arm, against, &of_value);
                    most = most.max(ratios.len());
                    ratios.first().map_or(String::new(), |least| {
                        let median = ratio_text(quantile(&ratios, 50));
                        format!("{median} ({})", ratio_text(least.ratio))
                    })
                })
                .collect();
            table.add_row(row(value, std::iter::once(most.to_string()).chain(cells)));
        }
        let title = format!(
            "{} {} by {name}: median (least)",
            score.title(),
            against.title()
        );
        text.push_str(&print(&title, &table));
    }
    text
}

/// The worst lines of each arm, to nothing and to the first of the sets of rivals.
fn worst(lines: &Lines<'_>) -> String {
    let mut found = String::new();
    for arm in lines.arms.iter().filter(|arm| **arm != BASELINE) {
        for score in lines.scores() {
            for against in lines.against().iter().take(2) {
                let ratios = lines.ratios(score, arm, against, &|_| true);
                for Ratio { ratio, line } in ratios.iter().take(WORST) {
                    if *ratio >= FINE {
                        break;
                    }
                    found.push_str(&format!(
                        "  {arm}: {} {}, {}, at point {} ({})\n",
                        ratio_text(*ratio),
                        against.title(),
                        score.title(),
                        line.run.draw.unwrap_or_default(),
                        line.words()
                    ));
                }
            }
        }
    }
    if found.is_empty() {
        return String::new();
    }
    // As often as here, whatever the file says.
    let repeats = match lines.draw.redrawn.is_empty() {
        true => String::new(),
        false => format!(" --repeats {}", lines.draw.repeats),
    };
    format!(
        "\nThe worst lines; `--draw-seed {}{repeats} --point N` runs one alone\n{found}",
        lines.draw.seed
    )
}

/// A row for each line, arm and score, with the values of the point; `None` if the report has no
/// drawn points.
///
/// # Errors
/// A row cannot be written.
pub fn draws_csv(report: &Report) -> Result<Option<String>, RecordError> {
    let Some(lines) = Lines::of(report) else {
        return Ok(None);
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = ["point", "cc", "seed", "arm", "score", "value"].map(str::to_owned);
    let against = lines.against();
    let to = against.iter().map(|one| format!("to_{}", one.name()));
    writer.write_record(names.into_iter().chain(to).chain(["drawn".to_owned()]))?;
    for line in &lines.lines {
        for score in lines.scores() {
            for arm in &lines.arms {
                let Some(value) = line.value(score, arm) else {
                    continue;
                };
                let ratios = against.iter().map(|one| {
                    let ratio = line.ratio(score, arm, one);
                    ratio.map_or(String::new(), |ratio| ratio.to_string())
                });
                let run = line.run;
                let first = [
                    run.draw.unwrap_or_default().to_string(),
                    run.cc.clone(),
                    run.seed.to_string(),
                    (*arm).to_owned(),
                    score.title(),
                    value.to_string(),
                ];
                let drawn = line
                    .drawn
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"));
                let drawn = drawn.collect::<Vec<_>>().join("; ");
                writer.write_record(first.into_iter().chain(ratios).chain([drawn]))?;
            }
        }
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(std::io::Error::other(error.to_string())))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}
