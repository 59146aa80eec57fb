use crate::ether::{LinkKind, ether_type, payload};
use crate::ip::{Ip, Ipv4, Ipv6, protocol};
use crate::{be16, be32};

/// The maximum number of IPv6 extension headers before TCP (RFC 8200 §4.1, without those of IPsec).
const MAX_EXTENSION_HEADERS: usize = 4;

/// Why no TCP header was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ParseError {
    /// The packet is not TCP.
    #[error("not TCP")]
    NotTcp,
    /// The packet is an IP fragment: ports and flags may be elsewhere.
    #[error("an IP fragment")]
    Fragment,
    /// The bytes end before the headers do.
    #[error("the bytes end before the headers do")]
    Truncated,
    /// Lengths in the headers contradict each other.
    #[error("lengths that contradict each other")]
    Malformed,
}

/// The fixed part of a TCP header (RFC 9293 §3.1).
#[derive(Debug, Clone, Copy)]
pub struct Tcp<'a>(&'a [u8; Tcp::LEN]);

impl<'a> Tcp<'a> {
    /// Bytes of a header without options.
    pub const LEN: usize = 20;

    /// Splits a TCP segment after the fixed part of its header. Returns `None` if it is too short.
    #[inline]
    #[must_use]
    pub fn split(segment: &'a [u8]) -> Option<(Tcp<'a>, &'a [u8])> {
        let (header, rest) = segment.split_first_chunk()?;
        Some((Tcp(header), rest))
    }

    /// The source port.
    #[must_use]
    pub fn source(&self) -> u16 {
        be16(self.0, 0)
    }

    /// The destination port.
    #[must_use]
    pub fn destination(&self) -> u16 {
        be16(self.0, 2)
    }

    /// The source port, then the destination port, in wire order.
    #[must_use]
    pub fn ports(&self) -> [u8; 4] {
        [self.0[0], self.0[1], self.0[2], self.0[3]]
    }

    /// The sequence number.
    #[must_use]
    pub fn seq(&self) -> u32 {
        be32(self.0, 4)
    }

    /// The acknowledgment number.
    #[must_use]
    pub fn ack(&self) -> u32 {
        be32(self.0, 8)
    }

    /// Length of the header with its options, as the header gives it: 0 to 60 bytes.
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.0[12] >> 4) * 4
    }

    /// The twelve bits after the data offset: the flags, and above them the reserved bits.
    #[must_use]
    pub fn flags(&self) -> u16 {
        be16(self.0, 12) & 0xfff
    }

    /// The window, unscaled.
    #[must_use]
    pub fn window(&self) -> u16 {
        be16(self.0, 14)
    }

    /// The checksum.
    #[must_use]
    pub fn checksum(&self) -> [u8; 2] {
        [self.0[16], self.0[17]]
    }

    /// The urgent pointer.
    #[must_use]
    pub fn urgent(&self) -> u16 {
        be16(self.0, 18)
    }
}

/// A TCP segment in a frame.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The IP header.
    pub ip: Ip<'a>,
    /// The TCP header.
    pub tcp: Tcp<'a>,
    /// The TCP options.
    pub options: &'a [u8],
    /// The offset of the IP header in the frame.
    pub ip_offset: usize,
    /// The offset of the TCP header in the frame.
    pub tcp_offset: usize,
    /// Length of the IP packet in bytes, without the padding of the frame.
    pub ip_len: usize,
    /// Payload bytes.
    pub payload_len: usize,
}

/// The offset of TCP from the IP header in bytes, and the length of the packet as its header gives
/// it; 0 if it gives none.
struct Location {
    tcp: usize,
    ip_len: usize,
}

/// Finds the TCP header of a frame of `wire_len` bytes. The frame may be truncated after that
/// header. A length of 0 in the IP header (Linux's BIG TCP: a segment for the device to cut up) is
/// replaced by `wire_len`.
///
/// # Errors
/// The frame is not a TCP segment, or cannot be parsed.
pub fn tcp(frame: &[u8], link: LinkKind, wire_len: usize) -> Result<Segment<'_>, ParseError> {
    let (ip_offset, ip) = find_ip(frame, link)?;
    let packet = frame.get(ip_offset..).ok_or(ParseError::Truncated)?;
    let have = wire_len
        .checked_sub(ip_offset)
        .filter(|have| *have >= Ipv4::LEN)
        .ok_or(ParseError::Malformed)?;
    let (ip, location) = match ip {
        4 => locate_v4(packet)?,
        _ => locate_v6(packet)?,
    };
    let ip_len = if location.ip_len == 0 {
        have
    } else {
        location.ip_len
    };
    if ip_len > have {
        return Err(ParseError::Malformed);
    }
    let segment = packet.get(location.tcp..).ok_or(ParseError::Truncated)?;
    let (tcp, behind) = Tcp::split(segment).ok_or(ParseError::Truncated)?;
    let options_len = tcp
        .header_len()
        .checked_sub(Tcp::LEN)
        .ok_or(ParseError::Malformed)?;
    let payload_len = ip_len
        .checked_sub(location.tcp + tcp.header_len())
        .ok_or(ParseError::Malformed)?;
    Ok(Segment {
        ip,
        tcp,
        options: behind.get(..options_len).ok_or(ParseError::Truncated)?,
        ip_offset,
        tcp_offset: ip_offset + location.tcp,
        ip_len,
        payload_len,
    })
}

/// Returns the offset of the IP header, and its version.
fn find_ip(frame: &[u8], link: LinkKind) -> Result<(usize, u8), ParseError> {
    let version_at = |at: usize| {
        let header = frame.get(at..at + Ipv4::LEN).ok_or(ParseError::Truncated)?;
        Ok(header[0] >> 4)
    };
    match link {
        LinkKind::Ip => match version_at(0)? {
            version @ (4 | 6) => Ok((0, version)),
            _ => Err(ParseError::NotTcp),
        },
        LinkKind::Ethernet => {
            let payload = payload(frame).ok_or(ParseError::Truncated)?;
            let version = match payload.ether_type {
                ether_type::IPV4 => 4,
                ether_type::IPV6 => 6,
                _ => return Err(ParseError::NotTcp),
            };
            if version_at(payload.offset)? != version {
                return Err(ParseError::Malformed);
            }
            Ok((payload.offset, version))
        }
    }
}

fn locate_v4(packet: &[u8]) -> Result<(Ip<'_>, Location), ParseError> {
    let Some(Ip::V4(ip)) = Ip::read(packet) else {
        return Err(ParseError::Truncated);
    };
    if ip.header_len() < Ipv4::LEN {
        return Err(ParseError::Malformed);
    }
    if ip.protocol() != protocol::TCP {
        return Err(ParseError::NotTcp);
    }
    if ip.is_fragment() {
        return Err(ParseError::Fragment);
    }
    let location = Location {
        tcp: ip.header_len(),
        ip_len: ip.total_len().into(),
    };
    Ok((Ip::V4(ip), location))
}

fn locate_v6(packet: &[u8]) -> Result<(Ip<'_>, Location), ParseError> {
    let Some(Ip::V6(ip)) = Ip::read(packet) else {
        return Err(ParseError::Truncated);
    };
    let tcp = skip_extension_headers(packet, ip.next_header())?;
    let ip_len = match ip.payload_len() {
        0 => 0,
        len => Ipv6::LEN + usize::from(len),
    };
    Ok((Ip::V6(ip), Location { tcp, ip_len }))
}

/// Returns the offset of TCP after an IPv6 header whose next header is `next`.
fn skip_extension_headers(packet: &[u8], mut next: u8) -> Result<usize, ParseError> {
    const SKIPPED: [u8; 3] = [
        protocol::HOP_BY_HOP,
        protocol::ROUTING,
        protocol::DESTINATION,
    ];
    let mut at = Ipv6::LEN;
    for _ in 0..=MAX_EXTENSION_HEADERS {
        if next == protocol::TCP {
            return Ok(at);
        }
        if next != protocol::FRAGMENT && !SKIPPED.contains(&next) {
            return Err(ParseError::NotTcp);
        }
        let header = packet.get(at..at + 8).ok_or(ParseError::Truncated)?;
        if next == protocol::FRAGMENT {
            let may_be_tcp = header[0] == protocol::TCP || SKIPPED.contains(&header[0]);
            return Err(if may_be_tcp {
                ParseError::Fragment
            } else {
                ParseError::NotTcp
            });
        }
        next = header[0];
        at += (usize::from(header[1]) + 1) * 8;
    }
    Err(ParseError::Malformed)
}
