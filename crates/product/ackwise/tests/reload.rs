//! `ackwise reload` and SIGHUP: changed parameters while traffic runs, and what stays.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use ackwise_testbed::program::{Ended, must, root, until};
use ackwise_testbed::{Netns, here_and_in_virtual_time, in_virtual_time};
use common::{ACKWISE, Attached, Detached, Net};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A configuration that is written again and again.
struct File {
    directory: tempfile::TempDir,
}

impl File {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = Self { directory };
        file.write(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("ackwise.toml")
    }

    fn name(&self) -> String {
        self.path().to_str().unwrap().to_owned()
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path(), text).unwrap();
    }
}

fn one(interface: &str, more: &str) -> String {
    format!("[[interface]]\nname = \"{interface}\"\n{more}\n")
}

fn stats(net: &Net) -> Value {
    let Ended { code, out, err } = net.run(&["--format", "json", "status", &net.iface]);
    assert_eq!(code, 0, "{err}");
    let status: Value = serde_json::from_str(&out).unwrap();
    let found = find(&status, "acks_withheld")
        .or(find(&status, "withheld"))
        .cloned();
    assert!(found.is_some(), "{status}");
    find_object(&status, "withheld").unwrap().clone()
}

fn find<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(all) => all
            .get(key)
            .or_else(|| all.values().find_map(|value| find(value, key))),
        Value::Array(all) => all.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}

fn find_object<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(all) if all.contains_key(key) => Some(value),
        Value::Object(all) => all.values().find_map(|value| find_object(value, key)),
        Value::Array(all) => all.iter().find_map(|value| find_object(value, key)),
        _ => None,
    }
}

/// The attachments and the programs, by the kernel's ids.
fn attachments(net: &Net, pid: Pid, mode: &str) -> (Vec<String>, Vec<String>) {
    let (mut attachment_ids, mut programs) = (Vec::new(), Vec::new());
    if mode == "tcx" {
        let infos = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap();
        for info in infos.flatten() {
            let Ok(info) = std::fs::read_to_string(info.path()) else {
                continue;
            };
            let field = |name| info.lines().find_map(|line| line.strip_prefix(name));
            if field("link_type:").map(str::trim) == Some("tcx") {
                attachment_ids.push(field("link_id:").unwrap().trim().to_owned());
                programs.push(field("prog_id:").unwrap().trim().to_owned());
            }
        }
    } else {
        for direction in ["ingress", "egress"] {
            let Net {
                receiver, iface, ..
            } = net;
            let shown = must(&format!(
                "tc -n {receiver} filter show dev {iface} {direction}"
            ));
            let line = shown.lines().find(|line| line.contains("handle")).unwrap();
            let words: Vec<_> = line.split_whitespace().collect();
            let after = |word| words[words.iter().position(|it| *it == word).unwrap() + 1];
            attachment_ids.push(format!("{direction} {} {}", after("pref"), after("handle")));
            programs.push(after("id").to_owned());
        }
    }
    assert_eq!((attachment_ids.len(), programs.len()), (2, 2), "{mode}");
    attachment_ids.sort();
    programs.sort();
    (attachment_ids, programs)
}

/// A connection whose sender retransmits only after a long time: an ACK that is withheld and never
/// sent would stall it, and then shows as a retransmission.
struct Transfer {
    stream: TcpStream,
    reader: std::thread::JoinHandle<Vec<u8>>,
    sent: Vec<u8>,
}

impl Transfer {
    fn new(net: &Net) -> Self {
        let Net { sender, iface, .. } = net;
        must(&format!(
            "ip -n {sender} route change 10.9.0.0/24 dev {iface} src 10.9.0.1 rto_min 20s"
        ));
        must(&format!(
            "ip netns exec {sender} sysctl -q -w net.ipv4.tcp_early_retrans=0"
        ));
        must(&format!(
            "tc -n {sender} qdisc add dev {iface} root tbf rate 50mbit burst 3100 limit 400000"
        ));
        let listener =
            Netns::named(&net.receiver).run(|| TcpListener::bind("10.9.0.2:5556").unwrap());
        let reader = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all
        });
        let stream = Netns::named(sender).run(|| TcpStream::connect("10.9.0.2:5556").unwrap());
        Self {
            stream,
            reader,
            sent: Vec::new(),
        }
    }

    /// Sends this many bytes, and waits until all are acknowledged.
    fn send(&mut self, length: usize) {
        let from = self.sent.len() as u64;
        let bytes: Vec<u8> = (0..length as u64 / 8)
            .flat_map(|n| (from + n).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
            .collect();
        self.stream.write_all(&bytes).unwrap();
        self.sent.extend(bytes);
        until("everything is acknowledged", || {
            let mut left: nix::libc::c_int = -1;
            // SAFETY: SIOCOUTQ writes one int.
            let done = unsafe {
                nix::libc::ioctl(self.stream.as_raw_fd(), nix::libc::TIOCOUTQ, &raw mut left)
            };
            assert_eq!(done, 0);
            (left == 0).then_some(())
        });
    }

    fn retransmissions(&self) -> u32 {
        // struct tcp_info, include/uapi/linux/tcp.h: tcpi_total_retrans.
        let mut info = [0_u8; 104];
        let mut length = info.len() as nix::libc::socklen_t;
        // SAFETY: `length` writable bytes.
        let done = unsafe {
            nix::libc::getsockopt(
                self.stream.as_raw_fd(),
                nix::libc::IPPROTO_TCP,
                nix::libc::TCP_INFO,
                info.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!(done, 0);
        u32::from_ne_bytes(info[100..104].try_into().unwrap())
    }

    fn end(self) {
        assert_eq!(self.retransmissions(), 0, "an ACK was lost");
        drop(self.stream);
        assert!(
            self.reader.join().unwrap() == self.sent,
            "other bytes arrived"
        );
    }
}

fn count(stats: &Value, key: &str) -> u64 {
    stats[key]
        .as_u64()
        .unwrap_or_else(|| panic!("{key}: {stats}"))
}

/// With one ACK per segment nothing is withheld.
fn parameters_change_while_a_transfer_runs(mode: &str) {
    let net = Net::new();
    let policy = |n: u32| {
        one(
            &net.iface,
            &format!("policy = \"every-n:n={n},warm=0\"\nguard = false"),
        )
    };
    let file = File::new(&policy(8));
    let up = net.start(
        "up",
        "up",
        &["--config", &file.name(), "--attach-mode", mode],
    );
    let (attachment_ids, first) = attachments(&net, up.pid(), mode);
    let mut transfer = Transfer::new(&net);
    let mut withheld = 0;
    let mut last = first;
    for (round, n) in [8, 1, 16, 1, 8].into_iter().enumerate() {
        if round > 0 {
            file.write(&policy(n));
            // Traffic continues while the programs are replaced.
            let reload = net
                .in_receiver(ACKWISE.path())
                .args(["reload", &net.iface])
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn();
            let mut reload = reload.unwrap();
            while reload.try_wait().unwrap().is_none() {
                transfer.send(40_000);
            }
            let Ended { code, out, err } = Ended::of(&reload.wait_with_output().unwrap());
            assert_eq!(code, 0, "{out}{err}");
            let says = format!("{}: policy every-n:n={n},warm=0", net.iface);
            assert!(out.contains(&says), "{out}");
            let (same, programs) = attachments(&net, up.pid(), mode);
            assert_eq!(same, attachment_ids, "the attachment is another one");
            assert!(programs.iter().all(|it| !last.contains(it)), "{programs:?}");
            last = programs;
            withheld = count(&stats(&net), "withheld");
        }
        assert_eq!(stats(&net)["policy"], format!("every-n:n={n},warm=0"));
        // A daemon that was kept off the CPU, or that paused, holds again within a heartbeat.
        std::thread::sleep(Duration::from_millis(300));
        let mut more = || {
            transfer.send(400_000);
            count(&stats(&net), "withheld") - withheld
        };
        if n == 1 {
            assert_eq!(more(), 0);
        } else {
            until("withheld ACKs", || (more() > 0).then_some(()));
        }
    }

    // A mistake anywhere changes nothing.
    let other = "[[interface]]\nname = \"other0\"\npolicy = \"every-n:n=999\"\n";
    file.write(&format!("{}{other}", policy(4)));
    let Ended { code, err, .. } = net.run(&["reload"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("ackwise.toml:7:10: "), "{err}");
    assert_eq!(stats(&net)["policy"], "every-n:n=8,warm=0");
    assert_eq!(attachments(&net, up.pid(), mode), (attachment_ids, last));
    transfer.send(400_000);

    let now = stats(&net);
    assert_eq!(count(&now, "flows_created"), 1, "its state is lost: {now}");
    assert_eq!(count(&now["release"], "lost"), 0, "{now}");
    transfer.end();
    up.signal(Signal::SIGTERM);
    let Detached { status, err, .. } = up.end();
    assert_eq!(status.code(), Some(0), "{err}");
    assert_eq!(net.programs(), 0);
}

#[test]
fn parameters_change_in_place_by_tcx() {
    root();
    // The machine has one CPU there.
    here_and_in_virtual_time(|| parameters_change_while_a_transfer_runs("tcx"));
}

#[test]
fn parameters_change_in_place_by_clsact() {
    root();
    parameters_change_while_a_transfer_runs("clsact");
}

/// The next line that reports a reload.
fn reloaded(up: &mut Attached) -> Value {
    let event = up.next_event();
    assert!(
        event["event"].as_str().unwrap().ends_with("reloaded"),
        "{event}"
    );
    event
}

#[test]
fn a_signal_has_the_file_read_and_what_takes_another_process_is_said() {
    root();
    let net = Net::new();
    let file = File::new(&one(&net.iface, "policy = \"every-n:n=4\""));
    let mut up = net.start("up", "up", &["--config", &file.name()]);
    up.signal(Signal::SIGHUP);
    let event = reloaded(&mut up);
    assert_eq!(event["changed"], serde_json::json!([]), "{event}");

    file.write(&one(
        &net.iface,
        "policy = \"every-n:n=6\"\nguard = \"7 min\"",
    ));
    up.signal(Signal::SIGHUP);
    let event = reloaded(&mut up);
    let changed = event["changed"].to_string();
    assert!(
        changed.contains("every-n:n=6") && changed.contains("420s"),
        "{event}"
    );

    file.write(&one(&net.iface, "policy = every-n"));
    up.signal(Signal::SIGHUP);
    let event = reloaded(&mut up);
    assert_eq!(event["event"], "not-reloaded");
    assert!(event["why"].as_str().unwrap().contains(":3:10"), "{event}");

    file.write(&one(
        &net.iface,
        "policy = \"tack\"\nmax_flows = 1000\nmetrics = \"127.0.0.1:0\"\nguard = false",
    ));
    let Ended { code, out, err } = net.run(&["reload", &net.iface]);
    assert_eq!(code, 1, "{err}");
    assert!(
        out.contains("no guard; not changed: policy, max_flows, metrics"),
        "{out}"
    );
    assert!(err.contains("ackwise down"), "{err}");
    assert_eq!(stats(&net)["policy"], "every-n:n=6,warm=16");
    let Ended { code, err, .. } = net.run(&["reload", "lo"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("no `ackwise up` is running on lo"), "{err}");
    let Ended { code, err, .. } = net.run(&["reload", "nothere0"]);
    assert_eq!(code, 2, "{err}");
    up.signal(Signal::SIGTERM);
    let Detached { status, err, .. } = up.end();
    assert_eq!(status.code(), Some(0), "{err}");
    // The process that loads programs does not outlive it.
    assert_eq!(net.programs(), 0);
}

/// A process and the lines that it prints.
struct All {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl All {
    /// Starts it; returns when both interfaces of the file are up.
    fn start(net: &Net, file: &File) -> Self {
        let mut child = net
            .in_receiver(ACKWISE.path())
            .args(["--format", "json", "up", "--all", "--config", &file.name()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut all = Self { child, lines };
        for _ in 0..2 {
            assert_eq!(all.next()["event"], "up");
        }
        all
    }

    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }
}

impl Drop for All {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Adds an interface to the receiver. `ackwise status` shows those of all namespaces, so each test
/// uses its own name.
fn add_interface(net: &Net, name: &str) {
    let Net {
        sender, receiver, ..
    } = net;
    must(&format!(
        "ip link add {name} netns {receiver} type veth peer name {name} netns {sender}"
    ));
    must(&format!("ip -n {receiver} link set {name} up"));
}

#[test]
fn interfaces_come_and_go_with_the_file() {
    root();
    let net = Net::new();
    add_interface(&net, "aw7");
    let first = one(&net.iface, "policy = \"every-n:n=4\"\nguard = false");
    let file = File::new(&format!("{first}{}", one("lo", "")));
    let mut all = All::start(&net, &file);
    let at_work = || {
        let Ended { code, out, err } = net.run(&["--format", "json", "status"]);
        assert_eq!(code, 0, "{err}");
        ["lo", "aw7", &net.iface].map(|name| out.contains(&format!("\"{name}\"")))
    };
    // Reload answers once all are up.
    let reload = || {
        until("an answer", || {
            let ended = net.run(&["--format", "json", "reload"]);
            (!ended.err.contains("starting")).then_some(ended)
        })
    };
    let Ended { code, out, err } = reload();
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(at_work(), [true, false, true]);
    let pid = |name: &str| {
        let Ended { out, .. } = net.run(&["--format", "json", "status", name]);
        let status: Value = serde_json::from_str(&out).unwrap();
        find(&status, "pid").unwrap().as_u64().unwrap()
    };
    let before = pid(&net.iface);

    let second = one(&net.iface, "policy = \"every-n:n=5\"\nguard = false");
    file.write(&format!("{second}{}", one("aw7", "")));
    let Ended { code, out, err } = reload();
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(at_work(), [false, true, true]);
    assert_eq!(pid(&net.iface), before, "it was started anew: {out}");
    assert_eq!(stats(&net)["policy"], "every-n:n=5,warm=16");

    // A change that needs another process gets one.
    let third = one(&net.iface, "policy = \"tack\"\nguard = false");
    file.write(&format!("{third}{}", one("aw7", "")));
    let Ended { code, out, err } = reload();
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("started again: policy"), "{out}");
    assert_ne!(pid(&net.iface), before);
    assert!(stats(&net)["policy"].as_str().unwrap().starts_with("tack"));

    file.write("nonsense = 1\n");
    let Ended { code, err, .. } = reload();
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("ackwise.toml:1:1: "), "{err}");
    file.write("");
    let Ended { code, err, .. } = reload();
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("describes no interface"), "{err}");
    assert_eq!(at_work(), [false, true, true]);

    // An interface that does not come up is reported, and does not affect the others.
    file.write(&format!("{third}{}", one("nothere0", "")));
    let Ended { code, out, err } = reload();
    assert_eq!(code, 1, "{out}{err}");
    assert!(err.contains("failed: nothere0"), "{err}");
    assert_eq!(at_work(), [false, false, true]);

    kill(Pid::from_raw(all.child.id() as i32), Signal::SIGTERM).unwrap();
    let status = until("its end", || all.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "nothere0 may come");
    assert_eq!(net.programs(), 0);
}

/// A service manager sees only the first process, which therefore restarts a process that fails
/// beside others.
#[test]
fn what_fails_beside_others_is_started_again_and_what_was_ended_is_not() {
    root();
    let net = Net::new();
    let file = File::new(&format!(
        "{}{}",
        one(&net.iface, "policy = \"every-n\""),
        one("aw8", "policy = \"every-n\"")
    ));
    add_interface(&net, "aw8");
    let mut all = All::start(&net, &file);
    let pid = |name: &str| {
        let Ended { out, .. } = net.run(&["--format", "json", "status", name]);
        let status: Value = serde_json::from_str(&out).ok()?;
        find(&status, "pid")?.as_u64()
    };
    let other = pid("aw8");
    for _ in 0..2 {
        let last = pid(&net.iface).unwrap();
        kill(Pid::from_raw(last as i32), Signal::SIGKILL).unwrap();
        let event = all.next();
        assert_eq!(event["event"], "up", "{event}");
        assert_eq!(event["facts"]["interface"], net.iface.as_str(), "{event}");
        assert_ne!(pid(&net.iface).unwrap(), last);
        assert_eq!(pid("aw8"), other, "the other one was left alone");
    }
    let Ended { code, err, .. } = net.run(&["down", &net.iface]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(all.next()["event"], "down");
    // Longer than the pause before a restart.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(pid(&net.iface), None);
    kill(Pid::from_raw(all.child.id() as i32), Signal::SIGTERM).unwrap();
    let status = until("its end", || all.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(net.programs(), 0);
}

/// Like a modem that is unplugged and plugged in again.
#[test]
fn an_interface_that_comes_back_is_up_again() {
    root();
    let net = Net::new();
    add_interface(&net, "aw9");
    let file = File::new(&format!("{}{}", one("aw9", ""), one(&net.iface, "")));
    let mut all = All::start(&net, &file);
    let pull_out = || must(&format!("ip -n {} link del aw9", net.receiver));
    pull_out();
    // Longer than the pause: the interface is looked for, and is missing.
    std::thread::sleep(Duration::from_secs(5));
    add_interface(&net, "aw9");
    let up = |event: &Value| event["event"] == "up" && event["facts"]["interface"] == "aw9";
    while !up(&all.next()) {}
    pull_out();
    kill(Pid::from_raw(all.child.id() as i32), Signal::SIGTERM).unwrap();
    until("its end", || all.child.try_wait().unwrap());
    assert_eq!(net.programs(), 0);
}

/// Like a modem that is not plugged in yet: nothing else is wrong, so no restart from outside is
/// needed.
#[test]
fn an_interface_that_is_not_there_yet_is_waited_for() {
    root();
    let net = Net::new();
    let file = File::new(&one("aw6", ""));
    let stderr = file.directory.path().join("stderr");
    let start = |more: &[&str]| {
        net.in_receiver(ACKWISE.path())
            .args(["--format", "json", "up", "--all", "--config", &file.name()])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap()
    };
    let output = || std::fs::read_to_string(&stderr).unwrap();
    let waits = |times: usize| {
        let line = "there is no interface aw6 yet";
        until("a wait", || {
            (output().matches(line).count() == times).then_some(())
        });
    };
    // A limited duration does not wait for interfaces.
    let out = start(&["--duration", "1h"]).wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", output());

    let mut child = start(&[]);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut all = All { child, lines };
    for times in [1, 2] {
        waits(times);
        // It checks several times meanwhile, and logs nothing more.
        std::thread::sleep(Duration::from_secs(3));
        waits(times);
        assert_eq!(all.child.try_wait().unwrap(), None, "{}", output());
        add_interface(&net, "aw6");
        let event = all.next();
        assert_eq!(event["event"], "up", "{event}");
        must(&format!("ip -n {} link del aw6", net.receiver));
        assert_eq!(all.next()["event"], "down");
    }
    waits(3);
    kill(Pid::from_raw(all.child.id() as i32), Signal::SIGTERM).unwrap();
    let status = until("its end", || all.child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0), "{}", output());

    // Something else is wrong as well, which the service manager has to know.
    file.write(&format!("{}{}", one("aw6", ""), one(&net.iface, "")));
    let held = net.start("up", "up", &[]);
    let out = start(&[]).wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(2), "{}", output());
    let failed = format!("failed: aw6, {}", net.iface);
    assert!(output().contains(&failed), "{}", output());
    held.signal(Signal::SIGTERM);
    assert_eq!(held.end().status.code(), Some(0));
    assert_eq!(net.programs(), 0);
}

#[test]
fn a_fixed_rate_of_cake_changes_in_place() {
    in_virtual_time(|| {
        let net = Net::new();
        let Net {
            receiver, iface, ..
        } = &net;
        let rate = |rate: &str| one(iface, &format!("router = true\nup = \"{rate}\""));
        let file = File::new(&rate("5 Mbit/s"));
        let up = net.start("up", "up", &["--config", &file.name()]);
        let shown = || must(&format!("tc -n {receiver} qdisc show dev {iface} root"));
        assert!(shown().contains("bandwidth 5Mbit"), "{}", shown());
        file.write(&rate("8 Mbit/s"));
        let Ended { code, out, err } = net.run(&["reload"]);
        assert_eq!(code, 0, "{out}{err}");
        assert!(shown().contains("bandwidth 8Mbit"), "{}", shown());
        // The kernel counts in bytes per second, so its rate is slightly lower.
        file.write(&rate("7654321 bit/s"));
        let Ended { code, out, err } = net.run(&["reload"]);
        assert_eq!(code, 0, "{out}{err}");
        assert!(shown().contains("bandwidth 7654Kbit"), "{}", shown());
        file.write(&rate("1 Mbit/s..8 Mbit/s"));
        let Ended { code, out, .. } = net.run(&["reload"]);
        assert_eq!(code, 1, "{out}");
        assert!(out.contains("not changed: up"), "{out}");
        assert!(shown().contains("bandwidth 7654Kbit"), "{}", shown());
        up.signal(Signal::SIGTERM);
        let Detached { status, err, .. } = up.end();
        assert_eq!(status.code(), Some(0), "{err}");
    });
}

/// The stopped loader process of a daemon. It continues when this is dropped.
struct StoppedLoader(Pid);

impl StoppedLoader {
    fn of(parent: Pid) -> Self {
        let loader = loader_of(parent);
        kill(loader, Signal::SIGSTOP).unwrap();
        Self(loader)
    }
}

impl Drop for StoppedLoader {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// The process that loads programs for a daemon.
fn loader_of(parent: Pid) -> Pid {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let status = processes.filter_map(|it| std::fs::read_to_string(it.path().join("status")).ok());
    let mut loaders = status.filter(|it| it.starts_with("Name:\tackwise-loader\n"));
    let its = loaders.find(|it| it.contains(&format!("\nPPid:\t{parent}\n")));
    let its = its.expect("a loader");
    let pid = its.lines().find_map(|line| line.strip_prefix("Pid:\t"));
    Pid::from_raw(pid.unwrap().parse().unwrap())
}

/// A stopped loader stands for a slow verifier.
#[test]
fn an_answer_that_comes_late_is_not_taken_for_another() {
    in_virtual_time(|| {
        let net = Net::new();
        let policy = |n: u32| {
            let policy = format!("policy = \"every-n:n={n},warm=0\"\nguard = false");
            one(&net.iface, &policy)
        };
        let file = File::new(&policy(8));
        let up = net.start("up", "up", &["--config", &file.name()]);
        let mut transfer = Transfer::new(&net);
        let loader = StoppedLoader::of(up.pid());
        file.write(&policy(16));
        let Ended { code, err, .. } = net.run(&["reload", &net.iface]);
        assert_eq!(code, 1, "{err}");
        // Wait until the daemon has given up as well.
        std::thread::sleep(Duration::from_secs(40));
        assert_eq!(stats(&net)["policy"], "every-n:n=8,warm=0");
        drop(loader);
        file.write(&policy(1));
        let Ended { code, err, .. } = net.run(&["reload", &net.iface]);
        assert_eq!(code, 0, "{err}");
        let before = count(&stats(&net), "withheld");
        transfer.send(400_000);
        assert_eq!(count(&stats(&net), "withheld"), before);
        transfer.end();
        up.signal(Signal::SIGTERM);
        assert_eq!(up.end().status.code(), Some(0));
    });
}

#[test]
fn the_end_does_not_wait_for_a_verifier() {
    root();
    for by_down in [false, true] {
        let net = Net::new();
        let file = File::new(&one(&net.iface, "policy = \"every-n:n=4\""));
        let up = net.start("up", "up", &["--config", &file.name()]);
        let loader = StoppedLoader::of(up.pid());
        file.write(&one(&net.iface, "policy = \"every-n:n=8\""));
        let reload = net
            .in_receiver(ACKWISE.path())
            .args(["reload", &net.iface])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut reload = reload.unwrap();
        // The loader has been asked by then, or never will be: both must end well.
        std::thread::sleep(Duration::from_millis(500));
        if by_down {
            let Ended { code, err, .. } = net.run(&["down", &net.iface]);
            assert_eq!(code, 0, "{err}");
        } else {
            up.signal(Signal::SIGTERM);
        }
        let ended = up.end();
        drop(loader);
        reload.wait().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.err);
        assert_eq!(net.programs(), 0);
    }
}
