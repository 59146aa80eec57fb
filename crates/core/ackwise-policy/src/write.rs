//! Turns a segment back into a packet: for replaying vectors in environments that take packets, and
//! for captures of simulated flows.

use ackwise_headers::{checksum, protocol};

use crate::{LinkKind, Options, Segment, sys};

/// The maximum number of option bytes in a TCP header.
const OPTIONS_MAX: usize = 40;

/// The Accurate ECN option, padded to whole words (RFC 9768 §3.2.3). In kind 174 EE1B comes first,
/// in kind 172 EE0B.
fn accurate_ecn(s: &Segment) -> Vec<u8> {
    let (kind, first, last) = match (s.e0_bytes(), s.e1_bytes()) {
        (None, Some(e1)) => (174, Some(e1), None),
        (e0, e1) => (172, e0, e1),
    };
    // A missing counter before a present one is written with its initial value: 1, and 0 for CE.
    let first = first.or((s.ce_bytes().is_some()).then_some(1));
    let ce = s.ce_bytes().or(last.map(|_| 0));
    let counters: Vec<u8> = [first, ce, last]
        .into_iter()
        .flatten()
        .flat_map(|n| n.to_be_bytes().into_iter().skip(1))
        .collect();
    let len = 2 + counters.len();
    let mut out = vec![1; len.next_multiple_of(4) - len];
    out.extend([kind, len as u8]);
    out.extend(counters);
    out
}

fn options(s: &Segment) -> Option<Vec<u8>> {
    let raw = s.raw();
    let mut out = Vec::new();
    let has = |option| s.options().contains(option);
    if has(Options::MSS) {
        out.extend([2, 4]);
        out.extend(raw.mss.to_be_bytes());
    }
    if has(Options::SACK_OK) {
        out.extend([1, 1, 4, 2]);
    }
    if has(Options::WSCALE) {
        out.extend([1, 3, 3, raw.wscale]);
    }
    if has(Options::TS) {
        out.extend([1, 1, 8, 10]);
        out.extend(raw.tsval.to_be_bytes());
        out.extend(raw.tsecr.to_be_bytes());
    }
    if has(Options::SACK) {
        let blocks: Vec<(u32, u32)> = s.sack().collect();
        out.extend([1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (left, right) in blocks {
            out.extend(left.to_be_bytes());
            out.extend(right.to_be_bytes());
        }
    }
    if has(Options::ACCECN) {
        out.extend(accurate_ecn(s));
    }
    if has(Options::UNKNOWN) {
        // Kind 254 is for experiments (RFC 4727).
        out.extend([254, 4, 0, 0]);
    }
    (out.len() <= OPTIONS_MAX).then_some(out)
}

impl Segment {
    /// The segment as a packet with valid checksums: locally administered Ethernet addresses, zeros
    /// as data, and options in our own order. `None` if its options do not fit into a header.
    pub fn to_packet(&self, link: LinkKind) -> Option<Vec<u8>> {
        let raw = self.raw();
        let options = options(self)?;
        let (v4, head) = (raw.ip_version == 4, 20 + options.len());
        let tcp_len = head + raw.payload as usize;

        let words = if v4 { 1 } else { 4 };
        let address = |addr: &sys::aw_addr| -> Vec<u8> {
            addr.w[..words]
                .iter()
                .flat_map(|w| w.to_ne_bytes())
                .collect()
        };
        let (src, dst) = (address(&raw.src), address(&raw.dst));

        let mut ip = Vec::new();
        if v4 {
            // 0 stands for a length that does not fit, as Linux writes it (BIG TCP).
            let total = u16::try_from(20 + tcp_len).unwrap_or(0);
            ip.extend([0x45, raw.ip_ecn & 3]);
            ip.extend(total.to_be_bytes());
            ip.extend([0, 0, 0x40, 0, raw.ttl, 6, 0, 0]);
        } else {
            let length = u16::try_from(tcp_len).unwrap_or(0);
            ip.extend([0x60, (raw.ip_ecn & 3) << 4, 0, 0]);
            ip.extend(length.to_be_bytes());
            ip.extend([6, raw.ttl]);
        }
        ip.extend(&src);
        ip.extend(&dst);
        if v4 {
            let sum = checksum::of(&ip);
            ip[10..12].copy_from_slice(&sum);
        }

        let mut tcp = Vec::with_capacity(tcp_len);
        tcp.extend(raw.sport.to_ne_bytes());
        tcp.extend(raw.dport.to_ne_bytes());
        tcp.extend(raw.seq.to_be_bytes());
        tcp.extend(raw.ack.to_be_bytes());
        let offset = (head as u16 / 4) << 12;
        tcp.extend((offset | raw.flags & 0xfff).to_be_bytes());
        tcp.extend(raw.window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(&options);
        tcp.resize(tcp_len, 0);
        let sum = checksum::of_segment(&[src, dst].concat(), protocol::TCP, &tcp);
        tcp[16..18].copy_from_slice(&sum);

        let mut packet = Vec::with_capacity(14 + ip.len() + tcp.len());
        if link == LinkKind::Ethernet {
            packet.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
            packet.extend(if v4 { [0x08, 0x00] } else { [0x86, 0xdd] });
        }
        packet.extend(ip);
        packet.extend(tcp);
        Some(packet)
    }
}
