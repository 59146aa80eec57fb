//! Release: a held ACK leaves unchanged before an ACK that does not say everything that it says.

mod common;

use std::process::Command;

use ackwise_datapath::{AttachMode, Datapath, Options, Position};
use ackwise_headers::{checksum, protocol};
use ackwise_netdev::packet_socket::{self, Destination, Layer};
use ackwise_netdev::{ifreq, sockopt};
use common::{Flow, Pair, Seg, Wire, alone, attach, eventually, ms, started, stats};
use nix::sys::socket::MsgFlags;

/// 8 segments per ACK from the first on; held ACKs stay for 25 ms.
fn options(attach: AttachMode) -> Options {
    let mut o = Options::new("aw0", "every-n:n=8,warm=0".parse().expect("a policy"));
    o.attach = attach;
    o.hold_rtt_shift = 0;
    o.hold_min = ms(25);
    o
}

/// Sends an ACK, and a newer one that does not say everything that it says: both arrive in this
/// order, even if user space has already been told to send the first.
fn both_leave(from: &Wire, to: &Wire, at: usize, pair: [&Seg; 2]) {
    let [held, newer] = pair.map(Seg::frame);
    from.send(&held);
    from.send(&newer);
    let mut got = to.expect(1);
    assert_eq!(got[0].bytes[at..], held[at..], "the held one, as it was");
    got = to.expect(1);
    assert_eq!(got[0].bytes[at..], newer[at..]);
}

/// The lengths differ as well: with this many bytes of data, and where timestamps disappear, both
/// of which are news.
fn m1_releases([data, acks, to]: [&Wire; 3], at: usize, flow: &mut Flow, payload: usize) {
    for round in 0..12 {
        flow.data(data);
        let held = flow.ack();
        flow.data(data);
        let newer = Seg {
            flags: held.flags ^ 64,
            payload: if round % 3 == 2 { payload } else { 0 },
            ..flow.ack()
        };
        both_leave(acks, to, at, [&held, &newer]);
        flow.like.seq += newer.payload as u32;
        flow.like.flags = newer.flags;
    }
    if !flow.like.options.is_empty() {
        flow.data(data);
        let held = flow.ack();
        flow.data(data);
        flow.like.options = Vec::new();
        both_leave(acks, to, at, [&held, &flow.ack()]);
    }
}

#[test]
fn m1_the_held_ack_leaves_before_one_that_says_less() {
    let _alone = alone();
    let timestamps = vec![1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 9];
    for attach_by in [AttachMode::Tcx, AttachMode::Clsact] {
        for (v6, with) in [(false, vec![]), (true, vec![]), (false, timestamps.clone())] {
            Pair::new().run(|near, far| {
                let a = attach(options(attach_by));
                let like = Seg {
                    v6,
                    options: with.clone(),
                    ..Seg::ack(0)
                };
                let mut flow = started(near, far, like);
                let before = stats(&a);
                m1_releases([far, near, far], 0, &mut flow, 300);
                assert_eq!(far.tcp(ms(60)).len(), 0, "each once");
                let now = stats(&a);
                let withheld = now.withheld - before.withheld;
                // On a busy machine user space falls silent, or the flow counts as starting again:
                // then the ACKs pass.
                let silent = "stale-heartbeat";
                let passed = now.fail_open[silent] - before.fail_open[silent]
                    + now.reasons["start"]
                    - before.reasons["start"];
                assert!(withheld + passed >= 12, "{now:#?}");
                let ended = now.superseded + now.reemitted;
                let ended_before = before.superseded + before.reemitted;
                assert_eq!(ended - ended_before, withheld, "{now:#?}");
            });
        }
    }
}

#[test]
fn m1_at_a_sender_the_held_ack_comes_first() {
    let _alone = alone();
    for attach_by in [AttachMode::Tcx, AttachMode::Clsact] {
        common::at_a_sender(|near, far, out| {
            let _a = attach(Options {
                position: Position::Sender,
                ..options(attach_by)
            });
            let mut flow = started(far, near, Seg::ack(0));
            out.drain(ms(20));
            m1_releases([near, far, out], 34, &mut flow, 0);
            assert_eq!(out.tcp(ms(60)).len(), 0, "each once");
        });
    }
}

/// Repeats rounds of two ACKs until the first of them was withheld. On a busy machine user space
/// falls silent, and it passes.
fn with_a_held_ack(a: &Datapath, mut round: impl FnMut()) {
    eventually("an ACK is withheld", || {
        let before = stats(a).withheld;
        round();
        stats(a).withheld > before
    });
}

/// Sends a frame as the kernel merges segments: cut by `size` on its way out, with its checksum
/// left to the device.
fn send_merged(frame: &[u8], l4: usize, size: u16) {
    let v6 = frame[14] >> 4 == 6;
    let addresses = if v6 { &frame[22..54] } else { &frame[26..34] };
    let pseudo =
        checksum::sum(addresses) + checksum::pseudo_header(protocol::TCP, frame.len() - l4);
    let mut packet = vec![1, if v6 { 4 } else { 1 }]; // VIRTIO_NET_HDR_F_NEEDS_CSUM, GSO_TCPV4 or V6
    for word in [(l4 + 20) as u16, size, l4 as u16, 16] {
        packet.extend(word.to_ne_bytes());
    }
    let start = packet.len();
    packet.extend(frame);
    let field = start + l4 + 16;
    packet[field..field + 2].copy_from_slice(&checksum::fold(pseudo).map(|byte| !byte));
    let socket = packet_socket::open(Layer::Link).expect("a packet socket");
    sockopt::set_int(&socket, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1).expect("an option");
    let to = Destination {
        interface: ifreq::index_of("aw0").expect("aw0"),
        protocol: u16::from_ne_bytes([frame[12], frame[13]]),
    };
    packet_socket::send(&socket, to, &packet, None, MsgFlags::empty()).expect("sent");
}

/// Merged segments leave their checksum to the device. The ACK that leaves before them had its own.
#[test]
fn the_checksum_is_right_before_merged_segments() {
    let _alone = alone();
    for (v6, l4) in [(false, 34), (true, 54)] {
        Pair::new().run(|near, far| {
            let off = Command::new("ethtool")
                .args(["-K", "aw0", "tx", "off"])
                .output();
            assert!(off.expect("ethtool").status.success());
            let a = attach(Options {
                position: Position::Router,
                ..options(AttachMode::Tcx)
            });
            let mut flow = started(near, far, Seg { v6, ..Seg::ack(0) });
            let mut frames = Vec::new();
            let mut held = Vec::new();
            with_a_held_ack(&a, || {
                flow.data(far);
                held = flow.ack().frame();
                near.send(&held);
                flow.data(far);
                let newer = Seg {
                    flags: flow.like.flags ^ 64,
                    payload: 2000,
                    ..flow.ack()
                };
                send_merged(&newer.frame(), l4, 1000);
                flow.like.seq += 2000;
                flow.like.flags = newer.flags;
                frames = far.expect(3);
            });
            assert_eq!(frames[0].bytes, held, "the held one, as it was");
            let lengths = frames[1..]
                .iter()
                .map(|f| Seg::read(&f.bytes).expect("TCP").payload);
            assert_eq!(lengths.collect::<Vec<_>>(), [1000, 1000]);
            assert_eq!(far.tcp(ms(60)).len(), 0, "each once");
        });
    }
}

/// Then the newer ACK and what follows do not wait, and the held one leaves at its deadline.
#[test]
fn a_clone_that_fails_loses_nothing() {
    let _alone = alone();
    for attach_by in [AttachMode::Tcx, AttachMode::Clsact] {
        Pair::new().run(|near, far| {
            let a = attach(Options {
                selftest: true,
                clone_fails: true,
                ..options(attach_by)
            });
            let mut flow = started(near, far, Seg::ack(0));
            let before = stats(&a);
            let (mut sent, mut got) = (Vec::new(), Vec::new());
            with_a_held_ack(&a, || {
                flow.data(far);
                let held = flow.ack().frame();
                flow.data(far);
                flow.like.flags ^= 64;
                let newer = flow.ack().frame();
                flow.data(far);
                let next = flow.ack().frame();
                for frame in [&held, &newer, &next] {
                    near.send(frame);
                }
                sent = vec![newer, next, held];
                got = far.expect(3).into_iter().map(|f| f.bytes).collect();
            });
            assert_eq!(got, sent);
            let now = stats(&a);
            assert_eq!(now.reemitted - before.reemitted, 1, "{now:#?}");
            assert_eq!(now.release.lost, 0, "{now:#?}");
        });
    }
}

/// At a sender, data in the same packet are not delayed behind those that follow, but pass at once.
#[test]
fn data_at_a_sender_keep_their_place() {
    let _alone = alone();
    common::at_a_sender(|near, far, out| {
        let a = attach(Options {
            position: Position::Sender,
            ..options(AttachMode::Tcx)
        });
        let mut flow = started(far, near, Seg::ack(0));
        out.drain(ms(20));
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        with_a_held_ack(&a, || {
            flow.data(near);
            let held = flow.ack().frame();
            flow.data(near);
            let newer = Seg {
                flags: flow.like.flags ^ 64,
                payload: 300,
                ..flow.ack()
            };
            flow.like.flags = newer.flags;
            flow.like.seq += 300;
            let newer = newer.frame();
            flow.data(near);
            let next = flow.ack().frame();
            for frame in [&held, &newer, &next] {
                far.send(frame);
            }
            sent = [newer, next, held].map(|frame| frame[34..].to_vec()).into();
            got = out
                .expect(3)
                .into_iter()
                .map(|f| f.bytes[34..].to_vec())
                .collect();
        });
        assert_eq!(got, sent);
        assert_eq!(out.tcp(ms(60)).len(), 0, "each once");
    });
}
