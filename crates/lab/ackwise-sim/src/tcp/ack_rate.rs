//! TCP ACK Rate Request at the sender (draft-ietf-tcpm-ack-rate-request): when it requests a
//! rate, and which one.

use ackwise_policy::AckRate;
use ackwise_scenario::{self as scenario, AckRateRequest};

/// What a sender has requested so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct AckRateState {
    /// Whether the receiver's SYN-ACK announced the option.
    capable: bool,
    /// The requested number of segments per ACK; 0 before the first request.
    asked: u8,
    /// End of the first segment with the newest request, until that segment is acknowledged. Segments
    /// sent meanwhile repeat the request, so that a loss costs nothing.
    open: Option<u64>,
}

/// The sender's windows as it sends a segment, in whole segments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Windows {
    /// The congestion window.
    pub congestion: u64,
    /// The window that the receiver offers.
    pub offered: u64,
}

impl AckRateState {
    /// Handles the SYN-ACK, which has the option or not.
    pub fn on_syn_ack(&mut self, capable: bool) {
        self.capable = capable;
    }

    /// Handles the acknowledgment of everything below `una`.
    pub fn on_ack(&mut self, una: u64) {
        if self.open.is_some_and(|end| una >= end) {
            self.open = None;
        }
    }

    /// The option of the segment that ends at `end`; `last` means that no more data wait behind it.
    pub fn on_segment(
        &mut self,
        request: &AckRateRequest,
        windows: Windows,
        end: u64,
        last: bool,
    ) -> Option<AckRate> {
        if !self.capable {
            return None;
        }
        if let Some(segments) = request.rate.and_then(|rate| self.next(rate, windows)) {
            self.asked = segments;
            self.open = Some(end);
            return Some(AckRate::Every(segments));
        }
        if request.immediate && (last || windows.congestion <= 1) {
            return Some(AckRate::Now);
        }
        self.open.map(|_| AckRate::Every(self.asked))
    }

    /// The rate to request, if it differs from the last request. No ACK covers more than a window. A
    /// change by less than a quarter is not worth an option, unless it reaches the aim.
    fn next(&self, rate: scenario::AckRate, windows: Windows) -> Option<u8> {
        let target = match rate {
            scenario::AckRate::Segments(segments) => u64::from(segments),
            scenario::AckRate::PerWindow(acks) => windows.congestion / u64::from(acks.max(1)),
        };
        let most = windows.congestion.min(windows.offered);
        let segments = target.min(most).clamp(1, u64::from(AckRate::MOST));
        let asked = u64::from(self.asked);
        let fixed = matches!(rate, scenario::AckRate::Segments(_)) && segments == target;
        let changed = match self.asked {
            // Without a request a receiver acknowledges every second segment (RFC 5681 §4.2).
            0 => segments > 2 || fixed && segments == 1,
            _ => {
                let is_worth = fixed || asked > most || 4 * segments.abs_diff(asked) >= asked;
                segments != asked && is_worth
            }
        };
        changed.then_some(segments as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: AckRateRequest = AckRateRequest {
        rate: Some(scenario::AckRate::Segments(16)),
        immediate: true,
    };
    const SHARE: AckRateRequest = AckRateRequest {
        rate: Some(scenario::AckRate::PerWindow(4)),
        immediate: false,
    };

    fn windows(congestion: u64) -> Windows {
        Windows {
            congestion,
            offered: 1000,
        }
    }

    fn capable() -> AckRateState {
        let mut state = AckRateState::default();
        state.on_syn_ack(true);
        state
    }

    #[test]
    fn a_receiver_that_does_not_know_is_not_asked() {
        let mut state = AckRateState::default();
        state.on_syn_ack(false);
        assert_eq!(state.on_segment(&FIXED, windows(100), 1000, true), None);
    }

    #[test]
    fn no_rate_stays_above_the_window() {
        let mut state = capable();
        state.on_segment(&FIXED, windows(16), 1000, false);
        assert_eq!(
            state.on_segment(&FIXED, windows(13), 2000, false),
            Some(AckRate::Every(13))
        );
    }

    #[test]
    fn a_request_is_repeated_until_it_is_acknowledged() {
        let mut state = capable();
        for end in [1000, 2000, 3000] {
            let option = state.on_segment(&FIXED, windows(100), end, false);
            assert_eq!(option, Some(AckRate::Every(16)));
        }
        let last = state.on_segment(&FIXED, windows(100), 3500, true);
        assert_eq!(
            last,
            Some(AckRate::Now),
            "the last segment asks for an ACK at once"
        );
        state.on_ack(999);
        let again = state.on_segment(&FIXED, windows(100), 4000, false);
        assert_eq!(again, Some(AckRate::Every(16)));
        state.on_ack(1000);
        assert_eq!(state.on_segment(&FIXED, windows(100), 5000, false), None);
    }

    #[test]
    fn no_more_than_a_window_is_asked_for() {
        let mut state = capable();
        let mut option = |congestion, offered, end| {
            let windows = Windows {
                congestion,
                offered,
            };
            let option = state.on_segment(&FIXED, windows, end, false);
            state.on_ack(end);
            option
        };
        assert_eq!(option(10, 1000, 1), Some(AckRate::Every(10)));
        assert_eq!(
            option(11, 1000, 2),
            None,
            "the change is less than a quarter"
        );
        assert_eq!(option(13, 1000, 3), Some(AckRate::Every(13)));
        assert_eq!(option(15, 1000, 4), None);
        assert_eq!(option(200, 1000, 5), Some(AckRate::Every(16)), "the aim");
        assert_eq!(option(200, 6, 6), Some(AckRate::Every(6)));
        assert_eq!(option(1, 1000, 7), Some(AckRate::Every(1)), "a timeout");
        assert_eq!(option(2, 1000, 8), Some(AckRate::Every(2)));
    }

    #[test]
    fn an_ack_for_each_segment_is_asked_for_too() {
        let each = AckRateRequest {
            rate: Some(scenario::AckRate::Segments(1)),
            immediate: false,
        };
        let option = capable().on_segment(&each, windows(10), 1000, false);
        assert_eq!(option, Some(AckRate::Every(1)));
    }

    #[test]
    fn a_share_of_the_window_follows_it() {
        let mut state = capable();
        let mut option = |congestion| {
            let option = state.on_segment(&SHARE, windows(congestion), congestion, true);
            state.on_ack(u64::MAX);
            option
        };
        assert_eq!(option(10), None, "two segments need no request");
        assert_eq!(option(16), Some(AckRate::Every(4)));
        assert_eq!(option(19), None);
        assert_eq!(option(20), Some(AckRate::Every(5)));
        assert_eq!(option(2000), Some(AckRate::Every(127)), "seven bits");
        assert_eq!(option(1000), None);
        assert_eq!(option(40), Some(AckRate::Every(10)));
    }
}
