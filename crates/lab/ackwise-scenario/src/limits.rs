//! Limits that several parts of a scenario share.

use std::time::Duration;

/// Longest time that an ACK may be withheld: RFC 9293 §3.8.6.3 requires one "within 0.5 seconds" of
/// the segment that it answers.
pub(crate) const MAX_HOLD: Duration = Duration::from_millis(500);

/// Shortest duration of a run.
pub(crate) const MIN_DURATION: Duration = Duration::from_millis(100);

/// Largest time that any key accepts.
pub(crate) const WEEK: Duration = Duration::from_secs(7 * 86400);

/// Longest delay of a link, one way.
pub(crate) const MAX_DELAY: Duration = Duration::from_secs(60);

/// Maximum number of arms of a scenario; more are taken for a typing error.
pub(crate) const MAX_ARMS: usize = 1000;

/// Maximum number of runs of a scenario; more are taken for a typing error.
pub(crate) const MAX_RUNS: usize = 100_000;

/// Maximum number of names in the path of a value; every table in between takes stack.
pub(crate) const MAX_NAMES: usize = 32;
