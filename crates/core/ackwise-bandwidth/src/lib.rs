//! Estimates what a link carries, and the rate for the queue before it.
//!
//! A link that is given more than it sends keeps a queue of its own, for instance in a modem. What
//! is shaped to a rate a little below the link's waits where flows are told apart instead. The
//! link's rate changes on LTE, Wi-Fi, DSL and satellites, so it has to be measured all the time.
//!
//! # What is measured
//!
//! A packet that leaves the interface at time t, when B bytes have left, and waits for e behind
//! it, is at the head of the link at t + e. So each packet that is timed, by its round trip or one way, gives a point
//! (t + e, B) of the curve of what the link has served. Between two points at which something
//! waited, the link was never idle, and the slope is its rate:
//!
//! ```text
//!            B₂ − B₁
//!   c = ───────────────────
//!       (t₂ + e₂) − (t₁ + e₁)
//! ```
//!
//! This does not depend on how long the round trip is, nor on whether a shaper had something to send.
//! From the last point the wait of a packet that leaves now follows, too: what has left since then,
//! less what the link has served since then. So the law does not wait for a round trip to see what
//! it has done (O. Smith, 1957).
//!
//! # The law
//!
//! - **Something waits behind the interface**: the rate becomes c · (1 + (e* − e) / T), where e is
//!   the wait that is computed for now, e* a small [target](TARGET_US), and T the
//!   [time](DRAIN_US) in which a difference is to be gone. So the rate falls to what the link has
//!   in one step, however far it fell.
//! - **Between two samples** the wait is what is computed, and the rate follows that: while losses are
//!   repaired nothing is timed.
//! - **Nothing waits, and the interface has enough to send**: the link has more than it is given. The rate
//!   grows by 8 % in a round trip and a look, by more when that goes on, and by half below half of
//!   what the link had of late.
//! - **Nothing is timed, or there is little to send**: nothing is learnt, and the rate rises slowly, since
//!   what was true once would hold back whatever cannot be timed.
//! - **Nothing waits in the queue that is shaped while something seems to wait behind it**, for two
//!   seconds: the senders have no more to send, and what is measured is not the link. The rate is
//!   what it was before.
//! - **What waits elsewhere** does not go away when less is sent. If it stays through
//!   [`FUTILE`] cuts one upon the other, the rate is what it was before, and that wait is the new zero.
//! - **A short wait cuts little.** The delay of the path beyond the link goes up and down, which looks like a short
//!   queue that follows each cut. Until a wait exceeds the target by 50 ms, or lasts for 1.5 s, the rate stays above two
//!   thirds of what the link had of late.
//! - **Now and then** the queue is emptied, so that the least round trip of each connection is seen:
//!   [`EMPTY_EVERY_NS`].
//!
//! The ideas are not new. That a service curve shows a bandwidth is from packet trains (S. Keshav,
//! "A Control-Theoretic Approach to Flow Control", SIGCOMM 1991), that the rate follows a
//! measured one rather than losses from BBR (Cardwell et al., ACM Queue 2016), the emptying
//! as well; a law of proportion on delay is PIE's (RFC 8033), LEDBAT's (RFC 6817) and Copa's (Arun
//! and Balakrishnan, NSDI 2018). Sprout (Winstein et al., NSDI 2013) shows that a rate of half a
//! second ago is of little use on a cellular link. cake-autorate changes cake's rate by factors, from pings to
//! hosts in the Internet and by whether three of six were late by 30 ms; it measures no capacity.

mod estimator;
mod recent_max;
mod service_curve;

pub use crate::estimator::{
    Bounds, DRAIN_US, EMPTY_EVERY_NS, Estimator, FUTILE, Look, Sent, State, TARGET_US,
};
pub use crate::service_curve::Sample;

/// A time or a span, in nanoseconds.
pub type Nanos = u64;
