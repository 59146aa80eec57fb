//! Random early detection (Floyd and Jacobson, "Random Early Detection Gateways
//! for Congestion Avoidance", 1993), with later additions: marks
//! (RFC 3168), the gentle mode, and ns-2.35's automatic settings.
//!
//! ```text
//! at each arrival     avg ← (1 − w)^m · avg + w · q     m = 1 + packets that an idle link missed
//! min ≤ avg < max     p_b = max_p · (avg − min) / (max − min)
//! max ≤ avg, gentle   p_b = max_p … 1 over max … 2·max
//! p_a                 = p_b / (1 − count · p_b), or with `wait` none until count · p_b ≥ 1
//! ```
//!
//! Only operations that IEEE 754 rounds exactly are used on `f64`, so the results are the same on
//! every machine.

use crate::Nanos;
use crate::packet::Ecn;
use ackwise_rng::Rng;

/// The unit in which RED measures a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RedUnit {
    /// Packets, whatever their length.
    Packets,
    /// Bytes: a small packet is dropped less often than a large one.
    Bytes,
}

/// The parameters of RED. Thresholds are in the chosen unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RedConfig {
    /// The unit of the thresholds, of the average and of the count since the last drop.
    pub unit: RedUnit,
    /// The lower threshold: below this average nothing is dropped.
    pub min: f64,
    /// The upper threshold: up to this average the probability grows to `max_p`.
    pub max: f64,
    /// The probability at `max`.
    pub max_p: f64,
    /// The weight of a new sample in the average.
    pub weight: f64,
    /// The gentle mode: above `max` the probability continues to grow, to 1 at twice `max`.
    pub gentle: bool,
    /// Drops are 1/p to 2/p packets apart, instead of 1 to 1/p.
    pub wait: bool,
    /// Marks ECN-capable packets instead of dropping them.
    pub ecn: bool,
    /// Marks only while the probability is at most this, and drops above it (`mark_p_`). With it,
    /// no average forces a drop: ns-2.35's `use_mark_p_`.
    pub mark_limit: Option<f64>,
    /// The length of a typical packet in bytes.
    pub mean_packet: u32,
    /// The rate of the link behind the queue, at which the average decays while the link is idle.
    pub rate_bps: u64,
}

impl RedConfig {
    /// S. Floyd's later recommendation ("RED: Discussions of Setting Parameters", 1997): thresholds
    /// of 5 and 15 packets, weight 0.002, `max_p` 0.1; the gaps between drops as in the 1993 paper.
    #[must_use]
    pub fn floyd(rate_bps: u64) -> Self {
        Self {
            unit: RedUnit::Packets,
            min: 5.0,
            max: 15.0,
            max_p: 0.1,
            weight: 0.002,
            gentle: false,
            wait: false,
            ecn: false,
            mark_limit: None,
            mean_packet: 500,
            rate_bps,
        }
    }

    /// The defaults of ns-2.35 for a link, with automatic thresholds and weight:
    /// min = max(5, 0.005 s · ptc / 2) packets, max = 3 · min,
    /// w = 1 − exp(−1 / (10 · max(0.1 s, 3 (delay + 1/ptc)) · ptc)), where ptc is
    /// the rate in packets of `mean_packet` bytes (500 in ns-2).
    #[must_use]
    pub fn ns2(rate_bps: u64, mean_packet: u32, delay_ns: Nanos) -> Self {
        let per_second = packets_per_second(rate_bps, mean_packet);
        let min = f64::max(5.0, 0.005 * per_second / 2.0);
        Self {
            unit: RedUnit::Bytes,
            min: min * f64::from(mean_packet),
            max: 3.0 * min * f64::from(mean_packet),
            max_p: 0.1,
            weight: Self::auto_weight(rate_bps, mean_packet, delay_ns),
            gentle: true,
            wait: true,
            ecn: false,
            mark_limit: Some(0.1),
            mean_packet,
            rate_bps,
        }
    }

    /// The weight that ns-2.35 chooses for `q_weight_ −1`.
    #[must_use]
    pub fn auto_weight(rate_bps: u64, mean_packet: u32, delay_ns: Nanos) -> f64 {
        let per_second = packets_per_second(rate_bps, mean_packet);
        let rtt = f64::max(0.1, 3.0 * (delay_ns as f64 / 1e9 + 1.0 / per_second));
        one_minus_exp(1.0 / (10.0 * rtt * per_second))
    }
}

fn packets_per_second(rate_bps: u64, mean_packet: u32) -> f64 {
    rate_bps.max(1) as f64 / (8.0 * f64::from(mean_packet.max(1)))
}

/// 1 − e⁻ˣ for 0 ≤ x ≤ 1, by its Taylor series in Horner's form: 20 terms leave
/// less than half a unit in the last place.
fn one_minus_exp(x: f64) -> f64 {
    let mut sum = 1.0;
    for term in (2..=20_u32).rev() {
        sum = 1.0 - sum * x / f64::from(term);
    }
    x * sum
}

/// RED's decision about an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Pass,
    Mark,
    /// Drop at random.
    DropEarly,
    /// Drop because the average is above the limit.
    DropForced,
}

#[derive(Debug)]
pub(super) struct Red {
    config: RedConfig,
    average: f64,
    /// Arrivals, and their bytes, since the last drop or mark.
    count: u64,
    count_bytes: u64,
    /// Whether the average was above `min` at the last arrival.
    above: bool,
    /// Set while the queue is empty: the time at which the wire becomes idle.
    idle_from: Option<Nanos>,
    rng: Rng,
}

impl Red {
    pub fn new(config: RedConfig, seed: u64) -> Self {
        Self {
            config,
            average: 0.0,
            count: 0,
            count_bytes: 0,
            above: false,
            idle_from: Some(0),
            rng: Rng::stream(seed, 16),
        }
    }

    pub fn average(&self) -> f64 {
        self.average
    }

    pub fn arrival(
        &mut self,
        packets: usize,
        bytes: u64,
        len: u32,
        ecn: Ecn,
        now: Nanos,
    ) -> Decision {
        let waiting = match self.config.unit {
            RedUnit::Packets => packets as u64,
            RedUnit::Bytes => bytes,
        };
        self.estimate(waiting, now);
        self.count += 1;
        self.count_bytes += u64::from(len);
        if self.average < self.config.min || waiting <= 1 {
            self.above = false;
            return Decision::Pass;
        }
        let forced_at = if self.config.gentle { 2.0 } else { 1.0 } * self.config.max;
        if self.config.mark_limit.is_none() && self.average >= forced_at {
            self.dropped();
            return Decision::DropForced;
        }
        if !self.above {
            // The first arrival above the threshold is not dropped.
            self.above = true;
            self.count = 1;
            self.count_bytes = u64::from(len);
            return Decision::Pass;
        }
        let base = self.base_probability();
        let probability = self.spaced(base, len);
        if self.uniform() >= probability {
            return Decision::Pass;
        }
        self.dropped();
        let may_mark = self.config.ecn && self.config.mark_limit.is_none_or(|most| base <= most);
        match ecn {
            Ecn::Marked if may_mark => Decision::Pass,
            Ecn::Capable if may_mark => Decision::Mark,
            _ => Decision::DropEarly,
        }
    }

    /// Notes that a packet was dropped, by RED or because the queue was full.
    pub fn dropped(&mut self) {
        self.count = 0;
        self.count_bytes = 0;
    }

    /// Sets the link's rate from now on. Thresholds and weight stay the same.
    pub fn rate_changed(&mut self, bps: u64) {
        self.config.rate_bps = bps;
    }

    /// Notes that the last packet of the queue leaves, and occupies the wire for its length.
    pub fn emptied(&mut self, len: u32, now: Nanos) {
        let rate = u128::from(self.config.rate_bps.max(1));
        let busy = (u128::from(len) * 8_000_000_000).div_ceil(rate);
        let busy = Nanos::try_from(busy).unwrap_or(Nanos::MAX);
        self.idle_from = Some(now.saturating_add(busy));
    }

    fn estimate(&mut self, waiting: u64, now: Nanos) {
        if let Some(idle) = self.idle_from.take().and_then(|from| now.checked_sub(from)) {
            let per_second = packets_per_second(self.config.rate_bps, self.config.mean_packet);
            let missed = (per_second * idle as f64 / 1e9) as u64;
            self.average *= power(1.0 - self.config.weight, missed);
        }
        self.average *= 1.0 - self.config.weight;
        self.average += self.config.weight * waiting as f64;
    }

    /// p_b: the probability by the average alone.
    fn base_probability(&self) -> f64 {
        let RedConfig {
            min, max, max_p, ..
        } = self.config;
        let p = if self.average < max {
            let span = if max > min { max - min } else { 1.0 };
            max_p * ((self.average - min) / span)
        } else if self.config.gentle {
            (1.0 - max_p) / max * self.average + (2.0 * max_p - 1.0)
        } else {
            1.0
        };
        p.min(1.0)
    }

    /// p_a: the probability that spaces drops evenly over the arrivals since the last one.
    fn spaced(&self, base: f64, len: u32) -> f64 {
        let mean = self.config.mean_packet.max(1);
        let count = match self.config.unit {
            RedUnit::Packets => self.count,
            RedUnit::Bytes => self.count_bytes / u64::from(mean),
        } as f64;
        let owed = count * base;
        let mut p = match (self.config.wait, owed) {
            (true, owed) if owed < 1.0 => 0.0,
            (true, owed) if owed < 2.0 => base / (2.0 - owed),
            (false, owed) if owed < 1.0 => base / (1.0 - owed),
            _ => 1.0,
        };
        if self.config.unit == RedUnit::Bytes && p < 1.0 {
            p = p * f64::from(len) / f64::from(mean);
        }
        p.min(1.0)
    }

    /// A random number in [0, 1), a multiple of 2⁻⁵³.
    fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Raises `base` to an integer power by squaring.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 && result > 0.0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}
