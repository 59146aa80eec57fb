//! ACK filters.
//!
//! Each flow has a list of its ACKs that may still be removed. Under the rule of RFC 3449 that is
//! at most one (or `keep` plus one), so an arrival costs the same however long the queue is. ns-2's
//! rule removes every ACK with a lower number. cake's rule searches the flow's waiting ACKs until
//! it has found two.

use std::collections::VecDeque;
use std::hash::Hash;

use ackwise_policy::{Options, Segment, TcpFlags};

use super::contract::Contract;
use super::flows::Flows;
use super::store::{NONE, Store, Tag};
use crate::Nanos;
use crate::packet::{Ecn, Packet};
use crate::queue::{DropCause, Evicted, QueueStats, Queued};

/// An ACK filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterConfig {
    /// Which ACKs are removed.
    pub rule: FilterRule,
    /// Number of flows that are remembered. If there are more, the one that was quiet for longest
    /// is forgotten; while all of them have packets in the queue, the ACKs of further flows pass
    /// unfiltered.
    pub max_flows: u32,
    /// With [`FilterRule::Rfc3449`]: removes a waiting duplicate with SACK blocks if the next one
    /// reports all that it does, and more. The contract keeps each of them for senders that count
    /// duplicates; a sender with SACK reads the blocks (RFC 6675).
    pub newest_sack: bool,
}

impl FilterConfig {
    /// Default number of flows that a filter remembers.
    pub const MAX_FLOWS: u32 = 16_384;

    /// Creates a filter with this rule and the default number of flows.
    #[must_use]
    pub fn new(rule: FilterRule) -> Self {
        Self {
            rule,
            max_flows: Self::MAX_FLOWS,
            newest_sack: false,
        }
    }
}

/// Which waiting ACKs an arriving ACK removes. All rules compare numbers modulo 2³², within a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterRule {
    /// Those that acknowledge less and that the contract allows to be withheld. Its exemptions
    /// include those of RFC 3449 (`policy/include/ackwise/contract.h`).
    Rfc3449 {
        /// The number of redundant ACKs that stay; the newest do.
        keep: u32,
        /// Where the arriving ACK is put.
        place: Place,
        /// The maximum number of bytes that an ACK may come to cover through removals.
        max_stretch: Option<u32>,
    },
    /// Those with a strictly lower number, whatever else they say, as in ns-2's semantic packet
    /// queue with `filteracks_`.
    Ns2Append,
    /// Those that sch_cake's `ack-filter` (conservative: one redundant ACK always stays) or
    /// `ack-filter-aggressive` removes; at most one at a time.
    Cake {
        /// Also removes the last redundant ACK, if the arriving one is next to it.
        aggressive: bool,
    },
}

/// Where an ACK goes after removing older ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// At the tail, like every packet.
    Append,
    /// In the place of the removed ACK nearest the head, unless it would overtake an ACK of its
    /// flow that had to stay.
    Replace,
}

const ECN_FLAGS: TcpFlags = TcpFlags::ECE.union(TcpFlags::CWR);

/// Whether `a` is after `b`, modulo 2³² (RFC 9293 §3.4).
fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 > 0
}

/// A packet that a filter examines.
#[derive(Debug)]
pub(super) struct Arrival {
    slot: u32,
    segment: Segment,
    pure: bool,
    /// Its receiver evaluates its acknowledgment number.
    counts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Remove it.
    Remove,
    /// Keep it for good: without it an ACK would cover too much.
    Pin,
}

#[derive(Debug)]
pub(super) struct Filter<K> {
    rule: FilterRule,
    flows: Flows<K>,
    contract: Contract,
    newest_sack: bool,
    /// Data wait separately from ACKs, and leave later.
    has_classes: bool,
    /// The changes that the current arrival makes, from the head on.
    plan: Vec<(u32, Change)>,
}

impl<K: Copy + Eq + Hash> Filter<K> {
    /// Creates a filter; `has_classes` says that ACKs leave before data.
    pub fn new(config: FilterConfig, has_classes: bool) -> Self {
        Self {
            has_classes,
            rule: config.rule,
            flows: Flows::new(config.max_flows),
            contract: Contract::new(),
            newest_sack: config.newest_sack,
            plan: Vec::with_capacity(64),
        }
    }

    /// Parses an arrival and finds what it makes redundant. `None` if the filter ignores it.
    pub fn inspect<P: Packet<Flow = K>>(
        &mut self,
        store: &Store<P>,
        packet: &P,
        now: Nanos,
    ) -> Option<Arrival> {
        self.plan.clear();
        let pure = packet.is_pure_ack();
        if !pure && self.rule == FilterRule::Ns2Append {
            return None;
        }
        let segment = packet.segment()?;
        let slot = self.flows.slot(packet.flow())?;
        if segment.flags().contains(TcpFlags::SYN) {
            Contract::on_syn(self.flows.state(slot), &segment, now);
            return None;
        }
        let arrival = Arrival {
            slot,
            segment,
            pure,
            counts: Contract::counts(self.flows.state(slot), &segment),
        };
        match self.rule {
            FilterRule::Rfc3449 {
                keep, max_stretch, ..
            } if pure && arrival.counts => {
                self.plan_redundant(store, &arrival, keep, max_stretch);
                self.plan_release(&arrival);
                self.plan_sack_duplicate(store, &arrival);
            }
            FilterRule::Ns2Append => self.plan_redundant(store, &arrival, 0, None),
            // This data packet, and so its acknowledgment, leaves behind all waiting data.
            FilterRule::Cake { .. } if !pure && self.has_classes => {}
            FilterRule::Cake { aggressive } => self.plan_cake(store, &arrival, aggressive),
            FilterRule::Rfc3449 { .. } => {}
        }
        Some(arrival)
    }

    /// Packets and bytes that the arrival frees. ns-2 checks for room before it filters.
    pub fn freed<P>(&self, store: &Store<P>) -> (usize, u64) {
        if self.rule == FilterRule::Ns2Append {
            return (0, 0);
        }
        self.plan
            .iter()
            .filter(|(_, change)| *change == Change::Remove)
            .fold((0, 0), |(packets, bytes), (id, _)| {
                (packets + 1, bytes + u64::from(store.len(*id)))
            })
    }

    fn plan_redundant<P>(
        &mut self,
        store: &Store<P>,
        arrival: &Arrival,
        keep: u32,
        max_stretch: Option<u32>,
    ) {
        let ack = arrival.segment.ack();
        let state = self.flows.state(arrival.slot);
        let mut id = state.list.head;
        while id != NONE && after(ack, store.tag(id).ack) {
            self.plan.push((id, Change::Remove));
            id = store.after(id);
        }
        let going = self.plan.len().saturating_sub(keep as usize);
        let (Some(most), Some(mut floor)) = (max_stretch, state.floor) else {
            return self.plan.truncate(going);
        };
        for index in 0..going {
            let next = self
                .plan
                .get(index + 1)
                .map_or(ack, |(id, _)| store.tag(*id).ack);
            if next.wrapping_sub(floor) > most {
                floor = store.tag(self.plan[index].0).ack;
                self.plan[index].1 = Change::Pin;
            }
        }
        self.plan.truncate(going);
    }

    /// Keeps the newest removable ACK if the arrival does not say all that it says. Older ones said
    /// no more than it does.
    fn plan_release(&mut self, arrival: &Arrival) {
        let state = self.flows.state(arrival.slot);
        if !Contract::releases(state, &arrival.segment) {
            return;
        }
        let tail = state.list.tail;
        match self.plan.last_mut().filter(|(id, _)| *id == tail) {
            Some(newest) => newest.1 = Change::Pin,
            // It is not redundant yet, and must not become so.
            None if tail != NONE => self.plan.push((tail, Change::Pin)),
            None => {}
        }
    }

    /// Removes a duplicate if the arrival reports its blocks and more.
    fn plan_sack_duplicate<P: Packet>(&mut self, store: &Store<P>, arrival: &Arrival) {
        let id = self.flows.state(arrival.slot).new_sack;
        let newest = &arrival.segment;
        if id == NONE {
            return;
        }
        let old = store
            .packet(id)
            .filter(|packet| packet.ecn() != Ecn::Marked);
        let Some(old) = old.and_then(Packet::segment) else {
            return;
        };
        let same = old.ack() == newest.ack() && old.flags() == newest.flags();
        let older = match (old.timestamps(), newest.timestamps()) {
            (Some((old, _)), Some((new, _))) => !after(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        let plain = cake_may_drop(&old) && !is_dsack_above(&old);
        if plain && same && older && sack_gain(&old, newest) == Some(true) {
            self.plan.push((id, Change::Remove));
        }
    }

    /// The rule of sch_cake's `cake_ack_filter()` in Linux 6.12: an ACK is removed once a second
    /// removable one is found behind it, with ECE and CWR equal from one to the other.
    fn plan_cake<P: Packet>(&mut self, store: &Store<P>, arrival: &Arrival, aggressive: bool) {
        let newest = &arrival.segment;
        if !newest.flags().contains(TcpFlags::ACK) {
            return;
        }
        let ecn = (newest.flags() & ECN_FLAGS).bits();
        let list = self.flows.state(arrival.slot).list;
        let mut found = None;
        let mut id = list.head;
        while id != NONE {
            let tag = store.tag(id);
            if found.is_some_and(|(_, flags)| flags != tag.ecn_flags) {
                found = None;
            }
            if tag.droppable && !after(tag.ack, newest.ack()) && covers(store, newest, id) {
                if let Some((first, _)) = found {
                    return self.plan.push((first, Change::Remove));
                }
                found = Some((id, tag.ecn_flags));
            }
            id = store.after(id);
        }
        if let Some((only, _)) =
            found.filter(|(only, flags)| aggressive && *only == list.tail && *flags == ecn)
        {
            self.plan.push((only, Change::Remove));
        }
    }

    /// Removes what goes, and enqueues the arrival.
    pub fn admit<P: Packet<Flow = K>>(
        &mut self,
        store: &mut Store<P>,
        queued: Queued<P>,
        lane: u32,
        arrival: &Arrival,
        evicted: &mut VecDeque<Evicted<P>>,
        stats: &mut QueueStats,
    ) {
        let now = queued.arrived_ns;
        let slot = arrival.slot;
        let mut tag = Tag {
            flow: slot,
            ack: arrival.segment.ack(),
            ..Tag::NONE
        };
        let listed = match self.rule {
            FilterRule::Rfc3449 { .. } => {
                let replaces = self.flows.state(slot).new_sack;
                let replaces = self.plan.iter().any(|(id, _)| *id == replaces);
                // The arrival now has to say what the removed one said.
                let is_removable = self.judge(store, arrival, now, stats) && !replaces;
                if !arrival.pure || !arrival.counts {
                    tag.flow = NONE;
                }
                tag.held = is_removable;
                is_removable && arrival.pure
            }
            FilterRule::Ns2Append => true,
            FilterRule::Cake { .. } => {
                tag.ecn_flags = (arrival.segment.flags() & ECN_FLAGS).bits();
                tag.droppable = cake_may_drop(&arrival.segment);
                true
            }
        };
        let place = self.place(store, arrival);
        let taken = self.apply_plan(store, slot, place, evicted, stats);
        let state = self.flows.state(slot);
        let id = match taken {
            Some(id) => {
                state.queued -= 1;
                if let Some(gone) = store.swap(id, queued, tag) {
                    discard(gone, evicted, stats);
                }
                id
            }
            None => store.push(lane, queued, tag),
        };
        if tag.flow != NONE {
            state.queued += 1;
        }
        match self.rule {
            // The ACKs left in the list acknowledge no less than this one.
            FilterRule::Ns2Append => store.list_front(&mut state.list, id),
            _ if listed => store.list_back(&mut state.list, id),
            _ => {
                if arrival.counts && arrival.segment.flags().contains(TcpFlags::ACK) {
                    state.raise_floor(tag.ack);
                }
                if arrival.segment.payload() == 0 {
                    state.fence = state.fence.max(store.order(id));
                }
                let has_sack = arrival.pure && arrival.segment.sack().next().is_some();
                if self.newest_sack && arrival.counts && has_sack {
                    state.new_sack = id;
                }
            }
        }
    }

    fn judge<P>(
        &mut self,
        store: &mut Store<P>,
        arrival: &Arrival,
        now: Nanos,
        stats: &mut QueueStats,
    ) -> bool {
        let state = self.flows.state(arrival.slot);
        let judgement = self.contract.judge(state, &arrival.segment, now);
        if let Some(count) = judgement
            .reason
            .and_then(|reason| stats.reasons.get_mut(reason.id() as usize))
        {
            *count += 1;
        }
        let original = state.list.tail;
        if judgement.twice && original != NONE && store.tag(original).ack == arrival.segment.ack() {
            store.unlist(&mut state.list, original);
            state.fence = state.fence.max(store.order(original));
            state.raise_floor(arrival.segment.ack());
        }
        judgement.is_removable
    }

    /// The packet whose place the arrival takes.
    fn place<P>(&mut self, store: &Store<P>, arrival: &Arrival) -> Option<u32> {
        let FilterRule::Rfc3449 {
            place: Place::Replace,
            keep: 0,
            ..
        } = self.rule
        else {
            return None;
        };
        // URG refers to data, so it must not leave before them.
        if arrival.segment.flags().contains(TcpFlags::URG) {
            return None;
        }
        let fence = self.flows.state(arrival.slot).fence;
        // Nothing overtakes a pinned ACK.
        let pinned = self
            .plan
            .iter()
            .rposition(|(_, change)| *change == Change::Pin);
        self.plan[pinned.map_or(0, |last| last + 1)..]
            .iter()
            .map(|(id, _)| *id)
            .find(|id| store.order(*id) > fence)
    }

    /// Carries out the plan, except for the packet whose place is taken.
    fn apply_plan<P>(
        &mut self,
        store: &mut Store<P>,
        slot: u32,
        place: Option<u32>,
        evicted: &mut VecDeque<Evicted<P>>,
        stats: &mut QueueStats,
    ) -> Option<u32> {
        let state = self.flows.state(slot);
        for &(id, change) in &self.plan {
            store.unlist(&mut state.list, id);
            if change == Change::Pin {
                state.fence = state.fence.max(store.order(id));
                state.raise_floor(store.tag(id).ack);
            } else if Some(id) != place {
                state.queued -= 1;
                if state.new_sack == id {
                    state.new_sack = NONE;
                }
                if let Some(gone) = store.remove(id) {
                    discard(gone, evicted, stats);
                }
            }
        }
        self.plan.clear();
        place
    }

    /// Notes that a packet is about to be removed from the queue without being sent.
    pub fn on_remove<P>(&mut self, store: &mut Store<P>, id: u32) {
        let tag = store.tag(id);
        if tag.flow == NONE {
            return;
        }
        let state = self.flows.state(tag.flow);
        state.queued -= 1;
        store.unlist(&mut state.list, id);
        if state.new_sack == id {
            state.new_sack = NONE;
        }
    }

    /// Notes that a packet is about to leave the queue.
    pub fn on_dequeue<P: Packet<Flow = K>>(&mut self, store: &mut Store<P>, id: u32, now: Nanos) {
        self.on_remove(store, id);
        let tag = store.tag(id);
        if tag.flow == NONE {
            return;
        }
        let state = self.flows.state(tag.flow);
        state.raise_floor(tag.ack);
        state.waited = now.saturating_sub(store.arrived(id).unwrap_or(now));
        let held = store.packet(id).filter(|_| tag.held);
        if let Some(segment) = held.and_then(Packet::segment) {
            self.contract.on_sent(state, &segment, now);
        }
    }
}

fn discard<P>(gone: Queued<P>, evicted: &mut VecDeque<Evicted<P>>, stats: &mut QueueStats) {
    stats.filtered += 1;
    stats.filtered_bytes += u64::from(gone.len);
    evicted.push_back(Evicted {
        queued: gone,
        cause: DropCause::Filtered,
    });
}

/// Whether cake may remove it, as far as the packet itself tells. Options that cake knows and the
/// parser here does not (MD5) keep it.
fn cake_may_drop(segment: &Segment) -> bool {
    let known = Options::SACK | Options::TS;
    segment.payload() == 0
        && segment.flags() - ECN_FLAGS == TcpFlags::ACK
        && known.contains(segment.options())
}

/// Whether it is a DSACK of data above the acknowledgment: its first block lies within its second
/// (RFC 2883 §4).
fn is_dsack_above(segment: &Segment) -> bool {
    let mut blocks = segment.sack();
    match (blocks.next(), blocks.next()) {
        (Some((left, right)), Some((l, r))) => !after(l, left) && !after(right, r),
        _ => false,
    }
}

/// Whether `newest` says all that the packet at `id` says, by cake's rule.
fn covers<P: Packet>(store: &Store<P>, newest: &Segment, id: u32) -> bool {
    let Some(old) = store.packet(id).and_then(Packet::segment) else {
        return false;
    };
    if let Some((tsval, tsecr)) = old.timestamps() {
        let (newest_val, newest_ecr) = newest.timestamps().unwrap_or((0, 0));
        if after(tsval, newest_val) || after(tsecr, newest_ecr) {
            return false;
        }
    }
    match sack_gain(&old, newest) {
        None => false,
        Some(gain) => gain || old.ack() != newest.ack(),
    }
}

/// Whether `newest` reports more than `old`. `None` if it lacks something, or if `old` has a DSACK.
fn sack_gain(old: &Segment, newest: &Segment) -> Option<bool> {
    let bytes = |segment: &Segment| -> u64 {
        segment
            .sack()
            .map(|(left, right)| u64::from(right.wrapping_sub(left)))
            .sum()
    };
    for (left, right) in old.sack() {
        let dsack = after(old.ack(), left);
        let covered = newest
            .sack()
            .any(|(l, r)| !after(l, left) && !after(right, r));
        if dsack || !covered {
            return None;
        }
    }
    Some(bytes(newest) > bytes(old))
}
