//! How long frames occupy a Wi-Fi channel.
//!
//! Timing of OFDM at 5 GHz with EDCA's best effort (IEEE 802.11-2020 §10.23.2, table 9-155):
//! AIFS 43 us, a mean back-off of 7.5 slots of 9 us, a preamble of 36 us, then SIFS and a block
//! ACK at 24 Mbit/s. There are no collisions, and no frame is sent twice: a lower bound.

/// AIFS, mean back-off, preamble, SIFS and block ACK, in ns.
const ACCESS_NS: u64 = 43_000 + 67_500 + 36_000 + 16_000 + 32_000;
/// Header of a QoS data frame, LLC with SNAP, FCS and the delimiter of an A-MPDU, in bytes.
const FRAME_BYTES: u64 = 26 + 8 + 4 + 4;
/// The most frames, and the most bytes, of an A-MPDU (802.11n).
const MAX_FRAMES: u32 = 64;
const MAX_BYTES: u64 = 65_535;
/// Frames that come further apart than that do not meet in a queue.
const TOGETHER_NS: u64 = 4_000_000;

/// Channel time of one kind of frame, in ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Airtime {
    /// If each frame has an access of its own.
    pub alone_ns: u64,
    /// If those that follow each other without one of the other kind share one.
    pub shared_ns: u64,
}

/// The channel times of ACKs and of all else.
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
    /// A channel of that rate in bit/s.
    #[must_use]
    pub fn new(bps: u64) -> Channel {
        Channel {
            bps: bps.max(1),
            acks: Airtime::default(),
            others: Airtime::default(),
            run: None,
        }
    }

    /// A packet of so many bytes from the IP header on.
    pub fn packet(&mut self, is_ack: bool, ip_len: u32, now_ns: u64) {
        let bytes = u64::from(ip_len) + FRAME_BYTES;
        let bits_ns = bytes * 8 * 1_000_000_000 / self.bps;
        let joins = self.run.is_some_and(|run| {
            run.is_ack == is_ack
                && run.frames < MAX_FRAMES
                && run.bytes + bytes <= MAX_BYTES
                && now_ns.saturating_sub(run.last_ns) <= TOGETHER_NS
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
        // 194.5 us of access, and 94 bytes at 65 Mbit/s.
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
        channel.packet(true, 58, 3000 + TOGETHER_NS + 1);
        assert_eq!(channel.acks.shared_ns, 3 * ACCESS_NS + 400);
    }
}
