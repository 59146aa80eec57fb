//! What an ACK changes in the state of its flow.
//!
//! [`Delta::between`] and [`Delta::apply`] are inverses; how a delta is written down is
//! the business of [`crate::aligned`] and [`crate::entropy`].

use crate::ack::{Ack, Values};
use crate::sack::{self, Op};
use crate::shape::{Holds, KNOWN, Shape};

/// Distances that may be the payload of a segment, or of a few.
const UNIT: std::ops::RangeInclusive<u32> = 256..=65_535;

/// What both sides know of a flow after one of its ACKs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub ack: Ack,
    pub holds: Holds,
    /// What acknowledgments move by, in bytes; 0 until known. A payload of a segment.
    pub unit: u32,
    /// The last distance that was no multiple of the unit.
    candidate: u32,
    /// What the IPv4 identification moves by.
    id_step: u16,
    /// The last move in units, to 3: a context of the entropy coder.
    pub pace: u8,
    /// Whether the window moved: the same.
    pub restless: bool,
}

impl State {
    /// Of a flow of which one ACK was seen; `None` if its options are no options.
    pub fn new(ack: Ack) -> Option<State> {
        Some(State {
            holds: ack.shape.holds()?,
            ack,
            unit: 0,
            candidate: 0,
            id_step: 1,
            pace: 0,
            restless: false,
        })
    }

    /// Goes on to the next ACK; both sides call it with the same.
    pub fn advance(&mut self, next: &Ack, holds: Holds) {
        let moved = next.ack.wrapping_sub(self.ack.ack);
        let (unit, mut step) = (self.unit, Step::forward(moved, self.unit));
        if let Step::Bytes(_) = step {
            self.learn(moved);
        }
        if let ([last, ..], [block, ..]) = (self.ack.values.blocks(), next.values.blocks())
            && last.0 == block.0
        {
            self.learn(block.1.wrapping_sub(last.1));
        }
        // Divisions are dear: only where there is another divisor.
        if self.unit != unit {
            step = Step::forward(moved, self.unit);
        }
        if let Step::Units(units) = step {
            self.pace = units.min(3) as u8;
        }
        let step = next.ip_id.wrapping_sub(self.ack.ip_id);
        // By one, never, or by one in the other byte order.
        if matches!(step, 0 | 1 | 256) {
            self.id_step = step;
        }
        self.restless = next.window != self.ack.window;
        self.holds = holds;
        self.ack = *next;
    }

    /// Takes a distance for the unit if it and another one agree.
    fn learn(&mut self, moved: u32) {
        if UNIT.contains(&moved) && !divides(self.unit, moved) {
            let candidate = self.candidate;
            if divides(candidate, moved) || divides(moved, candidate) {
                self.unit = candidate.min(moved);
            }
            self.candidate = moved;
        }
    }
}

/// Whether `number` is a multiple of `unit`.
fn divides(unit: u32, number: u32) -> bool {
    unit != 0 && number.is_multiple_of(unit)
}

/// A move forward of a sequence number, modulo 2³².
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// So many times the flow's unit.
    Units(u32),
    /// So many bytes.
    Bytes(u32),
}

impl Step {
    pub fn forward(moved: u32, unit: u32) -> Step {
        match moved.checked_rem(unit) {
            _ if moved == 0 => Step::Units(0),
            Some(0) => Step::Units(moved / unit),
            _ => Step::Bytes(moved),
        }
    }

    pub fn bytes(self, unit: u32) -> u32 {
        match self {
            Step::Units(units) => units.wrapping_mul(unit),
            Step::Bytes(bytes) => bytes,
        }
    }
}

/// What seldom changes: bits of [`Delta::rare`].
pub(crate) mod rare {
    /// The identification did not take its usual step.
    pub const ID: u8 = 1;
    /// The arrangement of options.
    pub const SHAPE: u8 = 2;
    /// The sequence number.
    pub const SEQ: u8 = 4;
    /// The TCP checksum is wrong.
    pub const WRONG: u8 = 8;
    /// The flags of TCP.
    pub const FLAGS: u8 = 16;
    /// Counters of Accurate ECN.
    pub const ECN: u8 = 32;
    /// Anything else in the IP header, or the urgent pointer.
    pub const REST: u8 = 64;
    /// How many bits there are.
    pub const BITS: u32 = 7;
}

/// The fields that next to never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rest {
    pub tos: u8,
    pub ttl: u8,
    pub frag: u16,
    pub label: u32,
    pub urgent: u16,
}

/// A change of arrangement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NewShape {
    /// One of [`KNOWN`].
    Known(u8),
    /// Another.
    Other(Shape),
}

/// What an ACK changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delta {
    pub ack: Step,
    /// Forward, modulo 2³²; 0 where there are no timestamps.
    pub tsval: u32,
    pub tsecr: u32,
    /// Modulo 2¹⁶.
    pub window: i16,
    /// Which of the following there are.
    pub rare: u8,
    /// Beside the usual step.
    pub id: i16,
    pub shape: NewShape,
    pub seq: u32,
    pub wrong: u16,
    pub flags: u16,
    /// Forward, modulo 2²⁴.
    pub ecn: [u32; 3],
    pub rest: Rest,
    /// Blocks of the SACK option, where there is one.
    pub blocks: u8,
    pub sack: [Op; 4],
}

impl Delta {
    /// Nothing changes but the identification, by its step.
    pub const NONE: Delta = Delta {
        ack: Step::Units(0),
        tsval: 0,
        tsecr: 0,
        window: 0,
        rare: 0,
        id: 0,
        shape: NewShape::Known(0),
        seq: 0,
        wrong: 0,
        flags: 0,
        ecn: [0; 3],
        rest: Rest {
            tos: 0,
            ttl: 0,
            frag: 0,
            label: 0,
            urgent: 0,
        },
        blocks: 0,
        sack: [Op::NONE; 4],
    };

    /// What leads from a state to the next ACK of the flow, which has such options.
    pub fn between(from: &State, to: &Ack, holds: Holds) -> Delta {
        let last = &from.ack;
        let mut delta = Delta {
            ack: Step::forward(to.ack.wrapping_sub(last.ack), from.unit),
            window: to.window.wrapping_sub(last.window) as i16,
            ..Delta::NONE
        };
        if holds.ts {
            delta.tsval = to.values.tsval.wrapping_sub(last.values.tsval);
            delta.tsecr = to.values.tsecr.wrapping_sub(last.values.tsecr);
        }
        if holds.sack {
            delta.blocks = to.values.blocks;
            delta.sack = sack::between(from, to);
        }
        let expected_id = last.ip_id.wrapping_add(from.id_step);
        if to.ip_id != expected_id && !to.key.v6 {
            delta.rare |= rare::ID;
            delta.id = to.ip_id.wrapping_sub(expected_id) as i16;
        }
        if to.shape != last.shape {
            delta.rare |= rare::SHAPE;
            let known = KNOWN.iter().position(|shape| *shape == to.shape);
            delta.shape = match known {
                Some(number) => NewShape::Known(number as u8),
                None => NewShape::Other(to.shape),
            };
        }
        if to.seq != last.seq {
            delta.rare |= rare::SEQ;
            delta.seq = to.seq.wrapping_sub(last.seq);
        }
        if let Some(wrong) = to.wrong {
            delta.rare |= rare::WRONG;
            delta.wrong = wrong;
        }
        if to.flags != last.flags {
            delta.rare |= rare::FLAGS;
            delta.flags = to.flags;
        }
        if to.values.ecn != last.values.ecn && holds.ecn > 0 {
            delta.rare |= rare::ECN;
            let counters = usize::from(holds.ecn);
            for (i, step) in delta.ecn.iter_mut().enumerate().take(counters) {
                *step = to.values.ecn[i].wrapping_sub(last.values.ecn[i]) & 0xff_ffff;
            }
        }
        let rest = rest(to);
        if rest != self::rest(last) {
            delta.rare |= rare::REST;
            delta.rest = rest;
        }
        delta
    }

    /// What options the ACK has that this leads to; `None` if the shape is none.
    pub fn holds(&self, from: &State) -> Option<(Shape, Holds)> {
        if self.rare & rare::SHAPE == 0 {
            return Some((from.ack.shape, from.holds));
        }
        let shape = match self.shape {
            NewShape::Known(number) => *KNOWN.get(usize::from(number))?,
            NewShape::Other(shape) => shape,
        };
        Some((shape, shape.holds()?))
    }

    /// The ACK that this leads to, with what its options hold; `None` if it leads nowhere.
    pub fn apply(&self, from: &State) -> Option<(Ack, Holds)> {
        let last = &from.ack;
        let (shape, holds) = self.holds(from)?;
        let mut to = Ack {
            ack: last.ack.wrapping_add(self.ack.bytes(from.unit)),
            window: last.window.wrapping_add(self.window as u16),
            wrong: None,
            shape,
            values: Values::default(),
            ..*last
        };
        if !to.key.v6 {
            to.ip_id = last.ip_id.wrapping_add(from.id_step);
        }
        if holds.ts {
            to.values.tsval = last.values.tsval.wrapping_add(self.tsval);
            to.values.tsecr = last.values.tsecr.wrapping_add(self.tsecr);
        }
        if holds.sack {
            to.values.blocks = self.blocks;
            to.values.sack = sack::apply(from, to.ack, self.blocks, &self.sack)?;
        }
        for (i, counter) in to.values.ecn.iter_mut().enumerate() {
            if i < usize::from(holds.ecn) {
                *counter = last.values.ecn[i].wrapping_add(self.ecn[i]) & 0xff_ffff;
            }
        }
        if self.rare != 0 {
            self.apply_rare(last, &mut to);
        }
        Some((to, holds))
    }

    fn apply_rare(&self, last: &Ack, to: &mut Ack) {
        if self.rare & rare::ID != 0 && !to.key.v6 {
            to.ip_id = to.ip_id.wrapping_add(self.id as u16);
        }
        if self.rare & rare::SEQ != 0 {
            to.seq = last.seq.wrapping_add(self.seq);
        }
        if self.rare & rare::WRONG != 0 {
            to.wrong = Some(self.wrong);
        }
        if self.rare & rare::FLAGS != 0 {
            to.flags = self.flags & 0xfff;
        }
        if self.rare & rare::REST != 0 {
            to.tos = self.rest.tos;
            to.ttl = self.rest.ttl;
            to.frag = self.rest.frag;
            to.label = self.rest.label;
            to.urgent = self.rest.urgent;
        }
    }
}

fn rest(ack: &Ack) -> Rest {
    Rest {
        tos: ack.tos,
        ttl: ack.ttl,
        frag: ack.frag,
        label: ack.label,
        urgent: ack.urgent,
    }
}
