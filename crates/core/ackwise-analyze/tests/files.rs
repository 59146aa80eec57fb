//! The same packets from every kind of file, and files that are broken.

mod common;

use std::io::{self, Read, Write};

use ackwise_analyze::CaptureError;
use common::{CAPTURES, Kept, analyze, capture, packets, pcap, pcapng, shown};

const ETHERNET: u32 = 1;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
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

/// What comes through a pipe, a few bytes at a time.
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

#[test]
fn packets_larger_than_the_buffer_are_read() {
    let big = Kept {
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
    let mut damaged = packed.clone();
    damaged[packed.len() / 2] ^= 0xff;
    assert!(matches!(packets(&damaged[..]), Err(CaptureError::Io(_))));
    let mut damaged = zstd(&plain);
    let at = damaged.len() / 2;
    damaged.truncate(at);
    assert!(matches!(packets(&damaged[..]), Err(CaptureError::Io(_))));

    // A packet of an interface that nobody has described.
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
    // A block that says of itself two different lengths.
    let mut file = pcapng(&all[..3], ETHERNET, false);
    let last = file.len() - 4;
    file[last] ^= 1;
    assert!(said(&file).contains("after 2 packets"), "{}", said(&file));
}
