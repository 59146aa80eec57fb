//! A policy at an interface: the thinner that `bpf/` is on a live host.
//!
//! It decides with the same code (`policy/include/ackwise/flow.h`, through
//! `ackwise-policy`) and keeps what it withholds as the BPF program does: at
//! most one ACK of a flow, the newest; the deadline is that of the oldest news.
//! What cannot go wrong here (no slot, no timer, a silent daemon) has no
//! counter, and a deadline is met to the nanosecond.

use std::collections::BTreeMap;
use std::sync::Arc;

use ackwise_policy::{
    AskedAckRate, FlowConfig, Handshake, HostedFlow, Segment, UPLINK_FULL_BYTES, UPLINK_LOOK_US,
    Uplink, Verdict,
};
use ackwise_queue::Nanos;
use ackwise_switchback::{Counters, FlowRtt};
use serde::Serialize;

use crate::own_policy::OwnPolicy;
use crate::packet::{AckOption, Flags, Packet};
use crate::packet_handle::PacketHandle;
use crate::segment::segment;

/// Which way packets cross the interface, seen from the ACKs to thin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The ACKs pass here and may be withheld.
    Acks,
    /// The data pass here.
    Data,
}

/// What the engine does with an ACK that came by.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// This one goes before.
    pub first: Option<PacketHandle>,
    /// This one goes on.
    pub pass: Option<PacketHandle>,
    /// A copy of it goes before it.
    pub twice: bool,
    /// This one is not needed any more.
    pub gone: Option<PacketHandle>,
}

/// What becomes of the withheld ACK when data carry a newer one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// It goes before the data.
    pub first: Option<PacketHandle>,
    /// It is not needed any more.
    pub gone: Option<PacketHandle>,
}

impl Outcome {
    fn pass(handle: PacketHandle) -> Outcome {
        Outcome {
            pass: Some(handle),
            ..Outcome::default()
        }
    }

    fn gone(handle: PacketHandle) -> Outcome {
        Outcome {
            gone: Some(handle),
            ..Outcome::default()
        }
    }
}

/// Counters, as `ackwise status` names them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HookStats {
    /// Name of the policy.
    pub policy: String,
    /// ACKs that were candidates or passed.
    pub acks: u64,
    /// Their bytes.
    pub ack_bytes: u64,
    /// Data segments seen.
    pub data_segments: u64,
    /// Bytes of their payload. This and the next two are for experiments, and in no record.
    #[serde(skip)]
    pub data_bytes: u64,
    /// Bytes in the direction of the ACKs that are no ACK of these flows.
    #[serde(skip)]
    pub other_bytes: u64,
    /// Bytes of withheld ACKs that left by themselves.
    #[serde(skip)]
    pub reemitted_bytes: u64,
    /// Not sent at once.
    pub withheld: u64,
    /// Their bytes.
    pub withheld_bytes: u64,
    /// Withheld ones that left by themselves when their time was over.
    pub reemitted: u64,
    /// Withheld ones that a newer ACK made needless when it left.
    pub superseded: u64,
    /// Withheld ones that a newer withheld one took the place of.
    pub replaced: u64,
    /// ACKs sent twice, since they duplicated a withheld one.
    pub cloned: u64,
    /// ACKs and data of flows that are not kept (yet).
    pub no_flow: u64,
    /// Requests for an ACK rate that were obeyed.
    #[serde(skip_serializing_if = "is_zero")]
    pub ack_rate_requests: u64,
    /// By reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Debug, Default)]
struct Entry {
    flow: Option<HostedFlow>,
    /// What the sender of the data has asked for.
    asked: AskedAckRate,
    handshake: Option<Handshake>,
    held: Option<PacketHandle>,
    deadline: Nanos,
    /// When the last ACK came.
    last: Nanos,
}

fn entry(entries: &mut Vec<Entry>, connection: usize) -> &mut Entry {
    if entries.len() <= connection {
        entries.resize_with(connection + 1, Entry::default);
    }
    &mut entries[connection]
}

/// What leaves by the interface, and whether others than the ACKs fill the link behind it.
/// The datapath's loader looks at the same times.
#[derive(Debug, Default)]
struct Egress {
    /// Bytes of ACKs and of short packets.
    rest: u64,
    /// Bytes of others' full packets.
    others: u64,
    uplink: Uplink,
    looked: Nanos,
    shared: u32,
}

impl Egress {
    /// Looks as often as was due by `now`.
    fn run_to(&mut self, now: Nanos) {
        while now - self.looked >= UPLINK_LOOK_US * 1000 {
            self.looked += UPLINK_LOOK_US * 1000;
            self.shared = self.uplink.look(self.rest, self.others);
        }
    }
}

/// A policy at an interface.
#[derive(Debug)]
pub struct InterfacePolicy {
    config: FlowConfig,
    /// Asked instead of the policy of `config`.
    own: Option<Arc<dyn OwnPolicy>>,
    /// Unless the ACKs come in here: then their uplink is elsewhere.
    egress: Option<Egress>,
    /// Numbers of the flows that it is for; all if empty.
    flows: Vec<u32>,
    /// Names the place, for the record.
    pub place: String,
    entries: Vec<Entry>,
    reasons: Vec<u64>,
    stats: HookStats,
    paused: bool,
    obeys_ack_rate: bool,
}

impl InterfacePolicy {
    /// A policy that has seen nothing.
    pub fn new(place: String, policy: &str, config: FlowConfig) -> InterfacePolicy {
        InterfacePolicy {
            config,
            own: None,
            egress: None,
            flows: Vec::new(),
            place,
            entries: Vec::new(),
            reasons: vec![0; ackwise_policy::Reason::all().len()],
            stats: HookStats {
                policy: policy.to_owned(),
                ..HookStats::default()
            },
            paused: false,
            obeys_ack_rate: false,
        }
    }

    /// Lets every ACK pass and goes on following flows, or ends that. What is held leaves at its
    /// deadline, or when a newer ACK has left.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// The round-trip times of the flows as they are known here.
    pub fn round_trips(&self, now: Nanos) -> impl Iterator<Item = FlowRtt> + '_ {
        self.entries.iter().filter_map(move |entry| {
            Some(FlowRtt {
                srtt_us: entry.flow.as_ref()?.srtt_us()?,
                idle_ms: now.saturating_sub(entry.last) / 1_000_000,
            })
        })
    }

    /// What an experiment counts.
    pub fn counters(&self) -> Counters {
        let stats = &self.stats;
        let left = stats.reemitted + stats.cloned;
        Counters {
            data_bytes: stats.data_bytes,
            other_bytes: stats.other_bytes,
            acks: stats.acks,
            ack_bytes: stats.ack_bytes,
            withheld: stats.withheld,
            packets_saved: stats.withheld.saturating_sub(left),
            bytes_saved: stats.withheld_bytes.saturating_sub(stats.reemitted_bytes),
            // ACKs that data carry are counted apart here, a host is not simulated.
            ..Counters::default()
        }
    }

    /// Something passes in the direction of the ACKs that is none.
    pub fn on_other(&mut self, packet: &Packet) {
        self.stats.other_bytes += u64::from(packet.wire_len);
    }

    /// With a policy of the caller's, instead of that of the configuration.
    pub fn deciding(mut self, own: Arc<dyn OwnPolicy>) -> InterfacePolicy {
        self.stats.policy = own.name();
        self.own = Some(own);
        self
    }

    /// The sender's requests for an ACK rate are obeyed, or they are not.
    pub fn obeying_ack_rate(mut self, obeys: bool) -> InterfacePolicy {
        self.obeys_ack_rate = obeys;
        self
    }

    /// For these flows alone, if there are any.
    pub fn only(mut self, flows: Vec<u32>) -> InterfacePolicy {
        self.flows = flows;
        self
    }

    /// The ACKs leave here, so that it is known what else does.
    pub fn at_egress(mut self) -> InterfacePolicy {
        self.egress = Some(Egress::default());
        self
    }

    /// A packet that is no pure ACK of a flow of its own leaves.
    pub fn other_leaves(&mut self, bytes: u32, now: Nanos) {
        if let Some(egress) = &mut self.egress {
            egress.run_to(now);
            if bytes >= UPLINK_FULL_BYTES {
                egress.others += u64::from(bytes);
            } else {
                egress.rest += u64::from(bytes);
            }
        }
    }

    /// Pure ACKs leave.
    fn acks_leave(&mut self, bytes: u32) {
        if let Some(egress) = &mut self.egress {
            egress.rest += u64::from(bytes);
        }
    }

    /// Whether others fill the link that the ACKs leave by, as far as is known.
    fn shared(&mut self, now: Nanos) -> u32 {
        self.egress.as_mut().map_or(0, |egress| {
            egress.run_to(now);
            egress.shared
        })
    }

    /// Whether it is for this flow.
    pub fn is_for(&self, flow: u32) -> bool {
        self.flows.is_empty() || self.flows.contains(&flow)
    }

    /// What was counted so far.
    pub fn stats(&self) -> HookStats {
        let reasons = ackwise_policy::Reason::all()
            .zip(&self.reasons)
            .filter(|(_, count)| **count > 0)
            .map(|(reason, count)| (reason.name(), *count));
        HookStats {
            reasons: reasons.collect(),
            ..self.stats.clone()
        }
    }

    /// Forgets a connection whose number is about to be used again.
    pub fn forget(&mut self, connection: usize) {
        if let Some(entry) = self.entries.get_mut(connection) {
            *entry = Entry::default();
        }
    }

    /// When the withheld ACK of a connection has to leave.
    pub fn deadline(&self, connection: usize) -> Option<Nanos> {
        let entry = self.entries.get(connection)?;
        entry.held.as_ref().map(|_| entry.deadline)
    }

    /// A packet of the data's direction passes.
    pub fn on_data(&mut self, connection: usize, packet: &Packet, shift: u8, now: Nanos) {
        let config = self.config;
        let us = now / 1000;
        let entry = entry(&mut self.entries, connection);
        let segment = segment(packet, shift);
        if packet.flags.contains(Flags::SYN) {
            entry.handshake(&segment, packet, false, us);
            return;
        }
        match &mut entry.flow {
            Some(flow) => {
                flow.on_data(&config, &segment, 1, us);
                if self.obeys_ack_rate {
                    let asked = entry.asked.on_bit(flow.flow(), &segment);
                    self.stats.ack_rate_requests += u64::from(asked);
                }
                if self.obeys_ack_rate
                    && let Some(said) = packet.ack_option()
                {
                    let taken = match said {
                        AckOption::Rate(said) => entry.asked.on_data(flow.flow(), &segment, said),
                        AckOption::Ratio(segments) => {
                            entry.asked.on_ratio(segments);
                            true
                        }
                        AckOption::Permitted => false,
                    };
                    self.stats.ack_rate_requests += u64::from(taken);
                }
                self.stats.data_segments += u64::from(packet.payload > 0);
                self.stats.data_bytes += u64::from(packet.payload);
            }
            None => {
                entry.handshake(&segment, packet, false, us);
                self.stats.no_flow += 1;
            }
        }
    }

    /// A packet of the ACKs' direction: leave, or be withheld?
    pub fn on_ack(
        &mut self,
        connection: usize,
        handle: PacketHandle,
        shift: u8,
        now: Nanos,
    ) -> Outcome {
        let shared = self.shared(now);
        let outcome = self.decide(connection, handle, shift, now, shared);
        for left in [&outcome.first, &outcome.pass].into_iter().flatten() {
            let copies = 1 + u32::from(outcome.twice);
            if left.is_pure_ack() {
                self.acks_leave(copies * left.wire_len);
            } else {
                self.other_leaves(left.wire_len, now);
            }
        }
        outcome
    }

    fn decide(
        &mut self,
        connection: usize,
        handle: PacketHandle,
        shift: u8,
        now: Nanos,
        shared: u32,
    ) -> Outcome {
        let config = self.config;
        let us = now / 1000;
        let segment = segment(&handle, shift);
        let entry = entry(&mut self.entries, connection);
        if handle.flags.contains(Flags::SYN) {
            entry.handshake(&segment, &handle, true, us);
            return Outcome::pass(handle);
        }
        if entry.flow.is_none() {
            if !handle.is_pure_ack() {
                entry.handshake(&segment, &handle, true, us);
                self.stats.no_flow += 1;
                return Outcome::pass(handle);
            }
            let own = self.own.as_ref().map(|own| own.for_flow());
            entry.flow = Some(HostedFlow::new(entry.handshake.as_ref(), us, own));
        }
        let Some(flow) = &mut entry.flow else {
            return Outcome::pass(handle);
        };
        let first = entry.held.take_if(|_| flow.releases(&segment));
        if let Some(first) = &first {
            flow.on_sent(&config, &crate::segment::segment(first, shift), us);
            self.stats.reemitted += 1;
            self.stats.reemitted_bytes += u64::from(first.wire_len);
        }
        flow.set_shared(shared);
        let config = match self.obeys_ack_rate {
            true => entry.asked.config(&config, flow.flow(), &segment),
            false => config,
        };
        let decision = flow.on_ack(&config, &segment, us);
        entry.last = now;
        self.stats.acks += 1;
        self.stats.ack_bytes += u64::from(handle.wire_len);
        if let Some(count) = self.reasons.get_mut(decision.reason.id() as usize) {
            *count += 1;
        }
        match decision.verdict {
            Verdict::Send => {
                let gone = entry.held.take_if(|_| decision.supersedes);
                self.stats.superseded += u64::from(gone.is_some());
                self.stats.cloned += u64::from(decision.twice);
                Outcome {
                    first,
                    pass: Some(handle),
                    twice: decision.twice,
                    gone,
                }
            }
            Verdict::Hold { .. } | Verdict::Drop if self.paused => {
                flow.on_sent(&config, &segment, us);
                entry.pass_instead(&mut self.stats, first, handle)
            }
            Verdict::Hold { us } => {
                let until = now.saturating_add(u64::from(us) * 1000);
                entry.hold(&mut self.stats, first, handle, until)
            }
            Verdict::Drop => {
                self.stats.withheld += 1;
                self.stats.withheld_bytes += u64::from(handle.wire_len);
                Outcome {
                    first,
                    ..Outcome::gone(handle)
                }
            }
        }
    }

    /// Data pass that carry an ACK of this connection.
    pub fn on_carried(
        &mut self,
        connection: usize,
        packet: &Packet,
        shift: u8,
        now: Nanos,
    ) -> Carried {
        let config = self.config;
        let none = Carried::default();
        let Some(entry) = self.entries.get_mut(connection) else {
            return none;
        };
        let Some(flow) = entry.flow.as_mut() else {
            return none;
        };
        let carrier = segment(packet, shift);
        let first = entry.held.take_if(|_| flow.releases(&carrier));
        if let Some(first) = &first {
            flow.on_sent(&config, &segment(first, shift), now / 1000);
            self.stats.reemitted += 1;
            self.stats.reemitted_bytes += u64::from(first.wire_len);
        }
        let decision = flow.on_ack(&config, &carrier, now / 1000);
        entry.last = now;
        if let Some(count) = self.reasons.get_mut(decision.reason.id() as usize) {
            *count += 1;
        }
        let gone = entry.held.take_if(|_| decision.supersedes);
        self.stats.superseded += u64::from(gone.is_some());
        if let Some(first) = &first {
            self.acks_leave(first.wire_len);
        }
        Carried { first, gone }
    }

    /// The withheld ACK of a connection whose time is over by `now`.
    pub fn release(&mut self, connection: usize, shift: u8, now: Nanos) -> Option<PacketHandle> {
        let config = self.config;
        let entry = self.entries.get_mut(connection)?;
        if entry.held.is_none() || entry.deadline > now {
            return None;
        }
        let handle = entry.held.take()?;
        if let Some(flow) = &mut entry.flow {
            flow.on_sent(&config, &segment(&handle, shift), now / 1000);
        }
        self.stats.reemitted += 1;
        self.stats.reemitted_bytes += u64::from(handle.wire_len);
        self.acks_leave(handle.wire_len);
        Some(handle)
    }
}

impl Entry {
    /// Withholds an ACK until then, or until the deadline of older news.
    fn hold(
        &mut self,
        stats: &mut HookStats,
        first: Option<PacketHandle>,
        handle: PacketHandle,
        until: Nanos,
    ) -> Outcome {
        stats.withheld += 1;
        stats.withheld_bytes += u64::from(handle.wire_len);
        let Some(held) = &mut self.held else {
            self.deadline = until;
            self.held = Some(handle);
            return Outcome {
                first,
                ..Outcome::default()
            };
        };
        stats.replaced += 1;
        let older = if handle.ack >= held.ack {
            std::mem::replace(held, handle)
        } else {
            handle
        };
        Outcome::gone(older)
    }

    /// Lets an ACK leave that the policy would withhold, as the datapath does without a living
    /// daemon: what is held has become needless.
    fn pass_instead(
        &mut self,
        stats: &mut HookStats,
        first: Option<PacketHandle>,
        handle: PacketHandle,
    ) -> Outcome {
        let gone = self.held.take_if(|held| held.ack <= handle.ack);
        stats.superseded += u64::from(gone.is_some());
        Outcome {
            first,
            pass: Some(handle),
            gone,
            ..Outcome::default()
        }
    }

    /// A SYN, or a segment of a flow that is not kept yet.
    fn handshake(&mut self, segment: &Segment, packet: &Packet, acks: bool, us: u64) {
        let syn = packet.flags.contains(Flags::SYN);
        if syn && !packet.flags.contains(Flags::ACK) {
            self.flow = None;
            self.asked = AskedAckRate::default();
        }
        if syn {
            self.handshake.get_or_insert_default();
        }
        if let Some(handshake) = &mut self.handshake {
            handshake.on_segment(segment, acks, us);
        }
    }
}
