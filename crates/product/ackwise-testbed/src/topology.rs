//! Declared networks.

use std::collections::VecDeque;

use crate::netns::{Netns, ip};

/// A network: its nodes, and the veth pairs between them.
///
/// Link number `n`, counted from 1, has the networks `10.9.n.0/24` and `fd09:n::/64`; its first end
/// has host number 1, its second 2.
#[derive(Debug, Clone, Copy)]
pub struct Topology {
    /// Hosts and routers. A host with one link has a default route over it; a router forwards and
    /// has a route to each network.
    pub nodes: &'static [Node],
    /// Links, in the order of their networks.
    pub links: &'static [Link],
}

/// A node of a [`Topology`].
#[derive(Debug, Clone, Copy)]
pub struct Node {
    name: &'static str,
    forwards: bool,
}

/// A node that does not forward.
#[must_use]
pub const fn host(name: &'static str) -> Node {
    Node {
        name,
        forwards: false,
    }
}

/// A node that forwards IPv4 and IPv6.
#[must_use]
pub const fn router(name: &'static str) -> Node {
    Node {
        name,
        forwards: true,
    }
}

/// A veth pair of a [`Topology`], up at both ends.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    ends: [&'static str; 2],
    addressed: bool,
}

/// A link between two ends, each given as `node.interface`.
#[must_use]
pub const fn link(first: &'static str, second: &'static str) -> Link {
    Link {
        ends: [first, second],
        addressed: true,
    }
}

impl Link {
    /// The link without addresses: only the test sends on it.
    #[must_use]
    pub const fn without_addresses(mut self) -> Self {
        self.addressed = false;
        self
    }
}

/// One end of a link, resolved.
#[derive(Debug, Clone, Copy)]
struct End {
    node: usize,
    interface: &'static str,
}

/// A node at the other end of a link.
#[derive(Debug, Clone, Copy)]
struct Neighbour {
    /// The number of the link and of its network.
    network: usize,
    /// The neighbour's host number in that network.
    host: u8,
    node: usize,
}

impl Topology {
    /// Builds the network: a namespace for each node, in the order of `nodes`.
    ///
    /// # Panics
    /// If a link names a node that does not exist, or the kernel refuses something.
    #[must_use]
    pub fn build<const N: usize>(&self) -> [Netns; N] {
        assert_eq!(self.nodes.len(), N, "a namespace for each node");
        let built: [Netns; N] = std::array::from_fn(|_| Netns::new());
        for (index, link) in self.links.iter().enumerate() {
            let [first, second] = link.ends.map(|end| self.end(end));
            built[first.node].wire(first.interface, &built[second.node], second.interface);
            if link.addressed {
                for (end, host) in [(first, 1), (second, 2)] {
                    built[end.node].run(|| add_addresses(end.interface, index + 1, host));
                }
            }
        }
        for (node, netns) in built.iter().enumerate() {
            netns.run(|| self.set_up_routing(node));
        }
        built
    }

    fn end(&self, text: &'static str) -> End {
        let (node, interface) = text.split_once('.').expect("node.interface");
        let node = self.nodes.iter().position(|one| one.name == node);
        End {
            node: node.unwrap_or_else(|| panic!("no node of {text}")),
            interface,
        }
    }

    /// The nodes at the other ends of a node's links.
    fn neighbours(&self, node: usize) -> impl Iterator<Item = Neighbour> {
        let links = self.links.iter().enumerate();
        links
            .filter(|(_, link)| link.addressed)
            .flat_map(move |(index, link)| {
                let [first, second] = link.ends.map(|end| self.end(end).node);
                [(first, 2, second), (second, 1, first)]
                    .into_iter()
                    .filter(move |(here, ..)| *here == node)
                    .map(move |(_, host, there)| Neighbour {
                        network: index + 1,
                        host,
                        node: there,
                    })
            })
    }

    /// Sets up the routes of a node. Runs in its namespace.
    fn set_up_routing(&self, node: usize) {
        let neighbours: Vec<_> = self.neighbours(node).collect();
        if !self.nodes[node].forwards {
            if let [
                Neighbour {
                    network,
                    host,
                    node,
                },
            ] = neighbours[..]
                && self.nodes[node].forwards
            {
                ip(&format!("route add default via 10.9.{network}.{host}"));
                ip(&format!("-6 route add default via fd09:{network}::{host}"));
            }
            return;
        }
        for key in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{key}"), "1").expect("forwarding");
        }
        // Breadth-first: the first route found to a network is a shortest one.
        let mut known: Vec<usize> = neighbours.iter().map(|it| it.network).collect();
        let mut queue: VecDeque<_> = neighbours.iter().map(|&it| (it, it.node)).collect();
        while let Some((via, at)) = queue.pop_front() {
            if !self.nodes[at].forwards {
                continue;
            }
            for Neighbour { network, node, .. } in self.neighbours(at) {
                if known.contains(&network) {
                    continue;
                }
                known.push(network);
                queue.push_back((via, node));
                let (link, host) = (via.network, via.host);
                ip(&format!(
                    "route add 10.9.{network}.0/24 via 10.9.{link}.{host}"
                ));
                ip(&format!(
                    "route add fd09:{network}::/64 via fd09:{link}::{host}"
                ));
            }
        }
    }
}

fn add_addresses(interface: &str, network: usize, host: u8) {
    ip(&format!(
        "addr add 10.9.{network}.{host}/24 dev {interface}"
    ));
    ip(&format!(
        "addr add fd09:{network}::{host}/64 dev {interface} nodad"
    ));
}
