//! AODV (RFC 3561) for a field that does not move: discovery by an expanding ring,
//! replies by the target or by who knows a way that is as new, and then one to the
//! target as well since TCP goes both ways (the G flag, §5.1), breaks from frames that
//! nobody acknowledged, errors to whoever uses a way, and timers. Hellos and local
//! repair (§6.9, §6.12) are optional there and left out: link-layer feedback takes their
//! place (§6.10). Links work both ways, so nobody is blacklisted (§6.8).

use std::collections::VecDeque;

use crate::scenario::Routing;
use ackwise_queue::Nanos;

use crate::frame::{Body, Datagram, NodeId};
use crate::world::{Event, World};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
// RFC 3561 §10.
const ACTIVE_ROUTE: Nanos = 3_000 * MS;
/// MY_ROUTE_TIMEOUT.
const MY_ROUTE: Nanos = 2 * ACTIVE_ROUTE;
const NODE_TRAVERSAL: Nanos = 40 * MS;
const NET_DIAMETER: u32 = 35;
const NET_TRAVERSAL: Nanos = 2 * NODE_TRAVERSAL * NET_DIAMETER as Nanos;
const PATH_DISCOVERY: Nanos = 2 * NET_TRAVERSAL;
const TTL_START: u32 = 1;
const TTL_INCREMENT: u32 = 2;
const TTL_THRESHOLD: u32 = 7;
const TIMEOUT_BUFFER: u32 = 2;
const RREQ_RETRIES: u32 = 2;
/// Errors that a node may send in a second (RERR_RATELIMIT).
const MAX_ERRORS: usize = 10;
/// Before it is passed on, so that neighbours do not answer a flood together.
const JITTER: Nanos = 10 * MS;
/// Packets that wait for a route, for each target.
const MAX_WAITING: usize = 64;
/// UDP and IP.
const HEADERS: u32 = 28;
const REQUEST_BYTES: u32 = HEADERS + 24;
const REPLY_BYTES: u32 = HEADERS + 20;
/// That fit a frame.
const MAX_BROKEN: usize = 9;

#[derive(Debug, Clone, Default)]
struct Route {
    next: NodeId,
    hops: u8,
    seq: Option<u32>,
    valid: bool,
    expires: Nanos,
    /// Neighbours that use it (precursors).
    users: Vec<NodeId>,
}

impl Route {
    fn is_valid(&self, now: Nanos) -> bool {
        self.valid && self.expires > now
    }

    /// How far to look for one whose way was lost, or that was never known (§6.4).
    fn first_ring(&self) -> u32 {
        match self.hops {
            0 => TTL_START,
            hops => ring(u32::from(hops) + TTL_INCREMENT),
        }
    }
}

/// A route as a control message announces it.
#[derive(Debug, Clone, Copy)]
struct RouteEntry {
    next: NodeId,
    hops: u8,
    seq: Option<u32>,
    expires: Nanos,
}

#[derive(Debug, Default)]
struct Lookup {
    /// Searches so far.
    attempt: u32,
    ttl: u32,
    /// Searches of the whole network among them.
    wide: u32,
    waiting: Vec<Datagram>,
}

/// The routes that a node knows.
#[derive(Debug)]
pub(crate) struct Router {
    seq: u32,
    request: u32,
    routes: Vec<Route>,
    lookups: Vec<Option<Lookup>>,
    /// Floods that it has seen: who, which, until when that is remembered.
    seen: Vec<(NodeId, u32, Nanos)>,
    /// When its last errors left.
    errors: VecDeque<Nanos>,
}

impl Router {
    pub fn new(nodes: usize) -> Router {
        Router {
            seq: 0,
            request: 0,
            routes: vec![Route::default(); nodes],
            lookups: (0..nodes).map(|_| None).collect(),
            seen: Vec::new(),
            errors: VecDeque::new(),
        }
    }

    fn is_valid(&self, to: NodeId, now: Nanos) -> bool {
        self.routes[to].is_valid(now)
    }

    fn refresh(&mut self, to: NodeId, now: Nanos) {
        let route = &mut self.routes[to];
        if route.valid {
            route.expires = route.expires.max(now + ACTIVE_ROUTE);
        }
    }

    /// §6.2: a way is taken if it is newer, or as new and shorter, or the old one is
    /// not valid any more.
    fn learn(&mut self, to: NodeId, way: RouteEntry, now: Nanos) {
        let route = &mut self.routes[to];
        let valid = route.is_valid(now);
        let better = match (way.seq, route.seq) {
            (Some(new), Some(old)) => {
                let ahead = new.wrapping_sub(old) as i32;
                ahead > 0 || ahead == 0 && (way.hops < route.hops || !valid)
            }
            (Some(_), None) => true,
            (None, _) => !valid || way.hops < route.hops,
        };
        if valid && route.next == way.next {
            route.expires = route.expires.max(way.expires);
        } else if better {
            route.expires = way.expires;
        }
        if better {
            route.next = way.next;
            route.hops = way.hops;
            route.seq = way.seq.or(route.seq);
            route.valid = true;
        }
    }

    /// The next hop, the hops and the number of a way that may be told to who asks for
    /// one at least as new (§6.6).
    fn knows(&self, target: NodeId, asked: Option<u32>, now: Nanos) -> Option<&Route> {
        let route = Some(&self.routes[target]).filter(|route| route.is_valid(now))?;
        let ahead = route.seq?.wrapping_sub(asked.or(route.seq)?) as i32;
        (ahead >= 0).then_some(route)
    }

    /// Whether it may send an error now (§6.11); it does then.
    fn may_err(&mut self, now: Nanos) -> bool {
        while self.errors.front().is_some_and(|at| at + SECOND <= now) {
            self.errors.pop_front();
        }
        let may = self.errors.len() < MAX_ERRORS;
        if may {
            self.errors.push_back(now);
        }
        may
    }

    fn adopt(&mut self, to: NodeId, user: NodeId) {
        if !self.routes[to].users.contains(&user) {
            self.routes[to].users.push(user);
        }
    }

    /// Whether that flood is new here.
    fn is_new(&mut self, origin: NodeId, id: u32, now: Nanos) -> bool {
        self.seen.retain(|(.., until)| *until > now);
        if self.seen.iter().any(|(o, i, _)| (*o, *i) == (origin, id)) {
            return false;
        }
        self.seen.push((origin, id, now + PATH_DISCOVERY));
        true
    }
}

/// The later of two numbers, modulo their range (§6.1).
fn newest(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) if (b.wrapping_sub(a) as i32) > 0 => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// A search so far, or of the whole network beyond the threshold (§6.4).
fn ring(ttl: u32) -> u32 {
    if ttl > TTL_THRESHOLD {
        NET_DIAMETER
    } else {
        ttl
    }
}

impl World {
    /// A packet for a node that a route leads to, or is to lead to.
    pub(crate) fn route_found(&mut self, node: NodeId, to: NodeId, datagram: Datagram) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        if router.is_valid(to, now) {
            let next = router.routes[to].next;
            for used in [to, next, datagram.from] {
                router.refresh(used, now);
            }
            return self.enqueue(node, Some(next), datagram);
        }
        if datagram.from != node {
            self.nodes[node].counts.unrouted += 1;
            return self.tell_broken(node, &[to]);
        }
        let lookup = &mut self.nodes[node].router.lookups[to];
        let searching = lookup.is_some();
        let waiting = &mut lookup.get_or_insert_default().waiting;
        if waiting.len() < MAX_WAITING {
            waiting.push(datagram);
        } else {
            self.nodes[node].counts.overflows += 1;
        }
        if !searching {
            self.search(node, to);
        }
    }

    fn search(&mut self, node: NodeId, target: NodeId) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        let Some(lookup) = &mut router.lookups[target] else {
            return;
        };
        lookup.ttl = match lookup.attempt {
            0 => router.routes[target].first_ring(),
            _ => ring(lookup.ttl + TTL_INCREMENT),
        };
        lookup.attempt += 1;
        let (ttl, attempt) = (lookup.ttl, lookup.attempt);
        let wait = if ttl < NET_DIAMETER {
            2 * NODE_TRAVERSAL * Nanos::from(ttl + TIMEOUT_BUFFER)
        } else {
            lookup.wide += 1;
            NET_TRAVERSAL << (lookup.wide - 1)
        };
        router.seq = router.seq.wrapping_add(1);
        router.request += 1;
        let (id, origin_seq) = (router.request, router.seq);
        router.is_new(node, id, now);
        let body = Body::Request {
            hops: 0,
            id,
            target,
            target_seq: router.routes[target].seq,
            origin: node,
            origin_seq,
        };
        self.after(wait, Event::Lookup(node, target, attempt));
        self.route(node, broadcast(node, ttl as u8, REQUEST_BYTES, body));
    }

    pub(crate) fn lookup_timer(&mut self, node: NodeId, target: NodeId, attempt: u32) {
        let lookup = &mut self.nodes[node].router.lookups[target];
        let Some(current) = lookup.as_ref().filter(|l| l.attempt == attempt) else {
            return;
        };
        if current.wide <= RREQ_RETRIES {
            return self.search(node, target);
        }
        let given_up = lookup.take();
        let lost = given_up.map_or(0, |l| l.waiting.len());
        self.nodes[node].counts.unrouted += lost as u64;
    }

    /// A packet for a node came from a neighbour, made by another: both ways are alive
    /// (§6.2), and the neighbour is to be told if there is no way on.
    pub(crate) fn heard_from(&mut self, node: NodeId, from: NodeId, packet: &Datagram) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        router.refresh(from, now);
        router.refresh(packet.from, now);
        if let Some(to) = packet.to.filter(|to| *to != node) {
            router.adopt(to, from);
        }
    }

    /// A packet of the protocol itself.
    pub(crate) fn routing(&mut self, node: NodeId, from: NodeId, datagram: Datagram) {
        let neighbour = RouteEntry {
            next: from,
            hops: 1,
            seq: None,
            expires: self.now + ACTIVE_ROUTE,
        };
        self.nodes[node].router.learn(from, neighbour, self.now);
        match datagram.body {
            Body::Request { .. } => self.on_request(node, from, datagram),
            Body::Reply { .. } => self.on_reply(node, from, datagram),
            Body::Broken(list) => self.on_broken(node, from, &list),
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
        // §6.5: the way back lives for what is left of the discovery.
        let spent = 2 * Nanos::from(*hops) * NODE_TRAVERSAL;
        let back = RouteEntry {
            next: from,
            hops: *hops,
            seq: Some(*origin_seq),
            expires: now + (2 * NET_TRAVERSAL).saturating_sub(spent),
        };
        router.learn(*origin, back, now);
        let (target, origin) = (*target, *origin);
        if target == node {
            // §6.1, §6.6.1: its own number catches up with what is asked for.
            if let Some(seq) = newest(Some(router.seq), *target_seq) {
                router.seq = seq;
            }
            let body = Body::Reply {
                hops: 0,
                target,
                target_seq: router.seq,
                lifetime: MY_ROUTE,
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
        // §6.5: the newest number that anybody on the way knows.
        *target_seq = newest(*target_seq, router.routes[target].seq);
        datagram.ttl -= 1;
        if datagram.ttl > 0 {
            let pause = self.jitter.below(JITTER);
            self.after(pause, Event::Emit(node, Box::new(datagram)));
        }
    }

    /// §6.6.2 and §6.6.3: it knows a way to the target, and tells it to the origin; and
    /// the way back to the target, which has not heard the request.
    fn reply_for(
        &mut self,
        node: NodeId,
        target: NodeId,
        way: RouteEntry,
        origin: NodeId,
        back: RouteEntry,
    ) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        router.adopt(target, back.next);
        router.adopt(origin, way.next);
        for (to, of, told, who) in [
            (back.next, target, way, origin),
            (way.next, origin, back, target),
        ] {
            let body = Body::Reply {
                hops: told.hops,
                target: of,
                target_seq: told.seq.unwrap_or(0),
                lifetime: told.expires - now,
                origin: who,
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
        let way = RouteEntry {
            next: from,
            hops: *hops,
            seq: Some(*target_seq),
            expires: now + *lifetime,
        };
        router.learn(*target, way, now);
        if *origin == node {
            let target = *target;
            if let Some(lookup) = router.lookups[target].take() {
                for waiting in lookup.waiting {
                    self.route(node, waiting);
                }
            }
            return;
        }
        if !router.is_valid(*origin, now) {
            return;
        }
        let back = router.routes[*origin].next;
        router.adopt(*target, back);
        router.adopt(*origin, from);
        router.refresh(*origin, now);
        self.reply(node, back, datagram.body);
    }

    /// A neighbour did not take a frame. `gone`: it did not acknowledge any of the
    /// tries; else the channel was never clear, which says nothing about it.
    pub(crate) fn link_failed(
        &mut self,
        node: NodeId,
        neighbour: NodeId,
        datagram: Datagram,
        gone: bool,
    ) {
        if !gone || !self.model.link_feedback || self.model.routing == Routing::Static {
            return;
        }
        let router = &mut self.nodes[node].router;
        let mut lost = Vec::new();
        for (to, route) in router.routes.iter_mut().enumerate() {
            if route.valid && route.next == neighbour {
                route.valid = false;
                route.seq = route.seq.map(|seq| seq.wrapping_add(1));
                lost.push(to);
            }
        }
        self.tell_broken(node, &lost);
        // What it made itself is sent once there is another way.
        let own = datagram.from == node && matches!(datagram.body, Body::Tcp(_));
        if let Some(to) = datagram.to.filter(|_| own) {
            self.route_found(node, to, datagram);
        }
    }

    /// RERR to those that use a way, if any (§6.11): to one as a frame of its own, which
    /// is acknowledged, to several as a broadcast.
    fn tell_broken(&mut self, node: NodeId, lost: &[NodeId]) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        let mut list = Vec::new();
        let mut users: Vec<NodeId> = Vec::new();
        for to in lost {
            let route = &mut router.routes[*to];
            if !route.users.is_empty() {
                list.push((*to, route.seq.unwrap_or(0)));
                users.append(&mut route.users);
            }
        }
        users.sort_unstable();
        users.dedup();
        for part in list.chunks(MAX_BROKEN) {
            if !self.nodes[node].router.may_err(now) {
                return;
            }
            let bytes = HEADERS + 4 + 8 * part.len() as u32;
            let mut error = broadcast(node, 1, bytes, Body::Broken(part.to_vec()));
            if let [user] = users[..] {
                error.to = Some(user);
            }
            self.nodes[node].counts.routing += 1;
            self.enqueue(node, error.to, error);
        }
    }

    fn on_broken(&mut self, node: NodeId, from: NodeId, list: &[(NodeId, u32)]) {
        let router = &mut self.nodes[node].router;
        let mut lost = Vec::new();
        for (to, seq) in list {
            let route = &mut router.routes[*to];
            if route.valid && route.next == from {
                route.valid = false;
                route.seq = Some(*seq);
                lost.push(*to);
            }
        }
        self.tell_broken(node, &lost);
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
#[path = "aodv_tests.rs"]
mod tests;
