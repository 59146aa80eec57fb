//! ACK congestion control at the sender (RFC 5690): the state machine that Linux's sockets have
//! (`policy/options/ack_ratio.h`), for a connection whose peer permits it.

use ackwise_policy::{AckRatio, AckSeen};
use ackwise_scenario::AckCongestionControl;

/// What a sender knows of its ACKs.
#[derive(Debug, Clone)]
pub(crate) struct AckRatioState {
    /// The receiver's SYN-ACK permits it.
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

    /// The SYN-ACK came, and permits ACK congestion control or does not.
    pub fn on_syn_ack(&mut self, permitted: bool) {
        self.permitted = permitted;
    }

    /// R.
    pub fn ratio(&self) -> u8 {
        self.ratio.ratio()
    }

    /// How often an ACK was found to be lost.
    pub fn lost(&self) -> u64 {
        self.ratio.lost()
    }

    /// An ACK came; it may be older than others.
    pub fn on_ack(&mut self, seen: &AckSeen) {
        if self.permitted {
            self.ratio.on_ack(seen);
        }
    }

    /// A segment that ends at `end` leaves: what it says of the ratio.
    pub fn on_segment(&mut self, end: u64, window: u64, mss: u32) -> Option<u8> {
        self.permitted
            .then(|| self.ratio.on_segment(end, window, mss))
            .flatten()
    }

    /// A segment was sent again.
    pub fn on_retransmission(&mut self, max: u64) {
        self.ratio.on_retransmission(max);
    }
}
