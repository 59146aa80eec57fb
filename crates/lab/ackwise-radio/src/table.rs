//! The table of a radio report: means over seeds.

use crate::scenario::{RadioReport, RadioRun};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets::NOTHING};

use ackwise_report::parts::short;
use ackwise_report::{Mean, TableOptions};

/// A quantity that is compared, with its unit.
pub(crate) struct Column {
    /// Heading.
    pub head: &'static str,
    /// The unit, under the heading.
    pub unit: &'static str,
    /// Reads the value from a run.
    pub value: fn(&RadioRun) -> f64,
}

pub(crate) const COLUMNS: [Column; 9] = [
    Column {
        head: "throughput",
        unit: "kbit/s",
        value: |run| run.throughput_bps / 1e3,
    },
    Column {
        head: "energy",
        unit: "J",
        value: |run| run.energy_j,
    },
    Column {
        head: "efficiency",
        unit: "kbit/s per J",
        value: |run| run.efficiency_bps_per_j / 1e3,
    },
    Column {
        head: "ACKs",
        unit: "per segment",
        value: RadioRun::acks_per_segment,
    },
    Column {
        head: "re-",
        unit: "transm.",
        value: |run| run.retransmits as f64,
    },
    Column {
        head: "time-",
        unit: "outs",
        value: |run| run.timeouts as f64,
    },
    Column {
        head: "MAC",
        unit: "retries",
        value: |run| run.mac_retries as f64,
    },
    Column {
        head: "colli-",
        unit: "sions",
        value: |run| run.collisions as f64,
    },
    Column {
        head: "frames",
        unit: "given up",
        value: |run| (run.lost_no_ack + run.lost_no_channel) as f64,
    },
];

/// The runs of an arm at one point.
pub(crate) struct Row<'a> {
    /// Name of the arm.
    pub arm: &'a str,
    runs: Vec<&'a RadioRun>,
}

impl Row<'_> {
    /// The mean over the seeds.
    pub fn mean(&self, value: fn(&RadioRun) -> f64) -> Option<Mean> {
        Mean::of(self.runs.iter().map(|run| value(run)))
    }

    /// How many flows had not ended.
    pub fn unfinished(&self) -> u64 {
        self.runs.iter().map(|run| run.unfinished).sum()
    }
}

/// A field, and its arms in the order of the scenario.
pub(crate) struct Group<'a> {
    /// Hops along a path; 0 if positions are given.
    pub hops: u64,
    /// Number of flows.
    pub flows: usize,
    /// One row per arm.
    pub rows: Vec<Row<'a>>,
}

impl Group<'_> {
    /// The title, e.g. `4 hops, 1 flow`.
    pub fn title(&self) -> String {
        let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let flows = count(self.flows as u64, "flow");
        match self.hops {
            0 => flows,
            hops => format!("{}, {flows}", count(hops, "hop")),
        }
    }
}

/// The points in the order in which they appear.
pub(crate) fn groups(report: &RadioReport) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for run in &report.runs {
        let (hops, flows) = (run.hops.unwrap_or(0), run.flow_count());
        let at = groups
            .iter()
            .position(|g| (g.hops, g.flows) == (hops, flows));
        let at = at.unwrap_or_else(|| {
            groups.push(Group {
                hops,
                flows,
                rows: Vec::new(),
            });
            groups.len() - 1
        });
        let rows = &mut groups[at].rows;
        match rows.iter_mut().find(|row| row.arm == run.arm) {
            Some(row) => row.runs.push(run),
            None => rows.push(Row {
                arm: &run.arm,
                runs: vec![run],
            }),
        }
    }
    groups
}

/// A mean, and half its confidence interval if it has one.
pub(crate) fn shown(mean: Mean) -> (String, Option<String>) {
    (short(mean.mean), mean.half.map(short))
}

/// The number of seeds, and what the numbers mean.
pub(crate) fn legend(report: &RadioReport) -> String {
    let mut seeds: Vec<u64> = report.runs.iter().map(|run| run.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    match seeds.len() {
        0 | 1 => "One seed.".to_owned(),
        n => format!("Means of {n} seeds, ± half the 95 % confidence interval (Student's t)."),
    }
}

/// The table of points × arms for a terminal. It ends with a line feed.
pub fn table(report: &RadioReport, options: &TableOptions) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    if options.color {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let heads = COLUMNS.map(|column| format!("{}\n{}", column.head, column.unit));
    let heads = ["".to_owned(), "arm".to_owned()].into_iter().chain(heads);
    table.set_header(heads.enumerate().map(|(index, head)| {
        let side = if index < 2 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        Cell::new(head)
            .set_alignment(side)
            .add_attribute(Attribute::Dim)
    }));
    let mut cut = Vec::new();
    for (index, group) in groups(report).iter().enumerate() {
        if index > 0 {
            table.add_row(vec![Cell::new("")]);
        }
        for (index, row) in group.rows.iter().enumerate() {
            let title = if index == 0 {
                group.title()
            } else {
                String::new()
            };
            if row.unfinished() > 0 {
                cut.push(format!(
                    "! {}, {}: {} flows were unfinished when their run ended.\n",
                    row.arm,
                    group.title(),
                    row.unfinished()
                ));
            }
            let mark = if row.unfinished() > 0 { " !" } else { "" };
            let mut cells = vec![
                Cell::new(title).add_attribute(Attribute::Bold),
                Cell::new(format!("{}{mark}", row.arm)),
            ];
            cells.extend(COLUMNS.iter().map(|column| {
                let text = row.mean(column.value).map_or(String::new(), |mean| {
                    let (mean, half) = shown(mean);
                    half.map_or(mean.clone(), |half| format!("{mean} ±{half}"))
                });
                Cell::new(text).set_alignment(CellAlignment::Right)
            }));
            table.add_row(cells);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text + "\n" + &legend(report) + "\n" + &cut.concat()
}
