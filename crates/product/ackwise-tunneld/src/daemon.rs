//! The life of a tunnel: set up, run, watched and stopped.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackwise_config::tunnel::Tunnel as Config;
use ackwise_netdev::AttachMode;
use ackwise_netdev::control::{Claim, Server, TIMEOUT};
use ackwise_netdev::daemon;
use nix::sys::eventfd::EventFd;

use crate::setup::Setup;
use crate::shared::{Ended, Shared, lock};
use crate::worker::Worker;
use crate::{Error, Stats, control, privileges};

/// A tunnel that is set up, but does not move packets yet. They take the ordinary path.
/// Nothing that follows needs a privilege.
#[derive(Debug)]
pub struct Prepared {
    worker: Worker,
    claim: Claim,
    stats: Stats,
    wake: EventFd,
    user: Option<String>,
}

/// A running tunnel. It stops when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    running: Arc<Running>,
    thread: Option<JoinHandle<()>>,
    server: Option<Server>,
}

/// What the owner and the control thread act on.
#[derive(Debug)]
struct Running {
    device: String,
    interface: Option<String>,
    started: Instant,
    wake: EventFd,
    shared: Shared,
}

impl Prepared {
    /// Makes the devices, sockets and programs in the network namespace of the calling
    /// thread.
    ///
    /// # Errors
    /// Fails if the configuration names something that does not exist, if a privilege is
    /// missing, or if the kernel refuses.
    pub fn new(config: Config, attach: AttachMode) -> Result<Self, Error> {
        let claim = control::claim(&config.device)?;
        let user = config.user.clone();
        let Setup {
            worker,
            stats,
            wake,
        } = Setup::new(config, attach)?;
        Ok(Self {
            worker,
            claim,
            stats,
            wake,
            user,
        })
    }

    /// Drops all privileges of this thread and of the threads that it starts later, and
    /// becomes the configured user.
    ///
    /// # Errors
    /// Fails if there is no such user, or if the system refuses.
    pub fn drop_privileges(&self) -> Result<(), Error> {
        privileges::drop_privileges(self.user.as_deref())
    }

    /// Starts the thread that moves packets.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn start(self) -> Result<Daemon, Error> {
        let running = Arc::new(Running {
            device: self.stats.device.clone(),
            interface: self.stats.interface.clone(),
            started: Instant::now(),
            wake: self.wake,
            shared: Shared::default(),
        });
        *lock(&running.shared.stats) = self.stats;
        let worker = self.worker;
        let thread = {
            let running = Arc::clone(&running);
            std::thread::Builder::new()
                .name("ackwise-tunnel".into())
                .spawn(move || worker.run(&running.shared))
                .map_err(Error::system("starting a thread"))?
        };
        let (asked, stopped) = (Arc::clone(&running), Arc::clone(&running));
        let mut daemon = Daemon {
            running,
            thread: Some(thread),
            server: None,
        };
        daemon.server = Some(control::start(
            self.claim,
            move || asked.stats(),
            move || stopped.stop_and_wait(TIMEOUT / 2),
        )?);
        Ok(daemon)
    }
}

impl Daemon {
    /// Sets up and starts a tunnel, and keeps all privileges: for a process that does other
    /// things, too.
    ///
    /// # Errors
    /// Fails as [`Prepared::new`] and [`Prepared::start`] do.
    pub fn start(config: Config, attach: AttachMode) -> Result<Self, Error> {
        Prepared::new(config, attach)?.start()
    }

    /// Returns the statistics, which are at most 50 ms old.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.running.stats()
    }

    /// Returns why the tunnel has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        *lock(&self.running.shared.ended)
    }

    /// Stops the tunnel and returns the last statistics. Packets take the ordinary path from
    /// now on; waiting packets do so at once.
    ///
    /// # Errors
    /// Returns [`Error::InterfaceGone`] or [`Error::DeviceGone`] if the tunnel had ended for
    /// that reason.
    pub fn stop(mut self) -> Result<Stats, Error> {
        self.running.stop();
        self.join();
        let interface = self.running.interface.clone().unwrap_or_default();
        match self.ended() {
            Some(Ended::InterfaceGone) => Err(Error::InterfaceGone(interface)),
            Some(Ended::DeviceGone) => Err(Error::DeviceGone(self.running.device.clone())),
            _ => Ok(self.stats()),
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Makes the thread stand still, as if the process were stopped. For tests.
    #[doc(hidden)]
    pub fn freeze(&self, frozen: bool) {
        self.running.shared.freeze.store(frozen, Ordering::Release);
    }
}

impl daemon::Daemon for Daemon {
    type Stats = Stats;
    type Error = Infallible;

    fn stats(&self) -> Result<Stats, Infallible> {
        Ok(Daemon::stats(self))
    }

    fn ended(&self) -> Option<Ended> {
        Daemon::ended(self)
    }

    /// A worker that hangs uses no CPU time that it publishes.
    fn is_alive(before: &Stats, now: &Stats) -> bool {
        now.cpu_s > before.cpu_s
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.server = None;
        self.running.stop();
        self.join();
    }
}

impl Running {
    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.freeze.store(false, Ordering::Release);
        let _ = self.wake.write(1);
    }

    /// Stops the tunnel, waits for its end at most this long, and returns the statistics.
    fn stop_and_wait(&self, timeout: Duration) -> Stats {
        self.stop();
        let began = Instant::now();
        while lock(&self.shared.ended).is_none() && began.elapsed() < timeout {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.stats()
    }

    fn stats(&self) -> Stats {
        Stats {
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            ..lock(&self.shared.stats).clone()
        }
    }
}
