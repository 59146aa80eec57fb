//! The part of a record about nodes.

use ackwise_scenario::record::NodeRecord;

use super::super::Clock;
use super::Measured;
use crate::clock::seconds;

/// Name for all nodes together, where the stack's work cannot be told apart.
const WHOLE_MACHINE: &str = "(softirq of the whole machine)";

pub(super) fn nodes(measured: &Measured<'_>) -> Vec<NodeRecord> {
    if measured.clock == Clock::Virtual {
        return Vec::new();
    }
    let scenario = measured.scenario;
    let mut nodes: Vec<NodeRecord> = scenario
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let mut process_ns = 0;
            let mut has_processes = false;
            for (paths, outcome) in measured.paths.iter().zip(&measured.outcomes) {
                for (at, used) in [
                    (paths.from, outcome.cpu_from_ns),
                    (paths.to, outcome.cpu_to_ns),
                ] {
                    if at == index {
                        has_processes = true;
                        process_ns += used;
                    }
                }
            }
            let ends = measured.wired.iter().filter_map(|wired| {
                let link = &scenario.links[wired.link];
                let end = link.between.iter().position(|name| *name == node.name)?;
                Some(wired.emulated.as_ref()?.stack_cpu_ns[end])
            });
            let stack: Vec<u64> = ends.collect();
            NodeRecord {
                name: node.name.clone(),
                cpu_process_s: has_processes.then(|| seconds(process_ns)),
                cpu_stack_s: (!stack.is_empty()).then(|| seconds(stack.iter().sum())),
                energy_j: None,
            }
        })
        .collect();
    if measured.wired.iter().all(|wired| wired.emulated.is_none()) {
        nodes.push(NodeRecord {
            name: WHOLE_MACHINE.to_owned(),
            cpu_stack_s: Some(measured.softirq_s),
            ..NodeRecord::default()
        });
    }
    nodes
}
