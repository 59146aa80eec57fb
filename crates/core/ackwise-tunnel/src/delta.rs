//! The difference between an ACK and the state of its flow.
//!
//! [`Delta::between`] and [`Delta::apply`] are inverses. [`crate::aligned`] and
//! [`crate::entropy`] encode deltas.

use crate::ack::Ack;
use crate::flow_state::{State, Step};
use crate::options::{KNOWN_LAYOUTS, LayoutFields, OptionLayout, Values};
use crate::sack::{self, Op};

/// The bits of [`Delta::rare`]: fields that rarely change.
pub(crate) mod rare {
    /// The identification did not advance by its usual step.
    pub const ID: u8 = 1;
    /// The layout of the options.
    pub const LAYOUT: u8 = 2;
    /// The sequence number.
    pub const SEQ: u8 = 4;
    /// The TCP checksum is wrong.
    pub const BAD_CHECKSUM: u8 = 8;
    /// The TCP flags.
    pub const FLAGS: u8 = 16;
    /// The counters of Accurate ECN.
    pub const ECN: u8 = 32;
    /// Other fields of the IP header, or the urgent pointer.
    pub const OTHER_FIELDS: u8 = 64;
    /// The number of bits.
    pub const BITS: u32 = 7;
}

/// The fields that almost never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OtherFields {
    pub tos: u8,
    pub ttl: u8,
    pub frag: u16,
    pub label: u32,
    pub urgent: u16,
}

/// A new layout of options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NewLayout {
    /// An index into [`KNOWN_LAYOUTS`].
    Known(u8),
    /// Another layout.
    Other(OptionLayout),
}

/// The difference between an ACK and the state of its flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delta {
    pub ack: Step,
    /// The advance modulo 2³²; 0 if there are no timestamps.
    pub tsval: u32,
    pub tsecr: u32,
    /// The change modulo 2¹⁶.
    pub window: i16,
    /// Which of the following fields changed; see [`rare`].
    pub rare: u8,
    /// The difference to the usual step.
    pub id: i16,
    pub layout: NewLayout,
    pub seq: u32,
    pub bad_checksum: u16,
    pub flags: u16,
    /// The advance of each counter, modulo 2²⁴.
    pub ecn: [u32; 3],
    pub other_fields: OtherFields,
    /// The number of SACK blocks.
    pub blocks: u8,
    pub sack: [Op; 4],
}

impl Delta {
    /// Nothing changes but the identification, which advances by its usual step.
    pub const NONE: Delta = Delta {
        ack: Step::Units(0),
        tsval: 0,
        tsecr: 0,
        window: 0,
        rare: 0,
        id: 0,
        layout: NewLayout::Known(0),
        seq: 0,
        bad_checksum: 0,
        flags: 0,
        ecn: [0; 3],
        other_fields: OtherFields {
            tos: 0,
            ttl: 0,
            frag: 0,
            label: 0,
            urgent: 0,
        },
        blocks: 0,
        sack: [Op::NONE; 4],
    };

    /// Returns the delta from a state to the next ACK of the flow. `fields` are the values
    /// of its options.
    pub fn between(from: &State, to: &Ack, fields: LayoutFields) -> Delta {
        let last = &from.ack;
        let mut delta = Delta {
            ack: Step::forward(to.ack.wrapping_sub(last.ack), from.unit),
            window: to.window.wrapping_sub(last.window) as i16,
            ..Delta::NONE
        };
        if fields.ts {
            delta.tsval = to.values.tsval.wrapping_sub(last.values.tsval);
            delta.tsecr = to.values.tsecr.wrapping_sub(last.values.tsecr);
        }
        if fields.sack {
            delta.blocks = to.values.blocks;
            delta.sack = sack::between(from, to);
        }
        let expected_id = last.ip_id.wrapping_add(from.id_step);
        if to.ip_id != expected_id && !to.key.v6 {
            delta.rare |= rare::ID;
            delta.id = to.ip_id.wrapping_sub(expected_id) as i16;
        }
        if to.layout != last.layout {
            delta.rare |= rare::LAYOUT;
            let known = KNOWN_LAYOUTS.iter().position(|layout| *layout == to.layout);
            delta.layout = match known {
                Some(number) => NewLayout::Known(number as u8),
                None => NewLayout::Other(to.layout),
            };
        }
        if to.seq != last.seq {
            delta.rare |= rare::SEQ;
            delta.seq = to.seq.wrapping_sub(last.seq);
        }
        if let Some(wrong) = to.bad_checksum {
            delta.rare |= rare::BAD_CHECKSUM;
            delta.bad_checksum = wrong;
        }
        if to.flags != last.flags {
            delta.rare |= rare::FLAGS;
            delta.flags = to.flags;
        }
        if to.values.ecn != last.values.ecn && fields.ecn > 0 {
            delta.rare |= rare::ECN;
            let counters = usize::from(fields.ecn);
            for (i, step) in delta.ecn.iter_mut().enumerate().take(counters) {
                *step = to.values.ecn[i].wrapping_sub(last.values.ecn[i]) & 0xff_ffff;
            }
        }
        let other_fields = other_fields(to);
        if other_fields != self::other_fields(last) {
            delta.rare |= rare::OTHER_FIELDS;
            delta.other_fields = other_fields;
        }
        delta
    }

    /// Returns the options of the next ACK, or `None` if the layout is not valid.
    pub fn fields(&self, from: &State) -> Option<(OptionLayout, LayoutFields)> {
        if self.rare & rare::LAYOUT == 0 {
            return Some((from.ack.layout, from.fields));
        }
        let layout = match self.layout {
            NewLayout::Known(number) => *KNOWN_LAYOUTS.get(usize::from(number))?,
            NewLayout::Other(layout) => layout,
        };
        Some((layout, layout.fields()?))
    }

    /// Returns the next ACK and the values of its options, or `None` if the delta is not
    /// valid.
    pub fn apply(&self, from: &State) -> Option<(Ack, LayoutFields)> {
        let last = &from.ack;
        let (layout, fields) = self.fields(from)?;
        let mut to = Ack {
            ack: last.ack.wrapping_add(self.ack.bytes(from.unit)),
            window: last.window.wrapping_add(self.window as u16),
            bad_checksum: None,
            layout,
            values: Values::default(),
            ..*last
        };
        if !to.key.v6 {
            to.ip_id = last.ip_id.wrapping_add(from.id_step);
        }
        if fields.ts {
            to.values.tsval = last.values.tsval.wrapping_add(self.tsval);
            to.values.tsecr = last.values.tsecr.wrapping_add(self.tsecr);
        }
        if fields.sack {
            to.values.blocks = self.blocks;
            to.values.sack = sack::apply(from, to.ack, self.blocks, &self.sack)?;
        }
        for (i, counter) in to.values.ecn.iter_mut().enumerate() {
            if i < usize::from(fields.ecn) {
                *counter = last.values.ecn[i].wrapping_add(self.ecn[i]) & 0xff_ffff;
            }
        }
        if self.rare != 0 {
            self.apply_rare(last, &mut to);
        }
        Some((to, fields))
    }

    fn apply_rare(&self, last: &Ack, to: &mut Ack) {
        if self.rare & rare::ID != 0 && !to.key.v6 {
            to.ip_id = to.ip_id.wrapping_add(self.id as u16);
        }
        if self.rare & rare::SEQ != 0 {
            to.seq = last.seq.wrapping_add(self.seq);
        }
        if self.rare & rare::BAD_CHECKSUM != 0 {
            to.bad_checksum = Some(self.bad_checksum);
        }
        if self.rare & rare::FLAGS != 0 {
            to.flags = self.flags & 0xfff;
        }
        if self.rare & rare::OTHER_FIELDS != 0 {
            to.tos = self.other_fields.tos;
            to.ttl = self.other_fields.ttl;
            to.frag = self.other_fields.frag;
            to.label = self.other_fields.label;
            to.urgent = self.other_fields.urgent;
        }
    }
}

fn other_fields(ack: &Ack) -> OtherFields {
    OtherFields {
        tos: ack.tos,
        ttl: ack.ttl,
        frag: ack.frag,
        label: ack.label,
        urgent: ack.urgent,
    }
}
