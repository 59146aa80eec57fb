//! The record as tables: one row per run and flow, and series in long form.

use crate::record::{RecordError, Report, Run, Traffic};

/// What the cells of a column hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellKind {
    /// Text; empty if there is none.
    Text,
    /// A count.
    Count,
    /// A quantity; its unit is in the column's name.
    Number,
    /// Yes or no.
    Flag,
}

/// A cell of the table of runs; `None` is what is not known.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Of a column of text.
    Text(String),
    /// Of a column of counts.
    Count(Option<u64>),
    /// Of a column of quantities.
    Number(Option<f64>),
    /// Of a column of yes or no.
    Flag(Option<bool>),
}

impl Cell {
    fn csv(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.map_or(String::new(), |it| it.to_string()),
            Cell::Number(number) => number.map_or(String::new(), |it| it.to_string()),
            Cell::Flag(flag) => flag.map_or(String::new(), |it| it.to_string()),
        }
    }
}

/// The columns of the table of runs.
pub const RUN_COLUMNS: [(&str, CellKind); 33] = [
    ("engine", CellKind::Text),
    ("scenario", CellKind::Text),
    ("arm", CellKind::Text),
    ("cc", CellKind::Text),
    ("seed", CellKind::Count),
    ("point", CellKind::Text),
    ("flow", CellKind::Text),
    ("duration_s", CellKind::Number),
    ("bytes", CellKind::Count),
    ("goodput_bps", CellKind::Number),
    ("data_segments", CellKind::Count),
    ("acks_on_wire", CellKind::Count),
    ("segments_per_ack", CellKind::Number),
    ("ack_bytes_on_wire", CellKind::Count),
    ("uplink_share", CellKind::Number),
    ("retransmits", CellKind::Count),
    ("timeouts", CellKind::Count),
    ("rtt_p50_us", CellKind::Number),
    ("rtt_p99_us", CellKind::Number),
    ("acks_pure", CellKind::Count),
    ("acks_sack", CellKind::Count),
    ("acks_dup", CellKind::Count),
    ("acks_window_update", CellKind::Count),
    ("acks_old", CellKind::Count),
    ("acks_other", CellKind::Count),
    ("completed", CellKind::Count),
    ("completion_p50_us", CellKind::Number),
    ("completion_p99_us", CellKind::Number),
    ("content_ok", CellKind::Flag),
    ("cpu_process_s", CellKind::Number),
    ("cpu_stack_s", CellKind::Number),
    ("sha256", CellKind::Text),
    ("errors", CellKind::Text),
];

impl Report {
    /// The table of runs, in [`RUN_COLUMNS`]: for each run its totals (`flow` empty unless there is
    /// only one) and then its flows.
    pub fn run_rows(&self) -> impl Iterator<Item = [Cell; 33]> {
        self.runs.iter().flat_map(|run| {
            let flow = run.flow.as_deref().unwrap_or("");
            let totals = self.run_row(run, flow, &run.cc, &run.totals, true);
            let flows = run.flows.iter().map(|flow| {
                let cc = flow.cc.as_deref().unwrap_or(&run.cc);
                self.run_row(run, &flow.flow, cc, &flow.traffic, false)
            });
            std::iter::once(totals).chain(flows)
        })
    }

    /// [`Report::run_rows`] as CSV with a header. What is not known is empty.
    pub fn runs_csv(&self) -> Result<String, RecordError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(RUN_COLUMNS.map(|(name, _)| name))?;
        for row in self.run_rows() {
            writer.write_record(row.map(|cell| cell.csv()))?;
        }
        text(writer)
    }

    fn run_row(
        &self,
        run: &Run,
        flow: &str,
        cc: &str,
        traffic: &Traffic,
        whole: bool,
    ) -> [Cell; 33] {
        let count = |it: u64| Cell::Count(Some(it));
        let written = |it: &str| Cell::Text(it.to_owned());
        let acks = |kind: fn(&crate::record::AckKinds) -> u64| {
            Cell::Count(traffic.acks.as_ref().map(kind))
        };
        let completion = traffic.completion.as_ref();
        let cpu = |pick: fn(&crate::record::NodeRecord) -> Option<f64>| {
            let spent: Vec<f64> = run.nodes.iter().filter_map(pick).collect();
            Cell::Number((whole && !spent.is_empty()).then(|| spent.iter().sum::<f64>()))
        };
        let errors = if whole {
            run.errors.join("; ")
        } else {
            String::new()
        };
        [
            written(&self.engine),
            written(&self.scenario.name),
            written(&run.arm),
            written(cc),
            count(run.seed),
            Cell::Text(point(run)),
            written(flow),
            Cell::Number(Some(traffic.duration_s)),
            count(traffic.bytes),
            Cell::Number(Some(traffic.goodput_bps)),
            count(traffic.data_segments),
            count(traffic.acks_on_wire),
            Cell::Number(traffic.segments_per_ack()),
            Cell::Count(traffic.ack_bytes_on_wire),
            Cell::Number(traffic.uplink_share),
            count(traffic.retransmits),
            Cell::Count(traffic.timeouts),
            Cell::Number(traffic.rtt_us.map(|q| q.p50)),
            Cell::Number(traffic.rtt_us.map(|q| q.p99)),
            acks(|a| a.pure),
            acks(|a| a.sack),
            acks(|a| a.dup),
            acks(|a| a.window_update),
            acks(|a| a.old),
            acks(|a| a.other),
            Cell::Count(completion.map(|c| c.count)),
            Cell::Number(completion.map(|c| c.time_us.p50)),
            Cell::Number(completion.map(|c| c.time_us.p99)),
            Cell::Flag(traffic.content.as_ref().map(|c| c.ok)),
            cpu(|n| n.cpu_process_s),
            cpu(|n| n.cpu_stack_s),
            Cell::Text(
                traffic
                    .content
                    .as_ref()
                    .and_then(|c| c.sha256.clone())
                    .unwrap_or_default(),
            ),
            Cell::Text(errors),
        ]
    }

    /// All series as CSV in long form: a row for each value that is known.
    pub fn series_csv(&self) -> Result<String, RecordError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["arm", "cc", "seed", "point", "flow", "t_s", "name", "value"])?;
        for run in &self.runs {
            let totals = (run.flow.as_deref().unwrap_or(""), &run.totals);
            let flows = run.flows.iter().map(|f| (f.flow.as_str(), &f.traffic));
            for (flow, traffic) in std::iter::once(totals).chain(flows) {
                let Some(series) = &traffic.series else {
                    continue;
                };
                for (name, values) in series.columns() {
                    for (t, value) in series.t_s.iter().zip(values) {
                        let Some(value) = value else { continue };
                        writer.write_record([
                            &run.arm,
                            &run.cc,
                            &run.seed.to_string(),
                            &point(run),
                            flow,
                            &t.to_string(),
                            name,
                            &value.to_string(),
                        ])?;
                    }
                }
            }
        }
        text(writer)
    }
}

fn point(run: &Run) -> String {
    let parts: Vec<String> = run
        .point
        .iter()
        .map(|(path, value)| format!("{path}={value}"))
        .collect();
    parts.join("; ")
}

pub(crate) fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, RecordError> {
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(std::io::Error::other(error.to_string())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
