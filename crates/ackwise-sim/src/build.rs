//! From a checked scenario to a network that is ready to run.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ackwise_net::{Channel, LinkConfig, Nanos, Probability, QueueLimit, Rng};
use ackwise_policy::{Capabilities, Config, ConfigError, FlowConfig, sys};
use ackwise_scenario as scenario;
use ackwise_scenario::{
    App, Arm, Flow, Home, NodeKind, Placement, Position, RunSpec, Scenario, ScenarioError,
};

use crate::app::{self, Exchanges, Kind, Transfers};
use crate::channel;
use crate::engine::{Counted, Hop, Line, Network, Template};
use crate::error::SimError;
use crate::hook::{self, Hook, Side};
use crate::packet::FlowId;
use crate::tcp::{self, CONGESTION_CONTROLS, ReceiverConfig, SenderConfig};

/// What the network of a scenario is made of.
pub type Simulation = Network<tcp::Sender, tcp::Receiver>;

/// What waits before a line that says nothing of its queue; as on the live engine.
const DEFAULT_QUEUE_PACKETS: usize = 1000;

/// Parameters of a kernel that ask for what the simulator does anyway: each of its
/// connections starts without knowing of others.
const AS_IT_IS: [(&str, &str); 1] = [("net.ipv4.tcp_no_metrics_save", "1")];

/// Streams of random numbers, so that one more element leaves the draws of the
/// others alone: a line's is its number, a flow's are these plus its number.
const STREAM_START: u64 = 2_000;
const STREAM_ORDER: u64 = 1 << 40;

/// A scenario as one of its runs sees it, and its network.
pub struct Built {
    /// The network.
    pub network: Simulation,
    /// For each flow, the lines of its data and of its ACKs.
    pub paths: Vec<[Vec<usize>; 2]>,
}

pub(crate) fn nanos(duration: Duration) -> Nanos {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Checks what only the simulator knows, for all runs of a scenario at once.
///
/// # Errors
/// Something in the scenario has no model here; it is named with line and column.
pub fn check(scenario: &Scenario, runs: &[RunSpec]) -> Result<(), SimError> {
    for flow in &scenario.flows {
        if flow.socket.mptcp {
            return Err(wrong(
                scenario,
                &flow.name,
                "asks for Multipath TCP, which the simulator has no model of; remove 'mptcp'",
            ));
        }
        let mut named: Vec<&str> = runs.iter().map(|run| flow.cc(run)).collect();
        named.dedup();
        if let Some(cc) = named.iter().find(|cc| !CONGESTION_CONTROLS.contains(cc)) {
            let have = CONGESTION_CONTROLS.join(", ");
            return Err(wrong(
                scenario,
                &flow.name,
                &format!(
                    "runs with '{cc}', which the simulator has no model of (it has {have}); \
                     choose among these, e.g. with --cc"
                ),
            ));
        }
    }
    for node in &scenario.nodes {
        let foreign = |(name, value): &(&String, &String)| {
            !AS_IT_IS.contains(&(name.as_str(), value.as_str()))
        };
        if let Some((name, _)) = node.sysctl.iter().find(foreign) {
            return Err(wrong(
                scenario,
                &node.name,
                &format!(
                    "sets '{name}', and the simulator has no kernel; \
                     remove it and use 'socket' and [flow.model] of the flows"
                ),
            ));
        }
    }
    if scenario.record.capture {
        return Err(wrong(
            scenario,
            "capture",
            "is not made by the simulator; remove it from [record]",
        ));
    }
    for placement in scenario.arms.iter().flat_map(|arm| &arm.placements) {
        policy(scenario, placement)?;
    }
    Ok(())
}

/// An error about something that is named in the file: where its name stands
/// first as a quoted value or a key.
pub(crate) fn wrong(scenario: &Scenario, name: &str, what: &str) -> SimError {
    let text = &scenario.source.text;
    let quoted = format!("\"{name}\"");
    let at = text.find(&quoted).or_else(|| text.find(name)).unwrap_or(0);
    scenario
        .error_at(&(at..at + name.len()), format!("'{name}' {what}"))
        .into()
}

/// An error about the TCP of a flow.
pub(crate) fn not_modelled(scenario: &Scenario, flow: &Flow, error: &tcp::ConfigError) -> SimError {
    wrong(
        scenario,
        &flow.name,
        &format!("cannot be modelled: {error}"),
    )
}

/// The policy of a placement with its parameters.
fn policy(scenario: &Scenario, placement: &Placement) -> Result<Config, ScenarioError> {
    let at = |e: ConfigError| scenario.error_at(&placement.policy_span, e.to_string());
    let policy = ackwise_policy::Policy::by_name(&placement.policy).map_err(at)?;
    let home = match placement.home {
        Home::Datapath => Capabilities::SEE_DATA | Capabilities::HOLD,
        Home::Stack => Capabilities::SEE_DATA | Capabilities::HOLD | Capabilities::MAKE_ACKS,
    };
    policy
        .check(home)
        .map_err(|e| scenario.error_at(&placement.policy_span, e.to_string()))?;
    let mut config = Config::new(policy);
    for setting in &placement.set {
        config
            .set(&setting.name, &setting.value.to_string())
            .map_err(|error| {
                let span = match error {
                    ConfigError::UnknownParam { .. } => &setting.name_span,
                    _ => &setting.value_span,
                };
                scenario.error_at(span, error.to_string())
            })?;
    }
    Ok(config)
}

/// The policy under the contract, with the placement's bound of a hold.
fn bounded(config: &Config, placement: &Placement) -> FlowConfig {
    let bounds = FlowConfig::new(config);
    let Some(hold) = placement.hold else {
        return bounds;
    };
    let most = u32::try_from(hold.as_micros()).unwrap_or(u32::MAX);
    bounds.with_hold(sys::AW_HOLD_MIN_US, most, sys::AW_HOLD_RTT_SHIFT)
}

/// The rule of a flow's receiver, if the arm has a policy in its stack.
fn stack_policy(
    scenario: &Scenario,
    arm: &Arm,
    flow: &Flow,
    window: u64,
) -> Result<Option<tcp::StackPolicy>, SimError> {
    let mut at = arm
        .placements
        .iter()
        .filter(|p| p.home == Home::Stack && p.node == flow.to);
    let Some(placement) = at.next() else {
        return Ok(None);
    };
    if at.next().is_some() {
        let message = format!("there is another policy in the stack of '{}'", flow.to);
        return Err(scenario.error_at(&placement.policy_span, message).into());
    }
    let scaling = flow.socket.window_scaling.unwrap_or(true);
    Ok(Some(tcp::StackPolicy {
        flow: bounded(&policy(scenario, placement)?, placement),
        shift: hook::window_shift(window, scaling),
    }))
}

/// Nodes and lines by number.
struct Plan<'a> {
    scenario: &'a Scenario,
    index: HashMap<&'a str, usize>,
    /// For each node, its outgoing lines and where they lead, in file order.
    out: Vec<Vec<(usize, usize)>>,
}

impl<'a> Plan<'a> {
    fn new(scenario: &'a Scenario) -> Plan<'a> {
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

    /// The lines of a way with the fewest hops; hosts are not passed through.
    fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut came: Vec<Option<(usize, usize)>> = vec![None; self.out.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            if at == to {
                break;
            }
            if at != from && self.scenario.nodes[at].kind == NodeKind::Host {
                continue;
            }
            for &(line, next) in &self.out[at] {
                if next != from && came[next].is_none() {
                    came[next] = Some((line, at));
                    queue.push_back(next);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = to;
        while at != from {
            let (line, before) = came[at]?;
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
            _ => Err(wrong(
                self.scenario,
                &flow.name,
                &format!(
                    "finds no way from '{}' to '{}'; add a [[link]]",
                    flow.from, flow.to
                ),
            )),
        }
    }

    fn all_paths(&self) -> Result<Vec<[Vec<usize>; 2]>, SimError> {
        let flows = self.scenario.flows.iter();
        flows.map(|flow| self.paths(flow)).collect()
    }

    /// The link on which a flow is counted: that of this arm's policy, or of
    /// the first arm that has one on its way, or the one that leads to the
    /// receiver.
    fn counted_on(&self, arm: &Arm, paths: &[Vec<usize>; 2]) -> usize {
        std::iter::once(arm)
            .chain(&self.scenario.arms)
            .flat_map(|arm| &arm.placements)
            .filter_map(|placement| self.link(&placement.link))
            .find(|link| paths[1].iter().any(|line| line / 2 == *link))
            .or_else(|| paths[0].last().map(|line| line / 2))
            .unwrap_or(0)
    }

    fn link(&self, name: &str) -> Option<usize> {
        self.scenario
            .links
            .iter()
            .position(|link| link.name == name)
    }
}

/// For each flow, the lines of its data and of its ACKs.
pub(crate) fn paths(scenario: &Scenario) -> Result<Vec<[Vec<usize>; 2]>, SimError> {
    Plan::new(scenario).all_paths()
}

/// Builds the network of a run; `scenario` is as the run sees it
/// (`Scenario::at`).
///
/// # Errors
/// Something in it has no model here.
pub fn build(scenario: &Scenario, spec: &RunSpec) -> Result<Built, SimError> {
    let plan = Plan::new(scenario);
    let arm = scenario.arms.iter().find(|arm| arm.name == spec.arm);
    let stock = Arm {
        name: spec.arm.clone(),
        placements: Vec::new(),
        span: 0..0,
    };
    let arm = arm.unwrap_or(&stock);
    check_boxes(scenario)?;
    let mut lines = lines(scenario, spec.seed);
    let hooks = hooks(&plan, arm, &mut lines)?;
    let mut routes = Routes::default();
    let paths = plan.all_paths()?;
    let starts: Vec<[u32; 2]> = paths
        .iter()
        .map(|paths| {
            let counted = plan.counted_on(arm, paths);
            let narrowest = narrowest(scenario, &paths[1]);
            [
                routes.add(&paths[0], Some(counted), None),
                routes.add(&paths[1], Some(counted), narrowest),
            ]
        })
        .collect();
    let asking: Vec<[u32; 2]> = paths
        .iter()
        .zip(&scenario.flows)
        .map(|(paths, flow)| match flow.app {
            App::RequestResponse { .. } => [1, 0].map(|way| routes.add(&paths[way], None, None)),
            _ => [0, 0],
        })
        .collect();
    let end = nanos(scenario.duration);
    let mut network = Network::new(lines, routes.hops, hooks, end);
    // What a reconstructor makes is not counted as under way.
    let directions = scenario.links.iter().flat_map(|l| [&l.forward, &l.reverse]);
    network.reuse = directions.into_iter().all(|d| d.reconstruct.is_none());
    // One more, for connections that belong to no flow's record.
    network
        .counted
        .resize_with(scenario.flows.len() + 1, Counted::default);
    let connections: u32 = scenario.flows.iter().map(reserved).sum();
    network.reserve(connections as usize);
    let mut ends = Ends::default();
    for (index, flow) in scenario.flows.iter().enumerate() {
        let mtu = mtu(scenario, &paths[index]);
        let template = ends.template(scenario, flow, spec, mtu, starts[index], arm)?;
        add_flow(&mut network, flow, index, spec, template, asking[index]);
    }
    Ok(Built { network, paths })
}

/// Adds a flow's application.
fn add_flow(
    network: &mut Simulation,
    flow: &Flow,
    index: usize,
    spec: &RunSpec,
    made: Template<Arc<SenderConfig>, Arc<ReceiverConfig>>,
    asking: [u32; 2],
) {
    let kind = match &flow.app {
        App::Bulk { bytes } | App::Iperf3 { bytes } => Kind::Bulk(*bytes),
        App::ShortFlows { sizes, count } => {
            let mut rng = Rng::stream(spec.seed, STREAM_ORDER + index as u64);
            Kind::Short(Transfers::shuffled(sizes, *count, &mut rng))
        }
        App::RequestResponse {
            request,
            response,
            count,
        } => {
            // The other direction of a connection that is already open.
            let second = Template {
                source: Arc::new(SenderConfig {
                    handshake: false,
                    ..(*made.source).clone()
                }),
                ..made.clone()
            };
            let first = Template {
                routes: asking,
                ..made.clone()
            };
            let (asking, uncounted) = (network.templates.len(), network.counted.len() - 1);
            network.templates.push(first);
            network.templates.push(second);
            let sizes = (*request, *response);
            Kind::Exchange(Exchanges::new(asking, uncounted, sizes, *count))
        }
    };
    let template = match kind {
        Kind::Exchange(_) => network.templates.len() - 1,
        _ => {
            network.templates.push(made);
            network.templates.len() - 1
        }
    };
    let within = nanos(flow.start_within);
    let offset =
        Rng::stream(spec.seed, STREAM_START + index as u64).below(within.saturating_add(1));
    let app = app::App {
        flow: index,
        template,
        connections: flow.connections,
        first: 0,
        kind,
    };
    network.add_app(app, nanos(flow.start).saturating_add(offset));
}

/// The slowest line of a way, the first of equals; `None` if none has a rate.
pub(crate) fn narrowest(scenario: &Scenario, path: &[usize]) -> Option<usize> {
    let rates = path
        .iter()
        .filter_map(|&line| Some((rate(scenario, line)?, line)));
    rates.min_by_key(|(rate, _)| *rate).map(|(_, line)| line)
}

/// The rate of a line.
pub(crate) fn rate(scenario: &Scenario, line: usize) -> Option<u64> {
    let link = &scenario.links[line / 2];
    [&link.forward, &link.reverse][line % 2].rate_bps
}

/// The least MTU of both ways.
pub(crate) fn mtu(scenario: &Scenario, paths: &[Vec<usize>; 2]) -> u32 {
    let lines = paths.iter().flatten();
    lines
        .map(|line| scenario.links[line / 2].mtu)
        .min()
        .unwrap_or(1500)
}

/// Configurations that flows share.
#[derive(Default)]
struct Ends {
    known: Vec<(
        SenderConfig,
        Arc<SenderConfig>,
        ReceiverConfig,
        Arc<ReceiverConfig>,
    )>,
}

impl Ends {
    fn template(
        &mut self,
        scenario: &Scenario,
        flow: &Flow,
        spec: &RunSpec,
        mtu: u32,
        routes: [u32; 2],
        arm: &Arm,
    ) -> Result<Template<Arc<SenderConfig>, Arc<ReceiverConfig>>, SimError> {
        let (sender, mut receiver) = tcp::configure(flow.cc(spec), &flow.model, &flow.socket, mtu)
            .map_err(|error| not_modelled(scenario, flow, &error))?;
        receiver.policy = stack_policy(scenario, arm, flow, receiver.window)?;
        let scaling = flow.socket.window_scaling.unwrap_or(true);
        let (shift, mss) = (hook::window_shift(receiver.window, scaling), sender.mss);
        let found = self
            .known
            .iter()
            .position(|(s, _, r, _)| *s == sender && *r == receiver);
        let at = found.unwrap_or_else(|| {
            let (s, r) = (Arc::new(sender.clone()), Arc::new(receiver.clone()));
            self.known.push((sender, s, receiver, r));
            self.known.len() - 1
        });
        Ok(Template {
            source: Arc::clone(&self.known[at].1),
            sink: Arc::clone(&self.known[at].3),
            routes,
            shift,
            mss,
        })
    }
}

/// The table of routes; flows on the same way share its entries.
#[derive(Default)]
struct Routes {
    hops: Vec<Hop>,
    known: HashMap<RouteKey, u32>,
}

/// The lines of a way, the link on which it is counted, the narrowest line.
type RouteKey = (Vec<usize>, Option<usize>, Option<usize>);

impl Routes {
    /// A way, with the link and the line on which something is counted.
    fn add(&mut self, path: &[usize], counted: Option<usize>, narrowest: Option<usize>) -> u32 {
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

/// How many connections a flow has from the beginning.
fn reserved(flow: &Flow) -> u32 {
    match flow.app {
        App::Bulk { .. } | App::Iperf3 { .. } => flow.connections,
        App::RequestResponse { .. } => 2 * flow.connections,
        App::ShortFlows { .. } => 0,
    }
}

/// The numbers of the connections that a flow has from the beginning.
fn connections(scenario: &Scenario, name: &str) -> Vec<FlowId> {
    let before = scenario.flows.iter().take_while(|flow| flow.name != name);
    let first: u32 = before.map(reserved).sum();
    let flow = scenario.flows.iter().find(|flow| flow.name == name);
    let count = flow.map_or(0, reserved);
    (first..first + count).map(FlowId).collect()
}

/// Boxes know connections by number, and those of short flows come and go.
fn check_boxes(scenario: &Scenario) -> Result<(), SimError> {
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
                let what = "is a flow of many connections, which a box of the simulator cannot \
                            pick out; let the box work on all flows, or use app = \"bulk\"";
                return Err(wrong(scenario, name, what));
            }
        }
    }
    Ok(())
}

fn lines(scenario: &Scenario, seed: u64) -> Vec<Line> {
    let connections = |name: &str| connections(scenario, name);
    let mut lines = Vec::with_capacity(2 * scenario.links.len());
    for link in &scenario.links {
        for direction in [&link.forward, &link.reverse] {
            let wire = line(direction, seed, lines.len() as u64);
            let config = channel::config(direction, wire, link.header, &connections);
            lines.push(Line::new(Channel::new(config), link.header));
        }
    }
    lines
}

fn line(direction: &scenario::Direction, seed: u64, stream: u64) -> LinkConfig {
    LinkConfig {
        rate_bps: direction.rate_bps,
        // Of lines that say nothing of theirs.
        queue: QueueLimit::Packets(DEFAULT_QUEUE_PACKETS),
        delay_ns: nanos(direction.delay),
        jitter_ns: nanos(direction.jitter),
        loss: Probability::from_fraction(direction.loss),
        duplicate: Probability::from_fraction(direction.duplicate),
        reorder: direction.reorder.map(|reorder| ackwise_net::Reorder {
            probability: Probability::from_fraction(reorder.probability),
            extra_delay_ns: nanos(reorder.delay),
        }),
        seed: Rng::stream(seed, stream).next_u64(),
    }
}

/// Puts the policies of an arm at their interfaces.
fn hooks(plan: &Plan<'_>, arm: &Arm, lines: &mut [Line]) -> Result<Vec<Hook>, SimError> {
    let mut hooks = Vec::new();
    for placement in &arm.placements {
        let scenario = plan.scenario;
        // The receivers have those: see `stack_policy`.
        if placement.home == Home::Stack {
            continue;
        }
        let config = policy(scenario, placement)?;
        let flow_config = bounded(&config, placement);
        let link = plan.link(&placement.link).unwrap_or(0);
        // The direction that leaves the node, and the one that enters it.
        let out = 2 * link + usize::from(scenario.links[link].between[0] != placement.node);
        let number = u16::try_from(hooks.len()).unwrap_or(u16::MAX);
        // At the sender ACKs come in, elsewhere they go out.
        let (leaving, entering) = match placement.position {
            Position::Sender => (Side::Data, Side::Acks),
            Position::Receiver | Position::Router => (Side::Acks, Side::Data),
        };
        let placed =
            lines[out].place(true, number, leaving) & lines[out ^ 1].place(false, number, entering);
        if !placed {
            let message = format!(
                "there is another policy at '{}' on link '{}'; an interface has one",
                placement.node, placement.link
            );
            return Err(scenario.error_at(&placement.policy_span, message).into());
        }
        let place = format!("{}/{}", placement.node, placement.link);
        hooks.push(Hook::new(place, &placement.policy, flow_config));
    }
    Ok(hooks)
}
