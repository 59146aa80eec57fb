//! The cost of an ACK at both ends of a tunnel, without I/O: from the packet to the sealed
//! datagram, and back.
//!
//! ```sh
//! cargo bench -p ackwise-tunnel --bench ends
//! valgrind --tool=callgrind --toggle-collect=mux target/release/deps/ends-… entropy 1 plain
//! ```
//!
//! The load is recorded ACKs of eight downloads, each sent ten times from other addresses: 40,000
//! per second, with a period of 10 ms and encryption. Feedback arrives after 40 ms. The best pass
//! counts. Arguments select the coding, the number of passes, the only trace, and the number of
//! copies. The copies are alike, which flatters the byte counts: `ackwise-lab tunnel-bench` has
//! true ones.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ackwise_tunnel::trace::Recorded;
use ackwise_tunnel::{Actions, KeyPair, Security, Tunnel, TunnelConfig, Variant};

const MS: u64 = 1_000_000;
const COPIES: u8 = 10;
const DELAY: u64 = 20 * MS;
const PASSES: usize = 15;
/// The rates that the codec has to reach, in ACKs per second.
const TARGETS: [f64; 2] = [800e3, 600e3];

/// Packets and their cost.
#[derive(Clone, Copy)]
struct Pass {
    mux: Duration,
    demux: Duration,
    /// Number of bundles, and their bytes without IP and UDP.
    bundles: u64,
    bytes: u64,
}

/// The packet from another address, with updated checksums (RFC 1624).
fn other_address(packet: &[u8], copy: u8) -> Vec<u8> {
    let mut packet = packet.to_vec();
    let word = |packet: &[u8], at: usize| u32::from(packet[at]) << 8 | u32::from(packet[at + 1]);
    let old = word(&packet, 14);
    packet[15] = packet[15].wrapping_add(copy);
    for at in [10, 36] {
        let mut sum = (0xffff - word(&packet, at)) + (0xffff - old) + word(&packet, 14);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        packet[at..at + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
    packet
}

/// The packets of each millisecond.
fn packets(which: Recorded, copies: u8) -> Vec<Vec<Vec<u8>>> {
    let trace = which.read().expect("recorded");
    let last = trace.last().map_or(0, |seen| seen.at_ns / MS) as usize;
    let mut slots = vec![Vec::new(); last + 1];
    for seen in trace {
        let slot = &mut slots[(seen.at_ns / MS) as usize];
        slot.extend((0..copies).map(|copy| other_address(&seen.packet, copy)));
    }
    slots
}

/// The work of the near end: takes packets and feedback, makes datagrams.
#[unsafe(no_mangle)]
#[inline(never)]
fn mux(
    near: &mut Tunnel,
    feedback: &mut Vec<Vec<u8>>,
    packets: &[Vec<u8>],
    now: u64,
    actions: &mut Actions,
) {
    for datagram in feedback.drain(..) {
        let _ = near.datagram(&datagram, now, actions);
    }
    for packet in packets {
        near.packet(packet, now, actions);
    }
    if near.next_tick(now) <= now {
        near.tick(now, actions);
    }
}

/// The work of the far end: takes datagrams, makes packets and feedback.
#[unsafe(no_mangle)]
#[inline(never)]
fn demux(far: &mut Tunnel, datagrams: &mut Vec<Vec<u8>>, now: u64, actions: &mut Actions) {
    for datagram in datagrams.drain(..) {
        let _ = far.datagram(&datagram, now, actions);
    }
    if far.next_tick(now) <= now {
        far.tick(now, actions);
    }
}

/// Datagrams in flight, by arrival time.
#[derive(Default)]
struct Wire(VecDeque<(u64, Vec<u8>)>);

impl Wire {
    fn send(&mut self, now: u64, datagrams: &mut Vec<Vec<u8>>) {
        let arrive = datagrams.drain(..).map(|datagram| (now + DELAY, datagram));
        self.0.extend(arrive);
    }

    fn arrived(&mut self, now: u64) -> Vec<Vec<u8>> {
        let due = self.0.partition_point(|(at, _)| *at <= now);
        self.0.drain(..due).map(|(_, datagram)| datagram).collect()
    }
}

fn pass(slots: &[Vec<Vec<u8>>], variant: Variant) -> Pass {
    let keys = [(); 2].map(|()| KeyPair::generate().expect("random numbers"));
    let [mut near, mut far] = [0, 1].map(|end: usize| {
        let mut config = TunnelConfig::new(Security::Noise {
            secret: keys[end].secret,
            public: keys[end].public,
            peer: keys[1 - end].public,
        });
        config.variant = variant;
        config.follow_rtt = false;
        config.initiates = end == 0;
        Tunnel::new(config)
    });
    let (mut there, mut back) = (Wire::default(), Wire::default());
    let mut took = Pass {
        mux: Duration::ZERO,
        demux: Duration::ZERO,
        bundles: 0,
        bytes: 0,
    };
    let mut came = Vec::new();
    // One second for the ends to find each other and the path MTU.
    let quiet = std::iter::repeat_n(&[][..], 1000);
    let after = std::iter::repeat_n(&[][..], 100);
    let slots = slots.iter().map(Vec::as_slice);
    for (now, packets) in (0..)
        .step_by(MS as usize)
        .zip(quiet.chain(slots.clone()).chain(after))
    {
        let mut actions = Actions::default();
        let mut feedback = back.arrived(now);
        let start = Instant::now();
        mux(&mut near, &mut feedback, packets, now, &mut actions);
        took.mux += start.elapsed();
        assert!(actions.bypass.is_empty(), "the tunnel is up");
        there.send(now, &mut actions.datagrams);
        let mut datagrams = there.arrived(now);
        let start = Instant::now();
        demux(&mut far, &mut datagrams, now, &mut actions);
        took.demux += start.elapsed();
        back.send(now, &mut actions.datagrams);
        came.extend(black_box(&actions.packets).iter().map(<[u8]>::to_vec));
    }
    let mut sent: Vec<Vec<u8>> = slots.flatten().cloned().collect();
    sent.sort_unstable();
    came.sort_unstable();
    assert!(sent == came, "all that went in came out, and nothing else");
    took.bundles = near.counters().bundles_out;
    took.bytes = near.counters().bundle_bytes_out;
    took
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let passes = arguments
        .get(1)
        .map_or(PASSES, |n| n.parse().expect("a number of passes"));
    let copies = arguments
        .get(3)
        .map_or(COPIES, |n| n.parse().expect("a number of copies"));
    for (which, name) in [(Recorded::Plain, "plain"), (Recorded::Sack, "sack")] {
        if arguments.get(2).is_some_and(|only| *only != name) {
            continue;
        }
        let slots = packets(which, copies);
        let acks: usize = slots.iter().map(Vec::len).sum();
        for (variant, coding) in [(Variant::Entropy, "entropy"), (Variant::Aligned, "aligned")] {
            if arguments.first().is_some_and(|only| *only != coding) {
                continue;
            }
            let all: Vec<Pass> = (0..passes).map(|_| pass(&slots, variant)).collect();
            let best = |of: fn(&Pass) -> Duration| all.iter().map(of).min().unwrap_or_default();
            let per_s = [best(|p| p.mux), best(|p| p.demux)].map(|t| acks as f64 / t.as_secs_f64());
            println!(
                "{name:<6}{coding:<8} into datagrams {:>5.0} ns an ACK, {:>5.2} times the target; out of them {:>5.0} ns, {:>5.2} times; {:.2} B, {:.0} ACKs a bundle",
                1e9 / per_s[0],
                per_s[0] / TARGETS[0],
                1e9 / per_s[1],
                per_s[1] / TARGETS[1],
                all[0].bytes as f64 / acks as f64,
                acks as f64 / all[0].bundles as f64,
            );
        }
    }
}
