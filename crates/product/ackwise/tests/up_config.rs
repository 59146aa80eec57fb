//! `ackwise up` and `ackwise check` with a configuration file.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use ackwise_netdev::registry::{Key, Registry};
use ackwise_testbed::Netns;
use ackwise_testbed::program::{Ended, root, until};
use common::{ACKWISE, Detached, Net};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// How long to wait for a message.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A file that is removed with its directory.
struct File {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ackwise.toml");
        std::fs::write(&path, text).unwrap();
        Self {
            _directory: directory,
            path,
        }
    }

    fn path(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

/// The response of an HTTP server in a namespace.
fn get(namespace: &str, address: &str) -> String {
    Netns::named(namespace).run(|| {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    })
}

/// Starts `ackwise up --all`, and returns the events that it prints one after the other.
fn all_up(net: &Net, file: &File) -> (Child, impl FnMut() -> Value) {
    let mut child = net
        .in_receiver(ACKWISE.path())
        .args(["--format", "json", "up", "--all", "--config", file.path()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let next = move || serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    (child, next)
}

#[test]
fn the_file_says_what_arguments_leave_open() {
    root();
    let net = Net::new();
    let file = File::new(&format!(
        "[[interface]]\nname = \"{}\"\npolicy = \"every-n:n=4\"\nmax_flows = 1000\n\
         metrics = \"127.0.0.1:0\"\n",
        net.iface
    ));
    let memory = |last: &Value| last["stats"]["memory"]["flows"].as_u64().unwrap();
    let up = net.start("up", "up", &["--config", file.path()]);
    assert_eq!(up.started["policy"], "every-n:n=4,warm=16");
    let notes = up.started["plan"]["notes"].to_string();
    assert!(notes.contains(file.path()), "{notes}");
    let address = up.started["metrics"].as_str().unwrap();
    let page = get(&net.receiver, address);
    assert!(page.contains("ackwise_acks"), "{page}");
    up.signal(Signal::SIGTERM);
    let Detached { status, last, err } = up.end();
    assert_eq!(status.code(), Some(0), "{err}");
    let of_file = memory(&last);

    let more = ["--policy", "tack", "--max-flows", "4000"];
    let up = net.start(
        "up",
        "up",
        &[&["--config", file.path()], &more[..]].concat(),
    );
    let policy = up.started["policy"].as_str().unwrap();
    assert!(policy.starts_with("tack"), "{policy}");
    up.signal(Signal::SIGTERM);
    let Detached { status, last, err } = up.end();
    assert_eq!(status.code(), Some(0), "{err}");
    // The default has room for 65536.
    let of_argument = memory(&last);
    assert!(of_file < of_argument, "{of_file} and {of_argument} bytes");
    assert_eq!(net.programs(), 0);
}

/// Each interface has its own process. A signal to the first process ends all of them.
#[test]
fn all_interfaces_are_up_until_one_signal() {
    root();
    let net = Net::new();
    let file = File::new(&format!(
        "[[interface]]\nname = \"{}\"\n[[interface]]\nname = \"lo\"\npolicy = \"every-n\"\n",
        net.iface
    ));
    let (mut child, mut next) = all_up(&net, &file);
    let event = |line: &Value| {
        let name = line["facts"]["interface"].as_str();
        let name = name.or(line["interface"].as_str()).unwrap().to_owned();
        (line["event"].as_str().unwrap().to_owned(), name)
    };
    let named = |what: &str| {
        let mut both = [what, what]
            .map(str::to_owned)
            .into_iter()
            .zip([net.iface.clone(), "lo".to_owned()]);
        let mut both = [both.next().unwrap(), both.next().unwrap()];
        both.sort();
        both
    };
    let mut begun = [event(&next()), event(&next())];
    begun.sort();
    assert_eq!(begun, named("up"));
    assert!(net.programs() > 0);
    let Ended { code, err, .. } = net.run(&["up", "--all", "--config", file.path()]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("is already running"), "{err}");

    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let status = until("its end", || child.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    let mut ended = [event(&next()), event(&next())];
    ended.sort();
    assert_eq!(ended, named("down"));
    assert_eq!(net.programs(), 0);
    let Ended { code, out, .. } = net.run(&["down"]);
    assert_eq!(code, 0);
    assert!(out.contains("No `ackwise up`"), "{out}");
}

/// If the first process is killed, the others end: a gateway as well as a datapath.
#[test]
fn all_end_if_the_first_process_is_killed() {
    root();
    let net = Net::new();
    let file = File::new(&format!(
        "[[interface]]\nname = \"{}\"\nrouter = true\nqueue = \"gateway\"\nup = \"50mbit\"\n\
         [[interface]]\nname = \"lo\"\n",
        net.iface
    ));
    let (mut child, mut next) = all_up(&net, &file);
    for _ in 0..2 {
        assert_eq!(next()["event"], "up");
    }
    assert!(net.programs() > 0);
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..2 {
        let down = next();
        assert_eq!(down["event"], "down", "{down}");
        assert_eq!(down["why"], "`ackwise up --all` is gone", "{down}");
    }
    until("the end of all", || {
        let Ended { out, .. } = net.run(&["down"]);
        (net.programs() == 0 && out.contains("No `ackwise up`")).then_some(())
    });
}

/// Without the socket by which `ackwise reload` reaches it, it ends what it has started.
#[test]
fn all_end_if_the_first_process_cannot_listen() {
    root();
    let net = Net::new();
    let file = File::new(&format!("[[interface]]\nname = \"{}\"\n", net.iface));
    let netns = std::fs::metadata(format!("/run/netns/{}", net.receiver)).unwrap();
    let key = Key {
        netns: netns.ino(),
        name: "up".to_owned(),
    };
    // A non-empty directory is not removed, so the name is taken.
    let socket = Registry::<()>::new("all", |()| false).socket_path(&key);
    std::fs::create_dir_all(socket.join("taken")).unwrap();
    let Ended { code, err, .. } = net.run(&["up", "--all", "--config", file.path()]);
    std::fs::remove_dir_all(&socket).unwrap();
    assert_eq!(code, 1, "{err}");
    assert!(err.contains(socket.to_str().unwrap()), "{err}");
    assert_eq!(net.programs(), 0, "{err}");
    let Ended { out, .. } = net.run(&["down"]);
    assert!(out.contains("No `ackwise up`"), "{out}");
}

/// The service manager is told that all is ready when every interface is up or has failed, whoever
/// started the command and whatever signals it ignores.
#[test]
fn ready_is_said_when_every_interface_is_up_or_has_failed() {
    root();
    let net = Net::new();
    let file = File::new(&format!(
        "[[interface]]\nname = \"nothere0\"\n[[interface]]\nname = \"lo\"\n\
         [[interface]]\nname = \"{}\"\n",
        net.iface
    ));
    let path = file._directory.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    let child = net
        .in_receiver("env")
        .args(["--ignore-signal=CHLD", ACKWISE.path()])
        .args(["up", "--all", "--config", file.path()])
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = [0; 256];
    let n = until("a message", || match socket.recv(&mut output) {
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => None,
        received => Some(received.unwrap()),
    });
    let output = String::from_utf8_lossy(&output[..n]).into_owned();
    assert!(output.contains("READY=1"), "{output}");
    assert!(output.contains("STATUS=2 of 3 run"), "{output}");
    let Ended { code, out, .. } = net.run(&["status"]);
    assert_eq!(code, 0);
    for name in ["lo", &net.iface] {
        assert!(out.contains(name), "no {name} in {out}");
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let Ended { code, err, .. } = Ended::of(&child.wait_with_output().unwrap());
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("there is no interface nothere0 yet"), "{err}");
}

/// A process started with SIGCHLD ignored still sees that the queue was restored.
#[test]
fn who_ignores_the_end_of_children_is_no_reason_to_fail() {
    root();
    let net = Net::new();
    let child = net
        .in_receiver("env")
        .args(["--ignore-signal=CHLD", ACKWISE.path()])
        .args(["up", &net.iface, "--router", "--up", "50mbit"])
        .args(["--duration", "300ms"])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let Ended { code, err, .. } = Ended::of(&child);
    assert_eq!(code, 0, "{err}");
}

#[test]
fn a_port_that_is_taken_is_said_with_its_place() {
    root();
    let net = Net::new();
    let up = net.start("up", "up", &["--metrics", "127.0.0.1:0"]);
    let address = up.started["metrics"].as_str().unwrap();
    let file = File::new(&format!(
        "[[interface]]\nname = \"lo\"\n\nmetrics = \"{address}\"\n"
    ));
    let Ended { code, err, .. } = net.run(&["up", "lo", "--config", file.path()]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("ackwise.toml:4:11: 'metrics': cannot listen on"),
        "{err}"
    );
    assert!(!err.contains("--metrics"), "{err}");
    let Ended { code, err, .. } = net.run(&["up", "lo", "--metrics", address]);
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains(&format!("--metrics {address}: cannot listen")),
        "{err}"
    );
    up.signal(Signal::SIGTERM);
    assert_eq!(up.end().status.code(), Some(0));
}

/// The gateway's queue has its own metrics.
#[test]
fn a_gateway_s_queue_serves_metrics_as_well() {
    root();
    let net = Net::new();
    let file = File::new(&format!(
        "[[interface]]\nname = \"{}\"\nrouter = true\nup = \"50mbit\"\nqueue = \"gateway\"\n\
         metrics = \"127.0.0.1:0\"\n",
        net.iface
    ));
    let up = net.start("up", "up", &["--config", file.path()]);
    let page = get(&net.receiver, up.started["metrics"].as_str().unwrap());
    let rate = format!(
        "ackwise_rate_bytes_per_second{{interface=\"{}\"}} ",
        net.iface
    );
    assert!(page.contains(&rate), "{page}");
    assert!(
        page.contains("ackwise_gateway_packets_read_total"),
        "{page}"
    );
    up.signal(Signal::SIGTERM);
    assert_eq!(up.end().status.code(), Some(0));
}

/// If the guard is on by default, the length of its blocks can be set alone.
#[test]
fn blocks_of_the_guard_have_a_length_of_their_own() {
    root();
    let net = Net::new();
    let up = net.start("up", "up", &["--guard-block", "2s"]);
    up.signal(Signal::SIGTERM);
    assert_eq!(up.end().status.code(), Some(0));
    for (args, says) in [
        (&["attach", "lo", "--guard-block", "2s"][..], "--guard"),
        (
            &["up", "lo", "--no-guard", "--guard-block", "2s"],
            "cannot be used with",
        ),
    ] {
        let Ended { code, err, .. } = net.run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

/// An error on one interface does not keep another one down. An interface that `ackwise down` has
/// ended stays down while another is waited for.
#[test]
fn one_that_fails_leaves_the_others_up() {
    root();
    let net = Net::new();
    let file = File::new(&format!(
        "[[interface]]\nname = \"nothere0\"\n[[interface]]\nname = \"{}\"\n",
        net.iface
    ));
    let mut child = net
        .in_receiver(ACKWISE.path())
        .args(["up", "--all", "--config", file.path()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the other one", || (net.programs() > 0).then_some(()));
    let Ended { code, err, .. } = net.run(&["down", &net.iface]);
    assert_eq!(code, 0, "{err}");
    // Longer than the pause before a restart.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(child.try_wait().unwrap(), None);
    assert_eq!(net.programs(), 0);
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let out = child.wait_with_output().unwrap();
    let Ended { code, out, err } = Ended::of(&out);
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.contains("has ended (ackwise down)"), "{out}");
    assert!(err.contains("no interface"), "{err}");
    assert!(err.contains("there is no interface nothere0 yet"), "{err}");
}

#[test]
fn check_says_what_a_file_asks_for() {
    let run = |args: &[&str]| ACKWISE.run(args);
    let wrong = File::new("[[interface]]\nname = \"lo\"\npolicy = \"adaptve\"\n");
    let fine = File::new(
        "[[interface]]\nname = \"lo\"\n[[interface]]\nname = \"wan0\"\nup = \"1mbit..5mbit\"\n",
    );
    let Ended { code, out, err } = run(&["check", fine.path()]);
    assert_eq!(code, 0, "{err}");
    let says =
        "lo (adaptive), wan0 at a measured rate from 1.000 Mbit/s to 5.000 Mbit/s (adaptive)";
    assert!(out.contains(says), "{out}");
    let Ended { code, out, .. } = run(&["--format", "json", "check", fine.path(), wrong.path()]);
    assert_eq!(code, 2);
    let output: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(output["mistakes"].as_array().unwrap().len(), 1, "{out}");
    assert_eq!(output["found"][0]["file"], fine.path(), "{out}");
    assert_eq!(output["found"][0]["says"], says, "{out}");
    let all = "[[interface]]\nname = \"lo\"\nguard = \"10 min\"\nmax_flows = 1000\nmetrics = \"127.0.0.1:9478\"\nuser = \"nobody\"\n";
    let Ended { out, .. } = run(&["check", File::new(all).path()]);
    let says = "lo (adaptive; guarded every 600 s; at most 1000 flows; metrics on 127.0.0.1:9478; \
                as the user nobody)";
    assert!(out.contains(says), "{out}");
}

#[test]
fn mistakes_are_said_with_their_place() {
    let run = |args: &[&str]| ACKWISE.run(args);
    let wrong = File::new("[[interface]]\nname = \"lo\"\npolicy = \"adaptve\"\n");
    for args in [
        &["check", wrong.path()][..],
        &["up", "lo", "--explain", "--config", wrong.path()],
        &["up", "--all", "--explain", "--config", wrong.path()],
    ] {
        let Ended { code, err, .. } = run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains("ackwise.toml:3:10: "), "{args:?}: {err}");
        assert!(err.contains("did you mean adaptive?"), "{args:?}: {err}");
    }
    // The datapath cannot create ACKs.
    let literal = "rate-limit-literal";
    let elsewhere = File::new(&format!(
        "[[interface]]\nname = \"lo\"\npolicy = \"{literal}\"\n"
    ));
    for args in [
        &["check", elsewhere.path()][..],
        &["up", "lo", "--explain", "--policy", literal],
    ] {
        let Ended { code, err, .. } = run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(
            err.contains("works only inside the kernel's TCP"),
            "{args:?}: {err}"
        );
    }
    let both = File::new(
        "[[interface]]\nname = \"lo\"\npolicy = \"adaptve\"\n[[interface]]\nname = \"wan0\"\npolicy = \"tac\"\n",
    );
    let Ended { err, .. } = run(&["check", both.path()]);
    for place in [":3:10: ", ":6:10: "] {
        assert!(err.contains(place), "{err}");
    }
    // Also together with mistakes of another kind.
    let mixed = File::new("[[interface]]\nname = \"lo\"\npolicy = \"adaptve\"\nguard = 5\n");
    let Ended { err, .. } = run(&["check", mixed.path()]);
    for place in [":3:10: ", ":4:9: "] {
        assert!(err.contains(place), "{err}");
    }
    let (empty, fine) = (File::new(""), File::new("[[interface]]\nname = \"lo\"\n"));
    for (args, says) in [
        (
            &["up", "--all", "--config", empty.path()][..],
            "describes no interface",
        ),
        (
            &["up", "--all", "--config", "/nowhere.toml"],
            "there is no /nowhere.toml",
        ),
        (
            &["up", "eth7", "--config", fine.path()],
            "does not describe eth7",
        ),
        (&["up", "lo", "--queue", "cake"], "--up RATE"),
        (&["up", "--all", "lo"], "cannot be used with"),
        (&["up", "--all", "--overhead", "22"], "cannot be used with"),
        (&["up", "--all", "--queue", "cake"], "cannot be used with"),
        (
            &["up", "--all", "--metrics", "127.0.0.1:1"],
            "cannot be used with",
        ),
        (&["up", "--all", "--max-flows", "64"], "cannot be used with"),
        (&["up", "--all", "--no-guard"], "cannot be used with"),
        (
            &["up", "lo", "--guard", "--no-guard"],
            "cannot be used with",
        ),
        (&["up"], "`ackwise up --all`"),
    ] {
        let Ended { code, err, .. } = run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(says), "{args:?}: {err}");
    }
}

/// The gateway's queue tracks no flows: an argument for that is refused, and a file may be for
/// another queue.
#[test]
fn the_gateway_s_queue_has_no_maximum_of_flows() {
    let file = File::new("[[interface]]\nname = \"lo\"\nmax_flows = 1000\n");
    let gateway = ["--router", "--up", "5mbit", "--queue", "gateway"];
    let explain = ["up", "lo", "--explain", "--config", file.path()];
    let Ended { code, out, err } = ACKWISE.run(&[&explain[..], &gateway].concat());
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("max_flows of the file are not used"), "{out}");
    let more = ["--max-flows", "64"];
    let Ended { code, err, .. } = ACKWISE.run(&[&explain[..], &gateway, &more].concat());
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("--max-flows is for a policy"), "{err}");
}

/// The packaged example is a valid configuration.
#[test]
fn the_example_is_fine() {
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../../packaging/ackwise.toml"
    );
    let Ended { code, out, err } = ACKWISE.run(&["check", example]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("wan0 at"), "{out}");
}

#[test]
fn for_one_that_hangs_down_says_what_ends_it() {
    root();
    let net = Net::new();
    let arguments = ["--up", "20mbit", "--router", "--queue", "gateway"];
    let attached = net.start("up", "up", &arguments);
    attached.signal(Signal::SIGSTOP);
    let Ended { code, err, .. } = net.run(&["down", &net.iface]);
    assert_eq!(code, 1, "{err}");
    let hint = format!("\n  `kill -9 {}` ends it", attached.pid());
    assert!(
        err.contains("does not answer") && err.contains(&hint),
        "{err}"
    );
    // The request still waits for it.
    attached.signal(Signal::SIGCONT);
    let Detached { status, err, .. } = attached.end();
    assert_eq!(status.code(), Some(0), "{err}");
}
