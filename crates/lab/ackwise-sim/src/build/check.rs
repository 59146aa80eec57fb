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

/// Checks all runs of a scenario for what only the simulator knows to be impossible.
///
/// # Errors
/// Something in the scenario has no model here; it is named with line and column.
pub fn check(scenario: &Scenario, runs: &[RunSpec]) -> Result<(), SimError> {
    for flow in &scenario.flows {
        if flow.socket.mptcp {
            return Err(SimError::at(
                scenario,
                &format!("flow.{}.socket.mptcp", flow.name),
                &flow.name,
                "asks for Multipath TCP, which the simulator has no model of; remove 'mptcp'",
            ));
        }
        let mut named: Vec<&str> = runs.iter().map(|run| flow.cc(run)).collect();
        named.dedup();
        let have: Vec<&str> = match &flow.quic {
            Some(_) => quic_endpoint::CONGESTION_CONTROLS.to_vec(),
            None => congestion_controls().collect(),
        };
        if let Some(cc) = named.iter().find(|cc| !have.contains(cc)) {
            let have = have.join(", ");
            let runs = if flow.quic.is_some() {
                "runs QUIC"
            } else {
                "runs"
            };
            return Err(SimError::at(
                scenario,
                &format!("flow.{}.cc", flow.name),
                &flow.name,
                &format!(
                    "{runs} with '{cc}', which the simulator has no model of (it has {have}); \
                     choose one of these, e.g. with --cc"
                ),
            ));
        }
    }
    for node in &scenario.nodes {
        let foreign = |(name, value): &(&String, &String)| {
            !BUILT_IN_SYSCTLS.contains(&(name.as_str(), value.as_str()))
        };
        if let Some((name, _)) = node.sysctl.iter().find(foreign) {
            return Err(SimError::at(
                scenario,
                &format!("node.{}.sysctl.{name}", node.name),
                &node.name,
                &format!(
                    "sets '{name}', and the simulator has no kernel; \
                     remove it and use 'socket' and [flow.model] of the flows"
                ),
            ));
        }
    }
    if scenario.record.capture {
        return Err(SimError::at(
            scenario,
            "record.capture",
            "capture",
            "is not made by the simulator; remove it from [record]",
        ));
    }
    for placement in scenario.arms.iter().flat_map(|arm| &arm.placements) {
        place::policy(scenario, placement)?;
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
