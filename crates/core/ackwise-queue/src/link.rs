//! One direction of a wire.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::Nanos;
use crate::changes::{ClockedDelay, LinkChanges};
use crate::discipline::DropTail;
use crate::queue::{DropCause, Evicted, QueueDiscipline, QueueLimit, Queued};
use crate::serialiser::Serialiser;
use ackwise_rng::{Probability, Rng};

/// Reordering: some packets are held back on the wire, so that others overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reorder {
    /// The probability that a packet is held back.
    pub probability: Probability,
    /// The additional delay of such a packet, in nanoseconds.
    pub extra_delay_ns: Nanos,
}

/// What a link does to packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkConfig {
    /// The rate in bits per second; with `None`, sending a packet takes no time.
    pub rate_bps: Option<u64>,
    /// The limit of the drop-tail queue before the wire.
    pub queue: QueueLimit,
    /// The time from the last bit sent to the packet's arrival, in nanoseconds.
    pub delay_ns: Nanos,
    /// Each packet's delay varies uniformly by ± this much, but is never negative. Order is kept: a
    /// packet that draws a short delay waits for the one before it.
    pub jitter_ns: Nanos,
    /// The probability that the wire loses a packet. A lost packet also takes its time on the wire.
    pub loss: Probability,
    /// The probability that a packet arrives twice.
    pub duplicate: Probability,
    /// Which packets are overtaken by others.
    pub reorder: Option<Reorder>,
    /// The seed of all random draws.
    pub seed: u64,
}

impl Default for LinkConfig {
    /// An ideal wire: no rate, no delay, no limit, no loss.
    fn default() -> Self {
        Self {
            rate_bps: None,
            queue: QueueLimit::Unlimited,
            delay_ns: 0,
            jitter_ns: 0,
            loss: Probability::ZERO,
            duplicate: Probability::ZERO,
            reorder: None,
            seed: 0,
        }
    }
}

/// The fate of an offered packet.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict<P> {
    /// It waits or is on the wire.
    Queued,
    /// The queue was full; the packet is handed back.
    Rejected(P, DropCause),
}

/// A packet that leaves the link.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Departure<P> {
    /// It arrived.
    Delivered {
        /// The packet.
        packet: P,
        /// Number of copies: 2 if the wire duplicated it.
        copies: u32,
        /// The time at which it was due, not after the time that was asked for.
        due_ns: Nanos,
    },
    /// It was dropped or lost; it is handed back so that its buffer can be reused.
    Dropped {
        /// The packet.
        packet: P,
        /// Why.
        cause: DropCause,
    },
}

/// What a link has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered.
    pub offered_packets: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets put on the wire, including lost ones.
    pub sent_packets: u64,
    /// Bytes put on the wire.
    pub sent_bytes: u64,
    /// Packets that arrived; a duplicated packet counts once.
    pub delivered_packets: u64,
    /// Bytes that arrived; a duplicated packet counts once.
    pub delivered_bytes: u64,
    /// Packets rejected by a full queue.
    pub dropped_queue: u64,
    /// Packets that the discipline dropped although there was room.
    pub dropped_discipline: u64,
    /// ACKs that a filter removed because a newer one supersedes them.
    pub filtered: u64,
    /// Packets lost by the wire.
    pub dropped_wire: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets held back so that others overtook them.
    pub reordered: u64,
    /// The maximum queue length in packets.
    pub queue_max_packets: usize,
    /// The maximum queue length in bytes.
    pub queue_max_bytes: u64,
    /// The integral of the queue length in packets over time in nanoseconds. Divide it by a
    /// duration for the mean.
    pub queue_packet_ns: u128,
    /// The longest time that a packet waited for the wire.
    pub wait_max_ns: Nanos,
}

impl LinkStats {
    /// Packets discarded for any reason but an ACK filter.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_queue + self.dropped_discipline + self.dropped_wire
    }

    /// Mean queue length in packets over `span_ns`.
    #[must_use]
    pub fn queue_mean_packets(&self, span_ns: Nanos) -> f64 {
        self.queue_packet_ns as f64 / span_ns.max(1) as f64
    }
}

/// A packet on the wire.
#[derive(Debug)]
struct InFlight<P> {
    due: Nanos,
    packet: P,
    len: u32,
    /// The number of times that it arrives; 0 if it is lost.
    copies: u8,
}

/// A packet on the wire that is overtaken by others.
#[derive(Debug)]
struct Reordered<P> {
    flying: InFlight<P>,
    /// Number of packets put on the wire before it: those held back, and the others.
    before: (u64, u64),
}

impl<P> Reordered<P> {
    fn key(&self) -> (Nanos, u64) {
        (self.flying.due, self.before.0)
    }
}

impl<P> PartialEq for Reordered<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<P> Eq for Reordered<P> {}
impl<P> PartialOrd for Reordered<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<P> Ord for Reordered<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

/// One direction of a wire: queue → serialiser → delay line.
///
/// Call [`enqueue`](Self::enqueue) when a packet arrives, and [`pop_due`](Self::pop_due) until it
/// returns `None` whenever [`next_wakeup`](Self::next_wakeup) has passed. Time must not go back; if
/// it does, the link uses the latest time that it has seen.
///
/// In steady state nothing is allocated: the rings keep their capacity.
#[derive(Debug)]
pub struct Link<P, Q = DropTail<P>> {
    config: LinkConfig,
    queue: Q,
    /// The number of packets in `queue` and `staged`, which every step needs.
    waiting: usize,
    /// Packets that were chosen for the next aggregate of [`HalfDuplex::wifi`]
    /// (crate::HalfDuplex::wifi), or to be the first of the one after.
    staged: VecDeque<Queued<P>>,
    serialiser: Serialiser,
    /// Whether [`HalfDuplex`](crate::HalfDuplex) decides when the link sends.
    is_half_duplex: bool,
    /// Packets on the wire, in the order of their due times.
    ring: VecDeque<InFlight<P>>,
    /// Packets on the wire that [`Reorder`] holds back.
    reordered: BinaryHeap<Reverse<Reordered<P>>>,
    evicted: VecDeque<Evicted<P>>,
    last_due: Nanos,
    /// The number of packets that have been held back.
    held_back: u64,
    now: Nanos,
    /// `None` if the wire neither loses, duplicates, delays at random nor reorders.
    impairments: Option<Box<Impairments>>,
    /// The delay, if it changes over time.
    delays: Option<Box<ClockedDelay>>,
    stats: LinkStats,
}

/// Random draws for packets on the wire.
#[derive(Debug)]
struct Impairments {
    loss: Rng,
    duplicate: Rng,
    reorder: Rng,
    jitter: Rng,
}

impl Impairments {
    fn of(config: &LinkConfig) -> Option<Box<Self>> {
        let quiet = config.loss.is_zero()
            && config.duplicate.is_zero()
            && config.reorder.is_none()
            && config.jitter_ns == 0;
        (!quiet).then(|| {
            Box::new(Self {
                loss: Rng::stream(config.seed, 1),
                duplicate: Rng::stream(config.seed, 2),
                reorder: Rng::stream(config.seed, 3),
                jitter: Rng::stream(config.seed, 4),
            })
        })
    }
}

impl<P> Link<P> {
    /// Creates a link with a drop-tail queue of the configured limit.
    #[must_use]
    pub fn drop_tail(config: LinkConfig) -> Self {
        Self::with_queue(config, DropTail::new(config.queue))
    }
}

impl<P, Q: QueueDiscipline<P>> Link<P, Q> {
    /// Creates a link with a queue of any discipline; `config.queue` is ignored.
    #[must_use]
    pub fn with_queue(config: LinkConfig, queue: Q) -> Self {
        Self {
            impairments: Impairments::of(&config),
            delays: None,
            config,
            waiting: queue.packets(),
            staged: VecDeque::new(),
            queue,
            serialiser: Serialiser::new(config.rate_bps),
            is_half_duplex: false,
            ring: VecDeque::new(),
            reordered: BinaryHeap::new(),
            evicted: VecDeque::new(),
            last_due: 0,
            held_back: 0,
            now: 0,
            stats: LinkStats::default(),
        }
    }

    /// The link's configuration.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Makes rate and delay change over time, by schedules that begin at `origin`. Call it before
    /// the first packet.
    pub fn vary(&mut self, changes: &LinkChanges, origin: Nanos) {
        if let Some(rate) = &changes.rate {
            let outages = changes.outages.clone();
            self.serialiser.follow(rate, outages, origin);
            self.config.rate_bps = self.serialiser.rate_bps();
        }
        let delays = changes.delay.as_ref();
        self.delays = delays.map(|it| Box::new(it.on_clock(origin)));
    }

    /// Changes the rate, from the next packet on.
    pub fn set_rate(&mut self, bps: u64) {
        self.config.rate_bps = Some(bps);
        self.serialiser.set_rate(bps);
        self.queue.rate_changed(bps);
    }

    /// Notes that nothing was sent from the last time seen until `now`: waiting packets leave from
    /// now on. Packets on the wire keep their times.
    pub fn stalled_until(&mut self, now: Nanos) {
        self.serialiser.occupy(now);
        self.advance(now);
    }

    /// Tells the discipline how long a full packet is, in bytes as they count against the rate.
    pub fn set_full_packet(&mut self, bytes: u32) {
        self.queue.full_packet_changed(bytes);
    }

    /// Sends all waiting packets without delay from now on, and drops none for having waited. It is
    /// for the end of the link. Packets on the wire keep their times.
    pub fn end(&mut self) {
        self.serialiser.set_rate(u64::MAX);
        self.queue.ends();
    }

    /// What the link has done so far.
    #[must_use]
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }

    /// Packets that wait in the queue.
    #[must_use]
    pub fn queue_packets(&self) -> usize {
        self.queue.packets()
    }

    /// Bytes that wait in the queue.
    #[must_use]
    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Packets that wait or are on the wire.
    #[must_use]
    pub fn backlog(&self) -> usize {
        self.queue.packets() + self.staged.len() + self.ring.len() + self.reordered.len()
    }

    /// The queue discipline.
    #[must_use]
    pub fn queue(&self) -> &Q {
        &self.queue
    }

    /// Offers a packet of `len` bytes at `now`.
    #[inline]
    pub fn enqueue(&mut self, packet: P, len: u32, now: Nanos) -> Verdict<P> {
        self.advance(now);
        self.stats.offered_packets += 1;
        self.stats.offered_bytes += u64::from(len);
        let queued = Queued {
            packet,
            len,
            arrived_ns: self.now,
        };
        if self.waiting == 0 {
            self.serialiser.idle(self.now);
            if self.serialiser.free_at() <= self.now {
                return self.pass(queued);
            }
        }
        let taken = self.queue.enqueue(queued, &mut self.evicted);
        self.waiting = self.queue.packets();
        if let Err(rejected) = taken {
            self.count_drop(rejected.cause);
            return Verdict::Rejected(rejected.queued.packet, rejected.cause);
        }
        self.transmit();
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(self.waiting);
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(self.queue.bytes());
        Verdict::Queued
    }

    /// Sends a packet that finds the queue empty and the wire free; it does not wait.
    #[inline]
    fn pass(&mut self, queued: Queued<P>) -> Verdict<P> {
        let passed = self.queue.pass(queued, self.now, &mut self.evicted);
        self.waiting = self.queue.packets();
        match passed {
            Ok(Some(queued)) => self.launch(queued),
            Ok(None) => {}
            Err(rejected) => {
                self.count_drop(rejected.cause);
                return Verdict::Rejected(rejected.queued.packet, rejected.cause);
            }
        }
        // A wire without a rate is free at once, but the discipline may have kept packets.
        if self.waiting > 0 {
            self.transmit();
        }
        Verdict::Queued
    }

    /// The time of the next call of [`pop_due`](Self::pop_due), or `None` if the link is empty.
    #[inline]
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        let front = self.ring.front().map(|flying| flying.due);
        if self.evicted.is_empty() && self.reordered.is_empty() {
            return match front {
                None if self.waiting > 0 => Some(self.wire_free()),
                front => front,
            };
        }
        if !self.evicted.is_empty() {
            return Some(self.now);
        }
        let reordered = self
            .reordered
            .peek()
            .map(|reordered| reordered.0.flying.due);
        // A waiting packet can arrive before one that is held back. So the time at which the wire
        // becomes free matters only if no in-order packet is in flight.
        let free = (front.is_none() && self.waiting > 0).then(|| self.wire_free());
        [front, reordered, free].into_iter().flatten().min()
    }

    /// The number of packets that were put on the wire and not held back.
    fn sent_in_order(&self) -> u64 {
        self.stats.sent_packets - self.held_back
    }

    fn wire_free(&self) -> Nanos {
        self.serialiser.free_at().max(self.now)
    }

    /// The next packet that has arrived by `now`, in order of arrival.
    #[inline]
    pub fn pop_due(&mut self, now: Nanos) -> Option<Departure<P>> {
        self.advance(now);
        if !self.evicted.is_empty() || !self.reordered.is_empty() {
            return self.pop_slow();
        }
        if self.ring.front()?.due > self.now {
            return None;
        }
        let flying = self.ring.pop_front()?;
        Some(self.depart(flying))
    }

    /// The slow path, for packets that were evicted or held back.
    #[cold]
    fn pop_slow(&mut self) -> Option<Departure<P>> {
        if let Some(evicted) = self.evicted.pop_front() {
            self.count_drop(evicted.cause);
            return Some(Departure::Dropped {
                packet: evicted.queued.packet,
                cause: evicted.cause,
            });
        }
        // The number of the front packet among those that were not held back.
        let front = self.sent_in_order() - self.ring.len() as u64;
        let from_ring = match (self.ring.front(), self.reordered.peek()) {
            (Some(ring), Some(Reverse(reordered))) => {
                (ring.due, front) < (reordered.flying.due, reordered.before.1)
            }
            (ring, _) => ring.is_some(),
        };
        let next_due = if from_ring {
            self.ring.front().map(|flying| flying.due)
        } else {
            self.reordered
                .peek()
                .map(|reordered| reordered.0.flying.due)
        };
        if next_due? > self.now {
            return None;
        }
        let flying = if from_ring {
            self.ring.pop_front()?
        } else {
            self.reordered.pop()?.0.flying
        };
        Some(self.depart(flying))
    }

    #[inline]
    fn depart(&mut self, flying: InFlight<P>) -> Departure<P> {
        if flying.copies == 0 {
            self.count_drop(DropCause::Wire);
            return Departure::Dropped {
                packet: flying.packet,
                cause: DropCause::Wire,
            };
        }
        self.stats.delivered_packets += 1;
        self.stats.delivered_bytes += u64::from(flying.len);
        Departure::Delivered {
            packet: flying.packet,
            copies: u32::from(flying.copies),
            due_ns: flying.due,
        }
    }

    fn count_drop(&mut self, cause: DropCause) {
        match cause {
            DropCause::QueueFull => self.stats.dropped_queue += 1,
            DropCause::Discipline | DropCause::Policed => self.stats.dropped_discipline += 1,
            DropCause::Filtered => self.stats.filtered += 1,
            DropCause::Wire => self.stats.dropped_wire += 1,
        }
    }

    /// Advances the link to `now`.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        if self.waiting == 0 {
            self.now = self.now.max(now);
        } else {
            self.catch_up(now);
        }
    }

    fn catch_up(&mut self, now: Nanos) {
        let target = now.max(self.now);
        while self.waiting > 0 && !self.is_half_duplex && self.serialiser.free_at() <= target {
            self.tick(self.serialiser.free_at().max(self.now));
            self.transmit();
        }
        self.tick(target);
    }

    /// Advances the clock, and adds to the integral of the queue length.
    #[inline]
    fn tick(&mut self, now: Nanos) {
        let span = now - self.now;
        // One multiplication, because the factors fit into a word.
        self.stats.queue_packet_ns += u128::from(span) * self.waiting as u128;
        self.now = now;
    }

    /// Starts to send if the wire is free and a packet waits.
    fn transmit(&mut self) {
        while self.serialiser.free_at() <= self.now {
            let next = self.queue.dequeue(self.now, &mut self.evicted);
            self.waiting = self.queue.packets();
            let Some(queued) = next else {
                return;
            };
            self.launch(queued);
        }
    }

    /// From now on, only [`launch_next`](Self::launch_next) sends waiting packets.
    pub(crate) fn set_half_duplex(&mut self) {
        self.is_half_duplex = true;
    }

    /// Enqueues a packet without sending: the medium decides when to send.
    pub(crate) fn offer(&mut self, packet: P, len: u32, now: Nanos) -> Verdict<P> {
        self.advance(now);
        self.stats.offered_packets += 1;
        self.stats.offered_bytes += u64::from(len);
        let queued = Queued {
            packet,
            len,
            arrived_ns: self.now,
        };
        let taken = self.queue.enqueue(queued, &mut self.evicted);
        self.waiting = self.queue.packets() + self.staged.len();
        if let Err(rejected) = taken {
            self.count_drop(rejected.cause);
            return Verdict::Rejected(rejected.queued.packet, rejected.cause);
        }
        self.stats.queue_max_packets = self.stats.queue_max_packets.max(self.waiting);
        self.stats.queue_max_bytes = self.stats.queue_max_bytes.max(self.queue.bytes());
        Verdict::Queued
    }

    /// The length of the packet at this position in the next aggregate; `None` if there is none.
    pub(crate) fn staged_len(&mut self, place: usize, now: Nanos) -> Option<u32> {
        if place == self.staged.len() {
            self.tick(now.max(self.now));
            let next = self.queue.dequeue(self.now, &mut self.evicted);
            self.staged.extend(next);
            self.waiting = self.queue.packets() + self.staged.len();
        }
        self.staged.get(place).map(|queued| queued.len)
    }

    /// Sends the first `count` staged packets from `at` on; all of them have left at `left`.
    pub(crate) fn launch_staged(&mut self, count: usize, at: Nanos, left: Nanos) {
        self.tick(at.max(self.now));
        for _ in 0..count {
            let Some(queued) = self.staged.pop_front() else {
                break;
            };
            self.launch_until(queued, left);
        }
        self.waiting = self.queue.packets() + self.staged.len();
        self.serialiser.occupy(left);
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// The time at which the medium is free.
    pub(crate) fn free_at(&self) -> Nanos {
        self.serialiser.free_at()
    }

    /// Notes that the other direction occupies the medium until this time.
    pub(crate) fn occupy(&mut self, until: Nanos) {
        self.serialiser.occupy(until);
    }

    /// Sends one waiting packet at `at`, unless the discipline keeps or drops them all.
    pub(crate) fn launch_next(&mut self, at: Nanos) {
        self.tick(at.max(self.now));
        let next = self.queue.dequeue(self.now, &mut self.evicted);
        let before = std::mem::replace(&mut self.waiting, self.queue.packets());
        match next {
            Some(queued) => self.launch(queued),
            // A discipline may hold packets and return none; asking again would loop forever.
            None if self.waiting == before => self.serialiser.occupy(self.now + 1),
            None => {}
        }
    }

    #[inline]
    fn launch(&mut self, queued: Queued<P>) {
        let left = self.serialiser.send(queued.len, self.now);
        self.launch_until(queued, left);
    }

    /// Puts a packet on the wire; its last bit leaves at `left`.
    #[inline]
    fn launch_until(&mut self, queued: Queued<P>, left: Nanos) {
        self.stats.sent_packets += 1;
        self.stats.sent_bytes += u64::from(queued.len);
        self.stats.wait_max_ns = self.stats.wait_max_ns.max(self.now - queued.arrived_ns);
        let delay = match &self.delays {
            None => self.config.delay_ns,
            Some(delays) => delays.at(left),
        };
        let due = left.saturating_add(delay);
        let flying = InFlight {
            due,
            packet: queued.packet,
            len: queued.len,
            copies: 1,
        };
        if self.impairments.is_some() {
            self.launch_impaired(flying, left);
        } else if self.delays.is_some() {
            // A packet with a shorter delay does not overtake.
            let due = due.max(self.last_due);
            self.last_due = due;
            self.ring.push_back(InFlight { due, ..flying });
        } else {
            // Packets end in order, with or without a rate.
            self.last_due = due;
            self.ring.push_back(flying);
        }
    }

    /// Launches a packet whose last bit leaves at `left`, with random loss, duplication and delay.
    fn launch_impaired(&mut self, mut flying: InFlight<P>, left: Nanos) {
        let Some(draws) = &mut self.impairments else {
            return;
        };
        // Every packet, lost or not, draws from every stream in use. So the fate of one packet does
        // not change the draws of the next.
        let lost = draws.loss.happens(self.config.loss);
        let twice = draws.duplicate.happens(self.config.duplicate);
        let held_back = self
            .config
            .reorder
            .filter(|reorder| draws.reorder.happens(reorder.probability));
        if self.config.jitter_ns > 0 {
            // Uniform in ± jitter, but not before the last bit has left.
            let most = self.config.jitter_ns;
            let drawn = draws.jitter.below(most.saturating_mul(2).saturating_add(1));
            flying.due = flying
                .due
                .saturating_add(drawn)
                .saturating_sub(most)
                .max(left);
        }
        if lost {
            flying.copies = 0;
        } else if twice {
            flying.copies = 2;
            self.stats.duplicated += 1;
        }
        match held_back {
            Some(reorder) => {
                if !lost {
                    self.stats.reordered += 1;
                }
                flying.due = flying.due.saturating_add(reorder.extra_delay_ns);
                // This packet is already counted as sent.
                let in_order = self.sent_in_order() - 1;
                self.reordered.push(Reverse(Reordered {
                    flying,
                    before: (self.held_back, in_order),
                }));
                self.held_back += 1;
            }
            None => {
                flying.due = flying.due.max(self.last_due);
                self.last_due = flying.due;
                self.ring.push_back(flying);
            }
        }
    }
}
