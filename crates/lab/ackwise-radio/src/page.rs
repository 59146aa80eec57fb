//! The HTML page of a radio report.

use std::fmt::Write as _;

use crate::scenario::{RadioReport, RadioRun};

use ackwise_report::parts::{Page, Plots, SCRIPT, STYLE, embed, escape};
use ackwise_report::{Axis, Figure, Line, Style};

use crate::table::{COLUMNS, Group, groups, legend, shown};

/// The report as one self-contained page: a table for each point, and figures over the
/// hops if there are several.
pub fn html(report: &RadioReport) -> String {
    let groups = groups(report);
    let figures = figures(&groups);
    let data = embed(&figures).unwrap_or_else(|_| "[]".to_owned());
    let mut main = String::new();
    if !figures.is_empty() {
        main.push_str("<section><h2>By number of hops</h2><div class=\"figures\">");
        for figure in &figures {
            let _ = write!(
                main,
                "<figure class=\"plot\" id=\"figure-{}\"><h3>{}</h3>\
                 <div class=\"canvas\"></div><figcaption></figcaption></figure>",
                figure.id,
                escape(&figure.title)
            );
        }
        main.push_str("</div></section>");
    }
    main.push_str("<section><h2>All points</h2>");
    for group in &groups {
        main.push_str(&table(group));
    }
    let _ = write!(
        main,
        "<p class=\"hint\">{}</p></section><section><h2>Set-up</h2><details><summary>The \
         scenario file</summary><pre>{}</pre></details></section><noscript><p class=\"hint\">\
         The plots need JavaScript; the numbers do not.</p></noscript>",
        escape(&legend(report)),
        escape(&report.scenario.text)
    );
    let lead = format!(
        "<p class=\"about\">{}</p>\n<ul class=\"chips\"><li>simulated</li><li>IEEE 802.15.4</li>\
         <li>{} runs</li></ul>",
        escape(&report.scenario.about),
        report.runs.len()
    );
    let page = Page {
        title: &escape(&report.scenario.name),
        lead: &lead,
        style: STYLE,
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

fn table(group: &Group<'_>) -> String {
    let mut html = format!(
        "<h3 class=\"part\">{}</h3><div class=\"scroll\"><table><thead><tr><th scope=\"col\">Arm</th>",
        escape(&group.title())
    );
    for column in &COLUMNS {
        let _ = write!(
            html,
            "<th scope=\"col\">{}<span>{}</span></th>",
            column.head, column.unit
        );
    }
    html.push_str("</tr></thead><tbody>");
    for row in &group.rows {
        let cut = match row.unfinished() {
            0 => String::new(),
            n => format!(" <small>{n} flows unfinished</small>"),
        };
        let _ = write!(html, "<tr><th scope=\"row\">{}{cut}</th>", escape(row.arm));
        for column in &COLUMNS {
            let (mean, half) = row.mean(column.value).map(shown).unwrap_or_default();
            let half = half.map_or(String::new(), |half| format!(" <small>±{half}</small>"));
            let _ = write!(html, "<td>{mean}{half}</td>");
        }
        html.push_str("</tr>");
    }
    html + "</tbody></table></div>"
}

/// Throughput, energy and efficiency over the hops, for each number of flows.
fn figures(groups: &[Group<'_>]) -> Vec<Figure> {
    let mut counts: Vec<usize> = groups.iter().map(|group| group.flows).collect();
    counts.sort_unstable();
    counts.dedup();
    let mut figures = Vec::new();
    for flows in counts {
        let points: Vec<&Group<'_>> = groups.iter().filter(|g| g.flows == flows).collect();
        if points.len() < 2 {
            continue;
        }
        for (at, column) in COLUMNS[..3].iter().enumerate() {
            let title = format!(
                "{} with {flows} flow{}",
                column.head,
                if flows == 1 { "" } else { "s" }
            );
            let label = format!("{}, {}", column.head, column.unit);
            let lines = points[0]
                .rows
                .iter()
                .map(|row| line(&points, row.arm, column.value));
            figures.push(
                Figure::new(
                    &format!("{at}-{flows}"),
                    &title,
                    Axis::new("hops"),
                    Axis::new(&label),
                )
                .lines(lines),
            );
        }
    }
    figures
}

fn line(points: &[&Group<'_>], arm: &str, value: fn(&RadioRun) -> f64) -> Line {
    let means: Vec<_> = points
        .iter()
        .filter_map(|group| {
            let row = group.rows.iter().find(|row| row.arm == arm)?;
            Some((group.hops as f64, row.mean(value)?))
        })
        .collect();
    let middle = means.iter().map(|(hops, mean)| (*hops, mean.mean));
    let line = Line::new(arm, Style::Line, middle);
    let ends: Option<Vec<_>> = means
        .iter()
        .map(|(_, mean)| mean.ci95().map(|[low, high]| (low, high)))
        .collect();
    match ends {
        Some(ends) => line.bars(ends),
        None => line,
    }
}
