//! Collects ACKs and packs them into bundles.

mod bundle_writer;

use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::ack::Ack;
use crate::bundle::{
    BundleHeader, Check, Feedback, MAX_ACKS, MAX_VERSIONS, Variant, expand_number,
};
use crate::entropy::Models;
use crate::flow_key::{FlowKey, Hasher};
use crate::flow_state::State;
use crate::memory::{self, Versions, bytes_of};
use crate::packets::Packets;

use bundle_writer::{BundleLimits, Written};

/// The smallest limit for the size of a bundle, in bytes.
pub const MIN_BUNDLE: usize = 768;
/// The longest packet that is carried uncompressed, in bytes.
pub const MAX_UNCOMPRESSED: usize = 384;
/// The number of bundles whose flows are remembered until feedback arrives. It exceeds the
/// bundles in flight even if every ACK is uncompressed; otherwise feedback for tunnels with
/// many flows would always come too late.
const MAX_SENT: usize = 512;

/// What the encoder did with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// The packet is an ACK and will be compressed.
    Compressed,
    /// The packet will be carried uncompressed.
    Uncompressed,
    /// The packet was rejected: it is too long, or too many packets wait.
    Refused,
}

/// The content of a bundle that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bundled {
    /// The packets in the bundle.
    pub packets: usize,
    /// The number of them that are uncompressed.
    pub uncompressed: usize,
    /// The packets that did not fit and wait for the next bundle.
    pub left: usize,
}

/// Compresses packets against bundles that the peer has acknowledged.
#[derive(Debug)]
pub struct Encoder {
    variant: Variant,
    /// Flow number *n* is at index *n* − 1.
    pub(crate) flows: Vec<Flow>,
    max_flows: u16,
    by_key: HashTable<u16>,
    hasher: Hasher,
    /// The hand of the clock algorithm that finds a flow to evict.
    hand: u16,
    /// The flows with waiting ACKs.
    pub(crate) waiting: Vec<u16>,
    pub(crate) raw: VecDeque<(Box<[u8]>, u32)>,
    count: usize,
    /// The bytes of the states and of the waiting ACKs of all flows.
    flow_bytes: usize,
    sent: VecDeque<Sent>,
    /// The bytes of the lists of flows in `sent`.
    sent_bytes: usize,
    /// Whether a packet has increased the memory in use.
    grown: bool,
    /// The models after each of the last bundles, by the number of the bundle.
    models: VecDeque<(u64, Box<Models>)>,
    /// Allocations of models for reuse.
    spare: Vec<Box<Models>>,
    acknowledged: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Flow {
    key: FlowKey,
    /// The waiting ACKs, each with its hash for the check.
    pub waiting: Vec<(Ack, u32)>,
    /// The states after the bundles of these numbers. If `acknowledged`, the peer has the first,
    /// and none before it is kept.
    versions: Versions,
    acknowledged: bool,
    referenced: bool,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    flows: Vec<u16>,
}

impl Encoder {
    /// Makes an encoder that keeps the state of this many flows, at least 1.
    pub fn new(variant: Variant, max_flows: u16) -> Encoder {
        Encoder {
            variant,
            flows: Vec::new(),
            max_flows: max_flows.max(1),
            by_key: HashTable::new(),
            hasher: Hasher::new(),
            hand: 0,
            waiting: Vec::new(),
            raw: VecDeque::new(),
            count: 0,
            flow_bytes: 0,
            sent: VecDeque::new(),
            sent_bytes: 0,
            grown: false,
            models: VecDeque::new(),
            spare: Vec::new(),
            acknowledged: None,
        }
    }

    /// Returns the number of waiting packets.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes a packet that begins with its IP header. ACKs are compressed; other packets are
    /// carried uncompressed if they are short.
    pub fn push(&mut self, packet: &[u8]) -> Pushed {
        if self.count >= MAX_ACKS {
            return Pushed::Refused;
        }
        let Some(ack) = Ack::parse(packet) else {
            return self.push_raw(packet);
        };
        let Some(number) = self.flow(&ack.key) else {
            return self.push_raw(packet);
        };
        let flow = &mut self.flows[usize::from(number) - 1];
        if flow.waiting.is_empty() {
            self.waiting.push(number);
        }
        flow.referenced = true;
        let before = flow.waiting.capacity();
        flow.waiting.push((ack, Check::of(packet)));
        let grown = bytes_of::<(Ack, u32)>(flow.waiting.capacity() - before);
        self.flow_bytes += grown;
        self.grown |= grown > 0;
        self.count += 1;
        Pushed::Compressed
    }

    fn push_raw(&mut self, packet: &[u8]) -> Pushed {
        // A longer packet may not fit the smallest bundle.
        if packet.len() > MAX_UNCOMPRESSED {
            return Pushed::Refused;
        }
        self.raw.push_back((packet.into(), Check::of(packet)));
        self.grown = true;
        self.count += 1;
        Pushed::Uncompressed
    }

    /// Returns the number of a flow. A new flow replaces one that has not been used for long.
    /// Returns `None` if every flow has waiting ACKs.
    fn flow(&mut self, key: &FlowKey) -> Option<u16> {
        let (hash, flows) = (self.hasher.of(key), &self.flows);
        let same = |number: &u16| flows[usize::from(*number) - 1].key == *key;
        if let Some(number) = self.by_key.find(hash, same) {
            return Some(*number);
        }
        let number = if self.flows.len() < usize::from(self.max_flows) {
            self.flows.push(Flow {
                key: *key,
                waiting: Vec::new(),
                versions: VecDeque::new(),
                acknowledged: false,
                referenced: false,
            });
            self.flows.len() as u16
        } else {
            let number = self.evict()?;
            let before = self.hasher.of(&self.flows[usize::from(number) - 1].key);
            if let Ok(entry) = self.by_key.find_entry(before, |n| *n == number) {
                entry.remove();
            }
            number
        };
        let flow = &mut self.flows[usize::from(number) - 1];
        flow.key = *key;
        flow.versions.clear();
        flow.acknowledged = false;
        let (flows, hasher) = (&self.flows, &self.hasher);
        let again = |number: &u16| hasher.of(&flows[usize::from(*number) - 1].key);
        self.by_key.insert_unique(hash, number, again);
        Some(number)
    }

    /// Finds a flow to evict by the clock algorithm: the first one that was not used since
    /// the hand last passed it.
    fn evict(&mut self) -> Option<u16> {
        for _ in 0..2 * self.flows.len() {
            self.hand = self.hand % self.max_flows + 1;
            let flow = &mut self.flows[usize::from(self.hand) - 1];
            if flow.waiting.is_empty() && !std::mem::take(&mut flow.referenced) {
                return Some(self.hand);
            }
        }
        None
    }

    /// Notes that the peer has these bundles.
    pub fn acknowledge(&mut self, feedback: &Feedback) {
        let Some(newest) = self.sent.back().map(|sent| sent.number) else {
            return;
        };
        let Some(highest) = expand_number(feedback.highest, newest) else {
            return;
        };
        self.acknowledge_one(highest);
        for i in 0..32 {
            if feedback.before >> i & 1 == 1
                && let Some(number) = highest.checked_sub(i + 1)
            {
                self.acknowledge_one(number);
            }
        }
    }

    fn acknowledge_one(&mut self, number: u64) {
        let Ok(at) = self.sent.binary_search_by_key(&number, |sent| sent.number) else {
            return;
        };
        let flows = std::mem::take(&mut self.sent[at].flows);
        self.sent_bytes -= bytes_of::<u16>(flows.capacity());
        for flow in flows {
            let flow = &mut self.flows[usize::from(flow) - 1];
            if let Ok(at) = flow.versions.binary_search_by_key(&number, |v| v.0) {
                flow.versions.drain(..at);
                flow.acknowledged = true;
            }
        }
        if self.acknowledged.is_none_or(|newest| newest < number) {
            self.acknowledged = Some(number);
        }
    }

    /// Appends a bundle of waiting packets to `out`. It has at most `max` bytes, and `max` counts
    /// as at least [`MIN_BUNDLE`]. The numbers of bundles must increase.
    ///
    /// # Panics
    /// Panics if a number does not increase.
    pub fn finish(
        &mut self,
        number: u64,
        feedback: Option<Feedback>,
        max: usize,
        out: &mut Vec<u8>,
    ) -> Bundled {
        let newest = self.sent.back().map(|sent| sent.number);
        assert!(newest.is_none_or(|newest| newest < number), "numbers grow");
        let start = out.len();
        let reference = self.reference();
        BundleHeader {
            variant: self.variant,
            reference: reference.map(|r| number - r),
            feedback,
            body: self.count > 0,
            wants_feedback: false,
        }
        .write(out);
        if self.count == 0 {
            return Bundled::default();
        }
        let check_at = out.len();
        out.extend([0, 0]);
        let limits = BundleLimits {
            end: start + max.max(MIN_BUNDLE),
            base: reference.unwrap_or(number),
            number,
        };
        self.waiting.sort_unstable();
        let Written {
            bundled,
            check,
            flows,
        } = match self.variant {
            Variant::Aligned => self.write_aligned(&limits, out),
            Variant::Entropy => {
                let mut models = self.spare.pop().unwrap_or_else(|| Box::new(Models::NEW));
                match reference.and_then(|reference| self.models_after(reference)) {
                    Some(learnt) => (*models).clone_from(learnt),
                    None => *models = Models::NEW,
                }
                let written = self.write_entropy(&limits, &mut models, out);
                if self.models.len() == MAX_VERSIONS {
                    let oldest = self.models.pop_front();
                    self.spare.extend(oldest.map(|oldest| oldest.1));
                }
                self.models.push_back((number, models));
                written
            }
        };
        out[check_at..check_at + 2].copy_from_slice(&check.value().to_be_bytes());
        self.count -= bundled.packets;
        if self.sent.len() == MAX_SENT {
            let oldest = self.sent.pop_front();
            self.sent_bytes -= oldest.map_or(0, |sent| bytes_of::<u16>(sent.flows.capacity()));
        }
        self.sent_bytes += bytes_of::<u16>(flows.capacity());
        self.sent.push_back(Sent { number, flows });
        Bundled {
            left: self.count,
            ..bundled
        }
    }

    /// Returns the waiting packets unchanged.
    pub fn take_back(&mut self, out: &mut Packets) {
        for (packet, _) in self.raw.drain(..) {
            out.push(&packet);
        }
        for number in std::mem::take(&mut self.waiting) {
            let flow = &mut self.flows[usize::from(number) - 1];
            for (ack, _) in flow.waiting.drain(..) {
                out.push_ack(&ack);
            }
        }
        self.count = 0;
    }

    /// Returns the newest bundle that the peer has acknowledged and that can be referred to.
    fn reference(&self) -> Option<u64> {
        let number = self.acknowledged?;
        let known = match self.variant {
            Variant::Aligned => true,
            Variant::Entropy => self.models_after(number).is_some(),
        };
        known.then_some(number)
    }

    fn models_after(&self, number: u64) -> Option<&Models> {
        let at = self.models.binary_search_by_key(&number, |models| models.0);
        at.ok().map(|at| &*self.models[at].1)
    }

    /// Remembers the state of a flow after a bundle.
    pub(crate) fn keep(&mut self, number: u16, state: State, bundle: u64) {
        let flow = &mut self.flows[usize::from(number) - 1];
        let before = flow.versions.capacity();
        flow.versions.push_back((bundle, state));
        self.flow_bytes += bytes_of::<(u64, State)>(flow.versions.capacity() - before);
        if flow.versions.len() > MAX_VERSIONS {
            flow.versions.pop_front();
            flow.acknowledged = false;
        }
    }

    /// Returns whether packets have increased the memory in use since the last call.
    pub(crate) fn has_grown(&mut self) -> bool {
        std::mem::take(&mut self.grown)
    }

    /// Returns the bytes that flows, waiting packets, the models and the memory of sent
    /// bundles take.
    pub(crate) fn memory(&self) -> usize {
        bytes_of::<Flow>(self.flows.capacity())
            + self.by_key.allocation_size()
            + self.flow_bytes
            + bytes_of::<u16>(self.waiting.capacity())
            + bytes_of::<(Box<[u8]>, u32)>(self.raw.capacity())
            + self.raw.len() * MAX_UNCOMPRESSED
            + bytes_of::<Sent>(self.sent.capacity())
            + self.sent_bytes
            + memory::models(&self.models, &self.spare)
    }

    /// Forgets the least recently used flows until `over` bytes are free. Their next ACKs are
    /// uncompressed. A flow with waiting ACKs is kept.
    pub(crate) fn forget_flows(&mut self, over: usize) {
        let goal = self.memory().saturating_sub(over);
        let last_use = |flow: &Flow| {
            let number = flow.versions.back().map(|last| last.0);
            let used = number.is_some() || flow.waiting.capacity() > 0;
            (used && flow.waiting.is_empty()).then(|| number.unwrap_or(0))
        };
        for at in memory::least_recently_used(&self.flows, last_use) {
            if self.memory() <= goal {
                break;
            }
            let flow = &mut self.flows[at];
            let waiting = std::mem::take(&mut flow.waiting);
            self.flow_bytes -= memory::forget(&mut flow.versions);
            self.flow_bytes -= bytes_of::<(Ack, u32)>(waiting.capacity());
            flow.acknowledged = false;
        }
    }

    /// Forgets everything but the waiting packets.
    pub(crate) fn forget_all(&mut self) {
        let mut waiting = Packets::default();
        self.take_back(&mut waiting);
        *self = Encoder::new(self.variant, self.max_flows);
        for packet in waiting.iter() {
            self.push(packet);
        }
    }
}

impl Flow {
    /// Returns the newest state that the peer has acknowledged, with the number of its bundle.
    pub fn base(&self) -> Option<(u64, &State)> {
        let (number, state) = self.versions.front().filter(|_| self.acknowledged)?;
        Some((*number, state))
    }
}
