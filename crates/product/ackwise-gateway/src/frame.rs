//! A packet in a buffer, as the disciplines of `ackwise-queue` see it.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};

use ackwise_headers::{Ip, Ipv4, checksum, ip_offset};
use ackwise_policy::{LinkKind, Segment, TcpFlags, parse};
use ackwise_queue::{Ecn, Packet};
use siphasher::sip::SipHasher13;

const CE: u8 = 3;
/// The length of an Ethernet header, without tags of VLANs, bytes.
const ETHERNET_HEADER: usize = 14;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_SCTP: u8 = 132;

/// The contents of a buffer.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
    len: usize,
    /// The offset of the IP header, if there is one.
    ip: Option<usize>,
    link: LinkKind,
    segment: Option<Segment>,
}

/// A boxed frame, so that a queue moves one word.
#[derive(Debug)]
pub struct FrameBuf(Box<Frame>);

impl Deref for FrameBuf {
    type Target = Frame;

    fn deref(&self) -> &Frame {
        &self.0
    }
}

impl DerefMut for FrameBuf {
    fn deref_mut(&mut self) -> &mut Frame {
        &mut self.0
    }
}

/// A connection in one direction. Everything that is not TCP is one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    ends: Option<(SocketAddr, SocketAddr)>,
    /// VLAN identifiers of 12 bits each, the innermost in the low bits; 0 if there is none.
    /// Networks in two VLANs may use the same addresses.
    vlans: u32,
}

impl Hash for Flow {
    /// Hashes few words, since this runs for every packet. The words contain all that distinguishes
    /// flows: a host that chooses addresses and ports must not be able to find flows with one hash,
    /// among which a table would search linearly.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Some((from, to)) = self.ends else { return };
        let ports = u64::from(from.port()) << 16 | u64::from(to.port());
        state.write_u64(ports << 32 | u64::from(self.vlans));
        match (from.ip(), to.ip()) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                state.write_u64(u64::from(from.to_bits()) << 32 | u64::from(to.to_bits()));
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                state.write_u128(from.to_bits());
                state.write_u128(to.to_bits());
            }
            // A packet has two addresses of one family.
            _ => {}
        }
    }
}

impl AsRef<[u8]> for FrameBuf {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl FrameBuf {
    /// An empty buffer for frames of up to `size` bytes.
    #[must_use]
    pub fn with_room(size: usize) -> Self {
        Self(Box::new(Frame {
            bytes: vec![0; size],
            len: 0,
            ip: None,
            link: LinkKind::Ip,
            segment: None,
        }))
    }
}

impl Frame {
    /// The whole buffer, to be written to; call [`filled`](Self::filled) afterwards.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Declares that the first `len` bytes are a frame of a link of this kind. Its headers are
    /// parsed only if `parse_headers` is set.
    pub fn filled(&mut self, len: usize, link: LinkKind, parse_headers: bool) {
        self.len = len.min(self.bytes.len());
        let frame = &self.bytes[..self.len];
        self.ip = ip_offset(frame, link);
        self.link = link;
        self.segment = if parse_headers {
            parse(frame, link).ok()
        } else {
            None
        };
    }

    /// The frame.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The length of the IP packet, or of the frame if it is not IP.
    #[must_use]
    pub fn ip_len(&self) -> u32 {
        (self.len - self.ip.unwrap_or(0)) as u32
    }

    /// What all packets of a flow have in common: the addresses, the protocol, and the ports where
    /// the protocol has them and the packet is not a fragment. `None` without an IP header.
    fn flow_key(&self) -> Option<impl Hash> {
        let packet = &self.bytes()[self.ip?..];
        let ip = Ip::read(packet)?;
        let (protocol, payload) = match &ip {
            Ip::V4(ip) if ip.is_fragment() => (ip.protocol(), None),
            Ip::V4(ip) => {
                let length = Some(ip.header_len());
                (ip.protocol(), length.filter(|it| *it >= Ipv4::LEN))
            }
            Ip::V6(ip) => match ip.upper_layer(packet) {
                Some((protocol, at)) => (protocol, Some(at)),
                None => (ip.next_header(), None),
            },
        };
        let has_ports = matches!(protocol, PROTOCOL_TCP | PROTOCOL_UDP | PROTOCOL_SCTP);
        let behind = payload
            .filter(|_| has_ports)
            .and_then(|at| packet.get(at..));
        let ports = behind.and_then(|bytes| bytes.first_chunk::<4>());
        Some((ip.source(), ip.destination(), protocol, ports.copied()))
    }

    /// The VLANs of the frame's tags. A tag of VLAN 0 has only a priority.
    fn vlans(&self) -> u32 {
        let tags = self.ip.and_then(|ip| self.bytes.get(ETHERNET_HEADER..ip));
        // Each tag ends with the EtherType of what follows it.
        let tags = tags.unwrap_or_default().as_chunks::<4>().0.iter();
        let vlans = tags.map(|tag| u32::from(u16::from_be_bytes([tag[0], tag[1]]) & 0xfff));
        vlans
            .filter(|vlan| *vlan != 0)
            .fold(0, |outer, vlan| outer << 12 | vlan)
    }

    fn traffic_class(&self) -> Option<u8> {
        Ip::read(&self.bytes()[self.ip?..]).map(|ip| ip.traffic_class())
    }
}

impl Packet for FrameBuf {
    type Flow = Flow;

    fn flow(&self) -> Flow {
        Flow {
            ends: self.segment.as_ref().map(|s| (s.src(), s.dst())),
            vlans: self.vlans(),
        }
    }

    fn flow_hash(&self, seed: u64) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(seed, 0);
        self.flow_key().hash(&mut hasher);
        hasher.finish()
    }

    fn is_pure_ack(&self) -> bool {
        let opens_or_ends = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;
        self.segment.as_ref().is_some_and(|s| {
            s.payload() == 0
                && s.flags().contains(TcpFlags::ACK)
                && !s.flags().intersects(opens_or_ends)
        })
    }

    fn carries_data(&self) -> bool {
        self.segment.as_ref().is_none_or(|s| s.payload() > 0)
    }

    fn ecn(&self) -> Ecn {
        match self.traffic_class().map(|class| class & CE) {
            Some(CE) => Ecn::Marked,
            Some(1 | 2) => Ecn::Capable,
            _ => Ecn::NotCapable,
        }
    }

    /// Sets CE (RFC 3168 §5), updates the header's checksum, and marks the segment as well.
    fn mark(&mut self) {
        let Some(at) = self.ip else { return };
        let len = self.len;
        let bytes = &mut self.bytes[at..len];
        match Ip::read(bytes) {
            Some(Ip::V4(ip)) => {
                let (old, new) = ([bytes[0], ip.tos()], [bytes[0], ip.tos() | CE]);
                let sum = checksum::update(ip.checksum(), old, new);
                bytes[1] |= CE;
                bytes[10..12].copy_from_slice(&sum);
            }
            Some(Ip::V6(_)) => bytes[1] |= CE << 4,
            None => {}
        }
        if self.segment.is_some() {
            self.segment = parse(self.bytes(), self.link).ok();
        }
    }

    fn segment(&self) -> Option<Segment> {
        self.segment
    }

    /// ACKs are not reconstructed here.
    fn synthesize(&self, _back: u32) -> Option<Self> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack_v4, tcp_v4, tcp_v6};

    fn frame_of(bytes: &[u8], link: LinkKind) -> FrameBuf {
        let mut frame = FrameBuf::with_room(2000);
        frame.room()[..bytes.len()].copy_from_slice(bytes);
        frame.filled(bytes.len(), link, true);
        frame
    }

    #[test]
    fn a_mark_keeps_the_checksum_right() {
        for class in [1, 2, 0xb9, 0xfe] {
            let mut packet = tcp_v4(1, 2, &[]);
            packet[1] = class;
            packet[10..12].fill(0);
            let sum = checksum::of(&packet[..20]);
            packet[10..12].copy_from_slice(&sum);
            let mut frame = frame_of(&packet, LinkKind::Ip);
            assert_eq!(frame.ecn(), Ecn::Capable);
            frame.mark();
            assert_eq!(frame.ecn(), Ecn::Marked);
            assert_eq!(frame.bytes()[1], class | 3);
            assert_eq!(
                checksum::of(&frame.bytes()[..20]),
                [0, 0],
                "class {class:#x}"
            );
            assert_eq!(frame.bytes()[12..], packet[12..]);
        }
    }

    /// The contract keeps a marked ACK, and the filter asks the contract after RED has marked.
    #[test]
    fn the_segment_has_the_mark() {
        let mut packet = tcp_v4(1, 2, &[]);
        packet[1] = 2;
        for link in [LinkKind::Ip, LinkKind::Ethernet] {
            let header = [vec![0; 12], vec![8, 0]].concat();
            let header = if link == LinkKind::Ethernet {
                header
            } else {
                Vec::new()
            };
            let mut frame = frame_of(&[header, packet.clone()].concat(), link);
            let ecn = |frame: &FrameBuf| frame.segment().expect("an ACK").raw().ip_ecn;
            assert_eq!(ecn(&frame), 2);
            frame.mark();
            assert_eq!(ecn(&frame), 3);
        }
    }

    #[test]
    fn a_mark_on_ipv6_behind_two_tags() {
        let mut frame = vec![0; 12];
        frame.extend([0x88, 0xa8, 0, 5, 0x81, 0, 0, 7, 0x86, 0xdd]);
        let mut packet = tcp_v6(7, 8, b"data");
        packet[1] |= 2 << 4;
        frame.extend(&packet);
        let mut frame = frame_of(&frame, LinkKind::Ethernet);
        assert_eq!(frame.ip_len() as usize, packet.len());
        assert_eq!(frame.ecn(), Ecn::Capable);
        frame.mark();
        assert_eq!(frame.ecn(), Ecn::Marked);
        packet[1] |= 3 << 4;
        assert_eq!(&frame.bytes()[22..], &packet[..]);
    }

    #[test]
    fn what_it_is() {
        let ack = frame_of(&tcp_v4(1, 2, &[]), LinkKind::Ip);
        assert!(ack.is_pure_ack() && !ack.carries_data());
        let data = frame_of(&tcp_v4(1, 2, b"x"), LinkKind::Ip);
        assert!(!data.is_pure_ack() && data.carries_data());
        assert_eq!(ack.flow(), data.flow());
        assert_ne!(
            ack.flow(),
            frame_of(&tcp_v4(2, 1, &[]), LinkKind::Ip).flow()
        );
        let mut udp = tcp_v4(1, 2, &[]);
        udp[9] = 17;
        let udp = frame_of(&udp, LinkKind::Ip);
        assert!(udp.segment().is_none() && udp.carries_data() && !udp.is_pure_ack());
    }

    #[test]
    fn flows_are_told_apart_by_their_five_tuple() {
        let hash = |packet: &[u8], seed| frame_of(packet, LinkKind::Ip).flow_hash(seed);
        let base = tcp_v4(1, 2, b"x");
        let mut others = vec![tcp_v4(2, 1, b"x"), tcp_v4(1, 3, b"x"), tcp_v6(1, 2, b"x")];
        for protocol in [17, 47] {
            let mut packet = base.clone();
            packet[9] = protocol;
            others.push(packet);
        }
        let mut address = base.clone();
        address[19] = 9;
        others.push(address);
        for other in &others {
            assert_ne!(hash(&base, 5), hash(other, 5), "{other:x?}");
        }
        // What differs within a flow: numbers, payload and the mark.
        let mut marked = ack_v4(1, 2, 77, b"longer");
        marked[1] = 3;
        assert_eq!(hash(&base, 5), hash(&marked, 5));
        assert_ne!(hash(&base, 5), hash(&base, 6));
        // Also behind extension headers of IPv6: here hop-by-hop options.
        let extended = |from| {
            let mut packet = tcp_v6(from, 2, b"x");
            packet[6] = 0;
            packet.splice(40..40, [6, 0, 1, 4, 0, 0, 0, 0]);
            packet
        };
        assert_ne!(hash(&extended(1), 5), hash(&extended(8), 5));
        assert_eq!(hash(&extended(1), 5), hash(&tcp_v6(1, 2, b"x"), 5));
        // Fragments after the first have no ports, and all fragments stay together.
        let fragment = |from| {
            let mut packet = tcp_v4(from, 2, b"x");
            packet[6] = 0x20;
            packet
        };
        assert_eq!(hash(&fragment(1), 5), hash(&fragment(8), 5));
    }

    /// A host that chooses addresses and ports must not be able to make many flows share a place in
    /// a table.
    #[test]
    fn nobody_can_choose_flows_of_one_hash() {
        let hash = |packet: &[u8]| {
            let mut hasher = std::hash::DefaultHasher::new();
            frame_of(packet, LinkKind::Ip).flow().hash(&mut hasher);
            hasher.finish()
        };
        let count = |packets: Vec<Vec<u8>>| {
            let hashes = packets.iter().map(|packet| hash(packet));
            hashes.collect::<std::collections::HashSet<_>>().len()
        };
        let v4 = |n: u32| {
            let mut packet = tcp_v4(1, n as u16, &[]);
            packet[12..16].copy_from_slice(&(0x0a00_0000 ^ n << 13).to_be_bytes());
            packet
        };
        assert_eq!(count((0..1000).map(v4).collect()), 1000);
        // The source address contains the port.
        let v6 = |n: u16| {
            let mut packet = tcp_v6(n, 2, &[]);
            packet[22..24].copy_from_slice(&n.to_be_bytes());
            packet
        };
        assert_eq!(count((0..1000).map(v6).collect()), 1000);
    }

    #[test]
    fn no_bytes_are_no_trouble() {
        for link in [LinkKind::Ip, LinkKind::Ethernet] {
            let whole = tcp_v4(1, 2, &[]);
            for len in 0..whole.len() {
                let mut frame = frame_of(&whole[..len], link);
                frame.mark();
                let _ = (
                    frame.ecn(),
                    frame.ip_len(),
                    frame.flow(),
                    frame.flow_hash(1),
                );
            }
        }
    }
}
