//! `ackwise tunnel` between two namespaces: two processes, one of them without privileges.

mod common;

use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};

use ackwise_testbed::program::{Ended, must, root, until};
use common::{ACKWISE, Net, Rights};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The receiver's ACKs to the sender, carried by a tunnel between them.
struct Pair {
    net: Net,
    files: tempfile::TempDir,
}

/// A process that is killed when it is dropped.
struct Up(Child);

impl Up {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    fn end(mut self) -> (Option<i32>, Vec<Value>) {
        let status = until("the end", || self.0.try_wait().unwrap());
        let mut out = String::new();
        std::io::Read::read_to_string(&mut self.0.stdout.take().unwrap(), &mut out).unwrap();
        let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
        (status.code(), lines.collect())
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Pair {
    fn new() -> Self {
        root();
        let pair = Self {
            net: Net::new(),
            files: tempfile::tempdir().unwrap(),
        };
        let key = |name: &str| {
            let Ended { code, out, err } = ACKWISE.run(&["tunnel", "keygen", &pair.path(name)]);
            assert_eq!(code, 0, "{err}");
            out.trim().to_owned()
        };
        let (receiver, sender) = (key("receiver.key"), key("sender.key"));
        let iface = &pair.net.iface;
        let write = |name: &str, text: String| {
            std::fs::write(pair.path(name), format!("listen_port = 51830\n{text}\n")).unwrap();
        };
        write(
            "receiver.toml",
            format!(
                "private_key = \"receiver.key\"\ninterface = \"{iface}\"\nuser = \"nobody\"\n[[peer]]\n\
                 name = \"sender\"\npublic_key = \"{sender}\"\nendpoint = \"10.9.0.1:51830\"\n\
                 allowed_ips = [\"10.9.0.1\"]"
            ),
        );
        write(
            "sender.toml",
            format!(
                "private_key = \"sender.key\"\n[[peer]]\nname = \"receiver\"\n\
                 public_key = \"{receiver}\"\nallowed_ips = [\"10.9.0.2\"]"
            ),
        );
        pair
    }

    fn path(&self, name: &str) -> String {
        self.files.path().join(name).to_str().unwrap().to_owned()
    }

    fn up(&self, mut inside: Command, config: &str) -> Up {
        let child = inside
            .args(["--format", "json", "tunnel", "up", &self.path(config)])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        Up(child.unwrap())
    }

    fn receiver_up(&self) -> Up {
        let up = self.up(self.net.in_receiver(ACKWISE.path()), "receiver.toml");
        until("the tunnel", || {
            let code = self.net.run(&["tunnel", "status", "awtun0"]).code;
            (code == 0).then_some(())
        });
        up
    }

    fn sender_up(&self) -> Up {
        self.up(self.net.in_sender(ACKWISE.path()), "sender.toml")
    }

    fn stats(&self) -> Value {
        let Ended { code, out, err } = self.net.run(&["--format", "json", "tunnel", "status"]);
        assert_eq!(code, 0, "{err}");
        let shown: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(shown["tunnels"].as_array().unwrap().len(), 1, "{out}");
        shown["tunnels"][0].clone()
    }

    fn peer_is(&self, up: bool) -> Value {
        until("the peer", || {
            let peer = self.stats()["peers"][0].clone();
            (peer["up"] == up).then_some(peer)
        })
    }

    fn carried(&self) -> u64 {
        self.stats()["peers"][0]["packets_in"]["packets"]
            .as_u64()
            .unwrap()
    }

    fn nothing_left(&self) {
        for namespace in [&self.net.receiver, &self.net.sender] {
            let links = must(&format!("ip -n {namespace} link show"));
            assert!(!links.contains("awtun"), "{links}");
        }
        assert_eq!(self.net.programs(), 0);
        let Ended { code, out, err } = ACKWISE.run(&["tunnel", "status"]);
        assert_eq!(code, 0, "{err}");
        assert!(!out.contains("awtun"), "{out}");
    }
}

/// Collects all field names in a document.
fn names(at: &str, value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            names(&format!("{at}.{name}"), value, into);
        }),
        Value::Array(items) => items
            .iter()
            .for_each(|item| names(&format!("{at}[]"), item, into)),
        _ => {
            into.insert(at.to_owned());
        }
    }
}

const SHAPE: &str = include_str!("tunnel-status.txt");

#[test]
fn it_tells_and_ends_on_sigterm_and_on_down() {
    let pair = Pair::new();
    let sender = pair.sender_up();
    let receiver = pair.receiver_up();
    pair.peer_is(true);
    assert!(pair.net.download(1) > 100_000);
    until("the ACKs", || (pair.carried() > 100).then_some(()));
    let stats = pair.stats();
    let mut found = BTreeSet::new();
    names("", &stats, &mut found);
    let expected: BTreeSet<String> = SHAPE.lines().map(str::to_owned).collect();
    assert_eq!(found, expected, "{stats:#}");
    assert_eq!(stats["pid"], receiver.0.id());
    // This works without any privileges.
    assert_eq!(stats["restored"]["delivery"], "batched");
    assert_eq!(pair.net.programs(), 1);
    let peer = &stats["peers"][0];
    assert!(peer["bytes_per_ack"].as_f64().unwrap() < 40.0, "{peer:#}");
    let text = pair.net.run(&["tunnel", "status"]).out;
    for part in [
        "peer sender at 10.9.0.1:51830: answers",
        "packets in",
        "bundles sent",
    ] {
        assert!(text.contains(part), "{text}");
    }
    receiver.signal(Signal::SIGTERM);
    let (code, lines) = receiver.end();
    assert_eq!(code, Some(0));
    let events: Vec<&Value> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(events, ["up", "down"]);
    assert_eq!(lines[1]["why"], "SIGTERM");
    let down = pair
        .net
        .in_sender(ACKWISE.path())
        .args(["tunnel", "down"])
        .output();
    assert!(down.unwrap().status.success());
    let (code, lines) = sender.end();
    assert_eq!(
        (code, lines[1]["why"].as_str()),
        (Some(0), Some("ackwise tunnel down"))
    );
    pair.nothing_left();
    // Without a name it is no mistake that nothing runs; with one it is.
    let Ended { code, out, err } = pair.net.run(&["tunnel", "down"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(out, "There is no tunnel in this network namespace.\n");
    let Ended { code, out, .. } = pair.net.run(&["--format", "json", "tunnel", "down"]);
    assert_eq!((code, out.trim()), (0, "null"));
    for command in ["status", "down"] {
        let Ended { code, err, .. } = pair.net.run(&["tunnel", command, "awtun9"]);
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("awtun9"), "{err}");
    }
}

#[test]
fn after_down_another_one_may_begin_at_once() {
    let pair = Pair::new();
    for _ in 0..8 {
        let running = pair.receiver_up();
        let Ended { code, err, .. } = pair.net.run(&["tunnel", "down"]);
        assert_eq!(code, 0, "{err}");
        let next = pair.receiver_up();
        let (code, lines) = running.end();
        assert_eq!(code, Some(0), "{lines:?}");
        next.signal(Signal::SIGTERM);
        let (code, lines) = next.end();
        assert_eq!(code, Some(0), "{lines:?}");
    }
}

#[test]
fn it_has_no_right_left() {
    let pair = Pair::new();
    let receiver = pair.receiver_up();
    Rights::of(receiver.0.id()).are(65534, 0, &["tunnel"]);
}

#[test]
fn killed_it_leaves_nothing_and_transfers_go_on() {
    const BYTES: u64 = 60_000_000;
    let pair = Pair::new();
    let mut sender = pair.sender_up();
    for round in 0..2 {
        let mut receiver = pair.receiver_up();
        pair.peer_is(true);
        std::thread::scope(|scope| {
            // The first ACKs in the tunnel are for the first megabyte.
            let download = scope.spawn(|| pair.net.download_bytes(BYTES));
            until("ACKs", || (pair.carried() > 300).then_some(()));
            let victim = if round == 0 {
                &mut receiver
            } else {
                &mut sender
            };
            victim.signal(Signal::SIGKILL);
            victim.0.wait().unwrap();
            assert!(download.join().unwrap() >= BYTES, "round {round}");
        });
        if round == 0 {
            assert_eq!(pair.net.programs(), 0);
            continue;
        }
        // The other end is gone: this one reports it, and notices when it is back.
        pair.peer_is(false);
        let _again = pair.sender_up();
        pair.peer_is(true);
        let before = pair.carried();
        assert!(pair.net.download(1) > 100_000);
        until("ACKs", || (pair.carried() > before + 100).then_some(()));
    }
    drop(sender);
    until("the last of it", || {
        let links = must(&format!("ip -n {} link show", pair.net.sender));
        (!links.contains("awtun")).then_some(())
    });
    pair.nothing_left();
}

#[test]
fn mistakes_are_told_with_line_and_column() {
    let files = tempfile::tempdir().unwrap();
    let bad = files.path().join("bad.toml");
    std::fs::write(
        &bad,
        "listen_port = 51830\nprivate_key = \"k\"\nperiod = 10\n[[peers]]\n",
    )
    .unwrap();
    let path = bad.to_str().unwrap();
    for verb in ["check", "up"] {
        let Ended { code, err, .. } = ACKWISE.run(&["tunnel", verb, path]);
        assert_eq!(code, 2, "{err}");
        for mistake in [
            "bad.toml:3:10: 'period' is",
            "bad.toml:4:3: unknown key 'peers'",
        ] {
            assert!(err.contains(mistake), "no {mistake} in\n{err}");
        }
    }
}
