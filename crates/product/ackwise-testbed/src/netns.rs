//! Network namespaces.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::thread::JoinHandle;

use ackwise_netdev::ifreq::index_of;
use ackwise_netdev::packet_socket::{self, Layer, Receives};
use ackwise_netdev::sockopt;

/// A network namespace. One without a name is removed when this is dropped and nothing runs inside.
#[derive(Debug)]
pub struct Netns(File);

impl Netns {
    /// Creates an empty namespace with its loopback interface up.
    #[allow(
        clippy::new_without_default,
        reason = "it asks the kernel for something"
    )]
    #[must_use]
    pub fn new() -> Self {
        std::thread::spawn(|| {
            // SAFETY: only this thread changes its namespace.
            let r = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(r, 0, "{}", io::Error::last_os_error());
            let here = Self(File::open("/proc/thread-self/ns/net").expect("a namespace"));
            ip("link set lo up");
            here
        })
        .join()
        .expect("a thread in a new namespace")
    }

    /// Opens the namespace that `ip netns add` created with this name.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let file = File::open(format!("/run/netns/{name}"));
        Self(file.unwrap_or_else(|error| panic!("namespace {name}: {error}")))
    }

    /// Runs `work` in a thread inside. Sockets that it opens and processes that it starts stay
    /// inside; a panic continues in the caller.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    self.enter();
                    work()
                })
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts `work` in a thread inside, like [`run`](Self::run), without waiting for it.
    pub fn spawn<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        std::thread::spawn(move || {
            self.enter();
            work()
        })
    }

    fn enter(&self) {
        // SAFETY: a valid descriptor of a namespace.
        let r = unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) };
        assert_eq!(r, 0, "{}", io::Error::last_os_error());
    }

    /// Runs `work` in a thread inside as user 65534, which has no capabilities and cannot regain
    /// them. The other threads keep their user.
    pub fn run_as_nobody<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        const NOBODY: libc::c_long = 65534;
        self.run(|| {
            // SAFETY: no pointers but an empty list. These system calls affect only the calling
            // thread; the functions of the same names would change all threads.
            let done = unsafe {
                let none = std::ptr::null::<libc::gid_t>();
                [
                    libc::syscall(libc::SYS_setgroups, 0 as libc::c_long, none),
                    libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY),
                    libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY),
                ]
            };
            assert_eq!(done, [0; 3], "{}", io::Error::last_os_error());
            work()
        })
    }

    /// A path by which `ip` finds this namespace while the process lives.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Joins two namespaces by a veth pair without addresses, both ends up.
    pub fn wire(&self, here: &str, other: &Self, there: &str) {
        self.run(|| {
            ip(&format!(
                "link add {here} type veth peer name {there} netns {}",
                other.path()
            ));
            set_up(here);
        });
        other.run(|| set_up(there));
    }

    /// The devices of gateways and tunnels, and the number of ackwise programs attached to
    /// interfaces.
    #[must_use]
    pub fn leftovers(&self) -> (Vec<String>, usize) {
        self.run(|| {
            let devices = std::fs::read_to_string("/proc/thread-self/net/dev").expect("devices");
            let devices = devices
                .lines()
                .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
                .filter(|name| name.starts_with("awgate") || name.starts_with("awtun"))
                .collect();
            let filters = run_command("bpftool", "net show")
                .matches("ackwise")
                .count();
            (devices, filters + tcx_links())
        })
    }
}

/// Counts this process's tcx links. Not every bpftool supports tcx; such a link lives as
/// long as a descriptor of it.
fn tcx_links() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fdinfo").expect("descriptors");
    descriptors
        .flatten()
        .filter_map(|fd| std::fs::read_to_string(fd.path()).ok())
        .filter(|info| info.contains("link_type:\ttcx"))
        .count()
}

/// Brings up an interface of the calling thread's namespace, and keeps it silent: no
/// router solicitations appear between the packets of a test.
pub fn set_up(name: &str) {
    let sysctl = |key: &str, value: &str| {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{key}"), value);
    };
    sysctl("accept_dad", "0");
    sysctl("router_solicitations", "0");
    ip(&format!("link set {name} up"));
}

/// Runs `ip` with these arguments in the calling thread's namespace.
///
/// # Panics
/// If it fails.
pub fn ip(args: &str) {
    run_command("ip", args);
}

/// Runs a program with these arguments, separated by spaces, and returns its output.
///
/// # Panics
/// If it cannot be started, or fails.
pub fn run_command(name: &str, args: &str) -> String {
    let out = Command::new(name)
        .args(args.split_whitespace())
        .output()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(
        out.status.success(),
        "{name} {args}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Opens a packet socket for everything that passes an interface of the calling thread's namespace,
/// in either direction. Reads time out after 100 ms.
///
/// # Panics
/// If the interface does not exist.
#[must_use]
pub fn packet_socket(interface: &str) -> OwnedFd {
    let index = index_of(interface).unwrap_or_else(|| panic!("no interface {interface}"));
    let socket = packet_socket::open(Layer::Link).expect("a packet socket");
    packet_socket::bind(&socket, Some(index), Receives::All).expect("a bound packet socket");
    let timeout = libc::timeval {
        tv_sec: 0,
        tv_usec: 100_000,
    };
    sockopt::set(&socket, libc::SOL_SOCKET, libc::SO_RCVTIMEO, &timeout).expect("a timeout");
    socket
}
