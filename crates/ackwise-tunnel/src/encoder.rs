//! The side that collects ACKs and makes bundles of them.

use std::collections::VecDeque;

use hashbrown::HashTable;

use crate::ack::Ack;
use crate::aligned::{self, varint};
use crate::bundle::{Check, Feedback, Head, MAX_ACKS, RAW, ROOM, VERSIONS, Variant, nearest};
use crate::decoder::Packets;
use crate::delta::{Delta, State};
use crate::entropy::Models;
use crate::key::{Hasher, Key};
use crate::range::{Coder, Writer};

/// The smallest bundle that can be asked for, in bytes.
pub const MIN_BUNDLE: usize = 2 * ROOM;
/// The longest packet that is carried.
pub const LONGEST_CARRIED: usize = MIN_BUNDLE - ROOM;

/// Three bits of the head of a flow: how many numbers before the reference its version is.
pub(crate) mod distance {
    /// It is this bundle: the flow goes on.
    pub const HERE: u8 = 6;
    /// It follows.
    pub const FOLLOWS: u8 = 7;
}
/// In the head of a flow: its first packet stands there whole.
pub(crate) const FULL: u8 = 0x80;
/// Most ACKs under one head, aligned.
pub(crate) const MAX_RUN: usize = 16;

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
    flows: Vec<Flow>,
    max_flows: u16,
    by_key: HashTable<u16>,
    hasher: Hasher,
    /// Where the search for the next flow to give up goes on.
    hand: u16,
    /// Flows that have ACKs waiting.
    waiting: Vec<u16>,
    raw: VecDeque<(Box<[u8]>, u32)>,
    count: usize,
    sent: VecDeque<Sent>,
    /// Models to use again.
    spare: Vec<Box<Models>>,
    acknowledged: Option<u64>,
}

#[derive(Debug)]
struct Flow {
    key: Key,
    waiting: VecDeque<(Ack, u32)>,
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
    models: Option<Box<Models>>,
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
        let flow = Ack::parse(packet).and_then(|ack| Some((ack, self.flow(&ack.key)?)));
        let Some((ack, number)) = flow else {
            return self.push_raw(packet);
        };
        let flow = &mut self.flows[usize::from(number) - 1];
        if flow.waiting.is_empty() {
            self.waiting.push(number);
        }
        flow.touched = true;
        flow.waiting.push_back((ack, Check::of(packet)));
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
                waiting: VecDeque::new(),
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
            reference: reference.map(|(r, _)| number - r),
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
            end: start + max.max(MIN_BUNDLE) - ROOM,
            base: reference.map_or(number, |(r, _)| r),
            number,
        };
        // Those that had no place last time are first.
        self.waiting.sort_unstable();
        let (made, check, flows, models) = match self.variant {
            Variant::Aligned => {
                let (made, check, flows) = self.write_aligned(&room, out);
                (made, check, flows, None)
            }
            Variant::Entropy => {
                let mut models = self.spare.pop().unwrap_or_else(|| Box::new(Models::NEW));
                match reference.and_then(|(_, at)| self.sent[at].models.as_deref()) {
                    Some(learnt) => (*models).clone_from(learnt),
                    None => *models = Models::NEW,
                }
                let (made, check, flows) = self.write_entropy(&room, &mut models, out);
                (made, check, flows, Some(models))
            }
        };
        out[check_at..check_at + 2].copy_from_slice(&check.value().to_be_bytes());
        self.count -= made.packets;
        self.remember(Sent {
            number,
            flows,
            models,
        });
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

    fn remember(&mut self, sent: Sent) {
        if self.sent.len() == VERSIONS {
            let oldest = self.sent.pop_front();
            self.spare.extend(oldest.and_then(|sent| sent.models));
        }
        self.sent.push_back(sent);
    }

    /// The newest bundle that the other side surely has and remembers, and its place.
    fn reference(&self) -> Option<(u64, usize)> {
        let number = self.acknowledged?;
        let at = self.sent.binary_search_by_key(&number, |sent| sent.number);
        at.ok().map(|at| (number, at))
    }

    fn write_aligned(&mut self, room: &Room, out: &mut Vec<u8>) -> (Made, Check, Vec<u16>) {
        let (mut made, mut check, mut flows) = (Made::default(), Check::default(), Vec::new());
        while out.len() <= room.end {
            let Some((packet, crc)) = self.raw.pop_front() else {
                break;
            };
            out.extend([RAW as u8, FULL]);
            varint(out, packet.len() as u64);
            out.extend(&*packet);
            check.add(crc);
            made.packets += 1;
            made.whole += 1;
        }
        let waiting = std::mem::take(&mut self.waiting);
        for &number in &waiting {
            let flow = &mut self.flows[usize::from(number) - 1];
            let mut state = None;
            while !flow.waiting.is_empty() && out.len() <= room.end {
                varint(out, number.into());
                let head_at = out.len();
                out.push(0);
                let mut head = match (&state, flow.base()) {
                    (Some(_), _) => distance::HERE << 4,
                    (None, Some((version, base))) => {
                        state = Some(*base);
                        match room.base - version {
                            near if near < distance::HERE.into() => (near as u8) << 4,
                            far => {
                                varint(out, far);
                                distance::FOLLOWS << 4
                            }
                        }
                    }
                    (None, None) => FULL,
                };
                let mut run = 0;
                // The head has made sure of a first.
                while run < MAX_RUN && (run == 0 || out.len() <= room.end) {
                    let Some((ack, crc)) = flow.waiting.pop_front() else {
                        break;
                    };
                    check.add(crc);
                    match &mut state {
                        Some(state) => {
                            let holds = flow_holds(state, &ack);
                            let delta = Delta::between(state, &ack, holds);
                            aligned::write(out, state, &delta);
                            state.advance(&ack, holds);
                        }
                        None => {
                            let len_at = out.len();
                            out.push(0);
                            // What was parsed can be written.
                            let _ = ack.write(out);
                            out[len_at] = (out.len() - len_at - 1) as u8;
                            state = State::new(ack);
                            made.whole += 1;
                        }
                    }
                    run += 1;
                }
                head |= (run - 1) as u8;
                out[head_at] = head;
                made.packets += run;
            }
            self.keep(number, state, room.number, &mut flows);
        }
        (made, check, flows)
    }

    fn write_entropy(
        &mut self,
        room: &Room,
        models: &mut Models,
        out: &mut Vec<u8>,
    ) -> (Made, Check, Vec<u16>) {
        let (mut made, mut check, mut flows) = (Made::default(), Check::default(), Vec::new());
        let limit = room.end - out.len();
        let mut coder = Writer::new(out);
        while coder.len() <= limit {
            let Some((packet, crc)) = self.raw.pop_front() else {
                break;
            };
            coder.bit(&mut models.another_flow, true);
            models.flow.code(&mut coder, RAW.into());
            coder.bits(16, packet.len() as u32);
            for byte in &packet {
                coder.bits(8, u32::from(*byte));
            }
            check.add(crc);
            made.packets += 1;
            made.whole += 1;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let mut last = 0;
        for &number in &waiting {
            if coder.len() > limit {
                self.waiting.push(number);
                continue;
            }
            let flow = &mut self.flows[usize::from(number) - 1];
            coder.bit(&mut models.another_flow, true);
            models.flow.code(&mut coder, u32::from(number - last));
            last = number;
            let base = flow.base();
            coder.bit(&mut models.full, base.is_none());
            let mut state = base.map(|(version, state)| {
                // Versions are as old as the window at most, if not: two in one.
                let far = (room.base - version).min(u32::MAX.into()) as u32;
                models.distance.code(&mut coder, far);
                *state
            });
            let mut run = 0;
            while let Some((ack, crc)) = flow.waiting.pop_front() {
                check.add(crc);
                match &mut state {
                    Some(state) => {
                        let holds = flow_holds(state, &ack);
                        let mut delta = Delta::between(state, &ack, holds);
                        // Writing leads where the ACK says.
                        let _ = models.code(&mut coder, state, run == 0, &mut delta);
                        state.advance(&ack, holds);
                    }
                    None => {
                        let mut packet = Vec::with_capacity(128);
                        let _ = ack.write(&mut packet);
                        coder.bits(8, packet.len() as u32);
                        for byte in packet {
                            coder.bits(8, byte.into());
                        }
                        state = State::new(ack);
                        made.whole += 1;
                    }
                }
                run += 1;
                let more = !flow.waiting.is_empty() && coder.len() <= limit;
                coder.bit(&mut models.another_ack[run.min(15)], more);
                if !more {
                    break;
                }
            }
            made.packets += run;
            self.keep(number, state, room.number, &mut flows);
        }
        coder.bit(&mut models.another_flow, false);
        coder.finish();
        (made, check, flows)
    }

    /// Notes the state after a bundle, and whether the flow still waits.
    fn keep(&mut self, number: u16, state: Option<State>, bundle: u64, flows: &mut Vec<u16>) {
        let flow = &mut self.flows[usize::from(number) - 1];
        if !flow.waiting.is_empty() {
            self.waiting.push(number);
        }
        let Some(state) = state else { return };
        flow.versions.push_back((bundle, state));
        if flow.versions.len() > VERSIONS {
            flow.versions.pop_front();
            flow.acknowledged = false;
        }
        flows.push(number);
    }
}

/// Where a bundle ends, and from where distances count.
struct Room {
    end: usize,
    base: u64,
    number: u64,
}

impl Flow {
    /// The version that the other side surely has.
    fn base(&self) -> Option<(u64, &State)> {
        let (number, state) = self.versions.front().filter(|_| self.acknowledged)?;
        Some((*number, state))
    }
}

/// What the options of an ACK hold, that of its flow's last one at hand.
fn flow_holds(state: &State, ack: &Ack) -> crate::shape::Holds {
    if ack.shape == state.ack.shape {
        state.holds
    } else {
        // What was parsed is a list of tokens.
        ack.shape.holds().unwrap_or_default()
    }
}
