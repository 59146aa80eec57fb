//! The checked description of an experiment.
//!
//! Everything here has passed the checks of the parser: names are unique and
//! refer to something, rates are positive, probabilities lie in 0…1. Times are
//! [`Duration`]s, rates bits per second, sizes bytes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ackwise_config::queues::{Mux, Police, Queue, Reconstruct, Shape};
use ackwise_config::{Source, Span};
use ackwise_queue::wifi::WifiConfig;
use ackwise_queue::{DelaySchedule, Outages, RateSchedule};

use crate::engine::Engine;
use crate::metric::Metric;
use crate::tcp_model::TcpModel;
use crate::trace::TraceFiles;

/// The name of the arm that others are compared with: the stock stack.
pub const BASELINE: &str = "baseline";

/// A scenario file, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// Short name; also the stem of files that are written.
    pub name: String,
    /// What the scenario shows, in a sentence or two.
    pub about: String,
    /// How long traffic flows in each run.
    pub duration: Duration,
    /// Hosts, routers and bridges, in file order.
    pub nodes: Vec<Node>,
    /// Point-to-point links between nodes, in file order.
    pub links: Vec<Link>,
    /// What is sent, in file order.
    pub flows: Vec<Flow>,
    /// What is varied from run to run.
    pub sweep: Sweep,
    /// What is compared; swept parameters are already expanded. Never empty;
    /// `baseline` comes first if it exists.
    pub arms: Vec<Arm>,
    /// What is recorded.
    pub record: RecordOptions,
    /// What the results should be.
    pub expects: Vec<Expect>,
    /// How close two engines have to come.
    pub agrees: Vec<Agree>,
    /// Where the text came from, and the text.
    pub source: Source,
    /// The traces that links name.
    pub files: TraceFiles,
}

/// A host, router or bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Unique name.
    pub name: String,
    /// What it does with packets that are not for it.
    pub kind: NodeKind,
    /// Per-namespace kernel parameters, e.g. `net.ipv4.tcp_rmem` → `4096 131072 6291456`.
    pub sysctl: BTreeMap<String, String>,
}

/// What a node does with packets that are not addressed to it.
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
    /// What the stations of a Wi-Fi link may do; `None` if it is none.
    pub wifi: Option<Wifi>,
    /// Whether the devices may use GSO, GRO and TSO.
    pub offload: bool,
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Bytes that the link adds to each packet, and that count against its rate
    /// and its queue; the 14 of Ethernet, unless the engine is to do otherwise.
    pub overhead: u32,
}

/// Whether the two directions of a link are in each other's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Duplex {
    /// Each direction is a wire of its own.
    #[default]
    Full,
    /// One medium for both: a packet at a time, each at the rate of its direction.
    /// Whose turn it is when both wait: the one's that did not send last.
    Half,
}

/// A link of IEEE 802.11n, whose ends contend for the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wifi {
    /// The most frames of an A-MPDU, 1 to 64.
    pub frames: u32,
    /// The most bytes of an A-MPDU.
    pub bytes: u32,
    /// The longest that frames and their ACK may take together, if it is bounded.
    pub txop: Option<Duration>,
}

impl Link {
    /// The medium of a Wi-Fi link, with the seed of its back-offs; `None` if it is none.
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

    /// Whether the queue in which packets wait that leave this node keeps flows apart.
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

/// One direction of a link. All defaults: a plain veth, as fast as the CPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Direction {
    /// Line rate, bits per second, the mean of one that changes; unlimited if `None`.
    pub rate_bps: Option<u64>,
    /// The rate over time, from the start of the run on, if it changes.
    pub rate_changes: Option<Arc<RateSchedule>>,
    /// Times at which nothing is sent, from the start of the run on.
    pub outages: Option<Arc<Outages>>,
    /// One-way propagation delay, the least of one that changes.
    pub delay: Duration,
    /// The delay over time, from the start of the run on, if it changes.
    pub delay_changes: Option<Arc<DelaySchedule>>,
    /// Each packet's delay varies uniformly by ± this much; order is kept.
    pub jitter: Duration,
    /// Probability that a packet is lost, 0…1.
    pub loss: f64,
    /// Probability that a packet is delivered twice, 0…1.
    pub duplicate: f64,
    /// Packets that are overtaken by later ones.
    pub reorder: Option<Reorder>,
    /// The queue before the link; the engine's default if `None`.
    pub queue: Option<Queue>,
    /// Drops what exceeds, before the queue.
    pub police: Option<Police>,
    /// Delays what exceeds, behind the policer.
    pub shape: Option<Shape>,
    /// Bundles packets, before the queue.
    pub mux: Option<Mux>,
    /// Fills stretches of ACKs at the far end.
    pub reconstruct: Option<Reconstruct>,
    /// What has the rate and the queue, on real packets.
    pub by: By,
}

/// What makes a direction of a link as slow as it is, where packets are real. The
/// simulator has one queue for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum By {
    /// The link itself: the engine's emulator, or the kernel.
    #[default]
    Link,
    /// A gateway, `ackwise gateway`, at the node that sends into it.
    Gateway,
}

impl Direction {
    /// Whether this direction behaves as a plain veth does.
    pub fn is_plain(&self) -> bool {
        *self == Direction::default()
    }
}

/// Some packets take longer and so arrive after later ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reorder {
    /// Probability that a packet is delayed additionally, 0…1.
    pub probability: f64,
    /// By how much.
    pub delay: Duration,
}

/// Data that flows from one host to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Unique name.
    pub name: String,
    /// The node that sends the data.
    pub from: String,
    /// The node that receives it and acknowledges.
    pub to: String,
    /// What the application does.
    pub app: App,
    /// Congestion control of the sender if the flow insists on one; else the
    /// run's ([`RunSpec::cc`]). See [`Flow::cc`].
    pub fixed_cc: Option<String>,
    /// When it starts, at the earliest.
    pub start: Duration,
    /// It starts up to this much later, drawn evenly from the seed: stream
    /// 2000 + its place in the file, so that every engine draws the same.
    pub start_within: Duration,
    /// How many TCP connections are open at the same time, each doing the same. A flow with
    /// none is there in the file alone: [`Scenario::at`] leaves it out.
    pub connections: u32,
    /// It runs over QUIC, on the simulator; over TCP if `None`.
    pub quic: Option<Quic>,
    /// What its sender asks of the receiver's ACKs over TCP, on the simulator.
    pub ack_rate_request: Option<AckRateRequest>,
    /// Its sender lets lost ACKs make its receiver's ACKs fewer, on the simulator.
    pub ack_congestion_control: Option<AckCongestionControl>,
    /// TCP options of the connection.
    pub socket: SocketOptions,
    /// How the simulator models its TCP; other engines have the kernel's.
    pub model: TcpModel,
}

impl Flow {
    /// The congestion control that this flow uses in a run.
    pub fn cc<'a>(&'a self, run: &'a RunSpec) -> &'a str {
        self.fixed_cc.as_deref().unwrap_or(&run.cc)
    }
}

/// What a flow over QUIC asks of its receiver's ACKs (draft-ietf-quic-ack-frequency).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quic {
    /// Packets that may arrive without an ACK; without it the sender does not use the extension, and
    /// every second packet is acknowledged.
    pub ack_eliciting_threshold: Option<u32>,
    /// How long an ACK may wait at most, if the extension is used.
    pub max_ack_delay: Option<Duration>,
}

/// ACK congestion control by the sender of a flow (RFC 5690).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckCongestionControl {
    /// The most segments that an ACK may cover: J of RFC 5690 §4.5.
    pub most: u8,
}

/// What the sender of a flow asks of its receiver's ACKs
/// (draft-ietf-tcpm-ack-rate-request).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckRateRequest {
    /// How many segments an ACK shall cover.
    pub rate: Option<AckRate>,
    /// The last segment that may leave for now asks for an ACK at once.
    pub immediate: bool,
}

/// How many segments an ACK shall cover, at most 127 and never more than a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckRate {
    /// This many segments.
    Segments(u32),
    /// The congestion window's, divided by so many ACKs.
    PerWindow(u32),
}

/// What the two applications of a flow do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum App {
    /// The built-in sender; the receiver checks every byte.
    Bulk {
        /// How much each connection sends; until the end of the run if `None`.
        bytes: Option<u64>,
    },
    /// A transfer by `iperf3`; contents are not checked.
    Iperf3 {
        /// How much each connection sends; until the end of the run if `None`.
        bytes: Option<u64>,
    },
    /// One exchange after another over a long-lived connection. The node
    /// `from` answers (it sends the larger part as a rule), `to` asks.
    RequestResponse {
        /// Bytes of a request, from [`Flow::to`] to [`Flow::from`].
        request: u64,
        /// Bytes of a response, from [`Flow::from`] to [`Flow::to`].
        response: u64,
        /// Exchanges over each connection; as many as there is time for if `None`.
        count: Option<u32>,
    },
    /// A new connection for each transfer; the completion time of each counts,
    /// from `connect` to the last byte at the receiver.
    ShortFlows {
        /// Sizes in bytes; the order in which they come is drawn from the seed.
        sizes: Vec<u64>,
        /// Transfers of each size, [`Flow::connections`] of them at a time; as many as there is
        /// time for if `None`.
        count: Option<u32>,
    },
    /// A chunk at each period over a long-lived connection, as live video is sent. A chunk that
    /// has not arrived whole when its time is over is late.
    Chunks {
        /// Bytes of a chunk.
        chunk: u64,
        /// From one chunk to the next.
        period: Duration,
        /// How long a chunk may take, from when it is due at the sender.
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

    /// Whether it sends as much as there is time for, until the end of the run.
    pub fn is_endless(&self) -> bool {
        match self {
            App::Bulk { bytes } | App::Iperf3 { bytes } => bytes.is_none(),
            App::RequestResponse { count, .. } | App::ShortFlows { count, .. } => count.is_none(),
            App::Chunks { .. } => true,
        }
    }
}

/// TCP options of a flow's connections. `None` leaves the kernel's default.
/// Those that Linux sets per namespace apply to both nodes of the flow; flows
/// that share a node agree on them.
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

/// What is varied from run to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// Congestion controls.
    pub cc: Vec<String>,
    /// Seeds of every random draw.
    pub seeds: Vec<u64>,
    /// Anything else in the file, combined with everything.
    pub vary: Vec<Vary>,
    /// Values that change together: the paths of each have as many values.
    pub zips: Vec<Vec<Vary>>,
    /// Points that are drawn at random.
    pub draw: Option<Draw>,
}

/// Points that are drawn at random, `[sweep.draw]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Draw {
    /// Seed of the draws.
    pub seed: u64,
    /// The points, by number from 1, and of each its repeats. Never empty.
    pub points: Vec<DrawnPoint>,
    /// How many points there are: the repeats of a point count as one.
    pub count: u32,
    /// How often each point is run, with what is drawn anew for each repeat.
    pub repeats: u32,
    /// Names whose values differ between the repeats of a point, in some population at least; none
    /// if nothing is drawn anew.
    pub redrawn: Vec<String>,
    /// Names by whose values a report groups the points.
    pub group: Vec<String>,
    /// Sets of arms whose best each arm is compared with.
    pub against: Vec<Rivals>,
    /// Where the table stands in the file.
    pub span: Span,
}

/// A point that was drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnPoint {
    /// Its number, from 1.
    pub number: u32,
    /// Which of its repeats it is, from 1.
    pub repeat: u32,
    /// Its congestion control, if that is drawn.
    pub cc: Option<String>,
    /// Everything that was drawn or computed, in the order of the names.
    pub values: Vec<DrawnValue>,
}

/// A value at a point.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnValue {
    /// The path of the value that it replaces, or a name that others depend on.
    pub name: String,
    /// The value.
    pub value: SettingValue,
    /// Where its definition stands in the file.
    pub span: Span,
}

/// A set of arms whose best at a point others are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rivals {
    /// What reports call it.
    pub name: String,
    /// Names or patterns of arms.
    pub arms: Vec<String>,
}

/// A value of the file that is varied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vary {
    /// Where it stands, e.g. `link.wan.forward.loss`.
    pub path: String,
    /// What it is set to, as written in the file.
    pub values: Vec<String>,
}

/// One of the things that are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Arm {
    /// Unique name; `baseline` is the stock stack.
    pub name: String,
    /// Which policies work where; empty for the stock stack.
    pub placements: Vec<Placement>,
    /// The engines that it is for; all if empty.
    pub on: Vec<Engine>,
    /// Where the arm stands in the file.
    pub span: Span,
}

/// A policy at an interface.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// Name of the policy; the engine knows which exist.
    pub policy: String,
    /// Where that name stands in the file.
    pub policy_span: Span,
    /// The node that the policy is at.
    pub node: String,
    /// The link of the node's interface that gets the datapath.
    pub link: String,
    /// Where that is, seen from the flows.
    pub position: Position,
    /// What it is there.
    pub environment: Environment,
    /// Parameters of the policy, in file order; the engine checks them.
    pub set: Vec<Setting>,
    /// Longest time an ACK may be withheld; the datapath's default if `None`.
    pub hold: Option<Duration>,
    /// What may be withheld at all, may be for so long, however short the round trip.
    pub hold_min: Option<Duration>,
    /// Whether data that leave there tell their sender's congestion window in
    /// their window field.
    pub cwnd_hint: bool,
    /// Whether the sender's requests for an ACK rate are obeyed there.
    pub obey_ack_rate: bool,
    /// Names of the flows that it is for; all if empty.
    pub flows: Vec<String>,
}

/// What a policy is at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Environment {
    /// A thinner at the interface: it withholds ACKs that the stack made.
    #[default]
    Datapath,
    /// The receiver's own rule of when to acknowledge, inside its TCP.
    Stack,
}

/// Where a datapath stands, seen from the flows that it thins.
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
    /// Where the name stands in the file.
    pub name_span: Span,
    /// Value.
    pub value: SettingValue,
    /// Where the value stands in the file.
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

/// As it would be written after `--set name=`.
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
    /// Whether series are recorded at all.
    pub series: bool,
    /// Whether packets are captured into files.
    pub capture: bool,
}

/// What a result should be, as a ratio to another arm or in absolute terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Expect {
    /// Arms it speaks of, a glob.
    pub arm: String,
    /// Congestion controls it speaks of, globs; all if empty.
    pub cc: Vec<String>,
    /// What is looked at.
    pub metric: Metric,
    /// The arm that ratios are formed with.
    pub against: String,
    /// Least ratio to `against`.
    pub min_ratio: Option<f64>,
    /// Greatest ratio to `against`.
    pub max_ratio: Option<f64>,
    /// Least value, in the metric's unit.
    pub min: Option<f64>,
    /// Greatest value, in the metric's unit.
    pub max: Option<f64>,
    /// Where it comes from.
    pub why: String,
    /// Where it stands in the file.
    pub span: Span,
}

/// How close the results of two engines have to come.
#[derive(Debug, Clone, PartialEq)]
pub struct Agree {
    /// Arms it speaks of, a glob.
    pub arm: String,
    /// What is compared.
    pub metric: Metric,
    /// Greatest difference as a share of the mean of the two, e.g. 0.03.
    pub within: f64,
}

/// One run: an arm, a congestion control, a seed, and a point of the sweep.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunSpec {
    /// Stable and unique within the scenario: `arm/cc/seed`, `/path=value`
    /// for each further varied value, and `/point=N` if the point is drawn; `/repeat=N` behind
    /// it if it is run several times.
    pub id: String,
    /// Name of the arm.
    pub arm: String,
    /// Congestion control of flows that do not fix theirs.
    pub cc: String,
    /// Seed of every random draw.
    pub seed: u64,
    /// The number of the drawn point, from 1.
    pub draw: Option<u32>,
    /// Further varied values: path → value as written; and what was drawn: name → value.
    pub point: BTreeMap<String, String>,
}
