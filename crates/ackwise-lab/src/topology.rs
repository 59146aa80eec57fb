//! Builds a plan: namespaces, devices, addresses, routes, links.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use ackwise_net::{LinkConfig, Probability, QueueLimit, Reorder, Rng};
use ackwise_scenario::{self as scenario, Direction, NodeKind, Scenario, SocketOptions};

use serde::{Deserialize, Serialize};

use crate::clock::nanos;
use crate::command::{self, ip_batch};
use crate::error::LabError;
use crate::netns::{Entrance, Namespace, Naming, set_sysctls};
use crate::plan::{Interface, Plan};
use crate::tap;

/// The queue of a link with a rate, if the scenario sets none: what Linux gives
/// a device (`txqueuelen`).
const DEFAULT_QUEUE_PACKETS: usize = 1000;
/// Room between the stack and the emulator; it never fills unless the emulator
/// stalls, and then nothing is lost that the link's own queue would keep.
const TAP_QUEUE: u32 = 20_000;
/// Name of a bridge node's bridge.
const BRIDGE: &str = "bridge";

/// How the links of a run are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Shaper {
    /// `netem` and `tbf` where the kernel has both, else [`Shaper::Emulator`].
    #[default]
    Auto,
    /// The emulator of this crate, on TAP devices.
    Emulator,
    /// The kernel's `netem` and `tbf`, on veth.
    Netem,
}

/// One link, built.
#[derive(Debug)]
pub enum BuiltLink {
    /// A veth pair, plain or with queue disciplines of the kernel.
    Veth,
    /// Two TAP devices that wait for an emulator.
    Taps([File; 2]),
}

/// The namespaces and devices of a run; removed on drop.
#[derive(Debug)]
pub struct Topology {
    /// One for each node.
    pub namespaces: Vec<Namespace>,
    /// One for each link.
    pub links: Vec<BuiltLink>,
    /// The plan that was built.
    pub plan: Plan,
}

impl Topology {
    /// Builds a scenario. `shaper` must not be [`Shaper::Auto`].
    ///
    /// # Errors
    /// Something could not be built; what had been built is gone again.
    pub fn build(scenario: &Scenario, shaper: Shaper) -> Result<Self, LabError> {
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
            let built = topology.build_link(index, link, shaper)?;
            topology.links.push(built);
        }
        for node in 0..scenario.nodes.len() {
            topology.configure(node, scenario)?;
        }
        Ok(topology)
    }

    /// A way into a node's namespace.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn entrance(&self, node: usize) -> Result<Arc<Entrance>, LabError> {
        self.namespaces[node].entrance().map(Arc::new)
    }

    /// Kernel parameters come before devices: those of devices are inherited.
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

    fn build_link(
        &self,
        index: usize,
        link: &scenario::Link,
        shaper: Shaper,
    ) -> Result<BuiltLink, LabError> {
        let [a, b] = [0, 1].map(|end| self.plan.interface(index, end));
        if needs_shaping(link) && shaper == Shaper::Emulator {
            let make = |interface: &Interface| {
                self.namespaces[interface.node].inside(|| tap::create(&interface.name))
            };
            return Ok(BuiltLink::Taps([make(a)?, make(b)?]));
        }
        ip_batch(
            None,
            &[format!(
                "link add {} netns {} type veth peer name {} netns {}",
                a.name,
                self.namespaces[a.node].name(),
                b.name,
                self.namespaces[b.node].name(),
            )],
        )?;
        for (interface, direction) in [(a, &link.forward), (b, &link.reverse)] {
            self.namespaces[interface.node].inside(|| {
                let name = interface.name.as_str();
                if !link.offload {
                    let off = ["-K", name, "tso", "off", "gso", "off", "gro", "off"];
                    command::run("ethtool", &off)?;
                }
                for arguments in netem_commands(name, direction) {
                    command::run("tc", &arguments)?;
                }
                Ok(())
            })?;
        }
        Ok(BuiltLink::Veth)
    }

    /// Devices up, addresses, neighbours, routes.
    fn configure(&self, node: usize, scenario: &Scenario) -> Result<(), LabError> {
        let plan = &self.plan;
        let mut lines = vec!["link set lo up".to_owned()];
        let is_bridge = scenario.nodes[node].kind == NodeKind::Bridge;
        if is_bridge {
            lines.push(format!(
                "link add {BRIDGE} type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
            ));
            lines.push(format!("link set {BRIDGE} addrgenmode none"));
        }
        for (_, interface) in plan.interfaces_of(node) {
            let name = &interface.name;
            let mtu = scenario.links[interface.link].mtu;
            // One change a line: `ip` takes some of them only while it is down.
            lines.push(format!("link set {name} addrgenmode none"));
            lines.push(format!("link set {name} address {}", interface.mac_text()));
            lines.push(format!("link set {name} mtu {mtu}"));
            if matches!(self.links[interface.link], BuiltLink::Taps(_)) {
                lines.push(format!("link set {name} txqueuelen {TAP_QUEUE}"));
            }
            if is_bridge {
                lines.push(format!("link set {name} master {BRIDGE}"));
            }
            lines.push(format!("link set {name} up"));
            if let Some(v4) = interface.v4 {
                lines.push(format!("addr add {v4}/24 dev {name}"));
            }
            if let Some(v6) = interface.v6 {
                lines.push(format!("addr add {v6}/64 dev {name} nodad"));
            }
        }
        if is_bridge {
            lines.push(format!("link set {BRIDGE} up"));
        }
        // Known neighbours: no ARP on the wire that is measured.
        for (_, interface) in plan.interfaces_of(node).filter(|(_, i)| i.v4.is_some()) {
            for (_, other) in plan.interfaces_on(interface.segment) {
                if other.node == node {
                    continue;
                }
                let (mac, dev) = (other.mac_text(), &interface.name);
                for address in [
                    other.v4.map(|a| a.to_string()),
                    other.v6.map(|a| a.to_string()),
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

/// Whether a link is more than a pair of plain devices.
#[must_use]
pub fn needs_shaping(link: &scenario::Link) -> bool {
    !(link.forward.is_plain() && link.reverse.is_plain())
}

/// Kernel parameters of a node: the lab's own, those that its flows ask for,
/// and, over both, those of the scenario.
fn parameters_of(scenario: &Scenario, node: &str, kind: NodeKind) -> BTreeMap<String, String> {
    let mut parameters = BTreeMap::new();
    let mut set = |name: &str, value: &str| {
        parameters.insert(name.to_owned(), value.to_owned());
    };
    for (name, value) in [
        // Runs must not learn from each other.
        ("net.ipv4.tcp_no_metrics_save", "1"),
        // Room for the product of delay and bandwidth of a long link.
        ("net.ipv4.tcp_rmem", "4096 131072 33554432"),
        ("net.ipv4.tcp_wmem", "4096 16384 33554432"),
        // Nothing on the wire but the flows.
        ("net.ipv6.conf.all.disable_ipv6", "0"),
        ("net.ipv6.conf.default.disable_ipv6", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
        ("net.ipv6.conf.default.accept_ra", "0"),
        ("net.ipv6.conf.default.router_solicitations", "0"),
        // Routes may differ between the two ways.
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

/// What a direction of a link is for the emulator.
#[must_use]
pub fn emulated(direction: &Direction, seed: u64, stream: u64) -> LinkConfig {
    LinkConfig {
        rate_bps: direction.rate_bps,
        queue: match direction.queue.as_ref().map(|queue| queue.limit) {
            Some(scenario::QueueLimit::Packets(packets)) => QueueLimit::Packets(packets as usize),
            Some(scenario::QueueLimit::Bytes(bytes)) => QueueLimit::Bytes(bytes),
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

/// The `tc` commands that make a device's egress such a direction: `netem` for
/// delay and accidents, and under it `tbf` for the rate and its queue.
fn netem_commands(device: &str, direction: &Direction) -> Vec<Vec<String>> {
    if direction.is_plain() {
        return Vec::new();
    }
    let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
    let us = |duration: std::time::Duration| format!("{}us", duration.as_secs_f64() * 1e6);
    let percent = |fraction: f64| format!("{}%", fraction * 100.0);
    let mut netem = format!("qdisc add dev {device} root handle 1: netem limit 1000000");
    netem.push_str(&format!(" delay {}", us(direction.delay)));
    if !direction.jitter.is_zero() {
        netem.push_str(&format!(" {}", us(direction.jitter)));
    }
    if direction.loss > 0.0 {
        netem.push_str(&format!(" loss {}", percent(direction.loss)));
    }
    if direction.duplicate > 0.0 {
        netem.push_str(&format!(" duplicate {}", percent(direction.duplicate)));
    }
    let mut commands = vec![words(netem)];
    if let Some(rate) = direction.rate_bps {
        // One full frame may leave at once.
        commands.push(words(format!(
            "qdisc add dev {device} parent 1:1 handle 2: tbf rate {rate}bit burst 1600 limit 100000000"
        )));
        commands.push(words(match direction.queue.as_ref().map(|queue| queue.limit) {
            Some(scenario::QueueLimit::Bytes(bytes)) => {
                format!("qdisc add dev {device} parent 2:1 handle 3: bfifo limit {bytes}")
            }
            Some(scenario::QueueLimit::Packets(packets)) => {
                format!("qdisc add dev {device} parent 2:1 handle 3: pfifo limit {packets}")
            }
            None => format!(
                "qdisc add dev {device} parent 2:1 handle 3: pfifo limit {DEFAULT_QUEUE_PACKETS}"
            ),
        }));
    }
    commands
}

/// Whether a scenario asks for something that `netem` does otherwise.
#[must_use]
pub fn netem_can(scenario: &Scenario) -> bool {
    scenario
        .links
        .iter()
        .flat_map(|link| [&link.forward, &link.reverse])
        // netem reorders by sending early, and its jitter does not keep order.
        .all(|direction| direction.reorder.is_none() && direction.jitter.is_zero())
}

/// Tries whether the kernel has `netem` and `tbf`, in a namespace of its own.
///
/// # Errors
/// No namespace can be made.
pub fn kernel_has_netem() -> Result<bool, LabError> {
    let namespace = Namespace::create(&Naming::fresh().of("probe"))?;
    namespace.inside(|| {
        let try_to = |arguments: &[&str]| command::run("tc", arguments).is_ok();
        Ok(try_to(&[
            "qdisc", "add", "dev", "lo", "root", "handle", "1:", "netem", "delay", "1ms",
        ]) && try_to(&[
            "qdisc", "add", "dev", "lo", "parent", "1:1", "tbf", "rate", "1mbit", "burst", "1600",
            "limit", "10000",
        ]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn netem_gets_what_the_scenario_says() {
        let direction = Direction {
            rate_bps: Some(200_000),
            delay: Duration::from_millis(20),
            loss: 0.01,
            queue: Some(scenario::Queue::drop_tail(scenario::QueueLimit::Packets(
                100,
            ))),
            ..Direction::default()
        };
        let lines: Vec<String> = netem_commands("wan", &direction)
            .iter()
            .map(|words| words.join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "qdisc add dev wan root handle 1: netem limit 1000000 delay 20000us loss 1%",
                "qdisc add dev wan parent 1:1 handle 2: tbf rate 200000bit burst 1600 limit 100000000",
                "qdisc add dev wan parent 2:1 handle 3: pfifo limit 100",
            ]
        );
        assert!(netem_commands("wan", &Direction::default()).is_empty());
    }

    #[test]
    fn the_emulator_gets_what_the_scenario_says() {
        let direction = Direction {
            rate_bps: Some(1_000_000),
            delay: Duration::from_millis(20),
            jitter: Duration::from_micros(7),
            loss: 0.25,
            queue: Some(scenario::Queue::drop_tail(scenario::QueueLimit::Bytes(
                5000,
            ))),
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
