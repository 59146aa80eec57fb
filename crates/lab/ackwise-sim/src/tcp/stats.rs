//! Counters of the two ends.

use ackwise_queue::Nanos;

/// Counters of a sender. Bytes are payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderStats {
    /// Data segments sent, including retransmissions.
    pub data_segments: u64,
    /// Payload sent, including retransmissions.
    pub data_bytes: u64,
    /// Segments retransmitted.
    pub retransmits: u64,
    /// Payload retransmitted.
    pub retransmitted_bytes: u64,
    /// ACKs received and accepted.
    pub acks: u64,
    /// Duplicate ACKs received.
    pub dup_acks: u64,
    /// Payload acknowledged cumulatively.
    pub acked_bytes: u64,
    /// Fast recoveries: how many times recovery began by duplicates or SACK.
    pub fast_recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes (RFC 8985 §7).
    pub tail_probes: u64,
    /// Reductions for ECN echoes.
    pub ecn_reductions: u64,
    /// Reductions undone because nothing was lost.
    pub undos: u64,
    /// RTT samples.
    pub rtt_samples: u64,
    /// Sum of the RTT samples, for the mean.
    pub rtt_sum_ns: u128,
    /// Minimum RTT sample; `Nanos::MAX` if there are none.
    pub rtt_min_ns: Nanos,
    /// Last RTT sample.
    pub rtt_last_ns: Nanos,
    /// When the handshake was done.
    pub established_at: Option<Nanos>,
    /// When everything supplied before the close was acknowledged.
    pub finished_at: Option<Nanos>,
}

/// Counters of a receiver. Bytes are payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiverStats {
    /// Data segments that arrived.
    pub data_segments: u64,
    /// Segments that arrived above a hole.
    pub out_of_order: u64,
    /// Segments with no new data.
    pub duplicates: u64,
    /// Segments that arrived with a CE mark.
    pub ce_marks: u64,
    /// Bytes delivered to the application, in order.
    pub delivered_bytes: u64,
    /// ACKs sent, without SYN-ACKs.
    pub acks: u64,
    /// ACKs sent because the timer fired.
    pub delayed_acks: u64,
    /// ACKs sent with the same number as the previous one.
    pub dup_acks: u64,
    /// ACKs sent with SACK blocks.
    pub sack_acks: u64,
    /// Candidates that a policy in the stack withheld.
    pub withheld: u64,
    /// When the last byte was delivered in order.
    pub last_delivery_at: Option<Nanos>,
    /// When the FIN was reached in order.
    pub finished_at: Option<Nanos>,
}
