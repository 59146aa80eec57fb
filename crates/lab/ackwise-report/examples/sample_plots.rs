//! Writes a page of plots with more series than there are colours to standard output, for
//! `scripts/test-plots` and for inspection: `figures` of papers, or `arms` of a record.

#[path = "../tests/support/mod.rs"]
mod support;

use ackwise_report::{Axis, Figure, Line, PaperReport, Style, experiments_html, html};

/// More series than any of our plots has.
const MOST: usize = 24;

/// `count` curves of `points` points, one above the other.
fn curves(style: Style, count: usize, points: usize, name: impl Fn(usize) -> String) -> Vec<Line> {
    let one = |i: usize| {
        let at = |n: usize| {
            let x = n as f64 / points as f64;
            (10.0 * x, i as f64 + 2.0 * (3.0 * x + i as f64).sin())
        };
        Line::new(&name(i), style, (0..=points).map(at))
    };
    (0..count).map(one).collect()
}

fn figures() -> String {
    let figure = |id: &str, lines: Vec<Line>| {
        Figure::new(id, id, Axis::new("time, s"), Axis::new("Mbit/s")).lines(lines)
    };
    let numbered = |i: usize| format!("flow {i}");
    let published = |i: usize| format!("flow {i}, published");
    let with = |style: Style| {
        let mut lines = curves(style, MOST / 2, 16, numbered);
        lines.extend(curves(Style::Published, MOST / 2, 16, published));
        lines
    };
    let mut mixed = curves(Style::Line, MOST / 3, 300, numbered);
    mixed.extend(curves(Style::Points, MOST / 3, 12, numbered));
    mixed.extend(curves(Style::Published, MOST / 3, 12, numbered));
    let paper = PaperReport {
        name: "plots".to_owned(),
        title: "Plots".to_owned(),
        figures: vec![
            figure("few-points", curves(Style::Line, MOST, 12, numbered)),
            figure("many-points", curves(Style::Line, MOST, 300, numbered)),
            figure("steps", curves(Style::Steps, MOST, 30, numbered)),
            figure("points", curves(Style::Points, MOST, 12, numbered)),
            figure("published", curves(Style::Published, MOST, 300, numbered)),
            figure("with-published", with(Style::Line)),
            figure("points-with-published", with(Style::Points)),
            figure("all-kinds-of-a-name", mixed),
            figure(
                "one-name",
                curves(Style::Line, MOST, 300, |_| "flow".to_owned()),
            ),
        ],
        ..PaperReport::default()
    };
    experiments_html(&paper)
}

/// Arms of two families that differ in a number, and arms with unrelated names.
fn arms() -> String {
    let families = |i: usize| format!("{}-{}", ["every", "ack"][i % 2], i / 2 + 1);
    let mut names = vec!["baseline".to_owned()];
    names.extend((0..12).map(families));
    names.extend((13..MOST).map(|i| format!("filter {}", char::from(b'a' + i as u8 - 13))));
    let mut report = support::record(&support::scenario("first-look"));
    let mut times = support::record(&support::scenario("short-flows"));
    report.runs.truncate(1);
    times.runs.truncate(1);
    let (course, completion) = (
        report.runs.remove(0),
        times.runs.remove(0).totals.completion,
    );
    for (i, name) in names.into_iter().enumerate() {
        let (mut run, share) = (course.clone(), (i + 3) as f64 / MOST as f64);
        run.id = format!("{name}/{}", run.cc);
        run.arm = name;
        run.totals.goodput_bps *= share;
        run.totals.completion.clone_from(&completion);
        let series = run.totals.series.iter_mut();
        for value in series.flat_map(|s| s.goodput_bps.iter_mut()).flatten() {
            *value *= share;
        }
        report.runs.push(run);
    }
    html(&report)
}

fn main() {
    let kind = std::env::args().nth(1);
    match kind.as_deref() {
        Some("figures") => print!("{}", figures()),
        Some("arms") => print!("{}", arms()),
        _ => {
            eprintln!("usage: sample_plots figures | arms");
            std::process::exit(2);
        }
    }
}
