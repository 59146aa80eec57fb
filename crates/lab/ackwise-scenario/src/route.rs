//! The path of a flow through the links of a scenario.

use std::collections::{BTreeMap, VecDeque};

use crate::model::{Flow, Link, Node, NodeKind, Scenario};

impl Scenario {
    /// The lowest rate on the path of a flow's data, bits per second; `None` if no link has one.
    pub fn bottleneck_bps(&self, flow: &Flow) -> Option<u64> {
        let mut at = flow.from.as_str();
        let mut least: Option<u64> = None;
        for link in path(&flow.from, &flow.to, &self.nodes, &self.links)? {
            let forward = link.between[0] == at;
            let direction = if forward {
                &link.forward
            } else {
                &link.reverse
            };
            at = &link.between[usize::from(forward)];
            least = [least, direction.rate_bps].into_iter().flatten().min();
        }
        least
    }
}

/// The links of a shortest path between two nodes that passes only through routers and bridges.
/// `None` if there is none.
pub(crate) fn path<'a>(
    from: &str,
    to: &str,
    nodes: &[Node],
    links: &'a [Link],
) -> Option<Vec<&'a Link>> {
    let mut came_by: BTreeMap<&str, &Link> = BTreeMap::new();
    let mut queue = VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        if at == to {
            break;
        }
        let forwards = nodes
            .iter()
            .any(|node| node.name == at && node.kind != NodeKind::Host);
        if at != from && !forwards {
            continue;
        }
        for link in links {
            let next = match &link.between {
                [a, b] if a == at => b.as_str(),
                [a, b] if b == at => a.as_str(),
                _ => continue,
            };
            if next != from && !came_by.contains_key(next) {
                came_by.insert(next, link);
                queue.push_back(next);
            }
        }
    }
    let mut path = Vec::new();
    let mut at = to;
    while at != from {
        let link = came_by.get(at)?;
        path.push(*link);
        let [a, b] = &link.between;
        at = if a == at { b } else { a };
    }
    path.reverse();
    Some(path)
}
