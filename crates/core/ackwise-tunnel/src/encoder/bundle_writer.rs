//! Writes the body of a bundle: as many waiting packets as fit.

use super::{Bundled, Encoder};
use crate::ack::Ack;
use crate::aligned::{self, varint};
use crate::bundle::{Check, FULL, MAX_ITEM, UNCOMPRESSED, distance};
use crate::delta::Delta;
use crate::entropy::Models;
use crate::flow_state::State;
use crate::options::LayoutFields;
use crate::range::{Coder, UpperBound, Writer};

/// The largest number of ACKs after one header in the aligned encoding.
pub(crate) const MAX_RUN: usize = 16;

/// The limits of a bundle.
pub(crate) struct BundleLimits {
    /// The largest length of the buffer.
    pub end: usize,
    /// The bundle from which distances are counted.
    pub base: u64,
    /// The number of the bundle.
    pub number: u64,
}

/// The body of a bundle.
#[derive(Default)]
pub(crate) struct Written {
    pub bundled: Bundled,
    pub check: Check,
    /// Numbers of the flows in it.
    pub flows: Vec<u16>,
}

/// Returns the delta from a state to an ACK, and the values of its options.
fn step(state: &State, ack: &Ack) -> (Delta, LayoutFields) {
    let fields = if ack.layout == state.ack.layout {
        state.fields
    } else {
        // The layout of a parsed ACK is valid.
        ack.layout.fields().unwrap_or_default()
    };
    (Delta::between(state, ack, fields), fields)
}

/// Returns the packet of an ACK.
fn uncompressed_packet(ack: &Ack) -> Vec<u8> {
    let mut packet = Vec::with_capacity(crate::ack::MAX_PACKET);
    // An ACK that was parsed can be written.
    let _ = ack.write(&mut packet);
    packet
}

impl Encoder {
    pub(crate) fn write_aligned(&mut self, limits: &BundleLimits, out: &mut Vec<u8>) -> Written {
        let Written {
            mut bundled,
            mut check,
            mut flows,
        } = Written::default();
        while let Some((packet, hash)) = self.raw.front() {
            let before = out.len();
            out.extend([UNCOMPRESSED as u8, FULL]);
            varint(out, packet.len() as u64);
            out.extend(&**packet);
            if out.len() > limits.end {
                out.truncate(before);
                break;
            }
            check.add(*hash);
            bundled.packets += 1;
            bundled.uncompressed += 1;
            self.raw.pop_front();
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (i, &number) in waiting.iter().enumerate() {
            let flow = &mut self.flows[usize::from(number) - 1];
            let base = flow
                .base()
                .map(|(version, state)| (limits.base - version, *state));
            let mut run = Run {
                number,
                base_distance: base.map(|(base_distance, _)| base_distance),
                state: base.map(|(_, state)| state),
                taken: 0,
                uncompressed: 0,
            };
            while run.taken < flow.waiting.len() && run.write(&flow.waiting, limits.end, out) {}
            for (_, hash) in flow.waiting.drain(..run.taken) {
                check.add(hash);
            }
            let full = !flow.waiting.is_empty();
            bundled.packets += run.taken;
            bundled.uncompressed += run.uncompressed;
            if let Some(state) = run.state.filter(|_| run.taken > 0) {
                self.keep(number, state, limits.number);
                flows.push(number);
            }
            if full {
                self.waiting.extend(&waiting[i..]);
                break;
            }
        }
        Written {
            bundled,
            check,
            flows,
        }
    }

    pub(crate) fn write_entropy(
        &mut self,
        limits: &BundleLimits,
        models: &mut Models,
        out: &mut Vec<u8>,
    ) -> Written {
        let limit = limits.end - out.len();
        let mut coder = Writer::new(out);
        let Written {
            mut bundled,
            mut check,
            mut flows,
        } = self.write_without_flow(&mut coder, models, limit);
        let mut last = 0;
        let waiting = std::mem::take(&mut self.waiting);
        for (i, &number) in waiting.iter().enumerate() {
            let flow = &mut self.flows[usize::from(number) - 1];
            let base = flow.base();
            let head = FlowHeader {
                gap: u32::from(number - last),
                // Versions are at most as old as the window, so they fit into 32 bits.
                base_distance: base
                    .map(|(version, _)| (limits.base - version).min(u32::MAX.into()) as u32),
            };
            let mut state = base.map(|(_, state)| *state);
            let Some((first, _)) = flow.waiting.first() else {
                continue;
            };
            let first_fits = fits(&coder, limit, |bound| {
                head.code(bound, models);
                code(bound, models, state.as_ref(), true, first);
            });
            if !first_fits {
                self.waiting.extend(&waiting[i..]);
                break;
            }
            head.code(&mut coder, models);
            last = number;
            let mut taken = 0;
            while let Some((ack, hash)) = flow.waiting.get(taken) {
                let fields = code(&mut coder, models, state.as_ref(), taken == 0, ack);
                match &mut state {
                    Some(state) => state.advance(ack, fields),
                    None => {
                        state = State::new(*ack);
                        bundled.uncompressed += 1;
                    }
                }
                check.add(*hash);
                taken += 1;
                let more = flow.waiting.get(taken).is_some_and(|(next, _)| {
                    fits(&coder, limit, |bound| {
                        code(bound, models, state.as_ref(), false, next);
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
            bundled.packets += taken;
            if let Some(state) = state {
                self.keep(number, state, limits.number);
                flows.push(number);
            }
        }
        coder.bit(&mut models.another_flow, false);
        coder.finish();
        Written {
            bundled,
            check,
            flows,
        }
    }

    /// Writes the waiting packets that belong to no flow, as many as fit.
    fn write_without_flow(
        &mut self,
        coder: &mut Writer<'_>,
        models: &mut Models,
        limit: usize,
    ) -> Written {
        let mut written = Written::default();
        while let Some((packet, hash)) = self.raw.front() {
            let fits = fits(coder, limit, |bound| {
                write_uncompressed(bound, models, packet)
            });
            if !fits {
                break;
            }
            write_uncompressed(coder, models, packet);
            written.check.add(*hash);
            written.bundled.packets += 1;
            written.bundled.uncompressed += 1;
            self.raw.pop_front();
        }
        written
    }
}

/// A run of ACKs of one flow in the aligned encoding.
struct Run {
    number: u16,
    /// The distance from the reference to the version of the flow.
    base_distance: Option<u64>,
    state: Option<State>,
    taken: usize,
    uncompressed: usize,
}

impl Run {
    /// Writes a header and at most [`MAX_RUN`] ACKs. Returns whether all of them fit.
    fn write(&mut self, waiting: &[(Ack, u32)], end: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        varint(out, self.number.into());
        let head_at = out.len();
        let (head, base_distance) = match self.base_distance {
            _ if self.taken > 0 => (distance::HERE << 4, None),
            Some(near) if near < distance::HERE.into() => ((near as u8) << 4, None),
            Some(base_distance) => (distance::FOLLOWS << 4, Some(base_distance)),
            None => (FULL, None),
        };
        out.push(head);
        if let Some(base_distance) = base_distance {
            varint(out, base_distance);
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

    /// Writes an ACK if it fits.
    fn ack(&mut self, ack: &Ack, end: usize, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mut fields = LayoutFields::default();
        if let Some(state) = &self.state {
            let (delta, held) = step(state, ack);
            aligned::write(out, state, &delta);
            fields = held;
        } else {
            let packet = uncompressed_packet(ack);
            out.push(packet.len() as u8);
            out.extend(packet);
        }
        if out.len() > end {
            out.truncate(start);
            return false;
        }
        match &mut self.state {
            Some(state) => state.advance(ack, fields),
            None => {
                self.state = State::new(*ack);
                self.uncompressed += 1;
            }
        }
        true
    }
}

/// The header of a flow in the entropy encoding.
struct FlowHeader {
    /// The difference to the number of the last flow.
    gap: u32,
    /// The distance from the reference to the version of the flow, if it has one.
    base_distance: Option<u32>,
}

impl FlowHeader {
    fn code(&self, coder: &mut impl Coder, models: &mut Models) {
        coder.bit(&mut models.another_flow, true);
        models.flow.code(coder, self.gap);
        coder.bit(&mut models.full, self.base_distance.is_none());
        if let Some(base_distance) = self.base_distance {
            models.distance.code(coder, base_distance);
        }
    }
}

/// Writes an ACK and returns the values of its options.
fn code(
    coder: &mut impl Coder,
    models: &mut Models,
    from: Option<&State>,
    first: bool,
    ack: &Ack,
) -> LayoutFields {
    if let Some(state) = from {
        let (mut delta, fields) = step(state, ack);
        // Only reading can fail.
        let _ = models.code(coder, state, first, &mut delta);
        return fields;
    }
    let packet = uncompressed_packet(ack);
    coder.bits(8, packet.len() as u32);
    for byte in packet {
        coder.bits(8, byte.into());
    }
    LayoutFields::default()
}

/// Writes an uncompressed packet that belongs to no flow.
fn write_uncompressed(coder: &mut impl Coder, models: &mut Models, packet: &[u8]) {
    coder.bit(&mut models.another_flow, true);
    models.flow.code(coder, UNCOMPRESSED.into());
    coder.bits(16, packet.len() as u32);
    for byte in packet {
        coder.bits(8, u32::from(*byte));
    }
}

/// Returns whether an item and the end of the bundle fit. Close to the limit, the code that
/// writes the item computes an upper bound of its size.
fn fits(coder: &Writer<'_>, limit: usize, write: impl FnOnce(&mut UpperBound)) -> bool {
    if coder.len() + MAX_ITEM <= limit {
        return true;
    }
    let mut bound = UpperBound::default();
    write(&mut bound);
    coder.len() + bound.bytes() <= limit
}
