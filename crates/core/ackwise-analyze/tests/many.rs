//! Many simultaneous connections, more than the analyzer's cache of recent ones holds.

mod common;

use ackwise_analyze::{Analysis, Analyzer, LinkType, Options, Packet};
use common::{OwnedPacket, capture, packets};

const ETHERNET: LinkType = LinkType(1);
/// The middle of both addresses: Ethernet, then IPv4.
const ADDRESSES: [usize; 2] = [27, 31];
const COPIES: u16 = 700;

/// The packet as one between other hosts.
fn of_hosts(packet: &OwnedPacket, number: u16) -> OwnedPacket {
    let mut copy = packet.clone();
    for at in ADDRESSES {
        for (byte, other) in copy.bytes[at..at + 2].iter_mut().zip(number.to_be_bytes()) {
            *byte ^= other;
        }
    }
    copy
}

fn analyzed(all: impl Iterator<Item = OwnedPacket>) -> Analysis {
    let mut analyzer = Analyzer::new(Options::default());
    for OwnedPacket {
        at_ns,
        wire_len,
        bytes,
    } in all
    {
        analyzer.packet(&Packet {
            at_ns,
            timed: true,
            wire_len,
            bytes: &bytes,
            link: ETHERNET,
            interface: 0,
        });
    }
    analyzer.finish()
}

/// The findings about a connection do not depend on other connections: 700 interleaved copies of
/// one have 700 times its counts.
#[test]
fn connections_beside_each_other_are_as_one_alone() {
    let mut first = packets(&capture("loss.pcap")[..]).unwrap().0;
    first.truncate(400);
    let alone = analyzed(first.iter().cloned());
    let turns = first
        .iter()
        .flat_map(|packet| (0..COPIES).map(|number| of_hosts(packet, number)));
    let together = analyzed(turns);
    let times = u64::from(COPIES);
    assert!(alone.connections > 0 && alone.tcp.acks > 50, "{alone:?}");
    assert_eq!(together.connections, times * alone.connections);
    assert_eq!(together.tcp.acks, times * alone.tcp.acks);
    for (one, all) in alone.policies.iter().zip(&together.policies) {
        let counts =
            |it: &ackwise_analyze::PolicyFinding| [it.acks, it.withheld, it.reemitted, it.saved];
        assert_eq!(
            counts(all),
            counts(one).map(|it| times * it),
            "{}",
            one.policy
        );
    }
    let withheld: u64 = together.policies.iter().map(|it| it.withheld).sum();
    assert!(withheld > 0, "no policy would have withheld any");
}
