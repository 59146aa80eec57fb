//! How Linux hands segments down: in chunks, with PSH on the last segment.

mod tcp_support;

use ackwise_config::queues::QueueLimit;
use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::Nanos;
use ackwise_sim::packet::{AckRateOption, Direction, Flags, FlowId, Packet, Sack};
use ackwise_sim::tcp::Sender;
use tcp_support::{MS, ends};

const US: Nanos = 1_000;
const MSS: u64 = 1448;

/// A connection with a round trip of 100 ms and ten segments outstanding, in congestion avoidance.
fn open(defer_chunks: bool) -> Sender {
    let model = TcpModel {
        initial_ssthresh: Some(QueueLimit::Packets(5)),
        defer_chunks: Some(defer_chunks),
        ..TcpModel::default()
    };
    let (mut sender, _) = ends("reno", &model, &SocketOptions::default());
    sender.supply(u64::MAX);
    sender.open(0);
    let syn = sender.poll_transmit(0).expect("a SYN");
    assert!(syn.flags.contains(Flags::SYN));
    sender.on_packet(&ack(Flags::SYN, 0, 0), 100 * MS);
    assert_eq!(sent(&mut sender, 100 * MS), "-P-P-P-P-P");
    sender
}

fn ack(flags: Flags, segments: u64, tsecr: Nanos) -> Packet {
    Packet {
        flow: FlowId(0),
        direction: Direction::Ack,
        ack_rate: AckRateOption::NONE,
        flags: flags | Flags::ACK | Flags::TIMESTAMPS,
        wire_len: 52,
        payload: 0,
        seq: 0,
        ack: segments * MSS,
        window: 1 << 20,
        tsval: 0,
        tsecr,
        sack: Sack::default(),
    }
}

/// The segments that leave; `P` marks one with PSH.
fn sent(sender: &mut Sender, now: Nanos) -> String {
    std::iter::from_fn(|| sender.poll_transmit(now))
        .map(|p| {
            if p.flags.contains(Flags::PSH) {
                'P'
            } else {
                '-'
            }
        })
        .collect()
}

/// Acknowledges segments at the given times, and returns what leaves each time.
fn after(sender: &mut Sender, acks: &[(u64, Nanos)]) -> Vec<String> {
    let send = |&(segments, at): &(u64, Nanos)| {
        sender.on_packet(&ack(Flags::empty(), segments, 100 * MS), at);
        sent(sender, at)
    };
    acks.iter().map(send).collect()
}

#[test]
fn what_is_less_than_a_chunk_waits_for_an_ack_that_is_due() {
    let t = 200 * MS;
    // Nothing left within a millisecond before the first ACK. The second ACK's segment
    // waits, so that the third ACK lets two leave.
    let acks = [(1, t), (2, t + 500 * US), (3, t + 900 * US)];
    assert_eq!(after(&mut open(true), &acks), ["-", "", "-P"]);
    assert_eq!(after(&mut open(false), &acks), ["-", "-", "-"]);
}

#[test]
fn nothing_waits_for_an_ack_that_is_far() {
    // Much earlier than a round trip after the first segment was sent.
    let t = 150 * MS;
    let acks = [(1, t), (2, t + 500 * US)];
    assert_eq!(after(&mut open(true), &acks), ["-", "-"]);
}

#[test]
fn a_chunk_is_a_millisecond_of_the_pacing_rate() {
    let model = TcpModel {
        initial_window: Some(100),
        ..TcpModel::default()
    };
    let (mut sender, _) = ends("reno", &model, &SocketOptions::default());
    sender.supply(u64::MAX);
    sender.open(0);
    sender.poll_transmit(0).expect("a SYN");
    // 2 · 100 segments in 40 ms: 4.9 segments in 1/1024 s.
    sender.on_packet(&ack(Flags::SYN, 0, 0), 40 * MS);
    assert_eq!(sent(&mut sender, 40 * MS), "---P".repeat(25));
}

#[test]
fn a_socket_that_paces_does_so_with_every_congestion_control() {
    let options = SocketOptions {
        pacing: true,
        ..SocketOptions::default()
    };
    for cc in ["cubic", "reno"] {
        let (mut sender, _) = ends(cc, &TcpModel::default(), &options);
        sender.supply(u64::MAX);
        sender.open(0);
        sender.poll_transmit(0).expect("a SYN");
        sender.on_packet(&ack(Flags::SYN, 0, 0), 40 * MS);
        // Ten segments at twice the window a round trip: one each 2 ms.
        assert_eq!(sent(&mut sender, 40 * MS).len(), 1, "{cc}");
        assert_eq!(sent(&mut sender, 41 * MS).len(), 0, "{cc}");
        assert_eq!(sent(&mut sender, 43 * MS).len(), 1, "{cc}");
    }
}
