//! The privileges that a running daemon has left, and that it ends properly without the others.

mod common;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ackwise_testbed::program::{Ended, must, root, until};
use common::{ACKWISE, Net, Rights};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;

/// A daemon in the receiver's namespace, killed when this is dropped.
struct Up(Child);

impl Up {
    fn start(net: &Net, before: &[&str], args: &[&str]) -> Self {
        let command = [before, &[ACKWISE.path(), "--format", "json"], args].concat();
        let child = net
            .in_receiver(command[0])
            .args(&command[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut up = Self(child.unwrap());
        // It reports when it is up. Its last output fits into the pipe.
        let mut line = String::new();
        let mut out = BufReader::new(up.0.stdout.as_mut().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(line.contains("\"event\""), "{args:?}: {}", up.output());
        up
    }

    fn output(&mut self) -> String {
        let mut output = String::new();
        let mut err = self.0.stderr.take().unwrap();
        err.read_to_string(&mut output).unwrap();
        output
    }

    /// Ends it, and returns its standard error.
    fn end(mut self, signal: Signal) -> String {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
        let status = until("its end", || self.0.try_wait().unwrap());
        let output = self.output();
        let expected = (signal != Signal::SIGKILL).then_some(0);
        assert_eq!(status.code(), expected, "{output}");
        output
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The registry's files of daemons in the receiver's namespace.
fn registered(net: &Net) -> Vec<String> {
    let netns = std::fs::metadata(Path::new("/run/netns").join(&net.receiver));
    let netns = format!("-{}-", netns.unwrap().ino());
    let files = std::fs::read_dir("/run/ackwise").unwrap().flatten();
    files
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .filter(|name| name.contains(&netns))
        .collect()
}

/// The numbers of devices and filters of daemons, and whether the interface has the qdisc that the
/// datapath adds and removes.
fn left(net: &Net, of: &str) -> (usize, usize, bool) {
    let Net { receiver, .. } = net;
    let links = must(&format!("ip -n {receiver} -o link show"));
    let devices = ["awgate", "awtun", "ackwise"].map(|name| links.matches(name).count());
    let qdisc = of == "attach" && net.queues().contains("clsact");
    (devices.iter().sum(), net.programs(), qdisc)
}

/// Removes the interface's clsact qdisc, if it has one.
fn no_clsact(net: &Net) {
    let _ = Command::new("tc")
        .args(["-n", &net.receiver, "qdisc", "del", "dev"])
        .args([&net.iface, "clsact"])
        .stderr(Stdio::null())
        .status();
}

/// The arguments of each daemon for each attach mode, and the capabilities that it keeps.
fn daemons(net: &Net, config: &str) -> Vec<(Vec<String>, u64)> {
    let Net { iface, .. } = net;
    let rate = "--rate 10_Mbit/s";
    let gateway = format!("gateway up {iface} --min-rate 1_Mbit/s --acc {rate}");
    let daemons = [
        (format!("attach {iface} --attach-mode tcx"), NET_RAW),
        (
            format!("attach {iface} --attach-mode clsact"),
            NET_ADMIN | NET_RAW,
        ),
        (
            format!("attach {iface} --position sender --attach-mode tcx"),
            0,
        ),
        (format!("{gateway} --attach-mode tcx"), 0),
        (format!("{gateway} --attach-mode clsact"), NET_ADMIN),
        (format!("tunnel up {config} --attach-mode tcx"), 0),
        (
            format!("tunnel up {config} --attach-mode clsact"),
            NET_ADMIN,
        ),
    ];
    // A space ends an argument; an underscore stands for a space inside.
    let argument = |word: &str| word.replace('_', " ");
    let words = |line: String| line.split(' ').map(argument).collect();
    daemons.map(|(line, kept)| (words(line), kept)).into()
}

/// The configuration of a tunnel that takes ACKs from the interface. Its key is a dummy.
fn tunnel(net: &Net, user: &str, files: &Path) -> String {
    let keygen = |name: &str| {
        let key = files.join(name);
        let Ended { code, out, err } = ACKWISE.run(&["tunnel", "keygen", key.to_str().unwrap()]);
        assert_eq!(code, 0, "{err}");
        out.trim().to_owned()
    };
    keygen("own.key");
    let text = format!(
        "listen_port = 51830\nprivate_key = \"own.key\"\ninterface = \"{}\"\n{user}\n[[peer]]\n\
         name = \"far\"\npublic_key = \"{}\"\nendpoint = \"10.9.0.1:51830\"\n\
         allowed_ips = [\"10.9.0.1\"]\n",
        net.iface,
        keygen("far.key")
    );
    let config = files.join("tunnel.toml");
    std::fs::write(&config, text).unwrap();
    config.to_str().unwrap().to_owned()
}

#[test]
fn m6_each_daemon_keeps_what_it_uses_and_nothing_is_left_of_it() {
    root();
    let net = Net::new();
    let files = tempfile::tempdir().unwrap();
    let config = tunnel(&net, "user = \"nobody\"", files.path());
    for (mut args, kept) in daemons(&net, &config) {
        if args[0] != "tunnel" {
            args.extend(["--user", "nobody"].map(str::to_owned));
        }
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let up = Up::start(&net, &[], &args);
            Rights::of(up.0.id()).are(65534, kept, &args);
            assert_eq!(registered(&net).len(), 2, "{args:?}");
            assert!(net.programs() > 0, "{args:?}");
            assert!(net.download(1) > 100_000, "{args:?}");
            let output = up.end(signal);
            until("the janitor", || registered(&net).is_empty().then_some(()));
            if signal == Signal::SIGTERM {
                assert_eq!(left(&net, args[0]), (0, 0, false), "{args:?}: {output}");
            }
        }
        // What a killed daemon leaves on clsact lets everything pass.
        no_clsact(&net);
    }
}

#[test]
fn m6_without_a_user_it_stays_roots_and_says_so() {
    root();
    let net = Net::new();
    if must("getent passwd")
        .lines()
        .any(|line| line.starts_with("ackwise:"))
    {
        panic!("this machine has a user ackwise: run this test where there is none");
    }
    let up = Up::start(&net, &[], &["attach", &net.iface]);
    Rights::of(up.0.id()).are(0, NET_RAW, &[]);
    let output = up.end(Signal::SIGINT);
    assert!(
        output.contains("keeps running as root") && output.contains("--user"),
        "{output}"
    );
    assert!(registered(&net).is_empty());
    let up = Up::start(&net, &[], &["attach", &net.iface, "--user", "root"]);
    assert_eq!(up.end(Signal::SIGINT), "");
}

/// Only these processes see the modified list of users.
#[test]
fn m6_the_daemons_own_user_is_taken_if_there_is_one() {
    root();
    let net = Net::new();
    let files = tempfile::tempdir().unwrap();
    let users = files.path().join("passwd");
    let mut text = std::fs::read_to_string("/etc/passwd").unwrap();
    text.push_str("ackwise:x:64321:64322::/:/usr/sbin/nologin\n");
    std::fs::write(&users, text).unwrap();
    let shell = format!(
        "mount --bind {} /etc/passwd && exec \"$0\" \"$@\"",
        users.display()
    );
    let before = ["unshare", "--mount", "sh", "-c", &shell];
    let rate = ["--rate", "10 Mbit/s"];
    let gateway = [&["gateway", "up", net.iface.as_str()][..], &rate].concat();
    for (args, kept) in [
        (&["attach", net.iface.as_str()][..], NET_RAW),
        (&gateway, 0),
    ] {
        let up = Up::start(&net, &before, args);
        Rights::of(up.0.id()).are(64321, kept, args);
        assert_eq!(up.end(Signal::SIGTERM), "");
        assert!(registered(&net).is_empty());
    }
}

#[test]
fn m6_a_user_that_is_not_there_is_bad_input_and_nothing_stays_attached() {
    root();
    let net = Net::new();
    let files = tempfile::tempdir().unwrap();
    let config = tunnel(&net, "user = \"nosuch\"", files.path());
    for (mut args, _) in daemons(&net, &config) {
        if args[0] != "tunnel" {
            args.extend(["--user", "nosuch"].map(str::to_owned));
        }
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        let Ended { code, err, .. } = net.run(&args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains("no user 'nosuch'"), "{err}");
        assert_eq!(left(&net, args[0]), (0, 0, false), "{args:?}");
        assert!(registered(&net).is_empty());
        no_clsact(&net);
    }
}

/// Makes the kernel refuse bpf(2) to a command with EPERM, like the filters of some containers.
fn refuse_bpf(command: &mut Command) {
    use nix::libc;

    let refuse = || {
        let step = |code: u32, jt, jf, k| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        // The number of the call is the first word that the filter sees.
        let mut steps = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ, 0, 1, libc::SYS_bpf as u32),
            step(
                libc::BPF_RET,
                0,
                0,
                libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
            ),
            step(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let program = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        let filter = libc::SECCOMP_MODE_FILTER;
        // SAFETY: the program outlives the call.
        match unsafe { libc::prctl(libc::PR_SET_SECCOMP, filter, &raw const program) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec this makes one system call and allocates nothing.
    unsafe { command.pre_exec(refuse) };
}

#[test]
fn a_filter_that_refuses_bpf_is_named() {
    let net = Net::new();
    let mut command = net.in_receiver(ACKWISE.path());
    refuse_bpf(command.args(["attach", &net.iface]));
    let Ended { code, err, .. } = Ended::of(&command.output().unwrap());
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("bpf(2)") && err.contains("seccomp"), "{err}");
}
