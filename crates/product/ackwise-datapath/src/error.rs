//! What can go wrong, where, and what mends it.

use std::io;
use std::path::PathBuf;

use ackwise_netdev::kernel::release;
use ackwise_netdev::{OLDEST_LINUX, missing_helper, unfit, with_causes};
use aya::EbpfError;
use aya::maps::MapError;
use aya::programs::ProgramError;

/// Why an attachment could not be made, or did not last.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process may not load BPF programs.
    #[error(
        "not permitted to {what}: run as root, or with CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW and \
         CAP_PERFMON (missing here: {missing})"
    )]
    Permission {
        /// What was refused.
        what: &'static str,
        /// The capabilities that this process lacks.
        missing: String,
    },
    /// Something other than the capabilities keeps the process from bpf(2).
    #[error(
        "not permitted to load BPF programs, although the capabilities are there: a seccomp filter \
         refuses the system call bpf(2), as in some containers; start the container with \
         --security-opt seccomp=unconfined, or with a profile that lets CAP_BPF call it"
    )]
    Refused,
    /// An interface, a device or the attachment of a program.
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
    /// The running kernel was built or set in a way that its verifier refuses the programs.
    #[error("this kernel ({release}) {why}")]
    Unfit {
        /// `uname -r`.
        release: String,
        /// In which way, and what to do.
        why: &'static str,
    },
    /// The programs stay as they are.
    #[error("this change needs a new attachment: detach, and attach again")]
    NotRenewable,
    /// Withheld ACKs would be errors to their sockets.
    #[error(
        "this kernel ({release}) does not drop a packet silently when a program redirects it to no \
         interface: {what}. ackwise would do harm here and attaches only with --dry-run; please \
         report this"
    )]
    NotSilent {
        /// `uname -r`.
        release: String,
        /// What it does instead.
        what: &'static str,
    },
    /// The kernel lets one program of an interface interrupt another on the same CPU.
    #[error(
        "this kernel ({release}) is built with PREEMPT_RT, where programs of one CPU may interrupt \
         each other; ackwise is not safe there: boot a kernel without PREEMPT_RT"
    )]
    PreemptRt {
        /// `uname -r`.
        release: String,
    },
    /// The verifier did not accept a program.
    #[error(
        "the kernel's verifier refused the program {program}; please report this with `uname -r`. \
         It said last:\n{log}"
    )]
    Verifier {
        /// Which one.
        program: &'static str,
        /// The end of the verifier's log.
        log: String,
    },
    /// Memory that may be locked ran out.
    #[error(
        "not enough lockable memory for {map} ({bytes} bytes): raise the limit (`ulimit -l \
         unlimited`, LimitMEMLOCK=infinity) or ask for fewer flows"
    )]
    Memlock {
        /// The map.
        map: String,
        /// What all maps together want.
        bytes: u64,
    },
    /// Somebody else is attached to this interface.
    #[error(
        "{ifname} is already held by process {pid} ({policy}): stop it with `ackwise detach \
         {ifname}` first"
    )]
    Held {
        /// The interface.
        ifname: String,
        /// Who holds it.
        pid: u32,
        /// With which policy.
        policy: String,
    },
    /// The policy wants something that a tc program cannot do.
    #[error("{0}: choose another policy, or another environment for this one")]
    Capability(#[from] ackwise_policy::Unsupported),
    /// An option is out of its range.
    #[error("{what} is {value}, but must be {range}")]
    Option {
        /// The option.
        what: &'static str,
        /// As given.
        value: u64,
        /// What would do.
        range: String,
    },
    /// The congestion-window hint, or requests for ACKs, where no data leave their sender.
    #[error(
        "the congestion-window hint and the bit that asks for an ACK are written on the host that \
         sends the data: they need position sender, not {0}"
    )]
    NotTheSender(&'static str),
    /// Requests for an ACK rate are for one place and one policy.
    #[error(
        "requests for an ACK rate are obeyed by the policy every-n, on the host that receives the \
         data: choose policy every-n (with n=1 flows that do not ask are left alone) and position \
         receiver"
    )]
    NotObeying,
    /// There is nothing to attach a program for sockets to.
    #[error(
        "no cgroup2 file system is mounted, which programs for sockets need: `mount -t cgroup2 none \
         /sys/fs/cgroup`, or name one"
    )]
    NoCgroup,
    /// What was named as a cgroup is none that programs can be attached to.
    #[error(
        "{}: {why}: name a directory below the one where cgroups of version 2 are mounted (`mount -t \
         cgroup2` shows it)",
        path.display()
    )]
    Cgroup {
        /// As given.
        path: PathBuf,
        /// What it is instead, or why it cannot be opened.
        why: String,
    },
    /// The interface went away while attached.
    #[error("{0} was deleted while ackwise was attached to it; nothing is held any more")]
    InterfaceGone(String),
    /// The TAP device by which held ACKs come back went away while attached.
    #[error(
        "the device by which held ACKs come back to {0} was deleted or taken down by someone else; \
         nothing is held any more"
    )]
    DeviceGone(String),
    /// Nothing is attached there.
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
    /// A system call failed in a way that has no better name.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried: "open the cgroup".
        what: &'static str,
        /// The cause.
        source: io::Error,
    },
    /// A part of the object file is not what this loader was built with.
    #[error("the embedded BPF object has no usable {0}: rebuild ackwise")]
    Object(String),
    /// Everything else from the loader library.
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

/// Whether this process has the capabilities that attaching takes.
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

/// Capabilities that attaching takes, of those that this process has not got.
fn missing_capabilities() -> String {
    // (name, bit): linux/capability.h
    const NEEDED: [(&str, u32); 4] = [
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
    // CAP_SYS_ADMIN stands in for BPF and PERFMON.
    let admin = have & 1 << 21 != 0;
    let missing: Vec<_> = NEEDED
        .iter()
        .filter(|(_, bit)| have & 1 << bit == 0 && !(admin && *bit >= 38))
        .map(|(name, _)| *name)
        .collect();
    missing.join(", ")
}

/// Refuses a kernel on which the programs are not safe: they keep a packet's data in memory of
/// the CPU, and spin for locks whose holder must not be preempted. `version` is that of uname(2).
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

/// The last lines of a verifier log: those that say why.
fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// Give a load error the name that helps.
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
    // Linux has had global data for longer than it has had what ackwise needs: where they do not work,
    // not even a map can be made.
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

/// Gives a load error of one program the name that helps.
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
            if let Some(why) = unfit(&log) {
                return Error::Unfit {
                    release: release(),
                    why,
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
