//! What a gateway did.

use std::collections::BTreeMap;

use ackwise_policy::Reason;
use ackwise_queue::QueueStats;
use serde::{Deserialize, Serialize};

use crate::{Acc, AttachMode};

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// How many.
    pub packets: u64,
    /// Their bytes; with link headers where they are frames, IP packets in the queue.
    pub bytes: u64,
}

/// Packets that went no further, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The queue had no room.
    pub full: u64,
    /// RED, by chance.
    pub early: u64,
    /// RED, because its average was too long.
    pub forced: u64,
    /// The gateway did not read them in time.
    pub overrun: u64,
    /// The interface, or its own queue, had no room.
    pub no_room: u64,
    /// The interface was down.
    pub down: u64,
    /// The interface refused them, for instance as too long.
    pub refused: u64,
}

/// Packets that the hook let pass without asking the gateway, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Neither IP nor a tunnel of it: ARP, for one.
    pub other: u64,
    /// IPv6 neighbour discovery.
    pub neighbour: u64,
    /// The gateway gave no sign of life.
    pub unattended: u64,
}

/// What waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Packets, now.
    pub packets: u64,
    /// Bytes that count against the rate, now.
    pub bytes: u64,
    /// The longest queue so far, packets.
    pub max_packets: u64,
    /// The longest queue so far, bytes.
    pub max_bytes: u64,
    /// The longest wait so far, µs.
    pub max_wait_us: u64,
    /// RED's average, in its unit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub red_average: Option<f64>,
}

/// A rate that is measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The rate now, bits a second.
    pub rate_bps: u64,
    /// Whether the link has shown its own yet.
    pub known: bool,
}

/// The counters of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The interface whose outgoing direction it owns.
    pub interface: String,
    /// Its process.
    pub pid: u32,
    /// Bits a second.
    pub rate_bps: u64,
    /// Bytes that count with each IP packet.
    pub overhead: u32,
    /// What was measured, if that is how the rate is chosen; `rate_bps` is then the most.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measured: Option<Measured>,
    /// The queue in words.
    pub discipline: String,
    /// How the hook is attached.
    pub attach: AttachMode,
    /// The device by which packets come.
    pub device: String,
    /// Seconds since it began.
    pub uptime_s: f64,
    /// CPU seconds of the thread that moves packets.
    pub cpu_s: f64,
    /// Sent to the gateway by the hook; an aggregated packet is one.
    pub taken: Amount,
    /// Read, each as it would be on the wire.
    pub read: u64,
    /// Handed to the interface.
    pub sent: Amount,
    /// ACKs that a newer one took out.
    pub filtered: Amount,
    /// Marked instead of dropped.
    pub marked: u64,
    /// By cause.
    pub dropped: Dropped,
    /// By cause.
    pub passed: Passed,
    /// What waits.
    pub waiting: Waiting,
    /// Marks on ACKs told to the data receivers, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub acc: Option<Acc>,
    /// ACKs that a filter under the contract saw, by reason; those that are 0 left out.
    pub reasons: BTreeMap<String, u64>,
}

/// The reasons that occurred, by name.
pub(crate) fn reasons(queue: &QueueStats) -> BTreeMap<String, u64> {
    Reason::all()
        .map(|reason| (reason.name().to_owned(), queue.reason(reason)))
        .filter(|(_, count)| *count > 0)
        .collect()
}
