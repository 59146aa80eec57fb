//! A link made of the kernel's own parts, in a separate namespace:
//!
//! ```text
//! node ─► end0 ─redirect─► forward0│forward1 ─redirect─► end1 ─► node
//!                         rate, queue                   wire: delay, loss
//! ```
//!
//! and the same in the other direction. Where the delay varies, another pair of devices before the
//! wire adds each packet's transmission time. No packet visits user space, which in virtual time
//! would be most of the cost of a run. A node's device uncharges packets from their sockets at
//! once, as when a network card has sent them: packets that wait before a link wait in another box.
//!
//! Frames are seen as they enter, as they leave the queue, and as they arrive,
//! by a packet socket with shared memory.

mod discipline;
mod netem;
mod police;
mod ring;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ackwise_config::queues::Police;
use ackwise_netdev::netlink::Netlink;
use ackwise_rng::{Probability, Rng};
use ackwise_scenario::{Direction, Link};
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::clock::{nanos, now_ns};
use crate::command;
use crate::count::WireCounter;
use crate::error::LabError;
use crate::frame;
use crate::netns::{Namespace, set_sysctls};
use crate::pcap::Pcap;
use crate::plan::Interface;
use crate::queue_lengths::{MeanLength, QueueSample};

pub(crate) use discipline::{DEFAULT_QUEUE_PACKETS, refused};
use netem::Netem;
pub(crate) use police::can as can_police;
use ring::{Frame, RETIRE_MS, Ring};

/// The two end devices in the link's namespace.
const ENDS: [&str; 2] = ["end0", "end1"];
/// The policer index of each direction, in the link's namespace.
const POLICERS: [u32; 2] = [1, 2];
/// The devices before and behind the queue, for the direction from end 0 and from end 1.
const QUEUES: [[&str; 2]; 2] = [["forward0", "forward1"], ["reverse0", "reverse1"]];
/// The devices that add each packet's transmission time, if the delay after that varies.
const SENDERS: [[&str; 2]; 2] = [["sends0", "sent0"], ["sends1", "sent1"]];
/// Limit of packets in flight on a wire; no scenario needs more.
const IN_FLIGHT: u32 = 10_000_000;
/// A rate at which every packet takes less than a nanosecond, bytes per second.
const UNLIMITED_RATE: u64 = 1 << 50;
/// Switches checksum offload; without it, segmentation offload is off too.
const ETHTOOL_STXCSUM: u32 = 0x17;
/// Interval at which queues are sampled.
const SAMPLE_INTERVAL_NS: u64 = 10_000_000;

/// The namespace of a link that has been built.
#[derive(Debug)]
pub struct LinkSpace {
    namespace: Namespace,
    /// The parts that each direction has besides a wire.
    parts: [Parts; 2],
}

/// Whether netem supports both directions. It does not support reordering, which it would do by
/// sending early.
#[must_use]
pub(crate) fn can(link: &Link) -> bool {
    [&link.forward, &link.reverse]
        .iter()
        .all(|direction| direction.reorder.is_none())
}

/// The devices between the queue and the wire of each direction.
fn parts(link: &Link) -> [Parts; 2] {
    [&link.forward, &link.reverse].map(|direction| Parts {
        queue: direction.rate_bps.is_some(),
        sender: direction.rate_bps.is_some() && !direction.jitter.is_zero(),
    })
}

/// The parts of a direction besides its wire.
#[derive(Debug, Clone, Copy)]
struct Parts {
    /// Whether there is a queue.
    queue: bool,
    /// Whether there is a pair of devices that adds each packet's transmission time.
    sender: bool,
}

impl Parts {
    /// The pairs of devices that packets pass from an end.
    fn pairs(self, from: usize) -> Vec<[&'static str; 2]> {
        let queue = self.queue.then_some(QUEUES[from]);
        let sender = self.sender.then_some(SENDERS[from]);
        queue.into_iter().chain(sender).collect()
    }
}

impl LinkSpace {
    /// Builds a link and the two interfaces that it joins.
    ///
    /// # Errors
    /// The kernel has no netem or another discipline, or a name is taken.
    pub fn build(
        namespace: Namespace,
        link: &Link,
        ends: [(&Interface, &Namespace); 2],
        seeds: [u64; 2],
    ) -> Result<Self, LabError> {
        let directions = [&link.forward, &link.reverse];
        let parts = parts(link);
        namespace.inside(|| {
            set_sysctls([
                ("net.ipv6.conf.all.disable_ipv6", "1"),
                ("net.ipv6.conf.default.disable_ipv6", "1"),
            ])
        })?;
        let mut lines: Vec<String> = Vec::new();
        for (end, (interface, node)) in ENDS.iter().zip(&ends) {
            lines.push(format!(
                "link add name {end} netns {} type veth peer name {} netns {}",
                namespace.name(),
                interface.name,
                node.name(),
            ));
        }
        command::ip_batch(None, &lines)?;
        command::ip_batch(Some(namespace.name()), &inner_devices(link.mtu, parts))?;
        for (interface, node) in ends {
            node.inside(|| disable_offloads(&interface.name))?;
        }
        namespace.inside(|| {
            for arguments in redirections(parts) {
                tc(&arguments)?;
            }
            for (from, direction) in directions.into_iter().enumerate() {
                if let Some(rate) = direction.rate_bps {
                    let queue = direction.queue.as_ref();
                    for arguments in discipline::commands(QUEUES[from][0], rate, queue) {
                        tc(&arguments)?;
                    }
                }
                let wire = wire(direction, seeds[from]);
                let mut netems = vec![(ENDS[1 - from], wire)];
                if parts[from].sender {
                    let [sender, wire] = wire.in_two();
                    netems = vec![(SENDERS[from][0], sender), (ENDS[1 - from], wire)];
                }
                for (device, netem) in netems {
                    let made = netem.add_to(device);
                    made.map_err(LabError::os("cannot set up netem on a link"))?;
                }
            }
            Ok(())
        })?;
        Ok(Self { namespace, parts })
    }
}

fn tc(arguments: &str) -> Result<(), LabError> {
    let words: Vec<&str> = arguments.split_whitespace().collect();
    command::run("tc", &words).map(drop)
}

fn inner_devices(mtu: u32, parts: [Parts; 2]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut devices = ENDS.to_vec();
    for (from, parts) in parts.into_iter().enumerate() {
        for [before, behind] in parts.pairs(from) {
            lines.push(format!(
                "link add name {before} type veth peer name {behind}"
            ));
            devices.extend([before, behind]);
        }
    }
    for device in devices {
        lines.push(format!("link set {device} mtu {mtu}"));
        lines.push(format!("link set {device} up"));
    }
    lines
}

fn redirections(parts: [Parts; 2]) -> Vec<String> {
    let mut commands = Vec::new();
    let mut redirect = |from: &str, to: &str| {
        commands.push(format!("qdisc add dev {from} clsact"));
        commands.push(format!(
            "filter add dev {from} ingress protocol all prio {} matchall \
             action mirred egress redirect dev {to}",
            police::REMAINDER_PRIORITY
        ));
    };
    for (from, parts) in parts.into_iter().enumerate() {
        let mut at = ENDS[from];
        for [before, behind] in parts.pairs(from) {
            redirect(at, before);
            at = behind;
        }
        redirect(at, ENDS[1 - from]);
    }
    commands
}

/// The wire behind the queue. Packets arrive one after another, so `rate` adds each packet's
/// transmission time and nothing else.
fn wire(direction: &Direction, seed: u64) -> Netem {
    let of_all = |share: f64| {
        let share = Probability::from_fraction(share).as_fraction();
        (share * f64::from(u32::MAX)).round() as u32
    };
    Netem {
        delay_ns: nanos(direction.delay),
        jitter_ns: nanos(direction.jitter),
        rate: match direction.rate_bps {
            Some(bps) => bps.div_ceil(8),
            // netem keeps the order if it has a rate.
            None if !direction.jitter.is_zero() => UNLIMITED_RATE,
            None => 0,
        },
        loss: of_all(direction.loss),
        duplicate: of_all(direction.duplicate),
        limit: IN_FLIGHT,
        // A separate seed; 0 is valid too.
        seed: Rng::new(seed).next_u64(),
    }
}

impl Netem {
    /// Splits a wire in two: the first adds each packet's transmission time, and the second delays
    /// it by a time that may vary. In a single netem, a packet after a late one could not catch up.
    fn in_two(self) -> [Netem; 2] {
        let sender = Netem {
            rate: self.rate,
            limit: IN_FLIGHT,
            ..Netem::default()
        };
        // netem keeps the order if it has a rate.
        let wire = Netem {
            rate: UNLIMITED_RATE,
            ..self
        };
        [sender, wire]
    }
}

/// Makes a node's device send every packet by itself, with its checksum, and uncharge it from its
/// socket at once.
fn disable_offloads(name: &str) -> Result<(), LabError> {
    ethtool(name, ETHTOOL_STXCSUM).map_err(LabError::os(format!(
        "cannot switch off the offloads of {name}"
    )))?;
    let immediate = Netem {
        rate: UNLIMITED_RATE,
        limit: IN_FLIGHT,
        ..Netem::default()
    };
    immediate
        .add_to(name)
        .map_err(LabError::os(format!("cannot give {name} a netem")))
}

/// Removes the root queue of a device of the calling thread's namespace, so that it has the kernel's
/// default.
pub(crate) fn remove_root(name: &str) -> Result<(), LabError> {
    tc(&format!("qdisc del dev {name} root"))
}

/// Switches off a feature.
fn ethtool(name: &str, command: u32) -> io::Result<()> {
    /// `struct ethtool_value`.
    #[repr(C)]
    struct Value {
        command: u32,
        data: u32,
    }
    // SAFETY: no pointers are passed.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and is owned by nobody else.
    let socket = unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(fd) };
    let mut value = Value { command, data: 0 };
    // SAFETY: `ifreq` is plain old data for which all zeroes is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().take(15).zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: both structures live until the call returns.
    let answer = unsafe {
        libc::ioctl(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            libc::SIOCETHTOOL as libc::Ioctl,
            &raw mut request,
        )
    };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// What to observe on a link.
#[derive(Debug)]
pub struct Watching {
    /// Name of the link, for messages.
    pub name: String,
    /// Counts what crosses the link.
    pub counter: WireCounter,
    /// Captures at its two ends.
    pub captures: [Option<Pcap>; 2],
    /// The policer of each direction, and the ports of the flows that it applies to.
    pub police: [Option<(Police, Vec<u16>)>; 2],
    /// Sampling interval of queue lengths, from `start_ns` on; 0 for no samples.
    pub sample_ns: u64,
    /// Start of the samples.
    pub start_ns: u64,
}

/// The statistics of one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DirectionStats {
    /// Packets that arrived, without those that the policer dropped.
    pub arrivals: u64,
    /// Packets that its policer dropped, if it has one.
    pub policed: Option<u64>,
    /// Packets that the queue dropped, including `early` but not `filtered`.
    pub drops: u64,
    /// Packets that RED dropped early, among `drops`.
    pub early: u64,
    /// Packets marked.
    pub marks: u64,
    /// ACKs that cake's filter removed; `None` without cake.
    pub filtered: Option<u64>,
    /// Packets that the wire lost.
    pub lost: u64,
    /// Longest queue length observed.
    pub max_packets: u32,
    /// Mean of the observed queue lengths.
    pub mean_length: MeanLength,
    /// The recorded samples.
    pub lengths: Vec<QueueSample>,
}

/// The final report of a link.
#[derive(Debug)]
pub struct KernelReport {
    /// Counts of what crossed the link.
    pub counter: WireCounter,
    /// The statistics of the two directions.
    pub directions: [DirectionStats; 2],
    /// Errors during the run.
    pub errors: Vec<String>,
}

/// A running link.
#[derive(Debug)]
pub struct KernelLink {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<KernelReport>>,
    /// Dropped last.
    _space: LinkSpace,
}

impl KernelLink {
    /// Starts to observe the link.
    ///
    /// # Errors
    /// The caller lacks the permission, or there is no memory.
    pub fn start(space: LinkSpace, watching: Watching) -> Result<Self, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let name = watching.name.clone();
        let entrance = space.namespace.entrance()?;
        let parts = space.parts;
        space.namespace.inside(|| {
            let each = watching.police.iter().zip(ENDS).zip(POLICERS);
            each.filter_map(|((it, end), index)| Some((it.as_ref()?, end, index)))
                .try_for_each(|((it, ports), end, index)| police::install(end, index, it, ports))
        })?;
        let policed = watching.police.each_ref().map(Option::is_some);
        let (ready, opened) = std::sync::mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(format!("link {name}"))
            .spawn(move || {
                let counter = watching.counter;
                let opened = entrance.enter().and_then(|()| {
                    Taps::open(parts).map_err(LabError::os(format!("cannot watch link {name}")))
                });
                match opened {
                    Ok((ring, netlink, taps)) => {
                        let _ = ready.send(Ok(()));
                        let watch = Watch {
                            ring,
                            netlink,
                            policed,
                            seen: Seen {
                                taps,
                                counter,
                                captures: watching.captures,
                                offset_ns: realtime_offset_ns(),
                                directions: Default::default(),
                                errors: Vec::new(),
                            },
                            next_sample_ns: watching.start_ns,
                            next_note_ns: watching.start_ns,
                            note_ns: watching.sample_ns,
                        };
                        watch.run(&stopped)
                    }
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        KernelReport {
                            counter,
                            directions: Default::default(),
                            errors: Vec::new(),
                        }
                    }
                }
            })
            .map_err(LabError::os("cannot start a thread for a link"))?;
        let link = Self {
            stop,
            thread: Some(thread),
            _space: space,
        };
        opened.recv().map_err(|_| LabError::Panicked("a link"))??;
        Ok(link)
    }

    /// Ends the link and returns its report.
    ///
    /// # Errors
    /// Its thread panicked.
    pub fn finish(mut self) -> Result<KernelReport, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(report)) => Ok(report),
            _ => Err(LabError::Panicked("a link")),
        }
    }
}

impl Drop for KernelLink {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already, and this must not add another.
            let _ = thread.join();
        }
    }
}

/// The stage at which a frame is seen, with the end that sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Ingress(usize),
    QueueEgress(usize),
    Arrives(usize),
}

/// The observed interfaces, and the stage that each stands for.
#[derive(Debug, Default)]
struct Taps {
    queued: [bool; 2],
    stages: HashMap<(i32, bool), Stage>,
    /// For each direction, the interface of the queue and of the wire.
    interfaces: [(Option<i32>, i32); 2],
}

impl Taps {
    fn open(parts: [Parts; 2]) -> io::Result<(Ring, Netlink, Self)> {
        let index = |name: &str| if_nametoindex(name).map(|index| index as i32);
        let ends = [index(ENDS[0])?, index(ENDS[1])?];
        let mut taps = Self {
            queued: parts.map(|it| it.queue),
            ..Self::default()
        };
        let mut skip = Vec::new();
        for from in 0..2 {
            let (ingress, arrives) = (Stage::Ingress(from), Stage::Arrives(from));
            taps.stages.insert((ends[from], false), ingress);
            taps.stages.insert((ends[1 - from], true), arrives);
            taps.interfaces[from].1 = ends[1 - from];
            if parts[from].queue {
                let before = index(QUEUES[from][0])?;
                let egress = Stage::QueueEgress(from);
                taps.stages.insert((before, true), egress);
                taps.interfaces[from].0 = Some(before);
                skip.push(index(QUEUES[from][1])?);
            }
            if parts[from].sender {
                for name in SENDERS[from] {
                    skip.push(index(name)?);
                }
            }
        }
        Ok((Ring::open(&skip)?, Netlink::open()?, taps))
    }
}

/// Difference between the time of day and the clock that runs are measured by.
fn realtime_offset_ns() -> u64 {
    let real = clock_gettime(ClockId::CLOCK_REALTIME).map_or(0, |time| {
        u64::try_from(Duration::from(time).as_nanos()).unwrap_or(u64::MAX)
    });
    real.saturating_sub(now_ns())
}

struct Seen {
    taps: Taps,
    counter: WireCounter,
    captures: [Option<Pcap>; 2],
    offset_ns: u64,
    directions: [DirectionStats; 2],
    errors: Vec<String>,
}

impl Seen {
    fn frame(&mut self, frame: Frame<'_>) {
        let Some(&stage) = self.taps.stages.get(&(frame.interface, frame.outgoing)) else {
            return;
        };
        let at_ns = frame.realtime_ns.saturating_sub(self.offset_ns);
        let segment = frame::parse(frame.bytes, frame.length);
        match stage {
            Stage::Ingress(from) => {
                self.directions[from].arrivals += 1;
                self.capture(from, &frame, at_ns);
                let queued = self.taps.queued[from];
                self.count(segment, frame.length, at_ns, |is_data| is_data || !queued);
            }
            // ACKs count once they have left the queue.
            Stage::QueueEgress(_) => {
                self.count(segment, frame.length, at_ns, |is_data| !is_data);
            }
            Stage::Arrives(from) => {
                self.capture(1 - from, &frame, at_ns);
                if let Some(segment) = segment {
                    self.counter.delivered(&segment, at_ns);
                }
            }
        }
    }

    fn count(
        &mut self,
        segment: Option<frame::Segment>,
        length: usize,
        at_ns: u64,
        here: impl Fn(bool) -> bool,
    ) {
        if let Some(segment) = segment.filter(|it| here(self.counter.is_data(it))) {
            let _ = self.counter.entered(&segment, length as u32, true, at_ns);
        }
    }

    fn capture(&mut self, end: usize, frame: &Frame<'_>, at_ns: u64) {
        if let Some(capture) = &mut self.captures[end]
            && let Err(error) = capture.write(frame.bytes, frame.length, at_ns)
        {
            self.errors.push(format!("a capture ended early: {error}"));
            self.captures[end] = None;
        }
    }
}

struct Watch {
    ring: Ring,
    netlink: Netlink,
    /// Whether each direction has a policer.
    policed: [bool; 2],
    seen: Seen,
    next_sample_ns: u64,
    next_note_ns: u64,
    note_ns: u64,
}

impl Watch {
    fn run(mut self, stop: &AtomicBool) -> KernelReport {
        loop {
            // Frames sent before the stop request are still counted: the kernel hands them over
            // within a few of these.
            let last = stop.load(Ordering::Relaxed);
            let now = now_ns();
            if now >= self.next_sample_ns && !last {
                self.sample(now);
            }
            let wait = if last {
                u64::from(RETIRE_MS) * 4_000_000
            } else {
                self.next_sample_ns
                    .saturating_sub(now)
                    .min(4 * SAMPLE_INTERVAL_NS)
            };
            self.wait(wait);
            let seen = &mut self.seen;
            let any = self.ring.drain(|frame| seen.frame(frame));
            if last && !any {
                break;
            }
        }
        self.finish()
    }

    fn wait(&self, ns: u64) {
        let mut waiting = [PollFd::new(self.ring.fd(), PollFlags::POLLIN)];
        let timeout = TimeSpec::from_duration(Duration::from_nanos(ns));
        // The result does not matter: the loop checks everything in any case.
        let _ = ppoll(&mut waiting, Some(timeout), None);
    }

    fn sample(&mut self, now: u64) {
        self.next_sample_ns =
            now - (now - self.next_sample_ns) % SAMPLE_INTERVAL_NS + SAMPLE_INTERVAL_NS;
        let note = self.note_ns > 0 && now >= self.next_note_ns;
        let queues = match self.netlink.qdisc_stats() {
            Ok(queues) => queues,
            Err(error) => {
                self.seen
                    .errors
                    .push(format!("cannot read the queues: {error}"));
                self.next_sample_ns = u64::MAX;
                return;
            }
        };
        for (direction, (interface, _)) in self
            .seen
            .directions
            .iter_mut()
            .zip(self.seen.taps.interfaces)
        {
            let packets = queues
                .iter()
                .find(|queue| Some(queue.interface as i32) == interface && queue.parent.is_none())
                .map_or(0, |queue| queue.packets);
            direction.max_packets = direction.max_packets.max(packets);
            direction.mean_length.add(u64::from(packets));
            if note {
                direction.lengths.push(QueueSample {
                    at_ns: now,
                    packets: u64::from(packets),
                });
            }
        }
        if note {
            self.next_note_ns = now - (now - self.next_note_ns) % self.note_ns + self.note_ns;
        }
    }

    fn finish(mut self) -> KernelReport {
        match self.ring.missed() {
            0 => {}
            missed => self.seen.errors.push(format!(
                "{missed} frames were missed; the counts are too low by this number"
            )),
        }
        if let Err(error) = self.totals() {
            self.seen.errors.push(error.to_string());
        }
        for capture in std::mem::take(&mut self.seen.captures)
            .into_iter()
            .flatten()
        {
            if let Err(error) = capture.finish() {
                self.seen
                    .errors
                    .push(format!("a capture is incomplete: {error}"));
            }
        }
        KernelReport {
            counter: self.seen.counter,
            directions: self.seen.directions,
            errors: self.seen.errors,
        }
    }

    /// Reads the total counters of the disciplines.
    fn totals(&mut self) -> Result<(), LabError> {
        let text = command::run("tc", &["-s", "-j", "qdisc", "show"])?;
        let all: Vec<serde_json::Value> =
            serde_json::from_str(&text).map_err(|error| LabError::Os {
                what: "cannot parse tc's output on queues".to_owned(),
                source: error.into(),
            })?;
        for (from, direction) in self.seen.directions.iter_mut().enumerate() {
            if self.policed[from] {
                let dropped = police::dropped(POLICERS[from])?;
                direction.policed = Some(dropped);
                direction.arrivals = direction.arrivals.saturating_sub(dropped);
            }
            for one in &all {
                let number = |name: &str| one[name].as_u64().unwrap_or(0);
                let device = one["dev"].as_str().unwrap_or_default();
                let kind = one["kind"].as_str().unwrap_or_default();
                if device == ENDS[1 - from] && kind == "netem" {
                    direction.lost += number("drops");
                }
                // HTB counts its leaf's drops again; clsact has no queue.
                if device == QUEUES[from][0] && !matches!(kind, "htb" | "clsact") {
                    let tins = one["tins"].as_array().map_or(&[][..], Vec::as_slice);
                    let sum = |name: &str| {
                        tins.iter()
                            .filter_map(|tin| tin[name].as_u64())
                            .sum::<u64>()
                    };
                    let filtered = sum("ack_drops");
                    direction.filtered = (kind == "cake").then_some(filtered);
                    direction.drops += number("drops").saturating_sub(filtered);
                    direction.early += number("early");
                    direction.marks += number("marked") + number("ecn_mark") + sum("ecn_mark");
                }
            }
        }
        Ok(())
    }
}

/// Tests, in a separate namespace, whether the kernel has what a link is made of.
///
/// # Errors
/// No namespace can be created.
pub(crate) fn kernel_has_netem(probe: &Namespace) -> Result<bool, LabError> {
    probe.inside(|| {
        let netem = Netem {
            delay_ns: 1,
            limit: 1,
            ..Netem::default()
        };
        let netem = netem.add_to("lo");
        let others = [
            "qdisc replace dev lo root handle 1: htb default 1",
            "qdisc add dev lo clsact",
        ];
        Ok(netem.is_ok() && others.iter().all(|arguments| tc(arguments).is_ok()))
    })
}

/// Tests, in a separate namespace, whether the kernel has cake.
///
/// # Errors
/// No namespace can be created.
pub(crate) fn kernel_has_cake(probe: &Namespace) -> Result<bool, LabError> {
    probe.inside(|| Ok(tc("qdisc replace dev lo root cake").is_ok()))
}

/// Raises the backlog so that bursts of a sender are not lost between the devices of a link. The
/// setting is for all namespaces; use it only in our own machine.
pub(crate) fn raise_backlog() -> io::Result<()> {
    fs::write("/proc/sys/net/core/netdev_max_backlog", "1000000")
}
