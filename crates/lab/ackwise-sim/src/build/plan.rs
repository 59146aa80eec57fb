//! Finds the paths of packets.

use std::collections::{HashMap, VecDeque};

use ackwise_scenario::{Arm, Flow, NodeKind, Scenario};

use crate::error::SimError;
use crate::line::Hop;

/// Nodes and lines by number.
pub(super) struct Plan<'a> {
    pub(super) scenario: &'a Scenario,
    index: HashMap<&'a str, usize>,
    /// For each node, its outgoing lines with their destinations, in file order.
    out: Vec<Vec<(usize, usize)>>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(scenario: &'a Scenario) -> Plan<'a> {
        let names = scenario.nodes.iter().map(|node| node.name.as_str());
        let index: HashMap<&str, usize> = names.zip(0..).collect();
        let mut out = vec![Vec::new(); scenario.nodes.len()];
        for (number, link) in scenario.links.iter().enumerate() {
            let [a, b] = [0, 1].map(|end| index[link.between[end].as_str()]);
            out[a].push((2 * number, b));
            out[b].push((2 * number + 1, a));
        }
        Plan {
            scenario,
            index,
            out,
        }
    }

    /// The lines of a path with the fewest hops; it passes through no host.
    fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut predecessors: Vec<Option<(usize, usize)>> = vec![None; self.out.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                break;
            }
            if at != from && self.scenario.nodes[at].kind == NodeKind::Host {
                continue;
            }
            for &(line, next) in &self.out[at] {
                if next != from && predecessors[next].is_none() {
                    predecessors[next] = Some((line, at));
                    queue.push_back(next);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = to;
        while at != from {
            let (line, before) = predecessors[at]?;
            path.push(line);
            at = before;
        }
        path.reverse();
        Some(path)
    }

    fn paths(&self, flow: &Flow) -> Result<[Vec<usize>; 2], SimError> {
        let (from, to) = (self.index[flow.from.as_str()], self.index[flow.to.as_str()]);
        match (self.path(from, to), self.path(to, from)) {
            (Some(data), Some(acks)) => Ok([data, acks]),
            _ => Err(SimError::at(
                self.scenario,
                &format!("flow.{}", flow.name),
                &flow.name,
                &format!(
                    "has no path from '{}' to '{}'; add a [[link]]",
                    flow.from, flow.to
                ),
            )),
        }
    }

    pub(super) fn all_paths(&self) -> Result<Vec<[Vec<usize>; 2]>, SimError> {
        let flows = self.scenario.flows.iter();
        flows.map(|flow| self.paths(flow)).collect()
    }

    /// The link on which a flow is counted: the link of this arm's first policy on the path of its
    /// ACKs, else of any arm's, else the link that leads to the receiver.
    pub(super) fn counted_on(&self, arm: &Arm, paths: &[Vec<usize>; 2]) -> usize {
        std::iter::once(arm)
            .chain(&self.scenario.arms)
            .flat_map(|arm| &arm.placements)
            .filter_map(|placement| self.link(&placement.link))
            .find(|link| paths[1].iter().any(|line| line / 2 == *link))
            .or_else(|| paths[0].last().map(|line| line / 2))
            .unwrap_or(0)
    }

    pub(super) fn link(&self, name: &str) -> Option<usize> {
        self.scenario
            .links
            .iter()
            .position(|link| link.name == name)
    }
}

/// The table of routes; flows on the same path share its entries.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) hops: Vec<Hop>,
    known: HashMap<RouteKey, u32>,
}

/// The lines of a path, the link on which it is counted, and the narrowest line.
type RouteKey = (Vec<usize>, Option<usize>, Option<usize>);

impl Routes {
    /// Adds a path, with its counted link and its narrowest line.
    pub(super) fn add(
        &mut self,
        path: &[usize],
        counted: Option<usize>,
        narrowest: Option<usize>,
    ) -> u32 {
        let key = (path.to_vec(), counted, narrowest);
        *self.known.entry(key).or_insert_with(|| {
            let start = self.hops.len() as u32;
            let hops = path
                .iter()
                .map(|&line| Hop::over(line, Some(line / 2) == counted, Some(line) == narrowest));
            self.hops.extend(hops);
            self.hops.push(Hop::END);
            start
        })
    }
}
