//! Runs a scenario and builds its record.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::scenario::{RadioFlowRecord, RadioReport, RadioRun, RadioScenario, RadioSpec};
use ackwise_scenario::ScenarioError;
use ackwise_scenario::record::{SCHEMA, ScenarioInfo};

use crate::run::{Point, run_points};
use crate::world::{FlowResult, NodeCounts, RadioResult};

/// Options for running a radio scenario.
#[derive(Debug, Clone, Default)]
pub struct RadioOptions {
    /// Set to true to end the runs soon; the report then has the finished ones.
    pub cancel: Arc<AtomicBool>,
    /// How many runs at a time; as many as there are CPUs if 0.
    pub jobs: usize,
}

/// Executes these runs; `done` is called with the number of finished runs, on any thread.
///
/// # Errors
/// A policy or a model that does not exist, with its place in the file.
pub fn run(
    scenario: &RadioScenario,
    runs: &[RadioSpec],
    options: &RadioOptions,
    done: &(dyn Fn(usize) + Sync),
) -> Result<RadioReport, ScenarioError> {
    let jobs = match options.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let points: Vec<Point> = runs
        .iter()
        .map(|run| Point {
            arm: run.arm,
            field: run.field,
            seed: run.seed,
        })
        .collect();
    let results = run_points(scenario, &points, jobs, &options.cancel, done)?;
    let finished = runs.iter().zip(results);
    Ok(RadioReport {
        schema: SCHEMA,
        engine: "sim".to_owned(),
        world: "radio".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: ScenarioInfo {
            name: scenario.name.clone(),
            about: scenario.about.clone(),
            duration_s: scenario.duration.as_secs_f64(),
            text: scenario.source.text.clone(),
        },
        runs: finished
            .filter_map(|(run, result)| Some(record(scenario, run, &result?)))
            .collect(),
    })
}

fn record(scenario: &RadioScenario, run: &RadioSpec, result: &RadioResult) -> RadioRun {
    let field = &scenario.fields[run.field];
    let flows = &result.flows;
    let of_flows = |count: fn(&FlowResult) -> u64| flows.iter().map(count).sum();
    let of_nodes = |count: fn(&NodeCounts) -> u64| result.nodes.iter().map(count).sum();
    let flow_ends = field.flows.iter().zip(flows);
    RadioRun {
        id: run.id.clone(),
        arm: scenario.arms[run.arm].name.clone(),
        seed: run.seed,
        hops: (field.hops > 0).then_some(field.hops as u64),
        throughput_bps: result.throughput_bps(),
        energy_j: result.total_joules(),
        efficiency_bps_per_j: result.efficiency(),
        end_s: result.end as f64 * 1e-9,
        unfinished: flows.iter().filter(|flow| flow.duration.is_none()).count() as u64,
        data_segments: of_flows(|flow| flow.segments),
        retransmits: of_flows(|flow| flow.retransmits),
        acks: of_flows(|flow| flow.acks),
        timeouts: of_flows(|flow| flow.timeouts),
        frames: of_nodes(|node| node.frames),
        mac_retries: of_nodes(|node| node.retries),
        lost_no_ack: of_nodes(|node| node.no_ack),
        lost_no_channel: of_nodes(|node| node.no_channel),
        collisions: result.collisions,
        overflows: of_nodes(|node| node.overflows),
        unrouted: of_nodes(|node| node.unrouted),
        routing_packets: of_nodes(|node| node.routing),
        asleep: result.asleep,
        node_energy_j: result.joules.clone(),
        flows: flow_ends
            .map(|(ends, flow)| RadioFlowRecord {
                from: ends.from as u64,
                to: ends.to as u64,
                bytes: flow.delivered,
                took_s: flow.duration.map(|duration| duration as f64 * 1e-9),
                data_segments: flow.segments,
                retransmits: flow.retransmits,
                acks: flow.acks,
                timeouts: flow.timeouts,
            })
            .collect(),
    }
}
