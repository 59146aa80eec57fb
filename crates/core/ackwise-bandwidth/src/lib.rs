//! Estimates what a link carries, and the rate for the queue before it.
//!
//! A link that is given more than it can send builds a queue of its own, for instance in a modem.
//! If traffic is shaped to a rate a little below the link's, it waits instead in a queue that tells
//! flows apart. The rate of LTE, Wi-Fi, DSL and satellite links changes, so it has to be measured
//! all the time.
//!
//! # What is measured
//!
//! A packet that leaves the interface at time t, when B bytes have left, and then waits for e
//! behind it, is at the head of the link at t + e. So each packet that is timed, by its round trip
//! or one way, gives a point (t + e, B) on the curve of what the link has served. Between two
//! points at which something waited, the link was never idle, and the slope is its rate:
//!
//! ```text
//!            B₂ − B₁
//!   c = ───────────────────
//!       (t₂ + e₂) − (t₁ + e₁)
//! ```
//!
//! This depends neither on the length of the round trip nor on whether a shaper had something to
//! send. The last point also gives the wait of a packet that leaves now: what has left since then,
//! less what the link has served since then. So the law need not wait for a round trip to see its
//! own effect (O. Smith, 1957).
//!
//! # The law
//!
//! - **Packets wait behind the interface**: the rate becomes c · (1 + (e* − e) / T), where e is the
//!   computed current wait, e* a small [target](TARGET_US), and T the [time](DRAIN_US) in which a
//!   deviation is to be corrected. So the rate falls to the link's in one step, however far that
//!   fell.
//! - **Between two samples** the wait is computed, and the rate follows it: while losses are
//!   repaired, nothing is timed.
//! - **Nothing waits, and the interface has enough to send**: the link can carry more than it is
//!   given. The rate grows by 8 % per round trip and observation, by more as that continues, and by
//!   half while it is below half of the link's recent capacity.
//! - **Nothing is timed, or there is little to send**: nothing is learnt, and the rate rises
//!   slowly, since an outdated rate would hold back whatever cannot be timed.
//! - **The shaped queue is empty while something seems to wait behind it**, for two seconds: the
//!   senders have no more to send, and what is measured is not the link. The rate returns to what
//!   it was before.
//! - **A wait elsewhere** does not go away when less is sent. If it persists through
//!   [`MAX_FUTILE_CUTS`] successive cuts, or through an attempt to empty the queue, the rate returns
//!   to what it was before, and that wait is the new base delay.
//! - **A short wait cuts little.** A delay of the path beyond the link that goes up and down looks
//!   like a short queue, whose measured capacity follows each cut. Until a wait exceeds the target
//!   by 50 ms, or has lasted for 1.5 s, the rate is at least 66 % of the recent capacity.
//! - **At intervals** ([`EMPTY_INTERVAL_NS`]) the queue is emptied, so that each connection shows
//!   its minimum round trip.
//!
//! The ideas are not new. That a service curve shows a bandwidth comes from packet trains (S.
//! Keshav, "A Control-Theoretic Approach to Flow Control", SIGCOMM 1991). That the rate follows a
//! measured one rather than losses, and that the queue is emptied, comes from BBR (Cardwell et al.,
//! ACM Queue 2016). Control proportional to delay is that of PIE (RFC 8033), LEDBAT (RFC 6817) and
//! Copa (Arun and Balakrishnan, NSDI 2018). Sprout (Winstein et al., NSDI 2013) shows that a rate
//! of half a second ago is of little use on a cellular link. cake-autorate changes cake's rate by
//! factors, from pings to Internet hosts and whether three of six were late by 30 ms; it does not
//! measure capacity.

mod estimator;
mod recent_max;
mod service_curve;

pub use crate::estimator::{
    Bounds, DRAIN_US, EMPTY_INTERVAL_NS, Estimator, MAX_FUTILE_CUTS, Observation, Sent, State,
    TARGET_US,
};
pub use crate::service_curve::Sample;

/// A point in time or a duration, in nanoseconds.
pub type Nanos = u64;
