//! Counters of the machine and of its interfaces, read before and after a run.

use std::fs;

use ackwise_scenario::Scenario;

use crate::error::LabError;
use crate::topology::Topology;

/// Packets that each interface, by its index in the plan, has dropped instead of sending.
pub(super) fn dropped_by_interfaces(topology: &Topology) -> Vec<u64> {
    let mut dropped = vec![0; topology.plan.interfaces.len()];
    for (node, namespace) in topology.namespaces.iter().enumerate() {
        // A thread sees the file of its own namespace.
        let table = namespace.inside(|| {
            fs::read_to_string("/proc/thread-self/net/dev")
                .map_err(LabError::os("cannot read /proc/thread-self/net/dev"))
        });
        for line in table.unwrap_or_default().lines() {
            let Some((name, numbers)) = line.split_once(':') else {
                continue;
            };
            let interface = topology
                .plan
                .interfaces_of(node)
                .find(|(_, interface)| interface.name == name.trim());
            let count = numbers
                .split_whitespace()
                .nth(11)
                .and_then(|number| number.parse().ok());
            if let (Some((index, _)), Some(count)) = (interface, count) {
                dropped[index] = count;
            }
        }
    }
    dropped
}

/// Packets that an interface dropped during the run because an emulator did not fetch them in time,
/// or the other end of a veth was full. They were not lost on a link of the scenario.
pub(super) fn lost_before_links(
    scenario: &Scenario,
    topology: &Topology,
    before: &[u64],
) -> Vec<String> {
    dropped_by_interfaces(topology)
        .iter()
        .zip(before)
        .zip(&topology.plan.interfaces)
        .filter(|((now, before), _)| now > before)
        .map(|((now, before), interface)| {
            format!(
                "{} packets were dropped by the interface {} of {} before the link",
                now - before,
                interface.name,
                scenario.nodes[interface.node].name
            )
        })
        .collect()
}

/// Softirq time of the whole machine, in seconds.
pub(super) fn softirq_seconds() -> f64 {
    let ticks = fs::read_to_string("/proc/stat").ok().and_then(|stat| {
        stat.lines()
            .next()?
            .split_whitespace()
            .nth(7)?
            .parse::<f64>()
            .ok()
    });
    // SAFETY: sysconf takes no pointers.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    ticks.unwrap_or(0.0) / (per_second.max(1) as f64)
}
