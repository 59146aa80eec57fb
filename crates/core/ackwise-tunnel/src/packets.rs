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

    /// Returns the buffer, and the offset at which each packet ends. The first packet begins
    /// at 0, every other where the one before it ends.
    pub fn bytes_and_ends(&self) -> (&[u8], &[usize]) {
        (&self.bytes, &self.ends)
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

    /// Keeps the first `len` packets.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.bytes.truncate(self.ends.last().copied().unwrap_or(0));
    }
}
