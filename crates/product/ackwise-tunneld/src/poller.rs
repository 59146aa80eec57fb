//! Waits until one of the thread's descriptors is readable.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A descriptor that the thread reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The tunnel's device: packets that were routed to it.
    Link,
    /// The device that the BPF program redirects packets to.
    Redirected,
    /// The ring buffer with copies of ACKs.
    Ring,
    /// The UDP socket with this index.
    Socket(usize),
}

impl Source {
    fn index(self) -> usize {
        match self {
            Self::Link => 1,
            Self::Redirected => 2,
            Self::Ring => 3,
            Self::Socket(n) => 4 + n, // 0 is the event that wakes the thread.
        }
    }

    /// Whether ACKs arrive at the descriptor with this index.
    fn has_acks(index: usize) -> bool {
        (1..4).contains(&index)
    }
}

/// The descriptors, and which of them were readable at the last poll. Reading one without data
/// would take a system call.
#[derive(Debug)]
pub(crate) struct Poller {
    all: Vec<libc::pollfd>,
    _wake: OwnedFd,
}

impl Poller {
    /// Creates a poller of descriptors, which must stay open as long as it is used. `wake` ends
    /// every sleep once it is readable.
    pub fn new<'a>(wake: OwnedFd, of: impl IntoIterator<Item = (Source, BorrowedFd<'a>)>) -> Self {
        let poll = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut all = vec![poll(wake.as_raw_fd())];
        for (what, fd) in of {
            let length = all.len().max(what.index() + 1);
            all.resize(length, poll(-1));
            all[what.index()].fd = fd.as_raw_fd();
        }
        let mut poller = Self { all, _wake: wake };
        poller.expect_all();
        poller
    }

    /// Assumes that every descriptor is readable.
    pub fn expect_all(&mut self) {
        for one in &mut self.all {
            one.revents = libc::POLLIN;
        }
    }

    /// Returns whether a descriptor may be readable.
    pub fn may_have(&self, what: Source) -> bool {
        let one = self.all.get(what.index());
        one.is_some_and(|one| one.revents != 0)
    }

    /// Sleeps until a descriptor is readable or the time is up. ACKs that arrive during a `nap` do
    /// not end it.
    pub fn sleep(&mut self, timeout: Duration, nap: bool) {
        let time = nix::sys::time::TimeSpec::from_duration(timeout);
        // The result is negative; -1, which stands for no descriptor, stays the same.
        let disable = |fd: libc::c_int| -2 - fd;
        self.toggle(nap, disable);
        // SAFETY: descriptors and a time that outlive the call.
        let woken = unsafe {
            libc::ppoll(
                self.all.as_mut_ptr(),
                self.all.len() as libc::nfds_t,
                time.as_ref(),
                std::ptr::null(),
            )
        };
        self.toggle(nap, disable);
        if woken < 0 {
            // A signal interrupted the poll.
            self.expect_all();
        }
        if nap {
            for (index, one) in self.all.iter_mut().enumerate() {
                if Source::has_acks(index) {
                    one.revents = libc::POLLIN;
                }
            }
        }
    }

    /// Disables or enables the descriptors of ACKs. `ppoll` ignores negative descriptors.
    fn toggle(&mut self, nap: bool, disable: impl Fn(libc::c_int) -> libc::c_int) {
        for (index, one) in self.all.iter_mut().enumerate() {
            if nap && Source::has_acks(index) {
                one.fd = disable(one.fd);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn only_what_came_is_read_and_naps_are_not_ended_by_acks() {
        let pipe = || std::os::unix::net::UnixStream::pair().unwrap();
        let ((mut wake, woken), (mut acks, ring), (mut out, mut socket)) = (pipe(), pipe(), pipe());
        let of = [
            (Source::Ring, ring.as_fd()),
            (Source::Socket(1), socket.as_fd()),
        ];
        let mut poller = Poller::new(woken.into(), of);
        let all = [
            Source::Link,
            Source::Redirected,
            Source::Ring,
            Source::Socket(0),
            Source::Socket(1),
        ];
        let have = |poller: &Poller| all.map(|what| poller.may_have(what));
        assert!(poller.may_have(Source::Ring), "nobody has looked");
        let moment = Duration::from_millis(1);
        poller.sleep(moment, false);
        assert_eq!(have(&poller), [false; 5]);
        assert!(!poller.may_have(Source::Socket(7)), "there is none");
        acks.write_all(&[1]).unwrap();
        poller.sleep(Duration::from_secs(60), false);
        assert_eq!(have(&poller), [false, false, true, false, false]);
        // The nap ends by time, and reports that ACKs may have arrived.
        poller.sleep(moment, true);
        assert_eq!(have(&poller), [true, true, true, false, false]);
        out.write_all(&[1]).unwrap();
        poller.sleep(Duration::from_secs(60), true);
        assert_eq!(have(&poller), [true, true, true, false, true]);
        socket.read_exact(&mut [0]).unwrap();
        wake.write_all(&[1]).unwrap();
        (&ring).read_exact(&mut [0]).unwrap();
        poller.sleep(Duration::from_secs(60), true);
        poller.sleep(Duration::from_secs(60), false);
        assert_eq!(have(&poller), [false; 5]);
    }
}
