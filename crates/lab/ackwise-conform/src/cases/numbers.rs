//! Acknowledgment numbers, connections, and ACKs that nothing follows.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::packet::{Flow, flag};
use crate::script::{Connection, Features, MSS};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "plain",
        rfc: "RFC 3449 §5.2.1",
        level: Level::Must,
        what: "a flow that may be thinned is acknowledged to its end",
        script: plain,
    },
    Case {
        name: "last-ack",
        rfc: "RFC 9293 §3.8.6.3",
        level: Level::Must,
        what: "the last ACK of a flow arrives, although none follows",
        script: last_ack,
    },
    Case {
        name: "lone-acks",
        rfc: "RFC 9293 §3.8.6.3",
        level: Level::Must,
        what: "if ACKs are rare, each arrives in time",
        script: lone_acks,
    },
    Case {
        name: "order",
        rfc: "RFC 4737 §1",
        level: Level::Should,
        what: "nothing overtakes an earlier segment of its flow",
        script: order,
    },
    Case {
        name: "old-number",
        rfc: "RFC 9293 §3.10.7.4",
        level: Level::Must,
        what: "an older number that arrives late does not replace a newer one",
        script: old_number,
    },
    Case {
        name: "number-wraps",
        rfc: "RFC 9293 §3.4",
        level: Level::Must,
        what: "numbers are compared modulo 2³²",
        script: number_wraps,
    },
    Case {
        name: "number-never-sent",
        rfc: "RFC 5961 §5",
        level: Level::Should,
        what: "an ACK of data that were never sent, which the sender drops, replaces nothing",
        script: never_sent,
    },
    Case {
        name: "other-port",
        rfc: "RFC 9293 §3.3.2",
        level: Level::Must,
        what: "ACKs of connections that differ in the receiver's port are kept apart",
        script: |variant| two(variant, |flow| flow.port += 1),
    },
    Case {
        name: "other-peer-port",
        rfc: "RFC 9293 §3.3.2",
        level: Level::Must,
        what: "ACKs of connections that differ in the sender's port are kept apart",
        script: |variant| two(variant, |flow| flow.peer_port += 1),
    },
    Case {
        name: "other-host",
        rfc: "RFC 9293 §3.3.2",
        level: Level::Must,
        what: "ACKs of connections that differ in the receiver's address are kept apart",
        script: |variant| two(variant, |flow| flow.host += 1),
    },
    Case {
        name: "handshake-ack",
        rfc: "RFC 9293 §3.5",
        level: Level::Must,
        what: "the ACK that completes a handshake arrives, even behind ACKs of another connection",
        script: handshake_ack,
    },
    Case {
        name: "syn-ack",
        rfc: "RFC 9293 §3.5",
        level: Level::Must,
        what: "a SYN-ACK arrives, and so does its retransmission",
        script: syn_ack,
    },
    Case {
        name: "start",
        rfc: "RFC 5681 §3.1",
        level: Level::Should,
        what: "while a flow starts, each ACK arrives: each grows the window (RFC 6928: 10 segments)",
        script: start,
    },
    Case {
        name: "restart",
        rfc: "RFC 5681 §4.1",
        level: Level::Should,
        what: "after an idle time, the ACKs of the first ten segments arrive",
        script: restart,
    },
];

fn plain(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.after();
    it.expect_last();
    it.done()
}

fn last_ack(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.after();
    it.expect_last();
    // The sender closes, and is acknowledged.
    it.wait_ms(300);
    it.before();
    let mut fin = it.data(&[]);
    fin.flags |= flag::FIN;
    it.send(fin);
    it.snd_nxt = it.snd_nxt.wrapping_add(1);
    it.rcv_nxt = it.snd_nxt;
    it.news(|_| {});
    it.expect_last();
    it.done()
}

fn lone_acks(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    for _ in 0..8 {
        it.next_news(|_| {});
        it.expect_last();
        it.wait_ms(120);
    }
    it.done()
}

fn order(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.next_news(|ack| ack.flags |= flag::ECE);
    it.burst(3);
    // It replaces nothing, and packets that the receiver sends through another queue of its host
    // follow.
    it.next_news(|ack| ack.flags |= flag::RST);
    it.after();
    it.expect(Expect::Order);
    it.done()
}

fn old_number(variant: Variant) -> Script {
    let mut it = Connection::plain(variant);
    it.before();
    let old = it.ack();
    it.burst(3);
    let newest = it.next_news(|_| {});
    it.send(old);
    it.expect(Expect::Acked(newest));
    it.done()
}

fn number_wraps(variant: Variant) -> Script {
    let features = Features {
        // The start takes 16 segments, and the number wraps among those before the news.
        isn: Some(0_u32.wrapping_sub(28 * MSS)),
        ..Features::default()
    };
    let mut it = Connection::established(variant, features);
    let old = it.ack();
    it.before();
    let newest = it.next_news(|_| {});
    it.send(old);
    it.expect(Expect::Acked(newest));
    it.done()
}

fn never_sent(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let newest = it.next_news(|_| {});
    it.news(|ack| ack.ack += 200 * MSS);
    it.expect(Expect::Acked(newest));
    it.done()
}

/// The second connection's numbers are higher, and its ACKs are queued behind those of the first.
fn two(variant: Variant, change: fn(&mut Flow)) -> Script {
    let mut it = Connection::with_timestamps(variant);
    let (seq, first) = (it.seq, it.snd_nxt);
    it.switch(change);
    // Its start ends where the first connection continues, so that a device that confuses the two
    // sees increasing numbers.
    let isn = first - 16 * MSS - 1;
    (it.seq, it.snd_nxt, it.rcv_nxt) = (5_000, isn, isn);
    it.open();
    it.warm();
    let second = (it.seq, it.snd_nxt + 100 * MSS);
    it.switch(|flow| *flow = variant.flow);
    (it.seq, it.snd_nxt, it.rcv_nxt) = (seq, first, first);
    it.block();
    it.after();
    it.expect_last();
    it.switch(change);
    (it.seq, it.snd_nxt, it.rcv_nxt) = (second.0, second.1, second.1);
    it.after();
    it.expect_last();
    it.done()
}

fn handshake_ack(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.before();
    it.switch(|flow| flow.port += 1);
    (it.seq, it.rcv_nxt) = (5_000, it.snd_nxt);
    it.open();
    it.done()
}

fn syn_ack(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let other = it.seq;
    for wait in [0, 100] {
        it.wait_ms(wait);
        it.switch(|flow| flow.port += 1);
        let mut syn = it.data(&[]);
        syn.flags = flag::SYN;
        it.send(syn);
        it.wait_us(100);
        let at = it.news(|ack| {
            (ack.seq, ack.ack) = (70_000, ack.ack + 1);
            ack.flags = flag::SYN | flag::ACK;
            ack.options = vec![2, 4, 3, 232, 1, 3, 3, 7];
        });
        it.expect(Expect::Arrives(at));
        it.switch(|flow| *flow = variant.flow);
        it.seq = other;
        it.after();
    }
    it.done()
}

fn start(variant: Variant) -> Script {
    let features = Features {
        timestamps: true,
        clock: 10_000,
        ..Features::default()
    };
    let mut it = Connection::opening(variant, features);
    it.open();
    for _ in 0..10 {
        let at = it.next_news(|_| {});
        it.expect(Expect::Arrives(at));
    }
    it.done()
}

fn restart(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.wait_ms(1500);
    for _ in 0..10 {
        let at = it.next_news(|_| {});
        it.expect(Expect::Arrives(at));
    }
    it.done()
}
