//! Builds a network that is ready to run from a checked scenario.

pub(crate) mod check;
mod place;
mod plan;

use std::sync::Arc;

use ackwise_queue::{Channel, LinkConfig, QueueLimit};
use ackwise_rng::{Probability, Rng};
use ackwise_scenario as scenario;
use ackwise_scenario::{App, Arm, Duplex, Flow, RunSpec, Scenario};

use crate::app::{self, Chunks, Exchanges, Kind, Transfers};
use crate::channel;
use crate::connection::{Counted, Template};
use crate::ends::{self, ReceiverConfig, SenderConfig, Transport};
use crate::engine::Network;
use crate::error::SimError;
use crate::line::Line;
use crate::own_policy::OwnPolicy;
use crate::packet::{AckOption, AckRateOption, FlowId};
use crate::quic_endpoint::QuicConfig;
use crate::segment;
use crate::tcp;
use crate::time::nanos;

use plan::{Plan, Routes};

/// The network of a scenario.
pub type Simulation = Network<ends::Sender, ends::Receiver>;

/// Queue length of a line that does not set one; the live engine uses the same.
const DEFAULT_QUEUE_PACKETS: usize = 1000;

/// Streams of random numbers are separate, so that another element does not change the draws
/// of the rest. A line's stream is its number; a flow's streams are these plus its number.
const STREAM_START: u64 = 2_000;
const STREAM_ORDER: u64 = 1 << 40;
const STREAM_WIFI: u64 = 1 << 41;

/// The network of a run, with the paths of its flows.
pub struct Built {
    /// The network.
    pub network: Simulation,
    /// For each flow, the lines of its data and of its ACKs.
    pub paths: Vec<[Vec<usize>; 2]>,
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
    build_with(scenario, spec, None)
}

/// Builds the network of a run as [`build`] does, with the caller's policies wherever
/// their arm has one at an interface.
pub(crate) fn build_with(
    scenario: &Scenario,
    spec: &RunSpec,
    own: Option<&Arc<dyn OwnPolicy>>,
) -> Result<Built, SimError> {
    let plan = Plan::new(scenario);
    let arm = scenario.arms.iter().find(|arm| arm.name == spec.arm);
    let stock = Arm {
        name: spec.arm.clone(),
        placements: Vec::new(),
        on: Vec::new(),
        span: 0..0,
    };
    let arm = arm.unwrap_or(&stock);
    check::boxes(scenario)?;
    let mut lines = lines(scenario, spec.seed);
    let interface_policies = place::interface_policies(&plan, arm, own, &mut lines)?;
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
            App::RequestResponse { .. } => [1, 0].map(|side| routes.add(&paths[side], None, None)),
            _ => [0, 0],
        })
        .collect();
    let end = nanos(scenario.duration);
    let mut network = Network::new(lines, routes.hops, interface_policies, end);
    // ACKs that a reconstructor makes are not counted as in flight.
    let directions = scenario.links.iter().flat_map(|l| [&l.forward, &l.reverse]);
    network.reuse = directions.into_iter().all(|d| d.reconstruct.is_none());
    // One more, for the connections that no flow's record counts.
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
    made: Template<SenderConfig, ReceiverConfig>,
    asking: [u32; 2],
) {
    let kind = match &flow.app {
        App::Bulk { bytes } | App::Iperf3 { bytes } => Kind::Bulk(*bytes),
        App::ShortFlows { sizes, count } => {
            let mut rng = Rng::stream(spec.seed, STREAM_ORDER + index as u64);
            Kind::Short(match count {
                Some(count) => Transfers::shuffled(sizes, *count, &mut rng),
                None => Transfers::endless(sizes, rng),
            })
        }
        App::Chunks {
            chunk,
            period,
            deadline,
        } => {
            let (period, deadline) = (nanos(*period), nanos(*deadline));
            Kind::Chunks(Chunks::new(*chunk, period, deadline, flow.connections))
        }
        App::RequestResponse {
            request,
            response,
            count,
        } => {
            // The other direction of a connection that is already open.
            let source = match &made.source {
                Transport::Tcp(tcp) => Transport::Tcp(Arc::new(tcp::SenderConfig {
                    handshake: false,
                    fin_with_data: false,
                    ..(**tcp).clone()
                })),
                Transport::Quic(quic) => Transport::Quic(Arc::clone(quic)),
            };
            let second = Template {
                source,
                ..made.clone()
            };
            let first = Template {
                routes: asking,
                ..made.clone()
            };
            let (asking, uncounted) = (network.templates.len(), network.counted.len() - 1);
            network.templates.push(first);
            network.templates.push(second);
            Kind::Exchange(Exchanges {
                asking,
                uncounted,
                request: *request,
                response: *response,
                count: *count,
                pairs: Vec::new(),
                begun: Vec::new(),
            })
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

/// The slowest line of a path, the first if several are equal; `None` if none has a rate.
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

/// The lines that have a rate, and therefore a queue.
pub(crate) fn lines_with_rate(scenario: &Scenario) -> impl Iterator<Item = usize> + '_ {
    (0..2 * scenario.links.len()).filter(|line| rate(scenario, *line).is_some())
}

/// The smallest MTU of both paths.
pub(crate) fn mtu(scenario: &Scenario, paths: &[Vec<usize>; 2]) -> u32 {
    let lines = paths.iter().flatten();
    lines
        .map(|line| scenario.links[line / 2].mtu)
        .min()
        .unwrap_or(1500)
}

/// The configurations of the two ends of a connection.
struct EndConfigs {
    sender: Arc<tcp::SenderConfig>,
    receiver: Arc<tcp::ReceiverConfig>,
}

/// Configurations that flows share.
#[derive(Default)]
struct Ends {
    known: Vec<EndConfigs>,
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
    ) -> Result<Template<SenderConfig, ReceiverConfig>, SimError> {
        if let Some(quic) = &flow.quic {
            let config =
                QuicConfig::of(flow, quic, flow.cc(spec), mtu, spec.seed).map_err(|why| {
                    let path = format!("flow.{}.quic", flow.name);
                    SimError::at(scenario, &path, &flow.name, &why)
                })?;
            let (mss, config) = (config.mss(), Arc::new(config));
            return Ok(Template {
                source: Transport::Quic(Arc::clone(&config)),
                sink: Transport::Quic(config),
                routes,
                shift: 0,
                mss,
            });
        }
        // As in Linux, where the MSS leaves room for the options of every segment.
        let options = match (flow.ack_rate_request, flow.ack_congestion_control) {
            (Some(_), _) => AckRateOption::REQUEST_LEN,
            (None, Some(_)) => AckOption::RATIO_LEN,
            (None, None) => 0,
        };
        let mtu = mtu.saturating_sub(options);
        let (mut sender, mut receiver) =
            tcp::configure(flow.cc(spec), &flow.model, &flow.socket, mtu)
                .map_err(|error| SimError::no_model(scenario, flow, &error))?;
        sender.seed = spec.seed;
        sender.cwnd_hint |= place::tells(arm, flow);
        sender.ack_rate = flow.ack_rate_request;
        sender.ack_congestion_control = flow.ack_congestion_control;
        place::check_ack_ratio(scenario, arm, flow)?;
        receiver.knows_ack_rate = place::obeys_ack_rate(arm, flow);
        receiver.policy = place::stack_policy(scenario, arm, flow, receiver.window)?;
        let scaling = flow.socket.window_scaling.unwrap_or(true);
        let (shift, mss) = (segment::window_shift(receiver.window, scaling), sender.mss);
        let found = self
            .known
            .iter()
            .position(|pair| *pair.sender == sender && *pair.receiver == receiver);
        let at = found.unwrap_or_else(|| {
            self.known.push(EndConfigs {
                sender: Arc::new(sender),
                receiver: Arc::new(receiver),
            });
            self.known.len() - 1
        });
        Ok(Template {
            source: Transport::Tcp(Arc::clone(&self.known[at].sender)),
            sink: Transport::Tcp(Arc::clone(&self.known[at].receiver)),
            routes,
            shift,
            mss,
        })
    }
}

/// The number of connections that a flow has from the beginning.
fn reserved(flow: &Flow) -> u32 {
    match flow.app {
        App::Bulk { .. } | App::Iperf3 { .. } | App::Chunks { .. } => flow.connections,
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

fn lines(scenario: &Scenario, seed: u64) -> Vec<Line> {
    let connections = |name: &str| connections(scenario, name);
    let mut lines = Vec::with_capacity(2 * scenario.links.len());
    for (number, link) in scenario.links.iter().enumerate() {
        for direction in [&link.forward, &link.reverse] {
            let wire = line(direction, seed, lines.len() as u64);
            let config = channel::config(direction, wire, link.overhead, &connections);
            let mut channel = Channel::new(config);
            if let Some(changes) = direction.changes() {
                channel.vary(&changes, 0);
            }
            lines.push(Line::new(channel, link.overhead));
        }
        if link.duplex == Duplex::Half
            && let Some(pair) = lines.last_chunk_mut()
        {
            let seed = Rng::stream(seed, STREAM_WIFI + number as u64).next_u64();
            Line::share(pair, link.wifi_medium(seed));
        }
    }
    lines
}

fn line(direction: &scenario::Direction, seed: u64, stream: u64) -> LinkConfig {
    LinkConfig {
        rate_bps: direction.rate_bps,
        // For lines that do not configure a queue.
        queue: QueueLimit::Packets(DEFAULT_QUEUE_PACKETS),
        delay_ns: nanos(direction.delay),
        jitter_ns: nanos(direction.jitter),
        loss: Probability::from_fraction(direction.loss),
        duplicate: Probability::from_fraction(direction.duplicate),
        reorder: direction.reorder.map(|reorder| ackwise_queue::Reorder {
            probability: Probability::from_fraction(reorder.probability),
            extra_delay_ns: nanos(reorder.delay),
        }),
        seed: Rng::stream(seed, stream).next_u64(),
    }
}
