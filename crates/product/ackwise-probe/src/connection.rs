//! One connection, as much TCP as a middlebox needs to see: numbers, SACK blocks, what has to be
//! sent again. No I/O and no clock.

use std::collections::VecDeque;

use crate::record::{Origin, Role};
use crate::script::Phase;
use crate::segment::{Segment, flag};

/// What an outgoing packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// What it belongs to.
    pub phase: Phase,
    /// What it is for.
    pub role: Role,
    /// Which repetition within the phase.
    pub round: u8,
    /// Which of the ACKs that are sent at once.
    pub place: u8,
}

impl Label {
    /// Of a packet that is not the script's.
    #[must_use]
    pub const fn beside(role: Role) -> Self {
        Self {
            phase: Phase::Other,
            role,
            round: 0,
            place: 0,
        }
    }
}

/// Data that are not acknowledged yet.
#[derive(Debug, Clone, Copy)]
struct Outstanding {
    seq: u32,
    len: u16,
    sent_ns: u64,
    sacked: bool,
}

/// An ACK that waits for the others of its burst.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// Its acknowledgment number.
    pub ack: u32,
    /// The timestamp that it echoes.
    pub echo: u32,
}

/// Data to send again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Again {
    /// Its sequence number.
    pub seq: u32,
    /// Its length in bytes.
    pub len: u16,
}

/// The state of a connection.
#[derive(Debug)]
pub struct Connection {
    /// The port of this end.
    pub port: u16,
    /// The port of the other end, as this one sees it.
    pub peer_port: u16,
    /// The first sequence number of this end.
    pub isn: u32,
    /// The first sequence number of the other end, once known.
    pub irs: Option<u32>,
    /// The next new sequence number.
    pub snd_nxt: u32,
    /// The next number expected.
    pub rcv_nxt: u32,
    /// The last acknowledgment number that was sent.
    pub acked: u32,
    /// The next TSval.
    pub ts_next: u32,
    /// The newest TSval that arrived.
    pub ts_recent: u32,
    /// Whether the handshake is done.
    pub established: bool,
    /// Whether this end has sent its FIN.
    pub fin_sent: bool,
    /// Whether the other end's FIN has arrived, or its RST.
    pub over: bool,
    /// When the last SYN left, and how many did.
    pub syn_ns: u64,
    /// How many SYN left.
    pub syns: u32,
    /// The round-trip time of the handshake.
    pub rtt_ns: u64,
    /// When an ACK for data is due, beside the script.
    pub ack_due_ns: Option<u64>,
    /// ACKs of a burst.
    pub due: Vec<Due>,
    beyond: Vec<(u32, u32)>,
    outstanding: VecDeque<Outstanding>,
}

/// Says whether a number comes before another one.
fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > i32::MIN && (a.wrapping_sub(b) as i32) < 0
}

/// Until a handshake tells.
const RTT_UNKNOWN_NS: u64 = 100_000_000;

impl Connection {
    /// A connection of which nothing has been sent.
    #[must_use]
    pub fn new(index: usize, port: u16, isn: u32) -> Self {
        Self {
            port,
            peer_port: 0,
            isn,
            irs: None,
            snd_nxt: isn.wrapping_add(1),
            rcv_nxt: 0,
            acked: 0,
            ts_next: (index as u32) << INDEX_SHIFT | 1,
            ts_recent: 0,
            established: false,
            fin_sent: false,
            over: false,
            syn_ns: 0,
            syns: 0,
            rtt_ns: RTT_UNKNOWN_NS,
            ack_due_ns: None,
            due: Vec::new(),
            beyond: Vec::new(),
            outstanding: VecDeque::new(),
        }
    }

    /// The other end's SYN has arrived.
    pub fn begin(&mut self, irs: u32) {
        self.irs = Some(irs);
        self.rcv_nxt = irs.wrapping_add(1);
        self.acked = self.rcv_nxt;
    }

    /// Where relative numbers of packets that arrive begin.
    #[must_use]
    pub fn incoming(&self) -> Origin {
        Origin {
            seq: self.irs.unwrap_or(0),
            ack: self.isn,
        }
    }

    /// Where relative numbers of packets that leave begin.
    #[must_use]
    pub fn outgoing(&self) -> Origin {
        let Origin { seq, ack } = self.incoming();
        Origin { seq: ack, ack: seq }
    }

    /// Data have left. New data move the next number on.
    pub fn sent(&mut self, seq: u32, len: u16, now_ns: u64) {
        let end = seq.wrapping_add(u32::from(len));
        if before(self.snd_nxt, end) {
            self.snd_nxt = end;
        }
        let mut known = self.outstanding.iter_mut();
        if let Some(known) = known.find(|it| it.seq == seq) {
            known.sent_ns = now_ns;
            return;
        }
        self.outstanding.push_back(Outstanding {
            seq,
            len,
            sent_ns: now_ns,
            sacked: false,
        });
    }

    /// What an ACK says.
    pub fn acknowledged(&mut self, segment: &Segment) {
        if segment.flags & flag::ACK == 0 {
            return;
        }
        let end = |it: &Outstanding| it.seq.wrapping_add(u32::from(it.len));
        self.outstanding.retain(|it| before(segment.ack, end(it)));
        for (left, right) in segment.sack() {
            for it in &mut self.outstanding {
                it.sacked |= !before(it.seq, left) && !before(right, end(it));
            }
        }
    }

    /// What is lost by now, at most four segments: what SACK has passed over for longer than a
    /// round trip, or what has been out for much longer.
    #[must_use]
    pub fn lost(&self, now_ns: u64) -> Vec<Again> {
        const MS: u64 = 1_000_000;
        let timeout = (2 * self.rtt_ns).max(300 * MS);
        let reordering = self.rtt_ns + self.rtt_ns / 4 + 10 * MS;
        let last = self.outstanding.iter().filter(|it| it.sacked);
        let last = last
            .map(|it| it.seq)
            .reduce(|a, b| if before(a, b) { b } else { a });
        let lost = self.outstanding.iter().filter(|it| {
            let out = now_ns.saturating_sub(it.sent_ns);
            let passed = last.is_some_and(|last| before(it.seq, last));
            !it.sacked && (out > timeout || passed && out > reordering)
        });
        let again = lost.map(|it| Again {
            seq: it.seq,
            len: it.len,
        });
        again.take(4).collect()
    }

    /// Data have arrived. Returns whether any of them are new.
    pub fn received(&mut self, seq: u32, len: u16) -> bool {
        let end = seq.wrapping_add(u32::from(len));
        if !before(self.rcv_nxt, end) {
            return false;
        }
        if before(self.rcv_nxt, seq) {
            let known = self.beyond.iter();
            let known = known
                .clone()
                .any(|(l, r)| !before(seq, *l) && !before(*r, end));
            if known {
                return false;
            }
            // The newest block comes first (RFC 2018 §4); those that it touches join it.
            let (mut left, mut right) = (seq, end);
            self.beyond.retain(|&(l, r)| {
                let apart = before(right, l) || before(r, left);
                if !apart {
                    left = if before(l, left) { l } else { left };
                    right = if before(right, r) { r } else { right };
                }
                apart
            });
            self.beyond.insert(0, (left, right));
            return true;
        }
        self.rcv_nxt = end;
        while let Some(at) = self
            .beyond
            .iter()
            .position(|(l, _)| !before(self.rcv_nxt, *l))
        {
            let (_, right) = self.beyond.remove(at);
            if before(self.rcv_nxt, right) {
                self.rcv_nxt = right;
            }
        }
        true
    }

    /// The SACK blocks to send, at most three.
    #[must_use]
    pub fn sack(&self) -> Vec<u8> {
        let blocks = self.beyond.iter().take(3);
        blocks
            .flat_map(|(l, r)| [l.to_be_bytes(), r.to_be_bytes()].concat())
            .collect()
    }
}

/// The upper bits of a TSval say which connection it is.
pub const INDEX_SHIFT: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{kind, option};

    fn established() -> Connection {
        // Numbers that wrap.
        let mut it = Connection::new(3, 1, u32::MAX - 100);
        it.begin(u32::MAX - 50);
        it
    }

    #[test]
    fn holes_are_reported_and_filled() {
        let mut it = established();
        let first = it.rcv_nxt;
        let at = |n: u32| first.wrapping_add(n * 100);
        assert!(it.received(at(0), 100));
        assert!(it.received(at(3), 100));
        assert!(it.received(at(2), 100));
        assert!(!it.received(at(2), 100), "a copy");
        assert_eq!(it.rcv_nxt, at(1));
        let block = [at(2).to_be_bytes(), at(4).to_be_bytes()].concat();
        assert_eq!(it.sack(), block);
        assert!(it.received(at(1), 100));
        assert_eq!(it.rcv_nxt, at(4));
        assert!(it.sack().is_empty());
    }

    #[test]
    fn what_sack_passes_over_is_sent_again() {
        let mut it = established();
        let first = it.snd_nxt;
        let at = |n: u32| first.wrapping_add(n * 100);
        for n in 0..4 {
            it.sent(at(n), 100, 0);
        }
        let blocks = [at(2).to_be_bytes(), at(3).to_be_bytes()].concat();
        it.acknowledged(&Segment {
            flags: flag::ACK,
            ack: at(1),
            options: option(kind::SACK, &blocks),
            ..Segment::default()
        });
        let late = 200_000_000;
        let lost = Again {
            seq: at(1),
            len: 100,
        };
        assert_eq!(it.lost(late), [lost]);
        assert_eq!(it.lost(1_000_000), []);
        it.sent(at(1), 100, late);
        assert_eq!(it.lost(late), [], "it has just left");
        assert_eq!(it.lost(2 * late + 110_000_000).len(), 2, "a timeout");
    }
}
