//! Two routers with a tunnel between real stacks: what passes, what it takes, what
//! happens when something is missing, and what is left when it ends.

mod common;

use ackwise_tunneld::{Daemon, PeerStats};
use common::{Sites, alone, peer, transfer, until};

const BYTES: usize = 4_000_000;

/// The counters as soon as they are so.
fn once(daemon: &Daemon, what: &str, so: impl Fn(&PeerStats) -> bool) -> PeerStats {
    until(what, || Some(peer(daemon)).filter(&so))
}

#[test]
fn both_directions_of_both_families_arrive_byte_by_byte() {
    let _alone = alone();
    let sites = Sites::new();
    let [far, near] = sites.tunnel("");
    for to in ["10.9.1.1:5001", "[fd09:1::1]:5001"] {
        transfer(&sites.server, &sites.host, to, BYTES);
    }
    let sent = once(&near, "ACKs of downloads", |stats| {
        stats.packets_in.packets > 300
    });
    for to in ["10.9.3.2:5001", "[fd09:3::2]:5001"] {
        transfer(&sites.host, &sites.server, to, BYTES);
    }
    once(&far, "ACKs of uploads", |stats| {
        stats.packets_in.packets > 300
    });
    for end in [far, near] {
        let stats = end.stop().unwrap();
        println!("{stats:#?}");
    }
    sites.nothing_left();
}
