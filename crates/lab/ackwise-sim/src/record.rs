//! Builds the record of a finished run.

use std::collections::BTreeMap;

use ackwise_queue::{MuxStats, Nanos};
use ackwise_scenario::record::{
    Completion, CompletionOfSize, Content, FlowRecord, MuxRecord, Quantiles, QueueRecord, Run,
    Series, Traffic,
};
use ackwise_scenario::{App, Histogram, RunSpec, Scenario};

use crate::app::{self, Chunks, Kind, Transfer};
use crate::build::{self, Built, Simulation};
use crate::connection::Sums;
use crate::count;
use crate::line::Wire;
use crate::recorder::Recorder;
use crate::time::seconds;

/// A flow has stalled if nothing arrives in the last 1/`STALL_DIVISOR` of its time.
const STALL_DIVISOR: Nanos = 50;

/// Points kept of a distribution of completion times; the live engine keeps as many.
const CDF_POINTS: usize = 200;

/// An empty record of a run.
pub(crate) fn empty(spec: &RunSpec) -> Run {
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

/// The record of a finished run.
pub(crate) fn record(
    scenario: &Scenario,
    spec: &RunSpec,
    mut built: Built,
    recorder: &Recorder,
) -> Run {
    for line in 0..built.network.lines.len() {
        built.network.catch_up(line);
    }
    let network = &built.network;
    let mut run = empty(spec);
    run.queues = queues(scenario, network, recorder);
    let parts: Vec<Part> = (0..scenario.flows.len())
        .map(|flow| Part::of(scenario, &built, flow))
        .collect();
    run.errors = parts.iter().flat_map(|part| part.errors.clone()).collect();
    let wanted = scenario.record.series;
    if let ([only], [flow]) = (&parts[..], &scenario.flows[..]) {
        run.flow = Some(flow.name.clone());
        run.totals = only.traffic(wanted.then(|| recorder.flow(0)));
    } else {
        for (index, (part, flow)) in parts.iter().zip(&scenario.flows).enumerate() {
            run.flows.push(FlowRecord {
                flow: flow.name.clone(),
                cc: Some(flow.cc(spec).to_owned()),
                traffic: part.traffic(wanted.then(|| recorder.flow(index))),
            });
        }
        run.totals = Part::sum(&parts).traffic(wanted.then(|| recorder.all()));
        run.totals.jain = FlowRecord::jain(&run.flows);
    }
    if !network.interface_policies.is_empty() {
        let places = network.interface_policies.iter().map(|interface_policy| {
            let stats = serde_json::to_value(interface_policy.stats()).unwrap_or_default();
            (interface_policy.place.clone(), stats)
        });
        run.datapath = Some(serde_json::Value::Object(places.collect()));
    }
    run
}

/// The amount of an application's work that was not done, with its unit; `None` if the
/// application has done everything, or has no end. `bytes` have arrived.
fn left(app: &app::App, bytes: u64) -> Option<(u64, &'static str)> {
    let connections = u64::from(app.connections);
    let done = |begun: &[Transfer]| begun.iter().filter(|t| t.duration.is_some()).count() as u64;
    let (wanted, done, what) = match &app.kind {
        Kind::Bulk(each) => (
            each.map(|each| each.saturating_mul(connections)),
            bytes,
            "bytes",
        ),
        Kind::Short(transfers) => {
            let wanted = transfers.more.is_none().then_some(transfers.order.len());
            let wanted = wanted.map(|wanted| wanted as u64);
            (wanted, done(&transfers.begun), "transfers")
        }
        Kind::Exchange(exchanges) => {
            let wanted = exchanges.count.map(|count| u64::from(count) * connections);
            (wanted, done(&exchanges.begun), "exchanges")
        }
        Kind::Chunks(_) => return None,
    };
    let left = wanted?.saturating_sub(done);
    (left > 0).then_some((left, what))
}

/// The slowest line on the path of a flow's ACKs.
#[derive(Debug, Clone, Copy)]
struct Narrowest {
    /// The line.
    line: usize,
    /// Bytes of the flow's ACKs on it.
    ack_bytes: u64,
    /// Its rate in bits per second.
    rate_bps: u64,
}

/// Results of one flow, or of all flows together.
#[derive(Default)]
struct Part {
    sums: Sums,
    /// When the run ended, if the flow has no end or was not finished.
    end: Option<Nanos>,
    /// Whether pauses count, including the last one; this is so for chunks only.
    pauses: bool,
    tally: count::Tally,
    stretch: BTreeMap<u32, u64>,
    rtt: Histogram,
    transfers: Option<Vec<Transfer>>,
    late: Option<u64>,
    /// How much of its narrowest line the ACKs of each flow take; `None` if no line of the path has
    /// a rate.
    narrow: Vec<Option<Narrowest>>,
    content_ok: bool,
    errors: Vec<String>,
}

impl Part {
    fn of(scenario: &Scenario, built: &Built, index: usize) -> Part {
        use crate::endpoint::Source;
        let network = &built.network;
        let counted = &network.counted[index];
        let flow = &scenario.flows[index];
        let mut sums = counted.past;
        let mut content_ok = true;
        let own = |flow: u32| flow as usize == index;
        for connection in network.connections.iter().filter(|c| own(c.flow)) {
            sums.add(connection);
            // No byte came from nowhere, and a sender that reports being done left none out.
            let view = connection.source.view();
            content_ok &= connection.delivered <= view.sent;
            content_ok &= !view.finished || connection.delivered == view.sent;
        }
        let mut part = Part {
            sums,
            end: flow.app.is_endless().then_some(network.now),
            pauses: matches!(flow.app, App::Chunks { .. }),
            stretch: counted.tally.stretch(),
            tally: counted.tally.clone(),
            rtt: counted.rtt.clone(),
            content_ok,
            ..Part::default()
        };
        let narrowest = build::narrowest(scenario, &built.paths[index][1]);
        part.narrow.push(narrowest.and_then(|line| {
            Some(Narrowest {
                line,
                ack_bytes: counted.tally.narrow_bytes,
                rate_bps: build::rate(scenario, line)?,
            })
        }));
        for app in network.apps().iter().filter(|app| app.flow == index) {
            if let Some((left, what)) = left(app, part.sums.bytes) {
                part.end = Some(network.now);
                // Papers cut off bulk transfers on purpose.
                if !matches!(app.kind, Kind::Bulk(_)) {
                    part.errors.push(format!(
                        "flow '{}': {left} {what} were left when the run ended; make 'duration' longer",
                        flow.name
                    ));
                }
            }
            match &app.kind {
                Kind::Bulk(_) => {}
                Kind::Short(transfers) => part.transfers = Some(transfers.begun.clone()),
                Kind::Exchange(exchanges) => part.transfers = Some(exchanges.begun.clone()),
                Kind::Chunks(chunks) => part.chunks(chunks, network.now),
            }
        }
        if !content_ok {
            part.errors.push(format!(
                "flow '{}': the received bytes differ from those sent; this is a bug in ackwise",
                flow.name
            ));
        }
        part
    }

    /// Takes the chunks whose deadline is over, whether late or in time. Chunks that are still within
    /// their deadline when the run ends do not count.
    fn chunks(&mut self, chunks: &Chunks, end: Nanos) {
        let due: Vec<Transfer> = chunks.due(end).copied().collect();
        let in_time = |chunk: &&Transfer| {
            chunk
                .duration
                .is_some_and(|duration| duration <= chunks.deadline)
        };
        let late = due.len() - due.iter().filter(in_time).count();
        *self.late.get_or_insert(0) += late as u64;
        self.transfers.get_or_insert_default().extend(due);
    }

    fn sum(parts: &[Part]) -> Part {
        let mut all = Part {
            content_ok: true,
            pauses: parts.iter().all(|part| part.pauses),
            ..Part::default()
        };
        for part in parts {
            let (mine, theirs) = (&mut all.sums, &part.sums);
            mine.bytes += theirs.bytes;
            mine.retransmits += theirs.retransmits;
            mine.timeouts = mine.timeouts.zip(theirs.timeouts).map(|(a, b)| a + b);
            mine.first = mine.first.min(theirs.first);
            mine.last = mine.last.max(theirs.last);
            all.end = all.end.max(part.end);
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
            all.late = match (all.late, part.late) {
                (None, late) | (late, None) => late,
                (Some(mine), Some(theirs)) => Some(mine + theirs),
            };
            all.narrow.extend(&part.narrow);
            all.content_ok &= part.content_ok;
        }
        all
    }

    /// The time from the first data sent to the last received. It includes the time for which a flow had
    /// stalled; otherwise its goodput would rise the sooner it stalled.
    fn span(&self) -> Nanos {
        let Sums { first, last, .. } = self.sums;
        let whole = self.end.unwrap_or(last).saturating_sub(first);
        let span = last.saturating_sub(first);
        match self.pauses || whole.saturating_sub(span) > whole / STALL_DIVISOR {
            true => whole,
            false => span,
        }
    }

    fn traffic(&self, series: Option<Series>) -> Traffic {
        let span = self.span();
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
            timeouts: self.sums.timeouts,
            completion: self.completion(),
            content: Some(Content {
                ok: self.content_ok,
                sha256: None,
                bytes: self.sums.bytes,
            }),
            series,
        }
    }

    /// The share of their narrowest line that the ACKs of the flows take together. If flows have
    /// several narrowest lines of one rate, this is the fullest of these; `None` if the rates differ.
    fn uplink_share(&self, duration_s: f64) -> Option<f64> {
        let rate = self.narrow.first()?.as_ref()?.rate_bps;
        let differs = |line: &Option<Narrowest>| line.is_none_or(|line| line.rate_bps != rate);
        if duration_s <= 0.0 || self.narrow.iter().any(differs) {
            return None;
        }
        let mut bits: BTreeMap<usize, u64> = BTreeMap::new();
        for line in self.narrow.iter().flatten() {
            *bits.entry(line.line).or_default() += line.ack_bytes * 8;
        }
        let most = *bits.values().max()?;
        Some((most as f64 / duration_s / rate as f64).min(1.0))
    }

    fn completion(&self) -> Option<Completion> {
        let transfers = self.transfers.as_ref()?;
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        let mut unfinished = 0;
        for transfer in transfers {
            match transfer.duration {
                Some(duration) => by_size
                    .entry(transfer.bytes)
                    .or_default()
                    .push(duration as f64 / 1000.0),
                None => unfinished += 1,
            }
        }
        let all: Vec<f64> = by_size.values().flatten().copied().collect();
        Some(Completion {
            time_us: Quantiles::of(&all).unwrap_or_default(),
            count: all.len() as u64,
            unfinished,
            late: self.late,
            by_size: by_size
                .into_iter()
                .filter_map(|(bytes, times)| CompletionOfSize::of(bytes, &times, CDF_POINTS))
                .collect(),
        })
    }
}

fn queues(scenario: &Scenario, network: &Simulation, recorder: &Recorder) -> Vec<QueueRecord> {
    build::lines_with_rate(scenario)
        .map(|line| {
            let side = ["forward", "reverse"][line % 2];
            let name = format!("{}.{side}", scenario.links[line / 2].name);
            let mut queue = queue(name, &network.lines[line].wire, network.now);
            if scenario.record.series {
                recorder.queue(line, &mut queue);
            }
            queue
        })
        .collect()
}

/// The record of a queue and of the boxes beside it.
fn queue(name: String, wire: &Wire, span: Nanos) -> QueueRecord {
    let (stats, boxes) = (wire.link().stats(), wire.middleboxes());
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
        reconstructed: boxes.reconstruct.map(|made| made.generated),
        mux: boxes.mux.map(|mux| mux_record(&mux)),
        losses: Some(stats.dropped_wire),
        ..QueueRecord::default()
    }
}

fn mux_record(mux: &MuxStats) -> MuxRecord {
    let us = |ns: f64| ns / 1000.0;
    MuxRecord {
        bundles: mux.bundles,
        packets: mux.packets,
        native_bytes: mux.native_bytes,
        bundle_bytes: mux.bundle_bytes,
        together: None,
        wait_mean_us: Some(us(mux.wait_ns as f64 / mux.packets.max(1) as f64)),
        wait_max_us: Some(us(mux.wait_max_ns as f64)),
    }
}
