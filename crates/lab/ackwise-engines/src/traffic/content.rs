//! The content of the streams, and the proof that it arrived.

use ackwise_rng::Rng;
use sha2::{Digest, Sha256};

use crate::clock::thread_cpu_ns;

/// Bytes produced or checked at a time.
pub const CHUNK: usize = 64 * 1024;

/// A stream of bytes determined by its seed, with a running hash.
#[derive(Debug)]
pub struct Producer {
    rng: Rng,
    hash: Tally,
}

impl Producer {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Rng::new(seed),
            hash: Tally::default(),
        }
    }

    /// Fills a chunk with the next bytes. Only the last chunk may have a length that is not a
    /// multiple of 8.
    pub fn fill(&mut self, chunk: &mut [u8]) {
        let began = thread_cpu_ns();
        for word in chunk.chunks_mut(8) {
            let bytes = self.rng.next_u64().to_le_bytes();
            word.copy_from_slice(&bytes[..word.len()]);
        }
        self.hash.own_cpu_ns += thread_cpu_ns().saturating_sub(began);
    }

    /// Adds to the hash the bytes that the kernel accepted.
    pub fn sent(&mut self, bytes: &[u8]) {
        self.hash.add(bytes);
    }

    /// The digest of what was sent.
    #[must_use]
    pub fn finish(self) -> Digested {
        self.hash.finish()
    }
}

/// Hashes bytes and measures the cost of hashing.
#[derive(Debug, Default)]
pub struct Tally {
    hash: Sha256,
    bytes: u64,
    own_cpu_ns: u64,
}

/// The number and hash of the bytes of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digested {
    /// Number of bytes.
    pub bytes: u64,
    /// SHA-256 hash.
    pub sha256: [u8; 32],
    /// CPU time spent on producing and hashing, which is the lab's share and not TCP's.
    pub own_cpu_ns: u64,
}

impl Tally {
    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        let began = thread_cpu_ns();
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        self.own_cpu_ns += thread_cpu_ns().saturating_sub(began);
    }

    /// Number of bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest.
    #[must_use]
    pub fn finish(self) -> Digested {
        Digested {
            bytes: self.bytes,
            sha256: self.hash.finalize().into(),
            own_cpu_ns: self.own_cpu_ns,
        }
    }
}

/// Formats a hash in hexadecimal.
#[must_use]
pub fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let take = |seed: u64, sizes: &[usize]| {
            let mut producer = Producer::new(seed);
            let mut all = Vec::new();
            for &size in sizes {
                let mut chunk = vec![0; size];
                producer.fill(&mut chunk);
                producer.sent(&chunk);
                all.extend(chunk);
            }
            (all, producer.finish().sha256)
        };
        assert_eq!(take(1, &[64, 64, 5]), take(1, &[128, 5]));
        assert_ne!(take(1, &[64]).0, take(2, &[64]).0);
    }

    #[test]
    fn one_wrong_byte_shows() {
        let mut bytes = [1_u8; 1000];
        let mut right = Tally::default();
        right.add(&bytes);
        bytes[500] ^= 1;
        let mut wrong = Tally::default();
        wrong.add(&bytes);
        assert_eq!(right.bytes(), wrong.bytes());
        assert_ne!(right.finish().sha256, wrong.finish().sha256);
    }

    #[test]
    fn the_hash_is_sha256() {
        let mut tally = Tally::default();
        tally.add(b"abc");
        assert_eq!(
            hex(&tally.finish().sha256),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
