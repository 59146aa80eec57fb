//! How a sender interprets the segments that reach it.

use std::collections::HashMap;

use super::Found;
use crate::packet::{Flow, Protocol, Segment, Side, flag};
use crate::schedule::Run;
use crate::script::MSS;

/// A segment that the sender accepts.
#[derive(Debug)]
pub(super) struct AcceptedSegment<'a> {
    pub at_ns: u64,
    pub step: usize,
    pub segment: &'a Segment,
}

/// Whether `a` has reached `b`, modulo 2³² (RFC 9293 §3.4).
pub(super) fn reaches(a: u32, b: u32) -> bool {
    a.wrapping_sub(b) as i32 >= 0
}

#[derive(Debug, Default)]
struct Endpoint {
    ts_recent: Option<u32>,
}

/// The arrivals that a sender accepts: RFC 7323 §3.2 and §5.3 (timestamps), RFC 5925 §7.3
/// (signatures), RFC 9293 §3.10.7.4 (numbers that were never sent).
pub(super) fn accepted_segments<'a>(run: &Run, found: &'a [Found]) -> Vec<AcceptedSegment<'a>> {
    let mut endpoints: HashMap<Flow, Endpoint> = HashMap::new();
    let mut accepted = Vec::new();
    let acks = found
        .iter()
        .filter(|it| it.segment.from == Side::Receiver && it.segment.protocol != Protocol::Udp);
    for it in acks {
        let segment = &it.segment;
        let endpoint = endpoints.entry(segment.flow).or_default();
        if segment.flags & (flag::SYN | flag::RST) == 0 {
            let unsigned = run
                .script
                .signed
                .is_some_and(|it| segment.option(it).is_none());
            if unsigned || reaches(segment.ack, sent_by(run, it).wrapping_add(1)) {
                continue;
            }
            match (segment.ts_val(), endpoint.ts_recent) {
                (None, _) if run.script.timestamps => continue,
                (Some(now), Some(recent)) if !reaches(now, recent) => continue,
                (Some(now), _) => endpoint.ts_recent = Some(now),
                _ => {}
            }
        }
        accepted.push(AcceptedSegment {
            at_ns: it.at_ns,
            step: it.step,
            segment,
        });
    }
    accepted
}

/// The sender's next sequence number at the time of an arrival.
fn sent_by(run: &Run, arrival: &Found) -> u32 {
    let steps = run.script.steps.iter();
    let sent = steps.filter(|step| {
        step.segment.from == Side::Sender
            && step.segment.flow == arrival.segment.flow
            && run.start_ns + step.at_ns <= arrival.at_ns
    });
    let ends = sent.map(|step| {
        let segment = &step.segment;
        let opens = u32::from(segment.flags & flag::SYN != 0);
        let ends = u32::from(segment.flags & flag::FIN != 0);
        segment
            .seq
            .wrapping_add(segment.payload.len() as u32 + opens + ends)
    });
    let latest = ends.reduce(|a, b| if reaches(a, b) { a } else { b });
    // A case that sends no data has nothing to compare with.
    latest.unwrap_or(arrival.segment.ack)
}

/// What a sender knows from SACK blocks (RFC 6675 §3).
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    acked: Option<u32>,
    blocks: Vec<(u32, u32)>,
}

impl Scoreboard {
    pub fn observe(&mut self, segment: &Segment) {
        if self.acked.is_none_or(|it| reaches(segment.ack, it)) {
            self.acked = Some(segment.ack);
        }
        self.blocks.extend(segment.sack());
    }

    /// Whether everything between the edges is known to have arrived.
    pub fn covers(&self, (left, right): (u32, u32)) -> bool {
        let mut at = match self.acked {
            Some(acked) if reaches(acked, left) => acked,
            _ => left,
        };
        while !reaches(at, right) {
            let next = self
                .blocks
                .iter()
                .find(|(from, to)| reaches(at, *from) && !reaches(at, *to));
            let Some((_, to)) = next else { return false };
            at = *to;
        }
        true
    }
}

/// Segments after the handshake, which count for ECN.
fn after_handshake<'a>(segments: &[&'a Segment]) -> impl Iterator<Item = &'a Segment> {
    segments
        .iter()
        .copied()
        .filter(|it| it.flags & (flag::SYN | flag::RST) == 0)
}

/// Bytes acknowledged by ACKs with ECE.
pub(super) fn ece_bytes(segments: &[&Segment]) -> u64 {
    let mut una: Option<u32> = None;
    let mut marked = 0;
    for segment in after_handshake(segments) {
        let from = una.unwrap_or(segment.ack);
        if reaches(segment.ack, from) {
            if segment.flags & flag::ECE != 0 {
                marked += u64::from(segment.ack.wrapping_sub(from));
            }
            una = Some(segment.ack);
        }
    }
    marked
}

/// The number of CE marks by RFC 9768 §3.2.2: the sum of the changes of ACE. The first ACK after
/// the handshake's gives the initial value.
fn ace(segments: &[&Segment], safe: bool) -> u64 {
    let mut before: Option<(u32, u8)> = None;
    let mut marks = 0;
    for segment in after_handshake(segments).skip(1) {
        let (una, counter) = before.unwrap_or((segment.ack, segment.ace()));
        if !reaches(segment.ack, una) {
            continue;
        }
        let change = u64::from(segment.ace().wrapping_sub(counter) & 7);
        let newly = u64::from(segment.ack.wrapping_sub(una).div_ceil(MSS));
        // The largest number that fits the packets and the three bits.
        let wrapped = safe && newly > 7;
        marks += if wrapped {
            newly - ((newly - change) & 7)
        } else {
            change
        };
        before = Some((segment.ack, segment.ace()));
    }
    marks
}

pub(super) fn ace_count(segments: &[&Segment]) -> u64 {
    ace(segments, false)
}

pub(super) fn ace_safe(segments: &[&Segment]) -> u64 {
    ace(segments, true)
}

/// The counters of the AccECN option: bytes with ECT(0), CE and ECT(1) (RFC 9768 §3.2.3).
pub(super) fn accecn_counters(segment: &Segment) -> [Option<u32>; 3] {
    let mut counters = [None; 3];
    for (kind, places) in [(172, [0, 1, 2]), (174, [2, 1, 0])] {
        let body = segment.option(kind).unwrap_or_default();
        for (place, bytes) in places.into_iter().zip(body.chunks_exact(3)) {
            counters[place] = Some(u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]));
        }
    }
    counters
}
