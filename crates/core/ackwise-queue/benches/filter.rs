//! The cost of a packet in a queue with an ACK filter, for queues of 10 and 1000 packets: it must
//! not grow with the length of the queue.
//!
//! `cargo bench -p ackwise-queue --bench filter`
//!
//! The queue holds data of other flows, with one packet in and one out at a time, so that its
//! length stays the same; every second arrival is an ACK of a flow that has one waiting. The result
//! is the median of several passes; the first pass is not counted.

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;

use ackwise_queue::{
    Discipline, FilterRule, Place, QueueConfig, QueueDiscipline, QueueLimit, Queued,
};
use common::{TestPacket, ack, filtered};

const PACKETS: u32 = 400_000;
const PASSES: usize = 7;

fn ns_per_packet(config: &QueueConfig, length: u32) -> f64 {
    let mut passes: Vec<f64> = (0..=PASSES).map(|_| pass(config, length)).collect();
    passes.remove(0);
    passes.sort_by(f64::total_cmp);
    passes[PASSES / 2]
}

fn pass(config: &QueueConfig, length: u32) -> f64 {
    let mut queue: Discipline<TestPacket> = Discipline::new(config);
    let mut evicted = VecDeque::new();
    let mut now = 0;
    let put =
        |queue: &mut Discipline<TestPacket>, evicted: &mut VecDeque<_>, packet: TestPacket, now| {
            let queued = Queued {
                len: packet.len(),
                packet,
                arrived_ns: now,
            };
            let _ = black_box(queue.enqueue(queued, evicted));
            evicted.clear();
        };
    let other = |n: u32| ack(n, n).flow(1000 + n % 64).payload(1000);
    for n in 0..20 {
        put(&mut queue, &mut evicted, ack(n, n * 1448), now);
        queue.dequeue(now, &mut evicted);
    }
    for n in 0..length {
        put(&mut queue, &mut evicted, other(n), now);
    }
    let start = Instant::now();
    for n in 0..PACKETS / 2 {
        now += 1_000;
        put(&mut queue, &mut evicted, ack(n, (20 + n) * 1448), now);
        put(&mut queue, &mut evicted, other(n), now);
        while queue.packets() > length as usize {
            black_box(queue.dequeue(now, &mut evicted));
        }
    }
    start.elapsed().as_nanos() as f64 / f64::from(PACKETS)
}

fn main() {
    let rfc3449 = |place| FilterRule::Rfc3449 {
        keep: 0,
        place,
        max_stretch: None,
    };
    let limit = QueueLimit::Unlimited;
    let configs = [
        ("drop-tail", QueueConfig::drop_tail(limit)),
        ("rfc3449", filtered(rfc3449(Place::Append), limit)),
        ("rfc3449 replace", filtered(rfc3449(Place::Replace), limit)),
        ("ns2-append", filtered(FilterRule::Ns2Append, limit)),
        (
            "cake",
            filtered(FilterRule::Cake { aggressive: false }, limit),
        ),
    ];
    println!(
        "{:<18}{:>12}{:>12}{:>8}",
        "ns per packet", "10 wait", "1000 wait", "ratio"
    );
    for (name, config) in configs {
        let [short, long] = [10, 1000].map(|length| ns_per_packet(&config, length));
        println!("{name:<18}{short:>12.0}{long:>12.0}{:>8.2}", long / short);
    }
}
