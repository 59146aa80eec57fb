//! The routing table, tested by hand.

use super::*;

fn entry(next: NodeId, hops: u8, seq: u32, expires: Nanos) -> RouteEntry {
    RouteEntry {
        next,
        hops,
        seq: Some(seq),
        expires,
    }
}

#[test]
fn newer_ways_and_shorter_ones_are_taken() {
    let mut router = Router::new(4);
    router.learn(3, entry(1, 4, 10, 100), 0);
    router.learn(3, entry(2, 3, 9, 100), 0);
    assert_eq!(router.routes[3].next, 1, "older");
    router.learn(3, entry(2, 5, 10, 100), 0);
    assert_eq!(router.routes[3].next, 1, "longer");
    router.learn(3, entry(2, 3, 10, 100), 0);
    assert_eq!(router.routes[3].next, 2, "shorter");
    router.learn(3, entry(1, 9, 11, 200), 0);
    assert_eq!((router.routes[3].next, router.routes[3].hops), (1, 9));
    assert!(router.is_valid(3, 199) && !router.is_valid(3, 200));
    router.learn(3, entry(2, 12, 11, 300), 200);
    assert_eq!(router.routes[3].next, 2, "the shorter route has expired");
    router.learn(3, entry(2, 12, 11, 250), 210);
    assert!(
        router.is_valid(3, 299),
        "a remaining lifetime is not shortened"
    );
}

#[test]
fn a_way_is_told_if_it_is_as_new_as_asked() {
    let mut router = Router::new(4);
    assert!(router.knows(3, None, 0).is_none());
    router.learn(3, entry(1, 4, 10, 100), 0);
    assert!(router.knows(3, Some(11), 0).is_none());
    assert!(router.knows(3, Some(10), 0).is_some());
    assert!(router.knows(3, None, 99).is_some());
    assert!(router.knows(3, None, 100).is_none());
}

#[test]
fn ten_errors_a_second() {
    let mut router = Router::new(1);
    let sent = (0..100).filter(|i| router.may_err(i * 19 * MS)).count();
    // In 1.9 s: ten from 0 on, and ten from 1.007 s on.
    assert_eq!(sent, 20);
}

/// A neighbour is gone two seconds after its last packet, if it sent hellos. One that never sent a
/// hello, or whose last hello is 15 s old, is not watched.
#[test]
fn who_has_sent_hellos_is_waited_for() {
    let mut router = Router::new(4);
    router.heard_from(1, true, 0);
    router.heard_from(2, false, 0);
    router.heard_from(3, true, 0);
    router.heard_from(1, false, 1_500 * MS);
    assert_eq!(router.silent(2 * SECOND), [0; 0]);
    assert_eq!(router.silent(2 * SECOND + 1), [3]);
    assert_eq!(router.silent(3 * SECOND), [0; 0], "once");
    assert_eq!(router.silent(3_500 * MS + 1), [1]);
    router.heard_from(1, true, 4 * SECOND);
    router.heard_from(1, false, 18 * SECOND);
    assert_eq!(router.silent(21 * SECOND), [0; 0]);
}

/// §6.12: a repair needs other users of the route, and a target at most ten hops away. It searches
/// as far as the target was, or half way to the sender, plus two hops.
#[test]
fn a_repair_searches_as_far_as_the_route_was_long() {
    let mut router = Router::new(4);
    for hops in [3, 11] {
        router.learn(3, entry(1, hops, hops.into(), SECOND), 0);
        router.lose(1);
        assert!(
            !router.repair(3, 0),
            "a route without users is not repaired"
        );
        router.add_precursor(3, 2);
        assert_eq!(router.repair(3, 0), hops == 3);
    }
    let search = router.search(0, 3, 0).unwrap();
    assert_eq!((search.ttl, search.target_seq), (5, Some(12)));
    assert_eq!(router.unanswered(3, 1), Some(DiscoveryTimeout::GiveUp));
    router.end_lookup(3);
    router.routes[3].hops = 3;
    assert!(router.repair(3, 9));
    assert_eq!(router.search(0, 3, 0).unwrap().ttl, 6);
}
