//! AccECN (RFC 9768) end to end, on a kernel that supports it: 20 MB through a queue that marks,
//! with the datapath at the receiver. Once everything is acknowledged, the sender must have counted
//! every mark, packet by packet and byte by byte.
//!
//! Linux 6.12 does not support it. `make test-accecn` builds Linux 7 and runs these tests, which
//! fail without that kernel. They are built only with the feature `linux-7`.

mod accecn;

use accecn::{Acks, Case, Marks, Mode, Queue, Ran, SEGMENT, run};
use ackwise_testbed::{Release, in_virtual_time_on};

/// What users get, and what withholds most.
const POLICIES: [&str; 2] = ["adaptive", "every-n:n=32,warm=0"];

/// Largest number of bytes for which an ACK without a 24-bit counter stands: three segments that
/// were withheld, and two that a receiver acknowledges at once. Three bits distinguish seven
/// packets.
const SAFE: u32 = 5 * SEGMENT;

/// The sender's estimate equals what the receiver got, and that equals what the queue marked.
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

/// The sender's estimate equals what the receiver got.
fn assert_feedback(case: &Case, ran: &Ran) {
    let (estimate, arrived) = (ran.sender.delivered, ran.receiver.received);
    assert_eq!(estimate.ce, arrived.ce, "packets; {case:?}: {ran:#?}");
    if case.option > 0 {
        assert_eq!(estimate, arrived, "{case:?}: {ran:#?}");
    } else {
        // Without the option the sender has no byte counters.
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

/// Share of the receiver's ACKs that did not leave, per cent.
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
            let Acks {
                without, counters, ..
            } = ran.acks;
            if option == 1 {
                // Sparingly: where a counter's trend changes, and three times per RTT.
                assert!(without > 100 && counters[3] > 100, "{case:?}: {ran:#?}");
            } else {
                // Except for the handshake's.
                assert!(without <= 1, "{case:?}: {ran:#?}");
            }
            assert!(ran.acks.widest <= SAFE, "{case:?}: {ran:#?}");
            // The wrap of three bits is no reason if the ACK has a 24-bit counter.
            let wraps = ran.stats.as_ref().expect("a policy").reasons["ace-wrap"];
            assert_eq!(wraps > 0, option == 1, "{case:?}: {ran:#?}");
        }
    }
}

#[test]
fn single_marks_are_counted_by_the_option() {
    in_virtual_time_on(Release::Linux7, || with_the_option(Queue::Red, "cubic"));
}

#[test]
fn runs_of_marks_are_counted_by_the_option() {
    in_virtual_time_on(Release::Linux7, || {
        with_the_option(Queue::Threshold, "cubic");
    });
}

/// DCTCP is marked every round trip: the counters run, and ACE wraps repeatedly.
#[test]
fn the_marks_of_dctcp_are_counted_by_the_option() {
    in_virtual_time_on(Release::Linux7, || {
        with_the_option(Queue::Threshold, "dctcp");
    });
}

/// The three bits alone must suffice: an ACK may cover no more than is safe for them.
#[test]
fn marks_are_counted_without_the_option() {
    in_virtual_time_on(Release::Linux7, || {
        for (queue, congestion) in [
            (Queue::Red, "cubic"),
            (Queue::Threshold, "cubic"),
            (Queue::Threshold, "dctcp"),
        ] {
            for policy in POLICIES {
                let case = Case {
                    option: 0,
                    queue,
                    congestion,
                    policy: Some(policy),
                    ..Case::default()
                };
                let ran = run(&case);
                assert_every_mark_counts(&case, &ran);
                assert_eq!(ran.acks.counters, [0; 4], "{case:?}: {ran:#?}");
                let wraps = ran.stats.as_ref().expect("a policy").reasons["ace-wrap"];
                assert!(wraps > 100, "{case:?}: {ran:#?}");
                assert!(ran.acks.widest <= SAFE, "{case:?}: {ran:#?}");
            }
        }
    });
}

/// With a 24-bit counter in each ACK, `adaptive` saves as many as without AccECN. Without the
/// counter, the guard costs some of them.
#[test]
fn as_many_acks_are_saved_as_without_accecn() {
    in_virtual_time_on(Release::Linux7, || {
        for queue in [Queue::Red, Queue::Threshold] {
            let without = saved(Case {
                asks: 1,
                grants: 1,
                queue,
                ..Case::default()
            });
            println!("{queue:?}: {without:.1} % of the ACKs saved without AccECN");
            assert!(without > 40.0, "{without}");
            for option in 0..=3 {
                let with = saved(Case {
                    option,
                    queue,
                    ..Case::default()
                });
                println!("{queue:?}: {with:.1} % with AccECN and tcp_ecn_option={option}");
                if option >= 2 {
                    assert!((with - without).abs() <= 5.0, "{with}, {without}");
                } else {
                    assert!(with > 20.0, "{with}");
                }
            }
        }
    });
}

/// What the ends' `tcp_ecn` makes of a connection.
struct Peers {
    asks: u8,
    grants: u8,
    mode: Mode,
}

/// The share of its ACKs that the datapath saved, per cent.
fn share_saved(ran: &Ran) -> f64 {
    let stats = ran.stats.as_ref().expect("a policy");
    100.0 * stats.packets_saved as f64 / stats.acks as f64
}

/// AccECN is requested and refused, or not requested: the guard of three bits does not apply.
#[test]
fn old_peers_and_refusals() {
    in_virtual_time_on(Release::Linux7, || {
        let peers = |asks, grants, mode| Peers { asks, grants, mode };
        let without_accecn = |tcp_ecn| {
            share_saved(&run(&Case {
                asks: tcp_ecn,
                grants: tcp_ecn,
                ..Case::default()
            }))
        };
        let (marked, dropped) = (without_accecn(1), without_accecn(0));
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
            let saved = share_saved(&ran);
            let old = if mode == Mode::Rfc3168 {
                assert!(ran.marked > 20, "{case:?}: {ran:#?}");
                marked
            } else {
                assert!(ran.dropped > 20, "{case:?}: {ran:#?}");
                dropped
            };
            println!("{saved:.1} % saved; {old:.1} % between peers without AccECN");
            assert!((saved - old).abs() <= 5.0, "{case:?}: {saved}, {old}");
        }
    });
}

/// Beside two SACK blocks, Linux 7 omits the option or some of its counters. Losses are
/// retransmitted.
#[test]
fn marks_are_counted_through_losses() {
    in_virtual_time_on(Release::Linux7, || {
        for option in 0..=3 {
            let case = Case {
                option,
                // With a short delay, the queue fills between losses.
                delay: 3,
                loss: 1.0,
                policy: Some(POLICIES[1]),
                ..Case::default()
            };
            let ran = run(&case);
            assert!(ran.sender.retransmits > 100, "{case:?}: {ran:#?}");
            assert!(ran.receiver.received.ce > 20, "{case:?}: {ran:#?}");
            assert_feedback(&case, &ran);
            let Acks {
                without, counters, ..
            } = ran.acks;
            // One ACK of the handshake has none either.
            assert!(without > 3, "{case:?}: {ran:#?}");
            assert_eq!(counters[3] > 1000, option > 0, "{case:?}: {ran:#?}");
        }
    });
}
