//! Finds out who fills the link that the ACKs leave by: the loader's part of `bpf/egress.h`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ackwise_netdev::daemon::{Ended, Lifecycle, Worker, drop_realtime};
use ackwise_netdev::netlink::{Netlink, QdiscStats};
use ackwise_policy::{UPLINK_LOOK_US, Uplink};
use aya::maps::{MapData, MapError, PerCpuArray};

use crate::sys;

/// The maximum number of samples to catch up on. Older ones reach further back than any rate is
/// remembered.
const MAX_LOOKS: u64 = 600;
/// A result of another thread that is no older than this is used instead of a new look.
const FRESH: Duration = Duration::from_millis(150);

/// The total bytes that have left through an interface.
#[derive(Clone, Copy, Default)]
struct Left {
    /// Bytes of ACKs and short packets.
    rest: u64,
    /// Bytes of full packets of others.
    others: u64,
}

/// Samples the totals at the interval that [`Uplink`] expects, although heartbeats may be late, and
/// do not come while the policy is paused: the bytes are then spread over the samples that are due.
#[derive(Default)]
struct Looks {
    uplink: Uplink,
    left: Left,
    /// Total bytes of long pauses, which are left out.
    skipped: Left,
    looked_us: Option<u64>,
    shared_us: u32,
}

impl Looks {
    fn at(&mut self, now_us: u64, left: Left) -> u32 {
        let before = self.left;
        // The totals only grow. A total that seems to fall counts as unchanged: the policy takes
        // differences, and would see a rate that no link has.
        let left = Left {
            rest: left.rest.max(before.rest),
            others: left.others.max(before.others),
        };
        let looked = *self.looked_us.get_or_insert(now_us);
        let due = now_us.saturating_sub(looked) / UPLINK_LOOK_US;
        self.looked_us = Some(looked + due * UPLINK_LOOK_US);
        if due == 0 {
            return self.shared_us;
        }
        let part = |from: u64, to: u64, look: u64| from + (to - from) / due * look;
        let at = |look: u64| Left {
            rest: part(before.rest, left.rest, look),
            others: part(before.others, left.others, look),
        };
        let skipped = due.saturating_sub(MAX_LOOKS);
        let forgotten = at(skipped);
        self.skipped.rest += forgotten.rest - before.rest;
        self.skipped.others += forgotten.others - before.others;
        for look in skipped + 1..=due {
            let total = if look == due { left } else { at(look) };
            let rest = total.rest.saturating_sub(self.skipped.rest);
            let others = total.others.saturating_sub(self.skipped.others);
            self.shared_us = self.uplink.look(rest, others);
        }
        self.left = left;
        self.shared_us
    }
}

/// Whether packets wait in a queue of the interface that separates flows, where other traffic does
/// not delay an ACK. The kernel answers under a lock that anybody may hold for long (RTNL), so a
/// thread of its own asks, and the re-emitting thread never waits.
struct FairQueue {
    /// Whether others seem to fill the link, so that the answer matters.
    asked: AtomicBool,
    /// The answer; true while nothing is known. The policy remembers for 30 s that others fill its
    /// queue, so it must not be told so too early.
    fair: AtomicBool,
}

impl Default for FairQueue {
    fn default() -> Self {
        FairQueue {
            asked: AtomicBool::new(false),
            fair: AtomicBool::new(true),
        }
    }
}

impl FairQueue {
    /// Returns the latest answer, which is at most one or two looks old.
    fn is_there(&self, asked: bool) -> bool {
        self.asked.store(asked, Ordering::Relaxed);
        self.fair.load(Ordering::Relaxed)
    }

    /// Looks at the queues once per sampling interval until the datapath ends.
    fn watch(&self, mut queues: Queues, lifecycle: &Lifecycle) {
        drop_realtime();
        let mut waiting = Waiting::UNKNOWN;
        while !lifecycle.wait_stop(Duration::from_micros(UPLINK_LOOK_US)) {
            let found = if self.asked.load(Ordering::Relaxed) {
                queues.look().is_some_and(|found| waiting.look(found))
            } else {
                // Findings from one upload do not apply to the next.
                waiting = Waiting::UNKNOWN;
                true
            };
            self.fair.store(found, Ordering::Relaxed);
        }
    }
}

/// How often packets were found waiting in recent looks.
struct Waiting {
    /// The share of looks that found packets, in 1/65,536.
    share: u32,
}

impl Waiting {
    /// The initial state: as if packets always waited. The policy remembers for 30 s that others
    /// fill its queue, so it must not be told so too early.
    const UNKNOWN: Waiting = Waiting { share: 1 << 16 };

    /// Adds the result of a look. Returns whether packets wait at least half of the time.
    fn look(&mut self, found: bool) -> bool {
        self.share = self.share - (self.share >> 4) + (u32::from(found) << 12);
        self.share >= 1 << 15
    }
}

/// The queues of an interface.
struct Queues {
    interface: u32,
    netlink: Option<Netlink>,
    /// The bytes that wait in the interface's cake, if its rate is measured and it was looked at
    /// recently.
    backlog_bytes: Box<dyn Fn() -> Option<u64> + Send>,
}

impl Queues {
    /// Returns whether packets wait in a queue that separates flows; `None` if there is no such
    /// queue.
    fn look(&mut self) -> Option<bool> {
        if let Some(bytes) = (self.backlog_bytes)() {
            return Some(bytes > 0);
        }
        let all = self.netlink.as_mut()?.qdisc_stats().ok()?;
        let here = |queue: &&QdiscStats| queue.interface == self.interface && queue.separates_flows;
        let found = all.iter().filter(here).map(|queue| queue.packets > 0);
        found.reduce(|some, more| some || more)
    }
}

/// What leaves through the interface, as the programs count it.
pub(crate) struct Egress {
    counters: PerCpuArray<MapData, sys::aw_percpu>,
    looks: Looks,
    /// `Some` until the thread that looks at the queues takes it.
    netlink: Option<Netlink>,
    fair: Arc<FairQueue>,
}

impl Egress {
    /// Creates the state for an interface of the calling thread's network namespace.
    pub(crate) fn new(counters: PerCpuArray<MapData, sys::aw_percpu>) -> Egress {
        Egress {
            counters,
            looks: Looks::default(),
            netlink: Netlink::open().ok(),
            fair: Arc::default(),
        }
    }

    /// Starts the thread that looks at the queues of the interface with this index until the
    /// datapath ends. `rate` is the measured rate of a cake there.
    pub(crate) fn watch_queues(
        &mut self,
        interface: u32,
        rate: Option<ackwise_autorate::Handle>,
        lifecycle: &Arc<Lifecycle>,
    ) -> io::Result<Worker> {
        let (fair, ending) = (Arc::clone(&self.fair), Arc::clone(lifecycle));
        let queues = Queues {
            interface,
            netlink: self.netlink.take(),
            backlog_bytes: Box::new(move || rate.as_ref()?.backlog_bytes(FRESH)),
        };
        Worker::spawn("ackwise-queues", Arc::clone(lifecycle), move || {
            fair.watch(queues, &ending);
            Ended::Asked
        })
    }

    /// Stops looking at the queues until the next [`Self::look`].
    pub(crate) fn rest(&self) {
        self.fair.is_there(false);
    }

    /// Returns who fills the link: `aw_flow.shared`. Call this at every heartbeat.
    pub(crate) fn look(&mut self, now_us: u64) -> Result<u32, MapError> {
        let mut left = Left::default();
        for one in self.counters.get(&0, 0)?.iter() {
            left.rest += one.left_rest_bytes;
            left.others += one.left_full_bytes;
        }
        let shared_us = self.looks.at(now_us, left);
        Ok(if self.fair.is_there(shared_us > 0) {
            0
        } else {
            shared_us
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// A second at 1 Mbit/s, of which others have this share in percent.
    fn second(left: &mut Left, percent: u64) {
        left.others += 1250 * percent;
        left.rest += 1250 * (100 - percent);
    }

    #[test]
    fn an_upload_is_seen_and_forgotten() {
        let (mut looks, mut left) = (Looks::default(), Left::default());
        assert_eq!(looks.at(0, left), 0);
        for s in 1..=10 {
            second(&mut left, 0);
            assert_eq!(looks.at(s * SECOND, left), 0, "second {s}");
        }
        for s in 11..=20 {
            second(&mut left, 50);
            looks.at(s * SECOND, left);
        }
        assert!(looks.shared_us > 0);
        for s in 21..=40 {
            second(&mut left, 0);
            looks.at(s * SECOND, left);
        }
        assert_eq!(looks.shared_us, 0);
    }

    #[test]
    fn packets_wait_if_half_of_the_looks_find_some() {
        let mut waiting = Waiting::UNKNOWN;
        let idle = (1..100).find(|_| !waiting.look(false));
        assert_eq!(idle, Some(11));
        let busy = (1..100).find(|_| waiting.look(true));
        assert!(busy.is_some_and(|busy| busy <= 11), "{busy:?}");
        // Occasional bursts.
        for n in 0..1000 {
            waiting.look(n % 4 == 0);
        }
        assert!(!waiting.look(false));
    }

    /// A result of the thread that measures a rate takes precedence over a list of all queues.
    #[test]
    fn a_backlog_that_is_known_is_not_looked_for() {
        let look = |known: Option<u64>| {
            let mut queues = Queues {
                interface: u32::MAX,
                netlink: Some(Netlink::open().expect("a socket")),
                backlog_bytes: Box::new(move || known),
            };
            queues.look()
        };
        assert_eq!(look(Some(3000)), Some(true));
        assert_eq!(look(Some(0)), Some(false));
        // The list has no queue of that interface.
        assert_eq!(look(None), None);
    }

    #[test]
    fn early_heartbeats_are_no_looks() {
        let (mut looks, mut left) = (Looks::default(), Left::default());
        let mut often = Looks::default();
        for ms in 0..20_000 {
            left.others += 60;
            left.rest += 60;
            let seldom = (ms % 100 == 0).then(|| looks.at(ms * 1000, left));
            let now = often.at(ms * 1000, left);
            assert!(seldom.is_none_or(|seldom| seldom == now), "at {ms} ms");
        }
        assert!(often.shared_us > 0);
    }

    /// A total that falls by a packet while nothing of its kind leaves is not a rate: it neither
    /// hides others that fill the link nor invents them.
    #[test]
    fn a_total_that_falls_is_no_rate() {
        for upload in [false, true] {
            let (mut looks, mut left) = (Looks::default(), Left::default());
            (left.rest, left.others) = (1514, 1514);
            for s in 0..40 {
                second(&mut left, if upload { 100 } else { 0 });
                looks.at(s * SECOND, left);
                let mut fell = left;
                if s == 20 {
                    *(if upload {
                        &mut fell.rest
                    } else {
                        &mut fell.others
                    }) -= 1514;
                }
                looks.at(s * SECOND + 100_000, fell);
                assert!(s < 10 || (looks.shared_us > 0) == upload, "second {s}");
            }
        }
    }

    /// A pause of ten seconds, or of ten minutes, does not leave behind a rate that the link does
    /// not carry.
    #[test]
    fn a_pause_leaves_the_rate_as_it_was() {
        for pause in [10, 59, 61, 600] {
            let (mut looks, mut left) = (Looks::default(), Left::default());
            for s in 0..pause + 50 {
                if !(30..30 + pause).contains(&s) {
                    looks.at(s * SECOND, left);
                }
                second(&mut left, 20);
            }
            let steady = looks.at((pause + 50) * SECOND, left);
            // Two full packets at 1 Mbit/s take 24.2 ms.
            assert!((23_000..26_000).contains(&steady), "{pause} s: {steady} µs");
        }
    }
}
