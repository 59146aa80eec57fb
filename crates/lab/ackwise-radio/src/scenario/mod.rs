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

/// How packets find their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// RFC 3561.
    Aodv,
    /// The shortest way, known from the start.
    Static,
}

/// The MAC's parameters (IEEE 802.15.4-2006 §7.4.2).
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
    /// Packets that wait at a node.
    pub queue: u32,
    /// The least slot that a back-off draws, 0 or 1.
    pub first_slot: u32,
    /// How long the sender of a frame waits for its acknowledgment (macAckWaitDuration).
    pub ack_wait: Nanos,
    /// Whether a pause follows a frame (SIFS, LIFS).
    pub pauses: bool,
    /// How long the radio is set up before a look at the channel.
    pub look_setup: Nanos,
}

impl MacModel {
    /// INETMANET's of 2011, as its code has it: a header of 6 bits, back-offs of a slot at least,
    /// up to 2^8 of them, six looks, five transmissions, 560 µs until an acknowledgment has come,
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
            ack_wait: timing::ACK_WAIT,
            pauses: true,
            look_setup: 0,
        }
    }
}

/// Radios that are off but for checks of the channel (after Dunkels 2011).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SleepModel {
    /// From one check of a node to its next.
    pub wake_up: Duration,
    /// Who was acknowledged by a neighbour knows when that one checks.
    pub phase_lock: bool,
}

/// Currents of a node, milliamperes.
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

/// The field and its radios. Distances are metres.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioModel {
    /// A frame is received within it.
    pub range_m: f64,
    /// The channel is busy within it.
    pub carrier_sense_m: f64,
    /// A frame spoils others within it.
    pub interference_m: f64,
    /// Ratio from which on the stronger of two frames survives.
    pub capture_db: Option<f64>,
    /// Share of bits that are wrong.
    pub bit_errors: f64,
    /// How packets find their way.
    pub routing: Routing,
    /// AODV takes a frame that nobody acknowledged for a broken link.
    pub link_feedback: bool,
    /// Nodes of a route say every second that they are there (RFC 3561 §6.9).
    pub hellos: bool,
    /// Who finds a broken link looks for the target itself (RFC 3561 §6.12).
    pub local_repair: bool,
    /// The MAC.
    pub mac: MacModel,
    /// Radios sleep; `None`: they are always on.
    pub sleep: Option<SleepModel>,
    /// What the radios take.
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

/// Where nodes stand and who sends to whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Metres.
    pub places: Vec<(f64, f64)>,
    /// In the order of the file.
    pub flows: Vec<RadioFlow>,
    /// Hops along the chain or an arm of the cross, and flows on each way; 0 if the
    /// places are given.
    pub hops: usize,
    /// See `hops`.
    pub parallel: usize,
}

/// What is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioArm {
    /// Its name.
    pub name: String,
    /// Policy of the receivers, as on a command line; `None`: their delayed ACK.
    pub policy: Option<String>,
    /// Where that stands.
    pub policy_span: Span,
    /// Congestion control of its senders.
    pub cc: String,
    /// Where that stands.
    pub cc_span: Span,
    /// What its TCP does.
    pub model: TcpModel,
    /// The radios that it has: those of `[radio]`, but for what it changes.
    pub radio: RadioModel,
}

/// A scenario of radio.
#[derive(Debug, Clone)]
pub struct RadioScenario {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// Runs end then at the latest.
    pub duration: Duration,
    /// Bytes of each flow.
    pub bytes: u64,
    /// Flows begin spread over so much time.
    pub stagger: Duration,
    /// Seeds, from 1.
    pub seeds: u32,
    /// Radios, where an arm changes nothing.
    pub radio: RadioModel,
    /// The fields to run on.
    pub fields: Vec<Field>,
    /// What is compared.
    pub arms: Vec<RadioArm>,
    /// The file.
    pub source: Source,
}
