//! Errors, with what caused them and how to fix them.

use std::io;
use std::path::PathBuf;

use ackwise_netdev::kernel::release;
use ackwise_netdev::{OLDEST_LINUX, Unfit, missing_helper, unfit, with_causes};
use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;

/// Why the datapath could not be attached, or had to end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not load BPF programs.
    #[error(
        "not permitted to {what}: run as root, or with CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and \
         CAP_PERFMON (missing here: {missing})"
    )]
    Permission {
        /// The operation that was refused.
        what: &'static str,
        /// The capabilities that this process lacks.
        missing: String,
    },
    /// bpf(2) is refused for a reason other than capabilities.
    #[error(
        "not permitted to load BPF programs, although the capabilities are there: a seccomp filter \
         refuses the system call bpf(2), as in some containers; start the container with \
         --security-opt seccomp=unconfined, or with a profile that lets CAP_BPF call it"
    )]
    Refused,
    /// An error of an interface, a device or the attachment of a program.
    #[error(transparent)]
    Netdev(#[from] ackwise_netdev::Error),
    /// The running kernel lacks something.
    #[error(
        "this kernel ({release}) lacks {what}: ackwise works on Linux {OLDEST_LINUX} and newer"
    )]
    Kernel {
        /// `uname -r`.
        release: String,
        /// What is missing.
        what: &'static str,
    },
    /// The running kernel was built or configured so that its verifier refuses the programs.
    #[error("this kernel ({release}) {why}")]
    Unfit {
        /// `uname -r`.
        release: String,
        /// What is wrong with the kernel, and what to do.
        why: &'static str,
        /// Whether this is certain: otherwise another try may succeed.
        is_certain: bool,
    },
    /// The programs cannot be renewed in place.
    #[error("this change needs a new attachment: detach, and attach again")]
    NotRenewable,
    /// Withholding an ACK would be reported to its socket as an error.
    #[error(
        "this kernel ({release}) does not drop a packet silently when a program redirects it to no \
         interface: {what}. ackwise would do harm here and attaches only with --dry-run; please \
         report this"
    )]
    NotSilent {
        /// `uname -r`.
        release: String,
        /// What the kernel does instead.
        what: &'static str,
    },
    /// On this kernel one program may interrupt another on the same CPU.
    #[error(
        "this kernel ({release}) is built with PREEMPT_RT, where programs of one CPU may interrupt \
         each other; ackwise is not safe there: boot a kernel without PREEMPT_RT"
    )]
    PreemptRt {
        /// `uname -r`.
        release: String,
    },
    /// The verifier refused a program.
    #[error(
        "the kernel's verifier refused the program {program}; please report this with `uname -r`. \
         It said last:\n{log}"
    )]
    Verifier {
        /// The name of the program.
        program: &'static str,
        /// The end of the verifier's log.
        log: String,
    },
    /// The limit for locked memory is too low.
    #[error(
        "not enough lockable memory for {map} ({bytes} bytes): raise the limit (`ulimit -l \
         unlimited`, LimitMEMLOCK=infinity) or ask for fewer flows"
    )]
    Memlock {
        /// The map that could not be created.
        map: String,
        /// The memory that all maps together need.
        bytes: u64,
    },
    /// Another process is attached to this interface.
    #[error(
        "{ifname} is already held by process {pid} ({policy}): stop it with `ackwise detach \
         {ifname}` first"
    )]
    Held {
        /// The interface.
        ifname: String,
        /// The process that holds it.
        pid: u32,
        /// The policy of that process.
        policy: String,
    },
    /// The policy needs something that a tc program cannot do.
    #[error(
        "policy {} works only inside the kernel's TCP or the simulator: choose another policy",
        .0.policy
    )]
    Capability(#[from] ackwise_policy::Unsupported),
    /// An option is out of its range.
    #[error("{what} is {value}, but must be {range}")]
    Option {
        /// The option.
        what: &'static str,
        /// The value that was given.
        value: u64,
        /// The permitted range.
        range: String,
    },
    /// The congestion-window hint, or requests for ACKs, at a position where no data leave their
    /// sender.
    #[error(
        "the congestion-window hint and the bit that asks for an ACK are written on the host that \
         sends the data: they need position sender, not {0}"
    )]
    NotTheSender(&'static str),
    /// Requests for an ACK rate are obeyed only at one position and by one policy.
    #[error(
        "requests for an ACK rate are obeyed by the policy every-n, on the host that receives the \
         data: choose policy every-n (with n=1 flows that do not ask are left alone) and position \
         receiver"
    )]
    NotObeying,
    /// No cgroup hierarchy is mounted to attach socket programs to.
    #[error(
        "no cgroup2 file system is mounted, which programs for sockets need: `mount -t cgroup2 none \
         /sys/fs/cgroup`, or name one"
    )]
    NoCgroup,
    /// Programs cannot be attached to the path that was given as a cgroup.
    #[error(
        "{}: {why}: name a directory below the one where cgroups of version 2 are mounted (`mount -t \
         cgroup2` shows it)",
        path.display()
    )]
    Cgroup {
        /// The path that was given.
        path: PathBuf,
        /// What it is instead, or why it cannot be opened.
        why: String,
    },
    /// The interface was deleted, or left the network namespace, while attached.
    #[error(
        "{0} was deleted, or moved to another network namespace, while ackwise was attached to it; \
         nothing is held any more"
    )]
    InterfaceGone(String),
    /// The TAP device through which held ACKs come back was deleted or taken down while attached.
    #[error(
        "the device by which held ACKs come back to {0} was deleted or taken down by someone else; \
         nothing is held any more"
    )]
    DeviceGone(String),
    /// Someone else removed a filter of the datapath from clsact.
    #[error(
        "the filters through which ackwise sees the packets of {0} were removed by someone else \
         (`tc qdisc del dev {0} clsact`, or `tc filter del`); nothing is held any more"
    )]
    FilterGone(String),
    /// Nothing is attached to the interface.
    #[error(
        "ackwise is not attached to {0} in this network namespace (`ackwise status` lists what is)"
    )]
    NotAttached(String),
    /// The process that holds an interface did not answer as expected.
    #[error("process {pid} holds the interface but does not answer: {why}")]
    Control {
        /// The holder.
        pid: u32,
        /// What happened.
        why: String,
    },
    /// A system call failed that has no variant of its own.
    #[error("cannot {what}: {source}")]
    System {
        /// The operation: "open the cgroup".
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A part of the object file is not as this loader was built for.
    #[error("the embedded BPF object has no usable {0}: rebuild ackwise")]
    Object(String),
    /// Any other error of the loader library.
    #[error("loading the BPF programs: {}", with_causes(.0.as_ref()))]
    Load(Box<EbpfError>),
    /// A map operation failed.
    #[error("a BPF map: {}", with_causes(.0.as_ref()))]
    Map(Box<MapError>),
}

impl From<MapError> for Error {
    fn from(e: MapError) -> Self {
        Self::Map(Box::new(e))
    }
}

impl Error {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// Checks that this process has the capabilities that attaching needs.
pub(crate) fn check_capabilities() -> Result<(), Error> {
    let missing = missing_capabilities();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Permission {
        what: "load BPF programs and attach them",
        missing,
    })
}

/// The capabilities that attaching needs and this process lacks.
fn missing_capabilities() -> String {
    // (name, bit): linux/capability.h
    const REQUIRED_CAPABILITIES: [(&str, u32); 4] = [
        ("CAP_NET_ADMIN", 12),
        ("CAP_NET_RAW", 13),
        ("CAP_PERFMON", 38),
        ("CAP_BPF", 39),
    ];
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let have = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .and_then(|v| u64::from_str_radix(v.trim(), 16).ok())
        .unwrap_or(0);
    // CAP_SYS_ADMIN stands in for CAP_BPF and CAP_PERFMON.
    let admin = have & 1 << 21 != 0;
    let missing: Vec<_> = REQUIRED_CAPABILITIES
        .iter()
        .filter(|(_, bit)| have & 1 << bit == 0 && !(admin && *bit >= 38))
        .map(|(name, _)| *name)
        .collect();
    missing.join(", ")
}

/// Refuses a kernel on which the programs are not safe: they keep a packet's data in per-CPU
/// memory, and spin for locks whose holder must not be preempted. `version` is that of uname(2).
pub(crate) fn check_preemption(version: &str) -> Result<(), Error> {
    let is_rt = version
        .split_whitespace()
        .any(|word| word.eq_ignore_ascii_case("PREEMPT_RT"));
    if is_rt {
        return Err(Error::PreemptRt { release: release() });
    }
    Ok(())
}

/// Returns what `uname -v` prints.
pub(crate) fn version() -> String {
    nix::sys::utsname::uname().map_or_else(
        |_| String::new(),
        |u| u.version().to_string_lossy().into_owned(),
    )
}

/// The last lines of a verifier log, which say why a program was refused.
fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// Converts a load error to the most helpful variant.
pub(crate) fn load_error(e: EbpfError, bytes: u64) -> Error {
    if let EbpfError::MapError(MapError::CreateError { name, io_error, .. }) = &e {
        match io_error.raw_os_error() {
            Some(libc::EPERM) if missing_capabilities().is_empty() => {
                return Error::Memlock {
                    map: name.clone(),
                    bytes,
                };
            }
            Some(libc::EPERM) => {
                return Error::Permission {
                    what: "create BPF maps",
                    missing: missing_capabilities(),
                };
            }
            Some(libc::ENOMEM) => {
                return Error::Memlock {
                    map: name.clone(),
                    bytes,
                };
            }
            Some(libc::EINVAL) if name == "emissions" => {
                return Error::Kernel {
                    release: release(),
                    what: "the BPF ring buffer",
                };
            }
            Some(libc::EINVAL | libc::EOPNOTSUPP) if name == "ticker" => {
                return Error::Kernel {
                    release: release(),
                    what: "BPF timers",
                };
            }
            _ => {}
        }
    }
    // Linux has had global data for longer than it has had what ackwise needs. If they do not work,
    // not even a map can be created.
    if matches!(e, EbpfError::RelocationError(_)) && !aya::features().bpf_global_data() {
        let missing = missing_capabilities();
        if missing.is_empty() {
            return Error::Refused;
        }
        return Error::Permission {
            what: "load BPF programs",
            missing,
        };
    }
    Error::Load(Box::new(e))
}

/// Converts a load error of one program to the most helpful variant.
pub(crate) fn program_error(program: &'static str, e: ProgramError) -> Error {
    match e {
        ProgramError::LoadError {
            io_error,
            verifier_log,
        } => {
            let log = verifier_log.to_string();
            if let Some(what) = missing_helper() {
                return Error::Kernel {
                    release: release(),
                    what,
                };
            }
            let missing = missing_capabilities();
            if io_error.raw_os_error() == Some(libc::EPERM) && !missing.is_empty() {
                return Error::Permission {
                    what: "load BPF programs",
                    missing,
                };
            }
            if let Some(Unfit { why, is_certain }) = unfit(&log) {
                return Error::Unfit {
                    release: release(),
                    why,
                    is_certain,
                };
            }
            Error::Verifier {
                program,
                log: if log.is_empty() {
                    io_error.to_string()
                } else {
                    tail(&log)
                },
            }
        }
        other => Error::Load(Box::new(EbpfError::ProgramError(other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_a_kernel_with_preempt_rt_is_refused() {
        let rt = "#1 SMP PREEMPT_RT Debian 6.12.43-1 (2026-08-27)";
        let error = check_preemption(rt).expect_err("it is refused");
        assert!(error.to_string().contains("PREEMPT_RT"), "{error}");
        for version in [
            "#1 SMP PREEMPT_DYNAMIC Debian 6.12.43-1 (2026-08-27)",
            "#1 SMP PREEMPT @0",
            "",
        ] {
            assert!(check_preemption(version).is_ok(), "{version}");
        }
    }
}
