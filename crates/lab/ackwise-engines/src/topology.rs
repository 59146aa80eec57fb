//! Builds a plan: namespaces, devices, addresses, routes, links.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use ackwise_queue::{LinkConfig, QueueLimit, Reorder};
use ackwise_rng::{Probability, Rng};
use ackwise_scenario::tcp_model::RECEIVE_BUFFER;
use ackwise_scenario::{self as scenario, Direction, NodeKind, Scenario, SocketOptions};

use serde::{Deserialize, Serialize};

use crate::clock::nanos;
use crate::command::{self, ip_batch};
use crate::error::LabError;
use crate::kernel_link::{self, DEFAULT_QUEUE_PACKETS, LinkSpace};
use crate::netns::{Entrance, Namespace, Naming, set_sysctls};
use crate::plan::{Interface, Plan};
use crate::tap;

/// Queue between the stack and the emulator. It fills only if the emulator stalls, and then loses
/// nothing that the link's own queue would keep.
const TAP_QUEUE: u32 = 20_000;
/// Name of a bridge node's bridge.
const BRIDGE: &str = "bridge";

/// The means by which the links of a run are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum LinkBackend {
    /// [`LinkBackend::Netem`] if the kernel has netem and it covers what the scenario asks for,
    /// else [`LinkBackend::Emulator`].
    #[default]
    Auto,
    /// The emulator of this crate, on TAP devices.
    Emulator,
    /// The kernel's `netem` and queue disciplines: [`crate::kernel_link`].
    Netem,
}

/// A link that has been built.
#[derive(Debug)]
pub enum BuiltLink {
    /// A plain veth pair.
    Veth,
    /// A link made of kernel devices and disciplines.
    Kernel(LinkSpace),
    /// Two TAP devices for an emulator.
    Taps([File; 2]),
}

/// The namespaces and devices of a run; removed on drop.
#[derive(Debug)]
pub struct Topology {
    /// One namespace for each node.
    pub namespaces: Vec<Namespace>,
    /// One entry for each link.
    pub links: Vec<BuiltLink>,
    /// The plan that was built.
    pub plan: Plan,
}

impl Topology {
    /// Builds a scenario. `backend` must not be [`LinkBackend::Auto`].
    ///
    /// # Errors
    /// Something could not be built; what had been built is removed.
    pub fn build(scenario: &Scenario, backend: LinkBackend) -> Result<Self, LabError> {
        Self::with_seed(scenario, backend, 1)
    }

    /// Builds a scenario as [`build`](Self::build) does, with a seed for the random numbers of the
    /// kernel's links.
    ///
    /// # Errors
    /// As for [`build`](Self::build).
    pub fn with_seed(
        scenario: &Scenario,
        backend: LinkBackend,
        seed: u64,
    ) -> Result<Self, LabError> {
        let plan = Plan::new(scenario)?;
        let naming = Naming::fresh();
        let mut topology = Self {
            namespaces: Vec::new(),
            links: Vec::new(),
            plan,
        };
        for node in &scenario.nodes {
            let namespace = Namespace::create(&naming.of(&node.name))?;
            topology.namespaces.push(namespace);
        }
        topology.set_parameters(scenario)?;
        for (index, link) in scenario.links.iter().enumerate() {
            let built = match backend {
                LinkBackend::Netem if needs_shaping(link) => {
                    let namespace = Namespace::create(&naming.of_link(&link.name))?;
                    topology.build_kernel_link(index, link, namespace, seed)?
                }
                _ => topology.build_link(index, link)?,
            };
            topology.links.push(built);
        }
        for node in 0..scenario.nodes.len() {
            topology.configure(node, scenario)?;
        }
        Ok(topology)
    }

    /// A handle to enter a node's namespace.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn entrance(&self, node: usize) -> Result<Arc<Entrance>, LabError> {
        self.namespaces[node].entrance().map(Arc::new)
    }

    /// Sets kernel parameters. This happens before devices are created, which inherit theirs.
    fn set_parameters(&self, scenario: &Scenario) -> Result<(), LabError> {
        for (index, node) in scenario.nodes.iter().enumerate() {
            let parameters = parameters_of(scenario, &node.name, node.kind);
            self.namespaces[index].inside(|| {
                set_sysctls(
                    parameters
                        .iter()
                        .map(|(name, value)| (name.as_str(), value.as_str())),
                )
                .map_err(|error| in_node(&node.name, &error))
            })?;
        }
        Ok(())
    }

    fn build_kernel_link(
        &self,
        index: usize,
        link: &scenario::Link,
        namespace: Namespace,
        seed: u64,
    ) -> Result<BuiltLink, LabError> {
        let ends = [0, 1].map(|end| {
            let interface = self.plan.interface(index, end);
            (interface, &self.namespaces[interface.node])
        });
        let seeds = [0, 1].map(|direction| seed_of(seed, index, direction));
        LinkSpace::build(namespace, link, ends, seeds).map(BuiltLink::Kernel)
    }

    fn build_link(&self, index: usize, link: &scenario::Link) -> Result<BuiltLink, LabError> {
        let [a, b] = [0, 1].map(|end| self.plan.interface(index, end));
        if needs_shaping(link) {
            let make = |interface: &Interface| {
                self.namespaces[interface.node].inside(|| tap::create(&interface.name))
            };
            return Ok(BuiltLink::Taps([make(a)?, make(b)?]));
        }
        ip_batch(
            None,
            &[format!(
                "link add name {} netns {} type veth peer name {} netns {}",
                a.name,
                self.namespaces[a.node].name(),
                b.name,
                self.namespaces[b.node].name(),
            )],
        )?;
        if !link.offload {
            for interface in [a, b] {
                let name = interface.name.as_str();
                let off = ["-K", name, "tso", "off", "gso", "off", "gro", "off"];
                self.namespaces[interface.node].inside(|| command::run("ethtool", &off))?;
            }
        }
        Ok(BuiltLink::Veth)
    }

    /// Sets up devices, addresses, neighbours and routes.
    fn configure(&self, node: usize, scenario: &Scenario) -> Result<(), LabError> {
        let plan = &self.plan;
        let mut lines = vec!["link set lo up".to_owned()];
        let is_bridge = scenario.nodes[node].kind == NodeKind::Bridge;
        if is_bridge {
            lines.push(format!(
                "link add name {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
            ));
            lines.push(format!("link set dev {BRIDGE} addrgenmode none"));
        }
        for (_, interface) in plan.interfaces_of(node) {
            let name = &interface.name;
            let mtu = scenario.links[interface.link].mtu;
            // One change per line: `ip` accepts some of them only while the device is down.
            lines.push(format!("link set dev {name} addrgenmode none"));
            lines.push(format!(
                "link set dev {name} address {}",
                interface.mac_text()
            ));
            lines.push(format!("link set dev {name} mtu {mtu}"));
            if matches!(self.links[interface.link], BuiltLink::Taps(_)) {
                lines.push(format!("link set dev {name} txqueuelen {TAP_QUEUE}"));
            }
            if is_bridge {
                lines.push(format!("link set dev {name} master {BRIDGE}"));
            }
            lines.push(format!("link set dev {name} up"));
            if let Some(v4) = interface.v4 {
                lines.push(format!("addr add {v4}/24 dev {name}"));
            }
            if let Some(v6) = interface.v6 {
                lines.push(format!("addr add {v6}/64 dev {name} nodad"));
            }
        }
        if is_bridge {
            lines.push(format!("link set dev {BRIDGE} up"));
        }
        // Static neighbours keep ARP off the measured wire.
        for (_, interface) in plan.interfaces_of(node).filter(|(_, i)| i.v4.is_some()) {
            for (_, other) in plan.interfaces_on(interface.segment) {
                if other.node == node {
                    continue;
                }
                let (mac, dev) = (other.mac_text(), &interface.name);
                for address in [
                    other.v4.map(|a| a.to_string()),
                    other
                        .v6
                        .filter(|_| interface.v6.is_some())
                        .map(|a| a.to_string()),
                ]
                .into_iter()
                .flatten()
                {
                    lines.push(format!(
                        "neigh replace {address} lladdr {mac} dev {dev} nud permanent"
                    ));
                }
            }
        }
        for route in &plan.routes[node] {
            let dev = &plan.interfaces[route.out].name;
            let via = &plan.interfaces[route.via];
            let Some((_, member)) = plan.interfaces_on(route.segment).next() else {
                continue;
            };
            if let (Some(prefix), Some(via)) = (member.v4, via.v4) {
                lines.push(format!(
                    "route add {prefix_24} via {via} dev {dev}",
                    prefix_24 = net_v4(prefix)
                ));
            }
            if let (Some(prefix), Some(via)) = (member.v6, via.v6) {
                lines.push(format!(
                    "route add {prefix_64} via {via} dev {dev}",
                    prefix_64 = net_v6(prefix)
                ));
            }
        }
        ip_batch(Some(self.namespaces[node].name()), &lines)
    }
}

fn in_node(node: &str, error: &LabError) -> LabError {
    LabError::Scenario(format!("node `{node}`: {error}"))
}

fn net_v4(member: std::net::Ipv4Addr) -> String {
    let [a, b, c, _] = member.octets();
    format!("{a}.{b}.{c}.0/24")
}

fn net_v6(member: std::net::Ipv6Addr) -> String {
    let [a, b, c, d, ..] = member.segments();
    format!("{}/64", std::net::Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
}

/// Whether a link needs more than a plain veth pair.
#[must_use]
pub fn needs_shaping(link: &scenario::Link) -> bool {
    !(link.forward.is_plain() && link.reverse.is_plain())
}

/// Kernel parameters of a node: the lab's defaults, then those that its flows need, then those of
/// the scenario, which win.
fn parameters_of(scenario: &Scenario, node: &str, kind: NodeKind) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        parameters.insert(name.to_owned(), value.to_owned());
    };
    for (name, value) in [
        // Runs must not learn from each other.
        ("net.ipv4.tcp_no_metrics_save", "1"),
        // The simulator's maximum, whatever this kernel's default is.
        (
            "net.ipv4.tcp_rmem",
            &format!("4096 131072 {RECEIVE_BUFFER}"),
        ),
        ("net.ipv4.tcp_wmem", &format!("4096 16384 {RECEIVE_BUFFER}")),
        // Keeps everything but the flows off the wire.
        ("net.ipv6.conf.all.disable_ipv6", "0"),
        ("net.ipv6.conf.default.disable_ipv6", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
        ("net.ipv6.conf.default.accept_ra", "0"),
        ("net.ipv6.conf.default.router_solicitations", "0"),
        // Routes may differ between the two directions.
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
    ] {
        set(name, value);
    }
    if kind == NodeKind::Router {
        set("net.ipv4.ip_forward", "1");
        set("net.ipv6.conf.all.forwarding", "1");
    }
    for flow in &scenario.flows {
        if flow.from == node || flow.to == node {
            flow_parameters(&flow.socket, &mut set);
        }
    }
    if let Some(node) = scenario.nodes.iter().find(|one| one.name == node) {
        for (name, value) in &node.sysctl {
            parameters.insert(name.clone(), value.clone());
        }
    }
    parameters
}

fn flow_parameters(options: &SocketOptions, set: &mut impl FnMut(&str, &str)) {
    for (name, wanted) in [
        ("net.ipv4.tcp_sack", options.sack),
        ("net.ipv4.tcp_timestamps", options.timestamps),
        ("net.ipv4.tcp_ecn", options.ecn),
        ("net.ipv4.tcp_window_scaling", options.window_scaling),
    ] {
        if let Some(on) = wanted {
            set(name, if on { "1" } else { "0" });
        }
    }
    if options.mptcp {
        set("net.mptcp.enabled", "1");
    }
}

/// The seed of a direction of a link, for every backend.
fn seed_of(seed: u64, link: usize, direction: usize) -> u64 {
    Rng::stream(seed, 2 * link as u64 + direction as u64).next_u64()
}

/// The emulator's configuration for a direction of a link.
#[must_use]
pub fn emulated(direction: &Direction, seed: u64, stream: u64) -> LinkConfig {
    LinkConfig {
        rate_bps: direction.rate_bps,
        queue: match direction.queue.as_ref().map(|queue| queue.limit) {
            Some(ackwise_config::queues::QueueLimit::Packets(packets)) => {
                QueueLimit::Packets(packets as usize)
            }
            Some(ackwise_config::queues::QueueLimit::Bytes(bytes)) => QueueLimit::Bytes(bytes),
            None => QueueLimit::Packets(DEFAULT_QUEUE_PACKETS),
        },
        delay_ns: nanos(direction.delay),
        jitter_ns: nanos(direction.jitter),
        loss: Probability::from_fraction(direction.loss),
        duplicate: Probability::from_fraction(direction.duplicate),
        reorder: direction.reorder.map(|reorder| Reorder {
            probability: Probability::from_fraction(reorder.probability),
            extra_delay_ns: nanos(reorder.delay),
        }),
        seed: Rng::stream(seed, stream).next_u64(),
    }
}

/// Whether the kernel's links cover what a scenario asks for.
#[must_use]
pub fn netem_can(scenario: &Scenario) -> bool {
    scenario.links.iter().all(kernel_link::can)
}

/// Tests whether the kernel has what its links are made of.
///
/// # Errors
/// No namespace can be created.
pub fn kernel_has_netem() -> Result<bool, LabError> {
    kernel_link::kernel_has_netem(&Namespace::create(&Naming::fresh().of("probe"))?)
}

/// Tests whether the kernel has the queue discipline that `ackwise up` sets up.
///
/// # Errors
/// No namespace can be created.
pub fn kernel_has_cake() -> Result<bool, LabError> {
    kernel_link::kernel_has_cake(&Namespace::create(&Naming::fresh().of("probe"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_emulator_gets_what_the_scenario_says() {
        let direction = Direction {
            rate_bps: Some(1_000_000),
            delay: Duration::from_millis(20),
            jitter: Duration::from_micros(7),
            loss: 0.25,
            queue: Some(ackwise_config::queues::Queue::drop_tail(
                ackwise_config::queues::QueueLimit::Bytes(5000),
            )),
            ..Direction::default()
        };
        let config = emulated(&direction, 1, 2);
        assert_eq!(config.rate_bps, Some(1_000_000));
        assert_eq!((config.delay_ns, config.jitter_ns), (20_000_000, 7_000));
        assert_eq!(config.loss.as_fraction(), 0.25);
        assert_eq!(config.queue, QueueLimit::Bytes(5000));
        assert_ne!(config.seed, emulated(&direction, 1, 3).seed);
        assert_ne!(config.seed, emulated(&direction, 2, 2).seed);
        assert_eq!(config, emulated(&direction, 1, 2));
    }
}
