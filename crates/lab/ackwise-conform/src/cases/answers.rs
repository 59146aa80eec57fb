//! ACKs that answer something, and look like duplicates.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::packet::flag;
use crate::script::{Connection, MSS};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "challenge-ack",
        rfc: "RFC 5961 §3.2",
        level: Level::Must,
        what: "the ACK that challenges a RST arrives",
        script: challenge,
    },
    Case {
        name: "keep-alive",
        rfc: "RFC 9293 §3.8.4",
        level: Level::Must,
        what: "keep-alives arrive: an ACK one below the next sequence number",
        script: |variant| keep_alive(variant, 0),
    },
    Case {
        name: "keep-alive-byte",
        rfc: "RFC 9293 §3.8.4",
        level: Level::Must,
        what: "keep-alives with a byte of garbage arrive",
        script: |variant| keep_alive(variant, 1),
    },
    Case {
        name: "keep-alive-answers",
        rfc: "RFC 9293 §3.8.4",
        level: Level::Must,
        what: "each answer to a keep-alive arrives",
        script: keep_alive_answers,
    },
    Case {
        name: "answer-to-old-data",
        rfc: "RFC 9293 §3.10.7.4",
        level: Level::Must,
        what: "the ACK that answers a retransmission of acknowledged data arrives",
        script: old_data,
    },
];

fn challenge(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.wait_ms(2);
    let mut rst = it.data(&[]);
    rst.flags = flag::RST;
    rst.seq += 10 * MSS;
    rst.options.clear();
    it.send(rst);
    it.wait_us(100);
    let at = it.news(|_| {});
    it.expect(Expect::Arrives(at));
    it.done()
}

fn keep_alive(variant: Variant, garbage: usize) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.next_news(|_| {});
    for wait in [2, 300] {
        it.wait_ms(wait);
        let at = it.news(|ack| {
            ack.seq -= 1;
            ack.payload = vec![0; garbage];
        });
        it.expect(Expect::Arrives(at));
    }
    it.done()
}

fn keep_alive_answers(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    for wait in [2, 300, 300] {
        it.wait_ms(wait);
        let mut asks = it.data(&[]);
        asks.seq -= 1;
        it.send(asks);
        it.wait_us(100);
        let at = it.news(|_| {});
        it.expect(Expect::Arrives(at));
    }
    it.done()
}

fn old_data(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    for wait in [2, 300] {
        it.wait_ms(wait);
        let mut again = it.data(&[0x5a; MSS as usize]);
        again.seq -= 3 * MSS;
        it.send(again);
        it.wait_us(100);
        let at = it.news(|_| {});
        it.expect(Expect::Arrives(at));
    }
    it.done()
}
