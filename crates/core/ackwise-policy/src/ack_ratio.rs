//! ACK congestion control at the data sender (RFC 5690): the state machine of
//! `policy/options/ack_ratio.h`, which the BPF program for Linux's sockets also compiles.

use crate::sys;

/// What an ACK says, and the sender's state before it is processed. Numbers are byte offsets in the
/// stream.
#[derive(Debug, Clone, Copy)]
pub struct AckSeen {
    /// The acknowledgment number.
    pub ack: u64,
    /// The ACK is a duplicate or has SACK blocks: data arrived out of order.
    pub out_of_order: bool,
    /// The receiver says why this ACK covers more than others.
    pub explained: bool,
    /// First unacknowledged byte before this ACK.
    pub una: u64,
    /// First byte that was never sent.
    pub max: u64,
    /// Bytes that the sender may have in flight. Values above 4 GiB count as 4 GiB.
    pub window: u64,
    /// Payload of a full segment.
    pub mss: u32,
}

/// What a sender knows of its ACKs: which were lost, and how many segments one may cover.
#[derive(Debug, Clone, Copy)]
pub struct AckRatio(sys::aw_ack_ratio);

impl AckRatio {
    /// Starts with a ratio of 2; `most` is the largest.
    pub fn new(most: u8) -> AckRatio {
        let mut state = sys::aw_ack_ratio::default();
        // SAFETY: the pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_ack_ratio_init(&mut state, u32::from(most)) };
        AckRatio(state)
    }

    /// R: the segments that an ACK may cover.
    pub fn ratio(&self) -> u8 {
        self.0.ratio
    }

    /// The number of times that an ACK was found to be lost.
    pub fn lost(&self) -> u64 {
        self.0.lost
    }

    /// Takes an ACK that arrived; it may be older than others.
    pub fn on_ack(&mut self, seen: &AckSeen) {
        let seen = sys::aw_ack_seen {
            ack: seen.ack,
            una: seen.una,
            max: seen.max,
            window: bytes(seen.window),
            mss: seen.mss,
            out_of_order: u32::from(seen.out_of_order),
            explained: u32::from(seen.explained),
        };
        // SAFETY: both pointers are to live values of the types C expects.
        unsafe { sys::aw_shim_ack_ratio_on_ack(&mut self.0, &seen) };
    }

    /// A segment that ends at `end` leaves. Returns the ratio to announce in it, if the receiver is
    /// to learn one.
    pub fn on_segment(&mut self, end: u64, window: u64, mss: u32) -> Option<u8> {
        // SAFETY: the pointer is to a live value of the type C expects.
        let told =
            unsafe { sys::aw_shim_ack_ratio_on_segment(&mut self.0, end, bytes(window), mss) };
        u8::try_from(told).ok().filter(|ratio| *ratio > 0)
    }

    /// A segment was retransmitted, and everything before `max` had been sent. Until that is
    /// acknowledged, ACKs tell nothing about lost ACKs.
    pub fn on_retransmission(&mut self, max: u64) {
        // SAFETY: the pointer is to a live value of the type C expects.
        unsafe { sys::aw_shim_ack_ratio_on_retransmission(&mut self.0, max) };
    }
}

fn bytes(window: u64) -> u32 {
    u32::try_from(window).unwrap_or(u32::MAX)
}
