//! More ACKs than fit into one datagram: bundles are full but never too long, and flows are known
//! even when very many bundles are in flight.

use ackwise_rng::Rng;
use ackwise_tunnel::trace::{Recorded, TracedPacket};
use ackwise_tunnel::trace_replay::{ReplayConfig, replay};
use ackwise_tunnel::{Decoder, Encoder, MAX_UNCOMPRESSED, MIN_BUNDLE, Packets, Pushed, Variant};

mod harness;

use harness::{CLEAN, Harness, MS, pair};

const VARIANTS: [Variant; 2] = [Variant::Aligned, Variant::Entropy];

/// The packet with other ports, which leave the checksum unchanged.
fn of_other_ports(packet: &[u8], up: u16) -> Box<[u8]> {
    let mut packet: Box<[u8]> = packet.into();
    let at = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let port = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (from, to) = (port(&packet, at) + up, port(&packet, at + 2) - up);
    packet[at..at + 2].copy_from_slice(&from.to_be_bytes());
    packet[at + 2..at + 4].copy_from_slice(&to.to_be_bytes());
    packet
}

/// Multiplies the eight flows by `copies`.
fn many(which: Recorded, acks: usize, copies: u16) -> Vec<TracedPacket> {
    let trace = which.read().expect("recorded");
    let copies_of = |seen: &TracedPacket| {
        let (at_ns, packet) = (seen.at_ns, seen.packet.clone());
        (0..copies).map(move |up| TracedPacket {
            at_ns,
            packet: of_other_ports(&packet, up),
        })
    };
    trace.iter().take(acks).flat_map(copies_of).collect()
}

#[test]
fn flows_are_known_when_hundreds_of_bundles_are_in_flight() {
    for variant in VARIANTS {
        let trace = many(Recorded::Plain, 300, 100);
        let outcome = replay(&trace, &ReplayConfig::new(variant));
        assert_eq!((outcome.wrong, outcome.lost_beyond), (0, 0));
        // Until the first answer, after 40 ms, each flow is uncompressed once per bundle.
        assert!(
            outcome.uncompressed < 5 * 800,
            "{variant:?}: {}",
            outcome.uncompressed
        );
    }
}

#[test]
fn bundles_are_filled_to_the_last_bytes() {
    for (variant, which, spare) in [
        (Variant::Aligned, Recorded::Plain, 8),
        (Variant::Aligned, Recorded::Sack, 40),
        (Variant::Entropy, Recorded::Sack, 120),
    ] {
        let (mut encoder, mut decoder) = (Encoder::new(variant, 400), Decoder::new(400));
        let (mut number, mut full) = (0, 0);
        for slice in many(which, 400, 40).chunks(1000) {
            for seen in slice {
                assert_eq!(encoder.push(&seen.packet), Pushed::Compressed);
            }
            while !encoder.is_empty() {
                number += 1;
                let (mut bytes, mut packets) = (Vec::new(), Packets::default());
                let made = encoder.finish(number, None, MIN_BUNDLE, &mut bytes);
                assert!(bytes.len() <= MIN_BUNDLE);
                // Only uncompressed packets can take more than the spare bytes.
                if made.left > 0 && made.uncompressed == 0 && number > 30 {
                    full += 1;
                    assert!(
                        bytes.len() + spare > MIN_BUNDLE,
                        "{variant:?}: {}",
                        bytes.len()
                    );
                }
                let decoded = decoder.decode(number, &bytes, &mut packets);
                assert_eq!(decoded.expect("nothing is missing").packets, made.packets);
                encoder.acknowledge(&decoder.feedback().expect("some"));
            }
        }
        assert!(full > 5, "{variant:?} {which:?}: {full}");
    }
}

#[test]
fn the_longest_things_fit_the_smallest_bundles() {
    for variant in VARIANTS {
        let mut rng = Rng::new(5);
        let trace = many(Recorded::Sack, 200, 3);
        let (mut encoder, mut decoder) = (Encoder::new(variant, 64), Decoder::new(64));
        let mut number = 0;
        for slice in trace.chunks(7) {
            let mut sent = Vec::new();
            for seen in slice {
                let mut packet = seen.packet.to_vec();
                match rng.below(3) {
                    0 => {
                        packet = (0..MAX_UNCOMPRESSED)
                            .map(|_| rng.below(256) as u8)
                            .collect()
                    }
                    // Every option is different, so nothing can be predicted.
                    1 => packet[20..]
                        .iter_mut()
                        .for_each(|b| *b = rng.below(256) as u8),
                    _ => {}
                }
                assert_ne!(encoder.push(&packet), Pushed::Refused);
                sent.push(packet);
            }
            let mut packets = Packets::default();
            while !encoder.is_empty() {
                number += 1;
                let mut bytes = Vec::new();
                let room = MIN_BUNDLE + rng.below(100) as usize;
                let made = encoder.finish(number, None, room, &mut bytes);
                assert!(made.packets > 0 && bytes.len() <= room, "{}", bytes.len());
                let decoded = decoder.decode(number, &bytes, &mut packets);
                decoded.expect("nothing is missing");
            }
            let mut came: Vec<Vec<u8>> = packets.iter().map(<[u8]>::to_vec).collect();
            came.sort_unstable();
            sent.sort_unstable();
            assert_eq!(came, sent);
        }
    }
}

#[test]
fn what_has_no_place_leaves_in_time_and_not_in_a_bundle_of_its_own() {
    let configs = pair(|config| {
        config.variant = Variant::Aligned;
        config.follow_rtt = false;
        config.expedite = false;
    });
    let mut net = Harness::new(configs, CLEAN);
    net.run(2000 * MS);
    // 240 ACKs per millisecond, from 480 flows: a datagram is full after 3 ms.
    let trace = many(Recorded::Plain, 600, 60);
    let sent = net.play(&trace);
    assert_eq!(net.restored.len(), trace.len());
    for (at, packet) in &net.restored {
        let waited = at - sent[packet] - CLEAN.delay;
        assert!(waited <= 10 * MS, "{waited} ns");
    }
    let counters = net.ends[0].counters();
    let mean = counters.bundle_bytes_out / counters.bundles_out;
    assert!(mean > 1150, "{mean} B a bundle");
}

#[test]
fn what_has_no_place_leaves_though_nothing_follows() {
    let configs = pair(|config| {
        config.variant = Variant::Aligned;
        config.follow_rtt = false;
    });
    let mut net = Harness::new(configs, CLEAN);
    net.run(2000 * MS);
    let trace = many(Recorded::Plain, 1500, 60);
    let mut rest = trace.iter();
    let (mut left, mut sent) = (0, 0);
    while rest.len() > 2000 {
        let before = net.ends[0].counters().bundles_out;
        while net.ends[0].counters().bundles_out == before {
            let seen = rest.next().expect("a bundle is full before");
            net.packet(&seen.packet);
            sent += 1;
        }
        let waiting = net.ends[0].waiting();
        left += usize::from(waiting.is_some_and(|(count, _)| count > 0));
        net.run(net.now + 10 * MS + CLEAN.delay);
        assert_eq!(net.restored.len(), sent);
        net.run(net.now + 60 * MS);
    }
    assert!(left > 5, "{left}");
}
