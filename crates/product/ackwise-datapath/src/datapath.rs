//! Attaches the datapath, keeps it alive, and detaches it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use ackwise_netdev::control::{Listener, Request, Server};
use ackwise_netdev::daemon::{Daemon, Ended, Lifecycle, Worker};
use ackwise_netdev::privileges::{PrivilegedOps, drop_privileges};
use ackwise_netdev::{Attachment, FilterWatch, Interface};
use ackwise_policy::Config;

use crate::control::{self, Claim, Holder, Status};
use crate::emit::{FIFO_PRIORITY, Shared};
use crate::error::check_capabilities;
use crate::hooks::{Hooks, install};
#[cfg(feature = "selftest")]
use crate::programs::selftest::LockContention;
use crate::programs::{DATA, Programs};
use crate::renewal::{Renewal, Renewed};
use crate::silence::check_silent_drop;
use crate::{AttachMode, Error, FlowStats, Options, Stats, sys};

/// How often [`Datapath::wait`] checks for the end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The maximum number of flows that are read to find the busiest.
const MAX_FLOWS: usize = 65_536;
/// Added to the maximum hold when the datapath detaches, to let the last re-emissions pass.
const DRAIN_TIME: Duration = Duration::from_millis(30);

/// What is released when the datapath detaches.
struct Attached {
    programs: Programs,
    /// The attachment of the ACK side, then that of the data side.
    attachments: Vec<Attachment>,
    worker: Worker,
    /// `None` if nothing needs to know who fills the link.
    _queues: Option<Worker>,
    /// `None` if the policy does not need to know which CPUs are busy.
    _cpus: Option<Worker>,
    claim: Claim,
    /// The programs that replaced the first ones.
    renewed: Option<Renewed>,
}

/// What the owner and the control thread share.
struct Inner {
    options: Options,
    /// The current policy; its parameters may differ from those in the options.
    policy: Mutex<Config>,
    /// Loads programs with other parameters; `None` if the datapath is not renewable.
    renewal: Mutex<Option<Renewal>>,
    ifindex: u32,
    clsact: bool,
    filters: FilterWatch,
    made_clsact: bool,
    fallback: Option<String>,
    started: Instant,
    lifecycle: Arc<Lifecycle>,
    shared: Arc<Shared>,
    attached: Mutex<Option<Attached>>,
    last: Mutex<Option<Stats>>,
    /// The measured rate of the interface's queue, if it is measured.
    rate: Option<ackwise_autorate::Handle>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A datapath that is attached until this is dropped.
pub struct Datapath {
    inner: Arc<Inner>,
    server: Option<Server>,
}

impl std::fmt::Debug for Datapath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Datapath")
            .field("ifname", &self.inner.options.ifname)
            .field("clsact", &self.inner.clsact)
            .finish_non_exhaustive()
    }
}

/// Changes the parameters of the policy of a [`Datapath`].
pub struct Renewer(Arc<Inner>);

impl std::fmt::Debug for Renewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Renewer").finish_non_exhaustive()
    }
}

impl Renewer {
    /// Switches to other parameters of the same policy. The attachments, the state of each flow and
    /// held ACKs stay. This may take some seconds, in which the old parameters apply.
    ///
    /// # Errors
    /// [`Error::NotRenewable`] for another policy, for a datapath that was not made renewable, and
    /// for one that is detached; otherwise the kernel's refusal. The old parameters then still
    /// apply.
    pub fn renew(&self, policy: Config) -> Result<(), Error> {
        self.0.renew(policy)
    }

    /// Makes a renewal in progress, and all later ones, fail soon: the datapath is about to end.
    pub fn end(&self) {
        self.0.end_renewals();
    }

    /// Records that the interface's queue was replaced by one for which `Options::ack_priority` is
    /// not meant.
    pub fn note_queue_replaced(&self) {
        self.0.shared.queue_replaced.store(true, Ordering::SeqCst);
    }
}

/// Publishes this process in the registry. This needs permission to write there.
fn register(
    claim: &mut Claim,
    options: &Options,
    interface: &Interface,
    made_clsact: bool,
) -> Result<Listener, Error> {
    claim.entry.publish(&Holder {
        pid: std::process::id(),
        ifname: interface.name.clone(),
        ifindex: interface.index,
        netns: claim.netns,
        policy: options.policy.to_string(),
        dry_run: options.dry_run,
        made_clsact,
    })?;
    Ok(claim.entry.listen()?)
}

impl Inner {
    /// Publishes the new policy in the registry.
    fn republish(&self, claim: &mut Claim, policy: &Config) -> Result<(), Error> {
        claim.entry.publish(&Holder {
            pid: std::process::id(),
            ifname: self.options.ifname.clone(),
            ifindex: self.ifindex,
            netns: claim.netns,
            policy: policy.to_string(),
            dry_run: self.options.dry_run,
            made_clsact: self.made_clsact,
        })?;
        Ok(())
    }
}

/// A datapath whose programs are attached but do not withhold yet.
pub struct Prepared {
    options: Options,
    interface: Interface,
    hooks: Hooks,
    claim: Claim,
    /// `Some` once the process is in the registry.
    listener: Option<Listener>,
    lifecycle: Arc<Lifecycle>,
    rate: Option<ackwise_autorate::Handle>,
    renewal: Option<Renewal>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared")
            .field("ifname", &self.options.ifname)
            .finish_non_exhaustive()
    }
}

impl Prepared {
    /// Loads and attaches the programs in the calling thread's network namespace.
    ///
    /// # Errors
    /// If an option is out of range, there is no such interface, another process is attached to it,
    /// a capability is missing, or the kernel refuses something.
    pub fn new(mut options: Options) -> Result<Self, Error> {
        options.check()?;
        check_capabilities()?;
        let interface = Interface::find(&options.ifname)?;
        options.ifname.clone_from(&interface.name);
        let claim = Claim::take(&interface.name, interface.index)?;
        claim.sweep(&interface.name, interface.index);
        let hooks = install(&options, &interface)?;
        let lifecycle = Lifecycle::new().map_err(Error::system("make an event descriptor"))?;
        Ok(Self {
            options,
            interface,
            hooks,
            claim,
            listener: None,
            lifecycle: Arc::new(lifecycle),
            rate: None,
            renewal: None,
        })
    }

    /// Like [`Prepared::new`], but fails if the sender of a packet that is dropped like a withheld
    /// ACK gets an error ([`check_silent_drop`]). The check runs while the programs are verified,
    /// since it is mostly waiting.
    ///
    /// # Errors
    /// As for [`check_silent_drop`] and [`Prepared::new`]. Nothing is attached then.
    pub fn checked(options: Options) -> Result<Self, Error> {
        Self::checked_by(options, check_silent_drop)
    }

    /// Like [`Prepared::checked`] with another check, for tests.
    #[doc(hidden)]
    pub fn checked_by(
        options: Options,
        trial: impl FnOnce(AttachMode) -> Result<(), Error> + Send,
    ) -> Result<Self, Error> {
        let mode = options.attach;
        let (tried, prepared) = std::thread::scope(|scope| {
            let tried = scope.spawn(|| trial(mode));
            let prepared = Self::new(options);
            (tried.join(), prepared)
        });
        let error = match tried {
            Ok(Ok(())) => return prepared,
            Ok(Err(error)) => Ok(error),
            Err(panic) => Err(panic),
        };
        if let Ok(prepared) = prepared {
            drop(prepared);
        }
        Err(error.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }

    /// Lets the parameters of the policy change while the programs run ([`Renewer::renew`]). This
    /// starts a process that keeps the privileges to load programs and becomes the same user as
    /// this one. Call it before privileges are dropped, while the process has one thread.
    ///
    /// # Errors
    /// If there is no such user, or the system refuses a process.
    pub fn make_renewable(&mut self, user: Option<&str>) -> Result<(), Error> {
        let hooks = &mut self.hooks;
        let renewal = Renewal::start(&mut hooks.programs, &self.options.policy, &hooks.raw, user);
        self.renewal = Some(renewal?);
        Ok(())
    }

    /// Drops the privileges of this thread and of the threads that it starts later, and becomes
    /// `user`; see [`drop_privileges`]. The process must have one thread. On failure the programs
    /// are detached.
    ///
    /// # Errors
    /// If there is no such user, or the system refuses.
    pub fn drop_privileges(mut self, user: Option<&str>) -> Result<Self, Error> {
        let ops = PrivilegedOps {
            clsact: self.hooks.is_clsact(),
            marks: self.hooks.emitter.marks_packets(),
            maps: true,
            replaces: self.renewal.is_some(),
            realtime: if self.options.realtime {
                FIFO_PRIORITY
            } else {
                0
            },
            ..PrivilegedOps::default()
        };
        let made_clsact = self.hooks.made_clsact();
        let registered = register(&mut self.claim, &self.options, &self.interface, made_clsact);
        let dropped = registered.and_then(|listener| {
            self.listener = Some(listener);
            Ok(drop_privileges(&mut self.claim.entry, user, &ops)?)
        });
        dropped.map(|()| self)
    }

    /// Includes a measured rate of the interface's queue in the counters.
    pub fn show_rate(&mut self, rate: ackwise_autorate::Handle) {
        self.rate = Some(rate);
    }

    /// Starts the threads. ACKs are withheld from now on.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(self) -> Result<Datapath, Error> {
        let Self {
            options,
            interface,
            hooks,
            mut claim,
            listener,
            lifecycle,
            rate,
            renewal,
        } = self;
        let (clsact, made_clsact) = (hooks.is_clsact(), hooks.made_clsact());
        let Hooks {
            programs,
            attachments,
            mut emitter,
            fallback,
            raw: _,
        } = hooks;
        let shared = Arc::new(Shared::default());
        let queues = emitter
            .egress
            .as_mut()
            .map_or(Ok(None), |egress| {
                egress.watch_queues(interface.index, rate.clone(), &lifecycle)
            })
            .map_err(Error::system("start the thread that looks at queues"))?;
        let cpus = emitter
            .cpus
            .as_mut()
            .map_or(Ok(None), |cpus| cpus.watch(&lifecycle))
            .map_err(Error::system("start the thread that looks at CPUs"))?;
        let worker = {
            let (life, shared) = (Arc::clone(&lifecycle), Arc::clone(&shared));
            let realtime = options.realtime;
            Worker::spawn("ackwise-release", Arc::clone(&lifecycle), move || {
                emitter.run(&life, &shared, realtime);
                Ended::Requested
            })
            .map_err(Error::system("start the release thread"))?
        };
        let listener = match listener {
            Some(listener) => listener,
            None => register(&mut claim, &options, &interface, made_clsact)?,
        };
        let inner = Arc::new(Inner {
            policy: Mutex::new(options.policy),
            renewal: Mutex::new(renewal),
            options,
            ifindex: interface.index,
            clsact,
            filters: FilterWatch::new(interface.index),
            made_clsact,
            fallback,
            started: Instant::now(),
            lifecycle,
            shared,
            attached: Mutex::new(Some(Attached {
                programs,
                attachments,
                worker,
                _queues: queues,
                _cpus: cpus,
                claim,
                renewed: None,
            })),
            last: Mutex::new(None),
            rate,
        });
        let mut datapath = Datapath {
            inner: Arc::clone(&inner),
            server: None,
        };
        datapath.server = Some(control::serve(listener, move |request| {
            inner.answer(request)
        })?);
        Ok(datapath)
    }
}

impl Datapath {
    /// Attaches in the calling thread's network namespace, and keeps all privileges: for a process
    /// that does other things as well.
    ///
    /// # Errors
    /// As for [`Prepared::new`] and [`Prepared::start`].
    pub fn attach(options: Options) -> Result<Self, Error> {
        Prepared::new(options)?.start()
    }

    /// Returns the counters; after a detach, the last ones.
    ///
    /// # Errors
    /// If the maps cannot be read.
    pub fn stats(&self) -> Result<Stats, Error> {
        self.inner.stats()
    }

    /// Returns up to `limit` flows of the table, in no particular order.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        self.inner.flows(limit)
    }

    /// Returns whether the interface still exists.
    #[must_use]
    pub fn interface_alive(&self) -> bool {
        !self.inner.shared.interface_gone.load(Ordering::Acquire)
    }

    /// Returns why the datapath has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        let attached = lock(&self.inner.attached);
        let Some(attached) = &*attached else {
            return Some(Ended::Requested);
        };
        if !self.interface_alive() {
            return Some(Ended::InterfaceGone);
        }
        if self.inner.shared.device_gone.load(Ordering::Acquire) {
            return Some(Ended::DeviceGone);
        }
        let are_attached = || attached.attachments.iter().all(Attachment::is_attached);
        let filter_gone = self.inner.clsact && self.inner.filters.check(are_attached);
        filter_gone.then_some(Ended::FilterGone)
    }

    /// Waits until the datapath ends, at most for `timeout`.
    #[must_use]
    pub fn wait(&self, timeout: Duration) -> Option<Ended> {
        let until = Instant::now() + timeout;
        loop {
            let ended = self.ended();
            let left = until.saturating_duration_since(Instant::now());
            if ended.is_some() || left.is_zero() {
                return ended;
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }

    /// Lets every ACK pass from now on, or resumes thinning. ACKs that are held when it pauses
    /// leave at their deadline; flows are still tracked. Thinning resumes within a heartbeat.
    ///
    /// # Errors
    /// If the maps cannot be written.
    pub fn pause(&self, paused: bool) -> Result<(), Error> {
        self.inner.pause(paused)
    }

    /// Returns a handle that changes the policy's parameters, for use by any thread.
    #[must_use]
    pub fn renewer(&self) -> Renewer {
        Renewer(Arc::clone(&self.inner))
    }

    /// Stops holding, sends what is held, and detaches. Returns the last counters.
    ///
    /// # Errors
    /// [`Error::InterfaceGone`], [`Error::DeviceGone`] or [`Error::FilterGone`] if that is why it
    /// had ended.
    pub fn detach(self) -> Result<Stats, Error> {
        let stats = self.inner.detach()?;
        let ifname = || self.inner.options.ifname.clone();
        if !self.interface_alive() {
            return Err(Error::InterfaceGone(ifname()));
        }
        if self.inner.shared.device_gone.load(Ordering::Acquire) {
            return Err(Error::DeviceGone(ifname()));
        }
        if self.inner.filters.is_gone() {
            return Err(Error::FilterGone(ifname()));
        }
        Ok(stats)
    }

    /// Makes the datapath act as if the process were stopped: there is no heartbeat. For tests of
    /// failing open.
    #[doc(hidden)]
    pub fn freeze(&self, frozen: bool) {
        self.inner.lifecycle.freeze(frozen);
    }

    /// Takes the flows' locks as another CPU would, until the result is dropped. For tests of
    /// failing open; needs `Options::selftest`.
    #[cfg(feature = "selftest")]
    #[doc(hidden)]
    #[must_use]
    pub fn contend_locks(&self) -> LockContention {
        let inner = Arc::clone(&self.inner);
        LockContention::start(move || {
            let attached = lock(&inner.attached);
            attached
                .as_ref()
                .is_some_and(|it| it.programs.contend_locks().is_ok())
        })
    }
}

impl Drop for Datapath {
    fn drop(&mut self) {
        if let Err(e) = self.inner.detach() {
            tracing::warn!("detaching from {}: {e}", self.inner.options.ifname);
        }
        self.server = None;
    }
}

impl Daemon for Datapath {
    type Stats = Stats;
    type Error = Error;

    fn stats(&self) -> Result<Stats, Error> {
        self.inner.stats()
    }

    fn ended(&self) -> Option<Ended> {
        Datapath::ended(self)
    }
}

impl Inner {
    fn answer(&self, request: Request) -> Result<Status, Error> {
        match request {
            Request::Status { flows } => Ok(Status {
                stats: self.stats()?,
                flows: self.busiest_flows(flows)?,
            }),
            Request::Stop => Ok(Status {
                stats: self.detach()?,
                flows: Vec::new(),
            }),
        }
    }

    fn stats(&self) -> Result<Stats, Error> {
        let attached = lock(&self.attached);
        match attached.as_ref() {
            Some(attached) => self.read(&attached.programs),
            None => Ok(lock(&self.last).clone().unwrap_or_default()),
        }
    }

    fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        match lock(&self.attached).as_ref() {
            Some(attached) => attached.programs.flows(limit),
            None => Ok(Vec::new()),
        }
    }

    /// Returns up to `limit` flows, those with the most ACKs first.
    fn busiest_flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        // The map is not ordered.
        let mut flows = self.flows(MAX_FLOWS)?;
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.acks));
        flows.truncate(limit);
        Ok(flows)
    }

    fn read(&self, programs: &Programs) -> Result<Stats, Error> {
        let shared = &self.shared;
        let mut s = Stats {
            ifname: self.options.ifname.clone(),
            ifindex: self.ifindex,
            policy: lock(&self.policy).to_string(),
            position: self.options.position,
            attach: if self.clsact {
                AttachMode::Clsact
            } else {
                AttachMode::Tcx
            },
            attach_fallback: self.fallback.clone(),
            dry_run: self.options.dry_run,
            paused: shared.paused.load(Ordering::Relaxed),
            interface_alive: !shared.interface_gone.load(Ordering::Acquire),
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
        s.measured_rate = self.rate.as_ref().map(ackwise_autorate::Handle::now);
        s.memory.clone_from(programs.memory());
        s.memory_bytes = s.memory.values().sum();
        Ok(s)
    }

    fn pause(&self, paused: bool) -> Result<(), Error> {
        let mut attached = lock(&self.attached);
        let Some(attached) = attached.as_mut() else {
            return Ok(());
        };
        self.shared.paused.store(paused, Ordering::SeqCst);
        if paused {
            self.hold_nothing(&mut attached.programs)?;
        }
        Ok(())
    }

    fn renew(&self, policy: Config) -> Result<(), Error> {
        // Held until the end, so that renewals do not overlap.
        let renewal = lock(&self.renewal);
        let now = *lock(&self.policy);
        if now == policy {
            return Ok(());
        }
        let renewal = renewal.as_ref().filter(|_| now.policy() == policy.policy());
        let renewal = renewal.ok_or(Error::NotRenewable)?;
        // With a single CPU the re-emitting thread may have to wait for the verifier, so nothing is
        // held meanwhile.
        let is_in_the_way = available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        let pauses = is_in_the_way && !self.shared.paused.load(Ordering::SeqCst);
        if pauses {
            self.pause(true)?;
            std::thread::sleep(self.options.hold_max + DRAIN_TIME);
        }
        let is_ending = || self.shared.ending.load(Ordering::SeqCst);
        let new = renewal.load(&policy, || !is_ending());
        if pauses {
            self.pause(false)?;
        }
        let new = new?;
        let mut attached = lock(&self.attached);
        let attached = attached.as_mut().ok_or(Error::NotRenewable)?;
        let [acks, data] = &mut attached.attachments[..] else {
            return Err(Error::NotRenewable);
        };
        data.replace(new.data.as_fd())?;
        if let Err(error) = acks.replace(new.acks.as_fd()) {
            let old = match &attached.renewed {
                Some(renewed) => data.replace(renewed.data.as_fd()),
                None => data.replace(attached.programs.descriptor(DATA)?),
            };
            if let Err(error) = old {
                tracing::warn!("the data side keeps the new parameters: {error}");
            }
            return Err(error.into());
        }
        attached.renewed = Some(new);
        *lock(&self.policy) = policy;
        self.republish(&mut attached.claim, &policy)
    }

    /// Makes a renewal in progress fail soon.
    fn end_renewals(&self) {
        self.shared.ending.store(true, Ordering::SeqCst);
    }

    /// Makes the programs hold nothing until the next heartbeat.
    fn hold_nothing(&self, programs: &mut Programs) -> Result<(), Error> {
        programs.write_control(sys::aw_control {
            use_ack_priority: u32::from(self.shared.use_ack_priority()),
            ..Default::default()
        })
    }

    /// Detaches once; later calls return the same counters.
    fn detach(&self) -> Result<Stats, Error> {
        // First end the process that loads programs. What it is loading is no longer needed.
        self.end_renewals();
        drop(lock(&self.renewal).take());
        let mut guard = lock(&self.attached);
        let Some(mut attached) = guard.take() else {
            return Ok(lock(&self.last).clone().unwrap_or_default());
        };
        // Nothing new is held from here on. Held ACKs leave at their deadline, through the programs
        // that are still attached.
        self.shared.quiesce.store(true, Ordering::SeqCst);
        self.hold_nothing(&mut attached.programs)?;
        if !self.options.dry_run && !self.shared.cannot_reemit() {
            std::thread::sleep(self.options.hold_max + DRAIN_TIME);
        }
        attached.worker.stop_and_join();
        let stats = self.read(&attached.programs)?;
        *lock(&self.last) = Some(stats.clone());
        attached.attachments.clear();
        // Release the claim on the interface only now, and before anybody sees that the datapath
        // has ended.
        drop(attached);
        drop(guard);
        Ok(stats)
    }
}
