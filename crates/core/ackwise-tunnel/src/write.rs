//! Bundles, as an [`Encoder`] writes them: as much of what waits as fits.

use crate::ack::Ack;
use crate::aligned::{self, varint};
use crate::bundle::{Check, RAW, ROOM};
use crate::delta::{Delta, State};
use crate::encoder::{Encoder, Made};
use crate::entropy::Models;
use crate::range::{Coder, Most, Writer};
use crate::shape::Holds;

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

/// Where a bundle ends, and from where distances count.
pub(crate) struct Room {
    pub end: usize,
    pub base: u64,
    pub number: u64,
}

/// What is in a bundle, the check of it, and the flows.
type Written = (Made, Check, Vec<u16>);

/// What leads from a state to an ACK, and what its options hold.
fn step(state: &State, ack: &Ack) -> (Delta, Holds) {
    let holds = if ack.shape == state.ack.shape {
        state.holds
    } else {
        // What was parsed is a list of tokens.
        ack.shape.holds().unwrap_or_default()
    };
    (Delta::between(state, ack, holds), holds)
}

/// The packet of an ACK that stands there whole.
fn whole(ack: &Ack) -> Vec<u8> {
    let mut packet = Vec::with_capacity(crate::ack::MAX_PACKET);
    // What was parsed can be written.
    let _ = ack.write(&mut packet);
    packet
}

impl Encoder {
    pub(crate) fn write_aligned(&mut self, room: &Room, out: &mut Vec<u8>) -> Written {
        let (mut made, mut check, mut flows) = (Made::default(), Check::default(), Vec::new());
        while let Some((packet, hash)) = self.raw.front() {
            let before = out.len();
            out.extend([RAW as u8, FULL]);
            varint(out, packet.len() as u64);
            out.extend(&**packet);
            if out.len() > room.end {
                out.truncate(before);
                break;
            }
            check.add(*hash);
            made.packets += 1;
            made.whole += 1;
            self.raw.pop_front();
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (i, &number) in waiting.iter().enumerate() {
            let flow = &mut self.flows[usize::from(number) - 1];
            let base = flow
                .base()
                .map(|(version, state)| (room.base - version, *state));
            let mut run = Run {
                number,
                far: base.map(|(far, _)| far),
                state: base.map(|(_, state)| state),
                taken: 0,
                whole: 0,
            };
            while run.taken < flow.waiting.len() && run.write(&flow.waiting, room.end, out) {}
            for (_, hash) in flow.waiting.drain(..run.taken) {
                check.add(hash);
            }
            let full = !flow.waiting.is_empty();
            made.packets += run.taken;
            made.whole += run.whole;
            if let Some(state) = run.state.filter(|_| run.taken > 0) {
                self.keep(number, state, room.number);
                flows.push(number);
            }
            if full {
                self.waiting.extend(&waiting[i..]);
                break;
            }
        }
        (made, check, flows)
    }

    pub(crate) fn write_entropy(
        &mut self,
        room: &Room,
        models: &mut Models,
        out: &mut Vec<u8>,
    ) -> Written {
        let (mut made, mut check, mut flows) = (Made::default(), Check::default(), Vec::new());
        let limit = room.end - out.len();
        let mut coder = Writer::new(out);
        while let Some((packet, hash)) = self.raw.front() {
            let fits = fits(&coder, limit, |most| carry(most, models, packet));
            if !fits {
                break;
            }
            carry(&mut coder, models, packet);
            check.add(*hash);
            made.packets += 1;
            made.whole += 1;
            self.raw.pop_front();
        }
        let mut last = 0;
        let waiting = std::mem::take(&mut self.waiting);
        for (i, &number) in waiting.iter().enumerate() {
            let flow = &mut self.flows[usize::from(number) - 1];
            let base = flow.base();
            let head = Head {
                gap: u32::from(number - last),
                // Versions are as old as the window at most, if not: two in one.
                far: base.map(|(version, _)| (room.base - version).min(u32::MAX.into()) as u32),
            };
            let mut state = base.map(|(_, state)| *state);
            let Some((first, _)) = flow.waiting.first() else {
                continue;
            };
            let first_fits = fits(&coder, limit, |most| {
                head.code(most, models);
                code(most, models, state.as_ref(), true, first);
            });
            if !first_fits {
                self.waiting.extend(&waiting[i..]);
                break;
            }
            head.code(&mut coder, models);
            last = number;
            let mut taken = 0;
            while let Some((ack, hash)) = flow.waiting.get(taken) {
                let holds = code(&mut coder, models, state.as_ref(), taken == 0, ack);
                match &mut state {
                    Some(state) => state.advance(ack, holds),
                    None => {
                        state = State::new(*ack);
                        made.whole += 1;
                    }
                }
                check.add(*hash);
                taken += 1;
                let more = flow.waiting.get(taken).is_some_and(|(next, _)| {
                    fits(&coder, limit, |most| {
                        code(most, models, state.as_ref(), false, next);
                    })
                });
                coder.bit(&mut models.another_ack[taken.min(15)], more);
                if !more {
                    break;
                }
            }
            flow.waiting.drain(..taken);
            if !flow.waiting.is_empty() {
                self.waiting.push(number);
            }
            made.packets += taken;
            if let Some(state) = state {
                self.keep(number, state, room.number);
                flows.push(number);
            }
        }
        coder.bit(&mut models.another_flow, false);
        coder.finish();
        (made, check, flows)
    }
}

/// A flow in a bundle, aligned.
struct Run {
    number: u16,
    /// How far before the reference its version is.
    far: Option<u64>,
    state: Option<State>,
    taken: usize,
    whole: usize,
}

impl Run {
    /// Writes a head and ACKs under it, as many as it may have. Whether all of these fit.
    fn write(&mut self, waiting: &[(Ack, u32)], end: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        varint(out, self.number.into());
        let head_at = out.len();
        let (head, far) = match self.far {
            _ if self.taken > 0 => (distance::HERE << 4, None),
            Some(near) if near < distance::HERE.into() => ((near as u8) << 4, None),
            Some(far) => (distance::FOLLOWS << 4, Some(far)),
            None => (FULL, None),
        };
        out.push(head);
        if let Some(far) = far {
            varint(out, far);
        }
        let (mut count, mut fit) = (0, true);
        for (ack, _) in waiting[self.taken..].iter().take(MAX_RUN) {
            fit = self.ack(ack, end, out);
            if !fit {
                break;
            }
            count += 1;
        }
        self.taken += usize::from(count);
        match count {
            0 => out.truncate(start),
            _ => out[head_at] |= count - 1,
        }
        fit
    }

    /// Writes an ACK, if it fits.
    fn ack(&mut self, ack: &Ack, end: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mut holds = Holds::default();
        if let Some(state) = &self.state {
            let (delta, held) = step(state, ack);
            aligned::write(out, state, &delta);
            holds = held;
        } else {
            let packet = whole(ack);
            out.push(packet.len() as u8);
            out.extend(packet);
        }
        if out.len() > end {
            out.truncate(start);
            return false;
        }
        match &mut self.state {
            Some(state) => state.advance(ack, holds),
            None => {
                self.state = State::new(*ack);
                self.whole += 1;
            }
        }
        true
    }
}

/// What stands before the ACKs of a flow, entropy-coded.
struct Head {
    /// How much higher than the last flow's number its own is.
    gap: u32,
    /// As in [`Run`].
    far: Option<u32>,
}

impl Head {
    fn code(&self, coder: &mut impl Coder, models: &mut Models) {
        coder.bit(&mut models.another_flow, true);
        models.flow.code(coder, self.gap);
        coder.bit(&mut models.full, self.far.is_none());
        if let Some(far) = self.far {
            models.distance.code(coder, far);
        }
    }
}

/// An ACK; what its options hold.
fn code(
    coder: &mut impl Coder,
    models: &mut Models,
    from: Option<&State>,
    first: bool,
    ack: &Ack,
) -> Holds {
    if let Some(state) = from {
        let (mut delta, holds) = step(state, ack);
        // Writing leads where the ACK says.
        let _ = models.code(coder, state, first, &mut delta);
        return holds;
    }
    let packet = whole(ack);
    coder.bits(8, packet.len() as u32);
    for byte in packet {
        coder.bits(8, byte.into());
    }
    Holds::default()
}

/// A packet that is carried as it is.
fn carry(coder: &mut impl Coder, models: &mut Models, packet: &[u8]) {
    coder.bit(&mut models.another_flow, true);
    models.flow.code(coder, RAW.into());
    coder.bits(16, packet.len() as u32);
    for byte in packet {
        coder.bits(8, u32::from(*byte));
    }
}

/// Whether there is room for more, and for the end. Near the end of the room, what it takes
/// at most is counted by the code that writes it.
fn fits(coder: &Writer<'_>, limit: usize, write: impl FnOnce(&mut Most)) -> bool {
    if coder.len() + ROOM <= limit {
        return true;
    }
    let mut most = Most::default();
    write(&mut most);
    coder.len() + most.bytes() <= limit
}
