//! BBR version 1, as in Linux 6.12 (Cardwell et al., "BBR: Congestion-Based Congestion
//! Control", CACM 60(2), 2017; draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! BBR models the path by two numbers, from which the pacing rate and the window
//! follow:
//!
//! ```text
//! bandwidth  = max of delivery-rate samples over 10 round trips
//! min_rtt    = min of RTT samples over 10 s
//! pacing     = pacing_gain · bandwidth · 0.99
//! window     = cwnd_gain · bandwidth · min_rtt + what ACKs come too many at a time
//!
//!   Startup ── bandwidth grew by less than 25 % in three round trips ──▶ Drain
//!   (gains 2.89)                                                (pacing gain 1/2.89)
//!                                                                        │
//!        ┌──────────── in flight is no more than one BDP ────────────────┘
//!        ▼
//!   ProbeBandwidth: pacing gains 1.25, 0.75 and six times 1, a min_rtt each; cwnd gain 2
//!        │  ▲
//!        │  └── 200 ms and a round trip later (to Startup if the pipe was never full)
//!        ▼
//!   ProbeRtt: no more than four segments in flight, when min_rtt is 10 s old
//! ```
//!
//! Where a policer limits the rate, losses reveal it, and the long-term rate over
//! several round trips replaces the maximum ("lt" below).

use ackwise_queue::Nanos;
use ackwise_rng::Rng;
use ackwise_scenario::tcp_model::{Recovery, Stack};

use super::{Acked, CongestionControl, Decision, Path, Variant};
use crate::packet::FlowId;
use crate::tcp::config::SenderConfig;
use crate::tcp::congestion_window::CongestionWindow;
use crate::tcp::delivery_rate::{Delivered, RateSample};
use crate::tcp::recovery_state::RecoveryState;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// Separates BBR's random draws from others with the same seed.
const STREAM: u64 = 0x6262_7200;

/// The unit of gains: 1/256, as in Linux.
const UNIT: u64 = 256;
/// The unit of bandwidths: 2⁻²⁴ segments per microsecond.
const BANDWIDTH_SHIFT: u32 = 24;

/// 2/ln 2, which doubles the rate each round trip.
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// The inverse of `HIGH_GAIN`, to drain the queue that Startup built.
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// The window gain in ProbeBandwidth: room for delayed and stretched ACKs.
const CWND_GAIN: u64 = 2 * UNIT;
/// The phases of ProbeBandwidth: probe for more, drain what that queued, cruise.
const CYCLE: [u64; 8] = [
    UNIT * 5 / 4,
    UNIT * 3 / 4,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
];
/// The cycle starts in any phase but the second.
const CYCLE_START: u64 = 7;

/// Round trips over which the maximum bandwidth is taken.
const BANDWIDTH_ROUNDS: u64 = CYCLE.len() as u64 + 2;
/// Time over which the minimum RTT is taken.
const MIN_RTT_WINDOW: Nanos = 10 * SECOND;
/// How long ProbeRtt keeps the window low, at least.
const PROBE_RTT_TIME: Nanos = 200 * MS;
/// The window in ProbeRtt, and the minimum window at any time, in segments.
const MIN_CWND: u64 = 4;
/// The initial window in segments (Linux: `TCP_INIT_CWND`).
const INITIAL_CWND: u64 = 10;
/// How far the pacing rate is below the estimate, in per cent, so that queues do not build.
const PACING_MARGIN: u64 = 1;
/// Below this rate, in bits per second, a chunk is one segment.
const ONE_SEGMENT_RATE: u64 = 1_200_000;
/// The maximum chunk in bytes (Linux: `GSO_LEGACY_MAX_SIZE` less headers).
const MAX_CHUNK: u64 = 65_535 - 320;

/// The pipe is full when the bandwidth does not grow by a quarter in [`FULL_ROUNDS`] round
/// trips.
const FULL_GROWTH: u64 = UNIT * 5 / 4;
/// Round trips without a quarter's growth of the bandwidth after which the pipe is full.
const FULL_ROUNDS: u32 = 3;

/// Minimum number of round trips of a long-term sample; the maximum is four times that.
const LT_MIN_ROUNDS: u32 = 4;
/// Share of segments lost in a long-term sample, in 1/256, that suggests a policer.
const LT_LOSS: u64 = 50;
/// Two samples agree within this share, in 1/256, or within [`LT_DIFFERENCE`].
const LT_RATIO: u64 = UNIT / 8;
/// Two samples also agree within this rate, in bytes per second.
const LT_DIFFERENCE: u64 = 4000 / 8;
/// Round trips for which the long-term rate is used.
const LT_ROUNDS: u32 = 48;

/// Round trips that each of the two halves of the aggregation filter lasts.
const EXTRA_ROUNDS: u32 = 5;
/// The epoch restarts after this many segments.
const EXTRA_RESET: u64 = 1 << 20;
/// Aggregation adds at most this time's worth to the window.
const EXTRA_MAX: Nanos = 100 * MS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

/// The maximum over a sliding window, from its three best values (Nichols' filter, Linux
/// `lib/win_minmax.c`): the best, the best since it, and the best since that.
#[derive(Debug, Clone, Copy, Default)]
struct WindowedMax {
    best: [(u64, u64); 3],
}

impl WindowedMax {
    fn get(&self) -> u64 {
        self.best[0].1
    }

    /// Adds a value; `window` has the unit of `time`.
    fn add(&mut self, window: u64, time: u64, value: u64) {
        let new = (time, value);
        let b = &mut self.best;
        if value >= b[0].1 || time - b[2].0 > window {
            *b = [new; 3];
            return;
        }
        if value >= b[1].1 {
            b[1] = new;
            b[2] = new;
        } else if value >= b[2].1 {
            b[2] = new;
        }
        let age = time - b[0].0;
        if age > window {
            // The best value has left the window; the second may have, too.
            *b = [b[1], b[2], new];
            if time - b[0].0 > window {
                *b = [b[1], b[2], new];
            }
        } else if b[1].0 == b[0].0 && age > window / 4 {
            b[1] = new;
            b[2] = new;
        } else if b[2].0 == b[1].0 && age > window / 2 {
            b[2] = new;
        }
    }
}

/// The long-term rate under a policer.
#[derive(Debug, Clone, Copy, Default)]
struct LongTerm {
    /// Whether a sample is being taken.
    sampling: bool,
    /// Whether the rate is in use.
    used: bool,
    /// Round trips in the sample, or since the rate came into use.
    rounds: u32,
    /// The rate of the last sample; 0 before the first.
    bandwidth: u64,
    /// The counters at the start of the sample.
    since: Nanos,
    delivered: u64,
    lost: u64,
}

/// Aggregation: by how many segments ACKs run ahead of the expected delivery.
#[derive(Debug, Clone, Copy, Default)]
struct Aggregation {
    epoch: Nanos,
    epoch_acked: u64,
    /// The maximum in each half of the filter.
    extra: [u64; 2],
    half: usize,
    rounds: u32,
}

/// The state of a connection.
#[derive(Debug, Clone)]
pub(crate) struct Bbr {
    // Boxed, so that senders with other controls are no larger for it.
    s: Box<State>,
}

#[derive(Debug, Clone)]
struct State {
    mode: Mode,
    rng: Rng,
    /// Payload of a segment in bytes.
    mss: u64,
    pacing_gain: u64,
    cwnd_gain: u64,
    /// Bytes per second; 0 before the connection is established.
    pacing_rate: u64,
    has_rtt: bool,

    bandwidth: WindowedMax,
    rounds: u64,
    round_start: bool,
    /// A round ends when a segment is acknowledged that was sent after this many were
    /// delivered.
    next_round: u64,

    min_rtt: Option<Nanos>,
    min_rtt_at: Nanos,
    probe_rtt_done: Option<Nanos>,
    probe_rtt_round: bool,

    cycle: usize,
    cycle_at: Nanos,

    full: bool,
    full_bandwidth: u64,
    full_rounds: u32,

    prior_cwnd: u64,
    prior_state: RecoveryState,
    conserve: bool,
    restarting: bool,

    lt: LongTerm,
    aggregation: Aggregation,
}

impl CongestionControl for Bbr {
    const VARIANTS: &'static [Variant] = &[Variant {
        name: "bbr",
        stack: Stack::Linux,
        linux_recovery: Recovery::Rack,
        recovery: Recovery::Sack,
        hystart: false,
        needs_sack: true,
    }];

    fn new(c: &SenderConfig, flow: FlowId) -> Bbr {
        Bbr {
            s: Box::new(State {
                mode: Mode::Startup,
                rng: Rng::stream(c.seed ^ STREAM, u64::from(flow.0)),
                mss: u64::from(c.mss),
                pacing_gain: HIGH_GAIN,
                cwnd_gain: HIGH_GAIN,
                pacing_rate: 0,
                has_rtt: false,
                bandwidth: WindowedMax::default(),
                rounds: 0,
                round_start: false,
                next_round: 0,
                min_rtt: None,
                min_rtt_at: 0,
                probe_rtt_done: None,
                probe_rtt_round: false,
                cycle: 0,
                cycle_at: 0,
                full: false,
                full_bandwidth: 0,
                full_rounds: 0,
                prior_cwnd: 0,
                prior_state: RecoveryState::Open,
                conserve: false,
                restarting: false,
                lt: LongTerm::default(),
                aggregation: Aggregation::default(),
            }),
        }
    }

    fn on_ack(&mut self, _c: &SenderConfig, _acked: &Acked, _window: &mut CongestionWindow) {}

    /// BBR has no threshold; it saves the window, to restore it after the recovery.
    fn ssthresh(&mut self, c: &SenderConfig, window: &CongestionWindow, _in_flight: u64) -> u64 {
        self.s.save_cwnd(window.cwnd / u64::from(c.mss));
        window.ssthresh
    }

    fn on_rtt(&mut self, _rtt: Nanos, _now: Nanos) -> Option<Nanos> {
        None
    }

    fn is_model_based(&self) -> bool {
        true
    }

    fn on_established(&mut self, path: &Path) {
        let s = &mut *self.s;
        s.next_round = path.delivered;
        s.min_rtt = path.srtt;
        s.min_rtt_at = path.now;
        s.lt.reset(path);
        s.aggregation.epoch = path.now;
        s.rate_from_rtt(path);
    }

    fn on_rate_sample(&mut self, sample: &RateSample, path: &Path) -> Option<Decision> {
        let s = &mut *self.s;
        s.update_bandwidth(sample, path);
        s.update_aggregation(sample, path);
        s.update_cycle(sample, path);
        s.check_full(sample);
        s.check_drain(path);
        let mut cwnd = path.cwnd;
        let app_limited = s.update_min_rtt(sample, path, &mut cwnd);
        s.update_gains();
        let bandwidth = s.bandwidth();
        s.set_pacing_rate(path, bandwidth, s.pacing_gain);
        Some(Decision {
            cwnd: s.window(sample, path, cwnd, bandwidth),
            app_limited,
        })
    }

    fn on_loss_state(&mut self, path: &Path) {
        let s = &mut *self.s;
        s.prior_state = RecoveryState::Loss;
        s.full_bandwidth = 0;
        // A timeout is the end of a round.
        s.round_start = true;
        s.sample_long_term(true, false, path);
    }

    /// Nothing was lost: checks again whether the pipe is full.
    fn on_undo(&mut self, path: &Path) {
        let s = &mut *self.s;
        s.full_bandwidth = 0;
        s.full_rounds = 0;
        s.lt.reset(path);
    }

    /// After a pause segments leave at the estimated rate, and no faster.
    fn on_transmit_start(&mut self, path: &Path) -> Option<u64> {
        let s = &mut *self.s;
        if !path.app_limited {
            return None;
        }
        s.restarting = true;
        s.aggregation.epoch = path.now;
        s.aggregation.epoch_acked = 0;
        match s.mode {
            Mode::ProbeBandwidth => s.set_pacing_rate(path, s.bandwidth(), UNIT),
            Mode::ProbeRtt => {
                let mut cwnd = path.cwnd;
                s.check_probe_rtt_done(path, &mut cwnd);
                return Some(cwnd);
            }
            Mode::Startup | Mode::Drain => {}
        }
        None
    }

    fn pacing_rate(&self) -> Option<u64> {
        (self.s.pacing_rate > 0).then_some(self.s.pacing_rate)
    }

    fn min_chunk(&self) -> u32 {
        self.s.min_chunk() as u32
    }
}

/// Whether more than `time` has passed on a clock with ticks of a millisecond.
fn passed(since: Nanos, time: Nanos, now: Nanos) -> bool {
    now / MS > (since + time) / MS
}

/// Segments that a bandwidth delivers in a time, in units of 2⁻²⁴.
fn delivered_in(bandwidth: u64, time: Nanos) -> u128 {
    u128::from(bandwidth) * u128::from(time / 1000)
}

impl State {
    fn bandwidth(&self) -> u64 {
        if self.lt.used {
            self.lt.bandwidth
        } else {
            self.bandwidth.get()
        }
    }

    /// Bytes per second at a gain, less the margin.
    fn bytes_per_second(&self, bandwidth: u64, gain: u64) -> u64 {
        let rate = (u128::from(bandwidth) * u128::from(self.mss) * u128::from(gain)) >> 8;
        let margin = u128::from(1_000_000 / 100 * (100 - PACING_MARGIN));
        u64::try_from((rate * margin) >> BANDWIDTH_SHIFT).unwrap_or(u64::MAX)
    }

    fn rate_from_rtt(&mut self, path: &Path) {
        let rtt = match path.srtt {
            Some(srtt) => {
                self.has_rtt = true;
                (srtt / 1000).max(1)
            }
            // A nominal millisecond.
            None => 1000,
        };
        let bandwidth = (path.cwnd << BANDWIDTH_SHIFT) / rtt;
        self.pacing_rate = self.bytes_per_second(bandwidth, HIGH_GAIN);
    }

    /// In Startup the rate does not fall, since the first samples are too low.
    fn set_pacing_rate(&mut self, path: &Path, bandwidth: u64, gain: u64) {
        if !self.has_rtt && path.srtt.is_some() {
            self.rate_from_rtt(path);
        }
        let rate = self.bytes_per_second(bandwidth, gain);
        if self.full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn min_chunk(&self) -> u64 {
        if self.pacing_rate < ONE_SEGMENT_RATE / 8 {
            1
        } else {
            2
        }
    }

    /// Segments in a chunk: a millisecond's worth.
    fn chunk(&self) -> u64 {
        let bytes = (self.pacing_rate >> 10).min(MAX_CHUNK);
        (bytes / self.mss).max(self.min_chunk()).min(127)
    }

    /// The bandwidth-delay product at a gain, in segments, rounded up.
    fn bdp(&self, bandwidth: u64, gain: u64) -> u64 {
        let Some(min_rtt) = self.min_rtt else {
            return INITIAL_CWND;
        };
        let product = (delivered_in(bandwidth, min_rtt) * u128::from(gain)) >> 8;
        let unit = 1u128 << BANDWIDTH_SHIFT;
        u64::try_from(product.div_ceil(unit)).unwrap_or(u64::MAX / 4)
    }

    /// Adds room for chunks at the sender, in its device and at the receiver; an even number.
    fn quantized(&self, cwnd: u64) -> u64 {
        let even = (cwnd + 3 * self.chunk() + 1) & !1;
        if self.mode == Mode::ProbeBandwidth && self.cycle == 0 {
            even + 2
        } else {
            even
        }
    }

    /// The target for packets in flight at a gain.
    fn inflight(&self, bandwidth: u64, gain: u64) -> u64 {
        self.quantized(self.bdp(bandwidth, gain))
    }

    /// The segments that will be in the network when pacing lets the next chunk leave.
    fn in_flight_at_departure(&self, path: &Path, in_flight: u64) -> u64 {
        let wait = path.departure.saturating_sub(path.now);
        let delivered = (delivered_in(self.bandwidth(), wait) >> BANDWIDTH_SHIFT) as u64;
        let chunk = if self.pacing_gain > UNIT {
            self.chunk()
        } else {
            0
        };
        (in_flight + chunk).saturating_sub(delivered)
    }

    fn save_cwnd(&mut self, cwnd: u64) {
        let good = self.prior_state < RecoveryState::Recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if good {
            cwnd
        } else {
            self.prior_cwnd.max(cwnd)
        };
    }

    fn update_bandwidth(&mut self, sample: &RateSample, path: &Path) {
        self.round_start = false;
        let Some(Delivered { segments, interval }) = sample.rate else {
            return;
        };
        if sample.prior_delivered >= self.next_round {
            self.next_round = path.delivered;
            self.rounds += 1;
            self.round_start = true;
            self.conserve = false;
        }
        self.sample_long_term(sample.losses > 0, sample.app_limited, path);
        let bandwidth = (segments << BANDWIDTH_SHIFT) / (interval / 1000).max(1);
        if !sample.app_limited || bandwidth >= self.bandwidth.get() {
            self.bandwidth.add(BANDWIDTH_ROUNDS, self.rounds, bandwidth);
        }
    }

    /// Looks for a policer. A loss starts a sample, and a loss ends it some round trips later.
    /// Two samples that agree and have high loss give the policer's rate.
    fn sample_long_term(&mut self, losses: bool, app_limited: bool, path: &Path) {
        if self.lt.used {
            if self.mode == Mode::ProbeBandwidth && self.round_start {
                self.lt.rounds += 1;
                if self.lt.rounds >= LT_ROUNDS {
                    self.lt.reset(path);
                    self.probe_bandwidth(path);
                }
            }
            return;
        }
        if !self.lt.sampling {
            if !losses {
                return;
            }
            self.lt.start(path);
            self.lt.sampling = true;
        }
        if app_limited {
            self.lt.reset(path);
            return;
        }
        self.lt.rounds += u32::from(self.round_start);
        if self.lt.rounds < LT_MIN_ROUNDS {
            return;
        }
        if self.lt.rounds > 4 * LT_MIN_ROUNDS {
            self.lt.reset(path);
            return;
        }
        if !losses {
            return;
        }
        let lost = path.lost - self.lt.lost;
        let delivered = path.delivered - self.lt.delivered;
        let time = path.delivered_at / MS - self.lt.since / MS;
        if delivered == 0 || lost << 8 < LT_LOSS * delivered || time == 0 {
            return;
        }
        let bandwidth = (delivered << BANDWIDTH_SHIFT) / (time * 1000);
        self.end_long_term(bandwidth, path);
    }

    fn end_long_term(&mut self, bandwidth: u64, path: &Path) {
        let before = self.lt.bandwidth;
        let difference = bandwidth.abs_diff(before);
        let alike = difference * UNIT <= LT_RATIO * before
            || self.bytes_per_second(difference, UNIT) <= LT_DIFFERENCE;
        if before > 0 && alike {
            self.lt.bandwidth = u64::midpoint(bandwidth, before);
            self.lt.used = true;
            self.lt.rounds = 0;
            self.pacing_gain = UNIT;
            return;
        }
        self.lt.bandwidth = bandwidth;
        self.lt.start(path);
    }

    /// Updates by how much the ACKs run ahead of the bandwidth.
    fn update_aggregation(&mut self, sample: &RateSample, path: &Path) {
        if sample.newly_delivered == 0 || sample.rate.is_none() {
            return;
        }
        let bandwidth = self.bandwidth();
        let a = &mut self.aggregation;
        if self.round_start {
            a.rounds += 1;
            if a.rounds >= EXTRA_ROUNDS {
                a.rounds = 0;
                a.half = 1 - a.half;
                a.extra[a.half] = 0;
            }
        }
        let time = path.delivered_at.saturating_sub(a.epoch);
        let mut expected = (delivered_in(bandwidth, time) >> BANDWIDTH_SHIFT) as u64;
        if a.epoch_acked <= expected || a.epoch_acked + sample.newly_delivered >= EXTRA_RESET {
            a.epoch_acked = 0;
            a.epoch = path.delivered_at;
            expected = 0;
        }
        a.epoch_acked = (a.epoch_acked + sample.newly_delivered).min(EXTRA_RESET - 1);
        let extra = (a.epoch_acked - expected).min(path.cwnd);
        a.extra[a.half] = a.extra[a.half].max(extra);
    }

    /// The segments that aggregation adds to the window.
    fn aggregated(&self) -> u64 {
        if !self.full {
            return 0;
        }
        let most = (delivered_in(self.bandwidth(), EXTRA_MAX) >> BANDWIDTH_SHIFT) as u64;
        let extra = self.aggregation.extra;
        extra[0].max(extra[1]).min(most)
    }

    fn update_cycle(&mut self, sample: &RateSample, path: &Path) {
        if self.mode == Mode::ProbeBandwidth && self.is_phase_over(sample, path) {
            self.next_phase(path);
        }
    }

    fn next_phase(&mut self, path: &Path) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_at = path.delivered_at;
    }

    /// Whether the phase is over. A phase lasts a min_rtt; that of 1.25 continues until its target is
    /// in flight or something is lost, and that of 0.75 ends early when the queue is gone.
    fn is_phase_over(&self, sample: &RateSample, path: &Path) -> bool {
        let time = path.delivered_at.saturating_sub(self.cycle_at) / 1000;
        let full_length = self.min_rtt.is_none_or(|min_rtt| time > min_rtt / 1000);
        if self.pacing_gain == UNIT {
            return full_length;
        }
        let in_flight = self.in_flight_at_departure(path, sample.prior_in_flight);
        let bandwidth = self.bandwidth.get();
        if self.pacing_gain > UNIT {
            let target = self.inflight(bandwidth, self.pacing_gain);
            return full_length && (sample.losses > 0 || in_flight >= target);
        }
        full_length || in_flight <= self.inflight(bandwidth, UNIT)
    }

    fn probe_bandwidth(&mut self, path: &Path) {
        self.mode = Mode::ProbeBandwidth;
        self.cycle = CYCLE.len() - 1 - self.rng.below(CYCLE_START) as usize;
        self.next_phase(path);
    }

    fn check_full(&mut self, sample: &RateSample) {
        if self.full || !self.round_start || sample.app_limited {
            return;
        }
        let bandwidth = self.bandwidth.get();
        if bandwidth >= (self.full_bandwidth * FULL_GROWTH) >> 8 {
            self.full_bandwidth = bandwidth;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.full = self.full_rounds >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, path: &Path) {
        if self.mode == Mode::Startup && self.full {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain {
            let in_flight = self.in_flight_at_departure(path, path.in_flight);
            if in_flight <= self.inflight(self.bandwidth.get(), UNIT) {
                self.probe_bandwidth(path);
            }
        }
    }

    /// Updates min_rtt, and enters and leaves ProbeRtt. Returns whether ProbeRtt makes the samples
    /// app-limited.
    fn update_min_rtt(&mut self, sample: &RateSample, path: &Path, cwnd: &mut u64) -> bool {
        let expired = passed(self.min_rtt_at, MIN_RTT_WINDOW, path.now);
        if let Some(rtt) = sample.rtt
            && (expired || self.min_rtt.is_none_or(|min_rtt| rtt < min_rtt))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = path.now;
        }
        if expired && !self.restarting && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd(*cwnd);
            self.probe_rtt_done = None;
        }
        let probing = self.mode == Mode::ProbeRtt;
        if probing {
            if self.probe_rtt_done.is_some() {
                self.probe_rtt_round |= self.round_start;
                if self.probe_rtt_round {
                    self.check_probe_rtt_done(path, cwnd);
                }
            } else if path.in_flight <= MIN_CWND {
                self.probe_rtt_done = Some(path.now + PROBE_RTT_TIME);
                self.probe_rtt_round = false;
                self.next_round = path.delivered;
            }
        }
        if sample.rate.is_some_and(|rate| rate.segments > 0) {
            self.restarting = false;
        }
        probing
    }

    fn check_probe_rtt_done(&mut self, path: &Path, cwnd: &mut u64) {
        if !self
            .probe_rtt_done
            .is_some_and(|done| passed(done, 0, path.now))
        {
            return;
        }
        self.min_rtt_at = path.now;
        *cwnd = self.prior_cwnd.max(*cwnd);
        if self.full {
            self.probe_bandwidth(path);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBandwidth if self.lt.used => (UNIT, CWND_GAIN),
            Mode::ProbeBandwidth => (CYCLE[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// The window in segments. In the first round of a recovery it conserves packets; after
    /// the recovery it returns to its old value.
    fn window(&mut self, sample: &RateSample, path: &Path, before: u64, bandwidth: u64) -> u64 {
        let acked = sample.newly_delivered;
        let mut cwnd = before;
        if acked > 0 {
            cwnd = cwnd.saturating_sub(sample.losses).max(1);
            let repairing = RecoveryState::Recovery;
            if path.state == repairing && self.prior_state != repairing {
                self.conserve = true;
                self.next_round = path.delivered;
                cwnd = path.in_flight + acked;
            } else if self.prior_state >= repairing && path.state < repairing {
                cwnd = cwnd.max(self.prior_cwnd);
                self.conserve = false;
            }
            self.prior_state = path.state;
            if self.conserve {
                cwnd = cwnd.max(path.in_flight + acked);
            } else {
                let target =
                    self.quantized(self.bdp(bandwidth, self.cwnd_gain) + self.aggregated());
                if self.full {
                    cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || path.delivered < INITIAL_CWND {
                    cwnd += acked;
                }
                cwnd = cwnd.max(MIN_CWND);
            }
        }
        if self.mode == Mode::ProbeRtt {
            cwnd = cwnd.min(MIN_CWND);
        }
        cwnd
    }
}

impl LongTerm {
    /// Starts a sample.
    fn start(&mut self, path: &Path) {
        self.since = path.delivered_at;
        self.delivered = path.delivered;
        self.lost = path.lost;
        self.rounds = 0;
    }

    /// Forgets the rate and starts a new sample.
    fn reset(&mut self, path: &Path) {
        self.bandwidth = 0;
        self.used = false;
        self.sampling = false;
        self.start(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The maximum of the last ten values, with at most three remembered.
    #[test]
    fn the_maximum_forgets_what_is_old() {
        let mut max = WindowedMax::default();
        max.add(10, 1, 100);
        max.add(10, 2, 90);
        assert_eq!(max.get(), 100);
        for time in 3..=11 {
            max.add(10, time, 50);
        }
        assert_eq!(max.get(), 100, "ten rounds ago");
        max.add(10, 12, 50);
        assert!(max.get() < 100);
        max.add(10, 13, 200);
        assert_eq!(max.get(), 200);
    }

    #[test]
    fn gains_are_those_of_linux() {
        assert_eq!((HIGH_GAIN, DRAIN_GAIN), (739, 88));
        assert_eq!(CYCLE[..3], [320, 192, 256]);
    }
}
