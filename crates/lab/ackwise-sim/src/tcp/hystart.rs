//! Leaves slow start before the queue overflows: HyStart as in Linux, and
//! HyStart++ (RFC 9406).

use ackwise_queue::Nanos;

const MS: Nanos = 1_000_000;

/// Linux: no judgment below this window, in segments.
const LOW_WINDOW: u64 = 16;
/// Linux: ACKs no further apart than this belong to one train.
const TRAIN_GAP: Nanos = 2 * MS;
/// Samples that a round needs before its delay counts.
const SAMPLES: u32 = 8;
/// HyStart++: bounds of the tolerated delay (RFC 9406 §4.3).
const MIN_RTT_THRESH: Nanos = 4 * MS;
const MAX_RTT_THRESH: Nanos = 16 * MS;
const CSS_ROUNDS: u32 = 5;

/// What one round trip of slow start has shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    started: Nanos,
    last_ack: Nanos,
    end: u64,
    least: Nanos,
    samples: u32,
    /// Linux: whether slow start has ended.
    found: bool,
    /// HyStart++: the minimum RTT of the previous round.
    before: Nanos,
    /// HyStart++: the state of conservative slow start, while in it.
    css: Option<Conservative>,
}

/// Conservative slow start (RFC 9406 §4.2).
#[derive(Debug, Clone, Copy)]
struct Conservative {
    /// The minimum RTT of the round in which it began.
    baseline: Nanos,
    /// Rounds so far.
    rounds: u32,
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

    /// Handles an ACK in slow start, as Linux does; returns true if slow start must end. `una` and
    /// `nxt` tell the rounds apart, `cwnd` is in segments, and `slack` is how much segments
    /// that leave together may lengthen a train.
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

    /// Handles an ACK in slow start (RFC 9406 §4.2); returns true if slow start must end.
    /// [`Round::is_conservative`] slows growth meanwhile.
    pub fn plus_plus(&mut self, a: &Ack) -> bool {
        if a.una >= self.end {
            if let Some(css) = &mut self.css {
                css.rounds += 1;
                if css.rounds >= CSS_ROUNDS {
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
                    self.css = Some(Conservative {
                        baseline: self.least,
                        rounds: 0,
                    });
                }
            }
            // The rise was jitter: back to normal slow start.
            Some(css) if self.least < css.baseline => self.css = None,
            Some(_) => {}
        }
        false
    }

    /// Whether conservative slow start is active (RFC 9406).
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
    /// The congestion window in segments.
    pub cwnd: u64,
    pub paced: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(now: Nanos, rtt: Nanos, una: u64, nxt: u64) -> Ack {
        Ack {
            now: now * MS,
            rtt: rtt * MS,
            una,
            nxt,
            cwnd: 20,
            paced: false,
        }
    }

    /// A minimum of 40 ms: 5 ms more in the ninth sample of a round shows a queue.
    #[test]
    fn delay_ends_slow_start() {
        let mut r = Round::new();
        for n in 0..8 {
            assert!(!r.linux(&ack(100 + 3 * n, 46, 1, 50), 40 * MS, 0), "{n}");
        }
        assert!(r.linux(&ack(124, 46, 1, 50), 40 * MS, 0));
        let mut r = Round::new();
        for n in 0..20 {
            assert!(!r.linux(&ack(100 + 3 * n, 45, 1, 50), 40 * MS, 0));
        }
    }

    /// A train of ACKs that is longer than half the minimum RTT and its slack.
    #[test]
    fn a_train_ends_slow_start() {
        let mut r = Round::new();
        let found = (0..40).find(|n| r.linux(&ack(100 + n, 40, 1, 50), 40 * MS, 2 * MS));
        assert_eq!(
            found,
            Some(22),
            "(40 + 2) / 2 = 21 ms are not exceeded by 21"
        );
        // A gap of more than 2 ms ends the train, so thinned ACKs form none.
        let mut r = Round::new();
        assert!((0..40).all(|n| !r.linux(&ack(100 + 3 * n, 40, 1, 50), 40 * MS, 0)));
        // No judgment below sixteen segments.
        let mut r = Round::new();
        let small = |n: Nanos| Ack {
            cwnd: 15,
            ..ack(100 + n, 60, 1, 50)
        };
        assert!((0..60).all(|n| !r.linux(&small(n), 40 * MS, 0)));
    }

    /// RFC 9406: a rise of the RTT slows growth for five rounds and then ends it; a fall reverts that.
    #[test]
    fn plus_plus_doubts_first() {
        let mut r = Round::new();
        let mut round = |una: u64, rtt: Nanos| {
            let ended = (0..8).any(|_| r.plus_plus(&ack(0, rtt, una, una + 50)));
            (ended, r.is_conservative())
        };
        assert_eq!(round(1, 40), (false, false));
        assert_eq!(round(51, 44), (false, false), "5 ms are tolerated");
        assert_eq!(round(101, 50), (false, true));
        assert_eq!(
            round(151, 43),
            (false, false),
            "the RTT fell again, so slow start resumes"
        );
        assert_eq!(round(201, 49), (false, true));
        for n in 1..5 {
            assert_eq!(round(201 + 50 * n, 49), (false, true), "{n}");
        }
        assert!(round(451, 49).0);
    }
}
