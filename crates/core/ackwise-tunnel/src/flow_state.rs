//! The state of a flow, which both ends have after each of its ACKs.

use crate::ack::Ack;
use crate::options::LayoutFields;

/// Distances in bytes that may be the payload of one or a few segments.
const UNIT: std::ops::RangeInclusive<u32> = 256..=65_535;

/// The state of a flow after one of its ACKs. Both ends have the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub ack: Ack,
    pub fields: LayoutFields,
    /// The bytes by which acknowledgments advance, which is the payload of a segment; 0
    /// until it is known.
    pub unit: u32,
    /// The last distance that was not a multiple of the unit.
    candidate: u32,
    /// The step of the IPv4 identification.
    pub id_step: u16,
    /// The last advance in units, at most 3: a context of the entropy coder.
    pub last_units: u8,
    /// Whether the window changed: another context.
    pub window_moved: bool,
}

impl State {
    /// Returns the state after the first ACK, or `None` if its options are not valid.
    pub fn new(ack: Ack) -> Option<State> {
        Some(State {
            fields: ack.layout.fields()?,
            ack,
            unit: 0,
            candidate: 0,
            id_step: 1,
            last_units: 0,
            window_moved: false,
        })
    }

    /// Advances to the next ACK. Both ends call this with the same ACK.
    pub fn advance(&mut self, next: &Ack, fields: LayoutFields) {
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
        // Divide again only if the unit has changed, because divisions are expensive.
        if self.unit != unit {
            step = Step::forward(moved, self.unit);
        }
        if let Step::Units(units) = step {
            self.last_units = units.min(3) as u8;
        }
        let step = next.ip_id.wrapping_sub(self.ack.ip_id);
        // Stacks increase it by one, never, or by one in the other byte order.
        if matches!(step, 0 | 1 | 256) {
            self.id_step = step;
        }
        self.window_moved = next.window != self.ack.window;
        self.fields = fields;
        self.ack = *next;
    }

    /// Takes a distance as the unit if it and an earlier one agree.
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

/// Returns whether `number` is a multiple of `unit`.
fn divides(unit: u32, number: u32) -> bool {
    unit != 0 && number.is_multiple_of(unit)
}

/// An advance of a sequence number, modulo 2³².
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// A multiple of the flow's unit.
    Units(u32),
    /// Bytes.
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
