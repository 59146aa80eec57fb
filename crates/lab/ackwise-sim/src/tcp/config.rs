//! Configuration of a sender and a receiver, with all defaults resolved.

use ackwise_queue::Nanos;
use ackwise_scenario::tcp_model::{
    AckTimer, Exit, Growth, Halve, HyStart, IdleRestart, Pacing, PartialAck, Recovery,
};
use ackwise_scenario::{AckCongestionControl, AckRateRequest};

use super::rtt::RtoConfig;
use super::stack::StackPolicy;

/// A window without a limit, in bytes: more than any run sends, and sums of it stay in range.
pub(super) const UNLIMITED: u64 = u64::MAX / 8;

/// Configuration of a sender. Windows are bytes, times are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // keys of [flow.model], docs/scenarios.md; others have a comment
pub struct SenderConfig {
    /// The name of the congestion control, one of `congestion_controls()`.
    pub congestion_control: &'static str,
    /// The seed for what is random in a congestion control.
    pub seed: u64,
    /// Payload of a full segment.
    pub mss: u32,
    /// Bytes on the wire beside the payload, from the IP header on.
    pub header: u32,
    pub timestamps: bool,
    pub ecn: bool,
    pub ack_ecn: bool,
    pub handshake: bool,
    /// Whether the last segment carries the FIN. Otherwise the FIN leaves alone once all data are acknowledged.
    pub fin_with_data: bool,
    pub growth: Growth,
    /// The limit in segments.
    pub abc_limit: u32,
    pub initial_window: u64,
    pub initial_ssthresh: u64,
    /// After this many lost SYNs the window starts at one segment.
    pub lost_syns: u32,
    /// After `lost_syns` lost SYNs the threshold starts at two segments.
    pub lost_syn_halves: bool,
    pub window_limit: u64,
    pub validate_window: bool,
    pub idle_restart: IdleRestart,
    pub halve: Halve,
    pub hystart: HyStart,
    pub fast_convergence: bool,
    pub recovery: Recovery,
    pub dupthresh: u32,
    pub idle_duplicates: bool,
    pub limited_transmit: bool,
    pub avoid_repeat: bool,
    pub partial_ack: PartialAck,
    pub recovery_exit: Exit,
    /// Segments that may leave per ACK while duplicates are counted; 0 for any number.
    pub recovery_burst: u32,
    pub prr: bool,
    pub tlp: bool,
    pub undo: bool,
    pub rto: RtoConfig,
    pub pacing: Pacing,
    /// Segments that may leave per event; 0 for any number.
    pub max_burst: u32,
    pub push_bursts: bool,
    pub defer_chunks: bool,
    /// Whether the window field of data carries the cwnd hint.
    pub cwnd_hint: bool,
    /// Whether the last segment that the window allows requests an immediate ACK.
    pub ask_ack: bool,
    /// Whether new data make no request while an earlier one is outstanding; retransmissions always do.
    pub ask_ack_once: bool,
    /// What the sender requests from the receiver by TCP ACK Rate Request.
    pub ack_rate: Option<AckRateRequest>,
    /// ACK congestion control: lost ACKs make the sender ask for fewer (RFC 5690).
    pub ack_congestion_control: Option<AckCongestionControl>,
}

/// Configuration of a receiver. Windows are bytes, times are nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // as above
pub struct ReceiverConfig {
    /// Payload of a full segment.
    pub mss: u32,
    /// Bytes of an ACK without SACK blocks, from the IP header on.
    pub header: u32,
    /// Whether SACK blocks add to `header`.
    pub sack_adds: bool,
    pub sack: bool,
    pub timestamps: bool,
    pub ecn: bool,
    pub ack_ecn: bool,
    /// The maximum window to offer.
    pub window: u64,
    pub tune_window: bool,
    /// Whether the window follows what the application reads; otherwise it is as large as the user set it.
    pub auto_window: bool,
    pub ack_every: u32,
    pub ack_bytes: bool,
    pub ack_delay: Nanos,
    pub ack_timer: AckTimer,
    pub quick_acks: u32,
    pub ack_pushes: bool,
    pub compress_sack: bool,
    pub dsack: bool,
    /// Whether the receiver announces the ACK-rate options to a sender that offers them.
    pub knows_ack_rate: bool,
    /// A policy in place of the delayed ACK: `environment = "stack"`.
    pub policy: Option<StackPolicy>,
}
