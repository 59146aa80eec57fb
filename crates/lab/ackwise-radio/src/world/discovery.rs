//! AODV on a world's nodes: how its messages are handled, and when they leave.

use ackwise_queue::Nanos;

use super::{Event, World};
use crate::aodv::{
    ACTIVE_ROUTE_TIMEOUT, ALLOWED_HELLO_LOSS, DiscoveryTimeout, HELLO_INTERVAL, HoldResult,
    MY_ROUTE_TIMEOUT, NET_DIAMETER, NET_TRAVERSAL_TIME, NODE_TRAVERSAL_TIME, RouteEntry, newest,
};
use crate::frame::{Body, Datagram, NodeId, Unreachable};
use crate::scenario::Routing;

/// Random delay before a search is passed on, so that neighbours do not repeat a flood together.
const JITTER: Nanos = 10_000_000;
/// Bytes of the UDP and IP headers.
const HEADERS: u32 = 28;
const REQUEST_BYTES: u32 = HEADERS + 24;
const REPLY_BYTES: u32 = HEADERS + 20;
/// The maximum number of unreachable nodes that fit a frame.
const MAX_BROKEN: usize = 9;

impl World {
    /// Sends a packet along its route, or holds it until there is one.
    pub(super) fn route_found(&mut self, node: NodeId, to: NodeId, datagram: Datagram) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        if router.is_valid(to, now) {
            let next = router.routes[to].next;
            for used in [to, next, datagram.from] {
                router.refresh(used, now);
            }
            return self.enqueue(node, Some(next), datagram);
        }
        if datagram.from != node && !router.repairs(to) {
            self.nodes[node].counts.unrouted += 1;
            return self.send_route_error(node, &[to]);
        }
        match self.nodes[node].router.hold(to, datagram) {
            HoldResult::Waits { searching: true } => {}
            HoldResult::Waits { searching: false } => self.search(node, to),
            HoldResult::NoRoom => self.nodes[node].counts.overflows += 1,
        }
    }

    fn search(&mut self, node: NodeId, target: NodeId) {
        let Some(search) = self.nodes[node].router.search(node, target, self.now) else {
            return;
        };
        let body = Body::Request {
            hops: 0,
            id: search.id,
            target,
            target_seq: search.target_seq,
            origin: node,
            origin_seq: search.origin_seq,
        };
        self.after(search.wait, Event::Lookup(node, target, search.attempt));
        self.route(node, broadcast(node, search.ttl, REQUEST_BYTES, body));
    }

    pub(super) fn lookup_timer(&mut self, node: NodeId, target: NodeId, attempt: u32) {
        match self.nodes[node].router.unanswered(target, attempt) {
            None => {}
            Some(DiscoveryTimeout::Retry) => self.search(node, target),
            Some(DiscoveryTimeout::GiveUp) => {
                let repaired = self.nodes[node].router.repairs(target);
                let lost = self.nodes[node].router.end_lookup(target).len();
                self.nodes[node].counts.unrouted += lost as u64;
                if repaired {
                    self.send_route_error(node, &[target]);
                }
            }
        }
    }

    /// Handles a packet from a neighbour, made by another node: the routes back to both are alive
    /// (§6.2), and the neighbour must be told if there is no route on.
    pub(super) fn heard_from(&mut self, node: NodeId, from: NodeId, packet: &Datagram) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        router.refresh(from, now);
        router.refresh(packet.from, now);
        if let Some(to) = packet.to.filter(|to| *to != node) {
            router.add_precursor(to, from);
        }
    }

    /// Handles a packet of the protocol itself.
    pub(super) fn routing(&mut self, node: NodeId, from: NodeId, datagram: Datagram) {
        let neighbour = RouteEntry {
            next: from,
            hops: 1,
            seq: None,
            expires: self.now + ACTIVE_ROUTE_TIMEOUT,
        };
        self.nodes[node].router.learn(from, neighbour, self.now);
        match datagram.body {
            Body::Request { .. } => self.on_request(node, from, datagram),
            Body::Reply { .. } => self.on_reply(node, from, datagram),
            Body::RouteError(list) => self.on_broken(node, from, &list),
            Body::Hello { seq } => self.on_hello(node, from, seq),
            Body::Tcp(_) | Body::Filler => {}
        }
    }

    fn on_request(&mut self, node: NodeId, from: NodeId, mut datagram: Datagram) {
        let now = self.now;
        let Body::Request {
            hops,
            id,
            target,
            target_seq,
            origin,
            origin_seq,
        } = &mut datagram.body
        else {
            return;
        };
        let router = &mut self.nodes[node].router;
        if !router.is_new(*origin, *id, now) {
            return;
        }
        *hops += 1;
        // §6.5: the reverse route lives for the rest of the discovery.
        let spent = 2 * Nanos::from(*hops) * NODE_TRAVERSAL_TIME;
        let back = RouteEntry {
            next: from,
            hops: *hops,
            seq: Some(*origin_seq),
            expires: now + (2 * NET_TRAVERSAL_TIME).saturating_sub(spent),
        };
        router.learn(*origin, back, now);
        let (target, origin) = (*target, *origin);
        if target == node {
            // §6.1, §6.6.1: the node's own number catches up with the requested one.
            if let Some(seq) = newest(Some(router.seq), *target_seq) {
                router.seq = seq;
            }
            let body = Body::Reply {
                hops: 0,
                target,
                target_seq: router.seq,
                lifetime: MY_ROUTE_TIMEOUT,
                origin,
            };
            return self.reply(node, from, body);
        }
        if let Some(route) = router.knows(target, *target_seq, now) {
            let known = RouteEntry {
                next: route.next,
                hops: route.hops,
                seq: route.seq,
                expires: route.expires,
            };
            return self.reply_for(node, target, known, origin, back);
        }
        // §6.5: the newest number known to any node on the path.
        *target_seq = newest(*target_seq, router.routes[target].seq);
        datagram.ttl -= 1;
        if datagram.ttl > 0 {
            let pause = self.jitter.below(JITTER);
            self.after(pause, Event::Emit(node, Box::new(datagram)));
        }
    }

    /// §6.6.2 and §6.6.3: a node with a route to the target reports it to the origin, and reports
    /// the reverse route to the target, which has not heard the request.
    fn reply_for(
        &mut self,
        node: NodeId,
        target: NodeId,
        entry: RouteEntry,
        origin: NodeId,
        back: RouteEntry,
    ) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        router.add_precursor(target, back.next);
        router.add_precursor(origin, entry.next);
        for (to, of, route, route_target) in [
            (back.next, target, entry, origin),
            (entry.next, origin, back, target),
        ] {
            let body = Body::Reply {
                hops: route.hops,
                target: of,
                target_seq: route.seq.unwrap_or(0),
                lifetime: route.expires - now,
                origin: route_target,
            };
            self.reply(node, to, body);
        }
    }

    fn reply(&mut self, node: NodeId, to: NodeId, body: Body) {
        self.nodes[node].counts.routing += 1;
        let datagram = Datagram {
            from: node,
            to: Some(to),
            ttl: NET_DIAMETER as u8,
            bytes: REPLY_BYTES,
            body,
        };
        self.enqueue(node, Some(to), datagram);
    }

    fn on_reply(&mut self, node: NodeId, from: NodeId, mut datagram: Datagram) {
        let now = self.now;
        let Body::Reply {
            hops,
            target,
            target_seq,
            lifetime,
            origin,
        } = &mut datagram.body
        else {
            return;
        };
        *hops += 1;
        let router = &mut self.nodes[node].router;
        let entry = RouteEntry {
            next: from,
            hops: *hops,
            seq: Some(*target_seq),
            expires: now + *lifetime,
        };
        router.learn(*target, entry, now);
        if *origin == node {
            for waiting in router.end_lookup(*target) {
                self.route(node, waiting);
            }
            return;
        }
        if !router.is_valid(*origin, now) {
            return;
        }
        let back = router.routes[*origin].next;
        router.add_precursor(*target, back);
        router.add_precursor(*origin, from);
        router.refresh(*origin, now);
        self.reply(node, back, datagram.body);
    }

    /// Handles a frame that a neighbour did not take. `gone` means that none of the tries was
    /// acknowledged; otherwise the channel was never clear, which says nothing about the neighbour.
    pub(super) fn link_failed(
        &mut self,
        node: NodeId,
        neighbour: NodeId,
        datagram: Datagram,
        gone: bool,
    ) {
        if !gone || !self.model.link_feedback || self.model.routing == Routing::Static {
            return;
        }
        self.link_lost(node, neighbour, Some(&datagram));
        // A packet that the node made, or whose route it repairs, is sent once there is a new route.
        let router = &self.nodes[node].router;
        let waits = |to: &NodeId| datagram.from == node || router.repairs(*to);
        let data = matches!(datagram.body, Body::Tcp(_) | Body::Filler);
        if let Some(to) = datagram.to.filter(|to| data && waits(to)) {
            self.route_found(node, to, datagram);
        }
    }

    /// Handles the loss of routes over a neighbour: repairs or reports them. `packet` was on one of them.
    fn link_lost(&mut self, node: NodeId, neighbour: NodeId, packet: Option<&Datagram>) {
        let mut lost = self.nodes[node].router.lose(neighbour);
        if self.model.local_repair {
            lost.retain(|to| {
                let router = &mut self.nodes[node].router;
                let from = packet.filter(|packet| packet.to == Some(*to));
                let hops = from.map_or(0, |packet| router.routes[packet.from].hops);
                let repairs = router.repair(*to, hops);
                if repairs {
                    self.search(node, *to);
                }
                !repairs
            });
        }
        self.send_route_error(node, &lost);
    }

    /// Starts the hellos; the first one of each node is within an interval.
    pub(super) fn begin_hellos(&mut self) {
        if !self.model.hellos || self.model.routing == Routing::Static {
            return;
        }
        for node in 0..self.nodes.len() {
            let first = self.jitter.below(HELLO_INTERVAL);
            self.at(first, Event::Hello(node));
        }
    }

    /// §6.9: a node on a route sends a hello each interval. Floods, which would do as well, are rare.
    pub(super) fn hello(&mut self, node: NodeId) {
        let now = self.now;
        self.after(HELLO_INTERVAL, Event::Hello(node));
        for gone in self.nodes[node].router.silent(now) {
            self.link_lost(node, gone, None);
        }
        let router = &self.nodes[node].router;
        if router.is_on_a_way(now) {
            let body = Body::Hello { seq: router.seq };
            self.route(node, broadcast(node, 1, REPLY_BYTES, body));
        }
    }

    fn on_hello(&mut self, node: NodeId, from: NodeId, seq: u32) {
        let now = self.now;
        let entry = RouteEntry {
            next: from,
            hops: 1,
            seq: Some(seq),
            expires: now + ALLOWED_HELLO_LOSS * HELLO_INTERVAL,
        };
        let router = &mut self.nodes[node].router;
        router.learn(from, entry, now);
        router.heard_from(from, true, now);
    }

    /// Records that a packet of any kind came from a neighbour.
    pub(super) fn heard_any(&mut self, node: NodeId, from: NodeId) {
        if self.model.hellos {
            let now = self.now;
            self.nodes[node].router.heard_from(from, false, now);
        }
    }

    /// Sends RERR to the users of a route, if there are any (§6.11): to a single user in a frame of
    /// its own, which is acknowledged, and to several as a broadcast.
    fn send_route_error(&mut self, node: NodeId, lost: &[NodeId]) {
        let now = self.now;
        let broken = self.nodes[node].router.broken(lost);
        for part in broken.list.chunks(MAX_BROKEN) {
            if !self.nodes[node].router.may_err(now) {
                return;
            }
            let bytes = HEADERS + 4 + 8 * part.len() as u32;
            let mut error = broadcast(node, 1, bytes, Body::RouteError(part.to_vec()));
            if let [user] = broken.precursors[..] {
                error.to = Some(user);
            }
            self.nodes[node].counts.routing += 1;
            self.enqueue(node, error.to, error);
        }
    }

    fn on_broken(&mut self, node: NodeId, from: NodeId, list: &[Unreachable]) {
        let lost = self.nodes[node].router.forget(from, list);
        self.send_route_error(node, &lost);
    }
}

fn broadcast(from: NodeId, ttl: u8, bytes: u32, body: Body) -> Datagram {
    Datagram {
        from,
        to: None,
        ttl,
        bytes,
        body,
    }
}

#[cfg(test)]
mod tests;
