//! AODV (RFC 3561) for a field that does not move: discovery by an expanding ring,
//! replies by the target alone (the D flag, §5.1), breaks from frames that nobody
//! acknowledged, and timers. Hellos and local repair (§6.9, §6.12) are optional there
//! and left out: link-layer feedback takes their place (§6.10).

use ackwise_net::Nanos;
use ackwise_scenario::radio::Routing;

use super::frame::{Body, Datagram, NodeId};
use super::world::{Event, World};

const MS: Nanos = 1_000_000;
// RFC 3561 §10.
const ACTIVE_ROUTE: Nanos = 3_000 * MS;
const NODE_TRAVERSAL: Nanos = 40 * MS;
const NET_DIAMETER: u32 = 35;
const NET_TRAVERSAL: Nanos = 2 * NODE_TRAVERSAL * NET_DIAMETER as Nanos;
const PATH_DISCOVERY: Nanos = 2 * NET_TRAVERSAL;
const TTL_START: u32 = 1;
const TTL_INCREMENT: u32 = 2;
const TTL_THRESHOLD: u32 = 7;
const TIMEOUT_BUFFER: u32 = 2;
const RREQ_RETRIES: u32 = 2;
/// Before it is passed on, so that neighbours do not answer a flood together.
const JITTER: Nanos = 10 * MS;
/// Packets that wait for a route, for each target.
const MOST_WAITING: usize = 64;
/// UDP and IP.
const HEADERS: u32 = 28;
const REQUEST_BYTES: u32 = HEADERS + 24;
const REPLY_BYTES: u32 = HEADERS + 20;
/// That fit a frame.
const MOST_BROKEN: usize = 9;

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

#[derive(Debug, Default)]
struct Lookup {
    attempt: u32,
    waiting: Vec<Datagram>,
}

/// What a node knows of ways.
#[derive(Debug)]
pub(super) struct Router {
    seq: u32,
    request: u32,
    routes: Vec<Route>,
    lookups: Vec<Option<Lookup>>,
    /// Floods that it has seen: who, which, until when that is remembered.
    seen: Vec<(NodeId, u32, Nanos)>,
}

impl Router {
    pub fn new(nodes: usize) -> Router {
        Router {
            seq: 0,
            request: 0,
            routes: vec![Route::default(); nodes],
            lookups: (0..nodes).map(|_| None).collect(),
            seen: Vec::new(),
        }
    }

    fn is_valid(&self, to: NodeId, now: Nanos) -> bool {
        self.routes[to].valid && self.routes[to].expires > now
    }

    fn refresh(&mut self, to: NodeId, now: Nanos) {
        let route = &mut self.routes[to];
        if route.valid {
            route.expires = route.expires.max(now + ACTIVE_ROUTE);
        }
    }

    /// §6.2: a way is taken if it is newer, or as new and shorter, or the old one is
    /// not valid.
    fn learn(&mut self, to: NodeId, next: NodeId, hops: u8, seq: Option<u32>, expires: Nanos) {
        let route = &mut self.routes[to];
        let better = match (seq, route.seq) {
            (Some(new), Some(old)) => {
                let ahead = new.wrapping_sub(old) as i32;
                ahead > 0 || ahead == 0 && (hops < route.hops || !route.valid)
            }
            (Some(_), None) => true,
            (None, _) => !route.valid || hops < route.hops,
        };
        if better {
            route.next = next;
            route.hops = hops;
            route.seq = seq.or(route.seq);
            route.valid = true;
        }
        if route.valid && route.next == next {
            route.expires = route.expires.max(expires);
        }
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

/// How far the so-many-th search goes (§6.4).
fn ring(attempt: u32) -> u32 {
    let ttl = TTL_START + attempt * TTL_INCREMENT;
    if ttl > TTL_THRESHOLD {
        NET_DIAMETER
    } else {
        ttl
    }
}

/// Searches of the whole network that came before this one.
fn wide(attempt: u32) -> u32 {
    let rings = (TTL_THRESHOLD - TTL_START) / TTL_INCREMENT + 1;
    (attempt + 1).saturating_sub(rings)
}

impl World {
    /// A packet for a node that a route leads to, or is to lead to.
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
        if datagram.from != node {
            self.nodes[node].counts.unrouted += 1;
            return self.tell_broken(node, &[to]);
        }
        let lookup = &mut self.nodes[node].router.lookups[to];
        let searching = lookup.is_some();
        let waiting = &mut lookup.get_or_insert_default().waiting;
        if waiting.len() < MOST_WAITING {
            waiting.push(datagram);
        } else {
            self.nodes[node].counts.overflows += 1;
        }
        if !searching {
            self.search(node, to, 0);
        }
    }

    fn search(&mut self, node: NodeId, target: NodeId, attempt: u32) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        router.seq = router.seq.wrapping_add(1);
        router.request += 1;
        let (id, origin_seq) = (router.request, router.seq);
        router.is_new(node, id, now);
        let ttl = ring(attempt);
        let body = Body::Request {
            hops: 0,
            id,
            target,
            target_seq: router.routes[target].seq,
            origin: node,
            origin_seq,
        };
        if let Some(lookup) = &mut router.lookups[target] {
            lookup.attempt = attempt;
        }
        let wait = if ttl < NET_DIAMETER {
            2 * NODE_TRAVERSAL * Nanos::from(ttl + TIMEOUT_BUFFER)
        } else {
            NET_TRAVERSAL << wide(attempt).saturating_sub(1)
        };
        self.after(wait, Event::Lookup(node, target, attempt));
        self.route(node, broadcast(node, ttl as u8, REQUEST_BYTES, body));
    }

    pub(super) fn lookup_timer(&mut self, node: NodeId, target: NodeId, attempt: u32) {
        let router = &mut self.nodes[node].router;
        let current = router.lookups[target].as_ref().map(|l| l.attempt);
        if current != Some(attempt) {
            return;
        }
        if wide(attempt) <= RREQ_RETRIES {
            return self.search(node, target, attempt + 1);
        }
        let given_up = router.lookups[target].take();
        let lost = given_up.map_or(0, |l| l.waiting.len());
        self.nodes[node].counts.unrouted += lost as u64;
    }

    /// Data came from a neighbour, made by another: both ways are alive (§6.2).
    pub(super) fn heard_from(&mut self, node: NodeId, from: NodeId, origin: NodeId) {
        let now = self.now;
        let router = &mut self.nodes[node].router;
        router.refresh(from, now);
        router.refresh(origin, now);
    }

    /// A packet of the protocol itself.
    pub(super) fn routing(&mut self, node: NodeId, from: NodeId, datagram: Datagram) {
        let expires = self.now + ACTIVE_ROUTE;
        let router = &mut self.nodes[node].router;
        router.learn(from, from, 1, None, expires);
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
        let expires = now + (2 * NET_TRAVERSAL).saturating_sub(spent);
        router.learn(*origin, from, *hops, Some(*origin_seq), expires);
        if *target != node {
            // §6.5: the newest number that anybody on the way knows.
            *target_seq = newest(*target_seq, router.routes[*target].seq);
            datagram.ttl -= 1;
            if datagram.ttl > 0 {
                let pause = self.jitter.below(JITTER);
                self.after(pause, Event::Emit(node, Box::new(datagram)));
            }
            return;
        }
        // §6.1, §6.6.1: its own number catches up with what is asked for.
        if let Some(seq) = newest(Some(router.seq), *target_seq) {
            router.seq = seq;
        }
        let body = Body::Reply {
            hops: 0,
            target: node,
            target_seq: router.seq,
            origin: *origin,
        };
        self.reply(node, from, body);
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
            origin,
        } = &mut datagram.body
        else {
            return;
        };
        *hops += 1;
        let router = &mut self.nodes[node].router;
        // MY_ROUTE_TIMEOUT of the target.
        let expires = now + 2 * ACTIVE_ROUTE;
        router.learn(*target, from, *hops, Some(*target_seq), expires);
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

    /// RERR to those that use a way, if any (§6.11).
    fn tell_broken(&mut self, node: NodeId, lost: &[NodeId]) {
        let router = &mut self.nodes[node].router;
        let mut list = Vec::new();
        for to in lost {
            let route = &mut router.routes[*to];
            if !route.users.is_empty() {
                list.push((*to, route.seq.unwrap_or(0)));
                route.users.clear();
            }
        }
        for part in list.chunks(MOST_BROKEN) {
            let bytes = HEADERS + 4 + 8 * part.len() as u32;
            let body = Body::Broken(part.to_vec());
            self.route(node, broadcast(node, 1, bytes, body));
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
mod tests {
    use super::*;

    /// §6.4: 1, 3, 5, 7, then the whole network three times.
    #[test]
    fn the_ring_expands() {
        let ttls: Vec<u32> = (0..7).map(ring).collect();
        assert_eq!(ttls, [1, 3, 5, 7, 35, 35, 35]);
        let wides: Vec<u32> = (0..7).map(wide).collect();
        assert_eq!(wides, [0, 0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn newer_ways_and_shorter_ones_are_taken() {
        let mut router = Router::new(4);
        router.learn(3, 1, 4, Some(10), 100);
        router.learn(3, 2, 3, Some(9), 100);
        assert_eq!(router.routes[3].next, 1, "older");
        router.learn(3, 2, 5, Some(10), 100);
        assert_eq!(router.routes[3].next, 1, "longer");
        router.learn(3, 2, 3, Some(10), 100);
        assert_eq!(router.routes[3].next, 2, "shorter");
        router.learn(3, 1, 9, Some(11), 200);
        assert_eq!((router.routes[3].next, router.routes[3].hops), (1, 9));
        assert!(router.is_valid(3, 199) && !router.is_valid(3, 200));
    }
}
