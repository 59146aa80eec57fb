//! The system calls that a daemon may make (seccomp(2)). Any other kills the process.
//!
//! A process that is killed fails open: its programs are detached, and the kernel's log names the
//! system call. An error number instead might be taken for an ordinary failure, and the daemon
//! would go on with less than it believes. `ACKWISE_SECCOMP=log` only logs such calls; it is for
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
/// Other architectures have other calls, and no filter is made for them.
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
#[path = "system_calls/no_filter.rs"]
mod filter;

pub use filter::{of_daemon, restrict};
pub(crate) use filter::{of_guard, of_janitor, of_loader};

/// What a daemon does after its start that the kernel does not permit everybody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Uses {
    /// It removes filters of a clsact qdisc when it ends.
    pub clsact: bool,
    /// It marks single packets (`SO_MARK` as a control message).
    pub marks: bool,
    /// It reads and writes BPF maps by bpf(2).
    pub maps: bool,
    /// It runs BPF programs by bpf(2).
    pub runs: bool,
    /// It takes other programs for its tcx links.
    pub replaces: bool,
    /// The real-time priority that a thread of it takes; 0 for none.
    pub realtime: u32,
}

/// An argument of a call and what it has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The call is permitted whatever its arguments are.
    Any,
    /// The argument with this index has this value in its lower 32 bits.
    Is(u8, u32),
    /// These bits of the argument with this index have this value.
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

/// The calls that are permitted, and how.
pub type Rules = BTreeMap<c_long, Vec<Rule>>;

/// Calls prctl(2) with one argument, which the kernel reads if it is a pointer.
///
/// # Errors
/// What the kernel refuses.
pub(crate) fn prctl(option: libc::c_int, argument: libc::c_ulong) -> Result<(), Error> {
    // SAFETY: the options used here take a number, or the address of a string that outlives the call.
    if unsafe { libc::prctl(option, argument, 0, 0, 0) } < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Error::privileges("set attributes of the process", &error));
    }
    Ok(())
}
