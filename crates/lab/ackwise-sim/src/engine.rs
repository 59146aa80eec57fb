//! The clock and the event loop.
//!
//! ```text
//!  Source ─poll_transmit─► inject ─► [policy] ─► line ─► [policy] ─► line … ─► arrive ─► Sink
//!    ▲                                          │  one event: the packet at its head
//!    └── arrive ◄─ … ◄─ line ◄─ [policy] ◄─ inject ◄─────── poll_transmit ───────────────────┘
//! ```
//!
//! A line is one direction of a link. Of all packets that wait or travel on it,
//! only the next arrival is an event; the queue in front of it catches up when
//! something reads it (`ackwise_queue::Link`). Timers are lazy: one that was postponed
//! stays in place, and is entered again when it comes up.
//!
//! Events of the same time come up in the order in which they were entered, and
//! within one line departures precede arrivals. So a run is a function of the
//! scenario and the seed.

use ackwise_queue::{Departure, Discipline, DropCause, HalfDuplex, Link, Nanos, Verdict};

use crate::app::App;
use crate::connection::{Connection, Counted, Template};
use crate::count::Watched;
use crate::endpoint::{Sink, Source};
use crate::interface_policy::InterfacePolicy;
use crate::line::{Hop, Line};
use crate::packet::{Direction, Flags, Packet};
use crate::packet_handle::{PacketHandle, Pool};
use crate::schedule::{MAX_EVENTS, Schedule, Target};
use crate::time::NEVER;

mod apps;
mod ends;
mod interfaces;
#[cfg(test)]
mod tests;

/// The run counts as stuck after this many events at one moment.
const MAX_EVENTS_PER_INSTANT: u64 = 100_000_000;

/// A link whose directions take turns.
type Shared = Link<PacketHandle, Discipline<PacketHandle>>;

/// Checks now and then that a run makes progress.
struct Watch {
    /// When time last advanced, as far as was seen, and how many events had been
    /// entered by then.
    at: Nanos,
    entered: u64,
    /// The next check is when this many events have been entered.
    next: u64,
}

impl Watch {
    /// Whether to continue.
    #[cold]
    fn should_continue<S: Source, R: Sink>(&mut self, network: &Network<S, R>) -> bool {
        let entered = network.schedule.entered();
        if self.at != network.now {
            (self.at, self.entered) = (network.now, entered);
        }
        self.next =
            (entered + MAX_EVENTS_PER_INSTANT / 2).min(network.max_events.saturating_add(1));
        entered <= network.max_events && entered - self.entered <= MAX_EVENTS_PER_INSTANT
    }
}

/// A connection at an interface policy that may withhold one of its ACKs.
#[derive(Debug, Clone, Copy)]
struct Hold {
    interface_policy: u16,
    connection: u32,
}

/// The event of a deadline.
#[derive(Debug, Clone, Copy)]
struct HoldEvent {
    /// Number of the event; `u32::MAX` if none was assigned yet.
    number: u32,
    /// When the event is due; `NEVER` if none is pending.
    due: Nanos,
}

/// A network with its traffic, ready to run.
pub struct Network<S: Source, R: Sink> {
    /// The current time.
    pub now: Nanos,
    pub(crate) end: Nanos,
    pub(crate) schedule: Schedule,
    /// Every direction of every link.
    pub lines: Vec<Line>,
    pub(crate) routes: Vec<Hop>,
    pub(crate) pool: Pool,
    /// The policies at interfaces.
    pub interface_policies: Vec<InterfacePolicy>,
    /// The connection and policy of each withheld ACK's deadline, by the number of its event.
    holds: Vec<Hold>,
    /// The event of each deadline, by policy and connection, with when it is due.
    hold_of: Vec<Vec<HoldEvent>>,
    /// All connections, including those that are over.
    pub connections: Vec<Connection<S, R>>,
    /// Counting state of the connections, by their numbers. It is stored apart because it is
    /// read where nothing else of a connection is.
    pub(crate) watched: Vec<Watched>,
    pub(crate) templates: Vec<Template<S::Config, R::Config>>,
    pub(crate) apps: Vec<App>,
    /// Counts by flow of the scenario.
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
    pub fn new(
        lines: Vec<Line>,
        routes: Vec<Hop>,
        interface_policies: Vec<InterfacePolicy>,
        end: Nanos,
    ) -> Self {
        Network {
            now: 0,
            end,
            schedule: Schedule::new(lines.len()),
            lines,
            routes,
            pool: Pool::default(),
            hold_of: interface_policies.iter().map(|_| Vec::new()).collect(),
            interface_policies,
            holds: Vec::new(),
            connections: Vec::new(),
            watched: Vec::new(),
            templates: Vec::new(),
            apps: Vec::new(),
            counted: Vec::new(),
            hops: 0,
            max_events: MAX_EVENTS,
            free: Vec::new(),
            reuse: true,
        }
    }

    /// Makes room for exactly this many connections.
    pub fn reserve(&mut self, connections: usize) {
        self.connections.reserve_exact(connections);
        self.watched.reserve_exact(connections);
    }

    /// Events entered so far.
    pub fn events(&self) -> u64 {
        self.schedule.entered()
    }

    /// Packets that were allocated.
    pub fn allocated(&self) -> u64 {
        self.pool.allocated()
    }

    /// Runs until the end, until `sample` returns false, or until there were too many
    /// events, in total or at one moment; `sample` is called at the times of
    /// [`sample_at`](Self::sample_at).
    pub fn run(&mut self, mut sample: impl FnMut(&mut Self) -> bool) {
        let mut watch = Watch {
            at: self.now,
            entered: self.schedule.entered(),
            next: 0,
        };
        while let Some((at, target)) = self.schedule.pop(self.end) {
            self.now = at;
            if self.schedule.entered() >= watch.next && !watch.should_continue(self) {
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

    /// Makes [`run`](Self::run) call `sample` at this time.
    pub fn sample_at(&mut self, at: Nanos) {
        self.schedule.push(at, Target::Sample);
    }

    /// Changes the rate of a line, starting with the next packet.
    pub fn set_rate(&mut self, line: usize, bps: u64) {
        self.catch_up(line);
        self.lines[line].wire.link_mut().set_rate(bps);
        self.arm(line);
    }

    fn on_line(&mut self, index: usize) {
        self.lines[index].due = NEVER;
        if self.lines[index].shares {
            self.catch_up(index);
        }
        let next = loop {
            let Some(departure) = self.lines[index].wire.pop_due(self.now) else {
                break self.lines[index].wire.next_wakeup();
            };
            match departure {
                Departure::Delivered { packet, copies, .. } => {
                    for _ in 1..copies {
                        let duplicate = packet.clone();
                        self.connections[duplicate.flow.0 as usize].in_flight += 1;
                        self.deliver(index, duplicate, true);
                    }
                    self.deliver(index, packet, false);
                }
                Departure::Dropped { packet, cause } => self.discard(packet, cause),
            }
            let next = self.lines[index].wire.next_wakeup();
            if next.is_none_or(|at| at > self.now) {
                break next;
            }
        };
        self.arm_for(index, next);
        if self.lines[index].due == NEVER {
            self.schedule.clear(index);
        }
    }

    /// Enters the time at which a line next has something to hand over, if it is earlier than the
    /// pending event.
    #[inline(always)]
    fn arm(&mut self, index: usize) {
        let next = self.lines[index].wire.next_wakeup();
        self.arm_for(index, next);
    }

    #[inline(always)]
    fn arm_for(&mut self, index: usize, next: Option<Nanos>) {
        let line = &mut self.lines[index];
        if let Some(at) = next
            && at < line.due
        {
            line.due = at;
            self.schedule.push(at, Target::Line(index));
        }
    }

    /// Handles a packet that a line has delivered.
    #[inline(always)]
    fn deliver(&mut self, index: usize, mut handle: PacketHandle, duplicate: bool) {
        self.hops += 1;
        let hop = self.routes[handle.route() as usize];
        // The wire may duplicate an ACK, but it was put on the wire once.
        if hop.watched() && !(duplicate && handle.direction == Direction::Ack) {
            self.count(hop, &handle, true);
        }
        if let Some(at) = self.lines[index].leave {
            match self.at_interface(at, handle) {
                Some(passed) => handle = passed,
                None => return,
            }
        }
        self.send_to_next_hop(handle);
    }

    /// Passes a packet to the next line, or to its end.
    #[inline(always)]
    pub(crate) fn send_to_next_hop(&mut self, mut handle: PacketHandle) {
        let next = handle.advance();
        match self.routes[next as usize] {
            Hop::END => self.arrive(handle),
            hop => self.forward(hop.line(), handle),
        }
    }

    #[inline(always)]
    pub(crate) fn forward(&mut self, index: usize, mut handle: PacketHandle) {
        if let Some(at) = self.lines[index].enter {
            match self.at_interface(at, handle) {
                Some(passed) => handle = passed,
                None => return,
            }
        }
        self.enqueue(index, handle);
    }

    #[inline(always)]
    pub(crate) fn enqueue(&mut self, index: usize, handle: PacketHandle) {
        let line = &mut self.lines[index];
        let len = handle.wire_len() + line.header;
        let verdict = if line.shares {
            self.enqueue_shared(index, handle, len)
        } else {
            line.wire.enqueue(handle, len, self.now)
        };
        match verdict {
            Verdict::Queued => {}
            Verdict::Rejected(handle, cause) => self.discard(handle, cause),
        }
        self.arm(index);
    }

    /// The medium of a half-duplex link, with the link's two directions.
    fn pair(&mut self, index: usize) -> Option<(&mut HalfDuplex, [&mut Shared; 2])> {
        let pair = self.lines.get_mut(index & !1..)?.first_chunk_mut()?;
        let [forward, reverse]: &mut [Line; 2] = pair;
        let links = [forward.wire.link_mut(), reverse.wire.link_mut()];
        Some((forward.medium.as_mut()?, links))
    }

    /// Has a line's queue catch up with what has left it by now.
    pub(crate) fn catch_up(&mut self, index: usize) {
        let now = self.now;
        if !self.lines[index].shares {
            self.lines[index].wire.advance(now);
        } else if let Some((medium, links)) = self.pair(index) {
            medium.advance(links, now);
        }
    }

    #[cold]
    fn enqueue_shared(
        &mut self,
        index: usize,
        handle: PacketHandle,
        len: u32,
    ) -> Verdict<PacketHandle> {
        let now = self.now;
        match self.pair(index) {
            Some((medium, links)) => medium.enqueue(links, index & 1, handle, len, now),
            None => self.lines[index].wire.enqueue(handle, len, now),
        }
    }

    #[cold]
    fn discard(&mut self, handle: PacketHandle, cause: DropCause) {
        let hop = self.routes[handle.route() as usize];
        // A packet that the wire loses was on the wire, but lost data did not arrive.
        if cause == DropCause::Wire && hop.watched() {
            self.count(hop, &handle, false);
        }
        self.retire(handle);
    }

    /// Takes back a packet that has arrived or was dropped.
    #[inline]
    pub(crate) fn retire(&mut self, handle: PacketHandle) {
        if !handle.flags.contains(Flags::SYNTHETIC) {
            self.connections[handle.flow.0 as usize].in_flight -= 1;
        }
        self.pool.put(handle);
    }

    fn count(&mut self, hop: Hop, packet: &Packet, arrived: bool) {
        let watched = &mut self.watched[packet.flow.0 as usize];
        let tally = &mut self.counted[watched.flow as usize].tally;
        let counted = hop.counted();
        if packet.direction == Direction::Data {
            tally.data_segments += u64::from(counted && arrived && packet.payload > 0);
        } else if (packet.is_pure_ack() && !packet.flags.contains(Flags::SYNTHETIC))
            || packet.flags.contains(Flags::UDP)
        {
            if counted {
                tally.ack(watched, packet);
            }
            if hop.narrowest() {
                let header = self.lines[hop.line()].header;
                tally.narrow_bytes += u64::from(packet.wire_len + header);
            }
        }
    }
}
