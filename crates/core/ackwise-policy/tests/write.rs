//! A segment that is written is read back the same, field by field.

use ackwise_policy::{LinkKind, Options, Segment, parse, sys, vectors};
use proptest::prelude::*;

fn any_segment() -> impl Strategy<Value = sys::aw_seg> {
    let numbers = (
        any::<u32>(),
        any::<u32>(),
        any::<u16>(),
        0u16..0x1000,
        0u32..3000,
    );
    let ip = (
        any::<bool>(),
        any::<[u32; 8]>(),
        any::<u32>(),
        0u8..4,
        any::<u8>(),
    );
    let opts = (
        0u16..0x80,
        any::<u16>(),
        0u8..15,
        any::<[u32; 10]>(),
        1u32..5,
        any::<Option<u32>>(),
    );
    (numbers, ip, opts).prop_map(|(numbers, ip, opts)| {
        let mut s = sys::aw_seg {
            seq: numbers.0,
            ack: numbers.1,
            window: numbers.2,
            flags: numbers.3,
            payload: numbers.4,
            ip_version: if ip.0 { 4 } else { 6 },
            ip_ecn: ip.3,
            ttl: ip.4,
            sport: ip.2 as u16,
            dport: (ip.2 >> 16) as u16,
            opts: opts.0,
            ce_bytes: u32::MAX,
            e0_bytes: u32::MAX,
            e1_bytes: u32::MAX,
            ..Default::default()
        };
        let words = if ip.0 { 1 } else { 4 };
        s.src.w[..words].copy_from_slice(&ip.1[..words]);
        s.dst.w[..words].copy_from_slice(&ip.1[4..4 + words]);
        let has = |o: Options| Options::from_bits_retain(s.opts).contains(o);
        if has(Options::MSS) {
            s.mss = opts.1;
        }
        if has(Options::WSCALE) {
            s.wscale = opts.2;
        }
        if has(Options::TS) {
            (s.tsval, s.tsecr) = (opts.3[8], opts.3[9]);
        }
        if has(Options::SACK) {
            s.n_sack = opts.4;
            let n = 2 * opts.4 as usize;
            s.sack[..n].copy_from_slice(&opts.3[..n]);
        }
        if has(Options::ACCECN) {
            // The counters in an option follow from its kind and length.
            let counters = opts.5.map_or(0, |n| 1 + n % 3);
            let value = |i: usize| opts.3[i] & 0xff_ffff;
            let (first, last) = if opts.1 & 1 == 0 {
                (&mut s.e0_bytes, &mut s.e1_bytes)
            } else {
                (&mut s.e1_bytes, &mut s.e0_bytes)
            };
            for (i, to) in [first, &mut s.ce_bytes, last].into_iter().enumerate() {
                if i < counters as usize {
                    *to = value(i);
                }
            }
        }
        s
    })
}

/// The fields that the vectors know, except the offsets of the headers.
const FIELDS: [&str; 17] = [
    "src", "dst", "ecn", "ttl", "seq", "ack", "payload", "window", "mss", "wscale", "flags",
    "opts", "ts", "ce_bytes", "e0_bytes", "e1_bytes", "sack",
];

/// The one's complement sum of everything, which is all ones if it is correct. This is not the code
/// of `ackwise_headers`, which wrote the packet.
fn sums_up(parts: &[&[u8]]) -> bool {
    let bytes: Vec<u8> = parts.concat();
    let mut sum = 0u32;
    for i in (0..bytes.len()).step_by(2) {
        sum += u32::from(bytes[i]) << 8 | u32::from(*bytes.get(i + 1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_written_is_read_back(raw in any_segment(), ethernet in any::<bool>()) {
        let link = if ethernet { LinkKind::Ethernet } else { LinkKind::Ip };
        let segment = Segment::from_raw(raw);
        let Some(packet) = segment.to_packet(link) else {
            // Only many options together do not fit, SACK blocks among them.
            prop_assert!(segment.options().contains(Options::SACK));
            return Ok(());
        };
        let read = parse(&packet, link).unwrap();
        for field in FIELDS {
            prop_assert_eq!(
                vectors::field_text(&read, field),
                vectors::field_text(&segment, field),
                "{}", field
            );
        }
        let (l3, l4) = (usize::from(read.raw().l3_off), usize::from(read.raw().l4_off));
        let length = ((packet.len() - l4) as u32).to_be_bytes();
        let addresses = if raw.ip_version == 4 {
            prop_assert!(sums_up(&[&packet[l3..l4]]), "IPv4 header checksum");
            &packet[l3 + 12..l4]
        } else {
            &packet[l3 + 8..l4]
        };
        prop_assert!(sums_up(&[addresses, &length, &[0, 0, 0, 6], &packet[l4..]]), "TCP checksum");
    }
}

#[test]
fn what_does_not_fit_one_ip_packet_is_written_as_linux_does() {
    for ip_version in [4, 6] {
        let raw = sys::aw_seg {
            ip_version,
            payload: 100_000,
            ..Default::default()
        };
        let packet = Segment::from_raw(raw).to_packet(LinkKind::Ip).unwrap();
        assert_eq!(parse(&packet, LinkKind::Ip).unwrap().payload(), 100_000);
    }
}
