//! Nodes with radios, and the event loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::scenario::{RadioModel, Routing};
use ackwise_queue::Nanos;
use ackwise_rng::{Probability, Rng};

use crate::air::Air;
use crate::aodv::Router;
use crate::energy::Meter;
use crate::frame::{Body, Datagram, Frame, NodeId};
use crate::mac::{Exchange, Mac, SaturatedSource};
use crate::{routes, timing};
use ackwise_sim::packet::{Direction, FlowId, Packet};
use ackwise_sim::tcp::{Receiver, ReceiverConfig, Sender, SenderConfig};

mod csma;
mod discovery;
mod sleep;

use sleep::Sleeper;

const NEVER: Nanos = Nanos::MAX;
/// Initial TTL of TCP's packets.
const TTL: u8 = 64;
/// A guard against a transfer that never ends: any other takes fewer events.
const MAX_EVENTS: u64 = 2_000_000_000;
/// How many events pass between checks of whether to continue: some milliseconds.
const EVENTS_PER_CHECK: u64 = 4096;

/// An event.
#[derive(Debug)]
enum Event {
    /// A timer of a node's MAC, void unless its token is current.
    Mac(NodeId, u32),
    /// A frame ends.
    End(NodeId),
    /// A sleeping node's time to check the channel.
    Check(NodeId),
    /// A timer of a sleeping node's receiver, void unless its token is current.
    RxTimer(NodeId, u32),
    /// A node has turned around to send an acknowledgment.
    SendAck(NodeId),
    /// A packet leaves after a pause.
    Emit(NodeId, Box<Datagram>),
    /// A node sends a hello, and checks for silent neighbours.
    Hello(NodeId),
    /// A node has waited long enough for the answer to a search; the number is the attempt.
    Lookup(NodeId, NodeId, u32),
    /// A flow begins.
    Start(usize),
    /// A timer of a flow's sender, or receiver.
    Timer(usize, Direction),
}

/// A pending event. Events of the same time are handled in the order in which they were entered.
struct Entry {
    at: Nanos,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// Counters of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Frames sent, without acknowledgments.
    pub frames: u64,
    /// Acknowledgment frames sent.
    pub acks: u64,
    /// Clear channel assessments (CCA).
    pub ccas: u64,
    /// CCAs that found the channel busy.
    pub busy: u64,
    /// Frames retransmitted.
    pub retries: u64,
    /// Frames given up because nobody acknowledged them.
    pub no_ack: u64,
    /// Frames given up because the channel was never clear.
    pub no_channel: u64,
    /// Packets for which the queue had no room.
    pub overflows: u64,
    /// Packets without a route, or with no hop left.
    pub unrouted: u64,
    /// Packets of the routing protocol sent.
    pub routing: u64,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub mac: Mac,
    pub meter: Meter,
    pub router: Router,
    /// The frame being sent.
    pub sending: Option<Sending>,
    /// The acknowledgment owed to a neighbour.
    pub pending_ack: Option<Exchange>,
    /// A packet received from a neighbour, passed on once it is acknowledged.
    pub received: Option<ReceivedPacket>,
    pub counts: NodeCounts,
    pub sleeper: Sleeper,
}

/// A frame in the air.
#[derive(Debug)]
pub(crate) struct Sending {
    /// Its number at the medium.
    number: u64,
    frame: Frame,
}

/// A packet received from a neighbour.
#[derive(Debug)]
pub(crate) struct ReceivedPacket {
    from: NodeId,
    load: Datagram,
}

/// A flow to run.
#[derive(Debug, Clone)]
pub struct FlowSetup {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// Bytes to send.
    pub bytes: u64,
    /// When the flow begins.
    pub start: Nanos,
    /// Configuration of the sender.
    pub sender: Arc<SenderConfig>,
    /// Configuration of the receiver.
    pub receiver: Arc<ReceiverConfig>,
}

struct Flow {
    from: NodeId,
    to: NodeId,
    bytes: u64,
    start: Nanos,
    sender: Sender,
    receiver: Receiver,
    due: [Nanos; 2],
    done: Option<Nanos>,
}

/// Result of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowResult {
    /// Bytes delivered in order.
    pub delivered: u64,
    /// Time from the start to the last ACK; `None` if the flow did not end in time.
    pub duration: Option<Nanos>,
    /// Data segments sent, including retransmissions.
    pub segments: u64,
    /// Data segments retransmitted.
    pub retransmits: u64,
    /// ACKs that the receiver sent.
    pub acks: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioResult {
    /// Results of the flows, in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// Energy used by each node from the start to the end of the last flow, in joules.
    pub joules: Vec<f64>,
    /// Counters of each node.
    pub nodes: Vec<NodeCounts>,
    /// Share of time that a node's radio was off, averaged over nodes; `None` if none sleeps.
    pub asleep: Option<f64>,
    /// When the last flow, or the run, ended.
    pub end: Nanos,
    /// Receptions spoiled by another frame.
    pub collisions: u64,
    /// Events handled.
    pub events: u64,
}

impl RadioResult {
    /// Energy used by all nodes together, in joules.
    pub fn total_joules(&self) -> f64 {
        self.joules.iter().sum()
    }

    /// Delivered bits per second, summed over the flows, each over its own time.
    pub fn throughput_bps(&self) -> f64 {
        let rate = |flow: &FlowResult| {
            let duration = flow.duration.unwrap_or(self.end).max(1);
            flow.delivered as f64 * 8e9 / duration as f64
        };
        self.flows.iter().map(rate).sum()
    }

    /// Throughput per energy, in bit/s per joule: Ayadi's Eff.
    pub fn efficiency(&self) -> f64 {
        self.throughput_bps() / self.total_joules().max(f64::MIN_POSITIVE)
    }
}

/// Nodes, the medium between them, and flows.
pub struct World {
    pub(crate) now: Nanos,
    queue: BinaryHeap<Reverse<Entry>>,
    entered: u64,
    pub(crate) air: Air,
    pub(crate) nodes: Vec<Node>,
    pub(crate) model: RadioModel,
    /// With static routes, the next hop from one node towards another.
    next_hop: Option<Vec<Vec<Option<NodeId>>>>,
    flows: Vec<Flow>,
    pub(crate) backoffs: Rng,
    pub(crate) jitter: Rng,
    errors: Rng,
    pub(crate) numbers: u64,
    /// Sources that always have a frame.
    pub(crate) sources: Vec<SaturatedSource>,
    /// How long a CCA takes.
    pub(crate) cca_time: Nanos,
    /// How long a sender waits for an acknowledgment.
    pub(crate) ack_wait: Nanos,
    /// How long the turnaround to sending takes after a CCA.
    pub(crate) turnaround: Nanos,
    left: usize,
    /// Packets of padding that reached their destination.
    pub(crate) delivered: u64,
}

impl World {
    /// A world with nodes at these places (metres) and the flows between them. All randomness
    /// comes from the seed.
    pub fn new(places: &[(f64, f64)], model: &RadioModel, flows: &[FlowSetup], seed: u64) -> World {
        let node = |_| Node {
            mac: Mac::default(),
            meter: Meter::default(),
            router: Router::new(places.len()),
            sending: None,
            pending_ack: None,
            received: None,
            counts: NodeCounts::default(),
            sleeper: Sleeper::default(),
        };
        let mut world = World {
            now: 0,
            queue: BinaryHeap::new(),
            entered: 0,
            air: Air::new(places, model),
            nodes: (0..places.len()).map(node).collect(),
            next_hop: (model.routing == Routing::Static)
                .then(|| routes::shortest(places, model.range_m)),
            model: model.clone(),
            flows: Vec::new(),
            backoffs: Rng::stream(seed, 1),
            jitter: Rng::stream(seed, 2),
            errors: Rng::stream(seed, 3),
            numbers: 0,
            sources: Vec::new(),
            cca_time: timing::CCA + model.mac.look_setup,
            ack_wait: model.mac.ack_wait,
            turnaround: timing::TURNAROUND,
            left: flows.len(),
            delivered: 0,
        };
        world.fall_asleep(seed);
        world.begin_hellos();
        for (index, setup) in flows.iter().enumerate() {
            let id = FlowId(index as u32);
            world.flows.push(Flow {
                from: setup.from,
                to: setup.to,
                bytes: setup.bytes,
                start: setup.start,
                sender: Sender::new(id, Arc::clone(&setup.sender)),
                receiver: Receiver::new(id, Arc::clone(&setup.receiver)),
                due: [NEVER; 2],
                done: None,
            });
            world.at(setup.start, Event::Start(index));
        }
        world
    }

    fn at(&mut self, time: Nanos, event: Event) {
        self.entered += 1;
        self.queue.push(Reverse(Entry {
            at: time,
            number: self.entered,
            event,
        }));
    }

    fn after(&mut self, time: Nanos, event: Event) {
        self.at(self.now + time, event);
    }

    /// Runs until all flows have ended, or until `until`.
    pub fn run(&mut self, until: Nanos) -> RadioResult {
        let (events, _) = self.deal(until, || true);
        self.result(events)
    }

    /// Like [`run`](Self::run), but returns `None` if `cancel` is set before the run has ended.
    pub fn run_unless(&mut self, cancel: &AtomicBool, until: Nanos) -> Option<RadioResult> {
        let (events, ended) = self.deal(until, || !cancel.load(Ordering::Relaxed));
        ended.then(|| self.result(events))
    }

    /// Handles events until all flows have ended, until `until`, or until `go_on` returns false. Returns
    /// the number of events, and false only if `go_on` ended it.
    fn deal(&mut self, until: Nanos, go_on: impl Fn() -> bool) -> (u64, bool) {
        let mut events = 0;
        while events < MAX_EVENTS && self.step(until) {
            events += 1;
            if self.left == 0 && self.sources.is_empty() {
                break;
            }
            if events % EVENTS_PER_CHECK == 0 && !go_on() {
                return (events, false);
            }
        }
        (events, true)
    }

    /// Handles the next event if it is due by `until`; else advances the clock to `until`.
    pub(crate) fn step(&mut self, until: Nanos) -> bool {
        let next = self.queue.peek().filter(|entry| entry.0.at <= until);
        if next.is_none() {
            self.now = until.max(self.now);
            return false;
        }
        if let Some(Reverse(next)) = self.queue.pop() {
            self.now = next.at;
            self.handle(next.event);
        }
        true
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Mac(node, token) => self.mac_timer(node, token),
            Event::End(node) => self.frame_ends(node),
            Event::Check(node) => self.check(node),
            Event::RxTimer(node, token) => self.rx_timer(node, token),
            Event::SendAck(node) => self.send_ack(node),
            Event::Emit(node, datagram) => self.route(node, *datagram),
            Event::Lookup(node, target, attempt) => self.lookup_timer(node, target, attempt),
            Event::Hello(node) => self.hello(node),
            Event::Start(flow) => {
                let f = &mut self.flows[flow];
                f.sender.open(self.now);
                f.sender.supply(f.bytes);
                f.sender.close();
                self.pump(flow);
            }
            Event::Timer(flow, direction) => self.flow_timer(flow, direction),
        }
    }

    fn result(&mut self, events: u64) -> RadioResult {
        let now = self.now;
        for node in &mut self.nodes {
            node.meter.count(now);
        }
        let flow = |f: &Flow| FlowResult {
            delivered: f.receiver.delivered(),
            duration: f.done.map(|at| at - f.start),
            segments: f.sender.stats().data_segments,
            retransmits: f.sender.stats().retransmits,
            acks: f.receiver.stats().acks,
            timeouts: f.sender.stats().timeouts,
        };
        RadioResult {
            flows: self.flows.iter().map(flow).collect(),
            joules: self
                .nodes
                .iter()
                .map(|node| node.meter.joules(&self.model.energy))
                .collect(),
            nodes: self.nodes.iter().map(|node| node.counts).collect(),
            asleep: self.asleep(),
            end: now,
            collisions: self.air.collisions,
            events,
        }
    }

    /// Sends what the ends of a flow have to send, and sets their timers.
    fn pump(&mut self, flow: usize) {
        loop {
            let f = &mut self.flows[flow];
            let (from, to, now) = (f.from, f.to, self.now);
            let (packet, from, to) = match f.sender.poll_transmit(now) {
                Some(packet) => (packet, from, to),
                None => match f.receiver.poll_transmit(now) {
                    Some(packet) => (packet, to, from),
                    None => break,
                },
            };
            self.route(from, tcp(packet, from, to));
        }
        let now = self.now;
        let f = &mut self.flows[flow];
        if f.done.is_none() && f.sender.stats().finished_at.is_some() {
            f.done = Some(now);
            self.left -= 1;
        }
        let f = &mut self.flows[flow];
        let wanted = [f.sender.next_timer(), f.receiver.next_timer()];
        for (slot, direction) in [(0, Direction::Data), (1, Direction::Ack)] {
            let at = wanted[slot].map_or(NEVER, |at| at.max(now));
            if at < self.flows[flow].due[slot] {
                self.flows[flow].due[slot] = at;
                self.at(at, Event::Timer(flow, direction));
            }
        }
    }

    /// Handles a timer. Timers are lazy: a timer that fires too early only checks when it is due.
    fn flow_timer(&mut self, flow: usize, direction: Direction) {
        let now = self.now;
        let f = &mut self.flows[flow];
        let slot = usize::from(direction == Direction::Ack);
        if f.due[slot] != now {
            return;
        }
        f.due[slot] = NEVER;
        match direction {
            Direction::Data => f.sender.on_timer(now),
            Direction::Ack => f.receiver.on_timer(now),
        }
        self.pump(flow);
    }

    /// Delivers a packet at its destination.
    fn arrive(&mut self, datagram: Datagram) {
        let Body::Tcp(packet) = datagram.body else {
            self.delivered += 1;
            return;
        };
        let (flow, now) = (packet.flow.0 as usize, self.now);
        let f = &mut self.flows[flow];
        match packet.direction {
            Direction::Data => {
                f.receiver.set_hops(TTL - datagram.ttl + 1);
                f.receiver.on_packet(&packet, now);
            }
            Direction::Ack => f.sender.on_packet(&packet, now),
        }
        self.pump(flow);
    }

    /// Sends a packet on from this node.
    pub(crate) fn route(&mut self, node: NodeId, datagram: Datagram) {
        let Some(to) = datagram.to else {
            self.nodes[node].counts.routing += 1;
            return self.enqueue(node, None, datagram);
        };
        match &self.next_hop {
            Some(table) => match table[node][to] {
                Some(next) => self.enqueue(node, Some(next), datagram),
                None => self.nodes[node].counts.unrouted += 1,
            },
            None => self.route_found(node, to, datagram),
        }
    }

    /// Handles a packet received from a neighbour.
    fn forward(&mut self, node: NodeId, from: NodeId, mut datagram: Datagram) {
        self.heard_any(node, from);
        if !matches!(datagram.body, Body::Tcp(_) | Body::Filler) {
            return self.routing(node, from, datagram);
        }
        self.heard_from(node, from, &datagram);
        if datagram.to == Some(node) {
            return self.arrive(datagram);
        }
        datagram.ttl -= 1;
        if datagram.ttl == 0 {
            self.nodes[node].counts.unrouted += 1;
            return;
        }
        self.route(node, datagram);
    }

    /// Whether a frame of this many bytes had bit errors.
    fn garbled(&mut self, bytes: u32) -> bool {
        if self.model.bit_errors == 0.0 {
            return false;
        }
        let bits = 8 * (bytes + timing::PHY_BYTES);
        let whole = (1.0 - self.model.bit_errors).powi(bits as i32);
        self.errors.happens(Probability::from_fraction(1.0 - whole))
    }
}

fn tcp(packet: Packet, from: NodeId, to: NodeId) -> Datagram {
    Datagram {
        from,
        to: Some(to),
        ttl: TTL,
        bytes: packet.wire_len,
        body: Body::Tcp(packet),
    }
}
