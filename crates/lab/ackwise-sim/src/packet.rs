//! Simulated packets.

use ackwise_policy::AckRate;
use bitflags::bitflags;

/// Number of a connection, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FlowId(pub u32);

/// The direction in which a packet of a connection travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    #[default]
    /// From the sender of the data to their receiver.
    Data,
    /// From the receiver of the data back: ACKs.
    Ack,
}

bitflags! {
    /// TCP flags, and the ECN bits of the IP header.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u16 {
        /// Opens a connection.
        const SYN = 1;
        /// Ends a direction.
        const FIN = 1 << 1;
        /// The acknowledgment number is valid.
        const ACK = 1 << 2;
        /// Push.
        const PSH = 1 << 3;
        /// ECN echo (RFC 3168).
        const ECE = 1 << 4;
        /// Congestion window reduced (RFC 3168).
        const CWR = 1 << 5;
        /// The IP header says that the endpoints support ECN.
        const ECT = 1 << 6;
        /// A queue has marked the packet.
        const CE = 1 << 7;
        /// On data: an ACK of this flow arrived marked (RFC 3449 §4.3).
        const ACK_CE_ECHO = 1 << 8;
        /// On data: the sender asks for an immediate ACK.
        const ACK_REQUEST = 1 << 9;
        /// The data were sent before.
        const RETRANSMIT = 1 << 10;
        /// An ACK made by a box on the path (RFC 3449 §5.3.1).
        const SYNTHETIC = 1 << 11;
        /// Timestamps are present (RFC 7323).
        const TIMESTAMPS = 1 << 12;
        /// On data: the segment acknowledges data of the other direction.
        const CARRIES_ACK = 1 << 13;
        /// UDP: the path sees no more than the length, so it is no TCP and no ACK.
        const UDP = 1 << 14;
        /// The ACK rate is carried in an option of RFC 5690.
        const ACK_RATIO = 1 << 15;
    }
}

/// A segment's ACK-rate option, packed into a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AckRateOption(u8);

impl AckRateOption {
    const CAPABLE: u8 = 1;
    const NOW: u8 = 2;
    const CONTROL_PERMITTED: u8 = AckRateOption::NOW + AckRate::MOST + 1;

    /// A segment without the option.
    pub const NONE: AckRateOption = AckRateOption(0);

    /// The option that carries `option`.
    pub fn new(option: AckRate) -> AckRateOption {
        AckRateOption(match option {
            AckRate::Capable => AckRateOption::CAPABLE,
            AckRate::Now => AckRateOption::NOW,
            AckRate::ControlPermitted => AckRateOption::CONTROL_PERMITTED,
            AckRate::Every(segments) => AckRateOption::NOW + segments.clamp(1, AckRate::MOST),
        })
    }

    /// Decodes the option as a receiver would from the bytes on the wire.
    fn read(self) -> Option<AckRate> {
        let option = match self.0 {
            0 => return None,
            AckRateOption::CAPABLE => AckRate::Capable,
            AckRateOption::NOW => AckRate::Now,
            AckRateOption::CONTROL_PERMITTED => AckRate::ControlPermitted,
            more => AckRate::Every(more - AckRateOption::NOW),
        };
        AckRate::find(&option.bytes())
    }

    /// Bytes that the option takes in the header, padding included.
    fn wire_len(self) -> u32 {
        match self.0 {
            0 => 0,
            AckRateOption::CAPABLE | AckRateOption::CONTROL_PERMITTED => 4,
            _ => AckRateOption::REQUEST_LEN,
        }
    }

    /// Bytes of a request, padding included.
    pub const REQUEST_LEN: u32 = 8;

    /// Whether the segment has no such option.
    pub fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// What a segment says about the ACKs that its sender wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckOption {
    /// TCP ACK Rate Request.
    Rate(AckRate),
    /// On a SYN: ACK Congestion Control Permitted (RFC 5690 §4.1).
    Permitted,
    /// On data: the ACK Ratio (RFC 5690 §4.2), the segments that an ACK may cover.
    Ratio(u8),
}

impl AckOption {
    /// Bytes of an RFC 5690 option, padding included. Its options were never assigned kinds.
    pub const RATIO_LEN: u32 = 4;
}

/// A range of sequence numbers, from `start` up to but not including `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Block {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
}

/// SACK blocks of a segment, the newest first (RFC 2018 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Sack {
    // First, so that reading an ACK without blocks touches one cache line. It is as wide as a
    // block's number, so that a copy has no odd piece to wait for.
    len: u64,
    blocks: [Block; Sack::MAX],
}

impl Sack {
    /// The maximum number of blocks beside timestamps.
    pub const MAX: usize = 3;

    /// Adds a block; returns false if there is no room.
    pub fn push(&mut self, block: Block) -> bool {
        let Some(slot) = self.blocks.get_mut(self.len as usize) else {
            return false;
        };
        *slot = block;
        self.len += 1;
        true
    }

    /// The blocks.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks[..self.len as usize]
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A segment. Sequence numbers count bytes of data from 0 and never wrap; a SYN
/// or FIN is a flag and takes no number.
///
/// The fields that every hop reads come first in memory, so that they share a cache line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Packet {
    /// The connection.
    pub flow: FlowId,
    /// The direction of travel.
    pub direction: Direction,
    /// The ACK-rate option; its bytes are included in `wire_len`.
    pub ack_rate: AckRateOption,
    /// The flags.
    pub flags: Flags,
    /// Bytes on the wire, from the IP header on.
    pub wire_len: u32,
    /// Bytes of payload.
    pub payload: u32,
    /// Sequence number of the first byte of the data, or of the next byte to be sent.
    pub seq: u64,
    /// The next byte expected by the sender of this segment.
    pub ack: u64,
    /// The offered window, in bytes.
    pub window: u64,
    /// The sender's clock, in ticks of its timestamps.
    pub tsval: u64,
    /// The newest clock value received from the peer.
    pub tsecr: u64,
    /// What has arrived above `ack`.
    pub sack: Sack,
}

impl Packet {
    /// Adds the ACK-rate option.
    pub fn set_ack_rate(&mut self, option: AckRate) {
        self.ack_rate = AckRateOption::new(option);
        self.wire_len += self.ack_rate.wire_len();
    }

    /// Adds ACK Congestion Control Permitted.
    pub fn permit_ratio(&mut self) {
        self.set_ack_ratio(1);
    }

    /// Adds the ACK Ratio, which is not 0. On a SYN it only says that the option is permitted.
    pub fn set_ack_ratio(&mut self, segments: u8) {
        self.ack_rate = AckRateOption(segments.max(1));
        self.flags |= Flags::ACK_RATIO;
        self.wire_len += AckOption::RATIO_LEN;
    }

    /// What the segment says about the ACKs that its sender wants.
    pub fn ack_option(&self) -> Option<AckOption> {
        if !self.flags.contains(Flags::ACK_RATIO) {
            return self.ack_rate.read().map(AckOption::Rate);
        }
        Some(match self.flags.contains(Flags::SYN) {
            true => AckOption::Permitted,
            false => AckOption::Ratio(self.ack_rate.0),
        })
    }

    /// Whether the segment does nothing but acknowledge.
    pub fn is_pure_ack(&self) -> bool {
        self.payload == 0
            && self.flags.contains(Flags::ACK)
            && !self.flags.intersects(Flags::SYN | Flags::FIN)
    }
}
