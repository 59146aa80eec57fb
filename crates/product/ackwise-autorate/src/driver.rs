//! The thread that looks, estimates and asks for a rate.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ackwise_bandwidth::{self as bandwidth, Bounds, Estimator, Look, Nanos};
use ackwise_netdev::clock::{monotonic_ns, thread_cpu_ns};
use ackwise_netdev::daemon::{Ended, Lifecycle, Worker, drop_realtime};
use ackwise_netdev::janitor::RateSetter;
use ackwise_netdev::netlink::Netlink;
use ackwise_netdev::qdisc::Qdisc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use crate::Delay;

/// The time between two looks.
const LOOK: Duration = Duration::from_millis(25);
/// The time between two looks at the queue itself.
const CHECK: Nanos = 100_000_000;
/// A rate that differs by less than this part from the one that is set is not set, in thousandths.
const WORTH: u64 = 10;
/// A rate that differs by more than this part is set at once, in thousandths. Others wait for [`PAUSE`] from the
/// last one on: a change costs some 180,000 instructions (docs/decisions/0032-measured-rate.md).
const AT_ONCE: u64 = 100;
/// The time between two rates that differ little.
const PAUSE: Nanos = 50_000_000;
/// The time within which a rate that was asked for has to be there.
const PATIENCE: Nanos = 2_000_000_000;
/// After so long without a look this thread stood still, and perhaps who sets the rate as well: they are in
/// one control group, which may be frozen.
const STOOD_STILL: Nanos = 1_000_000_000;

/// What sets the rate, and what becomes of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// No round trip was timed of late: the rate rises.
    Blind,
    /// There is too little to send to learn anything: the rate rises.
    Idle,
    /// Nothing waits behind the interface: the rate grows.
    Growing,
    /// Something waits behind the interface: the rate follows the link's.
    Following,
    /// The rate is not measured any more.
    Halted(Halted),
}

/// Why a rate is not measured any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Halted {
    /// The root is another one: somebody has replaced the queue.
    Replaced,
    /// Somebody else has set the rate of the queue.
    RateChanged,
    /// The kernel does not take the rate.
    Refused,
    /// The process that sets the rate, and puts the queue back at the end, is gone.
    GuardGone,
    /// The program or the kernel cannot be asked.
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

/// A rate that is measured, as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// What the queue is shaped to, bit/s.
    pub rate_bps: u64,
    /// The least that it may be, bit/s.
    pub min_bps: u64,
    /// The most that it may be, bit/s.
    pub max_bps: u64,
    /// What the link was last seen to carry, bit/s.
    pub link_bps: Option<u64>,
    /// What sets it.
    pub state: State,
    /// How often it was changed.
    pub changes: u64,
    /// CPU time of the thread that measures, µs.
    pub cpu_us: u64,
}

/// Shows what goes on.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Mutex<Shown>>);

#[derive(Debug)]
struct Shown {
    measured: Measured,
    backlog: Option<Backlog>,
}

/// What waited in the queue when it was looked at.
#[derive(Debug, Clone, Copy)]
struct Backlog {
    at: Nanos,
    bytes: u64,
}

impl Handle {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how things are.
    #[must_use]
    pub fn now(&self) -> Measured {
        self.shown().measured
    }

    /// Returns the bytes that waited in the queue at the last look at it; `None` if that was not within
    /// the last `age`. A list of queues costs some 100,000 instructions, and this one is made anyway.
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

/// Everything that measuring a rate takes.
#[derive(Debug)]
pub struct Autorate {
    delay: Delay,
    setter: RateSetter,
    index: u32,
    bounds: Bounds,
    handle: Handle,
}

impl Autorate {
    /// Is about to measure a rate between `bounds` for the cake of ackwise at the interface with this
    /// index, which is shaped to the greatest one at first.
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

    /// Shows what goes on.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Starts the thread, which ends when the worker is dropped. `halted` is told once if it stops to
    /// measure before.
    ///
    /// # Errors
    /// The system has no thread, socket or descriptor to give.
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
                drops: 0,
                has_dropped: false,
                changes: 0,
            };
            if let Some(why) = thread.run(&life) {
                thread.publish(State::Halted(why));
                halted(why);
            }
            Ended::Asked
        })
    }
}

/// A rate that was asked for.
#[derive(Debug, Clone, Copy)]
struct Asked {
    bps: u64,
    at: Nanos,
}

/// The rates that were asked for: the first is the last one that was seen in the kernel.
#[derive(Debug)]
struct Rates {
    asked: VecDeque<Asked>,
    /// The last look at the kernel's.
    looked_at: Nanos,
}

impl Rates {
    fn new(bps: u64) -> Self {
        Self {
            asked: VecDeque::from([Asked { bps, at: 0 }]),
            looked_at: 0,
        }
    }

    fn ask(&mut self, bps: u64, at: Nanos) {
        self.asked.push_back(Asked { bps, at });
    }

    /// Says what a root means.
    fn judge(&mut self, root: &Qdisc, now: Nanos) -> Result<(), Halted> {
        let Some(there) = root.cake_rate_bps().filter(|_| root.is_ours()) else {
            return Err(Halted::Replaced);
        };
        self.found(there, now)
    }

    /// Says what it means that the kernel has this rate. The same rate may have been asked for more than
    /// once: it is the first of those whose successor is not overdue.
    fn found(&mut self, bps: u64, now: Nanos) -> Result<(), Halted> {
        let last_look = std::mem::replace(&mut self.looked_at, now);
        if now.saturating_sub(last_look) > STOOD_STILL {
            // Nobody was there to set what was asked for: it has its time from now on.
            self.asked.iter_mut().for_each(|asked| asked.at = now);
        }
        // The kernel counts bytes a second.
        let is_there = |asked: &Asked| asked.bps / 8 == bps / 8;
        let is_overdue = |asked: &Asked| now.saturating_sub(asked.at) > PATIENCE;
        let place = self.asked.iter().enumerate().position(|(place, asked)| {
            is_there(asked) && !self.asked.get(place + 1).is_some_and(is_overdue)
        });
        match place {
            Some(place) => {
                self.asked.drain(..place);
                Ok(())
            }
            None if self.asked.iter().any(is_there) => Err(Halted::Refused),
            None => Err(Halted::RateChanged),
        }
    }

    fn last_bps(&self) -> u64 {
        self.asked.back().map_or(0, |asked| asked.bps)
    }

    /// Whether a rate differs enough to be worth a message now.
    fn is_worth(&self, bps: u64, now: Nanos) -> bool {
        let asked_at = self.asked.back().map_or(0, |asked| asked.at);
        let parts = match now.saturating_sub(asked_at) {
            ..PAUSE => AT_ONCE,
            _ => WORTH,
        };
        bps.abs_diff(self.last_bps()) > self.last_bps() / 1000 * parts
    }
}

struct Thread {
    all: Autorate,
    estimator: Estimator,
    rates: Rates,
    netlink: Netlink,
    backlog: Option<Backlog>,
    /// What the queue had dropped at the last look at it.
    drops: u32,
    /// Whether it dropped anything between the last two.
    has_dropped: bool,
    changes: u64,
}

impl Thread {
    /// Measures until it is told to end, or cannot go on; returns why.
    fn run(&mut self, life: &Lifecycle) -> Option<Halted> {
        while !life.should_stop() {
            match self.look() {
                Ok(()) => {}
                // The daemon finds that out by itself, and ends.
                Err(Stop::InterfaceGone) => return None,
                Err(Stop::Halted(why)) => return Some(why),
            }
            let mut wake = [PollFd::new(life.as_fd(), PollFlags::POLLIN)];
            let _ = poll(
                &mut wake,
                PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO),
            );
        }
        None
    }

    fn look(&mut self) -> Result<(), Stop> {
        let now = monotonic_ns();
        if self.backlog.is_none_or(|it| now - it.at >= CHECK) {
            self.check(now)?;
        }
        let sample = self.all.delay.sample().map_err(|e| unreadable(&e))?;
        let sent = self.all.delay.sent().map_err(|e| unreadable(&e))?;
        let bps = self.estimator.observe(&Look {
            at_ns: monotonic_ns(),
            sent,
            backlog_bytes: self.backlog.map_or(0, |it| it.bytes),
            has_dropped: self.has_dropped,
            sample,
        });
        if self.rates.is_worth(bps, now) {
            self.ask(bps, now)?;
        }
        self.publish(self.estimator.state().into());
        Ok(())
    }

    /// Looks whether the queue is still the one that is to be set.
    fn check(&mut self, now: Nanos) -> Result<(), Stop> {
        let root = self.netlink.root(self.all.index);
        let Some(root) = root.map_err(|e| unreadable(&e))? else {
            return Err(match ackwise_netdev::exists(self.all.index) {
                true => Stop::Halted(Halted::Replaced),
                false => Stop::InterfaceGone,
            });
        };
        // What waits in another's queue says nothing of ours.
        self.rates.judge(&root.qdisc, now).map_err(Stop::Halted)?;
        let is_first = self.backlog.is_none();
        self.backlog = Some(Backlog {
            at: now,
            bytes: u64::from(root.backlog_bytes),
        });
        self.has_dropped = !is_first && root.drops != self.drops;
        self.drops = root.drops;
        Ok(())
    }

    fn ask(&mut self, bps: u64, at: Nanos) -> Result<(), Stop> {
        self.all.setter.set(bps).map_err(|error| {
            tracing::warn!("the process that sets the rate does not listen: {error}");
            Stop::Halted(match error.kind() {
                io::ErrorKind::BrokenPipe => Halted::GuardGone,
                _ => Halted::Refused,
            })
        })?;
        self.rates.ask(bps, at);
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

/// Why there is no further look.
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
        let told = |ms: u64| backlog.bytes_within(age, ms * 1_000_000);
        assert_eq!(told(7_000), Some(3000));
        assert_eq!(told(7_150), Some(3000));
        assert_eq!(told(7_151), None);
    }

    /// What a look at each tenth of a second finds, up to this time.
    fn looks(rates: &mut Rates, bps: u64, until_ms: Nanos) -> Result<(), Halted> {
        const MS: Nanos = 1_000_000;
        while rates.looked_at + 100 * MS < until_ms * MS {
            rates.found(bps, rates.looked_at + 100 * MS)?;
        }
        rates.found(bps, until_ms * MS)
    }

    #[test]
    fn a_rate_that_comes_again_is_known_by_its_time() {
        let second = 1_000_000_000;
        let mut rates = Rates::new(1_000_000);
        for (bps, at) in [(2_000_000, 10), (1_000_000, 11), (3_000_000, 12)] {
            rates.ask(bps, at * second);
        }
        // The process that sets the rate is late: none is set yet, then the first, then each in turn.
        for bps in [1_000_000, 2_000_000, 1_000_000, 3_000_000] {
            assert_eq!(rates.found(bps, 12 * second), Ok(()), "{bps}");
        }
        assert_eq!(
            rates.found(2_000_000, 12 * second),
            Err(Halted::RateChanged)
        );
        for (bps, at) in [(2_000_000, 20), (3_000_000, 21)] {
            rates.ask(bps, at * second);
        }
        // The last one was set, and stays.
        assert_eq!(looks(&mut rates, 3_000_000, 40_000), Ok(()));
        rates.ask(2_000_000, 41 * second);
        assert_eq!(looks(&mut rates, 3_000_000, 43_000), Ok(()));
        assert_eq!(looks(&mut rates, 3_000_000, 44_000), Err(Halted::Refused));
    }

    #[test]
    fn who_stood_still_as_well_gets_its_time_again() {
        let mut rates = Rates::new(1_000_000);
        assert_eq!(looks(&mut rates, 1_000_000, 10_000), Ok(()));
        rates.ask(2_000_000, 10_010_000_000);
        // Both are frozen for ten seconds, and this one runs first.
        assert_eq!(rates.found(1_000_000, 20_000_000_000), Ok(()));
        assert_eq!(looks(&mut rates, 1_000_000, 21_000), Ok(()));
        assert_eq!(looks(&mut rates, 2_000_000, 24_000), Ok(()));
        // Who does nothing although both go on does not.
        rates.ask(3_000_000, 24_010_000_000);
        assert_eq!(rates.found(2_000_000, 34_000_000_000), Ok(()));
        assert_eq!(looks(&mut rates, 2_000_000, 36_000), Ok(()));
        assert_eq!(looks(&mut rates, 2_000_000, 36_100), Err(Halted::Refused));
    }

    #[test]
    fn a_small_change_waits_a_large_one_does_not() {
        let mut rates = Rates::new(1_000_000);
        rates.ask(2_000_000, 7_000_000_000);
        let soon = 7_000_000_000 + PAUSE - 1;
        assert!(!rates.is_worth(2_150_000, soon) && !rates.is_worth(1_850_000, soon));
        assert!(rates.is_worth(2_250_000, soon) && rates.is_worth(1_750_000, soon));
        let later = soon + 1;
        assert!(rates.is_worth(2_030_000, later) && rates.is_worth(1_970_000, later));
        assert!(!rates.is_worth(2_010_000, later) && !rates.is_worth(1_990_000, later));
    }
}
