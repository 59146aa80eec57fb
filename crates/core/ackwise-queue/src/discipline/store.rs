//! Waiting packets, in doubly linked lists within one slab. Removing any of them costs the same,
//! however many there are.

use crate::Nanos;
use crate::queue::Queued;

/// No node.
pub(super) const NONE: u32 = u32::MAX;

/// The ends of a doubly linked list of nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    pub head: u32,
    pub tail: u32,
}

impl List {
    pub const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
    };
}

/// What a filter remembers of a waiting packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tag {
    /// The slot of the packet's flow, or [`NONE`].
    pub flow: u32,
    /// The acknowledgment number.
    pub ack: u32,
    /// Whether the packet is in its flow's list.
    pub listed: bool,
    /// Whether the contract counts it as withheld until it leaves.
    pub held: bool,
    /// Whether the packet's own headers allow removing it (cake).
    pub droppable: bool,
    /// The flags ECE and CWR, as in the header.
    pub ecn_flags: u16,
}

impl Tag {
    pub const NONE: Self = Self {
        flow: NONE,
        ack: 0,
        listed: false,
        held: false,
        droppable: false,
        ecn_flags: 0,
    };
}

#[derive(Debug)]
struct Node<P> {
    queued: Option<Queued<P>>,
    tag: Tag,
    /// The order of arrival. A packet that replaces another one takes over its number.
    order: u64,
    lane: u32,
    prev: u32,
    /// The next packet in its lane, or the next free node.
    next: u32,
    flow_prev: u32,
    flow_next: u32,
}

/// Packets that are sent in order.
#[derive(Debug, Clone, Copy)]
struct Lane {
    list: List,
    bytes: u64,
    packets: u32,
}

#[derive(Debug)]
pub(super) struct Store<P> {
    nodes: Vec<Node<P>>,
    free: u32,
    lanes: Vec<Lane>,
    order: u64,
    packets: usize,
    bytes: u64,
    /// The first lane that does not count in `below`.
    boundary: u32,
    /// Number of packets in the lanes below the boundary.
    below: usize,
}

impl<P> Store<P> {
    /// Creates an empty store with this many lanes, numbered from 0.
    pub fn with_capacity(room: usize, lanes: usize) -> Self {
        let lane = Lane {
            list: List::EMPTY,
            bytes: 0,
            packets: 0,
        };
        Self {
            nodes: Vec::with_capacity(room),
            free: NONE,
            lanes: vec![lane; lanes],
            order: 0,
            packets: 0,
            bytes: 0,
            boundary: lanes as u32,
            below: 0,
        }
    }

    /// Counts the packets in the lanes below this one separately. The store must be empty.
    pub fn split_at(mut self, lane: u32) -> Self {
        self.boundary = lane;
        self
    }

    /// Number of packets in the lanes below the one that the store was split at.
    pub fn packets_below(&self) -> usize {
        self.below
    }

    pub fn packets(&self) -> usize {
        self.packets
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next packet of a lane to leave.
    pub fn first(&self, lane: u32) -> Option<u32> {
        Some(self.lanes[lane as usize].list.head).filter(|head| *head != NONE)
    }

    /// The packets of the same lane that leave after this one, in order.
    pub fn behind(&self, id: u32) -> impl Iterator<Item = &P> {
        let next = move |id: &u32| Some(self.node(*id).next).filter(|next| *next != NONE);
        std::iter::successors(next(&id), next).filter_map(|id| self.packet(id))
    }

    /// Number of packets that wait in a lane.
    pub fn lane_packets(&self, lane: u32) -> u32 {
        self.lanes[lane as usize].packets
    }

    /// Number of bytes that wait in a lane.
    pub fn lane_bytes(&self, lane: u32) -> u64 {
        self.lanes[lane as usize].bytes
    }

    fn node(&self, id: u32) -> &Node<P> {
        &self.nodes[id as usize]
    }

    fn node_mut(&mut self, id: u32) -> &mut Node<P> {
        &mut self.nodes[id as usize]
    }

    pub fn packet(&self, id: u32) -> Option<&P> {
        self.node(id).queued.as_ref().map(|queued| &queued.packet)
    }

    /// The time at which a packet was enqueued.
    pub fn arrived(&self, id: u32) -> Option<Nanos> {
        self.node(id)
            .queued
            .as_ref()
            .map(|queued| queued.arrived_ns)
    }

    pub fn len(&self, id: u32) -> u32 {
        self.node(id).queued.as_ref().map_or(0, |queued| queued.len)
    }

    /// A packet and its time of arrival.
    pub fn queued(&self, id: u32) -> Option<&Queued<P>> {
        self.node(id).queued.as_ref()
    }

    /// A packet and its time of arrival, mutable.
    pub fn queued_mut(&mut self, id: u32) -> Option<&mut Queued<P>> {
        self.node_mut(id).queued.as_mut()
    }

    pub fn tag(&self, id: u32) -> Tag {
        self.node(id).tag
    }

    pub fn order(&self, id: u32) -> u64 {
        self.node(id).order
    }

    /// The next packet in its flow's list.
    pub fn after(&self, id: u32) -> u32 {
        self.node(id).flow_next
    }

    pub fn push(&mut self, lane: u32, queued: Queued<P>, tag: Tag) -> u32 {
        self.packets += 1;
        self.below += usize::from(lane < self.boundary);
        self.bytes += u64::from(queued.len);
        self.order += 1;
        let tail = self.lanes[lane as usize].list.tail;
        self.lanes[lane as usize].bytes += u64::from(queued.len);
        self.lanes[lane as usize].packets += 1;
        let node = Node {
            queued: Some(queued),
            tag,
            order: self.order,
            lane,
            prev: tail,
            next: NONE,
            flow_prev: NONE,
            flow_next: NONE,
        };
        let id = if self.free == NONE {
            self.nodes.push(node);
            (self.nodes.len() - 1) as u32
        } else {
            let id = self.free;
            self.free = self.node(id).next;
            *self.node_mut(id) = node;
            id
        };
        let list = &mut self.lanes[lane as usize].list;
        list.tail = id;
        if tail == NONE {
            list.head = id;
        } else {
            self.node_mut(tail).next = id;
        }
        id
    }

    /// Replaces a waiting packet and returns the old one. The place in the flow's list does not
    /// change.
    pub fn swap(&mut self, id: u32, queued: Queued<P>, tag: Tag) -> Option<Queued<P>> {
        let added = u64::from(queued.len);
        let node = self.node_mut(id);
        node.tag = tag;
        let lane = node.lane as usize;
        let before = node.queued.replace(queued);
        let gone = before.as_ref().map_or(0, |queued| u64::from(queued.len));
        self.bytes = self.bytes + added - gone;
        self.lanes[lane].bytes = self.lanes[lane].bytes + added - gone;
        before
    }

    /// Removes a packet, which must not be in a flow's list.
    pub fn remove(&mut self, id: u32) -> Option<Queued<P>> {
        let free = self.free;
        let node = self.node_mut(id);
        let (prev, next, lane) = (node.prev, node.next, node.lane);
        let queued = node.queued.take()?;
        node.next = free;
        self.free = id;
        if prev == NONE {
            self.lanes[lane as usize].list.head = next;
        } else {
            self.node_mut(prev).next = next;
        }
        if next == NONE {
            self.lanes[lane as usize].list.tail = prev;
        } else {
            self.node_mut(next).prev = prev;
        }
        self.packets -= 1;
        self.below -= usize::from(lane < self.boundary);
        self.bytes -= u64::from(queued.len);
        self.lanes[lane as usize].bytes -= u64::from(queued.len);
        self.lanes[lane as usize].packets -= 1;
        Some(queued)
    }

    /// Appends a packet to its flow's list.
    pub fn list_back(&mut self, list: &mut List, id: u32) {
        let node = self.node_mut(id);
        node.tag.listed = true;
        node.flow_prev = list.tail;
        node.flow_next = NONE;
        if list.tail == NONE {
            list.head = id;
        } else {
            self.node_mut(list.tail).flow_next = id;
        }
        list.tail = id;
    }

    /// Prepends a packet to its flow's list.
    pub fn list_front(&mut self, list: &mut List, id: u32) {
        let node = self.node_mut(id);
        node.tag.listed = true;
        node.flow_prev = NONE;
        node.flow_next = list.head;
        if list.head == NONE {
            list.tail = id;
        } else {
            self.node_mut(list.head).flow_prev = id;
        }
        list.head = id;
    }

    /// Removes a packet from its flow's list only; it continues to wait.
    pub fn unlist(&mut self, list: &mut List, id: u32) {
        let node = self.node_mut(id);
        if !node.tag.listed {
            return;
        }
        node.tag.listed = false;
        let (prev, next) = (node.flow_prev, node.flow_next);
        if prev == NONE {
            list.head = next;
        } else {
            self.node_mut(prev).flow_next = next;
        }
        if next == NONE {
            list.tail = prev;
        } else {
            self.node_mut(next).flow_prev = prev;
        }
    }
}
