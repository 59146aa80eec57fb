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
const MAX_SAMPLES: u64 = 600;
/// A result of another thread that is no older than this is used instead of a new one.
const MAX_BACKLOG_AGE: Duration = Duration::from_millis(150);

/// The total bytes that have left through an interface.
#[derive(Clone, Copy, Default)]
struct EgressBytes {
    /// Bytes of ACKs and short packets.
    rest: u64,
    /// Bytes of others, as the policy's `uplink.h` counts them.
    others: u64,
}

/// Samples the totals at the interval that [`Uplink`] expects, although heartbeats may be late: the
/// bytes are then spread over the samples that are due.
#[derive(Default)]
struct Samples {
    uplink: Uplink,
    left: EgressBytes,
    /// Total bytes of long pauses, which are left out.
    skipped: EgressBytes,
    sampled_us: Option<u64>,
    shared_us: u32,
}

impl Samples {
    fn update(&mut self, now_us: u64, left: EgressBytes) -> u32 {
        let before = self.left;
        // The totals only grow. A total that seems to fall counts as unchanged: the policy takes
        // differences, and would see a rate that no link has.
        let left = EgressBytes {
            rest: left.rest.max(before.rest),
            others: left.others.max(before.others),
        };
        let sampled_us = *self.sampled_us.get_or_insert(now_us);
        let due = now_us.saturating_sub(sampled_us) / UPLINK_LOOK_US;
        self.sampled_us = Some(sampled_us + due * UPLINK_LOOK_US);
        if due == 0 {
            return self.shared_us;
        }
        let part = |from: u64, to: u64, sample: u64| from + (to - from) / due * sample;
        let at = |sample: u64| EgressBytes {
            rest: part(before.rest, left.rest, sample),
            others: part(before.others, left.others, sample),
        };
        let skipped = due.saturating_sub(MAX_SAMPLES);
        let forgotten = at(skipped);
        self.skipped.rest += forgotten.rest - before.rest;
        self.skipped.others += forgotten.others - before.others;
        for sample in skipped + 1..=due {
            let total = if sample == due { left } else { at(sample) };
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
    is_needed: AtomicBool,
    /// The answer; true while nothing is known. The policy remembers for 30 s that others fill its
    /// queue, so it must not be told so too early.
    fair: AtomicBool,
}

impl Default for FairQueue {
    fn default() -> Self {
        FairQueue {
            is_needed: AtomicBool::new(false),
            fair: AtomicBool::new(true),
        }
    }
}

impl FairQueue {
    /// Returns the latest answer, which is at most one or two samples old.
    fn is_fair(&self, is_needed: bool) -> bool {
        self.is_needed.store(is_needed, Ordering::Relaxed);
        self.fair.load(Ordering::Relaxed)
    }

    /// Samples the queues once per sampling interval until the datapath ends.
    fn watch(&self, mut queues: Queues, lifecycle: &Lifecycle) {
        drop_realtime();
        let mut waiting = Waiting::UNKNOWN;
        while !lifecycle.wait_stop(Duration::from_micros(UPLINK_LOOK_US)) {
            let found = if self.is_needed.load(Ordering::Relaxed) {
                queues
                    .has_backlog()
                    .is_some_and(|found| waiting.update(found))
            } else {
                // Findings from one upload do not apply to the next.
                waiting = Waiting::UNKNOWN;
                true
            };
            self.fair.store(found, Ordering::Relaxed);
        }
    }
}

/// How often packets were found waiting in recent samples.
struct Waiting {
    /// The share of samples that found packets, in 1/65,536.
    share: u32,
}

impl Waiting {
    /// The initial state: as if packets always waited. The policy remembers for 30 s that others
    /// fill its queue, so it must not be told so too early.
    const UNKNOWN: Waiting = Waiting { share: 1 << 16 };

    /// Adds a sample. Returns whether packets wait at least half of the time.
    fn update(&mut self, found: bool) -> bool {
        self.share = self.share - (self.share >> 4) + (u32::from(found) << 12);
        self.share >= 1 << 15
    }
}

/// The queues of an interface.
struct Queues {
    interface: u32,
    netlink: Option<Netlink>,
    /// The bytes that wait in the interface's cake, if its rate is measured and was read
    /// recently.
    backlog_bytes: Box<dyn Fn() -> Option<u64> + Send>,
}

impl Queues {
    /// Returns whether packets wait in a queue that separates flows; `None` if there is no such
    /// queue.
    fn has_backlog(&mut self) -> Option<bool> {
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
    samples: Samples,
    /// `Some` until the thread that samples the queues takes it.
    netlink: Option<Netlink>,
    /// `None` if flows are not told who fills the link.
    fair: Option<Arc<FairQueue>>,
}

/// What a sample shows.
#[derive(Clone, Copy)]
pub(crate) struct Sampled {
    /// `aw_flow.shared`.
    pub(crate) shared_us: u32,
    /// Whether others fill the link, even if they do not delay an ACK.
    pub(crate) others_fill_link: bool,
}

impl Egress {
    /// Creates the state for an interface of the calling thread's network namespace.
    /// `tells_flows` is whether flows are told.
    pub(crate) fn new(counters: PerCpuArray<MapData, sys::aw_percpu>, tells_flows: bool) -> Egress {
        Egress {
            counters,
            samples: Samples::default(),
            netlink: tells_flows.then(|| Netlink::open().ok()).flatten(),
            fair: tells_flows.then(Arc::default),
        }
    }

    /// Starts the thread that samples the queues of the interface with this index until the
    /// datapath ends, if flows are told. `rate` is the measured rate of a cake there.
    pub(crate) fn watch_queues(
        &mut self,
        interface: u32,
        rate: Option<ackwise_autorate::Handle>,
        lifecycle: &Arc<Lifecycle>,
    ) -> io::Result<Option<Worker>> {
        let Some(fair) = self.fair.clone() else {
            return Ok(None);
        };
        let ending = Arc::clone(lifecycle);
        let queues = Queues {
            interface,
            netlink: self.netlink.take(),
            backlog_bytes: Box::new(move || rate.as_ref()?.backlog_bytes(MAX_BACKLOG_AGE)),
        };
        Worker::spawn("ackwise-queues", Arc::clone(lifecycle), move || {
            fair.watch(queues, &ending);
            Ended::Requested
        })
        .map(Some)
    }

    /// Stops sampling the queues until the next [`Self::sample`].
    pub(crate) fn pause(&self) {
        if let Some(fair) = &self.fair {
            fair.is_fair(false);
        }
    }

    /// Finds out who fills the link. Call this at every heartbeat.
    pub(crate) fn sample(&mut self, now_us: u64) -> Result<Sampled, MapError> {
        let mut left = EgressBytes::default();
        for one in self.counters.get(&0, 0)?.iter() {
            left.rest += one.left_rest_bytes;
            left.others += one.left_others_bytes;
        }
        let shared_us = self.samples.update(now_us, left);
        let others_fill_link = shared_us > 0;
        let fair = self.fair.as_ref();
        let delays_acks = fair.is_some_and(|fair| !fair.is_fair(others_fill_link));
        Ok(Sampled {
            shared_us: if delays_acks { shared_us } else { 0 },
            others_fill_link,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// A second at 1 Mbit/s, of which others have this share in percent.
    fn second(left: &mut EgressBytes, percent: u64) {
        left.others += 1250 * percent;
        left.rest += 1250 * (100 - percent);
    }

    #[test]
    fn an_upload_is_seen_and_forgotten() {
        let (mut samples, mut left) = (Samples::default(), EgressBytes::default());
        assert_eq!(samples.update(0, left), 0);
        for s in 1..=10 {
            second(&mut left, 0);
            assert_eq!(samples.update(s * SECOND, left), 0, "second {s}");
        }
        for s in 11..=20 {
            second(&mut left, 50);
            samples.update(s * SECOND, left);
        }
        assert!(samples.shared_us > 0);
        for s in 21..=40 {
            second(&mut left, 0);
            samples.update(s * SECOND, left);
        }
        assert_eq!(samples.shared_us, 0);
    }

    #[test]
    fn packets_wait_if_half_of_the_looks_find_some() {
        let mut waiting = Waiting::UNKNOWN;
        let idle = (1..100).find(|_| !waiting.update(false));
        assert_eq!(idle, Some(11));
        let busy = (1..100).find(|_| waiting.update(true));
        assert!(busy.is_some_and(|busy| busy <= 11), "{busy:?}");
        // Occasional bursts.
        for n in 0..1000 {
            waiting.update(n % 4 == 0);
        }
        assert!(!waiting.update(false));
    }

    /// A result of the thread that measures a rate takes precedence over a list of all queues.
    #[test]
    fn a_backlog_that_is_known_is_not_looked_for() {
        let has_backlog = |known: Option<u64>| {
            let mut queues = Queues {
                interface: u32::MAX,
                netlink: Some(Netlink::open().expect("a socket")),
                backlog_bytes: Box::new(move || known),
            };
            queues.has_backlog()
        };
        assert_eq!(has_backlog(Some(3000)), Some(true));
        assert_eq!(has_backlog(Some(0)), Some(false));
        // The list has no queue of that interface.
        assert_eq!(has_backlog(None), None);
    }

    #[test]
    fn early_heartbeats_are_no_looks() {
        let (mut samples, mut left) = (Samples::default(), EgressBytes::default());
        let mut often = Samples::default();
        for ms in 0..20_000 {
            left.others += 60;
            left.rest += 60;
            let seldom = (ms % 100 == 0).then(|| samples.update(ms * 1000, left));
            let now = often.update(ms * 1000, left);
            assert!(seldom.is_none_or(|seldom| seldom == now), "at {ms} ms");
        }
        assert!(often.shared_us > 0);
    }

    /// A total that falls by a packet while nothing of its kind leaves is not a rate: it neither
    /// hides others that fill the link nor invents them.
    #[test]
    fn a_total_that_falls_is_no_rate() {
        for upload in [false, true] {
            let (mut samples, mut left) = (Samples::default(), EgressBytes::default());
            (left.rest, left.others) = (1514, 1514);
            for s in 0..40 {
                second(&mut left, if upload { 100 } else { 0 });
                samples.update(s * SECOND, left);
                let mut fell = left;
                if s == 20 {
                    *(if upload {
                        &mut fell.rest
                    } else {
                        &mut fell.others
                    }) -= 1514;
                }
                samples.update(s * SECOND + 100_000, fell);
                assert!(s < 10 || (samples.shared_us > 0) == upload, "second {s}");
            }
        }
    }

    /// A pause of ten seconds, or of ten minutes, does not leave behind a rate that the link does
    /// not carry.
    #[test]
    fn a_pause_leaves_the_rate_as_it_was() {
        for pause in [10, 59, 61, 600] {
            let (mut samples, mut left) = (Samples::default(), EgressBytes::default());
            for s in 0..pause + 50 {
                if !(30..30 + pause).contains(&s) {
                    samples.update(s * SECOND, left);
                }
                second(&mut left, 20);
            }
            let steady = samples.update((pause + 50) * SECOND, left);
            // Two full packets at 1 Mbit/s take 24.2 ms.
            assert!((23_000..26_000).contains(&steady), "{pause} s: {steady} µs");
        }
    }
}
