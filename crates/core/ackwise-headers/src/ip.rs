use std::net::IpAddr;

use crate::{be16, be32};

/// Protocol numbers (IANA, "Protocol Numbers").
pub mod protocol {
    /// TCP.
    pub const TCP: u8 = 6;
    pub(crate) const HOP_BY_HOP: u8 = 0;
    pub(crate) const ROUTING: u8 = 43;
    pub(crate) const FRAGMENT: u8 = 44;
    pub(crate) const DESTINATION: u8 = 60;
}

/// The fixed part of an IPv4 header (RFC 791 §3.1).
#[derive(Debug, Clone, Copy)]
pub struct Ipv4<'a>(&'a [u8; Ipv4::LEN]);

impl<'a> Ipv4<'a> {
    /// Bytes of a header without options.
    pub const LEN: usize = 20;
    /// The bits of [`frag_off`](Self::frag_off) that mark a fragment: the offset, and that more
    /// fragments follow.
    const FRAGMENT_BITS: u16 = 0x3fff;

    /// The raw bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8; Ipv4::LEN] {
        self.0
    }

    /// Length of the header with its options, as the header gives it: 0 to 60 bytes.
    #[must_use]
    pub fn header_len(&self) -> usize {
        usize::from(self.0[0] & 15) * 4
    }

    /// The type of service.
    #[must_use]
    pub fn tos(&self) -> u8 {
        self.0[1]
    }

    /// Length of the packet in bytes, as the header gives it.
    #[must_use]
    pub fn total_len(&self) -> u16 {
        be16(self.0, 2)
    }

    /// The identification.
    #[must_use]
    pub fn id(&self) -> u16 {
        be16(self.0, 4)
    }

    /// The flags and the fragment offset.
    #[must_use]
    pub fn frag_off(&self) -> u16 {
        be16(self.0, 6)
    }

    /// Whether the packet is a fragment.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.frag_off() & Self::FRAGMENT_BITS != 0
    }

    /// The time to live.
    #[must_use]
    pub fn ttl(&self) -> u8 {
        self.0[8]
    }

    /// The protocol that follows the header: see [`protocol`].
    #[must_use]
    pub fn protocol(&self) -> u8 {
        self.0[9]
    }

    /// The header's checksum.
    #[must_use]
    pub fn checksum(&self) -> [u8; 2] {
        [self.0[10], self.0[11]]
    }

    /// The source address, then the destination address.
    #[must_use]
    pub fn addresses(&self) -> &'a [u8; 8] {
        last(self.0)
    }
}

/// The fixed IPv6 header (RFC 8200 §3).
#[derive(Debug, Clone, Copy)]
pub struct Ipv6<'a>(&'a [u8; Ipv6::LEN]);

impl<'a> Ipv6<'a> {
    /// Bytes of the header without extension headers.
    pub const LEN: usize = 40;

    /// The raw bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8; Ipv6::LEN] {
        self.0
    }

    /// The traffic class.
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        (be32(self.0, 0) >> 20) as u8
    }

    /// The flow label, 20 bits.
    #[must_use]
    pub fn flow_label(&self) -> u32 {
        be32(self.0, 0) & 0xf_ffff
    }

    /// Number of bytes after this header, extension headers included, as the header gives it.
    #[must_use]
    pub fn payload_len(&self) -> u16 {
        be16(self.0, 4)
    }

    /// The type of the header that follows: see [`protocol`].
    #[must_use]
    pub fn next_header(&self) -> u8 {
        self.0[6]
    }

    /// The hop limit.
    #[must_use]
    pub fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// Returns the first protocol behind hop-by-hop options, routing headers and destination options
    /// of this packet, and its offset, which may be past the end. Returns `None` if the packet ends
    /// within these headers.
    #[must_use]
    pub fn upper_layer(&self, packet: &[u8]) -> Option<(u8, usize)> {
        let (mut next, mut at) = (self.next_header(), Ipv6::LEN);
        while matches!(
            next,
            protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION
        ) {
            let [header, length] = *packet.get(at..)?.first_chunk()?;
            next = header;
            at += (usize::from(length) + 1) * 8;
        }
        Some((next, at))
    }

    /// The source address, then the destination address.
    #[must_use]
    pub fn addresses(&self) -> &'a [u8; 32] {
        last(self.0)
    }
}

/// The fixed part of an IP header.
#[derive(Debug, Clone, Copy)]
pub enum Ip<'a> {
    /// IPv4.
    V4(Ipv4<'a>),
    /// IPv6.
    V6(Ipv6<'a>),
}

impl<'a> Ip<'a> {
    /// Splits a packet after the fixed part of its IP header. Returns `None` if the version is
    /// unknown or the packet is too short.
    #[inline]
    #[must_use]
    pub fn split(packet: &'a [u8]) -> Option<(Ip<'a>, &'a [u8])> {
        match packet.first()? >> 4 {
            4 => {
                let (header, rest) = packet.split_first_chunk()?;
                Some((Ip::V4(Ipv4(header)), rest))
            }
            6 => {
                let (header, rest) = packet.split_first_chunk()?;
                Some((Ip::V6(Ipv6(header)), rest))
            }
            _ => None,
        }
    }

    /// Returns the fixed part of the IP header at the start of a packet.
    #[must_use]
    pub fn read(packet: &'a [u8]) -> Option<Ip<'a>> {
        Self::split(packet).map(|(ip, _)| ip)
    }

    /// The type of service, or traffic class.
    #[must_use]
    pub fn traffic_class(&self) -> u8 {
        match self {
            Ip::V4(ip) => ip.tos(),
            Ip::V6(ip) => ip.traffic_class(),
        }
    }

    /// The source address.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        match self {
            Ip::V4(ip) => first::<8, 4>(ip.addresses()).into(),
            Ip::V6(ip) => first::<32, 16>(ip.addresses()).into(),
        }
    }

    /// The destination address.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        match self {
            Ip::V4(ip) => (*last::<8, 4>(ip.addresses())).into(),
            Ip::V6(ip) => (*last::<32, 16>(ip.addresses())).into(),
        }
    }
}

/// The first `M` bytes of `N`.
fn first<const N: usize, const M: usize>(bytes: &[u8; N]) -> [u8; M] {
    const { assert!(M <= N) };
    *bytes.first_chunk().expect("M is not more than N")
}

/// The last `M` bytes of `N`.
#[inline]
fn last<const N: usize, const M: usize>(bytes: &[u8; N]) -> &[u8; M] {
    const { assert!(M <= N) };
    bytes.last_chunk().expect("M is not more than N")
}
