//! Estimates the bandwidth of the link behind the gateway from the delay that it adds.
//!
//! A link that is fed faster than it sends keeps a queue of its own, for instance in a modem, and
//! each round trip becomes longer by the time that packets wait there. The slope of that delay
//! gives the rate. Between two observations, the gateway sent some bytes and the delay behind it
//! grew from e₁ to e₂, so that the link's rate was
//!
//! ```text
//!           bytes
//!   c = ─────────────────────
//!       (t₂ − t₁) + (e₂ − e₁)
//! ```
//!
//! This holds whether or not the gateway had something to send all the time: what waits behind
//! it may be all that a connection lets be in flight.
//!
//! The rate goes up while nothing waits behind the gateway and something waits in it: it doubles
//! until the delay has grown once, then grows by a twentieth, twice per second. When the delay
//! grows, c is computed, and the rate becomes 95 % of it after a pause at 70 %, in which the queue
//! drains. If the queue does not drain, packets wait elsewhere on the path: the rate is what it
//! was, and the delay is the new normal. If the delay is gone sooner than a queue can drain, a
//! machine on the path paused for a moment, and the rate is what it was, too. Without load, or
//! without round trips that were measured, nothing changes. The rate always lies between the two
//! bounds that were configured.
//!
//! Time and samples are arguments; the tests have a model of a modem.

use std::collections::VecDeque;

use ackwise_queue::Nanos;

use crate::rtt::RttSamples;

const MS: Nanos = 1_000_000;

/// A bound for the delay: a time, and the time of some full packets at the present rate. An ACK
/// for two segments is late by one of them, and a packet waits for the one before it.
#[derive(Debug, Clone, Copy)]
struct Threshold {
    us: u64,
    packets: u64,
}

/// A delay above this is a queue behind the gateway.
const HIGH: Threshold = Threshold {
    us: 15_000,
    packets: 3,
};
/// A delay below this is none.
const LOW: Threshold = Threshold {
    us: 5_000,
    packets: 2,
};
const PACKET_BITS: u64 = 1514 * 8;
/// The round trips that a judgement needs, unless [`MAX_WAIT`] is over.
const MIN_SAMPLES: u64 = 4;
/// A judgement takes what round trips there are after this time.
const MAX_WAIT: Nanos = 400 * MS;
/// How many judgements in succession must find a queue.
const CONFIRMATIONS: usize = 2;
/// The shortest time over which a slope is taken.
const MIN_SPAN: Nanos = 100 * MS;
/// The age of the oldest judgement that is kept.
const MAX_AGE: Nanos = 10_000 * MS;
/// The time between two increases.
const STEP: Nanos = 500 * MS;
/// The time after a decrease in which the rate does not grow.
const REST: Nanos = 1_000 * MS;
/// Added to the time that a queue takes to drain at 70 %: round trips, and observations.
const GRACE: Nanos = 500 * MS;
/// Half of the time over which the smallest delay is the normal one.
const HALF_WINDOW: Nanos = 5_000 * MS;

/// What was observed since the last observation.
#[derive(Debug, Clone, Copy)]
pub struct Observation {
    /// The time now.
    pub at: Nanos,
    /// The bytes sent since the start, as they count against the rate.
    pub sent_bytes: u64,
    /// Whether something waited in the gateway all the time.
    pub is_busy: bool,
    /// The round trips that were measured, if any.
    pub rtt: Option<RttSamples>,
}

/// Observations that are not judged yet.
#[derive(Debug, Clone, Copy)]
struct Pending {
    samples: u64,
    min_excess_us: u32,
    is_busy: bool,
}

impl Pending {
    const NONE: Pending = Pending {
        samples: 0,
        min_excess_us: u32::MAX,
        is_busy: true,
    };
}

/// A judgement that is kept for the slope.
#[derive(Debug, Clone, Copy)]
struct Judgement {
    at: Nanos,
    sent_bytes: u64,
    delay_us: u32,
}

/// What was concluded when the delay had grown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decrease {
    at: Nanos,
    sent_bytes: u64,
    delay_ns: Nanos,
    measured_bps: u64,
}

impl Decrease {
    /// Says whether half of the delay and more than `low_us` would be left now, had it been a
    /// queue of a link of the measured rate. What was sent since then has come to that queue.
    fn would_wait(&self, seen: &Observation, low_us: u32) -> bool {
        let bits = 8 * u128::from(seen.sent_bytes - self.sent_bytes);
        let added = bits * 1_000_000_000 / u128::from(self.measured_bps.max(1));
        let elapsed = seen.at - self.at + u64::from(low_us) * 1000;
        u128::from(elapsed) < u128::from(self.delay_ns / 2) + added
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The rate grows; it doubles until the first decrease.
    Increase,
    /// The rate is 70 % of `to` until `until`; before that it was `before`.
    Drain {
        to: u64,
        before: u64,
        decrease: Decrease,
        until: Nanos,
    },
    /// The rate stays until then.
    Rest { until: Nanos },
}

/// Estimates a link's bandwidth between two bounds (see the module).
#[derive(Debug, Clone)]
pub struct Estimator {
    min_bps: u64,
    max_bps: u64,
    rate_bps: u64,
    phase: Phase,
    has_measured: bool,
    increased_at: Nanos,
    judgements: VecDeque<Judgement>,
    /// How many judgements in succession found a queue.
    high: usize,
    pending: Pending,
    judged_at: Nanos,
    /// The smallest excess of the last half window and of this one, µs.
    normal_us: [Option<u32>; 2],
    half_window_began: Nanos,
}

impl Estimator {
    /// Makes an estimator between two rates in bit/s. It begins at the lower one.
    #[must_use]
    pub fn new(min_bps: u64, max_bps: u64) -> Self {
        let min_bps = min_bps.max(1);
        Self {
            min_bps,
            max_bps: max_bps.max(min_bps),
            rate_bps: min_bps,
            phase: Phase::Increase,
            has_measured: false,
            increased_at: 0,
            judgements: VecDeque::new(),
            high: 0,
            pending: Pending::NONE,
            judged_at: 0,
            normal_us: [None; 2],
            half_window_began: 0,
        }
    }

    /// Returns the present rate in bit/s.
    #[must_use]
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Says whether the link's own rate was measured yet.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        self.has_measured
    }

    /// Takes an observation and returns the rate from now on, in bit/s.
    pub fn observe(&mut self, seen: Observation) -> u64 {
        let rtt = seen.rtt.unwrap_or(RttSamples {
            count: 0,
            min_excess_us: u32::MAX,
        });
        let pending = Pending {
            samples: self.pending.samples + rtt.count,
            min_excess_us: self.pending.min_excess_us.min(rtt.min_excess_us),
            is_busy: self.pending.is_busy && seen.is_busy,
        };
        self.pending = pending;
        let may_wait = seen.at - self.judged_at < MAX_WAIT;
        if pending.samples == 0 || (pending.samples < MIN_SAMPLES && may_wait) {
            if !may_wait {
                // Whether the queue has drained is not known, so that the pause ends by the clock.
                self.end_drain_by_time(seen.at);
            }
            return self.rate_bps;
        }
        self.pending = Pending::NONE;
        self.judged_at = seen.at;
        let seen = Observation {
            is_busy: pending.is_busy,
            ..seen
        };
        self.judge(seen, pending.min_excess_us);
        self.rate_bps
    }

    /// Returns a threshold in microseconds at the present rate.
    fn us(&self, threshold: Threshold) -> u32 {
        let packet_us = PACKET_BITS * 1_000_000 / self.rate_bps.max(1);
        u32::try_from(threshold.us + threshold.packets * packet_us).unwrap_or(u32::MAX)
    }

    fn judge(&mut self, seen: Observation, excess_us: u32) {
        let (high, low) = (self.us(HIGH), self.us(LOW));
        let delay_us = excess_us.saturating_sub(self.normal(seen.at, excess_us));
        while let Some(oldest) = self.judgements.front()
            && seen.at - oldest.at > MAX_AGE
        {
            self.judgements.pop_front();
        }
        self.judgements.push_back(Judgement {
            at: seen.at,
            sent_bytes: seen.sent_bytes,
            delay_us,
        });
        self.high = if delay_us > high { self.high + 1 } else { 0 };
        let is_low = delay_us < low;
        match self.phase {
            Phase::Drain {
                before, decrease, ..
            } if is_low && decrease.would_wait(&seen, low) => self.was_no_queue(before),
            Phase::Drain { .. } if is_low => self.drained(seen.at),
            Phase::Drain { until, .. } if seen.at >= until => {
                self.waits_elsewhere(seen.at, excess_us);
            }
            Phase::Drain { .. } => {}
            _ if self.high >= CONFIRMATIONS => self.decrease(seen.at),
            Phase::Rest { until } if seen.at < until => {}
            _ if seen.is_busy && is_low => self.increase(seen.at),
            _ => {}
        }
    }

    /// Returns the smallest excess of the last five to ten seconds, µs.
    fn normal(&mut self, at: Nanos, excess_us: u32) -> u32 {
        if at - self.half_window_began >= HALF_WINDOW {
            self.normal_us = [self.normal_us[1], None];
            self.half_window_began = at;
        }
        let min = self.normal_us[1].map_or(excess_us, |known| known.min(excess_us));
        self.normal_us[1] = Some(min);
        self.normal_us[0].map_or(min, |known| known.min(min))
    }

    fn set_rate(&mut self, bps: u64) {
        self.rate_bps = bps.clamp(self.min_bps, self.max_bps);
    }

    fn increase(&mut self, at: Nanos) {
        if at - self.increased_at < STEP {
            return;
        }
        self.increased_at = at;
        self.phase = Phase::Increase;
        let more = if self.has_measured {
            self.rate_bps / 20
        } else {
            self.rate_bps
        };
        self.set_rate(self.rate_bps + more.max(1));
    }

    /// Takes the slope from the last judgement at which nothing waited to this one.
    fn decrease(&mut self, at: Nanos) {
        let low = self.us(LOW);
        let last_low = self.judgements.iter().rposition(|one| one.delay_us < low);
        let from = self.judgements.get(last_low.unwrap_or(0)).copied();
        let to = self.judgements.back().copied();
        let (Some(from), Some(to)) = (from, to) else {
            return;
        };
        if to.at - from.at < MIN_SPAN {
            return;
        }
        let grown = u64::from(to.delay_us.saturating_sub(from.delay_us)) * 1000;
        let span = to.at - from.at + grown;
        let bits = 8 * u128::from(to.sent_bytes - from.sent_bytes) * 1_000_000_000;
        let measured_bps = u64::try_from(bits / u128::from(span)).unwrap_or(u64::MAX);
        let before = self.rate_bps;
        // So little fills no queue behind this gateway; these are ACKs whose data direction is
        // full. More may be a link that has become slower, and whether it drains will tell.
        if measured_bps < before / 8 {
            return;
        }
        let target = measured_bps.min(before) / 20 * 19;
        // The queue drains at the 30 % that are left.
        let delay_ns = u64::from(to.delay_us) * 1000;
        self.phase = Phase::Drain {
            to: target,
            before,
            decrease: Decrease {
                at,
                sent_bytes: to.sent_bytes,
                delay_ns,
                measured_bps,
            },
            until: at + delay_ns * 10 / 3 + GRACE,
        };
        self.set_rate(target / 10 * 7);
        self.high = 0;
    }

    /// A machine on the path was busy with something else, and nothing was learnt.
    fn was_no_queue(&mut self, before: u64) {
        self.set_rate(before);
        self.phase = Phase::Increase;
        self.judgements.clear();
    }

    fn drained(&mut self, at: Nanos) {
        if let Phase::Drain { to, .. } = self.phase {
            self.has_measured = true;
            self.set_rate(to);
            self.rest(at);
        }
    }

    /// The delay is not due to what the gateway sent.
    fn waits_elsewhere(&mut self, at: Nanos, excess_us: u32) {
        if let Phase::Drain { before, .. } = self.phase {
            self.has_measured = true;
            self.set_rate(before);
            self.normal_us = [None, Some(excess_us)];
            self.half_window_began = at;
            self.rest(at);
        }
    }

    fn end_drain_by_time(&mut self, at: Nanos) {
        if let Phase::Drain { until, .. } = self.phase
            && at >= until
        {
            self.drained(at);
        }
    }

    fn rest(&mut self, at: Nanos) {
        self.phase = Phase::Rest { until: at + REST };
        self.judgements.clear();
        self.high = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gateway that always has something to send, and a modem behind it.
    struct Modem {
        estimator: Estimator,
        now: Nanos,
        sent: f64,
        /// Bytes that wait behind the gateway.
        queue: f64,
        /// What waits elsewhere, µs.
        elsewhere_us: u32,
        busy: bool,
        timed: bool,
        /// Bytes that may wait behind the gateway.
        window: Option<f64>,
        /// Everybody else stands still for so many looks of a hundred.
        still: u64,
        /// Looks come late now and then, by up to a second.
        late: bool,
        looks: u64,
    }

    /// What the gateway can have to send when it comes late.
    const WAITS: f64 = 40.0 * 1514.0;

    const LOOK: Nanos = 50 * MS;

    impl Modem {
        fn new() -> Self {
            Self {
                estimator: Estimator::new(200_000, 20_000_000),
                now: 0,
                sent: 0.0,
                queue: 0.0,
                elsewhere_us: 0,
                busy: true,
                timed: true,
                window: None,
                still: 0,
                late: false,
                looks: 0,
            }
        }

        /// Some seconds at a rate of the link; the rates and the delays of the looks.
        fn run(&mut self, link_bps: f64, seconds: f64) -> Vec<(f64, f64)> {
            let end = self.now + (seconds * 1e9) as Nanos;
            let mut seen = Vec::new();
            while self.now < end {
                self.looks += 1;
                let late = [1, 2, 1, 1, 4, 1, 1, 1, 20, 1, 1, 7][self.looks as usize % 12];
                let step = LOOK * if self.late { late } else { 1 };
                self.now += step;
                let (span, before) = (step as f64 / 1e9, self.sent);
                let mut limited = false;
                if self.busy {
                    let mut bytes = self.estimator.rate_bps() as f64 / 8.0 * span;
                    if self.late {
                        bytes = bytes.min(WAITS);
                    }
                    if let Some(window) = self.window {
                        let room = (window - self.queue + link_bps / 8.0 * span).max(0.0);
                        limited = room < bytes;
                        bytes = bytes.min(room);
                    }
                    self.sent += bytes;
                    self.queue += bytes;
                }
                self.queue = (self.queue - link_bps / 8.0 * span).max(0.0);
                let delay_us = self.queue * 8e6 / link_bps;
                // Some ACKs wait for a second segment: never quite the same.
                let packet_us = PACKET_BITS * 1_000_000 / self.estimator.rate_bps();
                let noise = (self.now / LOOK * 7919) % (packet_us + 1500);
                let packets = |bytes: f64| (bytes * 8.0) as u64 / PACKET_BITS;
                let count = packets(self.sent) - packets(before);
                // What they acknowledge when they go on was sent long before.
                let still = self.looks % 100;
                let still_us = if still < self.still { 400_000 } else { 0 };
                self.estimator.observe(Observation {
                    at: self.now,
                    sent_bytes: self.sent as u64,
                    is_busy: self.busy && !limited,
                    rtt: (self.timed && count > 0).then(|| {
                        let us = delay_us as u32 + noise as u32 + self.elsewhere_us;
                        RttSamples {
                            count,
                            min_excess_us: us + still_us,
                        }
                    }),
                });
                seen.push((self.estimator.rate_bps() as f64, delay_us));
            }
            seen
        }
    }

    fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
        values.clone().sum::<f64>() / values.count() as f64
    }

    fn late(seen: &[(f64, f64)]) -> Vec<f64> {
        let mut delays: Vec<f64> = seen.iter().map(|(_, delay)| *delay).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    #[test]
    fn it_finds_the_rate_and_keeps_the_queue_short() {
        for link in [500e3, 2e6, 9e6] {
            let mut modem = Modem::new();
            modem.run(link, 8.0);
            let seen = modem.run(link, 60.0);
            let rate = mean(seen.iter().map(|(rate, _)| *rate));
            assert!((0.85 * link..1.02 * link).contains(&rate), "{link}: {rate}");
            let delays = late(&seen);
            let (median, most) = (delays[delays.len() / 2], delays[delays.len() * 95 / 100]);
            let packet_us = PACKET_BITS as f64 * 1e6 / link;
            assert!(median < 5_000.0 + 2.0 * packet_us, "{link}: {median}");
            assert!(most < 60_000.0 + 8.0 * packet_us, "{link}: {most}");
        }
    }

    #[test]
    fn it_follows_a_link_that_changes() {
        let mut modem = Modem::new();
        modem.run(4e6, 10.0);
        let slow = modem.run(2e6, 3.0);
        assert!(slow.last().unwrap().0 < 2.1e6, "{:?}", slow.last());
        let fast = modem.run(6e6, 25.0);
        assert!(fast.last().unwrap().0 > 4.8e6, "{:?}", fast.last());
    }

    /// A mobile one may fall far, and one that goes up twofold may go up once too often.
    #[test]
    fn it_follows_a_link_that_falls_to_a_fifth() {
        let mut modem = Modem::new();
        modem.window = Some(200_000.0);
        modem.run(10e6, 20.0);
        let seen = modem.run(2e6, 40.0);
        let rate = mean(seen[400..].iter().map(|(rate, _)| *rate));
        assert!((0.8 * 2e6..1.05 * 2e6).contains(&rate), "{rate}");
    }

    /// A window that fits into the modem: nothing waits in the gateway once the rate is
    /// too high.
    #[test]
    fn a_queue_behind_it_shows_though_nothing_waits_before_it() {
        let mut modem = Modem::new();
        modem.window = Some(100_000.0);
        modem.run(3e6, 10.0);
        let seen = modem.run(3e6, 30.0);
        let rate = mean(seen.iter().map(|(rate, _)| *rate));
        assert!((0.8 * 3e6..1.05 * 3e6).contains(&rate), "{rate}");
    }

    /// Each time a cut to a fraction, otherwise, and a quarter of a minute of twentieths.
    #[test]
    fn a_machine_that_stands_still_for_a_moment_is_no_queue() {
        for link in [1e6, 3e6, 9e6] {
            let mut modem = Modem::new();
            modem.still = 3;
            modem.run(link, 20.0);
            let seen = modem.run(link, 60.0);
            let rate = mean(seen.iter().map(|(rate, _)| *rate));
            assert!((0.7 * link..1.05 * link).contains(&rate), "{link}: {rate}");
        }
    }

    #[test]
    fn looks_that_come_late_tell_as_much() {
        for link in [1e6, 3e6] {
            let mut modem = Modem::new();
            modem.late = true;
            modem.run(link, 20.0);
            assert!(modem.estimator.has_measured(), "{link}");
            let seen = modem.run(link, 60.0);
            let rate = mean(seen.iter().map(|(rate, _)| *rate));
            assert!((0.6 * link..1.1 * link).contains(&rate), "{link}: {rate}");
        }
    }

    /// A sender that waits for its timeout and begins again with a few segments.
    #[test]
    fn a_sender_that_stops_and_starts_shows_the_rate_too() {
        let link = 3e6;
        let mut modem = Modem::new();
        let round = |modem: &mut Modem| {
            modem.busy = false;
            modem.run(link, 1.0);
            (modem.busy, modem.window) = (true, Some(10_000.0));
            modem.run(link, 1.0);
            modem.window = None;
            modem.run(link, 2.0)
        };
        for _ in 0..5 {
            round(&mut modem);
        }
        assert!(modem.estimator.has_measured());
        for _ in 0..10 {
            let seen = round(&mut modem);
            let rate = mean(seen.iter().map(|(rate, _)| *rate));
            assert!((0.6 * link..1.2 * link).contains(&rate), "{rate}");
        }
    }

    #[test]
    fn it_never_leaves_its_bounds() {
        let mut modem = Modem::new();
        for link in [50e3, 1e9, 300e3] {
            for (rate, _) in modem.run(link, 20.0) {
                assert!((200_000.0..=20_000_000.0).contains(&rate), "{rate}");
            }
        }
    }

    #[test]
    fn without_load_or_samples_nothing_is_learnt() {
        let mut modem = Modem::new();
        modem.run(2e6, 10.0);
        let rate = modem.estimator.rate_bps();
        modem.busy = false;
        modem.run(2e6, 10.0);
        // A pause may end meanwhile, and no more.
        assert!(modem.estimator.rate_bps() >= rate && modem.estimator.rate_bps() < 2_000_000);
        let rate = modem.estimator.rate_bps();
        (modem.busy, modem.timed) = (true, false);
        modem.run(2e6, 10.0);
        assert_eq!(modem.estimator.rate_bps(), rate);
        let mut blind = Modem::new();
        blind.timed = false;
        blind.run(2e6, 10.0);
        assert_eq!(blind.estimator.rate_bps(), 200_000);
        assert!(!blind.estimator.has_measured());
    }

    #[test]
    fn what_waits_elsewhere_does_not_throttle_it() {
        let mut modem = Modem::new();
        modem.run(2e6, 20.0);
        let before = modem.estimator.rate_bps() as f64;
        // The way back has a queue, for good, and then a longer one.
        for elsewhere in [60_000, 110_000] {
            modem.elsewhere_us = elsewhere;
            let seen = modem.run(2e6, 20.0);
            let last = mean(seen[300..].iter().map(|(rate, _)| *rate));
            assert!(last > 0.85 * before, "{elsewhere}: {last} of {before}");
        }
        // It is gone: the old normal is back at once.
        modem.elsewhere_us = 0;
        let seen = modem.run(2e6, 20.0);
        assert!(late(&seen)[seen.len() * 95 / 100] < 100_000.0);
    }
}
