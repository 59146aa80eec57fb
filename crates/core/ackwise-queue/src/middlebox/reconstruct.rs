//! ACK reconstruction at the far end of a slow link (RFC 3449 §5.3.1): a stretch ACK is preceded by
//! the ACKs that a receiver would have sent, spread over the time until the next one is expected.
//! The sender sees the ACK clock that the link removed, and does not burst.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::hash::Hash;

use ackwise_policy::Segment;

use crate::Nanos;
use crate::packet::Packet;

/// The time between the ACKs of a train.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Spacing {
    /// The train fills the mean time between two real ACKs evenly.
    Even,
    /// Each ACK of the train takes the mean time between two real ACKs, as in ns-2. So a train
    /// lasts longer than the gap that it fills.
    Ns2,
}

/// A reconstructor. The defaults are those of ns-2, for segments of 1460 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReconstructConfig {
    /// An ACK that acknowledges more bytes than this is preceded by a train.
    pub threshold: u32,
    /// Bytes from one ACK of a train to the next.
    pub step: u32,
    /// The time between the ACKs of a train.
    pub spacing: Spacing,
    /// The assumed time between two ACKs until it has been measured, in nanoseconds.
    pub gap: Nanos,
    /// Number of flows that are remembered; ACKs of further flows pass unchanged.
    pub max_flows: u32,
}

impl Default for ReconstructConfig {
    fn default() -> Self {
        Self {
            threshold: 2 * 1460,
            step: 2 * 1460,
            spacing: Spacing::Even,
            gap: 10_000_000,
            max_flows: 16_384,
        }
    }
}

/// What a reconstructor did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReconstructStats {
    /// Number of ACKs generated.
    pub generated: u64,
    /// Real ACKs that waited behind generated ones.
    pub delayed: u64,
    /// The longest such wait, in nanoseconds.
    pub wait_max_ns: Nanos,
}

/// The maximum number of waiting real ACKs of a flow. One more makes all of them leave.
const MAX_TRAINS: usize = 64;
/// The maximum number of ACKs in a train: a larger jump is not a stretch ACK.
const MAX_TRAIN_ACKS: u32 = 256;

/// A real ACK and the ACKs generated before it.
#[derive(Debug)]
struct Train<P> {
    packet: P,
    copies: u32,
    arrived: Nanos,
    /// The number of bytes by which the next ACK acknowledges less than the real one; 0 for the
    /// real one.
    back: u32,
    due: Nanos,
    spacing: Nanos,
}

/// An ACK that leaves the reconstructor.
pub(crate) struct Leaving<P> {
    pub packet: P,
    /// Number of copies that leave.
    pub copies: u32,
    pub due: Nanos,
}

#[derive(Debug)]
struct FlowState<P> {
    /// The acknowledgment number of the newest real ACK.
    ack: u32,
    /// The time at which that ACK arrived.
    arrived: Nanos,
    /// The mean time between two real ACKs that advanced.
    gap: Nanos,
    /// The time at which the last planned ACK leaves.
    last: Nanos,
    /// The minimum time from that ACK to the next one.
    spacing: Nanos,
    trains: VecDeque<Train<P>>,
}

#[derive(Debug)]
pub(crate) struct Reconstructor<P: Packet> {
    config: ReconstructConfig,
    slots: HashMap<P::Flow, u32>,
    flows: Vec<FlowState<P>>,
    /// One entry per flow with trains: the time at which its next ACK is due.
    due: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    order: u64,
    waiting: usize,
    stats: ReconstructStats,
}

fn ahead(a: u32, b: u32) -> u32 {
    let by = a.wrapping_sub(b);
    if by as i32 > 0 { by } else { 0 }
}

impl<P: Packet> Reconstructor<P>
where
    P::Flow: Eq + Hash,
{
    pub fn new(config: ReconstructConfig) -> Self {
        Self {
            config,
            slots: HashMap::new(),
            flows: Vec::new(),
            due: BinaryHeap::new(),
            order: 0,
            waiting: 0,
            stats: ReconstructStats::default(),
        }
    }

    pub fn stats(&self) -> ReconstructStats {
        self.stats
    }

    /// Number of real ACKs that wait.
    pub fn packets(&self) -> usize {
        self.waiting
    }

    /// The time at which [`pop`](Self::pop) next returns an ACK.
    pub fn due(&self) -> Option<Nanos> {
        self.due.peek().map(|Reverse((due, ..))| *due)
    }

    /// Takes a packet that arrived over the link. Returns it if it leaves at once.
    pub fn arrive(&mut self, packet: P, copies: u32, now: Nanos) -> Option<P> {
        if !packet.is_pure_ack() {
            return Some(packet);
        }
        let Some(segment) = packet.segment() else {
            return Some(packet);
        };
        let Some(slot) = self.slot(&packet, &segment, now) else {
            return Some(packet);
        };
        let config = self.config;
        let state = &mut self.flows[slot as usize];
        let stretch = ahead(segment.ack(), state.ack);
        if stretch > 0 {
            // The gain of ns-2's `alpha_`, 1/4, in integers.
            let gap = now.saturating_sub(state.arrived);
            state.gap = state.gap - state.gap / 4 + gap / 4;
            state.arrived = now;
            state.ack = segment.ack();
        }
        let steps = stretch.div_ceil(config.step.max(1));
        let news = segment.sack().next().is_some() || steps > MAX_TRAIN_ACKS;
        let fill = stretch > config.threshold && !news;
        if !fill && state.trains.is_empty() {
            state.last = now;
            state.spacing = 0;
            return Some(packet);
        }
        let spacing = match (fill, config.spacing) {
            (false, _) => 0,
            (true, Spacing::Even) => state.gap / Nanos::from(steps),
            (true, Spacing::Ns2) => state.gap,
        };
        let first = if fill { config.step } else { stretch };
        let due = now.max(state.last.saturating_add(state.spacing));
        let made = Nanos::from(if fill { steps - 1 } else { 0 });
        state.last = due.saturating_add(spacing.saturating_mul(made));
        state.spacing = spacing;
        let was_empty = state.trains.is_empty();
        state.trains.push_back(Train {
            packet,
            copies,
            arrived: now,
            back: stretch.saturating_sub(first),
            due,
            spacing,
        });
        self.waiting += 1;
        if state.trains.len() > MAX_TRAINS {
            Self::release_all(state, now);
        }
        if was_empty {
            self.schedule(slot, due);
        }
        None
    }

    /// Releases all real ACKs, without the generated ones, because too many wait.
    fn release_all(state: &mut FlowState<P>, now: Nanos) {
        for train in &mut state.trains {
            train.back = 0;
            train.due = train.due.min(now);
            train.spacing = 0;
        }
        state.last = now;
        state.spacing = 0;
    }

    fn slot(&mut self, packet: &P, segment: &Segment, now: Nanos) -> Option<u32> {
        let key = packet.flow();
        if let Some(slot) = self.slots.get(&key) {
            return Some(*slot);
        }
        if self.flows.len() >= self.config.max_flows as usize {
            return None;
        }
        let slot = self.flows.len() as u32;
        self.flows.push(FlowState {
            ack: segment.ack(),
            arrived: now,
            gap: self.config.gap,
            last: now,
            spacing: 0,
            trains: VecDeque::new(),
        });
        self.slots.insert(key, slot);
        Some(slot)
    }

    fn schedule(&mut self, slot: u32, due: Nanos) {
        self.order += 1;
        self.due.push(Reverse((due, self.order, slot)));
    }

    /// The next ACK to leave by `now`.
    pub fn pop(&mut self, now: Nanos) -> Option<Leaving<P>> {
        loop {
            let Reverse((due, _, slot)) = *self.due.peek()?;
            if due > now {
                return None;
            }
            self.due.pop();
            let step = self.config.step.max(1);
            let state = &mut self.flows[slot as usize];
            let Some(train) = state.trains.front_mut() else {
                continue;
            };
            let forged = if train.back > 0 {
                train.packet.synthesize(train.back)
            } else {
                None
            };
            if train.back > 0 {
                train.back = train.back.saturating_sub(step);
                train.due = train.due.saturating_add(train.spacing);
                let next = train.due;
                self.schedule(slot, next);
                if let Some(made) = forged {
                    self.stats.generated += 1;
                    return Some(Leaving {
                        packet: made,
                        copies: 1,
                        due,
                    });
                }
                continue;
            }
            let Some(train) = state.trains.pop_front() else {
                continue;
            };
            let next = state.trains.front().map(|train| train.due);
            self.waiting -= 1;
            if let Some(next) = next {
                self.schedule(slot, next);
            }
            let wait = due.saturating_sub(train.arrived);
            if wait > 0 {
                self.stats.delayed += 1;
                self.stats.wait_max_ns = self.stats.wait_max_ns.max(wait);
            }
            return Some(Leaving {
                packet: train.packet,
                copies: train.copies,
                due,
            });
        }
    }
}
