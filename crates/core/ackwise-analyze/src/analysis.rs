//! What was found, as a value that can be printed or written as JSON.

use serde::Serialize;

/// The reason for which segments with data leave.
pub const WITH_DATA: &str = "payload";

/// The flows that are listed; the others are in the sums only.
pub const FLOWS_LISTED: usize = 50;

/// Everything that was found. Rates are in bit/s, times in seconds, sizes in bytes; bytes of
/// segments count from the IP header on.
#[derive(Debug, Clone, Serialize)]
pub struct Analysis {
    /// All packets, of whatever kind.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// From the first packet to the last.
    pub seconds: f64,
    /// TCP connections.
    pub connections: u64,
    /// TCP, and the pure ACKs in it.
    pub tcp: Tcp,
    /// What was not read as TCP.
    pub unread: Unread,
    /// ACKs and the rate of the line.
    pub line: Line,
    /// Channel time on Wi-Fi, if it was asked for.
    pub airtime: Option<Airtime>,
    /// Where ACKs were thinned before this capture.
    pub thinned_already: ThinnedAlready,
    /// Pure ACKs by the segments that they acknowledge.
    pub stretch: Vec<StretchClass>,
    /// What each policy would have done.
    pub policies: Vec<PolicyFinding>,
    /// Directions of data, those with most ACKs first; [`FLOWS_LISTED`] at most.
    pub flows: Vec<FlowFinding>,
    /// Directions of data that are not listed.
    pub flows_left_out: u64,
    /// What to do.
    pub advice: Advice,
}

/// TCP, and the pure ACKs in it.
#[derive(Debug, Clone, Serialize)]
pub struct Tcp {
    /// TCP segments.
    pub packets: u64,
    /// Pure ACKs among them.
    pub acks: u64,
    /// Bytes of these.
    pub ack_bytes: u64,
    /// Their share of all packets.
    pub ack_share_of_packets: f64,
    /// Their share of all bytes, both with the headers of the link.
    pub ack_share_of_bytes: f64,
}

/// What was not read as TCP, in packets.
#[derive(Debug, Clone, Serialize)]
pub struct Unread {
    /// Other protocols.
    pub not_tcp: u64,
    /// Fragments.
    pub fragments: u64,
    /// Packets of which the capture kept less than the headers.
    pub cut: u64,
    /// Packets whose headers contradict themselves.
    pub malformed: u64,
    /// Wi-Fi frames with an encrypted payload.
    pub encrypted: u64,
    /// Frames of a link type that is not read.
    pub unsupported: u64,
    /// The number of that link type in the tcpdump group's list.
    pub unsupported_link_type: Option<u32>,
    /// Packets with an earlier time than the one before.
    pub time_went_back: u64,
    /// Packets whose time the file does not say (simple packet blocks of pcapng).
    pub without_time: u64,
}

impl Analysis {
    /// The link type of the capture, by its number in the tcpdump group's list, if it is one that
    /// is not read and no packet was read for that.
    #[must_use]
    pub fn only_unsupported(&self) -> Option<u32> {
        let unread = &self.unread;
        let all = unread.unsupported == self.packets;
        unread.unsupported_link_type.filter(|_| all)
    }
}

/// ACKs and the rate of the line.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The highest rate of pure ACKs over a tenth of a second.
    pub ack_peak_bps: u64,
    /// Its share of the uplink, if the uplink's rate was told.
    pub ack_peak_share_of_uplink: Option<f64>,
    /// The normalised bandwidth ratio k (RFC 3449 §2.1): the ratio of the rates by that of the
    /// sizes of data and ACKs. Above 1 an ACK for each segment fills the uplink first.
    pub k: Option<f64>,
}

/// Channel time on Wi-Fi, in seconds: if every frame has an access of its own, and if frames
/// that follow each other share one.
#[derive(Debug, Clone, Serialize)]
pub struct Airtime {
    /// Pure ACKs, each alone.
    pub acks_alone_s: f64,
    /// Pure ACKs, put together.
    pub acks_shared_s: f64,
    /// The ACKs' share of all, each frame alone.
    pub ack_share_alone: f64,
    /// The ACKs' share of all, put together.
    pub ack_share_shared: f64,
}

/// Where ACKs were thinned before this capture.
#[derive(Debug, Clone, Serialize)]
pub struct ThinnedAlready {
    /// Data segments for each pure ACK; 2 is a delayed ACK (RFC 5681 §4.2).
    pub segments_per_ack: Option<f64>,
    /// Packets of several segments that a host or its interface put together (GRO, LRO, TSO).
    pub aggregated_packets: u64,
    /// Their share of all packets with data.
    pub aggregated_share: f64,
    /// Directions whose ACKs were counted in segments of a size that is a guess.
    pub guessed_sizes: u64,
    /// IDs that are missing of ACK senders that count their IP IDs: ACKs that were lost or withheld
    /// between the sender and the capture. `None` where no sender counts.
    pub missing_by_ip_id: Option<u64>,
    /// Their share of what these senders have sent.
    pub missing_share: Option<f64>,
}

/// Pure ACKs by the segments that they acknowledge.
#[derive(Debug, Clone, Serialize)]
pub struct StretchClass {
    /// At least so many segments.
    pub from: u32,
    /// At most so many; nothing in the last class.
    pub to: Option<u32>,
    /// ACKs of this class.
    pub acks: u64,
}

/// What a policy would have done.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyFinding {
    /// The policy with the parameters that differ from its defaults.
    pub policy: String,
    /// Segments of the ACK direction that it judged, as the datapath counts them: with data, too.
    pub acks: u64,
    /// Judged segments without data.
    pub pure_acks: u64,
    /// Judged segments that would have been withheld.
    pub withheld: u64,
    /// Withheld ACKs whose place a newer withheld one took.
    pub replaced: u64,
    /// Withheld ACKs that a newer one has made needless.
    pub superseded: u64,
    /// Withheld ACKs that would have left at their deadline.
    pub reemitted: u64,
    /// ACKs that would have left twice.
    pub cloned: u64,
    /// ACKs that would not have been sent.
    pub saved: u64,
    /// Their share of those without data.
    pub saved_share: f64,
    /// Their bytes.
    pub saved_bytes: u64,
    /// Why segments left, or were withheld; most first.
    pub reasons: Vec<ReasonCount>,
}

/// Segments with that reason.
#[derive(Debug, Clone, Serialize)]
pub struct ReasonCount {
    /// Its name, as in the datapath's counters.
    pub reason: &'static str,
    /// What it means.
    pub what: &'static str,
    /// How many.
    pub acks: u64,
}

/// One direction of data.
#[derive(Debug, Clone, Serialize)]
pub struct FlowFinding {
    /// Who sends the data.
    pub from: String,
    /// Who receives them and sends the ACKs.
    pub to: String,
    /// From the connection's first packet to its last.
    pub seconds: f64,
    /// Data segments as they were on the wire.
    pub data_segments: u64,
    /// Bytes of payload.
    pub data_bytes: u64,
    /// Pure ACKs.
    pub acks: u64,
    /// Bytes of them.
    pub ack_bytes: u64,
    /// Pure ACKs with SACK blocks.
    pub sack_acks: u64,
    /// Pure ACKs that acknowledge nothing new.
    pub still_acks: u64,
    /// Bytes of a full segment.
    pub segment_size: u32,
    /// Whether that is a guess: the capture has no SYN of the receiver, and packets that may be
    /// several segments, or none.
    pub segment_size_guessed: bool,
    /// Pure ACKs by the segments that they acknowledge, in the classes of `stretch`.
    pub stretch: Vec<u64>,
    /// The smoothed round-trip time at the end, us, if time stamps told it.
    pub srtt_us: Option<u32>,
    /// The least round-trip time of late, us.
    pub min_rtt_us: Option<u32>,
    /// ACKs that each policy would have saved, in the order of `policies`.
    pub saved: Vec<u64>,
}

/// Whether thinning the ACKs of a capture pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Pays {
    /// ACKs take much of a thin uplink or of the airtime, and a policy would have withheld many.
    Yes,
    /// Something would be saved, and nothing says that it is scarce.
    Little,
    /// There is next to nothing to save.
    No,
    /// There are too few ACKs to tell, or none of the data that they acknowledge.
    #[default]
    Unknown,
}

/// The advice.
#[derive(Debug, Clone, Serialize, Default)]
pub struct Advice {
    /// Whether it pays.
    pub pays: Pays,
    /// The command to begin with, if any.
    pub command: Option<String>,
    /// Three sentences for people.
    pub text: Vec<String>,
}
