//! Queues before a link, and the middleboxes on it.

use std::time::Duration;

/// The share of ACKs before an untuned uplink (docs/decisions/0028-fq-codel.md).
const UPLINK_ACK_SHARE: f64 = 0.25;

/// The limit of a queue. A packet beyond it is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLimit {
    /// A number of packets.
    Packets(u32),
    /// A number of bytes.
    Bytes(u64),
}

impl QueueLimit {
    /// Returns whether an empty queue has room for a packet of `mtu` bytes.
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
    /// The limit of the queue.
    pub limit: QueueLimit,
    /// Whether the limit includes the packet that is being sent, as in ns-2's drop-tail queue. If
    /// so, one packet less can wait.
    pub counts_sending: bool,
    /// RED. Without it, `fq_codel` and `cake` the queue is drop-tail.
    pub red: Option<Red>,
    /// Flow queueing with CoDel.
    pub fq_codel: Option<FqCodel>,
    /// The Linux kernel's cake, which shapes too.
    pub cake: Option<Cake>,
    /// The filter that removes ACKs that newer ones make redundant.
    pub ack_filter: Option<AckFilter>,
    /// Whether pure ACKs leave first: at most this many in a row while other packets wait.
    pub acks_first: Option<u32>,
}

impl Queue {
    /// Whether each flow waits only behind its own packets.
    pub fn separates_flows(&self) -> bool {
        self.fq_codel.is_some() || self.cake.is_some()
    }

    /// Returns a plain drop-tail queue.
    pub fn drop_tail(limit: QueueLimit) -> Queue {
        Queue {
            limit,
            counts_sending: false,
            red: None,
            fq_codel: None,
            cake: None,
            ack_filter: None,
            acks_first: None,
        }
    }

    /// Returns the best queue before an untuned uplink: flow queueing with CoDel, a quarter of the
    /// bytes for ACKs while data wait, and a filter that removes redundant ACKs.
    pub fn for_uplink() -> Queue {
        Queue {
            fq_codel: Some(FqCodel {
                ack_share: Some(UPLINK_ACK_SHARE),
                ..FqCodel::default()
            }),
            ack_filter: Some(AckFilter::Rfc3449 {
                keep: 0,
                replace: false,
                max_stretch: None,
                newest_sack: true,
            }),
            ..Queue::drop_tail(FqCodel::LIMIT)
        }
    }

    /// Returns whether packets are marked instead of dropped where possible.
    pub fn marks(&self) -> bool {
        let fq_codel = self.fq_codel.as_ref();
        self.red.as_ref().is_some_and(|red| red.ecn)
            || fq_codel.is_some_and(|it| it.ecn.unwrap_or(true))
    }
}

/// Flow queueing with CoDel (RFC 8290), with the names of `tc-fq_codel(8)`. `None` is the default
/// of the engine: that of `tc`, except for the quantum and the target, which follow the rate if the
/// engine knows it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FqCodel {
    /// The maximum number of bytes that wait, in addition to the limit.
    pub memory_limit: Option<u64>,
    /// The number of queues that flows are spread over.
    pub flows: Option<u32>,
    /// The bytes that a flow may send per turn.
    pub quantum: Option<u32>,
    /// The acceptable sojourn time of a standing queue.
    pub target: Option<Duration>,
    /// The assumed round-trip time.
    pub interval: Option<Duration>,
    /// ECN-capable packets that waited for longer than this are marked.
    pub ce_threshold: Option<Duration>,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: Option<bool>,
    /// The share of the bytes that pure ACKs, and SYNs without data, get while others wait. Without
    /// it, they wait in the queues of their flows.
    pub ack_share: Option<f64>,
}

impl FqCodel {
    /// `tc`'s limit of the queue, used if none is given.
    pub const LIMIT: QueueLimit = QueueLimit::Packets(10_240);
}

/// The Linux kernel's cake, with the names of `tc-cake(8)`. `None` is `tc`'s default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cake {
    /// The round-trip time that it assumes for its flows.
    pub rtt: Option<Duration>,
    /// The tin of `diffserv4` for TCP packets as short as an ACK, whatever their DSCP is.
    pub ack_tin: Option<CakeTin>,
}

/// A tin of cake's `diffserv4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CakeTin {
    /// A sixteenth of the rate while other tins want it.
    Bulk,
    /// After voice and before the rest, with up to half of the rate while other tins want it.
    Video,
    /// First, with up to a quarter of the rate while other tins want it.
    Voice,
}

/// Random early detection: a preset, and the parameters that differ from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Red {
    /// The preset for all parameters that are `None`.
    pub preset: RedPreset,
    /// The lower and upper threshold of the average, both in packets or both in bytes.
    pub thresholds: Option<[QueueLimit; 2]>,
    /// The probability at the upper threshold.
    pub max_probability: Option<f64>,
    /// The weight of a new sample in the average.
    pub weight: Option<f64>,
    /// Whether the probability grows gradually above the upper threshold (gentle RED).
    pub gentle: Option<bool>,
    /// Whether drops are spaced apart (the parameter `wait` of ns-2).
    pub wait: Option<bool>,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
    /// The largest probability at which packets are still marked; 1 means always.
    pub mark_limit: Option<f64>,
    /// The mean packet size in bytes.
    pub mean_packet: Option<u32>,
}

/// The presets of RED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RedPreset {
    /// S. Floyd's recommendations of 1997.
    Floyd,
    /// The automatic defaults of ns-2.35, in bytes.
    Ns2,
}

/// A rule by which waiting ACKs are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckFilter {
    /// The filter of RFC 3449 §5.2.1 with the exemptions of the ACK contract.
    Rfc3449 {
        /// The number of redundant ACKs that stay.
        keep: u32,
        /// Whether an ACK takes the place of the oldest ACK that it removes.
        replace: bool,
        /// The maximum number of bytes that an ACK may cover after removals.
        max_stretch: Option<u32>,
        /// Whether a duplicate ACK with new SACK blocks is removed if the next one also reports
        /// them.
        newest_sack: bool,
    },
    /// The filter of ns-2, without exemptions.
    Ns2Append,
    /// The filter of sch_cake.
    Cake {
        /// Whether it is `ack-filter-aggressive`.
        aggressive: bool,
    },
}

/// The packets that a middlebox acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct What {
    /// Only pure ACKs.
    pub pure_acks: bool,
    /// Only packets of these flows, in either direction. An empty list stands for all flows.
    pub flows: Vec<String>,
}

/// The bytes of a packet that a token bucket counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Length {
    /// The packet from its IP header on.
    Ip,
    /// The payload of an Ethernet frame, at least 46 bytes.
    EthernetPayload,
    /// The Ethernet frame with its checksum, at least 64 bytes.
    EthernetFrame,
}

/// A token bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The committed information rate in bits per second.
    pub rate_bps: u64,
    /// The committed burst size in bytes.
    pub burst: u64,
    /// The bytes of a packet that are counted.
    pub length: Length,
}

/// A policer.
#[derive(Debug, Clone, PartialEq)]
pub struct Police {
    /// How it chooses packets to drop.
    pub how: PoliceHow,
    /// The packets that it chooses from.
    pub what: What,
}

/// How a policer chooses packets to drop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PoliceHow {
    /// It drops packets that exceed a token bucket.
    Bucket(Bucket),
    /// It drops each packet with this probability.
    Random(f64),
    /// It drops this share of packets at even intervals.
    Even(f64),
}

/// A shaper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The token bucket that packets wait for.
    pub bucket: Bucket,
    /// The number of packets that may wait.
    pub packets: u32,
    /// The packets that are shaped.
    pub what: What,
}

/// A multiplexer, which bundles packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mux {
    /// The multiplexing period PE: the time from one release to the next. It is not zero.
    pub period: Duration,
    /// The time of the first release. If `None`, each bundle leaves one period after its first
    /// packet.
    pub phase: Option<Duration>,
    /// The number of packets at which a bundle leaves.
    pub max_packets: Option<u32>,
    /// The largest bundle in bytes.
    pub max_size: Option<u32>,
    /// The bytes of a bundle's own header, and the bytes added for each packet in it.
    pub sizes: [u32; 2],
    /// Whether the link carries the bundle's bytes instead of the packets' own.
    pub compress: bool,
    /// The packets that are bundled.
    pub what: What,
    /// Whether a real ACK tunnel over the link does the bundling (`ackwise tunnel`), in engines
    /// with real packets.
    pub by_tunnel: bool,
    /// Whether a tunnel spreads the restored ACKs of a bundle evenly over time.
    pub respace: bool,
}

/// ACK reconstruction (RFC 3449 §5.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconstruct {
    /// The bytes of a full segment.
    pub segment: u32,
    /// The number of segments that an ACK may cover without reconstruction.
    pub threshold: u32,
    /// The number of segments that each reconstructed ACK covers.
    pub step: u32,
    /// Whether ACKs leave at the intervals of real ACKs, as in ns-2, instead of evenly.
    pub ns2_spacing: bool,
    /// The assumed interval between two ACKs until it has been measured.
    pub gap: Duration,
}
