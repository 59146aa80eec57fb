//! The control law (see the crate's documentation).

use std::collections::VecDeque;

use crate::Nanos;
use crate::recent_max::RecentMax;
use crate::service_curve::{Point, Sample, ServiceCurve, bits_per_s};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
/// The length of a full packet.
const FULL_PACKET_BYTES: u64 = 1514;

/// The target wait behind the interface, µs, in addition to the time of two packets: as short as
/// the noise of round trips allows, and long enough to keep the link busy.
pub const TARGET_US: u64 = 6_000;
/// The time in which a deviation from the target is to be corrected, µs.
pub const DRAIN_US: u64 = 200_000;
/// The number of cuts without effect that shows that packets wait elsewhere.
pub const MAX_FUTILE_CUTS: u32 = 5;
/// The interval at which the queue is emptied, if it was not empty in between, ns.
pub const EMPTY_INTERVAL_NS: Nanos = 10 * SECOND;

/// A shorter wait counts as none, µs, in addition to the time of a packet.
const LOW_US: u64 = 2_000;
/// A wait that exceeds the target by more than this is unwanted, µs, in addition to the time of a
/// packet.
const HIGH_US: u64 = 15_000;
/// The shortest span over which the rate is measured.
const SPAN: Nanos = 75 * MS;
/// The smallest number of packets over which the rate is measured.
const SPAN_PACKETS: u64 = 8;
/// The rate stays between these shares of the measured capacity, in hundredths.
const MIN_RATE_PERCENT: u64 = 25;
const MAX_RATE_PERCENT: u64 = 120;
/// The growth of the rate per round trip and observation while nothing waits, in thousandths.
const GROWTH: u64 = 80;
/// The relative increase of the growth per round trip for which it continues, in thousandths.
const GROWTH_INCREASE: u64 = 400;
/// The maximum growth per round trip and observation, in thousandths.
const MAX_GROWTH: u64 = 350;
/// The growth below half of the link's recent capacity, in thousandths: an outage is over.
const RECOVERY_GROWTH: u64 = 500;
/// A wait is short if it exceeds the target by this much at most, µs.
const SHORT_WAIT_US: u64 = 50_000;
/// The time for which a short wait does not cut the rate below [`MIN_TRUSTED_PERCENT`].
const SHORT_WAIT_TIME: Nanos = 1_500 * MS;
/// While a wait is short, the rate is at least this share of the recent capacity, in hundredths.
const MIN_TRUSTED_PERCENT: u64 = 66;
/// Segments of a flow farther apart than this may be acknowledged by the receiver's timer, µs.
const DELAYED_ACK_US: u64 = 25_000;
/// The time over which packet lengths are averaged.
const AVERAGING_TIME: Nanos = SECOND;
/// Sending less than this share of the rate is too little to learn from, in hundredths.
const LOADED_PERCENT: u64 = 75;
/// A sample older than this says nothing about the present.
const MAX_SAMPLE_AGE: Nanos = 2 * SECOND;
/// The time after which a wait elsewhere is checked again; it doubles each time the wait is still
/// there.
const RECHECK_INTERVAL: Nanos = 10 * SECOND;
const MAX_RECHECK_INTERVAL: Nanos = 160 * SECOND;
/// If the capacity falls below this share while a small wait persists, that wait is not a queue of
/// the link; in hundredths.
const SMALL_WAIT_PERCENT: u64 = 70;
/// The number of bytes in the shaped queue above which that queue limits the senders. It also does
/// so if it drops while the output is near the rate.
const BACKLOG_BYTES: u64 = 2 * FULL_PACKET_BYTES;
/// If for this time nothing limited the senders before the wait, and [`APP_LIMITED_SAMPLES`]
/// samples showed the wait, it is not a queue of the link.
const APP_LIMITED_TIME: Nanos = 2 * SECOND;
/// The number of samples that must show a wait, while nothing limits the senders, before it counts
/// as no queue of the link. If the link has become much slower, samples are rare, and all that the
/// senders have in flight waits there before the first of them arrives.
const APP_LIMITED_SAMPLES: u32 = 4;
/// While nothing is learnt, the rate doubles in about two thirds of this time.
const SLOW_RISE_TIME: Nanos = 3 * SECOND;
/// The time after which an attempt to empty the queue is abandoned.
const MAX_EMPTYING_TIME: Nanos = SECOND;
/// A wait that an attempt to empty the queue changed by no more than this, µs, and by no more than
/// a tenth, is not a queue of the link. Near the minimum rate a queue becomes shorter slowly.
const SAME_WAIT_US: u32 = 20_000;

/// The bounds of the result, bit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The lowest rate, bit/s.
    pub min_bps: u64,
    /// The highest rate, bit/s.
    pub max_bps: u64,
}

/// What has left the interface since the start, as it counts against the rate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bytes sent.
    pub bytes: u64,
    /// The sum of the squared packet lengths, in bytes squared; it may wrap. Divided by the bytes,
    /// it is the mean over all bytes of the length of a byte's packet.
    pub squared_lengths: u64,
}

/// What was seen since the last observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The time now; it never goes back.
    pub at_ns: Nanos,
    /// What has left the interface since the start.
    pub sent: Sent,
    /// Bytes waiting in the shaped queue.
    pub backlog_bytes: u64,
    /// Whether the shaped queue dropped packets recently. One that filters ACKs limits flows of
    /// ACKs with hardly a packet in it.
    pub has_dropped: bool,
    /// The round trip with the shortest wait among those that ended since the last observation, if
    /// there was any.
    pub sample: Option<Sample>,
}

impl Sample {
    /// Says whether the sample is possible: a packet that was answered has waited already.
    fn is_possible(&self, now: Nanos) -> bool {
        let waited = u64::from(self.waited_us) * 1_000;
        self.left_ns.saturating_add(waited) <= now
    }
}

/// What the estimator is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// No recent sample: the rate rises, since nothing says that it must not.
    Blind,
    /// Too little is sent to learn from: the rate rises.
    Idle,
    /// Nothing waits behind the interface: the rate grows.
    Growing,
    /// Something waits behind the interface: the rate follows the link's.
    Following,
}

/// Successive cuts, and whether they help.
#[derive(Debug, Clone, Copy)]
struct Cuts {
    /// The wait at the last cut, µs.
    waited_us: u32,
    /// The time from which departing packets show the effect of the last cut.
    effective_at: Nanos,
    futile_cuts: u32,
}

/// An attempt to empty the queue.
#[derive(Debug, Clone, Copy)]
struct Attempt {
    since: Nanos,
    /// The wait before it, µs.
    waited_us: u32,
    /// The rate before it, bit/s.
    rate_bps: u64,
}

/// Estimates a link's bandwidth between two bounds.
#[derive(Debug, Clone)]
pub struct Estimator {
    bounds: Bounds,
    rate_bps: u64,
    capacity_bps: Option<u64>,
    /// The last capacity measured since packets began to wait, bit/s.
    waiting_capacity_bps: Option<u64>,
    curve: ServiceCurve,
    /// The base delay: the wait that persists elsewhere, µs.
    base_delay_us: u32,
    base_delay_since: Nanos,
    recheck_interval: Nanos,
    /// The capacity when a small wait began that was no reason to cut.
    small_wait_bps: Option<u64>,
    sampled_at: Option<Nanos>,
    /// The last round trip, ns.
    rtt_ns: Nanos,
    /// What had left at the last observation.
    last_sent: Option<Sent>,
    /// What left recently; older observations count less.
    recent_sent: Sent,
    /// Bytes that had left, at recent observations.
    sent_history: VecDeque<(Nanos, u64)>,
    growth: u64,
    cuts: Option<Cuts>,
    /// The last time at which nothing waited.
    empty_at: Nanos,
    emptying_since: Option<Nanos>,
    /// The last attempt to empty the queue, until a packet that left at its end is answered.
    attempt: Option<Attempt>,
    /// The time of the last observation.
    observed_at: Option<Nanos>,
    /// The last time at which packets waited in the shaped queue, or nothing waited behind it.
    app_limited_since: Nanos,
    /// The number of samples with a wait since then.
    app_limited_samples: u32,
    /// The rate when packets began to wait.
    before_wait_bps: u64,
    state: State,
    /// The highest recent capacity, bit/s.
    max_capacity: RecentMax,
    /// The highest recent capacity since the last wait that was not short, bit/s.
    trusted_capacity: RecentMax,
    /// Recent rates and the times at which they began, bit/s.
    rate_history: VecDeque<(Nanos, u64)>,
}

impl Estimator {
    /// Creates an estimator that starts at this rate, bit/s.
    #[must_use]
    pub fn new(bounds: Bounds, start_bps: u64) -> Self {
        let min_bps = bounds.min_bps.max(1);
        let bounds = Bounds {
            min_bps,
            max_bps: bounds.max_bps.max(min_bps),
        };
        Self {
            bounds,
            rate_bps: start_bps.clamp(bounds.min_bps, bounds.max_bps),
            capacity_bps: None,
            waiting_capacity_bps: None,
            curve: ServiceCurve::default(),
            base_delay_us: 0,
            base_delay_since: 0,
            recheck_interval: RECHECK_INTERVAL,
            small_wait_bps: None,
            sampled_at: None,
            rtt_ns: 0,
            last_sent: None,
            recent_sent: Sent::default(),
            sent_history: VecDeque::new(),
            growth: GROWTH,
            cuts: None,
            empty_at: 0,
            emptying_since: None,
            attempt: None,
            observed_at: None,
            app_limited_since: 0,
            app_limited_samples: 0,
            before_wait_bps: start_bps,
            state: State::Blind,
            max_capacity: RecentMax::default(),
            trusted_capacity: RecentMax::default(),
            rate_history: VecDeque::new(),
        }
    }

    /// Returns the rate for the queue, bit/s.
    #[must_use]
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Returns the last measured capacity of the link, bit/s; `None` if there is none at present.
    #[must_use]
    pub fn capacity_bps(&self) -> Option<u64> {
        self.capacity_bps
    }

    /// Returns what the estimator is doing.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Takes an observation and returns the rate from now on, bit/s.
    pub fn observe(&mut self, observation: &Observation) -> u64 {
        let passed = observation.at_ns
            - self
                .observed_at
                .replace(observation.at_ns)
                .unwrap_or(observation.at_ns);
        self.remember_sent(observation, passed);
        let observation = &Observation {
            sample: observation
                .sample
                .filter(|it| it.is_possible(observation.at_ns)),
            ..*observation
        };
        if self.shaper_limits(observation) {
            self.restart_app_limited(observation);
        }
        let step = observation
            .at_ns
            .saturating_sub(self.sampled_at.unwrap_or(observation.at_ns));
        if let Some(sample) = &observation.sample {
            self.add_sample(observation, sample);
        }
        let fresh = self
            .sampled_at
            .is_some_and(|at| observation.at_ns - at <= MAX_SAMPLE_AGE.max(2 * self.rtt_ns));
        let Some(last) = self.curve.last().filter(|_| fresh) else {
            self.state = State::Blind;
            self.cuts = None;
            self.emptying_since = None;
            self.attempt = None;
            self.capacity_bps = None;
            self.waiting_capacity_bps = None;
            self.rise_slowly(passed);
            self.remember_rate(observation);
            return self.rate_bps;
        };
        if last.waited_us <= self.low_us() {
            self.empty_at = observation.at_ns;
            self.emptying_since = None;
            self.attempt = None;
            self.cuts = None;
            self.small_wait_bps = None;
            self.waiting_capacity_bps = None;
            self.restart_app_limited(observation);
            if observation.sample.is_some() {
                self.grow(observation, step);
            }
            // At a low rate the receiver's timer answers, which tells nothing: a sample is overdue.
            let is_delayed_ack = 2 * self.packet_us() > DELAYED_ACK_US;
            let is_overdue = is_delayed_ack && step > 2 * self.rtt_ns + SPAN;
            if self.state == State::Idle || is_overdue {
                self.rise_slowly(passed);
            }
            self.before_wait_bps = self.rate_bps;
        } else if observation.sample.is_some() {
            self.follow(observation, last);
        } else if self.state == State::Following
            && let Some(capacity) = self.measured_bps().or(self.waiting_capacity_bps)
        {
            // Until the next sample, use the computed wait. The rate of the last sample would
            // continue to drain a queue that is gone.
            let waits_us = self.current_wait_us(observation, last);
            self.approach(observation, last, capacity, waits_us);
        }
        self.remember_rate(observation);
        self.rate_bps
    }

    fn remember_rate(&mut self, observation: &Observation) {
        if self
            .rate_history
            .back()
            .is_none_or(|(_, bps)| *bps != self.rate_bps)
        {
            self.rate_history
                .push_back((observation.at_ns, self.rate_bps));
        }
        while self.rate_history.len() > 1
            && observation.at_ns - self.rate_history[1].0 > MAX_SAMPLE_AGE
        {
            self.rate_history.pop_front();
        }
    }

    /// The rate at a past time, as far back as it is remembered.
    fn rate_at(&self, at: Nanos) -> u64 {
        let then = self
            .rate_history
            .iter()
            .rev()
            .find(|(since, _)| *since <= at);
        then.or(self.rate_history.front())
            .map_or(self.rate_bps, |(_, bps)| *bps)
    }

    /// Restarts the check whether nothing limits the senders.
    fn restart_app_limited(&mut self, observation: &Observation) {
        self.app_limited_since = observation.at_ns;
        self.app_limited_samples = 0;
    }

    fn remember_sent(&mut self, observation: &Observation, passed: Nanos) {
        let last = self
            .last_sent
            .replace(observation.sent)
            .unwrap_or(observation.sent);
        let of_late = |all: u64, now: u64, last: u64| {
            let left = u128::from(all) * u128::from(AVERAGING_TIME.saturating_sub(passed));
            let left = u64::try_from(left / u128::from(AVERAGING_TIME)).unwrap_or(u64::MAX);
            left.saturating_add(now.wrapping_sub(last))
        };
        let all = self.recent_sent;
        self.recent_sent = Sent {
            bytes: of_late(all.bytes, observation.sent.bytes, last.bytes),
            squared_lengths: of_late(
                all.squared_lengths,
                observation.sent.squared_lengths,
                last.squared_lengths,
            ),
        };
        self.sent_history
            .push_back((observation.at_ns, observation.sent.bytes));
        while self.sent_history.len() > 2
            && observation.at_ns - self.sent_history[1].0 >= self.span()
        {
            self.sent_history.pop_front();
        }
    }

    /// The rate at which bytes left recently, bit/s.
    fn sent_bps(&self) -> u64 {
        let (Some(from), Some(to)) = (self.sent_history.front(), self.sent_history.back()) else {
            return 0;
        };
        bits_per_s(to.1.saturating_sub(from.1), to.0 - from.0).unwrap_or(0)
    }

    /// Says whether the output is near the rate.
    fn is_loaded(&self) -> bool {
        self.sent_bps() >= self.rate_bps / 100 * LOADED_PERCENT
    }

    /// Says whether the shaped queue limits the senders. A filter also drops ACKs of a burst at any
    /// rate.
    fn shaper_limits(&self, observation: &Observation) -> bool {
        observation.backlog_bytes > BACKLOG_BYTES || (observation.has_dropped && self.is_loaded())
    }

    fn add_sample(&mut self, observation: &Observation, sample: &Sample) {
        self.sampled_at = Some(observation.at_ns);
        self.rtt_ns = observation.at_ns.saturating_sub(sample.left_ns);
        if observation.at_ns.saturating_sub(self.base_delay_since) > self.recheck_interval {
            self.base_delay_us = 0;
        }
        self.base_delay_us = self.base_delay_us.min(sample.waited_us);
        let waited_us = sample.waited_us - self.base_delay_us;
        self.curve.push(Point {
            served_ns: sample.left_ns + u64::from(waited_us) * 1_000,
            bytes: sample.bytes,
            waited_us,
        });
    }

    /// The typical length of departing packets, in bytes: near a full packet if most bytes are in
    /// such, small if only ACKs leave.
    fn packet_bytes(&self) -> u64 {
        let Sent {
            bytes,
            squared_lengths,
        } = self.recent_sent;
        let mean = squared_lengths
            .checked_div(bytes)
            .unwrap_or(FULL_PACKET_BYTES);
        mean.min(FULL_PACKET_BYTES)
    }

    /// The time of a packet at the link's capacity or, if that is unknown, at the queue's rate, µs.
    fn packet_us(&self) -> u64 {
        let bps = self.capacity_bps.unwrap_or(self.rate_bps);
        self.packet_bytes() * 8 * 1_000_000 / bps.max(1)
    }

    fn low_us(&self) -> u32 {
        u32::try_from(LOW_US + self.packet_us()).unwrap_or(u32::MAX)
    }

    fn target_us(&self) -> u64 {
        TARGET_US + 2 * self.packet_us()
    }

    fn span(&self) -> Nanos {
        SPAN.max(SPAN_PACKETS * self.packet_us() * 1_000)
    }

    /// The capacity that the last points show, bit/s.
    fn measured_bps(&self) -> Option<u64> {
        self.curve.capacity(self.low_us(), self.span())
    }

    /// The time for which a packet that leaves now will wait, µs: what has left since the last
    /// point, less what the link has served since then.
    fn current_wait_us(&self, observation: &Observation, last: Point) -> u64 {
        let capacity = u128::from(self.capacity_bps.unwrap_or(self.rate_bps).max(1));
        let bits = 8 * u128::from(observation.sent.bytes.saturating_sub(last.bytes));
        let added_us = bits * 1_000_000 / capacity;
        let served_us = u128::from(observation.at_ns.saturating_sub(last.served_ns) / 1_000);
        // If the packet of the last point still waits, its service time is in the future.
        let early_us = u128::from(last.served_ns.saturating_sub(observation.at_ns) / 1_000);
        u64::try_from((added_us + early_us).saturating_sub(served_us)).unwrap_or(u64::MAX)
    }

    fn set_rate(&mut self, bps: u64) {
        self.rate_bps = bps.clamp(self.bounds.min_bps, self.bounds.max_bps);
    }

    /// Raises the rate because what was learnt may no longer be true: a rate that is too low would
    /// hold back for ever what cannot be timed, and one that is too high is discovered as soon as
    /// there is load.
    fn rise_slowly(&mut self, passed: Nanos) {
        let more = u128::from(self.rate_bps) * u128::from(passed) / u128::from(SLOW_RISE_TIME);
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        self.set_rate(self.rate_bps.saturating_add(more));
    }

    fn grow(&mut self, observation: &Observation, step: Nanos) {
        // A queue is enough to send, however little has left.
        if !self.shaper_limits(observation) && !self.is_loaded() {
            self.state = State::Idle;
            self.growth = GROWTH;
            return;
        }
        self.state = State::Growing;
        // What has left shows that the link carries as much.
        let round = self.rtt_ns + step.max(1);
        let span = u128::from(step.min(round));
        let growth = if self.rate_bps < self.max_capacity.get(observation.at_ns) / 2 {
            RECOVERY_GROWTH.max(self.growth)
        } else {
            self.growth
        };
        let more =
            u128::from(self.rate_bps) * u128::from(growth) * span / (1_000 * u128::from(round));
        let faster = u128::from(self.growth * GROWTH_INCREASE) * span / (1_000 * u128::from(round));
        let faster = u64::try_from(faster).unwrap_or(u64::MAX);
        self.growth = self.growth.saturating_add(faster).min(MAX_GROWTH);
        let more = u64::try_from(more).unwrap_or(u64::MAX).max(1);
        self.set_rate(self.rate_bps.saturating_add(more));
        let sent = self.sent_bps();
        if self.capacity_bps.is_some_and(|known| known < sent) {
            self.capacity_bps = Some(sent);
        }
    }

    fn follow(&mut self, observation: &Observation, last: Point) {
        self.state = State::Following;
        self.growth = GROWTH;
        let waits_us = self.current_wait_us(observation, last);
        let measured = self.measured_bps();
        let Some(capacity) = measured.or(self.waiting_capacity_bps) else {
            // The growth since the first waiting packet left was already too much.
            let then = self.rate_at(observation.at_ns - self.rtt_ns);
            self.set_rate(self.rate_bps.min(then));
            return;
        };
        self.app_limited_samples += 1;
        if observation.at_ns - self.app_limited_since > APP_LIMITED_TIME
            && self.app_limited_samples >= APP_LIMITED_SAMPLES
        {
            // What was measured is what the senders offer, not what the link carries.
            self.restart_app_limited(observation);
            self.accept_base_delay(observation, last, self.before_wait_bps);
            return;
        }
        if measured.is_none() {
            // After a fall the span for a new measurement is longer. Meanwhile, use the last one.
            self.approach(observation, last, capacity, waits_us);
            return;
        }
        if self.detect_futile_attempt(observation, last)
            || self.detect_wait_elsewhere(observation, last, capacity)
        {
            return;
        }
        self.capacity_bps = Some(capacity);
        self.waiting_capacity_bps = Some(capacity);
        self.max_capacity.add(capacity, observation.at_ns);
        self.approach(observation, last, capacity, waits_us);
    }

    /// Sets the rate that brings the current wait to its target. `old_wait_us` is that wait as
    /// computed from the capacity known before: it says whether the wait is short, since a single
    /// measurement may be wrong.
    fn approach(
        &mut self,
        observation: &Observation,
        last: Point,
        capacity: u64,
        old_wait_us: u64,
    ) {
        let target = self.current_target_us(observation, last);
        let waits_us = self.current_wait_us(observation, last);
        let (drain, waits) = (i128::from(DRAIN_US), i128::from(waits_us));
        let parts = drain + i128::from(target) - waits;
        let rate = i128::from(capacity) * parts / drain;
        let of = |hundredths: u64| i128::from(capacity) * i128::from(hundredths) / 100;
        let rate = rate.clamp(of(MIN_RATE_PERCENT), of(MAX_RATE_PERCENT));
        let rate = u64::try_from(rate).unwrap_or(1);
        let min_bps = self.min_bps_for(observation, last, capacity, old_wait_us);
        self.set_rate(rate.max(min_bps));
    }

    /// Returns the lowest rate that this wait justifies. When the delay of the path beyond the link
    /// goes up and down, it looks like a short queue, and the measured capacity equals what is sent,
    /// so that each cut would justify the next one. If the link has in fact become slower than this
    /// rate, the wait soon is not short any more.
    fn min_bps_for(
        &mut self,
        observation: &Observation,
        last: Point,
        capacity: u64,
        waits_us: u64,
    ) -> u64 {
        if waits_us.max(u64::from(last.waited_us)) > self.target_us() + SHORT_WAIT_US {
            self.trusted_capacity.restart(capacity, observation.at_ns);
            return 0;
        }
        self.trusted_capacity.add(capacity, observation.at_ns);
        if observation.at_ns - self.empty_at > SHORT_WAIT_TIME {
            return 0;
        }
        self.trusted_capacity.get(observation.at_ns) / 100 * MIN_TRUSTED_PERCENT
    }

    /// The current target wait: none if the queue has not been empty for long.
    fn current_target_us(&mut self, observation: &Observation, last: Point) -> u64 {
        let since = *self.emptying_since.get_or_insert(observation.at_ns);
        if observation.at_ns - self.empty_at < EMPTY_INTERVAL_NS {
            self.emptying_since = None;
            return self.target_us();
        }
        if since == observation.at_ns {
            self.attempt = Some(Attempt {
                since,
                waited_us: last.waited_us,
                rate_bps: self.rate_bps,
            });
        }
        if observation.at_ns - since > MAX_EMPTYING_TIME {
            self.empty_at = observation.at_ns;
            self.emptying_since = None;
        }
        0
    }

    /// Says whether an attempt to empty the queue has left the wait as it was, so that packets wait
    /// elsewhere. If so, that wait is the new base delay. A long wait cuts the rate to the minimum in
    /// fewer cuts than show that they do not help.
    fn detect_futile_attempt(&mut self, observation: &Observation, last: Point) -> bool {
        let Some(attempt) = self.attempt else {
            return false;
        };
        let left = last.served_ns - u64::from(last.waited_us) * 1_000;
        if left < attempt.since + MAX_EMPTYING_TIME * 9 / 10 {
            return false;
        }
        self.attempt = None;
        let was_us = attempt.waited_us;
        if last.waited_us.abs_diff(was_us) > SAME_WAIT_US.min(was_us / 10) {
            return false;
        }
        self.accept_base_delay(observation, last, attempt.rate_bps);
        true
    }

    /// Says whether cuts do not help, so that packets wait elsewhere. If so, the cuts are taken
    /// back.
    fn detect_wait_elsewhere(
        &mut self,
        observation: &Observation,
        last: Point,
        capacity: u64,
    ) -> bool {
        let high = self.target_us() + HIGH_US + self.packet_us();
        if u64::from(last.waited_us) <= high {
            self.cuts = None;
            let was = *self.small_wait_bps.get_or_insert(capacity);
            if capacity >= was / 100 * SMALL_WAIT_PERCENT {
                return false;
            }
            self.accept_base_delay(observation, last, self.rate_bps);
            return true;
        }
        self.small_wait_bps = None;
        let Some(cuts) = &mut self.cuts else {
            self.cuts = Some(Cuts {
                waited_us: last.waited_us,
                effective_at: observation.at_ns,
                futile_cuts: 0,
            });
            return false;
        };
        // Ignore a packet that left before the last cut took effect.
        let left = last.served_ns - u64::from(last.waited_us) * 1_000;
        if left < cuts.effective_at {
            return false;
        }
        let helped = last.waited_us < cuts.waited_us / 10 * 9;
        // If the link follows the cut and no queue becomes shorter, there is no queue.
        let follows = self.capacity_bps.is_some_and(|was| capacity < was / 10 * 6);
        cuts.futile_cuts = match (helped, follows) {
            (true, _) => 0,
            (false, true) => cuts.futile_cuts + 1,
            (false, false) => cuts.futile_cuts,
        };
        cuts.waited_us = last.waited_us;
        cuts.effective_at = observation.at_ns + SPAN;
        if cuts.futile_cuts < MAX_FUTILE_CUTS {
            return false;
        }
        self.accept_base_delay(observation, last, self.before_wait_bps);
        true
    }

    /// Treats the wait as elsewhere than in a queue of the link. The rate returns to what it was
    /// before.
    fn accept_base_delay(&mut self, observation: &Observation, last: Point, before_bps: u64) {
        let again = self.base_delay_since > 0
            && observation.at_ns - self.base_delay_since < 2 * self.recheck_interval;
        self.recheck_interval = if again {
            (2 * self.recheck_interval).min(MAX_RECHECK_INTERVAL)
        } else {
            RECHECK_INTERVAL
        };
        self.base_delay_us = self.base_delay_us.saturating_add(last.waited_us);
        self.base_delay_since = observation.at_ns;
        self.curve.clear();
        self.attempt = None;
        self.cuts = None;
        self.small_wait_bps = None;
        self.capacity_bps = None;
        self.waiting_capacity_bps = None;
        self.set_rate(before_bps);
    }
}
