//! Parses a TCP segment without payload into its fields, and writes it from them.

use ackwise_headers::protocol::TCP;
use ackwise_headers::{Ip, Ipv4, Ipv6, Tcp, checksum};

use crate::flow_key::FlowKey;
use crate::options::{MAX_OPTIONS, OptionLayout, Values};

/// The longest packet that [`Ack::parse`] accepts: IPv6 and a TCP header with all options.
pub(crate) const MAX_PACKET: usize = IPV6 + TCP_HEADER + MAX_OPTIONS;

const IPV4: usize = Ipv4::LEN;
const IPV6: usize = Ipv6::LEN;
const TCP_HEADER: usize = Tcp::LEN;

/// "Don't fragment" and the reserved bit of the IPv4 header. Packets with other bits in this
/// field are fragments.
const FRAG_KEPT: u16 = 0xc000;

/// The fields of the IP and TCP headers that are not implied by others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    pub key: FlowKey,
    /// The type of service, or traffic class.
    pub tos: u8,
    /// The time to live, or hop limit.
    pub ttl: u8,
    /// IPv4: the flags of the fragmentation field.
    pub frag: u16,
    /// IPv4: the identification.
    pub ip_id: u16,
    /// IPv6: the flow label.
    pub label: u32,
    pub seq: u32,
    pub ack: u32,
    /// The twelve bits after the data offset.
    pub flags: u16,
    pub window: u16,
    pub urgent: u16,
    /// The TCP checksum if it is wrong. A correct one is computed.
    pub bad_checksum: Option<u16>,
    pub layout: OptionLayout,
    pub values: Values,
}

impl Ack {
    /// Parses a packet that begins with its IP header. Returns `None` for packets that cannot
    /// be restored from the fields: another protocol, a fragment, IPv4 options, IPv6
    /// extension headers, payload, a wrong IPv4 checksum, contradicting lengths.
    pub fn parse(packet: &[u8]) -> Option<Ack> {
        if packet.len() > MAX_PACKET {
            return None;
        }
        match Ip::split(packet)? {
            (Ip::V4(ip), tcp) => Self::parse_v4(ip, tcp),
            (Ip::V6(ip), tcp) => Self::parse_v6(ip, tcp),
        }
    }

    #[inline(always)]
    fn parse_v4(ip: Ipv4<'_>, tcp: &[u8]) -> Option<Ack> {
        let (frag, given) = (ip.frag_off(), ip.checksum());
        let fits = ip.header_len() == Ipv4::LEN
            && usize::from(ip.total_len()) == Ipv4::LEN + tcp.len()
            && frag & !FRAG_KEPT == 0
            && ip.protocol() == TCP
            && checksum::fold(checksum::sum(ip.bytes()) - checksum::word(given)) == given;
        fits.then_some(())?;
        let addresses = ip.addresses();
        let mut ack = Self::parse_tcp(checksum::sum(addresses), tcp)?;
        ack.key = FlowKey::v4(*tcp.first_chunk()?, *addresses);
        ack.tos = ip.tos();
        ack.ip_id = ip.id();
        ack.frag = frag;
        ack.ttl = ip.ttl();
        Some(ack)
    }

    fn parse_v6(ip: Ipv6<'_>, tcp: &[u8]) -> Option<Ack> {
        let fits = usize::from(ip.payload_len()) == tcp.len() && ip.next_header() == TCP;
        fits.then_some(())?;
        let addresses = ip.addresses();
        let mut ack = Self::parse_tcp(checksum::sum(addresses), tcp)?;
        ack.key = FlowKey::v6(*tcp.first_chunk()?, *addresses);
        ack.tos = ip.traffic_class();
        ack.label = ip.flow_label();
        ack.ttl = ip.hop_limit();
        Some(ack)
    }

    /// Parses the TCP header; `addresses` is the sum of the IP addresses. The fields of the
    /// IP header stay empty.
    #[inline(always)]
    fn parse_tcp(addresses: u64, segment: &[u8]) -> Option<Ack> {
        let (tcp, options) = Tcp::split(segment)?;
        if tcp.header_len() != segment.len() {
            return None;
        }
        let mut values = Values::default();
        let layout = OptionLayout::read(options, &mut values)?;
        let given = tcp.checksum();
        let all = addresses + checksum::pseudo_header(TCP, segment.len()) + checksum::sum(segment)
            - checksum::word(given);
        let wrong = checksum::fold(all) != given;
        Some(Ack {
            key: FlowKey::NONE,
            tos: 0,
            ttl: 0,
            frag: 0,
            ip_id: 0,
            label: 0,
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            urgent: tcp.urgent(),
            bad_checksum: wrong.then_some(u16::from_be_bytes(given)),
            layout,
            values,
        })
    }

    /// Appends the packet to `out`. Returns `None`, and leaves `out` as it was, if the fields
    /// are not those of a packet.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let mut packet = [0; MAX_PACKET];
        let len = if self.key.v6 {
            let (ip, tcp) = packet.split_first_chunk_mut::<IPV6>()?;
            let addresses = self.key.addresses_v6();
            let len = self.write_tcp(checksum::sum(&addresses), tcp.first_chunk_mut()?)?;
            let first = 0x6000_0000 | u32::from(self.tos) << 20 | self.label & 0xf_ffff;
            put(ip, 0, first.to_be_bytes());
            put(ip, 4, (len as u16).to_be_bytes());
            put(ip, 6, [TCP, self.ttl]);
            put(ip, 8, addresses);
            IPV6 + len
        } else {
            let (ip, tcp) = packet.split_first_chunk_mut::<IPV4>()?;
            let addresses = self.key.addresses_v4();
            let sum = checksum::sum(&addresses);
            let len = IPV4 + self.write_tcp(sum, tcp.first_chunk_mut()?)?;
            put(ip, 0, [0x45, self.tos]);
            put(ip, 2, (len as u16).to_be_bytes());
            put(ip, 4, self.ip_id.to_be_bytes());
            put(ip, 6, (self.frag & FRAG_KEPT).to_be_bytes());
            put(ip, 8, [self.ttl, TCP]);
            let sum = checksum::fold(checksum::sum(&ip[..12]) + sum);
            put(ip, 10, sum);
            put(ip, 12, addresses);
            len
        };
        out.extend_from_slice(packet.get(..len)?);
        Some(())
    }

    /// Writes the TCP header and returns its length. `addresses` is the sum of the IP
    /// addresses.
    #[inline(always)]
    fn write_tcp(&self, addresses: u64, tcp: &mut [u8; TCP_HEADER + MAX_OPTIONS]) -> Option<usize> {
        let (header, options) = tcp.split_first_chunk_mut::<TCP_HEADER>()?;
        let options = self
            .layout
            .write(&self.values, options.first_chunk_mut()?)?;
        let len = TCP_HEADER + options;
        put(header, 0, self.key.ports());
        put(header, 4, self.seq.to_be_bytes());
        put(header, 8, self.ack.to_be_bytes());
        let offset = (len / 4) as u16;
        put(
            header,
            12,
            (offset << 12 | self.flags & 0xfff).to_be_bytes(),
        );
        put(header, 14, self.window.to_be_bytes());
        put(header, 18, self.urgent.to_be_bytes());
        let sum = match self.bad_checksum {
            Some(wrong) => wrong.to_be_bytes(),
            None => checksum::fold(
                addresses + checksum::pseudo_header(TCP, len) + checksum::sum(tcp.get(..len)?),
            ),
        };
        put(tcp, 16, sum);
        Some(len)
    }
}

/// Writes bytes at a constant offset.
#[inline(always)]
fn put<const N: usize, const M: usize>(to: &mut [u8; M], at: usize, bytes: [u8; N]) {
    to[at..at + N].copy_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACK as Linux sent it.
    pub(crate) const LINUX: [u8; 52] = [
        0x45, 0x00, 0x00, 0x34, 0x4f, 0xe9, 0x40, 0x00, 0x40, 0x06, 0xd6, 0x3f, 0x0a, 0x4d, 0x01,
        0x02, 0x0a, 0x4d, 0x01, 0x01, 0x13, 0x89, 0xbd, 0x6c, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc,
        0xde, 0xf0, 0x80, 0x10, 0x02, 0x86, 0x00, 0x00, 0x00, 0x00, 0x01, 0x01, 0x08, 0x0a, 0x1d,
        0xf1, 0x1e, 0x65, 0x3e, 0x72, 0x2d, 0x3d,
    ];

    fn with_checksums(packet: &mut [u8]) {
        packet[10..12].fill(0);
        let sum = checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum);
        packet[36..38].fill(0);
        let sum = checksum::of_segment(&packet[12..20], TCP, &packet[20..]);
        packet[36..38].copy_from_slice(&sum);
    }

    #[test]
    fn apart_and_together() {
        let mut packet = LINUX;
        with_checksums(&mut packet);
        let ack = Ack::parse(&packet).expect("an ACK");
        assert_eq!(ack.bad_checksum, None);
        assert_eq!((ack.window, ack.ip_id), (0x286, 0x4fe9));
        let mut out = vec![9];
        ack.write(&mut out).expect("writable");
        assert_eq!(out[1..], packet);
    }

    #[test]
    fn a_wrong_tcp_checksum_stays_wrong() {
        let mut packet = LINUX;
        with_checksums(&mut packet);
        packet[37] ^= 1;
        let ack = Ack::parse(&packet).expect("an ACK");
        assert!(ack.bad_checksum.is_some());
        let mut out = Vec::new();
        ack.write(&mut out).expect("writable");
        assert_eq!(out, packet);
    }

    #[test]
    fn what_cannot_be_restored_is_not_taken() {
        let mut good = LINUX;
        with_checksums(&mut good);
        let wrong = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut packet = good.to_vec();
            change(&mut packet);
            assert_eq!(Ack::parse(&packet), None);
        };
        wrong(&|p| p[10] ^= 1);
        wrong(&|p| p.push(0));
        wrong(&|p| p.truncate(39));
        wrong(&|p| p.truncate(3));
        wrong(&|p| p.clear());
        wrong(&|p| p[0] = 0x55);
        wrong(&|p| p[32] = 0x50);
    }
}
