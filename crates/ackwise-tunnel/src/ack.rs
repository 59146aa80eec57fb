//! A TCP segment without payload, taken apart, and put together again.

use crate::checksum;
use crate::shape::Shape;

/// Longest packet that [`Ack::parse`] takes: IPv6 and a full TCP header.
pub(crate) const MAX_PACKET: usize = 40 + 60;

const TCP: u8 = 6;
/// "Don't fragment" and the reserved bit of the IPv4 header; the others say fragment.
const FRAG_KEPT: u16 = 0xc000;

/// What tells flows apart: a direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key {
    pub v6: bool,
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub sport: u16,
    pub dport: u16,
}

/// Values of TCP options.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Values {
    pub tsval: u32,
    pub tsecr: u32,
    /// Of `sack`, so many are in use.
    pub blocks: u8,
    pub sack: [(u32, u32); 4],
    /// 24 bits each.
    pub ecn: [u32; 3],
}

impl Values {
    pub fn blocks(&self) -> &[(u32, u32)] {
        &self.sack[..usize::from(self.blocks).min(4)]
    }
}

/// All of a header that is not implied by the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ack {
    pub key: Key,
    /// Type of service, or traffic class.
    pub tos: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// IPv4: the flags of fragmentation.
    pub frag: u16,
    /// IPv4: identification.
    pub ip_id: u16,
    /// IPv6: flow label.
    pub label: u32,
    pub seq: u32,
    pub ack: u32,
    /// The twelve bits after the data offset.
    pub flags: u16,
    pub window: u16,
    pub urgent: u16,
    /// The TCP checksum, if it is wrong.
    pub wrong: Option<u16>,
    pub shape: Shape,
    pub values: Values,
}

impl Ack {
    /// Takes a packet apart, from its IP header on. `None` for all that cannot be put
    /// together again from the parts: another protocol, a fragment, IPv4 options, IPv6
    /// extension headers, payload, a wrong IPv4 checksum, lengths that contradict.
    pub fn parse(packet: &[u8]) -> Option<Ack> {
        if packet.len() > MAX_PACKET {
            return None;
        }
        match packet.first()? >> 4 {
            4 => Self::parse_v4(packet),
            6 => Self::parse_v6(packet),
            _ => None,
        }
    }

    fn parse_v4(packet: &[u8]) -> Option<Ack> {
        let (ip, tcp) = packet.split_at_checked(20)?;
        let frag = be16(ip, 6);
        let fits = ip[0] == 0x45
            && usize::from(be16(ip, 2)) == packet.len()
            && frag & !FRAG_KEPT == 0
            && ip[9] == TCP
            && checksum::finish(checksum::sum(ip) - u64::from(be16(ip, 10))) == be16(ip, 10);
        fits.then_some(())?;
        let mut key = Key {
            v6: false,
            src: [0; 16],
            dst: [0; 16],
            sport: 0,
            dport: 0,
        };
        key.src[..4].copy_from_slice(&ip[12..16]);
        key.dst[..4].copy_from_slice(&ip[16..20]);
        let mut ack = Self::parse_tcp(key, checksum::sum(&ip[12..20]), tcp)?;
        ack.tos = ip[1];
        ack.ip_id = be16(ip, 4);
        ack.frag = frag;
        ack.ttl = ip[8];
        Some(ack)
    }

    fn parse_v6(packet: &[u8]) -> Option<Ack> {
        let (ip, tcp) = packet.split_at_checked(40)?;
        let fits = usize::from(be16(ip, 4)) == tcp.len() && ip[6] == TCP;
        fits.then_some(())?;
        let mut key = Key {
            v6: true,
            src: [0; 16],
            dst: [0; 16],
            sport: 0,
            dport: 0,
        };
        key.src.copy_from_slice(&ip[8..24]);
        key.dst.copy_from_slice(&ip[24..40]);
        let first = be32(ip, 0);
        let mut ack = Self::parse_tcp(key, checksum::sum(&ip[8..40]), tcp)?;
        ack.tos = (first >> 20) as u8;
        ack.label = first & 0xf_ffff;
        ack.ttl = ip[7];
        Some(ack)
    }

    fn parse_tcp(mut key: Key, addresses: u64, tcp: &[u8]) -> Option<Ack> {
        if tcp.len() < 20 || usize::from(tcp[12] >> 4) * 4 != tcp.len() {
            return None;
        }
        key.sport = be16(tcp, 0);
        key.dport = be16(tcp, 2);
        let mut values = Values::default();
        let shape = Shape::read(&tcp[20..], &mut values)?;
        let given = be16(tcp, 16);
        let all = addresses + pseudo(tcp.len()) + checksum::sum(tcp) - u64::from(given);
        Some(Ack {
            key,
            tos: 0,
            ttl: 0,
            frag: 0,
            ip_id: 0,
            label: 0,
            seq: be32(tcp, 4),
            ack: be32(tcp, 8),
            flags: be16(tcp, 12) & 0xfff,
            window: be16(tcp, 14),
            urgent: be16(tcp, 18),
            wrong: (checksum::finish(all) != given).then_some(given),
            shape,
            values,
        })
    }

    /// Puts the packet together at the end of `out`. `None`, and `out` as it was, if the
    /// parts are not those of any packet.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let written = self.write_headers(out);
        if written.is_none() {
            out.truncate(start);
        }
        written
    }

    fn write_headers(&self, out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        let (ip_len, addresses) = if self.key.v6 {
            let first = 0x6000_0000 | u32::from(self.tos) << 20 | self.label & 0xf_ffff;
            out.extend(first.to_be_bytes());
            out.extend([0, 0, TCP, self.ttl]);
            out.extend(self.key.src);
            out.extend(self.key.dst);
            (40, 8..40)
        } else {
            let [id_high, id_low] = self.ip_id.to_be_bytes();
            let [frag_high, frag_low] = (self.frag & FRAG_KEPT).to_be_bytes();
            out.extend([0x45, self.tos, 0, 0, id_high, id_low, frag_high, frag_low]);
            out.extend([self.ttl, TCP, 0, 0]);
            out.extend(&self.key.src[..4]);
            out.extend(&self.key.dst[..4]);
            (20, 12..20)
        };
        let tcp_at = start + ip_len;
        out.extend(self.key.sport.to_be_bytes());
        out.extend(self.key.dport.to_be_bytes());
        out.extend(self.seq.to_be_bytes());
        out.extend(self.ack.to_be_bytes());
        out.extend((self.flags & 0xfff).to_be_bytes());
        out.extend(self.window.to_be_bytes());
        out.extend([0, 0]);
        out.extend(self.urgent.to_be_bytes());
        self.shape.write(&self.values, out)?;

        let packet = &mut out[start..];
        let tcp_len = packet.len() - ip_len;
        let total = if self.key.v6 { tcp_len } else { packet.len() } as u16;
        let len_at = if self.key.v6 { 4 } else { 2 };
        packet[len_at..len_at + 2].copy_from_slice(&total.to_be_bytes());
        if !self.key.v6 {
            let sum = checksum::finish(checksum::sum(&packet[..20]));
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        let offset = (tcp_len / 4) as u8;
        packet[ip_len + 12] |= offset << 4;
        let sum = match self.wrong {
            Some(wrong) => wrong,
            None => checksum::finish(
                checksum::sum(&packet[addresses])
                    + pseudo(tcp_len)
                    + checksum::sum(&packet[ip_len..]),
            ),
        };
        out[tcp_at + 16..tcp_at + 18].copy_from_slice(&sum.to_be_bytes());
        Some(())
    }
}

/// What the pseudo-header adds beside the addresses (RFC 9293 §3.1, RFC 8200 §8.1).
fn pseudo(tcp_len: usize) -> u64 {
    u64::from(TCP) + tcp_len as u64
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACK as Linux sent it, checksums and all.
    pub(crate) const LINUX: [u8; 52] = [
        0x45, 0x00, 0x00, 0x34, 0x4f, 0xe9, 0x40, 0x00, 0x40, 0x06, 0xd6, 0x3f, 0x0a, 0x4d, 0x01,
        0x02, 0x0a, 0x4d, 0x01, 0x01, 0x13, 0x89, 0xbd, 0x6c, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc,
        0xde, 0xf0, 0x80, 0x10, 0x02, 0x86, 0x00, 0x00, 0x00, 0x00, 0x01, 0x01, 0x08, 0x0a, 0x1d,
        0xf1, 0x1e, 0x65, 0x3e, 0x72, 0x2d, 0x3d,
    ];

    fn with_checksums(packet: &mut [u8]) {
        packet[10..12].fill(0);
        let sum = checksum::finish(checksum::sum(&packet[..20]));
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet[36..38].fill(0);
        let sum = checksum::sum(&packet[12..20]) + 6 + 32 + checksum::sum(&packet[20..]);
        packet[36..38].copy_from_slice(&checksum::finish(sum).to_be_bytes());
    }

    #[test]
    fn apart_and_together() {
        let mut packet = LINUX;
        with_checksums(&mut packet);
        let ack = Ack::parse(&packet).expect("an ACK");
        assert_eq!(ack.wrong, None);
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
        assert!(ack.wrong.is_some());
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
