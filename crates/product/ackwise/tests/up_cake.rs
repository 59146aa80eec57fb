//! `ackwise up --up RATE` sets cake, and gives the queue back however it ends. On a separate kernel in
//! virtual time, since not every kernel has cake.

mod common;

use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ackwise_testbed::program::{Ended, must, until};
use ackwise_testbed::{Netns, in_virtual_time, refuse};
use common::{ACKWISE, Attached, Detached, Net, SHAPER, beside_an_upload, content, tins, transfer};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

/// A queue discipline that somebody has set, with options.
const SOMEBODYS: &str =
    "handle 42: fq_codel limit 1234 target 7ms interval 140ms quantum 600 noecn";

/// The process that restores the queue when its parent ends.
fn guard_of(parent: Pid) -> Option<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let status = processes.filter_map(|it| std::fs::read_to_string(it.path().join("status")).ok());
    status
        .filter(|it| it.starts_with("Name:\tackwise-guard\n"))
        .find(|it| it.contains(&format!("\nPPid:\t{parent}\n")))
        .and_then(|it| {
            let line = it.lines().find_map(|line| line.strip_prefix("Pid:\t"))?;
            Some(Pid::from_raw(line.parse().ok()?))
        })
}

/// Creates a router with a root queue, and returns what tc shows of it.
fn router_with(root: Option<&str>) -> (Net, String) {
    let net = Net::new();
    net.forward();
    if let Some(root) = root {
        net.set_root_queue(root);
    }
    let before = net.queues();
    (net, before)
}

fn is_cake(shown: &str) -> bool {
    let options = [
        "cake ac40:",
        "bandwidth 5Mbit",
        "diffserv4",
        "ack-filter-aggressive",
    ];
    options.iter().all(|it| shown.contains(it)) && shown.lines().count() == 1
}

/// Ends an `ackwise up` by a signal or by `ackwise down`, and waits until nothing is left.
fn end_and_check(net: &Net, attached: Attached, ending: &str, before: &str) {
    match ending.parse::<Signal>() {
        Ok(signal) => attached.signal(signal),
        Err(_) => assert!(net.down().contains("again")),
    }
    let killed = ending == "SIGKILL";
    let Detached { status, err, .. } = attached.end();
    assert_eq!(status.code(), (!killed).then_some(0), "{ending}: {err}");
    if killed {
        // Another process cleans up.
        until("the queue", || (!is_cake(&net.queues())).then_some(()));
        until("the programs", || (net.programs() == 0).then_some(()));
    }
    assert_eq!(net.queues(), before, "{ending}");
    assert_eq!(net.programs(), 0, "{ending}");
    let Ended { code, .. } = net.run(&["down", &net.iface]);
    assert_eq!(code, 1, "{ending}: something is left");
}

#[test]
fn cake_takes_the_place_of_a_queue_and_gives_it_back() {
    in_virtual_time(|| {
        let (net, before) = router_with(Some(SOMEBODYS));
        for ending in ["SIGINT", "SIGTERM", "SIGKILL", "down"] {
            let attached = net.up(&["--up", "5mbit"]);
            assert!(is_cake(&net.queues()), "{}", net.queues());
            end_and_check(&net, attached, ending, &before);
        }
    });
}

#[test]
fn somebody_s_rate_for_our_cake_is_warned_of_and_ends_with_it() {
    in_virtual_time(|| {
        let (net, before) = router_with(Some(SOMEBODYS));
        let mut attached = net.up(&["--up", "5mbit"]);
        let Net {
            receiver, iface, ..
        } = &net;
        must(&format!(
            "tc -n {receiver} qdisc replace dev {iface} root cake bandwidth 9mbit"
        ));
        let event = attached.next_event();
        assert_eq!(event["event"], "rate-changed", "{event}");
        assert_eq!(event["rate_bps"], 9_000_000, "{event}");
        assert!(net.down().contains("again"));
        let ended = attached.end();
        assert!(
            ended
                .err
                .contains("set the rate of ackwise's cake to 9.000 Mbit/s")
        );
        assert_eq!(net.queues(), before);
    });
}

#[test]
fn cake_takes_the_place_of_the_kernel_s_own_queue_and_carries_traffic() {
    in_virtual_time(|| {
        let (net, before) = router_with(None);
        let attached = net.up(&["--up", "5mbit"]);
        assert_eq!(attached.started["facts"]["queue"]["owner"], "kernel");
        assert!(is_cake(&net.queues()), "{}", net.queues());
        let bytes = content(1_000_000);
        assert!(
            transfer(&net, bytes.clone()) == bytes,
            "other bytes arrived"
        );
        // Nobody uploads, so that ACKs need no tin of their own.
        let [bulk, rest, video, _arp] = tins(&net);
        assert!(rest > 50, "{rest} packets in the tin of best effort");
        assert_eq!([bulk, video], [0, 0]);
        beside_an_upload(&net, || {
            until("an upload", || (tins(&net)[1] > rest + 500).then_some(()));
            assert!(
                transfer(&net, bytes.clone()) == bytes,
                "other bytes arrived"
            );
        });
        // The ACKs of a megabyte, 690 segments, thinned, and nothing else.
        let [bulk, _rest, video, _arp] = tins(&net);
        assert!(video > 30, "{video} packets in the tin of ACKs");
        assert_eq!(bulk, 0);
        for more in [None, Some("--explain")] {
            let args = ["up", &net.iface].into_iter().chain(more);
            let Ended { code, err, .. } = net.run(&args.collect::<Vec<_>>());
            assert_eq!(code, 1, "{err}");
            let says = [
                attached.pid().to_string(),
                format!("ackwise down {}", net.iface),
            ];
            assert!(says.iter().all(|it| err.contains(it)), "{err}");
        }
        end_and_check(&net, attached, "SIGKILL", &before);
    });
}

#[test]
fn what_a_killed_guard_leaves_is_put_back_by_down_and_by_the_next_up() {
    in_virtual_time(|| {
        let (net, before) = router_with(Some(SOMEBODYS));
        for by_down in [true, false] {
            let attached = net.up(&["--up", "5mbit"]);
            let guard = guard_of(attached.pid()).expect("a guard");
            kill(guard, Signal::SIGKILL).unwrap();
            attached.signal(Signal::SIGKILL);
            drop(attached.end());
            assert!(is_cake(&net.queues()), "{}", net.queues());
            let explained = net.run(&["up", &net.iface, "--explain"]).out;
            let foreseen = ["the queue stays: fq_codel", "killed `ackwise up`"];
            assert!(
                foreseen.iter().all(|it| explained.contains(it)),
                "{explained}"
            );
            if by_down {
                assert!(net.down().contains("its queue is fq_codel again"));
            } else {
                let next = net.up(&[]);
                assert_eq!(next.started["facts"]["queue"]["owner"], "somebody-plain");
                assert_eq!(net.queues(), before);
                next.signal(Signal::SIGTERM);
                next.end_well();
            }
            assert_eq!(net.queues(), before);
            assert_eq!(net.programs(), 0);
        }
        // Without its guard it ends with an error that says how to continue.
        let attached = net.up(&["--up", "5mbit"]);
        kill(guard_of(attached.pid()).expect("a guard"), Signal::SIGKILL).unwrap();
        attached.signal(Signal::SIGTERM);
        let Detached { status, err, .. } = attached.end();
        assert_eq!(status.code(), Some(1));
        assert!(
            err.contains(&format!("ackwise down {}", net.iface)),
            "{err}"
        );
        net.down();
        assert_eq!(net.queues(), before);
    });
}

/// The explanation names the command that turns on the filter of somebody's cake, and it works.
#[test]
fn somebody_s_cake_without_a_filter_can_have_one() {
    in_virtual_time(|| {
        let (net, _) = router_with(Some("handle 42: cake bandwidth 9mbit"));
        let explained = || net.run(&["up", &net.iface, "--explain"]).out;
        let Net {
            receiver, iface, ..
        } = &net;
        let command = format!("qdisc change dev {iface} root cake ack-filter-aggressive");
        let before = explained();
        assert!(before.contains(&format!("`tc {command}`")), "{before}");
        must(&format!("tc -n {receiver} {command}"));
        let changed = net.queues();
        for option in ["cake 42:", "bandwidth 9Mbit", "ack-filter-aggressive"] {
            assert!(changed.contains(option), "{changed}");
        }
        let after = explained();
        assert!(after.contains("cake 42: is set by someone else"), "{after}");
        assert!(!after.contains("ack-filter"), "{after}");
    });
}

#[test]
fn what_somebody_changes_meanwhile_stays() {
    in_virtual_time(|| {
        for by_down in [false, true] {
            let (net, _) = router_with(None);
            let mut attached = net.up(&["--up", "5mbit"]);
            net.set_root_queue(SHAPER);
            let theirs = net.queues();
            let event = attached.next_event();
            assert_eq!(
                (&event["event"], &event["now"]),
                (&json!("queue-replaced"), &json!("tbf"))
            );
            if by_down {
                let output = net.down();
                assert!(
                    output.contains("someone else has set its queue, tbf"),
                    "{output}"
                );
            } else {
                attached.signal(Signal::SIGTERM);
            }
            attached.end_well();
            assert_eq!(net.queues(), theirs);
        }
    });
}

/// In `pfifo_fast`, the class of ACKs in cake maps to the last band, which waits for all others.
#[test]
fn acks_have_no_class_of_a_cake_that_is_gone() {
    in_virtual_time(|| {
        let (net, _) = router_with(None);
        let Net {
            receiver, iface, ..
        } = &net;
        must(&format!("ip -n {receiver} link set {iface} txqueuelen 20"));
        let mut attached = net.up(&["--up", "50mbit"]);
        net.set_root_queue("handle 43: tbf rate 1mbit burst 3000 limit 100000");
        must(&format!(
            "tc -n {receiver} qdisc add dev {iface} parent 43:1 handle 44: pfifo_fast"
        ));
        assert_eq!(attached.next_event()["event"], "queue-replaced");
        // The programs learn of it with the next heartbeat.
        thread::sleep(Duration::from_secs(1));
        let is_done = AtomicBool::new(false);
        let bytes = content(50_000);
        thread::scope(|scope| {
            // More than the queue lets through, in the band for packets without a priority.
            scope.spawn(|| {
                Netns::named(receiver).run(|| {
                    let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
                    while !is_done.load(Ordering::Relaxed) {
                        for _ in 0..4 {
                            let _ = socket.send_to(&[0; 1200], "10.9.0.1:9");
                        }
                        thread::sleep(Duration::from_millis(5));
                    }
                });
            });
            let got = transfer(&net, bytes.clone());
            is_done.store(true, Ordering::Relaxed);
            assert!(got == bytes, "other bytes arrived");
        });
        attached.signal(Signal::SIGTERM);
        attached.end_well();
    });
}

#[test]
fn a_deleted_interface_leaves_nothing_behind() {
    in_virtual_time(|| {
        let (net, _) = router_with(None);
        let attached = net.up(&["--up", "5mbit"]);
        must(&format!("ip -n {} link del {}", net.receiver, net.iface));
        let Detached { status, err, .. } = attached.end();
        assert_eq!(status.code(), Some(1), "{err}");
        assert!(err.contains("deleted"), "{err}");
        let Ended { code, out, err } = net.run(&["down"]);
        assert_eq!(code, 0, "{err}");
        assert!(out.starts_with("No "), "{out}");
    });
}

/// Starts `ackwise up` so that it must fail, and returns its standard error. Nothing is left.
fn fails(net: &Net, before: &str, args: &[&str], how: impl FnOnce(&mut Command)) -> String {
    let mut command = net.in_receiver(ACKWISE.path());
    command
        .args(["--format", "json", "up", &net.iface])
        .args(args);
    how(&mut command);
    let Ended { code, err, .. } = Ended::of(&command.output().unwrap());
    assert_eq!(code, 1, "{args:?}: {err}");
    assert_eq!(net.queues(), before, "{args:?}: {err}");
    assert_eq!(net.programs(), 0, "{args:?}: {err}");
    let Ended { code, .. } = net.run(&["down", &net.iface]);
    assert_eq!(code, 1, "{args:?}: something is left");
    err
}

/// Its report cannot be printed, which is noticed only after the work is done.
#[test]
fn an_error_after_the_start_undoes_all() {
    in_virtual_time(|| {
        let (net, before) = router_with(Some(SOMEBODYS));
        for args in [
            &["--up", "5mbit"][..],
            &["--up", "1mbit..5mbit"],
            &["--up", "5mbit", "--queue", "gateway"],
            &[],
        ] {
            let full = File::options().write(true).open("/dev/full").unwrap();
            let err = fails(&net, &before, args, |command| {
                command.stdout(full);
            });
            assert!(err.contains("No space left"), "{args:?}: {err}");
        }
    });
}

/// No queue is replaced if there is no process to restore it.
#[test]
fn without_a_guard_it_does_not_start() {
    in_virtual_time(|| {
        let (net, before) = router_with(Some(SOMEBODYS));
        let err = fails(&net, &before, &["--up", "5mbit"], |command| {
            let refuse = || -> io::Result<()> { refuse(libc::SYS_close_range, None, libc::EPERM) };
            // SAFETY: `refuse` does not allocate or take a lock.
            unsafe { command.pre_exec(refuse) };
        });
        assert!(err.contains("the process that clears up"), "{err}");
    });
}
