//! Gives up what a daemon no longer needs once it is set up, before it reads the first packet.
//!
//! Devices, sockets and programs are open descriptors by then. What is left is a user without
//! rights, the capabilities that [`Uses`] asks for, and the system calls of
//! [`system_calls`](crate::system_calls). None of it can be regained: the bounding and the ambient set are
//! empty, and `no_new_privs` is set.
//!
//! Rights belong to a thread. A daemon gives them up before it starts its first thread, and all
//! threads inherit what is left.

use caps::{CapSet, Capability, CapsHashSet};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{setgroups, setresgid, setresuid};
use serde::Serialize;

use crate::Error;
use crate::registry::Entry;
use crate::system_calls::{self, prctl};

pub use crate::system_calls::Uses;
pub use crate::user::{SYSTEM_USER, User};

/// Since this version map operations need no capability, only a descriptor.
const FREE_MAPS: (u32, u32) = (5, 19);

/// Returns the capabilities that are kept on a kernel of this version.
fn kept_capabilities(uses: &Uses, kernel: (u32, u32)) -> CapsHashSet {
    let needs_bpf = (uses.maps || uses.runs) && kernel < FREE_MAPS;
    let wanted = [
        (uses.clsact, Capability::CAP_NET_ADMIN),
        (uses.marks, Capability::CAP_NET_RAW),
        (needs_bpf, Capability::CAP_BPF),
    ];
    let wanted = wanted.into_iter().filter(|(wanted, _)| *wanted);
    wanted.map(|(_, capability)| capability).collect()
}

/// Gives up all rights of this thread, and of those that it starts later, but for what `uses`
/// names. Becomes the user `chosen`, or else [`SYSTEM_USER`] if that exists and this process is
/// root's. The files of `claim` go with the process all the same.
///
/// # Errors
/// There is no such user, or the system refuses. The caller must not go on then.
pub fn drop_privileges<R: Serialize>(
    claim: &mut Entry<R>,
    chosen: Option<&str>,
    uses: &Uses,
) -> Result<(), Error> {
    let user = User::choose(chosen)?;
    if let Some(user) = &user {
        claim.outlive_rights(user.uid.as_raw())?;
    }
    drop_all(user.as_ref(), uses)
}

/// As [`drop_privileges`], for a process that has no entry in the registry.
///
/// # Errors
/// The system refuses. The caller must not go on then.
pub fn drop_all(user: Option<&User>, uses: &Uses) -> Result<(), Error> {
    if uses.realtime > 0 {
        permit_realtime(uses.realtime);
    }
    let failed = |what| move |error: caps::errors::CapsError| Error::privileges(what, &error);
    empty_bounding_set();
    caps::clear(None, CapSet::Ambient).map_err(failed("empty the ambient set"))?;
    if nix::unistd::geteuid().is_root() {
        // A root that may not do this stays in groups that give it nothing.
        let failed = |errno: nix::Error| Error::privileges("become another user", &errno);
        let ungrouped = setgroups(&[]);
        if let Some(User { uid, gid }) = user {
            ungrouped.map_err(failed)?;
            prctl(libc::PR_SET_KEEPCAPS, 1)?;
            setresgid(*gid, *gid, *gid).map_err(failed)?;
            setresuid(*uid, *uid, *uid).map_err(failed)?;
        }
    }
    let held = caps::read(None, CapSet::Permitted).map_err(failed("read the permitted set"))?;
    let kept: CapsHashSet = kept_capabilities(uses, kernel_version());
    let kept: CapsHashSet = kept.intersection(&held).copied().collect();
    // The effective set has to stay within the permitted set.
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, &kept).map_err(failed("give up capabilities"))?;
    }
    caps::clear(None, CapSet::Inheritable).map_err(failed("empty the inheritable set"))?;
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    // No other process of the same user reads its memory, which may have keys.
    prctl(libc::PR_SET_DUMPABLE, 0)?;
    system_calls::restrict(&system_calls::of_daemon(uses))
}

/// Empties the bounding set, so that a program that is executed cannot regain capabilities.
fn empty_bounding_set() {
    let Err(error) = caps::clear(None, CapSet::Bounding) else {
        return;
    };
    let left = caps::read(None, CapSet::Bounding).is_ok_and(|set| !set.is_empty());
    if left {
        // no_new_privs does the same: no program that is executed gains a capability.
        tracing::info!(
            "the capability bounding set stays: emptying it takes CAP_SETPCAP ({error})"
        );
    }
}

/// Lets a thread take this real-time priority without CAP_SYS_NICE. Without the right to do so it
/// runs at the ordinary priority, and says so in its counters.
fn permit_realtime(priority: u32) {
    // 32 bits on 32-bit glibc.
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

/// Returns the kernel's version. One that cannot be read counts as old.
fn kernel_version() -> (u32, u32) {
    let release = nix::sys::utsname::uname()
        .map(|name| name.release().to_string_lossy().into_owned())
        .unwrap_or_default();
    version_of(&release).unwrap_or((0, 0))
}

fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m6_what_is_kept_follows_from_what_is_used() {
        let (old, new) = ((5, 18), (6, 1));
        let none = Uses::default();
        assert!(kept_capabilities(&none, old).is_empty());
        let uses = Uses {
            clsact: true,
            marks: true,
            maps: true,
            ..none
        };
        let kept = [Capability::CAP_NET_ADMIN, Capability::CAP_NET_RAW];
        assert_eq!(kept_capabilities(&uses, new), CapsHashSet::from(kept));
        assert!(kept_capabilities(&uses, old).contains(&Capability::CAP_BPF));
    }

    #[test]
    fn versions() {
        assert_eq!(version_of("6.12.8-amd64"), Some((6, 12)));
        assert_eq!(version_of("7.0"), Some((7, 0)));
        assert_eq!(version_of("unknown"), None);
    }
}
