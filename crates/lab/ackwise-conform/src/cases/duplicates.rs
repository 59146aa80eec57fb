//! Duplicate ACKs, which a sender without SACK counts.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::script::{Connection, MSS};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "three-duplicates",
        rfc: "RFC 5681 §3.2",
        level: Level::Must,
        what: "three duplicates arrive beside the original: they start fast retransmit",
        script: |variant| duplicates(variant, 3),
    },
    Case {
        name: "many-duplicates",
        rfc: "RFC 5681 §3.2",
        level: Level::Must,
        what: "each of twelve duplicates arrives: each inflates the window in fast recovery",
        script: |variant| duplicates(variant, 12),
    },
    Case {
        name: "partial-ack",
        rfc: "RFC 6582 §3.2",
        level: Level::Should,
        what: "duplicates of a partial ACK arrive, and those of the ACK before",
        script: partial_ack,
    },
    Case {
        name: "limited-transmit",
        rfc: "RFC 3042 §2",
        level: Level::Should,
        what: "the first two duplicates arrive, although newer ACKs follow",
        script: limited_transmit,
    },
];

/// Sends the original ACK and `count` duplicates of it; returns the original's index.
fn hole(it: &mut Connection, count: u32) -> usize {
    let original = it.next_news(|_| {});
    it.hole(1);
    for _ in 0..count {
        it.lose_nothing();
        it.news(|_| {});
    }
    original
}

fn duplicates(variant: Variant, count: u32) -> Script {
    let mut it = Connection::plain(variant);
    it.before();
    let of = hole(&mut it, count);
    it.expect(Expect::Duplicates {
        of,
        count: 1 + count as usize,
    });
    it.done()
}

fn partial_ack(variant: Variant) -> Script {
    let mut it = Connection::plain(variant);
    it.before();
    let first = hole(&mut it, 3);
    // The hole is filled, and there is another one behind the first data after it.
    it.rcv_nxt += 2 * MSS;
    let second = it.news(|_| {});
    for _ in 0..3 {
        it.lose_nothing();
        it.news(|_| {});
    }
    for of in [first, second] {
        it.expect(Expect::Duplicates { of, count: 4 });
    }
    it.done()
}

fn limited_transmit(variant: Variant) -> Script {
    let mut it = Connection::plain(variant);
    it.before();
    let of = hole(&mut it, 2);
    it.after();
    it.expect(Expect::Duplicates { of, count: 3 });
    it.done()
}
