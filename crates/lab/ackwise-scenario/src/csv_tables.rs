//! The record as tables: one row per run and flow, and series in long form.

use crate::record::{RecordError, Report, Run, Traffic};

const RUN_COLUMNS: [&str; 33] = [
    "engine",
    "scenario",
    "arm",
    "cc",
    "seed",
    "point",
    "flow",
    "duration_s",
    "bytes",
    "goodput_bps",
    "data_segments",
    "acks_on_wire",
    "segments_per_ack",
    "ack_bytes_on_wire",
    "uplink_share",
    "retransmits",
    "timeouts",
    "rtt_p50_us",
    "rtt_p99_us",
    "acks_pure",
    "acks_sack",
    "acks_dup",
    "acks_window_update",
    "acks_old",
    "acks_other",
    "completed",
    "completion_p50_us",
    "completion_p99_us",
    "content_ok",
    "cpu_process_s",
    "cpu_stack_s",
    "sha256",
    "errors",
];

impl Report {
    /// All runs as CSV with a header: for each run its totals (`flow` empty
    /// unless there is only one) and then its flows. What is not known is empty.
    pub fn runs_csv(&self) -> Result<String, RecordError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(RUN_COLUMNS)?;
        for run in &self.runs {
            let flow = run.flow.as_deref().unwrap_or("");
            writer.write_record(self.run_row(run, flow, &run.cc, &run.totals, true))?;
            for flow in &run.flows {
                let cc = flow.cc.as_deref().unwrap_or(&run.cc);
                writer.write_record(self.run_row(run, &flow.flow, cc, &flow.traffic, false))?;
            }
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
    ) -> [String; 33] {
        let acks =
            |kind: fn(&crate::record::AckKinds) -> u64| cell(traffic.acks.as_ref().map(kind));
        let completion = traffic.completion.as_ref();
        let cpu = |pick: fn(&crate::record::NodeRecord) -> Option<f64>| {
            let spent: Vec<f64> = run.nodes.iter().filter_map(pick).collect();
            cell((whole && !spent.is_empty()).then(|| spent.iter().sum::<f64>()))
        };
        let errors = if whole {
            run.errors.join("; ")
        } else {
            String::new()
        };
        [
            self.engine.clone(),
            self.scenario.name.clone(),
            run.arm.clone(),
            cc.to_owned(),
            run.seed.to_string(),
            point(run),
            flow.to_owned(),
            traffic.duration_s.to_string(),
            traffic.bytes.to_string(),
            traffic.goodput_bps.to_string(),
            traffic.data_segments.to_string(),
            traffic.acks_on_wire.to_string(),
            cell(traffic.segments_per_ack()),
            cell(traffic.ack_bytes_on_wire),
            cell(traffic.uplink_share),
            traffic.retransmits.to_string(),
            cell(traffic.timeouts),
            cell(traffic.rtt_us.map(|q| q.p50)),
            cell(traffic.rtt_us.map(|q| q.p99)),
            acks(|a| a.pure),
            acks(|a| a.sack),
            acks(|a| a.dup),
            acks(|a| a.window_update),
            acks(|a| a.old),
            acks(|a| a.other),
            cell(completion.map(|c| c.count)),
            cell(completion.map(|c| c.time_us.p50)),
            cell(completion.map(|c| c.time_us.p99)),
            cell(traffic.content.as_ref().map(|c| c.ok)),
            cpu(|n| n.cpu_process_s),
            cpu(|n| n.cpu_stack_s),
            cell(traffic.content.as_ref().and_then(|c| c.sha256.clone())),
            errors,
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

fn cell<T: ToString>(value: Option<T>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

pub(crate) fn text(writer: csv::Writer<Vec<u8>>) -> Result<String, RecordError> {
    let bytes = writer
        .into_inner()
        .map_err(|error| csv::Error::from(std::io::Error::other(error.to_string())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
