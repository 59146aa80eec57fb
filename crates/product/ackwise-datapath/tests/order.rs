//! The order of attachment: other programs on the same hook see each ACK that passes once.

mod common;

use std::process::Command;

use ackwise_datapath::{AckCounter, AttachMode, Datapath, Options, Position, Stats};
use ackwise_netdev::registry::{Key, Redirect, Redirector, Registry};
use ackwise_netdev::{AttachOptions, Direction, Order, ifreq};
use aya::programs::{ProgramInfo, SchedClassifier, TcAttachType};
use common::{Flow, Pair, Seg, Wire, alone, at_a_sender, ms};

/// Rounds of one data segment and its ACK, each of which leaves before the next round.
const ROUNDS: u64 = 40;
/// The total number of ACKs in a test: [`Flow::start`] sends 16.
const SENT: u64 = 16 + ROUNDS;

/// The counts of a test.
struct Passed {
    /// The datapath's counters.
    datapath: Stats,
    /// ACKs on the wire behind the hook.
    wire: u64,
    /// ACKs that each [`counter`] saw, in order of attachment.
    seen: [u64; 3],
}

fn options(attach: AttachMode, position: Position) -> Options {
    // Each ACK is withheld, and leaves after D, which is 4 ms.
    let mut options = Options::new("aw0", "every-n:n=8,warm=0".parse().expect("a policy"));
    (options.attach, options.position) = (attach, position);
    options.hold_rtt_shift = 0;
    options
}

fn counter(nth: usize, mode: AttachMode, direction: Direction, order: Order<'_>) -> AckCounter {
    let options = AttachOptions {
        interface: "aw0",
        direction,
        mode,
        order,
    };
    AckCounter::attach(nth, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// Counts next to a datapath: a program attached before it, one attached after it as the last, and
/// one attached after it as the first. ACKs go from `from` to `to`, and leave through `out`.
fn count(mode: AttachMode, position: Position, [from, to, out]: [&Wire; 3]) -> Passed {
    let direction = match position {
        Position::Sender => Direction::Ingress,
        _ => Direction::Egress,
    };
    let before = counter(0, mode, direction, Order::First);
    let datapath = Datapath::attach(options(mode, position)).unwrap_or_else(|e| panic!("{e}"));
    let last = counter(1, mode, direction, Order::Last);
    let first = counter(2, mode, direction, Order::First);
    let mut flow = Flow::start(from, to, Seg::ack(0));
    let mut wire = 0;
    for _ in 0..ROUNDS {
        flow.step(from, to);
        // Nothing leaves after an ACK that acknowledges everything.
        while !out.expect(1).iter().any(|frame| {
            wire += 1;
            Seg::read(&frame.bytes).is_some_and(|seg| seg.ack == flow.next)
        }) {}
    }
    assert_eq!(out.tcp(ms(30)).len(), 0, "each once");
    Passed {
        datapath: datapath.stats().expect("its counters"),
        wire,
        seen: [&before, &last, &first].map(|one| one.count().expect("its counters")),
    }
}

/// Hardening finding M7. A program after the datapath sees what is on the wire; only a program that
/// is put before it sees a withheld ACK twice.
fn each_ack_is_seen_once(mode: AttachMode, position: Position, wires: [&Wire; 3]) {
    let what = format!("{mode:?} at {position:?}");
    let Passed {
        datapath,
        wire,
        seen: [before, last, first],
    } = count(mode, position, wires);
    assert!(datapath.reemitted >= ROUNDS, "{what}: {datapath:#?}");
    assert!(wire >= ROUNDS, "{what}: {wire}");
    assert_eq!(before, wire, "{what}: attached before the datapath");
    assert_eq!(last, wire, "{what}: attached after it, as the last");
    assert_eq!(
        first,
        SENT + datapath.release.sent,
        "{what}: attached after it, as the first"
    );
}

#[test]
fn m7_an_ack_passes_other_programs_once_on_tcx() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        each_ack_is_seen_once(AttachMode::Tcx, Position::Receiver, [near, far, far]);
    });
}

#[test]
fn m7_an_ack_passes_other_programs_once_on_clsact() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        each_ack_is_seen_once(AttachMode::Clsact, Position::Receiver, [near, far, far]);
    });
}

/// Attaches on clsact, where somebody has added a BPF filter with a priority for a protocol. Returns
/// whether the datapath comes before it.
fn comes_before(priority: &str, protocol: &str) -> bool {
    let filter = ["filter", "add", "dev", "aw0", "egress"];
    let added = ["protocol", protocol, "prio", priority];
    let returns_0 = ["bpf", "bytecode", "1,6 0 0 0"]; // the next filter is asked
    tc(&["qdisc", "add", "dev", "aw0", "clsact"]);
    tc(&[&filter[..], &added[..], &returns_0[..]].concat());
    let list = || tc(&["filter", "show", "dev", "aw0", "egress"]);
    let before = list();
    let datapath = Datapath::attach(options(AttachMode::Clsact, Position::Receiver));
    let datapath = datapath.unwrap_or_else(|error| panic!("{error}"));
    let listed = list();
    let place = |what| listed.find(what).unwrap_or_else(|| panic!("{listed}"));
    let is_first = place("ackwise_acks") < place("bytecode");
    datapath.detach().expect("detach");
    assert_eq!(list(), before);
    is_first
}

/// Filters of clsact that have a priority of their own come after the datapath. Only one that has the
/// first, and is of another kind or protocol, does not.
#[test]
fn m7_filters_with_a_priority_come_later() {
    let _alone = alone();
    for (priority, protocol, is_first) in [
        ("1", "all", true),
        ("1", "ip", false),
        ("2", "ip", true),
        ("300", "all", true),
    ] {
        let found = Pair::new().run(|_, _| comes_before(priority, protocol));
        assert_eq!(found, is_first, "{priority}, {protocol}");
    }
}

fn tc(args: &[&str]) -> String {
    let out = Command::new("tc").args(args).output().expect("tc");
    let complaint = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {complaint}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

#[test]
fn m7_an_ack_passes_other_programs_once_at_the_sender() {
    let _alone = alone();
    for mode in [AttachMode::Tcx, AttachMode::Clsact] {
        at_a_sender(|near, far, out| {
            each_ack_is_seen_once(mode, Position::Sender, [far, near, out]);
        });
    }
}

/// The gateway and the tunnel send packets a second time, so the datapath comes after them, but
/// before other programs.
#[test]
fn m7_only_programs_that_redirect_come_before() {
    let _alone = alone();
    Pair::new().run(|_, _| {
        let attached = |order, nth| counter(nth, AttachMode::Tcx, Direction::Egress, order);
        let gone = attached(Order::First, 2).program();
        let [redirecting, first] = [1, 0].map(|nth| attached(Order::First, nth));
        let last = attached(Order::Last, 2);
        let claim = |kind, program| {
            let key = Key::here("3").expect("a key");
            let mut entry = Registry::<Redirector>::new(kind, |_| false)
                .take(&key)
                .expect("an entry");
            let redirect = Redirect {
                ifindex: ifreq::index_of("aw0").expect("aw0"),
                program,
            };
            let record = Redirector {
                pid: std::process::id(),
                name: "aw0".into(),
                netns: key.netns,
                redirect: Some(redirect),
            };
            entry.publish(&record).expect("a record");
            entry
        };
        // A claim whose program has just gone is no obstacle.
        let claims = [
            claim("tunnel", gone),
            claim("gateway", redirecting.program()),
        ];
        let order = || {
            let found = SchedClassifier::query_tcx("aw0", TcAttachType::Egress);
            let (_, programs) = found.expect("a list");
            programs.iter().map(ProgramInfo::id).collect::<Vec<_>>()
        };
        let others = [&first, &redirecting, &last].map(AckCounter::program);
        assert_eq!(order(), others);
        let datapath = Datapath::attach(options(AttachMode::Tcx, Position::Receiver));
        let datapath = datapath.unwrap_or_else(|error| panic!("{error}"));
        let with_datapath = order();
        assert_eq!(with_datapath[..2], others[..2]);
        assert_eq!(with_datapath[3..], others[2..]);
        datapath.detach().expect("detach");
        drop(claims);
        let datapath = Datapath::attach(options(AttachMode::Tcx, Position::Receiver));
        let datapath = datapath.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(order()[1..], others, "without a claim it is the first");
        datapath.detach().expect("detach");
    });
}
