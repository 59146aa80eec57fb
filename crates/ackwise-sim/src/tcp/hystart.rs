//! Leaving slow start before the queue overflows: HyStart as Linux has it, and
//! HyStart++ (RFC 9406).

use ackwise_net::Nanos;

const MS: Nanos = 1_000_000;

/// Linux: below this window, in segments, nothing is judged.
const LOW_WINDOW: u64 = 16;
/// Linux: ACKs closer than this are one train.
const TRAIN_GAP: Nanos = 2 * MS;
/// Samples that a round needs before its delay counts.
const SAMPLES: u32 = 8;
/// HyStart++ (RFC 9406 §4.3).
const MIN_RTT_THRESH: Nanos = 4 * MS;
const MAX_RTT_THRESH: Nanos = 16 * MS;
const CSS_ROUNDS: u32 = 5;
/// Conservative slow start grows by a quarter.
pub(crate) const CSS_DIVISOR: u64 = 4;

/// What a round trip of slow start showed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    started: Nanos,
    last_ack: Nanos,
    end: u64,
    least: Nanos,
    samples: u32,
    /// Linux: slow start has ended.
    found: bool,
    /// HyStart++: the least RTT of the round before.
    before: Nanos,
    /// HyStart++: in conservative slow start: RTT at its start, rounds so far.
    css: Option<(Nanos, u32)>,
}

impl Round {
    pub fn new() -> Round {
        Round {
            started: 0,
            last_ack: 0,
            end: 0,
            least: Nanos::MAX,
            samples: 0,
            found: false,
            before: Nanos::MAX,
            css: None,
        }
    }

    /// An ACK while in slow start, Linux: true if slow start is to end. `una` and
    /// `nxt` tell the rounds apart, `cwnd` is in segments, `slack` is what segments
    /// that travel together may lengthen a train by.
    pub fn linux(&mut self, a: &Ack, delay_min: Nanos, slack: Nanos) -> bool {
        if self.found {
            return false;
        }
        if a.una > self.end {
            self.started = a.now;
            self.last_ack = a.now;
            self.end = a.nxt;
            self.least = Nanos::MAX;
            self.samples = 0;
        }
        if a.cwnd < LOW_WINDOW {
            return false;
        }
        if a.now - self.last_ack <= TRAIN_GAP {
            self.last_ack = a.now;
            let mut threshold = delay_min + slack;
            if !a.paced {
                threshold /= 2;
            }
            self.found |= a.now - self.started > threshold;
        }
        self.least = self.least.min(a.rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let tolerated = (delay_min / 8).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
            self.found |= self.least > delay_min + tolerated;
        }
        self.found
    }

    /// The same by RFC 9406 §4.2; [`Round::is_conservative`] slows growth meanwhile.
    pub fn plus_plus(&mut self, a: &Ack) -> bool {
        if a.una >= self.end {
            if let Some((_, rounds)) = &mut self.css {
                *rounds += 1;
                if *rounds >= CSS_ROUNDS {
                    return true;
                }
            }
            self.end = a.nxt;
            self.before = self.least;
            self.least = Nanos::MAX;
            self.samples = 0;
        }
        self.least = self.least.min(a.rtt);
        self.samples += 1;
        if self.samples < SAMPLES || self.before == Nanos::MAX {
            return false;
        }
        match self.css {
            None => {
                let tolerated = (self.before / 8).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if self.least >= self.before + tolerated {
                    self.css = Some((self.least, 0));
                }
            }
            // It was a jitter: back to slow start.
            Some((baseline, _)) if self.least < baseline => self.css = None,
            Some(_) => {}
        }
        false
    }

    /// In conservative slow start (RFC 9406).
    pub fn is_conservative(&self) -> bool {
        self.css.is_some()
    }
}

/// An ACK, as HyStart sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    pub now: Nanos,
    pub rtt: Nanos,
    pub una: u64,
    pub nxt: u64,
    /// In segments.
    pub cwnd: u64,
    pub paced: bool,
}
