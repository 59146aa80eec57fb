//! Which ACKs each filter removes, and which it must not.

mod common;

use std::num::NonZeroU32;

use ackwise_policy::Reason;
use ackwise_queue::{Ecn, FilterConfig, FilterRule, Place, QueueConfig, QueueLimit};
use common::{ACK, AE, CWR, ECE, FIN, PSH, RFC, RST, SYN, TestQueue, URG, ack, filtered};

const ROOM: QueueLimit = QueueLimit::Packets(50);

/// A queue whose flow 0 is past its start: 20 segments are acknowledged.
fn grown(rule: FilterRule) -> TestQueue {
    let mut bench = TestQueue::new(&filtered(rule, ROOM));
    bench.grow(0, 20);
    bench
}

#[test]
fn a_newer_ack_takes_the_older_out() {
    let mut bench = grown(RFC);
    for n in 1..=5 {
        assert!(bench.put(ack(n, 20_000 + n * 1000)));
    }
    assert_eq!(bench.gone, [1, 2, 3, 4]);
    assert_eq!(bench.drain(), [5]);
    let stats = bench.queue.stats();
    assert_eq!((stats.filtered, stats.filtered_bytes), (4, 160));
    assert_eq!(stats.tail_drops, 0);
    // Of the twenty before, one was the first, and five made up the start: ten segments, where one
    // ACK counts as two segments of the assumed 536 bytes.
    let reason = |name| stats.reason(Reason::all().find(|r| r.name() == name).unwrap());
    assert_eq!(reason("first"), 1);
    assert_eq!(reason("start"), 5);
    assert_eq!(reason("held"), 14 + 5);
}

/// A probe of a closed window ends before what its sender has sent, so its receiver drops it
/// unread: it supersedes no waiting ACK, and none that arrives.
#[test]
fn a_probe_takes_nothing_out() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 21_000).seq(5000)));
    assert!(bench.put(ack(2, 22_000).seq(4999)));
    assert!(bench.gone.is_empty(), "{:?}", bench.gone);
    assert!(bench.put(ack(3, 23_000).seq(5000)));
    assert_eq!(bench.gone, [1]);
    assert_eq!(bench.drain(), [2, 3]);
}

/// The bound of a stretch does not begin at the number of a probe either.
#[test]
fn a_probe_says_nothing_to_the_sender() {
    let rule = FilterRule::Rfc3449 {
        keep: 0,
        place: Place::Append,
        max_stretch: Some(3000),
    };
    let mut bench = grown(rule);
    assert!(bench.put(ack(1, 22_000).seq(5000)));
    assert!(bench.put(ack(2, 23_000).seq(4999)));
    assert!(bench.put(ack(3, 24_000).seq(5000)));
    assert!(bench.gone.is_empty(), "{:?}", bench.gone);
    assert_eq!(bench.drain(), [1, 2, 3]);
}

#[test]
fn numbers_wrap() {
    let mut bench = TestQueue::new(&filtered(RFC, ROOM));
    let base = 0_u32.wrapping_sub(21_000);
    for segment in 1..=20 {
        assert!(bench.put(ack(0, base + segment * 1000)));
        bench.take();
    }
    assert!(bench.put(ack(1, 0_u32.wrapping_sub(500))));
    assert!(bench.put(ack(2, 500)));
    assert!(bench.put(ack(3, 0_u32.wrapping_sub(400))));
    assert_eq!(bench.gone, [1]);
    assert_eq!(bench.drain(), [2, 3]);
}

#[test]
fn flows_are_told_apart() {
    let mut bench = grown(RFC);
    bench.grow(1, 20);
    for n in 1..=3 {
        assert!(bench.put(ack(n, 20_000 + n * 1000)));
        assert!(bench.put(ack(10 + n, 20_000 + n * 1000).flow(1)));
    }
    assert_eq!(bench.gone, [1, 11, 2, 12]);
    assert_eq!(bench.drain(), [3, 13]);
}

#[test]
fn a_flow_that_starts_is_left_alone() {
    let mut bench = TestQueue::new(&filtered(RFC, ROOM));
    for n in 1..=10 {
        assert!(bench.put(ack(n, n * 500)));
    }
    assert!(bench.gone.is_empty());
    assert_eq!(bench.drain(), (1..=10).collect::<Vec<_>>());
}

/// Behind a queue of half a second, a window of a few segments arrives as a burst each round trip.
/// The pause between two bursts is not a silence of the sender: its timeout is longer than the RTT
/// that it measures.
#[test]
fn what_an_ack_waits_here_is_no_pause_of_the_sender() {
    const MS: u64 = 1_000_000;
    let mut bench = grown(RFC);
    for burst in 1..=3 {
        let base = 20_000 + burst * 10_000;
        for n in 1..=5 {
            assert!(bench.put(ack(burst * 10 + n, base + n * 1000)));
        }
        bench.now += 500 * MS;
        assert_eq!(bench.drain().last(), Some(&(burst * 10 + 5)));
        bench.now += 100 * MS;
    }
    // One of each burst is left.
    assert_eq!(bench.gone, [11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34]);

    // It was silent for longer than that, or had a timeout: the next ones are those of a start.
    bench.now += 300 * MS;
    bench.gone.clear();
    for n in 1..=5 {
        assert!(bench.put(ack(n, 55_000 + n * 1000)));
    }
    assert_eq!(bench.drain(), [1, 2, 3, 4, 5]);
    assert!(bench.gone.is_empty());

    // They left at once, so a short pause counts as one again.
    bench.now += 300 * MS;
    for n in 1..=5 {
        assert!(bench.put(ack(n, 60_000 + n * 1000)));
    }
    assert_eq!(bench.drain(), [1, 2, 3, 4, 5]);
}

/// NXP's filter drops three of four, and can lose the last one that way: here the newest number
/// always waits.
#[test]
fn the_newest_number_is_never_taken_out() {
    let mut bench = grown(RFC);
    for n in 1..=40 {
        assert!(bench.put(ack(n, 20_000 + n * 100)));
    }
    assert_eq!(bench.drain(), [40]);
}

/// bcmdhd lets any ACK that is not older replace one: duplicates and SACKs vanish.
#[test]
fn duplicates_stay_and_so_does_their_original() {
    let mut bench = grown(RFC);
    for n in 1..=4 {
        assert!(bench.put(ack(n, 21_000)));
    }
    assert!(bench.put(ack(5, 25_000)));
    assert!(bench.gone.is_empty(), "{:?}", bench.gone);
    assert_eq!(bench.drain(), [1, 2, 3, 4, 5]);
}

/// DCTCP counts marked bytes by ECE: each run of equal ECE keeps its last ACK.
#[test]
fn m1_of_each_run_of_ece_the_last_stays() {
    let mut bench = grown(RFC);
    for (n, flags) in [ACK, ACK, ACK | ECE, ACK | ECE, ACK | ECE, ACK, ACK]
        .into_iter()
        .enumerate()
    {
        let n = n as u32 + 1;
        assert!(bench.put(ack(n, 20_000 + n * 1000).flags(flags)));
    }
    // So does the first one with a different ECE.
    assert_eq!(bench.gone, [1, 4]);
    assert_eq!(bench.drain(), [2, 3, 5, 6, 7]);
}

/// ACKs with different ECE may have one number; the first of them must not become redundant later.
#[test]
fn m1_two_states_of_one_number_both_stay() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 21_000)));
    assert!(bench.put(ack(2, 21_000).flags(ACK | ECE)));
    assert!(bench.put(ack(3, 22_000).flags(ACK | ECE)));
    assert!(bench.put(ack(4, 23_000).flags(ACK | ECE)));
    assert_eq!(bench.gone, [3]);
    assert_eq!(bench.drain(), [1, 2, 4]);
}

/// A sender with timestamps drops ACKs without them (RFC 7323 §3.2).
#[test]
fn m1_an_ack_without_timestamps_does_not_stand_for_one_with_them() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 21_000).ts(5, 1)));
    assert!(bench.put(ack(2, 22_000).ts(5, 1)));
    assert!(bench.put(ack(3, 23_000)));
    assert!(bench.gone.is_empty(), "{:?}", bench.gone);
    assert_eq!(bench.drain(), [1, 2, 3]);
}

#[test]
fn new_sack_blocks_stay_and_repeated_ones_go() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 21_000)));
    assert!(bench.put(ack(2, 21_000).sack(&[(22_000, 23_000)])));
    assert!(bench.put(ack(3, 21_000).sack(&[(22_000, 24_000)])));
    // It advances and repeats a block: it may be removed; then it is.
    assert!(bench.put(ack(4, 21_500).sack(&[(22_000, 24_000)])));
    assert!(bench.put(ack(5, 21_600).sack(&[(22_000, 24_000)])));
    assert_eq!(bench.gone, [1, 4]);
    assert_eq!(bench.drain(), [2, 3, 5]);
}

/// One duplicate with the newest blocks says what those before it said.
#[test]
fn of_duplicates_with_sack_the_newest_may_do() {
    let config = |newest_sack| QueueConfig {
        ack_filter: Some(FilterConfig {
            newest_sack,
            ..FilterConfig::new(RFC)
        }),
        ..QueueConfig::drop_tail(ROOM)
    };
    let fed = |newest_sack, packets: &[common::TestPacket]| {
        let mut bench = TestQueue::new(&config(newest_sack));
        bench.grow(0, 20);
        for packet in packets {
            assert!(bench.put(*packet));
        }
        let gone = bench.gone.clone();
        (gone, bench.drain())
    };
    let dup = |id, blocks: &[(u32, u32)]| ack(id, 21_000).sack(blocks);
    let flood = [
        ack(1, 21_000),
        dup(2, &[(22_000, 23_000)]),
        dup(3, &[(22_000, 24_000)]),
        dup(4, &[(26_000, 27_000), (22_000, 24_000)]),
        // It advances and only repeats blocks: it may be removed, and 4 stays.
        ack(5, 21_500).sack(&[(26_000, 27_000), (22_000, 24_000)]),
        ack(6, 27_000),
    ];
    assert_eq!(fed(false, &flood), (vec![1, 5], vec![2, 3, 4, 6]));
    assert_eq!(fed(true, &flood), (vec![2, 3, 1, 5], vec![4, 6]));
    let held = |packets: &[common::TestPacket]| fed(true, packets).0;
    let next = dup(9, &[(22_000, 24_000)]);
    let kept = [
        // Without blocks each one counts; with a block that the next lacks; a DSACK, below and
        // above; marked; with another option; with other flags; newer than its successor.
        ack(2, 21_000),
        dup(2, &[(28_000, 29_000)]),
        dup(2, &[(18_000, 19_000)]),
        dup(2, &[(22_000, 23_000), (22_000, 23_500)]),
        dup(2, &[(22_000, 23_000)]).ecn(Ecn::Marked),
        dup(2, &[(22_000, 23_000)]).unknown_option(),
        dup(2, &[(22_000, 23_000)]).flags(ACK | ECE),
        dup(2, &[(22_000, 23_000)]).ts(9, 9),
        // No gain: it is a repetition, which is counted.
        dup(2, &[(22_000, 24_000)]),
        // Data are not duplicates.
        dup(2, &[(22_000, 23_000)]).payload(1),
    ];
    for packet in kept {
        assert!(held(&[packet, next]).is_empty(), "{packet:?}");
    }
    // It has already left.
    let mut bench = TestQueue::new(&config(true));
    bench.grow(0, 20);
    bench.put(dup(2, &[(22_000, 23_000)]));
    bench.take();
    bench.put(next);
    assert!(bench.gone.is_empty());
    assert_eq!(bench.drain(), [9]);
}

/// cake's 28b4560: a DSACK is news although it lies below the acknowledgment.
#[test]
fn a_dsack_stays() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 21_000).sack(&[(18_000, 19_000)])));
    assert!(bench.put(ack(2, 22_000)));
    assert!(bench.put(ack(3, 23_000)));
    assert!(!bench.gone.contains(&1));
    for rule in [true, false].map(|aggressive| FilterRule::Cake { aggressive }) {
        let mut bench = grown(rule);
        assert!(bench.put(ack(1, 21_000).sack(&[(18_000, 19_000)])));
        assert!(bench.put(ack(2, 22_000)));
        assert!(bench.put(ack(3, 23_000)));
        assert!(bench.put(ack(4, 24_000)));
        assert!(!bench.gone.contains(&1), "{rule:?}");
    }
}

/// cake's 8cf5278 (SYN), Unisoc's FIN and RST, and unknown flags.
#[test]
fn anything_with_a_flag_stays() {
    for flags in [
        SYN | ACK,
        FIN | ACK,
        RST | ACK,
        URG | ACK,
        PSH | ACK,
        0x200 | ACK,
    ] {
        for rule in [
            RFC,
            FilterRule::Cake { aggressive: false },
            FilterRule::Cake { aggressive: true },
        ] {
            let mut bench = grown(rule);
            assert!(bench.put(ack(1, 21_000).flags(flags)));
            for n in 2..=5 {
                assert!(bench.put(ack(n, 20_000 + n * 1000)));
            }
            assert!(!bench.gone.contains(&1), "{flags:#x} {rule:?}");
        }
    }
}

/// cake's f2ea091: DCTCP's information is in the changes of ECE.
#[test]
fn a_change_of_ecn_feedback_stays() {
    for rule in [RFC, FilterRule::Cake { aggressive: true }] {
        let mut bench = grown(rule);
        let on = |n: u32| ack(n, 20_000 + n * 1000).flags(ACK | ECE);
        let off = |n: u32| ack(n, 20_000 + n * 1000);
        for packet in [off(1), on(2), on(3), off(4), on(5), off(6)] {
            assert!(bench.put(packet));
        }
        // The first of each run of equal ECE stays (contract), or the last (cake).
        let left = bench.drain();
        let seen = left.iter().map(|id| [2, 3, 5].contains(id));
        let eces: Vec<bool> = std::iter::once(false).chain(seen).collect();
        let changes = eces.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 4, "{rule:?}: {left:?}");
    }
}

#[test]
fn a_marked_ack_and_a_cwr_stay() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 21_000).ecn(Ecn::Marked)));
    assert!(bench.put(ack(2, 22_000).flags(ACK | CWR)));
    assert!(bench.put(ack(3, 23_000)));
    assert!(bench.put(ack(4, 24_000)));
    assert_eq!(bench.gone, [] as [u32; 0]);
}

/// A thinner must not let AccECN's counter wrap (RFC 9768 §3.2.2.5).
#[test]
fn accecn_is_thinned_only_as_far_as_its_counter_is_safe() {
    let mut bench = TestQueue::new(&filtered(RFC, ROOM));
    for segment in 1..=20 {
        assert!(bench.put(ack(0, segment * 536).flags(ACK | AE)));
        bench.take();
    }
    for n in 1..=12 {
        assert!(bench.put(ack(n, (20 + n) * 536).flags(ACK | AE)));
    }
    let mut covered = 20 * 536;
    while let Some(packet) = bench.take() {
        assert!(packet.ack - covered <= 4 * 536, "{}", packet.ack - covered);
        covered = packet.ack;
    }
    assert_eq!(covered, 32 * 536);
    assert!(bench.gone.len() >= 8, "{:?}", bench.gone);
}

#[test]
fn what_is_not_understood_stays() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 21_000).unknown_option()));
    assert!(bench.put(ack(2, 22_000).payload(100)));
    assert!(bench.put(ack(3, 23_000).seq(100)));
    assert!(bench.put(ack(4, 24_000).seq(100)));
    assert_eq!(bench.gone, [3]);
}

#[test]
fn windows_that_open_or_shrink_stay() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 21_000).window(500)));
    assert!(bench.put(ack(2, 22_000).window(500)));
    assert!(bench.put(ack(3, 22_000).window(5_000)));
    assert!(bench.put(ack(4, 23_000).window(5_000)));
    // 1 shrinks, 3 updates; 2 would be superseded by 4, but 3 duplicates its number.
    assert!(!bench.gone.contains(&1) && !bench.gone.contains(&3));
    assert_eq!(*bench.drain().last().unwrap(), 4);
}

#[test]
fn old_numbers_take_nothing_out_and_stay() {
    let mut bench = grown(RFC);
    assert!(bench.put(ack(1, 25_000)));
    assert!(bench.put(ack(2, 22_000)));
    assert!(bench.put(ack(3, 26_000)));
    assert_eq!(bench.gone, [1]);
    assert_eq!(bench.drain(), [2, 3]);
}

#[test]
fn one_redundant_ack_can_be_kept() {
    let rule = FilterRule::Rfc3449 {
        keep: 1,
        place: Place::Append,
        max_stretch: None,
    };
    let mut bench = grown(rule);
    for n in 1..=5 {
        assert!(bench.put(ack(n, 20_000 + n * 1000)));
    }
    assert_eq!(bench.gone, [1, 2, 3]);
    assert_eq!(bench.drain(), [4, 5]);
}

#[test]
fn the_place_of_the_oldest_can_be_taken() {
    let rule = FilterRule::Rfc3449 {
        keep: 0,
        place: Place::Replace,
        max_stretch: None,
    };
    let mut bench = grown(rule);
    bench.grow(1, 20);
    assert!(bench.put(ack(1, 21_000)));
    assert!(bench.put(ack(2, 21_000).flow(1)));
    assert!(bench.put(ack(3, 22_000)));
    assert!(bench.put(ack(4, 22_000).flow(1)));
    assert_eq!(bench.gone, [1, 2]);
    assert_eq!(bench.drain(), [3, 4]);

    // Nothing overtakes an ACK of its flow that has to stay.
    let mut bench = grown(rule);
    assert!(bench.put(ack(1, 21_000)));
    assert!(bench.put(ack(2, 21_000).sack(&[(22_000, 23_000)])));
    assert!(bench.put(ack(3, 24_000).sack(&[(25_000, 26_000)])));
    assert!(bench.put(ack(4, 27_000)));
    assert_eq!(bench.gone, [1]);
    assert_eq!(bench.drain(), [2, 3, 4]);
}

#[test]
fn no_ack_covers_more_than_the_largest_stretch() {
    for place in [Place::Append, Place::Replace] {
        let mut bench = grown(FilterRule::Rfc3449 {
            keep: 0,
            place,
            max_stretch: Some(4_000),
        });
        for n in 1..=11 {
            assert!(bench.put(ack(n, 20_000 + n * 1000)));
        }
        assert_eq!(bench.gone, [1, 2, 3, 5, 6, 7, 9, 10]);
        assert_eq!(bench.drain(), [4, 8, 11], "{place:?}");
    }
}

#[test]
fn a_full_queue_takes_an_ack_that_makes_room_for_itself() {
    let mut bench = TestQueue::new(&filtered(RFC, QueueLimit::Packets(3)));
    bench.grow(0, 20);
    assert!(bench.put(ack(1, 21_000)));
    assert!(bench.put(ack(2, 0).flow(7).payload(1000)));
    assert!(bench.put(ack(3, 0).flow(7).payload(1000)));
    assert!(!bench.put(ack(4, 0).flow(7).payload(1000)));
    assert!(bench.put(ack(5, 22_000)));
    assert_eq!(bench.gone, [4, 1]);
    assert_eq!(bench.queue.stats().tail_drops, 1);
    assert_eq!(bench.drain(), [2, 3, 5]);
}

/// An ACK for which there is no room removes nothing: the last number survives.
#[test]
fn a_rejected_ack_takes_nothing_out() {
    let mut bench = TestQueue::new(&filtered(RFC, QueueLimit::Bytes(40)));
    bench.grow(0, 20);
    assert!(bench.put(ack(1, 21_000)));
    assert!(!bench.put(ack(2, 22_000).sack(&[(23_000, 24_000)])));
    assert_eq!(bench.drain(), [1]);
}

#[test]
fn flows_beyond_the_table_pass_and_quiet_ones_are_forgotten() {
    let config = QueueConfig {
        ack_filter: Some(FilterConfig {
            newest_sack: false,
            rule: FilterRule::Ns2Append,
            max_flows: 2,
        }),
        ..QueueConfig::drop_tail(ROOM)
    };
    let mut bench = TestQueue::new(&config);
    // Two flows have waiting ACKs: a third is not filtered.
    for (id, flow) in [(1, 0), (2, 1), (3, 2)] {
        assert!(bench.put(ack(id, 1000).flow(flow)));
    }
    for (id, flow) in [(4, 0), (5, 1), (6, 2)] {
        assert!(bench.put(ack(id, 2000).flow(flow)));
    }
    assert_eq!(bench.gone, [1, 2]);
    assert_eq!(bench.drain(), [3, 4, 5, 6]);
    // Now its place is free.
    assert!(bench.put(ack(7, 3000).flow(2)));
    assert!(bench.put(ack(8, 4000).flow(2)));
    assert_eq!(bench.gone, [1, 2, 7]);
}

/// ns-2: strictly lower numbers are removed, duplicates stay, and nothing is exempt.
#[test]
fn ns2_takes_out_whatever_is_lower() {
    let mut bench = TestQueue::new(&filtered(FilterRule::Ns2Append, ROOM));
    assert!(bench.put(ack(1, 1000)));
    assert!(bench.put(ack(2, 1000)));
    assert!(bench.put(ack(3, 1000).sack(&[(2000, 3000)])));
    assert!(bench.gone.is_empty());
    assert!(bench.put(ack(4, 2000).flags(ACK | ECE)));
    assert_eq!(bench.gone, [3, 2, 1]);
    // An ACK that was overtaken stays behind the newer one, until a higher one arrives.
    assert!(bench.put(ack(5, 500)));
    assert!(bench.put(ack(6, 2000)));
    assert_eq!(bench.gone, [3, 2, 1, 5]);
    assert_eq!(bench.drain(), [4, 6]);
}

#[test]
fn cake_always_leaves_one_redundant_ack() {
    let mut bench = TestQueue::new(&filtered(FilterRule::Cake { aggressive: false }, ROOM));
    for n in 1..=6 {
        assert!(bench.put(ack(n, n * 1000)));
    }
    // The third finds both 1 and 2 eligible, and 1 is removed; and so on.
    assert_eq!(bench.gone, [1, 2, 3, 4]);
    assert_eq!(bench.drain(), [5, 6]);
}

/// If ACKs leave first, one on data comes behind all waiting data.
#[test]
fn cake_takes_nothing_out_for_data_of_another_class() {
    for (first, gone) in [(None, vec![1]), (NonZeroU32::new(u32::MAX), vec![])] {
        let rule = FilterRule::Cake { aggressive: true };
        let mut bench = TestQueue::new(&QueueConfig {
            acks_first: first,
            ..filtered(rule, ROOM)
        });
        bench.grow(0, 20);
        assert!(bench.put(ack(1, 21_000)));
        assert!(bench.put(ack(2, 22_000).payload(1000)));
        assert_eq!(bench.gone, gone, "{first:?}");
    }
}

#[test]
fn aggressive_cake_leaves_none() {
    let mut bench = TestQueue::new(&filtered(FilterRule::Cake { aggressive: true }, ROOM));
    for n in 1..=6 {
        assert!(bench.put(ack(n, n * 1000)));
    }
    assert_eq!(bench.gone, [1, 2, 3, 4, 5]);
    // One that is not next to it stays.
    assert!(bench.put(ack(7, 5500).payload(100)));
    assert!(bench.put(ack(8, 8000)));
    assert_eq!(bench.drain(), [6, 7, 8]);
}

#[test]
fn cake_keeps_duplicates_and_compares_sack_and_time() {
    let rule = FilterRule::Cake { aggressive: true };
    let case = |older, newer| {
        let mut bench = TestQueue::new(&filtered(rule, ROOM));
        assert!(bench.put(older) && bench.put(newer));
        bench.gone == [1]
    };
    // The same number and SACK: a duplicate stays.
    assert!(!case(ack(1, 9), ack(2, 9)));
    assert!(!case(
        ack(1, 9).sack(&[(20, 30)]),
        ack(2, 9).sack(&[(20, 30)])
    ));
    // A SACK that grows covers; one that lacks a block does not.
    assert!(case(
        ack(1, 9).sack(&[(20, 30)]),
        ack(2, 9).sack(&[(20, 40)])
    ));
    assert!(!case(ack(1, 9).sack(&[(20, 30)]), ack(2, 12)));
    assert!(!case(
        ack(1, 9).sack(&[(20, 30)]),
        ack(2, 12).sack(&[(22, 40)])
    ));
    assert!(case(ack(1, 9), ack(2, 9).sack(&[(20, 30)])));
    // Timestamps may not run backwards; 28b4560: modulo 2³².
    assert!(case(ack(1, 9).ts(5, 5), ack(2, 10).ts(6, 5)));
    assert!(!case(ack(1, 9).ts(7, 5), ack(2, 10).ts(6, 5)));
    assert!(case(ack(1, 9).ts(u32::MAX, 5), ack(2, 10).ts(3, 5)));
    assert!(case(ack(1, u32::MAX), ack(2, 10)));
    // Options that it does not know.
    assert!(!case(ack(1, 9).unknown_option(), ack(2, 10)));
}

#[test]
fn cake_drops_one_a_time() {
    let mut bench = TestQueue::new(&filtered(FilterRule::Cake { aggressive: true }, ROOM));
    // Duplicates remove none; then each ACK that advances removes one.
    for n in 1..=4 {
        assert!(bench.put(ack(n, 1000)));
    }
    for n in 5..=7 {
        assert!(bench.put(ack(n, n * 1000)));
    }
    assert_eq!(bench.gone, [1, 2, 3]);
    assert_eq!(bench.drain(), [4, 5, 6, 7]);
}
