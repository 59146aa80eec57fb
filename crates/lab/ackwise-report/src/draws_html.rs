//! Drawn points for a page: the tables of the terminal, and the data for its plots.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ackwise_scenario::BASELINE;
use serde::Serialize;

use crate::draws::{Against, Lines, Score};
use crate::draws_sheets::{Row, Sheet, distribution, grouped, heading, point_alone, worst};
use crate::format::escape;

/// The section of a page on drawn points.
pub(crate) fn draws_html(lines: &Lines<'_>) -> String {
    let mut html = format!(
        "<section id=\"draws\"><h2>Lines drawn at random</h2><p class=\"note\">{}</p>\
         <div id=\"draws-plot\" hidden><div class=\"controls\"><div class=\"segmented\" \
         id=\"draws-score\" role=\"group\" aria-label=\"Score\"></div></div>\
         <div class=\"arms\" id=\"draws-arms\" role=\"group\" aria-label=\"Arms\"></div>\
         <div class=\"plots\" id=\"draws-plots\"></div></div>",
        escape(&heading(lines))
    );
    for score in lines.scores() {
        let against = lines.against();
        let sheets = against.iter().map(|one| distribution(lines, score, one));
        let sheets: Vec<Sheet> = sheets.collect();
        if sheets.iter().all(|sheet| sheet.rows.is_empty()) {
            continue;
        }
        let _ = write!(
            html,
            "<h3>{}</h3>{}",
            escape(&score.title()),
            table(&sheets)
        );
        for name in &lines.draw.group {
            let sheets = grouped(lines, score, name);
            if !sheets.is_empty() {
                let _ = write!(
                    html,
                    "<details><summary>The same by {}</summary>{}</details>",
                    escape(name),
                    table(&sheets)
                );
            }
        }
    }
    html.push_str(&worst_html(lines));
    html.push_str("</section>");
    html
}

/// Sheets with the same column headings, one below the other.
fn table(sheets: &[Sheet]) -> String {
    let heads = sheets.first().map_or(&[] as &[String], |one| &one.heads);
    let mut html = String::from("<div class=\"scroll\"><table><thead><tr>");
    for head in heads {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(head));
    }
    html.push_str("</tr></thead>");
    for sheet in sheets.iter().filter(|sheet| !sheet.rows.is_empty()) {
        let _ = write!(
            html,
            "<tbody><tr class=\"group\"><th scope=\"rowgroup\">{}</th><td colspan=\"{}\"></td></tr>",
            escape(&sheet.title),
            heads.len().saturating_sub(1)
        );
        for row in &sheet.rows {
            html.push_str(&row_html(row));
        }
        html.push_str("</tbody>");
    }
    html.push_str("</table></div>");
    html
}

fn row_html(row: &Row) -> String {
    let name = escape(&row.name);
    let mut html = match row.is_arm {
        true => arm_html(&row.name),
        false => format!("<tr><th scope=\"row\">{name}</th>"),
    };
    for cell in &row.cells {
        let _ = write!(html, "<td>{}</td>", escape(cell));
    }
    html.push_str("</tr>");
    html
}

/// The first cell of an arm's row.
fn arm_html(arm: &str) -> String {
    let arm = escape(arm);
    format!("<tr data-arm=\"{arm}\"><th scope=\"row\"><i class=\"swatch\"></i>{arm}</th>")
}

fn worst_html(lines: &Lines<'_>) -> String {
    let worst = worst(lines);
    if worst.is_empty() {
        return String::new();
    }
    let mut html = format!(
        "<h3>The worst lines <span>· <code>{}</code> runs one alone</span></h3>\
         <div class=\"scroll\"><table class=\"plain words\"><thead><tr><th scope=\"col\">arm</th>\
         <th scope=\"col\">ratio</th><th scope=\"col\"></th><th scope=\"col\">score</th>\
         <th scope=\"col\">point</th><th scope=\"col\">the line</th></tr></thead><tbody>",
        escape(&point_alone(lines))
    );
    for one in worst {
        let _ = write!(
            html,
            "{}<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            arm_html(one.arm),
            escape(&one.ratio),
            escape(&one.against),
            escape(&one.score),
            one.point,
            escape(&one.words)
        );
    }
    html.push_str("</tbody></table></div>");
    html
}

/// The ratios of all arms for one score and one reference, for a plot.
#[derive(Debug, Serialize)]
pub(crate) struct DrawsData<'a> {
    score: String,
    against: String,
    arms: BTreeMap<&'a str, Curve>,
}

#[derive(Debug, Serialize)]
struct Curve {
    /// Number of lines, including those with infinite ratios.
    lines: usize,
    /// The finite ratios in ascending order.
    ratios: Vec<f64>,
}

/// The data for the plots of drawn points.
pub(crate) fn draws_data<'a>(lines: &'a Lines<'a>) -> Vec<DrawsData<'a>> {
    let of = |score: &Score, against: &Against| {
        let arms = lines.arms.iter().copied();
        let arms = arms.filter(|arm| *arm != BASELINE || *against != Against::Baseline);
        let curve = |arm| {
            let ratios = lines.ratios(score, arm, against, &|_| true);
            let finite = ratios.iter().map(|it| it.ratio).filter(|it| it.is_finite());
            let curve = Curve {
                lines: ratios.len(),
                ratios: finite.map(|it| (it * 1e4).round() / 1e4).collect(),
            };
            (curve.lines > 0).then_some((arm, curve))
        };
        DrawsData {
            score: score.title(),
            against: against.title(),
            arms: arms.filter_map(curve).collect(),
        }
    };
    let against = lines.against();
    let scores = lines.scores().into_iter();
    let all = scores.flat_map(|score| against.iter().map(move |one| of(score, one)));
    all.filter(|one| !one.arms.is_empty()).collect()
}
