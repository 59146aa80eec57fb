//! Incoming packets, and how they are answered.

use std::io;

use super::{Engine, MS};
use crate::connection::{Label, PendingAck};
use crate::protocol::MAX_RECORDED;
use crate::record::{Record, Role};
use crate::script::{Act, Answer, End, LARGE, News, Phase, SMALL, SurroundingData};
use crate::segment::{Segment, flag};
use crate::socket::{Received, ReceivedSegment};

/// The delay of the data sender's ACKs.
const DELAYED_ACK_NS: u64 = 40 * MS;
/// The number of packets read in a row before the clock is read again.
const MAX_READS: usize = 256;

impl Engine<'_> {
    /// Processes the packets that have arrived, up to `MAX_READS`.
    pub(super) fn receive(&mut self) -> io::Result<()> {
        for _ in 0..MAX_READS {
            match self.socket.receive()? {
                Received::Segment(arrived) => self.arrive(&arrived)?,
                Received::Unreadable => {}
                Received::Nothing => break,
            }
        }
        Ok(())
    }

    /// Processes a packet.
    pub(super) fn arrive(&mut self, arrived: &ReceivedSegment) -> io::Result<()> {
        let segment = &arrived.segment;
        if arrived.from != self.endpoint.there {
            return Ok(());
        }
        let (mine, theirs) = match self.endpoint.end {
            End::Client => (segment.destination, segment.source == self.endpoint.port),
            End::Server => (segment.source, segment.destination == self.endpoint.port),
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
        let server = self.endpoint.end == End::Server;
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
        if self.records.seen.len() < MAX_RECORDED {
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
            // The packet is not of this connection.
            return Ok(());
        }
        if self.started_ns.is_some() && !connection.established {
            return self.refuse(index);
        }
        if handshake && server {
            // An old SYN needs no answer.
            let asks = !connection.established;
            return if asks { self.syn(index, now) } else { Ok(()) };
        }
        if !connection.established {
            connection.establish(stamps.map(|(_, echo)| echo), arrived.at_ns);
            self.first_ns = self.first_ns.or(Some(now));
        }
        if handshake {
            return self.pure_ack(index, Label::outside_script(Role::Control), News::None);
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

    /// Processes data. The data sender acknowledges a little later, the other end as the script
    /// says.
    pub(super) fn take(&mut self, index: usize, segment: &Segment) -> io::Result<()> {
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
        // A host whose interface merges segments (GRO, LRO) delivers several at once.
        let pieces = (segment.payload / size).max(1);
        for piece in 0..pieces {
            let seq = segment.seq.wrapping_add(u32::from(piece * size));
            self.piece(index, seq, size.min(segment.payload))?;
        }
        Ok(())
    }

    pub(super) fn piece(&mut self, index: usize, seq: u32, len: u16) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        let offset = seq.wrapping_sub(connection.isn_of_peer().wrapping_add(1));
        let number = (offset / u32::from(self.script.segment)) as usize;
        let answers = &self.script.connections[index].answers;
        let answer = answers.get(number).copied();
        let new = answer.is_some() && connection.received(seq, len);
        // Each part of the script is played once, however its segment is split.
        match answer.filter(|_| new && connection.answered.insert(number)) {
            Some(answer) => self.answer(index, answer),
            None => self.pure_ack(index, Label::outside_script(Role::Repair), News::None),
        }
    }

    pub(super) fn answer(&mut self, index: usize, answer: Answer) -> io::Result<()> {
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

    /// Sends the ACKs that are due, and the data around them, which do not carry the news of the
    /// ACKs.
    pub(super) fn flush(
        &mut self,
        index: usize,
        around: SurroundingData,
        phase: Phase,
        round: u8,
    ) -> io::Result<()> {
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
        let before = PendingAck {
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

    pub(super) fn defer(&mut self, index: usize) {
        if let Some(connection) = &mut self.connections[index] {
            connection.due.push(connection.newest());
        }
    }
}
