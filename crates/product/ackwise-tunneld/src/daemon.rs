//! The life of a tunnel: it is set up, started, watched and stopped.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ackwise_config::tunnel::Tunnel as Config;
use ackwise_netdev::AttachMode;
use ackwise_netdev::control::{Listener, Server, TIMEOUT};
use ackwise_netdev::daemon::{self, Ended, Lifecycle};
use ackwise_netdev::privileges::{PrivilegedOps, drop_privileges};
use ackwise_netdev::registry::{Entry, Redirector, netns_inode};

use crate::setup::Setup;
use crate::shared::{Shared, lock};
use crate::worker::Worker;
use crate::{Error, Stats, control, priority};

/// A tunnel that is set up but does not move packets yet. They take the ordinary path. Nothing that
/// follows needs a privilege, except for the removal of clsact filters.
#[derive(Debug)]
pub struct Prepared {
    worker: Worker,
    claim: Entry<Redirector>,
    listener: Listener,
    stats: Stats,
    lifecycle: Lifecycle,
    user: Option<String>,
}

/// A running tunnel. It stops when this is dropped.
#[derive(Debug)]
pub struct Daemon {
    running: Arc<Running>,
    /// Dropped before the worker, so that nobody asks a tunnel that is stopping.
    server: Option<Server>,
    worker: daemon::Worker,
    /// The claim on the device. Nobody else gets it before the worker has ended.
    _claim: Entry<Redirector>,
}

/// State that the owner and the control thread share.
#[derive(Debug)]
struct Running {
    device: String,
    interface: Option<String>,
    started: Instant,
    shared: Shared,
}

impl Prepared {
    /// Creates the devices, sockets and programs in the network namespace of the calling thread.
    ///
    /// # Errors
    /// Fails if the configuration names something that does not exist, if a privilege is
    /// missing, or if the kernel refuses.
    pub fn new(config: Config, attach: AttachMode) -> Result<Self, Error> {
        let mut claim = control::claim(&config.device)?;
        let user = config.user.clone();
        let Setup {
            worker,
            stats,
            lifecycle,
            redirect,
        } = Setup::new(config, attach)?;
        let netns = netns_inode().map_err(Error::system("read the network namespace's inode"))?;
        claim.publish(&Redirector {
            pid: std::process::id(),
            name: stats.device.clone(),
            netns,
            redirect,
        })?;
        let listener = claim.listen()?;
        Ok(Self {
            worker,
            claim,
            listener,
            stats,
            lifecycle,
            user,
        })
    }

    /// Drops the privileges of this thread and of the threads that it starts later, and becomes the
    /// configured user; see [`drop_privileges`]. The process must have one thread.
    ///
    /// # Errors
    /// Fails if there is no such user, or if the system refuses. The tunnel must not be started
    /// then.
    pub fn drop_privileges(&mut self) -> Result<(), Error> {
        priority::raise();
        let ops = PrivilegedOps {
            clsact: self.stats.attach == Some(AttachMode::Clsact),
            runs: self.worker.link.has_batches(),
            ..PrivilegedOps::default()
        };
        Ok(drop_privileges(
            &mut self.claim,
            self.user.as_deref(),
            &ops,
        )?)
    }

    /// Starts the thread that moves packets.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub fn start(self) -> Result<Daemon, Error> {
        let lifecycle = Arc::new(self.lifecycle);
        let redirect = self.worker.redirect.as_ref();
        let running = Arc::new(Running {
            device: self.stats.device.clone(),
            interface: self.stats.interface.clone(),
            started: Instant::now(),
            shared: Shared {
                lifecycle: Arc::clone(&lifecycle),
                stats: Mutex::new(self.stats),
                hook: redirect.map(|redirect| Arc::clone(&redirect.hook)),
            },
        });
        let (worker, shared) = (self.worker, Arc::clone(&running));
        let work = move || worker.run(&shared.shared);
        let worker = daemon::Worker::spawn("ackwise-tunnel", lifecycle, work)
            .map_err(Error::system("start a thread"))?;
        let (queried, stopped) = (Arc::clone(&running), Arc::clone(&running));
        let mut daemon = Daemon {
            running,
            server: None,
            worker,
            _claim: self.claim,
        };
        daemon.server = Some(control::start(
            self.listener,
            move || queried.stats(),
            move || {
                stopped.shared.lifecycle.stop();
                stopped.shared.lifecycle.wait_ended(TIMEOUT / 2);
                stopped.stats()
            },
        )?);
        Ok(daemon)
    }
}

impl Daemon {
    /// Sets up and starts a tunnel, and keeps all privileges: for a process that does other things
    /// as well.
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
        self.running.shared.ended()
    }

    /// Stops the tunnel and returns the last statistics. Packets take the ordinary path from
    /// now on; waiting packets do so at once.
    ///
    /// # Errors
    /// Returns [`Error::InterfaceGone`], [`Error::DeviceGone`] or [`Error::FilterGone`] if the tunnel
    /// had ended for that reason.
    pub fn stop(mut self) -> Result<Stats, Error> {
        self.worker.stop_and_join();
        let interface = self.running.interface.clone().unwrap_or_default();
        match self.ended() {
            Some(Ended::InterfaceGone) => Err(Error::InterfaceGone(interface)),
            Some(Ended::DeviceGone) => Err(Error::DeviceGone(self.running.device.clone())),
            Some(Ended::FilterGone) => Err(Error::FilterGone(interface)),
            _ => Ok(self.stats()),
        }
    }

    /// Makes the thread pause, as if the process were stopped. For tests.
    #[doc(hidden)]
    pub fn freeze(&self, frozen: bool) {
        self.running.shared.lifecycle.freeze(frozen);
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

    /// The published CPU time of a worker that hangs does not grow.
    fn is_alive(before: &Stats, now: &Stats) -> bool {
        now.cpu_s > before.cpu_s
    }
}

impl Running {
    fn stats(&self) -> Stats {
        Stats {
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            ..lock(&self.shared.stats).clone()
        }
    }
}
