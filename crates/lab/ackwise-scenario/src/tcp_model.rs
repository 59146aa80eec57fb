//! How the simulator models the TCP of a flow: the table `[flow.model]`.
//!
//! Every key is optional. What is left out follows from the stack that is
//! modelled and from the congestion control; `docs/scenarios.md` has the table.

use std::time::Duration;

use ackwise_config::queues::QueueLimit;
use ackwise_config::section::Section;

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
    /// Each acknowledged segment as if it had an ACK of its own (ns-2's Asym).
    Singly,
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
    /// `max_burst` at once, the next after their share of the round trip.
    Burst,
    /// `max_burst` at once, the next with the first ACK after their share (ns-2's Asym).
    BurstByAcks,
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
    pub lost_syns: Option<u32>,
    pub lost_syn_halves: Option<bool>,
    pub window_limit: Option<QueueLimit>,
    pub validate_window: Option<bool>,
    pub idle_restart: Option<IdleRestart>,
    pub halve: Option<Halve>,
    pub hystart: Option<HyStart>,
    pub fast_convergence: Option<bool>,
    // Loss.
    pub recovery: Option<Recovery>,
    pub dupthresh: Option<u32>,
    pub idle_duplicates: Option<bool>,
    pub limited_transmit: Option<bool>,
    pub avoid_repeat: Option<bool>,
    pub partial_ack: Option<PartialAck>,
    pub recovery_exit: Option<Exit>,
    pub recovery_burst: Option<u32>,
    pub prr: Option<bool>,
    pub tlp: Option<bool>,
    pub undo: Option<bool>,
    // Retransmission timer.
    pub rtt_estimator: Option<Estimator>,
    pub initial_rto: Option<Duration>,
    pub rto_factor: Option<u32>,
    pub min_rto: Option<Duration>,
    pub max_rto: Option<Duration>,
    pub tick: Option<Duration>,
    pub forget_rtt_after: Option<u32>,
    // When packets leave.
    pub pacing: Option<Pacing>,
    pub max_burst: Option<u32>,
    pub push_bursts: Option<bool>,
    pub defer_chunks: Option<bool>,
    pub ack_ecn: Option<bool>,
    pub cwnd_hint: Option<bool>,
    pub ask_ack: Option<bool>,
    // Acknowledgments.
    pub ack_every: Option<u32>,
    pub ack_bytes: Option<bool>,
    pub ack_delay: Option<Duration>,
    pub ack_timer: Option<AckTimer>,
    pub quick_acks: Option<u32>,
    pub ack_pushes: Option<bool>,
    pub compress_sack: Option<bool>,
    pub tune_window: Option<bool>,
    pub dsack: Option<bool>,
}

const STACKS: [(&str, Stack); 3] = [
    ("linux", Stack::Linux),
    ("rfc", Stack::Rfc),
    ("ns2", Stack::Ns2),
];
const RECOVERIES: [(&str, Recovery); 5] = [
    ("tahoe", Recovery::Tahoe),
    ("reno", Recovery::Reno),
    ("newreno", Recovery::NewReno),
    ("sack", Recovery::Sack),
    ("rack", Recovery::Rack),
];
const PARTIAL_ACKS: [(&str, PartialAck); 2] = [
    ("impatient", PartialAck::Impatient),
    ("slow-but-steady", PartialAck::SlowButSteady),
];
const EXITS: [(&str, Exit); 3] = [
    ("ssthresh", Exit::Ssthresh),
    ("flight", Exit::Flight),
    ("grow", Exit::Grow),
];
const HALVES: [(&str, Halve); 2] = [("flight", Halve::Flight), ("window", Halve::Window)];
const GROWTHS: [(&str, Growth); 4] = [
    ("per-ack", Growth::PerAck),
    ("per-segment", Growth::PerSegment),
    ("abc", Growth::Abc),
    ("singly", Growth::Singly),
];
const HYSTARTS: [(&str, HyStart); 3] = [
    ("off", HyStart::Off),
    ("linux", HyStart::Linux),
    ("plus-plus", HyStart::PlusPlus),
];
const PACINGS: [(&str, Pacing); 4] = [
    ("off", Pacing::Off),
    ("linux", Pacing::Linux),
    ("burst", Pacing::Burst),
    ("burst-by-acks", Pacing::BurstByAcks),
];
const ACK_TIMERS: [(&str, AckTimer); 3] = [
    ("first-segment", AckTimer::FirstSegment),
    ("adaptive", AckTimer::Adaptive),
    ("heartbeat", AckTimer::Heartbeat),
];
const ESTIMATORS: [(&str, Estimator); 2] = [("rfc", Estimator::Rfc), ("linux", Estimator::Linux)];
const IDLE_RESTARTS: [(&str, IdleRestart); 3] = [
    ("off", IdleRestart::Off),
    ("initial", IdleRestart::Initial),
    ("decay", IdleRestart::Decay),
];

/// In the order of the manual.
const KEYS: [&str; 51] = [
    "stack",
    "segment",
    "header",
    "ack_size",
    "handshake",
    "growth",
    "abc_limit",
    "initial_window",
    "initial_ssthresh",
    "lost_syns",
    "lost_syn_halves",
    "window_limit",
    "validate_window",
    "idle_restart",
    "halve",
    "hystart",
    "fast_convergence",
    "recovery",
    "dupthresh",
    "idle_duplicates",
    "limited_transmit",
    "avoid_repeat",
    "partial_ack",
    "recovery_exit",
    "recovery_burst",
    "prr",
    "tlp",
    "undo",
    "rtt_estimator",
    "initial_rto",
    "rto_factor",
    "min_rto",
    "max_rto",
    "tick",
    "forget_rtt_after",
    "pacing",
    "max_burst",
    "push_bursts",
    "defer_chunks",
    "ack_ecn",
    "cwnd_hint",
    "ask_ack",
    "ack_every",
    "ack_bytes",
    "ack_delay",
    "ack_timer",
    "quick_acks",
    "ack_pushes",
    "compress_sack",
    "tune_window",
    "dsack",
];

const MS: Duration = Duration::from_millis(1);
/// RFC 1122 §4.2.3.2: an ACK must not be delayed by more.
const MOST_ACK_DELAY: Duration = Duration::from_millis(500);

/// Reads the keys of a TCP model from the table `model` of a section, and reports
/// every mistake to the section's collector.
pub fn tcp_model(flow: &Section<'_>) -> TcpModel {
    let Some((table, span)) = flow.table("model") else {
        return TcpModel::default();
    };
    let what = format!("'model' of {}", flow.what);
    let s = Section::open(table, span, what, &KEYS, flow.errors);
    let bytes = |key, least, most| s.size_within(key, least, most);
    let time = |key, least, most| s.time(key, least, most);
    let second = 1000 * MS;
    let model = TcpModel {
        stack: s.choice("stack", &STACKS),
        segment: bytes("segment", 1, 65_535),
        header: bytes("header", 1, 1_000),
        ack_size: bytes("ack_size", 1, 65_535),
        handshake: s.flag("handshake"),
        growth: s.choice("growth", &GROWTHS),
        abc_limit: s.whole("abc_limit", 1, 1_000),
        initial_window: s.whole("initial_window", 1, 100_000),
        initial_ssthresh: s.queue("initial_ssthresh"),
        lost_syns: s.whole("lost_syns", 1, 100),
        lost_syn_halves: s.flag("lost_syn_halves"),
        window_limit: s.queue("window_limit"),
        validate_window: s.flag("validate_window"),
        idle_restart: s.choice("idle_restart", &IDLE_RESTARTS),
        halve: s.choice("halve", &HALVES),
        hystart: s.choice("hystart", &HYSTARTS),
        fast_convergence: s.flag("fast_convergence"),
        recovery: s.choice("recovery", &RECOVERIES),
        dupthresh: s.whole("dupthresh", 1, 300),
        idle_duplicates: s.flag("idle_duplicates"),
        limited_transmit: s.flag("limited_transmit"),
        avoid_repeat: s.flag("avoid_repeat"),
        partial_ack: s.choice("partial_ack", &PARTIAL_ACKS),
        recovery_exit: s.choice("recovery_exit", &EXITS),
        recovery_burst: s.whole("recovery_burst", 0, 100_000),
        prr: s.flag("prr"),
        tlp: s.flag("tlp"),
        undo: s.flag("undo"),
        rtt_estimator: s.choice("rtt_estimator", &ESTIMATORS),
        initial_rto: time("initial_rto", MS, 60 * second),
        rto_factor: s.whole("rto_factor", 1, 100),
        min_rto: time("min_rto", MS, 60 * second),
        max_rto: time("max_rto", second, 3_600 * second),
        tick: time("tick", Duration::from_nanos(1), second),
        forget_rtt_after: s.whole("forget_rtt_after", 0, 16),
        pacing: s.choice("pacing", &PACINGS),
        max_burst: s.whole("max_burst", 0, 100_000),
        push_bursts: s.flag("push_bursts"),
        defer_chunks: s.flag("defer_chunks"),
        ack_ecn: s.flag("ack_ecn"),
        cwnd_hint: s.flag("cwnd_hint"),
        ask_ack: s.flag("ask_ack"),
        ack_every: s.whole("ack_every", 1, 1_000),
        ack_bytes: s.flag("ack_bytes"),
        ack_delay: time("ack_delay", MS, MOST_ACK_DELAY),
        ack_timer: s.choice("ack_timer", &ACK_TIMERS),
        quick_acks: s.whole("quick_acks", 0, 1_000),
        ack_pushes: s.flag("ack_pushes"),
        compress_sack: s.flag("compress_sack"),
        tune_window: s.flag("tune_window"),
        dsack: s.flag("dsack"),
    };
    check(&s, &model);
    model
}

/// What contradicts itself.
fn check(s: &Section<'_>, model: &TcpModel) {
    if let (Some(min), Some(max)) = (model.min_rto, model.max_rto)
        && min > max
    {
        s.error(
            &s.span_of("min_rto"),
            format!("'min_rto' ({min:?}) is above 'max_rto' ({max:?})"),
        );
    }
    let bursts = match model.pacing {
        Some(Pacing::Burst) => Some("burst"),
        Some(Pacing::BurstByAcks) => Some("burst-by-acks"),
        _ => None,
    };
    if let Some(name) = bursts.filter(|_| model.max_burst.unwrap_or(0) == 0) {
        s.error(
            &s.span_of("pacing"),
            format!(
                "pacing = \"{name}\" needs 'max_burst', the segments that leave at once; add e.g. max_burst = 4"
            ),
        );
    }
    for key in ["prr", "tlp", "undo"] {
        let classic = matches!(
            model.recovery,
            Some(Recovery::Tahoe | Recovery::Reno | Recovery::NewReno)
        );
        if classic && s.has(key) && s.flag(key) == Some(true) {
            s.error(
                &s.span_of(key),
                format!("'{key}' needs recovery = \"sack\" or \"rack\""),
            );
        }
    }
}
