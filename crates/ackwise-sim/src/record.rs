//! What is seen while a run goes on, and the record that is made of it.

use std::collections::BTreeMap;

use ackwise_net::{MuxStats, Nanos};
use ackwise_scenario::record::{
    Completion, CompletionOfSize, Content, FlowRecord, MuxRecord, Quantiles, QueueRecord, Run,
    Series, Traffic,
};
use ackwise_scenario::{App, RunSpec, Scenario};

use crate::app::{Kind, Transfer};
use crate::build::{self, Built, Simulation, nanos};
use crate::count;
use crate::engine::{Sums, Wire};
use crate::histogram::Histogram;

/// Points kept of a distribution of completion times, as on the live engine.
const CDF_POINTS: usize = 200;
/// Most queues whose length is recorded over time.
pub(crate) const MAX_QUEUES: usize = 256;

fn seconds(ns: Nanos) -> f64 {
    ns as f64 / 1e9
}

/// A flow at one moment; the counts are since the start.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    bytes: u64,
    acks: u64,
    data: u64,
    rtt_sum: Nanos,
    rtts: u32,
    connections: u32,
    thresholds: u32,
    cwnd: f64,
    ssthresh: f64,
    in_flight: f64,
    retransmits: u64,
}

impl Row {
    fn add(&mut self, other: &Row) {
        self.bytes += other.bytes;
        self.acks += other.acks;
        self.data += other.data;
        self.rtt_sum += other.rtt_sum;
        self.rtts += other.rtts;
        self.connections += other.connections;
        self.thresholds += other.thresholds;
        self.cwnd += other.cwnd;
        self.ssthresh += other.ssthresh;
        self.in_flight += other.in_flight;
        self.retransmits += other.retransmits;
    }
}

/// A queue at one moment; the counts are since the start.
#[derive(Debug, Clone, Copy)]
struct Seen {
    length: f64,
    arrivals: u64,
    drops: u64,
    marks: u64,
    filtered: u64,
}

impl Seen {
    fn of(wire: &Wire) -> Seen {
        let link = wire.link();
        let stats = link.stats();
        Seen {
            length: link.queue_packets() as f64,
            arrivals: stats.offered_packets,
            drops: stats.dropped_queue + stats.dropped_discipline,
            marks: link.queue().stats().marks,
            filtered: stats.filtered,
        }
    }
}

/// Looks at a network at fixed intervals.
#[derive(Debug)]
pub(crate) struct Recorder {
    interval: Nanos,
    flows: Vec<Vec<Row>>,
    queues: Vec<(usize, Vec<Seen>)>,
    times: Vec<Nanos>,
}

impl Recorder {
    pub fn new(scenario: &Scenario, built: &Built) -> Recorder {
        let mut queues: Vec<usize> = rated(scenario).collect();
        if queues.len() > MAX_QUEUES {
            let mut crossed = vec![0u32; 2 * scenario.links.len()];
            let lines = built.paths.iter().flatten().flatten();
            lines.for_each(|line| crossed[*line] += 1);
            queues.sort_by_key(|line| std::cmp::Reverse(crossed[*line]));
            queues.truncate(MAX_QUEUES);
            queues.sort_unstable();
        }
        Recorder {
            interval: nanos(scenario.record.interval).max(1),
            flows: vec![Vec::new(); scenario.flows.len()],
            queues: queues.into_iter().map(|line| (line, Vec::new())).collect(),
            times: Vec::new(),
        }
    }

    /// Looks now; returns when to look again.
    pub fn look(&mut self, network: &mut Simulation) -> Nanos {
        let now = network.now;
        self.times.push(now);
        for (line, rows) in &mut self.queues {
            let wire = &mut network.lines[*line].wire;
            wire.advance(now);
            rows.push(Seen::of(wire));
        }
        let mut rows = vec![Row::default(); self.flows.len()];
        for (row, counted) in rows.iter_mut().zip(&network.counted) {
            row.bytes = counted.past.bytes;
            row.retransmits = counted.past.retransmits;
            row.acks = counted.tally.acks_total;
            row.data = counted.tally.data_segments;
        }
        for connection in &network.connections {
            let Some(row) = rows.get_mut(connection.flow as usize) else {
                continue;
            };
            use crate::ends::Source;
            let view = connection.source.view();
            row.bytes += connection.delivered;
            row.retransmits += view.retransmits;
            if view.finished {
                continue;
            }
            let mss = f64::from(view.mss.max(1));
            row.connections += 1;
            row.cwnd += view.cwnd as f64 / mss;
            row.in_flight += view.in_flight as f64 / mss;
            if let Some(srtt) = view.srtt {
                row.rtts += 1;
                row.rtt_sum += srtt;
            }
            if let Some(ssthresh) = view.ssthresh {
                row.thresholds += 1;
                row.ssthresh += ssthresh as f64 / mss;
            }
        }
        for (flow, row) in self.flows.iter_mut().zip(rows) {
            flow.push(row);
        }
        now.saturating_add(self.interval)
    }

    fn series(&self, rows: &[Row]) -> Series {
        let mut series = Series::default();
        let mut before = (0, Row::default());
        for (&at, row) in self.times.iter().zip(rows) {
            let span = seconds(at - before.0).max(1e-9);
            let rate = |now: u64, then: u64| Some((now - then) as f64 / span);
            let there = row.connections > 0;
            let known = |value: f64| there.then_some(value);
            series.t_s.push(seconds(at));
            let goodput = rate(row.bytes, before.1.bytes).map(|bytes| bytes * 8.0);
            series.goodput_bps.push(goodput);
            series.ack_rate_hz.push(rate(row.acks, before.1.acks));
            series.data_rate_hz.push(rate(row.data, before.1.data));
            let rtt = (row.rtts > 0).then(|| row.rtt_sum as f64 / f64::from(row.rtts) / 1000.0);
            series.rtt_us.push(rtt);
            series.cwnd_segments.push(known(row.cwnd));
            let finite = there && row.thresholds == row.connections;
            series
                .ssthresh_segments
                .push(finite.then_some(row.ssthresh));
            series.inflight_segments.push(known(row.in_flight));
            series.retransmits.push(Some(row.retransmits as f64));
            before = (at, *row);
        }
        series
    }
}

/// Lines with a rate, and so with a queue.
fn rated(scenario: &Scenario) -> impl Iterator<Item = usize> + '_ {
    (0..2 * scenario.links.len()).filter(|line| build::rate(scenario, *line).is_some())
}

/// An empty record of a run.
pub(crate) fn empty(spec: &RunSpec) -> Run {
    Run {
        id: spec.id.clone(),
        arm: spec.arm.clone(),
        cc: spec.cc.clone(),
        seed: spec.seed,
        point: spec.point.clone(),
        ..Run::default()
    }
}

/// The record of a run that is over.
pub(crate) fn record(
    scenario: &Scenario,
    spec: &RunSpec,
    mut built: Built,
    recorder: &Recorder,
) -> Run {
    let now = built.network.now;
    for line in &mut built.network.lines {
        line.wire.advance(now);
    }
    let network = &built.network;
    let mut run = empty(spec);
    run.queues = queues(scenario, network, recorder);
    let parts: Vec<Part> = (0..scenario.flows.len())
        .map(|flow| Part::of(scenario, &built, flow))
        .collect();
    run.errors = parts.iter().flat_map(|part| part.errors.clone()).collect();
    let series = |rows: &[Row]| scenario.record.series.then(|| recorder.series(rows));
    if let ([only], [flow]) = (&parts[..], &scenario.flows[..]) {
        run.flow = Some(flow.name.clone());
        run.totals = only.traffic(series(&recorder.flows[0]));
    } else {
        for (index, (part, flow)) in parts.iter().zip(&scenario.flows).enumerate() {
            run.flows.push(FlowRecord {
                flow: flow.name.clone(),
                cc: Some(flow.cc(spec).to_owned()),
                traffic: part.traffic(series(&recorder.flows[index])),
            });
        }
        let mut rows = vec![Row::default(); recorder.times.len()];
        for flow in &recorder.flows {
            rows.iter_mut()
                .zip(flow)
                .for_each(|(sum, row)| sum.add(row));
        }
        run.totals = Part::sum(&parts).traffic(series(&rows));
        run.totals.jain = jain(&run.flows);
    }
    if !network.hooks.is_empty() {
        let places = network.hooks.iter().map(|hook| {
            let stats = serde_json::to_value(hook.stats()).unwrap_or_default();
            (hook.place.clone(), stats)
        });
        run.datapath = Some(serde_json::Value::Object(places.collect()));
    }
    run
}

/// (Σx)² / (n·Σx²) of the goodputs (Jain, Chiu and Hawe 1984).
fn jain(flows: &[FlowRecord]) -> Option<f64> {
    let rates: Vec<f64> = flows.iter().map(|flow| flow.traffic.goodput_bps).collect();
    let squares: f64 = rates.iter().map(|x| x * x).sum();
    let sum: f64 = rates.iter().sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// What belongs to a flow, or to all flows together.
#[derive(Default)]
struct Part {
    sums: Sums,
    tally: count::Tally,
    stretch: BTreeMap<u32, u64>,
    rtt: Histogram,
    transfers: Option<Vec<Transfer>>,
    /// ACK bytes on the narrowest line, and its rate.
    narrow: Vec<(u64, Option<u64>)>,
    content_ok: bool,
    errors: Vec<String>,
}

impl Part {
    fn of(scenario: &Scenario, built: &Built, index: usize) -> Part {
        use crate::ends::Source;
        let network = &built.network;
        let counted = &network.counted[index];
        let flow = &scenario.flows[index];
        let mut sums = counted.past;
        let mut content_ok = true;
        let own = |flow: u32| flow as usize == index;
        for connection in network.connections.iter().filter(|c| own(c.flow)) {
            sums.add(connection);
            // No byte out of nothing, and none left out by who says it is done.
            let view = connection.source.view();
            content_ok &= connection.delivered <= view.sent;
            content_ok &= !view.finished || connection.delivered == view.sent;
        }
        let mut part = Part {
            sums,
            stretch: counted.tally.stretch(),
            tally: counted.tally.clone(),
            rtt: counted.rtt.clone(),
            content_ok,
            ..Part::default()
        };
        let narrowest = build::narrowest(scenario, &built.paths[index][1]);
        let rate = narrowest.and_then(|line| build::rate(scenario, line));
        part.narrow.push((counted.tally.narrow_bytes, rate));
        for app in network.apps().iter().filter(|app| app.flow == index) {
            let (begun, wanted) = match &app.kind {
                Kind::Bulk(_) => continue,
                Kind::Short(transfers) => (&transfers.begun, transfers.order.len()),
                Kind::Exchange(exchanges) => (
                    &exchanges.begun,
                    exchanges.count as usize * app.connections as usize,
                ),
            };
            let done = begun
                .iter()
                .filter(|transfer| transfer.took.is_some())
                .count();
            if done < wanted {
                let what = match flow.app {
                    App::RequestResponse { .. } => "exchanges",
                    _ => "transfers",
                };
                part.errors.push(format!(
                    "flow '{}': {} {what} were left when the time was over; make 'duration' longer",
                    flow.name,
                    wanted - done
                ));
            }
            part.transfers = Some(begun.clone());
        }
        if !content_ok {
            part.errors.push(format!(
                "flow '{}': the receiver has other bytes than were sent; this is a bug in ackwise",
                flow.name
            ));
        }
        part
    }

    fn sum(parts: &[Part]) -> Part {
        let mut all = Part {
            content_ok: true,
            ..Part::default()
        };
        for part in parts {
            let (mine, theirs) = (&mut all.sums, &part.sums);
            mine.bytes += theirs.bytes;
            mine.retransmits += theirs.retransmits;
            mine.timeouts += theirs.timeouts;
            mine.first = mine.first.min(theirs.first);
            mine.last = mine.last.max(theirs.last);
            let (mine, theirs) = (&mut all.tally, &part.tally);
            mine.data_segments += theirs.data_segments;
            mine.acks_total += theirs.acks_total;
            mine.ack_bytes += theirs.ack_bytes;
            let (mine, theirs) = (&mut mine.acks, &theirs.acks);
            mine.sack += theirs.sack;
            mine.pure += theirs.pure;
            mine.window_update += theirs.window_update;
            mine.dup += theirs.dup;
            mine.old += theirs.old;
            mine.other += theirs.other;
            for (segments, acks) in &part.stretch {
                *all.stretch.entry(*segments).or_default() += acks;
            }
            all.rtt.merge(&part.rtt);
            if let Some(transfers) = &part.transfers {
                all.transfers.get_or_insert_default().extend(transfers);
            }
            all.narrow.extend(&part.narrow);
            all.content_ok &= part.content_ok;
        }
        all
    }

    fn traffic(&self, series: Option<Series>) -> Traffic {
        let span = self.sums.last.saturating_sub(self.sums.first);
        let duration_s = seconds(span);
        let bits = self.sums.bytes as f64 * 8.0;
        let goodput_bps = if span > 0 { bits / duration_s } else { 0.0 };
        let (data, acks) = (self.tally.data_segments, self.tally.acks_total);
        Traffic {
            duration_s,
            bytes: self.sums.bytes,
            goodput_bps,
            data_segments: data,
            acks_on_wire: acks,
            retransmits: self.sums.retransmits,
            rtt_us: self.rtt.quantiles_us(),
            acks: Some(self.tally.acks),
            ack_bytes_on_wire: Some(self.tally.ack_bytes),
            uplink_share: self.uplink_share(duration_s),
            segments_per_ack: (acks > 0).then(|| data as f64 / acks as f64),
            stretch: Some(count::bins(&self.stretch)),
            jain: None,
            timeouts: Some(self.sums.timeouts),
            completion: self.completion(),
            content: Some(Content {
                ok: self.content_ok,
                sha256: None,
                bytes: self.sums.bytes,
            }),
            series,
        }
    }

    /// Of the flows together; a meaningful sum only if their narrowest lines
    /// have the same rate.
    fn uplink_share(&self, duration_s: f64) -> Option<f64> {
        let rate = self.narrow.first()?.1?;
        if duration_s <= 0.0 || self.narrow.iter().any(|(_, other)| *other != Some(rate)) {
            return None;
        }
        let bits: u64 = self.narrow.iter().map(|(bytes, _)| bytes * 8).sum();
        Some((bits as f64 / duration_s / rate as f64).min(1.0))
    }

    fn completion(&self) -> Option<Completion> {
        let transfers = self.transfers.as_ref()?;
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut unfinished = 0;
        for transfer in transfers {
            match transfer.took {
                Some(took) => by_size
                    .entry(transfer.bytes)
                    .or_default()
                    .push(took as f64 / 1000.0),
                None => unfinished += 1,
            }
        }
        let all: Vec<f64> = by_size.values().flatten().copied().collect();
        Some(Completion {
            time_us: Quantiles::of(&all).unwrap_or_default(),
            count: all.len() as u64,
            unfinished,
            by_size: by_size
                .into_iter()
                .filter_map(|(bytes, times)| CompletionOfSize::of(bytes, &times, CDF_POINTS))
                .collect(),
        })
    }
}

fn queues(scenario: &Scenario, network: &Simulation, recorder: &Recorder) -> Vec<QueueRecord> {
    rated(scenario)
        .map(|line| {
            let side = ["forward", "reverse"][line % 2];
            let name = format!("{}.{side}", scenario.links[line / 2].name);
            let mut queue = queue(name, &network.lines[line].wire, network.now);
            let seen = recorder.queues.iter().find(|(seen, _)| *seen == line);
            if let Some((_, seen)) = seen.filter(|_| scenario.record.series) {
                over_time(&mut queue, recorder, seen);
            }
            queue
        })
        .collect()
}

/// What a queue and the boxes on its way have done.
fn queue(name: String, wire: &Wire, span: Nanos) -> QueueRecord {
    let (stats, boxes) = (wire.link().stats(), wire.boxes());
    let managed = wire.link().queue().stats();
    let policed = boxes.police.map(|police| police.dropped);
    let shaped = boxes.shape.map(|shape| shape.dropped);
    QueueRecord {
        name,
        arrivals: Some(stats.offered_packets),
        max_packets: Some(stats.queue_max_packets as u64),
        mean_packets: Some(stats.queue_mean_packets(span)),
        drops: stats.dropped_queue + stats.dropped_discipline,
        marks: managed.marks,
        early_drops: managed.early_drops + managed.forced_drops,
        filtered: (stats.filtered > 0).then_some(stats.filtered),
        policed: [policed, shaped].into_iter().flatten().reduce(|a, b| a + b),
        reconstructed: boxes.reconstruct.map(|made| made.made),
        mux: boxes.mux.map(|mux| mux_record(&mux)),
        losses: Some(stats.dropped_wire),
        ..QueueRecord::default()
    }
}

fn over_time(queue: &mut QueueRecord, recorder: &Recorder, seen: &[Seen]) {
    let counted = |count: fn(&Seen) -> u64| match seen.last().map(count) {
        Some(0) | None => Vec::new(),
        Some(_) => seen.iter().map(count).collect(),
    };
    queue.t_s = recorder.times.iter().map(|at| seconds(*at)).collect();
    queue.length_packets = seen.iter().map(|seen| seen.length).collect();
    queue.arrivals_so_far = seen.iter().map(|seen| seen.arrivals).collect();
    queue.drops_so_far = counted(|seen| seen.drops);
    queue.marks_so_far = counted(|seen| seen.marks);
    queue.filtered_so_far = counted(|seen| seen.filtered);
}

fn mux_record(mux: &MuxStats) -> MuxRecord {
    let us = |ns: f64| ns / 1000.0;
    MuxRecord {
        bundles: mux.bundles,
        packets: mux.packets,
        native_bytes: mux.native_bytes,
        bundle_bytes: mux.bundle_bytes,
        wait_mean_us: us(mux.wait_ns as f64 / mux.packets.max(1) as f64),
        wait_max_us: us(mux.wait_max_ns as f64),
    }
}
