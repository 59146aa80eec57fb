//! Namespaces without names: they go with the last descriptor. Also for the tests of other
//! crates.
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Two cores are not for two tests at once. Also the place where root is asked for.
pub fn alone() -> MutexGuard<'static, ()> {
    // SAFETY: no arguments, cannot fail.
    let user = unsafe { libc::geteuid() };
    assert_eq!(user, 0, "these tests load BPF programs: run them as root");
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct Netns(File);

impl Netns {
    pub fn new() -> Self {
        std::thread::spawn(|| {
            // SAFETY: only this thread changes its namespace.
            let r = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            assert_eq!(r, 0, "{}", io::Error::last_os_error());
            let here = Self(File::open("/proc/thread-self/ns/net").unwrap());
            ip("link set lo up");
            here
        })
        .join()
        .unwrap()
    }

    /// Runs something in a thread of this namespace.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    // SAFETY: a valid descriptor of a namespace.
                    let r = unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) };
                    assert_eq!(r, 0, "{}", io::Error::last_os_error());
                    f()
                })
                .join()
                .unwrap_or_else(|e| std::panic::resume_unwind(e))
        })
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// A veth pair: `here` in this namespace, `there` in the other, both up, with
    /// addresses .1 and .2, ::1 and ::2 of network `n`.
    pub fn veth(&self, here: &str, other: &Netns, there: &str, n: u8) {
        self.wire(here, other, there);
        self.run(|| address(here, n, 1));
        other.run(|| address(there, n, 2));
    }

    /// The same without addresses.
    pub fn wire(&self, here: &str, other: &Netns, there: &str) {
        self.run(|| {
            ip(&format!(
                "link add {here} type veth peer name {there} netns {}",
                other.path()
            ));
            up(here);
        });
        other.run(|| up(there));
    }

    /// Devices of gateways and tunnels that are there, and the programs at interfaces.
    pub fn leftovers(&self) -> (Vec<String>, usize) {
        self.run(|| {
            let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let devices = devices
                .lines()
                .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
                .filter(|name| name.starts_with("awgate") || name.starts_with("awtun"))
                .collect();
            let filters = command("bpftool", "net show").matches("ackwise").count();
            (devices, filters + tcx_links())
        })
    }
}

/// Not every bpftool knows tcx. Such a link lives as long as a descriptor of it.
fn tcx_links() -> usize {
    let descriptors = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    descriptors
        .filter_map(|fd| std::fs::read_to_string(fd.path()).ok())
        .filter(|info| info.contains("link_type:\ttcx"))
        .count()
}

/// Up, and silent: no router solicitations between the packets of a test.
pub fn up(name: &str) {
    let sysctl = |key: &str, value: &str| {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/{key}"), value);
    };
    sysctl("accept_dad", "0");
    sysctl("router_solicitations", "0");
    ip(&format!("link set {name} up"));
}

fn address(name: &str, n: u8, host: u8) {
    ip(&format!("addr add 10.9.{n}.{host}/24 dev {name}"));
    ip(&format!("addr add fd09:{n}::{host}/64 dev {name} nodad"));
}

pub fn ip(args: &str) {
    command("ip", args);
}

pub fn command(name: &str, args: &str) -> String {
    let out = Command::new(name)
        .args(args.split_whitespace())
        .output()
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(
        out.status.success(),
        "{name} {args}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// Everything that passes an interface of this thread's namespace, in either direction;
/// reading it gives up after 100 ms.
pub fn packet_socket(interface: &str) -> OwnedFd {
    let name = CString::new(interface).unwrap();
    let all = (libc::ETH_P_ALL as u16).to_be();
    // SAFETY: a terminated string; plain data, for which zero is a value; an address and
    // a time that live as long as the calls.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = libc::socket(libc::AF_PACKET, kind, i32::from(all));
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        let fd = OwnedFd::from_raw_fd(fd);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = all;
        address.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
        let size = size_of::<libc::sockaddr_ll>() as u32;
        let bound = libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size);
        assert_eq!(bound, 0, "{}", io::Error::last_os_error());
        let patience = libc::timeval {
            tv_sec: 0,
            tv_usec: 100_000,
        };
        let (level, option) = (libc::SOL_SOCKET, libc::SO_RCVTIMEO);
        let size = size_of::<libc::timeval>() as u32;
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            (&raw const patience).cast(),
            size,
        );
        fd
    }
}

/// Waits until something is there.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
