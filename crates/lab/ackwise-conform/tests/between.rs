//! A box between two interfaces: a bridge in a namespace. Needs root.

use ackwise_conform::{Between, Device as _, Outcome, Schedule, chosen, run};
use ackwise_testbed::{Netns, ip, run_command};

/// The receiver's and the sender's interface, with a bridge between them.
const INTERFACES: [&str; 2] = ["r0", "s0"];

fn bridged() -> Netns {
    let host = Netns::new();
    host.run(|| {
        ip("link add br0 type bridge");
        for (near, far) in INTERFACES.into_iter().zip(["b0", "b1"]) {
            ip(&format!("link add {near} type veth peer name {far}"));
            ip(&format!("link set {far} master br0"));
            for interface in [near, far] {
                ip(&format!("link set {interface} up"));
            }
            // Network cards have GRO on.
            run_command("ethtool", &format!("-K {near} gro on"));
        }
        ip("link set br0 up");
    });
    host
}

fn joins(interface: &str) -> bool {
    let output = run_command("ethtool", &format!("-k {interface}"));
    output.contains("generic-receive-offload: on")
}

fn between() -> Between {
    Between {
        interfaces: INTERFACES.map(str::to_owned),
    }
}

#[test]
fn a_bridge_conforms_and_its_interfaces_are_left_as_they_were() {
    let host = bridged();
    let cases = ["plain", "ece-once"].map(str::to_owned);
    let schedule = Schedule::new(&chosen(&cases).expect("cases"));
    host.run(|| {
        let report = run(&mut between(), &schedule, None).expect("a report");
        let failed: Vec<_> = report.failed().map(|it| it.1.what.clone()).collect();
        assert_eq!(report.outcome(), Outcome::Conforms, "{failed:?}");
        assert_eq!(report.thinned(None), Some(0.0));
        for interface in INTERFACES {
            assert!(joins(interface), "{interface}");
        }
    });
}

/// While it runs, the interfaces receive frames for other addresses, and merge nothing.
#[test]
fn interfaces_hear_all_and_join_nothing() {
    let host = bridged();
    let cases = ["plain"].map(str::to_owned);
    let schedule = Schedule::new(&chosen(&cases).expect("cases"));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| host.run(|| between().run(&schedule).expect("arrivals")));
        let seen = host.run(|| {
            let all = || {
                INTERFACES.into_iter().all(|interface| {
                    let output = run_command("ip", &format!("-d link show dev {interface}"));
                    output.contains("promiscuity 1") && !joins(interface)
                })
            };
            let mut seen = false;
            while !seen && !running.is_finished() {
                seen = all();
            }
            seen
        });
        assert!(seen);
        assert!(!running.join().expect("it ends").is_empty());
    });
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let host = Netns::new();
    let schedule = Schedule::new(&[]);
    let error = host.run(|| between().run(&schedule).expect_err("no interface"));
    assert!(error.to_string().contains("r0"), "{error}");
}
