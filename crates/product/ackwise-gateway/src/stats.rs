//! The statistics of a gateway.

use std::collections::BTreeMap;

use ackwise_autorate::State;
use ackwise_policy::Reason;
use ackwise_queue::QueueStats;
use serde::{Deserialize, Serialize};

use crate::{Acc, AttachMode};

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The number of packets.
    pub packets: u64,
    /// Their bytes: of frames at the interface, of IP packets in the queue.
    pub bytes: u64,
}

/// Dropped packets, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// The queue had no room.
    pub full: u64,
    /// RED dropped them at random, or CoDel because they had waited.
    pub early: u64,
    /// RED dropped them because its average was above the limit.
    pub forced: u64,
    /// The gateway did not read them in time.
    pub overrun: u64,
    /// The interface, or its own queue, had no room.
    pub no_room: u64,
    /// The interface was down.
    pub down: u64,
    /// The interface refused them, for example because they were too long.
    pub refused: u64,
}

/// Packets that were dropped for one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// The name in metrics.
    pub name: &'static str,
    /// The cause in words.
    pub words: &'static str,
    /// The number of packets.
    pub packets: u64,
}

impl Dropped {
    /// Returns every cause, including those without packets.
    #[must_use]
    pub fn causes(&self) -> [Cause; 7] {
        // Without `..`, so that a new cause is shown wherever the others are.
        let Dropped {
            full,
            early,
            forced,
            overrun,
            no_room,
            down,
            refused,
        } = *self;
        let cause = |name, words, packets| Cause {
            name,
            words,
            packets,
        };
        [
            cause("full", "queue full", full),
            cause("early", "early", early),
            cause("forced", "RED, forced", forced),
            cause("overrun", "not read in time", overrun),
            cause("no-room", "interface had no room", no_room),
            cause("down", "interface down", down),
            cause("refused", "interface refused", refused),
        ]
    }

    /// Returns the number of packets dropped for any cause.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.causes().iter().map(|cause| cause.packets).sum()
    }
}

/// Packets that the hook let pass without asking the gateway, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Neither IP nor tunnelled IP, for example ARP.
    pub other: u64,
    /// IPv6 neighbour discovery.
    pub neighbour: u64,
    /// The gateway's heartbeat was late.
    pub unattended: u64,
}

/// The state of the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    /// Packets that wait now.
    pub packets: u64,
    /// Bytes that wait now, as they count against the rate.
    pub bytes: u64,
    /// The longest queue so far, packets.
    pub max_packets: u64,
    /// The longest queue so far, bytes.
    pub max_bytes: u64,
    /// The longest wait so far, µs.
    pub max_wait_us: u64,
    /// RED's average queue length, in the unit of its thresholds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub red_average: Option<f64>,
}

/// A measured rate at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The rate of the queue, bit/s.
    pub rate_bps: u64,
    /// The rate that the link was last seen to carry, bit/s.
    pub link_bps: Option<u64>,
    /// What sets the rate.
    pub state: State,
}

/// The counters of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stats {
    /// The interface whose outgoing direction the gateway owns.
    pub interface: String,
    /// The id of the gateway's process.
    pub pid: u32,
    /// The rate in bits per second.
    pub rate_bps: u64,
    /// Bytes that are added to the length of each IP packet.
    pub overhead: u32,
    /// `Some` if the rate is measured; `rate_bps` is then its maximum.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub measured: Option<Measured>,
    /// A description of the queue.
    pub discipline: String,
    /// How the hook is attached.
    pub attach: AttachMode,
    /// The device through which packets reach the gateway.
    pub device: String,
    /// Seconds since the start.
    pub uptime_s: f64,
    /// CPU seconds of the thread that moves packets.
    pub cpu_s: f64,
    /// Packets that the hook sent to the gateway; an aggregated packet counts as one.
    pub taken: Amount,
    /// Packets that the gateway read, each segment of an aggregated one counted.
    pub read: u64,
    /// Packets that were handed to the interface.
    pub sent: Amount,
    /// ACKs that the filter removed because of a newer one.
    pub filtered: Amount,
    /// Packets that were marked instead of dropped.
    pub marked: u64,
    /// Dropped packets, by cause.
    pub dropped: Dropped,
    /// Packets that the hook let pass without asking the gateway, by cause.
    pub passed: Passed,
    /// The state of the queue.
    pub waiting: Waiting,
    /// Marks of ACKs that were echoed to the data receivers, if configured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub acc: Option<Acc>,
    /// ACKs that the contract judged for the filter, by reason; reasons without ACKs are omitted.
    pub reasons: BTreeMap<String, u64>,
}

/// The reasons that occurred, by name.
pub(crate) fn reasons(queue: &QueueStats) -> BTreeMap<String, u64> {
    Reason::all()
        .map(|reason| (reason.name().to_owned(), queue.reason(reason)))
        .filter(|(_, count)| *count > 0)
        .collect()
}
