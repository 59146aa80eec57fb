//! Exact serialisation times.

use std::sync::Arc;

use crate::Nanos;
use crate::changes::{ClockedOutages, ClockedProcess, Opportunities, Outages, RateSchedule};

/// A sender that puts bits on a wire, one packet at a time, at a rate that is fixed or follows a
/// [`RateSchedule`].
///
/// Within a busy period the *n*-th packet ends at ⌈bits so far / rate⌉ after the start of the
/// period: rounding never accumulates, and is never in the sender's favour, so no window of time
/// carries more than the rate allows. With a changing rate, the packet ends at the first nanosecond
/// by which the integral of the rate has reached the bits so far.
#[derive(Debug, Clone)]
pub struct Serialiser {
    /// Bits per second; `None` sends at once.
    rate_bps: Option<u64>,
    /// The time at which the wire is free again.
    free_at: Nanos,
    /// The amount by which rounding up has overcharged in this busy period, in units of 1 / rate
    /// nanoseconds; below the rate.
    over_charged: u64,
    /// The last division, because most packets of a direction are as long as the one before.
    last: Division,
    /// The rate, if it changes over time.
    changing: Option<Box<Changing>>,
}

/// A rate that changes over time, on the wire's clock.
#[derive(Debug, Clone)]
struct Changing {
    process: ClockedProcess,
    /// The offset from the wire's clock to the schedule's time.
    shift: Nanos,
    outages: Option<ClockedOutages>,
    /// The next delivery opportunity, and the bytes that are left of it.
    number: u64,
    left: u32,
}

/// The bits of a packet, in units of 1 / rate nanoseconds, divided by the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Division {
    /// Length of the packet in bytes.
    len: u32,
    /// Whole nanoseconds.
    whole: u64,
    /// The remainder, in units of 1 / rate nanoseconds.
    rest: u64,
}

/// Nanoseconds per second times bits per byte.
const NS_BITS: u64 = 8_000_000_000;
/// From this length on, the bits of a packet times 10⁹ may not fit into a word.
const LONG: u32 = 1 << 31;

impl Serialiser {
    /// Creates a free wire. A rate of 0 counts as 1 bit/s: such a wire is as good as broken, but it
    /// avoids a division by zero.
    #[must_use]
    pub fn new(rate_bps: Option<u64>) -> Self {
        Self {
            rate_bps: rate_bps.map(|rate| rate.max(1)),
            free_at: 0,
            over_charged: 0,
            last: Division::default(),
            changing: None,
        }
    }

    /// From now on, while the wire is free, it sends by a schedule that begins at `origin`, and not
    /// at all during outages.
    pub fn follow(&mut self, rate: &RateSchedule, outages: Option<Arc<Outages>>, origin: Nanos) {
        let clocked = rate.on_clock(origin);
        let outages = outages.map(|it| ClockedOutages::new(it, origin, clocked.shift));
        self.rate_bps = Some(rate.mean_bps());
        self.over_charged = 0;
        let mut changing = Box::new(Changing {
            process: clocked.process,
            shift: clocked.shift,
            outages,
            number: 0,
            left: 0,
        });
        changing.wait_from(self.free_at);
        self.free_at = self.free_at.max(changing.free_at(self.free_at));
        self.changing = Some(changing);
    }

    /// Notes that nothing waits at `now`. Delivery opportunities before that are lost, so the wire
    /// is free again at the next one.
    #[inline]
    pub fn idle(&mut self, now: Nanos) {
        if let Some(changing) = &mut self.changing {
            changing.wait_from(now);
            self.free_at = changing.free_at(self.free_at);
        }
    }

    /// The rate, or the mean of a changing one; `None` if packets take no time.
    #[must_use]
    pub fn rate_bps(&self) -> Option<u64> {
        self.rate_bps
    }

    /// Sets the rate from the next packet on; packets on the wire keep their times.
    pub fn set_rate(&mut self, bps: u64) {
        self.rate_bps = Some(bps.max(1));
        self.over_charged = 0;
        self.last = Division::default();
        self.changing = None;
    }

    /// The time at which the wire is free for the next packet.
    #[must_use]
    pub fn free_at(&self) -> Nanos {
        self.free_at
    }

    /// Notes that someone else occupies the wire until this time.
    pub fn occupy(&mut self, until: Nanos) {
        if until > self.free_at {
            self.free_at = until;
            self.over_charged = 0;
        }
    }

    /// Sends `len` bytes that are ready at `ready`. Returns the time at which the last bit has
    /// left.
    pub fn send(&mut self, len: u32, ready: Nanos) -> Nanos {
        if ready > self.free_at {
            self.free_at = ready;
            self.over_charged = 0;
        }
        let Some(rate) = self.rate_bps else {
            return self.free_at;
        };
        if self.changing.is_some() {
            return self.send_changing(len);
        }
        let (ticks, over) = if len < LONG {
            self.charge(len, rate)
        } else {
            self.charge_long(len, rate)
        };
        self.free_at = self.free_at.saturating_add(ticks);
        self.over_charged = over;
        self.free_at
    }

    /// Sends `len` bytes from `free_at` on, following the schedule.
    #[cold]
    fn send_changing(&mut self, len: u32) -> Nanos {
        let Some(changing) = &mut self.changing else {
            return self.free_at;
        };
        let Changing {
            process,
            shift,
            outages,
            ..
        } = &**changing;
        match process {
            ClockedProcess::Fluid(fluid) => {
                let need = u128::from(len) * u128::from(NS_BITS);
                let over = u128::from(self.over_charged);
                if need <= over {
                    self.over_charged = (over - need) as u64;
                    return self.free_at;
                }
                let from = self.free_at.saturating_add(*shift);
                let finish = fluid.finish(from, need - over, outages.as_ref());
                // The surplus is less than a rate, which fits into 64 bits.
                self.over_charged = finish.surplus as u64;
                self.free_at = match finish.at_ns {
                    Nanos::MAX => Nanos::MAX,
                    at => at.saturating_sub(*shift),
                };
                self.free_at
            }
            ClockedProcess::Opportunities(_) => {
                let end = changing.deliver(len, self.free_at);
                self.free_at = changing.free_at(self.free_at);
                end
            }
        }
    }

    /// The time that `len` bytes take, rounded up, and the amount of the rounding.
    #[inline]
    fn charge(&mut self, len: u32, rate: u64) -> (Nanos, u64) {
        if self.last.len != len {
            let need = u64::from(len) * NS_BITS;
            self.last = Division {
                len,
                whole: need / rate,
                rest: need % rate,
            };
        }
        let Division { whole, rest, .. } = self.last;
        let over = self.over_charged;
        // The credit is less than one unit of the quotient.
        match (whole, rest >= over) {
            (_, true) if rest == over => (whole, 0),
            (_, true) => (whole + 1, rate - (rest - over)),
            (0, false) => (0, over - rest),
            (_, false) => (whole, over - rest),
        }
    }

    #[cold]
    fn charge_long(&self, len: u32, rate: u64) -> (Nanos, u64) {
        let rate = u128::from(rate);
        let (need, over) = (
            u128::from(len) * u128::from(NS_BITS),
            u128::from(self.over_charged),
        );
        if need <= over {
            return (0, (over - need) as u64);
        }
        let need = need - over;
        let ticks = u64::try_from(need.div_ceil(rate)).unwrap_or(u64::MAX);
        (ticks, ((rate - need % rate) % rate) as u64)
    }
}

impl Changing {
    /// The delivery opportunities, if the schedule consists of them.
    fn opportunities(&self) -> Option<&Opportunities> {
        match &self.process {
            ClockedProcess::Opportunities(it) => Some(it),
            ClockedProcess::Fluid(_) => None,
        }
    }

    /// Skips opportunities before `now`, on the wire's clock.
    fn wait_from(&mut self, now: Nanos) {
        let now = now.saturating_add(self.shift);
        let Some(it) = self.opportunities() else {
            return;
        };
        if self.left > 0 && it.time(self.number) >= now {
            return;
        }
        let number = it.first_usable(it.first_from(now), self.outages.as_ref());
        (self.number, self.left) = (number, it.bytes);
    }

    /// The time at which the wire is free, on its own clock: the next opportunity or, without
    /// opportunities, `before`.
    fn free_at(&self, before: Nanos) -> Nanos {
        match self.opportunities().map(|it| it.time(self.number)) {
            None => before,
            Some(Nanos::MAX) => Nanos::MAX,
            Some(at) => at.saturating_sub(self.shift),
        }
    }

    /// Delivers `len` bytes that are ready at `ready`. Returns the time at which the last of them
    /// leaves.
    fn deliver(&mut self, len: u32, ready: Nanos) -> Nanos {
        self.wait_from(ready);
        let Some(it) = self.opportunities() else {
            return ready;
        };
        let (mut number, mut left, mut rest) = (self.number, self.left, len);
        while rest > left {
            rest -= left;
            left = it.bytes;
            number = it.first_usable(number.saturating_add(1), self.outages.as_ref());
        }
        left -= rest;
        let end = it.time(number);
        if left == 0 {
            left = it.bytes;
            number = it.first_usable(number.saturating_add(1), self.outages.as_ref());
        }
        (self.number, self.left) = (number, left);
        match end {
            Nanos::MAX => Nanos::MAX,
            end => end.saturating_sub(self.shift),
        }
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
    fn lengths_in_any_order_end_where_their_sum_does() {
        let mut rng = ackwise_rng::Rng::new(5);
        for rate in [
            1,
            7,
            300_000,
            10_000_000,
            999_999_937,
            u64::MAX / 3,
            u64::MAX,
        ] {
            let mut wire = Serialiser::new(Some(rate));
            let mut bits = 0u128;
            for _ in 0..300 {
                let len = [0, 1, 40, 1500, 1 << 20, u32::MAX][rng.below(6) as usize];
                bits += u128::from(len) * u128::from(NS_BITS);
                let end = bits.div_ceil(u128::from(rate));
                let end = u64::try_from(end).unwrap_or(u64::MAX);
                assert_eq!(wire.send(len, 0), end, "{len} at {rate}");
            }
        }
    }

    #[test]
    fn no_rate_takes_no_time() {
        let mut wire = Serialiser::new(None);
        assert_eq!(wire.send(1514, 77), 77);
    }
}
