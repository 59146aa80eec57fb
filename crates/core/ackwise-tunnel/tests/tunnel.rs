//! Two ends of a tunnel: what arrives and when, and what does not change.

use std::collections::HashMap;

use ackwise_tunnel::trace::{Recorded, TracedPacket};
use ackwise_tunnel::{Tunnel, Variant};

mod harness;

use harness::{CLEAN, Harness, MS, Path, pair};

/// The packets, sorted for comparison.
fn sorted<'a>(packets: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let mut sorted: Vec<_> = packets.collect();
    sorted.sort_unstable();
    sorted
}

fn went_in(trace: &[TracedPacket]) -> Vec<&[u8]> {
    sorted(trace.iter().map(|seen| &*seen.packet))
}

#[test]
fn every_ack_arrives_within_a_period() {
    let trace = Recorded::Plain.read().expect("recorded");
    for news in [true, false] {
        let period = 5 * MS;
        let mut net = Harness::new(pair(|c| (c.expedite, c.period) = (news, period)), CLEAN);
        net.run(200 * MS);
        assert!(net.ends.iter().all(Tunnel::is_up));
        let times = net.play(&trace);
        assert_eq!(net.ends[0].period(), period);
        assert_eq!(
            sorted(net.restored.iter().map(|(_, p)| &p[..])),
            went_in(&trace)
        );
        assert!(net.bypass.is_empty());
        let added = net.restored.iter();
        let added = added.map(|(at, packet)| at - times[packet] - CLEAN.delay);
        let mut added: Vec<u64> = added.collect();
        added.sort_unstable();
        let mean = added.iter().sum::<u64>() / added.len() as u64;
        let p99 = added[added.len() * 99 / 100];
        println!("news {news}: mean {mean} ns, p99 {p99} ns");
        assert!(10 * mean <= 6 * period, "{mean}");
        assert!(p99 <= period, "{p99}");
        let counters = net.ends[0].counters();
        assert_eq!(counters.packets_in, trace.len() as u64);
        assert_eq!(net.ends[1].counters().packets_out, trace.len() as u64);
        assert_eq!(counters.expedited > 0, news);
    }
}

#[test]
fn the_period_follows_a_short_round_trip() {
    let path = Path {
        delay: 4 * MS,
        ..CLEAN
    };
    let trace = Recorded::Plain.read().expect("recorded");
    let mut net = Harness::new(pair(|_| ()), path);
    net.run(200 * MS);
    net.play(&trace[..2000]);
    let period = net.ends[0].period();
    assert!((MS..3 * MS).contains(&period), "{period}");
    let mut net = Harness::new(pair(|c| c.follow_rtt = false), path);
    net.run(200 * MS);
    net.play(&trace[..2000]);
    assert_eq!(net.ends[0].period(), 10 * MS);
}

#[test]
fn a_bad_path_loses_but_never_changes() {
    let path = Path {
        loss: 0.05,
        reorder: 0.2,
        duplicate: 0.1,
        flip: 0.02,
        ..CLEAN
    };
    for which in Recorded::ALL {
        let trace = which.read().expect("recorded");
        let mut net = Harness::new(pair(|_| ()), path);
        net.run(3000 * MS);
        net.play(&trace);
        let mut left: HashMap<&[u8], u32> = HashMap::new();
        for seen in &trace {
            *left.entry(&seen.packet).or_default() += 1;
        }
        let out = net.restored.iter().chain(&net.bypass);
        for (_, packet) in out {
            let left = left.get_mut(&packet[..]).expect("it never went in");
            *left = left.checked_sub(1).expect("it came out twice");
        }
        let lost: u32 = left.values().sum();
        // 7 % of bundles on average.
        assert!((1..trace.len() as u32 / 5).contains(&lost), "{lost}");
        let counters = net.ends[1].counters();
        assert_eq!(counters.undecodable, 0);
        assert!(counters.replayed > 0 && counters.auth_failures + counters.unknown_session > 0);
    }
}

#[test]
fn a_peer_that_dies_is_left_alone_and_one_that_returns_is_used() {
    let trace = Recorded::Plain.read().expect("recorded");
    let mut net = Harness::new(pair(|_| ()), CLEAN);
    net.run(200 * MS);
    let (first, rest) = trace.split_at(1000);
    net.play(first);
    assert_eq!(net.restored.len(), first.len());
    // The other end is gone, and returns without any state.
    net.cut = true;
    let start = net.now;
    for seen in &rest[..1000] {
        net.run(start + seen.at_ns - rest[0].at_ns);
        net.packet(&seen.packet);
    }
    assert!(!net.ends[0].is_up());
    let before = net.bypass.len();
    assert!(before > 500, "{before}");
    // At most what was sent before its silence was noticed is lost.
    let noticed = net.bypass[0].0 - start;
    assert!(noticed < 150 * MS, "{noticed}");
    net.packet(&rest[1000].packet);
    assert_eq!(net.bypass.len(), before + 1);
    assert_eq!(net.bypass.last().map(|o| o.0), Some(net.now));

    net.cut = false;
    net.ends[1] = Tunnel::new(net.configs[1].clone());
    net.run(net.now + 3000 * MS);
    assert!(net.ends.iter().all(Tunnel::is_up));
    let before = (net.restored.len(), net.bypass.len());
    net.play(&rest[2000..3000]);
    assert_eq!(net.restored.len(), before.0 + 1000);
    assert_eq!(net.bypass.len(), before.1);
    assert_eq!(net.ends[0].counters().peer_timeouts, 1);
}

#[test]
fn without_a_peer_everything_takes_the_ordinary_path() {
    let trace = Recorded::Plain.read().expect("recorded");
    let mut net = Harness::new(pair(|_| ()), CLEAN);
    net.cut = true;
    net.play(&trace[..500]);
    assert_eq!(net.bypass.len(), 500);
    // A stranger's key does not make it a peer.
    let [a, _] = pair(|_| ());
    let [_, b] = pair(|_| ());
    let mut net = Harness::new([a, b], CLEAN);
    net.run(5000 * MS);
    net.play(&trace[..500]);
    assert_eq!(net.bypass.len(), 500);
    assert!(net.restored.is_empty());
    assert!(net.ends[1].counters().auth_failures > 0);
}

#[test]
fn sessions_change_without_a_loss() {
    let trace = Recorded::Plain.read().expect("recorded");
    let mut net = Harness::new(pair(|_| ()), CLEAN);
    net.run(200 * MS);
    for round in 1..=8_usize {
        net.run(round as u64 * 60_000 * MS - 500 * MS);
        net.play(&trace);
        assert_eq!(net.restored.len(), round * trace.len());
    }
    assert!(net.bypass.is_empty());
    assert_eq!(net.ends[0].counters().peer_timeouts, 0);
}

#[test]
fn what_is_no_ack_is_carried_if_so_configured() {
    let trace = Recorded::Plain.read().expect("recorded");
    let mut syn = trace[0].packet.to_vec();
    syn[33] = 0x02;
    for carried in [false, true] {
        let mut net = Harness::new(
            pair(|c| {
                if carried {
                    c.other_packets = ackwise_tunnel::OtherPackets::Carry;
                }
            }),
            CLEAN,
        );
        net.run(200 * MS);
        net.packet(&syn);
        net.packet(&vec![0x45; 1400]);
        net.run(400 * MS);
        assert_eq!(net.restored.len(), usize::from(carried));
        assert_eq!(net.bypass.len(), 2 - usize::from(carried));
    }
}

/// An end that carries only ACKs emits nothing else, whatever its peer sends.
#[test]
fn m4_what_is_no_ack_is_dropped_where_it_is_not_carried() {
    let trace = Recorded::Plain.read().expect("recorded");
    let mut configs = pair(|_| ());
    configs[0].other_packets = ackwise_tunnel::OtherPackets::Carry;
    let mut net = Harness::new(configs, CLEAN);
    net.run(200 * MS);
    let mut others = Vec::new();
    for flags in [0x02, 0x12, 0x11, 0x14] {
        let mut segment = trace[0].packet.to_vec();
        segment[33] = flags;
        others.push(segment);
    }
    let mut udp = trace[0].packet.to_vec();
    udp[9] = 17;
    others.push(udp);
    for (other, ack) in others.iter().zip(&trace) {
        net.packet(&ack.packet);
        net.packet(other);
    }
    net.run(400 * MS);
    let arrived: Vec<&[u8]> = net.restored.iter().map(|(_, packet)| &packet[..]).collect();
    let acks: Vec<&[u8]> = trace[..others.len()]
        .iter()
        .map(|t| &t.packet[..])
        .collect();
    assert_eq!(sorted(arrived.into_iter()), sorted(acks.into_iter()));
    let counters = net.ends[1].counters();
    assert_eq!(counters.refused, others.len() as u64);
    assert_eq!(counters.packets_out, others.len() as u64);
    assert_eq!(counters.undecodable, 0);
}

#[test]
fn the_path_mtu_is_found_and_found_again() {
    let trace = Recorded::Sack.read().expect("recorded");
    let config = pair(|c| {
        (c.period, c.follow_rtt, c.expedite) = (400 * MS, false, false);
        (c.variant, c.max_datagram) = (Variant::Aligned, 3000);
    });
    let path = Path { mtu: 9000, ..CLEAN };
    let mut net = Harness::new(config, path);
    net.run(3000 * MS);
    assert_eq!(net.ends[0].datagram_size(), 3000);
    net.path.mtu = 1500;
    for _ in 0..8 {
        net.play(&trace);
    }
    let size = net.ends[0].datagram_size();
    assert!((1440..=1472).contains(&size), "{size}");
    let before = net.restored.len();
    net.play(&trace);
    assert_eq!(net.restored.len(), before + trace.len());
    assert!(net.ends[0].is_up());
}

#[test]
fn acks_are_spaced_if_so_configured() {
    let trace = Recorded::Plain.read().expect("recorded");
    let spread = |space| {
        let mut net = Harness::new(pair(|c| c.respace = space), CLEAN);
        net.run(200 * MS);
        net.play(&trace);
        assert_eq!(
            sorted(net.restored.iter().map(|(_, p)| &p[..])),
            went_in(&trace)
        );
        let times: std::collections::HashSet<u64> =
            net.restored.iter().map(|(at, _)| *at).collect();
        times.len()
    };
    let (at_once, spaced) = (spread(false), spread(true));
    assert!(at_once < trace.len() / 10, "{at_once}");
    assert!(spaced > trace.len() * 9 / 10, "{spaced}");
}
