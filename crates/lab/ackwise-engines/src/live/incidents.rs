//! Network events during a run.

use ackwise_scenario::Scenario;

use super::tunnels::Tunnel;
use super::wires::OnLink;
use super::{Event, RunOptions};
use crate::clock::nanos;
use crate::command::ip_batch;
use crate::emulator::Emulator;
use crate::error::LabError;
use crate::topology::Topology;

/// An event, and when it happens.
struct Waiting {
    at_ns: u64,
    event: Event,
}

/// The network events that are still to come.
pub(super) struct Incidents<'a> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    /// Pending events; the next one is last.
    waiting: Vec<Waiting>,
    /// Errors of the events.
    pub errors: Vec<String>,
}

impl<'a> Incidents<'a> {
    pub fn new(
        scenario: &'a Scenario,
        options: &RunOptions,
        topology: &'a Topology,
        start_ns: u64,
    ) -> Self {
        let mut waiting: Vec<Waiting> = options
            .incidents
            .iter()
            .map(|incident| Waiting {
                at_ns: start_ns + nanos(incident.after),
                event: incident.what.clone(),
            })
            .collect();
        waiting.sort_by_key(|waiting| std::cmp::Reverse(waiting.at_ns));
        Self {
            scenario,
            topology,
            waiting,
            errors: Vec::new(),
        }
    }

    /// Runs every event that is due.
    pub fn due(&mut self, now: u64, emulators: &[OnLink<Emulator>], tunnels: &mut [Tunnel]) {
        while let Some(next) = self.waiting.pop_if(|next| next.at_ns <= now) {
            if let Err(error) = self.apply(&next.event, emulators, tunnels) {
                self.errors.push(error.to_string());
            }
        }
    }

    fn apply(
        &self,
        what: &Event,
        emulators: &[OnLink<Emulator>],
        tunnels: &mut [Tunnel],
    ) -> Result<(), LabError> {
        let unknown = |what: &str, name: &str| {
            LabError::Scenario(format!("an incident names an unknown {what} `{name}`"))
        };
        match what {
            Event::PathMtu { link, mtu } => {
                let emulator = emulators
                    .iter()
                    .map(|one| &one.at_work)
                    .find(|emulator| emulator.name() == link)
                    .ok_or_else(|| unknown("emulated link", link))?;
                emulator.lose_larger_than(*mtu);
                Ok(())
            }
            Event::Tunnel { link, node, event } => {
                let nodes = &self.scenario.nodes;
                let at = nodes.iter().position(|one| one.name == *node);
                let at = at.ok_or_else(|| unknown("node", node))?;
                for tunnel in tunnels {
                    if tunnel.apply(link, at, *event, self.topology)? {
                        return Ok(());
                    }
                }
                Err(unknown("tunnel over the link", link))
            }
            Event::DeleteInterface { link, node } => {
                let index = self
                    .scenario
                    .links
                    .iter()
                    .position(|one| one.name == *link)
                    .ok_or_else(|| unknown("link", link))?;
                let interface = [0, 1]
                    .map(|end| self.topology.plan.interface(index, end))
                    .into_iter()
                    .find(|one| self.scenario.nodes[one.node].name == *node)
                    .ok_or_else(|| unknown("node", node))?;
                ip_batch(
                    Some(self.topology.namespaces[interface.node].name()),
                    &[format!("link delete {}", interface.name)],
                )
            }
        }
    }
}
