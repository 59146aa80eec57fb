//! A link between two namespaces: two TAP devices and the elements of
//! `ackwise-queue` between them.
//!
//! Each link has one thread. It takes each frame that a node sends, offers it to that direction's
//! [`Link`], and writes it to the other node's device when it is due. A TAP device has no offloads:
//! what crosses is what a wire would carry, spaced as a wire would space it. The lateness of each
//! frame is measured and reported.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ackwise_queue::wifi::WifiConfig;
use ackwise_queue::{
    Departure, DropCause, HalfDuplex, Link, LinkChanges, LinkConfig, LinkStats, Verdict,
};
use ackwise_scenario::Histogram;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use crate::clock::{now_ns, thread_cpu_ns};
use crate::count::{Mark, WireCounter};
use crate::error::LabError;
use crate::frame;
use crate::pcap::Pcap;
use crate::police::Policer;
use crate::priority::schedule;
use crate::queue_lengths::QueueSample;

/// Frames taken from one device before deliveries get their turn.
const BATCH: usize = 32;
/// Longest sleep, which bounds the delay until a stop request is seen.
const MAX_SLEEP_NS: u64 = 20_000_000;
/// Real-time priority of the thread, so that ordinary work does not delay the wire.
const PRIORITY: libc::c_int = 20;
/// Window in which the thread must sleep for at least `MIN_SLEEP_NS`. The kernel stops real-time
/// threads that use more than 95 % of a second (by default, see `sched_rt_runtime_us`) for the rest
/// of that second.
pub const WINDOW_NS: u64 = 100_000_000;
/// After a window with less sleep than this, the thread does not spin in the next one.
const MIN_SLEEP_TO_SPIN_NS: u64 = WINDOW_NS / 4;
/// Minimum sleep per window.
const MIN_SLEEP_NS: u64 = WINDOW_NS * 6 / 100;
/// Ethernet header and two VLAN tags.
const FRAME_OVERHEAD: usize = 14 + 8;

/// The configuration of a link.
#[derive(Debug)]
pub struct EmulatorConfig {
    /// Name of the link, for messages.
    pub name: String,
    /// The devices of its two ends.
    pub taps: [File; 2],
    /// The behaviour of the two directions, from end 0 and from end 1.
    pub directions: [LinkConfig; 2],
    /// Changes of the directions over time, starting at `start_ns`.
    pub changes: [Option<LinkChanges>; 2],
    /// Whether the two directions take turns on one medium.
    pub half_duplex: bool,
    /// The two stations that contend for an IEEE 802.11 medium, if the link is one.
    pub wifi: Option<WifiConfig>,
    /// Policers before the queues.
    pub police: [Option<Policer>; 2],
    /// Largest IP packet.
    pub mtu: u32,
    /// Counts what crosses.
    pub counter: WireCounter,
    /// Captures at its two ends.
    pub captures: [Option<Pcap>; 2],
    /// The time before a frame is due that the thread spins instead of sleeping. It costs CPU and
    /// buys punctuality.
    pub spin_ns: u64,
    /// Sampling interval of queue lengths, from `start_ns` on; 0 for no samples.
    pub sample_ns: u64,
    /// Start of the samples and of the changes over time.
    pub start_ns: u64,
}

/// The results of a link.
#[derive(Debug)]
pub struct EmulatorReport {
    /// The statistics of the two directions.
    pub stats: [LinkStats; 2],
    /// Frames that each policer dropped; `None` without a policer.
    pub policed: [Option<u64>; 2],
    /// Nanoseconds between the time a frame was due and its delivery.
    pub lateness: Histogram,
    /// Counts of what crossed the link.
    pub counter: WireCounter,
    /// CPU time spent delivering to each end, which includes the work of the receiving stack.
    pub stack_cpu_ns: [u64; 2],
    /// Frames that the device of an end refused because it was down or gone.
    pub refused: [u64; 2],
    /// Whether the thread ran with real-time priority, or the reason why not.
    pub realtime: Result<(), String>,
    /// How often the thread had to sleep although frames were due: the link is faster than the
    /// machine.
    pub overloads: u64,
    /// Runtime of the link.
    pub span_ns: u64,
    /// Queue lengths of the two directions.
    pub queues: [Vec<QueueSample>; 2],
    /// Errors during the run.
    pub errors: Vec<String>,
}

/// A running link, which ends on drop.
#[derive(Debug)]
pub struct Emulator {
    name: String,
    stop: Arc<AtomicBool>,
    mtu: Arc<AtomicU32>,
    thread: Option<JoinHandle<EmulatorReport>>,
}

impl Emulator {
    /// Starts the thread.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(config: EmulatorConfig) -> Result<Self, LabError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mtu = Arc::new(AtomicU32::new(config.mtu));
        let name = config.name.clone();
        let wire = Wire::new(config, Arc::clone(&stop), Arc::clone(&mtu));
        let thread = thread::Builder::new()
            .name(format!("link {name}"))
            .spawn(move || wire.run())
            .map_err(LabError::os("cannot start a thread for a link"))?;
        Ok(Self {
            name,
            stop,
            mtu,
            thread: Some(thread),
        })
    }

    /// Name of the link.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// From now on, the wire silently loses IP packets larger than this, like a path MTU that
    /// shrinks behind a box that sends no ICMP.
    pub fn lose_larger_than(&self, mtu: u32) {
        self.mtu.store(mtu, Ordering::Relaxed);
    }

    /// Ends the link and returns its results.
    ///
    /// # Errors
    /// Its thread panicked.
    pub fn finish(mut self) -> Result<EmulatorReport, LabError> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(report)) => Ok(report),
            _ => Err(LabError::Panicked("the link emulator")),
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already, and this must not add another.
            let _ = thread.join();
        }
    }
}

/// A frame in the pool.
#[derive(Debug)]
struct Slot {
    bytes: Vec<u8>,
    len: usize,
    mark: Option<Mark>,
}

/// The state of the thread.
struct Wire {
    taps: [File; 2],
    links: [Link<u32>; 2],
    medium: Option<HalfDuplex>,
    police: [Option<Policer>; 2],
    pool: Vec<Slot>,
    free: Vec<u32>,
    frame_size: usize,
    captures: [Option<Pcap>; 2],
    spin_ns: u64,
    sleep_budget: SleepBudget,
    sample_ns: u64,
    next_sample_ns: u64,
    stop: Arc<AtomicBool>,
    mtu: Arc<AtomicU32>,
    report: EmulatorReport,
}

impl Wire {
    fn new(config: EmulatorConfig, stop: Arc<AtomicBool>, mtu: Arc<AtomicU32>) -> Self {
        let mut links = config.directions.map(Link::drop_tail);
        for (link, changes) in links.iter_mut().zip(&config.changes) {
            if let Some(changes) = changes {
                link.vary(changes, config.start_ns);
            }
        }
        let medium = config.half_duplex.then(|| match config.wifi {
            Some(wifi) => HalfDuplex::wifi(links.each_mut(), wifi),
            None => HalfDuplex::new(links.each_mut()),
        });
        Self {
            taps: config.taps,
            links,
            medium,
            police: config.police,
            pool: Vec::new(),
            free: Vec::new(),
            frame_size: config.mtu as usize + FRAME_OVERHEAD,
            captures: config.captures,
            spin_ns: config.spin_ns,
            sleep_budget: SleepBudget::default(),
            sample_ns: config.sample_ns,
            next_sample_ns: if config.sample_ns == 0 {
                u64::MAX
            } else {
                config.start_ns
            },
            stop,
            mtu,
            report: EmulatorReport {
                stats: <[LinkStats; 2]>::default(),
                policed: [None; 2],
                lateness: Histogram::default(),
                counter: config.counter,
                stack_cpu_ns: [0; 2],
                refused: [0; 2],
                realtime: Ok(()),
                overloads: 0,
                span_ns: 0,
                queues: <[Vec<_>; 2]>::default(),
                errors: Vec::new(),
            },
        }
    }

    fn run(mut self) -> EmulatorReport {
        self.report.realtime = become_realtime();
        self.grow_pool(1024);
        let started = now_ns();
        while !self.stop.load(Ordering::Relaxed) {
            for end in 0..2 {
                self.take_from(end);
            }
            for end in 0..2 {
                self.deliver_from(end);
            }
            self.sample();
            self.wait();
        }
        self.report.span_ns = now_ns() - started;
        self.report.stats = [*self.links[0].stats(), *self.links[1].stats()];
        let dropped = |police: Option<Policer>| police.map(|one| one.dropped);
        self.report.policed = self.police.map(dropped);
        for capture in self.captures.into_iter().flatten() {
            if let Err(error) = capture.finish() {
                self.report
                    .errors
                    .push(format!("a capture is incomplete: {error}"));
            }
        }
        self.report
    }

    fn grow_pool(&mut self, by: usize) {
        for _ in 0..by {
            self.free.push(self.pool.len() as u32);
            self.pool.push(Slot {
                bytes: vec![0; self.frame_size],
                len: 0,
                mark: None,
            });
        }
    }

    /// Takes the frames that the node at `end` has sent.
    fn take_from(&mut self, end: usize) {
        for _ in 0..BATCH {
            if self.free.is_empty() {
                self.grow_pool(1024);
            }
            let Some(index) = self.free.pop() else { return };
            let slot = &mut self.pool[index as usize];
            // EAGAIN: no more frames. Any other error means that the device is down or gone; it may
            // come back.
            let Ok(len @ 1..) = self.taps[end].read(&mut slot.bytes) else {
                self.free.push(index);
                return;
            };
            let now = now_ns();
            slot.len = len;
            let frame = &slot.bytes[..len];
            let segment = frame::parse(frame, len);
            if let Some(capture) = &mut self.captures[end]
                && let Err(error) = capture.write(frame, len, now)
            {
                self.report
                    .errors
                    .push(format!("a capture ended early: {error}"));
                self.captures[end] = None;
            }
            let too_large = len > self.mtu.load(Ordering::Relaxed) as usize + 14;
            let police = self.police[end].as_mut();
            let verdict = if too_large {
                Verdict::Rejected(index, DropCause::Wire)
            } else if police.is_some_and(|one| !one.passes(segment.as_ref(), len as u32, now)) {
                Verdict::Rejected(index, DropCause::Policed)
            } else {
                self.enqueue(end, index, len as u32, now)
            };
            let accepted = matches!(verdict, Verdict::Queued);
            let mark = segment.and_then(|segment| {
                self.report
                    .counter
                    .entered(&segment, len as u32, accepted, now)
            });
            match verdict {
                Verdict::Queued => self.pool[index as usize].mark = mark,
                Verdict::Rejected(index, _) => self.free.push(index),
            }
        }
    }

    fn enqueue(&mut self, end: usize, index: u32, len: u32, now: u64) -> Verdict<u32> {
        match &mut self.medium {
            Some(medium) => medium.enqueue(self.links.each_mut(), end, index, len, now),
            None => self.links[end].enqueue(index, len, now),
        }
    }

    /// Delivers the due frames that `end` sent to the other node.
    fn deliver_from(&mut self, end: usize) {
        if self.links[end]
            .next_wakeup()
            .is_none_or(|due| due > now_ns())
        {
            return;
        }
        let other = 1 - end;
        let before = thread_cpu_ns();
        while let Some(departure) = self.pop_due(end) {
            let index = match departure {
                Departure::Delivered {
                    packet,
                    copies,
                    due_ns,
                } => {
                    let slot = &self.pool[packet as usize];
                    let frame = &slot.bytes[..slot.len];
                    for _ in 0..copies {
                        let now = now_ns();
                        self.report.lateness.add(now.saturating_sub(due_ns));
                        if let Some(capture) = &mut self.captures[other] {
                            // An error shows when this end's own frames are written.
                            let _ = capture.write(frame, frame.len(), now);
                        }
                        if self.taps[other].write(frame).is_err() {
                            self.report.refused[other] += 1;
                        } else if let Some(mark) = slot.mark {
                            self.report.counter.arrived(mark, 1, now);
                        }
                    }
                    packet
                }
                Departure::Dropped { packet, .. } => packet,
            };
            self.free.push(index);
        }
        self.report.stack_cpu_ns[other] += thread_cpu_ns().saturating_sub(before);
    }

    fn pop_due(&mut self, end: usize) -> Option<Departure<u32>> {
        let now = now_ns();
        if let Some(medium) = &mut self.medium {
            medium.advance(self.links.each_mut(), now);
        }
        self.links[end].pop_due(now)
    }

    fn sample(&mut self) {
        let now = now_ns();
        if now < self.next_sample_ns {
            return;
        }
        for end in 0..2 {
            self.report.queues[end].push(QueueSample {
                at_ns: now,
                packets: self.links[end].queue_packets() as u64,
            });
        }
        self.next_sample_ns = now - (now - self.next_sample_ns) % self.sample_ns + self.sample_ns;
    }

    /// Sleeps until a frame arrives or is due.
    fn wait(&mut self) {
        let due = self.links.iter().filter_map(Link::next_wakeup).min();
        let now = now_ns();
        self.sleep_budget.record_iteration(now);
        if let Some(required_sleep) = self.sleep_budget.required_sleep(now) {
            self.report.overloads += 1;
            thread::sleep(Duration::from_nanos(required_sleep));
            self.sleep_budget.slept(now_ns() - now);
            return;
        }
        let span = due.map_or(MAX_SLEEP_NS, |due| {
            due.saturating_sub(now).min(MAX_SLEEP_NS)
        });
        let span = span.min(self.next_sample_ns.saturating_sub(now));
        let awake = if self.sleep_budget.skip_spin {
            0
        } else {
            self.spin_ns
        };
        if span <= awake {
            return;
        }
        let timeout = TimeSpec::from_duration(Duration::from_nanos(span - awake));
        let [a, b] = &self.taps;
        let mut waiting = [
            PollFd::new(a.as_fd(), PollFlags::POLLIN),
            PollFd::new(b.as_fd(), PollFlags::POLLIN),
        ];
        // The result does not matter: the loop checks everything in any case.
        let _ = ppoll(&mut waiting, Some(timeout), None);
        // A device that is down reports an error at once; don't spin on it.
        let broken = |fd: &PollFd<'_>| {
            fd.revents().is_some_and(|events| {
                events.intersects(PollFlags::POLLERR | PollFlags::POLLNVAL | PollFlags::POLLHUP)
            })
        };
        if waiting.iter().any(broken) {
            thread::sleep(Duration::from_millis(1));
        }
        self.sleep_budget.slept(now_ns() - now);
    }
}

/// How much a thread has slept recently.
#[derive(Debug, Default)]
struct SleepBudget {
    window_began_ns: u64,
    slept_ns: u64,
    /// Whether the last window had little sleep.
    skip_spin: bool,
}

impl SleepBudget {
    fn slept(&mut self, span_ns: u64) {
        self.slept_ns += span_ns;
    }

    /// Begins a new window if the current one is over.
    fn record_iteration(&mut self, now: u64) {
        if now - self.window_began_ns >= WINDOW_NS {
            self.skip_spin = self.slept_ns < MIN_SLEEP_TO_SPIN_NS;
            self.window_began_ns = now;
            self.slept_ns = 0;
        }
    }

    /// How long to sleep now, even if frames are due, to reach the window's minimum.
    fn required_sleep(&self, now: u64) -> Option<u64> {
        let missing = MIN_SLEEP_NS.checked_sub(self.slept_ns)?;
        let left = WINDOW_NS.saturating_sub(now - self.window_began_ns);
        (missing > 0 && left <= missing).then_some(missing)
    }
}

/// Gives the calling thread real-time priority, or returns the reason why it cannot.
fn become_realtime() -> Result<(), String> {
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    let Err(reason) = schedule(0, policy, PRIORITY) else {
        return Ok(());
    };
    // SAFETY: these take no pointers and concern only the calling thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
        libc::setpriority(libc::PRIO_PROCESS, 0, -20);
    }
    Err(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_with_leisure_is_left_alone() {
        let mut sleep_budget = SleepBudget::default();
        for ms in 0..1000 {
            let now = ms * 1_000_000;
            sleep_budget.record_iteration(now);
            assert_eq!(sleep_budget.required_sleep(now), None);
            sleep_budget.slept(500_000);
        }
        assert!(!sleep_budget.skip_spin);
    }

    #[test]
    fn a_thread_that_never_sleeps_is_made_to() {
        let mut sleep_budget = SleepBudget::default();
        let (mut now, mut slept) = (0, 0);
        while now < 10 * WINDOW_NS {
            sleep_budget.record_iteration(now);
            if let Some(required_sleep) = sleep_budget.required_sleep(now) {
                sleep_budget.slept(required_sleep);
                slept += required_sleep;
                now += required_sleep;
            }
            now += 100_000;
        }
        assert!(sleep_budget.skip_spin);
        let share = slept as f64 / now as f64;
        assert!((0.05..0.08).contains(&share), "{share}");
    }
}
