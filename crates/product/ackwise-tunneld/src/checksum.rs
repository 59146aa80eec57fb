//! Completes TCP checksums that were left to a device (checksum offload).

use ackwise_headers::checksum::{finish, pseudo, sum};
use ackwise_headers::{Ip, Ipv6, protocol};

/// Completes the TCP checksum of a packet if it has only the sum over the pseudo-header, as
/// the stack leaves it for checksum offload. Any other checksum was right or wrong before,
/// and stays. One of 65,536 damaged segments looks the same and is completed, too.
pub(crate) fn complete(ip: &mut [u8]) {
    let (addresses, at) = match Ip::read(ip) {
        Some(Ip::V4(header)) => (sum(header.addresses()), header.header_len()),
        Some(Ip::V6(header)) => (sum(header.addresses()), Ipv6::LEN),
        None => return,
    };
    let Some(len) = ip.len().checked_sub(at).filter(|len| *len >= 20) else {
        return;
    };
    let segment = &mut ip[at..];
    if segment[16..18] == pseudo_header(addresses, len) {
        // The segment contains the sum over the pseudo-header.
        let right = finish(sum(segment));
        segment[16..18].copy_from_slice(&right);
    }
}

/// Returns the sum over the pseudo-header of a TCP segment of `len` bytes, as the stack
/// leaves it: folded, and not complemented. `addresses` is the sum of the addresses.
fn pseudo_header(addresses: u64, len: usize) -> [u8; 2] {
    finish(addresses + pseudo(protocol::TCP, len)).map(|byte| !byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ackwise_tunnel::trace::Recorded;

    #[test]
    fn what_the_device_was_to_complete_is_completed_and_nothing_else() {
        for (which, at) in [(Recorded::Plain, 20), (Recorded::Six, 40)] {
            for seen in which.read().unwrap().iter().take(500) {
                let whole = seen.packet.to_vec();
                let mut packet = whole.clone();
                complete(&mut packet);
                assert_eq!(packet, whole, "right as it is");
                let addresses = if at == 20 { 12..20 } else { 8..40 };
                let pseudo = pseudo_header(sum(&packet[addresses]), whole.len() - at);
                packet[at + 16..at + 18].copy_from_slice(&pseudo);
                complete(&mut packet);
                assert_eq!(packet, whole, "as a device would");
                let wrong = u16::from_be_bytes(pseudo).wrapping_add(1).to_be_bytes();
                packet[at + 16..at + 18].copy_from_slice(&wrong);
                let wrong = packet.clone();
                complete(&mut packet);
                assert_eq!(packet, wrong, "wrong before");
            }
        }
        for len in 0..40 {
            complete(&mut vec![0x45; len]);
            complete(&mut vec![0x4f; len]);
            complete(&mut vec![0x60; len]);
        }
    }
}
