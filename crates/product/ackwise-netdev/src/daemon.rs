//! The life of a daemon: start, readiness, watchdog, stop, and the counters in between.
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

/// The maximum wait before the daemon is checked again.
const MAX_WAIT: Duration = Duration::from_millis(100);
/// How often the counters are shown.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);
/// How often [`Lifecycle::wait_ended`] polls.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// The variable that tells a child the descriptor of the pipe on which its parent waits for
/// readiness.
const READY_FD: &str = "ACKWISE_READY_FD";

/// Why a daemon has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// A request over the control socket asked for it.
    Requested,
    /// Its interface was deleted.
    InterfaceGone,
    /// A device of its own was deleted or taken down.
    DeviceGone,
    /// Someone else has removed its filter from clsact.
    FilterGone,
    /// It continues with other settings: whoever watches it starts over.
    Renewed,
}

/// Drops the real-time priority that a service manager gave the process, for the calling thread, so
/// that the re-emitting thread has precedence. If a service manager forbids it, all threads keep
/// the same priority.
pub fn drop_realtime() {
    // The kernel's `struct sched_param` is one int.
    let priority: libc::c_int = 0;
    // SAFETY: the priority outlives the call; 0 is the calling thread.
    unsafe {
        libc::syscall(
            libc::SYS_sched_setscheduler,
            0,
            libc::SCHED_OTHER,
            &raw const priority,
        )
    };
}

/// State that a daemon's thread and its owner share. All methods may be called from any thread.
#[derive(Debug)]
pub struct Lifecycle {
    stop: AtomicBool,
    frozen: AtomicBool,
    ended: Mutex<Option<Ended>>,
    wake: EventFd,
}

impl Lifecycle {
    /// A lifecycle in which nothing has started yet.
    ///
    /// # Errors
    /// If the process has too many descriptors.
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

    /// Returns whether the worker is to end.
    #[must_use]
    pub fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Waits until the worker is to end, at most for `timeout`. Returns whether it is to end.
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

    /// Returns a descriptor that becomes readable, and stays so, when the worker is to end.
    ///
    /// # Errors
    /// If the process has too many descriptors.
    pub fn wake_fd(&self) -> io::Result<OwnedFd> {
        self.wake.as_fd().try_clone_to_owned()
    }

    /// Returns why the worker has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the worker has ended, at most for `timeout`.
    pub fn wait_ended(&self, timeout: Duration) {
        let began = Instant::now();
        while self.ended().is_none() && began.elapsed() < timeout {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Makes the worker act as if the process were stopped: it writes no heartbeat. For tests of
    /// failing open.
    pub fn freeze(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Release);
    }

    /// Returns whether the worker is to act as if the process were stopped.
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
    /// Starts `work` in a thread with this name (at most 15 bytes). `work` returns why it ended.
    ///
    /// # Errors
    /// If no thread can be started.
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
    /// The error if they cannot be read.
    type Error;

    /// Reads the counters.
    ///
    /// # Errors
    /// If the daemon's programs or maps are gone.
    fn stats(&self) -> Result<Self::Stats, Self::Error>;

    /// Returns why the daemon has ended, if it has.
    fn ended(&self) -> Option<Ended>;

    /// Returns whether the daemon worked between two readings of its counters. If it did not, the
    /// service manager's watchdog is not notified.
    fn is_alive(_before: &Self::Stats, _now: &Self::Stats) -> bool {
        true
    }
}

/// What ended a run of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A signal, by its name.
    Signal(&'static str),
    /// The deadline.
    Deadline,
    /// The end of the parent process, which started it and waited for its readiness.
    ParentGone,
    /// The end of the daemon.
    Ended(Ended),
}

/// Waits until a child that runs a daemon is ready. When this is dropped, or this process ends in
/// any way, the child ends.
#[derive(Debug)]
pub struct Readiness {
    pipe: File,
    is_ready: Cell<bool>,
}

impl Readiness {
    /// Lets the process that `command` starts report by [`Supervisor::ready`]. The command may
    /// start one process and must be dropped then.
    ///
    /// # Errors
    /// If the process has too many descriptors.
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

    /// Returns whether the child is ready by now, or has ended.
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

    /// Returns whether the child had reported readiness at the last check.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.is_ready.get()
    }
}

/// The pipe that tells a parent that its child is ready, and the child that its parent is gone.
struct Parent {
    pipe: File,
    is_notified: Cell<bool>,
}

impl Parent {
    fn notify_ready(&self) {
        if !self.is_notified.replace(true) {
            // A parent that no longer waits need not know.
            let _ = (&self.pipe).write_all(b"\n");
        }
    }

    /// Returns whether the other end of the pipe is closed.
    fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(self.pipe.as_fd(), PollFlags::empty())];
        let _ = poll(&mut fds, PollTimeout::ZERO);
        fds[0]
            .revents()
            .is_some_and(|it| it.contains(PollFlags::POLLERR))
    }
}

/// Returns the pipe of a waiting parent, if there is one, and marks it close-on-exec.
fn waiting_parent() -> Option<File> {
    let number: RawFd = std::env::var(READY_FD).ok()?.parse().ok()?;
    if number <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: no pointers. The call fails for a number that is not a descriptor.
    if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return None;
    }
    // SAFETY: it is open, and the parent has given it to this process alone.
    Some(unsafe { File::from_raw_fd(number) })
}

/// Runs a daemon in the foreground of a process.
pub struct Supervisor {
    signals: SignalFd,
    hangup: RefCell<Option<Box<dyn Fn()>>>,
    parent: Option<Parent>,
    watchdog: Option<Duration>,
    /// When the watchdog was last notified, in any run.
    notified_at: Cell<Instant>,
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
    /// waits for them itself. Call this once, before any other thread is started.
    ///
    /// # Errors
    /// If the kernel refuses a signal descriptor.
    pub fn new() -> io::Result<Self> {
        // If SIGCHLD is ignored, which may be inherited, the exit status of children is lost
        // (wait(2)).
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
                is_notified: Cell::new(false),
            }),
            watchdog: sd_notify::watchdog_enabled(),
            notified_at: Cell::new(Instant::now()),
        })
    }

    /// Calls `act` on SIGHUP from now on, instead of ending.
    pub fn on_hangup(&self, act: impl Fn() + 'static) {
        *self.hangup.borrow_mut() = Some(Box::new(act));
    }

    /// Tells the service manager and a waiting parent that the daemon is ready, with a line for
    /// `systemctl status`.
    pub fn ready(&self, status: &str) {
        if let Some(parent) = &self.parent {
            parent.notify_ready();
        }
        notify(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// Tells the service manager that the daemon is stopping.
    pub fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }

    /// Waits until something ends the daemon, and returns what that was. About once per second
    /// `describe` makes a line from the previous counters, the current ones and the time between
    /// them; `show`, if given, shows it to a person.
    ///
    /// # Errors
    /// If the daemon's counters cannot be read.
    pub fn run<D: Daemon>(
        &self,
        daemon: &D,
        deadline: Option<Instant>,
        describe: impl Fn(&D::Stats, &D::Stats, Duration) -> String,
        show: Option<&dyn Fn(&str)>,
    ) -> Result<Outcome, D::Error> {
        // The service manager expects a notification within `watchdog`: send two.
        let notify_interval = self.watchdog.map(|watchdog| watchdog / 2);
        let mut shown = Instant::now();
        let mut before = daemon.stats()?;
        loop {
            let mut wait = notify_interval.map_or(MAX_WAIT, |notify_interval| {
                MAX_WAIT.min(notify_interval / 2)
            });
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
            let elapsed = shown.elapsed();
            let is_notification_due = notify_interval
                .is_some_and(|notify_interval| self.notified_at.get().elapsed() >= notify_interval);
            if !is_notification_due && (show.is_none() || elapsed < STATUS_INTERVAL) {
                continue;
            }
            // Reading the counters is part of the check: a stuck daemon fails here.
            let now = daemon.stats()?;
            let line = describe(&before, &now, elapsed);
            if let Some(show) = show {
                show(&line);
            }
            if is_notification_due && D::is_alive(&before, &now) {
                notify(&[NotifyState::Watchdog, NotifyState::Status(&line)]);
                self.notified_at.set(Instant::now());
            }
            if elapsed >= STATUS_INTERVAL {
                (before, shown) = (now, Instant::now());
            }
        }
    }

    /// Returns the next signal, if one arrives in time.
    fn wait_signal(&self, timeout: Duration) -> Option<Signal> {
        let mut fds = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        // Round up, so that this does not become a busy loop just before the deadline.
        let ms = u16::try_from(timeout.as_millis() + 1).unwrap_or(u16::MAX);
        let _ = poll(&mut fds, PollTimeout::from(ms));
        let info = self.signals.read_signal().ok().flatten()?;
        Signal::try_from(info.ssi_signo as i32).ok()
    }
}

/// Notifies the service manager, if there is one. A failure is no reason to stop.
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
            Ended::Requested
        })
        .unwrap();
        lifecycle.freeze(true);
        lifecycle.wait_ended(Duration::from_millis(20));
        assert_eq!(lifecycle.ended(), None);
        worker.stop_and_join();
        assert_eq!(lifecycle.ended(), Some(Ended::Requested));
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
