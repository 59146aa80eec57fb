//! A sender and a receiver joined by two pipes, and nothing else.
#![allow(dead_code)] // each test binary uses a part

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::Nanos;
use ackwise_sim::packet::{Direction, Flags, FlowId, Packet};
use ackwise_sim::tcp::{Receiver, Sender, configure};

pub const MS: Nanos = 1_000_000;
pub const SECOND: Nanos = 1_000 * MS;

/// What happens to a packet on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Pass,
    Drop,
    Twice,
    Late(Nanos),
    Mark,
}

type Judge = Box<dyn FnMut(&Packet, usize) -> Fate>;

/// One direction: rate, drop-tail queue, delay.
pub struct Pipe {
    pub delay: Nanos,
    /// Bits per second; 0 means unlimited.
    pub rate_bps: u64,
    /// Packets waiting and in service.
    pub limit: usize,
    pub judge: Judge,
    leaving: VecDeque<Nanos>,
    seen: usize,
    pub dropped: usize,
    pub longest: usize,
}

impl Pipe {
    pub fn new(delay: Nanos) -> Pipe {
        Pipe {
            delay,
            rate_bps: 0,
            limit: usize::MAX,
            judge: Box::new(|_, _| Fate::Pass),
            leaving: VecDeque::new(),
            seen: 0,
            dropped: 0,
            longest: 0,
        }
    }

    pub fn rate(mut self, bps: u64, limit: usize) -> Pipe {
        self.rate_bps = bps;
        self.limit = limit;
        self
    }

    pub fn judge(mut self, judge: impl FnMut(&Packet, usize) -> Fate + 'static) -> Pipe {
        self.judge = Box::new(judge);
        self
    }

    /// Arrival times of the packet at the other end; two if it is duplicated.
    fn carry(&mut self, p: &mut Packet, now: Nanos) -> Vec<Nanos> {
        let n = self.seen;
        self.seen += 1;
        while self.leaving.front().is_some_and(|at| *at <= now) {
            self.leaving.pop_front();
        }
        let fate = (self.judge)(p, n);
        if fate == Fate::Drop || self.leaving.len() >= self.limit {
            self.dropped += 1;
            return Vec::new();
        }
        let mut out = now;
        let bits = u64::from(p.wire_len) * 8;
        if let Some(time) = (bits * SECOND).checked_div(self.rate_bps) {
            let start = self.leaving.back().copied().unwrap_or(now).max(now);
            out = start + time;
            self.leaving.push_back(out);
            self.longest = self.longest.max(self.leaving.len());
        }
        let at = out + self.delay;
        match fate {
            Fate::Twice => vec![at, at],
            Fate::Late(extra) => vec![at + extra],
            Fate::Mark => {
                assert!(p.flags.contains(Flags::ECT));
                p.flags |= Flags::CE;
                vec![at]
            }
            _ => vec![at],
        }
    }
}

/// A packet that left an end, with the time.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub at: Nanos,
    pub packet: Packet,
}

pub struct Net {
    pub now: Nanos,
    pub sender: Sender,
    pub receiver: Receiver,
    pub forward: Pipe,
    pub back: Pipe,
    pub log: Vec<Sent>,
    heap: BinaryHeap<Reverse<(Nanos, u64)>>,
    flying: Vec<Option<Packet>>,
    /// (time, cwnd, ssthresh) after each ACK.
    pub windows: Vec<(Nanos, u64, u64)>,
    pub keep_log: bool,
}

/// The two ends for a flow's options, on a path with an MTU of 1500 bytes.
pub fn ends(cc: &str, model: &TcpModel, socket: &SocketOptions) -> (Sender, Receiver) {
    let (s, r) = configure(cc, model, socket, 1500).unwrap();
    (
        Sender::new(FlowId(0), Arc::new(s)),
        Receiver::new(FlowId(0), Arc::new(r)),
    )
}

impl Net {
    pub fn new((sender, receiver): (Sender, Receiver), forward: Pipe, back: Pipe) -> Net {
        Net {
            now: 0,
            sender,
            receiver,
            forward,
            back,
            log: Vec::new(),
            heap: BinaryHeap::new(),
            flying: Vec::new(),
            windows: Vec::new(),
            keep_log: true,
        }
    }

    pub fn start(&mut self, bytes: u64) {
        self.sender.supply(bytes);
        self.sender.open(self.now);
        self.drain();
    }

    /// Sends everything that is ready to leave.
    pub fn drain(&mut self) {
        self.drain_sender();
        self.drain_receiver();
    }

    fn drain_sender(&mut self) {
        while let Some(p) = self.sender.poll_transmit(self.now) {
            self.launch(p);
        }
    }

    fn drain_receiver(&mut self) {
        while let Some(p) = self.receiver.poll_transmit(self.now) {
            self.launch(p);
        }
    }

    fn launch(&mut self, mut packet: Packet) {
        let pipe = match packet.direction {
            Direction::Data => &mut self.forward,
            Direction::Ack => &mut self.back,
        };
        let arrivals = pipe.carry(&mut packet, self.now);
        if self.keep_log {
            let at = self.now;
            self.log.push(Sent { at, packet });
        }
        for at in arrivals {
            let n = self.flying.len() as u64;
            self.flying.push(Some(packet));
            self.heap.push(Reverse((at, n)));
        }
    }

    /// Handles the next event at or before `until`; returns false if there is none.
    pub fn step(&mut self, until: Nanos) -> bool {
        let timers = [self.sender.next_timer(), self.receiver.next_timer()];
        let timer = timers.into_iter().flatten().min();
        let packet = self.heap.peek().map(|r| r.0.0);
        let Some(next) = [timer, packet].into_iter().flatten().min() else {
            return false;
        };
        if next > until {
            self.now = until;
            return false;
        }
        assert!(
            next >= self.now,
            "time went backwards: {next} < {}",
            self.now
        );
        self.now = next;
        if packet == Some(next) {
            let Reverse((_, n)) = self.heap.pop().unwrap();
            let p = self.flying[n as usize].take().unwrap();
            if self.heap.is_empty() {
                self.flying.clear();
            }
            match p.direction {
                Direction::Data => {
                    self.receiver.on_packet(&p, next);
                    self.drain_receiver();
                }
                Direction::Ack => {
                    self.sender.on_packet(&p, next);
                    if self.keep_log {
                        let (c, s) = (self.sender.cwnd(), self.sender.ssthresh());
                        self.windows.push((next, c, s));
                    }
                    self.drain_sender();
                }
            }
            return true;
        }
        if timers[0] == Some(next) {
            self.sender.on_timer(next);
            self.drain_sender();
        }
        if timers[1] == Some(next) {
            self.receiver.on_timer(next);
            self.drain_receiver();
        }
        true
    }

    pub fn run_until(&mut self, until: Nanos) {
        while self.step(until) {}
    }

    /// Data segments in the order in which they left: (time, number of the first segment, again).
    pub fn data(&self) -> Vec<(Nanos, u64, bool)> {
        let mss = u64::from(self.sender.config().mss);
        self.log
            .iter()
            .filter(|s| s.packet.payload > 0)
            .map(|s| {
                let again = s.packet.flags.contains(Flags::RETRANSMIT);
                (s.at, s.packet.seq / mss, again)
            })
            .collect()
    }

    /// ACKs in the order in which they left.
    pub fn acks(&self) -> Vec<Sent> {
        self.log
            .iter()
            .filter(|s| s.packet.direction == Direction::Ack && s.packet.is_pure_ack())
            .copied()
            .collect()
    }
}

/// Drops the first transmissions of these segments (numbers from 0).
pub fn lose(mss: u64, segments: &[u64]) -> impl FnMut(&Packet, usize) -> Fate + 'static {
    let mut left: Vec<u64> = segments.to_vec();
    move |p, _| {
        if p.payload == 0 {
            return Fate::Pass;
        }
        match left.iter().position(|n| *n == p.seq / mss) {
            Some(i) => {
                left.swap_remove(i);
                Fate::Drop
            }
            None => Fate::Pass,
        }
    }
}
