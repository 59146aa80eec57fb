//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-02), taken as in
//! Linux: how many segments were delivered between the sending of a segment and its
//! acknowledgment, and in what time.
//!
//! The time is the longer of two: the time in which these segments were sent, and the time in
//! which their ACKs arrived. So neither a burst of segments nor a burst of ACKs can make the
//! path look faster than it is.

use std::collections::VecDeque;

use ackwise_queue::Nanos;

/// The state when a segment was sent.
#[derive(Debug, Clone, Copy)]
struct SentState {
    /// Segments delivered by then, and when the last of them was delivered.
    delivered: u64,
    delivered_at: Nanos,
    /// When the segment left whose ACK was the newest by then.
    first_sent: Nanos,
    app_limited: bool,
}

/// The newest segment that an ACK delivers, with its state.
#[derive(Debug, Clone, Copy)]
struct Newest {
    end: u64,
    state: SentState,
    /// The time in which the segments of the sample were sent.
    send_interval: Nanos,
}

/// Segments delivered over a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub segments: u64,
    pub interval: Nanos,
}

/// A delivery-rate sample, one per ACK. Counts are segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// What was delivered over the interval; `None` if the ACK shows no rate.
    pub rate: Option<Delivered>,
    /// Segments that had been delivered when the newest acknowledged one was sent.
    pub prior_delivered: u64,
    /// Segments delivered by this ACK.
    pub newly_delivered: u64,
    /// Segments shown to be lost by this ACK.
    pub losses: u64,
    /// Segments in the network before this ACK.
    pub prior_in_flight: u64,
    /// The RTT of the newest segment sent only once.
    pub rtt: Option<Nanos>,
    /// Whether the sender had too little to send.
    pub app_limited: bool,
}

/// Takes the samples of a connection. It has one entry per segment on the
/// scoreboard, in the same order.
#[derive(Debug, Clone)]
pub(crate) struct RateSampler {
    segments: VecDeque<SentState>,
    delivered: u64,
    delivered_at: Nanos,
    first_sent: Nanos,
    /// Samples are app-limited until this many segments are delivered; 0 if they are not.
    app_limited_until: u64,
    min_rtt: Nanos,
    /// The newest segment delivered by the current ACK.
    newest: Option<Newest>,
    /// Segments in flight before the current ACK.
    pub prior_in_flight: u64,
    /// Segments lost before the current ACK.
    pub prior_lost: u64,
    /// The RTT sample of the current ACK.
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

    /// Whether segments sent now give app-limited samples.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }

    /// Makes the segments in flight give app-limited samples.
    pub fn set_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Sets the RTT of the handshake.
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

    /// Records that a new segment leaves.
    pub fn on_sent(&mut self, now: Nanos) {
        if self.segments.is_empty() {
            // After a pause the interval restarts.
            self.first_sent = now;
            self.delivered_at = now;
        }
        self.segments.push_back(self.state());
    }

    /// Records that the segment at this index of the scoreboard is retransmitted.
    pub fn on_resent(&mut self, index: usize) {
        let state = self.state();
        if let Some(segment) = self.segments.get_mut(index) {
            *segment = state;
        }
    }

    /// Records the delivery of the segment at this index, last sent at `sent`, which ends at `end`.
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

    /// Removes the first segment, as it leaves the scoreboard.
    pub fn pop(&mut self) {
        self.segments.pop_front();
    }

    /// Takes the sample of an ACK that delivered `newly_delivered` segments; `lost` counts all losses so far.
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
            // An interval shorter than a round trip is bogus: segments cannot be delivered so soon.
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

    /// Two segments per millisecond, with their ACKs a round trip of 10 ms later.
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

    /// ACKs arrive together after a pause: the time in which they arrive is too short, but
    /// the time in which their segments were sent is not.
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
