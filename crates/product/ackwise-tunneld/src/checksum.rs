//! Completes TCP checksums that were left to a device (checksum offload).

/// Completes the TCP checksum of a packet if it has only the sum over the pseudo-header, as
/// the stack leaves it for checksum offload. Any other checksum was right or wrong before,
/// and stays. One of 65,536 damaged segments looks the same and is completed, too.
pub(crate) fn complete(ip: &mut [u8]) {
    let (addresses, at) = match ip.first().map(|first| (first >> 4, first & 15)) {
        Some((4, words)) => (12..20, usize::from(words) * 4),
        Some((6, _)) => (8..40, 40),
        _ => return,
    };
    let Some(len) = ip.len().checked_sub(at).filter(|len| *len >= 20) else {
        return;
    };
    let (header, segment) = ip.split_at_mut(at);
    let pseudo = sum(header.get(addresses).unwrap_or(&[]), 6 + len as u32);
    if segment[16..18] == fold(pseudo).to_be_bytes() {
        // The segment contains the sum over the pseudo-header.
        let right = !fold(sum(segment, 0));
        segment[16..18].copy_from_slice(&right.to_be_bytes());
    }
}

fn sum(bytes: &[u8], start: u32) -> u32 {
    bytes.chunks(2).fold(start, |sum, pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        sum + u32::from(u16::from_be_bytes([pair[0], low]))
    })
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
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
                let pseudo = fold(sum(&packet[addresses], 6 + (whole.len() - at) as u32));
                packet[at + 16..at + 18].copy_from_slice(&pseudo.to_be_bytes());
                complete(&mut packet);
                assert_eq!(packet, whole, "as a device would");
                let wrong = pseudo.wrapping_add(1).to_be_bytes();
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
