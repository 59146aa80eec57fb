//! Starts a gateway, watches it, and takes it down.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use ackwise_bandwidth::Bounds;
use ackwise_netdev::control::{Listener, Request, Server, TIMEOUT};
use ackwise_netdev::daemon::{Daemon, Ended, Lifecycle, Worker};
use ackwise_netdev::privileges::{PrivilegedOps, drop_privileges};
use ackwise_netdev::registry::{self, Entry, Redirector, netns_inode};
use ackwise_netdev::{
    AttachMode, FilterWatch, Interface, PacketSocket, Role, SendStats, TunDevice,
};

use crate::Error;
use crate::config::Config;
use crate::control;
use crate::core::Core;
use crate::echo::Echo;
use crate::forwarder::Forwarder;
use crate::rate_controller::RateController;
use crate::redirect::Redirect;
use crate::shared::{Shared, lock};
use crate::stats::Stats;

/// A gateway that runs until this is dropped.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    /// Dropped before the worker, so that nobody asks a gateway that is stopping.
    server: Option<Server>,
    worker: Worker,
    /// The claim on the interface. Nobody else gets it before the worker has ended.
    _claim: Entry<Redirector>,
}

/// The maximum MTU of a TUN or TAP device, including its link header.
const MAX_MTU: u32 = 65_535;

/// Opens the device through which packets reach the gateway. It has the same link type as the
/// interface that it stands in for.
pub(crate) fn open_device(interface: &Interface) -> Result<TunDevice, Error> {
    // A VLAN tag that the interface would add itself is inside the frame here. The device also
    // takes packets longer than its MTU, which cannot be as large as that of some interfaces.
    let most = MAX_MTU - u32::from(interface.header_len());
    let mtu = interface.mtu.saturating_add(8).min(most);
    Ok(TunDevice::open(
        "awgate%d",
        interface.kind,
        mtu,
        Role::Redirect,
    )?)
}

/// Returns the gateway's record in the registry.
fn redirector(interface: &Interface, program: u32) -> Result<Redirector, Error> {
    let netns = netns_inode().map_err(Error::system("read the network namespace's inode"))?;
    Ok(Redirector {
        pid: std::process::id(),
        name: interface.name.clone(),
        netns,
        redirect: Some(registry::Redirect {
            ifindex: interface.index,
            program,
        }),
    })
}

/// The random numbers of a gateway.
#[derive(Debug, Clone, Copy)]
struct RandomSeeds {
    /// The seed for the hash of flows, so that nobody can choose flows that collide, and for RED.
    seed: u64,
    /// The mark of packets that have been queued. It reveals nothing of the seed.
    cookie: u32,
}

impl RandomSeeds {
    fn random() -> Result<Self, Error> {
        let wrap = |error: getrandom::Error| Error::system("draw random numbers")(error.into());
        Ok(Self {
            seed: getrandom::u64().map_err(wrap)?,
            cookie: getrandom::u32().map_err(wrap)? | 1,
        })
    }

    fn from_seed(seed: u64) -> Self {
        Self {
            seed,
            // A mark of 0 means no mark.
            cookie: (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1,
        }
    }
}

/// A gateway that is set up but does not move packets yet. They take the ordinary path.
pub struct Prepared {
    forwarder: Forwarder,
    shared: Arc<Shared>,
    /// `Some` once the process has dropped its privileges: binding the socket needs one.
    listener: Option<Listener>,
    claim: Entry<Redirector>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

impl Prepared {
    /// Creates the device, the socket and the programs, in the calling thread's network namespace.
    ///
    /// # Errors
    /// If there is no such interface, it already has a gateway, a capability is missing, or the
    /// kernel refuses something.
    pub fn new(config: Config, mode: AttachMode) -> Result<Self, Error> {
        Self::with_seeds(config, mode, RandomSeeds::random()?)
    }

    fn with_seeds(config: Config, mode: AttachMode, seeds: RandomSeeds) -> Result<Self, Error> {
        let RandomSeeds { seed, cookie } = seeds;
        let interface = Interface::find(&config.interface)?;
        let mut claim = control::claim(&interface)?;
        let device = open_device(&interface)?;
        let socket = PacketSocket::open(interface.clone(), cookie)?;
        let mut redirect = Redirect::install(&interface, device.index, cookie, mode)?;
        claim.publish(&redirector(&interface, redirect.program())?)?;
        let mode = redirect.mode();
        let echo = config.acc.then(|| Echo::install(&interface, mode));
        let echo = echo.transpose()?;
        let rate_controller = config.min_rate_bps.map(|min| {
            let bounds = Bounds {
                min_bps: min,
                max_bps: config.rate_bps,
            };
            RateController::install(&interface, mode, bounds, config.overhead)
        });
        let rate_controller = rate_controller.transpose()?;
        let heartbeat = redirect.heartbeat()?;
        let lifecycle = Lifecycle::new().map_err(Error::system("make an event descriptor"))?;
        let wake = lifecycle.wake_fd();
        let wake = wake.map_err(Error::system("duplicate a descriptor"))?;
        let core = Core::new(&config, interface.kind, interface.mtu, seed);
        let shared = Arc::new(Shared {
            config,
            device: device.name.clone(),
            started: Instant::now(),
            redirect: Mutex::new(redirect),
            filter: FilterWatch::new(interface.index),
            echo: Mutex::new(echo),
            lifecycle: Arc::new(lifecycle),
            stats: Mutex::default(),
        });
        let forwarder = Forwarder {
            core,
            interface,
            device,
            socket,
            heartbeat,
            rate_controller,
            wake,
            out: Vec::new(),
            read: 0,
            sent: SendStats::default(),
        };
        // Publish now, so that an immediate request gets counters, too.
        forwarder.publish(&shared);
        Ok(Self {
            forwarder,
            shared,
            listener: None,
            claim,
        })
    }

    /// Drops the privileges of this thread and of the threads that it starts later, and becomes
    /// `user`; see [`drop_privileges`]. The process must have one thread.
    ///
    /// # Errors
    /// If there is no such user, or the system refuses. The gateway must not be started then.
    pub fn drop_privileges(&mut self, user: Option<&str>) -> Result<(), Error> {
        let ops = PrivilegedOps {
            clsact: lock(&self.shared.redirect).mode() == AttachMode::Clsact,
            maps: true,
            ..PrivilegedOps::default()
        };
        self.listener = Some(self.claim.listen()?);
        Ok(drop_privileges(&mut self.claim, user, &ops)?)
    }

    /// Starts the thread that moves packets.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(self) -> Result<Gateway, Error> {
        let worker = Gateway::spawn(self.forwarder, Arc::clone(&self.shared))?;
        let listener = match self.listener {
            Some(listener) => listener,
            None => self.claim.listen()?,
        };
        let mut gateway = Gateway {
            shared: self.shared,
            server: None,
            worker,
            _claim: self.claim,
        };
        let shared = Arc::clone(&gateway.shared);
        let answer = move |request| match request {
            Request::Status { .. } => shared.stats(),
            Request::Stop => {
                shared.lifecycle.stop();
                shared.lifecycle.wait_ended(TIMEOUT / 2);
                shared.stats()
            }
        };
        gateway.server = Some(control::serve(listener, answer)?);
        Ok(gateway)
    }
}

impl Gateway {
    /// Starts a gateway in the calling thread's network namespace, and keeps all privileges: for a
    /// process that does other things as well.
    ///
    /// # Errors
    /// As for [`Prepared::new`] and [`Prepared::start`].
    pub fn start(config: Config, mode: AttachMode) -> Result<Self, Error> {
        Prepared::new(config, mode)?.start()
    }

    /// Starts a gateway that uses this seed for RED's random numbers and for the hash of flows. For
    /// tests, since others may guess the seed.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_seeded(config: Config, mode: AttachMode, seed: u64) -> Result<Self, Error> {
        Prepared::with_seeds(config, mode, RandomSeeds::from_seed(seed))?.start()
    }

    fn spawn(forwarder: Forwarder, shared: Arc<Shared>) -> Result<Worker, Error> {
        let lifecycle = Arc::clone(&shared.lifecycle);
        Worker::spawn("ackwise-gateway", lifecycle, move || {
            let why = forwarder.run(&shared);
            // Detach only after the packets that waited have left, marked or not.
            if let Some(echo) = lock(&shared.echo).as_mut() {
                echo.detach();
            }
            why
        })
        .map_err(Error::system("start a thread"))
    }

    /// Returns the counters. Those of the queue are at most 50 ms old.
    ///
    /// # Errors
    /// If the program's counters cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.shared.stats()
    }

    /// Returns why the gateway has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.shared.ended()
    }

    /// Stops the gateway: packets take the ordinary path from now on, and those that wait are sent
    /// at once. Returns the last counters.
    ///
    /// # Errors
    /// If the interface, the gateway's device or its filter was removed before.
    pub fn stop(mut self) -> Result<Stats, Error> {
        self.worker.stop_and_join();
        match self.ended() {
            Some(Ended::InterfaceGone) => {
                let interface = self.shared.config.interface.clone();
                Err(Error::InterfaceGone(interface))
            }
            Some(Ended::DeviceGone) => Err(Error::DeviceGone(self.shared.device.clone())),
            Some(Ended::FilterGone) => {
                let interface = self.shared.config.interface.clone();
                Err(Error::FilterGone(interface))
            }
            _ => self.stats(),
        }
    }

    /// Makes the gateway act as if the process were stopped: it writes no heartbeat. For tests.
    #[doc(hidden)]
    pub fn freeze(&self, frozen: bool) {
        self.shared.lifecycle.freeze(frozen);
    }
}

impl Daemon for Gateway {
    type Stats = Stats;
    type Error = Error;

    fn stats(&self) -> Result<Stats, Error> {
        self.shared.stats()
    }

    fn ended(&self) -> Option<Ended> {
        self.shared.ended()
    }
}
