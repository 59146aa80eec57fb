//! One connection, with as much TCP as a middlebox needs to see: numbers, SACK blocks, and
//! retransmissions. It has no I/O and no clock.

use std::collections::{HashSet, VecDeque};

use crate::record::{Origin, Role};
use crate::script::Phase;
use crate::segment::{SackBlock, Segment, flag};

/// What an outgoing packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// The phase that it belongs to.
    pub phase: Phase,
    /// Its role.
    pub role: Role,
    /// The repetition within the phase.
    pub round: u8,
    /// Its place among ACKs that are sent at once.
    pub place: u8,
}

impl Label {
    /// The label of a packet outside the script.
    #[must_use]
    pub const fn outside_script(role: Role) -> Self {
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
#[derive(Debug, Clone, Copy, Default)]
pub struct PendingAck {
    /// The acknowledgment number.
    pub ack: u32,
    /// The timestamp to echo.
    pub echo: u32,
}

/// The ports of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Ports {
    /// The port of this end.
    pub own: u16,
    /// The port of the other end, as this one sees it.
    pub peer: u16,
}

/// A SYN that was sent.
#[derive(Debug, Clone, Copy)]
pub struct Syn {
    /// The TSval.
    pub stamp: u32,
    /// When it was sent.
    pub at_ns: u64,
}

/// Data to retransmit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retransmission {
    /// The sequence number.
    pub seq: u32,
    /// The length in bytes.
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
    /// The number of FINs that this end has sent.
    pub fins: usize,
    /// When this end last sent a FIN.
    pub fin_ns: u64,
    /// Whether the other end's FIN or RST has arrived.
    pub over: bool,
    /// The SYNs that were sent.
    pub syns: Vec<Syn>,
    /// The round-trip time of the handshake, if it is known which SYN was answered.
    pub rtt_ns: Option<u64>,
    /// The round-trip time that timers use.
    timer_rtt_ns: u64,
    /// How long data may also wait for the data before them.
    queue_ns: u64,
    /// When an ACK for data outside the script is due.
    pub ack_due_ns: Option<u64>,
    /// The waiting ACKs of a burst.
    pub due: Vec<PendingAck>,
    /// Segments of the script that have been answered, by number.
    pub answered: HashSet<usize>,
    beyond: Vec<(u32, u32)>,
    outstanding: VecDeque<Outstanding>,
}

/// Returns whether a sequence number precedes another.
fn before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > i32::MIN && (a.wrapping_sub(b) as i32) < 0
}

/// The maximum number of blocks kept beyond a hole. A receiver may forget some (RFC 2018 §8).
const MAX_OUT_OF_ORDER: usize = 256;

/// The round-trip time assumed until a handshake measures it.
const DEFAULT_RTT_NS: u64 = 100_000_000;

impl Connection {
    /// The first sequence number of the other end, or 0 while it is not known.
    pub fn isn_of_peer(&self) -> u32 {
        self.irs.unwrap_or(0)
    }

    /// A connection on which nothing has been sent.
    #[must_use]
    pub fn new(index: usize, ports: Ports, isn: u32, queue_us: u64) -> Self {
        Self {
            port: ports.own,
            peer_port: ports.peer,
            queue_ns: queue_us * 1000,
            isn,
            irs: None,
            snd_nxt: isn.wrapping_add(1),
            rcv_nxt: 0,
            acked: 0,
            ts_next: (index as u32) << INDEX_SHIFT | 1,
            ts_recent: 0,
            established: false,
            fins: 0,
            fin_ns: 0,
            over: false,
            syns: Vec::new(),
            rtt_ns: None,
            timer_rtt_ns: DEFAULT_RTT_NS,
            ack_due_ns: None,
            due: Vec::new(),
            answered: HashSet::new(),
            beyond: Vec::new(),
            outstanding: VecDeque::new(),
        }
    }

    /// Processes the other end's SYN. A copy of it changes nothing.
    pub fn begin(&mut self, irs: u32) {
        if self.irs.is_none() {
            self.irs = Some(irs);
            self.rcv_nxt = irs.wrapping_add(1);
            self.acked = self.rcv_nxt;
        }
    }

    /// Processes a timestamp of the other end. Those of reordered packets are old.
    pub fn stamped(&mut self, value: u32) {
        if self.ts_recent == 0 || before(self.ts_recent, value) {
            self.ts_recent = value;
        }
    }

    /// Completes the handshake by a packet that answers a SYN of this end and echoes this
    /// timestamp. If there is no echo and more than one SYN was sent, it is unknown which one is
    /// answered (Karn's algorithm, RFC 6298 §3); timers then count from the first.
    pub fn establish(&mut self, echo: Option<u32>, now_ns: u64) {
        self.established = true;
        let echoed = self.syns.iter().find(|it| Some(it.stamp) == echo);
        let only = self.syns.first().filter(|_| self.syns.len() == 1);
        let since = |it: &Syn| now_ns.saturating_sub(it.at_ns);
        self.rtt_ns = echoed.or(only).map(since);
        let longest = self.syns.first().map(since);
        self.timer_rtt_ns = self.rtt_ns.or(longest).unwrap_or(DEFAULT_RTT_NS);
    }

    /// How long to wait at the end of the script for packets in flight.
    #[must_use]
    pub fn linger_ns(&self) -> u64 {
        2 * self.timer_rtt_ns + self.queue_ns
    }

    /// What can be acknowledged now.
    #[must_use]
    pub fn newest(&self) -> PendingAck {
        PendingAck {
            ack: self.rcv_nxt,
            echo: self.ts_recent,
        }
    }

    /// Records that a packet with this acknowledgment number was sent.
    pub fn acknowledges(&mut self, ack: u32) {
        if before(self.acked, ack) {
            self.acked = ack;
        }
    }

    /// The origin of relative numbers in incoming packets.
    #[must_use]
    pub fn incoming(&self) -> Origin {
        Origin {
            seq: self.irs.unwrap_or(0),
            ack: self.isn,
        }
    }

    /// The origin of relative numbers in outgoing packets.
    #[must_use]
    pub fn outgoing(&self) -> Origin {
        let Origin { seq, ack } = self.incoming();
        Origin { seq: ack, ack: seq }
    }

    /// Records that data were sent. New data advance the next sequence number.
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

    /// Processes an ACK.
    pub fn acknowledged(&mut self, segment: &Segment) {
        if segment.flags & flag::ACK == 0 {
            return;
        }
        let end = |it: &Outstanding| it.seq.wrapping_add(u32::from(it.len));
        self.outstanding.retain(|it| before(segment.ack, end(it)));
        for SackBlock { left, right } in segment.sack() {
            for it in &mut self.outstanding {
                it.sacked |= !before(it.seq, left) && !before(right, end(it));
            }
        }
    }

    /// Returns at most four segments that count as lost: those that SACK has passed over for longer
    /// than a round trip, or that have been outstanding for much longer.
    #[must_use]
    pub fn lost(&self, now_ns: u64) -> Vec<Retransmission> {
        const MS: u64 = 1_000_000;
        let timeout = (2 * self.timer_rtt_ns).max(300 * MS) + self.queue_ns;
        let reordering = self.timer_rtt_ns + self.timer_rtt_ns / 4 + 10 * MS;
        let last = self.outstanding.iter().filter(|it| it.sacked);
        let last = last
            .map(|it| it.seq)
            .reduce(|a, b| if before(a, b) { b } else { a });
        let lost = self.outstanding.iter().filter(|it| {
            let out = now_ns.saturating_sub(it.sent_ns);
            let passed = last.is_some_and(|last| before(it.seq, last));
            !it.sacked && (out > timeout || passed && out > reordering)
        });
        let again = lost.map(|it| Retransmission {
            seq: it.seq,
            len: it.len,
        });
        again.take(4).collect()
    }

    /// Processes data. Returns whether any of them are new.
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
            self.beyond.truncate(MAX_OUT_OF_ORDER);
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
    pub fn sack(&self) -> Vec<SackBlock> {
        let blocks = self.beyond.iter().take(3);
        blocks
            .map(|&(left, right)| SackBlock { left, right })
            .collect()
    }
}

/// The upper bits of a TSval identify the connection.
pub const INDEX_SHIFT: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Options;

    const PORTS: Ports = Ports { own: 1, peer: 2 };

    fn established() -> Connection {
        // Sequence numbers that wrap.
        let mut it = Connection::new(3, PORTS, u32::MAX - 100, 0);
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
        let (left, right) = (at(2), at(4));
        assert_eq!(it.sack(), [SackBlock { left, right }]);
        assert!(it.received(at(1), 100));
        assert_eq!(it.rcv_nxt, at(4));
        assert!(it.sack().is_empty());
    }

    #[test]
    fn a_round_trip_is_that_of_the_syn_that_is_answered() {
        for (echo, rtt_ns) in [
            (Some(1), Some(1200)),
            (Some(2), Some(200)),
            (Some(9), None),
            (None, None),
        ] {
            let mut it = Connection::new(0, PORTS, 1, 0);
            for (stamp, at_ns) in [(1, 0), (2, 1000)] {
                it.syns.push(Syn { stamp, at_ns });
            }
            it.establish(echo, 1200);
            assert_eq!(it.rtt_ns, rtt_ns);
            assert_eq!(it.linger_ns(), 2 * rtt_ns.unwrap_or(1200));
        }
        let mut it = Connection::new(0, PORTS, 1, 0);
        it.syns.push(Syn { stamp: 1, at_ns: 5 });
        it.establish(None, 15);
        assert_eq!(it.rtt_ns, Some(10));
    }

    #[test]
    fn a_copy_of_a_syn_changes_nothing() {
        let mut it = established();
        let first = it.rcv_nxt;
        assert!(it.received(first, 100));
        for irs in [first.wrapping_sub(1), 77] {
            it.begin(irs);
            assert_eq!(it.rcv_nxt, first.wrapping_add(100));
            assert_eq!(it.irs, Some(first.wrapping_sub(1)));
        }
        for (value, recent) in [(5, 5), (7, 7), (6, 7)] {
            it.stamped(value);
            assert_eq!(it.ts_recent, recent);
        }
    }

    #[test]
    fn blocks_without_end_are_not_kept() {
        let mut it = established();
        let first = it.rcv_nxt;
        for n in 1..50_000 {
            it.received(first.wrapping_add(2 * n), 1);
        }
        assert_eq!(it.beyond.len(), MAX_OUT_OF_ORDER);
        let newest = first.wrapping_add(2 * 49_999);
        assert_eq!(it.beyond[0], (newest, newest.wrapping_add(1)));
    }

    #[test]
    fn what_sack_passes_over_is_sent_again() {
        let mut it = established();
        let first = it.snd_nxt;
        let at = |n: u32| first.wrapping_add(n * 100);
        for n in 0..4 {
            it.sent(at(n), 100, 0);
        }
        let (left, right) = (at(2), at(3));
        let mut options = Options::default();
        options.add_sack(&[SackBlock { left, right }]);
        it.acknowledged(&Segment {
            flags: flag::ACK,
            ack: at(1),
            options,
            ..Segment::default()
        });
        let late = 200_000_000;
        let lost = Retransmission {
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
