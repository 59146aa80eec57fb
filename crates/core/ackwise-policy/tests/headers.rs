//! The parser of `policy/tcp.h`, which decides, and that of `ackwise-headers`, which counts and
//! carries the same frames, find the same segments.

use ackwise_headers::tcp;
use ackwise_policy::{LinkKind, parse_part};
use proptest::prelude::*;

/// Bytes that often occur in headers, and any other.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        3 => any::<u8>(),
        1 => prop::sample::select(vec![0, 1, 5, 6, 8, 43, 44, 60, 0x45, 0x46, 0x50, 0x60, 0x80]),
    ]
}

fn tags() -> impl Strategy<Value = Vec<[u8; 4]>> {
    let tag = prop::sample::select(vec![[0x81, 0, 0, 7], [0x88, 0xa8, 0, 5]]);
    prop::collection::vec(tag, 0..4)
}

/// A TCP segment whose data offset may be wrong.
fn segment() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![8 => 5..=15_u8, 1 => 0..=15_u8];
    (offset, 0..50_usize, prop::collection::vec(any::<u8>(), 110)).prop_map(
        |(offset, data, mut bytes)| {
            bytes[12] = offset << 4 | bytes[12] & 15;
            bytes.truncate(usize::from(offset.max(5)) * 4 + data);
            bytes
        },
    )
}

fn v4() -> impl Strategy<Value = Vec<u8>> {
    let header = prop::collection::vec(byte(), 60);
    let fragment = prop_oneof![6 => Just(0x4000_u16), 1 => any::<u16>()];
    (header, 5..=15_usize, fragment, segment()).prop_map(|(mut ip, words, fragment, tcp)| {
        ip.truncate(4 * words);
        ip[0] = 0x40 | words as u8;
        let len = (ip.len() + tcp.len()) as u16;
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        ip[6..8].copy_from_slice(&fragment.to_be_bytes());
        ip[9] = 6;
        [ip, tcp].concat()
    })
}

fn v6() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![0_u8, 43, 60, 60, 0, 43, 44, 50]);
    let extension = (kind, 0..3_u8);
    let header = prop::collection::vec(any::<u8>(), 40);
    (header, prop::collection::vec(extension, 0..6), segment()).prop_map(
        |(mut ip, extensions, tcp)| {
            let mut rest = Vec::new();
            for (i, (_, units)) in extensions.iter().enumerate() {
                let next = extensions.get(i + 1).map_or(6, |(kind, _)| *kind);
                rest.extend([next, *units]);
                rest.resize(rest.len() + 6 + 8 * usize::from(*units), 0);
            }
            rest.extend(tcp);
            ip[0] = 0x60 | ip[0] & 15;
            ip[4..6].copy_from_slice(&(rest.len() as u16).to_be_bytes());
            ip[6] = extensions.first().map_or(6, |(kind, _)| *kind);
            [ip, rest].concat()
        },
    )
}

/// A frame of a supported shape, or nearly: one byte may be changed, it may be truncated, and it
/// may have been longer on the wire.
fn frame() -> impl Strategy<Value = (Vec<u8>, LinkKind, usize)> {
    let link = prop::sample::select(vec![LinkKind::Ethernet, LinkKind::Ip]);
    let change = prop::option::of((any::<prop::sample::Index>(), byte()));
    let cut = prop_oneof![2 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    let more = prop_oneof![2 => Just(0_usize), 1 => 0..70_000_usize];
    let packet = prop_oneof![v4(), v6()];
    (packet, tags(), link, change, cut, more).prop_map(|(packet, tags, link, change, cut, more)| {
        let mut frame = packet;
        if link == LinkKind::Ethernet {
            let kind: [u8; 2] = if frame[0] >> 4 == 4 {
                [8, 0]
            } else {
                [0x86, 0xdd]
            };
            frame = [&[2; 12], tags.as_flattened(), &kind[..], &frame].concat();
        }
        if let Some((at, byte)) = change {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        let wire_len = frame.len() + more;
        if let Some(cut) = cut {
            frame.truncate(cut.index(frame.len()));
        }
        (frame, link, wire_len)
    })
}

fn both_agree(frame: &[u8], link: LinkKind, wire_len: usize) -> Result<bool, TestCaseError> {
    let ours = tcp(frame, link, wire_len);
    let policy = parse_part(frame, link, wire_len);
    let (ours, policy) = match (ours, policy) {
        (Ok(ours), Ok(policy)) => (ours, policy),
        (ours, policy) => {
            prop_assert_eq!(ours.map(|_| ()), policy.map(|_| ()));
            return Ok(false);
        }
    };
    let raw = policy.raw();
    prop_assert_eq!(ours.ip_offset, usize::from(raw.l3_off));
    prop_assert_eq!(ours.tcp_offset, usize::from(raw.l4_off));
    prop_assert_eq!(ours.tcp.header_len(), usize::from(raw.l4_len));
    prop_assert_eq!(ours.ip_len, raw.len as usize);
    prop_assert_eq!(ours.payload_len, raw.payload as usize);
    prop_assert_eq!((ours.tcp.seq(), ours.tcp.ack()), (raw.seq, raw.ack));
    prop_assert_eq!(
        (ours.tcp.flags(), ours.tcp.window()),
        (raw.flags, raw.window)
    );
    prop_assert_eq!(ours.ip.traffic_class() & 3, raw.ip_ecn);
    prop_assert_eq!(ours.ip.source(), policy.src().ip());
    prop_assert_eq!(ours.ip.destination(), policy.dst().ip());
    prop_assert_eq!(ours.tcp.source(), policy.src().port());
    prop_assert_eq!(ours.tcp.destination(), policy.dst().port());
    Ok(true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn both_readers_agree_on_frames_that_are_nearly_segments((frame, link, wire_len) in frame()) {
        both_agree(&frame, link, wire_len)?;
    }

    #[test]
    fn both_readers_agree_on_any_bytes(
        frame in prop::collection::vec(byte(), 0..160),
        more in 0..100_usize,
    ) {
        both_agree(&frame, LinkKind::Ethernet, frame.len() + more)?;
        both_agree(&frame, LinkKind::Ip, frame.len() + more)?;
    }
}

/// The test above would prove nothing if all of its frames were rejected.
#[test]
fn a_good_part_of_the_frames_are_segments() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let segments = (0..1000)
        .filter(|_| {
            let tree = frame().new_tree(&mut runner).expect("a frame");
            let (frame, link, wire_len) = tree.current();
            both_agree(&frame, link, wire_len).expect("the same")
        })
        .count();
    assert!((250..750).contains(&segments), "{segments} of 1000");
}
