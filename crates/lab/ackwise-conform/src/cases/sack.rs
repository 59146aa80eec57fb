//! SACK blocks and D-SACK.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::script::{Connection, MSS, sack};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "sack",
        rfc: "RFC 2018 §4",
        level: Level::Must,
        what: "a new SACK block arrives",
        script: block,
    },
    Case {
        name: "sack-grows",
        rfc: "RFC 2018 §4",
        level: Level::Must,
        what: "the sender learns the new end of a growing block in time",
        script: grows,
    },
    Case {
        name: "sack-many-holes",
        rfc: "RFC 2018 §4",
        level: Level::Must,
        what: "each of seven holes is reported, although an ACK has room for three blocks",
        script: many_holes,
    },
    Case {
        name: "sack-advances",
        rfc: "RFC 2018 §4",
        level: Level::Must,
        what: "a block arrives even if a later ACK, which acknowledges more, does not repeat it",
        script: advances,
    },
    Case {
        name: "sack-shrinks",
        rfc: "RFC 2018 §4",
        level: Level::Must,
        what: "a block arrives even if a later ACK repeats only a part of it",
        script: shrinks,
    },
    Case {
        name: "dsack-below",
        rfc: "RFC 2883 §4",
        level: Level::Should,
        what: "a D-SACK of acknowledged data arrives: it is sent only once",
        script: dsack_below,
    },
    Case {
        name: "dsack-above",
        rfc: "RFC 2883 §4",
        level: Level::Should,
        what: "a D-SACK arrives that is inside a block which later ACKs repeat",
        script: dsack_above,
    },
];

fn block(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.hole(1);
    let left = it.snd_nxt;
    it.lose_nothing();
    let right = it.snd_nxt;
    let at = it.news(|ack| ack.options.extend(sack(&[(left, right)])));
    it.expect(Expect::Sacked(at));
    it.done()
}

fn grows(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.hole(1);
    let left = it.snd_nxt;
    for _ in 0..12 {
        it.lose_nothing();
        let right = it.snd_nxt;
        let at = it.news(|ack| ack.options.extend(sack(&[(left, right)])));
        it.expect(Expect::Sacked(at));
    }
    it.done()
}

fn many_holes(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let mut blocks: Vec<(u32, u32)> = Vec::new();
    for _ in 0..7 {
        it.hole(1);
        let left = it.snd_nxt;
        it.lose_nothing();
        blocks.insert(0, (left, it.snd_nxt));
        let newest = &blocks[..blocks.len().min(3)];
        let at = it.news(|ack| ack.options.extend(sack(newest)));
        it.expect(Expect::Sacked(at));
    }
    it.done()
}

fn advances(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    // Acknowledged together with the first block.
    it.segment();
    it.hole(2);
    let mut blocks = Vec::new();
    for _ in 0..4 {
        let left = it.snd_nxt;
        it.lose_nothing();
        blocks.push((left, it.snd_nxt));
        it.hole(1);
    }
    let at = it.news(|ack| ack.options.extend(sack(&blocks[..1])));
    it.expect(Expect::Sacked(at));
    it.wait_us(500);
    it.rcv_nxt += MSS;
    let at = it.news(|ack| ack.options.extend(sack(&blocks[1..])));
    it.expect(Expect::Sacked(at));
    it.done()
}

fn shrinks(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.segment();
    it.hole(2);
    let left = it.snd_nxt;
    for _ in 0..4 {
        it.lose_nothing();
    }
    let right = it.snd_nxt;
    let at = it.news(|ack| ack.options.extend(sack(&[(left, right)])));
    it.expect(Expect::Sacked(at));
    it.rcv_nxt += MSS;
    // The receiver has discarded data that it had not delivered (RFC 2018 §8).
    it.news(|ack| ack.options.extend(sack(&[(left, left + MSS)])));
    it.done()
}

fn dsack_below(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.next_news(|ack| {
        let old = ack.ack - 5 * MSS;
        ack.options.extend(sack(&[(old, old + MSS)]));
    });
    it.after();
    it.expect(Expect::Arrives(at));
    it.done()
}

fn dsack_above(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.hole(12);
    let left = it.snd_nxt;
    for _ in 0..3 {
        it.lose_nothing();
    }
    let right = it.snd_nxt;
    it.news(|ack| ack.options.extend(sack(&[(left, right)])));
    // A part of the hole is filled.
    it.rcv_nxt += MSS;
    let again = (left + MSS, left + 2 * MSS);
    let at = it.news(|ack| ack.options.extend(sack(&[again, (left, right)])));
    it.expect(Expect::Arrives(at));
    for _ in 0..8 {
        it.rcv_nxt += MSS;
        it.lose_nothing();
        let right = it.snd_nxt;
        it.news(|ack| ack.options.extend(sack(&[(left, right)])));
    }
    it.done()
}
