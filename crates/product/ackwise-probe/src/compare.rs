//! Joins what one end has sent with what the other end has seen.

use std::collections::HashMap;

use crate::engine::Records;
use crate::record::{Record, Role};
use crate::script::{End, Phase};
use crate::segment::flag;
use crate::session::Played;
use crate::stats::Share;

/// A packet that was sent, and what became of it.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// As it left.
    pub sent: Record,
    /// As it arrived first.
    pub seen: Option<Record>,
}

impl Sample {
    /// The time on the way in milliseconds, with the difference of the two clocks in it.
    #[must_use]
    pub fn delay_ms(&self) -> Option<f64> {
        let seen = self.seen?;
        Some((seen.at_ns as f64 - self.sent.at_ns as f64) / 1e6)
    }

    /// Says whether it did not arrive.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.seen.is_none()
    }
}

/// All packets of one stage and direction.
#[derive(Debug, Default)]
pub struct Joined {
    /// What was sent.
    pub samples: Vec<Sample>,
    /// How many arrived more than once.
    pub copies: usize,
    /// What arrived and was never sent.
    pub made: Vec<Record>,
}

/// By what a packet is known that has no timestamps any more.
type Likeness = (u8, u32, u32, u16, u16);

fn likeness(it: &Record) -> Likeness {
    let flags = it.flags & (flag::SYN | flag::FIN | flag::RST);
    // The numbers of a SYN are its own.
    let numbers = if flags & flag::SYN != 0 {
        (0, 0)
    } else {
        (it.seq, it.ack)
    };
    (it.conn, numbers.0, numbers.1, it.payload, flags)
}

/// Joins packets by connection and timestamp. Where the path removes timestamps, by their numbers
/// and in order.
#[must_use]
pub fn join(sent: &[Record], seen: &[Record]) -> Joined {
    let mut samples: Vec<_> = sent
        .iter()
        .map(|&sent| Sample { sent, seen: None })
        .collect();
    let mut by_stamp = HashMap::new();
    let mut by_likeness: HashMap<Likeness, Vec<usize>> = HashMap::new();
    for (at, it) in sent.iter().enumerate() {
        by_stamp.insert((it.conn, it.ts_val), at);
        by_likeness.entry(likeness(it)).or_default().push(at);
    }
    let mut joined = Joined::default();
    for it in seen {
        let found = if it.ts_val != 0 {
            by_stamp.get(&(it.conn, it.ts_val)).copied()
        } else {
            let alike = by_likeness.get(&likeness(it));
            let mut alike = alike.into_iter().flatten().copied();
            alike.find(|at| samples[*at].seen.is_none())
        };
        match found {
            None => joined.made.push(*it),
            Some(at) if samples[at].seen.is_some() => joined.copies += 1,
            Some(at) => samples[at].seen = Some(*it),
        }
    }
    joined.samples = samples;
    joined
}

/// A direction of the path: what the end that acknowledges has sent, in both stages.
#[derive(Debug, Default)]
pub struct Direction {
    /// The parts.
    pub stages: Vec<Joined>,
}

impl Direction {
    /// The direction of the ACKs of an end.
    #[must_use]
    pub fn of(played: &[Played], acks: End) -> Self {
        let stages = played.iter().filter(|it| it.acks == acks).map(|it| {
            let (from, to): (&Records, &Records) = match acks {
                End::Client => (&it.client, &it.server),
                End::Server => (&it.server, &it.client),
            };
            join(&from.sent, &to.seen)
        });
        Self {
            stages: stages.collect(),
        }
    }

    /// All packets.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.stages.iter().flat_map(|it| &it.samples)
    }

    /// Packets of a phase and a role.
    pub fn of_phase(&self, phase: Phase, role: Role) -> impl Iterator<Item = &Sample> {
        let wanted = move |it: &&Sample| it.sent.phase == phase && it.sent.role == role;
        self.samples().filter(wanted)
    }

    /// How many packets of these phases and this role are lost.
    #[must_use]
    pub fn lost(&self, phases: &[Phase], role: Role) -> Share {
        let mut share = Share::default();
        for it in self.samples() {
            if phases.contains(&it.sent.phase) && it.sent.role == role {
                share.add(it.is_lost());
            }
        }
        share
    }
}
