//! Variants of TCP: options off, unusual options, small windows, other congestion controls, other
//! positions.

mod harness;

use std::sync::atomic::Ordering;
use std::time::Duration;

use ackwise_datapath::Position;
use ackwise_engines::traffic::Behaviour;
use ackwise_testbed::here_and_in_virtual_time;
use harness::tamper::{ask_for_accecn, mark_some};
use harness::{
    Case, LOSS_RECOVERY, Need, Network, POLICIES, check, exactly, matrix, one, options, shared,
};

#[test]
fn sack_off() {
    here_and_in_virtual_time(|| {
        for (_, stats) in matrix(&Case::new("SACK off").socket("sack = false")) {
            assert_eq!(stats.reasons["sack"], 0, "{stats:#?}");
        }
    });
}

#[test]
fn sack_off_with_loss() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("SACK off, loss 1 %, duplicates 1 %")
        .socket("sack = false")
        .link(
            r#"
            forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets", loss = "1 %", duplicate = "1 %" }
            reverse = { rate = "20 Mbit/s", delay = "10 ms", loss = "0.5 %" }
            "#,
        );
        // NewReno repairs one loss per round trip (RFC 6582), and the last one by timeout.
        case.timeouts = 4;
        case.need = LOSS_RECOVERY;
        for (_, stats) in matrix(&case) {
            exactly(|| assert!(stats.reasons["duplicate"] > 0, "{stats:#?}"));
            assert_eq!(stats.reasons["sack"], 0, "{stats:#?}");
        }
    });
}

#[test]
fn timestamps_off() {
    here_and_in_virtual_time(|| {
        matrix(&Case::new("timestamps off").socket("timestamps = false"));
    });
}

#[test]
fn window_scaling_off() {
    here_and_in_virtual_time(|| {
        matrix(&Case::new("window scaling off").socket("window_scaling = false"));
    });
}

#[test]
fn everything_off() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("SACK, timestamps, scaling off; loss")
            .socket("sack = false\ntimestamps = false\nwindow_scaling = false")
            .link(
                r#"
            forward = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets", loss = "0.5 %" }
            reverse = { rate = "20 Mbit/s", delay = "10 ms" }
            "#,
            );
        case.timeouts = 4;
        case.need = LOSS_RECOVERY;
        matrix(&case);
    });
}

#[test]
fn ecn_with_marks() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("ECN, CE marks").socket("ecn = true");
        case.tamper = Some(mark_some);
        for (_, stats) in with_marks(&case, 0xc2, 0x52) {
            // ECE is set and cleared with the answer to each mark (RFC 3168 §6.1.3).
            exactly(|| assert!(stats.reasons["ecn"] >= 2, "{stats:#?}"));
        }
    });
}

/// Linux takes 3 for "ask for AccECN and grant it" since the version that can negotiate it; earlier
/// versions refuse the value. Each is a separate case.
#[test]
fn accecn_if_the_kernel_negotiates_it() {
    here_and_in_virtual_time(|| {
        let refused = unshared_sysctl("net.ipv4.tcp_ecn", "3").err();
        if let Some(error) = refused {
            assert_eq!(error.raw_os_error(), Some(libc::EINVAL), "{error}");
            harness::remark("AccECN: not tried between kernels, this one cannot negotiate it");
            return;
        }
        let mut case = Case::new("AccECN, CE marks")
            .sysctl("sender", "net.ipv4.tcp_ecn", "3")
            .sysctl("receiver", "net.ipv4.tcp_ecn", "3");
        case.tamper = Some(mark_some);
        for (ran, stats) in with_marks(&case, 0x1c2, 0) {
            exactly(|| assert!(stats.reasons["ecn"] > 0, "{stats:#?}"));
            exactly(|| no_ace_wrap(&ran, &stats));
        }
    });
}

/// A peer asks for AccECN, and this kernel refuses (it answers with classic ECN). There is then no
/// 3-bit counter to consider, and ACKs cover as much as without it (RFC 9768 §3.1). `contract.vec`
/// tests granted AccECN, and its guard.
#[test]
fn m11_a_peer_that_asks_for_accecn_and_is_refused() {
    here_and_in_virtual_time(|| {
        let refused = unshared_sysctl("net.ipv4.tcp_ecn", "3").is_err();
        let mut case = Case::new("the peer asks for AccECN").socket("ecn = true");
        case.tamper = Some(ask_for_accecn);
        for (ran, stats) in matrix(&case) {
            if refused {
                exactly(|| assert_eq!(stats.reasons["ace-wrap"], 0, "{stats:#?}"));
            } else {
                exactly(|| no_ace_wrap(&ran, &stats));
            }
        }
    });
}

/// ACKs cover no more than is safe for the counter (RFC 9768 §3.2.2.5). The contract lets no ACK
/// wait that covers more than 4 segments; the receiver's next one, of 2 segments, includes it, so
/// 6. At least half of them: where a hole is filled, one ACK covers everything behind it.
fn no_ace_wrap(ran: &harness::Ran, stats: &ackwise_datapath::Stats) {
    let wire = ran.wire.as_ref().expect("emulated");
    let bars = wire.counter.flows()[0].stretch();
    let count = |up_to: u32| -> u64 {
        let bars = bars.iter().filter(|bar| bar.segments <= up_to);
        bars.map(|bar| bar.acks).sum()
    };
    let (short, all) = (count(6), count(u32::MAX));
    assert!(short * 2 > all, "{short} of {all}: {bars:?}\n{stats:#?}");
}

/// Sets a parameter in a network namespace that nobody else uses.
fn unshared_sysctl(name: &str, value: &str) -> std::io::Result<()> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)?;
                std::fs::write(format!("/proc/sys/{}", name.replace('.', "/")), value)
            })
            .join()
            .expect("a thread")
    })
}

/// Runs the case, and checks that the flags of SYN and SYN-ACK were these (0: any that negotiate
/// AccECN) and that packets were marked.
fn with_marks(case: &Case, syn: u64, syn_ack: u64) -> Vec<(harness::Ran, ackwise_datapath::Stats)> {
    let _company = shared();
    POLICIES
        .iter()
        .map(|policy| {
            let network = Network::build(case);
            let attachment = network.attach(
                "receiver",
                options(&network.interface("receiver", "wan"), policy),
            );
            let ran = network.run(case, |_| ());
            let stats = network.detach("receiver", attachment);
            let tamper = network.tamper.as_ref().expect("it tampers").seen();
            let ran = network.finish(ran);
            check(case, policy, Need::Some, &ran, &stats);
            let flags = tamper.syn_flags.load(Ordering::Relaxed);
            let (asked, granted) = (flags & 0xffff, flags >> 16);
            assert_eq!(asked, syn, "{}: the SYN asks for it: {flags:x}", case.name);
            if syn_ack == 0 {
                // RFC 9768 §3.1.2: AE or CWR mean AccECN, 0x40 alone means ECN.
                assert!(granted & 0x180 != 0, "the SYN-ACK grants it: {flags:x}");
            } else {
                assert_eq!(granted, syn_ack, "the SYN-ACK grants it: {flags:x}");
            }
            let marked = tamper.marked.load(Ordering::Relaxed);
            exactly(|| assert!(marked > 3, "{}: {marked} marks", case.name));
            (ran, stats)
        })
        .collect()
}

#[test]
fn mptcp() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("MPTCP").socket("mptcp = true");
        case.need = [Need::Nothing; 2];
        for (_, stats) in matrix(&case) {
            // The contract does not know MPTCP's options, so every ACK that has one leaves.
            exactly(|| assert!(stats.reasons["option"] > 100, "{stats:#?}"));
            assert_eq!(
                stats.reasons["option"],
                stats.acks - other(&stats),
                "{stats:#?}"
            );
        }
    });
}

/// Segments that were sent for a reason other than their options.
fn other(stats: &ackwise_datapath::Stats) -> u64 {
    [
        "payload",
        "flags",
        "not-ack",
        "duplicate",
        "window-update",
        "first",
        "sack",
    ]
    .map(|name| stats.reasons[name])
    .iter()
    .sum()
}

#[test]
fn ipv6() {
    here_and_in_virtual_time(|| {
        matrix(&Case::new("IPv6").socket("ip = 6"));
    });
}

#[test]
fn a_small_receive_buffer() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("receive buffer 16 KiB").socket("receive_buffer = \"16 KiB\"");
        case.need = [Need::Any, Need::Any];
        matrix(&case);
    });
}

#[test]
fn bbr() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("bbr");
        case.cc = "bbr";
        matrix(&case);
    });
}

#[test]
fn reno() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("reno");
        case.cc = "reno";
        matrix(&case);
    });
}

#[test]
fn at_a_router() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("at a router");
        case.router = true;
        case.place = Position::Router;
        matrix(&case);
    });
}

#[test]
fn at_the_sender() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("at the sender");
        case.place = Position::Sender;
        matrix(&case);
    });
}

#[test]
fn at_the_sender_with_loss() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("at the sender, loss 1 % both ways").link(
            r#"both = { rate = "20 Mbit/s", delay = "10 ms", queue = "60 packets", loss = "1 %" }"#,
        );
        case.place = Position::Sender;
        case.timeouts = 3;
        case.need = LOSS_RECOVERY;
        matrix(&case);
    });
}

#[test]
fn the_sender_pauses() {
    here_and_in_virtual_time(|| {
        let lasting = Duration::from_millis(700);
        let mut case = Case::new("the sender pauses");
        case.seconds = 2.5;
        case.pause = lasting;
        case.behaviour = vec![Behaviour::SenderPause {
            after: Duration::from_millis(900),
            lasting,
        }];
        for (ran, _) in matrix(&case) {
            exactly(|| assert!(ran.stall() >= lasting / 2, "it paused: {:?}", ran.stall()));
        }
    });
}

#[test]
fn the_receiver_pauses() {
    here_and_in_virtual_time(|| {
        let lasting = Duration::from_millis(1200);
        let mut case = Case::new("the receiver pauses").socket("receive_buffer = \"128 KiB\"");
        case.seconds = 3.0;
        // During the pause nothing arrives. If the opened window were not announced, the sender's
        // next probe could be a whole doubled timer away.
        case.pause = lasting;
        case.behaviour = vec![Behaviour::ReceiverPause {
            after: Duration::from_millis(800),
            lasting,
        }];
        for (ran, stats) in matrix(&case) {
            exactly(|| assert!(ran.stall() >= lasting / 2, "it paused: {:?}", ran.stall()));
            // The window closed, was probed, and opened again (RFC 9293 §3.8.6).
            let opened = stats.reasons["window-update"] + stats.reasons["window-opens"];
            exactly(|| assert!(opened > 0, "{stats:#?}"));
            exactly(|| {
                assert!(
                    stats.reasons["duplicate"] > 0,
                    "no answer to a window probe was seen: {stats:#?}"
                );
            });
        }
    });
}

#[test]
fn the_receiver_is_slow() {
    here_and_in_virtual_time(|| {
        let mut case = Case::new("a slow reader, 4 Mbit/s").socket("receive_buffer = \"64 KiB\"");
        case.behaviour = vec![Behaviour::SlowReader {
            bytes_per_s: 500_000,
        }];
        case.need = [Need::Any; 2];
        for (ran, stats) in matrix(&case) {
            exactly(|| assert!(ran.goodput_bps() < 6e6, "{}", ran.goodput_bps()));
            let opened = stats.reasons["window-update"] + stats.reasons["window-opens"];
            exactly(|| assert!(opened > 0, "{stats:#?}"));
        }
    });
}

/// ACKs that would be withheld are counted, and all of them are on the wire.
#[test]
fn a_dry_run_withholds_nothing() {
    here_and_in_virtual_time(|| {
        let _company = shared();
        let mut case = Case::new("dry run");
        case.tune = |options| options.dry_run = true;
        let (ran, stats) = one(&case, POLICIES[1]);
        ran.assert_right("dry run");
        exactly(|| {
            assert!(
                stats.withheld > 0,
                "a dry run counts what it would withhold: {stats:#?}"
            )
        });
        let wire = ran.wire.as_ref().expect("emulated");
        let acks = wire.counter.flows()[0].acks.total();
        assert!(
            acks.abs_diff(stats.acks) <= 4,
            "{acks} of {} left",
            stats.acks
        );
    });
}
