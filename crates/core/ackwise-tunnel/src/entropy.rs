//! The entropy encoding of deltas: a range coder with adaptive models. See
//! `docs/tunnel-format.md`.

use crate::aligned::{unzigzag, zigzag};
use crate::delta::{Delta, NewLayout, OtherFields, rare};
use crate::flow_state::{State, Step};
use crate::options::{KNOWN_LAYOUTS, OptionLayout};
use crate::range::{Coder, Number, Prob, Tree};
use crate::sack::{Op, Signed};

/// The adaptive models. A bundle starts from the models after a bundle that the receiver
/// has acknowledged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Models {
    // The models of the structure of a bundle.
    pub flow: Number,
    pub distance: Number,
    pub full: Prob,
    pub another_flow: Prob,
    pub another_ack: [Prob; 16],
    // The models of an ACK. The first index says whether it is the first of its flow in the
    // bundle.
    ack: [[Number; 4]; 2],
    tsval: [[Number; 2]; 2],
    tsecr: [[Number; 4]; 2],
    window_moves: [[Prob; 2]; 2],
    window: [Number; 2],
    rare: [Prob; 2],
    which: [[Prob; rare::BITS as usize]; 2],
    id: Number,
    seq: Number,
    layout: Tree<8>,
    ecn: Number,
    blocks: [Tree<4>; 5],
    place: [Tree<8>; 2],
    grown: [Number; 2],
    left: Number,
    length: Number,
}

/// The symbol of a layout of options that has no number.
const OTHER_LAYOUT: u32 = 7;
/// The symbol of a new SACK block.
const NEW_BLOCK: u32 = 7;

impl Models {
    /// The models before the first ACK.
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
        layout: Tree::NEW,
        ecn: Number::NEW,
        blocks: [Tree::NEW; 5],
        place: [Tree::NEW; 2],
        grown: [Number::NEW; 2],
        left: Number::NEW,
        length: Number::NEW,
    };

    /// Writes `delta`, or reads into it, depending on the coder. `first` says whether it is
    /// the first of its flow in the bundle. Returns `None` if the bytes are not valid.
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
        let (_, fields) = delta.fields(from)?;
        let sack = usize::from(fields.sack);
        let last_units = usize::from(from.last_units & 3);
        delta.ack = step(coder, &mut self.ack[first][last_units], delta.ack);
        if fields.ts {
            delta.tsval = self.tsval[first][sack].code(coder, delta.tsval);
            let context = delta.tsval.min(3) as usize;
            delta.tsecr = self.tsecr[first][context].code(coder, delta.tsecr);
        }
        let moves = &mut self.window_moves[first][usize::from(from.window_moved)];
        if coder.bit(moves, delta.window != 0) {
            let window = zigzag(delta.window.into());
            delta.window = unzigzag(self.window[first].code(coder, window)) as i16;
        }
        if fields.sack {
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
        if which & rare::LAYOUT != 0 {
            delta.layout = self.code_layout(coder, delta.layout)?;
        }
        if which & rare::SEQ != 0 {
            delta.seq = self.seq.code(coder, delta.seq);
        }
        if which & rare::BAD_CHECKSUM != 0 {
            delta.bad_checksum = coder.bits(16, delta.bad_checksum.into()) as u16;
        }
        if which & rare::FLAGS != 0 {
            delta.flags = coder.bits(12, delta.flags.into()) as u16;
        }
        if which & rare::ECN != 0 {
            for counter in &mut delta.ecn {
                *counter = self.ecn.code(coder, *counter);
            }
        }
        if which & rare::OTHER_FIELDS != 0 {
            let rest = delta.other_fields;
            delta.other_fields = OtherFields {
                tos: coder.bits(8, rest.tos.into()) as u8,
                ttl: coder.bits(8, rest.ttl.into()) as u8,
                frag: (coder.bits(2, (rest.frag >> 14).into()) << 14) as u16,
                label: coder.bits(20, rest.label),
                urgent: coder.bits(16, rest.urgent.into()) as u16,
            };
        }
        Some(())
    }

    fn code_layout(&mut self, coder: &mut impl Coder, layout: NewLayout) -> Option<NewLayout> {
        let (symbol, tokens) = match &layout {
            NewLayout::Known(number) => ((*number).into(), KNOWN_LAYOUTS[0]),
            NewLayout::Other(layout) => (OTHER_LAYOUT, *layout),
        };
        let symbol = self.layout.code(coder, symbol);
        if symbol != OTHER_LAYOUT {
            return Some(NewLayout::Known(symbol as u8));
        }
        let len = coder.bits(6, tokens.tokens().len() as u32);
        let mut made = [0; 64];
        let made = &mut made[..len as usize];
        for (i, byte) in made.iter_mut().enumerate() {
            let token = tokens.tokens().get(i).copied().unwrap_or(0);
            *byte = coder.bits(8, token.into()) as u8;
        }
        OptionLayout::from_tokens(made).map(NewLayout::Other)
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

/// Codes an advance: 0 says that bytes follow, other symbols are units plus one.
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
