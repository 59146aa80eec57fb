//! The life of a daemon: start, ready, watchdog, stop, and the counters in between.
//!
//! A library starts a [`Worker`] that does the work and can be stopped. A program [supervises]
//! (Supervisor) it: it waits for signals, for a deadline and for the daemon's own end, and tells
//! the service manager (sd_notify(3)) that the daemon is ready and alive.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigHandler, SigSet, Signal, signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::pipe2;
use sd_notify::NotifyState;

/// The longest wait before the daemon is looked at again.
const TICK: Duration = Duration::from_millis(100);
/// How often the counters are shown.
const SHOW: Duration = Duration::from_secs(1);
/// How often [`Lifecycle::wait_ended`] looks.
const POLL: Duration = Duration::from_millis(5);
/// Tells a child the number of the pipe by which its parent waits until it works.
const READY_FD: &str = "ACKWISE_READY_FD";

/// Why a daemon has ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A request over the control socket asked for it.
    Asked,
    /// Its interface was deleted.
    InterfaceGone,
    /// A device of its own was deleted, or taken down.
    DeviceGone,
    /// It goes on, and does something else: whoever watches it begins anew.
    Renewed,
}

/// Gives back the real-time priority that a service manager gave the process, for the calling thread:
/// the one that re-emits goes first. A service manager may forbid it; then all have the same.
pub fn drop_realtime() {
    // The kernel's `struct sched_param` is one int.
    let priority: libc::c_int = 0;
    // SAFETY: the priority outlives the call; the calling thread is meant.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_OTHER,
            &raw const priority,
        )
    };
}

/// What a daemon's thread and its owner share. All methods may be called from any thread.
#[derive(Debug)]
pub struct Lifecycle {
    stop: AtomicBool,
    frozen: AtomicBool,
    ended: Mutex<Option<Ended>>,
    wake: EventFd,
}

impl Lifecycle {
    /// Nothing has started yet.
    ///
    /// # Errors
    /// The process has too many descriptors.
    pub fn new() -> io::Result<Self> {
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        Ok(Self {
            stop: AtomicBool::new(false),
            frozen: AtomicBool::new(false),
            ended: Mutex::new(None),
            wake,
        })
    }

    /// Asks the worker to end, wakes it, and thaws it.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.frozen.store(false, Ordering::Release);
        let _ = self.wake.write(1);
    }

    /// Says whether the worker is to end.
    #[must_use]
    pub fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits until the worker is to end, but no longer than `timeout`. Says whether it is.
    #[must_use]
    pub fn wait_stop(&self, timeout: Duration) -> bool {
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        // An error is a spurious wake-up.
        let _ = poll(
            &mut [PollFd::new(self.wake.as_fd(), PollFlags::POLLIN)],
            timeout,
        );
        self.should_stop()
    }

    /// Returns a descriptor that becomes readable, for good, when the worker is to end.
    ///
    /// # Errors
    /// The process has too many descriptors.
    pub fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.wake.as_fd().try_clone_to_owned()
    }

    /// Returns why the worker has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the worker has ended, but no longer than `timeout`.
    pub fn wait_ended(&self, timeout: Duration) {
        let began = Instant::now();
        while self.ended().is_none() && began.elapsed() < timeout {
            std::thread::sleep(POLL);
        }
    }

    /// Makes the worker act as if the process were stopped: it gives no sign of life. For tests
    /// of failing open.
    pub fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Release);
    }

    /// Says whether the worker is to act as if the process were stopped.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Acquire)
    }

    fn set_ended(&self, why: Ended) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }
}

impl AsFd for Lifecycle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// The thread that does a daemon's work. Dropping it stops the work and joins the thread.
#[derive(Debug)]
pub struct Worker {
    lifecycle: Arc<Lifecycle>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts `work` in a thread of this name (at most 15 bytes). It returns why it ended.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn spawn(
        name: &str,
        lifecycle: Arc<Lifecycle>,
        work: impl FnOnce() -> Ended + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::clone(&lifecycle);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || shared.set_ended(work()))?;
        Ok(Self {
            lifecycle,
            thread: Some(thread),
        })
    }

    /// Stops the work and waits until the thread has ended. Later calls do nothing.
    pub fn stop_and_join(&mut self) {
        self.lifecycle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop_and_join();
    }
}

/// A daemon as its [`Supervisor`] sees it.
pub trait Daemon {
    /// The counters.
    type Stats;
    /// Why they cannot be read.
    type Error;

    /// Reads the counters.
    ///
    /// # Errors
    /// The daemon's programs or maps are gone.
    fn stats(&self) -> Result<Self::Stats, Self::Error>;

    /// Returns why the daemon has ended by itself, if it has.
    fn ended(&self) -> Option<Ended>;

    /// Says whether the daemon worked between two looks at its counters. The service manager's
    /// watchdog hears nothing while it does not.
    fn is_alive(_before: &Self::Stats, _now: &Self::Stats) -> bool {
        true
    }
}

/// What has ended a run of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A signal, by its name.
    Signal(&'static str),
    /// The deadline.
    Deadline,
    /// The end of the process that started it, and waited until it worked.
    ParentGone,
    /// The daemon itself.
    Ended(Ended),
}

/// Waits until a child that is a daemon works. The child ends when this is dropped, however this process
/// ends.
#[derive(Debug)]
pub struct Readiness {
    pipe: File,
    is_ready: Cell<bool>,
}

impl Readiness {
    /// Lets what `command` starts say so by [`Supervisor::ready`]. The command is for one start,
    /// and has to be dropped then.
    ///
    /// # Errors
    /// The process has too many descriptors.
    pub fn of(command: &mut Command) -> io::Result<Self> {
        let (mine, its) = pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        command.env(READY_FD, its.as_raw_fd().to_string());
        let keep = move || {
            fcntl(&its, FcntlArg::F_SETFD(FdFlag::empty()))?;
            Ok(())
        };
        // SAFETY: fcntl(2) may be called between fork and exec.
        unsafe { command.pre_exec(keep) };
        Ok(Self {
            pipe: File::from(mine),
            is_ready: Cell::new(false),
        })
    }

    /// Says whether the child works by now, or has ended.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        match (&self.pipe).read(&mut [0]) {
            Ok(n) => {
                self.is_ready.set(self.is_ready.get() || n > 0);
                true
            }
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }

    /// Says whether it has said that it works, by the last look.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready.get()
    }
}

/// What tells a parent that its child works, and the child that its parent is gone.
struct Parent {
    pipe: File,
    is_told: Cell<bool>,
}

impl Parent {
    fn tell(&self) {
        if !self.is_told.replace(true) {
            // One that does not wait any more need not know.
            let _ = (&self.pipe).write_all(b"\n");
        }
    }

    /// Nobody has the other end of the pipe any more.
    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(self.pipe.as_fd(), PollFlags::empty())];
        let _ = poll(&mut fds, PollTimeout::ZERO);
        fds[0]
            .revents()
            .is_some_and(|it| it.contains(PollFlags::POLLERR))
    }
}

/// Returns the pipe of a parent that waits, if there is one, and keeps it from other processes.
fn waiting_parent() -> Option<File> {
    let number: RawFd = std::env::var(READY_FD).ok()?.parse().ok()?;
    if number <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: no pointers. Nothing happens to a number that is no descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return None;
    }
    // SAFETY: it is open, and the parent says that it is this process's own.
    Some(unsafe { File::from_raw_fd(number) })
}

/// Runs a daemon in the foreground of a process.
pub struct Supervisor {
    signals: SignalFd,
    hangup: RefCell<Option<Box<dyn Fn()>>>,
    parent: Option<Parent>,
    watchdog: Option<Duration>,
    /// The last sign of life, of whichever run.
    beaten: Cell<Instant>,
}

impl std::fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Supervisor")
            .field("watchdog", &self.watchdog)
            .finish_non_exhaustive()
    }
}

impl Supervisor {
    /// Blocks SIGINT, SIGTERM and SIGHUP in this thread and those that it starts from now on, and
    /// waits for them itself. Call this before any other thread is started, and once.
    ///
    /// # Errors
    /// The kernel refuses a signal descriptor.
    pub fn new() -> io::Result<Self> {
        // Who ignores it, by inheritance, too, does not hear how a child has ended (wait(2)).
        // SAFETY: no handler of this process is replaced.
        unsafe { signal(Signal::SIGCHLD, SigHandler::SigDfl) }?;
        let mut set = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            set.add(signal);
        }
        set.thread_block()?;
        Ok(Self {
            signals: SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?,
            hangup: RefCell::default(),
            parent: waiting_parent().map(|pipe| Parent {
                pipe,
                is_told: Cell::new(false),
            }),
            watchdog: sd_notify::watchdog_enabled(),
            beaten: Cell::new(Instant::now()),
        })
    }

    /// Does this on SIGHUP from now on, which ends nothing any more.
    pub fn on_hangup(&self, act: impl Fn() + 'static) {
        *self.hangup.borrow_mut() = Some(Box::new(act));
    }

    /// Tells the service manager and a parent that waits that the daemon works, with a line for
    /// `systemctl status`.
    pub fn ready(&self, status: &str) {
        if let Some(parent) = &self.parent {
            parent.tell();
        }
        notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Tells the service manager that the daemon is stopping.
    pub fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }

    /// Waits until something ends the daemon, and returns what that was. About once per second
    /// `describe` makes a line of the counters before, the counters now and the time between
    /// them; `show`, if there is one, shows it to a person.
    ///
    /// # Errors
    /// The daemon's counters cannot be read.
    pub fn run<D: Daemon>(
        &self,
        daemon: &D,
        deadline: Option<Instant>,
        describe: impl Fn(&D::Stats, &D::Stats, Duration) -> String,
        show: Option<&dyn Fn(&str)>,
    ) -> Result<Outcome, D::Error> {
        // The service manager wants a sign of life within `watchdog`: send two.
        let beat = self.watchdog.map(|watchdog| watchdog / 2);
        let mut shown = Instant::now();
        let mut before = daemon.stats()?;
        loop {
            let mut wait = beat.map_or(TICK, |beat| TICK.min(beat / 2));
            if let Some(deadline) = deadline {
                wait = wait.min(deadline.saturating_duration_since(Instant::now()));
            }
            if let Some(signal) = self.wait_signal(wait) {
                match &*self.hangup.borrow() {
                    Some(act) if signal == Signal::SIGHUP => act(),
                    _ => return Ok(Outcome::Signal(signal.as_str())),
                }
            }
            if let Some(why) = daemon.ended() {
                return Ok(Outcome::Ended(why));
            }
            if self.parent.as_ref().is_some_and(Parent::is_gone) {
                return Ok(Outcome::ParentGone);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Outcome::Deadline);
            }
            let took = shown.elapsed();
            let is_beat_due = beat.is_some_and(|beat| self.beaten.get().elapsed() >= beat);
            if !is_beat_due && (show.is_none() || took < SHOW) {
                continue;
            }
            // Reading the counters is a part of the sign of life: a stuck daemon fails here.
            let now = daemon.stats()?;
            let line = describe(&before, &now, took);
            if let Some(show) = show {
                show(&line);
            }
            if is_beat_due && D::is_alive(&before, &now) {
                notify(&[NotifyState::Watchdog, NotifyState::Status(&line)]);
                self.beaten.set(Instant::now());
            }
            if took >= SHOW {
                (before, shown) = (now, Instant::now());
            }
        }
    }

    /// Returns the next signal, if one comes in time.
    fn wait_signal(&self, timeout: Duration) -> Option<Signal> {
        let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        // Rounded up: at the end of a deadline this must not become a busy loop.
        let ms = u16::try_from(timeout.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(ms));
        let info = self.signals.read_signal().ok().flatten()?;
        Signal::try_from(info.ssi_signo as i32).ok()
    }
}

/// Tells the service manager, if there is one. That it does not listen is no reason to stop.
fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("sd_notify: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_stopped_joined_and_says_why_it_ended() {
        let lifecycle = Arc::new(Lifecycle::new().unwrap());
        let shared = Arc::clone(&lifecycle);
        let mut worker = Worker::spawn("test", Arc::clone(&lifecycle), move || {
            let wake = shared.wake_fd().unwrap();
            let mut fds = [PollFd::new(wake.as_fd(), PollFlags::POLLIN)];
            poll(&mut fds, PollTimeout::NONE).unwrap();
            assert!(shared.should_stop() && !shared.is_frozen());
            Ended::Asked
        })
        .unwrap();
        lifecycle.freeze(true);
        lifecycle.wait_ended(Duration::from_millis(20));
        assert_eq!(lifecycle.ended(), None);
        worker.stop_and_join();
        assert_eq!(lifecycle.ended(), Some(Ended::Asked));
    }

    struct Counter {
        ends: Option<Instant>,
    }

    impl Daemon for Counter {
        type Stats = Instant;
        type Error = ();

        fn stats(&self) -> Result<Instant, ()> {
            Ok(Instant::now())
        }

        fn ended(&self) -> Option<Ended> {
            let is_over = self.ends.is_some_and(|ends| Instant::now() >= ends);
            is_over.then_some(Ended::InterfaceGone)
        }
    }

    #[test]
    fn a_run_ends_by_a_signal_a_deadline_or_by_itself() {
        let supervisor = Supervisor::new().unwrap();
        let describe = |before: &Instant, now: &Instant, _| format!("{:?}", *now - *before);
        let soon = || Some(Instant::now() + Duration::from_millis(30));
        let run = |ends, deadline| {
            let daemon = Counter { ends };
            supervisor.run(&daemon, deadline, describe, None).unwrap()
        };
        assert_eq!(run(None, soon()), Outcome::Deadline);
        assert_eq!(run(soon(), None), Outcome::Ended(Ended::InterfaceGone));
        nix::sys::signal::raise(Signal::SIGHUP).unwrap();
        assert_eq!(run(None, None), Outcome::Signal("SIGHUP"));
    }
}
