//! How the simulator models the TCP of a flow: the table `[flow.model]`.
//!
//! Every key is optional. What is left out follows from the stack that is
//! modelled and from the congestion control; `docs/scenarios.md` has the table.

use std::time::Duration;

use crate::model::QueueLimit;

/// A bundle of defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stack {
    /// Linux 6.x as it comes.
    Linux,
    /// The RFCs, each at its recommendation.
    Rfc,
    /// The one-way agents of ns-2.35.
    Ns2,
}

/// How losses are found and repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recovery {
    /// Slow start after the third duplicate ACK.
    Tahoe,
    /// Fast recovery that the first new ACK ends (RFC 5681 §3.2).
    Reno,
    /// Fast recovery that partial ACKs do not end (RFC 6582).
    NewReno,
    /// Selective acknowledgments (RFC 6675).
    Sack,
    /// Selective acknowledgments in time (RFC 8985).
    Rack,
}

/// When a partial ACK restarts the retransmission timer (RFC 6582 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartialAck {
    /// The first one only.
    Impatient,
    /// Each one.
    SlowButSteady,
}

/// What fast recovery leaves behind as window when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// The slow-start threshold.
    Ssthresh,
    /// Not more than is in flight and a segment (RFC 6582 §3.2 step 3).
    Flight,
    /// Its own, grown by the very ACK that ends it (ns-2).
    Grow,
}

/// What is halved on a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Halve {
    /// What is in flight (RFC 5681 equation 4).
    Flight,
    /// The window, in whole segments (Linux, ns-2).
    Window,
}

/// What opens the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Growth {
    /// Each ACK as if it covered one segment.
    PerAck,
    /// Each acknowledged segment.
    PerSegment,
    /// Acknowledged bytes, a limited number of segments an ACK in slow start (RFC 3465).
    Abc,
}

/// How slow start ends before a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HyStart {
    /// It does not.
    Off,
    /// By the length of ACK trains and by delay, as Linux has it.
    Linux,
    /// HyStart++ (RFC 9406).
    PlusPlus,
}

/// When packets that the window allows leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pacing {
    /// At once.
    Off,
    /// At 2 windows a round trip in slow start and 1.2 after, as Linux under `fq`.
    Linux,
    /// `max_burst` at once, the next after their share of the round trip (ns-2's Asym).
    Burst,
}

/// When a withheld ACK leaves at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckTimer {
    /// So long after the first segment that it covers.
    FirstSegment,
    /// As Linux guesses from the gaps between segments.
    Adaptive,
    /// At the next beat of a free-running clock.
    Heartbeat,
}

/// How the retransmission timer follows from RTT samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// RFC 6298, in the integers of the BSD code, on a clock that ticks.
    Rfc,
    /// Linux: the variance is the largest of a round trip, and its term of the
    /// sum is what the minimum applies to.
    Linux,
}

/// What becomes of the window when the sender was idle for a timeout or longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdleRestart {
    /// It stays.
    Off,
    /// The initial window at most (RFC 5681 §4.1).
    Initial,
    /// Half for each timeout, not below the initial window (Linux).
    Decay,
}

/// The keys of `[flow.model]` that were given.
#[derive(Debug, Clone, PartialEq, Default)]
#[allow(missing_docs)] // each is a key that docs/scenarios.md describes
pub struct TcpModel {
    pub stack: Option<Stack>,
    // Segments.
    pub segment: Option<u32>,
    pub header: Option<u32>,
    pub ack_size: Option<u32>,
    pub handshake: Option<bool>,
    // Windows.
    pub growth: Option<Growth>,
    pub abc_limit: Option<u32>,
    pub initial_window: Option<u32>,
    pub initial_ssthresh: Option<QueueLimit>,
    pub window_limit: Option<QueueLimit>,
    pub validate_window: Option<bool>,
    pub idle_restart: Option<IdleRestart>,
    pub halve: Option<Halve>,
    pub hystart: Option<HyStart>,
    pub fast_convergence: Option<bool>,
    // Loss.
    pub recovery: Option<Recovery>,
    pub dupthresh: Option<u32>,
    pub limited_transmit: Option<bool>,
    pub avoid_repeat: Option<bool>,
    pub partial_ack: Option<PartialAck>,
    pub recovery_exit: Option<Exit>,
    pub prr: Option<bool>,
    pub tlp: Option<bool>,
    pub undo: Option<bool>,
    // Retransmission timer.
    pub rtt_estimator: Option<Estimator>,
    pub initial_rto: Option<Duration>,
    pub min_rto: Option<Duration>,
    pub max_rto: Option<Duration>,
    pub tick: Option<Duration>,
    // When packets leave.
    pub pacing: Option<Pacing>,
    pub max_burst: Option<u32>,
    pub ack_ecn: Option<bool>,
    // Acknowledgments.
    pub ack_every: Option<u32>,
    pub ack_bytes: Option<bool>,
    pub ack_delay: Option<Duration>,
    pub ack_timer: Option<AckTimer>,
    pub quick_acks: Option<u32>,
    pub dsack: Option<bool>,
}
