//! What waits before a link, and the boxes on its way.

use std::time::Duration;

/// How much a queue holds before it drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// This many packets.
    Packets(u32),
    /// This many bytes.
    Bytes(u64),
}

impl QueueLimit {
    /// Whether the queue has room for a packet of `mtu` bytes.
    #[must_use]
    pub fn holds_a_packet(self, mtu: u32) -> bool {
        match self {
            QueueLimit::Packets(packets) => packets > 0,
            QueueLimit::Bytes(bytes) => bytes >= u64::from(mtu),
        }
    }
}

/// The queue before a link.
#[derive(Debug, Clone, PartialEq)]
pub struct Queue {
    /// How much it holds.
    pub limit: QueueLimit,
    /// Whether the limit counts the packet that is being sent, as ns-2's drop-tail
    /// queue does: it then holds one packet less that waits.
    pub counts_sending: bool,
    /// RED; without it and `aqm`, drop-tail.
    pub red: Option<Red>,
    /// A discipline that only the Linux kernel has.
    pub aqm: Option<Aqm>,
    /// Removes ACKs that newer ones make redundant.
    pub ack_filter: Option<AckFilter>,
    /// Pure ACKs leave first, so many in a row at most while others wait.
    pub acks_first: Option<u32>,
}

impl Queue {
    /// A drop-tail queue and nothing more.
    pub fn drop_tail(limit: QueueLimit) -> Queue {
        Queue {
            limit,
            counts_sending: false,
            red: None,
            aqm: None,
            ack_filter: None,
            acks_first: None,
        }
    }
}

/// A discipline of the Linux kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aqm {
    /// `fq_codel`.
    FqCodel,
    /// `cake`, which shapes too.
    Cake,
}

/// Random early detection: a preset, and what differs from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Red {
    /// Where the rest comes from.
    pub preset: RedPreset,
    /// The thresholds of the average, both in packets or both in bytes; the
    /// preset's if `None`.
    pub thresholds: Option<[QueueLimit; 2]>,
    /// Probability at the upper threshold.
    pub max_probability: Option<f64>,
    /// Weight of a new sample in the average.
    pub weight: Option<f64>,
    /// Whether the probability grows on above the upper threshold.
    pub gentle: Option<bool>,
    /// Whether drops are kept apart.
    pub wait: Option<bool>,
    /// Whether packets are marked instead of dropped where that is possible.
    pub ecn: bool,
    /// Greatest probability at which packets are still marked; 1 for always.
    pub mark_limit: Option<f64>,
    /// A typical packet, bytes.
    pub mean_packet: Option<u32>,
}

/// Settings of RED by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RedPreset {
    /// S. Floyd's recommendations of 1997.
    Floyd,
    /// The automatic defaults of ns-2.35, in bytes.
    Ns2,
}

/// A rule by which ACKs that wait are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckFilter {
    /// RFC 3449 §5.2.1 with the exemptions of the ACK contract.
    Rfc3449 {
        /// Redundant ACKs that stay.
        keep: u32,
        /// Whether an ACK takes the place of the oldest that it removes.
        replace: bool,
        /// Most bytes that an ACK comes to cover.
        max_stretch: Option<u32>,
        /// Of duplicates whose SACK blocks are news, one goes when the next reports them too.
        newest_sack: bool,
    },
    /// ns-2's, without exemptions.
    Ns2Append,
    /// sch_cake's.
    Cake {
        /// `ack-filter-aggressive`.
        aggressive: bool,
    },
}

/// Which packets a box works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct What {
    /// Only those that do nothing but acknowledge.
    pub pure_acks: bool,
    /// Only those of these flows, in whichever direction; all if empty.
    pub flows: Vec<String>,
}

/// Which bytes of a packet a token bucket charges for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Length {
    /// From the IP header on.
    Ip,
    /// What an Ethernet frame carries: 46 bytes at least.
    EthernetPayload,
    /// With Ethernet's header and checksum: 64 bytes at least.
    EthernetFrame,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Committed information rate, bits per second.
    pub rate_bps: u64,
    /// Committed burst size, bytes.
    pub burst: u64,
    /// What it charges for.
    pub length: Length,
}

/// A policer.
#[derive(Debug, Clone, PartialEq)]
pub struct Police {
    /// How it chooses.
    pub how: PoliceHow,
    /// Among what.
    pub what: What,
}

/// How a policer chooses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PoliceHow {
    /// What exceeds a token bucket.
    Bucket(Bucket),
    /// Each packet with this probability.
    Random(f64),
    /// This share, evenly.
    Even(f64),
}

/// A shaper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// What passes.
    pub bucket: Bucket,
    /// Packets that may wait.
    pub packets: u32,
    /// What is shaped.
    pub what: What,
}

/// A multiplexer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mux {
    /// PE: from one release to the next. More than zero.
    pub period: Duration,
    /// The first release; `None`: a period after the first packet of each bundle.
    pub phase: Option<Duration>,
    /// A bundle leaves when it has so many packets.
    pub max_packets: Option<u32>,
    /// A bundle leaves before it is larger than this, bytes.
    pub max_size: Option<u32>,
    /// Bytes of a bundle itself, and for each packet in it.
    pub sizes: [u32; 2],
    /// Whether the link carries the bundle's bytes instead of the packets' own.
    pub compress: bool,
    /// What waits.
    pub what: What,
    /// Where packets are real, an ACK tunnel over the link does it, `ackwise tunnel`.
    pub by_tunnel: bool,
    /// Whether a tunnel puts ACKs out evenly, not all of a bundle at once.
    pub respace: bool,
}

/// A reconstructor of ACKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconstruct {
    /// Bytes of a full segment.
    pub segment: u32,
    /// Segments that an ACK may cover before it is preceded by others.
    pub threshold: u32,
    /// Segments from one of them to the next.
    pub step: u32,
    /// Whether they leave as far apart as real ACKs do (ns-2), not evenly.
    pub ns2_spacing: bool,
    /// The time between two ACKs until it is measured.
    pub gap: Duration,
}
