//! The clock, and everything that it moves.
//!
//! ```text
//!  Source ─poll_transmit─► inject ─► [hook] ─► line ─► [hook] ─► line … ─► arrive ─► Sink
//!    ▲                                          │  one event: the packet at its head
//!    └── arrive ◄─ … ◄─ line ◄─ [hook] ◄─ inject ◄─────── poll_transmit ──────────────┘
//! ```
//!
//! A line is one direction of a link. Of everything that waits or travels on it
//! only the next arrival is an event; the queue in front of it is caught up with
//! when somebody looks (`ackwise_net::Link`). Timers are lazy: one that was put
//! off stays where it is, and is entered anew when it comes up.
//!
//! Events of the same time come up in the order in which they were entered, and
//! within one line departures precede arrivals. So a run is a function of the
//! scenario and the seed.

use ackwise_net::{Departure, DropCause, Nanos, Verdict};

use crate::app::App;
use crate::count::{Acked, Tally};
use crate::ends::{Sink, Source};
use crate::histogram::Histogram;
use crate::hook::{Hook, Side};
use crate::packet::{Flags, FlowId, Packet, Way};
use crate::parcel::{Parcel, Pool};
use crate::schedule::{MAX_EVENTS, Schedule, Target};

/// What a line is made of.
pub type Wire = ackwise_net::Channel<Parcel>;

/// After so many events at one moment it is taken for a standstill.
const MOST_AT_ONCE: u64 = 100_000_000;

/// No event is pending.
const NEVER: Nanos = Nanos::MAX;

/// An entry of the table of routes: which line comes next, and whether the flow
/// is counted on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop(u32);

impl Hop {
    /// The packet has arrived.
    pub const END: Hop = Hop(u32::MAX);
    const COUNTED: u32 = 1 << 31;
    const NARROWEST: u32 = 1 << 30;
    const LINE: u32 = Hop::NARROWEST - 1;

    /// Over this line; whether the flow is counted there, and whether it is the
    /// narrowest of the way.
    pub fn over(line: usize, counted: bool, narrowest: bool) -> Hop {
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        Hop(line as u32 | flag(counted, Hop::COUNTED) | flag(narrowest, Hop::NARROWEST))
    }

    fn line(self) -> usize {
        (self.0 & Hop::LINE) as usize
    }

    /// Whether something is counted there.
    fn watched(self) -> bool {
        self.0 > Hop::LINE
    }
}

/// A policy at one end of a line, and which way it sees it.
pub type At = Option<(u16, Side)>;

/// One direction of a link.
pub struct Line {
    /// Queue, rate, delay and what else stands there.
    pub wire: Wire,
    /// The event that is pending.
    due: Nanos,
    /// Bytes of the link's own header, which count against its rate.
    header: u32,
    /// Policies where packets enter, and where they leave.
    enter: At,
    leave: At,
}

impl Line {
    /// An empty line.
    pub fn new(wire: Wire, header: u32) -> Line {
        Line {
            wire,
            due: NEVER,
            header,
            enter: None,
            leave: None,
        }
    }

    /// Puts a policy where packets enter, or where they leave. False if there
    /// is one already.
    pub fn place(&mut self, entering: bool, hook: u16, side: Side) -> bool {
        let at = if entering {
            &mut self.enter
        } else {
            &mut self.leave
        };
        at.replace((hook, side)).is_none()
    }
}

/// A connection: its two ends, and what the engine notes of it.
pub struct Connection<S, R> {
    /// Sends data.
    pub source: S,
    /// Receives them.
    pub sink: R,
    /// Flow of the scenario.
    pub flow: u32,
    /// Where its routes begin: of data, and of ACKs.
    routes: [u32; 2],
    source_due: Nanos,
    sink_due: Nanos,
    /// Packets that are under way.
    pub under_way: u32,
    /// RTT samples that were noted.
    rtts: u64,
    /// Delivered bytes that were noted.
    pub delivered: u64,
    /// At which the application does something.
    pub goal: u64,
    /// Its application, and which of that one's connections it is.
    pub app: u32,
    /// See `app`.
    pub role: u32,
    /// Its application waits until the sender is done.
    pub await_end: bool,
    /// Its window scale.
    shift: u8,
    mss: u32,
    acked: Acked,
    /// When data were first sent and last received.
    pub first: Nanos,
    /// When data last arrived in order.
    pub last: Nanos,
}

/// How a flow's connections are made.
#[derive(Debug, Clone)]
pub struct Template<A, B> {
    /// Of the sender.
    pub source: A,
    /// Of the receiver.
    pub sink: B,
    /// Where its routes begin: of data, and of ACKs.
    pub routes: [u32; 2],
    /// Window scale.
    pub shift: u8,
    /// Payload of a full segment.
    pub mss: u32,
}

/// What is counted for a flow.
#[derive(Debug, Default)]
pub struct Counted {
    /// On the wire.
    pub tally: Tally,
    /// Round-trip times.
    pub rtt: Histogram,
    /// Connections whose place was taken by others.
    pub past: Sums,
}

/// Sums over connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sums {
    /// Bytes delivered.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// When the first data were sent; `Nanos::MAX` if none were.
    pub first: Nanos,
    /// When the last data were received.
    pub last: Nanos,
}

impl Default for Sums {
    fn default() -> Sums {
        Sums {
            bytes: 0,
            retransmits: 0,
            timeouts: 0,
            first: NEVER,
            last: 0,
        }
    }
}

impl Sums {
    /// Adds a connection.
    pub fn add<S: Source, R: Sink>(&mut self, connection: &Connection<S, R>) {
        let view = connection.source.view();
        self.bytes += connection.delivered;
        self.retransmits += view.retransmits;
        self.timeouts += view.timeouts;
        self.first = self.first.min(connection.first);
        self.last = self.last.max(connection.last);
    }
}

/// A network with its traffic, ready to run.
pub struct Network<S: Source, R: Sink> {
    /// Now.
    pub now: Nanos,
    pub(crate) end: Nanos,
    pub(crate) schedule: Schedule,
    /// Every direction of every link.
    pub lines: Vec<Line>,
    routes: Vec<Hop>,
    pool: Pool,
    /// Policies at interfaces.
    pub hooks: Vec<Hook>,
    /// Which connection of which hook a deadline is for.
    holds: Vec<(u16, u32)>,
    /// For each hook and connection, its number above and the pending event.
    hold_of: Vec<Vec<(u32, Nanos)>>,
    /// Connections, old and new.
    pub connections: Vec<Connection<S, R>>,
    pub(crate) templates: Vec<Template<S::Config, R::Config>>,
    pub(crate) apps: Vec<App>,
    /// By flow of the scenario.
    pub counted: Vec<Counted>,
    /// Packets handed over from line to line or to an end.
    pub hops: u64,
    /// A run ends before it enters more events than this.
    pub max_events: u64,
    pub(crate) free: Vec<u32>,
    pub(crate) reuse: bool,
}

impl<S: Source, R: Sink> Network<S, R> {
    /// A network without traffic that will run until `end`.
    pub fn new(lines: Vec<Line>, routes: Vec<Hop>, hooks: Vec<Hook>, end: Nanos) -> Self {
        Network {
            now: 0,
            end,
            schedule: Schedule::default(),
            lines,
            routes,
            pool: Pool::default(),
            hold_of: hooks.iter().map(|_| Vec::new()).collect(),
            hooks,
            holds: Vec::new(),
            connections: Vec::new(),
            templates: Vec::new(),
            apps: Vec::new(),
            counted: Vec::new(),
            hops: 0,
            max_events: MAX_EVENTS,
            free: Vec::new(),
            reuse: true,
        }
    }

    /// Events entered so far.
    pub fn events(&self) -> u64 {
        self.schedule.entered()
    }

    /// Packets for which memory was taken.
    pub fn allocated(&self) -> u64 {
        self.pool.allocated()
    }

    /// Runs until the end, until `sample` says false, or until there were too many
    /// events, in all or at one moment; `sample` is called at the times of [`look_at`](Self::look_at).
    pub fn run(&mut self, mut sample: impl FnMut(&mut Self) -> bool) {
        let mut still = 0;
        while let Some((at, target)) = self.schedule.pop(self.end) {
            still = if at == self.now { still + 1 } else { 0 };
            self.now = at;
            if self.schedule.entered() > self.max_events || still > MOST_AT_ONCE {
                return;
            }
            match target {
                Target::Line(line) => self.on_line(line),
                Target::Sender(connection) => self.on_source_timer(connection),
                Target::Receiver(connection) => self.on_sink_timer(connection),
                Target::Hold(hold) => self.on_hold(hold),
                Target::Start(app) => self.on_start(app),
                Target::Sample => {
                    if !sample(self) {
                        return;
                    }
                }
            }
        }
        self.now = self.end;
    }

    /// Has [`run`](Self::run) call `sample` at this time.
    pub fn look_at(&mut self, at: Nanos) {
        self.schedule.push(at, Target::Sample);
    }

    fn on_line(&mut self, index: usize) {
        let line = &mut self.lines[index];
        if line.due != self.now {
            return; // An earlier one took its place.
        }
        line.due = NEVER;
        while let Some(departure) = self.lines[index].wire.pop_due(self.now) {
            match departure {
                Departure::Delivered { packet, copies, .. } => {
                    for _ in 1..copies {
                        let twin = packet.clone();
                        self.connections[twin.flow.0 as usize].under_way += 1;
                        self.leave(index, twin, true);
                    }
                    self.leave(index, packet, false);
                }
                Departure::Dropped { packet, cause } => self.discard(packet, cause),
            }
        }
        self.arm(index);
    }

    #[inline]
    fn arm(&mut self, index: usize) {
        let line = &mut self.lines[index];
        if let Some(at) = line.wire.next_wakeup() {
            if at < line.due {
                line.due = at;
                self.schedule.push(at, Target::Line(index));
            }
        }
    }

    /// A packet that a line has delivered.
    #[inline]
    fn leave(&mut self, index: usize, mut parcel: Parcel, twin: bool) {
        self.hops += 1;
        let hop = self.routes[parcel.route() as usize];
        // An ACK that the wire doubles was put on it once.
        if hop.watched() && !(twin && parcel.way == Way::Ack) {
            self.count(hop, &parcel, true);
        }
        if let Some((hook, side)) = self.lines[index].leave {
            match self.hooked(hook, side, parcel) {
                Some(passed) => parcel = passed,
                None => return,
            }
        }
        self.go_on(parcel);
    }

    /// To the next line, or to its end.
    #[inline]
    fn go_on(&mut self, mut parcel: Parcel) {
        let next = parcel.advance();
        match self.routes[next as usize] {
            Hop::END => self.arrive(parcel),
            hop => self.forward(hop.line(), parcel),
        }
    }

    #[inline]
    fn forward(&mut self, index: usize, mut parcel: Parcel) {
        if let Some((hook, side)) = self.lines[index].enter {
            match self.hooked(hook, side, parcel) {
                Some(passed) => parcel = passed,
                None => return,
            }
        }
        self.enqueue(index, parcel);
    }

    #[inline]
    fn enqueue(&mut self, index: usize, parcel: Parcel) {
        let line = &mut self.lines[index];
        let len = parcel.wire_len + line.header;
        match line.wire.enqueue(parcel, len, self.now) {
            Verdict::Queued => {}
            Verdict::Rejected(parcel, cause) => self.discard(parcel, cause),
        }
        self.arm(index);
    }

    #[cold]
    fn discard(&mut self, parcel: Parcel, cause: DropCause) {
        let hop = self.routes[parcel.route() as usize];
        // What the wire loses was on it, but data did not arrive.
        if cause == DropCause::Wire && hop.watched() {
            self.count(hop, &parcel, false);
        }
        self.retire(parcel);
    }

    /// A packet that is no more.
    #[inline]
    fn retire(&mut self, parcel: Parcel) {
        if !parcel.flags.contains(Flags::SYNTHETIC) {
            self.connections[parcel.flow.0 as usize].under_way -= 1;
        }
        self.pool.put(parcel);
    }

    fn count(&mut self, hop: Hop, packet: &Packet, arrived: bool) {
        let connection = &mut self.connections[packet.flow.0 as usize];
        let tally = &mut self.counted[connection.flow as usize].tally;
        let counted = hop.0 & Hop::COUNTED != 0;
        if packet.way == Way::Data {
            tally.data_segments += u64::from(counted && arrived && packet.payload > 0);
        } else if packet.is_pure_ack() && !packet.flags.contains(Flags::SYNTHETIC) {
            if counted {
                tally.ack(&mut connection.acked, packet, connection.mss);
            }
            if hop.0 & Hop::NARROWEST != 0 {
                let header = self.lines[hop.line()].header;
                tally.narrow_bytes += u64::from(packet.wire_len + header);
            }
        }
    }

    /// Shows a packet to the policy at an interface; `None` if that keeps it.
    #[cold]
    fn hooked(&mut self, hook: u16, side: Side, parcel: Parcel) -> Option<Parcel> {
        let number = parcel.flow.0 as usize;
        let shift = self.connections[number].shift;
        let policy = &mut self.hooks[usize::from(hook)];
        match (side, parcel.way) {
            (Side::Data, Way::Data) => policy.on_data(number, &parcel, shift, self.now),
            (Side::Acks, Way::Ack) => return self.thinned(hook, parcel, shift),
            _ => {}
        }
        Some(parcel)
    }

    fn thinned(&mut self, hook: u16, parcel: Parcel, shift: u8) -> Option<Parcel> {
        let number = parcel.flow.0 as usize;
        let policy = &mut self.hooks[usize::from(hook)];
        let outcome = policy.on_ack(number, parcel, shift, self.now);
        let deadline = policy.deadline(number);
        if let Some(gone) = outcome.gone {
            self.retire(gone);
        }
        if let Some(at) = deadline {
            self.arm_hold(hook, number, at);
        }
        let parcel = outcome.pass?;
        if outcome.twice {
            let twin = parcel.clone();
            self.connections[number].under_way += 1;
            self.past_hook(hook, twin);
        }
        Some(parcel)
    }

    /// On from a policy that lets a packet go: into the line at whose entry it
    /// stands, or on from the line at whose exit it stands.
    fn past_hook(&mut self, hook: u16, parcel: Parcel) {
        let hop = self.routes[parcel.route() as usize].line();
        if self.lines[hop]
            .enter
            .is_some_and(|(at, side)| at == hook && side == Side::Acks)
        {
            self.enqueue(hop, parcel);
        } else {
            self.go_on(parcel);
        }
    }

    fn arm_hold(&mut self, hook: u16, connection: usize, at: Nanos) {
        let known = &mut self.hold_of[usize::from(hook)];
        if known.len() <= connection {
            known.resize(connection + 1, (u32::MAX, NEVER));
        }
        let (number, due) = &mut known[connection];
        if *number == u32::MAX {
            *number = self.holds.len() as u32;
            self.holds.push((hook, connection as u32));
        }
        if at < *due {
            *due = at;
            self.schedule.push(at, Target::Hold(*number as usize));
        }
    }

    fn on_hold(&mut self, hold: usize) {
        let (hook, connection) = self.holds[hold];
        let number = connection as usize;
        let due = &mut self.hold_of[usize::from(hook)][number].1;
        if *due != self.now {
            return;
        }
        *due = NEVER;
        let shift = self.connections[number].shift;
        let policy = &mut self.hooks[usize::from(hook)];
        match policy.release(number, shift, self.now) {
            Some(parcel) => self.past_hook(hook, parcel),
            None => {
                if let Some(at) = policy.deadline(number) {
                    self.arm_hold(hook, number, at);
                }
            }
        }
    }

    /// A packet has reached an end of its connection.
    #[inline]
    fn arrive(&mut self, parcel: Parcel) {
        let number = parcel.flow.0 as usize;
        let way = parcel.way;
        let connection = &mut self.connections[number];
        match way {
            Way::Data => connection.sink.on_packet(&parcel, self.now),
            Way::Ack => connection.source.on_packet(&parcel, self.now),
        }
        self.retire(parcel);
        match way {
            Way::Data => self.after_sink(number),
            Way::Ack => self.after_source(number),
        }
    }

    fn on_source_timer(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if connection.source_due != self.now {
            return;
        }
        connection.source_due = NEVER;
        if connection
            .source
            .next_timer()
            .is_some_and(|at| at <= self.now)
        {
            connection.source.on_timer(self.now);
        }
        self.after_source(number);
    }

    fn on_sink_timer(&mut self, number: usize) {
        let connection = &mut self.connections[number];
        if connection.sink_due != self.now {
            return;
        }
        connection.sink_due = NEVER;
        if connection
            .sink
            .next_timer()
            .is_some_and(|at| at <= self.now)
        {
            connection.sink.on_timer(self.now);
        }
        self.after_sink(number);
    }

    /// Lets a sender say what it has to say.
    pub(crate) fn after_source(&mut self, number: usize) {
        while let Some(packet) = self.connections[number].source.poll_transmit(self.now) {
            let connection = &mut self.connections[number];
            if connection.first == NEVER && packet.payload > 0 {
                connection.first = self.now;
            }
            let route = connection.routes[0];
            self.inject(number, packet, route);
        }
        let connection = &mut self.connections[number];
        let (samples, rtt) = connection.source.rtt();
        if samples != connection.rtts {
            connection.rtts = samples;
            self.counted[connection.flow as usize].rtt.add(rtt);
        }
        if let Some(at) = connection.source.next_timer() {
            // A timer that lies in the past is due now.
            let at = at.max(self.now);
            if at < connection.source_due {
                connection.source_due = at;
                self.schedule.push(at, Target::Sender(number));
            }
        }
        if connection.await_end && connection.source.view().finished {
            self.on_end(number);
        }
    }

    fn after_sink(&mut self, number: usize) {
        while let Some(packet) = self.connections[number].sink.poll_transmit(self.now) {
            let route = self.connections[number].routes[1];
            self.inject(number, packet, route);
        }
        let connection = &mut self.connections[number];
        if let Some(at) = connection.sink.next_timer() {
            let at = at.max(self.now);
            if at < connection.sink_due {
                connection.sink_due = at;
                self.schedule.push(at, Target::Receiver(number));
            }
        }
        let delivered = connection.sink.delivered();
        if delivered != connection.delivered {
            connection.delivered = delivered;
            connection.last = self.now;
            if delivered >= connection.goal {
                self.on_goal(number);
            }
        }
    }

    #[inline]
    fn inject(&mut self, number: usize, packet: Packet, route: u32) {
        self.connections[number].under_way += 1;
        let line = self.routes[route as usize].line();
        let parcel = self.pool.take(packet, route);
        self.forward(line, parcel);
    }

    /// Opens a connection of a flow, in the place of one that is over if there
    /// is such a place.
    pub(crate) fn open(
        &mut self,
        app: usize,
        flow: usize,
        template: usize,
        role: u32,
        goal: u64,
    ) -> usize {
        let number = match self.reusable() {
            Some(number) => number,
            None => self.connections.len(),
        };
        let made = &self.templates[template];
        let id = FlowId(number as u32);
        let connection = Connection {
            source: S::open(&made.source, id),
            sink: R::open(&made.sink, id),
            flow: flow as u32,
            routes: made.routes,
            source_due: NEVER,
            sink_due: NEVER,
            under_way: 0,
            rtts: 0,
            delivered: 0,
            goal,
            app: app as u32,
            role,
            await_end: false,
            shift: made.shift,
            mss: made.mss,
            acked: Acked::default(),
            first: NEVER,
            last: 0,
        };
        match self.connections.get_mut(number) {
            Some(slot) => {
                // Its events may still be pending, and must be taken for stale.
                let old = std::mem::replace(slot, connection);
                self.counted[old.flow as usize].past.add(&old);
                for hook in &mut self.hooks {
                    hook.forget(number);
                }
            }
            None => self.connections.push(connection),
        }
        number
    }

    /// The place of a connection that is over, of which nothing is under way.
    fn reusable(&mut self) -> Option<usize> {
        let at = self.free.iter().position(|&number| {
            let old = &self.connections[number as usize];
            old.under_way == 0 && old.source.view().finished
        })?;
        Some(self.free.swap_remove(at) as usize)
    }
}
