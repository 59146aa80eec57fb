//! How the simulator models the TCP of a flow: the table `[flow.model]`.
//!
//! Every key is optional. The default of a missing key depends on the modelled stack and on the
//! congestion control; `docs/scenarios.md` has the table.

use std::time::Duration;

use ackwise_config::queues::QueueLimit;
use ackwise_config::section::Section;

/// The size in bytes to which the receive buffer of a flow grows if nothing sets it: the maximum of
/// `net.ipv4.tcp_rmem` by default since Linux 6.16. All engines use it.
pub const RECEIVE_BUFFER: u64 = 32 << 20;

/// A bundle of defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stack {
    /// Linux 6.x with its defaults.
    Linux,
    /// The RFCs with their recommended values.
    Rfc,
    /// The one-way agents of ns-2.35.
    Ns2,
}

/// How losses are detected and repaired.
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
    /// Time-based loss detection with selective acknowledgments (RACK, RFC 8985).
    Rack,
}

/// When a partial ACK restarts the retransmission timer (RFC 6582 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartialAck {
    /// Only the first one.
    Impatient,
    /// Every one.
    SlowButSteady,
}

/// The congestion window when fast recovery ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// The slow-start threshold.
    Ssthresh,
    /// At most the data in flight plus one segment (RFC 6582 §3.2 step 3).
    Flight,
    /// The window of the recovery, grown by the ACK that ends it (ns-2).
    Grow,
}

/// What a loss halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Halve {
    /// The data in flight (RFC 5681 equation 4).
    Flight,
    /// The window, in whole segments (Linux, ns-2).
    Window,
}

/// What opens the congestion window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Growth {
    /// Each ACK, as if it covered one segment.
    PerAck,
    /// Each acknowledged segment.
    PerSegment,
    /// Acknowledged bytes, in slow start up to a number of segments per ACK (RFC 3465).
    Abc,
    /// Each acknowledged segment, as if it had its own ACK (ns-2's Asym).
    Singly,
}

/// How slow start ends before a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HyStart {
    /// Only a loss ends it.
    Off,
    /// The length of ACK trains and the delay, as in Linux.
    Linux,
    /// HyStart++ (RFC 9406).
    PlusPlus,
}

/// When packets that the window allows leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pacing {
    /// At once.
    Off,
    /// At 2 windows per round trip in slow start and 1.2 after, as Linux does under `fq`.
    Linux,
    /// `max_burst` segments at once, the next after their share of the round trip.
    Burst,
    /// `max_burst` segments at once, the next with the first ACK after their share (ns-2's Asym).
    BurstByAcks,
}

/// When a withheld ACK leaves at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AckTimer {
    /// A fixed time after the first segment that it covers.
    FirstSegment,
    /// As Linux estimates from the gaps between segments.
    Adaptive,
    /// At the next tick of a free-running clock.
    Heartbeat,
}

/// How the retransmission timeout follows from RTT samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Estimator {
    /// RFC 6298, in the integer arithmetic of the BSD code, with a clock that ticks.
    Rfc,
    /// Linux: the variance is the maximum over a round trip, and the minimum applies to the
    /// variance's term.
    Linux,
}

/// What happens to the window after the sender was idle for a timeout or longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IdleRestart {
    /// It stays.
    Off,
    /// It shrinks to the initial window (RFC 5681 §4.1).
    Initial,
    /// It halves for each timeout, but not below the initial window (Linux).
    Decay,
}

/// The keys of `[flow.model]` that were given; `docs/scenarios.md` has the defaults of the others.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TcpModel {
    /// The bundle that gives the defaults of the other keys.
    pub stack: Option<Stack>,
    // Segments.
    /// Payload of a full segment, bytes; what fits into the path's MTU if `None`.
    pub segment: Option<u32>,
    /// Bytes of the IP and TCP headers of each packet, without options.
    pub header: Option<u32>,
    /// Bytes of an ACK on the wire, SACK blocks included.
    pub ack_size: Option<u32>,
    /// Whether a connection opens with a SYN and closes with a FIN.
    pub handshake: Option<bool>,
    // Windows.
    /// What opens the congestion window.
    pub growth: Option<Growth>,
    /// The limit L of appropriate byte counting, segments (RFC 3465 §2.2).
    pub abc_limit: Option<u32>,
    /// The initial window, segments (RFC 6928).
    pub initial_window: Option<u32>,
    /// The initial slow-start threshold.
    pub initial_ssthresh: Option<QueueLimit>,
    /// Lost SYNs after which the window starts at one segment (RFC 5681 §3.1).
    pub lost_syns: Option<u32>,
    /// Whether a lost SYN also sets the slow-start threshold to two segments.
    pub lost_syn_halves: Option<bool>,
    /// The sender's own limit of its window (`window_` of ns-2).
    pub window_limit: Option<QueueLimit>,
    /// Whether an unused window does not grow (RFC 7661).
    pub validate_window: Option<bool>,
    /// What happens to the window after it was idle for a timeout.
    pub idle_restart: Option<IdleRestart>,
    /// What a loss halves.
    pub halve: Option<Halve>,
    /// How slow start ends before a loss.
    pub hystart: Option<HyStart>,
    /// Whether CUBIC leaves bandwidth to new flows after a loss (RFC 9438 §4.7).
    pub fast_convergence: Option<bool>,
    // Loss.
    /// How losses are detected and repaired.
    pub recovery: Option<Recovery>,
    /// Duplicate ACKs that count as a loss.
    pub dupthresh: Option<u32>,
    /// Whether a duplicate ACK counts when nothing is in flight.
    pub idle_duplicates: Option<bool>,
    /// Whether the first duplicate ACKs release new segments (RFC 3042).
    pub limited_transmit: Option<bool>,
    /// Whether segments that were in flight at a fast retransmission cannot cause a second one (RFC
    /// 6582 §4.1).
    pub avoid_repeat: Option<bool>,
    /// When a partial ACK restarts the retransmission timer (RFC 6582 §4).
    pub partial_ack: Option<PartialAck>,
    /// The window after fast recovery.
    pub recovery_exit: Option<Exit>,
    /// Maximum number of segments sent per ACK during recovery; 0 means no limit.
    pub recovery_burst: Option<u32>,
    /// Proportional rate reduction (RFC 6937).
    pub prr: Option<bool>,
    /// Tail loss probes (RFC 8985 §7).
    pub tlp: Option<bool>,
    /// Whether an unnecessary reduction is undone (RFC 3522, RFC 5682, DSACK).
    pub undo: Option<bool>,
    // Retransmission timer.
    /// How the retransmission timeout follows from RTT samples.
    pub rtt_estimator: Option<Estimator>,
    /// The timeout before the first RTT sample.
    pub initial_rto: Option<Duration>,
    /// Factor of the timeout before its bounds apply.
    pub rto_factor: Option<u32>,
    /// Minimum timeout.
    pub min_rto: Option<Duration>,
    /// Maximum timeout.
    pub max_rto: Option<Duration>,
    /// Resolution of the clock that measures round trips.
    pub tick: Option<Duration>,
    /// Number of consecutive timeouts after which the RTT estimate is reset (RFC 6298 §5.7); 0
    /// means never.
    pub forget_rtt_after: Option<u32>,
    // When packets leave.
    /// When packets that the window allows leave.
    pub pacing: Option<Pacing>,
    /// Maximum number of segments sent per event; 0 means no limit.
    pub max_burst: Option<u32>,
    /// Whether segments leave in chunks with PSH on the last, as with Linux's TSO.
    pub push_bursts: Option<bool>,
    /// Whether less than a chunk waits for the next ACK.
    pub defer_chunks: Option<bool>,
    /// Whether ACKs can be marked, and the sender echoes the marks (RFC 3449 §4.3).
    pub ack_ecn: Option<bool>,
    /// Whether the window field of data carries the congestion window, in segments.
    pub cwnd_hint: Option<bool>,
    /// Whether data request an ACK by a reserved bit (Ayadi 2013).
    pub ask_ack: Option<bool>,
    /// With `ask_ack`, whether new data request an ACK only if no earlier request is outstanding.
    pub ask_ack_once: Option<bool>,
    // Acknowledgments.
    /// The delayed-ACK factor d, segments.
    pub ack_every: Option<u32>,
    /// Whether d counts full segments of bytes (RFC 5681 §4.2) instead of packets.
    pub ack_bytes: Option<bool>,
    /// Maximum delay of an ACK (RFC 1122 §4.2.3.2).
    pub ack_delay: Option<Duration>,
    /// The start of the delayed-ACK timer.
    pub ack_timer: Option<AckTimer>,
    /// Number of ACKs sent at once at the start, after a pause and after a duplicate.
    pub quick_acks: Option<u32>,
    /// Whether a segment with PSH is acknowledged at once.
    pub ack_pushes: Option<bool>,
    /// Whether the fourth and later duplicate ACKs are merged.
    pub compress_sack: Option<bool>,
    /// Whether the receive window is auto-tuned, as by `tcp_moderate_rcvbuf`.
    pub tune_window: Option<bool>,
    /// Whether duplicates are reported by DSACK (RFC 2883).
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
const KEYS: [&str; 52] = [
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
    "ask_ack_once",
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
/// The longest delay of an ACK (RFC 1122 §4.2.3.2).
const MAX_ACK_DELAY: Duration = Duration::from_millis(500);

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
        ask_ack_once: s.flag("ask_ack_once"),
        ack_every: s.whole("ack_every", 1, 1_000),
        ack_bytes: s.flag("ack_bytes"),
        ack_delay: time("ack_delay", MS, MAX_ACK_DELAY),
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

/// Reports keys that contradict each other.
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
