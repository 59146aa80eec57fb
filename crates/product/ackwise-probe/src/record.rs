//! Records of what an end sent and saw, packet by packet, and their encoding.

use crate::script::Phase;
use crate::segment::{SackBlock, Segment, kind};

/// The role of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// A SYN, a SYN/ACK, the ACK of a handshake, a FIN or an RST.
    Control,
    /// A segment of the data sender.
    Data,
    /// An ACK of the script.
    Ack,
    /// A segment of a few bytes, from the end that acknowledges.
    Small,
    /// A data segment from the end that acknowledges.
    Large,
    /// A retransmission, or an ACK outside the script.
    Repair,
}

impl Role {
    const ALL: [Self; 6] = [
        Self::Control,
        Self::Data,
        Self::Ack,
        Self::Small,
        Self::Large,
        Self::Repair,
    ];
}

/// Bits for the options of a segment: the kinds in [`KINDS`], and the last bit for any other.
pub const KINDS: [u8; 8] = [
    kind::MSS,
    kind::WINDOW_SCALE,
    kind::SACK_PERMITTED,
    kind::SACK,
    kind::TIMESTAMPS,
    kind::MPTCP,
    kind::ACC_ECN,
    kind::EXPERIMENT,
];

/// A packet that was sent or seen. Numbers are relative to the first of the connection as this end
/// knows it, so that a box which shifts all of them does not change them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The time in nanoseconds, by this end's clock.
    pub at_ns: u64,
    /// The index of the connection.
    pub conn: u8,
    /// The phase; [`Phase::Other`] for packets that were seen.
    pub phase: Phase,
    /// The role; [`Role::Control`] for packets that were seen.
    pub role: Role,
    /// The repetition within the phase.
    pub round: u8,
    /// The place among ACKs that are sent at once.
    pub place: u8,
    /// The ECN field of the IP header.
    pub ecn: u8,
    /// Relative sequence number.
    pub seq: u32,
    /// Relative acknowledgment number.
    pub ack: u32,
    /// Flags, see [`crate::segment::flag`].
    pub flags: u16,
    /// The window field.
    pub window: u16,
    /// Payload bytes.
    pub payload: u16,
    /// Options, one bit each; see [`KINDS`].
    pub options: u16,
    /// The maximum segment size of a SYN, or 0.
    pub mss: u16,
    /// TSval, or 0 without timestamps.
    pub ts_val: u32,
    /// TSecr.
    pub ts_ecr: u32,
    /// A hash of the relative SACK blocks, or 0 without any.
    pub sack: u32,
    /// The sequence number as on the wire.
    pub raw_seq: u32,
}

/// The origin of relative numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// The first sequence number of the end that sent it.
    pub seq: u32,
    /// The first sequence number of the end that it acknowledges.
    pub ack: u32,
}

impl Record {
    /// Records a packet and its time, without phase and role.
    #[must_use]
    pub fn of(segment: &Segment, at_ns: u64, conn: u8, origin: Origin) -> Self {
        let mut bits = 0;
        for option in segment.options.iter() {
            let known = KINDS.iter().position(|kind| *kind == option.kind);
            bits |= 1 << known.unwrap_or(KINDS.len());
        }
        let (ts_val, ts_ecr) = segment.timestamps().unwrap_or((0, 0));
        let sack = segment
            .sack()
            .fold(0, |hash: u32, SackBlock { left, right }| {
                let (left, right) = (
                    left.wrapping_sub(origin.ack),
                    right.wrapping_sub(origin.ack),
                );
                let hash = hash.wrapping_mul(0x0100_0193) ^ left;
                hash.wrapping_mul(0x0100_0193) ^ right | 1
            });
        let mss = segment.option(kind::MSS).filter(|body| body.len() == 2);
        Self {
            at_ns,
            conn,
            phase: Phase::Other,
            role: Role::Control,
            round: 0,
            place: 0,
            ecn: segment.ecn,
            seq: segment.seq.wrapping_sub(origin.seq),
            ack: segment.ack.wrapping_sub(origin.ack),
            flags: segment.flags,
            window: segment.window,
            payload: segment.payload,
            options: bits,
            mss: mss.map_or(0, |body| u16::from_be_bytes([body[0], body[1]])),
            ts_val,
            ts_ecr,
            sack,
            raw_seq: segment.seq,
        }
    }

    /// Returns whether it has an option of this kind.
    #[must_use]
    pub fn has(&self, kind: u8) -> bool {
        let bit = KINDS.iter().position(|known| *known == kind);
        bit.is_some_and(|bit| self.options & 1 << bit != 0)
    }
}

/// The length of a record in a message, in bytes.
pub const LEN: usize = 50;

/// Encodes records one after another.
#[must_use]
pub fn encode(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(records.len() * LEN);
    for it in records {
        bytes.extend(it.at_ns.to_be_bytes());
        let small = [
            it.conn,
            it.phase as u8,
            it.role as u8,
            it.round,
            it.place,
            it.ecn,
        ];
        bytes.extend(small);
        for word in [it.seq, it.ack, it.ts_val, it.ts_ecr, it.sack, it.raw_seq] {
            bytes.extend(word.to_be_bytes());
        }
        for short in [it.flags, it.window, it.payload, it.options, it.mss] {
            bytes.extend(short.to_be_bytes());
        }
        bytes.extend([0; 2]);
    }
    bytes
}

/// Decodes the output of [`encode`]; `None` for anything else.
#[must_use]
pub fn decode(bytes: &[u8]) -> Option<Vec<Record>> {
    if !bytes.len().is_multiple_of(LEN) {
        return None;
    }
    bytes.chunks_exact(LEN).map(one).collect()
}

fn one(bytes: &[u8]) -> Option<Record> {
    let word = |at: usize| {
        bytes[at..at + 4]
            .iter()
            .fold(0, |n, b| n << 8 | u32::from(*b))
    };
    let short = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    if bytes[13] > 3 || bytes[48..] != [0; 2] {
        return None;
    }
    Some(Record {
        at_ns: u64::from(word(0)) << 32 | u64::from(word(4)),
        conn: bytes[8],
        phase: *Phase::ALL.get(usize::from(bytes[9]))?,
        role: *Role::ALL.get(usize::from(bytes[10]))?,
        round: bytes[11],
        place: bytes[12],
        ecn: bytes[13],
        seq: word(14),
        ack: word(18),
        ts_val: word(22),
        ts_ecr: word(26),
        sack: word(30),
        raw_seq: word(34),
        flags: short(38),
        window: short(40),
        payload: short(42),
        options: short(44),
        mss: short(46),
    })
}
