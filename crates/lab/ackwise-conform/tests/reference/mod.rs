//! A filter that keeps all rules, and breaks one of them on request.
//!
//! It removes a waiting ACK if a later one of its flow carries everything that it carried. It is
//! written to test the suite, from the RFCs and not from the code that the suite judges.

mod packets;

use std::collections::{HashMap, VecDeque};

use ackwise_conform::{Flow, Protocol, QueueFilter, Segment, flag, read};

pub use packets::Mutation;
use packets::{accecn_fields, change_bytes, changes_bytes, options, reaches};

const MS: u64 = 1_000_000;
const MSS: u32 = 1000;
/// Number of segments for which ACE is safe (RFC 9768 §3.2.2.5).
const ACE_SAFE: u32 = 7;

/// A waiting ACK.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    arrived_ns: u64,
    segment: Option<Segment>,
    may_go: bool,
    /// The number acknowledged by the previous ACK of the flow.
    floor: u32,
}

/// The state of a connection.
#[derive(Debug, Default)]
struct State {
    newest: Option<Segment>,
    /// The sender's highest number, from its data.
    sent: Option<u32>,
    /// Segments acknowledged since it started.
    started: u32,
    advanced_ns: u64,
    accecn: bool,
}

/// The filter.
#[derive(Debug, Default)]
pub struct Reference {
    broken: Option<Mutation>,
    queue: VecDeque<Waiting>,
    flows: HashMap<Flow, State>,
    count: u64,
    passed_ns: u64,
}

impl Reference {
    pub fn new(broken: Option<Mutation>) -> Self {
        Self {
            broken,
            ..Self::default()
        }
    }

    fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    /// The key of a connection.
    fn key(&self, mut flow: Flow) -> Flow {
        match self.broken {
            Some(Mutation::MixesPorts) => flow.port = 0,
            Some(Mutation::MixesPeerPorts) => flow.peer_port = 0,
            Some(Mutation::MixesHosts) => flow.host = 0,
            _ => {}
        }
        flow
    }

    fn after(&self, a: u32, b: u32) -> bool {
        if self.is(Mutation::NumbersWithoutModulo) {
            return a > b;
        }
        a != b && reaches(a, b)
    }

    /// Whether it is a pure ACK.
    fn is_ack(&self, segment: &Segment) -> bool {
        let ignored = match self.broken {
            Some(Mutation::IgnoresFin) => flag::FIN,
            Some(Mutation::IgnoresRst) => flag::RST,
            Some(Mutation::IgnoresUrg) => flag::URG,
            Some(Mutation::IgnoresReserved) => flag::RESERVED,
            Some(Mutation::ByLength | Mutation::OneByteIsNoData) => flag::PSH,
            _ => 0,
        };
        let ecn = flag::ECE | flag::CWR | flag::AE;
        let most = match self.broken {
            Some(Mutation::ByLength) => 40,
            Some(Mutation::OneByteIsNoData) => 1,
            _ => 0,
        };
        segment.protocol != Protocol::Udp
            && segment.payload.len() <= most
            && segment.flags & !(ecn | ignored) == flag::ACK
    }

    /// Whether all its options are understood.
    fn understands(&self, segment: &Segment) -> bool {
        let known = |kind: u8| {
            matches!(kind, 5 | 8 | 172 | 174)
                || match self.broken {
                    Some(Mutation::IgnoresUnknownOptions) => true,
                    Some(Mutation::IgnoresMptcp) => kind == 30,
                    Some(Mutation::IgnoresMd5) => kind == 19,
                    Some(Mutation::IgnoresAo) => kind == 29,
                    Some(Mutation::IgnoresUserTimeout) => kind == 28,
                    _ => false,
                }
        };
        match options(segment) {
            Some(found) => found.into_iter().all(known),
            None => self.is(Mutation::IgnoresMalformed),
        }
    }

    /// Whether a SACK option carries nothing that must leave.
    fn sack_may_go(&self, segment: &Segment, newest: &Segment) -> bool {
        let blocks = segment.sack();
        if blocks.is_empty() {
            // Every ACK leaves until the loss is repaired.
            return newest.sack().is_empty() || self.broken.is_some_and(Mutation::is_of_sack);
        }
        let below = !self.after(blocks[0].0, segment.ack);
        let above = blocks.len() > 1
            && reaches(blocks[0].0, blocks[1].0)
            && reaches(blocks[1].1, blocks[0].1);
        match self.broken {
            Some(
                Mutation::IgnoresSack | Mutation::IgnoresSackEdges | Mutation::NewestBlocksWin,
            ) => true,
            Some(Mutation::IgnoresDsackBelow) => below,
            Some(Mutation::IgnoresDsackAbove) => above,
            Some(Mutation::SackOnlyOfDuplicates) => segment.ack != newest.ack,
            _ => false,
        }
    }

    /// Whether the ECN flags carry nothing new.
    fn ecn_stays(&self, segment: &Segment, newest: &Segment) -> bool {
        let ignored = match self.broken {
            Some(Mutation::IgnoresEce) => flag::ECE,
            Some(Mutation::IgnoresCwr) => flag::CWR,
            Some(Mutation::IgnoresAe) => flag::AE,
            Some(Mutation::IgnoresAce) => flag::ECE | flag::CWR | flag::AE,
            _ => 0,
        };
        let ecn = (flag::ECE | flag::CWR | flag::AE) & !ignored;
        (segment.flags ^ newest.flags) & ecn == 0
    }

    fn timestamps_go_on(&self, segment: &Segment, newest: &Segment) -> bool {
        match (segment.ts_val(), newest.ts_val()) {
            (Some(now), Some(before)) => {
                self.is(Mutation::IgnoresOldTimestamps)
                    || if self.is(Mutation::TimestampsWithoutModulo) {
                        now >= before
                    } else {
                        reaches(now, before)
                    }
            }
            (None, None) => true,
            (None, Some(before)) => {
                self.is(Mutation::IgnoresMissingTimestamps)
                    || self.is(Mutation::MissingTimestampIsZero) && reaches(0, before)
            }
            (Some(_), None) => false,
        }
    }

    fn counters_stay(&self, segment: &Segment, newest: &Segment) -> bool {
        self.is(Mutation::IgnoresCounters)
            || accecn_fields(segment).is_superset(&accecn_fields(newest))
            || self.is(Mutation::CountersByKind)
                && !accecn_fields(newest).is_empty()
                && !accecn_fields(segment).is_empty()
    }

    fn acceptable(&self, segment: &Segment, state: &State) -> bool {
        self.is(Mutation::IgnoresUnsentNumbers)
            || state.sent.is_none_or(|sent| reaches(sent, segment.ack))
    }

    /// Whether a later ACK may replace this one, judged by the earlier ones.
    fn may_go(&self, segment: &Segment, state: &State, now_ns: u64) -> bool {
        let Some(newest) = &state.newest else {
            return false;
        };
        let is_plain = self.is_ack(segment)
            && self.understands(segment)
            && (segment.ip_ecn != 3 || self.is(Mutation::IgnoresMarks));
        let idle_ns = now_ns - state.advanced_ns;
        let starts = state.started < 10 && !self.is(Mutation::IgnoresStart);
        let restarts = idle_ns > 500 * MS && !self.is(Mutation::IgnoresRestart);
        let same_number = segment.ack == newest.ack;
        let moves = self.after(segment.ack, newest.ack)
            || same_number && self.is(Mutation::IgnoresDuplicates)
            || same_number && self.is(Mutation::NewestBlocksWin) && !segment.sack().is_empty();
        is_plain
            && !starts
            && !restarts
            && self.acceptable(segment, state)
            && moves
            && segment.window == newest.window
            && self.ecn_stays(segment, newest)
            && self.sack_may_go(segment, newest)
            && self.timestamps_go_on(segment, newest)
            && self.counters_stay(segment, newest)
    }

    /// Whether a later ACK carries everything that an earlier one carried.
    fn stands_for(&self, later: &Segment, earlier: &Waiting, state: &State) -> bool {
        let Some(before) = &earlier.segment else {
            return false;
        };
        let number = self.after(later.ack, before.ack)
            || self.is(Mutation::NewestArrivalWins)
            || self.is(Mutation::IgnoresDuplicates) && later.ack == before.ack
            || self.is(Mutation::NewestBlocksWin)
                && later.ack == before.ack
                && !before.sack().is_empty();
        let covers = later.ack.wrapping_sub(earlier.floor);
        let ace = !state.accecn
            || covers <= ACE_SAFE * MSS
            || matches!(
                self.broken,
                Some(Mutation::IgnoresAceSafety | Mutation::IgnoresAce | Mutation::IgnoresAe)
            );
        let sack = before.sack().iter().all(|block| {
            self.broken.is_some_and(Mutation::is_of_sack) || later.sack().contains(block)
        });
        later.flags & (flag::SYN | flag::RST) == 0
            && number
            && self.acceptable(later, state)
            && self.ecn_stays(later, before)
            && self.timestamps_go_on(later, before)
            && self.counters_stay(later, before)
            && sack
            && ace
    }

    /// Whether a later ACK carries all ECN and timestamp information of the waiting one.
    fn says_as_much(&self, later: &Segment, index: usize) -> bool {
        let Some(before) = &self.queue[index].segment else {
            return true;
        };
        self.ecn_stays(later, before)
            && self.timestamps_go_on(later, before)
            && self.counters_stay(later, before)
    }

    /// Mutations that drop a segment regardless of the rules.
    fn is_dropped(&mut self, segment: &Segment, state: &State, now_ns: u64) -> bool {
        let ack = segment.is_pure_ack();
        self.count += u64::from(ack);
        let same = (state.newest.as_ref()).is_some_and(|newest| newest.ack == segment.ack);
        let wider = (state.newest.as_ref()).is_some_and(|it| segment.window > it.window);
        let below = (state.newest.as_ref()).is_some_and(|it| it.seq == segment.seq + 1);
        match self.broken {
            Some(Mutation::EachSecond) => ack && self.count.is_multiple_of(2),
            Some(Mutation::Polices) => {
                let excess = ack && now_ns < self.passed_ns + 4 * MS;
                self.passed_ns = if excess { self.passed_ns } else { now_ns };
                excess
            }
            Some(Mutation::PolicesSyns) => {
                segment.flags == flag::SYN | flag::ACK && !self.queue.is_empty()
            }
            Some(Mutation::PolicesByLength) => segment.protocol == Protocol::Udp,
            Some(Mutation::DropsZeroWindows) => ack && segment.window == 0 && !same,
            Some(Mutation::DropsProbeAnswers) => ack && segment.window == 0 && same,
            Some(Mutation::DropsWindowUpdates) => ack && same && wider,
            Some(Mutation::DropsDuplicates) => ack && same,
            Some(Mutation::DropsKeepAlives) => below,
            Some(Mutation::DropsIpOptions) => segment.protocol == Protocol::TcpBehindOptions,
            Some(Mutation::DropsFirst) => ack && state.newest.is_none(),
            _ => false,
        }
    }

    fn learn(&mut self, key: Flow, segment: &Segment, now_ns: u64) {
        let ignores_idle = self.is(Mutation::IgnoresRestart);
        let state = self.flows.entry(key).or_default();
        let idle = now_ns - state.advanced_ns > 500 * MS && !ignores_idle;
        if segment.flags & flag::SYN != 0 {
            state.accecn = segment.flags & flag::AE != 0;
            state.newest = None;
            return;
        }
        let moved = match &state.newest {
            Some(newest) if newest.ack == segment.ack || !reaches(segment.ack, newest.ack) => 0,
            Some(newest) => segment.ack.wrapping_sub(newest.ack).div_ceil(MSS),
            None => 1,
        };
        if moved > 0 {
            if idle {
                state.started = 0;
            }
            state.started = state.started.saturating_add(moved);
            state.advanced_ns = now_ns;
        }
        if state.sent.is_none_or(|sent| reaches(sent, segment.ack)) {
            state.newest = Some(segment.clone());
        }
    }
}

impl QueueFilter for Reference {
    fn enqueue(&mut self, now_ns: u64, bytes: Vec<u8>) {
        let mut waiting = Waiting {
            bytes,
            arrived_ns: now_ns,
            segment: None,
            may_go: false,
            floor: 0,
        };
        waiting.segment = read(&waiting.bytes);
        let Some(segment) = waiting.segment.clone() else {
            self.queue.push_back(waiting);
            return;
        };
        let key = self.key(segment.flow);
        let state = self.flows.remove(&key).unwrap_or_default();
        if self.is_dropped(&segment, &state, now_ns) {
            self.flows.insert(key, state);
            self.learn(key, &segment, now_ns);
            return;
        }
        waiting.may_go = self.may_go(&segment, &state, now_ns);
        waiting.floor = (state.newest.as_ref()).map_or(segment.ack, |newest| newest.ack);
        let mut place = None;
        if segment.flags & flag::ACK != 0 && segment.protocol != Protocol::Udp {
            let mut index = 0;
            while index < self.queue.len() {
                let earlier = &self.queue[index];
                let same = (earlier.segment.as_ref()).is_some_and(|it| self.key(it.flow) == key);
                if same && earlier.may_go && self.stands_for(&segment, earlier, &state) {
                    waiting.floor = earlier.floor;
                    self.queue.remove(index);
                    place.get_or_insert(index);
                    continue;
                }
                // The sender counts a duplicate and its original.
                let ack = earlier.segment.as_ref().map(|it| it.ack);
                if same && ack == Some(segment.ack) && !self.is(Mutation::ForgetsOriginals) {
                    self.queue[index].may_go &= matches!(
                        self.broken,
                        Some(Mutation::IgnoresDuplicates | Mutation::NewestBlocksWin)
                    );
                }
                // An ACK with information that the later one lacks must leave before it.
                if same && !self.says_as_much(&segment, index) {
                    self.queue[index].may_go = false;
                }
                index += 1;
            }
        }
        self.flows.insert(key, state);
        self.learn(key, &segment, now_ns);
        if let Some(mutation) = self.broken.filter(|it| changes_bytes(*it)) {
            waiting.bytes = change_bytes(mutation, segment, waiting.bytes);
        }
        match place.filter(|_| self.is(Mutation::TakesThePlace)) {
            Some(index) => self.queue.insert(index, waiting),
            None => self.queue.push_back(waiting),
        }
    }

    fn dequeue(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let first = self.queue.front()?;
        if self.is(Mutation::HoldsTooLong) && now_ns < first.arrived_ns + 80 * MS {
            return None;
        }
        self.queue.pop_front().map(|it| it.bytes)
    }

    fn sees_data(&mut self, _now_ns: u64, packet: &[u8]) {
        let Some(segment) = read(packet) else { return };
        let opens = u32::from(segment.flags & (flag::SYN | flag::FIN) != 0);
        let end = segment
            .seq
            .wrapping_add(segment.payload.len() as u32 + opens);
        let key = self.key(segment.flow);
        let state = self.flows.entry(key).or_default();
        if segment.flags & flag::RST == 0 && state.sent.is_none_or(|sent| reaches(end, sent)) {
            state.sent = Some(end);
        }
    }
}
