//! Building and sending the segments of a connection.

use std::io;

use super::{Engine, with_scope};
use crate::connection::{Connection, Label, PendingAck, Retransmission};
use crate::protocol::MAX_SENT;
use crate::record::{Record, Role};
use crate::script::{Connection as Plan, LARGE, News, WINDOW, WINDOW_UPDATE};
use crate::segment::{CE, Options, Segment, flag, kind};

/// The scale factor is 2^7 = 128.
const WINDOW_SCALE: u8 = 7;

/// A segment to send, without the numbers of its connection.
pub(super) struct Outgoing {
    pub(super) label: Label,
    pub(super) flags: u16,
    pub(super) seq: u32,
    pub(super) due: PendingAck,
    pub(super) payload: u16,
    pub(super) news: News,
    pub(super) syn: bool,
    pub(super) ecn: u8,
}

impl Engine<'_> {
    /// Sends data, for the first time or again.
    pub(super) fn data(
        &mut self,
        index: usize,
        data: Retransmission,
        label: Label,
        due: PendingAck,
    ) -> io::Result<()> {
        let Retransmission { seq, len } = data;
        if self.records.sent.len() >= MAX_SENT {
            return Ok(());
        }
        let acc_ecn = self.script.connections[index].acc_ecn;
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        connection.sent(seq, len, self.socket.now_ns());
        // Set CE now and then, to see whether the mark arrives. Retransmissions are not ECN-capable
        // (RFC 3168 §6.1.5).
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

    /// What this end can acknowledge now.
    pub(super) fn due(&self, index: usize) -> PendingAck {
        let connection = self.connections[index].as_ref();
        connection.map(Connection::newest).unwrap_or_default()
    }

    pub(super) fn pure_ack(&mut self, index: usize, label: Label, news: News) -> io::Result<()> {
        let Some(connection) = &self.connections[index] else {
            return Ok(());
        };
        let due = connection.newest();
        self.ack(index, label, news, due)
    }

    pub(super) fn ack(
        &mut self,
        index: usize,
        label: Label,
        news: News,
        due: PendingAck,
    ) -> io::Result<()> {
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

    /// Sends a packet and records it. A packet for which the host has no room is not recorded: it
    /// never left.
    pub(super) fn emit(&mut self, index: usize, out: Outgoing) -> io::Result<()> {
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
                // ACE starts at 5 (RFC 9768 §3.2.1); marks are not counted.
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
        let packet = segment.to_packet(self.endpoint.here, self.endpoint.there);
        let to = with_scope(self.endpoint.there, 0, self.endpoint.scope_id);
        let left = match self.socket.send(&packet, to) {
            Ok(left) => left,
            Err(error) if self.records.sent.is_empty() => return Err(error),
            // A route that disappears may come back.
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

    pub(super) fn own_data(
        &mut self,
        index: usize,
        len: u16,
        label: Label,
        due: PendingAck,
    ) -> io::Result<()> {
        let Some(connection) = &self.connections[index] else {
            return Ok(());
        };
        let seq = connection.snd_nxt;
        self.data(index, Retransmission { seq, len }, label, due)
    }
}

/// The body of an experimental option (RFC 6994) that nobody uses.
const EXPERIMENT: [u8; 4] = [0xac, 0x4b, 0x77, 0x15];

/// The options of a SYN or a SYN/ACK.
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
