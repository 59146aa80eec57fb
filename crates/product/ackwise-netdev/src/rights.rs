//! Dropping privileges: for a daemon, and for the processes that it starts before.

use caps::{CapSet, CapsHashSet};
use nix::unistd::{setgroups, setresgid, setresuid};

use crate::Error;
use crate::system_calls::{self, Rules, prctl};
use crate::user::User;

/// Becomes another user if this process is root's, and leaves root's groups. The capabilities stay
/// until [`keep_only`].
pub(crate) fn become_user(user: Option<&User>) -> Result<(), Error> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let failed = |errno: nix::Error| Error::privileges("become another user", &errno);
    // A restricted root without permission for this stays in groups that grant it nothing.
    let ungrouped = setgroups(&[]);
    let Some(User { uid, gid }) = user else {
        return Ok(());
    };
    ungrouped.map_err(failed)?;
    prctl(libc::PR_SET_KEEPCAPS, 1)?;
    setresgid(*gid, *gid, *gid).map_err(failed)?;
    setresuid(*uid, *uid, *uid).map_err(failed)
}

/// Returns those of the capabilities that this thread holds.
pub(crate) fn held_of(wanted: &CapsHashSet) -> Result<CapsHashSet, Error> {
    let held = caps::read(None, CapSet::Permitted);
    let held = held.map_err(|error| Error::privileges("read the permitted set", &error))?;
    Ok(wanted.intersection(&held).copied().collect())
}

/// Drops all capabilities except these, all of which the thread must hold, and all system calls
/// except those in the rules.
pub(crate) fn keep_only(kept: &CapsHashSet, calls: &Rules) -> Result<(), Error> {
    let failed = |what| move |error: caps::errors::CapsError| Error::privileges(what, &error);
    caps::clear(None, CapSet::Ambient).map_err(failed("empty the ambient set"))?;
    // The effective set must stay within the permitted set.
    for set in [CapSet::Effective, CapSet::Permitted] {
        caps::set(None, set, kept).map_err(failed("give up capabilities"))?;
    }
    caps::clear(None, CapSet::Inheritable).map_err(failed("empty the inheritable set"))?;
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    // Other processes of the same user cannot read the memory, which may contain keys.
    prctl(libc::PR_SET_DUMPABLE, 0)?;
    system_calls::restrict(calls)
}
