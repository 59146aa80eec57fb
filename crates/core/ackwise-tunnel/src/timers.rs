//! When a session is replaced, and when it ends.
//!
//! All times are nanoseconds of a monotonic clock.

pub(crate) const SECOND: u64 = 1_000_000_000;
/// The initiator replaces a session after this time (WireGuard's REKEY_AFTER_TIME).
pub(crate) const REKEY_AFTER_TIME: u64 = 120 * SECOND;
/// The responder replaces it later, so that usually only one end does.
pub(crate) const REKEY_AFTER_TIME_RESPONDER: u64 = 150 * SECOND;
/// A session is not used after this time.
pub(crate) const REJECT_AFTER_TIME: u64 = 360 * SECOND;
/// The time for which a replaced session still receives.
pub(crate) const REPLACED_GRACE: u64 = 10 * SECOND;
/// Handshakes of both ends within this time count as simultaneous.
pub(crate) const SIMULTANEOUS: u64 = 2 * SECOND;
/// The number of bytes sent after which a session is replaced.
pub(crate) const REKEY_AFTER_BYTES: u64 = 1 << 36;
/// The time for which an initiator waits for the first response before it initiates again. Each
/// further wait is twice as long, so that a response is in time on a path of up to `REKEY_TIMEOUT`.
pub(crate) const FIRST_REKEY_TIMEOUT: u64 = SECOND;
/// The maximum of this wait (WireGuard's REKEY_TIMEOUT).
pub(crate) const REKEY_TIMEOUT: u64 = 5 * SECOND;
/// The time for which a session that the peer has not confirmed keeps its place.
pub(crate) const UNCONFIRMED_GRACE: u64 = 5 * SECOND;
/// The time for which a cookie is used (WireGuard's COOKIE_REFRESH_TIME).
pub(crate) const COOKIE_LIFETIME: u64 = 120 * SECOND;

/// The timers of one session.
#[derive(Debug)]
pub(crate) struct Timers {
    established_at: u64,
    initiator: bool,
    replaced_at: Option<u64>,
}

impl Timers {
    pub fn new(established_at: u64, initiator: bool) -> Timers {
        Timers {
            established_at,
            initiator,
            replaced_at: None,
        }
    }

    /// The time since the handshake.
    pub fn age(&self, now: u64) -> u64 {
        now.saturating_sub(self.established_at)
    }

    /// Whether this end initiated the session.
    pub fn is_initiator(&self) -> bool {
        self.initiator
    }

    /// The time at which the session has to be replaced, given the bytes sent in it.
    pub fn rekey_at(&self, bytes: u64) -> u64 {
        if bytes >= REKEY_AFTER_BYTES {
            return 0;
        }
        self.established_at
            + if self.initiator {
                REKEY_AFTER_TIME
            } else {
                REKEY_AFTER_TIME_RESPONDER
            }
    }

    /// Whether the session may no longer be used.
    pub fn is_expired(&self, now: u64) -> bool {
        now >= self.established_at + REJECT_AFTER_TIME
            || self
                .replaced_at
                .is_some_and(|at| now >= at + REPLACED_GRACE)
    }

    /// Whether a handshake of the other end at this time counts as simultaneous with the one
    /// that led to this session.
    pub fn is_simultaneous(&self, now: u64) -> bool {
        now < self.established_at + SIMULTANEOUS
    }

    /// Notes that another session has replaced this one.
    pub fn replace(&mut self, now: u64) {
        self.replaced_at = Some(now);
    }

    /// Notes that this session is in use again.
    pub fn keep(&mut self) {
        self.replaced_at = None;
    }
}
