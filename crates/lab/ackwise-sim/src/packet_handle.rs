//! Handles of packets in flight, with their position on the route.

use std::ops::Deref;

use ackwise_policy::Segment;
use ackwise_queue::Ecn;

use crate::channel::FlowKey;
use crate::packet::Packet;

/// A packet with its position in the table of routes, in memory that is reused.
///
/// The fields that every hop reads are here, so that the packet itself is touched only where
/// something reads it; queues and wires move sixteen bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketHandle {
    packet: Box<Packet>,
    route: u32,
    wire_len: u32,
}

impl PacketHandle {
    /// A handle for a packet at this position in the table of routes.
    pub fn new(packet: Packet, route: u32) -> PacketHandle {
        PacketHandle {
            wire_len: packet.wire_len,
            packet: Box::new(packet),
            route,
        }
    }

    /// Position in the table of routes.
    #[inline]
    pub fn route(&self) -> u32 {
        self.route
    }

    /// Bytes on the wire, from the IP header on.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        self.wire_len
    }

    /// Advances to the next route entry, and returns its number.
    #[inline]
    pub fn advance(&mut self) -> u32 {
        self.route += 1;
        self.route
    }
}

impl Deref for PacketHandle {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        &self.packet
    }
}

/// Behaves like the packet itself; a copy takes the same route.
impl ackwise_queue::Packet for PacketHandle {
    type Flow = FlowKey;

    fn flow(&self) -> FlowKey {
        ackwise_queue::Packet::flow(&**self)
    }

    fn is_pure_ack(&self) -> bool {
        Packet::is_pure_ack(self)
    }

    fn ecn(&self) -> Ecn {
        (**self).ecn()
    }

    fn mark(&mut self) {
        self.packet.mark();
    }

    fn segment(&self) -> Option<Segment> {
        (**self).segment()
    }

    fn synthesize(&self, back: u32) -> Option<PacketHandle> {
        Some(PacketHandle::new((**self).synthesize(back)?, self.route()))
    }
}

/// Packets that have arrived and may be reused.
#[derive(Debug, Default)]
pub struct Pool {
    /// The packet that is being written.
    written: Option<PacketHandle>,
    free: Vec<PacketHandle>,
    allocated: u64,
}

impl Pool {
    /// Where the next packet is written; [`take`](Self::take) puts it in use.
    #[inline]
    pub fn place(&mut self) -> &mut Packet {
        let (free, allocated) = (&mut self.free, &mut self.allocated);
        let next = || free.pop().unwrap_or_else(|| grow(allocated));
        &mut self.written.get_or_insert_with(next).packet
    }

    /// A handle for the packet written last; `None` if it was taken already, or none was written.
    #[inline]
    pub fn take(&mut self, route: u32) -> Option<PacketHandle> {
        let mut handle = self.written.take()?;
        handle.route = route;
        handle.wire_len = handle.packet.wire_len;
        Some(handle)
    }

    /// Takes back a handle for reuse.
    #[inline]
    pub fn put(&mut self, handle: PacketHandle) {
        self.free.push(handle);
    }

    /// How many packets were allocated.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }
}

#[cold]
fn grow(allocated: &mut u64) -> PacketHandle {
    *allocated += 1;
    PacketHandle::new(Packet::default(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_taken_once_and_its_memory_used_again() {
        let mut pool = Pool::default();
        assert_eq!(pool.take(0), None, "nothing was written");
        pool.place().wire_len = 40;
        pool.place().seq = 7;
        let handle = pool.take(3).expect("it was written");
        assert_eq!((handle.wire_len(), handle.seq), (40, 7));
        assert_eq!(handle.route(), 3);
        assert_eq!(pool.take(3), None, "it was taken");
        pool.put(handle);
        pool.place();
        assert!(pool.take(0).is_some());
        assert_eq!(pool.allocated(), 1);
    }
}
