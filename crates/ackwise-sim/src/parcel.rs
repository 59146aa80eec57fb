//! A packet under way, and where it goes.

use std::ops::{Deref, DerefMut};

use ackwise_net::Ecn;
use ackwise_policy::Segment;

use crate::channel::FlowKey;
use crate::packet::Packet;

/// A packet with its place in the table of routes, in memory that is used again.
///
/// It is as large as a pointer, so that queues and wires move eight bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parcel(Box<Transit>);

#[derive(Debug, Clone, PartialEq, Eq)]
#[repr(C)]
struct Transit {
    route: u32,
    packet: Packet,
}

impl Parcel {
    /// A packet on a way of its own.
    pub fn new(packet: Packet, route: u32) -> Parcel {
        Parcel(Box::new(Transit { packet, route }))
    }

    /// Where it is in the table of routes.
    #[inline]
    pub fn route(&self) -> u32 {
        self.0.route
    }

    /// Goes on to the next entry, and returns its number.
    #[inline]
    pub fn advance(&mut self) -> u32 {
        self.0.route += 1;
        self.0.route
    }
}

impl Deref for Parcel {
    type Target = Packet;

    #[inline]
    fn deref(&self) -> &Packet {
        &self.0.packet
    }
}

impl DerefMut for Parcel {
    #[inline]
    fn deref_mut(&mut self) -> &mut Packet {
        &mut self.0.packet
    }
}

/// As its packet; a copy goes the same way.
impl ackwise_net::Packet for Parcel {
    type Flow = FlowKey;

    fn flow(&self) -> FlowKey {
        ackwise_net::Packet::flow(&**self)
    }

    fn is_pure_ack(&self) -> bool {
        Packet::is_pure_ack(self)
    }

    fn ecn(&self) -> Ecn {
        (**self).ecn()
    }

    fn mark(&mut self) {
        (**self).mark();
    }

    fn segment(&self) -> Option<Segment> {
        (**self).segment()
    }

    fn forge(&self, back: u32) -> Option<Parcel> {
        Some(Parcel::new((**self).forge(back)?, self.route()))
    }
}

/// Parcels that arrived, to be used again.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<Parcel>,
    allocated: u64,
}

impl Pool {
    /// A parcel for a packet.
    #[inline]
    pub fn take(&mut self, packet: Packet, route: u32) -> Parcel {
        match self.free.pop() {
            Some(mut parcel) => {
                *parcel.0 = Transit { packet, route };
                parcel
            }
            None => {
                self.allocated += 1;
                Parcel::new(packet, route)
            }
        }
    }

    /// Takes one back.
    #[inline]
    pub fn put(&mut self, parcel: Parcel) {
        self.free.push(parcel);
    }

    /// How many were made.
    pub fn allocated(&self) -> u64 {
        self.allocated
    }
}
