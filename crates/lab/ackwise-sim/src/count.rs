//! Counts packets on the wire.

use std::collections::BTreeMap;

use ackwise_scenario::record::{AckKinds, StretchBin};

use crate::packet::Packet;

/// Longest stretch with its own bar in the histogram.
const MAX_STRETCH: u64 = 4096;

/// Counts for a flow, on the link where it is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Data segments that arrived, including duplicates.
    pub data_segments: u64,
    /// ACKs that were put on the wire, by kind.
    pub acks: AckKinds,
    /// Sum of `acks`.
    pub acks_total: u64,
    /// Bytes of these ACKs, from the IP header on.
    pub ack_bytes: u64,
    /// Bytes of the ACKs on the narrowest line of their path, link headers included.
    pub narrow_bytes: u64,
    stretch: Vec<u64>,
}

/// What is remembered of a connection to count it and to classify its ACKs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watched {
    /// Flow of the scenario.
    pub flow: u32,
    /// Payload of a full segment.
    pub mss: u32,
    valid: bool,
    number: u64,
    window: u64,
}

impl Watched {
    /// The state of a connection that has sent no ACK yet.
    pub fn new(flow: u32, mss: u32) -> Watched {
        Watched {
            flow,
            mss,
            ..Watched::default()
        }
    }
}

impl Tally {
    /// Counts an ACK that was put on the wire.
    pub fn ack(&mut self, acked: &mut Watched, packet: &Packet) {
        self.acks_total += 1;
        self.ack_bytes += u64::from(packet.wire_len);
        let advance = if acked.valid {
            packet.ack.saturating_sub(acked.number)
        } else {
            0
        };
        if advance > 0 {
            let segments = advance
                .div_ceil(u64::from(acked.mss.max(1)))
                .min(MAX_STRETCH);
            let bar = segments as usize;
            if self.stretch.len() <= bar {
                self.stretch.resize(bar + 1, 0);
            }
            self.stretch[bar] += 1;
        }
        let kinds = &mut self.acks;
        let kind = if !packet.sack.is_empty() {
            &mut kinds.sack
        } else if !acked.valid {
            &mut kinds.other
        } else if advance > 0 {
            &mut kinds.pure
        } else if packet.ack < acked.number {
            &mut kinds.old
        } else if packet.window != acked.window {
            &mut kinds.window_update
        } else {
            &mut kinds.dup
        };
        *kind += 1;
        if advance > 0 || !acked.valid {
            acked.number = packet.ack;
            acked.valid = true;
        }
        acked.window = packet.window;
    }

    /// The stretch histogram, without empty bars.
    pub fn stretch(&self) -> BTreeMap<u32, u64> {
        (0u32..)
            .zip(&self.stretch)
            .filter(|(_, acks)| **acks > 0)
            .map(|(segments, acks)| (segments, *acks))
            .collect()
    }
}

/// The histogram in the format of the record.
pub fn bins(stretch: &BTreeMap<u32, u64>) -> Vec<StretchBin> {
    stretch
        .iter()
        .map(|(&segments, &acks)| StretchBin { segments, acks })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{AckRateOption, Block, Direction, Flags, FlowId, Sack};

    fn ack(number: u64, window: u64, sack: bool) -> Packet {
        let mut blocks = Sack::default();
        if sack {
            blocks.push(Block {
                start: 9000,
                end: 9999,
            });
        }
        Packet {
            flow: FlowId(0),
            direction: Direction::Ack,
            ack_rate: AckRateOption::NONE,
            flags: Flags::ACK,
            wire_len: 40,
            payload: 0,
            seq: 0,
            ack: number,
            window,
            tsval: 0,
            tsecr: 0,
            sack: blocks,
        }
    }

    #[test]
    fn every_kind_of_ack_is_told_apart() {
        let (mut tally, mut acked) = (Tally::default(), Watched::new(0, 1460));
        for (number, window, sack) in [
            (100, 50, false),  // the first: nothing to compare with
            (3020, 50, false), // two segments
            (3020, 50, false), // duplicate
            (3020, 60, false), // window update
            (1560, 60, false), // overtaken
            (3020, 60, true),  // SACK
            (3021, 60, false), // a byte counts as a segment
        ] {
            tally.ack(&mut acked, &ack(number, window, sack));
        }
        let expected = AckKinds {
            sack: 1,
            pure: 2,
            window_update: 1,
            dup: 1,
            old: 1,
            other: 1,
        };
        assert_eq!(tally.acks, expected);
        assert_eq!(tally.acks_total, expected.total());
        assert_eq!(tally.stretch(), BTreeMap::from([(1, 1), (2, 1)]));
        assert_eq!(tally.ack_bytes, 7 * 40);
    }
}
