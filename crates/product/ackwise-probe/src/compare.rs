//! Joins what one end sent with what the other end saw.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::engine::Records;
use crate::record::{Record, Role};
use crate::script::{End, Phase};
use crate::segment::{CE, flag};
use crate::session::StageRecords;
use crate::stats::Share;

/// A packet that was sent, and what happened to it.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// The packet as it left.
    pub sent: Record,
    /// The packet as it first arrived.
    pub seen: Option<Record>,
}

impl Sample {
    /// The one-way delay in milliseconds, including the difference of the two clocks.
    #[must_use]
    pub fn delay_ms(&self) -> Option<f64> {
        let seen = self.seen?;
        Some((seen.at_ns as f64 - self.sent.at_ns as f64) / 1e6)
    }

    /// Returns whether it was lost, or marked (CE) on the way: an AQM drops packets that it cannot
    /// mark, such as ACKs.
    #[must_use]
    pub fn is_hit(&self) -> bool {
        self.seen
            .is_none_or(|seen| seen.ecn == CE && self.sent.ecn != CE)
    }

    /// Returns whether it was lost.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.seen.is_none()
    }
}

/// All packets of one stage and direction.
#[derive(Debug, Default)]
pub struct StageSamples {
    /// The packets that were sent.
    pub samples: Vec<Sample>,
    /// The number of packets that arrived more than once.
    pub copies: usize,
    /// Packets that arrived but were never sent.
    pub made: Vec<Record>,
}

/// What identifies a packet that has lost its timestamps.
type Likeness = (u8, u32, u32, u16, u16);

fn likeness(it: &Record) -> Likeness {
    let flags = it.flags & (flag::SYN | flag::FIN | flag::RST);
    // A SYN's numbers are its own.
    let numbers = if flags & flag::SYN != 0 {
        (0, 0)
    } else {
        (it.seq, it.ack)
    };
    (it.conn, numbers.0, numbers.1, it.payload, flags)
}

/// What the path does to the timestamps of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stamps {
    /// It adds this; 0 if it leaves them alone.
    Shifted(u32),
    /// It replaces or removes them.
    Useless,
}

/// Compares the timestamps of a connection at both ends. A proxy has its own handshakes, with
/// numbers and timestamps unrelated to those that were sent.
fn stamps(conn: u8, sent: &[Record], seen: &[Record]) -> Stamps {
    let is_syn = |it: &&Record| it.conn == conn && it.flags & flag::SYN != 0;
    let Some(arrived) = seen.iter().find(is_syn) else {
        return Stamps::Shifted(0);
    };
    let syns = || sent.iter().filter(is_syn);
    if arrived.ts_val == 0 {
        return Stamps::Useless;
    }
    if syns().any(|it| it.ts_val == arrived.ts_val) {
        return Stamps::Shifted(0);
    }
    let of = |all: &[Record]| -> HashSet<(u32, Likeness)> {
        let all = all.iter().filter(|it| it.conn == conn);
        all.map(|it| (it.ts_val, likeness(it))).collect()
    };
    let (left, received) = (of(sent), of(seen));
    for it in syns().take(SYNS) {
        let shift = arrived.ts_val.wrapping_sub(it.ts_val);
        let back = |(stamp, like): &(u32, Likeness)| (stamp.wrapping_sub(shift), *like);
        let found = received
            .iter()
            .filter(|it| left.contains(&back(it)))
            .count();
        if found > 1 && 2 * found > received.len() {
            return Stamps::Shifted(shift);
        }
    }
    if syns().any(|it| it.raw_seq == arrived.raw_seq) {
        return Stamps::Useless;
    }
    Stamps::Shifted(0)
}

/// The maximum number of SYNs compared per connection.
const SYNS: usize = 8;

/// Joins packets by connection and timestamp; if the path removes or replaces timestamps, by their
/// numbers and in order.
#[must_use]
pub fn join(sent: &[Record], seen: &[Record]) -> StageSamples {
    let mut samples: Vec<_> = sent
        .iter()
        .map(|&sent| Sample { sent, seen: None })
        .collect();
    let mut by_stamp = HashMap::new();
    let mut by_likeness: HashMap<Likeness, VecDeque<usize>> = HashMap::new();
    for (at, it) in sent.iter().enumerate() {
        by_stamp.insert((it.conn, it.ts_val), at);
        by_likeness.entry(likeness(it)).or_default().push_back(at);
    }
    let mut of_conn: HashMap<u8, Stamps> = HashMap::new();
    let mut joined = StageSamples::default();
    for it in seen {
        let stamps = of_conn
            .entry(it.conn)
            .or_insert_with(|| stamps(it.conn, sent, seen));
        let found = match *stamps {
            Stamps::Shifted(shift) if it.ts_val != 0 => {
                let stamp = it.ts_val.wrapping_sub(shift);
                by_stamp.get(&(it.conn, stamp)).copied()
            }
            _ => by_likeness.get_mut(&likeness(it)).and_then(|alike| {
                // The last of several copies is matched to what was sent last.
                let open = alike.iter().position(|at| samples[*at].seen.is_none());
                alike.drain(..open.unwrap_or(alike.len().saturating_sub(1)));
                alike.front().copied()
            }),
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

/// A direction of the path: the packets that one end sent.
#[derive(Debug, Default)]
pub struct Direction {
    /// The stages in which this end acknowledges.
    pub stages: Vec<StageSamples>,
    /// The stages in which this end sends data.
    pub of_data: Vec<StageSamples>,
}

impl Direction {
    /// The direction of an end's ACKs.
    #[must_use]
    pub fn of(records: &[StageRecords], acks: End) -> Self {
        let joined = |it: &StageRecords| {
            let (from, to): (&Records, &Records) = match acks {
                End::Client => (&it.client, &it.server),
                End::Server => (&it.server, &it.client),
            };
            join(&from.sent, &to.seen)
        };
        let (of_acks, of_data): (Vec<_>, Vec<_>) = records.iter().partition(|it| it.acks == acks);
        Self {
            stages: of_acks.into_iter().map(joined).collect(),
            of_data: of_data.into_iter().map(joined).collect(),
        }
    }

    /// All packets of the stages in which this end acknowledges.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.stages.iter().flat_map(|it| &it.samples)
    }

    /// The packets with this phase and role.
    pub fn of_phase(&self, phase: Phase, role: Role) -> impl Iterator<Item = &Sample> {
        let wanted = move |it: &&Sample| it.sent.phase == phase && it.sent.role == role;
        self.samples().filter(wanted)
    }

    /// The number of lost packets with these phases and this role.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Origin;
    use crate::segment::Segment;

    /// A handshake and ten segments, of connection 1.
    fn sent() -> Vec<Record> {
        let packet = |n: u32| {
            let segment = Segment {
                seq: 1000 + 100 * n,
                flags: if n == 0 { flag::SYN } else { flag::ACK },
                payload: u16::from(n > 1) * 100,
                ..Segment::default()
            };
            let origin = Origin { seq: 1000, ack: 0 };
            Record {
                ts_val: (1 << 20) | (n + 1),
                ..Record::of(&segment, u64::from(n), 1, origin)
            }
        };
        (0..12).map(packet).collect()
    }

    fn joined(rewrite: impl Fn(usize, Record) -> Record) -> StageSamples {
        let sent = sent();
        let seen = sent.iter().enumerate();
        // One packet is lost.
        let seen = seen.filter(|(n, _)| *n != 6).map(|(n, it)| rewrite(n, *it));
        join(&sent, &seen.collect::<Vec<_>>())
    }

    #[test]
    fn rewritten_timestamps_are_no_proxy() {
        let shift = |by: u32| {
            move |_: usize, it: Record| Record {
                ts_val: it.ts_val.wrapping_add(by),
                ..it
            }
        };
        let own = |n: usize, it: Record| Record {
            ts_val: 77 * (n as u32 + 3) % 1000,
            ..it
        };
        let none = |_: usize, it: Record| Record { ts_val: 0, ..it };
        // The numbers are shifted as well.
        let both = |_: usize, it: Record| Record {
            ts_val: it.ts_val.wrapping_add(3),
            raw_seq: it.raw_seq.wrapping_add(3),
            ..it
        };
        for joined in [
            joined(shift(0)),
            joined(shift(1)),
            joined(shift(u32::MAX - 5)),
            joined(own),
            joined(none),
            joined(both),
        ] {
            assert_eq!((joined.made.len(), joined.copies), (0, 0));
            let lost: Vec<_> = joined.samples.iter().map(Sample::is_lost).collect();
            let wanted: Vec<_> = (0..12).map(|n| n == 6).collect();
            assert_eq!(lost, wanted);
        }
    }

    /// A proxy counts milliseconds, and acknowledges when it likes.
    #[test]
    fn a_proxy_is_told_from_them() {
        let proxy = |n: usize, it: Record| Record {
            ts_val: 500_000 + n as u32,
            raw_seq: it.raw_seq.wrapping_add(12_345),
            ack: it.ack + u32::from(n > 0) * 3,
            ..it
        };
        let joined = joined(proxy);
        assert_eq!(joined.made.len(), 11);
        assert_eq!(joined.copies, 0);
    }

    #[test]
    fn copies_without_timestamps_are_copies() {
        let sent: Vec<_> = sent();
        let seen = sent.iter().flat_map(|it| [Record { ts_val: 0, ..*it }; 2]);
        let joined = join(&sent, &seen.collect::<Vec<_>>());
        assert_eq!((joined.made.len(), joined.copies), (0, 12));
    }
}
