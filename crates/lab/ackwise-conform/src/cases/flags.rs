//! Flags that are events, and small packets that are not ACKs.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::packet::{Protocol, flag};
use crate::script::Connection;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "fin",
        rfc: "RFC 9293 §3.6",
        level: Level::Must,
        what: "a FIN arrives, although the receiver continues to send ACKs",
        script: fin,
    },
    Case {
        name: "rst",
        rfc: "RFC 9293 §3.5.2",
        level: Level::Must,
        what: "a RST arrives",
        script: rst,
    },
    Case {
        name: "urgent",
        rfc: "RFC 9293 §3.8.5",
        level: Level::Should,
        what: "an urgent pointer without data arrives",
        script: |variant| flagged(variant, flag::URG),
    },
    Case {
        name: "reserved-bits",
        rfc: "RFC 9293 §3.1",
        level: Level::Should,
        what: "an ACK with a reserved bit arrives, whatever the bit will mean",
        script: |variant| flagged(variant, flag::RESERVED),
    },
    Case {
        name: "one-byte",
        rfc: "RFC 9293 §3.7.4",
        level: Level::Must,
        what: "segments with one byte of data arrive, among ACKs that are one byte shorter",
        script: |variant| small(variant, 1),
    },
    Case {
        name: "ack-sized-data",
        rfc: "RFC 9293 §3.7.4",
        level: Level::Must,
        what: "segments with data arrive that are as long as an ACK with timestamps",
        script: ack_sized,
    },
    Case {
        name: "small-data",
        rfc: "RFC 9293 §3.7.4",
        level: Level::Must,
        what: "segments with 20 bytes of data, below 100 bytes in all, arrive",
        script: |variant| small(variant, 20),
    },
    Case {
        name: "small-udp",
        rfc: "RFC 768",
        level: Level::Must,
        what: "datagrams that are as long as an ACK arrive",
        script: udp,
    },
];

fn fin(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.next_news(|ack| ack.flags |= flag::FIN);
    it.sent(1);
    it.after();
    it.expect(Expect::Arrives(at));
    it.done()
}

fn rst(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.next_news(|ack| ack.flags |= flag::RST);
    // What the receiver had sent through another queue of its host.
    it.after();
    it.expect(Expect::Arrives(at));
    it.done()
}

fn flagged(variant: Variant, bit: u16) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.next_news(|ack| {
        ack.flags |= bit;
        ack.urgent = if bit == flag::URG { 5 } else { 0 };
    });
    it.after();
    it.expect(Expect::Arrives(at));
    it.done()
}

/// Small segments among the ACKs of a connection.
fn among_acks(mut it: Connection, bytes: usize) -> Script {
    it.before();
    for _ in 0..4 {
        let at = it.next_news(|ack| {
            ack.flags |= flag::PSH;
            ack.payload = vec![0x61; bytes];
        });
        it.sent(bytes as u32);
        it.expect(Expect::Arrives(at));
        it.burst(3);
    }
    it.done()
}

fn small(variant: Variant, bytes: usize) -> Script {
    among_acks(Connection::with_timestamps(variant), bytes)
}

fn ack_sized(variant: Variant) -> Script {
    among_acks(Connection::plain(variant), 12)
}

fn udp(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    for number in 0..4 {
        let at = it.news(|packet| {
            packet.protocol = Protocol::Udp;
            packet.flow.port += 1;
            packet.flow.peer_port = 53;
            packet.payload = vec![number; 24];
        });
        it.expect(Expect::Arrives(at));
        it.burst(3);
    }
    it.done()
}
