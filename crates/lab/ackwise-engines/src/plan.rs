//! Turns nodes and links into interfaces, addresses, routes and paths.
//!
//! Nothing here touches the system. Links joined by bridges form one segment. Each segment gets an
//! IPv4 and an IPv6 prefix. Each end of a link at a host or router gets an address in both. Each
//! node gets a static route, by the fewest hops, to every segment that it can reach through
//! routers.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ackwise_scenario::{IpVersion, NodeKind, Scenario};

use crate::error::LabError;

/// The port of the first flow's listening side; later flows use the following ports.
pub const FIRST_PORT: u16 = 5001;
/// Longest interface name that Linux accepts.
const MAX_INTERFACE_NAME: usize = 15;
/// A device with a smaller MTU has no IPv6 (RFC 8200 §5).
const MIN_MTU_V6: u32 = 1280;

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name, unique within its node.
    pub name: String,
    /// Index of the node.
    pub node: usize,
    /// Index of the link.
    pub link: usize,
    /// 0 for the link's first end, 1 for the second.
    pub end: usize,
    /// Link-layer address.
    pub mac: [u8; 6],
    /// Segment that it belongs to.
    pub segment: usize,
    /// Address in the segment's IPv4 prefix (/24); none at a bridge.
    pub v4: Option<Ipv4Addr>,
    /// Address in the segment's IPv6 prefix (/64); none at a bridge.
    pub v6: Option<Ipv6Addr>,
}

impl Interface {
    /// Link-layer address as text.
    #[must_use]
    pub fn mac_text(&self) -> String {
        self.mac.map(|byte| format!("{byte:02x}")).join(":")
    }

    fn address(&self, version: IpVersion) -> Option<IpAddr> {
        match version {
            IpVersion::V4 => self.v4.map(IpAddr::V4),
            IpVersion::V6 => self.v6.map(IpAddr::V6),
        }
    }
}

/// A route from a node to a segment that it is not on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The segment.
    pub segment: usize,
    /// The interface (index in [`Plan::interfaces`]) of the next router.
    pub via: usize,
    /// The node's own interface that faces it.
    pub out: usize,
}

/// A link on a path, and the end at which packets enter it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Index of the link.
    pub link: usize,
    /// The end at which packets enter: 0 for the link's `forward` direction.
    pub ingress_end: usize,
}

/// Everything that is decided before anything is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Two per link: end 0 at `2·link`, end 1 at `2·link + 1`.
    pub interfaces: Vec<Interface>,
    /// The routes of each node.
    pub routes: Vec<Vec<Route>>,
    kinds: Vec<NodeKind>,
    segments: usize,
}

impl Plan {
    /// Plans a scenario.
    ///
    /// # Errors
    /// Bridges form a loop, or there are more segments or interfaces than addresses.
    pub fn new(scenario: &Scenario) -> Result<Self, LabError> {
        let kinds: Vec<NodeKind> = scenario.nodes.iter().map(|node| node.kind).collect();
        let ends = ends_of_links(scenario)?;
        let segment_of = segments(&kinds, &ends, scenario)?;
        let segments = segment_of.iter().max().map_or(0, |last| last + 1);
        if segments > 250 {
            return Err(LabError::Scenario(
                "the scenario needs more than 250 segments".to_owned(),
            ));
        }
        let mut hosts_in = vec![0_u8; segments];
        let mut interfaces = Vec::with_capacity(ends.len() * 2);
        for (link, pair) in ends.iter().enumerate() {
            for (end, &node) in pair.iter().enumerate() {
                let segment = segment_of[link];
                let addressed = kinds[node] != NodeKind::Bridge;
                if addressed {
                    hosts_in[segment] = hosts_in[segment]
                        .checked_add(1)
                        .filter(|&count| count < 255)
                        .ok_or_else(|| {
                            LabError::Scenario(
                                "there are more than 254 interfaces on one segment".to_owned(),
                            )
                        })?;
                }
                let (net, host) = (segment as u8 + 1, hosts_in[segment]);
                interfaces.push(Interface {
                    name: interface_name(&scenario.links[link].name, link),
                    node,
                    link,
                    end,
                    mac: [
                        0x02,
                        0xac,
                        0x00,
                        (link >> 8) as u8,
                        link as u8,
                        end as u8 + 1,
                    ],
                    segment,
                    v4: addressed.then(|| Ipv4Addr::new(10, 77, net, host)),
                    v6: (addressed && scenario.links[link].mtu >= MIN_MTU_V6)
                        .then(|| Ipv6Addr::new(0xfdac, 0x77, 0, net.into(), 0, 0, 0, host.into())),
                });
            }
        }
        let mut plan = Self {
            interfaces,
            routes: Vec::new(),
            kinds,
            segments,
        };
        plan.routes = (0..plan.kinds.len())
            .map(|node| plan.routes_of(node))
            .collect();
        Ok(plan)
    }

    /// The interface at an end of a link.
    #[must_use]
    pub fn interface(&self, link: usize, end: usize) -> &Interface {
        &self.interfaces[2 * link + end]
    }

    /// A node's interfaces.
    pub fn interfaces_of(&self, node: usize) -> impl Iterator<Item = (usize, &Interface)> {
        self.interfaces
            .iter()
            .enumerate()
            .filter(move |(_, interface)| interface.node == node)
    }

    /// The addressed interfaces of a segment.
    pub fn interfaces_on(&self, segment: usize) -> impl Iterator<Item = (usize, &Interface)> {
        self.interfaces
            .iter()
            .enumerate()
            .filter(move |(_, interface)| interface.segment == segment && interface.v4.is_some())
    }

    /// For each segment beyond a node's own, the route by the fewest routers; nearest segments
    /// first.
    fn routes_of(&self, node: usize) -> Vec<Route> {
        if self.kinds[node] == NodeKind::Bridge {
            return Vec::new();
        }
        let mut known = vec![false; self.segments];
        let mut visited = vec![false; self.kinds.len()];
        visited[node] = true;
        let mut frontier = VecDeque::new();
        for (out, interface) in self.interfaces_of(node) {
            if !std::mem::replace(&mut known[interface.segment], true) {
                frontier.push_back((interface.segment, out, None));
            }
        }
        let mut routes = Vec::new();
        while let Some((segment, out, first_router)) = frontier.pop_front() {
            for (entered, router) in self.interfaces_on(segment) {
                if visited[router.node] || self.kinds[router.node] != NodeKind::Router {
                    continue;
                }
                visited[router.node] = true;
                let via = first_router.unwrap_or(entered);
                for (_, leaves) in self.interfaces_of(router.node) {
                    if !std::mem::replace(&mut known[leaves.segment], true) {
                        routes.push(Route {
                            segment: leaves.segment,
                            via,
                            out,
                        });
                        frontier.push_back((leaves.segment, out, Some(via)));
                    }
                }
            }
        }
        routes
    }

    /// The links that packets cross from one node to the nearest interface of
    /// another, in order.
    ///
    /// # Errors
    /// There is no path.
    pub fn path(&self, from: usize, to: usize) -> Result<Vec<Hop>, LabError> {
        let no_way =
            || LabError::Scenario("a flow has no path from its sender to its receiver".to_owned());
        let attached = |segment| self.interfaces_on(segment).find(|(_, i)| i.node == to);
        let nearest = self
            .interfaces_of(from)
            .map(|(_, interface)| interface.segment)
            .chain(self.routes[from].iter().map(|route| route.segment))
            .find(|&segment| attached(segment).is_some())
            .ok_or_else(no_way)?;
        let (target, _) = attached(nearest).ok_or_else(no_way)?;

        let mut path = Vec::new();
        let mut at = from;
        while at != to {
            if path.len() > self.interfaces.len() {
                return Err(no_way());
            }
            let (out, entered) = match self.interfaces_of(at).find(|(_, i)| i.segment == nearest) {
                Some((out, _)) => (out, target),
                None => self.routes[at]
                    .iter()
                    .find(|route| route.segment == nearest)
                    .map(|route| (route.out, route.via))
                    .ok_or_else(no_way)?,
            };
            path.extend(self.bridged(out, entered).ok_or_else(no_way)?);
            at = self.interfaces[entered].node;
        }
        Ok(path)
    }

    /// The links from one interface to another of the same segment.
    fn bridged(&self, out: usize, entered: usize) -> Option<Vec<Hop>> {
        let mut frontier = VecDeque::from([vec![out]]);
        while let Some(trail) = frontier.pop_front() {
            let leaving = *trail.last()?;
            let across = leaving ^ 1;
            if across == entered {
                return Some(
                    trail
                        .into_iter()
                        .map(|interface| Hop {
                            link: interface / 2,
                            ingress_end: interface % 2,
                        })
                        .collect(),
                );
            }
            let node = self.interfaces[across].node;
            if self.kinds[node] == NodeKind::Bridge {
                for (next, _) in self.interfaces_of(node).filter(|&(next, _)| next != across) {
                    let mut longer = trail.clone();
                    longer.push(next);
                    frontier.push_back(longer);
                }
            }
        }
        None
    }

    /// The address of the last node of a path, on the link by which the path reaches it.
    ///
    /// # Errors
    /// The path is empty.
    pub fn address_at_end(&self, path: &[Hop], version: IpVersion) -> Result<IpAddr, LabError> {
        path.last()
            .and_then(|hop| {
                self.interface(hop.link, 1 - hop.ingress_end)
                    .address(version)
            })
            .ok_or_else(|| LabError::Scenario("a flow begins and ends at the same node".to_owned()))
    }
}

fn ends_of_links(scenario: &Scenario) -> Result<Vec<[usize; 2]>, LabError> {
    let index = |name: &String| {
        scenario
            .nodes
            .iter()
            .position(|node| node.name == *name)
            .ok_or_else(|| LabError::Scenario(format!("there is no node `{name}`")))
    };
    scenario
        .links
        .iter()
        .map(|link| {
            let [a, b] = &link.between;
            let ends = [index(a)?, index(b)?];
            if ends[0] == ends[1] {
                return Err(LabError::Scenario(format!(
                    "link `{}` connects a node with itself",
                    link.name
                )));
            }
            Ok(ends)
        })
        .collect()
}

/// The segment that each link belongs to.
fn segments(
    kinds: &[NodeKind],
    ends: &[[usize; 2]],
    scenario: &Scenario,
) -> Result<Vec<usize>, LabError> {
    let mut segment_of: Vec<Option<usize>> = vec![None; ends.len()];
    let mut next = 0;
    for start in 0..ends.len() {
        if segment_of[start].is_some() {
            continue;
        }
        let mut bridges_seen = vec![false; kinds.len()];
        let mut frontier = VecDeque::from([(start, None)]);
        segment_of[start] = Some(next);
        while let Some((link, came_from)) = frontier.pop_front() {
            for &node in &ends[link] {
                if kinds[node] != NodeKind::Bridge || Some(node) == came_from {
                    continue;
                }
                if std::mem::replace(&mut bridges_seen[node], true) {
                    return Err(LabError::Scenario(format!(
                        "bridge `{}` is part of a loop",
                        scenario.nodes[node].name
                    )));
                }
                for (other, pair) in ends.iter().enumerate() {
                    if other != link && pair.contains(&node) {
                        if segment_of[other].is_some() {
                            return Err(LabError::Scenario(format!(
                                "bridge `{}` is part of a loop",
                                scenario.nodes[node].name
                            )));
                        }
                        segment_of[other] = Some(next);
                        frontier.push_back((other, Some(node)));
                    }
                }
            }
        }
        next += 1;
    }
    Ok(segment_of.into_iter().flatten().collect())
}

/// The link's own name if Linux accepts it.
fn interface_name(link_name: &str, link: usize) -> String {
    let fits = (1..=MAX_INTERFACE_NAME).contains(&link_name.len())
        && link_name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !link_name.starts_with('-')
        && !["lo", "bridge", "all", "default"].contains(&link_name);
    if fits {
        link_name.to_owned()
    } else {
        format!("link{link}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::{link, node, scenario};

    fn household() -> Scenario {
        // sender – bridge – near – far – receiver
        scenario(
            vec![
                node("sender", NodeKind::Host),
                node("bridge", NodeKind::Bridge),
                node("near", NodeKind::Router),
                node("far", NodeKind::Router),
                node("receiver", NodeKind::Host),
            ],
            vec![
                link("s-b", "sender", "bridge"),
                link("b-n", "bridge", "near"),
                link("wan", "near", "far"),
                link("a link with a long name", "receiver", "far"),
            ],
        )
    }

    #[test]
    fn bridged_links_share_a_segment() {
        let plan = Plan::new(&household()).unwrap();
        let segments: Vec<usize> = (0..4).map(|l| plan.interface(l, 0).segment).collect();
        assert_eq!(segments, [0, 0, 1, 2]);
        assert_eq!(plan.interface(0, 0).v4, Some(Ipv4Addr::new(10, 77, 1, 1)));
        assert_eq!(plan.interface(0, 1).v4, None);
        assert_eq!(plan.interface(1, 1).v4, Some(Ipv4Addr::new(10, 77, 1, 2)));
        assert_eq!(plan.interface(3, 0).name, "link3");
        assert_eq!(plan.interface(2, 0).mac_text(), "02:ac:00:00:02:01");
    }

    #[test]
    fn paths_cross_bridges_and_routers() {
        let plan = Plan::new(&household()).unwrap();
        let hops = |path: Vec<Hop>| -> Vec<(usize, usize)> {
            path.into_iter()
                .map(|hop| (hop.link, hop.ingress_end))
                .collect()
        };
        let down = plan.path(0, 4).unwrap();
        assert_eq!(
            plan.address_at_end(&down, IpVersion::V4).unwrap(),
            IpAddr::V4(Ipv4Addr::new(10, 77, 3, 1))
        );
        assert_eq!(hops(down), [(0, 0), (1, 0), (2, 0), (3, 1)]);
        assert_eq!(
            hops(plan.path(4, 0).unwrap()),
            [(3, 0), (2, 1), (1, 1), (0, 1)]
        );
    }

    #[test]
    fn routes_lead_to_every_segment() {
        let plan = Plan::new(&household()).unwrap();
        // The sender reaches both far segments through `near`, across the bridge.
        let sender: Vec<(usize, usize, usize)> = plan.routes[0]
            .iter()
            .map(|route| (route.segment, route.via, route.out))
            .collect();
        assert_eq!(sender, [(1, 3, 0), (2, 3, 0)]);
        assert_eq!(plan.routes[1], []);
        assert_eq!(plan.routes[2].len(), 1);
    }

    #[test]
    fn hosts_do_not_forward() {
        let scenario = scenario(
            vec![
                node("a", NodeKind::Host),
                node("b", NodeKind::Host),
                node("c", NodeKind::Host),
            ],
            vec![link("ab", "a", "b"), link("bc", "b", "c")],
        );
        let plan = Plan::new(&scenario).unwrap();
        assert!(plan.path(0, 1).is_ok());
        assert!(plan.path(0, 2).unwrap_err().to_string().contains("no path"));
    }

    #[test]
    fn the_shorter_way_is_taken() {
        let scenario = scenario(
            vec![
                node("a", NodeKind::Host),
                node("r1", NodeKind::Router),
                node("r2", NodeKind::Router),
                node("b", NodeKind::Host),
            ],
            vec![
                link("a-r1", "a", "r1"),
                link("r1-r2", "r1", "r2"),
                link("r2-b", "r2", "b"),
                link("r1-b", "r1", "b"),
            ],
        );
        let plan = Plan::new(&scenario).unwrap();
        let links: Vec<usize> = plan
            .path(0, 3)
            .unwrap()
            .iter()
            .map(|hop| hop.link)
            .collect();
        assert!(links == [0, 3] || links == [0, 1, 2], "{links:?}");
        assert_eq!(links, [0, 3]);
    }

    #[test]
    fn a_loop_of_bridges_is_refused() {
        let scenario = scenario(
            vec![
                node("a", NodeKind::Bridge),
                node("b", NodeKind::Bridge),
                node("c", NodeKind::Bridge),
            ],
            vec![
                link("ab", "a", "b"),
                link("bc", "b", "c"),
                link("ca", "c", "a"),
            ],
        );
        assert!(
            Plan::new(&scenario)
                .unwrap_err()
                .to_string()
                .contains("loop")
        );
    }
}
