//! What a kernel must support: everything that the command does on live packets, once.
//!
//! These tests run on this machine's kernel, and need only `ip`, `tc`, `ethtool` and `bpftool`, so
//! that they also run in an emulated machine with another kernel. Lines that begin with `figure`
//! are for whoever runs them there.

mod common;

use std::fs;
use std::process::Command;
use std::time::Duration;

use ackwise_policy::{Capabilities, Policy};
use ackwise_testbed::program::{Ended, must, root};
use ackwise_testbed::until_within;
use common::{ACKWISE, Attached, Net, content, transfer};
use nix::sys::signal::Signal;
use serde_json::Value;

const BYTES: usize = 8_000_000;
const EVERY_4: [&str; 6] = ["--policy", "every-n", "--set", "n=4", "--hold-ms", "20"];

fn figure(name: &str, value: impl std::fmt::Display) {
    println!("figure {name} {value}");
}

/// Waits until `poll` finds something. An emulated machine on a busy host is slow.
fn until<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    until_within(Duration::from_secs(120), what, poll)
}

/// tcx came with Linux 6.6.
fn has_tcx() -> bool {
    ackwise_netdev::kernel::version() >= Some((6, 6))
}

/// Returns whether a queue discipline of this kind can be created.
fn has_qdisc(net: &Net, kind: &str) -> bool {
    let add = format!(
        "-n {} qdisc add dev {} root {kind}",
        net.receiver, net.iface
    );
    let made = Command::new("tc")
        .args(add.split_whitespace())
        .output()
        .unwrap();
    if made.status.success() {
        must(&format!(
            "tc -n {} qdisc del dev {} root",
            net.receiver, net.iface
        ));
    }
    made.status.success()
}

fn shown(net: &Net, args: &[&str]) -> Value {
    let Ended { code, out, err } = net.run(&[&["--format", "json"], args].concat());
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).unwrap()
}

/// Transfers bytes to the receiver, and asserts that they arrive unchanged.
fn transfers(net: &Net) {
    let bytes = content(BYTES);
    assert!(transfer(net, bytes.clone()) == bytes, "other bytes arrived");
}

/// The maximum number of instructions that the verifier processed for a program of this process.
fn verified(attached: &Attached) -> u64 {
    let descriptors = fs::read_dir(format!("/proc/{}/fdinfo", attached.pid())).unwrap();
    descriptors
        .flatten()
        .filter_map(|fd| fs::read_to_string(fd.path()).ok())
        .filter_map(|info| {
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("verified_insns:"));
            line?.trim().parse().ok()
        })
        .max()
        .expect("a program")
}

fn ends(mut attached: Attached) {
    attached.signal(Signal::SIGTERM);
    let status = until("its end", || attached.ended());
    assert_eq!(status.code(), Some(0), "{status}");
}

/// Asserts that no program, queue discipline or device is left that was not there before.
fn nothing_is_left(net: &Net, qdiscs_before: &str) {
    assert_eq!(net.programs(), 0, "something is still attached");
    assert_eq!(net.queues(), qdiscs_before);
    for namespace in [&net.receiver, &net.sender] {
        let links = must(&format!("ip -n {namespace} link show"));
        let ours = ["awgate", "awtun", "ackwise", "awsilent"];
        assert!(!ours.iter().any(|name| links.contains(name)), "{links}");
    }
}

/// Attaches in this mode; a transfer arrives complete, with fewer ACKs.
fn thins(mode: &str) {
    let net = Net::new();
    let before = net.queues();
    let attached = net.attach(&[&EVERY_4[..], &["--attach-mode", mode]].concat());
    assert!(net.programs() >= 2, "nothing is attached");
    transfers(&net);
    let status = shown(&net, &["status", &net.iface]);
    let count = |key: &str| status["attachments"][0]["stats"][key].as_u64().unwrap();
    let (acks, withheld) = (count("acks"), count("withheld"));
    assert!(withheld > 0 && withheld < acks, "{withheld} of {acks}");
    figure(mode, "yes");
    figure("transfer", format!("{}%", 100 * withheld / acks));
    figure("verified", verified(&attached));
    ends(attached);
    nothing_is_left(&net, &before);
}

#[test]
fn tcx() {
    root();
    if has_tcx() {
        thins("tcx");
        return;
    }
    // tcx is missing if asked for; the default falls back.
    let net = Net::new();
    let Ended { code, err, .. } = net.run(&["attach", &net.iface, "--attach-mode", "tcx"]);
    assert_ne!(code, 0);
    assert!(err.contains("tcx"), "{err}");
    let before = net.queues();
    let attached = net.attach(&EVERY_4);
    assert!(net.queues().contains("clsact"), "{}", net.queues());
    ends(attached);
    nothing_is_left(&net, &before);
    figure("tcx", "no");
}

#[test]
fn clsact() {
    root();
    thins("clsact");
}

/// The options are constants of the programs, so the verifier takes other paths for each.
#[test]
fn verifier() {
    root();
    let net = Net::new();
    let before = net.queues();
    for args in [
        &["--position", "receiver", "--policy", "adaptive"][..],
        &["--position", "router", "--policy", "tack", "--dry-run"],
        &[
            "--position",
            "sender",
            "--policy",
            "rate-limit",
            "--cwnd-hint",
            "--ack-request",
        ],
    ] {
        let attached = net.attach(args);
        figure("verified", verified(&attached));
        ends(attached);
        nothing_is_left(&net, &before);
    }
}

/// So is the policy: each is a different program to the verifier.
#[test]
fn policies() {
    root();
    let net = Net::new();
    let mut attached = 0;
    for policy in Policy::all() {
        let here = Capabilities::DATAPATH;
        if policy.check(here).is_ok() {
            let up = net.attach(&["--policy", policy.name()]);
            figure("verified", verified(&up));
            ends(up);
            attached += 1;
        }
    }
    figure("policies", attached);
    assert!(attached >= 10, "only {attached} policies");
    assert_eq!(net.programs(), 0, "something is still attached");
}

/// A cgroup without processes.
struct EmptyCgroup(std::path::PathBuf);

impl EmptyCgroup {
    fn new() -> Self {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let root = mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let path = fields.next()?;
            (fields.next() == Some("cgroup2")).then_some(path)
        });
        let name = format!("ackwise-kernel-{}", std::process::id());
        let path = std::path::Path::new(root.expect("cgroups of version 2")).join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for EmptyCgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The programs at both ends of an ACK rate load, and are removed.
#[test]
fn ask() {
    root();
    let net = Net::new();
    let cgroup = EmptyCgroup::new();
    let cgroup = cgroup.0.to_str().unwrap();
    for option in [&["--per-window", "8"][..], &["--ack-congestion-control"]] {
        let args = [&["ask", "--cgroup", cgroup], option].concat();
        // `ip netns exec` hides the cgroups.
        let asking = Attached::start(Command::new(ACKWISE.path()), "asking", &args);
        let obeying = net.attach(&["--policy", "every-n", "--set", "n=2", "--obey-ack-rate"]);
        transfers(&net);
        ends(obeying);
        ends(asking);
    }
    assert_eq!(net.programs(), 0, "something is still attached");
    let left = must(&format!("bpftool cgroup show {cgroup}"));
    assert!(!left.contains("ackwise"), "{left}");
}

#[test]
fn gateway() {
    root();
    let net = Net::new();
    let before = net.queues();
    let args = ["gateway", "up", &net.iface, "--rate", "20 Mbit/s"];
    let up = Attached::start(net.in_receiver(ACKWISE.path()), "up", &args);
    transfers(&net);
    // The gateway publishes its counters periodically.
    until("ACKs through the gateway", || {
        let status = shown(&net, &["gateway", "status", &net.iface]);
        (status["gateways"][0]["read"].as_u64()? > 50).then_some(())
    });
    figure("verified", verified(&up));
    ends(up);
    nothing_is_left(&net, &before);
}

#[test]
fn tunnel() {
    root();
    let net = Net::new();
    let before = net.queues();
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let key = |name: &str| {
        let Ended { code, out, err } = ACKWISE.run(&["tunnel", "keygen", &path(name)]);
        assert_eq!(code, 0, "{err}");
        out.trim().to_owned()
    };
    let (receiver, sender) = (key("receiver.key"), key("sender.key"));
    let iface = &net.iface;
    let text = format!(
        "listen_port = 51830\nprivate_key = \"receiver.key\"\ninterface = \"{iface}\"\n[[peer]]\n\
         name = \"sender\"\npublic_key = \"{sender}\"\nendpoint = \"10.9.0.1:51830\"\n\
         allowed_ips = [\"10.9.0.1\"]\n"
    );
    fs::write(path("receiver.toml"), text).unwrap();
    let text = format!(
        "listen_port = 51830\nprivate_key = \"sender.key\"\n[[peer]]\nname = \"receiver\"\n\
         public_key = \"{receiver}\"\nallowed_ips = [\"10.9.0.2\"]\n"
    );
    fs::write(path("sender.toml"), text).unwrap();
    let args = ["tunnel", "up", &path("sender.toml")];
    let sender = Attached::start(net.in_sender(ACKWISE.path()), "up", &args);
    let args = ["tunnel", "up", &path("receiver.toml")];
    let receiver = Attached::start(net.in_receiver(ACKWISE.path()), "up", &args);
    let peer = || shown(&net, &["tunnel", "status"])["tunnels"][0]["peers"][0].clone();
    until("the peer", || (peer()["up"] == true).then_some(()));
    transfers(&net);
    until("ACKs in the tunnel", || {
        (peer()["packets_in"]["packets"].as_u64()? > 100).then_some(())
    });
    figure("verified", verified(&receiver));
    ends(receiver);
    ends(sender);
    nothing_is_left(&net, &before);
}

/// A shaper behind `adaptive`: the kernel's cake, or the gateway's queue if the kernel has none.
#[test]
fn up() {
    root();
    let net = Net::new();
    let cake = has_qdisc(&net, "cake");
    let before = net.queues();
    net.forward();
    let up = net.up(&["--up", "20mbit"]);
    let queue = if cake { "cake" } else { "gateway" };
    let plan = &up.started["plan"];
    assert!(plan["queue"].get(queue).is_some(), "{plan}");
    transfers(&net);
    if cake {
        let counted = must(&format!(
            "tc -n {} -s -j qdisc show dev {}",
            net.receiver, net.iface
        ));
        let counted: Value = serde_json::from_str(&counted).unwrap();
        let all = counted.as_array().unwrap();
        let cake = all.iter().find(|one| one["kind"] == "cake").expect("cake");
        assert!(cake["packets"].as_u64().unwrap() > 50, "{cake}");
    }
    figure("up", queue);
    ends(up);
    nothing_is_left(&net, &before);
    if cake {
        // This also loads the program that measures round trips behind the queue.
        let measured = net.start("up", "up", &["--up", "1mbit..20mbit"]);
        assert!(measured.started["plan"]["queue"].get("cake").is_some());
        ends(measured);
        nothing_is_left(&net, &before);
    }
}
