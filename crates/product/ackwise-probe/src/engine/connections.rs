//! Opening and closing connections.

use std::hash::BuildHasher;
use std::io;

use super::outgoing::Outgoing;
use super::{Engine, MS, TICK_NS};
use crate::connection::{Connection, INDEX_SHIFT, Label, Ports, Syn};
use crate::record::Role;
use crate::script::{End, News};
use crate::segment::{Segment, flag};

/// The time between the SYNs of different connections.
const OPEN_NS: u64 = 4 * MS;
/// When a SYN or a FIN is retransmitted (RFC 6298 §2.1), and how often a SYN is sent. Bursts of
/// loss can take several in a row if nothing else is sent.
const RETRANSMIT_NS: u64 = 1000 * MS;
pub(super) const SYNS: usize = 8;
/// How often a FIN is sent.
const MAX_FINS: usize = 5;
/// The maximum number of SYNs sent if the other end repeats its own.
const MAX_SYNS: usize = 2 * SYNS;

/// How long the first connection waits for the others.
pub(super) const CONNECT_TIMEOUT_NS: u64 = 3500 * MS;
/// How long the first connection may take: all SYNs, and a round trip of the last.
pub(super) const FIRST_NS: u64 = SYNS as u64 * RETRANSMIT_NS + 1000 * MS;

impl Engine<'_> {
    /// The time until which connections are opened, which is later while none is established.
    pub(super) fn opens_until(&self) -> u64 {
        match self.first_ns {
            Some(first) => first + CONNECT_TIMEOUT_NS,
            None => self.began_ns + FIRST_NS,
        }
    }

    /// Sends the SYNs that are due.
    pub(super) fn open(&mut self, now: u64) -> io::Result<u64> {
        let mut next = now + TICK_NS;
        for index in 0..self.connections.len() {
            let at = self.began_ns + index as u64 * OPEN_NS;
            if at > now {
                next = next.min(at);
                break;
            }
            if self.connections[index].is_none() {
                let port = self.endpoint.ports[index];
                let isn = self.random.hash_one((index, now)) as u32;
                let ports = Ports {
                    own: port,
                    peer: self.endpoint.port,
                };
                let connection = Connection::new(index, ports, isn, self.script.queue_us);
                self.by_port.insert(port, index);
                self.connections[index] = Some(connection);
                self.syn(index, now)?;
            }
        }
        Ok(next)
    }

    /// Sends a SYN, or the server's SYN/ACK.
    pub(super) fn syn(&mut self, index: usize, now: u64) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        if connection.syns.len() >= MAX_SYNS {
            return Ok(());
        }
        connection.syns.push(Syn {
            stamp: connection.ts_next,
            at_ns: now,
        });
        let acc_ecn = self.script.connections[index].acc_ecn;
        let flags = match (connection.irs.is_some(), acc_ecn) {
            // RFC 3168 §6.1.1, RFC 9768 §3.1.1.
            (false, false) => flag::SYN | flag::ECE | flag::CWR,
            (false, true) => flag::SYN | flag::ECE | flag::CWR | flag::AE,
            (true, false) => flag::SYN | flag::ACK | flag::ECE,
            (true, true) => flag::SYN | flag::ACK | flag::CWR,
        };
        let (seq, due) = (connection.isn, connection.newest());
        self.emit(
            index,
            Outgoing {
                label: Label::outside_script(Role::Control),
                flags,
                seq,
                due,
                payload: 0,
                news: News::None,
                syn: true,
                ecn: 0,
            },
        )
    }

    /// Checks for losses, and for ACKs that are due.
    pub(super) fn tick(&mut self, now: u64) -> io::Result<()> {
        let opens = self.started_ns.is_none() && now <= self.opens_until();
        for index in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[index] else {
                continue;
            };
            if connection.over {
                continue;
            }
            if !connection.established {
                let last = connection.syns.last().map_or(0, |it| it.at_ns);
                if opens && connection.syns.len() < SYNS && now.saturating_sub(last) > RETRANSMIT_NS
                {
                    self.syn(index, now)?;
                }
                continue;
            }
            let waited = now.saturating_sub(connection.fin_ns);
            if connection.fins > 0 && connection.fins < MAX_FINS && waited > RETRANSMIT_NS {
                self.fin(index)?;
                continue;
            }
            let due = connection.ack_due_ns.is_some_and(|at| at <= now);
            let lost = connection.lost(now);
            for again in lost {
                self.data(
                    index,
                    again,
                    Label::outside_script(Role::Repair),
                    self.due(index),
                )?;
            }
            if due {
                self.pure_ack(index, Label::outside_script(Role::Repair), News::None)?;
            }
        }
        Ok(())
    }

    /// Closes a connection, for the first time or again: with a FIN or, if the script started
    /// without the connection, with an RST, since the other end may have missed an earlier one.
    pub(super) fn close(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        if connection.fins > 0 {
            return Ok(());
        }
        if connection.established {
            return self.fin(index);
        }
        connection.fins = 1;
        match connection.irs {
            Some(_) => self.refuse(index),
            None => Ok(()),
        }
    }

    pub(super) fn fin(&mut self, index: usize) -> io::Result<()> {
        let now = self.socket.now_ns();
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        if connection.fins >= MAX_FINS || !connection.established {
            return Ok(());
        }
        if connection.fins == 0 {
            connection.snd_nxt = connection.snd_nxt.wrapping_add(1);
        }
        connection.fins += 1;
        connection.fin_ns = now;
        let seq = connection.snd_nxt.wrapping_sub(1);
        self.control(index, flag::FIN | flag::ACK, seq)
    }

    /// Refuses a connection that arrives after its script has started: the other end would take the
    /// half that is missing for loss.
    pub(super) fn refuse(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        connection.over = true;
        let seq = connection.isn.wrapping_add(1);
        self.control(index, flag::RST | flag::ACK, seq)
    }

    pub(super) fn control(&mut self, index: usize, flags: u16, seq: u32) -> io::Result<()> {
        let due = self.due(index);
        self.emit(
            index,
            Outgoing {
                label: Label::outside_script(Role::Control),
                flags,
                seq,
                due,
                payload: 0,
                news: News::None,
                syn: false,
                ecn: 0,
            },
        )
    }

    /// Accepts a new connection at the server. Timestamps say which one it is; without them
    /// connections are numbered in order of arrival.
    pub(super) fn accept(&mut self, segment: &Segment) -> Option<usize> {
        if self.endpoint.end != End::Server || segment.flags & (flag::SYN | flag::ACK) != flag::SYN
        {
            return None;
        }
        let free = |index: &usize| self.connections.get(*index).is_some_and(Option::is_none);
        let hinted = segment.timestamps().map(|(value, _)| value >> INDEX_SHIFT);
        let hinted = hinted.map(|index| index as usize).filter(free);
        let index = hinted.or_else(|| (0..self.connections.len()).find(free))?;
        let isn = self.random.hash_one((index, segment.seq)) as u32;
        let ports = Ports {
            own: self.endpoint.port,
            peer: segment.source,
        };
        let connection = Connection::new(index, ports, isn, self.script.queue_us);
        self.by_port.insert(segment.source, index);
        self.connections[index] = Some(connection);
        Some(index)
    }

    pub(super) fn end(&mut self, index: usize, segment: &Segment) -> io::Result<()> {
        if let Some(connection) = &mut self.connections[index] {
            let seq = segment.seq.wrapping_add(u32::from(segment.payload));
            if seq == connection.rcv_nxt {
                connection.rcv_nxt = seq.wrapping_add(1);
            }
            connection.over = true;
        }
        if !self.sends_data() {
            return self.fin(index);
        }
        self.pure_ack(index, Label::outside_script(Role::Control), News::None)
    }
}
