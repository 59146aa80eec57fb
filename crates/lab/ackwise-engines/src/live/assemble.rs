//! Builds the record of a run from the measurements.

mod nodes;
mod notes;
mod queues;
mod traffic;

use ackwise_datapath::Stats;
use ackwise_queue::{LinkStats, Nanos};
use ackwise_scenario::record::{FlowRecord, Run, RunContext, Testbed};
use ackwise_scenario::{Histogram, RunSpec, Scenario};

use super::Clock;
use super::daemon::Served;
use super::sampler::Seen;
use super::tunnels::Tunnelled;
use crate::count::WireCounter;
use crate::emulator::{EmulatorReport, WINDOW_NS};
use crate::error::LabError;
use crate::kernel_link::{DirectionStats, KernelReport};
use crate::plan::Hop;
use crate::queue_lengths::QueueSample;
use crate::sniffer::SnifferReport;
use crate::topology::LinkBackend;
use crate::traffic::Outcome;
use traffic::Part;

/// The paths of a flow, and the link on which it is counted.
#[derive(Debug, Clone)]
pub(super) struct FlowPaths {
    /// Node that sends the data.
    pub from: usize,
    /// Node that receives them.
    pub to: usize,
    /// Port of the listening side.
    pub port: u16,
    /// Path of the data.
    pub data: Vec<Hop>,
    /// Path of the ACKs.
    pub acks: Vec<Hop>,
    /// Link on which data and ACKs are counted.
    pub counted_on: usize,
}

/// The final report of a link.
pub(super) struct Wired {
    link: usize,
    counter: WireCounter,
    emulated: Option<Emulated>,
    directions: Option<[DirectionStats; 2]>,
    errors: Vec<String>,
}

struct Emulated {
    stats: [LinkStats; 2],
    policed: [Option<u64>; 2],
    lateness: Histogram,
    stack_cpu_ns: [u64; 2],
    refused: [u64; 2],
    realtime: Result<(), String>,
    overloads: u64,
    span_ns: u64,
    queues: [Vec<QueueSample>; 2],
}

impl Wired {
    pub fn emulated(link: usize, report: EmulatorReport) -> Self {
        Self {
            link,
            counter: report.counter,
            emulated: Some(Emulated {
                stats: report.stats,
                policed: report.policed,
                lateness: report.lateness,
                stack_cpu_ns: report.stack_cpu_ns,
                refused: report.refused,
                realtime: report.realtime,
                overloads: report.overloads,
                span_ns: report.span_ns,
                queues: report.queues,
            }),
            directions: None,
            errors: report.errors,
        }
    }

    pub fn kernel(link: usize, report: KernelReport) -> Self {
        Self {
            link,
            counter: report.counter,
            emulated: None,
            directions: Some(report.directions),
            errors: report.errors,
        }
    }

    pub fn sniffed(link: usize, report: SnifferReport) -> Self {
        let mut errors = report.errors;
        if report.missed > 0 {
            errors.push(format!(
                "the sniffer missed {} frames; the counts are too low by this number",
                report.missed
            ));
        }
        Self {
            link,
            counter: report.counter,
            emulated: None,
            directions: None,
            errors,
        }
    }
}

/// Everything that was measured in a run.
pub(super) struct Measured<'a> {
    pub scenario: &'a Scenario,
    pub spec: &'a RunSpec,
    pub backend: LinkBackend,
    pub clock: Clock,
    pub paths: Vec<FlowPaths>,
    pub wired: Vec<Wired>,
    pub outcomes: Vec<Outcome>,
    pub seen: Vec<Seen>,
    pub statistics: Vec<(String, Stats)>,
    pub served: Vec<Served>,
    pub tunnelled: Vec<Tunnelled>,
    pub softirq_s: f64,
    pub start_ns: Nanos,
    pub interval_ns: Nanos,
    pub errors: Vec<String>,
}

/// A run's record, and what the report says about all runs together.
pub(crate) struct Done {
    pub run: Run,
    pub lateness: Histogram,
    pub context: RunContext,
}

/// The record of a run that failed.
pub(crate) fn failed(spec: &RunSpec, error: &LabError) -> Run {
    Run {
        errors: vec![error.to_string()],
        ..empty(spec)
    }
}

fn empty(spec: &RunSpec) -> Run {
    Run {
        id: spec.id.clone(),
        arm: spec.arm.clone(),
        cc: spec.cc.clone(),
        seed: spec.seed,
        draw: spec.draw,
        point: spec.point.clone(),
        ..Run::default()
    }
}

/// The errors of a run, as text.
fn errors(measured: &Measured<'_>) -> Vec<String> {
    let scenario = measured.scenario;
    let mut errors = measured.errors.clone();
    for wired in &measured.wired {
        let name = &scenario.links[wired.link].name;
        let described = wired.errors.iter();
        errors.extend(described.map(|error| format!("link `{name}`: {error}")));
        let Some(emulated) = &wired.emulated else {
            continue;
        };
        for (end, refused) in emulated.refused.iter().enumerate().filter(|(_, n)| **n > 0) {
            errors.push(format!(
                "link `{name}`: the interface of {} refused {refused} packets",
                scenario.links[wired.link].between[end]
            ));
        }
    }
    for wired in &measured.wired {
        let Some(emulated) = &wired.emulated else {
            continue;
        };
        // The machine may be busy elsewhere for a moment; a link that is too fast for it overloads
        // all the time.
        let windows = emulated.span_ns / WINDOW_NS;
        let overloads = emulated.overloads;
        if overloads > windows / 50 {
            errors.push(format!(
                "link `{}`: this machine is too slow for this link; frames that were due had to \
                 wait {overloads} times",
                scenario.links[wired.link].name
            ));
        }
    }
    for (outcome, seen) in measured.outcomes.iter().zip(&measured.seen) {
        errors.extend(outcome.errors.iter().cloned());
        errors.extend(seen.errors.iter().cloned());
    }
    errors
}

/// Builds the record of a run.
pub(super) fn record(measured: Measured<'_>) -> Done {
    let scenario = measured.scenario;
    let flows: Vec<Part<'_>> = (0..scenario.flows.len())
        .map(|index| Part::of_flow(&measured, index))
        .collect();
    let mut run = Run {
        queues: queues::queues(&measured),
        nodes: nodes::nodes(&measured),
        errors: errors(&measured),
        ..empty(measured.spec)
    };
    if let [only] = &flows[..] {
        run.flow = Some(scenario.flows[0].name.clone());
        run.totals = only.traffic(&measured);
    } else {
        run.flows = flows
            .iter()
            .zip(&scenario.flows)
            .map(|(part, flow)| FlowRecord {
                flow: flow.name.clone(),
                cc: Some(flow.cc(measured.spec).to_owned()),
                traffic: part.traffic(&measured),
            })
            .collect();
        run.totals = Part::of_all(&flows).traffic(&measured);
        run.totals.jain = FlowRecord::jain(&run.flows);
    }

    let mut lateness = Histogram::default();
    for emulated in measured
        .wired
        .iter()
        .filter_map(|wired| wired.emulated.as_ref())
    {
        lateness.merge(&emulated.lateness);
    }
    run.link_lateness_us = lateness.quantiles_us();
    run.datapath = datapath_value(&measured.statistics, measured.clock);
    Done {
        run,
        lateness,
        context: RunContext {
            environment: Testbed {
                link_emulator: notes::link_emulator(&measured),
                datapath: measured
                    .statistics
                    .first()
                    .map(|(_, stats)| format!("{:?}", stats.attach).to_lowercase()),
                ..Testbed::default()
            },
            notes: notes::notes(&measured),
        },
    }
}

fn datapath_value(statistics: &[(String, Stats)], clock: Clock) -> Option<serde_json::Value> {
    if statistics.is_empty() {
        return None;
    }
    let map = statistics
        .iter()
        .map(|(place, stats)| {
            let mut value = serde_json::to_value(stats).unwrap_or(serde_json::Value::Null);
            if let (Clock::Virtual, Some(map)) = (clock, value.as_object_mut()) {
                // The uptime includes the preparation of the run.
                map.remove("uptime_s");
            }
            (place.clone(), value)
        })
        .collect();
    Some(serde_json::Value::Object(map))
}
