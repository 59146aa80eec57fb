//! The system calls that a daemon may make (seccomp(2)). Any other kills the process.
//!
//! A process that is killed fails open: its programs are detached, and the kernel's log names the
//! system call. An error number instead could be mistaken for an ordinary failure, and the daemon
//! would continue with less than it assumes. `ACKWISE_SECCOMP=log` only logs such calls; it is for
//! finding out what a new libc needs.

use std::collections::BTreeMap;

use libc::c_long;

use crate::Error;

#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod filter;
/// Other architectures have other calls, and there is no filter for them.
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
#[path = "system_calls/no_filter.rs"]
mod filter;

pub use filter::{of_daemon, restrict};
pub(crate) use filter::{of_guard, of_janitor, of_loader};

/// Operations of a running daemon that need a privilege or a system call of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrivilegedOps {
    /// It removes filters of a clsact qdisc when it ends.
    pub clsact: bool,
    /// It marks single packets (`SO_MARK` as a control message).
    pub marks: bool,
    /// It accesses BPF maps through bpf(2).
    pub maps: bool,
    /// It runs BPF programs through bpf(2).
    pub runs: bool,
    /// It replaces the programs of its tcx links.
    pub replaces: bool,
    /// The real-time priority that one of its threads takes; 0 for none.
    pub realtime: u32,
}

/// A condition on an argument of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The call is permitted with any arguments.
    Any,
    /// The argument with this index must have this value in its lower 32 bits.
    Is(u8, u32),
    /// These bits of the argument with this index must have this value.
    Bits {
        /// The index of the argument.
        argument: u8,
        /// The bits.
        mask: u32,
        /// Their value.
        value: u32,
    },
    /// The call fails with ENOSYS, so that the caller tries an older one.
    NotThere,
}

/// The permitted calls, and under which conditions.
pub type Rules = BTreeMap<c_long, Vec<Rule>>;

/// Calls prctl(2) with one argument, which may be a pointer that the kernel reads.
///
/// # Errors
/// If the kernel refuses.
pub(crate) fn prctl(option: libc::c_int, argument: libc::c_ulong) -> Result<(), Error> {
    // SAFETY: the options used here take a number, or the address of a string that outlives the call.
    if unsafe { libc::prctl(option, argument, 0, 0, 0) } < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Error::privileges("set attributes of the process", &error));
    }
    Ok(())
}
