//! Helpers for the fault tests: a network with a fault, one checked transfer over it with the
//! datapath active, and the conditions that must hold.

#![allow(dead_code)]

pub mod daemon;
pub mod network;
pub mod tamper;

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::{Mutex, Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use ackwise_datapath::{Options, Position, Stats};
use ackwise_testbed::time_is_virtual;

pub use network::{Case, Network, Ran};

/// The two policies with which every case is run: what users get, and what hurts most.
pub const POLICIES: [&str; 2] = ["adaptive", "every-n:n=32,warm=0"];

static GATE: RwLock<()> = RwLock::new(());

/// For cases that can run beside others.
pub fn shared() -> RwLockReadGuard<'static, ()> {
    ready();
    GATE.read().unwrap_or_else(PoisonError::into_inner)
}

/// For cases that compare throughputs.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    ready();
    GATE.write().unwrap_or_else(PoisonError::into_inner)
}

fn ready() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "these tests make network namespaces and need root: `make test` runs them with sudo"
    );
    static TABLE: Once = Once::new();
    TABLE.call_once(|| {
        // SAFETY: the handler takes no arguments, does not unwind, and lives
        // as long as the program.
        let r = unsafe { libc::atexit(print_table) };
        assert_eq!(r, 0, "atexit");
    });
}

/// How much must have been withheld.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Something, or the case proves nothing.
    Some,
    /// Nothing: the contract forbids it.
    Nothing,
    /// It depends on chance; the transfer is what counts.
    Any,
}

/// The requirement for a path that loses or reorders: after a loss `adaptive` keeps nearly every
/// ACK for 64 round trips, so whether it withholds one depends on chance.
pub const LOSS_RECOVERY: [Need; 2] = [Need::Any, Need::Some];

struct Row {
    case: String,
    policy: String,
    goodput: f64,
    acks: u64,
    withheld: u64,
    reemitted: u64,
    stall: Duration,
    bound: Duration,
    retransmits: u64,
    reasons: String,
}

static REMARKS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Adds a line under the table.
pub fn remark(text: &str) {
    ready();
    REMARKS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(text.to_owned());
}

static ROWS: Mutex<Vec<Row>> = Mutex::new(Vec::new());

/// Adds a line to the table that is printed at the end.
pub fn record(case: &str, policy: &str, ran: &Ran, stats: Option<&Stats>, bound: Duration) {
    let mut reasons: Vec<(&String, &u64)> = stats.map_or_else(Vec::new, |stats| {
        stats
            .reasons
            .iter()
            .filter(|(name, n)| **n > 0 && name.as_str() != "held" && name.as_str() != "policy")
            .collect()
    });
    reasons.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    ROWS.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(Row {
            case: case.to_owned(),
            policy: policy.to_owned(),
            goodput: ran.goodput_bps() / 1e6,
            acks: stats.map_or(0, |s| s.acks),
            withheld: stats.map_or(0, |s| s.withheld),
            reemitted: stats.map_or(0, |s| s.reemitted),
            stall: ran.stall(),
            bound,
            retransmits: ran.retransmits(),
            reasons: reasons
                .iter()
                .take(4)
                .map(|(name, n)| format!("{name} {n}"))
                .collect::<Vec<_>>()
                .join(", "),
        });
}

/// Runs when the process exits, whatever happened to the tests. It does not print through the test
/// harness, which would swallow the output.
extern "C" fn print_table() {
    let rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    let remarks = REMARKS.lock().unwrap_or_else(PoisonError::into_inner);
    if rows.is_empty() && remarks.is_empty() {
        return;
    }
    let mut text = format!(
        "\n{:<34} {:<20} {:>7} {:>7} {:>8} {:>7} {:>8} {:>8} {:>6}  {}\n",
        "case",
        "policy",
        "Mbit/s",
        "ACKs",
        "withheld",
        "late",
        "stall ms",
        "allowed",
        "retr.",
        "passed because"
    );
    for row in rows.iter() {
        let _ = writeln!(
            text,
            "{:<34} {:<20} {:>7.2} {:>7} {:>8} {:>7} {:>8} {:>8} {:>6}  {}",
            row.case,
            row.policy,
            row.goodput,
            row.acks,
            row.withheld,
            row.reemitted,
            row.stall.as_millis(),
            row.bound.as_millis(),
            row.retransmits,
            row.reasons
        );
    }
    for remark in remarks.iter() {
        let _ = writeln!(text, "{remark}");
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Parses the options of a policy.
pub fn options(ifname: &str, policy: &str) -> Options {
    let config = policy
        .parse()
        .unwrap_or_else(|error| panic!("{policy}: {error}"));
    Options::new(ifname, config)
}

/// Runs a case with both policies, and checks what must hold in every case. Returns the
/// observations for further checks.
pub fn matrix(case: &Case) -> [(Ran, Stats); 2] {
    let _company = shared();
    POLICIES.map(|policy| {
        let (ran, stats) = one(case, policy);
        let index = usize::from(policy != POLICIES[0]);
        check(case, policy, case.need[index], &ran, &stats);
        (ran, stats)
    })
}

/// Runs a case with one policy.
pub fn one(case: &Case, policy: &str) -> (Ran, Stats) {
    let network = Network::build(case);
    let (node, position) = match case.place {
        Position::Receiver => ("receiver", Position::Receiver),
        Position::Router => ("router", Position::Router),
        Position::Sender => ("sender", Position::Sender),
    };
    let mut options = options(&network.interface(node, "wan"), policy);
    options.position = position;
    (case.tune)(&mut options);
    options.selftest = case.contend_locks;
    let attachment = network.attach(node, options);
    let contention = case.contend_locks.then(|| attachment.contend_locks());
    let ran = network.run(case, |network| (case.during)(network));
    drop(contention);
    let stats = network.detach(node, attachment);
    let ran = network.finish(ran);
    (ran, stats)
}

/// Runs assertions that a busy machine could break, and thus only in virtual time. Assertions that
/// hold under any schedule are made without this.
pub fn exactly(assert: impl FnOnce()) {
    if time_is_virtual() {
        assert();
    }
}

/// Asserts what must hold, whatever the fault of the network.
pub fn check(case: &Case, policy: &str, need: Need, ran: &Ran, stats: &Stats) {
    let bound = ran.bound(case);
    record(&case.name, policy, ran, Some(stats), bound);
    let what = format!("{} with {policy}", case.name);
    ran.assert_right(&what);
    consistent(&what, stats);
    if need == Need::Nothing {
        assert_eq!(stats.withheld, 0, "{what}: {stats:#?}");
    }
    exactly(|| {
        assert!(
            ran.stall() <= bound,
            "{what}: nothing arrived for {:?}; {bound:?} would be RTOs\n{stats:#?}",
            ran.stall()
        );
        if need == Need::Some {
            assert!(
                stats.withheld > 0,
                "{what}: nothing was withheld: {stats:#?}"
            );
        }
        assert_eq!(
            stats.release.lost, 0,
            "{what}: withheld ACKs never left: {stats:#?}"
        );
    });
}

/// Every withheld ACK is accounted for, and every segment has a reason.
pub fn consistent(what: &str, stats: &Stats) {
    // A withheld ACK that replaced a held one ends in the same way.
    let runs = stats.withheld - stats.replaced;
    // A re-emission that came too late may already have been counted as superseded.
    let ended = stats.superseded + stats.reemitted + stats.release.lost;
    let unclear = stats.reemit_stale + stats.fail_open["frame"];
    assert!(
        ended <= runs + stats.reemit_stale && runs <= ended + unclear,
        "{what}: {runs} runs of withheld ACKs, {ended} of them ended, {unclear} unclear: {stats:#?}"
    );
    let reasons: u64 = stats.reasons.values().sum();
    assert_eq!(
        reasons, stats.acks,
        "{what}: each ACK must have one reason: {stats:#?}"
    );
    assert_eq!(
        stats.reasons["held"] + stats.reasons["dropped"],
        stats.withheld,
        "{what}: {stats:#?}"
    );
    // A packet that passed because a lock was busy was not looked at: it has no reason.
    let open = stats.fail_open.values().sum::<u64>() - stats.fail_open["busy"];
    assert_eq!(stats.reasons["no-hold"], open, "{what}: {stats:#?}");
    assert!(stats.packets_saved <= stats.withheld, "{what}: {stats:#?}");
    assert_eq!(stats.release.send_errors, 0, "{what}: {stats:#?}");
    assert_eq!(stats.release.checksums_wrong, 0, "{what}: {stats:#?}");
}
