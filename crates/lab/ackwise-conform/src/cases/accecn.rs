//! Accurate ECN.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::script::{Connection, Features, option};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "accecn",
        rfc: "RFC 9768 §3.1",
        level: Level::Must,
        what: "the handshake of a flow with AccECN arrives unchanged, and the flow is acknowledged to its end",
        script: plain,
    },
    Case {
        name: "accecn-marks",
        rfc: "RFC 9768 §3.2.2",
        level: Level::Must,
        what: "the sender counts every mark from ACE if one packet in three is marked",
        script: |variant| marks(variant, 1, 3),
    },
    Case {
        name: "accecn-all-marked",
        rfc: "RFC 9768 §3.2.2",
        level: Level::Must,
        what: "the sender counts every mark from ACE if every packet is marked",
        script: |variant| marks(variant, 1, 1),
    },
    Case {
        name: "accecn-wraps",
        rfc: "RFC 9768 §3.2.2",
        level: Level::Must,
        what: "the sender counts every mark from ACE if each ACK reports four",
        script: |variant| marks(variant, 4, 1),
    },
    Case {
        name: "accecn-safe",
        rfc: "RFC 9768 §3.2.2.5",
        level: Level::Should,
        what: "without the option, no ACK covers so much that ACE may have wrapped unnoticed",
        script: safe,
    },
    Case {
        name: "accecn-counter",
        rfc: "RFC 9768 §3.2.3",
        level: Level::Must,
        what: "a counter of the option arrives even if later ACKs do not have it",
        script: |variant| counter(variant, 1),
    },
    Case {
        name: "accecn-ect1",
        rfc: "RFC 9768 §3.2.3",
        level: Level::Must,
        what: "the counter of bytes with ECT(1) arrives even if later ACKs do not have it",
        script: |variant| counter(variant, 2),
    },
    Case {
        name: "accecn-no-option",
        rfc: "RFC 9768 §3.2.3",
        level: Level::Must,
        what: "the option arrives even if later ACKs do not have it",
        script: no_option,
    },
];

fn established(variant: Variant) -> Connection {
    let features = Features {
        timestamps: true,
        accecn: true,
        clock: 10_000,
        ..Features::default()
    };
    Connection::established(variant, features)
}

/// An AccECN option of the first order: `fields` of the byte counters for ECT(0), CE and ECT(1),
/// each plus its initial value.
fn counters(values: [u32; 3], fields: usize) -> Vec<u8> {
    let bytes = values[..fields].iter().flat_map(|value| {
        let [_, rest @ ..] = value.to_be_bytes();
        rest
    });
    option(172, &bytes.collect::<Vec<u8>>())
}

fn plain(variant: Variant) -> Script {
    let mut it = established(variant);
    it.before();
    it.after();
    it.expect_last();
    it.expect(Expect::AceCount);
    it.done()
}

/// Each ACK stands for `covers` segments, and every `every`th ACK reports that they were marked.
fn marks(variant: Variant, covers: u32, every: u32) -> Script {
    let mut it = established(variant);
    it.block();
    let mut ace = 5;
    for number in 0..36 + variant.phase {
        for _ in 1..covers {
            it.segment();
        }
        if number % every == 0 {
            ace += covers;
            it.set_ace(ace);
        }
        it.burst(1);
    }
    it.expect_last();
    it.expect(Expect::AceCount);
    it.done()
}

fn safe(variant: Variant) -> Script {
    let mut it = established(variant);
    it.before();
    it.before();
    it.expect(Expect::AceSafe);
    it.done()
}

/// Every ACK has the counter of ECT(0); one ACK reports a change of another counter.
fn counter(variant: Variant, field: usize) -> Script {
    let mut it = established(variant);
    let mut values = [1000, 0, 1];
    it.extra = counters(values, 1);
    it.before();
    values[field] += 1000;
    let of = it.next_news(|ack| {
        ack.options.truncate(12);
        ack.options.extend(counters(values, 3));
    });
    it.after();
    it.expect(Expect::Counter { of, field });
    it.done()
}

fn no_option(variant: Variant) -> Script {
    let mut it = established(variant);
    it.before();
    it.set_ace(6);
    it.burst(2);
    let of = it.next_news(|ack| ack.options.extend(counters([1000, 1000, 1], 3)));
    it.after();
    it.expect(Expect::Counter { of, field: 1 });
    it.done()
}
