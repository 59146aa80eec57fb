//! Drops all privileges after the tunnel is set up.
//!
//! Devices, sockets and programs are open descriptors by then, and the memory of the program
//! is mapped. The process reads from the network only afterwards, and cannot regain a
//! privilege.

use std::io;

use nix::unistd::{Gid, Uid, User, setgroups, setresgid, setresuid};

use crate::Error;

/// `linux/capability.h`.
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct CapHeader {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The nice value of the thread. If it waits for a CPU, ACKs wait, too, and bypass the tunnel
/// after a period.
const NICENESS: libc::c_int = -10;

/// Raises the priority of this thread and of those that it starts later, if that is permitted.
pub(crate) fn raise_priority() {
    // SAFETY: no pointers. In Linux 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

/// Drops every capability of this thread and of those that it starts later, and becomes
/// `user` if one is given.
///
/// # Errors
/// Fails if there is no such user, or if the system refuses. The caller must not go on then.
pub fn drop_privileges(user: Option<&str>) -> Result<(), Error> {
    let user = user.map(find).transpose()?;
    raise_priority();
    let failed = |errno: nix::Error| Error::system("dropping privileges")(errno.into());
    bounding_set().map_err(Error::system("dropping privileges"))?;
    if let Some((uid, gid)) = user {
        setgroups(&[]).map_err(failed)?;
        setresgid(gid, gid, gid).map_err(failed)?;
        setresuid(uid, uid, uid).map_err(failed)?;
    }
    clear().map_err(Error::system("dropping privileges"))
}

/// Finds a user by name or by number.
fn find(name: &str) -> Result<(Uid, Gid), Error> {
    let found = match name.parse::<u32>() {
        Ok(uid) => User::from_uid(Uid::from_raw(uid)),
        Err(_) => User::from_name(name),
    };
    match found {
        Ok(Some(user)) => Ok((user.uid, user.gid)),
        _ => Err(Error::NoUser(name.to_owned())),
    }
}

/// Drops the bounding set, so that a program that is executed cannot regain capabilities.
fn bounding_set() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: no pointers.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if dropped < 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // All capabilities are dropped, or there are none to drop.
                Some(libc::EINVAL | libc::EPERM) => return Ok(()),
                _ => return Err(error),
            }
        }
    }
    Ok(())
}

fn clear() -> io::Result<()> {
    // SAFETY: no pointers.
    let done = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let header = CapHeader {
        version: CAPABILITY_VERSION_3,
        pid: 0,
    };
    let none = [CapData::default(); 2];
    // SAFETY: a header and two structs of data, as this version has them.
    let set = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    if set < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_user_is_an_error() {
        let error = drop_privileges(Some("no-such-user")).unwrap_err();
        assert!(matches!(error, Error::NoUser(_)), "{error}");
    }

    /// In a thread of its own, so that the other tests keep their privileges.
    #[test]
    fn no_capability_is_left() {
        std::thread::spawn(|| {
            drop_privileges(None).unwrap();
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap().trim().to_owned()
            };
            for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
                assert_eq!(field(set), "0".repeat(16), "{set}");
            }
            assert_eq!(field("NoNewPrivs:"), "1");
        })
        .join()
        .unwrap();
    }
}
