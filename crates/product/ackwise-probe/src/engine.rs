//! Plays one end of a script on a raw socket, and records what was sent and seen.

mod connections;
mod incoming;
mod outgoing;

use std::collections::HashMap;
use std::hash::RandomState;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use connections::{CONNECT_TIMEOUT_NS, FIRST_NS};

use crate::Error;
use crate::connection::{Connection, Label, Retransmission};
use crate::record::{Record, Role};
use crate::script::{End, Script, Send};
use crate::socket::Wire;

const MS: u64 = 1_000_000;
/// How long an end continues after its script, not counting the wait for connections.
const MARGIN_NS: u64 = 5000 * MS;
/// How often to check for losses.
const TICK_NS: u64 = 10 * MS;
/// Which end this is, and where the other one is.
#[derive(Debug)]
pub struct Endpoint {
    /// Which end.
    pub end: End,
    /// The end whose ACKs are examined.
    pub acks: End,
    /// The address of this end.
    pub here: IpAddr,
    /// The address of the other end.
    pub there: IpAddr,
    /// The interface of link-local addresses (RFC 4007), or 0.
    pub scope_id: u32,
    /// The port of the server.
    pub port: u16,
    /// The ports of the client, one per connection; empty at the server, which learns them.
    pub ports: Vec<u16>,
}

/// What an end has sent and seen in a stage.
#[derive(Debug, Default)]
pub struct Records {
    /// The packets that it sent, in order.
    pub sent: Vec<Record>,
    /// The packets that it saw, in order.
    pub seen: Vec<Record>,
    /// The shortest round-trip time of a handshake, in nanoseconds, if any was measured.
    pub rtt_ns: Option<u64>,
    /// Whether a connection was established.
    pub connected: bool,
}

/// One end of a stage.
pub struct Engine<'a> {
    socket: &'a mut dyn Wire,
    endpoint: Endpoint,
    script: Script,
    connections: Vec<Option<Connection>>,
    by_port: HashMap<u16, usize>,
    records: Records,
    began_ns: u64,
    /// When the first connection was established.
    first_ns: Option<u64>,
    /// When the script started, as known to the end that sends data.
    started_ns: Option<u64>,
    next_send: usize,
    last_ns: u64,
    ticked_ns: u64,
    random: RandomState,
}

impl<'a> Engine<'a> {
    /// A stage in which nothing has been sent.
    pub fn new(socket: &'a mut dyn Wire, endpoint: Endpoint, script: Script) -> Self {
        let now = socket.now_ns();
        let connections = (0..script.connections.len()).map(|_| None).collect();
        Self {
            socket,
            endpoint,
            script,
            connections,
            by_port: HashMap::new(),
            records: Records::default(),
            began_ns: now,
            first_ns: None,
            started_ns: None,
            next_send: 0,
            last_ns: now,
            ticked_ns: now,
            random: RandomState::new(),
        }
    }

    /// Plays the stage. The client plays until everything is over, the server until the client
    /// sends something on the control connection, and either at most until `until`.
    ///
    /// # Errors
    /// If packets cannot be sent at all.
    pub fn run(mut self, control: BorrowedFd<'_>, until: Instant) -> Result<Records, Error> {
        let failed = |source: io::Error| Error::System {
            what: "send packets of the probe",
            source,
        };
        let client = self.endpoint.end == End::Client;
        loop {
            let now = self.socket.now_ns();
            if self.ends(now) || Instant::now() >= until {
                break;
            }
            let next = self.act(now).map_err(failed)?;
            let wait = next.saturating_sub(self.socket.now_ns()).clamp(1, 20 * MS);
            if self.wait(wait, control, client).map_err(failed)? {
                break;
            }
            self.receive().map_err(failed)?;
        }
        Ok(self.finish())
    }

    /// Returns whether this end stops, whatever the other one does.
    fn ends(&self, now: u64) -> bool {
        let client = self.endpoint.end == End::Client;
        // The server waits for the client to end the stage.
        let margins = if client { 1 } else { 2 };
        let connecting = FIRST_NS + CONNECT_TIMEOUT_NS;
        let longest = self.script.length_us * 1000 + connecting + margins * MARGIN_NS;
        client && self.is_over(now) || now.saturating_sub(self.began_ns) > longest
    }

    fn finish(mut self) -> Records {
        let established = self.connections.iter().flatten();
        let established = established.filter(|it| it.established);
        self.records.rtt_ns = established.clone().filter_map(|it| it.rtt_ns).min();
        self.records.connected = established.count() > 0;
        self.records
    }

    /// Waits for packets or for the next action. Returns whether the client has sent something.
    fn wait(&self, ns: u64, control: BorrowedFd<'_>, client: bool) -> io::Result<bool> {
        let raw = PollFd::new(self.socket.arrivals(), PollFlags::POLLIN);
        let mut both = [raw, PollFd::new(control, PollFlags::POLLIN)];
        let watched = if client {
            &mut both[..1]
        } else {
            &mut both[..]
        };
        let timeout = TimeSpec::from_duration(Duration::from_nanos(ns));
        match ppoll(watched, Some(timeout), None) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let spoke = both[1].revents().is_some_and(|events| !events.is_empty());
        Ok(!client && spoke)
    }

    fn sends_data(&self) -> bool {
        self.endpoint.end != self.endpoint.acks
    }

    fn is_over(&self, now: u64) -> bool {
        let mut there = self.connections.iter().flatten();
        if self.connections.iter().all(Option::is_none) {
            return false;
        }
        let closed = now > self.opens_until();
        let over = there.all(|it| it.over || !it.established && closed);
        over && now.saturating_sub(self.last_ns) > 200 * MS
    }

    /// Performs what is due. Returns when the next action is due.
    fn act(&mut self, now: u64) -> io::Result<u64> {
        let mut next = now + TICK_NS;
        if self.endpoint.end == End::Client {
            next = next.min(self.open(now)?);
        }
        if now.saturating_sub(self.ticked_ns) >= TICK_NS {
            self.ticked_ns = now;
            self.tick(now)?;
        }
        if self.sends_data() {
            next = next.min(self.send_due(now)?);
        }
        Ok(next)
    }

    /// Sends data that are due, and the FINs at the end.
    fn send_due(&mut self, now: u64) -> io::Result<u64> {
        let Some(started) = self.started(now) else {
            return Ok(now + TICK_NS);
        };
        while let Some(&Send { at_us, conn, index }) = self.script.sends.get(self.next_send) {
            let at = started + at_us * 1000;
            if at > self.socket.now_ns() {
                return Ok(at);
            }
            self.next_send += 1;
            let segment = self.script.segment;
            let Some(connection) = &self.connections[conn] else {
                continue;
            };
            if !connection.established || connection.over {
                continue;
            }
            let offset = 1 + index as u32 * u32::from(segment);
            let seq = connection.isn.wrapping_add(offset);
            let phase = self.script.connections[conn].answers[index].phase;
            let label = Label {
                phase,
                ..Label::outside_script(Role::Data)
            };
            let len = segment;
            self.data(conn, Retransmission { seq, len }, label, self.due(conn))?;
        }
        let lingers = self.connections.iter().flatten();
        let linger = lingers.map(Connection::linger_ns).max();
        let linger = linger.unwrap_or(0).max(200 * MS);
        if now > started + self.script.length_us * 1000 + linger {
            for index in 0..self.connections.len() {
                self.close(index)?;
            }
        }
        Ok(now + TICK_NS)
    }

    /// When the script started: once all connections are established, or all that are going to be.
    fn started(&mut self, now: u64) -> Option<u64> {
        if self.started_ns.is_none() {
            let mut all = self.connections.iter();
            let all = all.all(|it| it.as_ref().is_some_and(|it| it.established));
            if all || self.first_ns.is_some() && now > self.opens_until() {
                self.started_ns = Some(now);
            }
        }
        self.started_ns
    }
}

/// A socket address, with the interface of a link-local address.
pub fn with_scope(address: IpAddr, port: u16, scope_id: u32) -> SocketAddr {
    match address {
        IpAddr::V4(_) => SocketAddr::new(address, port),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope_id).into(),
    }
}

#[cfg(test)]
mod tests;
