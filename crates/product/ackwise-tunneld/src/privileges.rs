//! What a process may do once all is set up: hardly anything.
//!
//! Everything that needs a right is done before: devices, sockets and programs are open
//! descriptors, and the program's memory is mapped. What comes from the network is read
//! afterwards, without any right, and none can be got back.

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

/// Among others that could run: a thread that waits for its turn lets ACKs wait, and after
/// a period they pass it by.
const NICENESS: libc::c_int = -10;

/// Lets this thread, and those that it starts, go before others, if it may.
pub(crate) fn go_first() {
    // SAFETY: no pointers. In Linux 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
}

/// Gives up every capability, for this thread and those that it starts from now on, and
/// becomes `user`, if one is named.
///
/// # Errors
/// There is no such user, or the system refuses: then nothing should be run.
pub fn drop_privileges(user: Option<&str>) -> Result<(), Error> {
    let user = user.map(find).transpose()?;
    go_first();
    let failed = |errno: nix::Error| Error::system("giving up rights")(errno.into());
    bounding_set().map_err(Error::system("giving up rights"))?;
    if let Some((uid, gid)) = user {
        setgroups(&[]).map_err(failed)?;
        setresgid(gid, gid, gid).map_err(failed)?;
        setresuid(uid, uid, uid).map_err(failed)?;
    }
    clear().map_err(Error::system("giving up rights"))
}

/// By name, or by number.
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

/// What no program that is executed can get either.
fn bounding_set() -> io::Result<()> {
    for capability in 0..64 {
        // SAFETY: no pointers.
        let dropped = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        if dropped < 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // The last one is behind us; or there is nothing to give up.
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
    fn a_user_that_is_not_there() {
        let error = drop_privileges(Some("no-such-user")).unwrap_err();
        assert!(matches!(error, Error::NoUser(_)), "{error}");
    }

    /// Of a thread of its own: a test before would have no rights to lose.
    #[test]
    fn nothing_is_left() {
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
