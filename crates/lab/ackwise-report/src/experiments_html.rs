//! The pages of reproduced papers: one per paper, and an index.

use std::fmt::Write as _;

use crate::experiment::{Experiment, Spread};
use crate::experiments::PaperReport;
use crate::format::{escape, prose};
use crate::frame::{Page, Plots, fill};
use crate::page_data::embed;
use crate::value::Value;
use crate::verdict::{Basis, Source, Verdict};

const TEMPLATE: &str = include_str!("../assets/experiments.html");
/// Style sheet of pages with tables of experiments and figures.
pub const STYLE: &str = include_str!("../assets/experiments.css");
/// Script that draws the figures of such a page from its embedded data.
pub const SCRIPT: &str = include_str!("../assets/experiments.js");

/// A part with more rows is folded, because readers look at the figure before its points.
const MAX_UNFOLDED_ROWS: usize = 60;

/// A longer text value may be broken into lines.
const MAX_UNBROKEN_CHARS: usize = 12;

/// A paper as one self-contained page. It links to `index.html` beside it.
///
/// Text and tables work without scripts; figures need them.
pub fn experiments_html(paper: &PaperReport) -> String {
    let data = embed(&paper.figures).unwrap_or_else(|_| "[]".to_owned());
    let hidden = if paper.figures.is_empty() {
        " hidden"
    } else {
        ""
    };
    let main = fill(
        TEMPLATE,
        &[
            ("missing", &missing_html(&paper.missing)),
            ("summary", &summary(paper)),
            ("tables", &tables(&paper.experiments)),
            ("figures-hidden", hidden),
            ("figures", &figures(paper)),
            ("notes", &items(&paper.notes)),
            ("scenarios", &scenarios(paper)),
        ],
    );
    let lead = format!(
        "<p class=\"source\">{}</p>\n<p class=\"about\">{}</p>\n<ul class=\"chips\">{}</ul>",
        escape(&paper.source),
        escape(&paper.about),
        chips(paper)
    );
    let page = Page {
        title: &escape(&paper.title),
        brand: "ackwise · <a href=\"index.html\">papers, reproduced</a>",
        lead: &lead,
        style: STYLE,
        main: &main,
        version: env!("CARGO_PKG_VERSION"),
        plots: Some(Plots {
            data: &data,
            script: SCRIPT,
        }),
    };
    page.html()
}

/// The index page, which links to each paper's `NAME.html` beside it.
pub fn papers_index_html(papers: &[PaperReport]) -> String {
    let mut list = String::new();
    for paper in papers {
        let _ = write!(
            list,
            "<li><h2><a href=\"{}.html\">{}</a></h2><p class=\"source\">{}</p><p>{}</p>\
             <p>{}</p><p class=\"hint\">{} rows; {} figures.{}</p></li>",
            escape(&paper.name),
            escape(&paper.title),
            escape(&paper.source),
            escape(&paper.about),
            escape(&paper.summary().to_string()),
            paper.experiments.len(),
            paper.figures.len(),
            match paper.missing.len() {
                0 => "",
                _ => " Some could not be run here.",
            },
        );
    }
    let page = Page {
        title: "Papers, reproduced",
        lead: "<p class=\"about\">What papers on TCP acknowledgments printed, beside what came \
               out here, with the reasons where the two differ.</p>",
        style: STYLE,
        main: &format!("<ul class=\"papers\">{list}</ul>"),
        version: env!("CARGO_PKG_VERSION"),
        ..Page::default()
    };
    page.html()
}

fn chips(paper: &PaperReport) -> String {
    let published = paper.summary().published;
    [
        paper.engine.clone(),
        format!("{} outside", published.outside),
        format!("{} undecided", published.undecided),
        format!("{} not run", published.not_run),
        format!("{} not comparable", published.not_comparable),
        format!("{} within", published.within),
    ]
    .iter()
    .map(|chip| format!("<li>{}</li>", escape(chip)))
    .collect()
}

/// The count of verdicts, and the rows that failed, with links.
fn summary(paper: &PaperReport) -> String {
    let mut html = format!(
        "<p class=\"summary\">{}</p>",
        escape(&paper.summary().to_string())
    );
    let counted = |row: &&Experiment| {
        row.source != Some(Source::Derived) && matches!(row.basis, Basis::Measured | Basis::NotRun)
    };
    for (verdict, title) in [
        (Verdict::Outside, "Outside the tolerance"),
        (Verdict::Undecided, "Undecided: the runs have both signs"),
        (Verdict::NotRun, "Not run here"),
    ] {
        let rows = paper.experiments.iter().filter(counted);
        let links: String = rows
            .filter(|row| row.verdict() == verdict)
            .map(|row| {
                format!(
                    "<li><a href=\"#{}\">{}: {}</a></li>",
                    escape(&row.id),
                    escape(&row.part),
                    escape(&row.what)
                )
            })
            .collect();
        if !links.is_empty() {
            let _ = write!(
                html,
                "<details class=\"negative\"><summary>{title}</summary><ul>{links}</ul></details>"
            );
        }
    }
    html
}

fn missing_html(missing: &[String]) -> String {
    if missing.is_empty() {
        return String::new();
    }
    format!(
        "<section class=\"bad\"><h2>Not run here</h2><ul>{}</ul></section>",
        items(missing)
    )
}

fn items(texts: &[String]) -> String {
    texts
        .iter()
        .map(|text| format!("<li>{}</li>", prose(text)))
        .collect()
}

fn tables(experiments: &[Experiment]) -> String {
    let mut html = String::new();
    for part in experiments.chunk_by(|a, b| a.part == b.part) {
        let title = &part[0].part;
        let long = part.len() > MAX_UNFOLDED_ROWS;
        if long {
            let _ = write!(
                html,
                "<details class=\"part\"><summary>{} ({} experiments)</summary>",
                escape(title),
                part.len()
            );
        } else if !title.is_empty() {
            let _ = write!(html, "<h3 class=\"part\">{}</h3>", escape(title));
        }
        // A set-up that is common to a part is stated once, above it.
        let common = part.len() > 1 && part.iter().all(|e| e.setup == part[0].setup);
        if common && !part[0].setup.is_empty() {
            let _ = write!(html, "<p class=\"hint\">{}</p>", escape(&part[0].setup));
        }
        // Omits the column if nothing varies.
        let plain = part.iter().all(|e| e.spread.is_none());
        let _ = write!(
            html,
            "<div class=\"scroll\"><table class=\"experiments{}\"><thead><tr>\
             <th scope=\"col\">Experiment</th><th scope=\"col\">Published</th>\
             <th scope=\"col\">Measured</th><th scope=\"col\">Spread</th>\
             <th scope=\"col\">Verdict</th><th scope=\"col\">Note</th></tr></thead><tbody>",
            if plain { " plain" } else { "" },
        );
        // The bars of a part share an axis if they have the same unit.
        let shared = scale(part);
        let mut note = "";
        for experiment in part {
            let setup = if common { "" } else { &experiment.setup };
            let again = !experiment.note.is_empty() && experiment.note == note;
            note = &experiment.note;
            html.push_str(&row(
                experiment,
                shared,
                setup,
                if again { "As above." } else { note },
            ));
        }
        html.push_str("</tbody></table></div>");
        if long {
            html.push_str("</details>");
        }
    }
    html
}

/// Smallest and largest value of a part whose experiments share a unit.
fn scale(part: &[Experiment]) -> Option<(f64, f64)> {
    if part.iter().any(|e| e.unit != part[0].unit) {
        return None;
    }
    extent(part.iter().flat_map(values))
}

fn values(experiment: &Experiment) -> Vec<f64> {
    let spread = experiment.spread.iter().flat_map(|s| [s.min, s.max]);
    let published = experiment.published.as_ref().and_then(Value::number);
    spread
        .chain(published)
        .chain(experiment.measured.number())
        .collect()
}

fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values.fold((0.0f64, 0.0f64), |(l, h), v| (l.min(v), h.max(v)));
    (high > low).then_some((low, high))
}

fn row(experiment: &Experiment, shared: Option<(f64, f64)>, setup: &str, note: &str) -> String {
    let show = |value: &Value| match value {
        Value::Number(_) => format!(
            "<span class=\"number\">{value}</span> {}",
            escape(&experiment.unit)
        ),
        Value::Text(text) => format!(
            "<span class=\"number{}\">{}</span>",
            if text.chars().count() > MAX_UNBROKEN_CHARS {
                " text"
            } else {
                ""
            },
            escape(text)
        ),
    };
    let published = experiment.published.as_ref();
    let derived = match experiment.source {
        Some(Source::Derived) => "<span class=\"beside\">derived, not printed</span>",
        _ => "",
    };
    let interval = experiment.ci95.map_or(String::new(), |[low, high]| {
        let [low, high] = [low, high].map(Value::from);
        format!("<span class=\"beside\">95 %: {low} … {high}</span>")
    });
    let spread = experiment.spread.as_ref().map_or(String::new(), |spread| {
        let scale = shared.or_else(|| extent(values(experiment).into_iter()));
        spread_html(spread, published.and_then(Value::number), scale)
    });
    format!(
        "<tr id=\"{}\"><th scope=\"row\">{}<small>{}</small></th><td data-head=\"Published\">{}</td>\
         <td data-head=\"Measured\">{}{}{interval}</td><td data-head=\"Spread\">{spread}</td>\
         <td data-head=\"Verdict\">{}</td><td>{}</td></tr>",
        escape(&experiment.id),
        escape(&experiment.what),
        escape(setup),
        match published {
            // A claim that was not run already stands in the first column.
            Some(Value::Text(text)) if *text == experiment.what => {
                "<span class=\"beside\">in words</span>".to_owned()
            }
            published => published.map_or("–".to_owned(), show) + derived,
        },
        show(&experiment.measured),
        basis_html(experiment.basis),
        verdict_html(experiment),
        why_html(experiment) + &prose(note),
    )
}

/// The basis of the measured value, unless it is simply measured.
fn basis_html(basis: Basis) -> &'static str {
    match basis {
        Basis::Measured | Basis::NotRun => "",
        Basis::Variant => "<span class=\"beside\">one of several settings</span>",
        Basis::Calculated => "<span class=\"beside\">calculated</span>",
    }
}

/// The reason why nothing can be compared, placed before the note: its own column would be too
/// narrow.
fn why_html(row: &Experiment) -> String {
    match row.verdict() {
        Verdict::Undecided | Verdict::NotRun | Verdict::NotComparable
            if !row.reason().is_empty() =>
        {
            format!("<span class=\"why\">{}</span> ", escape(row.reason()))
        }
        _ => String::new(),
    }
}

/// The verdict with its tolerance.
fn verdict_html(row: &Experiment) -> String {
    let verdict = row.verdict();
    let class = match verdict {
        Verdict::NotPublished => return String::new(),
        Verdict::Outside => "bad",
        Verdict::Within => "good",
        Verdict::Undecided | Verdict::NotRun | Verdict::NotComparable => "open",
    };
    let beside = match (verdict, row.tolerance) {
        (Verdict::NotRun | Verdict::NotComparable, _) | (_, None) => String::new(),
        (_, Some(tolerance)) => tolerance.text(&row.unit),
    };
    format!(
        "<span class=\"verdict {class}\">{verdict}</span><span class=\"beside\">{}</span>",
        escape(&beside)
    )
}

/// Whiskers from minimum to maximum, a box from p10 to p90, a solid line at the median, and a
/// dashed one at the published value.
fn spread_html(spread: &Spread, published: Option<f64>, scale: Option<(f64, f64)>) -> String {
    let [low, high, median] = [spread.p10, spread.p90, spread.median].map(Value::from);
    let mut html = String::new();
    if let Some((least, greatest)) = scale {
        let at = |v: f64| 100.0 * (v - least) / (greatest - least);
        let _ = write!(
            html,
            "<span class=\"range\" aria-hidden=\"true\">\
             <i style=\"left:{:.1}%;width:{:.1}%\"></i><b style=\"left:{:.1}%;width:{:.1}%\"></b>\
             <u style=\"left:{:.1}%\"></u>",
            at(spread.min),
            at(spread.max) - at(spread.min),
            at(spread.p10),
            at(spread.p90) - at(spread.p10),
            at(spread.median),
        );
        if let Some(v) = published {
            let _ = write!(html, "<s style=\"left:{:.1}%\"></s>", at(v));
        }
        html.push_str("</span>");
    }
    let _ = write!(
        html,
        "<span class=\"beside\">median {median}; p10 {low}, p90 {high}</span>\
         <span class=\"beside\">{} runs: {}</span>",
        spread.count,
        escape(&spread.over)
    );
    html
}

fn figures(paper: &PaperReport) -> String {
    let one = |figure: &crate::Figure| {
        format!(
            "<figure class=\"plot\" id=\"figure-{}\"><h3>{}</h3><div class=\"canvas\"></div>\
             <figcaption>{}</figcaption></figure>",
            escape(&figure.id),
            escape(&figure.title),
            escape(&figure.caption)
        )
    };
    paper.figures.iter().map(one).collect()
}

fn scenarios(paper: &PaperReport) -> String {
    let one = |(name, text): &(String, String)| {
        format!(
            "<details><summary>{}</summary><pre>{}</pre></details>",
            escape(name),
            escape(text)
        )
    };
    paper.scenarios.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Figure, Line, Style};

    fn paper() -> PaperReport {
        PaperReport {
            name: "x".to_owned(),
            title: "<b>A paper</b>".to_owned(),
            experiments: vec![
                Experiment::new("x/a", "goodput", 9.3)
                    .published(9.24)
                    .within_by(0.05)
                    .unit("Mbit/s")
                    .spread(Spread::of("offsets", [9.0, 9.3, 9.5]))
                    .note("</script>"),
            ],
            figures: vec![
                Figure::new("fig2", "Rate", Axis::new("time, s"), Axis::new("Mbit/s"))
                    .caption("rises, then falls")
                    .line(Line::new(
                        "ours",
                        Style::Line,
                        [(0.0, 1.0), (1.0, f64::NAN)],
                    )),
            ],
            ..PaperReport::default()
        }
    }

    #[test]
    fn the_page_holds_everything_and_loads_nothing() {
        let page = experiments_html(&paper());
        for part in [
            "9.24",
            "9.3",
            "p10 9",
            "figure-fig2",
            "<span class=\"verdict bad\">outside</span><span class=\"beside\">± 0.05 Mbit/s</span>",
            "<a href=\"#x/a\">",
            "rises, then falls",
            "&lt;b&gt;A paper",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("@{"), "a key of the template is left");
        assert!(!page.contains("<b>A paper"));
        for outside in ["src=", "http://", "https://"] {
            let found = page.match_indices(outside).filter(|(at, _)| {
                // uPlot's licence comment contains the address of its web site.
                !page[..*at].ends_with("(")
                    && !page[*at..].starts_with("https://github.com/leeoniya")
            });
            assert_eq!(found.count(), 0, "{outside}");
        }
        assert_eq!(page.matches("</script>").count(), 3);
        let index = papers_index_html(&[paper()]);
        assert!(index.contains("x.html") && index.contains("1 rows; 1 figures"));
        assert!(
            index.contains("Beside published values: 1 outside"),
            "{index}"
        );
    }

    #[test]
    fn long_parts_are_folded() {
        let part = |title: &str, n: usize| {
            let one = |_| Experiment::new("x/a", "b", 1.0).part(title);
            (0..n).map(one).collect::<Vec<_>>()
        };
        let html = tables(
            &[
                part("Fig. 1", MAX_UNFOLDED_ROWS),
                part("Fig. 2", MAX_UNFOLDED_ROWS + 1),
            ]
            .concat(),
        );
        assert!(html.contains("<h3 class=\"part\">Fig. 1</h3>"));
        assert!(html.contains("<summary>Fig. 2 (61 experiments)</summary>"));
        assert_eq!(html.matches("<details").count(), 1);
        assert_eq!(html.matches("</details>").count(), 1);
    }

    #[test]
    fn a_value_in_a_few_words_is_not_broken() {
        let cell = |text: &str| row(&Experiment::new("", "", text), None, "", "");
        assert!(cell("41 … 42 s").contains("<span class=\"number\">41 … 42 s<"));
        let long = "with none of these";
        assert!(cell(long).contains(&format!("<span class=\"number text\">{long}<")));
    }

    #[test]
    fn bars_of_one_unit_share_an_axis() {
        let many = [0.0, 50.0, 100.0].map(|v| Experiment::new("", "", v).unit("%"));
        assert_eq!(scale(&many), Some((0.0, 100.0)));
        let mixed = [many[0].clone(), many[1].clone().unit("s")];
        assert_eq!(scale(&mixed), None);
        assert_eq!(extent([0.0].into_iter()), None);
    }
}
