//! Congestion window validation: a window that the sender does not use must not grow
//! (RFC 5681 §4.1, RFC 7661; modelled after Linux).

/// How much of the window was used recently.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CwndValidation {
    /// The maximum in flight in this round, in bytes.
    most: u64,
    /// The round ends when this byte is acknowledged.
    round_end: u64,
    /// Whether the window limited the sender in this round.
    limited: bool,
}

impl CwndValidation {
    /// Records that something was sent, or that the window let nothing more out.
    pub fn note(&mut self, una: u64, nxt: u64, flight: u64, limited: bool) {
        if una >= self.round_end || limited || (!self.limited && flight > self.most) {
            self.limited = limited;
            self.most = flight;
            self.round_end = nxt;
        }
    }

    /// Whether the window may grow; in slow start it is enough that half of it is used.
    pub fn may_grow(&self, cwnd: u64, slow_start: bool) -> bool {
        self.limited || slow_start && cwnd < 2 * self.most
    }
}
