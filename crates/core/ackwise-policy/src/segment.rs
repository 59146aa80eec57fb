//! A TCP segment as it is on the wire.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ackwise_headers::{LinkKind, ParseError};
use bitflags::bitflags;

use crate::sys;

bitflags! {
    /// The flags of a TCP header, with AE (RFC 9768) and the reserved bits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct TcpFlags: u16 {
        /// No more data from the sender.
        const FIN = sys::AW_TCP_FIN as u16;
        /// Synchronise sequence numbers.
        const SYN = sys::AW_TCP_SYN as u16;
        /// Reset.
        const RST = sys::AW_TCP_RST as u16;
        /// Push.
        const PSH = sys::AW_TCP_PSH as u16;
        /// The acknowledgment number is valid.
        const ACK = sys::AW_TCP_ACK as u16;
        /// The urgent pointer is valid.
        const URG = sys::AW_TCP_URG as u16;
        /// ECN echo.
        const ECE = sys::AW_TCP_ECE as u16;
        /// Congestion window reduced.
        const CWR = sys::AW_TCP_CWR as u16;
        /// Accurate ECN; formerly the nonce sum.
        const AE = sys::AW_TCP_AE as u16;
        /// On data, a reserved bit that asks for an ACK at once.
        const ACK_REQUEST = sys::AW_TCP_ACK_REQUEST as u16;
        /// The three bits that are still reserved.
        const RESERVED = sys::AW_TCP_RESERVED as u16;
    }
}

bitflags! {
    /// The TCP options that a segment carries.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Options: u16 {
        /// Maximum segment size.
        const MSS = sys::AW_OPT_MSS as u16;
        /// Window scale.
        const WSCALE = sys::AW_OPT_WSCALE as u16;
        /// SACK permitted.
        const SACK_OK = sys::AW_OPT_SACK_OK as u16;
        /// SACK blocks.
        const SACK = sys::AW_OPT_SACK as u16;
        /// Timestamps.
        const TS = sys::AW_OPT_TS as u16;
        /// Accurate ECN counters.
        const ACCECN = sys::AW_OPT_ACCECN as u16;
        /// An option that is unknown, malformed, or present twice.
        const UNKNOWN = sys::AW_OPT_UNKNOWN as u16;
    }
}

/// A TCP segment.
#[derive(Clone, Copy)]
pub struct Segment(pub(crate) sys::aw_seg);

impl Segment {
    fn address(&self, addr: &sys::aw_addr) -> IpAddr {
        if self.0.ip_version == 4 {
            return Ipv4Addr::from(addr.w[0].to_ne_bytes()).into();
        }
        let mut bytes = [0; 16];
        for (to, word) in bytes.chunks_exact_mut(4).zip(addr.w) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        Ipv6Addr::from(bytes).into()
    }

    /// The source address.
    pub fn src(&self) -> SocketAddr {
        SocketAddr::new(self.address(&self.0.src), u16::from_be(self.0.sport))
    }

    /// The destination address.
    pub fn dst(&self) -> SocketAddr {
        SocketAddr::new(self.address(&self.0.dst), u16::from_be(self.0.dport))
    }

    /// Its flags.
    pub fn flags(&self) -> TcpFlags {
        TcpFlags::from_bits_retain(self.0.flags)
    }

    /// The options it carries.
    pub fn options(&self) -> Options {
        Options::from_bits_retain(self.0.opts)
    }

    /// Its sequence number.
    pub fn seq(&self) -> u32 {
        self.0.seq
    }

    /// Its acknowledgment number.
    pub fn ack(&self) -> u32 {
        self.0.ack
    }

    /// Payload bytes, in all segments of an aggregated packet.
    pub fn payload(&self) -> u32 {
        self.0.payload
    }

    /// Its length from the IP header on.
    pub fn ip_len(&self) -> u32 {
        self.0.len
    }

    /// The window field as it is on the wire, not scaled.
    pub fn window(&self) -> u16 {
        self.0.window
    }

    /// TSval and TSecr.
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        self.options()
            .contains(Options::TS)
            .then_some((self.0.tsval, self.0.tsecr))
    }

    /// The SACK blocks as received: left and right edge.
    pub fn sack(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let n = (self.0.n_sack as usize).min(sys::AW_SACK_BLOCKS as usize);
        self.0
            .sack
            .chunks_exact(2)
            .take(n)
            .map(|block| (block[0], block[1]))
    }

    /// The ECEB counter of an Accurate ECN option, if it has one.
    pub fn ce_bytes(&self) -> Option<u32> {
        (self.0.ce_bytes != u32::MAX).then_some(self.0.ce_bytes)
    }

    /// The EE0B counter of an Accurate ECN option, if it has one.
    pub fn e0_bytes(&self) -> Option<u32> {
        (self.0.e0_bytes != u32::MAX).then_some(self.0.e0_bytes)
    }

    /// The EE1B counter of an Accurate ECN option, if it has one.
    pub fn e1_bytes(&self) -> Option<u32> {
        (self.0.e1_bytes != u32::MAX).then_some(self.0.e1_bytes)
    }

    /// The C structure of the segment.
    pub fn raw(&self) -> &sys::aw_seg {
        &self.0
    }

    /// A segment built by a simulator or a test instead of parsed.
    pub fn from_raw(raw: sys::aw_seg) -> Segment {
        Segment(raw)
    }
}

impl fmt::Debug for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment")
            .field("src", &self.src())
            .field("dst", &self.dst())
            .field("flags", &self.flags())
            .field("seq", &self.seq())
            .field("ack", &self.ack())
            .field("payload", &self.payload())
            .field("window", &self.window())
            .field("options", &self.options())
            .finish_non_exhaustive()
    }
}

/// Parses the headers of a whole packet.
///
/// # Errors
///
/// The packet is not TCP, is a fragment, is truncated or is malformed.
pub fn parse(packet: &[u8], link: LinkKind) -> Result<Segment, ParseError> {
    parse_part(packet, link, packet.len())
}

/// Parses the headers of a packet of which only the first bytes are present.
///
/// # Errors
///
/// The packet is not TCP, is a fragment, is malformed, or its headers extend beyond these bytes.
pub fn parse_part(packet: &[u8], link: LinkKind, total_len: usize) -> Result<Segment, ParseError> {
    let n = u32::try_from(packet.len()).unwrap_or(u32::MAX);
    let total = u32::try_from(total_len).unwrap_or(u32::MAX);
    let link = match link {
        LinkKind::Ethernet => sys::AW_LINK_ETHERNET,
        LinkKind::Ip => sys::AW_LINK_IP,
    };
    let mut seg = sys::aw_seg::default();
    // SAFETY: n bytes are readable at the pointer, and seg is writable; the parser keeps neither.
    let status = unsafe { sys::aw_shim_parse(packet.as_ptr(), n, link, total, &mut seg) };
    match status {
        sys::AW_PARSE_OK => Ok(Segment(seg)),
        sys::AW_PARSE_NOT_TCP => Err(ParseError::NotTcp),
        sys::AW_PARSE_FRAGMENT => Err(ParseError::Fragment),
        sys::AW_PARSE_TRUNCATED => Err(ParseError::Truncated),
        _ => Err(ParseError::Malformed),
    }
}
