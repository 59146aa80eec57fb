//! Hold, supersede, release: what leaves, when, and byte for byte.

mod common;

use std::process::Command;

use ackwise_datapath::{AttachMode, Datapath, Options, Position};
use common::{
    ACK, FIN, Flow, Pair, RST, SYN, Seg, Wire, alone, attach, eventually, here_and_in_virtual_time,
    in_virtual_time, ms, started, stats, tagged, tc, time_is_virtual,
};

/// 8 segments per ACK from the first on; D is 4 ms (no timestamps: RTT unknown).
fn options(attach: AttachMode) -> Options {
    let mut o = Options::new("aw0", "every-n:n=8,warm=0".parse().expect("a policy"));
    o.attach = attach;
    o.hold_rtt_shift = 0;
    o
}

/// Sends ACKs one after the other until `count` of them were withheld. Each arrives unchanged from
/// byte `at` on, and a withheld one does not arrive before `least`. `wires`: where data are sent,
/// where ACKs are sent, and where they arrive.
fn hold_and_release(
    a: &Datapath,
    flow: &mut Flow,
    wires: [&Wire; 3],
    at: usize,
    count: u64,
    least: u64,
) {
    let [data, acks, to] = wires;
    let begin = stats(a).withheld;
    let (mut withheld, mut passed) = (begin, 0);
    while withheld < begin + count {
        flow.data(data);
        let frame = flow.ack().frame();
        let sent = acks.send(&frame);
        let got = to.expect(1);
        assert_eq!(got[0].bytes[at..], frame[at..], "byte for byte");
        let now = stats(a).withheld;
        if now == withheld {
            // A busy machine delays the heartbeat, or lets the flow fall idle.
            passed += 1;
            assert!(passed < 10 * count, "{:#?}", stats(a));
            continue;
        }
        withheld = now;
        assert!(got[0].at.saturating_sub(sent) >= ms(least), "early");
    }
}

fn held_then_released(attach_by: AttachMode, like: Seg) {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(options(attach_by));
        assert_eq!(stats(&a).attach, attach_by);
        // With timestamps the RTT is known, and it is almost zero here.
        let timestamps = !like.options.is_empty();
        let mut flow = started(near, far, like);
        let before = stats(&a);
        // D was rounded down to a class; nothing leaves by itself before that.
        let least = if timestamps { 1 } else { 2 };
        hold_and_release(&a, &mut flow, [far, near, far], 0, 40, least);
        assert_eq!(far.tcp(ms(30)).len(), 0, "each once");
        let now = stats(&a);
        assert_eq!(now.withheld - before.withheld, 40, "{now:#?}");
        assert_eq!(now.reemitted - before.reemitted, 40);
        assert_eq!(now.release.lost, 0);
        let holds = now.hold_times.count - before.hold_times.count;
        assert_eq!(holds, 40 + now.superseded - before.superseded);
        assert!(
            now.hold_times.p50_us >= 1000 * least && now.hold_times.sum_us >= 40_000 * least,
            "{:?}",
            now.hold_times
        );
        let last = a.detach().expect("detach");
        assert_eq!(last.withheld, now.withheld);
    });
}

#[test]
fn held_then_released_tcx() {
    held_then_released(AttachMode::Tcx, Seg::ack(0));
}

#[test]
fn held_then_released_clsact() {
    held_then_released(AttachMode::Clsact, Seg::ack(0));
}

#[test]
fn held_then_released_ipv6() {
    held_then_released(
        AttachMode::Tcx,
        Seg {
            v6: true,
            ..Seg::ack(0)
        },
    );
}

#[test]
fn held_then_released_with_timestamps() {
    let options = vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 9];
    held_then_released(
        AttachMode::Tcx,
        Seg {
            options,
            ..Seg::ack(0)
        },
    );
}

#[test]
fn a_newer_ack_supersedes() {
    here_and_in_virtual_time(|| {
        let _alone = alone();
        Pair::new().run(|near, far| {
            let a = attach(options(AttachMode::Tcx));
            let mut flow = started(near, far, Seg::ack(0));
            let before = stats(&a);
            let (mut sent, mut last) = (0, 0);
            eventually("ACKs are superseded", || {
                for _ in 0..80 {
                    flow.step(near, far);
                    last = flow.next;
                }
                sent += 80;
                stats(&a).superseded > before.superseded
            });
            let mut got = far.expect_up_to(&flow.ack().frame());
            got.extend(far.tcp(ms(30)));
            let acks: Vec<_> = got
                .iter()
                .map(|f| Seg::read(&f.bytes).expect("TCP").ack)
                .collect();
            let now = stats(&a);
            let released = now.reemitted - before.reemitted;
            assert_eq!(
                acks.last(),
                Some(&last),
                "the newest always leaves: {acks:?}"
            );
            assert_eq!(
                acks.len() as u64,
                sent - (now.withheld - before.withheld) + released,
                "{now:#?}"
            );
            if time_is_virtual() {
                // One for eight segments, and the last one by itself.
                assert_eq!((sent, acks.len()), (80, 10), "{now:#?}");
            }
            assert!(
                acks.windows(2).all(|w| w[0] < w[1]),
                "in order, none twice: {acks:?}"
            );
        });
    });
}

/// ACKs with news; `base` is a plain one, and `next` what its flow expects.
fn news(base: &Seg, next: u32) -> Vec<(&'static str, Seg)> {
    let flags = |flags| Seg {
        flags,
        ..base.clone()
    };
    let options = |options| Seg {
        options,
        ..base.clone()
    };
    let mut sack = vec![1, 1, 5, 10];
    sack.extend((next + 5000).to_be_bytes());
    sack.extend((next + 6000).to_be_bytes());
    let syn = Seg {
        port: 4001,
        ..flags(SYN | ACK)
    };
    let payload = Seg {
        payload: 4,
        ..base.clone()
    };
    vec![
        ("SYN", syn),
        ("FIN", flags(FIN | ACK)),
        ("payload", payload),
        ("unknown option", options(vec![253, 4, 0, 0])),
        ("malformed option", options(vec![8, 1, 0, 0])),
        ("SACK", options(sack)),
        ("RST", flags(RST | ACK)),
        ("no ACK flag", flags(0)),
        ("URG", flags(ACK | 32)),
        ("ECE", flags(ACK | 64)),
    ]
}

#[test]
fn news_always_passes_at_once() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Tcx));
        let mut flow = started(near, far, Seg::ack(0));
        flow.data(far);
        let base = flow.ack();
        for (name, seg) in news(&base, flow.next) {
            let before = stats(&a);
            let frame = seg.frame();
            near.send(&frame);
            far.expect_up_to(&frame);
            assert_eq!(stats(&a).withheld, before.withheld, "{name} was withheld");
        }
    });
}

#[test]
fn duplicates_all_leave() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Tcx));
        let mut flow = started(near, far, Seg::ack(0));
        for round in 0..20 {
            flow.data(far);
            let ack = flow.ack().frame();
            // The first is withheld; the sender must still count three duplicates.
            for _ in 0..4 {
                near.send(&ack);
            }
            let got = far.expect(4);
            assert!(got.iter().all(|f| f.bytes == ack), "round {round}");
        }
        assert_eq!(far.tcp(ms(30)).len(), 0, "{:#?}", stats(&a).reasons);
        assert!(stats(&a).cloned >= 10, "{:#?}", stats(&a));
    });
}

/// The clone would be the held original: it leaves at its deadline instead.
#[test]
fn l8_a_clone_that_fails_loses_no_duplicate() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(Options {
            selftest: true,
            clone_fails: true,
            ..options(AttachMode::Tcx)
        });
        let mut flow = started(near, far, Seg::ack(0));
        for round in 0..20 {
            flow.data(far);
            let ack = flow.ack().frame();
            for _ in 0..4 {
                near.send(&ack);
            }
            let got = far.expect(4);
            assert!(got.iter().all(|f| f.bytes == ack), "round {round}");
        }
        assert_eq!(far.tcp(ms(30)).len(), 0, "{:#?}", stats(&a).reasons);
        let now = stats(&a);
        assert_eq!(now.cloned, 0, "a clone that failed was counted");
        assert_eq!(now.release.lost, 0, "{now:#?}");
    });
}

/// What user space sends does not reach the hook, without any other effect: it is sent again.
#[test]
fn a_frame_that_does_not_come_back_is_sent_again() {
    in_virtual_time(|| {
        Pair::new().run(|near, far| {
            let a = attach(Options {
                hold_min: ms(25),
                ..options(AttachMode::Clsact)
            });
            let mut flow = started(near, far, Seg::ack(0));
            flow.data(far);
            let ack = flow.ack().frame();
            near.send(&ack);
            tc("filter add dev aw0 egress prio 1 matchall action drop");
            std::thread::sleep(ms(35));
            tc("filter del dev aw0 egress prio 1");
            assert_eq!(far.tcp(ms(40)).len(), 1, "{:#?}", stats(&a));
            let release = stats(&a).release;
            assert_eq!((release.retried, release.lost), (1, 0), "{release:#?}");
        });
    });
}

/// Where a sender's ACKs come back, they wait in a backlog before they reach the hook. One that is
/// dropped there is sent again. A busy machine may give it up before the filter is gone.
#[test]
fn a_frame_that_does_not_come_back_to_a_sender_is_sent_again() {
    let _alone = alone();
    common::at_a_sender(|near, far, out| {
        let a = attach(Options {
            position: Position::Sender,
            hold_min: ms(100),
            hold_max: ms(100),
            ..options(AttachMode::Clsact)
        });
        let filter = |what: &str, how: &[&str]| {
            let at = ["dev", "aw0", "ingress", "prio", "1"];
            let args = [&["filter", what][..], &at[..], how].concat();
            let done = Command::new("tc").args(args).status().expect("tc");
            assert!(done.success());
        };
        let drops = ["protocol", "all", "bpf", "da", "bytecode", "1,6 0 0 2"]; // TC_ACT_SHOT
        let mut flow = started(far, near, Seg::ack(0));
        eventually("it comes after all", || {
            for _ in 0..14 {
                flow.data(near);
                far.send(&flow.ack().frame());
                std::thread::sleep(ms(1));
            }
            out.drain(ms(120));
            let before = stats(&a);
            flow.data(near);
            far.send(&flow.ack().frame());
            std::thread::sleep(ms(5));
            if stats(&a).withheld == before.withheld {
                return false;
            }
            filter("add", &drops);
            eventually("it is sent", || {
                stats(&a).release.sent > before.release.sent
            });
            filter("del", &[]);
            let came = out.tcp(ms(150)).len();
            came == 1 && stats(&a).release.retried > before.release.retried
        });
    });
}

#[test]
fn a_dry_run_withholds_nothing_and_counts() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(Options {
            dry_run: true,
            ..options(AttachMode::Tcx)
        });
        let mut flow = started(near, far, Seg::ack(0));
        let before = stats(&a);
        for _ in 0..64 {
            flow.step(near, far);
        }
        far.expect(64);
        flow.step(near, far); // the deadline of the one before counts now
        let now = stats(&a);
        // Nothing follows: the last ACK, which would leave by itself, is still counted. If it ended
        // a run of eight, the next one does.
        for _ in 0..2 {
            flow.step(near, far);
            far.tcp(ms(60));
        }
        let quiet = stats(&a);
        assert!(quiet.withheld > now.withheld, "{quiet:#?}");
        assert!(quiet.reemitted > now.reemitted, "{quiet:#?}");
        assert!(now.withheld - before.withheld >= 50, "{now:#?}");
        assert!(now.superseded > before.superseded);
        assert!(now.packets_saved > before.packets_saved + 40);
        assert_eq!(now.release.sent, 0);
    });
}

/// A flow whose handshake took long, so that D has its maximum.
fn started_far_away(near: &Wire, far: &Wire, port: u16) -> Flow {
    let like = Seg {
        port,
        window: 60_000,
        ..Seg::ack(1)
    };
    far.send(
        &Seg {
            acks: false,
            flags: SYN,
            ..like.clone()
        }
        .frame(),
    );
    std::thread::sleep(ms(250));
    near.send(
        &Seg {
            flags: SYN | ACK,
            ..like.clone()
        }
        .frame(),
    );
    let flow = Flow::start(near, far, like);
    far.expect_up_to(&flow.ack().frame());
    flow
}

#[test]
fn no_slot_fails_open() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(Options {
            slots: 1,
            hold_max: ms(200),
            ..options(AttachMode::Tcx)
        });
        let mut one = started_far_away(near, far, 4000);
        let mut two = started_far_away(near, far, 4001);
        one.start_again(near, far);
        two.start_again(near, far);
        let before = stats(&a);
        one.data(far);
        two.data(far);
        let (first, second) = (one.ack().frame(), two.ack().frame());
        near.send(&first);
        near.send(&second);
        let got: Vec<_> = far.expect(2).into_iter().map(|f| f.bytes).collect();
        let now = stats(&a);
        assert_eq!(now.withheld - before.withheld, 1, "{now:#?}");
        assert_eq!(now.fail_open["no-slot"] - before.fail_open["no-slot"], 1);
        assert_eq!(now.reasons["no-hold"] - before.reasons["no-hold"], 1);
        assert_eq!(got, [second, first], "what finds no slot does not wait");
    });
}

#[test]
fn a_silent_user_space_fails_open() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Tcx));
        let mut flow = started(near, far, Seg::ack(0));
        a.freeze(true);
        std::thread::sleep(ms(700));
        let before = stats(&a);
        for _ in 0..20 {
            flow.step(near, far);
        }
        let now = stats(&a);
        assert_eq!(now.withheld, before.withheld);
        assert!(now.fail_open["stale-heartbeat"] > before.fail_open["stale-heartbeat"]);
        far.expect(20);
        a.freeze(false);
        eventually("it is believed again", || {
            flow.step(near, far);
            stats(&a).withheld > now.withheld
        });
    });
}

/// On a virtual machine the holder of a flow's lock may lose the CPU for a long time. ACKs that
/// waited for their deadline still leave, once.
#[test]
fn a_lock_that_somebody_keeps_loses_nothing() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(Options {
            selftest: true,
            ..options(AttachMode::Tcx)
        });
        let mut flow = started(near, far, Seg::ack(0));
        let before = stats(&a);
        let contention = a.contend_locks();
        // Until both have happened a few times: an ACK that passes uncounted, and one that comes
        // back uncounted.
        eventually("locks are in the way", || {
            // Reading the counters waits until the locks are free: the next packets find them free.
            for _ in 0..20 {
                flow.data(far);
                let frame = flow.ack().frame();
                near.send(&frame);
                assert_eq!(far.expect(1)[0].bytes, frame, "the newest leaves");
            }
            let now = stats(&a);
            now.release.unlocked >= 5 && now.fail_open["busy"] >= 5
        });
        drop(contention);
        assert_eq!(
            far.tcp(ms(250)).len(),
            0,
            "each once, whatever was tried again"
        );
        let now = stats(&a);
        assert_eq!(now.release.lost, 0, "{now:#?}");
        let runs = now.withheld - now.replaced - (before.withheld - before.replaced);
        let ended = now.reemitted + now.superseded - before.reemitted - before.superseded;
        assert_eq!(runs, ended, "{now:#?}");
        assert_eq!(now.reemit_stale, 0, "{now:#?}");
        // The flow is thinned again; its next ACK may count as its first.
        flow.start_again(near, far);
        let last = flow.step(near, far);
        far.expect_up_to(&last);
        assert!(stats(&a).withheld > now.withheld);
    });
}

#[test]
fn more_flows_than_the_map_holds() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(Options {
            max_flows: 128,
            ..options(AttachMode::Tcx)
        });
        let mut sent = 0;
        for port in 10_000..14_000 {
            near.send(
                &Seg {
                    port,
                    ..Seg::ack(5000)
                }
                .frame(),
            );
            sent += 1;
        }
        // The first ACK of every flow leaves.
        far.expect(sent);
        // The next one is thinned again.
        let before = stats(&a);
        let mut flow = started(
            near,
            far,
            Seg {
                port: 9000,
                ..Seg::ack(0)
            },
        );
        let last = flow.step(near, far);
        far.expect_up_to(&last);
        assert!(stats(&a).withheld > before.withheld);
    });
}

#[test]
fn a_mark_of_the_users_own_is_not_a_cookie() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Tcx));
        let mut flow = started(near, far, Seg::ack(0));
        // The magic with every low slot, on ACKs that must be thinned like others.
        let before = stats(&a);
        let mut got = Vec::new();
        for slot in 0..64 {
            flow.data(far);
            near.mark(ackwise_datapath::sys::AW_COOKIE_MAGIC | slot);
            near.send(&flow.ack().frame());
            got.extend(far.tcp(ms(0)));
        }
        near.mark(0);
        let last = flow.ack().frame();
        if got.iter().all(|f| f.bytes != last) {
            got.extend(far.expect_up_to(&last));
        }
        let now = stats(&a);
        let saved = now.packets_saved - before.packets_saved;
        assert_eq!(got.len() as u64 + saved, 64, "{now:#?}");
        assert_eq!(
            now.reemitted - before.reemitted,
            now.release.sent - before.release.sent
        );
    });
}

/// A flow in a VLAN that has started.
fn started_tagged(near: &Wire, far: &Wire, vlan: u16) -> Flow {
    let mut flow = Flow {
        next: 1000,
        like: Seg::ack(0),
    };
    for _ in 0..16 {
        far.send(&tagged(&flow.segment(), vlan));
        near.send(&tagged(&flow.ack().frame(), vlan));
    }
    far.drain(ms(50));
    flow
}

/// Two connections with the same addresses and ports in two VLANs. Data arrive with the tag beside
/// the frame, ACKs leave with the tag inside.
#[test]
fn l3_equal_flows_in_two_vlans_are_two() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Tcx));
        let mut flow = started_tagged(near, far, 5);
        eventually("ACKs in a VLAN are withheld", || {
            far.send(&tagged(&flow.segment(), 5));
            near.send(&tagged(&flow.ack().frame(), 5));
            stats(&a).withheld > 0
        });
        far.drain(ms(50));
        for round in 0..10 {
            let mut acks = Vec::new();
            for vlan in [5, 6] {
                far.send(&tagged(&flow.segment(), 5));
                acks.push((Some(vlan), flow.ack().frame()));
            }
            for (vlan, ack) in &acks {
                near.send(&tagged(ack, vlan.expect("a tag")));
            }
            while !acks.is_empty() {
                let got = far.expect(1).remove(0);
                let len = acks.len();
                acks.retain(|(vlan, ack)| (*vlan, ack) != (got.tag, &got.bytes));
                assert_eq!(acks.len(), len - 1, "round {round}: nobody sent this one");
            }
        }
    });
}

#[test]
fn a_tag_inside_the_frame_stays_there() {
    let _alone = alone();
    Pair::new().run(|near, far| {
        let a = attach(options(AttachMode::Tcx));
        let mut flow = started_tagged(near, far, 5);
        // An ACK passes at once if the machine is late.
        eventually("ten are re-emitted", || {
            far.send(&tagged(&flow.segment(), 5));
            let frame = flow.ack().frame();
            near.send(&tagged(&frame, 5));
            let got = far.expect(1);
            assert_eq!((got[0].tag, &got[0].bytes), (Some(5), &frame));
            stats(&a).reemitted >= 10
        });
    });
}

#[test]
fn a_tag_beside_the_frame_comes_back() {
    let _alone = alone();
    // Through a bridge, which removes the tag from the frame as hardware would.
    let pair = Pair::new();
    let third = common::Netns::new();
    pair.near.wire("aw2", &third, "aw3");
    let source = third.run(|| Wire::open("aw3"));
    pair.run(|_, far| {
        common::ip("link add awbr type bridge");
        for port in ["aw0", "aw2"] {
            common::ip(&format!("link set {port} master awbr"));
        }
        common::ip("link set awbr up");
        std::thread::sleep(ms(50));
        let a = attach(Options {
            position: Position::Router,
            ..options(AttachMode::Tcx)
        });
        let mut flow = started_tagged(&source, far, 5);
        // An ACK passes at once if the machine is late.
        eventually("ten are re-emitted", || {
            far.send(&tagged(&flow.segment(), 5));
            let frame = flow.ack().frame();
            source.send(&tagged(&frame, 5));
            let got = far.expect(1);
            assert_eq!((got[0].tag, &got[0].bytes), (Some(5), &frame));
            stats(&a).reemitted >= 10
        });
    });
}

#[test]
fn at_a_sender_the_ack_comes_back_in() {
    let _alone = alone();
    for attach_by in [AttachMode::Tcx, AttachMode::Clsact] {
        common::at_a_sender(|near, far, out| {
            let a = attach(Options {
                position: Position::Sender,
                ..options(attach_by)
            });
            // Data leave through aw0, and their ACKs arrive there.
            let mut flow = started(far, near, Seg::ack(0));
            out.drain(ms(20));
            let before = stats(&a);
            hold_and_release(&a, &mut flow, [near, far, out], 34, 10, 2);
            let now = stats(&a);
            assert_eq!(now.withheld - before.withheld, 10, "{now:#?}");
            assert_eq!(now.reemitted - before.reemitted, 10, "{now:#?}");
            a.detach().expect("detach");
        });
    }
}

#[test]
fn a_link_without_a_header() {
    use std::io::{Read, Write};

    let _alone = alone();
    let ipv4 = 0x0800_u16.to_be();
    common::Netns::new().run(|| {
        let mut far = common::tun("aw0");
        let mut arrive = far.try_clone().expect("a second descriptor");
        let near = Wire::open("aw0");
        let a = attach(options(AttachMode::Auto));
        let mut read = || {
            let mut packets = Vec::new();
            let mut buffer = [0; 2048];
            eventually("a packet comes", || {
                while let Ok(n) = far.read(&mut buffer) {
                    packets.push(buffer[..n].to_vec());
                }
                packets.retain(|p| p.get(9) == Some(&6));
                !packets.is_empty()
            });
            packets
        };
        let begin = stats(&a);
        for round in 0.. {
            let data = Seg::data(1000 + 1000 * round, 1000).frame();
            arrive.write_all(&data[14..]).expect("write");
            let ack = Seg::ack(2000 + 1000 * round).frame()[14..].to_vec();
            near.send_as(&ack, ipv4);
            let got = read();
            assert_eq!(got, [ack], "round {round}");
            // The first ACKs pass: the flow starts, and user space may not be awake yet.
            let now = stats(&a);
            let released = now.reemitted - begin.reemitted;
            assert_eq!(released, now.withheld - begin.withheld, "round {round}");
            if released == 24 {
                break;
            }
        }
    });
}
