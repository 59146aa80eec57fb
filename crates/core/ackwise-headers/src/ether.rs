/// EtherTypes of IEEE 802, in host byte order.
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// A VLAN tag (802.1Q).
    pub const VLAN: u16 = 0x8100;
    /// The outer of two VLAN tags (802.1ad).
    pub const QINQ: u16 = 0x88a8;
}

/// The offset of the first EtherType in an Ethernet frame.
const FIRST_ETHER_TYPE: usize = 12;
/// Bytes of a VLAN tag.
const VLAN_TAG_LEN: usize = 4;
/// The maximum number of VLAN tags that are read.
const MAX_TAGS: usize = 2;

/// The layer that the first byte of a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// An Ethernet header.
    Ethernet,
    /// An IPv4 or IPv6 header.
    Ip,
}

/// The EtherType behind the VLAN tags, and the offset of its payload.
pub(crate) struct Payload {
    pub ether_type: u16,
    pub offset: usize,
}

/// Reads an Ethernet header and up to two VLAN tags. With more tags, the EtherType is that of a
/// tag. Returns `None` if the frame is too short.
pub(crate) fn payload(frame: &[u8]) -> Option<Payload> {
    let mut at = FIRST_ETHER_TYPE;
    loop {
        let ether_type = be16_at(frame, at)?;
        let is_tag = matches!(ether_type, ether_type::VLAN | ether_type::QINQ);
        if !is_tag || at >= FIRST_ETHER_TYPE + MAX_TAGS * VLAN_TAG_LEN {
            let offset = at + 2;
            return Some(Payload { ether_type, offset });
        }
        at += VLAN_TAG_LEN;
    }
}

fn be16_at(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?))
}

/// Returns the offset of the IP header in bytes: behind the Ethernet header and up to two VLAN
/// tags, or 0 on a link without a link header. Returns `None` if the frame is not IP.
#[must_use]
pub fn ip_offset(frame: &[u8], link: LinkKind) -> Option<usize> {
    match link {
        LinkKind::Ip => Some(0),
        LinkKind::Ethernet => payload(frame)
            .filter(|p| matches!(p.ether_type, ether_type::IPV4 | ether_type::IPV6))
            .map(|p| p.offset),
    }
}

/// Returns the first EtherType of a frame, which may be that of a VLAN tag. On a link without a
/// link header it follows from the IP version; anything but IPv6 counts as IPv4. Returns `None` if
/// an Ethernet frame is too short.
#[must_use]
pub fn first_ether_type(frame: &[u8], link: LinkKind) -> Option<u16> {
    match link {
        LinkKind::Ethernet => be16_at(frame, FIRST_ETHER_TYPE),
        LinkKind::Ip => Some(match frame.first().map(|first| first >> 4) {
            Some(6) => ether_type::IPV6,
            _ => ether_type::IPV4,
        }),
    }
}
