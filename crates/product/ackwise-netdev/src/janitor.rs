//! A process that cleans up after a daemon that lacks the permission to do so itself.
//!
//! A daemon that becomes another user can no longer write in the registry's directory. Before that
//! it starts this process, which runs as the owner of the directory, has no capability and may make
//! seven system calls. It waits on a pipe for the end of the daemon, even by `kill -9`, and removes
//! the daemon's files. While it lives it also holds the daemon's lock, so that nobody else gets the
//! claim meanwhile.
//!
//! A daemon that has replaced a queue discipline starts a process that restores it first. This one
//! keeps CAP_NET_ADMIN and a netlink socket. What it cannot restore stays recorded in the files. It
//! also sets the rate of the daemon's cake, which the daemon sends over the pipe: 8 bytes per rate,
//! bit/s.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use caps::{CapSet, Capability, CapsHashSet};
use nix::fcntl::{FcntlArg, OFlag};
use nix::sys::signal::SigSet;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, pipe2};

use crate::Error;
use crate::netlink::Netlink;
use crate::qdisc::Replaced;
use crate::rights::{become_user, keep_only};
use crate::system_calls::{self, prctl};
use crate::user::User;

/// The exit code of a janitor that could not restore a queue discipline.
const NOT_RESTORED: i32 = 2;

/// The daemon's end of the pipe, and the process at the other end.
#[derive(Debug)]
pub(crate) struct Janitor {
    alive: OwnedFd,
    process: Pid,
}

/// Sets the rate of ackwise's cake through the process that will restore the queue discipline. That
/// process ends when its [`Entry`](crate::registry::Entry) and all of these are gone.
#[derive(Debug)]
pub struct RateSetter(OwnedFd);

impl RateSetter {
    /// Requests a rate in bit/s, and does not wait until it is set. It is not set if the root of
    /// the interface is no longer ackwise's.
    ///
    /// # Errors
    /// If the process is gone, or does not keep up.
    pub fn set(&self, rate_bps: u64) -> io::Result<()> {
        // So few bytes are written completely or not at all (pipe(7), PIPE_BUF).
        nix::unistd::write(&self.0, &rate_bps.to_ne_bytes())?;
        Ok(())
    }
}

/// The descriptors that the process keeps, before they are renumbered.
struct KeptFds {
    pipe: RawFd,
    lock: RawFd,
    /// The pipe on which it reports that it is ready.
    ready: RawFd,
    /// The netlink socket, if there is a queue discipline to restore.
    netlink: Option<RawFd>,
}

/// The numbers of the descriptors that the process keeps.
const PIPE: RawFd = 0;
const LOCK: RawFd = 1;
pub(crate) const READY: RawFd = 2;
const NETLINK: RawFd = 3;

impl Janitor {
    /// Starts the process as `owner`, a user with a group. It restores what was `replaced` before
    /// it removes the files. This process must have one thread.
    ///
    /// # Errors
    /// If the system refuses a pipe, a socket or a process, or something that the process needs.
    pub fn start(
        owner: &User,
        lock: &File,
        files: &[PathBuf],
        replaced: Option<&Replaced>,
    ) -> Result<Self, Error> {
        let failed = |error: nix::Error| Error::system("start a process")(error.into());
        let names: Vec<_> = files.iter().filter_map(|path| c_string(path)).collect();
        // The kernel checks who opened a netlink socket: it must be this process.
        let netlink = replaced.map(|_| Netlink::open()).transpose();
        let netlink = netlink.map_err(Error::system("open a netlink socket"))?;
        let netlink = netlink.map(Netlink::into_socket);
        let (waiting, alive) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
        let (readiness, ready) = pipe2(OFlag::O_CLOEXEC).map_err(failed)?;
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Child => {
                let fds = KeptFds {
                    pipe: waiting.as_raw_fd(),
                    lock: lock.as_raw_fd(),
                    ready: ready.as_raw_fd(),
                    netlink: netlink.as_ref().map(AsRawFd::as_raw_fd),
                };
                let code = match prepare(owner, &fds) {
                    Ok(()) => {
                        report_ready();
                        wait_and_clear_up(replaced, &names)
                    }
                    Err(_) => 1,
                };
                // SAFETY: ends this process without running the destructors of what it inherited.
                unsafe { libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                drop(ready);
                let janitor = Self {
                    alive,
                    process: child,
                };
                if is_ready(&readiness) {
                    return Ok(janitor);
                }
                janitor.end();
                Err(Error::privileges(
                    "set up the process that clears up",
                    &"the system refuses what it needs (capabilities, close_range, seccomp)",
                ))
            }
        }
    }

    /// Returns a handle through which this process sets the rate of the cake.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn rate_setter(&self) -> io::Result<RateSetter> {
        let pipe = self.alive.try_clone()?;
        nix::fcntl::fcntl(&pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(RateSetter(pipe))
    }

    /// Lets the process clean up, and waits until it has. Returns `false` if it could not.
    pub fn end(self) -> bool {
        drop(self.alive);
        matches!(waitpid(self.process, None), Ok(WaitStatus::Exited(_, 0)))
    }
}

/// Waits until the process reports that it is ready. Returns `false` if it has ended instead.
fn is_ready(readiness: &OwnedFd) -> bool {
    loop {
        match nix::unistd::read(readiness, &mut [0]) {
            Err(nix::Error::EINTR) => {}
            read => return read == Ok(1),
        }
    }
}

/// In the child: reports that it is ready.
fn report_ready() {
    // SAFETY: one readable byte. If nobody reads it, the end of the other pipe shows that.
    unsafe { libc::write(READY, [1_u8].as_ptr().cast(), 1) };
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// In the child: keeps some descriptors, and drops everything else.
fn prepare(owner: &User, fds: &KeptFds) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::privileges("set up the janitor", error);
    // Signals to all processes of a terminal or a unit are left to the daemon.
    SigSet::all().thread_block().map_err(|e| failed(&e))?;
    // Move the descriptors above the target numbers first, so that none overwrites another.
    // SAFETY: descriptors of this process and no pointers. What is closed here is not used again:
    // the caller ends by _exit.
    let done = unsafe {
        let above = |fd| libc::fcntl(fd, libc::F_DUPFD, NETLINK + 1);
        let (pipe, lock, ready) = (above(fds.pipe), above(fds.lock), above(fds.ready));
        let netlink = fds.netlink.map(above);
        let placed = libc::dup2(pipe, PIPE) == PIPE
            && libc::dup2(lock, LOCK) == LOCK
            && libc::dup2(ready, READY) == READY
            && netlink.is_none_or(|netlink| libc::dup2(netlink, NETLINK) == NETLINK);
        let others = if netlink.is_some() {
            NETLINK + 1
        } else {
            NETLINK
        };
        placed && libc::syscall(libc::SYS_close_range, others, u32::MAX, 0) == 0
    };
    if !done {
        return Err(failed(&io::Error::last_os_error()));
    }
    let name = if fds.netlink.is_some() {
        c"ackwise-guard"
    } else {
        c"ackwise-janitor"
    };
    prctl(libc::PR_SET_NAME, name.as_ptr() as libc::c_ulong)?;
    let _ = caps::clear(None, CapSet::Bounding);
    // The files belong to this user, or to root and this process is root's.
    become_user(Some(owner).filter(|owner| !owner.uid.is_root()))?;
    // Restoring a queue discipline needs the capability: if it is missing, fail now and not then.
    match fds.netlink {
        Some(_) => keep_only(
            &CapsHashSet::from([Capability::CAP_NET_ADMIN]),
            &system_calls::of_guard(),
        ),
        None => keep_only(&CapsHashSet::new(), &system_calls::of_janitor()),
    }
}

/// In the child: waits until the other end of the pipe is closed, and cleans up. Returns the exit
/// code.
fn wait_and_clear_up(replaced: Option<&Replaced>, names: &[CString]) -> i32 {
    // SAFETY: `prepare` has put the socket there, and nothing else in this process owns it.
    let mut netlink =
        replaced.map(|_| unsafe { Netlink::from_socket(OwnedFd::from_raw_fd(NETLINK)) });
    let mut message = [0_u8; size_of::<u64>()];
    loop {
        // SAFETY: as many writable bytes as given.
        match unsafe { libc::read(PIPE, message.as_mut_ptr().cast(), message.len()) } {
            0 => break,
            n if n < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted => break,
            n if usize::try_from(n) == Ok(message.len()) => {
                if let (Some(netlink), Some(replaced)) = (&mut netlink, replaced) {
                    // The requester checks the rate that is in effect.
                    let _ = netlink.change_cake_rate(replaced.index, u64::from_ne_bytes(message));
                }
            }
            _ => {}
        }
    }
    if let (Some(replaced), Some(mut netlink)) = (replaced, netlink) {
        let undone = replaced.restore(&mut netlink);
        // Closing the socket is a system call that this process may not make.
        std::mem::forget(netlink);
        if undone.is_err() {
            return NOT_RESTORED;
        }
    }
    for name in names {
        // SAFETY: a NUL-terminated string.
        unsafe { libc::unlink(name.as_ptr()) };
    }
    0
}
