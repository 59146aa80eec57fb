//! Timestamps, by which a sender drops old segments.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::script::{Connection, Features};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "older-timestamp",
        rfc: "RFC 7323 §5.3",
        level: Level::Must,
        what: "an ACK is not replaced by one that the sender drops, because its timestamp is older",
        script: |variant| older(variant, 10_000),
    },
    Case {
        name: "timestamp-wraps",
        rfc: "RFC 7323 §5.2",
        level: Level::Must,
        what: "timestamps are compared modulo 2³²",
        // They wrap some milliseconds before the news.
        script: |variant| older(variant, 0_u32.wrapping_sub(150)),
    },
    Case {
        name: "no-timestamp",
        rfc: "RFC 7323 §3.2",
        level: Level::Must,
        what: "an ACK is not replaced by one that the sender drops because it has no timestamps",
        script: |variant| without(variant, 10_000),
    },
    Case {
        name: "no-timestamp-high",
        rfc: "RFC 7323 §3.2",
        level: Level::Must,
        what: "with timestamps above 2³¹, an ACK is not replaced by one without timestamps",
        script: |variant| without(variant, 0x9000_0000),
    },
];

fn established(variant: Variant, clock: u32) -> Connection {
    let features = Features {
        timestamps: true,
        clock,
        ..Features::default()
    };
    Connection::established(variant, features)
}

fn older(variant: Variant, clock: u32) -> Script {
    let mut it = established(variant, clock);
    it.before();
    let newest = it.next_news(|_| {});
    let old = it.timestamps_at(it.clock().wrapping_sub(20));
    it.next_news(|ack| ack.options = old);
    it.expect(Expect::Acked(newest));
    it.done()
}

fn without(variant: Variant, clock: u32) -> Script {
    let mut it = established(variant, clock);
    it.before();
    let newest = it.next_news(|_| {});
    it.next_news(|ack| ack.options.clear());
    it.expect(Expect::Acked(newest));
    it.done()
}
