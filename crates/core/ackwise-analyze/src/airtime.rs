//! How long frames occupy a Wi-Fi channel.
//!
//! The timing is that of [`ackwise_queue::wifi`]: AIFS, the mean back-off, a preamble, then SIFS
//! and a block ACK. Collisions and retransmissions are left out, so this is a lower bound.

use ackwise_queue::wifi::{
    AIFS_NS, BLOCK_ACK_NS, CW, FRAME_BYTES, MAX_BYTES, MAX_FRAMES, PREAMBLE_NS, SIFS_NS, SLOT_NS,
};

/// AIFS, mean back-off, preamble, SIFS and block ACK, in ns.
const ACCESS_NS: u64 = AIFS_NS + CW[0] as u64 * SLOT_NS / 2 + PREAMBLE_NS + SIFS_NS + BLOCK_ACK_NS;
/// Frames farther apart than this do not meet in a queue.
const MAX_FRAME_GAP_NS: u64 = 4_000_000;

/// Channel time of one kind of frame, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Airtime {
    /// If each frame needs its own channel access.
    pub alone_ns: u64,
    /// If consecutive frames share one access, as long as no frame of the other kind comes between.
    pub shared_ns: u64,
}

/// The channel time of ACKs and of everything else.
#[derive(Debug, Clone)]
pub struct Channel {
    bps: u64,
    /// Pure ACKs.
    pub acks: Airtime,
    /// Everything else.
    pub others: Airtime,
    run: Option<Run>,
}

#[derive(Debug, Clone, Copy)]
struct Run {
    is_ack: bool,
    frames: u32,
    bytes: u64,
    last_ns: u64,
}

impl Channel {
    /// A channel with this rate in bit/s.
    #[must_use]
    pub fn new(bps: u64) -> Channel {
        Channel {
            bps: bps.max(1),
            acks: Airtime::default(),
            others: Airtime::default(),
            run: None,
        }
    }

    /// Takes a packet; `ip_len` is its length from the IP header on.
    pub fn packet(&mut self, is_ack: bool, ip_len: u32, now_ns: u64) {
        let bytes = u64::from(ip_len) + FRAME_BYTES;
        let bits_ns = bytes * 8 * 1_000_000_000 / self.bps;
        let joins = self.run.is_some_and(|run| {
            run.is_ack == is_ack
                && run.frames < MAX_FRAMES
                && run.bytes + bytes <= MAX_BYTES
                && now_ns.saturating_sub(run.last_ns) <= MAX_FRAME_GAP_NS
        });
        let run = match self.run {
            Some(run) if joins => Run {
                frames: run.frames + 1,
                bytes: run.bytes + bytes,
                last_ns: now_ns,
                ..run
            },
            _ => Run {
                is_ack,
                frames: 1,
                bytes,
                last_ns: now_ns,
            },
        };
        self.run = Some(run);
        let sum = if is_ack {
            &mut self.acks
        } else {
            &mut self.others
        };
        sum.alone_ns += ACCESS_NS + bits_ns;
        sum.shared_ns += bits_ns + if joins { 0 } else { ACCESS_NS };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_of_its_own_costs_more_than_its_bits() {
        let mut channel = Channel::new(65_000_000);
        channel.packet(true, 52, 0);
        // 194.5 us for the access, and 94 bytes at 65 Mbit/s.
        assert_eq!(
            channel.acks.alone_ns,
            194_500 + 94 * 8 * 1_000_000_000 / 65_000_000
        );
        assert_eq!(channel.acks.shared_ns, channel.acks.alone_ns);
        assert_eq!(channel.others, Airtime::default());
    }

    #[test]
    fn frames_of_a_kind_share_an_access_until_another_comes() {
        let mut channel = Channel::new(8_000_000_000);
        for (is_ack, at) in [(true, 0), (true, 1000), (false, 2000), (true, 3000)] {
            channel.packet(is_ack, 58, at);
        }
        assert_eq!(channel.acks.alone_ns, 3 * (ACCESS_NS + 100));
        assert_eq!(channel.acks.shared_ns, 2 * ACCESS_NS + 300);
        channel.packet(true, 58, 3000 + MAX_FRAME_GAP_NS + 1);
        assert_eq!(channel.acks.shared_ns, 3 * ACCESS_NS + 400);
    }
}
