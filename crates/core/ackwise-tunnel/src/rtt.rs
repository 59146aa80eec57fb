//! The round-trip time of a tunnel, and the fate of each datagram, derived from feedback.

use std::collections::VecDeque;

use crate::Feedback;
use crate::bundle::expand_number;

/// The largest number of datagrams whose fate is open. Older ones are forgotten.
const MAX_OUTSTANDING: usize = 256;
/// The number of later datagrams that arrive before a missing one counts as lost, as in
/// RFC 9002 §6.1.1.
const REORDERING_THRESHOLD: u64 = 3;

#[derive(Debug, Clone, Copy)]
struct Sent {
    number: u64,
    at: u64,
    len: usize,
    settled: bool,
}

/// The datagrams that were sent, and the round-trip time.
#[derive(Debug, Default)]
pub(crate) struct Rtt {
    sent: VecDeque<Sent>,
    /// The smoothed round-trip time and its variation (RFC 6298 §2), in nanoseconds.
    srtt: Option<u64>,
    rttvar: u64,
}

/// The fate of a datagram: its number and length.
pub(crate) enum Fate {
    Arrived(u64, usize),
    Lost(u64, usize),
}

impl Rtt {
    /// Notes a datagram that the peer will answer.
    pub fn sent(&mut self, number: u64, at: u64, len: usize) {
        if self.sent.len() == MAX_OUTSTANDING {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent {
            number,
            at,
            len,
            settled: false,
        });
    }

    /// Takes feedback, and reports the fate of each datagram that it settles.
    pub fn feedback(&mut self, feedback: &Feedback, now: u64, fate: &mut dyn FnMut(Fate)) {
        let Some(newest) = self.sent.back().map(|sent| sent.number) else {
            return;
        };
        let Some(highest) = expand_number(feedback.highest, newest) else {
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
            } else if back > REORDERING_THRESHOLD {
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
        match &mut self.srtt {
            Some(srtt) => {
                let error = srtt.abs_diff(sample);
                self.rttvar = (3 * self.rttvar + error) / 4;
                *srtt = (7 * *srtt + sample) / 8;
            }
            None => {
                self.rttvar = sample / 2;
                self.srtt = Some(sample);
            }
        }
    }

    /// Returns the smoothed round-trip time. It includes the time that the peer delays
    /// feedback.
    pub fn srtt(&self) -> Option<u64> {
        self.srtt
    }

    /// Returns the time that an answer may take, once a round trip has been measured.
    pub fn rto(&self) -> Option<u64> {
        self.srtt.map(|srtt| srtt + 4 * self.rttvar)
    }

    /// Forgets the datagrams of the last session.
    pub fn forget_sent(&mut self) {
        self.sent.clear();
    }
}
