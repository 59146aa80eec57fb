//! Drops what a daemon no longer needs once it is set up, before it reads the first packet.
//!
//! Devices, sockets and programs are open descriptors by then. What remains is a user without
//! privileges, the capabilities that [`PrivilegedOps`] asks for, and the system calls of
//! [`system_calls`](crate::system_calls). Nothing that was dropped can be regained: the bounding
//! and the ambient set are empty, and `no_new_privs` is set.
//!
//! Privileges belong to a thread. A daemon drops them before it starts its first thread, and all
//! threads inherit what remains.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde::Serialize;

use crate::Error;
use crate::kernel;
use crate::registry::Entry;
use crate::rights::{become_user, held_of, keep_only};
use crate::system_calls;

pub use crate::system_calls::PrivilegedOps;
pub use crate::user::{SYSTEM_USER, User};

/// From this version on map operations need no capability, only a descriptor.
const UNPRIVILEGED_MAP_OPS: (u32, u32) = (5, 19);
/// A version that cannot be determined counts as old.
const UNKNOWN_VERSION: (u32, u32) = (0, 0);

/// Returns the capabilities that are kept on this kernel version.
fn kept_capabilities(ops: &PrivilegedOps, kernel: (u32, u32)) -> CapsHashSet {
    let needs_bpf = (ops.maps || ops.runs) && kernel < UNPRIVILEGED_MAP_OPS;
    let wanted = [
        (ops.clsact, Capability::CAP_NET_ADMIN),
        (ops.marks, Capability::CAP_NET_RAW),
        (needs_bpf, Capability::CAP_BPF),
    ];
    let wanted = wanted.into_iter().filter(|(wanted, _)| *wanted);
    wanted.map(|(_, capability)| capability).collect()
}

/// Drops all privileges of this thread, and of those that it starts later, except for what `ops`
/// names. Becomes the user `chosen`, or else [`SYSTEM_USER`] if that exists and this process is
/// root's. The files of `claim` are still removed when the process ends.
///
/// # Errors
/// If there is no such user, or the system refuses. The caller must not continue then.
pub fn drop_privileges<R: Serialize>(
    claim: &mut Entry<R>,
    chosen: Option<&str>,
    ops: &PrivilegedOps,
) -> Result<(), Error> {
    let user = User::choose(chosen)?;
    if let Some(user) = &user {
        claim.outlive_rights(user.uid.as_raw())?;
    }
    drop_all(user.as_ref(), ops)
}

/// Like [`drop_privileges`], for a process without an entry in the registry.
///
/// # Errors
/// If the system refuses. The caller must not continue then.
pub fn drop_all(user: Option<&User>, ops: &PrivilegedOps) -> Result<(), Error> {
    if ops.realtime > 0 {
        permit_realtime(ops.realtime);
    }
    empty_bounding_set();
    become_user(user)?;
    let wanted = kept_capabilities(ops, kernel::version().unwrap_or(UNKNOWN_VERSION));
    keep_only(&held_of(&wanted)?, &system_calls::of_daemon(ops))
}

/// Empties the bounding set, so that a program that is executed cannot regain capabilities.
fn empty_bounding_set() {
    let Err(error) = caps::clear(None, CapSet::Bounding) else {
        return;
    };
    let left = caps::read(None, CapSet::Bounding).is_ok_and(|set| !set.is_empty());
    if left {
        // no_new_privs has the same effect: no program that is executed gains a capability.
        tracing::info!(
            "the capability bounding set stays: emptying it takes CAP_SETPCAP ({error})"
        );
    }
}

/// Lets a thread take this real-time priority without CAP_SYS_NICE. If that is not permitted, the
/// thread runs at the ordinary priority, which its counters show.
fn permit_realtime(priority: u32) {
    // The type has 32 bits on 32-bit glibc.
    let wanted = nix::sys::resource::rlim_t::from(priority);
    let limit = Resource::RLIMIT_RTPRIO;
    let (soft, hard) = getrlimit(limit).unwrap_or((0, 0));
    if soft >= wanted {
        return;
    }
    if let Err(error) = setrlimit(limit, wanted, hard.max(wanted)) {
        tracing::debug!("RLIMIT_RTPRIO {wanted}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m6_what_is_kept_follows_from_what_is_used() {
        let (old, new) = ((5, 18), (6, 1));
        let none = PrivilegedOps::default();
        assert!(kept_capabilities(&none, old).is_empty());
        let ops = PrivilegedOps {
            clsact: true,
            marks: true,
            maps: true,
            ..none
        };
        let kept = [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
        assert_eq!(kept_capabilities(&ops, new), CapsHashSet::from(kept));
        assert!(kept_capabilities(&ops, old).contains(&Capability::CAP_BPF));
    }
}
