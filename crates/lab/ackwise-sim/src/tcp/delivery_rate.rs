//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-02), as Linux takes
//! them: how many segments were delivered between the sending of a segment and its
//! acknowledgment, and in what time.
//!
//! The time is the longer of two: that in which these segments were sent, and that in
//! which their ACKs came. Neither a burst that leaves at once nor ACKs that come at once
//! can then make the path look faster than it is.

use std::collections::VecDeque;

use ackwise_queue::Nanos;

/// What was known when a segment was sent.
#[derive(Debug, Clone, Copy)]
struct SentState {
    /// Segments delivered by then, and when the last of them was.
    delivered: u64,
    delivered_at: Nanos,
    /// When the segment left whose ACK was the newest by then.
    first_sent: Nanos,
    app_limited: bool,
}

/// What the newest segment that an ACK delivers says.
#[derive(Debug, Clone, Copy)]
struct Newest {
    end: u64,
    state: SentState,
    /// The time in which the segments of the sample were sent.
    send_interval: Nanos,
}

/// Segments delivered in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub segments: u64,
    pub interval: Nanos,
}

/// A sample: one for each ACK. Counts are segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// What was delivered over the interval; `None` if the ACK shows no rate.
    pub rate: Option<Delivered>,
    /// Segments that had been delivered when the newest acknowledged one was sent.
    pub prior_delivered: u64,
    /// Segments that this ACK delivers.
    pub newly_delivered: u64,
    /// Segments that this ACK shows to be lost.
    pub losses: u64,
    /// Segments in the network before this ACK.
    pub prior_in_flight: u64,
    /// The RTT of the newest segment that was sent once.
    pub rtt: Option<Nanos>,
    /// The sender had too little to send.
    pub app_limited: bool,
}

/// Takes the samples of a connection. It has one entry for each segment on the
/// scoreboard, in the same order.
#[derive(Debug, Clone)]
pub(crate) struct RateSampler {
    segments: VecDeque<SentState>,
    delivered: u64,
    delivered_at: Nanos,
    first_sent: Nanos,
    /// Samples are app-limited until so many segments are delivered; 0: they are not.
    app_limited_until: u64,
    min_rtt: Nanos,
    /// The sample of the ACK that is being dealt with.
    newest: Option<Newest>,
    /// Segments in flight before the ACK that is being dealt with.
    pub prior_in_flight: u64,
    /// Segments lost before the ACK that is being dealt with.
    pub prior_lost: u64,
    /// The RTT that the ACK that is being dealt with shows.
    pub rtt: Option<Nanos>,
}

impl RateSampler {
    /// A sampler that has counted the SYN.
    pub fn new() -> RateSampler {
        RateSampler {
            segments: VecDeque::new(),
            delivered: 1,
            delivered_at: 0,
            first_sent: 0,
            app_limited_until: 0,
            min_rtt: Nanos::MAX,
            newest: None,
            prior_in_flight: 0,
            prior_lost: 0,
            rtt: None,
        }
    }

    /// Segments delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When the last segment was delivered.
    pub fn delivered_at(&self) -> Nanos {
        self.delivered_at
    }

    /// Whether what is sent now gives app-limited samples.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// What is in flight now gives app-limited samples.
    pub fn set_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// The RTT of the handshake.
    pub fn set_handshake(&mut self, rtt: Option<Nanos>, now: Nanos) {
        self.delivered_at = now;
        self.min_rtt = rtt.unwrap_or(Nanos::MAX);
    }

    fn state(&self) -> SentState {
        SentState {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
            app_limited: self.is_app_limited(),
        }
    }

    /// A new segment leaves.
    pub fn on_sent(&mut self, now: Nanos) {
        if self.segments.is_empty() {
            // After a pause the interval begins anew.
            self.first_sent = now;
            self.delivered_at = now;
        }
        self.segments.push_back(self.state());
    }

    /// The segment at this place of the scoreboard leaves again.
    pub fn on_resent(&mut self, index: usize) {
        let state = self.state();
        if let Some(segment) = self.segments.get_mut(index) {
            *segment = state;
        }
    }

    /// The segment at this place was delivered; it was `sent` last then, and ends there.
    pub fn on_delivered(&mut self, index: usize, sent: Nanos, end: u64) {
        let Some(&state) = self.segments.get(index) else {
            return;
        };
        let newer = match &self.newest {
            None => true,
            Some(newest) => (sent, end) > (self.first_sent, newest.end),
        };
        self.delivered += 1;
        if newer {
            self.newest = Some(Newest {
                end,
                state,
                send_interval: sent.saturating_sub(state.first_sent),
            });
            self.first_sent = sent;
        }
    }

    /// The first segment leaves the scoreboard.
    pub fn pop(&mut self) {
        self.segments.pop_front();
    }

    /// The sample of an ACK that delivered so many segments and showed the loss of others.
    pub fn take(&mut self, newly_delivered: u64, lost: u64, now: Nanos) -> RateSample {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if newly_delivered > 0 {
            self.delivered_at = now;
        }
        let rtt = self.rtt.take();
        self.min_rtt = self.min_rtt.min(rtt.unwrap_or(Nanos::MAX));
        let newest = self.newest.take();
        let rate = newest.and_then(|newest| {
            let ack_interval = now - newest.state.delivered_at;
            let interval = newest.send_interval.max(ack_interval);
            // Shorter than a round trip: segments cannot have been delivered so soon.
            let known = self.min_rtt != Nanos::MAX && interval < self.min_rtt;
            (!known && interval > 0).then(|| Delivered {
                segments: self.delivered - newest.state.delivered,
                interval,
            })
        });
        RateSample {
            rate,
            prior_delivered: newest.map_or(0, |newest| newest.state.delivered),
            newly_delivered,
            losses: lost - self.prior_lost,
            prior_in_flight: self.prior_in_flight,
            rtt,
            app_limited: newest.is_some_and(|newest| newest.state.app_limited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    fn delivered(segments: u64, interval: Nanos) -> Option<Delivered> {
        Some(Delivered { segments, interval })
    }

    /// Two segments a millisecond, and their ACKs a round trip of 10 ms later.
    #[test]
    fn a_steady_flow_shows_its_rate() {
        let mut sampler = RateSampler::new();
        sampler.set_handshake(Some(10 * MS), 0);
        let mut last = None;
        for t in 0..100 {
            let now = t * MS;
            if t >= 10 {
                let (sent, n) = ((t - 10) * MS, 2 * (t - 10));
                for i in 0..2 {
                    sampler.on_delivered(0, sent, (n + i + 1) * 1000);
                    sampler.pop();
                }
                last = Some(sampler.take(2, 0, now));
            }
            sampler.on_sent(now);
            sampler.on_sent(now);
        }
        let sample = last.unwrap();
        assert_eq!(sample.rate, delivered(20, 10 * MS));
        assert!(!sample.app_limited);
    }

    /// ACKs that come together after a pause: the time in which they came is too short,
    /// that in which their segments left is not.
    #[test]
    fn compressed_acks_do_not_show_more_than_was_sent() {
        let mut sampler = RateSampler::new();
        sampler.set_handshake(Some(10 * MS), 0);
        for t in 0..20 {
            sampler.on_sent(t * MS);
        }
        for t in 0..20 {
            sampler.on_delivered(0, t * MS, (t + 1) * 1000);
            sampler.pop();
        }
        let sample = sampler.take(20, 0, 25 * MS);
        assert_eq!(sample.rate, delivered(20, 25 * MS));
    }

    #[test]
    fn a_sample_that_is_shorter_than_a_round_trip_is_none() {
        let mut sampler = RateSampler::new();
        sampler.set_handshake(Some(10 * MS), 0);
        sampler.on_sent(0);
        sampler.on_delivered(0, 0, 1000);
        assert_eq!(sampler.take(1, 0, 9 * MS).rate, None);
    }

    #[test]
    fn what_is_in_flight_when_the_sender_ran_dry_is_app_limited() {
        let mut sampler = RateSampler::new();
        sampler.set_app_limited(1);
        sampler.on_sent(0);
        sampler.on_delivered(0, 0, 1000);
        sampler.pop();
        assert!(sampler.take(1, 0, 10 * MS).app_limited);
        assert!(sampler.is_app_limited(), "one more is in flight");
        sampler.on_sent(10 * MS);
        sampler.on_delivered(0, 10 * MS, 2000);
        sampler.take(1, 0, 20 * MS);
        assert!(!sampler.is_app_limited());
    }
}
