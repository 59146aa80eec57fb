//! Classic ECN, and DCTCP's reading of it.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::packet::flag;
use crate::script::Connection;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "ece-starts",
        rfc: "RFC 3168 §6.1.3",
        level: Level::Must,
        what: "ECE reaches the sender in time when it starts",
        script: starts,
    },
    Case {
        name: "ece-once",
        rfc: "RFC 3168 §6.1.3",
        level: Level::Must,
        what: "a single ACK with ECE among ACKs without it arrives",
        script: once,
    },
    Case {
        name: "ece-dctcp",
        rfc: "RFC 8257 §3.3",
        level: Level::Must,
        what: "the bytes acknowledged under ECE, which DCTCP counts, are as the receiver reported",
        script: dctcp,
    },
    Case {
        name: "cwr",
        rfc: "RFC 3168 §6.1.2",
        level: Level::Must,
        what: "CWR on a small segment of data arrives",
        script: cwr,
    },
    Case {
        name: "cwr-pure",
        rfc: "RFC 3168 §6.1.2",
        level: Level::Should,
        what: "CWR on an ACK without data arrives",
        script: cwr_pure,
    },
    Case {
        name: "ce-on-ack",
        rfc: "RFC 3168 §5",
        level: Level::Should,
        what: "an ACK that a router has marked arrives: only it carries the mark",
        script: ce_on_ack,
    },
];

fn starts(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.flags |= flag::ECE;
    let from = it.next_news(|_| {});
    it.after();
    it.expect(Expect::Flagged {
        from,
        flags: flag::ECE,
    });
    it.done()
}

fn once(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let from = it.next_news(|ack| ack.flags |= flag::ECE);
    it.after();
    it.expect(Expect::Flagged {
        from,
        flags: flag::ECE,
    });
    it.done()
}

fn dctcp(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    for run in [5, 3, 7, 2, 6, 1, 1, 8] {
        it.flags ^= flag::ECE;
        it.burst(run);
    }
    it.expect(Expect::EceBytes);
    it.done()
}

fn cwr(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.next_news(|ack| {
        ack.flags |= flag::CWR;
        ack.payload = vec![7; 4];
    });
    it.sent(4);
    it.after();
    it.expect(Expect::Arrives(at));
    it.done()
}

fn cwr_pure(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let from = it.next_news(|ack| ack.flags |= flag::CWR);
    it.after();
    it.expect(Expect::Arrives(from));
    it.done()
}

fn ce_on_ack(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.next_news(|ack| ack.ip_ecn = 3);
    it.after();
    it.expect(Expect::Arrives(at));
    it.done()
}
