//! Each end has its own clock: they disagree, stand still, and jump.

use std::collections::VecDeque;

use ackwise_tunnel::trace::{Recorded, TracedPacket};
use ackwise_tunnel::{Actions, KeyPair, Security, Tunnel, TunnelConfig};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;
const DELAY: u64 = 10 * MS;
/// Sessions are forgotten after this time; it is less than the lifetime left to them.
const FORGOTTEN: u64 = 200 * SECOND;

/// Two ends, 10 ms apart, polled every half a millisecond of true time.
struct Harness {
    ends: [Tunnel; 2],
    /// How far each clock is ahead of the true time.
    ahead: [u64; 2],
    now: u64,
    in_flight: VecDeque<(u64, usize, Vec<u8>)>,
    restored: usize,
    bypass: usize,
}

impl Harness {
    fn new() -> Harness {
        let keys = [(); 2].map(|()| KeyPair::generate().expect("random numbers"));
        let ends = [0, 1].map(|i: usize| {
            Tunnel::new(TunnelConfig::new(Security::Noise {
                secret: keys[i].secret,
                public: keys[i].public,
                peer: keys[1 - i].public,
            }))
        });
        Harness {
            ends,
            // They were started at different times.
            ahead: [0, 77_777 * SECOND],
            now: 10 * SECOND,
            in_flight: VecDeque::new(),
            restored: 0,
            bypass: 0,
        }
    }

    fn time(&self, end: usize) -> u64 {
        self.now + self.ahead[end]
    }

    fn act(&mut self, end: usize, actions: Actions) {
        for datagram in actions.datagrams {
            self.in_flight
                .push_back((self.now + DELAY, 1 - end, datagram));
        }
        self.restored += actions.packets.len();
        self.bypass += actions.bypass.len();
    }

    fn pass(&mut self, span: u64) {
        let until = self.now + span;
        while self.now < until {
            self.now += MS / 2;
            while self
                .in_flight
                .front()
                .is_some_and(|first| first.0 <= self.now)
            {
                let Some((_, end, datagram)) = self.in_flight.pop_front() else {
                    break;
                };
                let (mut actions, time) = (Actions::default(), self.time(end));
                let _ = self.ends[end].datagram(&datagram, time, &mut actions);
                self.act(end, actions);
            }
            for end in 0..2 {
                let time = self.time(end);
                if self.ends[end].next_tick(time) <= time {
                    let mut actions = Actions::default();
                    self.ends[end].tick(time, &mut actions);
                    self.act(end, actions);
                }
            }
        }
    }

    /// The number of ACKs that arrive, by either path.
    fn carry(&mut self, acks: &[TracedPacket]) -> usize {
        let before = self.restored + self.bypass;
        for ack in acks {
            let (mut actions, time) = (Actions::default(), self.time(0));
            self.ends[0].packet(&ack.packet, time, &mut actions);
            self.act(0, actions);
            self.pass(MS / 2);
        }
        self.pass(2 * SECOND);
        self.restored + self.bypass - before
    }

    /// Soon both ends hear each other again, and all ACKs travel in bundles.
    fn assert_recovers(&mut self, acks: &[TracedPacket]) {
        self.pass(3 * SECOND);
        assert!(self.ends.iter().all(Tunnel::is_up));
        let outside = self.bypass;
        assert_eq!(self.carry(acks), acks.len());
        assert_eq!(self.bypass, outside);
    }

    /// Immediately after the clock of one end jumped. If that end forgot the session because of it,
    /// what the other end sends in it before noticing is lost, as if the end had restarted.
    fn assert_copes(&mut self, acks: &[TracedPacket], jump: u64) {
        let arrived = self.carry(acks);
        let least = if jump < FORGOTTEN {
            acks.len()
        } else {
            acks.len() / 2
        };
        assert!(
            (least..=acks.len()).contains(&arrived),
            "{arrived} after {jump}"
        );
        self.assert_recovers(acks);
    }
}

#[test]
fn clocks_that_jump_ahead() {
    let trace = Recorded::Plain.read().expect("recorded");
    let acks = &trace[..200];
    let mut net = Harness::new();
    net.assert_recovers(acks);
    // A second; longer than sessions are kept; longer than they are used; an hour; a month.
    for jump in [1, 20, 200, 3600, 30 * 86_400].map(|seconds| seconds * SECOND) {
        for end in 0..2 {
            net.ahead[end] += jump;
            net.assert_copes(acks, jump);
        }
    }
}

/// The process was stopped, or the machine was asleep: nothing happened at one end for a while.
#[test]
fn an_end_that_stood_still() {
    let trace = Recorded::Plain.read().expect("recorded");
    let acks = &trace[..200];
    let mut net = Harness::new();
    net.assert_recovers(acks);
    for still in [1, 20, 400].map(|seconds| seconds * SECOND) {
        for end in 0..2 {
            // The other end continues; what was in flight waited in the socket.
            net.ahead[1 - end] += still;
            net.assert_copes(acks, still);
        }
    }
}

/// A monotonic clock does not jump back. If one did, nothing would break.
#[test]
fn clocks_that_jump_back() {
    let trace = Recorded::Plain.read().expect("recorded");
    let acks = &trace[..200];
    let mut net = Harness::new();
    net.ahead = [10_000 * SECOND; 2];
    net.assert_recovers(acks);
    for end in 0..2 {
        net.ahead[end] -= SECOND;
        net.assert_copes(acks, 0);
    }
}
