//! Drawn points for a terminal, and as CSV.

use ackwise_scenario::record::{RecordError, Report};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets::NOTHING};

use crate::draws::{Lines, Score};
use crate::draws_sheets::{Sheet, distribution, grouped, heading, point_alone, worst};

/// The distributions of a report with drawn points; `None` if it has none.
pub(crate) fn draws_text(report: &Report) -> Option<String> {
    let lines = Lines::of(report)?;
    let mut text = heading(&lines) + "\n";
    for score in lines.scores() {
        for against in lines.against() {
            text.push_str(&print(score, &distribution(&lines, score, &against)));
        }
        for name in &lines.draw.group {
            for sheet in grouped(&lines, score, name) {
                text.push_str(&print(score, &sheet));
            }
        }
    }
    text.push_str(&worst_text(&lines));
    Some(text)
}

/// Formats a table: text on the left, then right-aligned numbers. Empty without rows, because no
/// rival was run.
fn print(score: &Score, sheet: &Sheet) -> String {
    if sheet.rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.force_no_tty();
    let number = |text: &String| Cell::new(text).set_alignment(CellAlignment::Right);
    let heads = sheet.heads.iter().enumerate().map(|(at, head)| match at {
        0 => Cell::new(head),
        _ => number(head),
    });
    table.set_header(heads.map(|cell| cell.add_attribute(Attribute::Dim)));
    for row in &sheet.rows {
        let first = std::iter::once(Cell::new(&row.name));
        table.add_row(first.chain(row.cells.iter().map(number)));
    }
    let mut text = format!("\n{} {}\n", score.title(), sheet.title);
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn worst_text(lines: &Lines<'_>) -> String {
    let worst = worst(lines);
    if worst.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\nThe worst lines; `{}` runs one alone\n",
        point_alone(lines)
    );
    for one in worst {
        text.push_str(&format!(
            "  {}: {} {}, {}, at point {} ({})\n",
            one.arm, one.ratio, one.against, one.score, one.point, one.words
        ));
    }
    text
}

/// The first columns of `draws.csv`; the ratios and the drawn values follow.
pub const DRAWS_CSV: [&str; 7] = ["line", "draw", "cc", "seed", "arm", "score", "value"];

/// A row for each line, arm and score, with the values of the point; `line` and `arm` are those of
/// `runs.csv`. `None` if the report has no drawn points.
///
/// # Errors
/// A row cannot be written.
pub fn draws_csv(report: &Report) -> Result<Option<String>, RecordError> {
    let Some(lines) = Lines::of(report) else {
        return Ok(None);
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let names = DRAWS_CSV.map(str::to_owned);
    let against = lines.all_against();
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
                    run.line().to_owned(),
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
