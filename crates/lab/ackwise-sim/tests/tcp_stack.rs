//! A policy in place of the receiver's delayed-ACK rule.

mod tcp_support;

use std::sync::Arc;

use ackwise_config::queues::QueueLimit;
use ackwise_policy::{Config, FlowConfig};
use ackwise_scenario::{SocketOptions, TcpModel};
use ackwise_sim::packet::{Flags, FlowId};
use ackwise_sim::tcp::{Receiver, Sender, StackPolicy, configure};
use tcp_support::{Fate, MS, Net, Pipe, SECOND, Sent, lose};

fn net(policy: &str, lost: &[u64]) -> Net {
    net_with(policy, &SocketOptions::default(), lost)
}

fn net_with(policy: &str, socket: &SocketOptions, lost: &[u64]) -> Net {
    let model = TcpModel {
        window_limit: Some(QueueLimit::Packets(60)),
        ack_ecn: Some(policy.starts_with("acc")),
        ..TcpModel::default()
    };
    let (s, mut r) = configure("sack", &model, socket, 1500).unwrap();
    r.policy = Some(StackPolicy {
        flow: FlowConfig::new(&policy.parse::<Config>().unwrap()),
        shift: 7,
        obey_ack_rate: false,
    });
    let ends = (
        Sender::new(FlowId(0), Arc::new(s)),
        Receiver::new(FlowId(0), Arc::new(r)),
    );
    let forward = Pipe::new(20 * MS)
        .rate(20_000_000, 100)
        .judge(lose(1448, lost));
    Net::new(ends, forward, Pipe::new(20 * MS))
}

#[test]
fn every_fourth_segment_is_acknowledged() {
    let mut net = net("every-n:n=4,warm=0", &[]);
    net.start(3_000 * 1448);
    net.run_until(3 * SECOND);
    assert_eq!(net.receiver.delivered(), 3_000 * 1448);
    assert_eq!(net.sender.acknowledged(), 3_000 * 1448);
    let r = net.receiver.stats();
    // The contract lets the first ten pass; then it is one in four.
    assert!((745..=765).contains(&r.acks), "{}", r.acks);
    assert_eq!(r.acks - r.delayed_acks + r.withheld, 3_000);
}

/// The contract: a segment above a hole, or one that fills it, is acknowledged at once.
#[test]
fn a_loss_is_answered_segment_by_segment() {
    let mut net = net("every-n:n=16,warm=0", &[200]);
    net.start(1_000 * 1448);
    net.run_until(3 * SECOND);
    assert_eq!(net.receiver.delivered(), 1_000 * 1448);
    assert_eq!(net.sender.stats().timeouts, 0);
    assert_eq!(net.sender.stats().fast_recoveries, 1);
    assert_eq!(net.sender.stats().retransmits, 1);
    let duplicates = net.receiver.stats().dup_acks;
    // The first of them also covers what was held before.
    assert_eq!(duplicates + 1, net.receiver.stats().out_of_order);
    assert!(duplicates >= 40);
}

/// No ACK is held longer than a quarter of the round trip.
#[test]
fn the_last_segment_does_not_wait_long() {
    let mut net = net("every-n:n=64,warm=0", &[]);
    net.start(100 * 1448);
    net.run_until(3 * SECOND);
    let data = net.data().last().unwrap().0;
    let ack = net.acks().last().unwrap().at;
    assert_eq!(net.sender.acknowledged(), 100 * 1448);
    assert!(ack - data <= 45 * MS, "{}", ack - data);
    assert!(net.receiver.stats().delayed_acks >= 1);
}

/// ECE refers to the bytes that its ACK covers (RFC 8257 §3.2). Where a mark sets it, and
/// where CWR clears it, a held ACK leaves first, with its own number and the old ECE.
#[test]
fn m1_what_is_held_leaves_before_ece_changes() {
    let socket = SocketOptions {
        ecn: Some(true),
        ..SocketOptions::default()
    };
    let mut net = net_with("every-n:n=16,warm=0", &socket, &[]);
    let marks = [400, 800, 1_200, 1_207].map(|n| n * 1448);
    let taken = std::mem::replace(&mut net.forward, Pipe::new(0));
    net.forward = taken.judge(move |p, _| match marks.contains(&p.seq) {
        true if p.payload > 0 => Fate::Mark,
        _ => Fate::Pass,
    });
    net.start(2_000 * 1448);
    net.run_until(10 * SECOND);
    assert_eq!(net.receiver.delivered(), 2_000 * 1448);
    assert_eq!(net.sender.stats().retransmits, 0);
    assert_eq!(net.receiver.stats().ce_marks, 4);
    // The segments at which ECE changes: the first mark after CWR, and CWR.
    let mut ece = false;
    let mut turns = Vec::new();
    for sent in net.log.iter().filter(|sent| sent.packet.payload > 0) {
        let flags = sent.packet.flags;
        let after = flags.contains(Flags::CE) || (ece && !flags.contains(Flags::CWR));
        if after != ece {
            turns.push(sent.packet.seq);
        }
        ece = after;
    }
    assert!(turns.len() >= 6, "{turns:?}");
    let acks = net.acks();
    let echoes = |ack: &Sent| ack.packet.flags.contains(Flags::ECE);
    let reported: Vec<u64> = acks
        .windows(2)
        .filter(|two| echoes(&two[0]) != echoes(&two[1]))
        .map(|two| two[0].packet.ack)
        .collect();
    assert_eq!(reported, turns, "the last number before each change of ECE");
    let numbers = acks.iter().map(|ack| ack.packet.ack);
    assert!(numbers.is_sorted(), "no ACK is older than one before it");
}

/// RFC 3449 §4.3: ACKs that arrive marked double d once per round trip, up to 5; each round
/// trip without a mark subtracts one. The marks take the whole way: receiver, queue, sender, data.
#[test]
fn marked_acks_make_acks_fewer() {
    let mut net = net("acc", &[]);
    net.start(u64::MAX);
    net.run_until(500 * MS);
    let quiet = net.acks().len();
    net.back = Pipe::new(20 * MS).judge(|_, _| Fate::Mark);
    net.run_until(640 * MS);
    net.back = Pipe::new(20 * MS);
    net.run_until(SECOND);
    let mut numbers: Vec<u64> = net.acks()[quiet - 1..]
        .iter()
        .map(|ack| ack.packet.ack / 1448)
        .collect();
    numbers.dedup();
    let covered: Vec<u64> = numbers.windows(2).map(|w| w[1] - w[0]).collect();
    let mut steps = covered.clone();
    steps.dedup();
    assert_eq!(steps, [1, 2, 4, 5, 4, 3, 2, 1]);
    // A round trip of 60 segments each, give or take a segment or two where a step ends.
    for d in [2, 3, 4] {
        let acks = covered.iter().filter(|c| **c == d).count() as u64;
        let rounds = if d == 3 { 1 } else { 2 };
        let expected = rounds * 60 / d;
        assert!(acks.abs_diff(expected) <= 2, "{acks} ACKs of {d} segments");
    }
    assert_eq!(net.sender.stats().retransmits, 0);
}
