//! Decodes bundles and restores their packets.

use std::collections::VecDeque;

use crate::ack::Ack;
use crate::aligned::{self, Input};
use crate::bundle::{
    BundleHeader, Check, FULL, Feedback, MAX_ACKS, MAX_RECEIVER_VERSIONS, UNCOMPRESSED, Variant,
    distance,
};
use crate::delta::Delta;
use crate::entropy::Models;
use crate::flow_state::State;
use crate::memory::{self, Versions, bytes_of};
use crate::packets::Packets;
use crate::range::{Coder, Reader};

/// Why a bundle was not decoded. None of its packets was restored, and no state changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A length or a field is wrong.
    #[error("the bundle is malformed: a length or a field is wrong")]
    Malformed,
    /// The bundle refers to one that this end does not have.
    #[error("the bundle refers to one that did not arrive, or was forgotten")]
    Reference,
    /// The restored packets do not match the check.
    #[error("the restored packets are not those that were sent: the ends disagree on a flow")]
    Check,
    /// The bundle was received before.
    #[error("the bundle was received before")]
    Duplicate,
}

/// The content of a bundle that was decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Feedback for the encoder of this end.
    pub feedback: Option<Feedback>,
    /// The number of packets that were restored.
    pub packets: usize,
    /// Whether the peer waits for feedback.
    pub wants_feedback: bool,
}

/// Restores packets from bundles.
#[derive(Debug)]
pub struct Decoder {
    max_flows: u16,
    flows: Vec<KnownFlow>,
    /// The bytes of the states of all flows.
    state_bytes: usize,
    models: VecDeque<(u64, Box<Models>)>,
    spare: Vec<Box<Models>>,
    received: ReceivedBundles,
    /// The new states of the flows in the current bundle.
    staged: Vec<Staged>,
}

/// What is known of a flow.
#[derive(Debug, Default)]
struct KnownFlow {
    /// Its states after the newest bundles that it was in.
    versions: Versions,
    /// The newest bundle whose state the peer referred to. Later bundles refer to no state
    /// before it.
    base: u64,
}

/// The state of a flow after the current bundle.
#[derive(Debug, Clone, Copy)]
struct Staged {
    flow: u16,
    state: State,
    /// The bundle whose state the peer referred to.
    base: Option<u64>,
}

/// The newest bundle numbers that were received.
#[derive(Debug, Clone, Copy, Default)]
struct ReceivedBundles {
    highest: Option<u64>,
    /// Bit *i* stands for number `highest` − 1 − *i*.
    before: u64,
}

impl ReceivedBundles {
    fn has(&self, number: u64) -> bool {
        match self.highest {
            Some(highest) if number < highest => {
                let back = highest - number - 1;
                // A number that is too old to check counts as received.
                back >= 64 || self.before >> back & 1 == 1
            }
            Some(highest) => number == highest,
            None => false,
        }
    }

    fn add(&mut self, number: u64) {
        let Some(highest) = self.highest else {
            self.highest = Some(number);
            return;
        };
        if number > highest {
            let ahead = number - highest;
            let shifted = |bits: u64, by: u64| if by < 64 { bits << by } else { 0 };
            self.before = shifted(self.before, ahead) | shifted(1, ahead - 1);
            self.highest = Some(number);
        } else if let Some(back @ 0..64) = (highest - number).checked_sub(1) {
            self.before |= 1 << back;
        }
    }
}

type Result<T> = std::result::Result<T, DecodeError>;

impl Decoder {
    /// Makes a decoder for this many flows, at least 1: as many as the peer's encoder has.
    pub fn new(max_flows: u16) -> Decoder {
        Decoder {
            max_flows: max_flows.max(1),
            flows: Vec::new(),
            state_bytes: 0,
            models: VecDeque::new(),
            spare: Vec::new(),
            received: ReceivedBundles::default(),
            staged: Vec::new(),
        }
    }

    /// Returns the feedback for the peer's encoder.
    pub fn feedback(&self) -> Option<Feedback> {
        self.received.highest.map(|highest| Feedback {
            highest: highest as u32,
            before: self.received.before as u32,
        })
    }

    /// Appends the packets of a bundle to `out`. The bundle must be authentic.
    ///
    /// # Errors
    /// Returns why the bundle was not decoded. Nothing is appended then.
    pub fn decode(&mut self, number: u64, bundle: &[u8], out: &mut Packets) -> Result<Decoded> {
        let mut input = Input(bundle);
        let head = BundleHeader::read(&mut input).ok_or(DecodeError::Malformed)?;
        let before = out.len();
        if head.body {
            if self.received.has(number) {
                return Err(DecodeError::Duplicate);
            }
            self.staged.clear();
            let models = self.read_body(number, &head, input, out);
            let models = models.inspect_err(|_| out.truncate(before))?;
            self.commit(number, models);
        } else if head.wants_feedback {
            self.received.add(number);
        }
        Ok(Decoded {
            feedback: head.feedback,
            packets: out.len() - before,
            wants_feedback: head.body || head.wants_feedback,
        })
    }

    fn read_body(
        &mut self,
        number: u64,
        head: &BundleHeader,
        mut input: Input,
        out: &mut Packets,
    ) -> Result<Option<Box<Models>>> {
        let check = input.be16().ok_or(DecodeError::Malformed)?;
        let base = number
            .checked_sub(head.reference.unwrap_or(0))
            .ok_or(DecodeError::Malformed)?;
        let mut made = Restored {
            out,
            check: Check::default(),
            left: MAX_ACKS,
        };
        let mut models = None;
        match head.variant {
            Variant::Aligned => self.read_aligned(base, input, &mut made)?,
            Variant::Entropy => {
                let mut learning = self.spare.pop().unwrap_or_else(|| Box::new(Models::NEW));
                if head.reference.is_some() {
                    let at = self.models.binary_search_by_key(&base, |m| m.0);
                    let at = at.map_err(|_| DecodeError::Reference)?;
                    learning.clone_from(&self.models[at].1);
                } else {
                    *learning = Models::NEW;
                }
                self.read_entropy(base, input.0, &mut learning, &mut made)?;
                models = Some(learning);
            }
        }
        if made.check.value() != check {
            return Err(DecodeError::Check);
        }
        Ok(models)
    }

    /// The state of a flow after the bundle `number`, from which the current one continues.
    fn version(&self, flow: u16, number: Option<u64>) -> Result<Staged> {
        let known = self.flows.get(usize::from(flow)).zip(number);
        known
            .and_then(|(known, number)| {
                let versions = &known.versions;
                let at = versions.binary_search_by_key(&number, |v| v.0).ok()?;
                Some(Staged {
                    flow,
                    state: versions[at].1,
                    base: Some(number),
                })
            })
            .ok_or(DecodeError::Reference)
    }

    fn read_aligned(&mut self, base: u64, mut input: Input, made: &mut Restored) -> Result<()> {
        while !input.0.is_empty() {
            let flow = input.varint().ok_or(DecodeError::Malformed)?;
            let flow = self.flow_number(flow)?;
            let head = input.byte().ok_or(DecodeError::Malformed)?;
            let mut run = usize::from(head & 0x0f) + 1;
            let mut staged = if head & FULL != 0 {
                let len = input.varint().and_then(|len| usize::try_from(len).ok());
                let packet = len.and_then(|len| input.take(len));
                let packet = packet.ok_or(DecodeError::Malformed)?;
                run -= 1;
                match made.uncompressed(flow, packet)? {
                    Some(state) => Staged::first(flow, state),
                    None => continue,
                }
            } else {
                match head >> 4 & 7 {
                    distance::HERE => self
                        .staged
                        .pop_if(|staged| staged.flow == flow)
                        .ok_or(DecodeError::Malformed)?,
                    distance::FOLLOWS => {
                        let far = input.varint().ok_or(DecodeError::Malformed)?;
                        self.version(flow, base.checked_sub(far))?
                    }
                    near => self.version(flow, base.checked_sub(near.into()))?,
                }
            };
            for _ in 0..run {
                let state = &mut staged.state;
                let delta = aligned::read(&mut input, state).ok_or(DecodeError::Malformed)?;
                made.step(state, &delta)?;
            }
            self.staged.push(staged);
        }
        Ok(())
    }

    fn read_entropy(
        &mut self,
        base: u64,
        bytes: &[u8],
        models: &mut Models,
        made: &mut Restored,
    ) -> Result<()> {
        let mut coder = Reader::new(bytes);
        let mut last = 0_u16;
        while coder.bit(&mut models.another_flow, false) {
            let gap = models.flow.code(&mut coder, 0);
            if gap == 0 {
                let len = coder.bits(16, 0);
                let packet = read_bytes(&mut coder, len)?;
                made.uncompressed(UNCOMPRESSED, &packet)?;
                continue;
            }
            let flow = self.flow_number(u64::from(last) + u64::from(gap))?;
            last = flow;
            let mut run = 0;
            let mut staged = if coder.bit(&mut models.full, false) {
                let len = coder.bits(8, 0);
                let packet = read_bytes(&mut coder, len)?;
                run = 1;
                let state = made.uncompressed(flow, &packet)?;
                Staged::first(flow, state.ok_or(DecodeError::Malformed)?)
            } else {
                let far = models.distance.code(&mut coder, 0);
                self.version(flow, base.checked_sub(far.into()))?
            };
            while run == 0 || coder.bit(&mut models.another_ack[run.min(15)], false) {
                let mut delta = Delta::NONE;
                models
                    .code(&mut coder, &staged.state, run == 0, &mut delta)
                    .filter(|()| !coder.exhausted())
                    .ok_or(DecodeError::Malformed)?;
                made.step(&mut staged.state, &delta)?;
                run += 1;
            }
            self.staged.push(staged);
        }
        Ok(())
    }

    fn flow_number(&self, number: u64) -> Result<u16> {
        match u16::try_from(number) {
            Ok(number) if number <= self.max_flows => Ok(number),
            _ => Err(DecodeError::Malformed),
        }
    }

    /// Commits the states of the current bundle.
    fn commit(&mut self, number: u64, models: Option<Box<Models>>) {
        for Staged { flow, state, base } in self.staged.drain(..) {
            let flow = usize::from(flow);
            if self.flows.len() <= flow {
                self.flows.resize_with(flow + 1, KnownFlow::default);
            }
            let known = &mut self.flows[flow];
            let before = known.versions.capacity();
            insert(&mut known.versions, number, state);
            let grown = known.versions.capacity() - before;
            self.state_bytes += bytes_of::<(u64, State)>(grown);
            known.base = known.base.max(base.unwrap_or(0));
        }
        if let Some(models) = models {
            self.spare.extend(insert(&mut self.models, number, models));
        }
        self.received.add(number);
    }

    /// Returns the bytes that the states of flows and the models take.
    pub(crate) fn memory(&self) -> usize {
        bytes_of::<KnownFlow>(self.flows.capacity())
            + self.state_bytes
            + memory::models(&self.models, &self.spare)
            + bytes_of::<Staged>(self.staged.capacity())
    }

    /// Forgets states that only a late bundle can refer to.
    pub(crate) fn forget_old_versions(&mut self) {
        for known in &mut self.flows {
            let before = known.versions.capacity();
            let old = known.versions.partition_point(|v| v.0 < known.base);
            known.versions.drain(..old);
            known.versions.shrink_to_fit();
            let freed = before - known.versions.capacity();
            self.state_bytes -= bytes_of::<(u64, State)>(freed);
        }
    }

    /// Forgets the least recently used flows until `over` bytes are free.
    pub(crate) fn forget_flows(&mut self, over: usize) {
        let goal = self.memory().saturating_sub(over);
        let last_use = |known: &KnownFlow| known.versions.back().map(|last| last.0);
        for at in memory::least_recently_used(&self.flows, last_use) {
            if self.memory() <= goal {
                break;
            }
            self.state_bytes -= memory::forget(&mut self.flows[at].versions);
        }
    }

    /// Forgets everything that bundles refer to. Which bundles were received stays known.
    pub(crate) fn forget_all(&mut self) {
        *self = Decoder {
            received: self.received,
            ..Decoder::new(self.max_flows)
        };
    }
}

impl Staged {
    /// The state after the first ACK of a flow, which was not compressed.
    fn first(flow: u16, state: State) -> Staged {
        let base = None;
        Staged { flow, state, base }
    }
}

/// Inserts a version in the order of numbers. Returns the oldest if there are too many.
fn insert<T>(versions: &mut VecDeque<(u64, T)>, number: u64, value: T) -> Option<T> {
    let at = versions.partition_point(|version| version.0 < number);
    versions.insert(at, (number, value));
    if versions.len() <= MAX_RECEIVER_VERSIONS {
        return None;
    }
    versions.pop_front().map(|oldest| oldest.1)
}

fn read_bytes(coder: &mut Reader, len: u32) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for _ in 0..len {
        if coder.exhausted() {
            return Err(DecodeError::Malformed);
        }
        bytes.push(coder.bits(8, 0) as u8);
    }
    Ok(bytes)
}

/// The packets of the current bundle.
struct Restored<'a> {
    out: &'a mut Packets,
    check: Check,
    left: usize,
}

impl Restored<'_> {
    fn count(&mut self) -> Result<()> {
        self.left = self.left.checked_sub(1).ok_or(DecodeError::Malformed)?;
        Ok(())
    }

    /// Restores an uncompressed packet. Returns the state of its flow, if it has one.
    fn uncompressed(&mut self, flow: u16, packet: &[u8]) -> Result<Option<State>> {
        self.count()?;
        let state = match flow {
            UNCOMPRESSED => None,
            _ => Ack::parse(packet).and_then(State::new),
        };
        if flow != UNCOMPRESSED && state.is_none() {
            return Err(DecodeError::Malformed);
        }
        self.out.bytes.extend(packet);
        self.out.end(&mut self.check);
        Ok(state)
    }

    fn step(&mut self, state: &mut State, delta: &Delta) -> Result<()> {
        self.count()?;
        let (ack, fields) = delta.apply(state).ok_or(DecodeError::Malformed)?;
        ack.write(&mut self.out.bytes)
            .ok_or(DecodeError::Malformed)?;
        self.out.end(&mut self.check);
        state.advance(&ack, fields);
        Ok(())
    }
}
