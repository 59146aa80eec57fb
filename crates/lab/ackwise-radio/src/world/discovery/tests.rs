//! AODV on small fields.

use crate::scenario::RadioModel;

use super::*;

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

fn world(places: &[(f64, f64)]) -> World {
    world_of(places, RadioModel::default())
}

fn world_of(places: &[(f64, f64)], radio: RadioModel) -> World {
    let mut radio = RadioModel {
        capture_db: Some(4.0),
        ..radio
    };
    // No packet may be lost to a busy channel.
    (radio.mac.max_be, radio.mac.max_backoffs) = (8, 10);
    World::new(places, &radio, &[], 1)
}

/// Sends a packet of padding; returns whether it arrived within this time.
fn send(world: &mut World, from: NodeId, to: NodeId, for_: Nanos) -> bool {
    let packet = Datagram {
        from,
        to: Some(to),
        ttl: 64,
        bytes: 60,
        body: Body::Filler,
    };
    let before = world.delivered;
    world.route(from, packet);
    let until = world.now + for_;
    while world.step(until) {}
    world.delivered > before
}

fn sent(world: &World) -> Vec<u64> {
    world.nodes.iter().map(|node| node.counts.routing).collect()
}

/// 0 - 1 - 2 - 3, and 4 beside 0, which hears 0 and 1.
const CHAIN: [(f64, f64); 5] = [
    (0.0, 0.0),
    (30.0, 0.0),
    (60.0, 0.0),
    (90.0, 0.0),
    (0.0, 30.0),
];

fn chain() -> World {
    world(&CHAIN)
}

/// Rings of one and three hops: 0 asks twice, the nodes that hear the second request pass it on,
/// the target answers, and its answer is passed back.
#[test]
fn a_target_three_hops_away_is_found_by_the_second_ring() {
    let mut world = chain();
    assert!(send(&mut world, 0, 3, SECOND));
    assert_eq!(sent(&world), [2, 2, 2, 1, 1]);
    let (there, back) = (&world.nodes[0].router, &world.nodes[3].router);
    assert_eq!((there.routes[3].next, there.routes[3].hops), (1, 3));
    assert_eq!((back.routes[0].next, back.routes[0].hops), (2, 3));
    assert!(there.is_valid(3, world.now) && back.is_valid(0, world.now));
    assert!(world.nodes[1].router.routes[3].precursors.contains(&0));
    assert!(
        send(&mut world, 0, 3, SECOND),
        "the second packet needs no search and arrives"
    );
    assert_eq!(sent(&world), [2, 2, 2, 1, 1]);
}

/// 4 asks its neighbours; 0 and 1 know the route, and tell 3 about 4.
#[test]
fn who_knows_the_way_answers_for_the_target() {
    let mut world = chain();
    send(&mut world, 0, 3, SECOND);
    let before = sent(&world);
    assert!(send(&mut world, 4, 3, SECOND));
    let after = sent(&world);
    assert_eq!(after[4] - before[4], 1, "one ring");
    assert_eq!(after[3], before[3], "3 did not repeat the request");
    let routes = &world.nodes[4].router.routes;
    assert_eq!(
        (routes[3].next, routes[3].hops),
        (1, 3),
        "the shorter of two answers"
    );
    let back = &world.nodes[3].router;
    assert_eq!(back.routes[4].hops, 3);
    assert!(back.is_valid(4, world.now));
}

/// 0, then 1 or 2, then 3; and 4 in front of 0.
fn diamond() -> World {
    diamond_of(RadioModel::default())
}

fn diamond_of(radio: RadioModel) -> World {
    let places = [
        (0.0, 0.0),
        (30.0, 15.0),
        (30.0, -15.0),
        (60.0, 0.0),
        (-40.0, 0.0),
    ];
    let mut world = world_of(&places, radio);
    assert!(send(&mut world, 4, 3, SECOND));
    world
}

#[test]
fn a_break_is_told_to_who_uses_the_way_and_goes_round() {
    let mut world = diamond();
    let first = world.nodes[0].router.routes[3].next;
    let other = 3 - first;
    let acks = world.nodes[4].counts.acks;
    world.air.disable_rx(first);
    assert!(!send(&mut world, 4, 3, 100 * MS), "lost at the break");
    assert!(!world.nodes[0].router.is_valid(3, world.now));
    assert!(!world.nodes[4].router.is_valid(3, world.now), "4 was told");
    assert_eq!(
        world.nodes[4].counts.acks,
        acks + 1,
        "4 acknowledged one more frame: the one that told it"
    );
    let before = sent(&world);
    assert!(send(&mut world, 4, 3, SECOND));
    assert_eq!(world.nodes[0].router.routes[3].next, other);
    // The first search for a lost route of three hops covers five: no ring of one.
    assert_eq!(sent(&world)[4] - before[4], 1);
}

/// A lost error leaves no black hole: a node that continues to send is told again.
#[test]
fn who_sends_into_a_lost_way_is_told() {
    let mut world = diamond();
    let route = &mut world.nodes[0].router.routes[3];
    route.valid = false;
    route.precursors.clear();
    assert!(!send(&mut world, 4, 3, 100 * MS));
    assert!(!world.nodes[4].router.is_valid(3, world.now));
    assert!(send(&mut world, 4, 3, SECOND));
}

/// A route lives three seconds after its last use, and six after a reply.
#[test]
fn ways_that_nobody_uses_run_out() {
    let mut world = chain();
    send(&mut world, 0, 3, SECOND);
    let expires = world.nodes[0].router.routes[3].expires;
    assert!((6 * SECOND..7 * SECOND).contains(&expires), "{expires}");
    world.now = 5 * SECOND;
    send(&mut world, 0, 3, MS);
    assert_eq!(world.nodes[0].router.routes[3].expires, 8 * SECOND);
    world.now = 8 * SECOND;
    assert!(!world.nodes[0].router.is_valid(3, world.now));
}

/// Rings of 1, 3, 5, 7 take 80 ms for each hop plus two, 1.92 s in total; three searches
/// of the whole network take 2.8, 5.6 and 11.2 s.
#[test]
fn a_node_that_is_not_there_is_given_up_after_seven_searches() {
    let mut world = world(&[(0.0, 0.0), (500.0, 0.0)]);
    let until = 1_920 * MS + 7 * NET_TRAVERSAL_TIME;
    assert!(!send(&mut world, 0, 1, until - MS));
    assert_eq!((sent(&world)[0], world.nodes[0].counts.unrouted), (7, 0));
    while world.step(until) {}
    assert_eq!((sent(&world)[0], world.nodes[0].counts.unrouted), (7, 1));
}

/// Nodes on a route send a hello each second; 4, beside it, does not. A relay that falls silent
/// counts as gone after two seconds, although nobody sent it anything.
#[test]
fn hellos_find_a_silent_neighbour() {
    let radio = RadioModel {
        hellos: true,
        link_feedback: false,
        ..RadioModel::default()
    };
    let mut world = world_of(&CHAIN, radio);
    assert!(send(&mut world, 0, 3, SECOND));
    let before = sent(&world);
    let until = world.now + 3 * SECOND;
    while world.step(until) {}
    let hellos: Vec<u64> = sent(&world)
        .iter()
        .zip(before)
        .map(|(a, b)| a - b)
        .collect();
    assert_eq!(hellos, [3, 3, 3, 3, 0]);
    assert!(world.nodes[0].router.is_valid(3, world.now));
    world.nodes[1].router = crate::aodv::Router::new(CHAIN.len());
    world.air.disable_rx(1);
    let silent_from = world.now;
    let over = |world: &World| world.nodes[0].router.routes[3].valid;
    while over(&world) && world.step(silent_from + 10 * SECOND) {}
    let duration = world.now - silent_from;
    // Its last hello was up to a second ago, and 0 checks once per second.
    assert!((SECOND..=3 * SECOND).contains(&duration), "{duration}");
}

/// The node that finds the break searches for the target itself, and the packet takes the other route.
/// The packet's sender does not search, and is not told.
#[test]
fn a_local_repair_saves_the_packet() {
    let radio = RadioModel {
        local_repair: true,
        ..RadioModel::default()
    };
    let mut world = diamond_of(radio.clone());
    let first = world.nodes[0].router.routes[3].next;
    let own = world.nodes[4].router.seq;
    world.air.disable_rx(first);
    assert!(send(&mut world, 4, 3, SECOND), "it arrives");
    assert_eq!(world.nodes[0].router.routes[3].next, 3 - first);
    assert!(world.nodes[4].router.is_valid(3, world.now));
    assert_eq!(world.nodes[4].router.seq, own, "4 did not search");
    // No other route: one search of 2 + 2 hops, with 80 ms for each and two more; then 4 is told.
    let mut world = diamond_of(radio);
    world.air.disable_rx(1);
    world.air.disable_rx(2);
    let waits = 2 * 40 * MS * (4 + 2);
    assert!(!send(&mut world, 4, 3, waits - 20 * MS));
    assert!(world.nodes[4].router.is_valid(3, world.now), "not yet");
    assert!(!send(&mut world, 0, 4, 200 * MS) || !world.nodes[4].router.is_valid(3, world.now));
    assert!(!world.nodes[0].router.is_valid(3, world.now));
    assert!(!world.nodes[4].router.is_valid(3, world.now), "4 was told");
}
