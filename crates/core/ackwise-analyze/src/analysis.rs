//! The findings, as a value that can be printed or written as JSON.

use serde::Serialize;

/// The reason that is given for segments with data.
pub const WITH_DATA: &str = "payload";

/// The maximum number of flows listed; the others appear only in the totals.
pub const FLOWS_LISTED: usize = 50;

/// All findings. Rates are in bit/s, times in seconds, sizes in bytes; the bytes of a segment count
/// from the IP header on.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// All packets, of any kind.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Time from the first packet to the last.
    pub seconds: f64,
    /// TCP connections.
    pub connections: u64,
    /// TCP segments and the pure ACKs among them.
    pub tcp: Tcp,
    /// Packets that were not read as TCP.
    pub unread: Unread,
    /// ACKs and the rate of the link.
    pub line: Line,
    /// Channel time on Wi-Fi, if it was asked for.
    pub airtime: Option<Airtime>,
    /// Where ACKs were thinned before this capture.
    pub thinned_already: ThinnedAlready,
    /// Pure ACKs, by the number of segments that they acknowledge.
    pub stretch: Vec<StretchClass>,
    /// What each policy would have done.
    pub policies: Vec<PolicyFinding>,
    /// Directions of data, those with the most ACKs first; at most [`FLOWS_LISTED`].
    pub flows: Vec<FlowFinding>,
    /// Number of directions of data that are not listed.
    pub flows_left_out: u64,
    /// The advice.
    pub advice: Advice,
}

/// TCP segments and the pure ACKs among them.
#[derive(Debug, Clone, Serialize)]
pub struct Tcp {
    /// TCP segments.
    pub packets: u64,
    /// Pure ACKs among them.
    pub acks: u64,
    /// Bytes of the pure ACKs.
    pub ack_bytes: u64,
    /// Their share of all packets, from 0 to 1.
    pub ack_share_of_packets: f64,
    /// Their share of all bytes; both count link-layer headers.
    pub ack_share_of_bytes: f64,
}

/// Packets that were not read as TCP.
#[derive(Debug, Clone, Serialize)]
pub struct Unread {
    /// Other protocols.
    pub not_tcp: u64,
    /// Fragments.
    pub fragments: u64,
    /// Packets whose captured part is shorter than the headers.
    pub cut: u64,
    /// Packets with contradictory headers.
    pub malformed: u64,
    /// Wi-Fi frames with an encrypted payload.
    pub encrypted: u64,
    /// Frames with an unsupported link type.
    pub unsupported: u64,
    /// Its number in the tcpdump group's list of link types.
    pub unsupported_link_type: Option<u32>,
    /// Packets with an earlier time than the one before them.
    pub time_went_back: u64,
    /// Packets for which the file has no time (simple packet blocks of pcapng).
    pub without_time: u64,
}

impl Analysis {
    /// The link type of the capture, by its number in the tcpdump group's list, if no packet could
    /// be read because that type is unsupported.
    #[must_use]
    pub fn only_unsupported(&self) -> Option<u32> {
        let unread = &self.unread;
        let all = unread.unsupported == self.packets;
        unread.unsupported_link_type.filter(|_| all)
    }
}

/// ACKs and the rate of the link.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The highest rate of pure ACKs over a tenth of a second.
    pub ack_peak_bps: u64,
    /// Its share of the uplink, if the uplink's rate is known.
    pub ack_peak_share_of_uplink: Option<f64>,
    /// The normalised bandwidth ratio k (RFC 3449 §2.1): the ratio of the rates divided by the
    /// ratio of the sizes of data and ACKs. Above 1, one ACK per segment fills the uplink first.
    pub k: Option<f64>,
}

/// Channel time on Wi-Fi, in seconds: if every frame needs its own channel access, and if
/// consecutive frames share one.
#[derive(Debug, Clone, Serialize)]
pub struct Airtime {
    /// Pure ACKs, each with its own access.
    pub acks_alone_s: f64,
    /// Pure ACKs, with shared accesses.
    pub acks_shared_s: f64,
    /// The ACKs' share of the channel time, each frame with its own access.
    pub ack_share_alone: f64,
    /// The ACKs' share of the channel time, with shared accesses.
    pub ack_share_shared: f64,
}

/// Where ACKs were thinned before this capture.
#[derive(Debug, Clone, Serialize)]
pub struct ThinnedAlready {
    /// Data segments per pure ACK; 2 is a delayed ACK (RFC 5681 §4.2).
    pub segments_per_ack: Option<f64>,
    /// Packets of several segments that a host or its interface merged (GRO, LRO) or had not yet
    /// cut (TSO).
    pub aggregated_packets: u64,
    /// Their share of all packets with data.
    pub aggregated_share: f64,
    /// Directions whose ACKs were counted in segments of a guessed size.
    pub guessed_sizes: u64,
    /// Missing IP IDs of ACK senders that count theirs: ACKs lost or withheld between the sender
    /// and the capture. `None` if no sender counts.
    pub missing_by_ip_id: Option<u64>,
    /// Their share of what these senders sent.
    pub missing_share: Option<f64>,
}

/// Pure ACKs, by the number of segments that they acknowledge.
#[derive(Debug, Clone, Serialize)]
pub struct StretchClass {
    /// The smallest number of segments in the class.
    pub from: u32,
    /// The largest number of segments in the class; `None` in the last one.
    pub to: Option<u32>,
    /// Number of ACKs in the class.
    pub acks: u64,
}

/// What a policy would have done.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyFinding {
    /// The policy, with the parameters that differ from its defaults.
    pub policy: String,
    /// Segments of the ACK direction that it judged, as the datapath counts them: those with data
    /// count, too.
    pub acks: u64,
    /// Judged segments without data.
    pub pure_acks: u64,
    /// Judged segments that would have been withheld.
    pub withheld: u64,
    /// Withheld ACKs that were replaced by a newer withheld one.
    pub replaced: u64,
    /// Withheld ACKs that a newer one made unnecessary.
    pub superseded: u64,
    /// Withheld ACKs that would have left at their deadline.
    pub reemitted: u64,
    /// ACKs that would have left twice.
    pub cloned: u64,
    /// ACKs that would not have been sent.
    pub saved: u64,
    /// Their share of the judged segments without data.
    pub saved_share: f64,
    /// Their bytes.
    pub saved_bytes: u64,
    /// Why segments were sent or withheld, most frequent reason first.
    pub reasons: Vec<ReasonCount>,
}

/// The number of segments with one reason.
#[derive(Debug, Clone, Serialize)]
pub struct ReasonCount {
    /// The reason's name, as in the datapath's counters.
    pub reason: &'static str,
    /// What it means.
    pub what: &'static str,
    /// The number of segments.
    pub acks: u64,
}

/// One direction of data.
#[derive(Debug, Clone, Serialize)]
pub struct FlowFinding {
    /// The data's sender.
    pub from: String,
    /// The receiver, which sends the ACKs.
    pub to: String,
    /// Time from the connection's first packet to its last.
    pub seconds: f64,
    /// Data segments on the wire.
    pub data_segments: u64,
    /// Bytes of payload.
    pub data_bytes: u64,
    /// Pure ACKs.
    pub acks: u64,
    /// Bytes of the pure ACKs.
    pub ack_bytes: u64,
    /// Pure ACKs with SACK blocks.
    pub sack_acks: u64,
    /// Pure ACKs that acknowledge no new data.
    pub still_acks: u64,
    /// Payload bytes of a full segment.
    pub segment_size: u32,
    /// Whether that is a guess: the capture has no SYN of the receiver, and its packets may each be
    /// several segments, or it has none with data.
    pub segment_size_guessed: bool,
    /// Pure ACKs by the number of segments that they acknowledge, in the classes of `stretch`.
    pub stretch: Vec<u64>,
    /// The final smoothed round-trip time in µs, if timestamps revealed it.
    pub srtt_us: Option<u32>,
    /// The recent minimum round-trip time in µs.
    pub min_rtt_us: Option<u32>,
    /// ACKs that each policy would have saved, in the order of `policies`.
    pub saved: Vec<u64>,
}

/// Whether thinning the ACKs of a capture pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Pays {
    /// ACKs take a large share of a thin uplink or of the airtime, and a policy would have withheld
    /// many.
    Yes,
    /// Something would be saved, but nothing shows that it is scarce.
    Little,
    /// There is almost nothing to save.
    No,
    /// There are too few ACKs to tell, or the capture lacks the data that they acknowledge.
    #[default]
    Unknown,
}

/// The advice.
#[derive(Debug, Clone, Serialize, Default)]
pub struct Advice {
    /// Whether thinning pays.
    pub pays: Pays,
    /// The command to start with, if any.
    pub command: Option<String>,
    /// Three sentences for the reader.
    pub text: Vec<String>,
}
