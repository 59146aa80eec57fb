//! Attach, keep alive, and undo it all again.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackwise_netdev::socket::Server;
use aya::programs::tc::SchedClassifierLinkId;

use crate::control::{self, Claim, Holder, Status, Target};
use crate::emit::Shared;
use crate::error::missing_capabilities;
use crate::hooks::{Hooks, hook, sweep};
use crate::programs::{Programs, program};
#[cfg(feature = "selftest")]
use crate::selftest::LockContention;
use crate::{Attach, Error, FlowStats, Options, Stats, net, sys};

const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
/// PPP, RAWIP, NONE (tun, wg): packets begin with the IP header.
const ARPHRD_BARE: [u16; 3] = [512, 519, 65534];

/// Why [`Attachment::wait`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Somebody asked for it through the control socket; it is done.
    Detached,
    /// The interface was deleted, or moved to another namespace.
    InterfaceGone,
}

struct Hooked {
    programs: Programs,
    links: Vec<(&'static str, SchedClassifierLinkId)>,
    emitter: Option<JoinHandle<()>>,
    claim: Option<Claim>,
}

/// What both the owner and the control thread act on.
struct Inner {
    options: Options,
    ifindex: u32,
    clsact: bool,
    made_clsact: bool,
    fallback: Option<String>,
    started: Instant,
    shared: Arc<Shared>,
    hooked: Mutex<Option<Hooked>>,
    last: Mutex<Option<Stats>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Programs that are hooked in, until this is dropped.
pub struct Attachment {
    inner: Arc<Inner>,
    server: Option<Server>,
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment")
            .field("ifname", &self.inner.options.ifname)
            .field("clsact", &self.inner.clsact)
            .finish_non_exhaustive()
    }
}

impl Attachment {
    /// Attach in the calling thread's network namespace.
    pub fn attach(options: Options) -> Result<Self, Error> {
        options.check()?;
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(Error::Permission {
                what: "load BPF programs and attach them",
                missing,
            });
        }
        let ifname = options.ifname.clone();
        let ifindex = net::ifindex(&ifname).ok_or_else(|| Error::NoInterface(ifname.clone()))?;
        let link = match net::link_type(&ifname).map_err(Error::system("reading the link type"))? {
            ARPHRD_ETHER | ARPHRD_LOOPBACK => sys::AW_LINK_ETHERNET,
            t if ARPHRD_BARE.contains(&t) => sys::AW_LINK_IP,
            arphrd => return Err(Error::LinkType { ifname, arphrd }),
        };
        let mut claim = Claim::take(&ifname, ifindex)?;
        let leftover = claim.leftover.as_ref().is_some_and(|h| h.made_clsact);
        sweep(&ifname, ifindex, leftover);

        let (hooks, fallback) = hook(&options, ifindex, link)?;
        let holder = Holder {
            pid: std::process::id(),
            ifname,
            ifindex,
            netns: claim.netns,
            policy: options.policy.to_string(),
            dry_run: options.dry_run,
            made_clsact: hooks.made_clsact,
        };
        let shared = Arc::new(Shared::default());
        let Hooks {
            programs,
            links,
            emitter,
            clsact,
            made_clsact,
        } = hooks;
        let thread = {
            let (shared, realtime) = (Arc::clone(&shared), options.realtime);
            std::thread::Builder::new()
                .name("ackwise-release".into())
                .spawn(move || emitter.run(&shared, realtime))
                .map_err(Error::system("starting the release thread"))?
        };
        claim.publish(&holder)?;
        let inner = Arc::new(Inner {
            options,
            ifindex,
            clsact,
            made_clsact,
            fallback,
            started: Instant::now(),
            shared,
            hooked: Mutex::new(None),
            last: Mutex::new(None),
        });
        let server = control::serve(&claim, Arc::clone(&inner) as Arc<dyn Target>);
        *lock(&inner.hooked) = Some(Hooked {
            programs,
            links,
            emitter: Some(thread),
            claim: Some(claim),
        });
        let mut attachment = Self {
            inner,
            server: None,
        };
        attachment.server = Some(server?);
        Ok(attachment)
    }

    /// The counters; after a detach, the last ones.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.inner.stats()
    }

    /// Up to `limit` of the flows that are kept, in no order.
    pub fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        self.inner.flows(limit)
    }

    /// Is the interface still there?
    #[must_use]
    pub fn interface_alive(&self) -> bool {
        !self.inner.shared.gone.load(Ordering::Acquire)
    }

    /// Wait until something else than this process ends the attachment.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Option<Ended> {
        let until = Instant::now() + timeout;
        loop {
            if lock(&self.inner.hooked).is_none() {
                return Some(Ended::Detached);
            }
            if !self.interface_alive() {
                return Some(Ended::InterfaceGone);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
    }

    /// Stop holding, let out what is held, unhook. The last counters, or that the
    /// interface is gone.
    pub fn detach(self) -> Result<Stats, Error> {
        let stats = self.inner.detach()?;
        if self.interface_alive() {
            Ok(stats)
        } else {
            Err(Error::InterfaceGone(self.inner.options.ifname.clone()))
        }
    }

    /// Act as if this process had stopped: no heartbeat. For tests of failing open.
    #[doc(hidden)]
    pub fn freeze(&self, stop: bool) {
        self.inner.shared.freeze.store(stop, Ordering::Release);
    }

    /// Takes the flows' locks as another CPU would, until the result is dropped. For
    /// tests of failing open; needs `Options::selftest`.
    #[cfg(feature = "selftest")]
    #[doc(hidden)]
    #[must_use]
    pub fn contend_locks(&self) -> LockContention {
        let inner = Arc::clone(&self.inner);
        LockContention::start(move || {
            let hooked = lock(&inner.hooked);
            hooked
                .as_ref()
                .is_some_and(|it| it.programs.contend_locks().is_ok())
        })
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        if let Err(e) = self.inner.detach() {
            tracing::warn!("detaching from {}: {e}", self.inner.options.ifname);
        }
        self.server = None;
    }
}

impl Target for Inner {
    fn status(&self, flows: usize) -> Result<Status, Error> {
        Ok(Status {
            stats: self.stats()?,
            flows: self.flows(flows)?,
        })
    }

    fn detach(&self) -> Result<Stats, Error> {
        Inner::detach(self)
    }
}

impl Inner {
    fn stats(&self) -> Result<Stats, Error> {
        let hooked = lock(&self.hooked);
        match hooked.as_ref() {
            Some(hooked) => self.read(&hooked.programs),
            None => Ok(lock(&self.last).clone().unwrap_or_default()),
        }
    }

    fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        match lock(&self.hooked).as_ref() {
            Some(hooked) => hooked.programs.flows(limit),
            None => Ok(Vec::new()),
        }
    }

    fn read(&self, programs: &Programs) -> Result<Stats, Error> {
        let shared = &self.shared;
        let mut s = Stats {
            ifname: self.options.ifname.clone(),
            ifindex: self.ifindex,
            policy: self.options.policy.to_string(),
            position: self.options.position,
            attach: if self.clsact {
                Attach::Clsact
            } else {
                Attach::Tcx
            },
            attach_fallback: self.fallback.clone(),
            dry_run: self.options.dry_run,
            interface_alive: !shared.gone.load(Ordering::Acquire),
            realtime: shared.realtime.load(Ordering::Relaxed),
            uptime_s: self.started.elapsed().as_secs_f64(),
            ..Stats::default()
        };
        let mut counters = programs.counters()?;
        if self.options.dry_run {
            let (late, bytes) = programs.overdue()?;
            counters.reemitted += late;
            counters.reemitted_bytes += bytes;
        }
        s.count(&counters);
        s.release.sent = shared.sent.load(Ordering::Relaxed);
        s.release.send_errors = shared.send_errors.load(Ordering::Relaxed);
        s.release.checksums_filled = shared.checksums_filled.load(Ordering::Relaxed);
        s.release.checksums_wrong = shared.checksums_wrong.load(Ordering::Relaxed);
        s.memory.clone_from(programs.memory());
        s.memory_bytes = s.memory.values().sum();
        Ok(s)
    }

    /// Once; later calls give the same counters.
    fn detach(&self) -> Result<Stats, Error> {
        let mut guard = lock(&self.hooked);
        let Some(mut hooked) = guard.take() else {
            return Ok(lock(&self.last).clone().unwrap_or_default());
        };
        // Nothing new is held from here on. What is held leaves by its deadline,
        // through programs that are still hooked in.
        self.shared.quiesce.store(true, Ordering::Release);
        hooked.programs.keep_alive(Duration::ZERO)?;
        if !self.options.dry_run && !self.shared.gone.load(Ordering::Acquire) {
            std::thread::sleep(self.options.hold_max + Duration::from_millis(30));
        }
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = hooked.emitter.take() {
            let _ = thread.join();
        }
        let stats = self.read(&hooked.programs)?;
        *lock(&self.last) = Some(stats.clone());

        let gone = !net::exists(self.ifindex);
        for (name, id) in hooked.links.drain(..) {
            let unhooked = program(&mut hooked.programs.bpf, name)?.detach(id);
            // Of an interface that is gone, the hooks went with it.
            if let Err(e) = unhooked
                && !gone
            {
                tracing::warn!("unhooking {name}: {e}");
            }
        }
        if self.made_clsact
            && !gone
            && let Err(e) = net::remove_clsact_if_empty(self.ifindex)
        {
            tracing::warn!("removing the clsact qdisc: {e}");
        }
        drop(hooked.claim.take());
        drop(guard);
        Ok(stats)
    }
}
