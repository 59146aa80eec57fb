//! Reads the headers of a frame, within its bounds: Ethernet with VLAN tags, IPv4, IPv6, TCP.
//!
//! [`Ip`] and [`Tcp`] are views of the fixed headers, without a copy. [`ip_offset`] finds the IP
//! header, and [`tcp`] the TCP header behind whatever precedes it. [`checksum`] is the Internet
//! checksum.

#![forbid(unsafe_code)]

pub mod checksum;
mod ether;
mod ip;
mod tcp;

pub use ether::{LinkKind, ether_type, first_ether_type, ip_offset};
pub use ip::{Ip, Ipv4, Ipv6, protocol};
pub use tcp::{ParseError, Segment, Tcp, tcp};

fn be16<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
