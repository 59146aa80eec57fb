//! The key that identifies a flow, and its hash.

use ackwise_policy::Segment;

/// The words of the longest key: the ports and two IPv6 addresses.
const WORDS: usize = 9;

/// One direction of a TCP connection: addresses and ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowKey {
    pub v6: bool,
    /// The ports, then the addresses, in network byte order. IPv4 uses the first three words.
    words: [u32; WORDS],
}

impl FlowKey {
    /// The key of no flow.
    pub const NONE: FlowKey = FlowKey {
        v6: false,
        words: [0; WORDS],
    };

    /// Makes the key of an IPv4 flow from both ports and both addresses.
    pub fn v4(ports: [u8; 4], addresses: [u8; 8]) -> FlowKey {
        let mut key = FlowKey::NONE;
        key.put(ports, &addresses);
        key
    }

    /// Makes the key of an IPv6 flow.
    pub fn v6(ports: [u8; 4], addresses: [u8; 32]) -> FlowKey {
        let mut key = FlowKey {
            v6: true,
            ..FlowKey::NONE
        };
        key.put(ports, &addresses);
        key
    }

    fn put(&mut self, ports: [u8; 4], addresses: &[u8]) {
        self.words[0] = u32::from_ne_bytes(ports);
        for (word, bytes) in self.words[1..].iter_mut().zip(addresses.chunks_exact(4)) {
            *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
    }

    /// Returns the key of a parsed segment.
    pub fn of(segment: &Segment) -> FlowKey {
        let raw = segment.raw();
        let [s0, s1] = raw.sport.to_ne_bytes();
        let [d0, d1] = raw.dport.to_ne_bytes();
        let ports = u32::from_ne_bytes([s0, s1, d0, d1]);
        let v6 = raw.ip_version != 4;
        let (s, d) = (raw.src.w, raw.dst.w);
        let words = if v6 {
            [ports, s[0], s[1], s[2], s[3], d[0], d[1], d[2], d[3]]
        } else {
            [ports, s[0], d[0], 0, 0, 0, 0, 0, 0]
        };
        FlowKey { v6, words }
    }

    /// The source port and the destination port.
    pub fn ports(&self) -> [u8; 4] {
        self.words[0].to_ne_bytes()
    }

    /// The source and destination address of IPv4.
    pub fn addresses_v4(&self) -> [u8; 8] {
        let [a, b, c, d] = self.words[1].to_ne_bytes();
        let [e, f, g, h] = self.words[2].to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// The source and destination address of IPv6.
    pub fn addresses_v6(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(4).zip(&self.words[1..]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Hashes keys by multilinear hashing with random multipliers (Lemire and Kaser 2014, §2).
/// Two keys collide with a probability of 2⁻³², even if an attacker chose them. This takes
/// fewer instructions than SipHash, and there are two look-ups for each ACK.
#[derive(Debug, Clone)]
pub(crate) struct Hasher {
    v4: [u64; 4],
    v6: [u64; WORDS + 1],
}

impl Hasher {
    /// Draws secret multipliers.
    pub fn new() -> Hasher {
        let random = std::hash::RandomState::new();
        let draw = |i: usize| std::hash::BuildHasher::hash_one(&random, i);
        Hasher {
            v4: std::array::from_fn(draw),
            v6: std::array::from_fn(|i| draw(i + 4)),
        }
    }

    /// Returns the hash of a key. Both halves are equal, because the table uses bits of both
    /// ends.
    pub fn of(&self, key: &FlowKey) -> u64 {
        let sum = if key.v6 {
            multilinear(&self.v6, &key.words)
        } else {
            multilinear(&self.v4, &key.words[..3])
        };
        let upper = sum >> 32;
        upper << 32 | upper
    }
}

fn multilinear(multipliers: &[u64], words: &[u32]) -> u64 {
    let products = multipliers[1..].iter().zip(words);
    products.fold(multipliers[0], |sum, (multiplier, word)| {
        sum.wrapping_add(multiplier.wrapping_mul(u64::from(*word)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_that_differ_in_one_bit_have_other_hashes() {
        let hasher = Hasher::new();
        let mut hashes = HashSet::new();
        let mut add = |key: FlowKey| assert!(hashes.insert(hasher.of(&key) as u32), "{key:?}");
        for bit in 0..32 {
            add(FlowKey::v4((1_u32 << bit).to_be_bytes(), [0; 8]));
            add(FlowKey::v6((1_u32 << bit).to_be_bytes(), [0; 32]));
        }
        for bit in 0..64 {
            add(FlowKey::v4([0; 4], (1_u64 << bit).to_be_bytes()));
        }
        for bit in 0..256 {
            let mut addresses = [0; 32];
            addresses[bit / 8] = 1 << (bit % 8);
            add(FlowKey::v6([0; 4], addresses));
        }
        add(FlowKey::v4([0; 4], [0; 8]));
        add(FlowKey::v6([0; 4], [0; 32]));
    }

    #[test]
    fn two_tables_hash_otherwise() {
        let key = FlowKey::v4([1, 2, 3, 4], [9; 8]);
        assert_ne!(Hasher::new().of(&key), Hasher::new().of(&key));
    }

    #[test]
    fn a_segment_and_an_ack_have_the_same_key() {
        use crate::trace::Recorded;
        use ackwise_policy::{LinkKind, parse};
        for which in [Recorded::Plain, Recorded::Ipv6] {
            let packet = &which.read().expect("recorded")[0].packet;
            let segment = parse(packet, LinkKind::Ip).expect("TCP");
            let ack = crate::ack::Ack::parse(packet).expect("an ACK");
            assert_eq!(FlowKey::of(&segment), ack.key);
        }
    }
}
