//! AccECN (RFC 9768) end to end, on a kernel that speaks it: 20 MB through a queue that
//! marks, with the datapath at the receiver. Once all is acknowledged the sender must have
//! counted what was marked, packet by packet and byte by byte.
//!
//! They need `kernel/build um --kernel 7`; `make test-accecn` makes it and runs them.

mod accecn;

use accecn::{Acks, Case, Marks, Mode, Queue, Ran, run};
use ackwise_testbed::{Release, in_virtual_time_on};

/// What users get, and what withholds most.
const POLICIES: [&str; 2] = ["adaptive", "every-n:n=32,warm=0"];

/// The sender's estimate is what the receiver got, and that is what the queue marked.
fn assert_every_mark_counts(case: &Case, ran: &Ran) {
    assert_eq!(
        [ran.sender.mode, ran.receiver.mode],
        [Mode::AccEcn; 2],
        "{case:?}"
    );
    assert!(ran.marked > 20, "{case:?}: {ran:#?}");
    assert_eq!(ran.dropped, 0, "{case:?}: {ran:#?}");
    assert_eq!(ran.sender.retransmits, 0, "{case:?}: {ran:#?}");
    assert_eq!(
        u64::from(ran.receiver.received.ce),
        ran.marked,
        "{case:?}: {ran:#?}"
    );
    assert_feedback(case, ran);
}

/// The sender's estimate is what the receiver got.
fn assert_feedback(case: &Case, ran: &Ran) {
    let (estimate, arrived) = (ran.sender.delivered, ran.receiver.received);
    assert_eq!(estimate.ce, arrived.ce, "packets; {case:?}: {ran:#?}");
    if case.option > 0 {
        assert_eq!(estimate, arrived, "{case:?}: {ran:#?}");
    } else {
        // Without the option the sender has no counters of bytes.
        assert_eq!(
            estimate,
            Marks {
                ce: arrived.ce,
                ce_bytes: 0,
                e0_bytes: 0,
                e1_bytes: 0
            },
            "{case:?}: {ran:#?}"
        );
    }
    if let Some(stats) = &ran.stats {
        assert!(stats.withheld > 500, "{case:?}: {ran:#?}");
        assert_eq!(stats.release.lost, 0, "{case:?}: {ran:#?}");
    }
}

/// Part of the receiver's ACKs that did not leave, per cent.
fn saved(case: Case) -> f64 {
    let all = run(&Case {
        policy: None,
        ..case
    })
    .acks
    .all();
    let left = run(&case).acks.all();
    100.0 * (1.0 - left as f64 / all as f64)
}

/// Each setting of `tcp_ecn_option` that sends the option, and each policy.
fn with_the_option(queue: Queue, congestion: &'static str) {
    for option in 1..=3 {
        for policy in POLICIES {
            let case = Case {
                option,
                queue,
                congestion,
                policy: Some(policy),
                ..Case::default()
            };
            let ran = run(&case);
            assert_every_mark_counts(&case, &ran);
            let Acks { without, counters } = ran.acks;
            if option == 1 {
                // Sparingly: where a counter changes its course, and three times per RTT.
                assert!(without > 100 && counters[3] > 100, "{case:?}: {ran:#?}");
            } else {
                // But for the handshake's.
                assert!(without <= 1, "{case:?}: {ran:#?}");
            }
            // The wrap of three bits is no reason where a counter of 24 bits is in the ACK.
            let wraps = ran.stats.as_ref().expect("a policy").reasons["ace-wrap"];
            assert_eq!(wraps > 0, option == 1, "{case:?}: {ran:#?}");
        }
    }
}

#[test]
#[ignore = "needs kernel/build um --kernel 7: make test-accecn"]
fn single_marks_are_counted_by_the_option() {
    in_virtual_time_on(Release::Linux7, || with_the_option(Queue::Red, "cubic"));
}

#[test]
#[ignore = "needs kernel/build um --kernel 7: make test-accecn"]
fn runs_of_marks_are_counted_by_the_option() {
    in_virtual_time_on(Release::Linux7, || {
        with_the_option(Queue::Threshold, "cubic");
    });
}

/// Three bits have to tell it all: an ACK may cover no more than they are safe for.
#[test]
#[ignore = "needs kernel/build um --kernel 7: make test-accecn"]
fn marks_are_counted_without_the_option() {
    in_virtual_time_on(Release::Linux7, || {
        for queue in [Queue::Red, Queue::Threshold] {
            for policy in POLICIES {
                let case = Case {
                    option: 0,
                    queue,
                    policy: Some(policy),
                    ..Case::default()
                };
                let ran = run(&case);
                assert_every_mark_counts(&case, &ran);
                assert_eq!(ran.acks.counters, [0; 4], "{case:?}: {ran:#?}");
                let wraps = ran.stats.as_ref().expect("a policy").reasons["ace-wrap"];
                assert!(wraps > 100, "{case:?}: {ran:#?}");
            }
        }
    });
}

/// With a counter of 24 bits in each ACK `adaptive` saves as many as without AccECN.
#[test]
#[ignore = "needs kernel/build um --kernel 7: make test-accecn"]
fn as_many_acks_are_saved_as_without_accecn() {
    in_virtual_time_on(Release::Linux7, || {
        let with = saved(Case::default());
        let without = saved(Case {
            asks: 1,
            grants: 1,
            ..Case::default()
        });
        println!("ACKs saved: {with:.1} % with AccECN, {without:.1} % without");
        assert!(without > 40.0, "{without}");
        assert!((with - without).abs() <= 5.0, "{with}, {without}");
    });
}

/// What `tcp_ecn` of the ends makes of a connection.
struct Peers {
    asks: u8,
    grants: u8,
    mode: Mode,
}

/// AccECN is asked for and refused, or not asked for: the guard of three bits plays no part.
#[test]
#[ignore = "needs kernel/build um --kernel 7: make test-accecn"]
fn old_peers_and_refusals() {
    in_virtual_time_on(Release::Linux7, || {
        let peers = |asks, grants, mode| Peers { asks, grants, mode };
        let old = run(&Case {
            asks: 1,
            grants: 1,
            ..Case::default()
        });
        for Peers { asks, grants, mode } in [
            peers(3, 1, Mode::Rfc3168),
            peers(3, 2, Mode::Rfc3168),
            peers(1, 3, Mode::Rfc3168),
            peers(3, 0, Mode::Disabled),
            peers(0, 3, Mode::Disabled),
        ] {
            let case = Case {
                asks,
                grants,
                ..Case::default()
            };
            let ran = run(&case);
            assert_eq!([ran.sender.mode, ran.receiver.mode], [mode; 2], "{case:?}");
            assert_eq!(ran.acks.counters, [0; 4], "{case:?}: {ran:#?}");
            let stats = ran.stats.as_ref().expect("a policy");
            assert_eq!(stats.reasons["ace-wrap"], 0, "{case:?}: {ran:#?}");
            if mode == Mode::Rfc3168 {
                assert!(ran.marked > 20, "{case:?}: {ran:#?}");
                // As between two peers that have never heard of it.
                let (left, as_before) = (ran.acks.all() as f64, old.acks.all() as f64);
                assert!((left / as_before - 1.0).abs() < 0.05, "{left}, {as_before}");
            }
        }
    });
}

/// Beside SACK blocks there is room for fewer counters. What is lost is sent again.
#[test]
#[ignore = "needs kernel/build um --kernel 7: make test-accecn"]
fn marks_are_counted_through_losses() {
    in_virtual_time_on(Release::Linux7, || {
        for option in 1..=3 {
            let case = Case {
                option,
                loss: 0.3,
                policy: Some(POLICIES[1]),
                ..Case::default()
            };
            let ran = run(&case);
            assert!(ran.sender.retransmits > 10, "{case:?}: {ran:#?}");
            assert!(ran.receiver.received.ce > 10, "{case:?}: {ran:#?}");
            assert_feedback(&case, &ran);
            let fewer: u64 = ran.acks.counters[..3].iter().sum();
            assert!(fewer > 0, "{case:?}: {ran:#?}");
        }
    });
}
