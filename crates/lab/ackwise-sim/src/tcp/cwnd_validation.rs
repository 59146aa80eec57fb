//! Whether the sender uses its window: one that it does not use must not grow
//! (RFC 5681 §4.1, RFC 7661; after what Linux does).

/// What was in flight of late.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CwndValidation {
    /// The most that was out in this round, bytes.
    most: u64,
    /// The round ends when this is acknowledged.
    round_end: u64,
    /// The window stopped the sender in this round.
    limited: bool,
}

impl CwndValidation {
    /// Something was sent, or the window let nothing more out.
    pub fn note(&mut self, una: u64, nxt: u64, flight: u64, limited: bool) {
        if una >= self.round_end || limited || (!self.limited && flight > self.most) {
            self.limited = limited;
            self.most = flight;
            self.round_end = nxt;
        }
    }

    /// Whether the window may grow; in slow start half of it in use is enough.
    pub fn may_grow(&self, cwnd: u64, slow_start: bool) -> bool {
        self.limited || slow_start && cwnd < 2 * self.most
    }
}
