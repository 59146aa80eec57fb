//! Set up, watch over, and undo again.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackwise_config::tunnel::{OtherPackets, Tunnel as Config};
use ackwise_netdev::socket::{Claim, Server};
use ackwise_netdev::{Attach, Interface, PacketSocket, Role, TunDevice, clock};
use ackwise_tunnel::{KeyPair, LONGEST_CARRIED, key_from_text, key_to_text};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::entrance::Entrance;
use crate::exit::Exit;
use crate::hook::{Hook, Options};
use crate::peer::Peer;
use crate::udp::Sockets;
use crate::waits::{Waits, What};
use crate::worker::{Detour, Shared, Why, Worker, lock};
use crate::{Error, Stats, control, privileges};

/// The MTU of the tunnel's device: what is restored is as long as it was.
const MTU: u32 = 1500;
/// A process that does not read for less than this may just not have been its turn.
const LEAST_GRACE: Duration = Duration::from_millis(5);

/// Why a tunnel has ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Somebody asked for it through the control socket.
    Asked,
    /// Its interface was deleted.
    InterfaceGone,
    /// A device of its own was deleted, or taken down.
    DeviceGone,
}

/// Everything that needs rights is there, and nothing moves yet. Packets take the
/// ordinary path.
#[derive(Debug)]
pub struct Prepared {
    worker: Worker,
    claim: Claim,
    stats: Stats,
    wake: EventFd,
    user: Option<String>,
}

/// A tunnel at work, until this is dropped.
#[derive(Debug)]
pub struct Daemon {
    inner: Arc<Inner>,
    thread: Option<JoinHandle<()>>,
    server: Option<Server>,
}

/// What both the owner and the control thread act on.
#[derive(Debug)]
pub(crate) struct Inner {
    device: String,
    interface: Option<String>,
    started: Instant,
    wake: EventFd,
    shared: Shared,
}

impl Prepared {
    /// Makes devices, sockets and programs in the calling thread's network namespace.
    ///
    /// # Errors
    /// The configuration names what is not there, a right is missing, or the kernel would
    /// not do its part.
    pub fn new(config: Config, attach: Attach) -> Result<Self, Error> {
        let claim = control::claim(&config.device)?;
        let keys = config.private_key.as_deref().map(read_key).transpose()?;
        let peers = config.peers.iter();
        let peers = peers.map(|peer| Peer::new(peer, &config, keys.as_ref()));
        let peers = peers.collect::<Result<Vec<_>, _>>()?;
        let interface = config
            .interface
            .as_deref()
            .map(Interface::find)
            .transpose()?;
        let sockets = Sockets::open(&config.listen)?;
        let link = Entrance::open(&config.device, MTU)?;
        let cookie = cookie();
        let outlet = interface
            .clone()
            .map(|found| PacketSocket::open(found, cookie));
        let exit = Exit::open(outlet.transpose()?, config.fwmark)?;
        let detour = interface.map(|found| detour(&config, found, &link, cookie, attach));
        let detour = detour.transpose()?;
        let failed = |errno: nix::Error| Error::system("making an event descriptor")(errno.into());
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let wake = EventFd::from_flags(flags).map_err(failed)?;
        let woken: OwnedFd = wake
            .as_fd()
            .try_clone_to_owned()
            .map_err(Error::system("duplicating a descriptor"))?;
        let stats = Stats {
            device: config.device.clone(),
            interface: config.interface.clone(),
            attach: detour.as_ref().map(|detour| detour.hook.attach()),
            listen: config.listen.clone(),
            public_key: keys.map(|keys| key_to_text(&keys.public)),
            ..Stats::default()
        };
        let user = config.user.clone();
        let waits = waits(woken, &link, detour.as_ref(), &sockets);
        let worker = Worker {
            waits,
            told: vec![false; peers.len()],
            config,
            peers,
            sockets,
            link,
            detour,
            exit,
            room: Worker::new_room(),
            last: None,
            strangers: 0,
            beats: 0,
            overrun: 0,
        };
        Ok(Self {
            worker,
            claim,
            stats,
            wake,
            user,
        })
    }

    /// Gives up every right of this thread and of those that it starts from now on, and
    /// becomes the configured user: nothing that comes after needs a right.
    ///
    /// # Errors
    /// There is no such user, or the system refuses.
    pub fn drop_privileges(&self) -> Result<(), Error> {
        privileges::drop_privileges(self.user.as_deref())
    }

    /// Begins to work.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(self) -> Result<Daemon, Error> {
        let inner = Arc::new(Inner {
            device: self.stats.device.clone(),
            interface: self.stats.interface.clone(),
            started: Instant::now(),
            wake: self.wake,
            shared: Shared::default(),
        });
        *lock(&inner.shared.stats) = self.stats;
        let worker = self.worker;
        let thread = {
            let inner = Arc::clone(&inner);
            std::thread::Builder::new()
                .name("ackwise-tunnel".into())
                .spawn(move || worker.run(&inner.shared))
                .map_err(Error::system("starting a thread"))?
        };
        let mut daemon = Daemon {
            inner,
            thread: Some(thread),
            server: None,
        };
        daemon.server = Some(control::start(self.claim, Arc::clone(&daemon.inner))?);
        Ok(daemon)
    }
}

fn waits(wake: OwnedFd, link: &TunDevice, detour: Option<&Detour>, sockets: &Sockets) -> Waits {
    let link = std::iter::once((What::Link, link.as_fd()));
    let detour = detour.into_iter().flat_map(|detour| {
        [
            (What::Inlet, detour.inlet.as_fd()),
            (What::Ring, detour.acks.as_fd()),
        ]
    });
    let sockets = sockets.descriptors().enumerate();
    let sockets = sockets.map(|(n, socket)| (What::Socket(n), socket));
    Waits::new(wake, link.chain(detour).chain(sockets))
}

/// Not 0, which is no mark at all.
fn cookie() -> u32 {
    let seed = clock::monotonic_ns() ^ u64::from(std::process::id()) << 32;
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 | 1
}

fn detour(
    config: &Config,
    interface: Interface,
    link: &TunDevice,
    cookie: u32,
    attach: Attach,
) -> Result<Detour, Error> {
    // A tag that the interface would add by itself is in the frame here.
    let inlet = TunDevice::open(
        "awtunin%d",
        interface.kind,
        interface.mtu + 8,
        Role::Redirect,
    )?;
    let options = Options {
        grace: config.period.max(LEAST_GRACE),
        device: inlet.index,
        link: link.index,
        cookie,
        mark: config.fwmark,
        longest: match config.other_packets {
            OtherPackets::Bypass => 0,
            OtherPackets::Carry => LONGEST_CARRIED as u32,
        },
        port: config.listen.first().map_or(0, |address| address.port()),
    };
    let peers = config.peers.iter().zip(0..);
    let allowed_ips = peers.flat_map(|(peer, at)| peer.allowed_ips.iter().map(move |ip| (at, ip)));
    let (hook, memory, acks) = Hook::install(&interface, &options, allowed_ips, attach)?;
    Ok(Detour {
        interface,
        inlet,
        hook,
        memory,
        acks,
    })
}

fn read_key(path: &Path) -> Result<KeyPair, Error> {
    let wrong = |why: String| Error::Key {
        path: path.to_owned(),
        why,
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    if let Ok(about) = std::fs::metadata(path)
        && about.permissions().mode() & 0o077 != 0
    {
        tracing::warn!("{}: others may read it; chmod 600", path.display());
    }
    let secret = key_from_text(&text).map_err(|error| wrong(error.to_string()))?;
    KeyPair::from_secret(secret).map_err(|error| wrong(error.to_string()))
}

impl Daemon {
    /// Sets up and starts, with all rights kept: for a process that does other things, too.
    ///
    /// # Errors
    /// As those of [`Prepared::new`] and [`Prepared::start`].
    pub fn start(config: Config, attach: Attach) -> Result<Self, Error> {
        Prepared::new(config, attach)?.start()
    }

    /// The counters, of the last 50 ms.
    #[must_use]
    pub fn stats(&self) -> Stats {
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

    /// Ends it: packets take the ordinary path from now on, what still waits does so at
    /// once. The last counters, or why it had ended before.
    ///
    /// # Errors
    /// The interface or a device of the tunnel is gone.
    pub fn stop(mut self) -> Result<Stats, Error> {
        self.inner.stop();
        self.join();
        let interface = self.inner.interface.clone().unwrap_or_default();
        match self.ended() {
            Some(Ended::InterfaceGone) => Err(Error::InterfaceGone(interface)),
            Some(Ended::DeviceGone) => Err(Error::DeviceGone(self.inner.device.clone())),
            _ => Ok(self.stats()),
        }
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Acts as if the process stood still. For tests.
    #[doc(hidden)]
    pub fn freeze(&self, stand_still: bool) {
        self.inner
            .shared
            .freeze
            .store(stand_still, Ordering::Release);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.server = None;
        self.inner.stop();
        self.join();
    }
}

impl Inner {
    fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.freeze.store(false, Ordering::Release);
        let _ = self.wake.write(1);
    }

    pub(crate) fn stop_and_wait(&self, most: Duration) -> Stats {
        self.stop();
        let began = Instant::now();
        while lock(&self.shared.ended).is_none() && began.elapsed() < most {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.stats()
    }

    pub(crate) fn stats(&self) -> Stats {
        Stats {
            pid: std::process::id(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            ..lock(&self.shared.stats).clone()
        }
    }
}
