//! A policy at an interface: the counterpart of the thinner in `bpf/` on a live host.
//!
//! It decides with the same code (`policy/include/ackwise/flow.h`, through
//! `ackwise-policy`) and holds ACKs as the BPF program does: at most one ACK per flow, the
//! newest, with the deadline of the oldest news. Failures that cannot happen here (no slot,
//! no timer, a silent daemon) have no counter, and a deadline is met to the nanosecond.

use std::collections::BTreeMap;
use std::sync::Arc;

use ackwise_policy::{
    AskedAckRate, FlowConfig, Handshake, HostedFlow, Segment, UPLINK_LOOK_US, Uplink, Verdict,
};
use ackwise_queue::Nanos;
use ackwise_switchback::{Counters, FlowRtt};
use serde::Serialize;

use crate::own_policy::OwnPolicy;
use crate::packet::{AckOption, Flags, Packet};
use crate::packet_handle::PacketHandle;
use crate::segment::segment;

/// Which direction of the flow crosses the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The ACKs pass here and may be withheld.
    Acks,
    /// The data pass here.
    Data,
}

/// What the engine has to do after a policy has seen an ACK.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// A previously held ACK that leaves first.
    pub first: Option<PacketHandle>,
    /// The ACK that leaves.
    pub pass: Option<PacketHandle>,
    /// Whether a copy of `pass` leaves before it.
    pub twice: bool,
    /// An ACK that is no longer needed.
    pub superseded: Option<PacketHandle>,
}

/// What becomes of the held ACK when data carry a newer one.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The held ACK, if it leaves before the data.
    pub first: Option<PacketHandle>,
    /// The held ACK, if it is no longer needed.
    pub superseded: Option<PacketHandle>,
}

impl Outcome {
    fn pass(handle: PacketHandle) -> Outcome {
        Outcome {
            pass: Some(handle),
            ..Outcome::default()
        }
    }

    fn superseded(handle: PacketHandle) -> Outcome {
        Outcome {
            superseded: Some(handle),
            ..Outcome::default()
        }
    }
}

/// Counters, with the names of `ackwise status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HookStats {
    /// Name of the policy.
    pub policy: String,
    /// ACKs that were candidates or passed.
    pub acks: u64,
    /// Bytes of `acks`.
    pub ack_bytes: u64,
    /// Data segments seen.
    pub data_segments: u64,
    /// Bytes of their payload. This and the next two fields serve experiments and are in no record.
    #[serde(skip)]
    pub data_bytes: u64,
    /// Bytes in the direction of the ACKs that are not ACKs of these flows.
    #[serde(skip)]
    pub other_bytes: u64,
    /// Bytes of withheld ACKs that were re-emitted.
    #[serde(skip)]
    pub reemitted_bytes: u64,
    /// ACKs that were not sent at once.
    pub withheld: u64,
    /// Bytes of `withheld`.
    pub withheld_bytes: u64,
    /// Held ACKs that were re-emitted.
    pub reemitted: u64,
    /// Held ACKs that a newer ACK superseded when it left.
    pub superseded: u64,
    /// Held ACKs that a newer held ACK replaced.
    pub replaced: u64,
    /// ACKs sent twice because they duplicated a held one.
    pub cloned: u64,
    /// ACKs and data of flows that have no state (yet).
    pub no_flow: u64,
    /// Requests for an ACK rate that were obeyed.
    #[serde(skip_serializing_if = "is_zero")]
    pub ack_rate_requests: u64,
    /// Decisions by reason.
    pub reasons: BTreeMap<&'static str, u64>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde asks for it
fn is_zero(count: &u64) -> bool {
    *count == 0
}

#[derive(Debug, Default)]
struct Entry {
    flow: Option<HostedFlow>,
    /// The ACK rate that the sender of the data has requested.
    asked: AskedAckRate,
    handshake: Option<Handshake>,
    held: Option<PacketHandle>,
    deadline: Nanos,
    /// When the last ACK arrived.
    last: Nanos,
}

fn entry(entries: &mut Vec<Entry>, connection: usize) -> &mut Entry {
    if entries.len() <= connection {
        entries.resize_with(connection + 1, Entry::default);
    }
    &mut entries[connection]
}

/// What leaves by the interface, and whether other traffic fills the link behind it.
/// The datapath's loader samples at the same times.
#[derive(Debug, Default)]
struct Egress {
    /// Bytes of other traffic, by [`Uplink::others`], and of the rest.
    others: u64,
    rest: u64,
    uplink: Uplink,
    uplink_sampled_at: Nanos,
    shared: u32,
}

impl Egress {
    /// Takes the samples that are due by `now`.
    fn run_to(&mut self, now: Nanos) {
        while now - self.uplink_sampled_at >= UPLINK_LOOK_US * 1000 {
            self.uplink_sampled_at += UPLINK_LOOK_US * 1000;
            self.shared = self.uplink.look(self.rest, self.others);
        }
    }
}

/// A policy at an interface.
#[derive(Debug)]
pub struct InterfacePolicy {
    config: FlowConfig,
    /// The caller's policy, which decides instead of the one in `config`.
    own: Option<Arc<dyn OwnPolicy>>,
    /// `None` where the ACKs come in, because their uplink is elsewhere then.
    egress: Option<Egress>,
    /// Numbers of the flows that the policy applies to; all if empty.
    flows: Vec<u32>,
    /// Name of the place in the record.
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

    /// Lets every ACK pass while still tracking flows, or ends that. A held ACK leaves at its
    /// deadline, or is superseded when a newer ACK leaves.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// The round-trip times of the flows as estimated here.
    pub fn round_trips(&self, now: Nanos) -> impl Iterator<Item = FlowRtt> + '_ {
        self.entries.iter().filter_map(move |entry| {
            Some(FlowRtt {
                srtt_us: entry.flow.as_ref()?.srtt_us()?,
                idle_ms: now.saturating_sub(entry.last) / 1_000_000,
            })
        })
    }

    /// The counters of an experiment.
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
            // ACKs on data have counters of their own, and no host is simulated.
            ..Counters::default()
        }
    }

    /// Counts a packet in the direction of the ACKs that is not an ACK.
    pub fn on_other(&mut self, packet: &Packet) {
        self.stats.other_bytes += u64::from(packet.wire_len);
    }

    /// Uses the caller's policy instead of the configured one.
    pub fn deciding(mut self, own: Arc<dyn OwnPolicy>) -> InterfacePolicy {
        self.stats.policy = own.name();
        self.own = Some(own);
        self
    }

    /// Sets whether the sender's requests for an ACK rate are obeyed.
    pub fn obeying_ack_rate(mut self, obeys: bool) -> InterfacePolicy {
        self.obeys_ack_rate = obeys;
        self
    }

    /// Restricts the policy to these flows; an empty list means all flows.
    pub fn only(mut self, flows: Vec<u32>) -> InterfacePolicy {
        self.flows = flows;
        self
    }

    /// Places the policy where the ACKs leave, so that it sees what else leaves there.
    pub fn at_egress(mut self) -> InterfacePolicy {
        self.egress = Some(Egress::default());
        self
    }

    /// Counts a leaving packet that is not a pure ACK of one of the policy's flows, as
    /// `policy/include/ackwise/uplink.h` says.
    pub fn count_other(&mut self, packet: &Packet, now: Nanos) {
        if let Some(egress) = &mut self.egress {
            egress.run_to(now);
            let is_tcp = !packet.flags.contains(Flags::UDP);
            let others = Uplink::others(packet.wire_len, is_tcp);
            egress.others += u64::from(others);
            egress.rest += u64::from(packet.wire_len - others);
        }
    }

    /// Counts pure ACKs that leave.
    fn count_acks(&mut self, bytes: u32) {
        if let Some(egress) = &mut self.egress {
            egress.rest += u64::from(bytes);
        }
    }

    /// Whether other traffic fills the link by which the ACKs leave, as far as is known.
    fn shared(&mut self, now: Nanos) -> u32 {
        self.egress.as_mut().map_or(0, |egress| {
            egress.run_to(now);
            egress.shared
        })
    }

    /// Whether the policy applies to this flow.
    pub fn is_for(&self, flow: u32) -> bool {
        self.flows.is_empty() || self.flows.contains(&flow)
    }

    /// The counters so far.
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

    /// When the held ACK of a connection has to leave.
    pub fn deadline(&self, connection: usize) -> Option<Nanos> {
        let entry = self.entries.get(connection)?;
        entry.held.as_ref().map(|_| entry.deadline)
    }

    /// Handles a packet in the direction of the data.
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
                    && let Some(option) = packet.ack_option()
                {
                    let taken = match option {
                        AckOption::Rate(option) => {
                            entry.asked.on_data(flow.flow(), &segment, option)
                        }
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

    /// Decides whether a packet in the direction of the ACKs leaves or is withheld.
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
                self.count_acks(copies * left.wire_len);
            } else {
                self.count_other(left, now);
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
                let superseded = entry.held.take_if(|_| decision.supersedes);
                self.stats.superseded += u64::from(superseded.is_some());
                self.stats.cloned += u64::from(decision.twice);
                Outcome {
                    first,
                    pass: Some(handle),
                    twice: decision.twice,
                    superseded,
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
                    ..Outcome::superseded(handle)
                }
            }
        }
    }

    /// Handles data that carry an ACK of this connection.
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
        let superseded = entry.held.take_if(|_| decision.supersedes);
        self.stats.superseded += u64::from(superseded.is_some());
        if let Some(first) = &first {
            self.count_acks(first.wire_len);
        }
        Carried { first, superseded }
    }

    /// Releases the held ACK of a connection if its deadline has come by `now`.
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
        self.count_acks(handle.wire_len);
        Some(handle)
    }
}

impl Entry {
    /// Holds an ACK until `until`, or until the deadline of older news.
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
        Outcome::superseded(older)
    }

    /// Lets an ACK leave that the policy would withhold, as the datapath does when the daemon is
    /// gone. The held ACK is no longer needed then.
    fn pass_instead(
        &mut self,
        stats: &mut HookStats,
        first: Option<PacketHandle>,
        handle: PacketHandle,
    ) -> Outcome {
        let superseded = self.held.take_if(|held| held.ack <= handle.ack);
        stats.superseded += u64::from(superseded.is_some());
        Outcome {
            first,
            pass: Some(handle),
            superseded,
            ..Outcome::default()
        }
    }

    /// Records a SYN, or a segment of a flow that has no state yet.
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
