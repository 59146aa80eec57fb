//! The Internet checksum (RFC 1071).
//!
//! A checksum is given and taken as its two bytes on the wire. [`of`] is that of an IPv4 header
//! whose field is zero, [`of_segment`] that of a TCP segment or UDP datagram. Over bytes that
//! include a right checksum both say zero. [`sum`], [`word`] and [`pseudo`] are for those that add
//! parts up by themselves, and [`finish`] ends such a sum.

/// Returns the one's complement sum of 16-bit words in the machine's byte order, not yet
/// folded. An odd last byte is padded with zero. The byte order does not matter as long as
/// the result is stored in the same order (RFC 1071 §2 (B)). Sums add up: the sum of two parts, of
/// which the first has an even length, is that of the whole.
#[inline]
#[must_use]
pub fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total = 0_u64;
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    if !rest.is_empty() {
        let mut tail = [0; 4];
        tail[..rest.len()].copy_from_slice(rest);
        total += u64::from(u32::from_ne_bytes(tail));
    }
    total
}

/// Folds a sum below 2⁴⁸ into 16 bits and complements it. Returns the bytes as on the wire.
#[inline]
#[must_use]
pub fn finish(sum: u64) -> [u8; 2] {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16)).to_ne_bytes()
}

/// Returns what two bytes of the wire add to a sum.
#[inline]
#[must_use]
pub fn word(bytes: [u8; 2]) -> u64 {
    u16::from_ne_bytes(bytes).into()
}

/// Returns what a pseudo-header adds to a sum beside its addresses (RFC 9293 §3.1, RFC 8200 §8.1):
/// the protocol, and the length of the segment.
#[inline]
#[must_use]
pub fn pseudo(protocol: u8, len: usize) -> u64 {
    (u32::from(protocol) + len as u32).to_be().into()
}

/// Returns the checksum of some bytes.
#[inline]
#[must_use]
pub fn of(bytes: &[u8]) -> [u8; 2] {
    finish(sum(bytes))
}

/// Returns the checksum of a TCP segment or UDP datagram. `addresses` are the source and the
/// destination of its packet, 8 or 32 bytes.
#[inline]
#[must_use]
pub fn of_segment(addresses: &[u8], protocol: u8, segment: &[u8]) -> [u8; 2] {
    finish(sum(addresses) + pseudo(protocol, segment.len()) + sum(segment))
}

/// Returns what a checksum becomes if a 16-bit word that it covers changes from `old` to `new`
/// (RFC 1624, equation 3).
#[inline]
#[must_use]
pub fn changed(checksum: [u8; 2], old: [u8; 2], new: [u8; 2]) -> [u8; 2] {
    let complement = |bytes: [u8; 2]| word(bytes.map(|byte| !byte));
    finish(complement(checksum) + complement(old) + word(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1071() {
        // RFC 1071 §3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(finish(sum(&bytes)), (!0xddf2_u16).to_be_bytes());
        assert_eq!(finish(sum(&[0xab])), (!0xab00_u16).to_be_bytes());
        assert_eq!(finish(sum(&[])), [0xff; 2]);
    }

    /// The definition of RFC 1071 §1, word by word.
    fn slowly(bytes: &[u8]) -> [u8; 2] {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (!(sum as u16)).to_be_bytes()
    }

    proptest! {
        #[test]
        fn any_bytes(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(255)], 0..120)) {
            prop_assert_eq!(finish(sum(&bytes)), slowly(&bytes));
            prop_assert_eq!(of(&bytes), slowly(&bytes));
        }

        #[test]
        fn a_segment_with_its_pseudo_header(
            v6 in any::<bool>(),
            addresses in any::<[u8; 32]>(),
            protocol in any::<u8>(),
            segment in prop::collection::vec(any::<u8>(), 0..120),
        ) {
            let addresses = if v6 { &addresses[..] } else { &addresses[..8] };
            // RFC 8200 §8.1; the shorter one of IPv4 has the same sum.
            let mut whole = addresses.to_vec();
            whole.extend((segment.len() as u32).to_be_bytes());
            whole.extend([0, 0, 0, protocol]);
            whole.extend(&segment);
            prop_assert_eq!(of_segment(addresses, protocol, &segment), slowly(&whole));
        }

        #[test]
        fn one_word_changes(
            mut bytes in prop::collection::vec(any::<u8>(), 20),
            at in 0..10_usize,
            new in any::<[u8; 2]>(),
        ) {
            // An IPv4 header is never all zeroes, for which RFC 1624 has another zero.
            bytes[0] |= 0x40;
            let old = [bytes[2 * at], bytes[2 * at + 1]];
            let before = of(&bytes);
            bytes[2 * at..2 * at + 2].copy_from_slice(&new);
            bytes[0] |= 0x40;
            let new = [bytes[2 * at], bytes[2 * at + 1]];
            prop_assert_eq!(changed(before, old, new), slowly(&bytes));
        }
    }

    #[test]
    fn the_highest_sums_fold() {
        for sum in [
            0xffff_ffff_ffff,
            0xffff_0000_ffff,
            0xffff_ffff,
            0x1_ffff_ffff,
            0x1_0000,
        ] {
            let value = u16::from_ne_bytes(finish(sum));
            assert_eq!(u64::from(!value) % 0xffff, sum % 0xffff, "{sum:x}");
        }
    }
}
