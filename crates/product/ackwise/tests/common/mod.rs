//! What the command's tests share.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use ackwise_testbed::Netns;
use ackwise_testbed::program::{Ended, Program, must, until};
use serde_json::Value;

/// The command under test.
pub const ACKWISE: Program = Program::new(env!("CARGO_BIN_EXE_ackwise"));

/// Two namespaces and a veth pair without offloads, removed when dropped.
pub struct Net {
    /// The namespace of the data sender.
    pub sender: String,
    /// The namespace of the receiver.
    pub receiver: String,
    /// The interface in both, with a name that no other test uses.
    pub iface: String,
}

/// A queue discipline that shapes.
pub const SHAPER: &str = "handle 43: tbf rate 5mbit burst 10k latency 50ms";

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Net {
    /// Creates the network; 10.9.0.1 sends, 10.9.0.2 receives.
    pub fn new() -> Self {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}x{n}", std::process::id());
        let net = Self {
            sender: format!("awt-s{id}"),
            receiver: format!("awt-r{id}"),
            iface: format!("aw{id}"),
        };
        let Self {
            sender,
            receiver,
            iface,
        } = &net;
        must(&format!("ip netns add {sender}"));
        must(&format!("ip netns add {receiver}"));
        must(&format!(
            "ip link add {iface} netns {sender} type veth peer name {iface} netns {receiver}"
        ));
        for (ns, addr) in [(sender, "10.9.0.1/24"), (receiver, "10.9.0.2/24")] {
            must(&format!("ip -n {ns} addr add {addr} dev {iface}"));
            must(&format!("ip -n {ns} link set {iface} up"));
            must(&format!("ip -n {ns} link set lo up"));
            must(&format!(
                "ip netns exec {ns} ethtool -K {iface} tso off gso off gro off"
            ));
        }
        net
    }

    /// A program in the receiver's namespace.
    pub fn in_receiver(&self, program: &str) -> Command {
        inside(&self.receiver, program)
    }

    /// A program in the sender's namespace.
    pub fn in_sender(&self, program: &str) -> Command {
        inside(&self.sender, program)
    }

    /// Runs `ackwise` with these arguments to its end in the receiver's namespace.
    pub fn run(&self, args: &[&str]) -> Ended {
        let out = self
            .in_receiver(ACKWISE.path())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Ended::of(&out)
    }

    /// Runs `ackwise attach` on the receiver's interface; returns when it reports that it is
    /// attached.
    pub fn attach(&self, args: &[&str]) -> Attached {
        self.start("attach", "attached", args)
    }

    /// Runs `ackwise up` on the receiver's interface; returns when it reports that it is up.
    pub fn up(&self, args: &[&str]) -> Attached {
        self.start("up", "up", args)
    }

    /// Runs `ackwise down` on the receiver's interface, which must succeed; returns what it prints.
    pub fn down(&self) -> String {
        let Ended { code, out, err } = self.run(&["down", &self.iface]);
        assert_eq!(code, 0, "{err}");
        out
    }

    /// Runs a subcommand on the receiver's interface; returns when it reports `event`.
    pub fn start(&self, subcommand: &str, event: &str, args: &[&str]) -> Attached {
        let args = [&[subcommand, &self.iface], args].concat();
        Attached::start(self.in_receiver(ACKWISE.path()), event, &args)
    }

    /// Sends data from sender to receiver for some seconds; returns the bytes that arrived.
    pub fn download(&self, seconds: u32) -> u64 {
        self.iperf3(&["-t", &seconds.to_string()])
    }

    /// Transfers this many bytes from sender to receiver within a minute; returns the bytes that
    /// arrived.
    pub fn download_bytes(&self, bytes: u64) -> u64 {
        self.iperf3(&["-n", &bytes.to_string()])
    }

    /// A download of at most 100 Mbit/s.
    fn iperf3(&self, how_much: &[&str]) -> u64 {
        let server = inside(&self.sender, "iperf3")
            .arg("-s")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _server = Kill(server);
        until("a download", || {
            // iperf3 has no time limit of its own once it is connected.
            let out = self
                .in_receiver("timeout")
                .args(["60", "iperf3", "-c", "10.9.0.1", "-R", "-J", "-b", "100M"])
                .args(how_much)
                .output()
                .unwrap();
            let report: Value = serde_json::from_slice(&out.stdout).ok()?;
            report["end"]["sum_received"]["bytes"].as_u64()
        })
    }

    /// Adds a default route to the receiver through its interface.
    pub fn add_default_route(&self) {
        let Self { receiver, .. } = self;
        must(&format!("ip -n {receiver} route add default via 10.9.0.1"));
    }

    /// Makes the receiver a router whose default route leaves through its interface.
    pub fn forward(&self) {
        self.add_default_route();
        let Self { receiver, .. } = self;
        must(&format!(
            "ip netns exec {receiver} sysctl -q -w net.ipv4.ip_forward=1"
        ));
    }

    /// The queue disciplines of the receiver's interface, as tc shows them.
    pub fn queues(&self) -> String {
        let Self {
            receiver, iface, ..
        } = self;
        must(&format!("tc -n {receiver} qdisc show dev {iface}"))
    }

    /// Sets the root queue discipline of the receiver's interface.
    pub fn set_root_queue(&self, queue: &str) {
        let Self {
            receiver, iface, ..
        } = self;
        must(&format!(
            "tc -n {receiver} qdisc replace dev {iface} root {queue}"
        ));
    }

    /// The number of programs attached to the receiver's interface, seen from outside.
    pub fn programs(&self) -> usize {
        let Self {
            receiver, iface, ..
        } = self;
        let out = must(&format!(
            "ip netns exec {receiver} bpftool -j net show dev {iface}"
        ));
        let shown: Value = serde_json::from_str(&out).unwrap();
        let filters = shown[0]["tc"].as_array().map_or(0, Vec::len);
        // Debian 12's bpftool does not support tcx. Such a link lives as long as a file descriptor,
        // whose information says what it is attached to.
        let out = must(&format!("ip -n {receiver} -o link show {iface}"));
        let index = out.split(':').next().unwrap().to_owned();
        filters + tcx_links(&index, Path::new("/run/netns").join(receiver).as_path())
    }
}

fn tcx_links(ifindex: &str, netns: &Path) -> usize {
    // Indices belong to a namespace: only its own processes count.
    let inode = |path: &Path| std::fs::metadata(path).map(|m| m.ino()).ok();
    let netns = inode(netns).unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let descriptors = processes
        .filter(|p| inode(&p.path().join("ns/net")) == Some(netns))
        .filter_map(|p| std::fs::read_dir(p.path().join("fdinfo")).ok())
        .flat_map(|dir| dir.flatten());
    descriptors
        .filter_map(|f| std::fs::read_to_string(f.path()).ok())
        .filter(|info| {
            let field = |name| {
                info.lines()
                    .find_map(|l| l.strip_prefix(name))
                    .map(str::trim)
            };
            field("link_type:") == Some("tcx") && field("ifindex:") == Some(ifindex)
        })
        .count()
}

impl Drop for Net {
    fn drop(&mut self) {
        for ns in [&self.sender, &self.receiver] {
            // A test that failed leaves its programs.
            let pids = Command::new("ip").args(["netns", "pids", ns]).output();
            let pids = pids.map_or_else(|_| Vec::new(), |it| it.stdout);
            for pid in String::from_utf8_lossy(&pids).split_whitespace() {
                if let Ok(pid) = pid.parse()
                    && pid != std::process::id() as i32
                {
                    let _ = nix::sys::signal::kill(
                        nix::unistd::Pid::from_raw(pid),
                        nix::sys::signal::Signal::SIGKILL,
                    );
                }
            }
            let _ = Command::new("ip").args(["netns", "del", ns]).status();
        }
    }
}

struct Kill(Child);

impl Drop for Kill {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes that consist of numbers, of which no two are equal for a long time.
pub fn content(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..length / 8).flat_map(|_| next().to_le_bytes()).collect()
}

/// Sends these bytes to the receiver, and returns those that arrived.
pub fn transfer(net: &Net, bytes: Vec<u8>) -> Vec<u8> {
    let sender = Netns::named(&net.sender);
    let listener = sender.run(|| TcpListener::bind("10.9.0.1:5555").unwrap());
    let sender = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let received = Netns::named(&net.receiver).run(|| {
        let mut all = Vec::new();
        let mut stream = TcpStream::connect("10.9.0.1:5555").unwrap();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    sender.join().unwrap();
    received
}

/// Runs this while the receiver's side uploads.
pub fn beside_an_upload(net: &Net, test: impl FnOnce()) {
    let address = "10.9.0.1:5556";
    let listener = Netns::named(&net.sender).run(|| TcpListener::bind(address).unwrap());
    let upload = Netns::named(&net.receiver).run(|| TcpStream::connect(address).unwrap());
    let (mut arriving, _) = listener.accept().unwrap();
    let mut sending = upload.try_clone().unwrap();
    let source = thread::spawn(move || io::copy(&mut io::repeat(0), &mut sending));
    let sink = thread::spawn(move || io::copy(&mut arriving, &mut io::sink()));
    test();
    upload.shutdown(Shutdown::Both).unwrap();
    // It cannot send any more.
    source.join().unwrap().unwrap_err();
    sink.join().unwrap().unwrap();
}

/// The packets that the tins of the cake have sent: bulk, best effort, video, voice.
pub fn tins(net: &Net) -> [u64; 4] {
    let command = format!(
        "tc -n {} -s -j qdisc show dev {} root",
        net.receiver, net.iface
    );
    let shown: serde_json::Value = serde_json::from_str(&must(&command)).unwrap();
    let tins = shown[0]["tins"].as_array().expect("tins");
    let sent = tins.iter().map(|tin| tin["sent_packets"].as_u64().unwrap());
    sent.collect::<Vec<_>>().try_into().expect("four tins")
}

fn inside(ns: &str, program: &str) -> Command {
    let mut c = Command::new("ip");
    c.args(["netns", "exec", ns, program]);
    c.env_remove("RUST_LOG").env_remove("NOTIFY_SOCKET");
    c
}

/// A running `ackwise attach` or `ackwise up` with `--format json`, killed when dropped.
pub struct Attached {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    /// Its first event.
    pub started: Value,
}

/// How it ended.
pub struct Detached {
    pub status: ExitStatus,
    /// The last line that it printed.
    pub last: Value,
    /// Standard error.
    pub err: String,
}

impl Attached {
    /// Starts it with a command and these arguments; returns when it reports `event`.
    pub fn start(mut command: Command, event: &str, args: &[&str]) -> Self {
        let mut child = command
            .args(["--format", "json"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        if line.is_empty() {
            let out = child.wait_with_output().unwrap();
            panic!("{args:?} ended: {}", String::from_utf8_lossy(&out.stderr));
        }
        let started: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(started["event"], event, "{line}");
        Self {
            child,
            out,
            started,
        }
    }

    /// Its process id.
    pub fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.child.id() as i32)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(self.pid(), signal).unwrap();
    }

    /// The next line that it prints, however long that takes.
    pub fn next_event(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Detached {
        let status = until("its end", || self.child.try_wait().unwrap());
        let mut last = Value::Null;
        for line in (&mut self.out).lines() {
            last = serde_json::from_str(&line.unwrap()).unwrap();
        }
        let mut err = String::new();
        self.child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        Detached { status, last, err }
    }

    /// Waits until an `ackwise up` has ended without an error; returns its last event.
    pub fn end_well(self) -> Value {
        let Detached { status, last, err } = self.end();
        assert_eq!(status.code(), Some(0), "{err}");
        assert_eq!(last["event"], "down", "{last}");
        last
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The kernel's information about the privileges of each thread of a process.
pub struct Rights(Vec<String>);

impl Rights {
    /// Reads those of a process.
    pub fn of(pid: u32) -> Self {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let status = tasks.flatten().map(|task| task.path().join("status"));
        let status: Vec<_> = status.flat_map(std::fs::read_to_string).collect();
        assert!(status.len() >= 3, "main, worker, control: {status:?}");
        Self(status)
    }

    /// Checks that every thread belongs to this user, is in no group other than the user's own, has
    /// these capabilities, cannot regain any, and is restricted to certain system calls.
    pub fn are(&self, uid: u32, capabilities: u64, of: &[&str]) {
        for status in &self.0 {
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().split_whitespace().collect::<Vec<_>>()
            };
            let all = |value: &str| vec![value.to_owned(); 4];
            assert_eq!(field("Uid:"), all(&uid.to_string()), "{of:?}: {status}");
            assert_eq!(field("Groups:"), [""; 0], "{of:?}: {status}");
            if uid != 0 {
                assert!(!field("Gid:").contains(&"0"), "{of:?}: {status}");
            }
            let set = |name| u64::from_str_radix(field(name)[0], 16).unwrap();
            for name in ["CapPrm:", "CapEff:"] {
                assert_eq!(set(name), capabilities, "{of:?}: {status}");
            }
            for name in ["CapInh:", "CapBnd:", "CapAmb:"] {
                assert_eq!(set(name), 0, "{of:?}: {status}");
            }
            assert_eq!(field("NoNewPrivs:"), ["1"], "{of:?}: {status}");
            // SECCOMP_MODE_FILTER
            assert_eq!(field("Seccomp:"), ["2"], "{of:?}: {status}");
        }
    }
}
