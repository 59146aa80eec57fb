//! The Internet checksum (RFC 1071).

/// Returns the one's complement sum of 16-bit words in the machine's byte order, not yet
/// folded. An odd last byte is padded with zero. The byte order does not matter as long as
/// the result is stored in the same order (RFC 1071 §2 (B)).
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
pub fn finish(sum: u64) -> [u8; 2] {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16)).to_ne_bytes()
}

/// Returns what two bytes of the wire add to a sum.
pub fn word(bytes: [u8; 2]) -> u64 {
    u16::from_ne_bytes(bytes).into()
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
