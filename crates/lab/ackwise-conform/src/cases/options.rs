//! TCP options other than SACK, timestamps and AccECN, and IP options.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::packet::{Protocol, flag};
use crate::script::{Connection, Features, option};

const MD5: u8 = 19;
const AO: u8 = 29;
const MPTCP: u8 = 30;

pub(super) const CASES: &[Case] = &[
    Case {
        name: "md5",
        rfc: "RFC 2385 §2",
        level: Level::Must,
        what: "a flow with MD5 signatures is acknowledged to its end, byte for byte",
        script: |variant| signed(variant, MD5),
    },
    Case {
        name: "md5-then-none",
        rfc: "RFC 2385 §2",
        level: Level::Should,
        what: "a signed ACK is not replaced by one without a signature, which the sender drops",
        script: |variant| forged(variant, MD5),
    },
    Case {
        name: "tcp-ao",
        rfc: "RFC 5925 §7.3",
        level: Level::Must,
        what: "a flow with TCP-AO is acknowledged to its end, byte for byte",
        script: |variant| signed(variant, AO),
    },
    Case {
        name: "tcp-ao-then-none",
        rfc: "RFC 5925 §7.3",
        level: Level::Should,
        what: "an ACK with TCP-AO is not replaced by one without, which the sender drops",
        script: |variant| forged(variant, AO),
    },
    Case {
        name: "mptcp-data-ack",
        rfc: "RFC 8684 §3.3.2",
        level: Level::Must,
        what: "a DATA_ACK that advances, without new data on the subflow, arrives",
        script: data_ack,
    },
    Case {
        name: "mptcp-add-addr",
        rfc: "RFC 8684 §3.4.1",
        level: Level::Must,
        what: "an address that is announced by an ACK arrives",
        script: |variant| carried(variant, &option(MPTCP, &[0x30, 2, 192, 0, 2, 1])),
    },
    Case {
        name: "fast-open",
        rfc: "RFC 7413 §4.1",
        level: Level::Must,
        what: "a SYN with a cookie and data arrives, byte for byte",
        script: fast_open,
    },
    Case {
        name: "user-timeout",
        rfc: "RFC 5482 §3",
        level: Level::Must,
        what: "an ACK with the user timeout option arrives",
        script: |variant| carried(variant, &option(28, &[0x80, 60])),
    },
    Case {
        name: "unknown-option",
        rfc: "RFC 6994 §3",
        level: Level::Must,
        what: "an ACK with an experimental option arrives",
        script: |variant| carried(variant, &option(253, &[0x12, 0x34, 0x56, 0x78])),
    },
    Case {
        name: "malformed-option",
        rfc: "RFC 9293 §3.1",
        level: Level::Should,
        what: "an ACK whose options are malformed arrives unchanged",
        script: |variant| carried(variant, &[200, 1, 0, 0]),
    },
    Case {
        name: "option-layout",
        rfc: "RFC 9293 §3.1",
        level: Level::Must,
        what: "options in an unusual order and padding arrive byte for byte",
        script: layout,
    },
    Case {
        name: "behind-ip-options",
        rfc: "RFC 8200 §4.6",
        level: Level::Should,
        what: "the last ACK arrives even if it is behind IP options or an extension header",
        script: behind_ip_options,
    },
];

fn with_signature(variant: Variant, kind: u8) -> Connection {
    let body = [[0xa5; 16], [0; 16]].concat();
    let mut it = Connection::opening(variant, Features::default());
    it.sign(kind, &body[..if kind == MD5 { 16 } else { 14 }]);
    it.open();
    it.warm();
    it
}

fn signed(variant: Variant, kind: u8) -> Script {
    let mut it = with_signature(variant, kind);
    it.before();
    it.after();
    it.expect_last();
    it.done()
}

fn forged(variant: Variant, kind: u8) -> Script {
    let mut it = with_signature(variant, kind);
    it.before();
    let newest = it.next_news(|_| {});
    it.next_news(|ack| ack.options.clear());
    it.expect(Expect::Acked(newest));
    it.done()
}

/// A DSS option with a DATA_ACK of four bytes.
fn dss(data_ack: u32) -> Vec<u8> {
    let body = [&[0x20, 0x01][..], &data_ack.to_be_bytes()].concat();
    option(MPTCP, &body)
}

fn data_ack(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.extra = dss(1000);
    it.before();
    let at = it.news(|ack| {
        ack.options.truncate(12);
        ack.options.extend(dss(9000));
    });
    it.expect(Expect::Arrives(at));
    it.done()
}

/// A script in which one ACK has an option that the others do not have.
fn carried(variant: Variant, bytes: &[u8]) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.next_news(|ack| ack.options.extend(bytes));
    it.after();
    it.expect(Expect::Arrives(at));
    it.done()
}

fn fast_open(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.switch(|flow| flow.port += 1);
    let at = it.news(|syn| {
        (syn.seq, syn.ack, syn.flags) = (70_000, 0, flag::SYN);
        syn.options = vec![2, 4, 3, 232, 1, 1, 4, 2];
        syn.options.extend(option(34, &[9; 8]));
        syn.payload = vec![0x47; 60];
    });
    it.expect(Expect::Arrives(at));
    it.done()
}

fn layout(variant: Variant) -> Script {
    let mut it = Connection::opening(variant, Features::default());
    it.open();
    // Timestamps without padding before them, and with no-operations after them.
    let body = [10_000_u32.to_be_bytes(), 90_000_u32.to_be_bytes()].concat();
    it.extra = [option(8, &body), vec![1, 1]].concat();
    it.warm();
    it.before();
    it.after();
    it.expect_last();
    it.done()
}

fn behind_ip_options(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.next_news(|ack| ack.protocol = Protocol::TcpBehindOptions);
    it.expect_last();
    it.done()
}
