//! `ackwise up` and `ackwise down`: their effect on an interface, and that nothing is left.
//!
//! Tests with cake run on a separate kernel in virtual time, since not every kernel has cake.

mod common;

use std::fs::File;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ackwise_testbed::program::{Ended, must, root, until};
use ackwise_testbed::{Netns, in_virtual_time, refuse};
use common::{ACKWISE, Attached, Detached, Net, beside_an_upload, content, tins, transfer};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

/// A queue discipline that somebody has set, with options.
const SOMEBODYS: &str =
    "handle 42: fq_codel limit 1234 target 7ms interval 140ms quantum 600 noecn";
/// A queue discipline that shapes.
const SHAPER: &str = "handle 43: tbf rate 5mbit burst 10k latency 50ms";

/// The queue disciplines of the receiver's interface, as tc shows them.
fn tc(net: &Net) -> String {
    must(&format!(
        "tc -n {} qdisc show dev {}",
        net.receiver, net.iface
    ))
}

fn set_root(net: &Net, root: &str) {
    must(&format!(
        "tc -n {} qdisc replace dev {} root {root}",
        net.receiver, net.iface
    ));
}

/// Adds a default route to the receiver through its interface.
fn add_default_route(net: &Net) {
    must(&format!(
        "ip -n {} route add default via 10.9.0.1",
        net.receiver
    ));
}

fn forward(net: &Net) {
    add_default_route(net);
    let Net { receiver, .. } = net;
    must(&format!(
        "ip netns exec {receiver} sysctl -q -w net.ipv4.ip_forward=1"
    ));
}

fn up(net: &Net, args: &[&str]) -> Attached {
    net.start("up", "up", args)
}

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

fn ends_well(attached: Attached) -> Value {
    let Detached { status, last, err } = attached.end();
    assert_eq!(status.code(), Some(0), "{err}");
    assert_eq!(last["event"], "down", "{last}");
    last
}

fn down(net: &Net) -> String {
    let Ended { code, out, err } = net.run(&["down", &net.iface]);
    assert_eq!(code, 0, "{err}");
    out
}

#[test]
fn a_host_that_receives_saves_acks_and_gets_every_byte() {
    in_virtual_time(|| {
        let net = Net::new();
        add_default_route(&net);
        let Net { sender, iface, .. } = &net;
        must(&format!(
            "tc -n {sender} qdisc add dev {iface} root netem delay 40ms rate 20mbit limit 200"
        ));
        let attached = up(&net, &[]);
        let bytes = content(8_000_000);
        assert!(
            transfer(&net, bytes.clone()) == bytes,
            "other bytes arrived"
        );
        attached.signal(Signal::SIGTERM);
        let last = ends_well(attached);
        let count = |key: &str| last["stats"][key].as_u64().unwrap();
        assert!(count("packets_saved") > count("acks") / 4, "{last}");
    });
}

/// An alternative name refers to the same interface, whose entries in /proc are still found.
#[test]
fn an_alternative_name_is_of_the_same_interface() {
    root();
    let net = Net::new();
    forward(&net);
    let Net {
        receiver, iface, ..
    } = &net;
    must(&format!(
        "ip -n {receiver} link property add dev {iface} altname uplink"
    ));
    let attached = Attached::start(net.in_receiver(ACKWISE.path()), "up", &["up", "uplink"]);
    assert_eq!(attached.started["facts"]["forwards"]["v4"], true);
    assert_eq!(attached.started["plan"]["role"], "router");
    let Ended { out, err, .. } = net.run(&["status", "uplink"]);
    assert!(out.starts_with(&format!("{iface}: ")), "{out}{err}");
    assert!(down(&net).contains("ended"));
    ends_well(attached);
}

/// An ifb takes what the kernel redirects to it, and drops what a process sends: a held ACK, or
/// everything that a gateway shapes, would be lost.
#[test]
fn a_device_by_which_nothing_can_be_sent_is_refused() {
    in_virtual_time(|| {
        let net = Net::new();
        must(&format!("ip -n {} link add ifb7 type ifb", net.receiver));
        for args in [
            "up ifb7 --duration 1s",
            "up ifb7 --explain",
            "up ifb7 --up 5mbit --queue gateway --duration 1s",
            "attach ifb7 --duration 1s",
            "gateway up ifb7 --rate 5mbit --duration 1s",
        ] {
            let args = format!("--format json {args}");
            let Ended { code, out, err } = net.run(&args.split(' ').collect::<Vec<_>>());
            assert_eq!(code, 2, "{args}: {out}{err}");
            assert!(err.contains("ifb7 is an ifb device"), "{args}: {err}");
        }
    });
}

/// The lock file of an `ackwise up` on the receiver's interface.
fn lock_file(net: &Net) -> PathBuf {
    let Net {
        receiver, iface, ..
    } = net;
    let netns = std::fs::metadata(Path::new("/run/netns").join(receiver)).unwrap();
    let shown = must(&format!("ip -n {receiver} -o link show {iface}"));
    let index = shown.split(':').next().unwrap();
    Path::new("/run/ackwise").join(format!("up-{}-{index}.lock", netns.ino()))
}

/// Whether a process holds the lock of this file.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    // SAFETY: a valid descriptor. The lock is free again when `file` is dropped.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) != 0 }
}

/// Starts `ackwise up`, runs `ackwise down` with these arguments once it has its claim, and expects
/// that it is ended.
fn end_while_it_starts(net: &Net, arguments: &[&str]) {
    let file = lock_file(net);
    let mut child = net
        .in_receiver(ACKWISE.path())
        .args(["up", &net.iface])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("its claim", || is_locked(&file).then_some(()));
    let Ended { code, out, err } = net.run(&[&["down"], arguments].concat());
    let status = until("its end", || child.try_wait().unwrap());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("ended"), "{out}");
    assert_eq!(status.code(), Some(0));
    assert_eq!(net.programs(), 0);
    assert!(!file.exists());
}

/// A slow machine takes seconds to load the programs; `down` must not deny that one is starting.
#[test]
fn one_that_starts_is_waited_for_and_ended() {
    root();
    let net = Net::new();
    end_while_it_starts(&net, &[&net.iface]);
    end_while_it_starts(&net, &[]);
}

/// Until the next one is attached, the record of the killed one stays. It must not be taken for a
/// process that runs and then has ended.
#[test]
fn one_that_starts_after_a_killed_one_is_waited_for_and_ended() {
    root();
    let net = Net::new();
    let file = lock_file(&net);
    let name = file.file_stem().unwrap().to_str().unwrap();
    let numbers: Vec<u64> = name
        .split('-')
        .filter_map(|part| part.parse().ok())
        .collect();
    let [netns, index] = numbers[..] else {
        panic!("{name}");
    };
    // No process has this number: it is greater than any.
    let record = json!({
        "pid": 1 << 30,
        "interface": net.iface,
        "index": index,
        "netns": netns,
        "gateway": false,
        "replaced": { "index": index, "found": null },
    });
    let mut directory = std::fs::DirBuilder::new();
    let directory = directory.recursive(true).mode(0o700);
    directory.create(file.parent().unwrap()).unwrap();
    for arguments in [&[net.iface.as_str()][..], &[]] {
        std::fs::write(&file, record.to_string()).unwrap();
        end_while_it_starts(&net, arguments);
    }
}

/// This takes longer than any other answer may: the machine is busy, or the process was frozen.
#[test]
fn one_that_ends_late_is_waited_for() {
    root();
    let net = Net::new();
    let attached = up(&net, &[]);
    attached.signal(Signal::SIGSTOP);
    thread::scope(|scope| {
        let down = scope.spawn(|| net.run(&["down", &net.iface]));
        thread::sleep(Duration::from_secs(6));
        attached.signal(Signal::SIGCONT);
        let Ended { code, out, err } = down.join().unwrap();
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("ended"), "{out}");
    });
    ends_well(attached);
}

/// clsact filters outlive their process, and let every packet pass. `down` removes them.
#[test]
fn filters_of_a_killed_one_go_by_down() {
    root();
    for arguments in [
        &[][..],
        &["--up", "20mbit", "--router", "--queue", "gateway"],
    ] {
        let net = Net::new();
        let attached = up(&net, &[&["--attach-mode", "clsact"], arguments].concat());
        // Those of a running process are not left over.
        let Ended { code, out, err } = net.run(&["status"]);
        assert_eq!(code, 0, "{err}");
        assert!(!out.contains("has left"), "{out}");
        attached.signal(Signal::SIGKILL);
        let _ = attached.end();
        assert!(net.programs() > 0, "the test sees no programs");
        // `status` shows them, and says what removes them.
        let remedy = format!("`ackwise down {}`", net.iface);
        // A process that cleans up may still hold the entry.
        until("the filters are shown", || {
            net.run(&["status"]).out.contains(&remedy).then_some(())
        });
        let Ended { code, err, .. } = net.run(&["status", &net.iface]);
        assert!(code == 1 && err.contains(&remedy), "{err}");
        let Ended { out, .. } = net.run(&["--format", "json", "status"]);
        let shown: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(shown["left_filters"], serde_json::json!([net.iface]));
        let Ended { code, out, err } = net.run(&["down", &net.iface]);
        assert_eq!(code, 0, "{err}");
        assert!(out.starts_with(&net.iface), "{out}");
        assert_eq!(net.programs(), 0, "something is still attached");
        let Ended { out, .. } = net.run(&["status"]);
        assert!(!out.contains(&remedy), "{out}");
        let Ended { code, err, .. } = net.run(&["down", &net.iface]);
        assert_eq!(code, 1, "{err}");
    }
}

/// The kernel accepts any characters in a name.
#[test]
fn a_name_beyond_ascii_is_attached_to_and_ended() {
    root();
    let net = Net::new();
    let Net {
        receiver, iface, ..
    } = &net;
    // Two bytes each. The name of sqm-scripts' device is cut within the last character.
    let name = "\u{e4}\u{f6}\u{fc}\u{df}\u{e9}\u{f1}";
    must(&format!("ip -n {receiver} link set {iface} down"));
    must(&format!("ip -n {receiver} link set {iface} name {name}"));
    must(&format!("ip -n {receiver} link set {name} up"));
    let ackwise = || net.in_receiver(ACKWISE.path());
    let attached = Attached::start(ackwise(), "up", &["up", name]);
    let Ended { out, err, .. } = net.run(&["status", name]);
    assert!(out.starts_with(&format!("{name}: ")), "{out}{err}");
    let Ended { code, out, err } = net.run(&["down", name]);
    assert_eq!(code, 0, "{err}");
    assert!(out.starts_with(&format!("{name}: ended")), "{out}");
    ends_well(attached);
}

#[test]
fn it_attaches_and_ends_as_often_as_it_is_told_to() {
    root();
    let net = Net::new();
    add_default_route(&net);
    let before = tc(&net);
    let attached = up(&net, &[]);
    assert_eq!(attached.started["plan"]["role"], "receiver");
    assert_eq!(attached.started["plan"]["queue"], "keep");
    assert_eq!(attached.started["facts"]["default_route"]["v4"], true);
    assert!(net.programs() >= 2, "nothing is attached");
    let bytes = content(8_000_000);
    assert!(
        transfer(&net, bytes.clone()) == bytes,
        "other bytes arrived"
    );
    attached.signal(Signal::SIGINT);
    let last = ends_well(attached);
    assert!(last["stats"]["acks"].as_u64().unwrap() > 0, "{last}");
    assert_eq!(net.programs(), 0, "something is still attached");
    assert_eq!(tc(&net), before);
    // It is told that there is nothing to end, and a second one finds no obstacle.
    let Ended { code, err, .. } = net.run(&["down", &net.iface]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("no `ackwise up`"), "{err}");
    let again = up(&net, &[]);
    assert!(down(&net).contains("ended"));
    assert_eq!(ends_well(again)["why"], "ackwise down");
    assert_eq!(tc(&net), before);
}

#[test]
fn a_person_reads_three_lines() {
    root();
    let net = Net::new();
    forward(&net);
    let Ended { code, out, err } = net.run(&["up", &net.iface, "--duration", "100ms"]);
    assert_eq!(code, 0, "{err}");
    let lines: Vec<_> = out.lines().collect();
    for (line, begins) in lines
        .iter()
        .zip([&*net.iface, "why: this box forwards", "undo: Ctrl-C"])
    {
        assert!(line.starts_with(begins), "{line:?}");
    }
    assert!(lines[1].contains("--up RATE"), "{out}");
    assert!(lines[3].contains("has ended (the time is over)"), "{out}");
}

#[test]
fn somebody_s_shaper_stays_as_it_is() {
    root();
    let net = Net::new();
    forward(&net);
    set_root(&net, SHAPER);
    let before = tc(&net);
    let attached = up(&net, &["--up", "4mbit"]);
    assert_eq!(attached.started["facts"]["queue"]["owner"], "somebody");
    assert_eq!(tc(&net), before);
    assert!(net.programs() >= 2, "nothing is attached");
    attached.signal(Signal::SIGTERM);
    let ended = attached.end();
    assert!(ended.status.success(), "{}", ended.err);
    assert!(ended.err.contains("--up is not used"), "{}", ended.err);
    assert_eq!(tc(&net), before);
    let Ended { code, err, .. } = net.run(&["up", &net.iface, "--up", "4mbit", "--queue", "cake"]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("tbf 43:") && err.contains("tc qdisc del"),
        "{err}"
    );
}

#[test]
fn the_gateway_s_queue_goes_as_well() {
    root();
    let net = Net::new();
    forward(&net);
    let before = tc(&net);
    let args = ["--up", "20mbit", "--queue", "gateway"];
    for signal in [Some(Signal::SIGTERM), Some(Signal::SIGKILL), None] {
        let attached = up(&net, &args);
        assert_eq!(attached.started["plan"]["thins"], false);
        let Ended { code, err, .. } = net.run(&["gateway", "status", &net.iface]);
        assert_eq!(code, 0, "{err}");
        let bytes = content(2_000_000);
        assert!(
            transfer(&net, bytes.clone()) == bytes,
            "other bytes arrived"
        );
        match signal {
            Some(signal) => attached.signal(signal),
            None => assert!(down(&net).contains("ended")),
        }
        let ended = attached.end();
        assert_eq!(
            ended.status.code(),
            (signal != Some(Signal::SIGKILL)).then_some(0)
        );
        until("its end", || (net.programs() == 0).then_some(()));
        assert_eq!(tc(&net), before);
    }
}

#[test]
fn an_explanation_takes_no_root_and_touches_nothing() {
    root();
    let net = Net::new();
    forward(&net);
    let before = tc(&net);
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("ackwise");
    std::fs::set_permissions(
        directory.path(),
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    ACKWISE.install(&program);
    let out = net
        .in_receiver("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["up", &net.iface, "--explain", "--up", "5mbit"])
        .output()
        .unwrap();
    let Ended { code, out, err } = Ended::of(&out);
    assert_eq!(code, 0, "{err}");
    for output in [
        "here (IPv4)",
        "IPv4 yes",
        "noqueue 0:",
        "decision",
        "without root",
    ] {
        assert!(out.contains(output), "no {output:?} in {out}");
    }
    let Ended { code, out, err } = net.run(&["--format", "json", "up", &net.iface, "--explain"]);
    assert_eq!(code, 0, "{err}");
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(shown["facts"]["forwards"]["v4"], true, "{out}");
    assert_eq!(shown["decision"]["plan"]["role"], "router", "{out}");
    assert_eq!(tc(&net), before);
    assert_eq!(net.programs(), 0);
    // A running attachment is reported, too.
    let attached = net.attach(&[]);
    let Ended { code, out, err } = net.run(&["up", &net.iface, "--explain"]);
    assert_eq!(code, 1, "{err}");
    assert!(out.contains(&attached.pid().to_string()), "{out}");
    assert!(out.contains("nothing: ackwise is already running"), "{out}");
    assert!(err.contains("ackwise detach"), "{err}");
}

/// What `up` would refuse for its user and its metrics, `--explain` refuses in the same words.
#[test]
fn explaining_finds_a_user_and_an_address_that_cannot_be() {
    root();
    let net = Net::new();
    add_default_route(&net);
    let up = |more: &[&str]| net.run(&[&["up", &net.iface], more].concat());
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let text = format!(
        "[[interface]]\nname = \"{}\"\nmetrics = \"192.0.2.9:9100\"\n",
        net.iface
    );
    std::fs::write(path, text).unwrap();
    for (arguments, says) in [
        (&["--user", "no-such-user"][..], "no-such-user"),
        (&["--metrics", "192.0.2.9:9100"], "cannot listen there"),
        (
            &["--config", path],
            ":3:11: 'metrics': cannot listen on 192.0.2.9",
        ),
    ] {
        let really = up(arguments);
        assert_eq!(really.code, 2, "{}", really.err);
        assert!(really.err.contains(says), "{}", really.err);
        let Ended { code, out, err } = up(&[arguments, &["--explain"]].concat());
        assert_eq!((code, &err), (2, &really.err));
        assert!(out.contains("decision"), "{out}");
        assert!(out.contains("nothing: "), "{out}");
    }
    // The port may be that of the ackwise that runs now.
    let taken = Netns::named(&net.receiver).run(|| TcpListener::bind("127.0.0.1:0").unwrap());
    let address = taken.local_addr().unwrap().to_string();
    assert_eq!(up(&["--metrics", &address]).code, 2);
    let Ended { code, err, .. } = up(&["--metrics", &address, "--user", "root", "--explain"]);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn what_cannot_be_is_refused() {
    root();
    let net = Net::new();
    forward(&net);
    must(&format!(
        "ip -n {} link add aw-lan type veth peer name aw-lan2",
        net.receiver
    ));
    let run = |args: &[&str]| net.run(&[&["up"], args].concat());
    for (args, says) in [
        (&["nosuch0"][..], "ip link"),
        (&["nosuch0", "--explain"], "ip link"),
        (&["aw-lan", "--up", "5mbit"], &net.iface),
        (&[&net.iface, "--up", "5"], "unit"),
        (&[&net.iface, "--queue", "cake"], "--up"),
        (&[&net.iface, "--up", "5mbit", "--queue", "htb"], "gateway"),
    ] {
        if args[0] == "aw-lan" {
            must(&format!(
                "ip netns exec {} sysctl -q -w net.ipv4.conf.aw-lan.forwarding=1",
                net.receiver
            ));
        }
        let Ended { code, out, err } = run(args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
    // A route may appear later, so this is not bad input.
    must(&format!("ip -n {} route del default", net.receiver));
    let Ended { code, err, .. } = run(&[&net.iface, "--up", "5mbit"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("--router"), "{err}");
    let Ended { code, err, .. } = net.run(&["down", "nosuch0"]);
    assert_eq!(code, 2, "{err}");
    let Ended { code, out, .. } = net.run(&["down"]);
    assert_eq!((code, out.lines().count()), (0, 1), "{out}");
}

/// Creates a router with a root queue, and returns what tc shows of it.
fn router_with(root: Option<&str>) -> (Net, String) {
    let net = Net::new();
    forward(&net);
    if let Some(root) = root {
        set_root(&net, root);
    }
    let before = tc(&net);
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
        Err(_) => assert!(down(net).contains("again")),
    }
    let killed = ending == "SIGKILL";
    let Detached { status, err, .. } = attached.end();
    assert_eq!(status.code(), (!killed).then_some(0), "{ending}: {err}");
    if killed {
        // Another process cleans up.
        until("the queue", || (!is_cake(&tc(net))).then_some(()));
        until("the programs", || (net.programs() == 0).then_some(()));
    }
    assert_eq!(tc(net), before, "{ending}");
    assert_eq!(net.programs(), 0, "{ending}");
    let Ended { code, .. } = net.run(&["down", &net.iface]);
    assert_eq!(code, 1, "{ending}: something is left");
}

#[test]
fn cake_takes_the_place_of_a_queue_and_gives_it_back() {
    in_virtual_time(|| {
        let (net, before) = router_with(Some(SOMEBODYS));
        for ending in ["SIGINT", "SIGTERM", "SIGKILL", "down"] {
            let attached = up(&net, &["--up", "5mbit"]);
            assert!(is_cake(&tc(&net)), "{}", tc(&net));
            end_and_check(&net, attached, ending, &before);
        }
    });
}

#[test]
fn somebody_s_rate_for_our_cake_is_warned_of_and_ends_with_it() {
    in_virtual_time(|| {
        let (net, before) = router_with(Some(SOMEBODYS));
        let mut attached = up(&net, &["--up", "5mbit"]);
        let Net {
            receiver, iface, ..
        } = &net;
        must(&format!(
            "tc -n {receiver} qdisc replace dev {iface} root cake bandwidth 9mbit"
        ));
        let event = attached.next_event();
        assert_eq!(event["event"], "rate-changed", "{event}");
        assert_eq!(event["rate_bps"], 9_000_000, "{event}");
        assert!(down(&net).contains("again"));
        let ended = attached.end();
        assert!(
            ended
                .err
                .contains("set the rate of ackwise's cake to 9.000 Mbit/s")
        );
        assert_eq!(tc(&net), before);
    });
}

#[test]
fn cake_takes_the_place_of_the_kernel_s_own_queue_and_carries_traffic() {
    in_virtual_time(|| {
        let (net, before) = router_with(None);
        let attached = up(&net, &["--up", "5mbit"]);
        assert_eq!(attached.started["facts"]["queue"]["owner"], "kernel");
        assert!(is_cake(&tc(&net)), "{}", tc(&net));
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
            let attached = up(&net, &["--up", "5mbit"]);
            let guard = guard_of(attached.pid()).expect("a guard");
            kill(guard, Signal::SIGKILL).unwrap();
            attached.signal(Signal::SIGKILL);
            drop(attached.end());
            assert!(is_cake(&tc(&net)), "{}", tc(&net));
            let explained = net.run(&["up", &net.iface, "--explain"]).out;
            let foreseen = ["the queue stays: fq_codel", "killed `ackwise up`"];
            assert!(
                foreseen.iter().all(|it| explained.contains(it)),
                "{explained}"
            );
            if by_down {
                assert!(down(&net).contains("its queue is fq_codel again"));
            } else {
                let next = up(&net, &[]);
                assert_eq!(next.started["facts"]["queue"]["owner"], "somebody-plain");
                assert_eq!(tc(&net), before);
                next.signal(Signal::SIGTERM);
                ends_well(next);
            }
            assert_eq!(tc(&net), before);
            assert_eq!(net.programs(), 0);
        }
        // Without its guard it ends with an error that says how to continue.
        let attached = up(&net, &["--up", "5mbit"]);
        kill(guard_of(attached.pid()).expect("a guard"), Signal::SIGKILL).unwrap();
        attached.signal(Signal::SIGTERM);
        let Detached { status, err, .. } = attached.end();
        assert_eq!(status.code(), Some(1));
        assert!(
            err.contains(&format!("ackwise down {}", net.iface)),
            "{err}"
        );
        down(&net);
        assert_eq!(tc(&net), before);
    });
}

#[test]
fn what_somebody_changes_meanwhile_stays() {
    in_virtual_time(|| {
        for by_down in [false, true] {
            let (net, _) = router_with(None);
            let mut attached = up(&net, &["--up", "5mbit"]);
            set_root(&net, SHAPER);
            let theirs = tc(&net);
            let event = attached.next_event();
            assert_eq!(
                (&event["event"], &event["now"]),
                (&json!("queue-replaced"), &json!("tbf"))
            );
            if by_down {
                let output = down(&net);
                assert!(
                    output.contains("someone else has set its queue, tbf"),
                    "{output}"
                );
            } else {
                attached.signal(Signal::SIGTERM);
            }
            ends_well(attached);
            assert_eq!(tc(&net), theirs);
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
        let mut attached = up(&net, &["--up", "50mbit"]);
        set_root(&net, "handle 43: tbf rate 1mbit burst 3000 limit 100000");
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
        ends_well(attached);
    });
}

#[test]
fn a_deleted_interface_leaves_nothing_behind() {
    in_virtual_time(|| {
        let (net, _) = router_with(None);
        let attached = up(&net, &["--up", "5mbit"]);
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
    assert_eq!(tc(net), before, "{args:?}: {err}");
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
