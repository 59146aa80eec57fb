//! Captures of `tests/data/`, and the same packets in other files.
#![allow(dead_code)]

use std::io::Read;
use std::path::Path;

use ackwise_analyze::{Analysis, Analyzer, CaptureError, Options, Packet, ReadSummary, read};

pub const CAPTURES: [&str; 2] = ["loss.pcap", "ipv6.pcap"];

pub fn capture(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::read(root.join("../../../tests/data").join(name)).unwrap()
}

/// A packet that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnedPacket {
    pub at_ns: u64,
    pub wire_len: u32,
    pub bytes: Vec<u8>,
}

impl OwnedPacket {
    pub fn of(packet: &Packet<'_>) -> OwnedPacket {
        OwnedPacket {
            at_ns: packet.at_ns,
            wire_len: packet.wire_len,
            bytes: packet.bytes.to_vec(),
        }
    }
}

pub fn packets(source: impl Read + Send) -> Result<(Vec<OwnedPacket>, ReadSummary), CaptureError> {
    let mut all = Vec::new();
    let end = read(source, &mut |packet| all.push(OwnedPacket::of(packet)))?;
    Ok((all, end))
}

pub fn analyze(source: impl Read + Send) -> Analysis {
    let mut analyzer = Analyzer::new(Options::default());
    read(source, &mut |packet| analyzer.packet(packet)).unwrap();
    analyzer.finish()
}

/// All findings as text that can be compared.
pub fn shown(analysis: &Analysis) -> String {
    serde_json::to_string_pretty(analysis).unwrap()
}

/// Writes a number in the byte order of a file.
fn put(out: &mut Vec<u8>, big_endian: bool, value: u64, bytes: usize) {
    let le = value.to_le_bytes();
    let mut part = le[..bytes].to_vec();
    if big_endian {
        part.reverse();
    }
    out.extend(part);
}

/// A pcap file; in nanoseconds if `nanoseconds` is set.
pub fn pcap(packets: &[OwnedPacket], link: u32, big_endian: bool, nanoseconds: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let magic = if nanoseconds {
        0xa1b2_3c4d
    } else {
        0xa1b2_c3d4
    };
    let header: [(u64, usize); 7] = [
        (magic, 4),
        (2, 2),
        (4, 2),
        (0, 4),
        (0, 4),
        (262_144, 4),
        (u64::from(link), 4),
    ];
    for (value, bytes) in header {
        put(&mut out, big_endian, value, bytes);
    }
    for p in packets {
        let part = p.at_ns % 1_000_000_000 / if nanoseconds { 1 } else { 1000 };
        let fields = [
            p.at_ns / 1_000_000_000,
            part,
            p.bytes.len() as u64,
            u64::from(p.wire_len),
        ];
        for field in fields {
            put(&mut out, big_endian, field, 4);
        }
        out.extend(&p.bytes);
    }
    out
}

fn block(out: &mut Vec<u8>, big_endian: bool, kind: u64, body: &[u8]) {
    let len = (body.len().next_multiple_of(4) + 12) as u64;
    put(out, big_endian, kind, 4);
    put(out, big_endian, len, 4);
    out.extend(body);
    out.resize(out.len().next_multiple_of(4), 0);
    put(out, big_endian, len, 4);
}

/// A pcapng file with one section whose interface counts nanoseconds.
pub fn pcapng(packets: &[OwnedPacket], link: u32, big_endian: bool) -> Vec<u8> {
    pcapng_with_clock(packets, link, big_endian, 9, 1_000_000_000)
}

/// A pcapng file with one section whose interface has a clock with this resolution, as the option
/// `if_tsresol` gives it.
pub fn pcapng_with_clock(
    packets: &[OwnedPacket],
    link: u32,
    big_endian: bool,
    resolution: u8,
    per_second: u128,
) -> Vec<u8> {
    let mut out = Vec::new();
    let mut body = Vec::new();
    for (value, bytes) in [(0x1a2b_3c4d, 4), (1, 2), (0, 2), (u64::MAX, 8)] {
        put(&mut body, big_endian, value, bytes);
    }
    block(&mut out, big_endian, 0x0a0d_0d0a, &body);
    body.clear();
    // Link type, reserved, snap length; option if_tsresol (9) of one byte; the end.
    for (value, bytes) in [(u64::from(link), 2), (0, 2), (0, 4), (9, 2), (1, 2)] {
        put(&mut body, big_endian, value, bytes);
    }
    body.extend([resolution, 0, 0, 0]);
    put(&mut body, big_endian, 0, 4);
    block(&mut out, big_endian, 1, &body);
    for p in packets {
        body.clear();
        let units = (u128::from(p.at_ns) * per_second).div_ceil(1_000_000_000);
        let units = u64::try_from(units).unwrap();
        let fields = [
            0,
            units >> 32,
            units & 0xffff_ffff,
            p.bytes.len() as u64,
            u64::from(p.wire_len),
        ];
        for field in fields {
            put(&mut body, big_endian, field, 4);
        }
        body.extend(&p.bytes);
        block(&mut out, big_endian, 6, &body);
    }
    out
}

/// A pcapng file of simple packet blocks, which have no time.
pub fn pcapng_without_times(packets: &[OwnedPacket], link: u32) -> Vec<u8> {
    let mut out = pcapng(&[], link, false);
    for p in packets {
        let mut body = Vec::new();
        put(&mut body, false, u64::from(p.wire_len), 4);
        body.extend(&p.bytes);
        block(&mut out, false, 3, &body);
    }
    out
}
