//! The datapath in a separate process, which tests kill and stop.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use ackwise_datapath::{AttachMode, Datapath, Stats, control};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::network::Network;

/// Environment of the process that attaches: interface, policy, hook.
const CHILD: &str = "ACKWISE_FAULTS_DAEMON";
const READY: &str = "attached, at work";

/// In a process that [`Daemon::start`] made, attaches until it is killed or its parent is gone.
/// Elsewhere it returns false at once.
pub fn is_daemon() -> bool {
    let Ok(arguments) = std::env::var(CHILD) else {
        return false;
    };
    let [ifname, policy, hook] = arguments.split('|').collect::<Vec<_>>()[..] else {
        panic!("{CHILD}={arguments}");
    };
    let mut options = super::options(ifname, policy);
    options.attach = match hook {
        "tcx" => AttachMode::Tcx,
        "clsact" => AttachMode::Clsact,
        other => panic!("no hook {other}"),
    };
    let attachment = Datapath::attach(options).unwrap_or_else(|error| panic!("{error}"));
    println!("{READY}");
    std::thread::spawn(|| {
        // Ends with the parent, or when it asks for it.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let _ = attachment.wait(Duration::from_secs(120));
    true
}

/// The parent's handle to the process; killed on drop.
pub struct Daemon {
    child: Child,
    _stdin: Option<ChildStdin>,
    node: String,
    ifname: String,
}

impl Daemon {
    /// Starts `test`, which must call [`is_daemon`] first of all.
    pub fn start(network: &Network, node: &str, policy: &str, hook: &str, test: &str) -> Self {
        let ifname = network.interface(node, "wan");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{ifname}|{policy}|{hook}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = network.inside(node, || command.spawn().expect("a process"));
        let mut daemon = Self {
            _stdin: child.stdin.take(),
            node: node.to_owned(),
            ifname,
            child,
        };
        let output = BufReader::new(daemon.child.stdout.take().expect("piped"));
        let mut lines = output.lines();
        assert!(
            lines.any(|line| line.is_ok_and(|line| line.contains(READY))),
            "the daemon did not attach"
        );
        std::thread::spawn(move || lines.for_each(drop));
        daemon
    }

    /// The current counters.
    pub fn stats(&self, network: &Network) -> Stats {
        network.inside(&self.node, || {
            control::status(&self.ifname, 0)
                .unwrap_or_else(|error| panic!("{error}"))
                .stats
        })
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("a signal");
    }

    /// Kills the process with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().expect("SIGKILL");
        self.child.wait().expect("gone");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Number of tcx programs on an interface of the calling thread's namespace, in both directions.
pub fn tcx_programs(ifname: &str) -> u32 {
    /// The part of `union bpf_attr` for BPF_PROG_QUERY.
    #[repr(C, align(8))]
    #[derive(Default)]
    struct Query {
        target_ifindex: u32,
        attach_type: u32,
        query_flags: u32,
        attach_flags: u32,
        prog_ids: u64,
        count: u32,
        pad: u32,
        prog_attach_flags: u64,
        link_ids: u64,
        link_attach_flags: u64,
        revision: u64,
    }
    const BPF_PROG_QUERY: libc::c_long = 16;
    const BPF_TCX_INGRESS: u32 = 46;
    const BPF_TCX_EGRESS: u32 = 47;

    let name = std::ffi::CString::new(ifname).expect("no NUL");
    // SAFETY: a terminated string.
    let target_ifindex = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert!(target_ifindex > 0, "no {ifname}");
    [BPF_TCX_INGRESS, BPF_TCX_EGRESS]
        .into_iter()
        .map(|attach_type| {
            let mut query = Query {
                target_ifindex,
                attach_type,
                ..Query::default()
            };
            // SAFETY: the structure is live, its size is given, and with no room
            // for ids the kernel writes to nothing else.
            let r = unsafe {
                libc::syscall(
                    libc::SYS_bpf,
                    BPF_PROG_QUERY,
                    &raw mut query,
                    size_of::<Query>(),
                )
            };
            assert_eq!(r, 0, "{}", std::io::Error::last_os_error());
            query.count
        })
        .sum()
}
