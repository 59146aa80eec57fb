//! Finds the IP packets in a captured frame, for the link layers of capture files.

use ackwise_policy::LinkKind;

/// A link type from the tcpdump group's list (LINKTYPE_*), which pcap and pcapng share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LinkType(pub u32);

/// A packet for the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inner<'a> {
    /// The layer that the first byte belongs to.
    pub kind: LinkKind,
    /// The captured bytes.
    pub bytes: &'a [u8],
    /// Its length on the wire in bytes.
    pub len: u32,
    /// The interface that the frame itself names; 0 if it names none.
    pub interface: u32,
}

/// Why a frame has no packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPacket {
    /// The frame holds something other than IP.
    NotIp,
    /// The capture ends within the link-layer headers.
    Truncated,
    /// The payload is encrypted.
    Encrypted,
    /// The link type is unsupported.
    Unsupported,
}

const NULL: u32 = 0;
const ETHERNET: u32 = 1;
const PPP: u32 = 9;
const RAW_OPENBSD: u32 = 12;
const RAW_BSD: u32 = 14;
const RAW: u32 = 101;
const PPP_HDLC: u32 = 50;
const PPP_ETHER: u32 = 51;
const IEEE802_11: u32 = 105;
const LOOP: u32 = 108;
const LINUX_SLL: u32 = 113;
const RADIOTAP: u32 = 127;
const IPV4: u32 = 228;
const IPV6: u32 = 229;
const LINUX_SLL2: u32 = 276;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const ETHERTYPE_PPPOE: u16 = 0x8864;
const PPP_IPV4: u16 = 0x0021;
const PPP_IPV6: u16 = 0x0057;

impl LinkType {
    /// The names of the supported link types, for messages.
    pub const SUPPORTED: &'static str = "Ethernet, Linux cooked (SLL, SLL2), raw IP, BSD loopback, \
                                         PPP, PPPoE, 802.11 (plain or with radiotap)";

    /// Calls `each` with every packet in a frame: one, or several if 802.11 aggregated frames
    /// (A-MSDU).
    ///
    /// # Errors
    /// The reason why the frame has no packet.
    pub fn packets<'a>(
        self,
        frame: &'a [u8],
        wire_len: u32,
        each: &mut dyn FnMut(Inner<'a>),
    ) -> Result<(), NoPacket> {
        let rest = Rest {
            bytes: frame,
            len: wire_len,
            interface: 0,
        };
        match self.0 {
            ETHERNET => return ethernet(rest, each),
            IEEE802_11 => return wifi(rest, each),
            RADIOTAP => return radiotap(rest, each),
            _ => {}
        }
        let inner = match self.0 {
            RAW | RAW_BSD | RAW_OPENBSD | IPV4 | IPV6 => ip(rest),
            NULL => {
                let family = rest.array::<4>(0)?;
                loopback(
                    rest.skip(4)?,
                    u32::from_le_bytes(family).min(u32::from_be_bytes(family)),
                )
            }
            LOOP => loopback(rest.skip(4)?, u32::from_be_bytes(rest.array(0)?)),
            PPP | PPP_HDLC => ppp(rest),
            PPP_ETHER => pppoe(rest),
            LINUX_SLL => by_ether_type(rest.be16(14)?, rest.skip(16)?),
            LINUX_SLL2 => {
                let mut inner = rest.skip(20)?;
                inner.interface = u32::from_be_bytes(rest.array(4)?);
                by_ether_type(rest.be16(0)?, inner)
            }
            _ => Err(NoPacket::Unsupported),
        };
        each(inner?);
        Ok(())
    }
}

/// The unread rest of a frame.
#[derive(Clone, Copy)]
struct Rest<'a> {
    bytes: &'a [u8],
    len: u32,
    interface: u32,
}

impl<'a> Rest<'a> {
    fn array<const N: usize>(self, at: usize) -> Result<[u8; N], NoPacket> {
        let bytes = self.bytes.get(at..).and_then(<[u8]>::first_chunk);
        bytes.copied().ok_or(NoPacket::Truncated)
    }

    fn be16(self, at: usize) -> Result<u16, NoPacket> {
        self.array(at).map(u16::from_be_bytes)
    }

    fn byte(self, at: usize) -> Result<u8, NoPacket> {
        self.bytes.get(at).copied().ok_or(NoPacket::Truncated)
    }

    fn skip(self, n: usize) -> Result<Rest<'a>, NoPacket> {
        Ok(Rest {
            bytes: self.bytes.get(n..).ok_or(NoPacket::Truncated)?,
            len: self
                .len
                .saturating_sub(u32::try_from(n).unwrap_or(u32::MAX)),
            interface: self.interface,
        })
    }

    /// Only its first `n` bytes.
    fn first(self, n: usize) -> Rest<'a> {
        Rest {
            bytes: &self.bytes[..n.min(self.bytes.len())],
            len: self.len.min(u32::try_from(n).unwrap_or(u32::MAX)),
            interface: self.interface,
        }
    }

    fn inner(self, kind: LinkKind) -> Inner<'a> {
        Inner {
            kind,
            bytes: self.bytes,
            len: self.len,
            interface: self.interface,
        }
    }
}

fn ip(rest: Rest<'_>) -> Result<Inner<'_>, NoPacket> {
    match rest.byte(0)? >> 4 {
        4 | 6 => Ok(rest.inner(LinkKind::Ip)),
        _ => Err(NoPacket::NotIp),
    }
}

fn ethernet<'a>(rest: Rest<'a>, each: &mut dyn FnMut(Inner<'a>)) -> Result<(), NoPacket> {
    // The parser reads Ethernet with up to two tags by itself, and flows are told apart by the
    // tags.
    match rest.be16(12)? {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => each(rest.inner(LinkKind::Ethernet)),
        tag if ETHERTYPE_VLAN.contains(&tag) => {
            let inner = by_ether_type(tag, rest.skip(14)?)?;
            let offset = rest.bytes.len() - inner.bytes.len();
            if matches!(rest.be16(offset - 2)?, ETHERTYPE_IPV4 | ETHERTYPE_IPV6) && offset <= 22 {
                each(rest.inner(LinkKind::Ethernet));
            } else {
                each(inner);
            }
        }
        other => each(by_ether_type(other, rest.skip(14)?)?),
    }
    Ok(())
}

/// The packet after an EtherType, behind any number of VLAN tags.
fn by_ether_type(ether_type: u16, rest: Rest<'_>) -> Result<Inner<'_>, NoPacket> {
    match ether_type {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => ip(rest),
        ETHERTYPE_PPPOE => pppoe(rest),
        tag if ETHERTYPE_VLAN.contains(&tag) => by_ether_type(rest.be16(2)?, rest.skip(4)?),
        _ => Err(NoPacket::NotIp),
    }
}

/// A PPPoE session frame carries PPP (RFC 2516 §4).
fn pppoe(rest: Rest<'_>) -> Result<Inner<'_>, NoPacket> {
    if rest.byte(1)? != 0 {
        return Err(NoPacket::NotIp); // discovery
    }
    let len = usize::from(rest.be16(4)?);
    ppp(rest.skip(6)?.first(len))
}

/// A PPP frame: address and control may be absent, and the protocol field may be one byte (RFC 1661
/// §2, RFC 1662 §3.1).
fn ppp(rest: Rest<'_>) -> Result<Inner<'_>, NoPacket> {
    let rest = if rest.be16(0)? == 0xff03 {
        rest.skip(2)?
    } else {
        rest
    };
    let (protocol, rest) = if rest.byte(0)? & 1 == 1 {
        (u16::from(rest.byte(0)?), rest.skip(1)?)
    } else {
        (rest.be16(0)?, rest.skip(2)?)
    };
    match protocol {
        PPP_IPV4 | PPP_IPV6 => ip(rest),
        _ => Err(NoPacket::NotIp),
    }
}

/// The address families of the BSDs: IPv4 is 2, and IPv6 differs between them.
fn loopback(rest: Rest<'_>, family: u32) -> Result<Inner<'_>, NoPacket> {
    match family {
        2 | 10 | 24 | 28 | 30 => ip(rest),
        _ => Err(NoPacket::NotIp),
    }
}

fn radiotap<'a>(rest: Rest<'a>, each: &mut dyn FnMut(Inner<'a>)) -> Result<(), NoPacket> {
    let len = u16::from_le_bytes(rest.array(2)?);
    let padded = radiotap_flags(rest)?.is_some_and(|flags| flags & 0x20 != 0);
    wifi_frame(rest.skip(usize::from(len))?, padded, each)
}

/// The field "flags", which follows an 8-byte time if there is one.
fn radiotap_flags(rest: Rest<'_>) -> Result<Option<u8>, NoPacket> {
    let word = |at| rest.array(at).map(u32::from_le_bytes);
    let present = word(4)?;
    if present & 2 == 0 {
        return Ok(None);
    }
    let mut at = 8;
    let mut more = present;
    while more & 1 << 31 != 0 {
        more = word(at)?;
        at += 4;
    }
    if present & 1 != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    rest.byte(at).map(Some)
}

fn wifi<'a>(rest: Rest<'a>, each: &mut dyn FnMut(Inner<'a>)) -> Result<(), NoPacket> {
    wifi_frame(rest, false, each)
}

/// A data frame (IEEE 802.11-2020 §9.3.2), `padded` to four bytes after its header.
fn wifi_frame<'a>(
    rest: Rest<'a>,
    padded: bool,
    each: &mut dyn FnMut(Inner<'a>),
) -> Result<(), NoPacket> {
    let control = rest.byte(0)?;
    let flags = rest.byte(1)?;
    let (kind, subtype) = (control >> 2 & 3, control >> 4);
    // A data frame with a body.
    if kind != 2 || subtype & 4 != 0 {
        return Err(NoPacket::NotIp);
    }
    if flags & 0x40 != 0 {
        return Err(NoPacket::Encrypted);
    }
    let mut header = 24;
    if flags & 3 == 3 {
        header += 6; // a fourth address
    }
    let mut together = false;
    if subtype & 8 != 0 {
        together = rest.byte(header)? & 0x80 != 0;
        header += 2;
        if flags & 0x80 != 0 {
            header += 4; // HT control
        }
    }
    if padded {
        header = header.next_multiple_of(4);
    }
    let mut body = rest.skip(header)?;
    if !together {
        each(llc(body)?);
        return Ok(());
    }
    // Subframes: two addresses, a length and LLC; each but the last is padded to four bytes.
    let mut found = Err(NoPacket::NotIp);
    while body.bytes.len() > 14 {
        let len = usize::from(body.be16(12)?);
        if let Ok(inner) = body.skip(14).and_then(|b| llc(b.first(len))) {
            each(inner);
            found = Ok(());
        }
        match body.skip((14 + len).next_multiple_of(4)) {
            Ok(next) => body = next,
            Err(_) => break,
        }
    }
    found
}

/// LLC with SNAP (RFC 1042).
fn llc(rest: Rest<'_>) -> Result<Inner<'_>, NoPacket> {
    if rest.array(0)? != [0xaa, 0xaa, 3, 0, 0, 0] {
        return Err(NoPacket::NotIp);
    }
    by_ether_type(rest.be16(6)?, rest.skip(8)?)
}
