//! Proportional rate reduction (RFC 6937): how the window follows a reduced threshold.

/// A reduction in progress. Counts are segments.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prr {
    /// The window before the reduction (RecoverFS).
    pub prior: u64,
    /// Segments delivered since then (prr_delivered).
    pub delivered: u64,
    /// Segments sent since then (prr_out).
    pub out: u64,
}

impl Prr {
    /// How many segments may leave for an ACK that delivered `delivered` segments.
    /// `advanced` means that it moved the cumulative number and showed no new loss, so that
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
        // The first retransmission always leaves.
        may.max(u64::from(self.out == 0))
    }
}
