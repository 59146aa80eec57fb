//! The thread that samples round trips, estimates the rate and sets it.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ackwise_bandwidth::{self as bandwidth, Bounds, Estimator, Nanos, Observation};
use ackwise_netdev::clock::{monotonic_ns, thread_cpu_ns};
use ackwise_netdev::daemon::{Ended, Lifecycle, Worker, drop_realtime};
use ackwise_netdev::janitor::RateSetter;
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::Qdisc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use crate::Delay;

/// The interval between samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(25);
/// The interval between checks of the queue itself.
const CHECK_INTERVAL: Nanos = 100_000_000;
/// A rate that differs from the current one by less than this, in thousandths, is not set.
const MIN_CHANGE_PER_MILLE: u64 = 10;
/// A rate that differs by more than this, in thousandths, is set at once. Others wait for
/// [`SMALL_CHANGE_INTERVAL`] after the last change: a change costs some 180,000 instructions
/// (docs/decisions/0032-measured-rate.md).
const LARGE_CHANGE_PER_MILLE: u64 = 100;
/// The minimum time between two small changes.
const SMALL_CHANGE_INTERVAL: Nanos = 50_000_000;
/// The time within which a requested rate must take effect, and for which the queue may be unreadable.
const TIMEOUT: Nanos = 2_000_000_000;
/// If there was no check for this long, this thread was stopped, and perhaps also the process that
/// sets the rate: they are in one control group, which may be frozen.
const STALL_THRESHOLD: Nanos = 1_000_000_000;

/// What sets the rate now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No round trip was timed recently: the rate rises.
    Blind,
    /// Too little is sent to learn anything: the rate rises.
    Idle,
    /// Nothing waits behind the interface: the rate grows.
    Growing,
    /// Something waits behind the interface: the rate follows the link's.
    Following,
    /// The rate is no longer measured.
    Halted(Halted),
}

/// Why a rate is no longer measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Halted {
    /// Somebody has replaced the root queue.
    Replaced,
    /// Somebody else has set the rate of the queue.
    RateChanged,
    /// The kernel does not accept the rate.
    Refused,
    /// The process that sets the rate, and restores the queue at the end, is gone.
    GuardGone,
    /// The programs or the kernel cannot be queried.
    Unreadable,
}

impl From<bandwidth::State> for State {
    fn from(state: bandwidth::State) -> Self {
        match state {
            bandwidth::State::Blind => Self::Blind,
            bandwidth::State::Idle => Self::Idle,
            bandwidth::State::Growing => Self::Growing,
            bandwidth::State::Following => Self::Following,
        }
    }
}

impl fmt::Display for Halted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Replaced => "someone has replaced the queue, and it is left alone",
            Self::RateChanged => "someone else has set the rate of the queue, and it is left alone",
            Self::Refused => "the kernel refuses the new rate; the last one stays",
            Self::GuardGone => {
                "the process that sets it (ackwise-guard) is gone; the last rate stays, and after \
                 kill -9 the queue would stay, too: restart `ackwise up`"
            }
            Self::Unreadable => "the queue or its round trips cannot be read; the last rate stays",
        })
    }
}

/// A measured rate at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The rate of the queue, bit/s.
    pub rate_bps: u64,
    /// The minimum rate, bit/s.
    pub min_bps: u64,
    /// The maximum rate, bit/s.
    pub max_bps: u64,
    /// The rate that the link was last seen to carry, bit/s.
    pub link_bps: Option<u64>,
    /// What sets the rate.
    pub state: State,
    /// How often the rate was changed.
    pub changes: u64,
    /// CPU time of the thread that measures, µs.
    pub cpu_us: u64,
}

/// Gives access to the current rate.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Mutex<Shown>>);

#[derive(Debug)]
struct Shown {
    measured: Measured,
    backlog: Option<Backlog>,
}

/// The bytes that waited in the queue at a check.
#[derive(Debug, Clone, Copy)]
struct Backlog {
    at: Nanos,
    bytes: u64,
}

impl Handle {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the current rate and its state.
    #[must_use]
    pub fn now(&self) -> Measured {
        self.shown().measured
    }

    /// Returns the bytes that waited in the queue at the last check; `None` if that was longer ago
    /// than `age`. Listing the queues costs some 100,000 instructions, and this thread does it
    /// anyway.
    #[must_use]
    pub fn backlog_bytes(&self, age: Duration) -> Option<u64> {
        self.shown().backlog?.bytes_within(age, monotonic_ns())
    }
}

impl Backlog {
    fn bytes_within(self, age: Duration, now: Nanos) -> Option<u64> {
        let old = Duration::from_nanos(now.saturating_sub(self.at));
        (old <= age).then_some(self.bytes)
    }
}

/// Everything that is needed to measure a rate.
#[derive(Debug)]
pub struct Autorate {
    delay: Delay,
    setter: RateSetter,
    index: u32,
    bounds: Bounds,
    handle: Handle,
}

impl Autorate {
    /// Prepares to measure a rate between `bounds` for ackwise's cake on the interface with this
    /// index. The cake is shaped to the maximum at first.
    #[must_use]
    pub fn new(delay: Delay, setter: RateSetter, index: u32, bounds: Bounds) -> Self {
        let measured = Measured {
            rate_bps: bounds.max_bps,
            min_bps: bounds.min_bps,
            max_bps: bounds.max_bps,
            link_bps: None,
            state: State::Blind,
            changes: 0,
            cpu_us: 0,
        };
        Self {
            delay,
            setter,
            index,
            bounds,
            handle: Handle(Arc::new(Mutex::new(Shown {
                measured,
                backlog: None,
            }))),
        }
    }

    /// Returns a handle that shows the current rate.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Starts the thread, which ends when the worker is dropped. `halted` is called once if the
    /// thread stops measuring before that.
    ///
    /// # Errors
    /// If the system refuses a thread, a socket or a descriptor.
    pub fn start(self, halted: impl FnOnce(Halted) + Send + 'static) -> io::Result<Worker> {
        let lifecycle = Arc::new(Lifecycle::new()?);
        let life = Arc::clone(&lifecycle);
        let netlink = Netlink::open()?;
        Worker::spawn("ackwise-rate", lifecycle, move || {
            drop_realtime();
            let mut thread = Thread {
                estimator: Estimator::new(self.bounds, self.bounds.max_bps),
                rates: Rates::new(self.bounds.max_bps),
                all: self,
                netlink,
                backlog: None,
                read_failures: ReadFailures::default(),
                drops: 0,
                has_dropped: false,
                changes: 0,
            };
            if let Some(why) = thread.run(&life) {
                thread.publish(State::Halted(why));
                halted(why);
            }
            Ended::Requested
        })
    }
}

/// A requested rate.
#[derive(Debug, Clone, Copy)]
struct RateRequest {
    bps: u64,
    at: Nanos,
}

/// The requested rates; the first is the one last seen in the kernel.
#[derive(Debug)]
struct Rates {
    requests: VecDeque<RateRequest>,
    /// When the kernel's rate was last checked.
    checked_at: Nanos,
}

impl Rates {
    fn new(bps: u64) -> Self {
        Self {
            requests: VecDeque::from([RateRequest { bps, at: 0 }]),
            checked_at: 0,
        }
    }

    fn push(&mut self, bps: u64, at: Nanos) {
        self.requests.push_back(RateRequest { bps, at });
    }

    /// Judges the current root.
    fn check_queue(&mut self, root: &Qdisc, now: Nanos) -> Result<(), Halted> {
        let Some(current_bps) = root.cake_rate_bps().filter(|_| root.is_ours()) else {
            return Err(Halted::Replaced);
        };
        self.check_rate(current_bps, now)
    }

    /// Judges the rate found in the kernel. If it was requested more than once, it counts as the
    /// first such request whose successor is not overdue.
    fn check_rate(&mut self, bps: u64, now: Nanos) -> Result<(), Halted> {
        let last_check = std::mem::replace(&mut self.checked_at, now);
        if now.saturating_sub(last_check) > STALL_THRESHOLD {
            // Nothing could be set meanwhile: the time for all requests starts now.
            self.requests
                .iter_mut()
                .for_each(|request| request.at = now);
        }
        // The kernel counts in bytes per second.
        let is_current = |request: &RateRequest| request.bps / 8 == bps / 8;
        let is_overdue = |request: &RateRequest| now.saturating_sub(request.at) > TIMEOUT;
        let index = self
            .requests
            .iter()
            .enumerate()
            .position(|(index, request)| {
                is_current(request) && !self.requests.get(index + 1).is_some_and(is_overdue)
            });
        match index {
            Some(index) => {
                self.requests.drain(..index);
                Ok(())
            }
            None if self.requests.iter().any(is_current) => Err(Halted::Refused),
            None => Err(Halted::RateChanged),
        }
    }

    fn last_bps(&self) -> u64 {
        self.requests.back().map_or(0, |request| request.bps)
    }

    /// Returns whether a rate differs enough to be requested now.
    fn is_due(&self, bps: u64, now: Nanos) -> bool {
        let requested_at = self.requests.back().map_or(0, |request| request.at);
        let per_mille = match now.saturating_sub(requested_at) {
            ..SMALL_CHANGE_INTERVAL => LARGE_CHANGE_PER_MILLE,
            _ => MIN_CHANGE_PER_MILLE,
        };
        bps.abs_diff(self.last_bps()) > self.last_bps() / 1000 * per_mille
    }
}

/// Failures to read the queue, one after the other.
#[derive(Debug, Default)]
struct ReadFailures {
    since: Option<Nanos>,
}

impl ReadFailures {
    /// Notes a failure. Says whether the failures have lasted for more than [`TIMEOUT`].
    fn has_timed_out(&mut self, now: Nanos) -> bool {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since) > TIMEOUT
    }
}

struct Thread {
    all: Autorate,
    estimator: Estimator,
    rates: Rates,
    netlink: Netlink,
    backlog: Option<Backlog>,
    read_failures: ReadFailures,
    /// The queue's drop count at the last check.
    drops: u32,
    /// Whether it dropped anything between the last two checks.
    has_dropped: bool,
    changes: u64,
}

impl Thread {
    /// Measures until it is told to end, or cannot continue; then returns why.
    fn run(&mut self, life: &Lifecycle) -> Option<Halted> {
        while !life.should_stop() {
            match self.sample() {
                Ok(()) => {}
                // The daemon detects this itself, and ends.
                Err(Stop::InterfaceGone) => return None,
                Err(Stop::Halted(why)) => return Some(why),
            }
            let mut wake = [PollFd::new(life.as_fd(), PollFlags::POLLIN)];
            let _ = poll(
                &mut wake,
                PollTimeout::try_from(SAMPLE_INTERVAL).unwrap_or(PollTimeout::ZERO),
            );
        }
        None
    }

    fn sample(&mut self) -> Result<(), Stop> {
        let now = monotonic_ns();
        if self.backlog.is_none_or(|it| now - it.at >= CHECK_INTERVAL) {
            self.check(now)?;
        }
        let sample = self.all.delay.sample().map_err(|e| unreadable(&e))?;
        let sent = self.all.delay.sent().map_err(|e| unreadable(&e))?;
        let bps = self.estimator.observe(&Observation {
            at_ns: monotonic_ns(),
            sent,
            backlog_bytes: self.backlog.map_or(0, |it| it.bytes),
            has_dropped: self.has_dropped,
            sample,
        });
        if self.rates.is_due(bps, now) {
            self.request(bps, now)?;
        }
        self.publish(self.estimator.state().into());
        Ok(())
    }

    /// Checks that the queue is still the one to be set.
    fn check(&mut self, now: Nanos) -> Result<(), Stop> {
        let root = match self.netlink.root(self.all.index) {
            Ok(root) => root,
            // The next check tries again. On a host whose interfaces come and go all the time, the
            // kernel's list is sometimes torn in each of several tries.
            Err(_) if !self.read_failures.has_timed_out(now) => return Ok(()),
            Err(error) => return Err(unreadable(&error)),
        };
        self.read_failures = ReadFailures::default();
        let Some(root) = root else {
            return Err(match ackwise_netdev::exists(self.all.index) {
                true => Stop::Halted(Halted::Replaced),
                false => Stop::InterfaceGone,
            });
        };
        // What waits in another's queue says nothing about ours.
        self.rates
            .check_queue(&root.qdisc, now)
            .map_err(Stop::Halted)?;
        let is_first = self.backlog.is_none();
        self.backlog = Some(Backlog {
            at: now,
            bytes: u64::from(root.backlog_bytes),
        });
        self.has_dropped = !is_first && root.drops != self.drops;
        self.drops = root.drops;
        Ok(())
    }

    fn request(&mut self, bps: u64, at: Nanos) -> Result<(), Stop> {
        self.all.setter.set(bps).map_err(|error| {
            tracing::warn!("the process that sets the rate does not listen: {error}");
            Stop::Halted(match error.kind() {
                io::ErrorKind::BrokenPipe => Halted::GuardGone,
                _ => Halted::Refused,
            })
        })?;
        self.rates.push(bps, at);
        self.changes += 1;
        Ok(())
    }

    fn publish(&self, state: State) {
        let mut shown = self.all.handle.shown();
        shown.backlog = self.backlog;
        let measured = &mut shown.measured;
        measured.rate_bps = self.rates.last_bps();
        measured.changes = self.changes;
        measured.link_bps = self.estimator.capacity_bps();
        measured.state = state;
        measured.cpu_us = thread_cpu_ns() / 1_000;
    }
}

/// Why the thread stops.
enum Stop {
    InterfaceGone,
    Halted(Halted),
}

fn unreadable(error: &dyn fmt::Display) -> Stop {
    tracing::warn!("measuring the rate: {error}");
    Stop::Halted(Halted::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_told_while_it_is_fresh() {
        let backlog = Backlog {
            at: 7_000_000_000,
            bytes: 3000,
        };
        let age = Duration::from_millis(150);
        let seen = |ms: u64| backlog.bytes_within(age, ms * 1_000_000);
        assert_eq!(seen(7_000), Some(3000));
        assert_eq!(seen(7_150), Some(3000));
        assert_eq!(seen(7_151), None);
    }

    #[test]
    fn a_queue_that_cannot_be_read_for_a_moment_is_read_again() {
        let mut read_failures = ReadFailures::default();
        assert!(!read_failures.has_timed_out(5_000_000_000));
        assert!(!read_failures.has_timed_out(7_000_000_000));
        assert!(read_failures.has_timed_out(7_000_000_001));
        read_failures = ReadFailures::default();
        assert!(!read_failures.has_timed_out(7_000_000_002));
    }

    /// The results of a check every tenth of a second until this time.
    fn check_until(rates: &mut Rates, bps: u64, until_ms: Nanos) -> Result<(), Halted> {
        const MS: Nanos = 1_000_000;
        while rates.checked_at + 100 * MS < until_ms * MS {
            rates.check_rate(bps, rates.checked_at + 100 * MS)?;
        }
        rates.check_rate(bps, until_ms * MS)
    }

    #[test]
    fn a_rate_that_comes_again_is_known_by_its_time() {
        let second = 1_000_000_000;
        let mut rates = Rates::new(1_000_000);
        for (bps, at) in [(2_000_000, 10), (1_000_000, 11), (3_000_000, 12)] {
            rates.push(bps, at * second);
        }
        // The process that sets the rate is late: no rate is set at first, then each in turn.
        for bps in [1_000_000, 2_000_000, 1_000_000, 3_000_000] {
            assert_eq!(rates.check_rate(bps, 12 * second), Ok(()), "{bps}");
        }
        assert_eq!(
            rates.check_rate(2_000_000, 12 * second),
            Err(Halted::RateChanged)
        );
        for (bps, at) in [(2_000_000, 20), (3_000_000, 21)] {
            rates.push(bps, at * second);
        }
        // The last rate was set, and stays.
        assert_eq!(check_until(&mut rates, 3_000_000, 40_000), Ok(()));
        rates.push(2_000_000, 41 * second);
        assert_eq!(check_until(&mut rates, 3_000_000, 43_000), Ok(()));
        assert_eq!(
            check_until(&mut rates, 3_000_000, 44_000),
            Err(Halted::Refused)
        );
    }

    #[test]
    fn who_stood_still_as_well_gets_its_time_again() {
        let mut rates = Rates::new(1_000_000);
        assert_eq!(check_until(&mut rates, 1_000_000, 10_000), Ok(()));
        rates.push(2_000_000, 10_010_000_000);
        // Both are frozen for ten seconds, and this thread runs first.
        assert_eq!(rates.check_rate(1_000_000, 20_000_000_000), Ok(()));
        assert_eq!(check_until(&mut rates, 1_000_000, 21_000), Ok(()));
        assert_eq!(check_until(&mut rates, 2_000_000, 24_000), Ok(()));
        // A setter that does nothing although both run is reported.
        rates.push(3_000_000, 24_010_000_000);
        assert_eq!(rates.check_rate(2_000_000, 34_000_000_000), Ok(()));
        assert_eq!(check_until(&mut rates, 2_000_000, 36_000), Ok(()));
        assert_eq!(
            check_until(&mut rates, 2_000_000, 36_100),
            Err(Halted::Refused)
        );
    }

    #[test]
    fn a_small_change_waits_a_large_one_does_not() {
        let mut rates = Rates::new(1_000_000);
        rates.push(2_000_000, 7_000_000_000);
        let soon = 7_000_000_000 + SMALL_CHANGE_INTERVAL - 1;
        assert!(!rates.is_due(2_150_000, soon) && !rates.is_due(1_850_000, soon));
        assert!(rates.is_due(2_250_000, soon) && rates.is_due(1_750_000, soon));
        let later = soon + 1;
        assert!(rates.is_due(2_030_000, later) && rates.is_due(1_970_000, later));
        assert!(!rates.is_due(2_010_000, later) && !rates.is_due(1_990_000, later));
    }
}
