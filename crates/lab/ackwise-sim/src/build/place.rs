//! Places the policies of an arm.

use std::sync::Arc;
use std::time::Duration;

use ackwise_policy::{Capabilities, Config, ConfigError, FlowConfig, sys};
use ackwise_scenario::{Arm, Environment, Flow, Placement, Position, Scenario, ScenarioError};

use super::plan::Plan;
use crate::error::SimError;
use crate::interface_policy::{InterfacePolicy, Side};
use crate::line::Line;
use crate::own_policy::OwnPolicy;
use crate::segment;
use crate::tcp;

/// The policy of a placement with its parameters.
pub(super) fn policy(scenario: &Scenario, placement: &Placement) -> Result<Config, ScenarioError> {
    let at = |e: ConfigError| scenario.error_at(&placement.policy_span, e.to_string());
    let policy = ackwise_policy::Policy::by_name(&placement.policy).map_err(at)?;
    let capabilities = match placement.environment {
        Environment::Datapath => Capabilities::DATAPATH,
        Environment::Stack => Capabilities::STACK,
    };
    policy
        .check(capabilities)
        .map_err(|e| scenario.error_at(&placement.policy_span, e.to_string()))?;
    let mut config = Config::new(policy);
    for setting in &placement.set {
        config
            .set(&setting.name, &setting.value.to_string())
            .map_err(|error| {
                let span = match error {
                    ConfigError::UnknownParam { .. } => &setting.name_span,
                    _ => &setting.value_span,
                };
                scenario.error_at(span, error.to_string())
            })?;
    }
    Ok(config)
}

/// The policy under the contract, with the placement's hold bound.
fn bounded(config: &Config, placement: &Placement) -> FlowConfig {
    let bounds = FlowConfig::new(config);
    let Some(hold) = placement.hold else {
        return bounds;
    };
    let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    let least = placement.hold_min.map_or(sys::AW_HOLD_MIN_US, micros);
    bounds.with_hold(least, micros(hold), sys::AW_HOLD_RTT_SHIFT)
}

/// Whether the arm has this flow's sender send cwnd hints.
pub(super) fn tells(arm: &Arm, flow: &Flow) -> bool {
    arm.placements
        .iter()
        .any(|place| place.cwnd_hint && place.node == flow.from)
}

/// The placement that obeys requests for a flow's ACK rate.
fn obeying<'a>(arm: &'a Arm, flow: &Flow) -> Option<&'a Placement> {
    arm.placements.iter().find(|place| {
        place.obey_ack_rate
            && place.node == flow.to
            && (place.flows.is_empty() || place.flows.contains(&flow.name))
    })
}

/// Whether a flow's receiver says that it obeys requests for an ACK rate.
pub(super) fn obeys_ack_rate(arm: &Arm, flow: &Flow) -> bool {
    obeying(arm, flow).is_some()
}

/// Refuses a receiver whose stretch ACKs would be counted as lost ACKs from the start.
pub(super) fn check_ack_ratio(scenario: &Scenario, arm: &Arm, flow: &Flow) -> Result<(), SimError> {
    let (Some(_), Some(place)) = (flow.ack_congestion_control, obeying(arm, flow)) else {
        return Ok(());
    };
    let n = policy(scenario, place)?.get("n").unwrap_or(0);
    if n <= 2 {
        return Ok(());
    }
    let message = format!(
        "flow `{}` has 'ack_congestion_control', whose ACK Ratio starts at 2: an ACK that covers more \
         segments counts as a lost ACK, and n is {n}; write set = {{ n = 2 }}",
        flow.name
    );
    Err(scenario.error_at(&place.policy_span, message).into())
}

/// The policy of a flow's receiver, if the arm has one in its stack.
pub(super) fn stack_policy(
    scenario: &Scenario,
    arm: &Arm,
    flow: &Flow,
    window: u64,
) -> Result<Option<tcp::StackPolicy>, SimError> {
    let mut at = arm
        .placements
        .iter()
        .filter(|p| p.environment == Environment::Stack && p.node == flow.to);
    let Some(placement) = at.next() else {
        return Ok(None);
    };
    if at.next().is_some() {
        let message = format!(
            "the stack of '{}' already has a policy; remove one of the two",
            flow.to
        );
        return Err(scenario.error_at(&placement.policy_span, message).into());
    }
    let scaling = flow.socket.window_scaling.unwrap_or(true);
    Ok(Some(tcp::StackPolicy {
        flow: bounded(&policy(scenario, placement)?, placement),
        shift: segment::window_shift(window, scaling),
        obey_ack_rate: placement.obey_ack_rate,
    }))
}

/// Places the policies of an arm at their interfaces.
pub(super) fn interface_policies(
    plan: &Plan<'_>,
    arm: &Arm,
    own: Option<&Arc<dyn OwnPolicy>>,
    lines: &mut [Line],
) -> Result<Vec<InterfacePolicy>, SimError> {
    let mut interface_policies = Vec::new();
    for placement in &arm.placements {
        let scenario = plan.scenario;
        // These are in the receivers: see `stack_policy`.
        if placement.environment == Environment::Stack {
            continue;
        }
        let config = policy(scenario, placement)?;
        let flow_config = bounded(&config, placement);
        let link = plan.link(&placement.link).unwrap_or(0);
        // The direction that leaves the node, and the one that enters it.
        let out = 2 * link + usize::from(scenario.links[link].between[0] != placement.node);
        let number = u16::try_from(interface_policies.len()).unwrap_or(u16::MAX);
        // ACKs come in at the sender and go out elsewhere.
        let (leaving, entering) = match placement.position {
            Position::Sender => (Side::Data, Side::Acks),
            Position::Receiver | Position::Router => (Side::Acks, Side::Data),
        };
        let placed =
            lines[out].place(true, number, leaving) & lines[out ^ 1].place(false, number, entering);
        if !placed {
            let message = format!(
                "the interface of '{}' on link '{}' already has a policy; remove one of the two",
                placement.node, placement.link
            );
            return Err(scenario.error_at(&placement.policy_span, message).into());
        }
        let place = format!("{}/{}", placement.node, placement.link);
        let named = |flow: &Flow| placement.flows.contains(&flow.name);
        let flows = (0..).zip(&scenario.flows).filter(|(_, flow)| named(flow));
        let only = flows.map(|(number, _)| number).collect();
        let policy = InterfacePolicy::new(place, &placement.policy, flow_config)
            .only(only)
            .obeying_ack_rate(placement.obey_ack_rate);
        let policy = match own {
            Some(own) => policy.deciding(Arc::clone(own)),
            None => policy,
        };
        let fair = scenario.links[link].separates_flows_of(&placement.node);
        interface_policies.push(match placement.position {
            Position::Receiver | Position::Router if !fair => policy.at_egress(),
            _ => policy,
        });
    }
    Ok(interface_policies)
}
