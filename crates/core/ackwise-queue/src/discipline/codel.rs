//! CoDel's state and control law (RFC 8289), for one queue.
//!
//! ```text
//! above   the sojourn time has been at least target for a whole interval, and more than one full
//!         packet waits behind
//! drop    when above; the next one interval / √count after the last
//! count   starts at 1; where it was left, if dropping began again within 16 intervals
//! ```

use crate::Nanos;

/// If dropping resumes within this many intervals, it continues at nearly its last rate (RFC 8289
/// §5.5).
const RESUME_INTERVALS: u64 = 16;

/// The parameters that all queues of a link share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Params {
    /// The acceptable sojourn time of a standing queue, in nanoseconds.
    pub target: Nanos,
    /// The assumed round-trip time, in nanoseconds.
    pub interval: Nanos,
    /// The length of a full packet in bytes. A queue that holds no more than that is never
    /// shortened.
    pub full_packet: u32,
}

impl Params {
    /// The time at which the drop after one at `last` is due, the `count`-th in a row.
    ///
    /// IEEE 754 rounds square roots and divisions exactly, so the results are the same on every
    /// machine.
    pub fn next_drop(&self, last: Nanos, count: u32) -> Nanos {
        let gap = self.interval as f64 / f64::from(count.max(1)).sqrt();
        last.saturating_add(gap as Nanos)
    }
}

/// The state of a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Codel {
    /// The time at which the sojourn time will have been above the target for an interval; `None`
    /// while it is below.
    first_above: Option<Nanos>,
    /// The time at which the next drop is due.
    pub drop_next: Nanos,
    /// Number of drops since dropping began.
    pub count: u32,
    /// The value of `count` when dropping last began.
    last_count: u32,
    pub is_dropping: bool,
}

impl Codel {
    /// Whether the packet at the head may be dropped: it has waited for `sojourn`, and there are
    /// `behind` bytes behind it.
    pub fn ok_to_drop(&mut self, params: &Params, now: Nanos, sojourn: Nanos, behind: u64) -> bool {
        if sojourn < params.target || behind <= u64::from(params.full_packet) {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now.saturating_add(params.interval));
                false
            }
            Some(at) => now >= at,
        }
    }

    /// Notes that the queue is empty.
    pub fn emptied(&mut self) {
        self.first_above = None;
        self.is_dropping = false;
    }

    /// Notes the first drop or mark of a series.
    pub fn start_dropping(&mut self, params: &Params, now: Nanos) {
        self.is_dropping = true;
        let since = self.count.saturating_sub(self.last_count);
        let lately =
            now.saturating_sub(self.drop_next) < RESUME_INTERVALS.saturating_mul(params.interval);
        self.count = if since > 1 && lately { since } else { 1 };
        self.last_count = self.count;
        self.drop_next = params.next_drop(now, self.count);
    }
}
