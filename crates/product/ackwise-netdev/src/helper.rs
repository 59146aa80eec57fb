//! A process that keeps privileges which its daemon drops, for a single purpose.
//!
//! It is started before the daemon drops its own. It keeps the BPF objects that the daemon has
//! loaded and one socket, and ends when the daemon does, in whatever way: nothing that it keeps
//! holds an attachment. A request is one message, and so is the answer, which may carry
//! descriptors. Both begin with the number of the request, since a request that was given up is
//! answered all the same.

use std::ffi::CStr;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use caps::{CapSet, Capability, CapsHashSet};
use nix::cmsg_space;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::SigSet;
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::Error;
use crate::daemon::drop_realtime;
use crate::rights::{become_user, held_of, keep_only};
use crate::system_calls::{self, prctl};
use crate::user::User;

/// The maximum length of a message in bytes.
const MAX_MESSAGE: usize = 4096;
/// The maximum number of descriptors in an answer.
const MAX_DESCRIPTORS: usize = 8;
/// The targets in `/proc/self/fd` of the descriptors that it keeps.
const INHERITED_FDS: [&str; 3] = [
    "anon_inode:bpf-map",
    "anon_inode:bpf-prog",
    "anon_inode:btf",
];
/// The length of the number at the start of a request and of its answer.
const NUMBER_BYTES: usize = 4;
/// The interval at which to check whether an answer is still wanted, and whether the process has
/// ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long the process may take to end, since it finishes its current work first.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// The first byte of an answer, after the number.
const REPLY_OK: u8 = 0;
const REPLY_ERROR: u8 = 1;

/// The process that loads BPF programs.
#[derive(Debug)]
pub struct Helper {
    /// `Some` until this is dropped.
    socket: Option<OwnedFd>,
    process: Pid,
    next_number: AtomicU32,
}

impl Helper {
    /// Starts a process with this name (at most 15 bytes) that may load BPF programs and answers
    /// requests with the result of `answer`. It becomes the same user as the daemon. This process
    /// must have one thread.
    ///
    /// # Errors
    /// If there is no such user, or the system refuses a socket or a process.
    pub fn start(
        name: &CStr,
        user: Option<&str>,
        answer: impl FnMut(&[u8]) -> Result<Vec<OwnedFd>, String>,
    ) -> Result<Self, Error> {
        let user = User::choose_quietly(user)?;
        let failed = |error: nix::Error| Error::system("start a process")(error.into());
        let kind = SockType::SeqPacket;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).map_err(failed)?;
        // SAFETY: this process has one thread, so the child may do anything.
        match unsafe { fork() }.map_err(failed)? {
            ForkResult::Child => {
                let code = match prepare(name, user.as_ref(), &theirs) {
                    Ok(()) => serve(&theirs, answer),
                    Err(_) => 1,
                };
                // SAFETY: ends this process without running the destructors of what it inherited.
                unsafe { libc::_exit(code) }
            }
            ForkResult::Parent { child } => Ok(Self {
                socket: Some(ours),
                process: child,
                next_number: AtomicU32::new(0),
            }),
        }
    }

    /// Sends a request, and waits for the answer and its descriptors while it is wanted.
    ///
    /// # Errors
    /// If the process has ended, takes too long or refuses, or if the answer is no longer wanted.
    pub fn ask(
        &self,
        request: &[u8],
        timeout: Duration,
        is_wanted: impl Fn() -> bool,
    ) -> io::Result<Vec<OwnedFd>> {
        let broken_pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        let socket = self.socket.as_ref().ok_or_else(broken_pipe)?;
        let number = self
            .next_number
            .fetch_add(1, Ordering::Relaxed)
            .to_ne_bytes();
        let flags = MsgFlags::MSG_NOSIGNAL;
        let parts = [IoSlice::new(&number), IoSlice::new(request)];
        sendmsg::<()>(socket.as_raw_fd(), &parts, &[], flags, None)?;
        let began = Instant::now();
        let mut message = [0; MAX_MESSAGE];
        loop {
            if !is_wanted() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            if began.elapsed() > timeout {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if !is_readable(socket)? {
                continue;
            }
            let (length, descriptors) = receive(socket, &mut message)?;
            let reply = message[..length].split_first_chunk::<NUMBER_BYTES>();
            let (reply_number, reply) = reply.ok_or_else(broken_pipe)?;
            // The descriptors of a late answer are closed.
            if *reply_number != number {
                continue;
            }
            return match reply.split_first() {
                Some((&REPLY_OK, _)) => Ok(descriptors),
                Some((_, why)) => Err(io::Error::other(String::from_utf8_lossy(why).into_owned())),
                None => Err(broken_pipe()),
            };
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.socket.take());
        let began = Instant::now();
        // The process ends after its current work. That delays nothing, since it keeps no
        // attachment.
        while let Ok(WaitStatus::StillAlive) = waitpid(self.process, Some(WaitPidFlag::WNOHANG)) {
            if began.elapsed() > EXIT_TIMEOUT {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Waits briefly for a message, or for the end of the connection.
fn is_readable(socket: &OwnedFd) -> io::Result<bool> {
    let timeout = PollTimeout::try_from(POLL_INTERVAL).unwrap_or(PollTimeout::MAX);
    let descriptor = std::os::fd::AsFd::as_fd(socket);
    match poll(&mut [PollFd::new(descriptor, PollFlags::POLLIN)], timeout) {
        Ok(ready) => Ok(ready > 0),
        Err(nix::Error::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn receive(socket: &OwnedFd, message: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = cmsg_space!([RawFd; MAX_DESCRIPTORS]);
    let mut parts = [IoSliceMut::new(message)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let got = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let mut descriptors = Vec::new();
    for control in got.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = control {
            // SAFETY: the kernel has just created them for the caller.
            let owned = |number| unsafe { OwnedFd::from_raw_fd(number) };
            descriptors.extend(numbers.into_iter().map(owned));
        }
    }
    Ok((got.bytes, descriptors))
}

/// In the child: keeps what it needs, and drops everything else.
fn prepare(name: &CStr, user: Option<&User>, socket: &OwnedFd) -> Result<(), Error> {
    let failed = |error: &dyn std::fmt::Display| Error::privileges("set up the helper", error);
    // Signals to all processes of a terminal or a unit are left to the daemon.
    SigSet::all().thread_block().map_err(|e| failed(&e))?;
    close_others(socket).map_err(|e| failed(&e))?;
    prctl(libc::PR_SET_NAME, name.as_ptr() as libc::c_ulong)?;
    // The verifier may take a second, which must not delay the daemon's real-time thread.
    drop_realtime();
    let _ = caps::clear(None, CapSet::Bounding);
    become_user(user)?;
    let wanted = CapsHashSet::from([
        Capability::CAP_BPF,
        Capability::CAP_NET_ADMIN,
        Capability::CAP_PERFMON,
    ]);
    keep_only(&held_of(&wanted)?, &system_calls::of_loader())
}

/// Closes every descriptor except the socket and those of BPF objects that hold no attachment.
fn close_others(socket: &OwnedFd) -> io::Result<()> {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    let mut others = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let target = std::fs::read_link(entry.path()).unwrap_or_default();
        let is_kept = INHERITED_FDS.iter().any(|kept| target.as_os_str() == *kept);
        let number = entry.file_name().to_string_lossy().parse::<RawFd>();
        others.extend(number.ok().filter(|_| !is_kept));
    }
    others.retain(|number| *number > 2 && ![socket.as_raw_fd(), null.as_raw_fd()].contains(number));
    for number in others {
        // SAFETY: no pointers. The owner is not dropped, since this process ends by _exit.
        unsafe { libc::close(number) };
    }
    for number in 0..=2 {
        // SAFETY: as above.
        if unsafe { libc::dup2(null.as_raw_fd(), number) } != number {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// In the child: answers until the daemon's end of the socket is closed. Returns the exit code.
fn serve(
    socket: &OwnedFd,
    mut answer: impl FnMut(&[u8]) -> Result<Vec<OwnedFd>, String>,
) -> libc::c_int {
    let mut message = [0; MAX_MESSAGE];
    loop {
        let length = match receive(socket, &mut message) {
            Ok((0, _)) => return 0,
            Ok((length, _)) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return 1,
        };
        let Some((number, request)) = message[..length].split_first_chunk::<NUMBER_BYTES>() else {
            return 1;
        };
        let mut reply = number.to_vec();
        let descriptors = match answer(request) {
            Ok(descriptors) => {
                reply.push(REPLY_OK);
                descriptors
            }
            Err(why) => {
                reply.push(REPLY_ERROR);
                reply.extend(why.bytes().take(MAX_MESSAGE - NUMBER_BYTES - 1));
                Vec::new()
            }
        };
        let numbers: Vec<_> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&numbers)];
        let rights = if numbers.is_empty() { &[][..] } else { &rights };
        let parts = [IoSlice::new(&reply)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        if sendmsg::<()>(socket.as_raw_fd(), &parts, rights, flags, None).is_err() {
            return 1;
        }
    }
}
