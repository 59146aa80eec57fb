//! The contract for a queue: which ACK may be superseded by a later one.
//!
//! Every ACK of a flow is passed to `aw_flow_on_ack()` when it is enqueued, under a policy that
//! withholds whatever the contract allows to be withheld. The answer says whether the ACK may later
//! be removed. If such an ACK leaves the queue after all, `aw_flow_on_sent()` is called, so the
//! rules that depend on what the sender has really received (AccECN's counter, a window that opens)
//! hold here, too.

use ackwise_policy::{Config, Flow, FlowConfig, Handshake, Policy, Reason, Segment, Verdict};

use super::flows::FlowState;
use crate::Nanos;

/// The contract's default bound on a hold, which a sender may be used to from elsewhere.
const HOLD_US: u32 = 25_000;
/// A sender's timeout need never exceed a minute (RFC 6298 §2.5).
const MAX_WAIT_US: u32 = 60_000_000;

/// The contract's answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judgement {
    /// A later ACK may supersede this one.
    pub is_removable: bool,
    /// It duplicates an ACK that may be removed and now must stay: otherwise the sender would count
    /// one duplicate too few.
    pub twice: bool,
    pub reason: Option<Reason>,
}

#[derive(Debug)]
pub(super) struct Contract {
    /// If `None`, nothing may be removed.
    config: Option<FlowConfig>,
}

impl Contract {
    pub fn new() -> Self {
        // 256 is the largest number of segments that `every-n` lets one ACK cover.
        let config = Policy::by_name("every-n").ok().and_then(|policy| {
            let mut config = Config::new(policy);
            config.set_number("n", 256).ok()?;
            config.set_number("warm", 0).ok()?;
            Some(FlowConfig::new(&config))
        });
        Self { config }
    }

    /// Takes a SYN or SYN-ACK of the ACK direction: a connection begins.
    pub fn on_syn<K>(state: &mut FlowState<K>, segment: &Segment, now: Nanos) {
        state.contract = None;
        state.floor = None;
        state.waited = 0;
        let mut handshake = Handshake::default();
        handshake.on_segment(segment, true, now / 1000);
        state.handshake = Some(handshake);
    }

    /// Whether the newest removable ACK must stay, because this one does not say all that it says.
    pub fn releases<K>(state: &FlowState<K>, segment: &Segment) -> bool {
        let flow = state.contract.as_ref();
        flow.is_some_and(|flow| flow.releases(segment))
    }

    /// Whether this ACK can supersede any that waits.
    pub fn counts<K>(state: &FlowState<K>, segment: &Segment) -> bool {
        let flow = state.contract.as_ref();
        flow.is_none_or(|flow| flow.counts(segment))
    }

    pub fn judge<K>(&self, state: &mut FlowState<K>, segment: &Segment, now: Nanos) -> Judgement {
        let Some(config) = &self.config else {
            return Judgement {
                is_removable: false,
                twice: false,
                reason: None,
            };
        };
        let handshake = state.handshake.as_ref();
        // The wait of an ACK here has the effect of a hold elsewhere: it lengthens its sender's
        // timeout.
        let waited =
            u32::try_from(state.waited / 1000).map_or(MAX_WAIT_US, |us| us.min(MAX_WAIT_US));
        let config = config.with_hold(0, HOLD_US + waited, 0);
        let flow = state
            .contract
            .get_or_insert_with(|| Flow::new(handshake, now / 1000));
        let decision = flow.on_ack(&config, segment, now / 1000);
        Judgement {
            is_removable: decision.verdict != Verdict::Send,
            twice: decision.twice,
            reason: Some(decision.reason),
        }
    }

    /// Notes that an ACK that could have been removed has left the queue.
    pub fn on_sent<K>(&self, state: &mut FlowState<K>, segment: &Segment, now: Nanos) {
        if let (Some(config), Some(flow)) = (&self.config, &mut state.contract) {
            flow.on_sent(config, segment, now / 1000);
        }
    }
}
