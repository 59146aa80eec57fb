//! A scenario of low-power radio: `[radio]`, `[energy]`, flows and arms.

mod field;
mod read;
mod record;
mod runs;

use std::time::Duration;

use crate::timing;
use ackwise_config::{Source, Span};
use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::TcpModel;

pub use record::{RadioFlowRecord, RadioReport, RadioRun};
pub use runs::RadioSpec;

/// The routing of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// AODV (RFC 3561).
    Aodv,
    /// The shortest path, known from the start.
    Static,
}

/// Parameters of the MAC (IEEE 802.15.4-2006 §7.4.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacModel {
    /// macMinBE.
    pub min_be: u32,
    /// macMaxBE.
    pub max_be: u32,
    /// macMaxCSMABackoffs.
    pub max_backoffs: u32,
    /// macMaxFrameRetries.
    pub max_retries: u32,
    /// Bytes of MAC header and checksum: short addresses within one PAN take 11.
    pub header: u32,
    /// Maximum number of packets that wait at a node.
    pub queue: u32,
    /// The lowest slot that a back-off draws, 0 or 1.
    pub first_slot: u32,
    /// How long the sender of a frame waits for its acknowledgment (macAckWaitDuration).
    pub ack_wait: Nanos,
    /// Whether a pause follows a frame (SIFS, LIFS).
    pub pauses: bool,
    /// How long the radio is set up before a CCA.
    pub look_setup: Nanos,
}

impl MacModel {
    /// The MAC of INETMANET 2011, as in its code: a header of 6 bits, back-offs of at least a slot
    /// and up to 2^8 slots, six CCAs, five transmissions, 560 µs for an acknowledgment to arrive,
    /// and no pauses.
    pub fn inetmanet_2011() -> MacModel {
        MacModel {
            max_be: 8,
            max_backoffs: 5,
            max_retries: 4,
            header: 1,
            queue: 100,
            first_slot: 1,
            ack_wait: 560_000,
            pauses: false,
            ..MacModel::default()
        }
    }
}

impl Default for MacModel {
    fn default() -> MacModel {
        MacModel {
            min_be: 3,
            max_be: 5,
            max_backoffs: 4,
            max_retries: 3,
            header: 11,
            queue: 50,
            first_slot: 0,
            ack_wait: timing::ACK_WAIT_DURATION,
            pauses: true,
            look_setup: 0,
        }
    }
}

/// Radios that are off except for channel checks (after Dunkels 2011).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SleepModel {
    /// Time from one check of a node to its next.
    pub wake_up: Duration,
    /// Whether a node learns when a neighbour wakes from its acknowledgment.
    pub phase_lock: bool,
}

/// Voltage of a node, and its currents in milliamperes.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // keys of [energy], docs/radio.md
pub struct EnergyModel {
    pub voltage: f64,
    pub tx_ma: f64,
    pub rx_ma: f64,
    pub idle_ma: f64,
    pub sleep_ma: f64,
}

impl Default for EnergyModel {
    fn default() -> EnergyModel {
        EnergyModel {
            voltage: 3.0,
            tx_ma: 17.0,
            rx_ma: 19.6,
            idle_ma: 1.38,
            sleep_ma: 0.06,
        }
    }
}

/// The medium and the radios. Distances are metres.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioModel {
    /// Transmission range: a frame is received within it.
    pub range_m: f64,
    /// Carrier-sense range: the channel is busy within it.
    pub carrier_sense_m: f64,
    /// Interference range: a frame spoils others within it.
    pub interference_m: f64,
    /// Power ratio from which the stronger of two frames survives.
    pub capture_db: Option<f64>,
    /// Share of bits with errors.
    pub bit_errors: f64,
    /// The routing of packets.
    pub routing: Routing,
    /// Whether AODV takes a frame without acknowledgment as a broken link.
    pub link_feedback: bool,
    /// Whether nodes on a route send hellos every second (RFC 3561 §6.9).
    pub hellos: bool,
    /// Whether a node that finds a broken link searches for the target itself (RFC 3561 §6.12).
    pub local_repair: bool,
    /// The MAC.
    pub mac: MacModel,
    /// Sleep of the radios; `None` if they are always on.
    pub sleep: Option<SleepModel>,
    /// Voltage and currents of the radios.
    pub energy: EnergyModel,
}

impl Default for RadioModel {
    fn default() -> RadioModel {
        RadioModel {
            range_m: 50.0,
            carrier_sense_m: 100.0,
            interference_m: 100.0,
            capture_db: None,
            bit_errors: 0.0,
            routing: Routing::Aodv,
            link_feedback: true,
            hellos: false,
            local_repair: false,
            mac: MacModel::default(),
            sleep: None,
            energy: EnergyModel::default(),
        }
    }
}

/// A flow, by the numbers of its nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct RadioFlow {
    pub from: usize,
    pub to: usize,
}

/// Places of the nodes, and the flows between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Places in metres, by node.
    pub places: Vec<(f64, f64)>,
    /// Flows in the order of the file.
    pub flows: Vec<RadioFlow>,
    /// Hops along the chain, a bar of the cross or a side of the grid; 0 if the places are
    /// given.
    pub hops: usize,
    /// Number of flows on each path; 0 if the places are given.
    pub parallel: usize,
}

/// One of the alternatives that are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioArm {
    /// Name of the arm.
    pub name: String,
    /// Policy of the receivers, as on a command line; `None` for their delayed ACK.
    pub policy: Option<String>,
    /// Where the policy is in the file.
    pub policy_span: Span,
    /// Congestion control of its senders.
    pub cc: String,
    /// Where the congestion control is in the file.
    pub cc_span: Span,
    /// The model of its TCP.
    pub model: TcpModel,
    /// Its radios: those of `[radio]`, with the arm's changes.
    pub radio: RadioModel,
}

/// A radio scenario.
#[derive(Debug, Clone)]
pub struct RadioScenario {
    /// Name of the scenario.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// The maximum duration of a run.
    pub duration: Duration,
    /// Bytes of each flow.
    pub bytes: u64,
    /// Flows begin at random within this time.
    pub stagger: Duration,
    /// Number of seeds, which count from 1.
    pub seeds: u32,
    /// The radios, before the changes of an arm.
    pub radio: RadioModel,
    /// The fields to run on.
    pub fields: Vec<Field>,
    /// The arms to compare.
    pub arms: Vec<RadioArm>,
    /// The scenario file.
    pub source: Source,
}
