//! The routing table of AODV (RFC 3561) for nodes that do not move: discovery by an expanding
//! ring; replies by the target or by a node with a route that is new enough, and then one to
//! the target as well because TCP goes both ways (the G flag, §5.1); link breaks from frames
//! without acknowledgment (§6.10); errors to the users of a route; and timers. Hellos (§6.9) and
//! local repair (§6.12) are optional in the RFC, and here. Links are bidirectional, so there is
//! no blacklist (§6.8).

use std::collections::VecDeque;

use ackwise_queue::Nanos;

use crate::frame::{Datagram, NodeId, Unreachable};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;
// RFC 3561 §10, with its names.
pub(crate) const ACTIVE_ROUTE_TIMEOUT: Nanos = 3_000 * MS;
pub(crate) const MY_ROUTE_TIMEOUT: Nanos = 2 * ACTIVE_ROUTE_TIMEOUT;
pub(crate) const NODE_TRAVERSAL_TIME: Nanos = 40 * MS;
pub(crate) const NET_DIAMETER: u32 = 35;
pub(crate) const NET_TRAVERSAL_TIME: Nanos = 2 * NODE_TRAVERSAL_TIME * NET_DIAMETER as Nanos;
const PATH_DISCOVERY_TIME: Nanos = 2 * NET_TRAVERSAL_TIME;
pub(crate) const HELLO_INTERVAL: Nanos = SECOND;
/// After this many intervals without a packet, the neighbour is gone.
pub(crate) const ALLOWED_HELLO_LOSS: Nanos = 2;
/// A neighbour whose last hello is older is no longer watched.
const DELETE_PERIOD: Nanos = 5 * ACTIVE_ROUTE_TIMEOUT;
/// 0.3 of the diameter.
const MAX_REPAIR_TTL: u8 = 10;
const LOCAL_ADD_TTL: u32 = 2;
const TTL_START: u32 = 1;
const TTL_INCREMENT: u32 = 2;
const TTL_THRESHOLD: u32 = 7;
const TIMEOUT_BUFFER: u32 = 2;
pub(crate) const RREQ_RETRIES: u32 = 2;
/// Maximum errors that a node may send per second.
const RERR_RATELIMIT: usize = 10;
/// Maximum packets that wait for a route to a target.
const MAX_WAITING: usize = 64;

/// A route to a node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Route {
    /// The neighbour that is the next hop.
    pub next: NodeId,
    /// Number of hops.
    pub hops: u8,
    /// The newest known sequence number of the destination.
    pub seq: Option<u32>,
    /// Whether the route is intact: no error has reported it broken.
    pub valid: bool,
    /// The route is not used from this time on.
    pub expires: Nanos,
    /// The neighbours that use it (precursors).
    pub precursors: Vec<NodeId>,
}

impl Route {
    fn is_valid(&self, now: Nanos) -> bool {
        self.valid && self.expires > now
    }

    /// The TTL of the first search for a node whose route was lost, or never known (§6.4).
    fn first_ring(&self) -> u32 {
        match self.hops {
            0 => TTL_START,
            hops => ring(u32::from(hops) + TTL_INCREMENT),
        }
    }
}

/// A route as announced by a control message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteEntry {
    /// The neighbour that is the next hop.
    pub next: NodeId,
    /// Number of hops.
    pub hops: u8,
    /// The sequence number of the destination, if known.
    pub seq: Option<u32>,
    /// The route is not used from this time on.
    pub expires: Nanos,
}

/// A discovery in progress.
#[derive(Debug, Default)]
struct Lookup {
    /// Number of searches so far.
    attempt: u32,
    ttl: u32,
    /// Number of these searches that covered the whole network.
    wide: u32,
    /// The TTL of the only search, if this is a local repair.
    repair: Option<u32>,
    waiting: Vec<Datagram>,
}

/// When a neighbour was last heard.
#[derive(Debug, Clone, Copy)]
struct Neighbour {
    node: NodeId,
    hello: Nanos,
    packet: Nanos,
}

/// A search to be sent, as a route request (§6.3, §6.4).
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteRequest {
    /// Number of the search within its discovery, from 1.
    pub attempt: u32,
    /// Maximum number of hops.
    pub ttl: u8,
    /// How long to wait for an answer.
    pub wait: Nanos,
    /// Number of the search (RREQ ID).
    pub id: u32,
    /// Sequence number of the node that searches.
    pub origin_seq: u32,
    /// The newest known sequence number of the target.
    pub target_seq: Option<u32>,
}

/// The result for a packet without a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HoldResult {
    /// It waits; a discovery is already in progress if `searching`.
    Waits { searching: bool },
    /// There is no room to hold it.
    NoRoom,
}

/// The action when nobody answered a search in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiscoveryTimeout {
    Retry,
    GiveUp,
}

/// Nodes that have become unreachable, for the users of routes to them (§6.11).
#[derive(Debug, Default)]
pub(crate) struct RouteError {
    /// The unreachable nodes.
    pub list: Vec<Unreachable>,
    /// The neighbours to be told.
    pub precursors: Vec<NodeId>,
}

/// A search that a node has already seen.
#[derive(Debug, Clone, Copy)]
struct SeenRequest {
    origin: NodeId,
    id: u32,
    /// When to forget it.
    until: Nanos,
}

/// The routing state of a node.
#[derive(Debug)]
pub(crate) struct Router {
    /// Its own sequence number.
    pub seq: u32,
    /// Number of its last search (RREQ ID).
    request: u32,
    /// Routes by destination.
    pub routes: Vec<Route>,
    lookups: Vec<Option<Lookup>>,
    /// Searches seen recently.
    seen: Vec<SeenRequest>,
    /// When its last errors left.
    errors: VecDeque<Nanos>,
    /// Neighbours that have sent a hello.
    neighbours: Vec<Neighbour>,
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
            neighbours: Vec::new(),
        }
    }

    pub fn is_valid(&self, to: NodeId, now: Nanos) -> bool {
        self.routes[to].is_valid(now)
    }

    pub fn refresh(&mut self, to: NodeId, now: Nanos) {
        let route = &mut self.routes[to];
        if route.valid {
            route.expires = route.expires.max(now + ACTIVE_ROUTE_TIMEOUT);
        }
    }

    /// Learns a route (§6.2): it is taken if it is newer, or as new and shorter, or if the old
    /// one is no longer valid.
    pub fn learn(&mut self, to: NodeId, entry: RouteEntry, now: Nanos) {
        let route = &mut self.routes[to];
        let valid = route.is_valid(now);
        let better = match (entry.seq, route.seq) {
            (Some(new), Some(old)) => {
                let ahead = new.wrapping_sub(old) as i32;
                ahead > 0 || ahead == 0 && (entry.hops < route.hops || !valid)
            }
            (Some(_), None) => true,
            (None, _) => !valid || entry.hops < route.hops,
        };
        if valid && route.next == entry.next {
            route.expires = route.expires.max(entry.expires);
        } else if better {
            route.expires = entry.expires;
        }
        if better {
            route.next = entry.next;
            route.hops = entry.hops;
            route.seq = entry.seq.or(route.seq);
            route.valid = true;
        }
    }

    /// The route that may be reported to a node that asks for one at least as new as
    /// `min_seq` (§6.6).
    pub fn knows(&self, target: NodeId, min_seq: Option<u32>, now: Nanos) -> Option<&Route> {
        let route = Some(&self.routes[target]).filter(|route| route.is_valid(now))?;
        let ahead = route.seq?.wrapping_sub(min_seq.or(route.seq)?) as i32;
        (ahead >= 0).then_some(route)
    }

    /// Whether an error may be sent now (§6.11); if so, it counts as sent.
    pub fn may_err(&mut self, now: Nanos) -> bool {
        while self.errors.front().is_some_and(|at| at + SECOND <= now) {
            self.errors.pop_front();
        }
        let may = self.errors.len() < RERR_RATELIMIT;
        if may {
            self.errors.push_back(now);
        }
        may
    }

    pub fn add_precursor(&mut self, to: NodeId, user: NodeId) {
        if !self.routes[to].precursors.contains(&user) {
            self.routes[to].precursors.push(user);
        }
    }

    /// Holds a packet until there is a route.
    pub fn hold(&mut self, to: NodeId, datagram: Datagram) -> HoldResult {
        let lookup = &mut self.lookups[to];
        let searching = lookup.is_some();
        let waiting = &mut lookup.get_or_insert_default().waiting;
        if waiting.len() >= MAX_WAITING {
            return HoldResult::NoRoom;
        }
        waiting.push(datagram);
        HoldResult::Waits { searching }
    }

    /// Begins the next search of a discovery (§6.3, §6.4); `None` if there is no discovery.
    pub fn search(&mut self, node: NodeId, target: NodeId, now: Nanos) -> Option<RouteRequest> {
        let lookup = self.lookups[target].as_mut()?;
        lookup.ttl = match lookup.attempt {
            0 if lookup.repair.is_some() => lookup.repair.unwrap_or(TTL_START),
            0 => self.routes[target].first_ring(),
            _ => ring(lookup.ttl + TTL_INCREMENT),
        };
        lookup.attempt += 1;
        let (ttl, attempt) = (lookup.ttl, lookup.attempt);
        let wait = if ttl < NET_DIAMETER {
            2 * NODE_TRAVERSAL_TIME * Nanos::from(ttl + TIMEOUT_BUFFER)
        } else {
            lookup.wide += 1;
            NET_TRAVERSAL_TIME << (lookup.wide - 1)
        };
        self.seq = self.seq.wrapping_add(1);
        self.request += 1;
        let (id, origin_seq) = (self.request, self.seq);
        self.is_new(node, id, now);
        Some(RouteRequest {
            attempt,
            ttl: ttl as u8,
            wait,
            id,
            origin_seq,
            target_seq: self.routes[target].seq,
        })
    }

    /// The action if the current search of a discovery is still this one, and so was not
    /// answered; `None` otherwise.
    pub fn unanswered(&self, target: NodeId, attempt: u32) -> Option<DiscoveryTimeout> {
        let lookup = self.lookups[target].as_ref()?;
        (lookup.attempt == attempt).then_some(
            if lookup.repair.is_none() && lookup.wide <= RREQ_RETRIES {
                DiscoveryTimeout::Retry
            } else {
                DiscoveryTimeout::GiveUp
            },
        )
    }

    /// Ends a discovery, and returns the packets that waited for it.
    pub fn end_lookup(&mut self, target: NodeId) -> Vec<Datagram> {
        let lookup = self.lookups[target].take();
        lookup.map_or_else(Vec::new, |lookup| lookup.waiting)
    }

    /// Begins to repair a lost route that others use, if its target was near enough (§6.12);
    /// the sender of the packet is `sender_hops` away.
    pub fn repair(&mut self, to: NodeId, sender_hops: u8) -> bool {
        let route = &self.routes[to];
        let may = !route.precursors.is_empty() && route.hops <= MAX_REPAIR_TTL;
        if !may || self.lookups[to].is_some() {
            return false;
        }
        let ttl = u32::from(route.hops.max(sender_hops / 2)) + LOCAL_ADD_TTL;
        self.lookups[to] = Some(Lookup {
            repair: Some(ttl.min(NET_DIAMETER)),
            ..Lookup::default()
        });
        true
    }

    /// Whether a route is under repair.
    pub fn repairs(&self, to: NodeId) -> bool {
        self.lookups[to]
            .as_ref()
            .is_some_and(|lookup| lookup.repair.is_some())
    }

    /// Whether the node is part of a route in use (§6.9).
    pub fn is_on_a_way(&self, now: Nanos) -> bool {
        let used = |route: &Route| route.hops > 1 || !route.precursors.is_empty();
        self.routes
            .iter()
            .any(|route| route.is_valid(now) && used(route))
    }

    /// Records that a neighbour sent a packet or a hello.
    pub fn heard_from(&mut self, node: NodeId, hello: bool, now: Nanos) {
        match self.neighbours.iter_mut().find(|known| known.node == node) {
            Some(known) => {
                known.packet = now;
                if hello {
                    known.hello = now;
                }
            }
            None if hello => self.neighbours.push(Neighbour {
                node,
                hello: now,
                packet: now,
            }),
            None => {}
        }
    }

    /// Removes and returns the neighbours that sent hellos but have been silent for too long (§6.9).
    pub fn silent(&mut self, now: Nanos) -> Vec<NodeId> {
        self.neighbours
            .retain(|known| known.hello + DELETE_PERIOD > now);
        let is_gone = |known: &Neighbour| known.packet + ALLOWED_HELLO_LOSS * HELLO_INTERVAL < now;
        let gone = self.neighbours.iter().filter(|known| is_gone(known));
        let gone: Vec<NodeId> = gone.map(|known| known.node).collect();
        self.neighbours.retain(|known| !is_gone(known));
        gone
    }

    /// Invalidates the routes over a neighbour that is gone, and returns their destinations.
    pub fn lose(&mut self, neighbour: NodeId) -> Vec<NodeId> {
        let mut lost = Vec::new();
        for (to, route) in self.routes.iter_mut().enumerate() {
            if route.valid && route.next == neighbour {
                route.valid = false;
                route.seq = route.seq.map(|seq| seq.wrapping_add(1));
                lost.push(to);
            }
        }
        lost
    }

    /// Invalidates the routes over a neighbour to nodes that it reports unreachable, and returns
    /// those nodes.
    pub fn forget(&mut self, neighbour: NodeId, list: &[Unreachable]) -> Vec<NodeId> {
        let mut lost = Vec::new();
        for Unreachable { node, seq } in list {
            let route = &mut self.routes[*node];
            if route.valid && route.next == neighbour {
                route.valid = false;
                route.seq = Some(*seq);
                lost.push(*node);
            }
        }
        lost
    }

    /// The users of routes to these unreachable nodes, who must be told (§6.11).
    pub fn broken(&mut self, lost: &[NodeId]) -> RouteError {
        let mut broken = RouteError::default();
        for to in lost {
            let route = &mut self.routes[*to];
            if !route.precursors.is_empty() {
                broken.list.push(Unreachable {
                    node: *to,
                    seq: route.seq.unwrap_or(0),
                });
                broken.precursors.append(&mut route.precursors);
            }
        }
        broken.precursors.sort_unstable();
        broken.precursors.dedup();
        broken
    }

    /// Whether this search is new here; it is then remembered.
    pub fn is_new(&mut self, origin: NodeId, id: u32, now: Nanos) -> bool {
        self.seen.retain(|flood| flood.until > now);
        let same = |flood: &SeenRequest| flood.origin == origin && flood.id == id;
        if self.seen.iter().any(same) {
            return false;
        }
        let until = now + PATH_DISCOVERY_TIME;
        self.seen.push(SeenRequest { origin, id, until });
        true
    }
}

/// The later of two sequence numbers, modulo their range (§6.1).
pub(crate) fn newest(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) if (b.wrapping_sub(a) as i32) > 0 => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// The TTL of a search, or that of the whole network beyond the threshold (§6.4).
fn ring(ttl: u32) -> u32 {
    if ttl > TTL_THRESHOLD {
        NET_DIAMETER
    } else {
        ttl
    }
}

#[cfg(test)]
mod tests;
