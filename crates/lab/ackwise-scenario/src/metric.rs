//! Metrics of a run, by the names that scenario files use.

use crate::record::Run;

/// A metric of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// `goodput_bps`.
    Goodput,
    /// `data_segments`.
    DataSegments,
    /// `acks_on_wire`.
    Acks,
    /// ACKs per data segment.
    AcksPerSegment,
    /// Data segments per ACK.
    SegmentsPerAck,
    /// `ack_bytes_on_wire`.
    AckBytes,
    /// `uplink_share`, 0…1.
    UplinkShare,
    /// `retransmits`.
    Retransmits,
    /// Retransmitted segments per data segment.
    RetransmitShare,
    /// `rtt_us.mean`.
    RttMean,
    /// `rtt_us.p50`.
    RttP50,
    /// `rtt_us.p99`.
    RttP99,
    /// `completion.time_us.p50`.
    CompletionP50,
    /// `completion.time_us.p99`.
    CompletionP99,
    /// `completion.count`.
    Completions,
    /// `completion.late` as a share of the chunks that were due, 0…1.
    LateShare,
    /// CPU seconds of all nodes, processes and stack, per gigabyte.
    CpuPerGigabyte,
}

impl Metric {
    /// All metrics, with the names that scenario files use.
    pub const ALL: [(Metric, &'static str); 17] = [
        (Metric::Goodput, "goodput"),
        (Metric::DataSegments, "data-segments"),
        (Metric::Acks, "acks"),
        (Metric::AcksPerSegment, "acks-per-segment"),
        (Metric::SegmentsPerAck, "segments-per-ack"),
        (Metric::AckBytes, "ack-bytes"),
        (Metric::UplinkShare, "uplink-share"),
        (Metric::Retransmits, "retransmits"),
        (Metric::RetransmitShare, "retransmit-share"),
        (Metric::RttMean, "rtt-mean"),
        (Metric::RttP50, "rtt-p50"),
        (Metric::RttP99, "rtt-p99"),
        (Metric::CompletionP50, "completion-p50"),
        (Metric::CompletionP99, "completion-p99"),
        (Metric::Completions, "completions"),
        (Metric::LateShare, "late-share"),
        (Metric::CpuPerGigabyte, "cpu-per-gigabyte"),
    ];

    /// The name used in scenario files.
    pub fn name(self) -> &'static str {
        Metric::ALL
            .iter()
            .find(|(metric, _)| *metric == self)
            .map_or("", |(_, name)| name)
    }

    /// The metric with that name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL
            .iter()
            .find(|(_, known)| *known == name)
            .map(|(metric, _)| *metric)
    }

    /// The value of the metric in a run, if the run has it.
    pub fn of(self, run: &Run) -> Option<f64> {
        let t = &run.totals;
        let ratio = |a: u64, b: u64| (b > 0).then(|| a as f64 / b as f64);
        match self {
            Metric::Goodput => Some(t.goodput_bps),
            Metric::DataSegments => Some(t.data_segments as f64),
            Metric::Acks => Some(t.acks_on_wire as f64),
            Metric::AcksPerSegment => ratio(t.acks_on_wire, t.data_segments),
            Metric::SegmentsPerAck => t.segments_per_ack(),
            Metric::AckBytes => t.ack_bytes_on_wire.map(|v| v as f64),
            Metric::UplinkShare => t.uplink_share,
            Metric::Retransmits => Some(t.retransmits as f64),
            Metric::RetransmitShare => ratio(t.retransmits, t.data_segments),
            Metric::RttMean => t.rtt_us.and_then(|q| q.mean),
            Metric::RttP50 => t.rtt_us.map(|q| q.p50),
            Metric::RttP99 => t.rtt_us.map(|q| q.p99),
            Metric::CompletionP50 => t.completion.as_ref()?.times_us().map(|q| q.p50),
            Metric::CompletionP99 => t.completion.as_ref()?.times_us().map(|q| q.p99),
            Metric::Completions => t.completion.as_ref().map(|c| c.count as f64),
            Metric::LateShare => {
                // Only chunks count: short flows beside them are never late.
                let flows = run.flows.iter().map(|flow| &flow.traffic);
                let (mut late, mut due) = (0, 0);
                for one in flows.chain(run.flows.is_empty().then_some(t)) {
                    let completion = one.completion.as_ref();
                    if let Some((chunks, n)) = completion.and_then(|it| Some((it, it.late?))) {
                        (late, due) = (late + n, due + chunks.due());
                    }
                }
                ratio(late, due)
            }
            Metric::CpuPerGigabyte => run.cpu_s_per_gigabyte(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Completion, FlowRecord, Traffic};

    #[test]
    fn what_is_late_is_a_share_of_the_chunks() {
        let of = |late, count| Traffic {
            completion: Some(Completion {
                late,
                count,
                ..Completion::default()
            }),
            ..Traffic::default()
        };
        let mut run = Run {
            totals: of(Some(3), 50),
            ..Run::default()
        };
        assert_eq!(Metric::LateShare.of(&run), Some(0.06));
        run.totals = of(Some(3), 67);
        run.flows = [of(None, 17), of(Some(3), 50), Traffic::default()]
            .map(|traffic| FlowRecord {
                traffic,
                ..FlowRecord::default()
            })
            .to_vec();
        assert_eq!(Metric::LateShare.of(&run), Some(0.06));
        run.flows.truncate(1);
        assert_eq!(Metric::LateShare.of(&run), None);
    }

    #[test]
    fn what_never_finished_has_no_time() {
        let mut run = Run::default();
        run.totals.completion = Some(Completion {
            unfinished: 3,
            ..Completion::default()
        });
        for metric in [Metric::CompletionP50, Metric::CompletionP99] {
            assert_eq!(metric.of(&run), None);
        }
        assert_eq!(Metric::Completions.of(&run), Some(0.0));
        assert_eq!(Metric::Completions.of(&Run::default()), None);
    }
}
