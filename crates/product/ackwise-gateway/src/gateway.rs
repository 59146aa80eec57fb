//! Set up, watch over, and undo again.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackwise_netdev::socket::Server;
use ackwise_netdev::{Attach, Interface, PacketSocket, Role, SendStats, TunDevice, clock};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::Error;
use crate::config::{Config, describe};
use crate::control;
use crate::core::Core;
use crate::echo::Echo;
use crate::hook::{Counters, Hook};
use crate::meter::Meter;
use crate::rtt::Rtt;
use crate::stats::{Amount, Passed, Stats};
use crate::worker::{Measuring, Shared, Why, Worker};

/// Why a gateway has ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Somebody asked for it through the control socket.
    Asked,
    /// Its interface was deleted.
    InterfaceGone,
    /// Its own device was deleted, or taken down.
    DeviceGone,
}

/// A gateway at work, until this is dropped.
#[derive(Debug)]
pub struct Gateway {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
    /// Before the claim: the socket is the claim.
    server: Option<Server>,
}

/// What both the owner and the control thread act on.
#[derive(Debug)]
pub(crate) struct Inner {
    config: Config,
    device: String,
    started: Instant,
    hook: Mutex<Hook>,
    echo: Mutex<Option<Echo>>,
    wake: EventFd,
    shared: Shared,
}

/// By which packets come: of the same link type as the interface that it stands in for.
pub(crate) fn device(interface: &Interface) -> Result<TunDevice, Error> {
    // A tag that the interface would add by itself is in the frame here.
    let mtu = interface.mtu + 8;
    Ok(TunDevice::open(
        "awgate%d",
        interface.kind,
        mtu,
        Role::Redirect,
    )?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Gateway {
    /// Starts in the calling thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface or it has a gateway already, a right is missing, or
    /// the kernel would not do its part.
    pub fn start(config: Config, attach: Attach) -> Result<Self, Error> {
        let seed = clock::monotonic_ns() ^ u64::from(std::process::id()) << 32;
        Self::start_seeded(config, attach, seed)
    }

    /// The same, where RED's draws are to come from a seed of one's own.
    ///
    /// # Errors
    /// As for [`start`](Self::start).
    pub fn start_seeded(config: Config, attach: Attach, seed: u64) -> Result<Self, Error> {
        let interface = Interface::find(&config.interface)?;
        let claim = control::claim(&interface.name)?;
        // Not 0, which is no mark at all.
        let cookie = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1;
        let device = device(&interface)?;
        let socket = PacketSocket::open(interface.clone(), cookie)?;
        let mut hook = Hook::install(&interface, device.index, cookie, attach)?;
        let echo = config
            .acc
            .then(|| Echo::install(&interface, hook.attach()))
            .transpose()?;
        let measuring = config
            .min_rate_bps
            .map(|least| {
                Ok::<_, Error>(Measuring {
                    meter: Meter::new(least, config.rate_bps),
                    rtt: Rtt::install(&interface, hook.attach())?,
                    idle: true,
                })
            })
            .transpose()?;
        let heart = hook.heart()?;
        let failed = |errno: nix::Error| Error::system("making an event descriptor")(errno.into());
        let wake =
            EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(failed)?;
        let woken: OwnedFd = std::os::fd::AsFd::as_fd(&wake)
            .try_clone_to_owned()
            .map_err(Error::system("duplicating a descriptor"))?;
        let mut core = Core::new(&config, interface.kind, interface.mtu, seed);
        if let Some(least) = config.min_rate_bps {
            core.set_rate(least);
        }
        let inner = Arc::new(Inner {
            config,
            device: device.name.clone(),
            started: Instant::now(),
            hook: Mutex::new(hook),
            echo: Mutex::new(echo),
            wake,
            shared: Shared::default(),
        });
        let worker = Worker {
            core,
            interface,
            device,
            socket,
            heart,
            measuring,
            wake: woken,
            out: Vec::new(),
            read: 0,
            sent: SendStats::default(),
        };
        // Whoever asks at once is told what there is.
        worker.publish(&inner.shared);
        let thread = {
            let inner = Arc::clone(&inner);
            std::thread::Builder::new()
                .name("ackwise-gateway".into())
                .spawn(move || {
                    worker.run(&inner.shared, &inner.hook);
                    // After what still waited has left, marked or not.
                    if let Some(echo) = lock(&inner.echo).as_mut() {
                        echo.remove();
                    }
                })
                .map_err(Error::system("starting a thread"))?
        };
        let mut gateway = Self {
            inner,
            thread: Some(thread),
            server: None,
        };
        gateway.server = Some(control::start(claim, Arc::clone(&gateway.inner))?);
        Ok(gateway)
    }

    /// The counters; those of the queue are of the last 50 ms.
    ///
    /// # Errors
    /// The program's counters cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.inner.stats()
    }

    /// Why it has ended by itself, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        lock(&self.inner.shared.ended).map(|why| match why {
            Why::Asked => Ended::Asked,
            Why::InterfaceGone => Ended::InterfaceGone,
            Why::DeviceGone => Ended::DeviceGone,
        })
    }

    /// Ends it: packets take the ordinary way from now on, what still waits is sent at
    /// once. The last counters, or why it had ended before.
    ///
    /// # Errors
    /// The interface or the gateway's device is gone.
    pub fn stop(mut self) -> Result<Stats, Error> {
        self.inner.stop();
        self.join();
        match self.ended() {
            Some(Ended::InterfaceGone) => {
                Err(Error::InterfaceGone(self.inner.config.interface.clone()))
            }
            Some(Ended::DeviceGone) => Err(Error::DeviceGone(self.inner.device.clone())),
            _ => self.stats(),
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Acts as if the process had stopped: no sign of life. For tests.
    #[doc(hidden)]
    pub fn freeze(&self, stop: bool) {
        self.inner.shared.freeze.store(stop, Ordering::Release);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.server = None;
        self.inner.stop();
        self.join();
    }
}

impl Inner {
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        let _ = self.wake.write(1);
    }

    pub(crate) fn stop_and_wait(&self, most: Duration) -> Result<Stats, Error> {
        self.stop();
        let began = Instant::now();
        while lock(&self.shared.ended).is_none() && began.elapsed() < most {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.stats()
    }

    pub(crate) fn stats(&self) -> Result<Stats, Error> {
        let Counters {
            taken,
            taken_bytes,
            returned: _,
            other,
            neighbour,
            unattended,
        } = lock(&self.hook).counters()?;
        let hook = lock(&self.hook).attach();
        let acc = lock(&self.echo).as_ref().map(Echo::counters).transpose()?;
        let stats = lock(&self.shared.stats).clone();
        Ok(Stats {
            interface: self.config.interface.clone(),
            pid: std::process::id(),
            rate_bps: self.config.rate_bps,
            header: self.config.overhead,
            discipline: describe(&self.config.queue),
            attach: hook,
            device: self.device.clone(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            taken: Amount {
                packets: taken,
                bytes: taken_bytes,
            },
            acc,
            passed: Passed {
                other,
                neighbour,
                unattended,
            },
            ..stats
        })
    }
}
