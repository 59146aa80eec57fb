//! Packets for tests.

use ackwise_headers::checksum;

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
    let sum = checksum::of(&packet);
    packet[10..12].copy_from_slice(&sum);
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
