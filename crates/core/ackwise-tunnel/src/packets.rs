//! Packets in one buffer.

use crate::ack::Ack;
use crate::bundle::Check;

/// Packets in one buffer, one after the other.
#[derive(Debug, Default)]
pub struct Packets {
    pub(crate) bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Packets {
    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the bytes of all packets.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all packets but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Iterates over the packets.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len()).map(|i| self.get(i))
    }

    fn get(&self, i: usize) -> &[u8] {
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[i]]
    }

    /// Appends a packet.
    pub fn push(&mut self, packet: &[u8]) {
        self.bytes.extend(packet);
        self.ends.push(self.bytes.len());
    }

    /// Appends the packet of an ACK. Returns `None` if its fields are not those of a packet.
    pub(crate) fn push_ack(&mut self, ack: &Ack) -> Option<()> {
        ack.write(&mut self.bytes)?;
        self.ends.push(self.bytes.len());
        Some(())
    }

    /// Ends a packet whose bytes were appended to the buffer.
    pub(crate) fn end(&mut self, check: &mut Check) {
        self.ends.push(self.bytes.len());
        check.add(Check::of(self.get(self.ends.len() - 1)));
    }

    /// Removes the packets from number `first` on for which `keep` is false. Returns how many were
    /// removed.
    pub(crate) fn retain_from(&mut self, first: usize, keep: impl Fn(&[u8]) -> bool) -> usize {
        let (mut kept, count) = (first, self.ends.len());
        let mut start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        let mut end = start;
        for i in first..count {
            let next = self.ends[i];
            if keep(&self.bytes[start..next]) {
                self.bytes.copy_within(start..next, end);
                end += next - start;
                self.ends[kept] = end;
                kept += 1;
            }
            start = next;
        }
        self.truncate(kept);
        count - kept
    }

    /// Keeps the first `len` packets.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packets_that_are_kept_close_up() {
        let mut packets = Packets::default();
        for packet in [&b"first"[..], b"no", b"kept", b"no", b"no", b"last"] {
            packets.push(packet);
        }
        assert_eq!(packets.retain_from(1, |packet| packet != b"no"), 3);
        let left: Vec<&[u8]> = packets.iter().collect();
        assert_eq!(left, [&b"first"[..], b"kept", b"last"]);
        assert_eq!(packets.bytes(), 13);
        assert_eq!(packets.retain_from(0, |_| false), 3);
        assert!(packets.is_empty() && packets.bytes() == 0);
    }
}
