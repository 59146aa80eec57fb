//! What tells flows apart, and how it is looked up.

use ackwise_policy::Segment;

/// Words of the longest key: ports, two IPv6 addresses.
const WORDS: usize = 9;

/// A direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    pub v6: bool,
    /// Ports, then the addresses, as on the wire; of IPv4 the first three.
    words: [u32; WORDS],
}

impl Key {
    /// No flow's.
    pub const NONE: Key = Key {
        v6: false,
        words: [0; WORDS],
    };

    /// Of IPv4: both ports, both addresses.
    pub fn v4(ports: [u8; 4], addresses: [u8; 8]) -> Key {
        let mut key = Key::NONE;
        key.put(ports, &addresses);
        key
    }

    /// Of IPv6.
    pub fn v6(ports: [u8; 4], addresses: [u8; 32]) -> Key {
        let mut key = Key {
            v6: true,
            ..Key::NONE
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

    /// Of a parsed segment.
    pub fn of(segment: &Segment) -> Key {
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
        Key { v6, words }
    }

    /// Source port and destination port.
    pub fn ports(&self) -> [u8; 4] {
        self.words[0].to_ne_bytes()
    }

    /// Source and destination of IPv4.
    pub fn addresses_v4(&self) -> [u8; 8] {
        let [a, b, c, d] = self.words[1].to_ne_bytes();
        let [e, f, g, h] = self.words[2].to_ne_bytes();
        [a, b, c, d, e, f, g, h]
    }

    /// Source and destination of IPv6.
    pub fn addresses_v6(&self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for (to, word) in bytes.chunks_exact_mut(4).zip(&self.words[1..]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Hashes keys: multilinear hashing under random multipliers (Lemire and Kaser 2014, §2),
/// so that two keys collide by a chance of 2⁻³², whoever chose them. Few multiplications
/// instead of SipHash's rounds: there are two look-ups for each ACK.
#[derive(Debug, Clone)]
pub(crate) struct Hasher {
    v4: [u64; 4],
    v6: [u64; WORDS + 1],
}

impl Hasher {
    /// With multipliers that nobody else knows.
    pub fn new() -> Hasher {
        let random = std::hash::RandomState::new();
        let draw = |i: usize| std::hash::BuildHasher::hash_one(&random, i);
        Hasher {
            v4: std::array::from_fn(draw),
            v6: std::array::from_fn(|i| draw(i + 4)),
        }
    }

    /// The hash; its upper and lower half are the same, as a table looks at both ends.
    pub fn of(&self, key: &Key) -> u64 {
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
        let mut add = |key: Key| assert!(hashes.insert(hasher.of(&key) as u32), "{key:?}");
        for bit in 0..32 {
            add(Key::v4((1_u32 << bit).to_be_bytes(), [0; 8]));
            add(Key::v6((1_u32 << bit).to_be_bytes(), [0; 32]));
        }
        for bit in 0..64 {
            add(Key::v4([0; 4], (1_u64 << bit).to_be_bytes()));
        }
        for bit in 0..256 {
            let mut addresses = [0; 32];
            addresses[bit / 8] = 1 << (bit % 8);
            add(Key::v6([0; 4], addresses));
        }
        add(Key::v4([0; 4], [0; 8]));
        add(Key::v6([0; 4], [0; 32]));
    }

    #[test]
    fn two_tables_hash_otherwise() {
        let key = Key::v4([1, 2, 3, 4], [9; 8]);
        assert_ne!(Hasher::new().of(&key), Hasher::new().of(&key));
    }

    #[test]
    fn a_key_is_the_same_of_a_segment() {
        use crate::trace::Recorded;
        use ackwise_policy::{LinkKind, parse};
        for which in [Recorded::Plain, Recorded::Six] {
            let packet = &which.read().expect("recorded")[0].packet;
            let segment = parse(packet, LinkKind::Ip).expect("TCP");
            let ack = crate::ack::Ack::parse(packet).expect("an ACK");
            assert_eq!(Key::of(&segment), ack.key);
        }
    }
}
