//! What the thread waits for.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// One of the things that it waits for; sockets follow, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    /// Packets that were routed here.
    Link,
    /// Packets that were redirected here.
    Inlet,
    /// Copies of ACKs.
    Ring,
    /// Datagrams.
    Socket(usize),
}

impl What {
    fn place(self) -> usize {
        match self {
            Self::Link => 1,
            Self::Inlet => 2,
            Self::Ring => 3,
            Self::Socket(n) => 4 + n, // 0 is what wakes it.
        }
    }

    /// Whether ACKs come by it.
    fn has_acks(place: usize) -> bool {
        (1..4).contains(&place)
    }
}

/// Descriptors, and whether there was something to read when it last looked: a look at
/// one that has nothing is a system call, too.
#[derive(Debug)]
pub(crate) struct Waits {
    all: Vec<libc::pollfd>,
    _wake: OwnedFd,
}

impl Waits {
    /// Of descriptors that stay open as long as this is used; `wake` ends every sleep once
    /// it is readable.
    pub fn new<'a>(wake: OwnedFd, of: impl IntoIterator<Item = (What, BorrowedFd<'a>)>) -> Self {
        let poll = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut all = vec![poll(wake.as_raw_fd())];
        for (what, fd) in of {
            let length = all.len().max(what.place() + 1);
            all.resize(length, poll(-1));
            all[what.place()].fd = fd.as_raw_fd();
        }
        let mut waits = Self { all, _wake: wake };
        waits.unknown();
        waits
    }

    /// Anything may have come.
    pub fn unknown(&mut self) {
        for one in &mut self.all {
            one.revents = libc::POLLIN;
        }
    }

    /// Whether there may be something to read.
    pub fn may_have(&self, what: What) -> bool {
        let one = self.all.get(what.place());
        one.is_some_and(|one| one.revents != 0)
    }

    /// Sleeps until something comes or the time is over. ACKs that come during a `nap` do
    /// not end it.
    pub fn sleep(&mut self, most: Duration, nap: bool) {
        let time = libc::timespec {
            tv_sec: most.as_secs() as libc::time_t,
            tv_nsec: most.subsec_nanos().into(),
        };
        // Negative; and none, -1, stays none.
        let away = |fd: libc::c_int| -2 - fd;
        self.turn(nap, away);
        // SAFETY: descriptors and a time that outlive the call.
        let woken = unsafe {
            libc::ppoll(
                self.all.as_mut_ptr(),
                self.all.len() as libc::nfds_t,
                &raw const time,
                std::ptr::null(),
            )
        };
        self.turn(nap, away);
        if woken < 0 {
            // By a signal: nothing was looked at.
            self.unknown();
        }
        if nap {
            for (place, one) in self.all.iter_mut().enumerate() {
                if What::has_acks(place) {
                    one.revents = libc::POLLIN;
                }
            }
        }
    }

    /// A negative descriptor is not looked at.
    fn turn(&mut self, nap: bool, away: impl Fn(libc::c_int) -> libc::c_int) {
        for (place, one) in self.all.iter_mut().enumerate() {
            if nap && What::has_acks(place) {
                one.fd = away(one.fd);
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
            (What::Ring, ring.as_fd()),
            (What::Socket(1), socket.as_fd()),
        ];
        let mut waits = Waits::new(woken.into(), of);
        let all = [
            What::Link,
            What::Inlet,
            What::Ring,
            What::Socket(0),
            What::Socket(1),
        ];
        let have = |waits: &Waits| all.map(|what| waits.may_have(what));
        assert!(waits.may_have(What::Ring), "nobody has looked");
        let moment = Duration::from_millis(1);
        waits.sleep(moment, false);
        assert_eq!(have(&waits), [false; 5]);
        assert!(!waits.may_have(What::Socket(7)), "there is none");
        acks.write_all(&[1]).unwrap();
        waits.sleep(Duration::from_secs(60), false);
        assert_eq!(have(&waits), [false, false, true, false, false]);
        // It is over by time, and says that ACKs may have come.
        waits.sleep(moment, true);
        assert_eq!(have(&waits), [true, true, true, false, false]);
        out.write_all(&[1]).unwrap();
        waits.sleep(Duration::from_secs(60), true);
        assert_eq!(have(&waits), [true, true, true, false, true]);
        socket.read_exact(&mut [0]).unwrap();
        wake.write_all(&[1]).unwrap();
        (&ring).read_exact(&mut [0]).unwrap();
        waits.sleep(Duration::from_secs(60), true);
        waits.sleep(Duration::from_secs(60), false);
        assert_eq!(have(&waits), [false; 5]);
    }
}
