//! Frames of every supported shape, and random bytes.

use ackwise_headers::{Ip, LinkKind, ParseError, Tcp, first_ether_type, ip_offset, tcp};
use proptest::prelude::*;

const VLAN: [u8; 4] = [0x81, 0x00, 0, 7];
const QINQ: [u8; 4] = [0x88, 0xa8, 0, 5];

/// A TCP segment with timestamps and some data.
fn segment(data: usize) -> Vec<u8> {
    let mut tcp = vec![
        0x13, 0x89, 0xbd, 0x6c, 0, 0, 0, 7, 0, 0, 0, 9, 0x80, 0x10, 2, 0x86,
    ];
    tcp.extend([0, 0, 0, 3, 1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    tcp.resize(32 + data, 0x5a);
    tcp
}

fn v4(options: usize, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options;
    let mut packet = vec![0x40 | (header / 4) as u8, 0xb9];
    packet.extend(((header + payload.len()) as u16).to_be_bytes());
    packet.extend([0x4f, 0xe9, 0x40, 0, 61, 6, 1, 2, 10, 77, 1, 2, 10, 77, 1, 1]);
    packet.resize(header, 1);
    packet.extend(payload);
    packet
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x6a, 0xb1, 0x23, 0x45];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 60]);
    packet.extend([0x20; 16]);
    packet.extend([0x21; 16]);
    packet.extend(payload);
    packet
}

fn ethernet(tags: &[[u8; 4]], packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 {
        [8, 0]
    } else {
        [0x86, 0xdd]
    };
    [&[2; 12], tags.as_flattened(), &kind[..], packet].concat()
}

#[test]
fn every_field_of_a_segment_is_found_behind_tags_and_ipv4_options() {
    for (tags, options) in [(&[][..], 0), (&[VLAN], 4), (&[QINQ, VLAN], 40)] {
        let frame = ethernet(tags, &v4(options, &segment(100)));
        let at = 14 + 4 * tags.len();
        let read = tcp(&frame, LinkKind::Ethernet, frame.len()).expect("TCP");
        assert_eq!(ip_offset(&frame, LinkKind::Ethernet), Some(at));
        assert_eq!((read.ip_offset, read.tcp_offset), (at, at + 20 + options));
        assert_eq!((read.ip_len, read.payload_len), (152 + options, 100));
        assert_eq!(read.options, &frame[at + options + 40..at + options + 52]);
        assert_eq!((read.tcp.source(), read.tcp.destination()), (5001, 48492));
        assert_eq!(read.tcp.ports(), [0x13, 0x89, 0xbd, 0x6c]);
        assert_eq!((read.tcp.seq(), read.tcp.ack()), (7, 9));
        assert_eq!((read.tcp.flags(), read.tcp.window()), (0x10, 0x286));
        assert_eq!((read.tcp.checksum(), read.tcp.urgent()), ([0, 0], 3));
        assert_eq!(read.ip.source().to_string(), "10.77.1.2");
        assert_eq!(read.ip.destination().to_string(), "10.77.1.1");
        let Ip::V4(ip) = read.ip else { panic!("IPv4") };
        assert_eq!((ip.tos(), ip.id(), ip.frag_off()), (0xb9, 0x4fe9, 0x4000));
        assert_eq!((ip.ttl(), ip.protocol(), ip.checksum()), (61, 6, [1, 2]));
    }
}

#[test]
fn tcp_is_found_behind_up_to_four_ipv6_extension_headers() {
    for headers in 0..=5_usize {
        let mut payload = Vec::new();
        for i in 0..headers {
            let next = if i + 1 == headers { 6 } else { 60 };
            payload.extend([next, 0, 0, 0, 0, 0, 0, 0]);
        }
        payload.extend(segment(10));
        let packet = v6(if headers == 0 { 6 } else { 0 }, &payload);
        let read = tcp(&packet, LinkKind::Ip, packet.len());
        if headers == 5 {
            assert_eq!(read.map(|_| ()), Err(ParseError::Malformed));
            continue;
        }
        let read = read.expect("TCP");
        assert_eq!(read.tcp_offset, 40 + 8 * headers);
        assert_eq!((read.ip_len, read.payload_len), (packet.len(), 10));
        let Ip::V6(ip) = read.ip else { panic!("IPv6") };
        assert_eq!((ip.traffic_class(), ip.flow_label()), (0xab, 0x1_2345));
        assert_eq!((ip.hop_limit(), read.ip.traffic_class()), (60, 0xab));
        assert_eq!(
            read.ip.source().to_string(),
            "2020:".repeat(8).trim_end_matches(':')
        );
    }
}

#[test]
fn what_is_no_segment_says_why() {
    let read = |frame: &[u8], link| tcp(frame, link, frame.len()).map(|s| s.tcp_offset);
    let whole = v4(0, &segment(0));
    let changed = |at: usize, byte: u8| {
        let mut packet = whole.clone();
        packet[at] = byte;
        read(&packet, LinkKind::Ip)
    };
    assert_eq!(changed(9, 17), Err(ParseError::NotTcp));
    assert_eq!(changed(0, 0x55), Err(ParseError::NotTcp));
    assert_eq!(changed(7, 1), Err(ParseError::Fragment));
    assert_eq!(changed(0, 0x44), Err(ParseError::Malformed));
    assert_eq!(
        changed(3, 53),
        Err(ParseError::Malformed),
        "longer than it is"
    );
    assert_eq!(
        changed(32, 0x40),
        Err(ParseError::Malformed),
        "a short TCP header"
    );
    assert_eq!(
        changed(32, 0xf0),
        Err(ParseError::Malformed),
        "options beyond the end"
    );
    for next in [6, 0, 43, 60] {
        let packet = v6(
            44,
            &[&[next, 0, 0, 1, 0, 0, 0, 0], &segment(0)[..]].concat(),
        );
        assert_eq!(
            read(&packet, LinkKind::Ip),
            Err(ParseError::Fragment),
            "{next}"
        );
    }
    let udp = v6(44, &[&[17, 0, 0, 1, 0, 0, 0, 0], &segment(0)[..]].concat());
    assert_eq!(read(&udp, LinkKind::Ip), Err(ParseError::NotTcp));
    let mut other = ethernet(&[], &whole);
    other[13] = 6;
    assert_eq!(read(&other, LinkKind::Ethernet), Err(ParseError::NotTcp));
    assert_eq!(ip_offset(&other, LinkKind::Ethernet), None);
    let tagged = ethernet(&[QINQ, VLAN, VLAN], &whole);
    assert_eq!(read(&tagged, LinkKind::Ethernet), Err(ParseError::NotTcp));
    assert_eq!(ip_offset(&tagged, LinkKind::Ethernet), None);
}

#[test]
fn every_truncation_before_the_end_of_the_headers_is_one() {
    for packet in [v4(8, &segment(5)), v6(6, &segment(5))] {
        let frame = ethernet(&[VLAN], &packet);
        for len in 0..frame.len() - 5 {
            let read = tcp(&frame[..len], LinkKind::Ethernet, frame.len());
            assert_eq!(read.map(|_| ()), Err(ParseError::Truncated), "{len}");
        }
        let cut = tcp(&frame[..frame.len() - 5], LinkKind::Ethernet, frame.len());
        assert_eq!(cut.expect("the headers").payload_len, 5);
    }
}

#[test]
fn a_length_of_0_is_taken_from_the_wire_and_padding_is_no_payload() {
    for mut packet in [v4(0, &segment(0)), v6(6, &segment(0))] {
        let headers = packet.len();
        let mut padded = packet.clone();
        padded.extend([0; 6]);
        let read = tcp(&padded, LinkKind::Ip, padded.len()).expect("padded");
        assert_eq!((read.ip_len, read.payload_len), (headers, 0));
        let len = if packet[0] >> 4 == 4 { 2..4 } else { 4..6 };
        packet[len].fill(0);
        let read = tcp(&packet, LinkKind::Ip, headers + 100_000).expect("BIG TCP");
        assert_eq!(read.payload_len, 100_000);
    }
}

proptest! {
    #[test]
    fn random_bytes_are_read_within_their_bounds(
        frame in proptest::collection::vec(any::<u8>(), 0..200),
        wire_len in 0..300_usize,
    ) {
        for link in [LinkKind::Ethernet, LinkKind::Ip] {
            let _ = (ip_offset(&frame, link), first_ether_type(&frame, link));
            let _ = (Ip::split(&frame), Tcp::split(&frame));
            if let Ok(read) = tcp(&frame, link, wire_len) {
                prop_assert!(read.tcp_offset + read.tcp.header_len() <= frame.len());
                prop_assert!(read.ip_offset + read.ip_len <= wire_len);
            }
        }
    }
}
