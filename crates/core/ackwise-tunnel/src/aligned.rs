//! The aligned encoding of deltas: whole bytes, no models. See `docs/tunnel-format.md`.

use crate::delta::{Delta, NewLayout, OtherFields, rare};
use crate::flow_state::{State, Step};
use crate::options::OptionLayout;
use crate::sack::{Op, Signed};

/// The value of a two-bit field of the first byte that means that the value follows.
const FOLLOWS: u8 = 3;
/// Bit of the first byte: the window changes.
const WINDOW: u8 = 2;
/// Bit of the first byte: a byte of rarely changing fields follows.
const RARE: u8 = 1;

/// First byte of SACK blocks: the lower bits are their number minus one, and one byte follows for
/// each block.
const LISTED: u8 = 0xc0;
/// First byte of SACK blocks: they are unchanged, except that the first grew by the units in the
/// lower six bits.
const FIRST_GROWN: u8 = 0x40;
/// The place of a block that is new.
const NEW: u8 = 7;
/// The length of a block whose length follows.
const LENGTH_FOLLOWS: u32 = 31;

/// The bytes that are left to read.
pub(crate) struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn be16(&mut self) -> Option<u16> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    /// Reads a varint: seven bits in each byte, the lowest first; the highest bit says that
    /// more follow.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..42).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint()?).ok()
    }
}

/// Writes a varint below 2⁴².
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps numbers near zero to small ones: 0, −1, 1, −2, … to 0, 1, 2, 3, ….
pub(crate) fn zigzag(value: i32) -> u32 {
    (value << 1 ^ value >> 31) as u32
}

/// The inverse of [`zigzag`].
pub(crate) fn unzigzag(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

fn step(out: &mut Vec<u8>, step: Step) {
    match step {
        Step::Units(units) => varint(out, u64::from(units) << 1),
        Step::Bytes(bytes) => varint(out, u64::from(bytes) << 1 | 1),
    }
}

fn read_step(input: &mut Input) -> Option<Step> {
    let value = input.varint()?;
    let number = u32::try_from(value >> 1).ok()?;
    Some(if value & 1 == 0 {
        Step::Units(number)
    } else {
        Step::Bytes(number)
    })
}

/// Returns the two-bit field of a value.
fn field(value: u32) -> u8 {
    value.min(u32::from(FOLLOWS)) as u8
}

/// Writes a delta from the state `from`.
pub(crate) fn write(out: &mut Vec<u8>, from: &State, delta: &Delta) {
    let ack = match delta.ack {
        Step::Units(units) => field(units),
        Step::Bytes(_) => FOLLOWS,
    };
    let (tsval, tsecr) = (field(delta.tsval), field(delta.tsecr));
    let mut head = ack << 6 | tsval << 4 | tsecr << 2;
    if delta.window != 0 {
        head |= WINDOW;
    }
    if delta.rare != 0 {
        head |= RARE;
    }
    out.push(head);
    if delta.rare != 0 {
        write_rare(out, delta);
    }
    if ack == FOLLOWS {
        step(out, delta.ack);
    }
    if tsval == FOLLOWS {
        varint(out, delta.tsval.into());
    }
    if tsecr == FOLLOWS {
        varint(out, delta.tsecr.into());
    }
    if delta.window != 0 {
        varint(out, zigzag(delta.window.into()).into());
    }
    if delta.blocks > 0 {
        write_sack(out, from, delta);
    }
}

/// Reads a delta from the state `from`. Returns `None` if the bytes are not valid.
pub(crate) fn read(input: &mut Input, from: &State) -> Option<Delta> {
    let mut delta = Delta::NONE;
    let head = input.byte()?;
    if head & RARE != 0 {
        read_rare(input, &mut delta)?;
    }
    let (_, fields) = delta.fields(from)?;
    delta.ack = match head >> 6 {
        FOLLOWS => read_step(input)?,
        units => Step::Units(units.into()),
    };
    delta.tsval = match head >> 4 & 3 {
        FOLLOWS => input.varint32()?,
        value => value.into(),
    };
    delta.tsecr = match head >> 2 & 3 {
        FOLLOWS => input.varint32()?,
        value => value.into(),
    };
    if head & WINDOW != 0 {
        delta.window = unzigzag(input.varint32()?) as i16;
    }
    if fields.sack {
        read_sack(input, from, &mut delta)?;
    }
    Some(delta)
}

fn write_rare(out: &mut Vec<u8>, delta: &Delta) {
    out.push(delta.rare);
    if delta.rare & rare::ID != 0 {
        varint(out, zigzag(delta.id.into()).into());
    }
    if delta.rare & rare::LAYOUT != 0 {
        match delta.layout {
            NewLayout::Known(number) => out.push(0x80 | number),
            NewLayout::Other(layout) => {
                out.push(layout.tokens().len() as u8);
                out.extend(layout.tokens());
            }
        }
    }
    if delta.rare & rare::SEQ != 0 {
        varint(out, delta.seq.into());
    }
    if delta.rare & rare::BAD_CHECKSUM != 0 {
        out.extend(delta.bad_checksum.to_be_bytes());
    }
    if delta.rare & rare::FLAGS != 0 {
        out.extend(delta.flags.to_be_bytes());
    }
    if delta.rare & rare::ECN != 0 {
        delta
            .ecn
            .iter()
            .for_each(|step| varint(out, (*step).into()));
    }
    if delta.rare & rare::OTHER_FIELDS != 0 {
        let rest = &delta.other_fields;
        out.extend([rest.tos, rest.ttl]);
        varint(out, (rest.frag >> 14).into());
        varint(out, rest.label.into());
        varint(out, rest.urgent.into());
    }
}

fn read_rare(input: &mut Input, delta: &mut Delta) -> Option<()> {
    delta.rare = input.byte()?;
    if delta.rare & rare::ID != 0 {
        delta.id = unzigzag(input.varint32()?) as i16;
    }
    if delta.rare & rare::LAYOUT != 0 {
        delta.layout = match input.byte()? {
            known if known >= 0x80 => NewLayout::Known(known & 0x7f),
            len => NewLayout::Other(OptionLayout::from_tokens(input.take(len.into())?)?),
        };
    }
    if delta.rare & rare::SEQ != 0 {
        delta.seq = input.varint32()?;
    }
    if delta.rare & rare::BAD_CHECKSUM != 0 {
        delta.bad_checksum = input.be16()?;
    }
    if delta.rare & rare::FLAGS != 0 {
        delta.flags = input.be16()?;
    }
    if delta.rare & rare::ECN != 0 {
        for step in &mut delta.ecn {
            *step = input.varint32()?;
        }
    }
    if delta.rare & rare::OTHER_FIELDS != 0 {
        delta.other_fields = OtherFields {
            tos: input.byte()?,
            ttl: input.byte()?,
            frag: (input.varint32()? << 14) as u16,
            label: input.varint32()?,
            urgent: input.varint32()? as u16,
        };
    }
    Some(())
}

/// Returns the units by which the first block grew, if nothing else changed.
fn only_first_grown(from: &State, delta: &Delta) -> Option<u8> {
    let ops = &delta.sack[..usize::from(delta.blocks)];
    let same = |grown| Op::Kept { place: 0, grown };
    let (first, others) = ops.split_first()?;
    let Op::Kept {
        place: 0,
        grown: Step::Units(units @ 0..64),
    } = *first
    else {
        return None;
    };
    let all = delta.blocks == from.ack.values.blocks;
    let others_same = others.iter().all(|op| *op == same(Step::Units(0)));
    (all && others_same).then_some(units as u8)
}

fn write_sack(out: &mut Vec<u8>, from: &State, delta: &Delta) {
    if let Some(units) = only_first_grown(from, delta) {
        out.push(FIRST_GROWN | units);
        return;
    }
    out.push(LISTED | (delta.blocks - 1));
    for op in &delta.sack[..usize::from(delta.blocks)] {
        let (place, length) = match *op {
            Op::Kept { place, grown } => (place, grown),
            Op::New { length, .. } => (NEW, length),
        };
        let small = match length {
            Step::Units(units) => units.min(LENGTH_FOLLOWS),
            Step::Bytes(_) => LENGTH_FOLLOWS,
        };
        out.push(place << 5 | small as u8);
        if small == LENGTH_FOLLOWS {
            step(out, length);
        }
        if let Op::New { left, .. } = *op {
            match left {
                Signed::Units(units) => varint(out, u64::from(zigzag(units)) << 1),
                Signed::Bytes(bytes) => varint(out, u64::from(zigzag(bytes)) << 1 | 1),
            }
        }
    }
}

fn read_sack(input: &mut Input, from: &State, delta: &mut Delta) -> Option<()> {
    let head = input.byte()?;
    match head & 0xc0 {
        FIRST_GROWN => {
            delta.blocks = from.ack.values.blocks;
            delta.sack[0] = Op::Kept {
                place: 0,
                grown: Step::Units(u32::from(head & 0x3f)),
            };
            (delta.blocks > 0).then_some(())
        }
        LISTED => {
            delta.blocks = (head & 0x3f) + 1;
            let ops = delta.sack.get_mut(..usize::from(delta.blocks))?;
            ops.iter_mut().try_for_each(|op| {
                *op = read_op(input)?;
                Some(())
            })
        }
        _ => None,
    }
}

fn read_op(input: &mut Input) -> Option<Op> {
    let head = input.byte()?;
    let length = match u32::from(head & 0x1f) {
        LENGTH_FOLLOWS => read_step(input)?,
        units => Step::Units(units),
    };
    let place = head >> 5;
    if place != NEW {
        return Some(Op::Kept {
            place,
            grown: length,
        });
    }
    let left = input.varint()?;
    let distance = unzigzag(u32::try_from(left >> 1).ok()?);
    let left = if left & 1 == 0 {
        Signed::Units(distance)
    } else {
        Signed::Bytes(distance)
    };
    Some(Op::New { left, length })
}
