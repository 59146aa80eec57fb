//! Two ends of a tunnel and a path between them, in virtual time.

use std::collections::{BTreeMap, HashMap};

use ackwise_rng::{Probability, Rng};
use ackwise_tunnel::trace::TracedPacket;
use ackwise_tunnel::{Actions, KeyPair, Security, Tunnel, TunnelConfig};

pub const MS: u64 = 1_000_000;

/// The effect of the path on datagrams.
#[derive(Clone, Copy)]
pub struct Path {
    pub delay: u64,
    pub loss: f64,
    pub reorder: f64,
    pub duplicate: f64,
    pub flip: f64,
    pub mtu: usize,
}

pub const CLEAN: Path = Path {
    delay: 20 * MS,
    loss: 0.0,
    reorder: 0.0,
    duplicate: 0.0,
    flip: 0.0,
    mtu: 1500,
};

/// Packets enter at end 0 and leave at end 1.
pub struct Harness {
    pub ends: [Tunnel; 2],
    #[allow(dead_code, reason = "only some tests start an end anew")]
    pub configs: [TunnelConfig; 2],
    pub path: Path,
    rng: Rng,
    pub now: u64,
    in_flight: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    count: u64,
    pub restored: Vec<(u64, Vec<u8>)>,
    pub bypass: Vec<(u64, Vec<u8>)>,
    pub cut: bool,
}

pub fn pair(change: impl Fn(&mut TunnelConfig)) -> [TunnelConfig; 2] {
    let keys = [(); 2].map(|()| KeyPair::generate().expect("random numbers"));
    [0, 1].map(|i| {
        let mut config = TunnelConfig::new(Security::Noise {
            secret: keys[i].secret,
            public: keys[i].public,
            peer: keys[1 - i].public,
        });
        change(&mut config);
        config
    })
}

impl Harness {
    pub fn new(configs: [TunnelConfig; 2], path: Path) -> Harness {
        Harness {
            ends: [0, 1].map(|i: usize| Tunnel::new(configs[i].clone())),
            configs,
            path,
            rng: Rng::new(7),
            now: 0,
            in_flight: BTreeMap::new(),
            count: 0,
            restored: Vec::new(),
            bypass: Vec::new(),
            cut: false,
        }
    }

    fn happens(&mut self, fraction: f64) -> bool {
        self.rng.happens(Probability::from_fraction(fraction))
    }

    fn act(&mut self, end: usize, actions: Actions) {
        for mut datagram in actions.datagrams {
            if self.cut || datagram.len() + 28 > self.path.mtu || self.happens(self.path.loss) {
                continue;
            }
            if self.happens(self.path.duplicate) {
                self.send(1 - end, datagram.clone());
            }
            if self.happens(self.path.flip) {
                let bit = self.rng.below(8 * datagram.len() as u64) as usize;
                datagram[bit / 8] ^= 1 << (bit % 8);
            }
            self.send(1 - end, datagram);
        }
        let kept = |packets: &ackwise_tunnel::Packets, now| -> Vec<(u64, Vec<u8>)> {
            packets.iter().map(|p| (now, p.to_vec())).collect()
        };
        self.restored.extend(kept(&actions.packets, self.now));
        self.bypass.extend(kept(&actions.bypass, self.now));
    }

    fn send(&mut self, to: usize, datagram: Vec<u8>) {
        let late = if self.happens(self.path.reorder) {
            self.rng.below(30 * MS)
        } else {
            0
        };
        self.count += 1;
        let at = self.now + self.path.delay + late;
        self.in_flight.insert((at, self.count), (to, datagram));
    }

    /// Runs until `until`, and checks that no end is woken more often than possible.
    pub fn run(&mut self, until: u64) {
        let mut steps = 0;
        loop {
            let arrival = self.in_flight.keys().next().map_or(u64::MAX, |key| key.0);
            let wakes = [0, 1].map(|i: usize| self.ends[i].next_tick(self.now).max(self.now));
            let next = arrival.min(wakes[0]).min(wakes[1]);
            if next > until {
                self.now = until;
                return;
            }
            steps += 1;
            assert!(steps < 1_000_000, "it does not come to rest at {next}");
            self.now = next;
            if arrival == next {
                let (_, (to, datagram)) = self.in_flight.pop_first().expect("there is one");
                let mut actions = Actions::default();
                let _ = self.ends[to].datagram(&datagram, next, &mut actions);
                self.act(to, actions);
                continue;
            }
            for (end, wake) in wakes.into_iter().enumerate() {
                if wake == next {
                    let mut actions = Actions::default();
                    self.ends[end].tick(next, &mut actions);
                    self.act(end, actions);
                }
            }
        }
    }

    pub fn packet(&mut self, packet: &[u8]) {
        let mut actions = Actions::default();
        self.ends[0].packet(packet, self.now, &mut actions);
        self.act(0, actions);
    }

    /// Plays a trace from now on; returns the time at which each packet entered.
    pub fn play(&mut self, trace: &[TracedPacket]) -> HashMap<Vec<u8>, u64> {
        let start = self.now;
        let mut times = HashMap::new();
        for seen in trace {
            self.run(start + seen.at_ns);
            times.insert(seen.packet.to_vec(), self.now);
            self.packet(&seen.packet);
        }
        self.run(self.now + 500 * MS);
        times
    }
}
