//! How the two ends of a connection are driven.

use super::Network;
use crate::connection::{Connection, NO_PEER};
use crate::count::Watched;
use crate::endpoint::{Sink, Source};
use crate::packet::{Direction, Flags, FlowId, Packet};
use crate::packet_handle::PacketHandle;
use crate::schedule::Target;
use crate::time::NEVER;

impl<S: Source, R: Sink> Network<S, R> {
    /// A packet has reached an end of its connection.
    #[inline]
    pub(crate) fn arrive(&mut self, handle: PacketHandle) {
        let number = handle.flow.0 as usize;
        let direction = handle.direction;
        if handle.flags.contains(Flags::CARRIES_ACK) {
            return self.arrive_loaded(number, handle);
        }
        let connection = &mut self.connections[number];
        match direction {
            Direction::Data => connection.sink.on_packet(&handle, self.now),
            Direction::Ack => connection.source.on_packet(&handle, self.now),
        }
        self.retire(handle);
        match direction {
            Direction::Data => self.after_sink(number),
            Direction::Ack => self.after_source(number),
        }
    }

    /// Makes two connections the two directions of one, so that the data of each carry the other's ACKs.
    pub(crate) fn join(&mut self, a: usize, b: usize) {
        self.connections[a].peer = b as u32;
        self.connections[b].peer = a as u32;
    }

    /// The other direction of a connection.
    pub(crate) fn peer(&self, number: usize) -> usize {
        self.connections[number].peer as usize
    }

    /// Puts the ACK that the host owes the other direction on the data packet written last.
    #[cold]
    fn load(&mut self, number: usize) {
        let peer = self.peer(number);
        let Some(ack) = self.connections[peer].sink.piggyback(self.now) else {
            return;
        };
        let packet = self.pool.place();
        packet.flags |= Flags::CARRIES_ACK | ack.flags & Flags::ECE;
        packet.ack = ack.ack;
        packet.window = ack.window;
        packet.tsecr = ack.tsecr;
        packet.sack = ack.sack;
        if !ack.sack.is_empty() {
            // Two NOPs, kind and length, and eight bytes per block (RFC 2018 §3).
            packet.wire_len += 4 + 8 * ack.sack.blocks().len() as u32;
        }
    }

    /// Sets the sequence number of the ACK written last to that of its host's next data, as in
    /// every segment of a host. QUIC numbers each packet separately.
    #[cold]
    fn number_ack(&mut self, number: usize) {
        let next = self.connections[self.peer(number)].source.view().sent;
        let packet = self.pool.place();
        if !packet.flags.contains(Flags::UDP) {
            packet.seq = next;
        }
    }

    /// Delivers data that carry an ACK: first the ACK, then the data.
    #[cold]
    fn arrive_loaded(&mut self, number: usize, handle: PacketHandle) {
        let peer = self.peer(number);
        let reported = Flags::ACK | Flags::ECE | Flags::TIMESTAMPS;
        let ack = Packet {
            flow: FlowId(peer as u32),
            direction: Direction::Ack,
            flags: handle.flags & reported,
            ..*handle
        };
        self.connections[peer].source.on_packet(&ack, self.now);
        self.connections[number].sink.on_packet(&handle, self.now);
        self.retire(handle);
        self.after_sink(number);
        self.after_source(peer);
    }

    pub(crate) fn on_source_timer(&mut self, number: usize) {
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

    pub(crate) fn on_sink_timer(&mut self, number: usize) {
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

    /// Lets a sender transmit what it may send now, and enters its timer.
    pub(crate) fn after_source(&mut self, number: usize) {
        loop {
            let connection = &mut self.connections[number];
            let packet = self.pool.place();
            if !connection.source.transmit_into(packet, self.now) {
                break;
            }
            if packet.payload > 0 {
                if connection.first == NEVER {
                    connection.first = self.now;
                }
                if connection.peer != NO_PEER {
                    self.load(number);
                }
            }
            let route = self.connections[number].routes[0];
            self.inject(number, route);
        }
        let connection = &mut self.connections[number];
        let rtt = connection.source.rtt();
        if rtt.count != connection.rtts {
            connection.rtts = rtt.count;
            self.counted[connection.flow as usize].rtt.add(rtt.last);
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
        loop {
            let sink = &mut self.connections[number].sink;
            if !sink.transmit_into(self.pool.place(), self.now) {
                break;
            }
            if self.connections[number].peer != NO_PEER {
                self.number_ack(number);
            }
            let route = self.connections[number].routes[1];
            self.inject(number, route);
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

    /// Sends the packet written last.
    #[inline]
    fn inject(&mut self, number: usize, route: u32) {
        let Some(handle) = self.pool.take(route) else {
            return;
        };
        self.connections[number].in_flight += 1;
        let line = self.routes[route as usize].line();
        self.forward(line, handle);
    }

    /// Opens a connection of a flow, in the slot of one that is over if there is one.
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
        let watched = Watched::new(flow as u32, made.mss);
        let connection = Connection {
            source: S::open(&made.source, id),
            sink: R::open(&made.sink, id),
            flow: flow as u32,
            routes: made.routes,
            source_due: NEVER,
            sink_due: NEVER,
            in_flight: 0,
            rtts: 0,
            delivered: 0,
            goal,
            app: app as u32,
            role,
            peer: NO_PEER,
            await_end: false,
            shift: made.shift,
            first: NEVER,
            last: 0,
        };
        match self.connections.get_mut(number) {
            Some(slot) => {
                // Its events may still be pending, and must be recognized as stale.
                let old = std::mem::replace(slot, connection);
                self.watched[number] = watched;
                self.counted[old.flow as usize].past.add(&old);
                for interface_policy in &mut self.interface_policies {
                    interface_policy.forget(number);
                }
            }
            None => {
                self.connections.push(connection);
                self.watched.push(watched);
            }
        }
        number
    }

    /// The slot of a connection that is over and has nothing in flight.
    fn reusable(&mut self) -> Option<usize> {
        let at = self.free.iter().position(|&number| {
            let old = &self.connections[number as usize];
            old.in_flight == 0 && old.source.view().finished
        })?;
        Some(self.free.swap_remove(at) as usize)
    }
}
