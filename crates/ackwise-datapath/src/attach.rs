//! Load, hook in, keep alive, and undo it all again.

use std::collections::{BTreeMap, HashSet};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ackwise_door::lacks_tcx;
use ackwise_door::socket::Server;
use aya::maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, Queue, RingBuf};
use aya::programs::links::LinkOrder;
use aya::programs::tc::{NlOptions, SchedClassifierLinkId, TcAttachOptions};
use aya::programs::{SchedClassifier, TcAttachType, TestRun, TestRunOptions, tc};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};

use crate::control::{self, Claim, Holder, Status, Target};
use crate::emit::{Door, Emitter, Shared};
use crate::error::{load_error, missing_capabilities, program_error};
use crate::{Attach, Error, FlowStats, Options, Position, Stats, net, stats, sys};

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/ackwise.bpf.o"));

const ACKS: &str = "ackwise_acks";
const DATA: &str = "ackwise_data";
const BACK: &str = "ackwise_back";
const SETUP: &str = "ackwise_setup";
const PROGRAMS: [&str; 6] = [ACKS, DATA, BACK, SETUP, "ackwise_empty", "ackwise_replay"];

const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;
/// PPP, RAWIP, NONE (tun, wg): packets begin with the IP header.
const ARPHRD_BARE: [u16; 3] = [512, 519, 65534];

/// The programs and their maps, in the kernel but not hooked in.
pub struct Programs {
    bpf: Ebpf,
    memory: BTreeMap<String, u64>,
}

impl Programs {
    /// Load for an interface; `link` is an `enum aw_link`.
    pub fn load(options: &Options, ifindex: u32, link: u32, clsact: bool) -> Result<Self, Error> {
        options.check()?;
        Self::load_raw(options, &options.to_bpf(ifindex, link, clsact))
    }

    /// Load for [`Programs::run`] only, where every ACK acknowledges `step` bytes
    /// more than the one before, and data is always in order.
    pub fn for_benchmark(options: &Options, step: u32) -> Result<Self, Error> {
        options.check()?;
        let mut raw = options.to_bpf(1, sys::AW_LINK_ETHERNET, false);
        raw.bench_step = step;
        Self::load_raw(options, &raw)
    }

    /// Load for [`Programs::replay`] only: any policy, whatever it needs of a home.
    pub fn for_replay(policy: ackwise_policy::Config) -> Result<Self, Error> {
        let mut options = Options::new("", policy);
        (options.max_flows, options.slots) = (64, 1);
        Self::load_raw(&options, &options.to_bpf(1, sys::AW_LINK_ETHERNET, false))
    }

    fn load_raw(options: &Options, raw: &sys::aw_options) -> Result<Self, Error> {
        let missing = missing_capabilities();
        if !missing.is_empty() {
            return Err(Error::Permission {
                what: "load BPF programs and attach them",
                missing,
            });
        }
        let deadlines = (2 * options.slots).max(1024);
        // Four tries to read each before it is overwritten: 1 MB or more.
        let ring = (options.slots * 256).next_power_of_two().max(1 << 20);
        let queues: Vec<String> = (0..=sys::AW_CLASSES)
            .map(|n| format!("queue_{n}"))
            .collect();
        let mut loader = EbpfLoader::new();
        loader
            .verifier_log_level(VerifierLogLevel::STATS)
            .override_global("options", raw, true)
            .map_max_entries("flows", options.max_flows)
            .map_max_entries("slots", options.slots)
            .map_max_entries("free_slots", options.slots)
            .map_max_entries("emissions", ring);
        for name in &queues {
            loader.map_max_entries(name, deadlines);
        }
        // What is held by other names is small beside these two.
        let bytes = u64::from(options.max_flows) * (size_of::<sys::aw_entry>() as u64 + 112)
            + u64::from(options.slots) * 1024;
        let mut bpf = loader.load(OBJECT).map_err(|e| load_error(e, bytes))?;
        for name in PROGRAMS {
            program(&mut bpf, name)?
                .load()
                .map_err(|e| program_error(name, e))?;
        }
        let memory = bpf
            .maps()
            .filter_map(|(name, map)| Some((name.to_owned(), map_memory(map)?)))
            .collect();
        let mut programs = Self { bpf, memory };
        programs.fill_free_slots(options.slots)?;
        programs.start_timer()?;
        Ok(programs)
    }

    fn fill_free_slots(&mut self, slots: u32) -> Result<(), Error> {
        let mut free: Queue<_, u32> = Queue::try_from(map(&mut self.bpf, "free_slots")?)?;
        for slot in 0..slots {
            free.push(slot, 0)?;
        }
        Ok(())
    }

    /// Allocating a timer may fail for a moment when memory is short.
    fn start_timer(&mut self) -> Result<(), Error> {
        for round in 0..50 {
            let (code, _) = self.run(SETUP, &[0; 64], 1)?;
            if code == 0 {
                return Ok(());
            }
            tracing::debug!("timer set-up, round {round}: {code}");
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(Error::System {
            what: "setting up the BPF timer (50 tries)",
            source: std::io::ErrorKind::OutOfMemory.into(),
        })
    }

    /// Run a program on a packet; what it returned, and the mean time of a run.
    pub fn run(&self, name: &str, packet: &[u8], repeat: u32) -> Result<(u32, Duration), Error> {
        let program: &SchedClassifier = self
            .bpf
            .program(name)
            .and_then(|p| p.try_into().ok())
            .ok_or_else(|| Error::Object(format!("program {name}")))?;
        let mut options = TestRunOptions::new();
        options.data_in = Some(packet);
        options.repeat = repeat;
        let r = program
            .test_run(options)
            .map_err(|e| program_error("test run", e))?;
        Ok((r.return_value, r.duration))
    }

    /// One step of the policy alone, from the state that earlier steps left.
    pub fn replay(
        &mut self,
        event: &ackwise_policy::Event,
    ) -> Result<ackwise_policy::Verdict, Error> {
        let raw = event.raw();
        // SAFETY: aw_event is plain data without padding (its size is asserted in
        // types.h), so all its bytes are initialised.
        let bytes = unsafe {
            std::slice::from_raw_parts(std::ptr::from_ref(&raw).cast::<u8>(), size_of_val(&raw))
        };
        self.run("ackwise_replay", bytes, 1)?;
        let map: Array<_, sys::aw_replay> = Array::try_from(map(&mut self.bpf, "replays")?)?;
        let verdict = map.get(&0, 0)?.verdict;
        Ok(ackwise_policy::Verdict::from_raw(
            verdict.kind,
            verdict.hold_us,
        ))
    }

    /// Forget what [`Programs::replay`] has built up.
    pub fn replay_reset(&mut self) -> Result<(), Error> {
        let mut map: Array<_, sys::aw_replay> = Array::try_from(map(&mut self.bpf, "replays")?)?;
        Ok(map.set(0, sys::aw_replay::default(), 0)?)
    }

    /// Say that user space lives, so that ACKs are held: for test runs.
    pub fn keep_alive(&mut self, how_long: Duration) -> Result<(), Error> {
        let mut map: Array<_, sys::aw_control> = Array::try_from(map(&mut self.bpf, "control")?)?;
        let alive_until_ns =
            net::monotonic_ns() + u64::try_from(how_long.as_nanos()).unwrap_or(u64::MAX);
        Ok(map.set(0, sys::aw_control { alive_until_ns }, 0)?)
    }

    /// Counters of all CPUs.
    pub fn counters(&self) -> Result<sys::aw_counters, Error> {
        let map = self
            .bpf
            .map("counters")
            .ok_or_else(|| Error::Object("map counters".into()))?;
        let map: PerCpuArray<_, sys::aw_percpu> = PerCpuArray::try_from(map)?;
        Ok(stats::total(&map.get(&0, 0)?))
    }

    /// Flows that are kept now, in no order.
    pub fn flows(&self, limit: usize) -> Result<Vec<FlowStats>, Error> {
        let map = self
            .bpf
            .map("flows")
            .ok_or_else(|| Error::Object("map flows".into()))?;
        let map: HashMap<_, sys::aw_key, sys::aw_entry> = HashMap::try_from(map)?;
        let now = net::monotonic_ns();
        let mut flows = Vec::new();
        let mut seen = HashSet::new();
        // A flow may be evicted under the iterator: then it is over, or begins anew
        // with keys that were there before.
        for key in map.keys().take(4 * limit.max(64)) {
            if flows.len() >= limit {
                break;
            }
            match key {
                Ok(key) => {
                    let Ok(entry) = map.get(&key, 0) else {
                        continue;
                    };
                    let flow = FlowStats::new(&key, &entry, now);
                    if seen.insert((flow.ack_sender.clone(), flow.data_sender.clone())) {
                        flows.push(flow);
                    }
                }
                Err(MapError::KeyNotFound) => break,
                Err(e) => return Err(e.into()),
            }
        }
        Ok(flows)
    }

    /// In a dry run: ACKs that would have been held, would have left at their
    /// deadline, and were not counted yet because their flow said nothing since.
    fn overdue(&self) -> Result<(u64, u64), Error> {
        let map = self
            .bpf
            .map("flows")
            .ok_or_else(|| Error::Object("map flows".into()))?;
        let map: HashMap<_, sys::aw_key, sys::aw_entry> = HashMap::try_from(map)?;
        let now = net::monotonic_ns();
        let late = map.iter().flatten().filter(|(_, e)| e.is_overdue(now));
        Ok(late.fold((0, 0), |(n, bytes), (_, e)| {
            (n + 1, bytes + u64::from(e.dry_len))
        }))
    }

    /// Instructions that the verifier went through, by program.
    #[must_use]
    pub fn verified(&self) -> BTreeMap<&'static str, u32> {
        PROGRAMS
            .into_iter()
            .filter_map(|name| {
                let p: &SchedClassifier = self.bpf.program(name)?.try_into().ok()?;
                Some((name, p.info().ok()?.verified_instruction_count()?))
            })
            .collect()
    }

    /// Kernel memory by map.
    #[must_use]
    pub fn memory(&self) -> &BTreeMap<String, u64> {
        &self.memory
    }
}

fn program<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut SchedClassifier, Error> {
    bpf.program_mut(name)
        .and_then(|p| p.try_into().ok())
        .ok_or_else(|| Error::Object(format!("program {name}")))
}

fn map<'a>(bpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Map, Error> {
    bpf.map_mut(name)
        .ok_or_else(|| Error::Object(format!("map {name}")))
}

/// What the kernel says that a map takes.
fn map_memory(map: &Map) -> Option<u64> {
    let data: &MapData = match map {
        Map::Array(d)
        | Map::PerCpuArray(d)
        | Map::LruHashMap(d)
        | Map::Queue(d)
        | Map::RingBuf(d) => d,
        _ => return None,
    };
    let fd = data.fd().as_fd().as_raw_fd();
    let info = std::fs::read_to_string(format!("/proc/thread-self/fdinfo/{fd}")).ok()?;
    info.lines()
        .find_map(|l| l.strip_prefix("memlock:"))
        .and_then(|v| v.trim().parse().ok())
}

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
    pub fn hold_breath(&self, stop: bool) {
        self.inner.shared.hold_breath.store(stop, Ordering::Release);
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

struct Hooks {
    programs: Programs,
    links: Vec<(&'static str, SchedClassifierLinkId)>,
    emitter: Emitter,
    clsact: bool,
    made_clsact: bool,
}

/// Remove filters that a killed holder left. True if there were any.
pub(crate) fn sweep(ifname: &str, ifindex: u32, made_clsact: bool) -> bool {
    let mut any = false;
    for direction in [TcAttachType::Ingress, TcAttachType::Egress] {
        for name in [ACKS, DATA] {
            any |= tc::qdisc_detach_program(ifname, direction, name).is_ok();
        }
    }
    if any && made_clsact {
        let _ = net::remove_clsact_if_empty(ifindex);
    }
    any
}

/// Load and hook in; with `Attach::Auto` by clsact if tcx will not do.
fn hook(options: &Options, ifindex: u32, link: u32) -> Result<(Hooks, Option<String>), Error> {
    match options.attach {
        Attach::Clsact => Ok((hook_by(options, ifindex, link, true)?, None)),
        Attach::Tcx => hook_by(options, ifindex, link, false)
            .map(|h| (h, None))
            .map_err(|e| if no_tcx(&e) { Error::NoTcx } else { e }),
        Attach::Auto => match hook_by(options, ifindex, link, false) {
            Ok(h) => Ok((h, None)),
            Err(e) if no_tcx(&e) => {
                Ok((hook_by(options, ifindex, link, true)?, Some(e.to_string())))
            }
            Err(e) => Err(e),
        },
    }
}

fn no_tcx(e: &Error) -> bool {
    matches!(e, Error::Attach { cause, .. } if lacks_tcx(cause))
}

fn hook_by(options: &Options, ifindex: u32, link: u32, clsact: bool) -> Result<Hooks, Error> {
    let mut programs = Programs::load(options, ifindex, link, clsact)?;
    let door = match options.position {
        Position::Receiver | Position::Router => {
            Door::Packet(net::packet_socket().map_err(Error::system("opening a packet socket"))?)
        }
        Position::Sender => {
            let (file, name) = net::tap().map_err(Error::system(
                "creating a TAP device (a sender's ACKs come back in by it)",
            ))?;
            if clsact {
                let index = net::ifindex(&name).ok_or_else(|| Error::NoInterface(name.clone()))?;
                net::add_clsact(index).map_err(Error::system("adding clsact to the TAP"))?;
            }
            // Its link and its qdisc go with the device, and the device with its file.
            attach_one(&mut programs, BACK, &name, TcAttachType::Ingress, clsact)?;
            Door::Tap(file)
        }
    };
    let ring = programs
        .bpf
        .take_map("emissions")
        .ok_or_else(|| Error::Object("map emissions".into()))?;
    let control = control_map(&mut programs)?;
    let emitter = Emitter {
        door,
        ifindex,
        ring: RingBuf::try_from(ring)?,
        control,
        sent: vec![0; options.slots as usize],
    };
    let made_clsact =
        clsact && net::add_clsact(ifindex).map_err(Error::system("adding the clsact qdisc"))?;
    let (acks, data) = match options.position {
        Position::Sender => (TcAttachType::Ingress, TcAttachType::Egress),
        _ => (TcAttachType::Egress, TcAttachType::Ingress),
    };
    let mut links = Vec::new();
    for (name, direction) in [(DATA, data), (ACKS, acks)] {
        match attach_one(&mut programs, name, &options.ifname, direction, clsact) {
            Ok(id) => links.push((name, id)),
            Err(e) => {
                drop(programs); // and with them the link that was made
                if made_clsact {
                    let _ = net::remove_clsact_if_empty(ifindex);
                }
                return Err(e);
            }
        }
    }
    Ok(Hooks {
        programs,
        links,
        emitter,
        clsact,
        made_clsact,
    })
}

/// A second handle on the control map, for the thread that keeps it fresh.
fn control_map(programs: &mut Programs) -> Result<Array<MapData, sys::aw_control>, Error> {
    let Map::Array(data) = map(&mut programs.bpf, "control")? else {
        return Err(Error::Object("map control".into()));
    };
    let fd = data
        .fd()
        .as_fd()
        .try_clone_to_owned()
        .map_err(Error::system("duplicating a map's descriptor"))?;
    Ok(Array::try_from(Map::from_map_data(MapData::from_fd(fd)?)?)?)
}

fn attach_one(
    programs: &mut Programs,
    name: &'static str,
    ifname: &str,
    direction: TcAttachType,
    clsact: bool,
) -> Result<SchedClassifierLinkId, Error> {
    let how = if clsact {
        TcAttachOptions::Netlink(NlOptions::default())
    } else {
        TcAttachOptions::TcxOrder(LinkOrder::default())
    };
    program(&mut programs.bpf, name)?
        .attach_with_options(ifname, direction, how)
        .map_err(|cause| Error::Attach {
            ifname: ifname.to_owned(),
            cause: Box::new(cause),
        })
}
