//! CPU cost of each box on the path.

use ackwise_scenario::record::{NodeRecord, Report, Run};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets::NOTHING};

use crate::format::short;

/// CPU seconds per gigabyte at each node, "process + stack", one line per run. Empty if no run has
/// figures for a third box besides the two ends.
pub fn nodes_table(report: &Report) -> String {
    let mut names: Vec<&str> = Vec::new();
    for node in report.runs.iter().flat_map(|run| &run.nodes) {
        if measured(node) && !names.contains(&node.name.as_str()) {
            names.push(&node.name);
        }
    }
    if names.len() < 3 {
        return String::new();
    }
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.force_no_tty();
    let heads = ["CPU s/GB, process + stack"]
        .into_iter()
        .chain(names.iter().copied());
    table.set_header(heads.enumerate().map(|(index, head)| {
        Cell::new(head).set_alignment(if index == 0 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        })
    }));
    for run in &report.runs {
        let cells = names
            .iter()
            .map(|name| Cell::new(spent(run, name)).set_alignment(CellAlignment::Right));
        table.add_row([Cell::new(&run.id)].into_iter().chain(cells));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn measured(node: &NodeRecord) -> bool {
    node.cpu_process_s.is_some() || node.cpu_stack_s.is_some()
}

fn spent(run: &Run, name: &str) -> String {
    let gigabytes = run.totals.bytes as f64 / 1e9;
    let node = run.nodes.iter().find(|node| node.name == name);
    let Some(node) = node.filter(|node| measured(node) && gigabytes > 0.0) else {
        return "–".to_owned();
    };
    let part = |seconds: Option<f64>| seconds.map(|s| short(s / gigabytes));
    match (part(node.cpu_process_s), part(node.cpu_stack_s)) {
        (Some(process), Some(stack)) => format!("{process} + {stack}"),
        (one, other) => one.or(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(nodes: &[(&str, Option<f64>, Option<f64>)]) -> Report {
        let mut run = Run {
            id: "adaptive/cubic/1".to_owned(),
            ..Run::default()
        };
        run.totals.bytes = 2_000_000_000;
        run.nodes = nodes
            .iter()
            .map(|(name, process, stack)| NodeRecord {
                name: (*name).to_owned(),
                cpu_process_s: *process,
                cpu_stack_s: *stack,
                ..NodeRecord::default()
            })
            .collect();
        let mut report: Report = Report::from_json(r#"{"schema":1,"engine":"live","runs":[]}"#)
            .expect("a report without runs");
        report.runs.push(run);
        report
    }

    #[test]
    fn three_boxes_have_a_line_each_run() {
        let text = nodes_table(&report(&[
            ("sender", Some(1.0), Some(3.0)),
            ("router", None, Some(5.0)),
            ("receiver", Some(2.0), None),
        ]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        for word in ["adaptive/cubic/1", "0.50 + 1.50", "2.50", "1.00"] {
            assert!(lines[1].contains(word), "{word} in {text}");
        }
    }

    #[test]
    fn two_ends_need_no_table_of_their_own() {
        let two = report(&[("sender", Some(1.0), None), ("receiver", Some(1.0), None)]);
        assert_eq!(nodes_table(&two), "");
    }
}
