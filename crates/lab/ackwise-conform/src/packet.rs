//! The packets that the endpoints send, and the parser for those that arrive.
//!
//! Neither the writer nor the reader uses code of the policies, and the checksum is not that of
//! `ackwise_headers`, which the devices use: the judge must not share a mistake with the devices
//! that it judges.

use std::fmt::Write as _;

/// Bits of [`Segment::flags`], as RFC 9293 §3.1 and RFC 9768 §3.1 place them.
pub mod flag {
    /// FIN: no more data from the sender.
    pub const FIN: u16 = 0x001;
    /// SYN: synchronise sequence numbers.
    pub const SYN: u16 = 0x002;
    /// RST: reset the connection.
    pub const RST: u16 = 0x004;
    /// PSH: deliver to the application at once.
    pub const PSH: u16 = 0x008;
    /// ACK: the acknowledgment number is valid.
    pub const ACK: u16 = 0x010;
    /// URG: the urgent pointer is valid.
    pub const URG: u16 = 0x020;
    /// ECN echo, or the lowest bit of ACE.
    pub const ECE: u16 = 0x040;
    /// Congestion window reduced, or the middle bit of ACE.
    pub const CWR: u16 = 0x080;
    /// The highest bit of ACE.
    pub const AE: u16 = 0x100;
    /// One of the three bits that are still reserved.
    pub const RESERVED: u16 = 0x200;
}

/// The receiver's and the sender's IPv4 address; their last byte is also used in IPv6.
pub const HOSTS_V4: [[u8; 4]; 2] = [[198, 18, 1, 1], [198, 18, 2, 1]];

/// An IPv6 address in the receiver's (0) or the sender's (1) network.
#[must_use]
pub fn host_v6(side: usize, host: u8) -> [u8; 16] {
    let mut address = [0; 16];
    address[..2].copy_from_slice(&[0xfd, 0x98]);
    address[3] = 1 + side as u8;
    address[15] = host;
    address
}

/// The end that sends a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The data receiver: its ACKs pass the device.
    Receiver,
    /// The data sender.
    Sender,
}

/// The fields that distinguish the connections of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Last byte of the receiver's address.
    pub host: u8,
    /// The receiver's port.
    pub port: u16,
    /// The sender's port.
    pub peer_port: u16,
}

/// The content after the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// A TCP segment.
    #[default]
    Tcp,
    /// A TCP segment after an IPv6 destination options header (RFC 8200 §4.6), or after an IPv4
    /// header with options (a no-operation list, RFC 791 §3.1).
    TcpBehindOptions,
    /// A UDP datagram with the payload.
    Udp,
}

/// A packet as a case declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The end that sends it.
    pub from: Side,
    /// Its connection.
    pub flow: Flow,
    /// Protocol.
    pub protocol: Protocol,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment number.
    pub ack: u32,
    /// Flags, see [`flag`].
    pub flags: u16,
    /// The window field, unscaled.
    pub window: u16,
    /// The urgent pointer.
    pub urgent: u16,
    /// Options as bytes; padded to words with end-of-list when written.
    pub options: Vec<u8>,
    /// Payload bytes.
    pub payload: Vec<u8>,
    /// The ECN field of the IP header: 0 Not-ECT, 2 ECT(0), 1 ECT(1), 3 CE.
    pub ip_ecn: u8,
}

fn sum(bytes: &[u8], start: u32) -> u32 {
    bytes.chunks(2).fold(start, |total, pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        total + u32::from(u16::from_be_bytes([pair[0], low]))
    })
}

fn fold(mut total: u32) -> u16 {
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}

impl Segment {
    /// The packet from its IP header on, with correct checksums.
    #[must_use]
    pub fn to_packet(&self) -> Vec<u8> {
        let mut transport = self.transport();
        let (from, to) = match self.from {
            Side::Receiver => (0, 1),
            Side::Sender => (1, 0),
        };
        let number = |side: usize| if side == 0 { self.flow.host } else { 1 };
        let kind = if self.protocol == Protocol::Udp {
            17
        } else {
            6
        };
        let mut packet = Vec::with_capacity(60 + transport.len());
        let mut pseudo = Vec::with_capacity(40);
        if self.flow.v6 {
            let addresses = [host_v6(from, number(from)), host_v6(to, number(to))].concat();
            pseudo.extend(&addresses);
            let behind = self.protocol == Protocol::TcpBehindOptions;
            let length = transport.len() + if behind { 8 } else { 0 };
            packet.extend([0x60, self.ip_ecn << 4, 0, 0]);
            packet.extend((length as u16).to_be_bytes());
            packet.extend([if behind { 60 } else { kind }, 64]);
            packet.extend(&addresses);
            if behind {
                // One PadN option of four bytes.
                packet.extend([kind, 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            for side in [from, to] {
                let mut address = HOSTS_V4[side];
                address[3] = number(side);
                pseudo.extend(address);
            }
            let options: &[u8] = match self.protocol {
                Protocol::TcpBehindOptions => &[1, 1, 1, 0],
                _ => &[],
            };
            let header = 20 + options.len();
            packet.extend([0x40 | (header / 4) as u8, self.ip_ecn]);
            packet.extend(((header + transport.len()) as u16).to_be_bytes());
            packet.extend([0, 0, 0x40, 0, 64, kind, 0, 0]);
            packet.extend(&pseudo);
            packet.extend(options);
            let check = !fold(sum(&packet, 0));
            packet[10..12].copy_from_slice(&check.to_be_bytes());
        }
        let start = sum(&pseudo, u32::from(kind) + transport.len() as u32);
        let check = !fold(sum(&transport, start));
        let at = if kind == 17 { 6 } else { 16 };
        transport[at..at + 2].copy_from_slice(&check.to_be_bytes());
        packet.extend(transport);
        packet
    }

    /// The TCP or UDP header and the data, without a checksum.
    fn transport(&self) -> Vec<u8> {
        let (source, destination) = match self.from {
            Side::Receiver => (self.flow.port, self.flow.peer_port),
            Side::Sender => (self.flow.peer_port, self.flow.port),
        };
        let mut bytes = Vec::with_capacity(60 + self.payload.len());
        bytes.extend(source.to_be_bytes());
        bytes.extend(destination.to_be_bytes());
        if self.protocol == Protocol::Udp {
            bytes.extend(((8 + self.payload.len()) as u16).to_be_bytes());
            bytes.extend([0, 0]);
            bytes.extend(&self.payload);
            return bytes;
        }
        let mut options = self.options.clone();
        options.resize(options.len().next_multiple_of(4), 0);
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        let words = (5 + options.len() / 4) as u16;
        bytes.extend((words << 12 | self.flags).to_be_bytes());
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.extend(self.urgent.to_be_bytes());
        bytes.extend(options);
        bytes.extend(&self.payload);
        bytes
    }

    /// Whether the segment carries no data and only acknowledges.
    #[must_use]
    pub fn is_pure_ack(&self) -> bool {
        self.protocol != Protocol::Udp
            && self.payload.is_empty()
            && self.flags & (flag::SYN | flag::FIN | flag::RST) == 0
            && self.flags & flag::ACK != 0
    }

    /// The content of the first option of this kind, without kind and length.
    #[must_use]
    pub fn option(&self, kind: u8) -> Option<&[u8]> {
        let mut rest = &self.options[..];
        loop {
            match rest {
                [] | [0, ..] => return None,
                [1, tail @ ..] => rest = tail,
                [found, length, ..] => {
                    let length = usize::from(*length);
                    let option = rest.get(..length).filter(|it| it.len() >= 2)?;
                    if *found == kind {
                        return Some(&option[2..]);
                    }
                    rest = &rest[length..];
                }
                [_] => return None,
            }
        }
    }

    /// TSval of the timestamps option.
    #[must_use]
    pub fn ts_val(&self) -> Option<u32> {
        let value = self.option(8).filter(|it| it.len() == 8)?;
        Some(u32::from_be_bytes(*value.first_chunk()?))
    }

    /// The SACK blocks: left edge, right edge.
    #[must_use]
    pub fn sack(&self) -> Vec<(u32, u32)> {
        let words = |it: &[u8]| u32::from_be_bytes([it[0], it[1], it[2], it[3]]);
        let blocks = self.option(5).unwrap_or_default();
        let blocks = blocks.chunks_exact(8);
        blocks
            .map(|it| (words(&it[..4]), words(&it[4..])))
            .collect()
    }

    /// The three bits of ACE (RFC 9768 §3.2.2).
    #[must_use]
    pub fn ace(&self) -> u8 {
        (self.flags >> 6 & 7) as u8
    }

    /// A description by which a person finds it in a capture.
    #[must_use]
    pub fn describe(&self) -> String {
        if self.protocol == Protocol::Udp {
            return format!("a UDP datagram of {} bytes", self.payload.len());
        }
        let mut text = String::new();
        for (bit, name) in [
            (flag::SYN, "SYN"),
            (flag::FIN, "FIN"),
            (flag::RST, "RST"),
            (flag::PSH, "PSH"),
            (flag::URG, "URG"),
            (flag::AE, "AE"),
            (flag::CWR, "CWR"),
            (flag::ECE, "ECE"),
        ] {
            if self.flags & bit != 0 {
                let _ = write!(text, "{name} ");
            }
        }
        let _ = write!(text, "ACK {} window {}", self.ack, self.window);
        for (left, right) in self.sack() {
            let _ = write!(text, " SACK {left}-{right}");
        }
        if !self.payload.is_empty() {
            let _ = write!(text, " with {} bytes of data", self.payload.len());
        }
        text
    }
}

/// Parses a packet from its IP header on. `None` for packets that no case sends.
#[must_use]
pub fn read(packet: &[u8]) -> Option<Segment> {
    let (v6, ecn, kind, addresses, header, end, optioned) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let end = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
            let addresses = (*packet.get(15)?, *packet.get(19)?, *packet.get(14)?);
            (
                false,
                packet[1] & 3,
                packet[9],
                addresses,
                header,
                end,
                header > 20,
            )
        }
        6 => {
            let end = 40 + usize::from(u16::from_be_bytes([*packet.get(4)?, *packet.get(5)?]));
            let addresses = (*packet.get(23)?, *packet.get(39)?, *packet.get(11)?);
            let ecn = packet[1] >> 4 & 3;
            if packet[6] == 60 {
                (true, ecn, *packet.get(40)?, addresses, 48, end, true)
            } else {
                (true, ecn, packet[6], addresses, 40, end, false)
            }
        }
        _ => return None,
    };
    let bytes = packet.get(header..end)?;
    let (source_host, destination_host, network) = addresses;
    let from = if network == 1 {
        Side::Receiver
    } else {
        Side::Sender
    };
    let short = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
    let long = |at: usize| Some(u32::from(short(at)?) << 16 | u32::from(short(at + 2)?));
    let (source, destination) = (short(0)?, short(2)?);
    let (host, port, peer_port) = match from {
        Side::Receiver => (source_host, source, destination),
        Side::Sender => (destination_host, destination, source),
    };
    let flow = Flow {
        v6,
        host,
        port,
        peer_port,
    };
    let mut segment = Segment {
        from,
        flow,
        protocol: Protocol::Udp,
        seq: 0,
        ack: 0,
        flags: 0,
        window: 0,
        urgent: 0,
        options: Vec::new(),
        payload: Vec::new(),
        ip_ecn: ecn,
    };
    match kind {
        6 => {
            let header = usize::from(*bytes.get(12)? >> 4) * 4;
            segment.protocol = if optioned {
                Protocol::TcpBehindOptions
            } else {
                Protocol::Tcp
            };
            (segment.seq, segment.ack) = (long(4)?, long(8)?);
            segment.flags = short(12)? & 0xfff;
            (segment.window, segment.urgent) = (short(14)?, short(18)?);
            segment.options = bytes.get(20..header)?.to_vec();
            segment.payload = bytes.get(header..)?.to_vec();
        }
        17 => segment.payload = bytes.get(8..)?.to_vec(),
        _ => return None,
    }
    Some(segment)
}

/// The packet without the fields that a router may change: hop limit, traffic class, and the
/// checksum of the IPv4 header.
#[must_use]
pub fn without_hops(packet: &[u8]) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    match packet.first().map(|it| it >> 4) {
        Some(4) if bytes.len() >= 20 => {
            let end = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            bytes.truncate(end.max(20));
            bytes[1] = 0;
            bytes[8] = 0;
            bytes[10..12].fill(0);
        }
        Some(6) if bytes.len() >= 40 => {
            let end = 40 + usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            bytes.truncate(end);
            bytes[0] = 0x60;
            bytes[1] &= 0x0f;
            bytes[7] = 0;
        }
        _ => {}
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(v6: bool, protocol: Protocol) -> Segment {
        Segment {
            from: Side::Receiver,
            flow: Flow {
                v6,
                host: 1,
                port: 4000,
                peer_port: 80,
            },
            protocol,
            seq: 7,
            ack: 9,
            flags: flag::ACK | flag::AE,
            window: 500,
            urgent: 0,
            options: vec![1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            payload: vec![0x5a; 3],
            ip_ecn: 2,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for v6 in [false, true] {
            for protocol in [Protocol::Tcp, Protocol::TcpBehindOptions] {
                let sent = segment(v6, protocol);
                assert_eq!(read(&sent.to_packet()), Some(sent.clone()));
                assert_eq!(sent.sack(), [(1, 2)]);
            }
        }
    }

    #[test]
    fn the_policies_read_the_same() {
        let sent = segment(true, Protocol::Tcp);
        let packet = sent.to_packet();
        let read = ackwise_policy::parse(&packet, ackwise_policy::LinkKind::Ip).expect("TCP");
        assert_eq!((read.seq(), read.ack(), read.payload()), (7, 9, 3));
        assert_eq!(read.flags().bits(), sent.flags);
    }

    #[test]
    fn a_router_changes_what_is_left_out() {
        let mut packet = segment(false, Protocol::Tcp).to_packet();
        let before = without_hops(&packet);
        packet[8] -= 1;
        packet[10] ^= 1;
        assert_eq!(without_hops(&packet), before);
        packet[40] ^= 1;
        assert_ne!(without_hops(&packet), before);
    }
}
