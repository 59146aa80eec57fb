//! The same packets from every kind of file, and broken files.

mod common;

use std::io::{self, Read, Write};

use ackwise_analyze::CaptureError;
use ackwise_policy::{LinkKind, TcpFlags, parse_part};
use common::{
    CAPTURES, OwnedPacket, analyze, capture, packets, pcap, pcapng, pcapng_with_clock,
    pcapng_without_times, shown,
};

const ETHERNET: u32 = 1;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    packed(bytes, flate2::Compression::fast())
}

fn packed(bytes: &[u8], level: flate2::Compression) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), level);
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

#[test]
fn every_kind_of_file_has_the_same_packets() {
    for name in CAPTURES {
        let plain = capture(name);
        let (expected, end) = packets(&plain[..]).unwrap();
        assert_eq!(end.cut_at, None);
        assert_eq!(end.packets, expected.len() as u64);
        let halves = plain.split_at(plain.len() / 2);
        let files = [
            ("pcap, big endian", pcap(&expected, ETHERNET, true, false)),
            ("pcap, nanoseconds", pcap(&expected, ETHERNET, false, true)),
            ("pcapng", pcapng(&expected, ETHERNET, false)),
            ("pcapng, big endian", pcapng(&expected, ETHERNET, true)),
            (
                "pcapng, a clock of 2^-32 s",
                pcapng_with_clock(&expected, ETHERNET, false, 0x80 | 32, 1 << 32),
            ),
            ("gzip", gzip(&plain)),
            (
                "gzip in two members",
                [gzip(halves.0), gzip(halves.1)].concat(),
            ),
            ("zstd", zstd(&plain)),
            (
                "zstd in two frames",
                [zstd(halves.0), zstd(halves.1)].concat(),
            ),
            (
                "zstd behind a frame to be skipped",
                [
                    &[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3],
                    &zstd(&plain)[..],
                ]
                .concat(),
            ),
            ("pcapng in gzip", gzip(&pcapng(&expected, ETHERNET, true))),
        ];
        for (what, file) in files {
            let (found, end) = packets(&file[..]).unwrap_or_else(|e| panic!("{name}: {what}: {e}"));
            assert_eq!(end.cut_at, None, "{name}: {what}");
            assert!(found == expected, "{name}: {what}: other packets");
        }
    }
}

/// Returns a few bytes at a time, like a pipe.
struct Trickle<'a>(&'a [u8]);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.0.len().min(buffer.len()).min(7);
        let (now, later) = self.0.split_at(n);
        buffer[..n].copy_from_slice(now);
        self.0 = later;
        Ok(n)
    }
}

#[test]
fn a_pipe_is_read_like_a_file() {
    let plain = capture("loss.pcap");
    assert_eq!(
        shown(&analyze(Trickle(&plain))),
        shown(&analyze(&plain[..]))
    );
    let packed = gzip(&plain);
    assert_eq!(
        shown(&analyze(Trickle(&packed))),
        shown(&analyze(&plain[..]))
    );
}

#[test]
fn a_capture_that_was_interrupted_is_read_up_to_there() {
    let plain = capture("loss.pcap");
    let (all, _) = packets(&plain[..]).unwrap();
    let (most, end) = packets(&plain[..plain.len() - 10]).unwrap();
    assert_eq!(most[..], all[..all.len() - 1]);
    let last = 16 + all.last().unwrap().bytes.len();
    assert_eq!(end.cut_at, Some((plain.len() - last) as u64));
}

/// A truncated compressed file yields what was decompressed before, wherever that ends.
#[test]
fn a_compressed_capture_that_was_interrupted_is_read_up_to_there() {
    let plain = capture("loss.pcap");
    let (all, _) = packets(&plain[..]).unwrap();
    let stored = |bytes: &[u8]| packed(bytes, flate2::Compression::none());
    let half = plain.len() / 2;
    let two_frames = [zstd(&plain[..half]), zstd(&plain[half..])].concat();
    // The maximum that may be missing in addition to the bytes cut off: one of zstd's blocks.
    let files = [
        ("gzip, stored", stored(&plain), 0),
        ("gzip", gzip(&plain), plain.len() / 4),
        ("zstd", zstd(&plain), 128 << 10),
        ("zstd in two frames", two_frames, 128 << 10),
    ];
    for (what, file, missing) in files {
        for gone in (1..64).chain((64..file.len() / 8).step_by(97)) {
            let (found, end) = packets(&file[..file.len() - gone])
                .unwrap_or_else(|e| panic!("{what} without {gone} bytes: {e}"));
            let at = end.cut_at.expect("it was cut") as usize;
            assert!(found[..] == all[..found.len()], "{what}: other packets");
            let size: usize = found.iter().map(|p| 16 + p.bytes.len()).sum();
            assert_eq!(at, 24 + size, "{what} without {gone} bytes");
            let packet = 16 + all.iter().map(|p| p.bytes.len()).max().unwrap();
            assert!(
                at + missing + gone + packet > plain.len(),
                "{what} without {gone} bytes: {at}"
            );
        }
    }
}

#[test]
fn a_compressed_capture_is_cut_between_packets_too() {
    let plain = capture("loss.pcap");
    let (all, _) = packets(&plain[..]).unwrap();
    // Only the checksum of the compressed data is missing.
    for file in [gzip(&plain), zstd(&plain)] {
        let (found, end) = packets(&file[..file.len() - 1]).unwrap();
        assert!(found == all);
        assert_eq!(end.cut_at, Some(plain.len() as u64));
    }
    // Only the start of the second frame, member or skippable frame is present.
    for next in [&gzip(&plain)[..5], &gzip(&plain)[..11]] {
        let (found, end) = packets(&[&gzip(&plain), next].concat()[..]).unwrap();
        assert!(found == all && end.cut_at == Some(plain.len() as u64));
    }
    let skipped = [0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2];
    for next in [
        &zstd(&plain)[..3],
        &zstd(&plain)[..5],
        &skipped[..6],
        &skipped,
    ] {
        let (found, end) = packets(&[&zstd(&plain), next].concat()[..]).unwrap();
        assert!(found == all && end.cut_at == Some(plain.len() as u64));
    }
    let nothing = packets(&gzip(&plain)[..12]).unwrap_err();
    assert!(
        nothing.to_string().contains("after 0 unpacked bytes"),
        "{nothing}"
    );
}

#[test]
fn damaged_compressed_data_are_told_in_words() {
    let plain = capture("loss.pcap");
    let (gzip, zstd) = (gzip(&plain), zstd(&plain));
    let with = |file: &[u8], at: usize, byte: u8| {
        let mut file = file.to_vec();
        file[at] ^= byte;
        file
    };
    let second = [&gzip[..], b"garbage that is no member"].concat();
    let files = [
        ("gzip's middle", with(&gzip, gzip.len() / 2, 0xff)),
        ("gzip's checksum", with(&gzip, gzip.len() - 8, 1)),
        ("gzip's length", with(&gzip, gzip.len() - 1, 1)),
        ("behind gzip", second),
        ("zstd's first block", with(&zstd, 40, 0xff)),
        ("zstd's checksum", with(&zstd, zstd.len() - 1, 1)),
        ("behind zstd", [&zstd[..], b"garbage"].concat()),
    ];
    for (what, file) in files {
        let error = packets(&file[..]).expect_err(what);
        assert!(
            matches!(error, CaptureError::Decompression { .. }),
            "{what}: {error}"
        );
        let text = error.to_string();
        assert!(
            text.starts_with("after ") && text.contains(" unpacked bytes, the compressed data"),
            "{what}: {text}"
        );
        assert!(!text.contains(['(', '{']), "{what}: {text}");
        assert!(error.advice().unwrap().contains("copy the file again"));
    }
}

#[test]
fn packets_larger_than_the_buffer_are_read() {
    let big = OwnedPacket {
        at_ns: 1_000,
        wire_len: 3 << 20,
        bytes: vec![7; 3 << 20],
    };
    let all = vec![big.clone(), big];
    for file in [
        pcap(&all, ETHERNET, false, true),
        pcapng(&all, ETHERNET, false),
    ] {
        assert!(packets(&file[..]).unwrap().0 == all);
    }
}

struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[test]
fn broken_files_are_told_with_place_and_reason() {
    let said = |file: &[u8]| packets(file).unwrap_err().to_string();
    assert!(matches!(packets(io::empty()), Err(CaptureError::Empty)));
    assert!(said(b"GIF89a, no capture at all, and long enough").contains("[47, 49, 46, 38]"));
    assert!(said(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]).contains("no capture file"));

    let plain = capture("loss.pcap");
    let broken = Read::chain(&plain[..30_000], Failing);
    assert!(
        packets(broken)
            .unwrap_err()
            .to_string()
            .contains("the disk is gone")
    );
    let packed = gzip(&plain);
    let broken = Read::chain(&packed[..packed.len() / 2], Failing);
    assert_eq!(packets(broken).unwrap_err().to_string(), "the disk is gone");

    // A packet of an interface that is not described.
    let (all, _) = packets(&plain[..]).unwrap();
    let mut file = pcapng(&all[..3], ETHERNET, false);
    let second = file.len() - (all[2].bytes.len().next_multiple_of(4) + 32);
    file[second + 8] = 9;
    let text = said(&file);
    assert!(
        text.contains(&format!("after 2 packets, at byte {second}")),
        "{text}"
    );
    assert!(text.contains("interface 9"), "{text}");
    // A block that gives two different lengths of itself.
    let mut file = pcapng(&all[..3], ETHERNET, false);
    let last = file.len() - 4;
    file[last] ^= 1;
    assert!(said(&file).contains("after 2 packets"), "{}", said(&file));
}

/// Writes a four-byte number in the byte order of a file.
fn set(file: &mut [u8], at: usize, value: u32, big_endian: bool) {
    let bytes = if big_endian {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    };
    file[at..at + 4].copy_from_slice(&bytes);
}

/// The file with another number at this offset.
fn with(file: &[u8], at: usize, value: u32, big_endian: bool) -> Vec<u8> {
    let mut file = file.to_vec();
    set(&mut file, at, value, big_endian);
    file
}

fn five_packets() -> Vec<OwnedPacket> {
    let (mut all, _) = packets(&capture("loss.pcap")[..]).unwrap();
    all.truncate(5);
    all
}

/// Asserts that the fifth packet is reported as damaged.
fn damaged(file: &[u8], at: usize, reason: &str) {
    let text = packets(file).expect_err(reason).to_string();
    let expected = format!("after 4 packets, at byte {at} of the capture: {reason}");
    assert_eq!(text, expected);
}

/// Asserts that the file is reported as cut off in the fifth packet.
fn cut_off(file: &[u8], at: usize) {
    let (found, end) = packets(file).unwrap();
    assert_eq!((found.len(), end.cut_at), (4, Some(at as u64)));
}

const LARGEST: u32 = i32::MAX as u32;
const A_PACKET: &str = "a packet of 2147483647 bytes";

#[test]
fn a_length_in_pcap_that_cannot_be_is_damage_and_not_the_end() {
    let all = five_packets();
    for big in [false, true] {
        let file = pcap(&all, ETHERNET, big, true);
        let last = file.len() - 16 - all[4].bytes.len();
        let original = with(&file, last + 12, LARGEST, big);
        damaged(&with(&file, last + 8, LARGEST, big), last, A_PACKET);
        damaged(&original, last, A_PACKET);
        damaged(&original[..file.len() - 1], last, A_PACKET);
        let reason = "a packet of 262145 bytes";
        damaged(&with(&file, last + 8, 262_145, big), last, reason);
        // These lengths are possible.
        cut_off(&with(&file, last + 8, 262_144, big), last);
        let snap_len = |file: &[u8], len| with(file, 16, len, big);
        cut_off(
            &snap_len(&with(&file, last + 8, 300_000, big), 300_000),
            last,
        );
        let limitless = snap_len(&with(&file, last + 8, LARGEST, big), u32::MAX);
        damaged(&limitless, last, A_PACKET);
        // Such packets occur with BIG TCP.
        let (found, _) = packets(&with(&file, last + 12, 512 << 10, big)[..]).unwrap();
        assert_eq!(found[4].wire_len, 512 << 10);
    }
}

#[test]
fn a_length_in_pcapng_that_cannot_be_is_damage_and_not_the_end() {
    let all = five_packets();
    for big in [false, true] {
        let file = pcapng(&all, ETHERNET, big);
        let last = file.len() - 32 - all[4].bytes.len().next_multiple_of(4);
        let length = |len| with(&file, last + 4, len, big);
        let reason = "a block of 2147483644 bytes";
        damaged(&length(LARGEST - 3), last, reason);
        damaged(&length(4001), last, "a block of 4001 bytes");
        damaged(&length(8)[..last + 9], last, "a block of 8 bytes");
        cut_off(&length(4000), last);
        let original = with(&file, last + 24, LARGEST, big);
        damaged(&original, last, A_PACKET);
        damaged(&original[..file.len() - 1], last, A_PACKET);
        let captured = with(&file, last + 20, LARGEST, big);
        damaged(&captured[..file.len() - 1], last, A_PACKET);

        // The next section may have the other byte order.
        let four = pcapng(&all[..4], ETHERNET, !big);
        let two = [&four[..], &file[..30]].concat();
        let length = |len| with(&two, four.len() + 4, len, big);
        damaged(&length(1 << 27), four.len(), "a block of 134217728 bytes");
        cut_off(&length(4000), four.len());
    }
}

#[test]
fn the_share_of_the_bytes_compares_whole_frames() {
    let all = packets(&capture("loss.pcap")[..]).unwrap().0;
    let whole = analyze(&pcap(&all, ETHERNET, false, true)[..]);
    let is_ack = |p: &OwnedPacket| {
        let len = p.wire_len as usize;
        let s = parse_part(&p.bytes, LinkKind::Ethernet, len);
        let kinds = TcpFlags::ACK | TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        s.is_ok_and(|s| s.payload() == 0 && s.flags() & kinds == TcpFlags::ACK)
    };
    let bytes =
        |packets: &[OwnedPacket]| packets.iter().map(|p| f64::from(p.wire_len)).sum::<f64>();
    let acks: Vec<_> = all.iter().filter(|p| is_ack(p)).cloned().collect();
    assert_eq!(acks.len() as u64, whole.tcp.acks);
    let share = bytes(&acks) / bytes(&all);
    let found = whole.tcp.ack_share_of_bytes;
    assert!((found - share).abs() < 1e-12, "{found} is not {share}");
    let alone = analyze(&pcap(&acks, ETHERNET, false, true)[..]);
    assert!((alone.tcp.ack_share_of_bytes - 1.0).abs() < 1e-12);
}

#[test]
fn packets_without_a_time_are_counted_as_that_and_tell_no_round_trip() {
    let all = packets(&capture("loss.pcap")[..]).unwrap().0;
    let whole = |p: OwnedPacket| OwnedPacket {
        wire_len: p.bytes.len() as u32,
        ..p
    };
    let all: Vec<_> = all.into_iter().map(whole).collect();
    let found = analyze(&pcapng_without_times(&all, ETHERNET)[..]);
    assert_eq!(found.packets, all.len() as u64);
    assert_eq!(found.unread.without_time, found.packets);
    assert!(found.tcp.acks > 0);
    for flow in &found.flows {
        assert_eq!(flow.srtt_us, None, "{} to {}", flow.from, flow.to);
    }
    let timed = analyze(&pcapng(&all, ETHERNET, false)[..]);
    assert_eq!(timed.unread.without_time, 0);
    assert_eq!(timed.tcp.acks, found.tcp.acks);
}
