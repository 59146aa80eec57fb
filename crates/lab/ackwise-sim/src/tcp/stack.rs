//! A policy of `policy/` in place of the receiver's delayed-ACK rule: `environment = "stack"`.
//!
//! Each data segment makes a candidate: the ACK that would leave now. It goes
//! through [`Flow`], the same code that thins ACKs at an interface, so the
//! contract is the same C code: an ACK that it does not let be withheld leaves at once. A
//! held ACK is not kept as a packet, since the ACK that leaves later is regenerated
//! and acknowledges more; only its deadline is kept.

use ackwise_policy::{AskedAckRate, Flow, FlowConfig, Handshake, Segment, Verdict, sys};
use ackwise_queue::Nanos;

use crate::packet::{AckOption, Packet};
use crate::segment;
use crate::time::NEVER;

/// A policy with its bounds, and the window scale that a real stack would use.
#[derive(Debug, Clone, Copy)]
pub struct StackPolicy {
    /// The policy and the bounds of its holds.
    pub flow: FlowConfig,
    /// The window scale, from [`segment::window_shift`].
    pub shift: u8,
    /// Whether the sender's requests for an ACK rate are obeyed.
    pub obey_ack_rate: bool,
}

impl PartialEq for StackPolicy {
    fn eq(&self, other: &StackPolicy) -> bool {
        let key = |p: &StackPolicy| {
            let raw = p.flow.raw();
            let holds = [raw.hold_max_us, raw.hold_min_us, raw.hold_rtt_shift];
            (
                raw.policy.policy,
                raw.policy.param,
                holds,
                p.shift,
                p.obey_ack_rate,
            )
        };
        key(self) == key(other)
    }
}

impl Eq for StackPolicy {}

/// The verdict on a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Candidate {
    /// It leaves; twice if it duplicates a held one.
    Send { twice: bool },
    /// It waits for a newer one, or for its deadline.
    Held,
}

/// A flow under a policy at the receiver.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stack {
    handshake: Handshake,
    flow: Option<Flow>,
    /// The ACK rate that the sender has requested.
    asked: AskedAckRate,
    /// When a held ACK is re-emitted.
    deadline: Option<Nanos>,
    /// Number of routers on the data's path.
    routers: u8,
}

const US: Nanos = 1_000;

impl Stack {
    /// Handles a SYN, a SYN-ACK, or a segment of the sender, for the handshake's state.
    pub fn shake(&mut self, policy: &StackPolicy, p: &Packet, acks: bool, now: Nanos) {
        let seen = segment::segment(p, policy.shift);
        self.handshake.on_segment(&seen, acks, now / US);
    }

    /// Sets the path's length; senders start at a TTL of 64.
    pub fn set_hops(&mut self, hops: u8) {
        self.routers = hops.saturating_sub(1).min(63);
    }

    /// Handles a data segment.
    pub fn on_data(&mut self, policy: &StackPolicy, p: &Packet, now: Nanos) {
        let flow = match &mut self.flow {
            Some(flow) => flow,
            None => {
                self.shake(policy, p, false, now);
                self.flow.insert(Flow::new(Some(&self.handshake), now / US))
            }
        };
        let mut raw = *segment::segment(p, policy.shift).raw();
        raw.ttl -= self.routers;
        let seen = Segment::from_raw(raw);
        flow.on_data(&policy.flow, &seen, 1, now / US);
        if policy.obey_ack_rate {
            self.asked.on_bit(flow, &seen);
        }
        if policy.obey_ack_rate
            && let Some(option) = p.ack_option()
        {
            match option {
                AckOption::Rate(option) => {
                    self.asked.on_data(flow, &seen, option);
                }
                AckOption::Ratio(segments) => self.asked.on_ratio(segments),
                AckOption::Permitted => {}
            }
        }
    }

    /// Decides whether this ACK may wait.
    pub fn candidate(&mut self, policy: &StackPolicy, ack: &Packet, now: Nanos) -> Candidate {
        let send = Candidate::Send { twice: false };
        let Some(flow) = &mut self.flow else {
            return send;
        };
        let seen = segment::segment(ack, policy.shift);
        let config = match policy.obey_ack_rate {
            true => self.asked.config(&policy.flow, flow, &seen),
            false => policy.flow,
        };
        let decision = flow.on_ack(&config, &seen, now / US);
        if decision.supersedes || decision.verdict == Verdict::Send {
            self.deadline = None;
        }
        match decision.verdict {
            Verdict::Send => Candidate::Send {
                twice: decision.twice,
            },
            Verdict::Hold { us } => self.hold(Nanos::from(us), now),
            // A receiver cannot know that a newer ACK follows, so it holds the ACK instead.
            Verdict::Drop => {
                let us = flow.hold_us(&policy.flow);
                self.hold(Nanos::from(us), now)
            }
        }
    }

    /// Holds an ACK; the deadline is that of the oldest news.
    fn hold(&mut self, us: Nanos, now: Nanos) -> Candidate {
        self.deadline.get_or_insert(now + us * US);
        Candidate::Held
    }

    /// Whether an ACK is held.
    pub fn holds(&self) -> bool {
        self.deadline.is_some()
    }

    pub fn deadline(&self) -> Nanos {
        self.deadline.unwrap_or(NEVER)
    }

    /// Records that this ACK leaves for the held one, as the deadline has come.
    pub fn left(&mut self, policy: &StackPolicy, ack: &Packet, now: Nanos) {
        self.deadline = None;
        if let Some(flow) = &mut self.flow {
            flow.on_sent(&policy.flow, &segment::segment(ack, policy.shift), now / US);
        }
    }
}

// The contract's hold bound never exceeds what RFC 1122 §4.2.3.2 allows.
const _: () = assert!(sys::AW_HOLD_MAX_US <= 500_000);
