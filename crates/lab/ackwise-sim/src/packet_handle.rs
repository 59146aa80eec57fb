//! A packet in flight, and where it goes.

use std::ops::Deref;

use ackwise_policy::Segment;
use ackwise_queue::Ecn;

use crate::channel::FlowKey;
use crate::packet::Packet;

/// A packet with its place in the table of routes, in memory that is used again.
///
/// What every hop looks at is here, so that a packet itself is touched only where
/// somebody reads it; queues and wires move sixteen bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketHandle {
    packet: Box<Packet>,
    route: u32,
    wire_len: u32,
}

impl PacketHandle {
    /// A packet on a way of its own.
    pub fn new(packet: Packet, route: u32) -> PacketHandle {
        PacketHandle {
            wire_len: packet.wire_len,
            packet: Box::new(packet),
            route,
        }
    }

    /// Where it is in the table of routes.
    #[inline]
    pub fn route(&self) -> u32 {
        self.route
    }

    /// Bytes on the wire, from the IP header on.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        self.wire_len
    }

    /// Goes on to the next entry, and returns its number.
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

/// As its packet; a copy goes the same way.
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

    fn forge(&self, back: u32) -> Option<PacketHandle> {
        Some(PacketHandle::new((**self).forge(back)?, self.route()))
    }
}

/// Packets that arrived, to be used again.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<PacketHandle>,
    allocated: u64,
}

impl Pool {
    /// Where the next packet may be written; it is [`take`](Self::take) that puts it in use.
    #[inline]
    pub fn place(&mut self) -> &mut Packet {
        if self.free.is_empty() {
            self.grow();
        }
        let last = self.free.len() - 1;
        &mut self.free[last].packet
    }

    #[cold]
    fn grow(&mut self) {
        self.free.push(PacketHandle::new(Packet::default(), 0));
        self.allocated += 1;
    }

    /// A handle for the packet that was written last.
    #[inline]
    pub fn take(&mut self, route: u32) -> PacketHandle {
        match self.free.pop() {
            Some(mut handle) => {
                handle.route = route;
                handle.wire_len = handle.packet.wire_len;
                handle
            }
            None => PacketHandle::new(Packet::default(), route),
        }
    }

    /// Takes one back.
    #[inline]
    pub fn put(&mut self, handle: PacketHandle) {
        self.free.push(handle);
    }

    /// How many were made.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }
}
