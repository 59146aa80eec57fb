//! Deltas under adaptive models. See `docs/tunnel-format.md`.

use crate::aligned::{unzigzag, zigzag};
use crate::delta::{Delta, NewShape, Rest, State, Step, rare};
use crate::range::{Coder, Number, Prob, Tree};
use crate::sack::{Op, Signed};
use crate::shape::{KNOWN, Shape};

/// What was learnt of the ACKs so far. A bundle starts from the models after one that
/// the receiver acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Models {
    // Of a bundle.
    pub flow: Number,
    pub distance: Number,
    pub full: Prob,
    pub another_flow: Prob,
    pub another_ack: [Prob; 16],
    // Of an ACK. The first index: whether it is the first of its flow in the bundle.
    ack: [[Number; 4]; 2],
    tsval: [[Number; 2]; 2],
    tsecr: [[Number; 4]; 2],
    window_moves: [[Prob; 2]; 2],
    window: [Number; 2],
    rare: [Prob; 2],
    which: [[Prob; rare::BITS as usize]; 2],
    id: Number,
    seq: Number,
    shape: Tree<8>,
    ecn: Number,
    blocks: [Tree<4>; 5],
    place: [Tree<8>; 2],
    grown: [Number; 2],
    left: Number,
    length: Number,
}

/// Symbol of an arrangement of options that has no number.
const OTHER_SHAPE: u32 = 7;
/// Symbol of the place of a new block.
const NEW_BLOCK: u32 = 7;

impl Models {
    /// Nothing learnt.
    pub const NEW: Models = Models {
        flow: Number::NEW,
        distance: Number::NEW,
        full: Prob::EVEN,
        another_flow: Prob::EVEN,
        another_ack: [Prob::EVEN; 16],
        ack: [[Number::NEW; 4]; 2],
        tsval: [[Number::NEW; 2]; 2],
        tsecr: [[Number::NEW; 4]; 2],
        window_moves: [[Prob::EVEN; 2]; 2],
        window: [Number::NEW; 2],
        rare: [Prob::EVEN; 2],
        which: [[Prob::EVEN; rare::BITS as usize]; 2],
        id: Number::NEW,
        seq: Number::NEW,
        shape: Tree::NEW,
        ecn: Number::NEW,
        blocks: [Tree::NEW; 5],
        place: [Tree::NEW; 2],
        grown: [Number::NEW; 2],
        left: Number::NEW,
        length: Number::NEW,
    };

    /// Writes `delta`, or reads into it, by the direction of the coder. `None` if what
    /// is read leads nowhere.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        from: &State,
        first: bool,
        delta: &mut Delta,
    ) -> Option<()> {
        let first = usize::from(first);
        if coder.bit(&mut self.rare[first], delta.rare != 0) {
            self.code_rare(coder, first, delta)?;
        }
        let (_, holds) = delta.holds(from)?;
        let sack = usize::from(holds.sack);
        let pace = usize::from(from.pace & 3);
        delta.ack = step(coder, &mut self.ack[first][pace], delta.ack);
        if holds.ts {
            delta.tsval = self.tsval[first][sack].code(coder, delta.tsval);
            let context = delta.tsval.min(3) as usize;
            delta.tsecr = self.tsecr[first][context].code(coder, delta.tsecr);
        }
        let moves = &mut self.window_moves[first][usize::from(from.restless)];
        if coder.bit(moves, delta.window != 0) {
            let window = zigzag(delta.window.into());
            delta.window = unzigzag(self.window[first].code(coder, window)) as i16;
        }
        if holds.sack {
            self.code_sack(coder, from, delta);
        }
        Some(())
    }

    fn code_rare(&mut self, coder: &mut impl Coder, first: usize, delta: &mut Delta) -> Option<()> {
        let mut which = 0;
        for (i, prob) in self.which[first].iter_mut().enumerate() {
            which |= u8::from(coder.bit(prob, delta.rare >> i & 1 == 1)) << i;
        }
        delta.rare = which;
        if which & rare::ID != 0 {
            delta.id = unzigzag(self.id.code(coder, zigzag(delta.id.into()))) as i16;
        }
        if which & rare::SHAPE != 0 {
            delta.shape = self.code_shape(coder, delta.shape)?;
        }
        if which & rare::SEQ != 0 {
            delta.seq = self.seq.code(coder, delta.seq);
        }
        if which & rare::WRONG != 0 {
            delta.wrong = coder.bits(16, delta.wrong.into()) as u16;
        }
        if which & rare::FLAGS != 0 {
            delta.flags = coder.bits(12, delta.flags.into()) as u16;
        }
        if which & rare::ECN != 0 {
            for counter in &mut delta.ecn {
                *counter = self.ecn.code(coder, *counter);
            }
        }
        if which & rare::REST != 0 {
            let rest = delta.rest;
            delta.rest = Rest {
                tos: coder.bits(8, rest.tos.into()) as u8,
                ttl: coder.bits(8, rest.ttl.into()) as u8,
                frag: (coder.bits(2, (rest.frag >> 14).into()) << 14) as u16,
                label: coder.bits(20, rest.label),
                urgent: coder.bits(16, rest.urgent.into()) as u16,
            };
        }
        Some(())
    }

    fn code_shape(&mut self, coder: &mut impl Coder, shape: NewShape) -> Option<NewShape> {
        let (symbol, tokens) = match &shape {
            NewShape::Known(number) => ((*number).into(), KNOWN[0]),
            NewShape::Other(shape) => (OTHER_SHAPE, *shape),
        };
        let symbol = self.shape.code(coder, symbol);
        if symbol != OTHER_SHAPE {
            return Some(NewShape::Known(symbol as u8));
        }
        let len = coder.bits(6, tokens.tokens().len() as u32);
        let mut made = [0; 64];
        let made = &mut made[..len as usize];
        for (i, byte) in made.iter_mut().enumerate() {
            let token = tokens.tokens().get(i).copied().unwrap_or(0);
            *byte = coder.bits(8, token.into()) as u8;
        }
        Shape::from_tokens(made).map(NewShape::Other)
    }

    fn code_sack(&mut self, coder: &mut impl Coder, from: &State, delta: &mut Delta) {
        let last = from.ack.values.blocks().len();
        let blocks = u32::from(delta.blocks).wrapping_sub(1) & 3;
        delta.blocks = self.blocks[last].code(coder, blocks) as u8 + 1;
        for i in 0..usize::from(delta.blocks) {
            delta.sack[i] = self.code_block(coder, i.min(1), delta.sack[i]);
        }
    }

    fn code_block(&mut self, coder: &mut impl Coder, later: usize, op: Op) -> Op {
        let (place, left, length) = match op {
            Op::Kept { place, grown } => (place.into(), Signed::Units(0), grown),
            Op::New { left, length } => (NEW_BLOCK, left, length),
        };
        let place = self.place[later].code(coder, place);
        if place != NEW_BLOCK {
            return Op::Kept {
                place: place as u8,
                grown: step(coder, &mut self.grown[later], length),
            };
        }
        let left = match left {
            Signed::Units(units) => Step::Units(zigzag(units)),
            Signed::Bytes(bytes) => Step::Bytes(bytes as u32),
        };
        Op::New {
            left: match step(coder, &mut self.left, left) {
                Step::Units(units) => Signed::Units(unzigzag(units)),
                Step::Bytes(bytes) => Signed::Bytes(bytes as i32),
            },
            length: step(coder, &mut self.length, length),
        }
    }
}

/// 0 says that bytes follow, other numbers are units, plus one.
fn step(coder: &mut impl Coder, model: &mut Number, step: Step) -> Step {
    let symbol = match step {
        Step::Units(units) => units.saturating_add(1),
        Step::Bytes(_) => 0,
    };
    match model.code(coder, symbol) {
        0 => {
            let bytes = match step {
                Step::Bytes(bytes) => bytes,
                Step::Units(_) => 0,
            };
            Step::Bytes(coder.bits(32, bytes))
        }
        symbol => Step::Units(symbol - 1),
    }
}
