//! Checks for what only the simulator knows to be impossible.

use ackwise_scenario::{App, RunSpec, Scenario};

use super::place;
use crate::error::SimError;
use crate::quic_endpoint;
use crate::tcp::congestion_controls;

/// Kernel parameters that ask for what the simulator does anyway: each connection starts
/// without metrics of others, and advertises the MSS that it has.
const BUILT_IN_SYSCTLS: [(&str, &str); 2] = [
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.route.min_adv_mss", "48"),
];

/// Checks the policies of all arms.
///
/// # Errors
/// A policy or a parameter does not exist; it is named with line and column.
pub fn policies(scenario: &Scenario) -> Result<(), SimError> {
    for placement in scenario.arms.iter().flat_map(|arm| &arm.placements) {
        place::policy(scenario, placement)?;
    }
    Ok(())
}

/// Checks a run for what only the simulator knows to be impossible; `seen` is the scenario as the
/// run sees it (`Scenario::at`).
///
/// # Errors
/// Something in the run has no model here; it is named with line and column.
pub fn run(scenario: &Scenario, seen: &Scenario, spec: &RunSpec) -> Result<(), SimError> {
    let refused = |path: &str, name: &str, what: &str| {
        Err(SimError::in_run(scenario, spec, path, name, what))
    };
    for flow in &seen.flows {
        let socket = format!("flow.{}.socket", flow.name);
        if flow.socket.mptcp {
            let what =
                "asks for Multipath TCP, which the simulator has no model of; remove 'mptcp'";
            return refused(&format!("{socket}.mptcp"), &flow.name, what);
        }
        if flow.socket.send_buffer.is_some() {
            let what = "limits its send buffer, which the simulator has no model of; remove \
                        'send_buffer', or limit the window by 'receive_buffer' or by 'window_limit' \
                        in [flow.model]";
            return refused(&format!("{socket}.send_buffer"), &flow.name, what);
        }
        let cc = flow.cc(spec);
        let have: Vec<&str> = match &flow.quic {
            Some(_) => quic_endpoint::CONGESTION_CONTROLS.to_vec(),
            None => congestion_controls().collect(),
        };
        if !have.contains(&cc) {
            let have = have.join(", ");
            let runs = if flow.quic.is_some() {
                "runs QUIC"
            } else {
                "runs"
            };
            let what = format!(
                "{runs} with '{cc}', which the simulator has no model of (it has {have}); choose one \
                 of these, e.g. with --cc"
            );
            return refused(&format!("flow.{}.cc", flow.name), &flow.name, &what);
        }
    }
    for link in &seen.links {
        if link.offload {
            let what = "asks for the offloads of devices, which the simulator has no model of; remove \
                        'offload'";
            return refused(&format!("link.{}.offload", link.name), &link.name, what);
        }
    }
    for node in &seen.nodes {
        let foreign = |(name, value): &(&String, &String)| {
            !BUILT_IN_SYSCTLS.contains(&(name.as_str(), value.as_str()))
        };
        if let Some((name, _)) = node.sysctl.iter().find(foreign) {
            let what = format!(
                "sets '{name}', and the simulator has no kernel; remove it and use 'socket' and \
                 [flow.model] of the flows"
            );
            return refused(
                &format!("node.{}.sysctl.{name}", node.name),
                &node.name,
                &what,
            );
        }
    }
    if seen.record.capture {
        let what = "is not made by the simulator; remove it";
        return refused("record.capture", "capture", what);
    }
    Ok(())
}

/// Refuses boxes that select short flows: a box knows connections by number, and theirs change.
pub(super) fn boxes(scenario: &Scenario) -> Result<(), SimError> {
    let directions = scenario.links.iter().flat_map(|l| [&l.forward, &l.reverse]);
    for direction in directions {
        let police = direction.police.as_ref().map(|police| &police.what);
        let shape = direction.shape.as_ref().map(|shape| &shape.what);
        let mux = direction.mux.as_ref().map(|mux| &mux.what);
        for name in [police, shape, mux]
            .into_iter()
            .flatten()
            .flat_map(|what| &what.flows)
        {
            let flow = scenario.flows.iter().find(|flow| flow.name == *name);
            if flow.is_some_and(|flow| matches!(flow.app, App::ShortFlows { .. })) {
                let what = "opens a connection per transfer, and the simulator's police, shape and mux \
                            cannot select these; leave 'flows' out there, or use app = \"bulk\"";
                let path = format!("flow.{name}");
                return Err(SimError::at(scenario, &path, name, what));
            }
        }
    }
    Ok(())
}
