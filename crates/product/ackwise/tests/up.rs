//! `ackwise up` and `ackwise down`: their effect on an interface, and that nothing is left.
//!
//! With cake: `up_cake.rs`; with `--explain`: `up_explain.rs`.

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use ackwise_testbed::in_virtual_time;
use ackwise_testbed::program::{Ended, must, root, until};
use common::{ACKWISE, Attached, Net, SHAPER, content, transfer};
use nix::libc;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

#[test]
fn a_host_that_receives_saves_acks_and_gets_every_byte() {
    in_virtual_time(|| {
        let net = Net::new();
        net.add_default_route();
        let Net { sender, iface, .. } = &net;
        must(&format!(
            "tc -n {sender} qdisc add dev {iface} root netem delay 40ms rate 20mbit limit 200"
        ));
        let attached = net.up(&[]);
        let bytes = content(8_000_000);
        assert!(
            transfer(&net, bytes.clone()) == bytes,
            "other bytes arrived"
        );
        attached.signal(Signal::SIGTERM);
        let last = attached.end_well();
        let count = |key: &str| last["stats"][key].as_u64().unwrap();
        assert!(count("packets_saved") > count("acks") / 4, "{last}");
    });
}

/// An alternative name refers to the same interface, whose entries in /proc are still found.
#[test]
fn an_alternative_name_is_of_the_same_interface() {
    root();
    let net = Net::new();
    net.forward();
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
    assert!(net.down().contains("ended"));
    attached.end_well();
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
    let attached = net.up(&[]);
    attached.signal(Signal::SIGSTOP);
    thread::scope(|scope| {
        let down = scope.spawn(|| net.run(&["down", &net.iface]));
        thread::sleep(Duration::from_secs(6));
        attached.signal(Signal::SIGCONT);
        let Ended { code, out, err } = down.join().unwrap();
        assert_eq!(code, 0, "{err}");
        assert!(out.contains("ended"), "{out}");
    });
    attached.end_well();
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
        let attached = net.up(&[&["--attach-mode", "clsact"], arguments].concat());
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
    attached.end_well();
}

#[test]
fn it_attaches_and_ends_as_often_as_it_is_told_to() {
    root();
    let net = Net::new();
    net.add_default_route();
    let before = net.queues();
    let attached = net.up(&[]);
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
    let last = attached.end_well();
    assert!(last["stats"]["acks"].as_u64().unwrap() > 0, "{last}");
    assert_eq!(net.programs(), 0, "something is still attached");
    assert_eq!(net.queues(), before);
    // It is told that there is nothing to end, and a second one finds no obstacle.
    let Ended { code, err, .. } = net.run(&["down", &net.iface]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("no `ackwise up`"), "{err}");
    let again = net.up(&[]);
    assert!(net.down().contains("ended"));
    assert_eq!(again.end_well()["why"], "ackwise down");
    assert_eq!(net.queues(), before);
}

#[test]
fn a_person_reads_three_lines() {
    root();
    let net = Net::new();
    net.forward();
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
    net.forward();
    net.set_root_queue(SHAPER);
    let before = net.queues();
    let attached = net.up(&["--up", "4mbit"]);
    assert_eq!(attached.started["facts"]["queue"]["owner"], "somebody");
    assert_eq!(net.queues(), before);
    assert!(net.programs() >= 2, "nothing is attached");
    attached.signal(Signal::SIGTERM);
    let ended = attached.end();
    assert!(ended.status.success(), "{}", ended.err);
    assert!(ended.err.contains("--up is not used"), "{}", ended.err);
    assert_eq!(net.queues(), before);
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
    net.forward();
    let before = net.queues();
    let args = ["--up", "20mbit", "--queue", "gateway"];
    for signal in [Some(Signal::SIGTERM), Some(Signal::SIGKILL), None] {
        let attached = net.up(&args);
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
            None => assert!(net.down().contains("ended")),
        }
        let ended = attached.end();
        assert_eq!(
            ended.status.code(),
            (signal != Some(Signal::SIGKILL)).then_some(0)
        );
        until("its end", || (net.programs() == 0).then_some(()));
        assert_eq!(net.queues(), before);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    root();
    let net = Net::new();
    net.forward();
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
