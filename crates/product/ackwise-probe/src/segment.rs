//! TCP segments, as the probe builds and parses them.

use std::net::IpAddr;

use ackwise_headers::{Ipv4, Tcp, checksum, protocol};

/// Bits of [`Segment::flags`] (RFC 9293 §3.1, RFC 9768 §3.1).
pub mod flag {
    /// The sender has no more data.
    pub const FIN: u16 = 0x001;
    /// Synchronise sequence numbers.
    pub const SYN: u16 = 0x002;
    /// Reset the connection.
    pub const RST: u16 = 0x004;
    /// The acknowledgment number is valid.
    pub const ACK: u16 = 0x010;
    /// ECN echo, or the lowest bit of ACE.
    pub const ECE: u16 = 0x040;
    /// Congestion window reduced, or the middle bit of ACE.
    pub const CWR: u16 = 0x080;
    /// The highest bit of ACE.
    pub const AE: u16 = 0x100;
}

/// The ECN field of a marked packet: congestion experienced (RFC 3168 §5).
pub const CE: u8 = 3;

/// Kinds of TCP options.
pub mod kind {
    /// Maximum segment size (RFC 9293 §3.7.1).
    pub const MSS: u8 = 2;
    /// Window scale (RFC 7323 §2.2).
    pub const WINDOW_SCALE: u8 = 3;
    /// SACK permitted (RFC 2018 §2).
    pub const SACK_PERMITTED: u8 = 4;
    /// SACK blocks (RFC 2018 §3).
    pub const SACK: u8 = 5;
    /// Timestamps (RFC 7323 §3.2).
    pub const TIMESTAMPS: u8 = 8;
    /// Multipath TCP (RFC 8684 §3).
    pub const MPTCP: u8 = 30;
    /// AccECN with counter order 0 (RFC 9768 §3.2.3).
    pub const ACC_ECN: u8 = 172;
    /// Experimental (RFC 4727, RFC 6994): stands for any option that a middlebox does not know.
    pub const EXPERIMENT: u8 = 253;
}

/// The options of a segment as bytes, which never exceed the room in a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options(Vec<u8>);

impl Options {
    /// The number of option bytes in the longest header (RFC 9293 §3.1).
    pub const ROOM: usize = 40;

    /// The options in a header; `None` if there are too many bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= Self::ROOM).then(|| Self(bytes.to_vec()))
    }

    /// Adds an option, with no-operation options before it to align it. Returns `false` and changes
    /// nothing if there is no room.
    #[must_use]
    pub fn add(&mut self, kind: u8, body: &[u8]) -> bool {
        let pad = (4 - (body.len() + 2) % 4) % 4;
        let fits = self.0.len() + pad + 2 + body.len() <= Self::ROOM;
        if fits {
            self.0.resize(self.0.len() + pad, 1);
            self.0.extend([kind, body.len() as u8 + 2]);
            self.0.extend(body);
        }
        fits
    }

    /// Adds as many of these SACK blocks as fit (RFC 2018 §3).
    pub fn add_sack(&mut self, blocks: &[SackBlock]) {
        let mut body: Vec<u8> = Vec::new();
        for block in blocks {
            body.extend(block.left.to_be_bytes());
            body.extend(block.right.to_be_bytes());
        }
        while !body.is_empty() && !self.add(kind::SACK, &body) {
            body.truncate(body.len() - SackBlock::LEN);
        }
    }

    /// Iterates over the options, up to the end of the list or to what cannot be parsed.
    pub fn iter(&self) -> impl Iterator<Item = TcpOption<'_>> {
        options(&self.0)
    }
}

/// A block of data that has arrived beyond a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SackBlock {
    /// The first sequence number.
    pub left: u32,
    /// The sequence number after the last one.
    pub right: u32,
}

impl SackBlock {
    /// The length on the wire in bytes.
    const LEN: usize = 8;
}

/// A segment that the probe builds, or has parsed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    pub flags: u16,
    /// The window field, unscaled.
    pub window: u16,
    /// The options.
    pub options: Options,
    /// Payload bytes; the contents are arbitrary.
    pub payload: u16,
    /// The ECN field of the IP header: 0 Not-ECT, 2 ECT(0), 1 ECT(1), 3 CE.
    pub ecn: u8,
}

/// One option of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpOption<'a> {
    /// The kind of the option.
    pub kind: u8,
    /// The bytes after kind and length.
    pub body: &'a [u8],
}

/// Iterates over the options of a header, up to the end of the list or to what cannot be parsed.
fn options(mut rest: &[u8]) -> impl Iterator<Item = TcpOption<'_>> {
    std::iter::from_fn(move || {
        loop {
            match rest {
                [] | [0, ..] | [_] => return None,
                [1, tail @ ..] => rest = tail,
                [kind, length, ..] => {
                    let option = rest.get(..usize::from(*length)).filter(|it| it.len() > 1)?;
                    let kind = *kind;
                    rest = &rest[option.len()..];
                    let body = &option[2..];
                    return Some(TcpOption { kind, body });
                }
            }
        }
    })
}

fn be32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

impl Segment {
    /// The first option of this kind.
    #[must_use]
    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        let found = self.options.iter().find(|option| option.kind == kind);
        found.map(|option| option.body)
    }

    /// TSval and TSecr.
    #[must_use]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        let body = self.option(kind::TIMESTAMPS).filter(|it| it.len() == 8)?;
        Some((be32(&body[..4]), be32(&body[4..])))
    }

    /// SACK blocks.
    pub fn sack(&self) -> impl Iterator<Item = SackBlock> + '_ {
        let body = self.option(kind::SACK).unwrap_or_default();
        let blocks = body.chunks_exact(SackBlock::LEN);
        blocks.map(|block| SackBlock {
            left: be32(&block[..4]),
            right: be32(&block[4..]),
        })
    }

    /// Returns whether the segment only acknowledges.
    #[must_use]
    pub fn is_pure_ack(&self) -> bool {
        self.payload == 0
            && self.flags & (flag::ACK | flag::SYN | flag::FIN | flag::RST) == flag::ACK
    }

    /// Parses a segment that follows an IP header.
    #[must_use]
    pub fn read(bytes: &[u8], ecn: u8) -> Option<Self> {
        let (tcp, behind) = Tcp::split(bytes)?;
        let options = tcp.header_len().checked_sub(Tcp::LEN)?;
        let payload = behind.len().checked_sub(options)?;
        Some(Self {
            source: tcp.source(),
            destination: tcp.destination(),
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            options: Options::read(&behind[..options])?,
            payload: u16::try_from(payload).unwrap_or(u16::MAX),
            ecn: ecn & 3,
        })
    }

    /// Parses an IPv4 packet.
    #[must_use]
    pub fn read_v4(packet: &[u8]) -> Option<Self> {
        let header = usize::from(packet.first()? & 15) * 4;
        if header < Ipv4::LEN {
            return None;
        }
        Self::read(packet.get(header..)?, packet[1])
    }

    /// Builds the packet from its IP header on. The kernel fills in the checksum of an IPv4 header.
    #[must_use]
    pub fn to_packet(&self, from: IpAddr, to: IpAddr) -> Vec<u8> {
        let mut tcp = self.transport();
        let (from, to) = (octets(from), octets(to));
        let addresses = [&from[..], &to[..]].concat();
        let sum = checksum::of_segment(&addresses, protocol::TCP, &tcp);
        tcp[16..18].copy_from_slice(&sum);
        let mut packet = Vec::with_capacity(40 + tcp.len());
        if from.len() == 4 {
            let length = 20 + tcp.len() as u16;
            packet.extend([0x45, self.ecn]);
            packet.extend(length.to_be_bytes());
            // Don't Fragment, a hop limit of 64, TCP.
            packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        } else {
            packet.extend([0x60, self.ecn << 4, 0, 0]);
            packet.extend((tcp.len() as u16).to_be_bytes());
            packet.extend([6, 64]);
        }
        packet.extend(addresses);
        packet.extend(tcp);
        packet
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(60 + usize::from(self.payload));
        bytes.extend(self.source.to_be_bytes());
        bytes.extend(self.destination.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        let words = 5 + self.options.0.len().div_ceil(4);
        bytes.extend(((words as u16) << 12 | self.flags).to_be_bytes());
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.options.0);
        bytes.resize(words * 4, 0);
        // Data that no middlebox takes for text, and no filter for a known application.
        let data = (0..self.payload).map(|n| (self.seq.wrapping_add(u32::from(n)) >> 3) as u8);
        bytes.extend(data.map(|byte| byte | 0x80));
        bytes
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackwise_headers::{LinkKind, tcp};

    #[test]
    fn what_is_written_is_read() {
        for (from, to) in [("192.0.2.1", "192.0.2.2"), ("2001:db8::1", "2001:db8::2")] {
            let mut options = Options::default();
            assert!(options.add(kind::TIMESTAMPS, &[0, 0, 0, 7, 0, 0, 0, 8]));
            let block = SackBlock { left: 1, right: 9 };
            options.add_sack(&[block]);
            let segment = Segment {
                source: 1,
                destination: 2,
                seq: 3,
                ack: 4,
                flags: flag::ACK | flag::AE,
                window: 5,
                options,
                payload: 11,
                ecn: 2,
            };
            let packet = segment.to_packet(from.parse().unwrap(), to.parse().unwrap());
            let found = tcp(&packet, LinkKind::Ip, packet.len()).unwrap();
            assert_eq!(found.payload_len, 11);
            assert_eq!(found.tcp.checksum().len(), 2);
            let read = Segment::read(&packet[found.tcp_offset..], 2).unwrap();
            assert_eq!(read, segment);
            assert_eq!(read.timestamps(), Some((7, 8)));
            assert_eq!(read.sack().collect::<Vec<_>>(), [block]);
            if from.contains('.') {
                assert_eq!(Segment::read_v4(&packet), Some(segment));
            }
        }
    }

    /// Timestamps, an unknown option and three SACK blocks would be 48 bytes.
    #[test]
    fn no_header_has_more_options_than_fit() {
        let blocks = [1, 2, 3, 4].map(|n| SackBlock {
            left: 100 * n,
            right: 100 * n + 50,
        });
        for (unknown, count) in [(None, 3), (Some(4), 2), (Some(10), 1), (Some(24), 0)] {
            let mut options = Options::default();
            assert!(options.add(kind::TIMESTAMPS, &[0; 8]));
            if let Some(len) = unknown {
                assert!(options.add(kind::EXPERIMENT, &vec![0; len]));
            }
            options.add_sack(&blocks);
            let segment = Segment {
                options,
                payload: 5,
                ..Segment::default()
            };
            let [from, to] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
            let read = Segment::read_v4(&segment.to_packet(from, to)).unwrap();
            assert_eq!(
                read.sack().collect::<Vec<_>>(),
                blocks[..count],
                "{unknown:?}"
            );
            assert_eq!(read.payload, 5);
        }
        let mut full = Options::default();
        assert!(full.add(kind::EXPERIMENT, &[0; 38]));
        assert!(!full.add(kind::SACK_PERMITTED, &[]));
        assert_eq!(Options::read(&[0; 41]), None);
    }

    #[test]
    fn options_that_cannot_be_read_end_the_list() {
        for bytes in [&[8_u8][..], &[8, 0], &[8, 1], &[8, 11, 0], &[0, 8, 2]] {
            assert_eq!(options(bytes).count(), 0, "{bytes:?}");
        }
        assert_eq!(options(&[1, 1, 4, 2, 5, 99]).count(), 1);
    }
}
