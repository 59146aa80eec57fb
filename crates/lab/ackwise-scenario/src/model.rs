//! The checked description of an experiment.
//!
//! Everything here has passed the checks of the parser: names are unique, references resolve, rates
//! are positive, probabilities lie in 0…1. Times are [`Duration`]s, rates bits per second, sizes
//! bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ackwise_config::queues::{Mux, Police, Queue, Reconstruct, Shape};
use ackwise_config::tree::Table;
use ackwise_config::{Source, Span};
use ackwise_queue::wifi::WifiConfig;
use ackwise_queue::{DelaySchedule, Outages, RateSchedule};

use crate::engine::Engine;
use crate::metric::Metric;
use crate::tcp_model::TcpModel;
use crate::trace::TraceFiles;

/// The name of the arm with which others are compared: the stock stack.
pub const BASELINE: &str = "baseline";

/// A scenario file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Short name; also the stem of output files.
    pub name: String,
    /// What the scenario shows, in a sentence or two.
    pub about: String,
    /// How long traffic flows in each run.
    pub duration: Duration,
    /// Hosts, routers and bridges, in file order.
    pub nodes: Vec<Node>,
    /// Point-to-point links between nodes, in file order.
    pub links: Vec<Link>,
    /// The flows, in file order.
    pub flows: Vec<Flow>,
    /// The values that vary from run to run.
    pub sweep: Sweep,
    /// The alternatives that are compared; swept parameters are already expanded. Never empty;
    /// `baseline` comes first if it exists.
    pub arms: Vec<Arm>,
    /// What is recorded.
    pub record: RecordOptions,
    /// The expected results.
    pub expects: Vec<Expect>,
    /// How closely two engines must agree.
    pub agrees: Vec<Agree>,
    /// The file name and text of the scenario.
    pub source: Source,
    /// The traces that links use.
    pub files: TraceFiles,
    /// The text as it was read, for the scenarios of the runs.
    pub parsed: Parsed,
}

/// The tree of a scenario's text, kept so that each run need not read the text again.
#[derive(Clone, Default)]
pub struct Parsed(pub(crate) Arc<Table>);

/// The texts are compared instead.
impl PartialEq for Parsed {
    fn eq(&self, _: &Parsed) -> bool {
        true
    }
}

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parsed")
    }
}

/// A host, router or bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// How the node treats packets that are not addressed to it.
    pub kind: NodeKind,
    /// Per-namespace kernel parameters, e.g. `net.ipv4.tcp_rmem` → `4096 131072 6291456`.
    pub sysctl: BTreeMap<String, String>,
}

/// How a node treats packets that are not addressed to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// Has applications; does not forward.
    Host,
    /// Forwards IP packets.
    Router,
    /// Forwards Ethernet frames, transparently.
    Bridge,
}

/// A link between two nodes, with its two directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Unique name.
    pub name: String,
    /// The two ends; `forward` runs from the first to the second.
    pub between: [String; 2],
    /// From `between[0]` to `between[1]`.
    pub forward: Direction,
    /// From `between[1]` to `between[0]`.
    pub reverse: Direction,
    /// Whether both directions can send at the same time.
    pub duplex: Duplex,
    /// The limits of the stations of a Wi-Fi link; `None` for other links.
    pub wifi: Option<Wifi>,
    /// Whether the devices may use GSO, GRO and TSO.
    pub offload: bool,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Bytes that the link adds to each packet and that count against its rate and its queue; 14
    /// for Ethernet unless set otherwise.
    pub overhead: u32,
}

/// Whether the two directions of a link share a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Duplex {
    /// Each direction is a separate wire.
    #[default]
    Full,
    /// One medium for both: one packet at a time, each at the rate of its direction. If both wait,
    /// the direction that did not send last goes first.
    Half,
}

/// An IEEE 802.11n link, whose ends contend for the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wifi {
    /// Maximum number of frames in an A-MPDU, 1 to 64.
    pub frames: u32,
    /// Maximum size of an A-MPDU in bytes.
    pub bytes: u32,
    /// Maximum time for frames and their ACK together, if it is limited.
    pub txop: Option<Duration>,
}

impl Link {
    /// The medium of a Wi-Fi link, with the seed of its back-offs; `None` for other links.
    #[must_use]
    pub fn wifi_medium(&self, seed: u64) -> Option<WifiConfig> {
        let wifi = self.wifi?;
        let rate = |direction: &Direction| direction.rate_bps.unwrap_or(1);
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Some(WifiConfig {
            rates_bps: [rate(&self.forward), rate(&self.reverse)],
            header: self.overhead,
            max_frames: wifi.frames,
            max_bytes: u64::from(wifi.bytes),
            txop_ns: wifi.txop.map(nanos),
            seed,
        })
    }

    /// Whether the egress queue of this node on the link keeps flows apart.
    #[must_use]
    pub fn separates_flows_of(&self, node: &str) -> bool {
        let leaving = if self.between[0] == node {
            &self.forward
        } else {
            &self.reverse
        };
        leaving.queue.as_ref().is_some_and(Queue::separates_flows)
    }
}

/// One direction of a link. The default is a plain veth, as fast as the CPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Direction {
    /// Line rate, bits per second, or its mean if it changes; unlimited if `None`.
    pub rate_bps: Option<u64>,
    /// The rate over time since the start of the run, if it changes.
    pub rate_changes: Option<Arc<RateSchedule>>,
    /// Times at which nothing is sent, since the start of the run.
    pub outages: Option<Arc<Outages>>,
    /// One-way propagation delay, or its minimum if it changes.
    pub delay: Duration,
    /// The delay over time since the start of the run, if it changes.
    pub delay_changes: Option<Arc<DelaySchedule>>,
    /// Each packet's delay varies uniformly by ± this much; order is kept.
    pub jitter: Duration,
    /// Probability that a packet is lost, 0…1.
    pub loss: f64,
    /// Probability that a packet is delivered twice, 0…1.
    pub duplicate: f64,
    /// Reordering: packets that later ones overtake.
    pub reorder: Option<Reorder>,
    /// The queue before the link; the engine's default if `None`.
    pub queue: Option<Queue>,
    /// Policer before the queue.
    pub police: Option<Police>,
    /// Shaper behind the policer.
    pub shape: Option<Shape>,
    /// Multiplexer that bundles packets before the queue.
    pub mux: Option<Mux>,
    /// Reconstructs ACKs from stretch ACKs at the far end.
    pub reconstruct: Option<Reconstruct>,
    /// What implements the rate and the queue for real packets.
    pub by: By,
}

/// What limits the rate of a direction where packets are real. The simulator has one queue for all
/// of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The link itself: the engine's emulator, or the kernel.
    #[default]
    Link,
    /// A gateway, `ackwise gateway`, at the node that sends into it.
    Gateway,
    /// `ackwise up` at the link's rate, on a router between the link and the node that sends into
    /// it. The link keeps its rate and its queue, as a modem does.
    Up,
}

impl Direction {
    /// Whether this direction behaves as a plain veth does.
    pub fn is_plain(&self) -> bool {
        *self == Direction::default()
    }
}

/// Some packets take longer and thus arrive after later ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is delayed additionally, 0…1.
    pub probability: f64,
    /// The additional delay.
    pub delay: Duration,
}

/// A flow of data from one host to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Unique name.
    pub name: String,
    /// The node that sends the data.
    pub from: String,
    /// The node that receives the data and acknowledges.
    pub to: String,
    /// The application.
    pub app: App,
    /// Congestion control of the sender if the flow fixes it; otherwise the run's ([`RunSpec::cc`])
    /// applies. See [`Flow::cc`].
    pub fixed_cc: Option<String>,
    /// Earliest start.
    pub start: Duration,
    /// Maximum random delay of the start, drawn uniformly from the seed: stream 2000 + its place in
    /// the file, so that every engine draws the same.
    pub start_within: Duration,
    /// Number of TCP connections that are open at the same time, each doing the same. A flow with
    /// none exists only in the file: [`Scenario::at`] leaves it out.
    pub connections: u32,
    /// QUIC as the transport, on the simulator; TCP if `None`.
    pub quic: Option<Quic>,
    /// The ACK rate that the sender requests from the receiver over TCP, on the simulator.
    pub ack_rate_request: Option<AckRateRequest>,
    /// ACK congestion control: lost ACKs make the sender reduce the receiver's ACK rate, on the
    /// simulator.
    pub ack_congestion_control: Option<AckCongestionControl>,
    /// TCP options of the connection.
    pub socket: SocketOptions,
    /// How the simulator models its TCP; other engines use the kernel's.
    pub model: TcpModel,
}

impl Flow {
    /// The congestion control that this flow uses in a run.
    pub fn cc<'a>(&'a self, run: &'a RunSpec) -> &'a str {
        self.fixed_cc.as_deref().unwrap_or(&run.cc)
    }
}

/// What a QUIC flow requests of its receiver's ACKs (draft-ietf-quic-ack-frequency).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quic {
    /// Packets that may arrive without an ACK. If `None`, the sender does not use the extension,
    /// and every second packet is acknowledged.
    pub ack_eliciting_threshold: Option<u32>,
    /// Maximum delay of an ACK, if the extension is used.
    pub max_ack_delay: Option<Duration>,
}

/// ACK congestion control by the sender of a flow (RFC 5690).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckCongestionControl {
    /// Maximum number of segments that an ACK may cover: J of RFC 5690 §4.5.
    pub most: u8,
}

/// What the sender of a flow requests of its receiver's ACKs (draft-ietf-tcpm-ack-rate-request).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckRateRequest {
    /// Requested number of segments per ACK.
    pub rate: Option<AckRate>,
    /// Whether the last segment that may leave for now requests an immediate ACK.
    pub immediate: bool,
}

/// The number of segments per ACK, at most 127 and never more than a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckRate {
    /// A fixed number of segments.
    Segments(u32),
    /// The congestion window divided by this number of ACKs.
    PerWindow(u32),
}

/// What the two applications of a flow do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum App {
    /// The built-in sender; the receiver checks every byte.
    Bulk {
        /// Bytes per connection; until the end of the run if `None`.
        bytes: Option<u64>,
    },
    /// A transfer by `iperf3`; the content is not checked.
    Iperf3 {
        /// Bytes per connection; until the end of the run if `None`.
        bytes: Option<u64>,
    },
    /// One exchange after another over a long-lived connection. The node `to` asks and `from`
    /// answers; the answer is usually larger.
    RequestResponse {
        /// Bytes of a request, from [`Flow::to`] to [`Flow::from`].
        request: u64,
        /// Bytes of a response, from [`Flow::from`] to [`Flow::to`].
        response: u64,
        /// Exchanges over each connection; as many as there is time for if `None`.
        count: Option<u32>,
    },
    /// A new connection for each transfer. The completion time is measured from `connect` to the
    /// last byte at the receiver.
    ShortFlows {
        /// Sizes in bytes; their order is drawn from the seed.
        sizes: Vec<u64>,
        /// Transfers of each size, [`Flow::connections`] at a time; as many as there is time for if
        /// `None`.
        count: Option<u32>,
    },
    /// A chunk per period over a long-lived connection, like live video. A chunk that has not
    /// arrived completely by its deadline is late.
    Chunks {
        /// Bytes per chunk.
        chunk: u64,
        /// Time between two chunks.
        period: Duration,
        /// Maximum time from when a chunk is due at the sender to its arrival.
        deadline: Duration,
    },
}

impl App {
    /// The name used in scenario files.
    pub fn name(&self) -> &'static str {
        match self {
            App::Bulk { .. } => "bulk",
            App::Iperf3 { .. } => "iperf3",
            App::RequestResponse { .. } => "request-response",
            App::ShortFlows { .. } => "short-flows",
            App::Chunks { .. } => "chunks",
        }
    }

    /// Whether it sends as much as it can until the end of the run.
    pub fn is_endless(&self) -> bool {
        match self {
            App::Bulk { bytes } | App::Iperf3 { bytes } => bytes.is_none(),
            App::RequestResponse { count, .. } | App::ShortFlows { count, .. } => count.is_none(),
            App::Chunks { .. } => true,
        }
    }
}

/// TCP options of a flow's connections. `None` leaves the kernel's default. Those that Linux sets
/// per namespace apply to both nodes of the flow; flows that share a node must agree on them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocketOptions {
    /// Selective acknowledgments (`net.ipv4.tcp_sack`).
    pub sack: Option<bool>,
    /// Timestamps (`net.ipv4.tcp_timestamps`).
    pub timestamps: Option<bool>,
    /// Explicit congestion notification, asked for and granted (`net.ipv4.tcp_ecn`).
    pub ecn: Option<bool>,
    /// Window scaling (`net.ipv4.tcp_window_scaling`).
    pub window_scaling: Option<bool>,
    /// Multipath TCP sockets (`IPPROTO_MPTCP`).
    pub mptcp: bool,
    /// Version of IP.
    pub ip: IpVersion,
    /// `SO_RCVBUF` of the receiver, bytes; auto-tuned if `None`.
    pub receive_buffer: Option<u64>,
    /// `SO_SNDBUF` of the sender, bytes; auto-tuned if `None`.
    pub send_buffer: Option<u64>,
    /// The sender paces whatever its congestion control is, as Linux does for sockets with
    /// `SO_MAX_PACING_RATE`, and in the queue discipline `fq`.
    pub pacing: bool,
}

/// Version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// The values that vary from run to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Congestion controls.
    pub cc: Vec<String>,
    /// Seeds of every random draw.
    pub seeds: Vec<u64>,
    /// Other values in the file; all combinations are run.
    pub vary: Vec<Vary>,
    /// Values that change together: the paths of each have the same number of values.
    pub zips: Vec<Vec<Vary>>,
    /// Points that are drawn at random.
    pub draw: Option<Draw>,
}

/// Points that are drawn at random, `[sweep.draw]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// Seed of the draws.
    pub seed: u64,
    /// The points, by number from 1, each followed by its repeats. Never empty.
    pub points: Vec<DrawnPoint>,
    /// Number of points; the repeats of a point count as one.
    pub count: u32,
    /// Number of runs of each point, with redrawn values for each repeat.
    pub repeats: u32,
    /// Names whose values differ between the repeats of a point in at least one population; empty
    /// if nothing is redrawn.
    pub redrawn: Vec<String>,
    /// Names by whose values a report groups the points.
    pub group: Vec<String>,
    /// Sets of arms with whose best member each arm is compared.
    pub against: Vec<Rivals>,
    /// Place of the table in the file.
    pub span: Span,
}

/// A drawn point.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnPoint {
    /// Its number, from 1.
    pub number: u32,
    /// Number of the repeat, from 1.
    pub repeat: u32,
    /// Congestion control, if it is drawn.
    pub cc: Option<String>,
    /// Everything that was drawn or computed, ordered by name.
    pub values: Vec<DrawnValue>,
}

/// A value at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnValue {
    /// The path of the value that it replaces, or a name on which others depend.
    pub name: String,
    /// The value.
    pub value: SettingValue,
    /// Place of its definition in the file.
    pub span: Span,
}

/// A set of arms with whose best member, at each point, others are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rivals {
    /// Its name in reports.
    pub name: String,
    /// Names or patterns of arms.
    pub arms: Vec<String>,
}

/// A value of the file that is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    /// Its path, e.g. `link.wan.forward.loss`.
    pub path: String,
    /// Its values, as written in the file.
    pub values: Vec<String>,
}

/// One of the alternatives that are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Unique name; `baseline` is the stock stack.
    pub name: String,
    /// Policies and where they run; empty for the stock stack.
    pub placements: Vec<Placement>,
    /// The engines that the arm is limited to; all if empty.
    pub on: Vec<Engine>,
    /// Place of the arm in the file.
    pub span: Span,
}

/// A policy at an interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Name of the policy; the engine knows which exist.
    pub policy: String,
    /// Place of that name in the file.
    pub policy_span: Span,
    /// The node that the policy runs on.
    pub node: String,
    /// The link of the node's interface that gets the datapath.
    pub link: String,
    /// Its position, as seen from the flows.
    pub position: Position,
    /// What runs the policy there.
    pub environment: Environment,
    /// Parameters of the policy, in file order; the engine checks them.
    pub set: Vec<Setting>,
    /// Longest time an ACK may be withheld; the datapath's default if `None`.
    pub hold: Option<Duration>,
    /// Minimum of the hold bound: an ACK that may be withheld may wait this long, however short the
    /// round trip.
    pub hold_min: Option<Duration>,
    /// Whether data that leave there carry their sender's congestion window in their window field.
    pub cwnd_hint: bool,
    /// Whether the sender's requests for an ACK rate are obeyed there.
    pub obey_ack_rate: bool,
    /// Names of the flows that it applies to; all if empty.
    pub flows: Vec<String>,
}

/// What runs a policy at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Environment {
    /// The datapath at the interface: it withholds ACKs that the stack made.
    #[default]
    Datapath,
    /// The receiver's TCP itself, which decides when to acknowledge.
    Stack,
}

/// Position of a datapath, as seen from the flows that it thins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// On the host that sends the ACKs.
    Receiver,
    /// Between the two.
    Router,
    /// On the host that sends the data.
    Sender,
}

impl Position {
    /// The name used in scenario files.
    pub fn name(self) -> &'static str {
        match self {
            Position::Receiver => "receiver",
            Position::Router => "router",
            Position::Sender => "sender",
        }
    }
}

/// A parameter of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Place of the name in the file.
    pub name_span: Span,
    /// Value.
    pub value: SettingValue,
    /// Place of the value in the file.
    pub value_span: Span,
}

/// The value of a policy's parameter, as written.
#[derive(Debug, Clone, PartialEq)]
pub enum SettingValue {
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Float(f64),
    /// `true` or `false`.
    Bool(bool),
    /// Text, e.g. `"25 ms"`.
    Text(String),
}

/// The value as it would be written after `--set name=`.
impl std::fmt::Display for SettingValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingValue::Integer(v) => write!(f, "{v}"),
            SettingValue::Float(v) => write!(f, "{v}"),
            SettingValue::Bool(v) => write!(f, "{v}"),
            SettingValue::Text(v) => f.write_str(v),
        }
    }
}

/// What is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordOptions {
    /// Time between two samples of a series.
    pub interval: Duration,
    /// Whether series are recorded.
    pub series: bool,
    /// Whether packets are captured into files.
    pub capture: bool,
}

/// An expected result, as a ratio to another arm or in absolute terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// Arms to which it applies, a glob.
    pub arm: String,
    /// Congestion controls to which it applies, globs; all if empty.
    pub cc: Vec<String>,
    /// The metric.
    pub metric: Metric,
    /// The arm that is the denominator of ratios.
    pub against: String,
    /// Minimum ratio to `against`.
    pub min_ratio: Option<f64>,
    /// Maximum ratio to `against`.
    pub max_ratio: Option<f64>,
    /// Minimum value, in the metric's unit.
    pub min: Option<f64>,
    /// Maximum value, in the metric's unit.
    pub max: Option<f64>,
    /// The source of the expectation.
    pub why: String,
    /// Its place in the file.
    pub span: Span,
}

/// How closely the results of two engines must agree.
#[derive(Debug, Clone, PartialEq)]
pub struct Agree {
    /// Arms to which it applies, a glob.
    pub arm: String,
    /// The metric.
    pub metric: Metric,
    /// Maximum difference as a share of the mean of the two, e.g. 0.03.
    pub within: f64,
}

/// One run: an arm, a congestion control, a seed, and a point of the sweep.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunSpec {
    /// Stable and unique within the scenario: `arm/cc/seed`, then `/path=value` for each further
    /// varied value, `/point=N` if the point is drawn, and `/repeat=N` if it is run several times.
    pub id: String,
    /// Name of the arm.
    pub arm: String,
    /// Congestion control of flows that do not fix it.
    pub cc: String,
    /// Seed of every random draw.
    pub seed: u64,
    /// The number of the drawn point, from 1.
    pub draw: Option<u32>,
    /// Further varied values (path → value as written), and drawn values (name → value).
    pub point: BTreeMap<String, String>,
}
