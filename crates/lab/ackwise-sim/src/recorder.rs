//! Records time series while a run is in progress.

use ackwise_queue::Nanos;
use ackwise_scenario::Scenario;
use ackwise_scenario::record::{QueueRecord, Series};

use crate::build::{self, Built, Simulation};
use crate::endpoint::Source;
use crate::line::Wire;
use crate::time::{nanos, seconds};

/// The maximum number of queues whose length is recorded over time.
pub(crate) const MAX_QUEUES: usize = 256;

/// A sample of a flow; the counts are since the start.
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
    /// Connections that report what they have in flight.
    reporting: u32,
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
        self.reporting += other.reporting;
        self.retransmits += other.retransmits;
    }
}

/// A sample of a queue; the counts are since the start.
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

/// Samples a network at fixed intervals.
#[derive(Debug)]
pub(crate) struct Recorder {
    interval: Nanos,
    flows: Vec<Vec<Row>>,
    queues: Vec<(usize, Vec<Seen>)>,
    times: Vec<Nanos>,
}

impl Recorder {
    pub fn new(scenario: &Scenario, built: &Built) -> Recorder {
        let mut queues: Vec<usize> = build::lines_with_rate(scenario).collect();
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

    /// Takes a sample now; returns when to take the next one.
    pub fn sample(&mut self, network: &mut Simulation) -> Nanos {
        let now = network.now;
        self.times.push(now);
        for (line, rows) in &mut self.queues {
            network.catch_up(*line);
            let wire = &network.lines[*line].wire;
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
            let view = connection.source.view();
            row.bytes += connection.delivered;
            row.retransmits += view.retransmits;
            if view.finished {
                continue;
            }
            let mss = f64::from(view.mss.max(1));
            row.connections += 1;
            row.cwnd += view.cwnd as f64 / mss;
            if let Some(bytes) = view.in_flight {
                row.reporting += 1;
                row.in_flight += bytes as f64 / mss;
            }
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

    /// The time series of a flow.
    pub fn flow(&self, index: usize) -> Series {
        self.series(&self.flows[index])
    }

    /// The time series of all flows together.
    pub fn all(&self) -> Series {
        let mut rows = vec![Row::default(); self.times.len()];
        for flow in &self.flows {
            rows.iter_mut()
                .zip(flow)
                .for_each(|(sum, row)| sum.add(row));
        }
        self.series(&rows)
    }

    /// Adds the time series of a line's queue to its record, if it was sampled.
    pub fn queue(&self, line: usize, queue: &mut QueueRecord) {
        let Some((_, seen)) = self.queues.iter().find(|(seen, _)| *seen == line) else {
            return;
        };
        let counted = |count: fn(&Seen) -> u64| match seen.last().map(count) {
            Some(0) | None => Vec::new(),
            Some(_) => seen.iter().map(count).collect(),
        };
        queue.t_s = self.times.iter().map(|at| seconds(*at)).collect();
        queue.length_packets = seen.iter().map(|seen| seen.length).collect();
        queue.arrivals_so_far = seen.iter().map(|seen| seen.arrivals).collect();
        queue.drops_so_far = counted(|seen| seen.drops);
        queue.marks_so_far = counted(|seen| seen.marks);
        queue.filtered_so_far = counted(|seen| seen.filtered);
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
            let reporting = there && row.reporting == row.connections;
            series
                .inflight_segments
                .push(reporting.then_some(row.in_flight));
            series.retransmits.push(Some(row.retransmits as f64));
            before = (at, *row);
        }
        series
    }
}
