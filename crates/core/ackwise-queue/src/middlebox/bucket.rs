//! A token bucket, exact to the nanosecond.

use crate::Nanos;

/// The bytes of a packet that a bucket charges for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LengthMode {
    /// The IP packet.
    Ip,
    /// The payload of an Ethernet frame, as Linux's ingress policer counts it: at least 46 bytes.
    EthernetPayload,
    /// The Ethernet frame with header and checksum: at least 64 bytes.
    EthernetFrame,
}

impl LengthMode {
    /// The bytes that an IP packet of `len` bytes is charged for.
    #[must_use]
    pub fn charge(self, len: u32) -> u32 {
        match self {
            Self::Ip => len,
            Self::EthernetPayload => len.max(46),
            Self::EthernetFrame => len.saturating_add(18).max(64),
        }
    }
}

/// A token bucket: it fills at a committed rate up to a committed burst size, and starts
/// full.
///
/// Tokens are counted in units of 10⁻⁹ bit, so that every nanosecond adds a whole number
/// and nothing is rounded.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    rate_bps: u64,
    depth: u128,
    tokens: u128,
    /// The time up to which tokens were added.
    refilled_at: Nanos,
}

const UNITS: u128 = 8_000_000_000;

impl TokenBucket {
    /// Creates a full bucket. A rate of 0 counts as 1 bit/s.
    #[must_use]
    pub fn new(rate_bps: u64, burst_bytes: u64) -> Self {
        let depth = u128::from(burst_bytes) * UNITS;
        Self {
            rate_bps: rate_bps.max(1),
            depth,
            tokens: depth,
            refilled_at: 0,
        }
    }

    fn refill(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.refilled_at);
        self.refilled_at = self.refilled_at.max(now);
        let more = u128::from(passed) * u128::from(self.rate_bps);
        self.tokens = self.depth.min(self.tokens + more);
    }

    /// Takes the tokens for `bytes` if they are available.
    pub fn take(&mut self, bytes: u32, now: Nanos) -> bool {
        self.refill(now);
        let need = u128::from(bytes) * UNITS;
        let there = self.tokens >= need;
        if there {
            self.tokens -= need;
        }
        there
    }

    /// The time at which [`take`](Self::take) will succeed if nothing else is taken. `None` if
    /// `bytes` is more than the bucket can hold.
    pub fn ready(&mut self, bytes: u32, now: Nanos) -> Option<Nanos> {
        self.refill(now);
        let need = u128::from(bytes) * UNITS;
        if need > self.depth {
            return None;
        }
        let wait = need
            .saturating_sub(self.tokens)
            .div_ceil(u128::from(self.rate_bps));
        Some(self.refilled_at.saturating_add(Nanos::try_from(wait).ok()?))
    }

    /// The tokens at `now`, in whole bytes.
    pub fn bytes(&mut self, now: Nanos) -> u64 {
        self.refill(now);
        (self.tokens / UNITS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refills_to_the_nanosecond() {
        // 8 kbit/s: one byte per millisecond.
        let mut bucket = TokenBucket::new(8_000, 100);
        assert!(bucket.take(100, 0));
        assert!(!bucket.take(1, 999_999));
        assert!(bucket.take(1, 1_000_000));
        assert_eq!(bucket.ready(40, 1_000_000), Some(41_000_000));
        assert!(!bucket.take(40, 40_999_999));
        assert!(bucket.take(40, 41_000_000));
        assert_eq!(bucket.ready(101, 41_000_000), None);
    }

    #[test]
    fn holds_no_more_than_its_depth() {
        let mut bucket = TokenBucket::new(1_000_000_000_000, 5_000);
        assert_eq!(bucket.bytes(u64::MAX), 5_000);
        assert!(bucket.take(5_000, u64::MAX));
        assert!(!bucket.take(1, u64::MAX));
    }

    #[test]
    fn what_is_left_over_is_not_lost() {
        // 3 bit/s: a byte takes 2 666 666 666.67 ns; three take 8 s.
        let mut bucket = TokenBucket::new(3, 2);
        assert!(bucket.take(2, 0));
        let mut now = 0;
        let mut at = Vec::new();
        for _ in 0..3 {
            now = bucket.ready(1, now).unwrap();
            assert!(bucket.take(1, now));
            at.push(now);
        }
        assert_eq!(at, [2_666_666_667, 5_333_333_334, 8_000_000_000]);
    }

    #[test]
    fn lengths_as_devices_see_them() {
        for (len, ip, payload, frame) in
            [(40, 40, 46, 64), (52, 52, 52, 70), (1500, 1500, 1500, 1518)]
        {
            assert_eq!(LengthMode::Ip.charge(len), ip);
            assert_eq!(LengthMode::EthernetPayload.charge(len), payload);
            assert_eq!(LengthMode::EthernetFrame.charge(len), frame);
        }
    }
}
