//! A limit on the handshakes that are answered.

use crate::timers::SECOND;

/// The initiations that are answered in a second. Each takes a fraction of a millisecond of
/// CPU time.
pub(crate) const MAX_RESPONSES_PER_SECOND: u32 = 50;

/// Counts the responses of the current second.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    second_began: u64,
    responses: u32,
}

impl RateLimiter {
    /// Returns whether one more initiation may be answered, and counts it if so.
    pub fn allow(&mut self, now: u64) -> bool {
        if now >= self.second_began + SECOND {
            (self.second_began, self.responses) = (now, 0);
        }
        let allowed = self.responses < MAX_RESPONSES_PER_SECOND;
        self.responses += u32::from(allowed);
        allowed
    }
}
