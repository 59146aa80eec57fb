//! A filter's memory of flows, with a bound.

use std::collections::HashMap;
use std::hash::Hash;

use ackwise_policy::{Flow, Handshake};

use super::store::{List, NONE};

/// How many of the longest-quiet flows are tried to find one that can be forgotten.
const MAX_EVICTION_TRIES: usize = 8;

#[derive(Debug)]
pub(super) struct FlowState<K> {
    key: K,
    /// Links to the flows seen more recently, and less recently.
    newer: u32,
    older: u32,
    /// Number of its packets that wait with its slot in their tag.
    pub queued: u32,
    /// The waiting packets that a filter searches.
    pub list: List,
    /// The number that is acknowledged by what left or is certain to leave.
    pub floor: Option<u32>,
    /// The order of the newest ACK that had to stay: nothing may overtake it.
    pub fence: u64,
    /// The last waiting ACK that had to stay because its SACK blocks were new; else [`NONE`].
    pub new_sack: u32,
    /// The wait of the last of its ACKs that left, ns. It lengthens the round trip that the sender
    /// measures.
    pub waited: u64,
    pub handshake: Option<Handshake>,
    pub contract: Option<Flow>,
}

/// Flows by key; the longest-quiet one is forgotten first.
#[derive(Debug)]
pub(super) struct Flows<K> {
    slots: HashMap<K, u32>,
    states: Vec<FlowState<K>>,
    max_flows: usize,
    newest: u32,
    oldest: u32,
}

impl<K: Copy + Eq + Hash> Flows<K> {
    pub fn new(max_flows: u32) -> Self {
        Self {
            slots: HashMap::new(),
            states: Vec::new(),
            max_flows: max_flows.max(1) as usize,
            newest: NONE,
            oldest: NONE,
        }
    }

    pub fn state(&mut self, slot: u32) -> &mut FlowState<K> {
        &mut self.states[slot as usize]
    }

    /// The slot of a flow, or a new one. `None` if there is none left: the flow then passes
    /// unfiltered.
    pub fn slot(&mut self, key: K) -> Option<u32> {
        if let Some(&slot) = self.slots.get(&key) {
            self.touch(slot);
            return Some(slot);
        }
        let slot = if self.states.len() < self.max_flows {
            self.states.push(FlowState::new(key));
            (self.states.len() - 1) as u32
        } else {
            let slot = self.evictable()?;
            self.unlink(slot);
            let before = self.states[slot as usize].key;
            self.slots.remove(&before);
            self.states[slot as usize] = FlowState::new(key);
            slot
        };
        self.slots.insert(key, slot);
        self.link(slot);
        Some(slot)
    }

    fn evictable(&self) -> Option<u32> {
        let mut slot = self.oldest;
        for _ in 0..MAX_EVICTION_TRIES {
            let state = self.states.get(slot as usize)?;
            if state.queued == 0 {
                return Some(slot);
            }
            slot = state.newer;
        }
        None
    }

    fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
    }

    fn link(&mut self, slot: u32) {
        let before = self.newest;
        let state = self.state(slot);
        state.newer = NONE;
        state.older = before;
        if before == NONE {
            self.oldest = slot;
        } else {
            self.state(before).newer = slot;
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let state = self.state(slot);
        let (newer, older) = (state.newer, state.older);
        if newer == NONE {
            self.newest = older;
        } else {
            self.state(newer).older = older;
        }
        if older == NONE {
            self.oldest = newer;
        } else {
            self.state(older).newer = newer;
        }
    }
}

impl<K> FlowState<K> {
    /// Notes that everything up to `ack` is certain to be acknowledged.
    pub fn raise_floor(&mut self, ack: u32) {
        let higher = |floor: u32| ack.wrapping_sub(floor) as i32 > 0;
        if self.floor.is_none_or(higher) {
            self.floor = Some(ack);
        }
    }

    fn new(key: K) -> Self {
        Self {
            key,
            newer: NONE,
            older: NONE,
            queued: 0,
            list: List::EMPTY,
            floor: None,
            fence: 0,
            new_sack: NONE,
            waited: 0,
            handshake: None,
            contract: None,
        }
    }
}
