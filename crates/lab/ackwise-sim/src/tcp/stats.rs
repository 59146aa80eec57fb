//! What the two ends count.

use ackwise_queue::Nanos;

/// Counters of a sender. Bytes are payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SenderStats {
    /// Data segments sent, retransmissions among them.
    pub data_segments: u64,
    /// Payload sent, retransmissions among it.
    pub data_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Payload sent again.
    pub retransmitted_bytes: u64,
    /// ACKs that arrived and were taken.
    pub acks: u64,
    /// ACKs that arrived and were duplicates.
    pub dup_acks: u64,
    /// Payload acknowledged cumulatively.
    pub acked_bytes: u64,
    /// Fast retransmissions: times that recovery began by duplicates or SACK.
    pub fast_recoveries: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Tail loss probes (RFC 8985 §7).
    pub tail_probes: u64,
    /// Reductions for ECN echoes.
    pub ecn_reductions: u64,
    /// Reductions taken back because nothing was lost.
    pub undos: u64,
    /// RTT samples.
    pub rtt_samples: u64,
    /// Sum of them, for the mean.
    pub rtt_sum_ns: u128,
    /// The least of them; `Nanos::MAX` if there are none.
    pub rtt_min_ns: Nanos,
    /// The last of them.
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
    /// Segments that held nothing new.
    pub duplicates: u64,
    /// Segments that came marked.
    pub ce_marks: u64,
    /// Bytes delivered to the application, in order.
    pub delivered_bytes: u64,
    /// ACKs sent, SYN-ACKs not among them.
    pub acks: u64,
    /// ACKs that were sent because the timer fired.
    pub delayed_acks: u64,
    /// ACKs that were sent with the same number as the one before.
    pub dup_acks: u64,
    /// ACKs that were sent with SACK blocks.
    pub sack_acks: u64,
    /// Candidates that a policy in the stack withheld.
    pub withheld: u64,
    /// When the last byte was delivered in order.
    pub last_delivery_at: Option<Nanos>,
    /// When the FIN was reached in order.
    pub finished_at: Option<Nanos>,
}
