//! Runs two pairs of tunnel ends with the same packets at the same times. One pair is also attacked
//! with forged, changed and repeated datagrams, with a correct MAC or without, by an attacker who
//! sees everything but has no key.
//!
//! - With encryption, nothing forged or changed is accepted, and it has no effect: both pairs
//!   behave the same, down to the length and time of every datagram.
//! - A repeated initiation may be answered, but that is all: ACKs still get through.
//! - In either pair, no packet comes out that did not go in.
//!
//! Input: byte 0 is the security and the trace; then come operations, as in `step`.

use std::collections::HashSet;
use std::hash::Hasher;

use ackwise_tunnel::{Actions, Counters, KeyPair, Security, Tunnel, TunnelConfig};
use siphasher::sip::SipHasher24;

use crate::input::{Script, acks};

const MS: u64 = 1_000_000;
const INITIATION: u8 = 1;
/// The number of initiations with a correct mac1 that are sent: more would be refused as a flood,
/// and so would the genuine ones.
const MAX_MAC1: u32 = 40;

fn security(i: usize, noise: bool) -> Security {
    let keys = [3, 5].map(|byte| KeyPair::from_secret([byte; 32]).expect("a key"));
    if !noise {
        return Security::Plain;
    }
    Security::Noise {
        secret: keys[i].secret,
        public: keys[i].public,
        peer: keys[1 - i].public,
    }
}

fn tunnel(i: usize, noise: bool) -> Tunnel {
    let mut config = TunnelConfig::new(security(i, noise));
    config.initiates = i == 0;
    config.max_flows = 16;
    Tunnel::new(config)
}

/// What an observer sees of an end, except what depends on keys or counts attacks.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Datagram(usize, u64, usize),
    Packet(Vec<u8>),
    Bypass(Vec<u8>),
}

/// Two ends and the path between them, which has no delay.
struct Pair {
    noise: bool,
    ends: [Tunnel; 2],
    now: u64,
    log: Vec<Event>,
    /// The datagrams that arrived, and at which end.
    history: Vec<(usize, Vec<u8>)>,
    lose: u32,
}

impl Pair {
    fn new(noise: bool) -> Pair {
        Pair {
            noise,
            ends: [0, 1].map(|i| tunnel(i, noise)),
            now: 0,
            log: Vec::new(),
            history: Vec::new(),
            lose: 0,
        }
    }

    /// Carries out an end's actions, and what follows from them.
    fn act(&mut self, end: usize, actions: Actions) {
        let mut todo = vec![(end, actions)];
        while let Some((end, actions)) = todo.pop() {
            let packets = actions.packets.iter().map(|p| Event::Packet(p.to_vec()));
            self.log.extend(packets);
            let bypass = actions.bypass.iter().map(|p| Event::Bypass(p.to_vec()));
            self.log.extend(bypass);
            for datagram in actions.datagrams {
                self.log
                    .push(Event::Datagram(end, self.now, datagram.len()));
                if self.lose > 0 {
                    self.lose -= 1;
                    continue;
                }
                let mut answer = Actions::default();
                let accepted = self.ends[1 - end].datagram(&datagram, self.now, &mut answer);
                // A replay may have changed the current session meanwhile.
                let _ = accepted;
                self.history.push((1 - end, datagram));
                todo.push((1 - end, answer));
            }
        }
    }

    fn packet(&mut self, end: usize, packet: &[u8]) {
        let mut actions = Actions::default();
        self.ends[end].packet(packet, self.now, &mut actions);
        self.act(end, actions);
    }

    fn pass(&mut self, time: u64) {
        let until = self.now + time;
        // An end that asks to be woken again and again at the same time would loop here.
        for _ in 0..2000 {
            let wakes = [0, 1].map(|i: usize| self.ends[i].next_tick(self.now).max(self.now));
            let end = usize::from(wakes[1] < wakes[0]);
            if wakes[end] > until {
                self.now = until;
                return;
            }
            self.now = wakes[end];
            let mut actions = Actions::default();
            self.ends[end].tick(self.now, &mut actions);
            self.act(end, actions);
        }
        panic!("woken without end at {}", self.now);
    }

    fn restart(&mut self, end: usize) {
        self.ends[end] = tunnel(end, self.noise);
    }

    fn counters(&self) -> [Counters; 2] {
        [0, 1].map(|i: usize| Counters {
            unknown_session: 0,
            auth_failures: 0,
            replayed: 0,
            handshakes_limited: 0,
            ..*self.ends[i].counters()
        })
    }
}

/// Whether two initiations differ at most in mac2, which counts only under load.
fn same_message(one: &[u8], other: &[u8]) -> bool {
    let message = |datagram: &[u8]| datagram[..datagram.len().saturating_sub(8)].to_vec();
    one.len() == other.len() && message(one) == message(other)
}

/// What the attacker has achieved.
struct Attack {
    mac1_count: u32,
    /// Something was accepted: the pairs may differ from now on.
    accepted: bool,
}

impl Attack {
    fn send(&mut self, pair: &mut Pair, end: usize, datagram: &[u8], repeated: bool) {
        let mut actions = Actions::default();
        if pair.ends[end]
            .datagram(datagram, pair.now, &mut actions)
            .is_err()
        {
            let nothing = actions.datagrams.is_empty() && actions.packets.is_empty();
            assert!(nothing && actions.bypass.is_empty());
            return;
        }
        let first = datagram[0] >> 6 == INITIATION;
        assert!(!pair.noise || (repeated && first), "taken: {datagram:02x?}");
        self.accepted = true;
        pair.act(end, actions);
    }

    /// Adds the MAC that anyone who knows the public key can make.
    fn add_mac1(&mut self, noise: bool, end: usize, datagram: &mut Vec<u8>) -> bool {
        let key = match security(end, noise) {
            Security::Noise { public, .. } => public,
            Security::Plain => [0; 32],
        };
        self.mac1_count += 1;
        if self.mac1_count > MAX_MAC1 || datagram.len() < 16 {
            return false;
        }
        datagram.truncate(datagram.len() - 16);
        let half = |i| u64::from_le_bytes(std::array::from_fn(|j| key[i + j]));
        let mut hasher = SipHasher24::new_with_keys(half(0), half(8));
        hasher.write(&[1]);
        hasher.write(&0_u64.to_be_bytes());
        hasher.write(datagram);
        datagram.extend(hasher.finish().to_be_bytes());
        // mac2: without a cookie.
        datagram.extend([0; 8]);
        true
    }

    fn step(&mut self, operation: u8, pair: &mut Pair, script: &mut Script) {
        let end = usize::from(operation >> 3 & 1);
        match operation % 8 {
            5 => {
                let mut datagram = script.bytes().to_vec();
                if operation & 16 == 0 || self.add_mac1(pair.noise, end, &mut datagram) {
                    self.send(pair, end, &datagram, false);
                }
            }
            6 => {
                let Some(which) = script.recent(pair.history.len()) else {
                    return;
                };
                let (to, original) = pair.history[which].clone();
                let mut datagram = original.clone();
                script.change(&mut datagram);
                let needs_mac1 = datagram.first().is_some_and(|kind| kind >> 6 == INITIATION)
                    && operation & 16 == 0;
                if !needs_mac1 || self.add_mac1(pair.noise, to, &mut datagram) {
                    self.send(pair, to, &datagram, same_message(&datagram, &original));
                }
            }
            _ => {
                let Some(which) = script.recent(pair.history.len()) else {
                    return;
                };
                let (to, datagram) = pair.history[which].clone();
                // Also back to its sender, as a mirror would.
                let to = if operation & 16 == 0 { to } else { 1 - to };
                self.mac1_count += u32::from(datagram[0] >> 6 == INITIATION);
                if self.mac1_count <= MAX_MAC1 {
                    self.send(pair, to, &datagram, true);
                }
            }
        }
    }
}

pub fn run(input: &[u8]) {
    let mut script = Script(input);
    let kind = script.byte();
    let noise = kind & 4 == 0;
    let acks = acks(kind);
    let known: HashSet<&[u8]> = acks.iter().map(Vec::as_slice).collect();
    let mut next = acks.iter().cycle();
    let mut pairs = [Pair::new(noise), Pair::new(noise)];
    let mut attack = Attack {
        mac1_count: 0,
        accepted: false,
    };
    for _ in 0..60 {
        if script.is_over() {
            break;
        }
        let operation = script.byte();
        let end = usize::from(operation >> 3 & 1);
        match operation % 8 {
            0 => {
                for packet in next.by_ref().take(usize::from(operation >> 4) + 1) {
                    pairs.iter_mut().for_each(|pair| pair.packet(end, packet));
                }
            }
            1 => pairs
                .iter_mut()
                .for_each(|p| p.pass(1 + u64::from(operation >> 3) * MS)),
            2 => pairs
                .iter_mut()
                .for_each(|p| p.pass(400 * u64::from(operation >> 3) * MS)),
            3 => pairs
                .iter_mut()
                .for_each(|p| p.lose += u32::from(operation >> 4)),
            4 if operation >> 4 == 0 => pairs.iter_mut().for_each(|p| p.restart(end)),
            4 => {}
            _ => attack.step(operation, &mut pairs[1], &mut script),
        }
        for pair in &mut pairs {
            assert!(pair.log.iter().all(|seen| match seen {
                Event::Packet(packet) | Event::Bypass(packet) => known.contains(&packet[..]),
                Event::Datagram(..) => true,
            }));
        }
        if !attack.accepted {
            assert_eq!(pairs[0].log, pairs[1].log);
            assert_eq!(pairs[0].counters(), pairs[1].counters());
        }
        pairs.iter_mut().for_each(|pair| pair.log.clear());
    }
    still_works(&mut pairs[1], acks, noise);
}

/// Whatever happened: once datagrams get through again, ACKs do, too.
fn still_works(pair: &mut Pair, acks: &[Vec<u8>], noise: bool) {
    pair.lose = 0;
    // An idle side asks every ten seconds whether the other is still there.
    pair.pass(13_000 * MS);
    if !noise {
        // Without keys, anyone who can send can also end a session.
        return;
    }
    assert!(pair.ends.iter().all(Tunnel::is_up));
    pair.log.clear();
    for end in [0, 1] {
        pair.packet(end, &acks[0]);
    }
    pair.pass(20 * MS);
    let arrived = pair
        .log
        .iter()
        .filter(|seen| matches!(seen, Event::Packet(_)));
    assert_eq!(arrived.count(), 2);
}
