//! SACK blocks as changes to the blocks of the last ACK.
//!
//! From one ACK to the next the list of blocks changes little: the block that grew comes
//! first (RFC 2018 §4), and the others follow unchanged.

use crate::ack::Ack;
use crate::flow_state::{State, Step};

/// How a block follows from those of the last ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// A block of the last ACK whose right edge moved. `place` is its index among the blocks that
    /// have not been used yet.
    Kept { place: u8, grown: Step },
    /// A new block. `left` is the distance of its left edge from the highest right edge of
    /// the last ACK's blocks, or from the acknowledgment number if there are none.
    New { left: Signed, length: Step },
}

/// A distance in either direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signed {
    Units(i32),
    Bytes(i32),
}

impl Op {
    pub const NONE: Op = Op::Kept {
        place: 0,
        grown: Step::Units(0),
    };
}

/// The blocks of the last ACK that have not been used yet.
struct Unused {
    blocks: [(u32, u32); 4],
    len: usize,
}

impl Unused {
    fn new(from: &State) -> Unused {
        Unused {
            blocks: from.ack.values.sack,
            len: from.ack.values.blocks().len(),
        }
    }

    fn take(&mut self, place: usize) -> Option<(u32, u32)> {
        let taken = *self.blocks.get(..self.len)?.get(place)?;
        self.blocks.copy_within(place + 1..self.len, place);
        self.len -= 1;
        Some(taken)
    }
}

/// Returns the operations that lead to the blocks of the next ACK.
pub(crate) fn between(from: &State, to: &Ack) -> [Op; 4] {
    let mut unused = Unused::new(from);
    let top = top(from, to.ack);
    let mut ops = [Op::NONE; 4];
    for (op, &(left, right)) in ops.iter_mut().zip(to.values.blocks()) {
        let place = unused.blocks[..unused.len].iter().position(|b| b.0 == left);
        *op = match place.and_then(|place| Some((place, unused.take(place)?))) {
            Some((place, last)) => Op::Kept {
                place: place as u8,
                grown: Step::forward(right.wrapping_sub(last.1), from.unit),
            },
            None => Op::New {
                left: signed(left.wrapping_sub(top) as i32, from.unit),
                length: Step::forward(right.wrapping_sub(left), from.unit),
            },
        };
    }
    ops
}

/// Applies operations to the blocks of the last ACK. Returns `None` if an operation uses a
/// block that does not exist.
pub(crate) fn apply(from: &State, ack: u32, blocks: u8, ops: &[Op; 4]) -> Option<[(u32, u32); 4]> {
    let mut unused = Unused::new(from);
    let top = top(from, ack);
    let mut made = [(0, 0); 4];
    for (block, op) in made.get_mut(..usize::from(blocks))?.iter_mut().zip(ops) {
        *block = match *op {
            Op::Kept { place, grown } => {
                let (left, right) = unused.take(usize::from(place))?;
                (left, right.wrapping_add(grown.bytes(from.unit)))
            }
            Op::New { left, length } => {
                let left = top.wrapping_add(match left {
                    Signed::Units(units) => (units as u32).wrapping_mul(from.unit),
                    Signed::Bytes(bytes) => bytes as u32,
                });
                (left, left.wrapping_add(length.bytes(from.unit)))
            }
        };
    }
    Some(made)
}

fn signed(distance: i32, unit: u32) -> Signed {
    match i32::try_from(unit) {
        Ok(unit) if unit > 0 && distance % unit == 0 => Signed::Units(distance / unit),
        _ => Signed::Bytes(distance),
    }
}

fn top(from: &State, ack: u32) -> u32 {
    let blocks = from.ack.values.blocks().iter();
    blocks
        .map(|block| block.1)
        .max_by_key(|right| right.wrapping_sub(from.ack.ack) as i32)
        .unwrap_or(ack)
}
