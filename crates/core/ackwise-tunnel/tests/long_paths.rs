//! A path on which many bundles are in flight at the same time, as over a geostationary satellite.

use ackwise_tunnel::Tunnel;
use ackwise_tunnel::trace::{Recorded, TracedPacket};

mod harness;

use harness::{CLEAN, Harness, MS, Path, pair};

const PERIOD: u64 = 10 * MS;

/// The bytes of bundles per ACK over a path with this round trip.
fn bytes_an_ack(round_trip: u64, acks: &[TracedPacket]) -> f64 {
    let configs = pair(|c| (c.period, c.follow_rtt) = (PERIOD, false));
    let path = Path {
        delay: round_trip / 2,
        ..CLEAN
    };
    let mut net = Harness::new(configs, path);
    net.run(20 * round_trip);
    assert!(net.ends.iter().all(Tunnel::is_up), "{round_trip}");
    let spaced = (0..).step_by(5 * MS as usize).zip(acks);
    let spaced: Vec<TracedPacket> = spaced
        .map(|(at_ns, seen)| TracedPacket {
            at_ns,
            ..seen.clone()
        })
        .collect();
    net.play(&spaced);
    assert_eq!(net.restored.len(), acks.len(), "{round_trip}");
    net.ends[0].counters().bundle_bytes_out as f64 / acks.len() as f64
}

#[test]
fn acks_stay_compressed_over_a_long_round_trip() {
    // From one flow, so that it is in every bundle.
    let mut acks = Recorded::Plain.read().expect("recorded");
    let ports = |seen: &TracedPacket| seen.packet[20..24].to_vec();
    let first = ports(&acks[0]);
    acks.retain(|seen| ports(seen) == first);
    let short = bytes_an_ack(50 * MS, &acks);
    // 90 bundles are in flight, and nothing is known in the first of four round trips.
    let long = bytes_an_ack(900 * MS, &acks);
    println!("{short:.1} and {long:.1} bytes an ACK of {}", acks.len());
    assert!(long < 1.75 * short, "{short} and {long}");
}
