//! The record of radio runs.
//!
//! Names include units. Counts are taken at the nodes: frames and their retries by the MAC,
//! segments and ACKs by the ends of the flows.

use serde::{Deserialize, Serialize};

use ackwise_scenario::record::{RecordError, SCHEMA, ScenarioInfo};

/// All runs of a radio scenario.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RadioReport {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `sim`.
    pub engine: String,
    /// `radio`: distinguishes this record from that of links.
    pub world: String,
    /// Version of ackwise that made the record.
    pub version: String,
    /// The scenario that was run.
    pub scenario: ScenarioInfo,
    /// The runs, in the order of [`RadioScenario::runs`](super::RadioScenario::runs).
    pub runs: Vec<RadioRun>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RadioRun {
    /// Id of the run, as in [`RadioSpec`](super::RadioSpec).
    pub id: String,
    /// Name of the arm.
    pub arm: String,
    /// Seed.
    pub seed: u64,
    /// Hops of the chain, a bar of the cross or a side of the grid; absent if positions
    /// are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hops: Option<u64>,
    /// Delivered bits per second, summed over the flows, each over its own time.
    pub throughput_bps: f64,
    /// Joules used by all nodes until the last flow has ended.
    pub energy_j: f64,
    /// `throughput_bps` / `energy_j`.
    pub efficiency_bps_per_j: f64,
    /// When the last flow, or the run, ended, in seconds.
    pub end_s: f64,
    /// Flows that had not ended when the run did.
    pub unfinished: u64,
    /// Data segments sent, including retransmissions.
    pub data_segments: u64,
    /// Data segments retransmitted.
    pub retransmits: u64,
    /// ACKs that the receivers sent.
    pub acks: u64,
    /// Retransmission timeouts of the senders.
    pub timeouts: u64,
    /// Frames sent, without acknowledgments of the MAC.
    pub frames: u64,
    /// Frames retransmitted because nobody acknowledged them.
    pub mac_retries: u64,
    /// Frames given up because nobody acknowledged them.
    pub lost_no_ack: u64,
    /// Frames given up because the channel was never clear.
    pub lost_no_channel: u64,
    /// Receptions spoiled by another frame.
    pub collisions: u64,
    /// Packets for which a queue had no room.
    pub overflows: u64,
    /// Packets that had no route or no hop left.
    pub unrouted: u64,
    /// Packets of the routing protocol sent.
    pub routing_packets: u64,
    /// Share of time that a node's radio was off, averaged over nodes; absent if none sleeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asleep: Option<f64>,
    /// Joules used by each node.
    pub node_energy_j: Vec<f64>,
    /// The flows, in the order of the scenario.
    pub flows: Vec<RadioFlowRecord>,
}

/// One flow of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RadioFlowRecord {
    /// Number of the node that sends.
    pub from: u64,
    /// Number of the node that receives.
    pub to: u64,
    /// Bytes delivered in order.
    pub bytes: u64,
    /// Seconds from the start to the last ACK; absent if the flow had not ended when the run did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub took_s: Option<f64>,
    /// Data segments sent, including retransmissions.
    pub data_segments: u64,
    /// Data segments retransmitted.
    pub retransmits: u64,
    /// ACKs that the receiver sent.
    pub acks: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

impl RadioRun {
    /// ACKs per data segment sent; 0 without segments.
    pub fn acks_per_segment(&self) -> f64 {
        self.acks as f64 / self.data_segments.max(1) as f64
    }

    /// Number of flows in the run.
    pub fn flow_count(&self) -> usize {
        self.flows.len()
    }
}

/// The value of `world` in such a record.
const RADIO: &str = "radio";

/// Reads the value of `world` in a record.
fn world(text: &str) -> Result<Option<String>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Which {
        world: Option<String>,
    }
    let which: Which = serde_json::from_str(text)?;
    Ok(which.world)
}

const COLUMNS: [&str; 23] = [
    "scenario",
    "arm",
    "seed",
    "hops",
    "flows",
    "throughput_bps",
    "energy_j",
    "efficiency_bps_per_j",
    "end_s",
    "unfinished",
    "data_segments",
    "retransmits",
    "acks",
    "acks_per_segment",
    "timeouts",
    "frames",
    "mac_retries",
    "lost_no_ack",
    "lost_no_channel",
    "collisions",
    "overflows",
    "unrouted",
    "routing_packets",
];

impl RadioReport {
    /// The record as indented JSON; it ends with a line feed.
    ///
    /// # Errors
    /// A number that JSON cannot represent.
    pub fn to_json(&self) -> Result<String, RecordError> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Whether a text is a radio record, of any version.
    pub fn is_meant(text: &str) -> bool {
        world(text).is_ok_and(|world| world.as_deref() == Some(RADIO))
    }

    /// Reads a record from JSON; `None` if it is the record of another world.
    ///
    /// # Errors
    /// The text is a radio record, but not one that this version reads.
    pub fn from_json(text: &str) -> Result<Option<RadioReport>, RecordError> {
        if world(text)?.as_deref() != Some(RADIO) {
            return Ok(None);
        }
        let report: RadioReport = serde_json::from_str(text)?;
        if report.schema != SCHEMA {
            return Err(RecordError::Schema {
                found: report.schema,
            });
        }
        Ok(Some(report))
    }

    /// The runs as CSV with a header.
    ///
    /// # Errors
    /// No known ones; those of the writer.
    pub fn runs_csv(&self) -> Result<String, RecordError> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(COLUMNS)?;
        for run in &self.runs {
            let counts = [
                run.timeouts,
                run.frames,
                run.mac_retries,
                run.lost_no_ack,
                run.lost_no_channel,
                run.collisions,
                run.overflows,
                run.unrouted,
                run.routing_packets,
            ];
            let first = [
                self.scenario.name.clone(),
                run.arm.clone(),
                run.seed.to_string(),
                run.hops.map_or(String::new(), |hops| hops.to_string()),
                run.flow_count().to_string(),
                run.throughput_bps.to_string(),
                run.energy_j.to_string(),
                run.efficiency_bps_per_j.to_string(),
                run.end_s.to_string(),
                run.unfinished.to_string(),
                run.data_segments.to_string(),
                run.retransmits.to_string(),
                run.acks.to_string(),
                run.acks_per_segment().to_string(),
            ];
            writer.write_record(first.into_iter().chain(counts.map(|n| n.to_string())))?;
        }
        let bytes = writer
            .into_inner()
            .map_err(|error| csv::Error::from(std::io::Error::other(error.to_string())))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
