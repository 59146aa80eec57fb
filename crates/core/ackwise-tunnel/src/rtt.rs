//! The round trip of a tunnel, from what the other side answered.

use std::collections::VecDeque;

use crate::Feedback;
use crate::bundle::nearest;

/// Datagrams of which the fate is still open; older ones do not matter.
const OPEN: usize = 256;
/// Numbers that may overtake a datagram before it counts as lost.
const REORDERED: u64 = 3;

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u64,
    at: u64,
    len: usize,
    settled: bool,
}

/// What was sent, and how long answers take.
#[derive(Debug, Default)]
pub(crate) struct Rtt {
    sent: VecDeque<Sent>,
    /// RFC 6298 §2, in nanoseconds.
    smoothed: Option<u64>,
    variation: u64,
}

/// What feedback told of a datagram: its number, its length.
pub(crate) enum Fate {
    Arrived(u64, usize),
    Lost(u64, usize),
}

impl Rtt {
    /// A datagram that will be answered was sent.
    pub fn sent(&mut self, number: u64, at: u64, len: usize) {
        if self.sent.len() == OPEN {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent {
            number,
            at,
            len,
            settled: false,
        });
    }

    /// Feedback came.
    pub fn feedback(&mut self, feedback: &Feedback, now: u64, fate: &mut dyn FnMut(Fate)) {
        let Some(newest) = self.sent.back().map(|sent| sent.number) else {
            return;
        };
        let Some(highest) = nearest(feedback.highest, newest) else {
            return;
        };
        let mut sample = None;
        for sent in self.sent.iter_mut().filter(|sent| !sent.settled) {
            let Some(back) = highest.checked_sub(sent.number) else {
                break;
            };
            let arrived = back == 0 || back <= 32 && feedback.before >> (back - 1) & 1 == 1;
            if arrived {
                sent.settled = true;
                fate(Fate::Arrived(sent.number, sent.len));
                if back == 0 {
                    sample = Some(now.saturating_sub(sent.at));
                }
            } else if back > REORDERED {
                sent.settled = true;
                fate(Fate::Lost(sent.number, sent.len));
            }
        }
        if let Some(sample) = sample {
            self.sample(sample);
        }
        while self.sent.front().is_some_and(|sent| sent.settled) {
            self.sent.pop_front();
        }
    }

    fn sample(&mut self, sample: u64) {
        match &mut self.smoothed {
            Some(smoothed) => {
                let error = smoothed.abs_diff(sample);
                self.variation = (3 * self.variation + error) / 4;
                *smoothed = (7 * *smoothed + sample) / 8;
            }
            None => {
                self.variation = sample / 2;
                self.smoothed = Some(sample);
            }
        }
    }

    /// The smoothed round trip, the other side's delay of feedback included.
    pub fn smoothed(&self) -> Option<u64> {
        self.smoothed
    }

    /// How long an answer may take; `None` before the first.
    pub fn patience(&self) -> Option<u64> {
        self.smoothed.map(|smoothed| smoothed + 4 * self.variation)
    }

    /// Numbers begin anew.
    pub fn forget_sent(&mut self) {
        self.sent.clear();
    }
}
