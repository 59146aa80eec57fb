//! The record as tables. [`TABLES`] are for programs: each fact is in one of them, and `id` joins
//! them. For people there are two CSV files: the table of runs and flows together, and the series
//! in long form.

mod columns;
mod define;

pub use columns::{Column, Values};

use crate::record::{RecordError, Report, Run};

/// The names of the tables of a record.
pub const TABLES: [&str; 7] = [
    "runs",
    "flows",
    "series",
    "queues",
    "queue_series",
    "stretch",
    "nodes",
];

/// The columns of `runs.csv` for each run and flow: the name there, and the name in the table.
const RUNS_CSV: [(&str, &str); 35] = [
    ("engine", "engine"),
    ("scenario", "scenario"),
    ("arm", "arm"),
    ("cc", "cc"),
    ("seed", "seed"),
    ("point", "point"),
    ("draw", "draw"),
    ("line", "line"),
    ("flow", "flow"),
    ("duration_s", "duration_s"),
    ("bytes", "bytes"),
    ("goodput_bps", "goodput_bps"),
    ("data_segments", "data_segments"),
    ("acks_on_wire", "acks_on_wire"),
    ("segments_per_ack", "segments_per_ack"),
    ("ack_bytes_on_wire", "ack_bytes_on_wire"),
    ("uplink_share", "uplink_share"),
    ("retransmits", "retransmits"),
    ("timeouts", "timeouts"),
    ("rtt_p50_us", "rtt_p50_us"),
    ("rtt_p99_us", "rtt_p99_us"),
    ("acks_pure", "acks_pure"),
    ("acks_sack", "acks_sack"),
    ("acks_dup", "acks_dup"),
    ("acks_window_update", "acks_window_update"),
    ("acks_old", "acks_old"),
    ("acks_other", "acks_other"),
    ("completed", "completed"),
    ("completion_p50_us", "completion_p50_us"),
    ("completion_p99_us", "completion_p99_us"),
    ("content_ok", "content_ok"),
    ("cpu_process_s", "cpu_process_s"),
    ("cpu_stack_s", "cpu_stack_s"),
    ("sha256", "content_sha256"),
    ("errors", "errors"),
];

/// The columns of `series.csv`.
pub const SERIES_CSV: [&str; 8] = ["arm", "cc", "seed", "point", "flow", "t_s", "name", "value"];

impl Report {
    /// The columns of one of [`TABLES`]; `None` if there is no such table.
    pub fn table(&self, name: &str) -> Option<Vec<Column>> {
        Some(match name {
            "runs" => define::runs(self),
            "flows" => define::flows(self),
            "series" => define::series(self),
            "queues" => define::queues(self),
            "queue_series" => define::queue_series(self),
            "stretch" => define::stretch(self),
            "nodes" => define::nodes(self),
            _ => return None,
        })
    }

    /// The columns of `runs.csv`: for each run its totals (`flow` is empty unless there is only
    /// one) and then its flows.
    pub fn runs_and_flows(&self) -> Vec<Column> {
        let mut all = define::runs_and_flows(self);
        let chosen = RUNS_CSV.iter().filter_map(|(shown, name)| {
            let at = all.iter().position(|it| it.name == *name)?;
            let mut column = all.swap_remove(at);
            column.name = (*shown).to_owned();
            if matches!(column.values, Values::Texts(_)) {
                let lines = (0..column.values.len()).map(|row| Some(column.values.text(row)));
                column.values = Values::Text(lines.collect());
            }
            Some(column)
        });
        chosen.collect()
    }

    /// [`Report::runs_and_flows`] as CSV with a header. Unknown values are empty.
    ///
    /// # Errors
    ///
    /// A row cannot be written as CSV.
    pub fn runs_csv(&self) -> Result<String, RecordError> {
        let columns = self.runs_and_flows();
        let rows = columns.first().map_or(0, |it| it.values.len());
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(columns.iter().map(|it| &it.name))?;
        for row in 0..rows {
            writer.write_record(columns.iter().map(|it| it.values.text(row)))?;
        }
        text(writer)
    }

    /// All series as CSV in long form: a row for each known value.
    ///
    /// # Errors
    ///
    /// A row cannot be written as CSV.
    pub fn series_csv(&self) -> Result<String, RecordError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(SERIES_CSV)?;
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
