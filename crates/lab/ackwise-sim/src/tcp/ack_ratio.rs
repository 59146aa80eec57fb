//! ACK congestion control at the sender (RFC 5690): the state machine of the Linux sockets
//! (`policy/options/ack_ratio.h`), for a connection whose peer permits it.

use ackwise_policy::{AckRatio, AckSeen};
use ackwise_scenario::AckCongestionControl;

/// What a sender knows about the ACKs that it receives.
#[derive(Debug, Clone)]
pub(crate) struct AckRatioState {
    /// Whether the receiver's SYN-ACK permits ACK congestion control.
    permitted: bool,
    ratio: AckRatio,
}

impl AckRatioState {
    pub fn new(control: AckCongestionControl) -> AckRatioState {
        AckRatioState {
            permitted: false,
            ratio: AckRatio::new(control.most),
        }
    }

    /// Handles the SYN-ACK, which permits ACK congestion control or not.
    pub fn on_syn_ack(&mut self, permitted: bool) {
        self.permitted = permitted;
    }

    /// The ACK Ratio R.
    pub fn ratio(&self) -> u8 {
        self.ratio.ratio()
    }

    /// How many times an ACK was found to be lost.
    pub fn lost(&self) -> u64 {
        self.ratio.lost()
    }

    /// Handles an ACK; it may be older than others.
    pub fn on_ack(&mut self, seen: &AckSeen) {
        if self.permitted {
            self.ratio.on_ack(seen);
        }
    }

    /// The ACK Ratio that a segment ending at `end` carries, if it carries one.
    pub fn on_segment(&mut self, end: u64, window: u64, mss: u32) -> Option<u8> {
        self.permitted
            .then(|| self.ratio.on_segment(end, window, mss))
            .flatten()
    }

    /// Handles the retransmission of a segment.
    pub fn on_retransmission(&mut self, max: u64) {
        self.ratio.on_retransmission(max);
    }
}
