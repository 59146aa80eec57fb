//! SACK blocks as changes of the last ones.
//!
//! From one ACK to the next a list of blocks changes little: the block that just grew
//! comes first (RFC 2018 §4), the others follow as they were.

use crate::ack::Ack;
use crate::delta::{State, Step};

/// How a block comes about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// The block that has this place among those of the last ACK that were not used yet;
    /// its right edge moved.
    Kept { place: u8, grown: Step },
    /// Another. Its left edge is so far from the highest edge of the last ACK's blocks
    /// (without any, from the acknowledgment number), and so long is it.
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

/// Blocks of the last ACK that were not used yet.
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

/// How the blocks of the next ACK come about.
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

/// The blocks that so come about; `None` if there are none such.
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
