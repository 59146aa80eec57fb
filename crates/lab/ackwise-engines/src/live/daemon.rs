//! Gateway daemons at the ends of links, for scenarios with `by`.

use std::time::Duration;

use ackwise_gateway::{AttachMode, Config, Gateway, Stats};
use ackwise_rng::Rng;
use ackwise_scenario::record::QueueRecord;
use ackwise_scenario::{Arm, By, Direction, Environment, Link, Scenario};

use crate::error::LabError;
use crate::queue_lengths::{MeanLength, QueueSample, put_samples};
use crate::topology::Topology;

/// First random number stream of the gateways.
const STREAM: u64 = 3000;
/// A gateway publishes its queue at this interval, and is running after the first time.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(60);
const DIRECTIONS: [&str; 2] = ["forward", "reverse"];

fn directions(link: &Link) -> [&Direction; 2] {
    [&link.forward, &link.reverse]
}

/// The scenario without the parts that daemons take over from the links.
pub(super) fn without_daemons(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for link in &mut scenario.links {
        for direction in [&mut link.forward, &mut link.reverse] {
            if direction.by == By::Gateway {
                (direction.rate_bps, direction.queue) = (None, None);
            }
            direction.mux.take_if(|mux| mux.by_tunnel);
        }
    }
    scenario
}

/// A running gateway, which ends on drop.
#[derive(Debug)]
pub(super) struct Daemon {
    /// `link.direction`, as in the record.
    name: String,
    node: String,
    gateway: Gateway,
    lengths: Vec<QueueSample>,
    next_ns: u64,
    interval_ns: u64,
}

/// The results of a gateway.
#[derive(Debug)]
pub(super) struct Served {
    name: String,
    stats: Stats,
    lengths: Vec<QueueSample>,
}

/// Starts the gateways of a scenario.
///
/// # Errors
/// One could not be started; those started before it are stopped.
pub(super) fn start(
    scenario: &Scenario,
    arm: &Arm,
    seed: u64,
    topology: &Topology,
) -> Result<Vec<Daemon>, LabError> {
    let mut daemons = Vec::new();
    for (index, link) in scenario.links.iter().enumerate() {
        for (end, direction) in directions(link).into_iter().enumerate() {
            if direction.by != By::Gateway {
                continue;
            }
            let interface = topology.plan.interface(index, end);
            let Some(config) = config(&interface.name, link, direction, arm) else {
                let place = format!("{} of link `{}`", DIRECTIONS[end], link.name);
                let what = "the gateway has no rate or no queue";
                return Err(LabError::Scenario(format!("{place}: {what}")));
            };
            let node = scenario.nodes[interface.node].name.clone();
            let failed = |error| {
                LabError::Run(format!(
                    "the gateway on {} of {node}: {error}",
                    interface.name
                ))
            };
            let draws = Rng::stream(seed, STREAM + 2 * index as u64 + end as u64).next_u64();
            let gateway = topology.namespaces[interface.node].inside(|| {
                Gateway::start_seeded(config, AttachMode::Auto, draws).map_err(failed)
            })?;
            daemons.push(Daemon {
                name: format!("{}.{}", link.name, DIRECTIONS[end]),
                node,
                gateway,
                lengths: Vec::new(),
                next_ns: 0,
                interval_ns: 0,
            });
        }
    }
    if !daemons.is_empty() {
        std::thread::sleep(PUBLISH_INTERVAL);
    }
    Ok(daemons)
}

/// The configuration of a gateway. If the queue marks and the arm's receivers answer marks, the
/// gateway echoes the marks to them.
fn config(interface: &str, link: &Link, direction: &Direction, arm: &Arm) -> Option<Config> {
    let queue = direction.queue.clone()?;
    let marks = queue.marks();
    let answers = arm
        .placements
        .iter()
        .any(|place| place.policy == "acc" && place.environment == Environment::Datapath);
    Some(Config {
        interface: interface.to_owned(),
        rate_bps: direction.rate_bps?,
        min_rate_bps: None,
        overhead: link.overhead,
        queue,
        acc: marks && answers,
        metrics: None,
    })
}

impl Daemon {
    /// Records the queue's length every `interval_ns`, starting at `start_ns`.
    pub fn record_from(&mut self, start_ns: u64, interval_ns: u64) {
        (self.next_ns, self.interval_ns) = (start_ns, interval_ns);
    }

    /// Records the queue's length if a sample is due.
    pub fn sample_queue(&mut self, now: u64) {
        if self.interval_ns == 0 || now < self.next_ns {
            return;
        }
        self.next_ns += self.interval_ns * (1 + (now - self.next_ns) / self.interval_ns);
        if let Ok(stats) = self.gateway.stats() {
            self.lengths.push(QueueSample {
                at_ns: now,
                packets: stats.waiting.packets,
            });
        }
    }

    /// Ends the gateway and returns its results.
    ///
    /// # Errors
    /// The gateway had ended before; the text says why.
    pub fn finish(self) -> Result<Served, String> {
        let Daemon {
            name,
            node,
            gateway,
            lengths,
            ..
        } = self;
        let stats = gateway
            .stop()
            .map_err(|error| format!("the gateway of {node}: {error}"))?;
        Ok(Served {
            name,
            stats,
            lengths,
        })
    }
}

impl Served {
    /// Replaces the record of the link's queue by the gateway's, but keeps the losses of the wire
    /// behind it.
    pub fn add_to(&self, queues: &mut Vec<QueueRecord>, start_ns: u64) {
        let stats = &self.stats;
        let found = queues.iter().position(|queue| queue.name == self.name);
        let losses = found.and_then(|at| queues[at].losses);
        let dropped = &stats.dropped;
        let mut mean_length = MeanLength::default();
        for sample in &self.lengths {
            mean_length.add(sample.packets);
        }
        let mut record = QueueRecord {
            name: self.name.clone(),
            arrivals: Some(stats.read + dropped.overrun),
            max_packets: Some(stats.waiting.max_packets),
            mean_packets: mean_length.packets(),
            drops: dropped.full
                + dropped.early
                + dropped.forced
                + dropped.overrun
                + dropped.no_room
                + dropped.down
                + dropped.refused,
            early_drops: dropped.early,
            marks: stats.marked,
            filtered: Some(stats.filtered.packets),
            losses,
            ..QueueRecord::default()
        };
        put_samples(&self.lengths, start_ns, &mut record);
        match found {
            Some(at) => queues[at] = record,
            None => queues.push(record),
        }
    }
}
