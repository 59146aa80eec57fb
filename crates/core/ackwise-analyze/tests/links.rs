//! The same TCP over any link layer gives the same analysis.

mod common;

use ackwise_analyze::Analysis;
use common::{CAPTURES, OwnedPacket, analyze, capture, packets, pcap, shown};

const ETHERNET_HEADER: usize = 14;

/// Replaces the Ethernet header with other headers.
fn relinked(all: &[OwnedPacket], header: impl Fn(u16) -> Vec<u8>) -> Vec<OwnedPacket> {
    all.iter()
        .map(|p| {
            let ether_type = u16::from_be_bytes([p.bytes[12], p.bytes[13]]);
            let mut bytes = header(ether_type);
            let grown = bytes.len();
            bytes.extend(&p.bytes[ETHERNET_HEADER..]);
            OwnedPacket {
                wire_len: p.wire_len + grown as u32 - ETHERNET_HEADER as u32,
                bytes,
                ..p.clone()
            }
        })
        .collect()
}

/// The findings that do not depend on the bytes of link headers.
fn of_tcp(mut analysis: Analysis) -> String {
    analysis.bytes = 0;
    analysis.tcp.ack_share_of_bytes = 0.0;
    analysis.advice.text.clear();
    shown(&analysis)
}

fn typed(before: &[u8], after: &[u8]) -> impl Fn(u16) -> Vec<u8> {
    move |ether_type| [before, &ether_type.to_be_bytes(), after].concat()
}

fn family(ether_type: u16) -> u8 {
    if ether_type == 0x86dd { 30 } else { 2 }
}

fn ppp(ether_type: u16) -> [u8; 2] {
    if ether_type == 0x86dd {
        [0, 0x57]
    } else {
        [0, 0x21]
    }
}

#[test]
fn every_link_layer_carries_the_same_tcp() {
    let radiotap = [
        // Version, padding, length 18; present: time, flags, rate; the time; flags: padded data.
        &[0, 0, 18, 0, 7, 0, 0, 0][..],
        &[9; 8],
        &[0x20, 12],
    ]
    .concat();
    let qos_data = [&[0x88, 0x01][..], &[0; 24]].concat();
    let llc = [0xaa, 0xaa, 3, 0, 0, 0];
    let wifi = [&qos_data[..], &llc].concat();
    let tapped = [&radiotap, &qos_data[..], &[0, 0], &llc].concat();
    let ppp_header = |before: &'static [u8]| move |t| [before, &ppp(t)].concat();
    let ethernet = |tags: &'static [u8]| typed(&[2; 12], &[]).then(tags);
    type Header<'a> = Box<dyn Fn(u16) -> Vec<u8> + 'a>;
    let layers: Vec<(&str, u32, Header<'_>)> = vec![
        ("raw", 101, Box::new(|_| Vec::new())),
        ("loopback", 0, Box::new(|t| vec![family(t), 0, 0, 0])),
        (
            "loopback, big endian",
            0,
            Box::new(|t| vec![0, 0, 0, family(t)]),
        ),
        (
            "OpenBSD's loopback",
            108,
            Box::new(|t| vec![0, 0, 0, family(t)]),
        ),
        ("SLL", 113, Box::new(typed(&[0; 14], &[]))),
        ("SLL2", 276, Box::new(typed(&[], &[0; 18]))),
        ("PPP", 9, Box::new(ppp_header(&[]))),
        (
            "PPP with address and control",
            50,
            Box::new(ppp_header(&[0xff, 3])),
        ),
        (
            "PPPoE",
            51,
            Box::new(ppp_header(&[0x11, 0, 0, 1, 0xff, 0xff])),
        ),
        (
            "PPPoE in Ethernet",
            1,
            Box::new(ppp_header(&[
                2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0x88, 0x64, 0x11, 0, 0, 1, 0xff, 0xff,
            ])),
        ),
        ("a VLAN", 1, Box::new(ethernet(&[0x81, 0, 0, 5]))),
        (
            "three VLANs",
            1,
            Box::new(ethernet(&[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x81, 0, 0, 7])),
        ),
        ("802.11", 105, Box::new(typed(&wifi, &[]))),
        ("802.11 with radiotap", 127, Box::new(typed(&tapped, &[]))),
    ];
    for name in CAPTURES {
        let plain = capture(name);
        let (all, _) = packets(&plain[..]).unwrap();
        let expected = of_tcp(analyze(&plain[..]));
        assert!(expected.contains("\"reason\": \"held\""), "{expected}");
        for (what, link, header) in &layers {
            let file = pcap(&relinked(&all, header), *link, false, true);
            let found = of_tcp(analyze(&file[..]));
            assert!(found == expected, "{name} over {what}:\n{found}");
        }
    }
}

/// Headers that precede the EtherType.
trait Then {
    fn then(self, tags: &'static [u8]) -> impl Fn(u16) -> Vec<u8>;
}

impl<F: Fn(u16) -> Vec<u8>> Then for F {
    fn then(self, tags: &'static [u8]) -> impl Fn(u16) -> Vec<u8> {
        move |t| {
            let whole = self(t);
            let (before, ether_type) = whole.split_at(whole.len() - 2);
            [before, tags, ether_type].concat()
        }
    }
}

#[test]
fn frames_put_together_by_wifi_are_taken_apart() {
    let (all, _) = packets(&capture("loss.pcap")[..]).unwrap();
    let expected = analyze(&capture("loss.pcap")[..]);
    // Whole packets only: a subframe contains its length.
    let together: Vec<OwnedPacket> = all
        .chunks(3)
        .map(|three| {
            let mut bytes = [&[0x88, 0x01][..], &[0; 22], &[0x80, 0]].concat();
            for p in three {
                bytes.resize((bytes.len() - 26).next_multiple_of(4) + 26, 0);
                let body = [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0], &p.bytes[ETHERNET_HEADER..]].concat();
                bytes.extend([7; 12]);
                bytes.extend((body.len() as u16).to_be_bytes());
                bytes.extend(body);
            }
            OwnedPacket {
                at_ns: three[0].at_ns,
                wire_len: bytes.len() as u32,
                bytes,
            }
        })
        .collect();
    let found = analyze(&pcap(&together, 105, false, true)[..]);
    assert_eq!(found.packets, together.len() as u64);
    // Data are truncated in this capture, ACKs are not.
    assert!(
        found.tcp.acks >= expected.tcp.acks,
        "{} of {}",
        found.tcp.acks,
        expected.tcp.acks
    );
}

#[test]
fn what_cannot_be_read_is_counted() {
    let (all, _) = packets(&capture("loss.pcap")[..]).unwrap();
    let encrypted = relinked(&all, |_| [&[0x88, 0x41][..], &[0; 30]].concat());
    let found = analyze(&pcap(&encrypted, 105, false, true)[..]);
    assert_eq!(
        (found.unread.encrypted, found.tcp.packets),
        (all.len() as u64, 0)
    );
    let arp = relinked(&all, |_| [&[2; 12][..], &[8, 6]].concat());
    assert_eq!(
        analyze(&pcap(&arp, 1, false, true)[..]).unread.not_tcp,
        all.len() as u64
    );
    let unknown = analyze(&pcap(&all, 147, false, true)[..]);
    assert_eq!(unknown.unread.unsupported_link_type, Some(147));
    let short: Vec<_> = all
        .iter()
        .map(|p| OwnedPacket {
            bytes: p.bytes[..30].to_vec(),
            ..p.clone()
        })
        .collect();
    assert_eq!(
        analyze(&pcap(&short, 1, false, true)[..]).unread.cut,
        all.len() as u64
    );
}
