//! The Internet checksum (RFC 1071).
//!
//! A checksum is passed and returned as its two bytes on the wire. [`of`] computes that of an IPv4
//! header whose field is zero, [`of_segment`] that of a TCP segment or UDP datagram. Over bytes
//! that include a correct checksum both return zero. [`sum`], [`word`] and [`pseudo_header`] are
//! for callers that add up parts themselves, and [`fold`] folds such a sum. [`complete_tcp`]
//! completes the checksum that the stack left to a device.

use crate::ip::protocol::TCP;
use crate::{Ip, Ipv4, Tcp};

/// Returns the one's complement sum of 16-bit words in the machine's byte order, not yet folded. An
/// odd last byte is padded with zero. The byte order does not matter as long as the result is
/// stored in the same order (RFC 1071 §2 (B)). Sums can be added: if the first of two parts has an
/// even length, the sum of both is that of the whole.
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

/// Folds a sum below 2⁴⁸ into 16 bits and complements it. Returns the bytes for the wire.
#[inline]
#[must_use]
pub fn fold(sum: u64) -> [u8; 2] {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    (!(sum as u16)).to_ne_bytes()
}

/// Returns the contribution of two bytes of the wire to a sum.
#[inline]
#[must_use]
pub fn word(bytes: [u8; 2]) -> u64 {
    u16::from_ne_bytes(bytes).into()
}

/// Returns the contribution of a pseudo-header without its addresses: the protocol and the length
/// of the segment (RFC 9293 §3.1, RFC 8200 §8.1).
#[inline]
#[must_use]
pub fn pseudo_header(protocol: u8, len: usize) -> u64 {
    (u32::from(protocol) + len as u32).to_be().into()
}

/// Returns the checksum of some bytes.
#[inline]
#[must_use]
pub fn of(bytes: &[u8]) -> [u8; 2] {
    fold(sum(bytes))
}

/// Returns the checksum of a TCP segment or UDP datagram. `addresses` is the source and the
/// destination address of its packet, 8 or 32 bytes.
#[inline]
#[must_use]
pub fn of_segment(addresses: &[u8], protocol: u8, segment: &[u8]) -> [u8; 2] {
    fold(sum(addresses) + pseudo_header(protocol, segment.len()) + sum(segment))
}

/// Returns the checksum after a 16-bit word that it covers has changed from `old` to `new` (RFC
/// 1624, equation 3).
#[inline]
#[must_use]
pub fn update(checksum: [u8; 2], old: [u8; 2], new: [u8; 2]) -> [u8; 2] {
    let complement = |bytes: [u8; 2]| word(bytes.map(|byte| !byte));
    fold(complement(checksum) + complement(old) + word(new))
}

/// Completes the checksum of the TCP segment in an IP packet if it is only the sum over the
/// pseudo-header, as the stack leaves it for checksum offload. Any other checksum stays, right or
/// wrong; one wrong checksum in 65,536 looks like that sum. Returns whether it was completed.
pub fn complete_tcp(packet: &mut [u8]) -> bool {
    let Some(at) = tcp_offset(packet) else {
        return false;
    };
    // Folded but not complemented.
    let left = fold(full_pseudo_header(packet, at)).map(|byte| !byte);
    let segment = &mut packet[at..];
    if segment[TCP_CHECKSUM..TCP_CHECKSUM + 2] != left {
        return false;
    }
    // The segment contains the sum over the pseudo-header.
    let right = fold(sum(segment));
    segment[TCP_CHECKSUM..TCP_CHECKSUM + 2].copy_from_slice(&right);
    true
}

/// Says whether the checksum of the TCP segment in an IP packet is correct. A packet without a
/// whole TCP header has none.
#[must_use]
pub fn is_tcp_correct(packet: &[u8]) -> bool {
    let at = tcp_offset(packet);
    at.is_some_and(|at| fold(full_pseudo_header(packet, at) + sum(&packet[at..])) == [0, 0])
}

/// The offset of the checksum in a TCP header.
const TCP_CHECKSUM: usize = 16;

/// The contribution of the pseudo-header of the segment at this offset.
fn full_pseudo_header(packet: &[u8], at: usize) -> u64 {
    let addresses = match Ip::read(packet) {
        Some(Ip::V4(ip)) => sum(ip.addresses()),
        Some(Ip::V6(ip)) => sum(ip.addresses()),
        None => 0,
    };
    addresses + pseudo_header(TCP, packet.len() - at)
}

/// The offset of a whole TCP header, behind IPv4 options or the IPv6 extension headers that do not
/// affect a checksum. The packet's protocol field is not checked.
fn tcp_offset(packet: &[u8]) -> Option<usize> {
    let at = match Ip::read(packet)? {
        Ip::V4(ip) => Some(ip.header_len()).filter(|len| *len >= Ipv4::LEN)?,
        Ip::V6(ip) => ip.upper_layer(packet)?.1,
    };
    (packet.len() >= at + Tcp::LEN).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::protocol::{HOP_BY_HOP, ROUTING};
    use proptest::prelude::*;

    /// A packet with this IP header and a segment with a correct checksum.
    fn packet(header: &[u8], data: &[u8]) -> Vec<u8> {
        let mut packet = [header, &[7; Tcp::LEN], data].concat();
        let at = header.len();
        packet[at + 16..at + 18].fill(0);
        let right = fold(full_pseudo_header(&packet, at) + sum(&packet[at..]));
        packet[at + 16..at + 18].copy_from_slice(&right);
        packet
    }

    #[test]
    fn what_a_device_was_to_complete_is_completed_and_nothing_else() {
        let mut options = [9; 28];
        options[0] = 0x47;
        let mut plain = [9; 20];
        plain[0] = 0x45;
        let mut v6 = [9; 40];
        (v6[0], v6[6]) = (0x60, TCP);
        // Hop-by-hop options of 8 bytes, then a routing header of 16.
        let mut behind = [v6.to_vec(), vec![0; 24]].concat();
        behind[6] = HOP_BY_HOP;
        (behind[40], behind[41]) = (ROUTING, 0);
        (behind[48], behind[49]) = (TCP, 1);
        for header in [&plain[..], &options, &v6, &behind] {
            for data in [&b""[..], b"odd", b"even"] {
                let right = packet(header, data);
                let mut it = right.clone();
                assert!(is_tcp_correct(&it) && !complete_tcp(&mut it));
                assert_eq!(it, right, "right as it is");
                let at = header.len();
                let left = fold(full_pseudo_header(&it, at)).map(|byte| !byte);
                it[at + 16..at + 18].copy_from_slice(&left);
                assert!(!is_tcp_correct(&it) && complete_tcp(&mut it));
                assert_eq!(it, right, "as a device would");
                let wrong = u16::from_be_bytes(left).wrapping_add(1).to_be_bytes();
                it[at + 16..at + 18].copy_from_slice(&wrong);
                let wrong = it.clone();
                assert!(!is_tcp_correct(&it) && !complete_tcp(&mut it));
                assert_eq!(it, wrong, "wrong before");
            }
        }
    }

    #[test]
    fn what_has_no_whole_tcp_header_has_no_checksum() {
        let refused = |packet: &mut [u8]| !complete_tcp(packet) && !is_tcp_correct(packet);
        for (first, header) in [(0x45, 20), (0x4f, 60), (0x60, 40)] {
            let mut packet = vec![0; header + Tcp::LEN];
            (packet[0], packet[6]) = (first, TCP);
            for len in 0..packet.len() {
                assert!(refused(&mut packet[..len]), "{first:#x}, {len} bytes");
            }
        }
        // An IPv4 header that is too short, another version, extension headers past the end.
        for (first, length) in [(0x44, 0), (0x40, 0), (0x20, 0), (0x60, 255)] {
            let mut packet = vec![0; 80];
            (packet[0], packet[41]) = (first, length);
            assert!(refused(&mut packet), "{first:#x}");
        }
    }

    #[test]
    fn the_example_of_rfc_1071() {
        // RFC 1071 §3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&bytes)), (!0xddf2_u16).to_be_bytes());
        assert_eq!(fold(sum(&[0xab])), (!0xab00_u16).to_be_bytes());
        assert_eq!(fold(sum(&[])), [0xff; 2]);
    }

    /// The definition in RFC 1071 §1, word by word.
    fn reference(bytes: &[u8]) -> [u8; 2] {
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
            prop_assert_eq!(fold(sum(&bytes)), reference(&bytes));
            prop_assert_eq!(of(&bytes), reference(&bytes));
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
            prop_assert_eq!(of_segment(addresses, protocol, &segment), reference(&whole));
        }

        #[test]
        fn one_word_changes(
            mut bytes in prop::collection::vec(any::<u8>(), 20),
            at in 0..10_usize,
            new in any::<[u8; 2]>(),
        ) {
            // An IPv4 header is never all zeros, for which RFC 1624 yields the other zero.
            bytes[0] |= 0x40;
            let old = [bytes[2 * at], bytes[2 * at + 1]];
            let before = of(&bytes);
            bytes[2 * at..2 * at + 2].copy_from_slice(&new);
            bytes[0] |= 0x40;
            let new = [bytes[2 * at], bytes[2 * at + 1]];
            prop_assert_eq!(update(before, old, new), reference(&bytes));
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
            let value = u16::from_ne_bytes(fold(sum));
            assert_eq!(u64::from(!value) % 0xffff, sum % 0xffff, "{sum:x}");
        }
    }
}
