//! Proportional rate reduction (RFC 6937): how the window follows a threshold that came down.

/// A reduction in progress. Counts are segments.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prr {
    /// The window before it (RecoverFS).
    pub prior: u64,
    /// Delivered since (prr_delivered).
    pub delivered: u64,
    /// Sent since (prr_out).
    pub out: u64,
}

impl Prr {
    /// How many segments may leave for an ACK that delivered `delivered` of them.
    /// `advanced`: it moved the cumulative number and no new loss was found, so that
    /// the window may grow towards its target as in slow start.
    pub fn send(&mut self, target: u64, in_flight: u64, delivered: u64, advanced: bool) -> u64 {
        self.delivered += delivered;
        let may = if in_flight > target {
            (target * self.delivered)
                .div_ceil(self.prior.max(1))
                .saturating_sub(self.out)
        } else {
            let conserve = self.delivered.saturating_sub(self.out).max(delivered);
            (conserve + u64::from(advanced)).min(target - in_flight)
        };
        // The first retransmission leaves in any case.
        may.max(u64::from(self.out == 0))
    }
}
