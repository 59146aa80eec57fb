//! Reads what the lab needs from a frame.
//!
//! This parser is deliberately separate from the policies' parser: what it counts is the evidence
//! for what they did. It handles frames that Linux itself sent, reads what the counters need, and
//! rejects everything else.

use ackwise_headers::LinkKind;

/// FIN, SYN, RST and ACK in the flags byte of TCP.
pub mod flag {
    /// FIN: no more data from the sender.
    pub const FIN: u8 = 0x01;
    /// SYN: synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// RST: reset the connection.
    pub const RST: u8 = 0x04;
    /// ACK: the acknowledgment number is valid.
    pub const ACK: u8 = 0x10;
}

/// The counted parts of a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags, see [`flag`].
    pub flags: u8,
    /// Window, unscaled.
    pub window: u16,
    /// Bytes of TCP options.
    pub options_len: u32,
    /// Bytes of payload.
    pub payload_len: u32,
    /// Bytes of the IP packet.
    pub ip_len: u32,
    /// Whether a SACK option is present.
    pub sack: bool,
    /// The MSS option.
    pub mss: Option<u16>,
}

impl Segment {
    /// Whether the segment carries no data and only acknowledges.
    #[must_use]
    pub fn is_ack_only(&self) -> bool {
        self.payload_len == 0
            && self.flags & (flag::SYN | flag::FIN | flag::RST) == 0
            && self.flags & flag::ACK != 0
    }

    /// One past the last sequence number of the segment.
    #[must_use]
    pub fn seq_end(&self) -> u32 {
        self.seq.wrapping_add(self.payload_len)
    }
}

/// Reads an Ethernet frame; `None` if it is not TCP over IPv4 or IPv6.
///
/// The frame may be truncated after the TCP header: lengths come from the IP header, or from
/// `wire_len` if the header says 0 (a segment that the device will split).
#[must_use]
pub fn parse(frame: &[u8], wire_len: usize) -> Option<Segment> {
    let read = ackwise_headers::tcp(frame, LinkKind::Ethernet, wire_len).ok()?;
    let mut segment = Segment {
        source: read.tcp.source(),
        destination: read.tcp.destination(),
        seq: read.tcp.seq(),
        ack: read.tcp.ack(),
        flags: (read.tcp.flags() & 0xff) as u8,
        window: read.tcp.window(),
        options_len: u32::try_from(read.options.len()).ok()?,
        payload_len: u32::try_from(read.payload_len).ok()?,
        ip_len: u32::try_from(read.ip_len).ok()?,
        sack: false,
        mss: None,
    };
    let mut options = read.options;
    while let [kind, rest @ ..] = options {
        match kind {
            0 => break,
            1 => options = rest,
            _ => {
                let length = usize::from(*rest.first()?);
                let option = options.get(..length).filter(|option| option.len() >= 2)?;
                match kind {
                    2 => segment.mss = mss(option),
                    5 => segment.sack = true,
                    _ => {}
                }
                options = &options[length..];
            }
        }
    }
    Some(segment)
}

/// The value of an MSS option.
fn mss(option: &[u8]) -> Option<u16> {
    let value = option.get(2..)?.first_chunk()?;
    Some(u16::from_be_bytes(*value))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An Ethernet frame with an IPv4 TCP segment.
    pub(crate) fn frame_v4(
        ports: (u16, u16),
        seq: u32,
        ack: u32,
        flags: u8,
        window: u16,
        options: &[u8],
        payload: usize,
    ) -> Vec<u8> {
        let header = 20 + options.len();
        let total = (20 + header + payload) as u16;
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend(tcp_bytes(ports, seq, ack, flags, window, options, payload));
        frame
    }

    fn tcp_bytes(
        ports: (u16, u16),
        seq: u32,
        ack: u32,
        flags: u8,
        window: u16,
        options: &[u8],
        payload: usize,
    ) -> Vec<u8> {
        let mut tcp = Vec::new();
        tcp.extend(ports.0.to_be_bytes());
        tcp.extend(ports.1.to_be_bytes());
        tcp.extend(seq.to_be_bytes());
        tcp.extend(ack.to_be_bytes());
        tcp.push(((20 + options.len()) as u8 / 4) << 4);
        tcp.push(flags);
        tcp.extend(window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.extend(vec![0x5a; payload]);
        tcp
    }

    const TIMESTAMPS: [u8; 12] = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    const SACK: [u8; 12] = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];

    #[test]
    fn an_ack_with_timestamps() {
        let frame = frame_v4((5001, 4000), 7, 9, flag::ACK, 500, &TIMESTAMPS, 0);
        let segment = parse(&frame, frame.len()).unwrap();
        assert_eq!((segment.source, segment.destination), (5001, 4000));
        assert_eq!((segment.seq, segment.ack, segment.window), (7, 9, 500));
        assert_eq!(
            (segment.ip_len, segment.payload_len, segment.options_len),
            (52, 0, 12)
        );
        assert!(segment.is_ack_only() && !segment.sack && segment.mss.is_none());
    }

    #[test]
    fn options_are_found() {
        let options = [&[2, 4, 5, 180, 3, 3, 7, 0][..], &[]].concat();
        let frame = frame_v4((1, 2), 0, 0, flag::SYN, 1, &options, 0);
        assert_eq!(parse(&frame, frame.len()).unwrap().mss, Some(1460));
        let frame = frame_v4((1, 2), 0, 0, flag::ACK, 1, &SACK, 0);
        assert!(parse(&frame, frame.len()).unwrap().sack);
    }

    #[test]
    fn a_cut_frame_keeps_its_length() {
        let frame = frame_v4((1, 2), 100, 0, flag::ACK, 1, &TIMESTAMPS, 1000);
        let segment = parse(&frame[..80], frame.len()).unwrap();
        assert_eq!(segment.payload_len, 1000);
        assert_eq!(segment.seq_end(), 1100);
        assert!(!segment.is_ack_only());
    }

    #[test]
    fn a_big_tcp_segment_takes_its_length_from_the_wire() {
        let mut frame = frame_v4((1, 2), 0, 0, flag::ACK, 1, &[], 0);
        frame[16..18].fill(0);
        assert_eq!(
            parse(&frame, 14 + 40 + 100_000).unwrap().payload_len,
            100_000
        );
    }

    #[test]
    fn ipv6_with_extension_headers_and_a_tag() {
        let tcp = tcp_bytes((3, 4), 1, 2, flag::ACK, 5, &TIMESTAMPS, 10);
        let mut frame = vec![0; 12];
        frame.extend([0x81, 0x00, 0, 7, 0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((8 + tcp.len() as u16).to_be_bytes());
        frame.extend([0, 64]);
        frame.extend([0; 32]);
        frame.extend([6, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend(&tcp);
        let segment = parse(&frame, frame.len()).unwrap();
        assert_eq!((segment.source, segment.payload_len), (3, 10));
        assert_eq!(segment.ip_len, 40 + 8 + 32 + 10);
    }

    #[test]
    fn what_is_cut_short_is_not_a_segment() {
        let frame = frame_v4((1, 2), 0, 0, flag::ACK, 1, &SACK, 0);
        for length in 0..frame.len() {
            assert_eq!(parse(&frame[..length], frame.len()), None, "{length}");
        }
        let mut udp = frame.clone();
        udp[23] = 17;
        assert_eq!(parse(&udp, udp.len()), None);
    }
}
