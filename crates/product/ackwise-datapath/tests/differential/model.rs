//! The datapath as its comments describe it: one thread, ordinary collections, and the policies and
//! the contract compiled for this machine. The programs must do the same.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ackwise_datapath::{Tag, sys};
use ackwise_headers::checksum;
use ackwise_policy::{Flow, FlowConfig, Handshake, LinkKind, ParseError, Segment, Verdict, parse};

pub const TCX_NEXT: u32 = u32::MAX; // TCX_NEXT
pub const DROPPED: u32 = 2; // TC_ACT_SHOT
pub const TC_ACT_REDIRECT: u32 = 7; // TC_ACT_REDIRECT

/// Bits of `aw_handshake.flags` that the echo of `acc` uses besides those of the policy.
pub const WITHOUT_ECN: u16 = 1 << 8;
pub const WITH_ECN: u16 = 1 << 9;

const SYN: u16 = sys::AW_TCP_SYN as u16;
const ACK: u16 = sys::AW_TCP_ACK as u16;
const FIN: u16 = sys::AW_TCP_FIN as u16;
const RST: u16 = sys::AW_TCP_RST as u16;
const ECE: u16 = sys::AW_TCP_ECE as u16;
const ECN: u16 = ECE | sys::AW_TCP_CWR as u16 | sys::AW_TCP_AE as u16;

const RETRY_NS: u64 = 20_000_000;
const RETRIES: u32 = 6;
/// The FIFO of ACKs that must come back; those of the classes follow.
const RETRY: usize = sys::AW_RETRY_CLASS as usize;
const BATCH: usize = 256;

/// The two ends of a connection and the VLANs of its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    acks: [u32; 4],
    data: [u32; 4],
    acks_port: u16,
    data_port: u16,
    vlans: u32,
}

impl Key {
    fn of(segment: &Segment, packet: &Packet<'_>, acks: bool) -> Key {
        let s = segment.raw();
        let near = (s.src.w, s.sport);
        let far = (s.dst.w, s.dport);
        let (a, d) = if acks { (near, far) } else { (far, near) };
        let tags = (usize::from(s.l3_off) / 4).saturating_sub(3);
        let inside = (0..tags).map(|nth| {
            let at = 14 + 4 * nth;
            u16::from_be_bytes([packet.frame[at], packet.frame[at + 1]])
        });
        let outermost = packet.tag.map(|tag| tag.tci);
        let vlans = outermost.into_iter().chain(inside).fold(0, |vlans, tci| {
            let vid = u32::from(tci & 0xfff);
            if vid == 0 { vlans } else { vlans << 12 | vid }
        });
        Key {
            acks: a.0,
            data: d.0,
            acks_port: a.1,
            data_port: d.1,
            vlans,
        }
    }

    pub fn raw(&self) -> sys::aw_key {
        sys::aw_key {
            acks: sys::aw_addr { w: self.acks },
            data: sys::aw_addr { w: self.data },
            acks_port: self.acks_port,
            data_port: self.data_port,
            vlans: self.vlans,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Held,
    Superseded,
    Emitted,
    Stale,
}

/// A packet that passes.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    pub frame: &'a [u8],
    /// A tag beside the frame.
    pub tag: Option<Tag>,
    pub gso_size: u32,
    pub mark: u32,
}

/// Why an ACK cannot be held.
enum Refused {
    /// A slot does not support its form, or a newer one is held.
    Frame,
    /// The permitted wait is below the minimum hold.
    TooShort,
}

/// Whether a held ACK leaves although the flow counts its number as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Not,
    /// Unless one with a higher number has left.
    BesideEqual,
    Always,
}

#[derive(Debug, Clone)]
struct Slot {
    key: Key,
    /// The hold that has the slot now.
    hold: u64,
    state: State,
    segment: Segment,
    /// When this hold started.
    since: u64,
    deadline: u64,
    mark: u32,
    tries: u32,
    owed: Owed,
    tag: Option<Tag>,
    link: Vec<u8>,
    packet: Vec<u8>,
}

pub struct HeldAck {
    pub flow: Flow,
    /// When tracking started.
    first: u64,
    /// The counters, without the times.
    pub count: sys::aw_flow_counters,
    echo: u16,
    /// The slot, and the hold that it was taken for.
    handle: Option<(u64, u64)>,
}

/// What a program did with a frame.
#[derive(Debug)]
pub struct Done {
    pub verdict: u32,
    pub mark: u32,
    /// The parsed segment, if it was TCP.
    pub segment: Result<Segment, ParseError>,
    /// The flow that it belongs to, tracked or not.
    pub key: Option<Key>,
    /// Kind, reason, `hold_us` and flags, if there was a decision.
    pub decision: Option<[u32; 4]>,
    /// The frame afterwards.
    pub frame: Vec<u8>,
    /// What is sent in addition. At a receiver the hook writes the held ACK into such a clone; in a
    /// test run there is no hook.
    pub clones: Vec<Vec<u8>>,
}

/// An ACK that is handed to user space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emission {
    /// A tag beside the frame.
    pub tag: Option<Tag>,
    pub link: Vec<u8>,
    pub packet: Vec<u8>,
    pub deadline: u64,
    pub tries: u32,
    /// The slot in this model.
    pub slot: u64,
}

/// The constant setup of a model.
pub struct Setup {
    pub config: FlowConfig,
    pub classes: Vec<u32>,
    pub link: LinkKind,
    pub at_sender: bool,
    pub is_acc: bool,
    pub clone_fails: bool,
}

pub struct Model {
    setup: Setup,
    pub now: u64,
    pub flows: HashMap<Key, HeldAck>,
    handshakes: HashMap<Key, (Handshake, u16)>,
    slots: BTreeMap<u64, Slot>,
    /// Deadline, slot and hold in FIFOs: first the FIFO of ACKs that must come back, then those of
    /// the classes.
    queues: Vec<VecDeque<(u64, u64, u64)>>,
    next: u64,
    /// The model's slots by their number in the kernel, once they were handed to user space.
    handed_out: HashMap<u32, u64>,
    /// The counters, without those that measure times.
    pub counters: sys::aw_counters,
}

impl Model {
    pub fn new(setup: Setup) -> Model {
        let queues = vec![VecDeque::new(); setup.classes.len() + 1];
        Model {
            setup,
            now: 0,
            flows: HashMap::new(),
            handshakes: HashMap::new(),
            slots: BTreeMap::new(),
            queues,
            next: 1,
            handed_out: HashMap::new(),
            counters: sys::aw_counters::default(),
        }
    }

    /// Returns whether nothing is withheld or in flight.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn forget(&mut self) {
        self.flows.clear();
        self.slots.clear();
        self.handshakes.clear();
        self.handed_out.clear();
        self.counters = sys::aw_counters::default();
        self.queues.iter_mut().for_each(VecDeque::clear);
    }

    fn us(&self) -> u64 {
        self.now / 1000
    }

    fn withheld(&self) -> u32 {
        if self.setup.at_sender {
            DROPPED
        } else {
            TC_ACT_REDIRECT
        }
    }

    fn read(&mut self, frame: &[u8]) -> Result<Segment, ParseError> {
        self.counters.packets += 1;
        self.counters.bytes += frame.len() as u64;
        let read = parse(frame, self.setup.link);
        match read {
            Ok(_) => {}
            Err(ParseError::NotTcp) => self.counters.not_tcp += 1,
            Err(ParseError::Fragment) => self.counters.fragments += 1,
            Err(_) => self.counters.unparsable += 1,
        }
        read
    }

    /// Processes a SYN, or a later segment of a flow that is not tracked.
    fn handshake(&mut self, key: Key, s: &Segment, acks: bool) {
        let flags = s.raw().flags;
        let now = self.us();
        if flags & (SYN | ACK) == SYN {
            self.flows.remove(&key);
        }
        if flags & SYN != 0 {
            self.handshakes.entry(key).or_default();
        }
        if let Some((handshake, echo)) = self.handshakes.get_mut(&key) {
            if flags & (SYN | ACK) == SYN {
                *echo = 0;
            }
            handshake.on_segment(s, acks, now);
            if flags & (SYN | ACK) == SYN | ACK {
                let with = if flags & ECN == 0 {
                    WITHOUT_ECN
                } else {
                    WITH_ECN
                };
                *echo |= with;
            }
        }
    }

    /// Returns whether the echo of `acc` is active for a flow.
    fn echoes(&self, key: &Key) -> bool {
        self.setup.is_acc
            && !self.setup.at_sender
            && self.flows.get(key).is_some_and(|f| f.echo == WITHOUT_ECN)
    }

    fn process(&mut self, packet: &Packet<'_>, acks: bool) -> Done {
        let segment = self.read(packet.frame);
        Done {
            verdict: TCX_NEXT,
            mark: packet.mark,
            segment,
            key: segment.ok().map(|s| Key::of(&s, packet, acks)),
            decision: None,
            frame: packet.frame.to_vec(),
            clones: Vec::new(),
        }
    }

    pub fn on_data(&mut self, packet: &Packet<'_>) -> Done {
        let mut done = self.process(packet, false);
        let (segment, key) = (done.segment, done.key);
        let (Ok(mut s), Some(key)) = (segment, key) else {
            return done;
        };
        if s.raw().flags & SYN != 0 || !self.flows.contains_key(&key) {
            self.counters.syns += u64::from(s.raw().flags & SYN != 0);
            self.handshake(key, &s, false);
            return done;
        }
        let segments = match packet.gso_size {
            0 => 1,
            size => s.payload().wrapping_add(size - 1) / size,
        };
        self.counters.data_segments += u64::from(segments);
        self.counters.data_bytes += u64::from(s.payload());
        if self.setup.is_acc && s.raw().flags & ECE != 0 {
            if self.echoes(&key) {
                // The echo was meant for the datapath, not for the stack.
                clear_ece(&mut done.frame, s.raw().l4_off.into());
            } else {
                let mut raw = *s.raw();
                raw.flags &= !ECE;
                s = Segment::from_raw(raw);
            }
        }
        let now = self.us();
        let kept = self.flows.get_mut(&key).expect("it is kept");
        kept.flow.on_data(&self.setup.config, &s, segments, now);
        kept.count.data_segments += u64::from(segments);
        kept.count.data_bytes += u64::from(s.payload());
        done
    }

    pub fn on_ack(&mut self, packet: &Packet<'_>) -> Done {
        let mut done = self.process(packet, true);
        let (segment, key, mark) = (done.segment, done.key, packet.mark);
        let len = packet.frame.len() as u64;
        let (Ok(s), Some(key)) = (segment, key) else {
            self.counters.other_bytes += len;
            return done;
        };
        if mark & !sys::AW_COOKIE_SLOT == sys::AW_COOKIE_MAGIC
            && self.on_return(mark & sys::AW_COOKIE_SLOT, key, &s, &mut done)
        {
            return done;
        }
        if s.raw().flags & SYN != 0 {
            self.counters.syns += 1;
            self.counters.other_bytes += len;
            self.handshake(key, &s, true);
            return done;
        }
        if !self.flows.contains_key(&key) && !self.first(key, &s) {
            self.counters.other_bytes += len;
            return done;
        }
        if self.release(key, &s, packet.gso_size > 0, &mut done) {
            return done;
        }
        self.decide(key, &s, packet, &mut done);
        done
    }

    /// Processes a segment of a flow that is not tracked. Returns whether it is now.
    fn first(&mut self, key: Key, s: &Segment) -> bool {
        if s.payload() > 0 || s.raw().flags & (ACK | FIN | RST) != ACK {
            self.counters.no_flow += 1;
            self.handshake(key, s, true);
            return false;
        }
        let now = self.us();
        let handshake = self.handshakes.get_mut(&key);
        let (handshake, echo) = match handshake {
            Some((handshake, echo)) => {
                handshake.on_segment(s, true, now);
                (Some(*handshake), *echo)
            }
            None => (None, 0),
        };
        let kept = HeldAck {
            flow: Flow::new(handshake.as_ref(), now),
            first: self.now,
            count: sys::aw_flow_counters::default(),
            echo,
            handle: None,
        };
        self.flows.insert(key, kept);
        self.counters.flows_created += 1;
        true
    }

    fn slot_of(&mut self, key: &Key) -> Option<&mut Slot> {
        let (slot, hold) = self.flows.get(key)?.handle?;
        let slot = self.slots.get_mut(&slot)?;
        (slot.hold == hold && slot.key == *key).then_some(slot)
    }

    /// A held ACK leaves before one that does not say as much. Returns whether the packet in hand
    /// needs no more processing: it has become the held one, or is neither.
    fn release(&mut self, key: Key, s: &Segment, is_merged: bool, done: &mut Done) -> bool {
        if !self.flows[&key].flow.releases(s) {
            return false;
        }
        let (at_sender, clone_fails) = (self.setup.at_sender, self.setup.clone_fails);
        let withheld = self.withheld();
        let now = self.us();
        let Some(slot) = self.slot_of(&key) else {
            return false;
        };
        // A clone would arrive after the data that follow.
        if at_sender && s.payload() > 0 {
            slot.owed = Owed::Always;
            return false;
        }
        // The checksum is left to the device, which does not work if TCP's header is elsewhere.
        let is_plain = match slot.packet[0] >> 4 {
            4 => slot.packet[0] & 15 == 5,
            _ => slot.packet[6] == 6,
        };
        // At egress the program at the interface writes it.
        let not_written = at_sender && is_merged && !is_plain;
        let left = match slot.state {
            State::Held => State::Superseded,
            // User space also sends it; that copy is then dropped.
            State::Emitted => State::Stale,
            State::Superseded | State::Stale => return false,
        };
        if clone_fails || not_written {
            slot.owed = Owed::Always;
            let held = slot.segment;
            let kept = self.flows.get_mut(&key).expect("it is kept");
            kept.flow.on_sent(&self.setup.config, &held, now);
            if clone_fails {
                return false;
            }
            // The packet in hand cannot be restored, and its clone passes instead.
            done.clones.push(done.frame.clone());
            done.verdict = withheld;
            return true;
        }
        slot.state = left;
        let (held, mark, packet) = (slot.segment, slot.mark, slot.packet.clone());
        self.left(key, &held, true);
        done.clones.push(done.frame.clone());
        if self.setup.at_sender {
            done.mark = mark;
            done.frame.truncate(s.raw().l3_off.into());
            done.frame.extend(packet);
        }
        self.setup.at_sender
    }

    /// A held ACK leaves after all. Its flow may not be told, since its entry may have been
    /// evicted.
    fn left(&mut self, key: Key, held: &Segment, is_told: bool) {
        let now = self.us();
        self.counters.reemitted += 1;
        self.counters.reemitted_bytes += u64::from(held.ip_len());
        let kept = self.flows.get_mut(&key).filter(|_| is_told);
        if let Some(kept) = kept {
            kept.flow.on_sent(&self.setup.config, held, now);
            kept.count.reemitted += 1;
            kept.count.reemitted_bytes += u64::from(held.ip_len());
        }
    }

    fn decide(&mut self, key: Key, s: &Segment, packet: &Packet<'_>, done: &mut Done) {
        let now = self.us();
        let bytes = u64::from(s.ip_len());
        self.counters.ack_bytes += bytes;
        if s.payload() > 0 {
            self.counters.payload_segments += 1;
            self.counters.payload_bytes += bytes;
            self.counters.other_bytes += packet.frame.len() as u64;
        }
        let kept = self.flows.get_mut(&key).expect("it is kept");
        let decision = kept.flow.on_ack(&self.setup.config, s, now);
        kept.count.acks += 1;
        let (kind, hold_us) = match decision.verdict {
            Verdict::Send => (sys::AW_SEND, 0),
            Verdict::Hold { us } => (sys::AW_HOLD, us),
            Verdict::Drop => (sys::AW_DROP, kept.flow.hold_us(&self.setup.config)),
        };
        let mut reason = decision.reason.id();
        let mut flags = (u32::from(decision.supersedes) * sys::AW_DEC_SUPERSEDES)
            | (u32::from(decision.twice) * sys::AW_DEC_TWICE);
        if kind != sys::AW_SEND {
            match self.hold(key, s, packet, hold_us) {
                Ok(replaced) => {
                    let kept = self.flows.get_mut(&key).expect("it is kept");
                    kept.count.withheld += 1;
                    kept.count.withheld_bytes += bytes;
                    self.counters.withheld_bytes += bytes;
                    self.counters.replaced += u64::from(replaced);
                    done.verdict = self.withheld();
                }
                Err(why) => {
                    match why {
                        Refused::Frame => self.counters.open_frame += 1,
                        Refused::TooShort => self.counters.open_too_short += 1,
                    }
                    let kept = self.flows.get_mut(&key).expect("it is kept");
                    kept.flow.on_sent(&self.setup.config, s, now);
                    self.supersede(key, s.ack());
                    reason = sys::AW_R_NO_HOLD;
                    flags = 0;
                }
            }
        }
        self.counters.reason[reason as usize] += 1;
        done.decision = Some([kind, reason, hold_us, flags]);
        if done.verdict == TCX_NEXT {
            self.mark_capable(&key, s, &mut done.frame);
        }
        if flags & sys::AW_DEC_TWICE != 0 {
            if !self.setup.clone_fails {
                done.clones.push(done.frame.clone());
            }
            self.twice(key, s.ack());
        } else if flags & sys::AW_DEC_SUPERSEDES != 0 {
            self.supersede(key, s.ack());
        }
    }

    /// A pure ACK of a flow whose marks `acc` echoes leaves with ECT(0).
    fn mark_capable(&self, key: &Key, s: &Segment, frame: &mut [u8]) {
        let s = s.raw();
        let plain = s.flags & !(sys::AW_TCP_PSH as u16) == ACK;
        if self.echoes(key) && s.payload == 0 && s.ip_ecn == 0 && plain {
            set_ect0(frame, s.l3_off.into(), s.ip_version);
        }
    }

    fn twice(&mut self, key: Key, ack: u32) {
        if !self.setup.clone_fails {
            self.counters.cloned += 1;
            self.supersede(key, ack);
        } else if let Some(slot) = self.slot_of(&key)
            && slot.segment.ack() == ack
        {
            slot.owed = Owed::BesideEqual;
        }
    }

    /// Withholds an ACK. Returns whether it replaced a held one; an error says why it passes.
    fn hold(
        &mut self,
        key: Key,
        s: &Segment,
        packet: &Packet<'_>,
        hold_us: u32,
    ) -> Result<bool, Refused> {
        let frame = packet.frame;
        let start = usize::from(s.raw().l3_off);
        let end = start + s.ip_len() as usize;
        // An ACK with two tags inside and another beside it would come back with three inside.
        let fits = s.ip_len() <= sys::AW_FRAME_L3
            && s.ip_len().is_multiple_of(4)
            && (start < 22 || packet.tag.is_none());
        let copied = |slot: &mut Slot| {
            slot.link = frame[..start].to_vec();
            slot.packet = frame[start..end].to_vec();
            (slot.segment, slot.mark, slot.tag) = (*s, packet.mark, packet.tag);
        };
        // It has unsent SACK blocks, although its number may have been sent.
        let flags = u32::from(self.flows[&key].flow.raw().acks.sack_flags);
        let unsent = match flags & sys::AW_SACK_UNSENT_MASK {
            0 => Owed::Not,
            _ => Owed::BesideEqual,
        };
        if let Some(slot) = self.slot_of(&key).filter(|slot| slot.state == State::Held) {
            if after(slot.segment.ack(), s.ack()) || slot.owed == Owed::Always {
                return Err(Refused::Frame);
            }
            if !fits {
                slot.state = State::Superseded;
                return Err(Refused::Frame);
            }
            copied(slot);
            slot.owed = unsent;
            return Ok(true);
        }
        let Some(class) = self.setup.classes.iter().rposition(|us| *us <= hold_us) else {
            return Err(Refused::TooShort);
        };
        // A hot flow keeps its slot, and the slot's old contents are dropped.
        let reused = self
            .slot_of(&key)
            .filter(|slot| slot.state == State::Superseded);
        let reuses = reused.is_some();
        let handle = self.flows[&key].handle;
        if let Some((slot, _)) = handle.filter(|_| reuses) {
            self.slots.remove(&slot);
        }
        if !fits {
            return Err(Refused::Frame);
        }
        let deadline = self.now + u64::from(self.setup.classes[class]) * 1000;
        let number = self.next;
        self.next += 1;
        let mut slot = Slot {
            key,
            hold: number,
            state: State::Held,
            segment: *s,
            since: self.now,
            deadline,
            mark: packet.mark,
            tries: 0,
            owed: unsent,
            tag: None,
            link: Vec::new(),
            packet: Vec::new(),
        };
        copied(&mut slot);
        self.slots.insert(number, slot);
        self.queues[1 + class].push_back((deadline, number, number));
        self.flows.get_mut(&key).expect("it is kept").handle = Some((number, number));
        Ok(false)
    }

    fn supersede(&mut self, key: Key, ack: u32) {
        let Some(slot) = self.slot_of(&key) else {
            return;
        };
        if after(slot.segment.ack(), ack) || slot.owed == Owed::Always {
            return;
        }
        slot.state = match slot.state {
            State::Held => State::Superseded,
            State::Emitted => State::Stale,
            State::Superseded | State::Stale => return,
        };
        self.counters.superseded += 1;
    }

    /// The timer fires: what is due is handed to user space.
    pub fn tick(&mut self) -> Vec<Emission> {
        self.counters.ticks += 1;
        let mut emissions = Vec::new();
        for class in 0..self.queues.len() {
            for _ in 0..BATCH {
                let Some(&(due, number, hold)) = self.queues[class].front() else {
                    break;
                };
                if due > self.now {
                    break;
                }
                self.queues[class].pop_front();
                let Some(slot) = self.slots.get_mut(&number).filter(|s| s.hold == hold) else {
                    continue;
                };
                if slot.state == State::Superseded || slot.tries >= RETRIES {
                    let lost = slot.state == State::Emitted;
                    self.free(number);
                    self.counters.lost += u64::from(lost);
                    continue;
                }
                if slot.state == State::Held {
                    slot.state = State::Emitted;
                }
                let again = slot.tries > 0;
                slot.tries += 1;
                emissions.push(Emission {
                    tag: slot.tag,
                    link: slot.link.clone(),
                    packet: slot.packet.clone(),
                    deadline: slot.deadline,
                    tries: slot.tries,
                    slot: number,
                });
                self.counters.retried += u64::from(again);
                self.queues[RETRY].push_back((self.now + RETRY_NS, number, hold));
            }
        }
        emissions
    }

    /// Records the number of a slot in the kernel.
    pub fn hand_out(&mut self, kernel: u32, slot: u64) {
        self.handed_out.insert(kernel, slot);
    }

    fn free(&mut self, slot: u64) {
        self.slots.remove(&slot);
        self.handed_out.retain(|_, s| *s != slot);
    }

    /// Processes a frame with a cookie. Returns whether it needs no more processing.
    fn on_return(&mut self, kernel: u32, key: Key, s: &Segment, done: &mut Done) -> bool {
        let Some(&number) = self.handed_out.get(&kernel) else {
            return false;
        };
        let Some(slot) = self.slots.get(&number).cloned() else {
            return false;
        };
        if !matches!(slot.state, State::Emitted | State::Stale)
            || slot.segment.ack() != s.ack()
            || slot.key != key
        {
            return false;
        }
        self.free(number);
        // Not that of a newer connection with the same ports.
        let kept = self.flows.get(&key).filter(|it| it.first <= slot.since);
        let is_told = kept.is_some();
        let has_left = kept.is_some_and(|kept| {
            let sent = kept.flow.raw().acks.sent_ack;
            match slot.owed {
                Owed::Always => false,
                Owed::BesideEqual => after(sent, s.ack()),
                Owed::Not => !after(s.ack(), sent),
            }
        });
        if slot.state == State::Stale || has_left {
            self.counters.reemit_stale += 1;
            done.verdict = self.withheld();
            return true;
        }
        self.left(key, s, is_told);
        done.mark = slot.mark;
        if is_told {
            self.mark_capable(&key, s, &mut done.frame);
        }
        true
    }
}

/// Changes two bytes, and the checksum as the kernel does (RFC 1624).
fn replace(frame: &mut [u8], at: usize, new: [u8; 2], checksum: usize) {
    let word = |frame: &[u8], at: usize| [frame[at], frame[at + 1]];
    let sum = checksum::update(word(frame, checksum), word(frame, at), new);
    frame[checksum..checksum + 2].copy_from_slice(&sum);
    frame[at..at + 2].copy_from_slice(&new);
}

fn set_ect0(frame: &mut [u8], ip: usize, version: u8) {
    match version {
        4 => replace(frame, ip, [frame[ip], frame[ip + 1] & !3 | 2], ip + 10),
        _ => frame[ip + 1] = frame[ip + 1] & !0x30 | 0x20,
    }
}

fn clear_ece(frame: &mut [u8], tcp: usize) {
    let flags = [frame[tcp + 12], frame[tcp + 13] & !(ECE as u8)];
    replace(frame, tcp + 12, flags, tcp + 16);
}

fn after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
