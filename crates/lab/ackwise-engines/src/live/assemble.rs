//! From what was measured to the record.

use std::collections::BTreeMap;

use ackwise_datapath::Stats;
use ackwise_queue::{LinkStats, Nanos};
use ackwise_scenario::record::{
    AckKinds, Completion, CompletionOfSize, FlowRecord, NodeRecord, Quantiles, QueueRecord, Run,
    Series, StretchBin, Traffic,
};
use ackwise_scenario::{App, RunSpec, Scenario};

use super::Clock;
use super::daemon::Served;
use super::sampler::{Sample, Seen};
use super::tunnels::Tunnelled;
use crate::clock::seconds;
use crate::count::{FlowCount, WireCounter};
use crate::emulator::{EmulatorReport, WINDOW_NS};
use crate::error::LabError;
use crate::histogram::Histogram;
use crate::kernel_link::{KernelReport, Way};
use crate::plan::Hop;
use crate::sniffer::SnifferReport;
use crate::topology::{Shaper, needs_shaping};
use crate::traffic::{Outcome, Transfer};

/// Stands for all nodes where the stack's work cannot be told apart.
const WHOLE_MACHINE: &str = "(softirq of the whole machine)";
/// Points kept of a distribution of completion times.
const CDF_POINTS: usize = 200;

/// Where a flow goes, and where it is counted.
#[derive(Debug, Clone)]
pub(super) struct FlowPaths {
    /// Node that sends the data.
    pub from: usize,
    /// Node that receives them.
    pub to: usize,
    /// Port of its listening side.
    pub port: u16,
    /// Way of the data.
    pub data: Vec<Hop>,
    /// Way of the ACKs.
    pub acks: Vec<Hop>,
    /// Link on which data and ACKs are counted.
    pub counted_on: usize,
}

/// What a link told at its end.
pub(super) struct Wired {
    link: usize,
    counter: WireCounter,
    emulated: Option<Emulated>,
    ways: Option<[Way; 2]>,
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
    queues: [Vec<(u64, u32)>; 2],
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
            ways: None,
            errors: report.errors,
        }
    }

    pub fn kernel(link: usize, report: KernelReport) -> Self {
        Self {
            link,
            counter: report.counter,
            emulated: None,
            ways: Some(report.ways),
            errors: report.errors,
        }
    }

    pub fn sniffed(link: usize, report: SnifferReport) -> Self {
        let mut errors = report.errors;
        if report.missed > 0 {
            errors.push(format!(
                "{} frames were missed by the sniffer; the counts are too low by these",
                report.missed
            ));
        }
        Self {
            link,
            counter: report.counter,
            emulated: None,
            ways: None,
            errors,
        }
    }
}

/// Everything that was measured in a run.
pub(super) struct Measured<'a> {
    pub scenario: &'a Scenario,
    pub spec: &'a RunSpec,
    pub shaper: Shaper,
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

/// A run's record, and what the report says of all runs together.
pub(crate) struct Done {
    pub run: Run,
    pub lateness: Histogram,
    pub link_emulator: Option<String>,
    pub datapath: Option<String>,
    pub notes: Vec<String>,
}

/// The record of a run that could not be made.
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
        point: spec.point.clone(),
        ..Run::default()
    }
}

/// Builds the record of a run.
pub(super) fn record(measured: Measured<'_>) -> Done {
    let scenario = measured.scenario;
    let mut errors = measured.errors.clone();
    for wired in &measured.wired {
        let name = &scenario.links[wired.link].name;
        errors.extend(
            wired
                .errors
                .iter()
                .map(|error| format!("link `{name}`: {error}")),
        );
        if let Some(emulated) = &wired.emulated {
            for (end, refused) in emulated.refused.iter().enumerate().filter(|(_, n)| **n > 0) {
                errors.push(format!(
                    "link `{name}`: {refused} packets were refused by the interface of {}",
                    scenario.links[wired.link].between[end]
                ));
            }
        }
    }
    for wired in &measured.wired {
        let Some(emulated) = &wired.emulated else {
            continue;
        };
        // Now and then the machine is busy elsewhere; a link that is too fast
        // for it shows all the time.
        let windows = emulated.span_ns / WINDOW_NS;
        let overloads = emulated.overloads;
        if overloads > windows / 50 {
            errors.push(format!(
                "link `{}`: this machine is too slow for it; the emulator had to let frames wait \
                 {overloads} times",
                scenario.links[wired.link].name
            ));
        }
    }
    for (outcome, seen) in measured.outcomes.iter().zip(&measured.seen) {
        errors.extend(outcome.errors.iter().cloned());
        errors.extend(seen.errors.iter().cloned());
    }

    let flows: Vec<Part<'_>> = (0..scenario.flows.len())
        .map(|index| Part::of_flow(&measured, index))
        .collect();
    let mut run = Run {
        queues: queues(&measured),
        nodes: nodes(&measured),
        errors,
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
    }

    let mut lateness = Histogram::default();
    for emulated in measured
        .wired
        .iter()
        .filter_map(|wired| wired.emulated.as_ref())
    {
        lateness.merge(&emulated.lateness);
    }
    run.link_lateness_us = lateness.quantiles(1000.0);
    run.datapath = datapath_value(&measured.statistics, measured.clock);
    Done {
        run,
        lateness,
        link_emulator: link_emulator(&measured),
        datapath: measured
            .statistics
            .first()
            .map(|(_, stats)| format!("{:?}", stats.attach).to_lowercase()),
        notes: notes(&measured),
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
                // It includes how long the run took to prepare.
                map.remove("uptime_s");
            }
            (place.clone(), value)
        })
        .collect();
    Some(serde_json::Value::Object(map))
}

/// What belongs to a flow, or to all flows together.
#[derive(Default)]
struct Part<'a> {
    counts: Vec<&'a FlowCount>,
    retransmits: u64,
    outcomes: Vec<&'a Outcome>,
    seen: Vec<&'a Seen>,
    /// ACK bytes in frames, and the rate of the narrowest link of their way.
    narrowest: Vec<(u64, Option<u64>)>,
    has_transfers: bool,
}

impl<'a> Part<'a> {
    fn of_flow(measured: &'a Measured<'_>, index: usize) -> Self {
        let paths = &measured.paths[index];
        let on = |link: usize| {
            measured
                .wired
                .iter()
                .find(|wired| wired.link == link)
                .map(|wired| &wired.counter.flows()[index])
        };
        // The counted link nearest to the sender saw all that it sent.
        let retransmits = paths
            .data
            .iter()
            .find_map(|hop| on(hop.link))
            .map_or(0, |count| count.retransmits);
        let narrow = paths
            .acks
            .iter()
            .filter_map(|hop| {
                let link = &measured.scenario.links[hop.link];
                let direction = if hop.enter == 0 {
                    &link.forward
                } else {
                    &link.reverse
                };
                Some((direction.rate_bps?, hop.link))
            })
            .min();
        let counted = on(paths.counted_on);
        let ack_frames = narrow
            .and_then(|(_, link)| on(link))
            .or(counted)
            .map_or(0, |count| count.ack_frame_bytes);
        Self {
            counts: counted.into_iter().collect(),
            retransmits,
            outcomes: vec![&measured.outcomes[index]],
            seen: vec![&measured.seen[index]],
            narrowest: vec![(ack_frames, narrow.map(|(rate, _)| rate))],
            has_transfers: matches!(
                measured.scenario.flows[index].app,
                App::RequestResponse { .. } | App::ShortFlows { .. }
            ),
        }
    }

    fn of_all(parts: &[Part<'a>]) -> Self {
        let mut all = Self::default();
        for part in parts {
            all.counts.extend(&part.counts);
            all.retransmits += part.retransmits;
            all.outcomes.extend(&part.outcomes);
            all.seen.extend(&part.seen);
            all.narrowest.extend(&part.narrowest);
            all.has_transfers |= part.has_transfers;
        }
        all
    }

    fn traffic(&self, measured: &Measured<'_>) -> Traffic {
        let first = self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.first_ns)
            .min();
        let last = self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.last_ns)
            .max();
        let duration_s = match (first, last) {
            (Some(first), Some(last)) => seconds(last.saturating_sub(first)),
            _ => 0.0,
        };
        let bytes = self
            .outcomes
            .iter()
            .map(|outcome| outcome.bytes)
            .sum::<u64>();
        let acks = self.ack_kinds();
        let data_segments = self
            .counts
            .iter()
            .map(|count| count.data_segments)
            .sum::<u64>();
        let per_second = |value: f64| {
            if duration_s > 0.0 {
                value / duration_s
            } else {
                0.0
            }
        };
        Traffic {
            duration_s,
            bytes,
            goodput_bps: per_second(bytes as f64 * 8.0),
            data_segments,
            acks_on_wire: acks.total(),
            retransmits: self.retransmits,
            rtt_us: self.rtts(),
            acks: Some(acks),
            ack_bytes_on_wire: Some(self.counts.iter().map(|count| count.ack_ip_bytes).sum()),
            uplink_share: self.uplink_share(duration_s),
            segments_per_ack: (acks.total() > 0)
                .then(|| data_segments as f64 / acks.total() as f64),
            stretch: Some(self.stretch()),
            jain: None,
            timeouts: self.timeouts(),
            completion: self.completion(),
            content: self.content(),
            series: measured
                .scenario
                .record
                .series
                .then(|| self.series(measured)),
        }
    }

    fn ack_kinds(&self) -> AckKinds {
        let mut all = AckKinds::default();
        for count in &self.counts {
            all.sack += count.acks.sack;
            all.pure += count.acks.pure;
            all.window_update += count.acks.window_update;
            all.dup += count.acks.dup;
            all.old += count.acks.old;
            all.other += count.acks.other;
        }
        all
    }

    fn stretch(&self) -> Vec<StretchBin> {
        let mut bars: BTreeMap<u32, u64> = BTreeMap::new();
        for bar in self.counts.iter().flat_map(|count| count.stretch()) {
            *bars.entry(bar.segments).or_default() += bar.acks;
        }
        bars.into_iter()
            .map(|(segments, acks)| StretchBin { segments, acks })
            .collect()
    }

    /// Of the flows together, each on its own narrowest link; a meaningful sum
    /// only if that is the same one.
    fn uplink_share(&self, duration_s: f64) -> Option<f64> {
        let rate = self.narrowest.first()?.1?;
        if duration_s <= 0.0 || self.narrowest.iter().any(|(_, other)| *other != Some(rate)) {
            return None;
        }
        let bits: u64 = self.narrowest.iter().map(|(bytes, _)| bytes * 8).sum();
        Some((bits as f64 / duration_s / rate as f64).min(1.0))
    }

    fn rtts(&self) -> Option<Quantiles> {
        let sampled = self.seen.iter().flat_map(|seen| {
            seen.samples
                .iter()
                .flat_map(|sample| sample.rtts_us.iter().copied())
        });
        let mut rtts: Vec<f64> = sampled.map(f64::from).collect();
        if rtts.is_empty() {
            // Connections that ended before anybody looked.
            let finals = self.outcomes.iter().flat_map(|outcome| &outcome.finals);
            rtts.extend(
                finals
                    .map(|info| f64::from(info.rtt_us))
                    .filter(|&rtt| rtt > 0.0),
            );
        }
        Quantiles::of(&rtts)
    }

    fn timeouts(&self) -> Option<u64> {
        let finals = self.outcomes.iter().flat_map(|outcome| &outcome.finals);
        let foreign = self.seen.iter().flat_map(|seen| &seen.foreign_finals);
        finals
            .chain(foreign)
            .map(|info| info.timeouts.map(u64::from))
            .sum()
    }

    fn completion(&self) -> Option<Completion> {
        if !self.has_transfers {
            return None;
        }
        let transfers: Vec<&Transfer> = self
            .outcomes
            .iter()
            .flat_map(|outcome| &outcome.transfers)
            .collect();
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for transfer in &transfers {
            by_size
                .entry(transfer.bytes)
                .or_default()
                .push(transfer.time_ns as f64 / 1000.0);
        }
        let all: Vec<f64> = by_size.values().flatten().copied().collect();
        Some(Completion {
            time_us: Quantiles::of(&all).unwrap_or_default(),
            count: transfers.len() as u64,
            unfinished: self.outcomes.iter().map(|outcome| outcome.unfinished).sum(),
            by_size: by_size
                .into_iter()
                .filter_map(|(bytes, times)| CompletionOfSize::of(bytes, &times, CDF_POINTS))
                .collect(),
        })
    }

    fn content(&self) -> Option<ackwise_scenario::record::Content> {
        let mut contents = self
            .outcomes
            .iter()
            .filter_map(|outcome| outcome.content.as_ref());
        let first = contents.next()?.clone();
        Some(contents.fold(first, |mut all, one| {
            all.ok &= one.ok;
            all.sha256 = None;
            all.bytes += one.bytes;
            all
        }))
    }

    fn series(&self, measured: &Measured<'_>) -> Series {
        let mut series = Series::default();
        let length = self
            .seen
            .iter()
            .map(|seen| seen.samples.len())
            .max()
            .unwrap_or(0);
        let mut before: (u64, u64) = (measured.start_ns, 0);
        for index in 0..length {
            let samples: Vec<&Sample> = self
                .seen
                .iter()
                .filter_map(|seen| seen.samples.get(index))
                .collect();
            let Some(at_ns) = samples.iter().map(|sample| sample.at_ns).max() else {
                continue;
            };
            let sum = |of: fn(&Sample) -> u64| samples.iter().map(|sample| of(sample)).sum::<u64>();
            let bytes = sum(|sample| sample.bytes);
            let span_s = seconds(at_ns.saturating_sub(before.0)).max(1e-9);
            let goodput = bytes.saturating_sub(before.1) as f64 * 8.0 / span_s;
            before = (at_ns, bytes);
            let bucket = usize::try_from(
                (at_ns.saturating_sub(measured.start_ns) / measured.interval_ns).saturating_sub(1),
            )
            .unwrap_or(usize::MAX);
            let rate = |of: fn(&FlowCount) -> &Vec<u32>| {
                let packets: u64 = self
                    .counts
                    .iter()
                    .filter_map(|count| of(count).get(bucket))
                    .map(|&packets| u64::from(packets))
                    .sum();
                packets as f64 / seconds(measured.interval_ns)
            };
            let rtts: Vec<f64> = samples
                .iter()
                .flat_map(|sample| sample.rtts_us.iter().copied().map(f64::from))
                .collect();
            let connected = !rtts.is_empty();
            series
                .t_s
                .push(seconds(at_ns.saturating_sub(measured.start_ns)));
            series.goodput_bps.push(Some(goodput));
            series
                .ack_rate_hz
                .push(Some(rate(|count| &count.ack_series)));
            series
                .data_rate_hz
                .push(Some(rate(|count| &count.data_series)));
            series
                .rtt_us
                .push(connected.then(|| rtts.iter().sum::<f64>() / rtts.len() as f64));
            let known = |value: u64| connected.then_some(value as f64);
            series.cwnd_segments.push(known(sum(|sample| sample.cwnd)));
            series.ssthresh_segments.push(
                samples
                    .iter()
                    .map(|sample| sample.ssthresh)
                    .sum::<Option<u64>>()
                    .map(|ssthresh| ssthresh as f64),
            );
            series
                .inflight_segments
                .push(known(sum(|sample| sample.inflight)));
            series
                .retransmits
                .push(known(sum(|sample| sample.retransmits)));
        }
        series
    }
}

fn queues(measured: &Measured<'_>) -> Vec<QueueRecord> {
    let mut queues = of_links(measured);
    for served in &measured.served {
        served.put_into(&mut queues, measured.start_ns);
    }
    for tunnelled in &measured.tunnelled {
        tunnelled.put_into(&mut queues);
    }
    queues
}

fn of_links(measured: &Measured<'_>) -> Vec<QueueRecord> {
    let mut queues = Vec::new();
    for wired in &measured.wired {
        for (way, name) in wired.ways.iter().flatten().zip(["forward", "reverse"]) {
            let name = format!("{}.{name}", measured.scenario.links[wired.link].name);
            queues.push(queue_of_kernel(measured, name, way));
        }
        let Some(emulated) = &wired.emulated else {
            continue;
        };
        for (direction, name) in ["forward", "reverse"].into_iter().enumerate() {
            let stats = &emulated.stats[direction];
            let samples = &emulated.queues[direction];
            queues.push(QueueRecord {
                name: format!("{}.{name}", measured.scenario.links[wired.link].name),
                arrivals: Some(stats.offered_packets),
                max_packets: Some(stats.queue_max_packets as u64),
                mean_packets: Some(stats.queue_mean_packets(emulated.span_ns)),
                drops: stats.dropped_queue + stats.dropped_discipline,
                marks: 0,
                policed: emulated.policed[direction],
                losses: Some(stats.dropped_wire),
                t_s: samples
                    .iter()
                    .map(|(at, _)| seconds(at.saturating_sub(measured.start_ns)))
                    .collect(),
                length_packets: samples
                    .iter()
                    .map(|&(_, length)| f64::from(length))
                    .collect(),
                ..QueueRecord::default()
            });
        }
    }
    queues
}

fn queue_of_kernel(measured: &Measured<'_>, name: String, way: &Way) -> QueueRecord {
    let (sum, looks) = way.looked;
    QueueRecord {
        name,
        arrivals: Some(way.arrivals),
        max_packets: Some(u64::from(way.max_packets)),
        mean_packets: (looks > 0).then(|| sum as f64 / looks as f64),
        drops: way.drops,
        early_drops: way.early,
        marks: way.marks,
        policed: way.policed,
        filtered: way.filtered,
        losses: Some(way.lost),
        t_s: way
            .lengths
            .iter()
            .map(|(at, _)| seconds(at.saturating_sub(measured.start_ns)))
            .collect(),
        length_packets: way
            .lengths
            .iter()
            .map(|&(_, length)| f64::from(length))
            .collect(),
        ..QueueRecord::default()
    }
}

fn nodes(measured: &Measured<'_>) -> Vec<NodeRecord> {
    if measured.clock == Clock::Virtual {
        return Vec::new();
    }
    let scenario = measured.scenario;
    let mut nodes: Vec<NodeRecord> = scenario
        .nodes
        .iter()
        .enumerate()
        .map(|(index, node)| {
            let mut process_ns = 0;
            let mut has_processes = false;
            for (paths, outcome) in measured.paths.iter().zip(&measured.outcomes) {
                for (at, used) in [
                    (paths.from, outcome.cpu_from_ns),
                    (paths.to, outcome.cpu_to_ns),
                ] {
                    if at == index {
                        has_processes = true;
                        process_ns += used;
                    }
                }
            }
            let ends = measured.wired.iter().filter_map(|wired| {
                let link = &scenario.links[wired.link];
                let end = link.between.iter().position(|name| *name == node.name)?;
                Some(wired.emulated.as_ref()?.stack_cpu_ns[end])
            });
            let stack: Vec<u64> = ends.collect();
            NodeRecord {
                name: node.name.clone(),
                cpu_process_s: has_processes.then(|| seconds(process_ns)),
                cpu_stack_s: (!stack.is_empty()).then(|| seconds(stack.iter().sum())),
                energy_j: None,
            }
        })
        .collect();
    if measured.wired.iter().all(|wired| wired.emulated.is_none()) {
        nodes.push(NodeRecord {
            name: WHOLE_MACHINE.to_owned(),
            cpu_stack_s: Some(measured.softirq_s),
            ..NodeRecord::default()
        });
    }
    nodes
}

fn link_emulator(measured: &Measured<'_>) -> Option<String> {
    if !measured.scenario.links.iter().any(needs_shaping) {
        return Some("none: plain veth".to_owned());
    }
    Some(match measured.shaper {
        Shaper::Netem => "netem and queue disciplines of the kernel".to_owned(),
        Shaper::Auto | Shaper::Emulator => "ackwise-queue on TAP devices".to_owned(),
    })
}

fn notes(measured: &Measured<'_>) -> Vec<String> {
    let mut notes = vec![if measured.clock == Clock::Virtual {
        "Time is virtual: computing takes none, so nothing is said of CPU time, and nothing \
         depends on the host."
            .to_owned()
    } else {
        "CPU of a node: `cpu_process_s` is the user and system time of its traffic threads or \
         iperf3, without the time that producing and hashing the contents takes; sending runs \
         through the stack and the datapath on this time. `cpu_stack_s` is what the emulator's \
         thread spends writing frames to the node's TAP device: the stack's receive path, \
         forwarding and sending of ACKs run there, the device itself included, and what it passes on to neighbours over veth. Where all links are \
         plain veth, it is the softirq time of the whole machine instead, for all nodes together \
         and to the clock tick; anything else that the machine did is in it."
            .to_owned()
    }];
    let emulated: Vec<&Emulated> = measured
        .wired
        .iter()
        .filter_map(|wired| wired.emulated.as_ref())
        .collect();
    if let Some(Err(reason)) = emulated
        .iter()
        .map(|one| &one.realtime)
        .find(|r| r.is_err())
    {
        notes.push(format!(
            "The link emulator could not get real-time priority ({reason}); it is later than it \
             need be."
        ));
    }
    let offloads = measured
        .scenario
        .links
        .iter()
        .any(|link| needs_shaping(link) && link.offload);
    let kernel = measured.wired.iter().any(|wired| wired.ways.is_some());
    if offloads && (kernel || !emulated.is_empty()) {
        notes.push(
            "Emulated links have no offloads: every packet crosses by itself, as on a wire."
                .to_owned(),
        );
    }
    if kernel {
        notes.push("The longest and the mean queue are of looks every 10 ms.".to_owned());
    }
    if let Some((place, stats)) = measured
        .statistics
        .iter()
        .find(|(_, s)| s.attach_fallback.is_some())
    {
        notes.push(format!(
            "The datapath on {place}: {}",
            stats.attach_fallback.clone().unwrap_or_default()
        ));
    }
    notes
}
