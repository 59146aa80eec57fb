//! The contract, asked by a queue: which ACK may a later one stand for?
//!
//! Every ACK of a flow is shown to `aw_flow_on_ack()` when it is taken in, under
//! a policy that withholds whatever the contract lets be withheld. What it answers
//! is whether the ACK may be taken out later. When such an ACK leaves the queue
//! after all, `aw_flow_left()` is told; so the guards that count from what the
//! sender has really got (AccECN's counter, a window that opens) hold here as well.

use ackwise_policy::{Config, Flow, FlowConfig, Handshake, Policy, Reason, Segment, Verdict};

use super::flows::FlowState;
use crate::Nanos;

/// The hold that a sender may be used to from elsewhere, the contract's default.
const HOLD_US: u32 = 25_000;
/// A minute is the longest timeout that a sender needs to have (RFC 6298 §2.5).
const MAX_WAIT_US: u32 = 60_000_000;

/// The contract's answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judgement {
    /// A later ACK may stand for it.
    pub may_go: bool,
    /// It repeats one that may go, and that must not go any more: the sender
    /// would count one duplicate too few.
    pub twice: bool,
    pub reason: Option<Reason>,
}

#[derive(Debug)]
pub(super) struct Contract {
    /// Without it nothing may go.
    config: Option<FlowConfig>,
}

impl Contract {
    pub fn new() -> Self {
        // 256 segments is the most that `every-n` lets one ACK stand for.
        let config = Policy::by_name("every-n").ok().and_then(|policy| {
            let mut config = Config::new(policy);
            config.set_number("n", 256).ok()?;
            config.set_number("warm", 0).ok()?;
            Some(FlowConfig::new(&config))
        });
        Self { config }
    }

    /// A SYN or SYN-ACK of the direction of the ACKs: a connection begins.
    pub fn opens<K>(state: &mut FlowState<K>, segment: &Segment, now: Nanos) {
        state.contract = None;
        state.floor = None;
        state.waited = 0;
        let mut handshake = Handshake::default();
        handshake.on_segment(segment, true, now / 1000);
        state.handshake = Some(handshake);
    }

    /// Must the newest ACK that may go stay, since this one does not say all that it says?
    pub fn releases<K>(state: &FlowState<K>, segment: &Segment) -> bool {
        let flow = state.contract.as_ref();
        flow.is_some_and(|flow| flow.releases(segment))
    }

    /// Does this one stand for any that waits?
    pub fn counts<K>(state: &FlowState<K>, segment: &Segment) -> bool {
        let flow = state.contract.as_ref();
        flow.is_none_or(|flow| flow.counts(segment))
    }

    pub fn judge<K>(&self, state: &mut FlowState<K>, segment: &Segment, now: Nanos) -> Judgement {
        let Some(config) = &self.config else {
            return Judgement {
                may_go: false,
                twice: false,
                reason: None,
            };
        };
        let handshake = state.handshake.as_ref();
        // What an ACK waits here is what a hold is elsewhere: its sender's timeout is longer by it.
        let waited =
            u32::try_from(state.waited / 1000).map_or(MAX_WAIT_US, |us| us.min(MAX_WAIT_US));
        let config = config.with_hold(0, HOLD_US + waited, 0);
        let flow = state
            .contract
            .get_or_insert_with(|| Flow::new(handshake, now / 1000));
        let decision = flow.on_ack(&config, segment, now / 1000);
        Judgement {
            may_go: decision.verdict != Verdict::Send,
            twice: decision.twice,
            reason: Some(decision.reason),
        }
    }

    /// One that might have gone has left the queue.
    pub fn on_sent<K>(&self, state: &mut FlowState<K>, segment: &Segment, now: Nanos) {
        if let (Some(config), Some(flow)) = (&self.config, &mut state.contract) {
            flow.on_sent(config, segment, now / 1000);
        }
    }
}
