//! The receiver's window.

use crate::case::{Case, Expect, Level, Script, Variant};
use crate::script::{Connection, WINDOW};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "window-update",
        rfc: "RFC 9293 §3.8.6",
        level: Level::Must,
        what: "an ACK that only enlarges the window arrives",
        script: update,
    },
    Case {
        name: "window-shrinks",
        rfc: "RFC 9293 §3.8.6",
        level: Level::Must,
        what: "an ACK that only takes back part of the window arrives",
        script: shrinks,
    },
    Case {
        name: "window-closes",
        rfc: "RFC 9293 §3.8.6.1",
        level: Level::Must,
        what: "the ACK that closes the window arrives",
        script: closes,
    },
    Case {
        name: "window-opens",
        rfc: "RFC 9293 §3.8.6.1",
        level: Level::Must,
        what: "the ACK that opens a closed window arrives, right behind the one that closed it",
        script: opens,
    },
    Case {
        name: "window-opens-twice",
        rfc: "RFC 9293 §3.8.6.2.1",
        level: Level::Must,
        what: "of two updates of a closed window the larger arrives",
        script: opens_twice,
    },
    Case {
        name: "probe-answers",
        rfc: "RFC 9293 §3.8.6.1",
        level: Level::Must,
        what: "each answer to a probe of a closed window arrives",
        script: probe_answers,
    },
];

fn update(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.news(|ack| ack.window = 2 * WINDOW);
    it.expect(Expect::Window(at));
    it.done()
}

fn shrinks(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.news(|ack| ack.window = WINDOW / 10);
    it.expect(Expect::Arrives(at));
    it.done()
}

fn closes(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    let at = it.next_news(|ack| ack.window = 0);
    it.expect(Expect::Arrives(at));
    it.done()
}

fn opens(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.next_news(|ack| ack.window = 0);
    let at = it.news(|_| {});
    it.expect(Expect::Window(at));
    it.done()
}

fn opens_twice(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.next_news(|ack| ack.window = 0);
    it.wait_ms(60);
    it.news(|ack| ack.window = 8);
    let at = it.news(|_| {});
    it.expect(Expect::Window(at));
    it.done()
}

fn probe_answers(variant: Variant) -> Script {
    let mut it = Connection::with_timestamps(variant);
    it.before();
    it.window = 0;
    it.next_news(|_| {});
    for _ in 0..3 {
        it.wait_ms(250);
        // One byte, which the receiver does not accept.
        let probe = it.data(&[0x5a]);
        it.send(probe);
        it.wait_us(100);
        let at = it.news(|_| {});
        it.expect(Expect::Arrives(at));
    }
    it.done()
}
