//! What stands before the ACKs of a bundle.

use crate::aligned::{Input, varint};

/// The variant in which ACKs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Variant {
    /// Whole bytes: least work.
    Aligned,
    /// Adaptive models and a range coder: fewest bytes.
    #[default]
    Entropy,
}

/// How far back a sender may refer: so many versions of a flow, and so many models. When
/// more bundles are under way, flows start anew.
pub(crate) const VERSIONS: usize = 64;
/// How many of them a receiver keeps: more, so that a bundle that was overtaken by others
/// finds what it refers to.
pub(crate) const KEPT: usize = VERSIONS + 32;
/// Most ACKs in a bundle.
pub(crate) const MAX_ACKS: usize = 1024;
/// More than anything takes that is put into a bundle at once: an ACK and its flow's head,
/// or the longest packet that is carried. Where less is left, it has to be looked.
pub(crate) const ROOM: usize = 448;
/// Number of the flow of packets that are carried as they are.
pub(crate) const RAW: u16 = 0;

const ENTROPY: u8 = 1;
const REFERENCE: u8 = 2;
const FEEDBACK: u8 = 4;
const BODY: u8 = 8;
const ASKS: u8 = 16;

/// Which bundles of the other side arrived and were understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// The highest number, its lower 32 bits.
    pub highest: u32,
    /// Bit i: `highest` − 1 − i as well.
    pub before: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    pub variant: Variant,
    /// How many numbers before this bundle is the one that references start from.
    pub reference: Option<u64>,
    pub feedback: Option<Feedback>,
    pub body: bool,
    /// Feedback is wanted, though there is no body.
    pub asks: bool,
}

impl Head {
    pub fn write(&self, out: &mut Vec<u8>) {
        let bit = |on, bit| if on { bit } else { 0 };
        out.push(
            bit(self.variant == Variant::Entropy, ENTROPY)
                | bit(self.reference.is_some(), REFERENCE)
                | bit(self.feedback.is_some(), FEEDBACK)
                | bit(self.body, BODY)
                | bit(self.asks, ASKS),
        );
        if let Some(distance) = self.reference {
            varint(out, distance);
        }
        if let Some(feedback) = self.feedback {
            out.extend(feedback.highest.to_be_bytes());
            varint(out, feedback.before.into());
        }
    }

    pub fn read(input: &mut Input) -> Option<Head> {
        let bits = input.byte()?;
        if bits & !(ENTROPY | REFERENCE | FEEDBACK | BODY | ASKS) != 0 {
            return None;
        }
        let reference = match bits & REFERENCE {
            0 => None,
            _ => Some(input.varint()?).filter(|distance| *distance > 0),
        };
        let feedback = match bits & FEEDBACK {
            0 => None,
            _ => Some(Feedback {
                highest: u32::from(input.be16()?) << 16 | u32::from(input.be16()?),
                before: u32::try_from(input.varint()?).ok()?,
            }),
        };
        Some(Head {
            variant: match bits & ENTROPY {
                0 => Variant::Aligned,
                _ => Variant::Entropy,
            },
            reference,
            feedback,
            body: bits & BODY != 0,
            asks: bits & ASKS != 0,
        })
    }
}

/// The check over all packets of a bundle, in the order in which they are in it.
#[derive(Default, Clone, Copy)]
pub(crate) struct Check(u32);

impl Check {
    pub fn of(packet: &[u8]) -> u32 {
        crc32fast::hash(packet)
    }

    pub fn add(&mut self, crc: u32) {
        self.0 = self.0.rotate_left(7).wrapping_add(crc);
    }

    pub fn value(self) -> u16 {
        (self.0 ^ self.0 >> 16) as u16
    }
}

/// The number that has these lower 32 bits and is nearest to `near`.
pub(crate) fn nearest(low: u32, near: u64) -> Option<u64> {
    let ahead = i64::from(low.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(ahead)
}

/// Appends a bundle without packets: feedback, and a question for it, or only room that is
/// filled up.
pub(crate) fn empty(feedback: Option<Feedback>, asks: bool, out: &mut Vec<u8>) {
    Head {
        variant: Variant::Aligned,
        reference: None,
        feedback,
        body: false,
        asks,
    }
    .write(out);
}
