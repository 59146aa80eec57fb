//! Packets for tests.

/// The Internet checksum of `bytes`; 0 over a header whose checksum is right.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| {
            u32::from(u16::from_be_bytes([
                pair[0],
                pair.get(1).copied().unwrap_or(0),
            ]))
        })
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn tcp(from: u16, to: u16, ack: u32, payload: &[u8]) -> Vec<u8> {
    let mut tcp = Vec::new();
    tcp.extend(from.to_be_bytes());
    tcp.extend(to.to_be_bytes());
    tcp.extend(1_u32.to_be_bytes());
    tcp.extend(ack.to_be_bytes());
    tcp.extend([0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
    tcp.extend(payload);
    tcp
}

/// An IPv4 packet with a segment that acknowledges `ack`.
pub(crate) fn ack_v4(from: u16, to: u16, ack: u32, payload: &[u8]) -> Vec<u8> {
    let tcp = tcp(from, to, ack, payload);
    let mut packet = vec![0x45, 0];
    packet.extend((20 + tcp.len() as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(tcp);
    packet
}

pub(crate) fn tcp_v4(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    ack_v4(from, to, 1, payload)
}

pub(crate) fn tcp_v6(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let tcp = tcp(from, to, 1, payload);
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((tcp.len() as u16).to_be_bytes());
    packet.extend([6, 64]);
    packet.extend([1; 16]);
    packet.extend([2; 16]);
    packet.extend(tcp);
    packet
}
