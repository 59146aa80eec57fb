//! What a process may still do after it has dropped its privileges. Each call is made in a separate
//! process, which runs this test again.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use ackwise_netdev::privileges::{PrivilegedOps, drop_all};
use libc::c_long;

/// The variable that names the call to make.
const CALL: &str = "ACKWISE_TEST_CALL";

/// A system call with arguments.
struct Call {
    name: &'static str,
    number: c_long,
    arguments: [c_long; 4],
    /// Whether a daemon may make it.
    permitted: bool,
}

const fn refused(name: &'static str, number: c_long, arguments: [c_long; 4]) -> Call {
    let permitted = false;
    Call {
        name,
        number,
        arguments,
        permitted,
    }
}

const fn permitted(name: &'static str, number: c_long, arguments: [c_long; 4]) -> Call {
    Call {
        permitted: true,
        ..refused(name, number, arguments)
    }
}

const UNIX: c_long = libc::AF_UNIX as c_long;
const PACKET: c_long = libc::AF_PACKET as c_long;
const DATAGRAM: c_long = libc::SOCK_DGRAM as c_long;
const CWD: c_long = libc::AT_FDCWD as c_long;
const ANONYMOUS: c_long = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as c_long;
const WRITE: c_long = libc::PROT_WRITE as c_long;
const EXECUTE: c_long = libc::PROT_EXEC as c_long;
const READ_WRITE: c_long = libc::O_RDWR as c_long;
const CREATE: c_long = libc::O_CREAT as c_long;
const SIGCHLD: c_long = libc::SIGCHLD as c_long;
const TIOCSTI: c_long = libc::TIOCSTI as c_long;
const SIOCSIFFLAGS: c_long = libc::SIOCSIFFLAGS as c_long;
const SIOCGIFFLAGS: c_long = libc::SIOCGIFFLAGS as c_long;
const NEWNET: c_long = libc::CLONE_NEWNET as c_long;
const SET_DUMPABLE: c_long = libc::PR_SET_DUMPABLE as c_long;

/// Where an address is expected, none is given: the result of a permitted call does not matter.
const CALLS: [Call; 28] = [
    refused("execve", libc::SYS_execve, [0; 4]),
    refused("execveat", libc::SYS_execveat, [CWD, 0, 0, 0]),
    refused("ptrace", libc::SYS_ptrace, [0; 4]),
    refused("process_vm_readv", libc::SYS_process_vm_readv, [1, 0, 0, 0]),
    refused("fork", libc::SYS_clone, [SIGCHLD, 0, 0, 0]),
    refused("unshare", libc::SYS_unshare, [NEWNET, 0, 0, 0]),
    refused("setns", libc::SYS_setns, [0; 4]),
    refused("mount", libc::SYS_mount, [0; 4]),
    refused("kill", libc::SYS_kill, [1, 0, 0, 0]),
    refused("tgkill", libc::SYS_tgkill, [1, 1, 0, 0]),
    refused("bpf: load a program", libc::SYS_bpf, [5, 0, 0, 0]),
    refused("bpf: look into a map", libc::SYS_bpf, [1, 0, 0, 0]),
    refused(
        "socket: packets",
        libc::SYS_socket,
        [PACKET, DATAGRAM, 0, 0],
    ),
    refused(
        "openat: to write",
        libc::SYS_openat,
        [CWD, 0, READ_WRITE, 0],
    ),
    refused("openat: to make", libc::SYS_openat, [CWD, 0, CREATE, 0]),
    refused(
        "mmap",
        libc::SYS_mmap,
        [0, 4096, WRITE | EXECUTE, ANONYMOUS],
    ),
    refused("mprotect", libc::SYS_mprotect, [0, 0, EXECUTE, 0]),
    refused("ioctl: type", libc::SYS_ioctl, [0, TIOCSTI, 0, 0]),
    refused("ioctl: set flags", libc::SYS_ioctl, [0, SIOCSIFFLAGS, 0, 0]),
    refused("prctl", libc::SYS_prctl, [SET_DUMPABLE, 1, 0, 0]),
    refused("prlimit64: set", libc::SYS_prlimit64, [0, 0, 1, 0]),
    refused("setresuid", libc::SYS_setresuid, [0; 4]),
    permitted("accept", libc::SYS_accept, [0; 4]),
    permitted("socket", libc::SYS_socket, [UNIX, DATAGRAM, 0, 0]),
    permitted("openat", libc::SYS_openat, [CWD, 0, 0, 0]),
    permitted("mmap: data", libc::SYS_mmap, [0, 4096, WRITE, ANONYMOUS]),
    permitted("ioctl: ask", libc::SYS_ioctl, [0, SIOCGIFFLAGS, 0, 0]),
    permitted("clone3: not there", libc::SYS_clone3, [0, 0, 0, 0]),
];

/// Runs a test of this file in a separate process, which makes this call.
fn process_that_calls(test: &str, call: &str, log_only: bool) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]);
    command.env(CALL, call).env_remove("ACKWISE_SECCOMP");
    if log_only {
        command.env("ACKWISE_SECCOMP", "log");
    }
    command.output().unwrap().status
}

fn make(call: &Call) {
    let [a, b, c, d] = call.arguments;
    // SAFETY: no address is given, so the kernel accesses no memory of this process; anything that
    // the call changes about the process ends with it.
    unsafe { libc::syscall(call.number, a, b, c, d, -1, 0) };
}

#[test]
fn m6_a_call_that_no_daemon_makes_kills_the_process() {
    if let Ok(name) = std::env::var(CALL) {
        drop_all(None, &PrivilegedOps::default()).unwrap();
        make(CALLS.iter().find(|call| call.name == name).unwrap());
        std::process::exit(0);
    }
    let test = "m6_a_call_that_no_daemon_makes_kills_the_process";
    for call in &CALLS {
        let status = process_that_calls(test, call.name, false);
        let expected = (!call.permitted).then_some(libc::SIGSYS);
        assert_eq!(status.signal(), expected, "{}: {status}", call.name);
    }
    let status = process_that_calls(test, "mount", true);
    assert_eq!(status.code(), Some(0), "only logged: {status}");
}

/// Threads, files, sockets, time and a panic work as before.
#[test]
fn m6_what_a_daemon_does_works() {
    if std::env::var_os(CALL).is_none() {
        let status = process_that_calls("m6_what_a_daemon_does_works", "all", false);
        assert_eq!(status.code(), Some(7), "{status}");
        return;
    }
    drop_all(None, &PrivilegedOps::default()).unwrap();
    let threads = (0..4).map(|n| {
        let work = move || {
            let mut text = String::new();
            let file = std::fs::File::open("/proc/thread-self/net/dev");
            file.unwrap().read_to_string(&mut text).unwrap();
            assert!(text.contains("lo:"));
            std::thread::sleep(std::time::Duration::from_millis(1));
            vec![n; 1 << 20].len()
        };
        std::thread::Builder::new().spawn(work).unwrap()
    });
    let threads: Vec<_> = threads.collect();
    assert_eq!(
        threads
            .into_iter()
            .map(|t| t.join().unwrap())
            .sum::<usize>(),
        4 << 20
    );
    let (one, other) = (
        std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        std::net::UdpSocket::bind("[::1]:0").unwrap(),
    );
    one.send_to(&[1], one.local_addr().unwrap()).unwrap();
    assert_eq!(one.recv(&mut [0; 2]).unwrap(), 1);
    drop(other);
    // Name resolution works: files, the resolver's sockets, and whatever the libc loads for it.
    use std::net::ToSocketAddrs;
    assert!(("localhost", 1).to_socket_addrs().unwrap().next().is_some());
    let _ = ("no-such-host.invalid", 1).to_socket_addrs();
    let panicked = std::thread::spawn(|| panic!("on purpose")).join();
    assert!(panicked.is_err());
    std::process::exit(7);
}

/// All five capability sets are empty, and nothing can be regained.
#[test]
fn m6_no_right_is_left() {
    if std::env::var_os(CALL).is_none() {
        let status = process_that_calls("m6_no_right_is_left", "all", false);
        assert_eq!(status.code(), Some(7), "{status}");
        return;
    }
    drop_all(None, &PrivilegedOps::default()).unwrap();
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(field(set), "0".repeat(16), "{set}");
    }
    let bounding = match nix::unistd::geteuid().is_root() {
        true => "0".repeat(16),
        false => field("CapBnd:"),
    };
    assert_eq!(field("CapBnd:"), bounding);
    assert_eq!(
        (field("NoNewPrivs:"), field("Seccomp:")),
        ("1".into(), "2".into())
    );
    std::process::exit(7);
}
