//! Segments that were merged before the capture, with and without the handshake.

use ackwise_analyze::{Analysis, Analyzer, LinkType, Options, Packet};

/// Link type of IP packets without a link header.
const RAW: LinkType = LinkType(101);
const SYN: u8 = 2;
const ACK: u8 = 16;

/// An IPv4 packet with a TCP segment: to the receiver or from it.
fn packet(to_receiver: bool, seq: u32, ack: u32, flags: u8, payload: u16) -> Vec<u8> {
    let mut options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];
    if flags & SYN != 0 {
        options.extend([2, 4, 0x05, 0xb4]); // an MSS of 1460
    }
    let headers = 40 + options.len() as u16;
    let mut ends = [(10_u8, 80_u16), (20, 4000)];
    if !to_receiver {
        ends.reverse();
    }
    let [(from, from_port), (to, to_port)] = ends;
    let mut bytes = vec![0x45, 0];
    bytes.extend((headers + payload).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    bytes.extend(from_port.to_be_bytes());
    bytes.extend(to_port.to_be_bytes());
    bytes.extend(seq.to_be_bytes());
    bytes.extend(ack.to_be_bytes());
    bytes.extend([(((headers - 20) / 4) << 4) as u8, flags, 1, 244, 0, 0, 0, 0]);
    bytes.extend(options);
    bytes
}

/// A download in packets of this size, with an ACK for each.
fn download(payload: u16, packets: u32, handshake: bool) -> Analysis {
    analyzed(&segments(0, payload, packets, handshake))
}

/// The packets of a download whose sender numbers its bytes from `first`, and their payloads.
fn segments(first: u32, payload: u16, packets: u32, handshake: bool) -> Vec<(Vec<u8>, u16)> {
    let mut all = Vec::new();
    if handshake {
        all.push((packet(false, 0, 0, SYN, 0), 0));
        all.push((packet(true, first, 1, SYN | ACK, 0), 0));
    }
    for n in 0..packets {
        let seq = first.wrapping_add(1 + n * u32::from(payload));
        let end = seq.wrapping_add(u32::from(payload));
        all.push((packet(true, seq, 1, ACK, payload), payload));
        all.push((packet(false, 1, end, ACK, 0), 0));
    }
    all
}

fn analyzed(all: &[(Vec<u8>, u16)]) -> Analysis {
    let mut analyzer = Analyzer::new(Options::default());
    for (n, (bytes, payload)) in (0..).zip(all) {
        analyzer.packet(&Packet {
            at_ns: n * 1_000_000,
            timed: true,
            wire_len: bytes.len() as u32 + u32::from(*payload),
            bytes,
            link: RAW,
            interface: 0,
        });
    }
    analyzer.finish()
}

/// The sequence numbers of a connection are unrelated to those of an earlier one on the same ports.
#[test]
fn connections_one_after_another_on_the_same_ports_do_not_acknowledge_each_other() {
    // The second is ahead of the first, the third behind it.
    let firsts = [1_000, 500_000_000, 4_000_000_000];
    let all = firsts
        .map(|first| segments(first, 1448, 100, true))
        .concat();
    let found = analyzed(&all);
    let flow = found.flows.iter().find(|flow| flow.data_bytes > 0).unwrap();
    assert_eq!((flow.acks, flow.still_acks), (300, 0));
    // The first ACK of each says nothing.
    assert_eq!(flow.stretch, [297, 0, 0, 0, 0, 0, 0]);
    let per_ack = found.thinned_already.segments_per_ack.unwrap();
    assert!((per_ack - 1.0).abs() < 1e-9, "{per_ack}");
}

#[test]
fn a_capture_that_begins_within_a_connection_counts_as_one_that_has_it_all() {
    for (payload, segments) in [(1448, 1), (2896, 2), (5792, 4), (14_480, 10)] {
        for handshake in [true, false] {
            let found = download(payload, 200, handshake);
            let flow = found.flows.iter().find(|flow| flow.data_bytes > 0).unwrap();
            assert_eq!(flow.segment_size, 1448, "{payload} {handshake}");
            assert_eq!(flow.data_segments, 200 * segments, "{payload} {handshake}");
            let guessed = segments > 1 && !handshake;
            assert_eq!(flow.segment_size_guessed, guessed, "{payload} {handshake}");
            let thinned = &found.thinned_already;
            let per_ack = thinned.segments_per_ack.unwrap();
            assert!((per_ack - segments as f64).abs() < 0.1, "{per_ack}");
            assert_eq!(thinned.guessed_sizes, u64::from(guessed));
        }
    }
}

/// A SYN with another number begins another connection, however the one before ended.
#[test]
fn connections_on_the_same_ports_are_counted_one_by_one() {
    const FIN: u8 = 1;
    const RST: u8 = 4;
    let syn = |seq| (packet(false, seq, 0, SYN, 0), 0);
    let connection = |number: u32, ends: &[(bool, u8)]| {
        let mut all = segments(1_000, 1448, 20, true);
        all[0] = syn(number);
        all.insert(1, syn(number)); // a repetition
        let last = 1_001 + 20 * 1448;
        for (to_receiver, flags) in ends {
            let (seq, ack) = if *to_receiver { (last, 1) } else { (1, last) };
            all.push((packet(*to_receiver, seq, ack, ACK | flags, 0), 0));
        }
        all
    };
    let endings: [&[(bool, u8)]; 4] = [&[(true, FIN), (false, FIN)], &[(true, RST)], &[], &[]];
    let all = (7..)
        .zip(endings)
        .map(|(number, ends)| connection(number, ends));
    let found = analyzed(&all.collect::<Vec<_>>().concat());
    assert_eq!(found.connections, 4);
    let flows: Vec<_> = found
        .flows
        .iter()
        .filter(|flow| flow.data_bytes > 0)
        .collect();
    assert_eq!(flows.len(), 4);
    for flow in flows {
        assert_eq!((flow.acks, flow.data_segments), (20, 20));
    }

    // An attempt that was not answered, and another one with its own number, are one connection.
    let mut all = segments(1_000, 1448, 20, true);
    all.insert(0, syn(99));
    assert_eq!(analyzed(&all).connections, 1);
}

/// A capture of the direction of the ACKs has no data, and the FIN of one end.
#[test]
fn connections_on_the_same_ports_are_separate_without_their_data() {
    const FIN: u8 = 1;
    let connection = |number: u32| {
        let mut all = vec![(packet(false, number, 0, SYN, 0), 0)];
        all.extend((1..=20).map(|n| (packet(false, number + 1, 1 + n * 1448, ACK, 0), 0)));
        all.push((packet(false, number + 1, 28_961, ACK | FIN, 0), 0));
        all
    };
    let found = analyzed(&[7, 8, 9].map(connection).concat());
    assert_eq!(found.connections, 3);
    let acks: Vec<_> = found.flows.iter().map(|flow| flow.acks).collect();
    assert_eq!(acks, [20, 20, 20]);
}
