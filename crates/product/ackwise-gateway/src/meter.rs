//! How fast is the link behind the gateway? Measured from what waits there.
//!
//! A link that is fed faster than it sends keeps a queue of its own, a modem's, and
//! each round trip becomes longer by what waits in it. That is how it shows, and the
//! slope tells the rate: of bytes that were sent between two looks, while the delay
//! behind the gateway grew from e₁ to e₂, the link had
//!
//! ```text
//!           bytes
//!   c = ─────────────────────
//!       (t₂ − t₁) + (e₂ − e₁)
//! ```
//!
//! whether the gateway had something to send all the time or not: what waits behind
//! it may be all that a connection lets be under way.
//!
//! So the rate goes up while nothing waits behind the gateway and something before
//! it: twofold until the delay has grown once, then by a twentieth, twice a second.
//! When the delay grows, c is computed and the rate is 95 % of it, after a pause at
//! 70 % in which what waits drains. If it does not drain, it waits elsewhere, on the
//! way that the gateway does not own: the rate is what it was, and the delay is the
//! new normal. If it is gone sooner than a queue can be, something stood still for a
//! moment, and the rate is what it was as well. Without load, or without round trips that were timed, nothing changes.
//! Always the rate lies between the two bounds that it was given.
//!
//! Time and samples come in as arguments; see `tests` for a modem in a dozen lines.

use std::collections::VecDeque;

use ackwise_queue::Nanos;

const MS: Nanos = 1_000_000;
/// More than this behind the gateway, and so many full packets, is a queue; less than
/// the other is none. An ACK for two segments is late by one of them, and a packet
/// waits for the one before it.
const HIGH: (u64, u64) = (15_000, 3);
const LOW: (u64, u64) = (5_000, 2);
const PACKET_BITS: u64 = 1514 * 8;
/// Round trips that a judgement wants, unless it has waited for so long.
const ENOUGH: u64 = 4;
const PATIENCE: Nanos = 400 * MS;
/// Judgements that must agree that there is a queue.
const AGREE: usize = 2;
/// A slope is taken over so long at least.
const SPAN: Nanos = 100 * MS;
/// And over what was looked at in the last ten seconds at most.
const KEPT: Nanos = 10_000 * MS;
const STEP: Nanos = 500 * MS;
/// After a cut, before it goes up again.
const REST: Nanos = 1_000 * MS;
/// Beyond what drains at 70 %: round trips, and looks.
const GRACE: Nanos = 500 * MS;
/// Halves of the time over which the least delay is the normal one.
const HALF_WINDOW: Nanos = 5_000 * MS;

/// What was seen since the last look.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Now.
    pub at: Nanos,
    /// Bytes sent so far, as they count against the rate.
    pub sent: u64,
    /// Whether something waited in the gateway all the time.
    pub busy: bool,
    /// Round trips that were timed, and the least that one took beyond the least of its
    /// connection, µs; `None` if none was.
    pub timed: Option<(u64, u32)>,
}

/// What was concluded when the delay had grown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    at: Nanos,
    /// Bytes sent so far.
    sent: u64,
    /// The delay, and the rate of the link.
    delay_ns: Nanos,
    measured_bps: u64,
}

impl Cut {
    /// Whether half of that delay and more than `low_us` would be left now, had it been a
    /// queue of such a link: what was sent since came to it.
    fn would_wait(&self, look: &Look, low_us: u32) -> bool {
        let bits = 8 * u128::from(look.sent - self.sent);
        let came = bits * 1_000_000_000 / u128::from(self.measured_bps.max(1));
        let gone = look.at - self.at + u64::from(low_us) * 1000;
        u128::from(gone) < u128::from(self.delay_ns / 2) + came
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Goes up: twofold until the first cut.
    Up,
    /// At 70 % of `to`, until so late, from what it was `before`.
    Drains {
        to: u64,
        before: u64,
        cut: Cut,
        until: Nanos,
    },
    /// Stays until then.
    Rests { until: Nanos },
}

/// The estimator; see the module.
#[derive(Debug, Clone)]
pub struct Meter {
    bounds: [u64; 2],
    rate_bps: u64,
    phase: Phase,
    /// Nothing was measured yet.
    fresh: bool,
    stepped: Nanos,
    /// Judgements: when, bytes, delay.
    kept: VecDeque<(Nanos, u64, u32)>,
    high: usize,
    /// Round trips not judged yet, their least excess, and whether it was busy.
    heard: (u64, u32, bool),
    judged: Nanos,
    /// The normal delay: the least of the last half window and of this one.
    normal: [Option<u32>; 2],
    half_began: Nanos,
}

impl Meter {
    /// Between two rates, bit/s; it begins at the lower one.
    #[must_use]
    pub fn new(min_bps: u64, max_bps: u64) -> Self {
        let least = min_bps.max(1);
        Self {
            bounds: [least, max_bps.max(least)],
            rate_bps: least,
            phase: Phase::Up,
            fresh: true,
            stepped: 0,
            kept: VecDeque::new(),
            high: 0,
            heard: (0, u32::MAX, true),
            judged: 0,
            normal: [None; 2],
            half_began: 0,
        }
    }

    /// The rate for now, bit/s.
    #[must_use]
    pub fn rate_bps(&self) -> u64 {
        self.rate_bps
    }

    /// Whether the link's rate has shown itself yet.
    #[must_use]
    pub fn has_measured(&self) -> bool {
        !self.fresh
    }

    /// Another look; the rate from now on.
    pub fn look(&mut self, look: Look) -> u64 {
        let (count, excess) = look.timed.unwrap_or((0, u32::MAX));
        let heard = (
            self.heard.0 + count,
            self.heard.1.min(excess),
            self.heard.2 && look.busy,
        );
        self.heard = heard;
        let patient = look.at - self.judged < PATIENCE;
        if heard.0 == 0 || (heard.0 < ENOUGH && patient) {
            if !patient {
                // Drained or not, nobody can tell: the pause ends by the clock.
                self.end_of_time(look.at);
            }
            return self.rate_bps;
        }
        self.heard = (0, u32::MAX, true);
        self.judged = look.at;
        self.judge(
            Look {
                busy: heard.2,
                ..look
            },
            heard.1,
        );
        self.rate_bps
    }

    /// Microseconds, and packets at the present rate.
    fn us(&self, (us, packets): (u64, u64)) -> u32 {
        let one = PACKET_BITS * 1_000_000 / self.rate_bps.max(1);
        u32::try_from(us + packets * one).unwrap_or(u32::MAX)
    }

    fn judge(&mut self, look: Look, excess: u32) {
        let (high, low) = (self.us(HIGH), self.us(LOW));
        let delay = excess.saturating_sub(self.normal_of(look.at, excess));
        while let Some((at, ..)) = self.kept.front()
            && look.at - at > KEPT
        {
            self.kept.pop_front();
        }
        self.kept.push_back((look.at, look.sent, delay));
        self.high = if delay > high { self.high + 1 } else { 0 };
        match self.phase {
            Phase::Drains { before, cut, .. } if delay < low && cut.would_wait(&look, low) => {
                self.was_none(before);
            }
            Phase::Drains { .. } if delay < low => self.drained(look.at),
            Phase::Drains { until, .. } if look.at >= until => self.is_elsewhere(look.at, excess),
            Phase::Drains { .. } => {}
            _ if self.high >= AGREE => self.cut(look.at),
            Phase::Rests { until } if look.at < until => {}
            _ if look.busy && delay < low => self.up(look.at),
            _ => {}
        }
    }

    /// The least excess of the last five to ten seconds.
    fn normal_of(&mut self, at: Nanos, excess: u32) -> u32 {
        if at - self.half_began >= HALF_WINDOW {
            self.normal = [self.normal[1], None];
            self.half_began = at;
        }
        let least = self.normal[1].map_or(excess, |known| known.min(excess));
        self.normal[1] = Some(least);
        self.normal[0].map_or(least, |known| known.min(least))
    }

    fn set(&mut self, bps: u64) {
        self.rate_bps = bps.clamp(self.bounds[0], self.bounds[1]);
    }

    fn up(&mut self, at: Nanos) {
        if at - self.stepped < STEP {
            return;
        }
        self.stepped = at;
        self.phase = Phase::Up;
        let more = if self.fresh {
            self.rate_bps
        } else {
            self.rate_bps / 20
        };
        self.set(self.rate_bps + more.max(1));
    }

    /// From the last look at which nothing waited to this one.
    fn cut(&mut self, at: Nanos) {
        let low = self.us(LOW);
        let last = self.kept.iter().rposition(|(_, _, delay)| *delay < low);
        let from = self.kept.get(last.unwrap_or(0)).copied();
        let to = self.kept.back().copied();
        let (Some((from_at, from_sent, from_delay)), Some((to_at, to_sent, delay))) = (from, to)
        else {
            return;
        };
        if to_at - from_at < SPAN {
            return;
        }
        let grown = u64::from(delay.saturating_sub(from_delay)) * 1000;
        let span = to_at - from_at + grown;
        let bits = 8 * u128::from(to_sent - from_sent) * 1_000_000_000;
        let measured = u64::try_from(bits / u128::from(span)).unwrap_or(u64::MAX);
        let before = self.rate_bps;
        // So little fills no queue behind this gateway: ACKs of a full way back. More
        // may be a link that fell, and whether it drains tells.
        if measured < before / 8 {
            return;
        }
        let to = measured.min(before) / 20 * 19;
        // What waits drains at the 30 % that are left.
        let delay_ns = u64::from(delay) * 1000;
        self.phase = Phase::Drains {
            to,
            before,
            cut: Cut {
                at,
                sent: to_sent,
                delay_ns,
                measured_bps: measured,
            },
            until: at + delay_ns * 10 / 3 + GRACE,
        };
        self.set(to / 10 * 7);
        self.high = 0;
    }

    /// A machine on the way was busy with something else: nothing was learnt.
    fn was_none(&mut self, before: u64) {
        self.set(before);
        self.phase = Phase::Up;
        self.kept.clear();
    }

    fn drained(&mut self, at: Nanos) {
        if let Phase::Drains { to, .. } = self.phase {
            self.fresh = false;
            self.set(to);
            self.rest(at);
        }
    }

    /// It was not the gateway that made it wait.
    fn is_elsewhere(&mut self, at: Nanos, excess: u32) {
        if let Phase::Drains { before, .. } = self.phase {
            self.fresh = false;
            self.set(before);
            self.normal = [None, Some(excess)];
            self.half_began = at;
            self.rest(at);
        }
    }

    fn end_of_time(&mut self, at: Nanos) {
        if let Phase::Drains { until, .. } = self.phase
            && at >= until
        {
            self.drained(at);
        }
    }

    fn rest(&mut self, at: Nanos) {
        self.phase = Phase::Rests { until: at + REST };
        self.kept.clear();
        self.high = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gateway that always has something to send, and a modem behind it.
    struct Modem {
        meter: Meter,
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
                meter: Meter::new(200_000, 20_000_000),
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
                    let mut bytes = self.meter.rate_bps() as f64 / 8.0 * span;
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
                let packet_us = PACKET_BITS * 1_000_000 / self.meter.rate_bps();
                let noise = (self.now / LOOK * 7919) % (packet_us + 1500);
                let packets = |bytes: f64| (bytes * 8.0) as u64 / PACKET_BITS;
                let count = packets(self.sent) - packets(before);
                // What they answer when they go on was long under way.
                let still = self.looks % 100;
                let still_us = if still < self.still { 400_000 } else { 0 };
                self.meter.look(Look {
                    at: self.now,
                    sent: self.sent as u64,
                    busy: self.busy && !limited,
                    timed: (self.timed && count > 0).then(|| {
                        let us = delay_us as u32 + noise as u32 + self.elsewhere_us;
                        (count, us + still_us)
                    }),
                });
                seen.push((self.meter.rate_bps() as f64, delay_us));
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
            assert!(modem.meter.has_measured(), "{link}");
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
        assert!(modem.meter.has_measured());
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
        let rate = modem.meter.rate_bps();
        modem.busy = false;
        modem.run(2e6, 10.0);
        // A pause may end meanwhile, and no more.
        assert!(modem.meter.rate_bps() >= rate && modem.meter.rate_bps() < 2_000_000);
        let rate = modem.meter.rate_bps();
        (modem.busy, modem.timed) = (true, false);
        modem.run(2e6, 10.0);
        assert_eq!(modem.meter.rate_bps(), rate);
        let mut blind = Modem::new();
        blind.timed = false;
        blind.run(2e6, 10.0);
        assert_eq!(blind.meter.rate_bps(), 200_000);
        assert!(!blind.meter.has_measured());
    }

    #[test]
    fn what_waits_elsewhere_does_not_throttle_it() {
        let mut modem = Modem::new();
        modem.run(2e6, 20.0);
        let before = modem.meter.rate_bps() as f64;
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
