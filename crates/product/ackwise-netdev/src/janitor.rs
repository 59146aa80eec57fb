//! A process that removes files of the registry when a daemon ends that may not do so itself.
//!
//! A daemon that becomes another user cannot write in the registry's directory any more. Before,
//! it starts this process, which belongs to the owner of the directory, has no capability and may
//! make six system calls. It waits on a pipe for the daemon's end, `kill -9` included. As long as
//! it lives it holds the daemon's lock, too, so that nobody else has the claim meanwhile.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use caps::CapSet;
use nix::fcntl::OFlag;
use nix::sys::signal::SigSet;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, pipe2, setgroups, setresgid, setresuid};

use crate::Error;
use crate::system_calls::{self, prctl};

/// The daemon's end of the pipe, and the process at the other end.
#[derive(Debug)]
pub(crate) struct Janitor {
    alive: OwnedFd,
    process: Pid,
}

impl Janitor {
    /// Starts the process as `owner`, a user with a group. This process must have one thread.
    ///
    /// # Errors
    /// The system refuses a pipe or a process.
    pub fn start(owner: (Uid, Gid), lock: &File, files: &[PathBuf]) -> Result<Self, Error> {
        let failed = |error: nix::Error| Error::system("start a process")(error.into());
        let names: Vec<_> = files.iter().filter_map(|path| c_string(path)).collect();
        let (waiting, alive) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
        // SAFETY: this process has one thread, so the child may do what it likes.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Child => {
                let prepared = prepare(owner, waiting.as_raw_fd(), lock.as_raw_fd());
                if prepared.is_ok() {
                    wait_and_remove(&names);
                }
                // SAFETY: ends this process without the destructors of what it has of its parent.
                unsafe { libc::_exit(i32::from(prepared.is_err())) }
            }
            ForkResult::Parent { child } => Ok(Self {
                alive,
                process: child,
            }),
        }
    }

    /// Lets the process remove the files, and waits until it has.
    pub fn end(self) {
        drop(self.alive);
        let _ = waitpid(self.process, None);
    }
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// In the child: keeps the pipe as descriptor 0 and the lock as 1, and gives up everything else.
fn prepare(owner: (Uid, Gid), pipe: RawFd, lock: RawFd) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::privileges("set up the janitor", error);
    // A signal to all processes of a terminal or a unit is the daemon's to obey.
    SigSet::all().thread_block().map_err(|e| failed(&e))?;
    // Neither of the two is in the way of the other after this.
    // SAFETY: descriptors of this process and no pointers. What is closed here is not used again:
    // the caller ends by _exit.
    let done = unsafe {
        let pipe = libc::fcntl(pipe, libc::F_DUPFD, 3);
        let lock = libc::fcntl(lock, libc::F_DUPFD, 3);
        libc::dup2(pipe, 0) == 0
            && libc::dup2(lock, 1) == 1
            && libc::syscall(libc::SYS_close_range, 2, u32::MAX, 0) == 0
    };
    if !done {
        return Err(failed(&io::Error::last_os_error()));
    }
    let name = c"ackwise-janitor";
    prctl(libc::PR_SET_NAME, name.as_ptr() as libc::c_ulong)?;
    let _ = caps::clear(None, CapSet::Bounding);
    setgroups(&[]).map_err(|e| failed(&e))?;
    let (uid, gid) = owner;
    if !uid.is_root() {
        setresgid(gid, gid, gid).map_err(|e| failed(&e))?;
        setresuid(uid, uid, uid).map_err(|e| failed(&e))?;
    }
    for set in [CapSet::Ambient, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|e| failed(&e))?;
    }
    caps::clear(None, CapSet::Inheritable).map_err(|e| failed(&e))?;
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    prctl(libc::PR_SET_DUMPABLE, 0)?;
    system_calls::restrict(&system_calls::of_janitor())
}

/// In the child: waits until nobody has the other end of the pipe.
fn wait_and_remove(names: &[CString]) {
    let mut byte = 0_u8;
    loop {
        // SAFETY: one writable byte.
        match unsafe { libc::read(0, (&raw mut byte).cast(), 1) } {
            0 => break,
            n if n < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    for name in names {
        // SAFETY: a terminated string.
        unsafe { libc::unlink(name.as_ptr()) };
    }
}
