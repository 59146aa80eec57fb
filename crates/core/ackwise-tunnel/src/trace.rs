//! Recorded ACKs, and captures in the pcap format.

use std::io::Read;

use ackwise_headers::Ip;

/// A packet of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedPacket {
    /// The time in nanoseconds since the first packet.
    pub at_ns: u64,
    /// The bytes from the IP header on.
    pub packet: Box<[u8]>,
}

/// Recorded ACKs of a Linux 6.12 receiver. `traces/README.md` says how they were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorded {
    /// Eight cubic downloads over IPv4, with timestamps and almost no loss.
    Plain,
    /// Eight bbr downloads over IPv4 with 5 % loss, so that nearly every ACK has SACK blocks.
    Sack,
    /// The start of eight cubic downloads over IPv6 with 0.2 % loss.
    Ipv6,
}

impl Recorded {
    /// All recordings.
    pub const ALL: [Recorded; 3] = [Recorded::Plain, Recorded::Sack, Recorded::Ipv6];

    /// Returns the ACKs of a recording.
    ///
    /// # Errors
    /// Fails only if the file that was built in is damaged.
    pub fn read(self) -> Result<Vec<TracedPacket>, TraceError> {
        let bytes: &[u8] = match self {
            Recorded::Plain => include_bytes!("../traces/plain.pcap.gz"),
            Recorded::Sack => include_bytes!("../traces/sack.pcap.gz"),
            Recorded::Ipv6 => include_bytes!("../traces/six.pcap.gz"),
        };
        read_pcap(bytes)
    }
}

/// Why a capture cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file is compressed, but cannot be decompressed.
    #[error("not readable as gzip: {0}")]
    Gzip(#[from] std::io::Error),
    /// The file has another format.
    #[error("not a pcap file: it begins with {0:02x?}; pcapng can be converted with `tcpdump -r`")]
    Magic(Vec<u8>),
    /// The packets have link headers that are not supported.
    #[error("link type {0} is not supported; Ethernet (1) and raw IP (101) are")]
    LinkType(u32),
    /// The file ends in the middle of a packet.
    #[error("the file ends in the middle of packet {0}")]
    Truncated(usize),
    /// The file has no pure ACK.
    #[error("the file has no complete pure ACK")]
    Empty,
}

/// The largest capture in bytes, after decompression.
const MAX_CAPTURE_BYTES: u64 = 1 << 30;

/// Reads the pure ACKs of a pcap file, which may be compressed with gzip. Truncated frames are
/// skipped.
///
/// # Errors
/// Returns why the file cannot be used.
pub fn read_pcap(file: &[u8]) -> Result<Vec<TracedPacket>, TraceError> {
    let mut unpacked = Vec::new();
    let file = if file.starts_with(&[0x1f, 0x8b]) {
        let gzip = flate2::read::MultiGzDecoder::new(file);
        gzip.take(MAX_CAPTURE_BYTES).read_to_end(&mut unpacked)?;
        &unpacked
    } else {
        file
    };
    let magic = || TraceError::Magic(file.iter().take(4).copied().collect());
    let word = |at: usize| {
        let bytes = file.get(at..at.checked_add(4)?)?;
        Some([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let (number, unit): (fn([u8; 4]) -> u32, u64) = match word(0).ok_or_else(magic)? {
        [0x4d, 0x3c, 0xb2, 0xa1] => (u32::from_le_bytes, 1),
        [0xd4, 0xc3, 0xb2, 0xa1] => (u32::from_le_bytes, 1000),
        [0xa1, 0xb2, 0x3c, 0x4d] => (u32::from_be_bytes, 1),
        [0xa1, 0xb2, 0xc3, 0xd4] => (u32::from_be_bytes, 1000),
        _ => return Err(magic()),
    };
    let skip = match number(word(20).ok_or_else(magic)?) & 0xffff {
        1 => 14,
        101 => 0,
        other => return Err(TraceError::LinkType(other)),
    };
    let (mut at, mut acks, mut start) = (24, Vec::new(), None);
    for count in 1.. {
        if at >= file.len() {
            break;
        }
        let truncated = || TraceError::Truncated(count);
        let field = |i: usize| word(at + 4 * i).map(number).ok_or_else(truncated);
        let (seconds, fraction, len) = (field(0)?, field(1)?, field(2)? as usize);
        let frame = file.get(at + 16..).and_then(|rest| rest.get(..len));
        let frame = frame.ok_or_else(truncated)?;
        at += 16 + len;
        let time = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit;
        if let Some(packet) = frame.get(skip..).and_then(pure_ack) {
            acks.push(TracedPacket {
                at_ns: time.saturating_sub(*start.get_or_insert(time)),
                packet: packet.into(),
            });
        }
    }
    if acks.is_empty() {
        return Err(TraceError::Empty);
    }
    Ok(acks)
}

/// Returns a packet without Ethernet padding if it is a pure ACK.
fn pure_ack(packet: &[u8]) -> Option<&[u8]> {
    let len = match Ip::read(packet)? {
        Ip::V4(ip) => ip.total_len().into(),
        Ip::V6(_) => packet.len(),
    };
    let packet = packet.get(..len)?;
    let ack = crate::ack::Ack::parse(packet)?;
    const SYN_FIN_RST: u16 = 7;
    (ack.flags & SYN_FIN_RST == 0).then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recordings_are_complete() {
        let counts = Recorded::ALL.map(|which| which.read().expect("recorded").len());
        assert_eq!(counts, [4064, 4990, 3046]);
    }

    #[test]
    fn files_that_are_not_captures_are_refused() {
        let text = |bytes: &[u8]| read_pcap(bytes).expect_err("no capture").to_string();
        assert!(text(b"hello, world").starts_with("not a pcap file: it begins with [68, 65"));
        assert!(text(&[0x1f, 0x8b, 8, 0]).starts_with("not readable as gzip"));
        let mut head = vec![0x4d, 0x3c, 0xb2, 0xa1];
        head.resize(24, 0);
        assert!(text(&head).starts_with("link type 0 "));
        head[20] = 101;
        assert!(text(&head).starts_with("the file has no complete"));
        head.extend([0; 15]);
        assert_eq!(text(&head), "the file ends in the middle of packet 1");
    }
}
