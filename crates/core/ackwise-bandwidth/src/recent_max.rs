//! The maximum of recent values.

use crate::Nanos;

/// The shortest time for which a value counts; the longest is twice as long.
const SPAN: Nanos = 10_000_000_000;

/// The maximum over the last 10 to 20 s.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RecentMax {
    /// The maximum of the running span.
    running: u64,
    /// The maximum of the span before it.
    before: u64,
    /// When the running span began.
    since: Nanos,
}

impl RecentMax {
    /// Returns the maximum; 0 without recent values.
    pub fn get(&mut self, now: Nanos) -> u64 {
        let age = now - self.since;
        if age > SPAN {
            let is_recent = age <= 2 * SPAN;
            self.before = if is_recent { self.running } else { 0 };
            self.running = 0;
            self.since = now;
        }
        self.running.max(self.before)
    }

    /// Adds a value.
    pub fn add(&mut self, value: u64, now: Nanos) {
        self.get(now);
        self.running = self.running.max(value);
    }

    /// Forgets all earlier values.
    pub fn restart(&mut self, value: u64, now: Nanos) {
        *self = Self {
            running: value,
            before: 0,
            since: now,
        };
    }
}
