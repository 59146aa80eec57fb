//! The side that collects ACKs and makes bundles of them.

use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::ack::Ack;
use crate::bundle::{Check, Feedback, Head, MAX_ACKS, VERSIONS, Variant, nearest};
use crate::decoder::Packets;
use crate::delta::State;
use crate::entropy::Models;
use crate::key::{Hasher, Key};
use crate::write::Room;

/// The smallest bundle that can be asked for, in bytes.
pub const MIN_BUNDLE: usize = 768;
/// The longest packet that is carried.
pub const LONGEST_CARRIED: usize = 384;
/// Bundles of which it is known which flows are in them: more than may be under way when
/// every ACK stands there whole, or those of many flows would never be known.
const SENT: usize = 512;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// It will be compressed.
    Flow,
    /// It will be carried as it is.
    Raw,
    /// It does not fit: too long, or there are too many already. It was not taken.
    Refused,
}

/// A bundle that was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Made {
    /// Packets in it.
    pub packets: usize,
    /// Of these, those that stand there whole.
    pub whole: usize,
    /// Packets that had no place: for the next.
    pub left: usize,
}

/// Compresses against what the other side acknowledged.
#[derive(Debug)]
pub struct Encoder {
    variant: Variant,
    /// Number 0 is not used.
    pub(crate) flows: Vec<Flow>,
    max_flows: u16,
    by_key: HashTable<u16>,
    hasher: Hasher,
    /// Where the search for the next flow to give up goes on.
    hand: u16,
    /// Flows that have ACKs waiting.
    pub(crate) waiting: Vec<u16>,
    pub(crate) raw: VecDeque<(Box<[u8]>, u32)>,
    count: usize,
    sent: VecDeque<Sent>,
    /// After the last bundles, by number.
    models: VecDeque<(u64, Box<Models>)>,
    /// Models to use again.
    spare: Vec<Box<Models>>,
    acknowledged: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Flow {
    key: Key,
    /// With what each adds to the check.
    pub waiting: Vec<(Ack, u32)>,
    /// After the bundles of these numbers. The first may be acknowledged; none before it
    /// is kept then.
    versions: VecDeque<(u64, State)>,
    acknowledged: bool,
    touched: bool,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    flows: Vec<u16>,
}

impl Encoder {
    /// For so many flows at a time, at least 1.
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
            sent: VecDeque::new(),
            models: VecDeque::new(),
            spare: Vec::new(),
            acknowledged: None,
        }
    }

    /// Packets that wait.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes a packet, from its IP header on. ACKs are compressed, whatever else fits is
    /// carried as it is.
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
        flow.touched = true;
        flow.waiting.push((ack, Check::of(packet)));
        self.count += 1;
        Pushed::Flow
    }

    fn push_raw(&mut self, packet: &[u8]) -> Pushed {
        // What does not fit the smallest bundle might fit none.
        if packet.len() > LONGEST_CARRIED {
            return Pushed::Refused;
        }
        self.raw.push_back((packet.into(), Check::of(packet)));
        self.count += 1;
        Pushed::Raw
    }

    /// The number of a flow; a new one takes the place of one that was not used for
    /// long. `None` if ACKs of every flow wait.
    fn flow(&mut self, key: &Key) -> Option<u16> {
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
                touched: false,
            });
            self.flows.len() as u16
        } else {
            let number = self.give_up()?;
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

    /// Second chance: the first flow at the hand that was not used since it last came by.
    fn give_up(&mut self) -> Option<u16> {
        for _ in 0..2 * self.flows.len() {
            self.hand = self.hand % self.max_flows + 1;
            let flow = &mut self.flows[usize::from(self.hand) - 1];
            if flow.waiting.is_empty() && !std::mem::take(&mut flow.touched) {
                return Some(self.hand);
            }
        }
        None
    }

    /// The other side has these bundles.
    pub fn acknowledge(&mut self, feedback: &Feedback) {
        let Some(newest) = self.sent.back().map(|sent| sent.number) else {
            return;
        };
        let Some(highest) = nearest(feedback.highest, newest) else {
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
        for flow in std::mem::take(&mut self.sent[at].flows) {
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

    /// Makes a bundle of what waits and fits `max` bytes, at least [`MIN_BUNDLE`], at the
    /// end of `out`. Numbers must grow from bundle to bundle.
    ///
    /// # Panics
    /// If a number does not grow.
    pub fn finish(
        &mut self,
        number: u64,
        feedback: Option<Feedback>,
        max: usize,
        out: &mut Vec<u8>,
    ) -> Made {
        let newest = self.sent.back().map(|sent| sent.number);
        assert!(newest.is_none_or(|newest| newest < number), "numbers grow");
        let start = out.len();
        let reference = self.reference();
        Head {
            variant: self.variant,
            reference: reference.map(|r| number - r),
            feedback,
            body: self.count > 0,
            asks: false,
        }
        .write(out);
        if self.count == 0 {
            return Made::default();
        }
        let check_at = out.len();
        out.extend([0, 0]);
        let room = Room {
            end: start + max.max(MIN_BUNDLE),
            base: reference.unwrap_or(number),
            number,
        };
        self.waiting.sort_unstable();
        let (made, check, flows) = match self.variant {
            Variant::Aligned => self.write_aligned(&room, out),
            Variant::Entropy => {
                let mut models = self.spare.pop().unwrap_or_else(|| Box::new(Models::NEW));
                match reference.and_then(|reference| self.models_after(reference)) {
                    Some(learnt) => (*models).clone_from(learnt),
                    None => *models = Models::NEW,
                }
                let written = self.write_entropy(&room, &mut models, out);
                if self.models.len() == VERSIONS {
                    let oldest = self.models.pop_front();
                    self.spare.extend(oldest.map(|oldest| oldest.1));
                }
                self.models.push_back((number, models));
                written
            }
        };
        out[check_at..check_at + 2].copy_from_slice(&check.value().to_be_bytes());
        self.count -= made.packets;
        if self.sent.len() == SENT {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { number, flows });
        Made {
            left: self.count,
            ..made
        }
    }

    /// Gives back what waits, as it was.
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

    /// The newest bundle that the other side surely has; with models, if it remembers them.
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

    /// Notes the state of a flow after a bundle.
    pub(crate) fn keep(&mut self, number: u16, state: State, bundle: u64) {
        let flow = &mut self.flows[usize::from(number) - 1];
        flow.versions.push_back((bundle, state));
        if flow.versions.len() > VERSIONS {
            flow.versions.pop_front();
            flow.acknowledged = false;
        }
    }
}

impl Flow {
    /// The version that the other side surely has.
    pub fn base(&self) -> Option<(u64, &State)> {
        let (number, state) = self.versions.front().filter(|_| self.acknowledged)?;
        Some((*number, state))
    }
}
