//! Measures the paths by which packets can reach a process and leave it: the CPU time per packet,
//! on one core, of everything that happens to it on the way.
//!
//! ```sh
//! sudo -E cargo bench -p ackwise-gateway --bench paths
//! ```
//!
//! One thread on one core does everything. It sends a batch of ACKs through the hook, whose
//! redirect, copy and queue run in that thread too, then receives the batch by the measured path.
//! The cost of sending alone, with a hook that drops, is subtracted. The other half sends a batch
//! by the measured path into a veth whose other end drops. `whole` is everything that happens to a
//! packet from the hook to the device, including the veth's other end, under disciplines that parse
//! it. Rounds alternate between paths; the median counts.

#[path = "paths/ring.rs"]
mod ring;
#[path = "paths/socket.rs"]
mod socket;
#[path = "paths/xsk.rs"]
mod xsk;

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Command;

use ackwise_gateway::bench::{RedirectAll, Sender, tap};
use ackwise_gateway::{Config, Core};
use ackwise_policy::LinkKind;
use ring::{Ring, TxRing};
use socket::{Packets, index_of};
use xsk::Xsk;

const BATCH: usize = 64;
const BATCHES: usize = 600;
const ROUNDS: usize = 9;

const QUEUES: [(&str, &str); 5] = [
    ("whole: drop-tail", "\"1000 packets\""),
    (
        "whole: RED, ECN",
        "{ limit = \"1000 packets\", discipline = \"red\", ecn = true }",
    ),
    (
        "whole: ACK filter rfc3449, ACKs first",
        "{ limit = \"1000 packets\", ack_filter = \"rfc3449\", acks_first = true }",
    ),
    (
        "whole: ACK filter rfc3449-sack",
        "{ limit = \"1000 packets\", ack_filter = \"rfc3449-sack\" }",
    ),
    (
        "whole: ACK filter cake",
        "{ limit = \"1000 packets\", ack_filter = \"cake\" }",
    ),
];

fn main() {
    isolate();
    let frames = vec![ack(); BATCH];
    // Such a socket stays while its rings are mapped.
    let (mut rx, mut tx) = (Xsk::open("xin1", true), Xsk::open("xout0", false));
    let mut table: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..ROUNDS {
        for (name, cost) in take(&frames, &mut rx)
            .into_iter()
            .chain(give(&frames, &mut tx))
            .chain(QUEUES.map(|(name, queue)| (name, whole(queue))))
        {
            table.entry(name).or_default().push(cost);
        }
    }
    let median = |name: &str| {
        let mut costs = table[name].clone();
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    };
    let dropped = median("0 hook drops");
    println!("ns a packet, median of {ROUNDS} rounds of {BATCHES} batches of {BATCH}");
    println!("{:>8}  sending through a hook that drops", dropped.round());
    for name in table.keys().filter(|name| name.starts_with("take")) {
        println!("{:>8}  {name}", (median(name) - dropped).round());
    }
    for name in table.keys().filter(|name| name.starts_with("give")) {
        println!("{:>8}  {name}", median(name).round());
    }
    for name in table.keys().filter(|name| name.starts_with("whole")) {
        let cost = median(name) - dropped;
        let rate = (1e6 / cost).round();
        println!(
            "{:>8}  {name}: {rate} k packets/s on a core (target 300 k)",
            cost.round()
        );
    }
}

/// Moves to a new network namespace and pins the thread to a core.
fn isolate() {
    // SAFETY: no pointers but to a local set of CPUs.
    unsafe {
        assert_eq!(libc::unshare(libc::CLONE_NEWNET), 0, "run this as root");
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(1, &mut cpus);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const cpus);
    }
    for line in [
        "link add wan0 type veth peer name wan1",
        "link add in0 type veth peer name in1",
        "link add xin0 type veth peer name xin1",
        "link add out0 type veth peer name out1",
        "link add xout0 type veth peer name xout1",
    ] {
        ip(line);
    }
    for device in ["wan", "in", "xin", "out", "xout"]
        .iter()
        .flat_map(|pair| [format!("{pair}0"), format!("{pair}1")])
    {
        let device = device.as_str();
        let _ = std::fs::write(
            format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"),
            "1",
        );
        ip(&format!("link set {device} up arp off"));
        let off = ["-K", device, "tso", "off", "gso", "off", "tx", "off"];
        let _ = Command::new("ethtool").args(off).output();
    }
}

fn ip(line: &str) {
    let out = Command::new("ip").args(line.split(' ')).output().unwrap();
    assert!(out.status.success(), "ip {line}: {out:?}");
}

/// An ACK with timestamps in an Ethernet frame to another host.
fn ack() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 6, 0x26, 0xc2]);
    frame.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x13, 0x89, 0x9c, 0x40]);
    frame.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x80, 0x10, 1, 0, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    frame
}

fn cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a live timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU nanoseconds per packet of `work`, which handles a batch and returns how many packets it
/// handled.
fn measure(mut work: impl FnMut() -> usize) -> f64 {
    for _ in 0..20 {
        work();
    }
    let before = cpu_ns();
    let packets: usize = (0..BATCHES).map(|_| work()).sum();
    let spent = cpu_ns() - before;
    let whole = BATCH * BATCHES;
    assert!(
        packets * 100 >= whole * 98,
        "{packets} of {whole} came through"
    );
    spent as f64 / packets as f64
}

fn take(frames: &[Vec<u8>], xsk: &mut Xsk) -> Vec<(&'static str, f64)> {
    let sender = Packets::to("wan0", false);
    let mut costs = Vec::new();
    let nowhere = RedirectAll::new("wan0", 0x7fff_ffff);
    costs.push((
        "0 hook drops",
        measure(|| {
            sender.send(frames);
            BATCH
        }),
    ));
    drop(nowhere);

    let mut room = [0; 2048];
    let (device, index) = tap("wan0");
    let redirect = RedirectAll::new("wan0", index);
    costs.push((
        "take: TAP, read",
        measure(|| {
            sender.send(frames);
            let mut count = 0;
            while (&device).read(&mut room).is_ok() {
                count += 1;
            }
            count
        }),
    ));
    drop((redirect, device));

    let redirect = RedirectAll::new("wan0", index_of("in0"));
    let receiver = Packets::from("in1");
    costs.push((
        "take: veth, AF_PACKET, recvmmsg",
        measure(|| {
            sender.send(frames);
            receiver.receive(BATCH)
        }),
    ));
    drop(receiver);
    let mut ring = Ring::open("in1");
    costs.push((
        "take: veth, AF_PACKET, TPACKET_V3",
        measure(|| {
            sender.send(frames);
            ring.take(BATCH)
        }),
    ));
    drop(ring);
    drop(redirect);
    let redirect = RedirectAll::new("wan0", index_of("xin0"));
    costs.push((
        "take: veth, AF_XDP, copy",
        measure(|| {
            sender.send(frames);
            xsk.take(BATCH)
        }),
    ));
    drop(redirect);
    costs
}

/// The whole path: hook, TAP, queue, packet socket, hook, device.
fn whole(queue: &str) -> f64 {
    let text = format!("interface = \"wan0\"\nrate = \"10 Gbit/s\"\nqueue = {queue}");
    let config = Config::parse("bench", &text).unwrap();
    let mut core = Core::new(&config, LinkKind::Ethernet, 1500, 1);
    let sender = Packets::to("wan0", false);
    let (device, index) = tap("wan0");
    let _detour = RedirectAll::new("wan0", index);
    let out = Sender::new("wan0");
    let mut frames = vec![ack(); BATCH];
    let (mut now, mut number, mut left) = (0, 0_u32, Vec::new());
    measure(|| {
        for (n, frame) in frames.iter_mut().enumerate() {
            // Each of eight flows acknowledges two more segments each time.
            frame[35] = (n % 8) as u8;
            number = number.wrapping_add(362);
            frame[42..46].copy_from_slice(&number.to_be_bytes());
        }
        sender.send(&frames);
        now += 1_000_000;
        let mut count = 0;
        loop {
            let mut buffer = core.buffer();
            match (&device).read(buffer.room()) {
                Ok(len) => core.offer(buffer, len, now),
                Err(_) => {
                    core.reuse(buffer);
                    break;
                }
            }
            count += 1;
        }
        left.extend(std::iter::from_fn(|| core.release(now + 500_000)));
        assert_eq!(out.send(&left), left.len() as u64);
        left.drain(..).for_each(|frame| core.reuse(frame));
        count
    })
}

fn give(frames: &[Vec<u8>], xsk: &mut Xsk) -> Vec<(&'static str, f64)> {
    let mut costs = Vec::new();
    for (name, bypass) in [
        ("give: AF_PACKET, sendmmsg", false),
        ("give: AF_PACKET, sendmmsg, past the hooks", true),
    ] {
        let sender = Packets::to("out0", bypass);
        costs.push((
            name,
            measure(|| {
                sender.send(frames);
                BATCH
            }),
        ));
    }
    let mut ring = TxRing::open("out0");
    costs.push((
        "give: AF_PACKET, PACKET_TX_RING",
        measure(|| {
            ring.send(frames);
            BATCH
        }),
    ));
    drop(ring);
    costs.push((
        "give: AF_XDP, copy, past the hooks",
        measure(|| xsk.give(frames)),
    ));
    costs
}
