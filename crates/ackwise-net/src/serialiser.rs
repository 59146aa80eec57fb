//! Exact serialisation times.

use crate::Nanos;

/// A sender that puts bits on a wire at a fixed rate, one packet at a time.
///
/// Within a busy period the *n*-th packet ends at ⌈bits so far / rate⌉ after the
/// period began: rounding never accumulates, and never in the sender's favour,
/// so no window of time carries more than the rate allows.
#[derive(Debug, Clone)]
pub struct Serialiser {
    /// Bits a second; `None` sends at once.
    rate_bps: Option<u64>,
    /// When the wire is free again.
    free_at: Nanos,
    /// What rounding up has over-charged in this busy period, in units of
    /// 1 / rate nanoseconds; below the rate.
    over_charged: u64,
}

/// Nanoseconds in a second times bits in a byte.
const NS_BITS: u64 = 8_000_000_000;

impl Serialiser {
    /// A free wire. A rate of 0 is taken as 1 bit/s: such a wire is as good as
    /// broken, but it divides.
    #[must_use]
    pub fn new(rate_bps: Option<u64>) -> Self {
        Self {
            rate_bps: rate_bps.map(|rate| rate.max(1)),
            free_at: 0,
            over_charged: 0,
        }
    }

    /// The rate, or `None` if packets take no time.
    #[must_use]
    pub fn rate_bps(&self) -> Option<u64> {
        self.rate_bps
    }

    /// When the wire is free for the next packet.
    #[must_use]
    pub fn free_at(&self) -> Nanos {
        self.free_at
    }

    /// Sends `len` bytes that are ready at `ready`; returns when the last bit
    /// has left.
    pub fn send(&mut self, len: u32, ready: Nanos) -> Nanos {
        if ready > self.free_at {
            self.free_at = ready;
            self.over_charged = 0;
        }
        let Some(rate) = self.rate_bps else {
            return self.free_at;
        };
        // Fits u64 for any packet below 2 GiB; the rest takes the slow division.
        let (ticks, over) = match u64::from(len).checked_mul(NS_BITS) {
            Some(need) if need <= self.over_charged => (0, self.over_charged - need),
            Some(need) => {
                let need = need - self.over_charged;
                let ticks = need.div_ceil(rate);
                (ticks, (rate - need % rate) % rate)
            }
            None => {
                let rate = u128::from(rate);
                let need = (u128::from(len) * u128::from(NS_BITS))
                    .saturating_sub(u128::from(self.over_charged));
                let ticks = u64::try_from(need.div_ceil(rate)).unwrap_or(u64::MAX);
                (ticks, ((rate - need % rate) % rate) as u64)
            }
        };
        self.free_at = self.free_at.saturating_add(ticks);
        self.over_charged = over;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_to_the_nanosecond() {
        let mut wire = Serialiser::new(Some(50_000_000));
        assert_eq!(wire.send(1514, 0), 242_240);
        assert_eq!(wire.send(1514, 0), 484_480);
        // Idle until 1 ms.
        assert_eq!(wire.send(66, 1_000_000), 1_010_560);
    }

    #[test]
    fn rounding_does_not_accumulate() {
        // One byte at 3 bit/s is 2 666 666 666.67 ns.
        let mut wire = Serialiser::new(Some(3));
        assert_eq!(wire.send(1, 0), 2_666_666_667);
        assert_eq!(wire.send(1, 0), 5_333_333_334);
        assert_eq!(wire.send(1, 0), 8_000_000_000);
        for _ in 3..3_000 {
            wire.send(1, 0);
        }
        assert_eq!(wire.free_at(), 8_000_000_000_000);
    }

    #[test]
    fn faster_than_a_nanosecond_a_byte() {
        let mut wire = Serialiser::new(Some(100_000_000_000));
        for _ in 0..1000 {
            wire.send(1, 0);
        }
        assert_eq!(wire.free_at(), 80);
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut wire = Serialiser::new(Some(1));
        assert_eq!(wire.send(u32::MAX, 0), u64::MAX);
        assert_eq!(wire.send(u32::MAX, 0), u64::MAX);
        let mut wire = Serialiser::new(Some(u64::MAX));
        assert_eq!(wire.send(u32::MAX, 5), 7);
        let mut wire = Serialiser::new(Some(0));
        assert_eq!(wire.send(1, 0), NS_BITS);
    }

    #[test]
    fn no_rate_takes_no_time() {
        let mut wire = Serialiser::new(None);
        assert_eq!(wire.send(1514, 77), 77);
    }
}
