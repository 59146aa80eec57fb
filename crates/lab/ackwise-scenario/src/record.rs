//! The record: the result of a scenario in the same format from every engine.
//!
//! Units are part of the names (`goodput_bps`, `hold_us`); a time series is a pair of arrays. A
//! value that an engine cannot know is `None` and is left out of the JSON. [`Report::to_json`] and
//! [`Report::from_json`] are inverses.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Version of the JSON; raised when a reader of the old one would misread it.
pub const SCHEMA: u32 = 1;

/// All runs of a scenario on one engine.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `live`, `virtual` or `sim`.
    pub engine: String,
    /// Version of ackwise that made the report.
    pub version: String,
    /// The scenario.
    pub scenario: ScenarioInfo,
    /// The machine and kernel.
    pub environment: Testbed,
    /// The runs, in the order of `Scenario::runs`.
    pub runs: Vec<Run>,
    /// Sentences that a reader of these numbers should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The scenario of a report.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ScenarioInfo {
    /// `scenario.name`.
    pub name: String,
    /// `scenario.about`.
    pub about: String,
    /// `scenario.duration`, seconds.
    pub duration_s: f64,
    /// The whole scenario file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// The machine and kernel that ran it, and how exact its links were.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Testbed {
    /// Start of the first run, RFC 3339; absent where time is virtual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// `uname -sr` of the kernel whose TCP ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// `uname -m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Model of the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Number of CPUs available to the runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// The link emulator, e.g. `netem` or `ackwise-queue on TAP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_emulator: Option<String>,
    /// Lateness of the link emulator's deliveries, over all runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_lateness_us: Option<Quantiles>,
    /// How the datapath was attached, e.g. `tcx` or `clsact`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datapath: Option<String>,
}

impl Testbed {
    /// Fills in from another testbed the values that are not known here.
    fn complete(&mut self, other: Testbed) {
        let Testbed {
            started,
            kernel,
            machine,
            cpu,
            cpus,
            link_emulator,
            link_lateness_us,
            datapath,
        } = other;
        self.started = self.started.take().or(started);
        self.kernel = self.kernel.take().or(kernel);
        self.machine = self.machine.take().or(machine);
        self.cpu = self.cpu.take().or(cpu);
        self.cpus = self.cpus.or(cpus);
        self.link_emulator = self.link_emulator.take().or(link_emulator);
        self.link_lateness_us = self.link_lateness_us.or(link_lateness_us);
        self.datapath = self.datapath.take().or(datapath);
    }
}

/// How a run was made, besides its result. A report states once what is the same for several runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RunContext {
    /// The machine and kernel, as far as the run knows them.
    pub environment: Testbed,
    /// Sentences that a reader of its numbers should know.
    pub notes: Vec<String>,
}

/// The result of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    /// `RunSpec::id`.
    pub id: String,
    /// Name of the arm.
    pub arm: String,
    /// Congestion control.
    pub cc: String,
    /// Seed.
    pub seed: u64,
    /// The number of the drawn point, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draw: Option<u32>,
    /// Further varied values (path → value as written in the scenario), and drawn values (names and
    /// paths).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub point: BTreeMap<String, String>,
    /// The flow that the totals describe; null if they are of several, which are in `flows`.
    pub flow: Option<String>,
    /// Totals over all flows.
    #[serde(flatten)]
    pub totals: Traffic,
    /// Each flow by itself; empty if there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<FlowRecord>,
    /// Queues of the links.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueRecord>,
    /// Nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeRecord>,
    /// Lateness of the link emulator's deliveries in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_lateness_us: Option<Quantiles>,
    /// Counters of the datapath, in its own layout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datapath: Option<serde_json::Value>,
    /// Errors of the run. If there are any, the numbers cannot be trusted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}

/// One flow of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowRecord {
    /// Name of the flow in the scenario.
    pub flow: String,
    /// Congestion control of its sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cc: Option<String>,
    /// What was sent and acknowledged.
    #[serde(flatten)]
    pub traffic: Traffic,
}

impl FlowRecord {
    /// Jain's fairness index, (Σx)² / (n·Σx²), of the goodputs (Jain, Chiu and Hawe 1984); `None`
    /// if nothing arrived.
    #[must_use]
    pub fn jain(flows: &[FlowRecord]) -> Option<f64> {
        let rates = flows.iter().map(|flow| flow.traffic.goodput_bps);
        let squares: f64 = rates.clone().map(|x| x * x).sum();
        let sum: f64 = rates.sum();
        (squares > 0.0).then(|| sum * sum / (flows.len() as f64 * squares))
    }
}

/// What was sent and acknowledged by a flow, or by all flows of a run.
///
/// *Data segments* and *ACKs* are packets counted on the wire after the datapath, never a stack's
/// own counters. The wire is the link that the datapath is on or, without one, the link on which
/// data reach the receiver.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Traffic {
    /// Seconds from the first data sent to the last received. For chunks, and for a flow that
    /// should last until the end of the run but has stalled or was not finished, it extends to the
    /// end of the run.
    pub duration_s: f64,
    /// Bytes that the receiving application read.
    pub bytes: u64,
    /// `bytes` · 8 / `duration_s`.
    pub goodput_bps: f64,
    /// Segments with payload that arrived, including retransmissions.
    pub data_segments: u64,
    /// Segments without payload, SYN, FIN or RST, from receiver to sender.
    pub acks_on_wire: u64,
    /// Segments that the sender retransmitted.
    pub retransmits: u64,
    /// Round-trip times measured by the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<Quantiles>,
    /// `acks_on_wire` by kind; the kinds add up to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acks: Option<AckKinds>,
    /// Bytes of the ACKs on the wire: IP packets without the link's header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_bytes_on_wire: Option<u64>,
    /// Share of the rate of the ACKs' narrowest link that the ACKs used, 0…1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uplink_share: Option<f64>,
    /// `data_segments` / `acks_on_wire`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segments_per_ack: Option<f64>,
    /// Number of ACKs by the number of segments that they newly acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stretch: Option<Vec<StretchBin>>,
    /// Jain's index of the flows' goodputs, (Σx)² / (n·Σx²): 1 if all get the same
    /// (in totals of several flows).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jain: Option<f64>,
    /// Retransmission timeouts at the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<u64>,
    /// Completion times of transfers or exchanges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion: Option<Completion>,
    /// Whether the receiver got exactly what the sender sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// Development over time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
}

impl Traffic {
    /// Data segments per ACK, if there were ACKs.
    pub fn segments_per_ack(&self) -> Option<f64> {
        self.segments_per_ack.or_else(|| {
            (self.acks_on_wire > 0).then(|| self.data_segments as f64 / self.acks_on_wire as f64)
        })
    }
}

/// Summary of a distribution; the unit is in the name of the field.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Minimum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Number of samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
}

impl Quantiles {
    /// Summarizes samples in any order; `None` if there are none. Percentiles use the nearest rank,
    /// so each is an actual sample. Samples that are not finite are left out.
    pub fn of(samples: &[f64]) -> Option<Quantiles> {
        let mut sorted: Vec<f64> = samples.iter().copied().filter(|v| v.is_finite()).collect();
        if sorted.is_empty() {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64;
        Some(Quantiles {
            p50: nearest_rank(&sorted, 0.50),
            p99: nearest_rank(&sorted, 0.99),
            min: sorted.first().copied(),
            mean: Some(mean),
            max: sorted.last().copied(),
            count: Some(sorted.len() as u64),
        })
    }
}

/// The nearest-rank quantile `q` (0…1) of samples in ascending order; 0 if there are none.
pub fn nearest_rank(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.clamp(1, sorted.len().max(1)) - 1)
        .copied()
        .unwrap_or(0.0)
}

/// ACKs by kind; each is counted once, under the first that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AckKinds {
    /// Carries SACK blocks.
    pub sack: u64,
    /// Acknowledges more than any ACK before it.
    pub pure: u64,
    /// Same acknowledgment number, different window.
    pub window_update: u64,
    /// Same acknowledgment number, same window.
    pub dup: u64,
    /// Acknowledges less than an earlier one (it was overtaken).
    pub old: u64,
    /// Anything else, e.g. window probes and keep-alives.
    pub other: u64,
}

impl AckKinds {
    /// Total number.
    pub fn total(&self) -> u64 {
        self.sack + self.pure + self.window_update + self.dup + self.old + self.other
    }
}

/// A bar of the stretch histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StretchBin {
    /// Segments that the ACK newly acknowledged (rounded up to whole segments).
    pub segments: u32,
    /// Number of such ACKs.
    pub acks: u64,
}

/// Completion times of transfers or exchanges.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Completion {
    /// Times of all of them.
    pub time_us: Quantiles,
    /// Number completed.
    pub count: u64,
    /// Number begun but not completed.
    #[serde(skip_serializing_if = "is_zero")]
    pub unfinished: u64,
    /// Chunks that arrived after their deadline or, by the end, not at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<u64>,
    /// Times for each size of transfer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_size: Vec<CompletionOfSize>,
}

impl Completion {
    /// Number that were begun and whose time has passed.
    pub fn due(&self) -> u64 {
        self.count + self.unfinished
    }

    /// Completion times; `None` if none was completed, which is not a time of 0.
    pub fn times_us(&self) -> Option<Quantiles> {
        (self.count > 0).then_some(self.time_us)
    }
}

/// Completion times of the transfers of one size.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CompletionOfSize {
    /// Size of the transfer, bytes; for an exchange, the size of the answer.
    pub bytes: u64,
    /// Number completed.
    pub count: u64,
    /// Their completion times.
    pub time_us: Quantiles,
    /// The distribution: times at evenly spaced ranks from the minimum to the maximum, ascending,
    /// at most a few hundred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cdf_us: Vec<f64>,
}

impl CompletionOfSize {
    /// Summarizes all times in any order, µs; keeps at most `points` of the distribution. `None` if
    /// there are no times.
    pub fn of(bytes: u64, times_us: &[f64], points: usize) -> Option<CompletionOfSize> {
        let time_us = Quantiles::of(times_us)?;
        let mut sorted: Vec<f64> = times_us.iter().copied().filter(|t| t.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let cdf_us = if count <= points.max(2) {
            sorted
        } else {
            let last = points.max(2) - 1;
            (0..=last).map(|i| sorted[i * (count - 1) / last]).collect()
        };
        Some(CompletionOfSize {
            bytes,
            count: count as u64,
            time_us,
            cdf_us,
        })
    }
}

/// The result of checking every byte.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Content {
    /// Whether the receiver's hash equals the sender's.
    pub ok: bool,
    /// SHA-256 of the received bytes, hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Number of bytes compared.
    pub bytes: u64,
}

/// Values over time. Every array that is not empty is as long as `t_s`; an unknown value is `null`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Series {
    /// Time since the start of the run, seconds, ascending.
    pub t_s: Vec<f64>,
    /// Goodput in the interval that ends at that time, bit/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub goodput_bps: Vec<Option<f64>>,
    /// ACKs on the wire in that interval, 1/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ack_rate_hz: Vec<Option<f64>>,
    /// Data segments on the wire in that interval, 1/s.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub data_rate_hz: Vec<Option<f64>>,
    /// Smoothed round-trip time at the sender, µs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rtt_us: Vec<Option<f64>>,
    /// Congestion window, segments (in totals, the sum over the flows).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cwnd_segments: Vec<Option<f64>>,
    /// Slow-start threshold, segments; `null` while it is infinite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ssthresh_segments: Vec<Option<f64>>,
    /// Segments in flight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inflight_segments: Vec<Option<f64>>,
    /// Retransmitted segments since the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retransmits: Vec<Option<f64>>,
}

impl Series {
    /// The arrays with their names in a fixed order, including empty ones.
    pub fn columns(&self) -> [(&'static str, &[Option<f64>]); 8] {
        [
            ("goodput_bps", &self.goodput_bps),
            ("ack_rate_hz", &self.ack_rate_hz),
            ("data_rate_hz", &self.data_rate_hz),
            ("rtt_us", &self.rtt_us),
            ("cwnd_segments", &self.cwnd_segments),
            ("ssthresh_segments", &self.ssthresh_segments),
            ("inflight_segments", &self.inflight_segments),
            ("retransmits", &self.retransmits),
        ]
    }
}

/// A queue before a link.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueRecord {
    /// `link.forward` or `link.reverse`.
    pub name: String,
    /// Packets that arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<u64>,
    /// Maximum length, packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_packets: Option<u64>,
    /// Mean length over time, packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_packets: Option<f64>,
    /// Packets dropped because the queue was full.
    pub drops: u64,
    /// Packets marked CE instead of dropped.
    pub marks: u64,
    /// Packets that RED dropped before the queue was full; included in `drops`.
    #[serde(skip_serializing_if = "is_zero")]
    pub early_drops: u64,
    /// ACKs that a filter removed in favour of newer ones; not included in `drops`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filtered: Option<u64>,
    /// Packets that a policer or shaper dropped before the queue; not included in `drops`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policed: Option<u64>,
    /// ACKs reconstructed at the far end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconstructed: Option<u64>,
    /// The multiplexer before the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mux: Option<MuxRecord>,
    /// Packets lost on the link as the scenario asked, not for lack of room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub losses: Option<u64>,
    /// Time since the start, seconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub t_s: Vec<f64>,
    /// Length at that time, packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub length_packets: Vec<f64>,
    /// Packets that had arrived by that time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arrivals_so_far: Vec<u64>,
    /// Value of `drops` at that time; empty if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drops_so_far: Vec<u64>,
    /// Value of `marks` at that time; empty if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marks_so_far: Vec<u64>,
    /// Value of `filtered` at that time; empty if there were none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filtered_so_far: Vec<u64>,
}

/// The statistics of a multiplexer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MuxRecord {
    /// Bundles that left.
    pub bundles: u64,
    /// Packets in them.
    pub packets: u64,
    /// Bytes of the packets without bundling.
    pub native_bytes: u64,
    /// Bytes of the bundles.
    pub bundle_bytes: u64,
    /// Packets that the kernel accepted in batches at the far end of a tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub together: Option<u64>,
    /// Mean waiting time of a packet, µs; unknown for a tunnel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_mean_us: Option<f64>,
    /// Maximum waiting time, µs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_max_us: Option<f64>,
}

/// A node and its costs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeRecord {
    /// Name of the node.
    pub name: String,
    /// CPU time of its processes, user and system, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_process_s: Option<f64>,
    /// CPU time of the network stack outside processes (softirq), seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_stack_s: Option<f64>,
    /// Energy of its radio, joules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
}

fn is_zero(v: &u64) -> bool {
    *v == 0
}

impl Run {
    /// CPU seconds of all nodes per gigabyte (10⁹ bytes) delivered.
    pub fn cpu_s_per_gigabyte(&self) -> Option<f64> {
        let spent: Vec<f64> = self
            .nodes
            .iter()
            .flat_map(|n| [n.cpu_process_s, n.cpu_stack_s])
            .flatten()
            .collect();
        if spent.is_empty() || self.totals.bytes == 0 {
            return None;
        }
        Some(spent.iter().sum::<f64>() / self.totals.bytes as f64 * 1e9)
    }
}

/// Why a report could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The text is not a report.
    #[error("this is not a report of ackwise: {0}")]
    Json(#[from] serde_json::Error),
    /// The report has a version that this program does not know.
    #[error("the report has schema {found}; this program reads {SCHEMA}")]
    Schema {
        /// Its version.
        found: u32,
    },
    /// A table could not be written.
    #[error("the table could not be written: {0}")]
    Csv(#[from] csv::Error),
}

impl Report {
    /// Adds a run, and the parts of its context that no earlier run has stated. A report is the
    /// same whether its runs are added where they were made or are collected from elsewhere.
    pub fn add(&mut self, run: Run, context: RunContext) {
        self.environment.complete(context.environment);
        for note in context.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self.runs.push(run);
    }

    /// The report as indented JSON.
    ///
    /// # Errors
    ///
    /// A number cannot be represented in JSON; no run produces one.
    pub fn to_json(&self) -> Result<String, RecordError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a report from JSON.
    ///
    /// # Errors
    ///
    /// The text is not JSON, or not a record of this version.
    pub fn from_json(text: &str) -> Result<Report, RecordError> {
        let report: Report = serde_json::from_str(text)?;
        if report.schema != SCHEMA {
            return Err(RecordError::Schema {
                found: report.schema,
            });
        }
        Ok(report)
    }
}
