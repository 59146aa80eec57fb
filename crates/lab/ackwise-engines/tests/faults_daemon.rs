//! Faults of ackwise itself during a transfer: killed, stopped, its interface removed. The transfer
//! continues, and nothing is left behind.

mod harness;

use std::time::Duration;

use ackwise_datapath::{AttachMode, Ended, Error, Position, control};
use ackwise_engines::clock::now_ns;
use ackwise_engines::command;
use ackwise_testbed::{here_and_in_virtual_time, time_is_virtual, until};
use harness::daemon::{Daemon, is_daemon, tcx_programs};
use harness::{Case, Network, POLICIES, consistent, exactly, options, record, shared};
use nix::sys::signal::Signal;

/// Room for only 20 packets in all: every ACK matters to the sender.
const NARROW: &str = r#"both = { rate = "5 Mbit/s", delay = "20 ms", queue = "4 packets" }"#;

/// Kills the holder during a transfer.
fn killed(test: &str, hook: &str, link: Option<&str>, policy: &str) {
    let mut case = Case::new(&format!("kill -9, {hook}"));
    case.seconds = 3.0;
    if let Some(link) = link {
        case.link = link.to_owned();
        case.name += ", narrow";
    }
    let what = format!("{} with {policy}", case.name);
    let network = Network::build(&case);
    let ifname = network.interface("receiver", "wan");
    let mut daemon = Daemon::start(&network, "receiver", policy, hook, test);
    if hook == "tcx" {
        assert_eq!(network.inside("receiver", || tcx_programs(&ifname)), 2);
    }
    let mut killed_at = 0;
    let mut stats = None;
    let ran = network.run(&case, |network| {
        network.at(Duration::from_millis(1500));
        stats = Some(daemon.stats(network));
        daemon.kill();
        killed_at = now_ns();
        if hook == "tcx" {
            // Its links are removed too; the kernel frees them a moment later.
            until("the links to go", || {
                (network.inside("receiver", || tcx_programs(&ifname)) == 0).then_some(())
            });
        }
    });
    let stats = stats.expect("the counters were read before the kill");
    exactly(|| {
        assert!(
            stats.withheld > 0,
            "{what}: nothing was withheld: {stats:#?}"
        );
    });

    network.inside("receiver", || {
        let filters = || {
            command::run("tc", &["filter", "show", "dev", &ifname, "egress"])
                .unwrap_or_else(|error| panic!("{error}"))
        };
        // A clsact filter outlives its process: it lets everything pass, and whoever detaches or
        // attaches next removes it.
        assert_eq!(filters().contains("bpf"), hook == "clsact", "{what}");
        match control::detach(&ifname) {
            Ok(None) => assert_eq!(
                hook, "clsact",
                "{what}: a filter was left; only clsact leaves one"
            ),
            Err(Error::NotAttached(_)) => assert_eq!(hook, "tcx", "{what}: no filter was left"),
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(filters().trim(), "", "{what}");
        assert_eq!(tcx_programs(&ifname), 0, "{what}");
    });
    let next = network.attach("receiver", options(&ifname, policy));
    network.detach("receiver", next);

    let ran = network.finish(ran);
    let bound = ran.rto() + ran.noise();
    record(&case.name, policy, &ran, Some(&stats), bound);
    ran.assert_right(&what);
    if !time_is_virtual() {
        // On a busy machine the transfer may have ended before.
        return;
    }
    let stall = ran.stall_between(killed_at, u64::MAX);
    assert!(
        stall <= bound,
        "{what}: nothing for {stall:?}; one RTO is {bound:?}"
    );
    let (before, after) = (ran.bytes_at(killed_at), ran.outcome.bytes);
    assert!(
        after > before + 100_000,
        "{what}: {before} of {after} bytes before"
    );
}

#[test]
fn killed_on_tcx() {
    if is_daemon() {
        return;
    }
    here_and_in_virtual_time(|| {
        let _company = shared();
        for policy in POLICIES {
            killed("killed_on_tcx", "tcx", None, policy);
        }
    });
}

#[test]
fn killed_on_clsact() {
    if is_daemon() {
        return;
    }
    here_and_in_virtual_time(|| {
        let _company = shared();
        for policy in POLICIES {
            killed("killed_on_clsact", "clsact", None, policy);
        }
    });
}

/// The worst moment: the sender's whole window fits into one withheld ACK.
#[test]
fn killed_with_a_small_window() {
    if is_daemon() {
        return;
    }
    here_and_in_virtual_time(|| {
        let _company = shared();
        for hook in ["tcx", "clsact"] {
            let test = "killed_with_a_small_window";
            killed(test, hook, Some(NARROW), "every-n:n=256,warm=0");
        }
    });
}

#[test]
fn stopped_and_continued() {
    if is_daemon() {
        return;
    }
    here_and_in_virtual_time(|| {
        let _company = shared();
        for policy in POLICIES {
            let mut case = Case::new("SIGSTOP for 1.2 s, SIGCONT");
            case.seconds = 3.8;
            let what = format!("{} with {policy}", case.name);
            let network = Network::build(&case);
            let ifname = network.interface("receiver", "wan");
            let daemon =
                Daemon::start(&network, "receiver", policy, "tcx", "stopped_and_continued");
            let mut seen = Vec::new();
            let mut times = [0; 2];
            let ran = network.run(&case, |network| {
                network.at(Duration::from_millis(1500));
                seen.push(daemon.stats(network));
                daemon.signal(Signal::SIGSTOP);
                times[0] = now_ns();
                std::thread::sleep(Duration::from_millis(1200));
                times[1] = now_ns();
                daemon.signal(Signal::SIGCONT);
                seen.push(daemon.stats(network));
                std::thread::sleep(Duration::from_millis(700));
            });
            let last = network.inside("receiver", || control::detach(&ifname));
            let last = last.expect("it lives").expect("it was attached");
            drop(daemon);
            network.nobody_attached("receiver");
            let epoch = network.counted_since();
            let ran = network.finish(ran);
            let bound = ran.bound(&case);
            record(&case.name, policy, &ran, Some(&last), bound);
            ran.assert_right(&what);
            consistent(&what, &last);
            if !time_is_virtual() {
                // On a busy machine the transfer may have ended before, or heartbeats failed.
                continue;
            }
            assert!(
                ran.stall() <= bound,
                "{what}: {:?} > {bound:?}",
                ran.stall()
            );

            let stale = |index: usize| -> u64 { seen[index].fail_open["stale-heartbeat"] };
            assert_eq!(stale(0), 0, "{what}: {:#?}", seen[0]);
            assert!(stale(1) > 0, "{what}: {:#?}", seen[1]);
            // `adaptive` may remember a loss that the pause found in the queue.
            if policy != POLICIES[0] {
                assert!(seen[0].withheld > 0, "{what}: {:#?}", seen[0]);
                assert!(
                    last.withheld > seen[1].withheld,
                    "{what}: it did not resume: {last:#?}"
                );
            }
            // After 500 ms of silence everything is on the wire: the receiver's own ACKs, one per
            // two segments. A heartbeat may have come just before.
            let wire = ran.wire.as_ref().expect("emulated");
            let flow = &wire.counter.flows()[0];
            let bucket =
                |at: u64| (at.saturating_sub(epoch) / harness::network::INTERVAL_NS) as usize;
            let window = bucket(times[0] + 560_000_000)..bucket(times[1]);
            let sum = |series: &[u32]| -> u32 {
                series
                    .get(window.clone())
                    .map_or(0, |part| part.iter().sum())
            };
            let (acks, data) = (sum(&flow.ack_series), sum(&flow.data_series));
            assert!(
                data > 100,
                "{what}: only {data} segments while it was stopped"
            );
            assert!(
                acks * 3 >= data,
                "{what}: {acks} ACKs for {data} segments while stopped"
            );
        }
    });
}

/// The interface is deleted with everything on it, and the attachment reports that.
fn deleted(hook: AttachMode, place: Position) {
    let node = if place == Position::Sender {
        "sender"
    } else {
        "receiver"
    };
    for policy in POLICIES {
        let mut case = Case::new(&format!("interface deleted, {hook:?}, {node}"));
        // However late the interface is deleted, the transfer is still running.
        case.seconds = 60.0;
        let network = Network::build(&case);
        let ifname = network.interface(node, "wan");
        let mut wanted = options(&ifname, policy);
        wanted.attach = hook;
        wanted.position = place;
        let attachment = network.attach(node, wanted);
        let ran = network.run(&case, |network| {
            network.at(Duration::from_millis(1500));
            let stats = attachment.stats().expect("counters");
            exactly(|| assert!(stats.withheld > 0, "{}: {policy}: {stats:#?}", case.name));
            network.inside(node, || {
                command::run("ip", &["link", "delete", &ifname])
                    .unwrap_or_else(|error| panic!("{error}"))
            });
            let ended = attachment.wait(Duration::from_secs(30));
            assert_eq!(ended, Some(Ended::InterfaceGone), "{}", case.name);
            network.abort();
        });
        assert!(
            !ran.outcome.errors.is_empty(),
            "the transfer cannot have ended well"
        );
        let stats = attachment.stats().expect("the last counters");
        match network.inside(node, || attachment.detach()) {
            Err(Error::InterfaceGone(name)) => assert_eq!(name, ifname),
            other => panic!("{}: {other:?}", case.name),
        }
        network.nobody_attached(node);
        // Only lo is left: no TAP, no bridge, nothing that was not there before. A process that
        // another test starts has a copy of the TAP's descriptor until it executes its own program.
        ackwise_testbed::until("only lo to be left", || {
            let links = network.inside(node, || command::run("ip", &["-o", "link", "show"]));
            let links = links.unwrap_or_else(|error| panic!("{error}"));
            (links.lines().count() == 1).then_some(())
        });
        let ran = network.finish(ran);
        record(&case.name, policy, &ran, Some(&stats), Duration::ZERO);
    }
}

#[test]
fn the_interface_is_deleted_under_tcx() {
    here_and_in_virtual_time(|| {
        let _company = shared();
        deleted(AttachMode::Tcx, Position::Receiver);
    });
}

#[test]
fn the_interface_is_deleted_under_clsact() {
    here_and_in_virtual_time(|| {
        let _company = shared();
        deleted(AttachMode::Clsact, Position::Receiver);
    });
}

#[test]
fn the_interface_is_deleted_at_the_sender() {
    here_and_in_virtual_time(|| {
        let _company = shared();
        deleted(AttachMode::Tcx, Position::Sender);
    });
}
