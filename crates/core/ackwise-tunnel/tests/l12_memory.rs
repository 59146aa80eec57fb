//! L12: an honest peer loses nothing to the memory bound, even to the smallest one.

use ackwise_tunnel::trace::{Recorded, TracedPacket};
use ackwise_tunnel::{TunnelConfig, Variant};

mod harness;

use harness::{CLEAN, Harness, MS, Path, pair};

/// As many flows as the tunnel has room for, all in use at the same time.
const FLOWS: u16 = 64;

/// Turns the ACKs of eight flows into those of [`FLOWS`]: ports change so that checksums stay
/// correct.
fn many_flows(acks: usize) -> Vec<TracedPacket> {
    let trace = Recorded::Plain.read().expect("recorded");
    let of_flow = |seen: &TracedPacket, up: u16| {
        let mut packet = seen.packet.clone();
        for (at, up) in [(20, up), (22, up.wrapping_neg())] {
            let port = u16::from_be_bytes([packet[at], packet[at + 1]]).wrapping_add(up);
            packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
        }
        TracedPacket {
            at_ns: seen.at_ns,
            packet,
        }
    };
    let trace = trace.iter().take(acks);
    trace
        .flat_map(|seen| (0..FLOWS / 8).map(move |up| of_flow(seen, up)))
        .collect()
}

#[test]
fn l12_an_honest_peer_loses_nothing_by_the_bound() {
    for variant in [Variant::Aligned, Variant::Entropy] {
        let least = TunnelConfig::min_memory(variant, FLOWS);
        let configs = pair(|config| {
            config.variant = variant;
            config.max_flows = FLOWS;
            config.max_memory = least;
        });
        let path = Path {
            delay: 100 * MS,
            ..CLEAN
        };
        let mut harness = Harness::new(configs, path);
        harness.run(1000 * MS);
        let trace = many_flows(2000);
        harness.play(&trace);
        assert_eq!(harness.restored.len(), trace.len(), "{variant:?}");
        assert_eq!(harness.bypass.len(), 0);
        for end in &harness.ends {
            assert_eq!(end.counters().undecodable, 0);
            assert!(end.memory() <= least, "{} of {least}", end.memory());
        }
    }
}
