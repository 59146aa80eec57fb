//! The header of a bundle, its check, and its limits. See `docs/tunnel-format.md`.

use crate::aligned::{Input, varint};

/// The encoding of ACKs in a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Variant {
    /// Fields fill whole bytes, which takes the least CPU time.
    Aligned,
    /// A range coder with adaptive models, which takes the fewest bytes.
    #[default]
    Entropy,
}

/// The number of versions of a flow, and of the models, that the sender keeps to refer to. If more
/// bundles are in flight, flows start again with an uncompressed packet.
pub(crate) const MAX_VERSIONS: usize = 128;
/// The number of versions that the receiver keeps: more than the sender, so that a reordered bundle
/// finds what it refers to.
pub(crate) const MAX_RECEIVER_VERSIONS: usize = MAX_VERSIONS + 32;
/// The largest number of packets in a bundle.
pub(crate) const MAX_ACKS: usize = 1024;
/// An upper bound in bytes of one item of a bundle: an ACK with the header of its flow, or
/// the longest packet that is carried. If a bundle has less room left, the writer computes
/// the exact bound of the next item.
pub(crate) const MAX_ITEM: usize = 448;
/// The flow number of packets that are carried uncompressed and belong to no flow.
pub(crate) const UNCOMPRESSED: u16 = 0;

/// Three bits of the header of a flow: the distance from the reference to its version.
pub(crate) mod distance {
    /// The flow continues from an earlier run in this bundle.
    pub const HERE: u8 = 6;
    /// The distance follows as a varint.
    pub const FOLLOWS: u8 = 7;
}
/// Bit of the header of a flow: its first packet is uncompressed.
pub(crate) const FULL: u8 = 0x80;
const ENTROPY: u8 = 1;
const REFERENCE: u8 = 2;
const FEEDBACK: u8 = 4;
const BODY: u8 = 8;
const WANTS_FEEDBACK: u8 = 16;

/// Tells the peer which of its bundles were received and decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// The lower 32 bits of the highest number.
    pub highest: u32,
    /// Bit *i* is set if bundle `highest` − 1 − *i* was received, too.
    pub before: u32,
}

/// The header of a bundle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BundleHeader {
    pub variant: Variant,
    /// The distance to the bundle from which references are counted.
    pub reference: Option<u64>,
    pub feedback: Option<Feedback>,
    pub body: bool,
    /// Whether the receiver should send feedback although there is no body.
    pub wants_feedback: bool,
}

impl BundleHeader {
    pub fn write(&self, out: &mut Vec<u8>) {
        let bit = |on, bit| if on { bit } else { 0 };
        out.push(
            bit(self.variant == Variant::Entropy, ENTROPY)
                | bit(self.reference.is_some(), REFERENCE)
                | bit(self.feedback.is_some(), FEEDBACK)
                | bit(self.body, BODY)
                | bit(self.wants_feedback, WANTS_FEEDBACK),
        );
        if let Some(distance) = self.reference {
            varint(out, distance);
        }
        if let Some(feedback) = self.feedback {
            out.extend(feedback.highest.to_be_bytes());
            varint(out, feedback.before.into());
        }
    }

    pub fn read(input: &mut Input) -> Option<BundleHeader> {
        let bits = input.byte()?;
        if bits & !(ENTROPY | REFERENCE | FEEDBACK | BODY | WANTS_FEEDBACK) != 0 {
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
        Some(BundleHeader {
            variant: match bits & ENTROPY {
                0 => Variant::Aligned,
                _ => Variant::Entropy,
            },
            reference,
            feedback,
            body: bits & BODY != 0,
            wants_feedback: bits & WANTS_FEEDBACK != 0,
        })
    }
}

/// 2⁶⁴ divided by the golden ratio (Knuth, vol. 3, §6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The check over all packets of a bundle, in their order.
#[derive(Default, Clone, Copy)]
pub(crate) struct Check(u32);

impl Check {
    /// Returns the hash of a packet. The bundle was authenticated, so the check only has to
    /// find flow states that differ between the ends. A CRC would take three times as many
    /// instructions.
    pub fn of(packet: &[u8]) -> u32 {
        let mix = |hash: u64, word: [u8; 8]| {
            let mixed = u128::from(hash ^ u64::from_le_bytes(word)) * u128::from(GOLDEN);
            (mixed >> 64) as u64 ^ mixed as u64
        };
        let (words, rest) = packet.as_chunks::<8>();
        let hash = words
            .iter()
            .fold(packet.len() as u64, |hash, word| mix(hash, *word));
        match (rest, packet.last_chunk::<8>()) {
            ([], _) => hash as u32,
            (_, Some(last)) => mix(hash, *last) as u32,
            (short, None) => {
                let mut word = [0; 8];
                word[..short.len()].copy_from_slice(short);
                mix(hash, word) as u32
            }
        }
    }

    pub fn add(&mut self, hash: u32) {
        self.0 = self.0.rotate_left(7).wrapping_add(hash);
    }

    pub fn value(self) -> u16 {
        (self.0 ^ self.0 >> 16) as u16
    }
}

/// Returns the number that has these lower 32 bits and is nearest to `near`.
pub(crate) fn expand_number(low: u32, near: u64) -> Option<u64> {
    let ahead = i64::from(low.wrapping_sub(near as u32) as i32);
    near.checked_add_signed(ahead)
}

/// Appends a bundle without packets. It may carry feedback, ask for feedback, and be padded.
pub(crate) fn write_empty(feedback: Option<Feedback>, wants_feedback: bool, out: &mut Vec<u8>) {
    BundleHeader {
        variant: Variant::Aligned,
        reference: None,
        feedback,
        body: false,
        wants_feedback,
    }
    .write(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_bit_of_a_packet_counts_and_its_length() {
        for len in [0, 1, 3, 8, 40, 52, 60, 71, 100] {
            let packet: Vec<u8> = (0..len).map(|i| (i as u8).wrapping_mul(37)).collect();
            let mut checks = HashSet::from([Check::of(&packet)]);
            for bit in 0..8 * len {
                let mut other = packet.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(checks.insert(Check::of(&other)), "bit {bit} of {len} bytes");
            }
            let longer = [&packet[..], &[0]].concat();
            assert!(checks.insert(Check::of(&longer)), "{len} bytes");
        }
    }

    #[test]
    fn two_bits_do_not_make_up_for_each_other() {
        let packet: Vec<u8> = (0..52_u8).map(|i| i.wrapping_mul(37)).collect();
        let hash = Check::of(&packet);
        let mut other = packet.clone();
        for first in 0..8 * packet.len() {
            other[first / 8] ^= 1 << (first % 8);
            for second in 0..first {
                other[second / 8] ^= 1 << (second % 8);
                assert_ne!(Check::of(&other), hash, "bits {first} and {second}");
                other[second / 8] ^= 1 << (second % 8);
            }
            other[first / 8] ^= 1 << (first % 8);
        }
    }

    /// The hash as specified in `docs/tunnel-format.md`.
    #[test]
    fn the_hash_is_as_documented() {
        assert_eq!(Check::of(&[]), 0);
        let of = |start: u64, words: &[u64]| {
            let hash = words.iter().fold(start, |hash, word| {
                let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
                (product ^ product >> 64) as u64
            });
            hash as u32
        };
        assert_eq!(Check::of(&[7]), of(1, &[7]));
        // Bytes 0 to 7, and the last eight, of which four are the same.
        let packet = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let words = [0x0807_0605_0403_0201, 0x0c0b_0a09_0807_0605];
        assert_eq!(Check::of(&packet), of(12, &words));
    }
}
