//! Plays one end of a script on a raw socket, and keeps what was sent and seen.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::Error;
use crate::connection::{Again, Connection, Due, INDEX_SHIFT, Label, Ports, Syn};
use crate::protocol::{MAX_SEEN, MAX_SENT};
use crate::record::{Record, Role};
use crate::script::{
    Act, Answer, Around, Connection as Plan, End, LARGE, News, Phase, SMALL, Script, Send, WINDOW,
    WINDOW_UPDATE,
};
use crate::segment::{CE, Options, Segment, flag, kind};
use crate::socket::{Arrived, Next, Wire};

const MS: u64 = 1_000_000;
/// Between the SYNs of connections.
const OPEN_NS: u64 = 4 * MS;
/// When a SYN or a FIN is sent again (RFC 6298 §2.1), and how often a SYN is sent. A burst of loss can take
/// several of them where nothing else is sent.
const AGAIN_NS: u64 = 1000 * MS;
const SYNS: usize = 8;
/// How often a FIN is sent.
const FINS: usize = 5;
/// So many are sent if the other end asks again.
const MAX_SYNS: usize = 2 * SYNS;
/// How long the first connection waits for the others.
const PATIENCE_NS: u64 = 3500 * MS;
/// How long the first connection may take: every SYN, and a round trip of the last.
const FIRST_NS: u64 = SYNS as u64 * AGAIN_NS + 1000 * MS;
/// How long an end goes on after its script at most, beside the wait for connections.
const MARGIN_NS: u64 = 5000 * MS;
/// A delayed ACK of the data sender.
const DELAYED_ACK_NS: u64 = 40 * MS;
/// How often it is looked for what was lost.
const TICK_NS: u64 = 10 * MS;
/// So many packets are read in a row, before the clock is looked at.
const ROW: usize = 256;
/// 2^7 = 128.
const WINDOW_SCALE: u8 = 7;

/// Which end this is, and where the other one is.
#[derive(Debug)]
pub struct Place {
    /// Which end.
    pub end: End,
    /// Whose ACKs are looked at.
    pub acks: End,
    /// This end's address.
    pub here: IpAddr,
    /// The other end's.
    pub there: IpAddr,
    /// The interface of link-local addresses (RFC 4007), else 0.
    pub scope_id: u32,
    /// The server's port.
    pub port: u16,
    /// The client's ports, one for each connection; none at the server, which learns them.
    pub ports: Vec<u16>,
}

/// What an end has sent and seen in a stage.
#[derive(Debug, Default)]
pub struct Records {
    /// What it sent, in order.
    pub sent: Vec<Record>,
    /// What it saw, in order.
    pub seen: Vec<Record>,
    /// The shortest round-trip time of a handshake, in nanoseconds, if any was measured.
    pub rtt_ns: Option<u64>,
    /// Whether a connection came into being.
    pub connected: bool,
}

/// One end of a stage.
pub struct Engine<'a> {
    socket: &'a mut dyn Wire,
    place: Place,
    script: Script,
    connections: Vec<Option<Connection>>,
    by_port: HashMap<u16, usize>,
    records: Records,
    began_ns: u64,
    /// When the first connection was there.
    first_ns: Option<u64>,
    /// When the script started; the end that sends data knows.
    started_ns: Option<u64>,
    next_send: usize,
    last_ns: u64,
    ticked_ns: u64,
    random: RandomState,
}

/// A segment to send, beside the numbers of its connection.
struct Outgoing {
    label: Label,
    flags: u16,
    seq: u32,
    due: Due,
    payload: u16,
    news: News,
    syn: bool,
    ecn: u8,
}

impl<'a> Engine<'a> {
    /// A stage of which nothing has been sent.
    pub fn new(socket: &'a mut dyn Wire, place: Place, script: Script) -> Self {
        let now = socket.now_ns();
        let connections = (0..script.connections.len()).map(|_| None).collect();
        Self {
            socket,
            place,
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

    /// Plays the stage: the client until all is over, the server until the client says something
    /// on the control connection, and nobody longer than until a time.
    ///
    /// # Errors
    /// Packets cannot be sent at all.
    pub fn run(mut self, control: BorrowedFd<'_>, until: Instant) -> Result<Records, Error> {
        let failed = |source: io::Error| Error::System {
            what: "send packets of the probe",
            source,
        };
        let client = self.place.end == End::Client;
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

    /// Says whether this end goes on no longer, whatever the other one does.
    fn ends(&self, now: u64) -> bool {
        let client = self.place.end == End::Client;
        // The server learns from the client that the stage is over.
        let margins = if client { 1 } else { 2 };
        let connecting = FIRST_NS + PATIENCE_NS;
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

    /// Waits for packets or until something is to do. Returns whether the client has spoken.
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
        self.place.end != self.place.acks
    }

    /// Until when connections are opened. It takes longer until the first one is there.
    fn opens_until(&self) -> u64 {
        match self.first_ns {
            Some(first) => first + PATIENCE_NS,
            None => self.began_ns + FIRST_NS,
        }
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

    /// Does what is due. Returns when the next thing is.
    fn act(&mut self, now: u64) -> io::Result<u64> {
        let mut next = now + TICK_NS;
        if self.place.end == End::Client {
            next = next.min(self.open(now)?);
        }
        if now.saturating_sub(self.ticked_ns) >= TICK_NS {
            self.ticked_ns = now;
            self.tick(now)?;
        }
        if self.sends_data() {
            next = next.min(self.play(now)?);
        }
        Ok(next)
    }

    /// Sends the SYNs that are due.
    fn open(&mut self, now: u64) -> io::Result<u64> {
        let mut next = now + TICK_NS;
        for index in 0..self.connections.len() {
            let at = self.began_ns + index as u64 * OPEN_NS;
            if at > now {
                next = next.min(at);
                break;
            }
            if self.connections[index].is_none() {
                let port = self.place.ports[index];
                let isn = self.random.hash_one((index, now)) as u32;
                let ports = Ports {
                    own: port,
                    peer: self.place.port,
                };
                let connection = Connection::new(index, ports, isn, self.script.queue_us);
                self.by_port.insert(port, index);
                self.connections[index] = Some(connection);
                self.syn(index, now)?;
            }
        }
        Ok(next)
    }

    /// Sends a SYN, or the SYN/ACK of the server.
    fn syn(&mut self, index: usize, now: u64) -> io::Result<()> {
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
                label: Label::beside(Role::Control),
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

    /// Looks for what was lost, and for ACKs that are due.
    fn tick(&mut self, now: u64) -> io::Result<()> {
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
                if opens && connection.syns.len() < SYNS && now.saturating_sub(last) > AGAIN_NS {
                    self.syn(index, now)?;
                }
                continue;
            }
            let waited = now.saturating_sub(connection.fin_ns);
            if connection.fins > 0 && connection.fins < FINS && waited > AGAIN_NS {
                self.fin(index)?;
                continue;
            }
            let due = connection.ack_due_ns.is_some_and(|at| at <= now);
            let lost = connection.lost(now);
            for again in lost {
                self.data(index, again, Label::beside(Role::Repair), self.due(index))?;
            }
            if due {
                self.pure_ack(index, Label::beside(Role::Repair), News::None)?;
            }
        }
        Ok(())
    }

    /// Sends the data that are due, and the FINs at the end.
    fn play(&mut self, now: u64) -> io::Result<u64> {
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
                ..Label::beside(Role::Data)
            };
            let len = segment;
            self.data(conn, Again { seq, len }, label, self.due(conn))?;
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

    /// When the script started: once all connections are there, or those that come at all.
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

    /// Ends a connection: by a FIN, the first time or again; or, if the script started without it,
    /// by an RST, which the other end may have missed.
    fn close(&mut self, index: usize) -> io::Result<()> {
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

    fn fin(&mut self, index: usize) -> io::Result<()> {
        let now = self.socket.now_ns();
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        if connection.fins >= FINS || !connection.established {
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

    /// A connection that comes after the start of its script is not made: the other end would take
    /// its missing half for loss.
    fn refuse(&mut self, index: usize) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        connection.over = true;
        let seq = connection.isn.wrapping_add(1);
        self.control(index, flag::RST | flag::ACK, seq)
    }

    fn control(&mut self, index: usize, flags: u16, seq: u32) -> io::Result<()> {
        let due = self.due(index);
        self.emit(
            index,
            Outgoing {
                label: Label::beside(Role::Control),
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

    /// Sends data, new ones or again.
    fn data(&mut self, index: usize, data: Again, label: Label, due: Due) -> io::Result<()> {
        let Again { seq, len } = data;
        if self.records.sent.len() >= MAX_SENT {
            return Ok(());
        }
        let acc_ecn = self.script.connections[index].acc_ecn;
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        connection.sent(seq, len, self.socket.now_ns());
        // Congestion is marked now and then, to see whether the mark arrives. What is sent again
        // is not ECN-capable (RFC 3168 §6.1.5).
        let marked = seq.wrapping_sub(connection.isn) / u32::from(len.max(1)) % 50 == 7;
        let ecn = match label.role {
            Role::Repair => 0,
            Role::Data if marked => CE,
            _ if acc_ecn => 1,
            _ => 2,
        };
        let flags = flag::ACK;
        self.emit(
            index,
            Outgoing {
                label,
                flags,
                seq,
                due,
                payload: len,
                news: News::None,
                syn: false,
                ecn,
            },
        )
    }

    /// What this end could acknowledge now.
    fn due(&self, index: usize) -> Due {
        let connection = self.connections[index].as_ref();
        connection.map(Connection::newest).unwrap_or_default()
    }

    fn pure_ack(&mut self, index: usize, label: Label, news: News) -> io::Result<()> {
        let Some(connection) = &self.connections[index] else {
            return Ok(());
        };
        let due = connection.newest();
        self.ack(index, label, news, due)
    }

    fn ack(&mut self, index: usize, label: Label, news: News, due: Due) -> io::Result<()> {
        let Some(connection) = &self.connections[index] else {
            return Ok(());
        };
        let seq = connection.snd_nxt;
        let flags = match news {
            News::Ece => flag::ACK | flag::ECE,
            _ => flag::ACK,
        };
        self.emit(
            index,
            Outgoing {
                label,
                flags,
                seq,
                due,
                payload: 0,
                news,
                syn: false,
                ecn: 0,
            },
        )
    }

    /// Sends a packet and keeps what it was. One that the host has no room for is not kept: it
    /// never left.
    fn emit(&mut self, index: usize, out: Outgoing) -> io::Result<()> {
        if self.records.sent.len() >= MAX_SENT {
            return Ok(());
        }
        let plan = &self.script.connections[index];
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        let stamps = [connection.ts_next.to_be_bytes(), out.due.echo.to_be_bytes()].concat();
        connection.ts_next = connection.ts_next.wrapping_add(1);
        let mut flags = out.flags;
        let mut options = Options::default();
        if out.syn {
            syn_options(&mut options, plan, self.script.segment, flags, &stamps);
        } else {
            add(&mut options, kind::TIMESTAMPS, &stamps);
            if out.news == News::Option {
                add(&mut options, kind::EXPERIMENT, &EXPERIMENT);
            }
            if out.due.ack == connection.rcv_nxt {
                options.add_sack(&connection.sack());
            }
            if plan.acc_ecn {
                // ACE starts at 5 (RFC 9768 §3.2.1); no mark is counted.
                flags |= flag::AE | flag::ECE;
            }
            connection.acknowledges(out.due.ack);
            connection.ack_due_ns = None;
        }
        let window = match out.news {
            News::Window => WINDOW_UPDATE,
            _ => WINDOW,
        };
        let segment = Segment {
            source: connection.port,
            destination: connection.peer_port,
            seq: out.seq,
            ack: out.due.ack,
            flags,
            window,
            options,
            payload: out.payload,
            ecn: out.ecn,
        };
        let now = self.socket.now_ns();
        let origin = connection.outgoing();
        let packet = segment.to_packet(self.place.here, self.place.there);
        let to = with_scope(self.place.there, 0, self.place.scope_id);
        let left = match self.socket.send(&packet, to) {
            Ok(left) => left,
            Err(error) if self.records.sent.is_empty() => return Err(error),
            // A route that goes away may come back.
            Err(_) => false,
        };
        if left {
            self.records.sent.push(Record {
                phase: out.label.phase,
                role: out.label.role,
                round: out.label.round,
                place: out.label.place,
                ..Record::of(&segment, now, index as u8, origin)
            });
        }
        self.last_ns = now;
        Ok(())
    }

    /// Takes what has arrived, or as much as is read in a row.
    fn receive(&mut self) -> io::Result<()> {
        for _ in 0..ROW {
            match self.socket.receive()? {
                Next::Segment(arrived) => self.arrive(&arrived)?,
                Next::Unreadable => {}
                Next::Nothing => break,
            }
        }
        Ok(())
    }

    /// A packet has arrived.
    fn arrive(&mut self, arrived: &Arrived) -> io::Result<()> {
        let segment = &arrived.segment;
        if arrived.from != self.place.there {
            return Ok(());
        }
        let (mine, theirs) = match self.place.end {
            End::Client => (segment.destination, segment.source == self.place.port),
            End::Server => (segment.source, segment.destination == self.place.port),
        };
        if !theirs {
            return Ok(());
        }
        let known = self.by_port.get(&mine).copied();
        let index = match known.or_else(|| self.accept(segment)) {
            Some(index) => index,
            None => return Ok(()),
        };
        let handshake = segment.flags & flag::SYN != 0;
        let server = self.place.end == End::Server;
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        if handshake {
            connection.begin(segment.seq);
        }
        let stamps = segment.timestamps();
        if let Some((value, _)) = stamps {
            connection.stamped(value);
        }
        let origin = connection.incoming();
        if self.records.seen.len() < MAX_SEEN {
            let record = Record::of(segment, arrived.at_ns, index as u8, origin);
            self.records.seen.push(record);
        }
        let now = self.socket.now_ns();
        self.last_ns = now;
        if segment.flags & flag::RST != 0 {
            connection.over = true;
            return Ok(());
        }
        if handshake && connection.irs != Some(segment.seq) || connection.irs.is_none() {
            // Not of this connection.
            return Ok(());
        }
        if self.started_ns.is_some() && !connection.established {
            return self.refuse(index);
        }
        if handshake && server {
            // An old SYN asks for nothing.
            let asks = !connection.established;
            return if asks { self.syn(index, now) } else { Ok(()) };
        }
        if !connection.established {
            connection.establish(stamps.map(|(_, echo)| echo), arrived.at_ns);
            self.first_ns = self.first_ns.or(Some(now));
        }
        if handshake {
            return self.pure_ack(index, Label::beside(Role::Control), News::None);
        }
        connection.acknowledged(segment);
        if segment.payload > 0 {
            self.take(index, segment)?;
        }
        if segment.flags & flag::FIN != 0 {
            self.end(index, segment)?;
        }
        Ok(())
    }

    /// A connection that comes into being at the server. Timestamps say which one it is; without
    /// them they count as they come.
    fn accept(&mut self, segment: &Segment) -> Option<usize> {
        if self.place.end != End::Server || segment.flags & (flag::SYN | flag::ACK) != flag::SYN {
            return None;
        }
        let free = |index: &usize| self.connections.get(*index).is_some_and(Option::is_none);
        let said = segment.timestamps().map(|(value, _)| value >> INDEX_SHIFT);
        let said = said.map(|index| index as usize).filter(free);
        let index = said.or_else(|| (0..self.connections.len()).find(free))?;
        let isn = self.random.hash_one((index, segment.seq)) as u32;
        let ports = Ports {
            own: self.place.port,
            peer: segment.source,
        };
        let connection = Connection::new(index, ports, isn, self.script.queue_us);
        self.by_port.insert(segment.source, index);
        self.connections[index] = Some(connection);
        Some(index)
    }

    fn end(&mut self, index: usize, segment: &Segment) -> io::Result<()> {
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
        self.pure_ack(index, Label::beside(Role::Control), News::None)
    }

    /// Takes data. The data sender acknowledges a little later, the other end by the script.
    fn take(&mut self, index: usize, segment: &Segment) -> io::Result<()> {
        let sends_data = self.sends_data();
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        if sends_data {
            connection.received(segment.seq, segment.payload);
            connection.ack_due_ns = connection
                .ack_due_ns
                .or(Some(self.socket.now_ns() + DELAYED_ACK_NS));
            return Ok(());
        }
        let size = self.script.segment;
        // A host whose interface joins segments (GRO, LRO) hands over several at once.
        let pieces = (segment.payload / size).max(1);
        for piece in 0..pieces {
            let seq = segment.seq.wrapping_add(u32::from(piece * size));
            self.piece(index, seq, size.min(segment.payload))?;
        }
        Ok(())
    }

    fn piece(&mut self, index: usize, seq: u32, len: u16) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        let offset = seq.wrapping_sub(connection.isn_of_peer().wrapping_add(1));
        let number = (offset / u32::from(self.script.segment)) as usize;
        let answers = &self.script.connections[index].answers;
        let answer = answers.get(number).copied();
        let new = answer.is_some() && connection.received(seq, len);
        // Each part of the script is played once, however its segment is cut.
        match answer.filter(|_| new && connection.answered.insert(number)) {
            Some(answer) => self.answer(index, answer),
            None => self.pure_ack(index, Label::beside(Role::Repair), News::None),
        }
    }

    fn answer(&mut self, index: usize, answer: Answer) -> io::Result<()> {
        let Answer { act, phase, round } = answer;
        let label = |role: Role, place: usize| Label {
            phase,
            role,
            round,
            place: place as u8,
        };
        match act {
            Act::Now(news) => self.pure_ack(index, label(Role::Ack, 1), news),
            Act::Small => self.own_data(index, SMALL, label(Role::Small, 1), self.due(index)),
            Act::Large => self.own_data(index, LARGE, label(Role::Large, 1), self.due(index)),
            Act::Defer => {
                self.defer(index);
                Ok(())
            }
            Act::Flush(around) => {
                self.defer(index);
                self.flush(index, around, phase, round)
            }
        }
    }

    /// Sends the ACKs that are due, and the data around them, which say nothing that the ACKs
    /// say.
    fn flush(&mut self, index: usize, around: Around, phase: Phase, round: u8) -> io::Result<()> {
        let label = |role: Role, place: usize| Label {
            phase,
            role,
            round,
            place: place as u8,
        };
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        let acks = std::mem::take(&mut connection.due);
        let before = Due {
            ack: connection.acked,
            echo: connection.ts_recent,
        };
        for _ in 0..around.before {
            self.own_data(index, LARGE, label(Role::Large, 0), before)?;
        }
        let last = acks.len();
        for (place, due) in (1..).zip(acks) {
            if around.tail && place == last {
                self.own_data(index, SMALL, label(Role::Small, place), due)?;
            } else {
                self.ack(index, label(Role::Ack, place), News::None, due)?;
            }
        }
        for _ in 0..around.behind {
            self.own_data(index, LARGE, label(Role::Large, last + 1), before)?;
        }
        Ok(())
    }

    fn defer(&mut self, index: usize) {
        if let Some(connection) = &mut self.connections[index] {
            connection.due.push(connection.newest());
        }
    }

    fn own_data(&mut self, index: usize, len: u16, label: Label, due: Due) -> io::Result<()> {
        let Some(connection) = &self.connections[index] else {
            return Ok(());
        };
        let seq = connection.snd_nxt;
        self.data(index, Again { seq, len }, label, due)
    }
}

impl Connection {
    fn isn_of_peer(&self) -> u32 {
        self.irs.unwrap_or(0)
    }
}

/// A socket's address, with the interface of a link-local one.
pub fn with_scope(address: IpAddr, port: u16, scope_id: u32) -> SocketAddr {
    match address {
        IpAddr::V4(_) => SocketAddr::new(address, port),
        IpAddr::V6(address) => SocketAddrV6::new(address, port, 0, scope_id).into(),
    }
}

/// The body of an option of an experiment that nobody makes (RFC 6994).
const EXPERIMENT: [u8; 4] = [0xac, 0x4b, 0x77, 0x15];

/// The options of a SYN, or of its answer.
fn syn_options(options: &mut Options, plan: &Plan, segment: u16, flags: u16, stamps: &[u8]) {
    let mss = if segment == LARGE { LARGE } else { 1460 };
    add(options, kind::MSS, &mss.to_be_bytes());
    add(options, kind::SACK_PERMITTED, &[]);
    add(options, kind::TIMESTAMPS, stamps);
    add(options, kind::WINDOW_SCALE, &[WINDOW_SCALE]);
    if plan.mptcp && flags & flag::ACK == 0 {
        // MP_CAPABLE of version 1 in a SYN (RFC 8684 §3.1).
        add(options, kind::MPTCP, &[0x01, 0x01]);
    }
    if plan.experiment {
        add(options, kind::EXPERIMENT, &EXPERIMENT);
    }
}

/// Adds an option of a set that fits. One that did not would be left out.
fn add(options: &mut Options, kind: u8, body: &[u8]) {
    let fits = options.add(kind, body);
    debug_assert!(fits, "the options of the script fit into a header");
}

#[cfg(test)]
mod tests;
