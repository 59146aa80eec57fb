//! Estimates what a run will take before it starts. The estimates are upper bounds, accurate
//! to the factor of two that a limit needs.

use std::sync::atomic::Ordering;

use ackwise_config::queues::QueueLimit;
use ackwise_scenario::{App, By, Direction, Flow, RunSpec, Scenario};

use crate::app::Transfer;
use crate::build;
use crate::connection::Connection;
use crate::error::SimError;
use crate::line::Line;
use crate::options::RunOptions;
use crate::quic_endpoint;
use crate::tcp::{self, Receiver, Sender};
use crate::time::nanos;

/// Bytes of a packet that waits or travels: the packet and its places in rings.
const PACKET_BYTES: u64 = 256;
/// Bytes of one sample of a flow: in memory, as a series, and as text.
const SAMPLE_BYTES: u64 = 400;
/// Bytes of a transfer that has begun: in the application's growing list, and in the record of its
/// flow and of all flows.
const TRANSFER_BYTES: f64 = (3 * size_of::<Transfer>()) as f64;
/// Bytes of a transfer that is planned: its place in the order, and in the list of those that have
/// begun.
const PLANNED_BYTES: f64 = (size_of::<u64>() + size_of::<Transfer>()) as f64;
/// Segments of a transfer besides its data: those that open and close its connection.
const OPENING_SEGMENTS: f64 = 4.0;
/// Bytes of a busy connection: its ends, what its peer has not acknowledged, and its gaps.
const CONNECTION_BYTES: u64 = (size_of::<Connection<Sender, Receiver>>() + 512) as u64;

/// Upper bounds for a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    /// Number of events.
    pub events: f64,
    /// Bytes of memory.
    pub memory: f64,
}

/// Refuses what only a real kernel can run: some queue disciplines, and `ackwise up`.
fn refuse_kernel_only(
    scenario: &Scenario,
    seen: &Scenario,
    spec: &RunSpec,
) -> Result<(), SimError> {
    let is = |direction: &Direction| {
        let queue = direction.queue.as_ref();
        queue.is_some_and(|queue| queue.cake.is_some())
    };
    for link in &seen.links {
        for (side, direction) in [("forward", &link.forward), ("reverse", &link.reverse)] {
            if direction.by == By::Up {
                let path = format!("link.{}.{side}.by", link.name);
                let what = "runs `ackwise up`, which the simulator cannot; use `--on virtual`";
                return Err(SimError::in_run(scenario, spec, &path, &link.name, what));
            }
            if is(direction) {
                let path = format!("link.{}.{side}.queue.discipline", link.name);
                let what = "has a queue discipline that the simulator has no model of; use `--on \
                            virtual`";
                return Err(SimError::in_run(scenario, spec, &path, &link.name, what));
            }
        }
    }
    Ok(())
}

/// Refuses runs that have no model or exceed a limit.
pub(crate) fn check(
    scenario: &Scenario,
    runs: &[RunSpec],
    options: &RunOptions,
    threads: usize,
) -> Result<(), SimError> {
    let mut largest: Option<(f64, &RunSpec)> = None;
    for spec in runs {
        // The runs themselves find this out, too, and are left out.
        if options.cancel.load(Ordering::Relaxed) {
            return Ok(());
        }
        let seen = scenario.at(spec)?;
        build::check::run(scenario, &seen, spec)?;
        refuse_kernel_only(scenario, &seen, spec)?;
        let estimate = estimate(&seen, spec)?;
        if estimate.events > options.max_events as f64 {
            return Err(SimError::TooLarge {
                file: scenario.source.path.as_path().into(),
                run: spec.id.clone(),
                what: "events",
                needed: format!("{:.1e}", estimate.events),
                limit: format!("{:.1e}", options.max_events as f64),
                hint: "make it shorter or slower, or raise the limit (--max-events)",
            });
        }
        if largest.is_none_or(|(most, _)| estimate.memory > most) {
            largest = Some((estimate.memory, spec));
        }
    }
    if let Some((memory, spec)) = largest {
        let at_once = memory * threads.min(runs.len()) as f64;
        if at_once > options.max_memory as f64 {
            let mb = |bytes: f64| format!("{:.0} MB", bytes / 1e6);
            return Err(SimError::TooLarge {
                file: scenario.source.path.as_path().into(),
                run: spec.id.clone(),
                what: "of memory, with the runs in parallel",
                needed: mb(at_once),
                limit: mb(options.max_memory as f64),
                hint: "use fewer flows or transfers, a longer [record] interval or series = false, \
                       fewer --jobs, or raise the limit (--max-memory)",
            });
        }
    }
    Ok(())
}

/// What a run takes at most; `scenario` is as the run sees it.
pub(crate) fn estimate(scenario: &Scenario, spec: &RunSpec) -> Result<Estimate, SimError> {
    let duration = scenario.duration.as_secs_f64();
    let paths = build::paths(scenario)?;
    let mut crossing = vec![0u32; 2 * scenario.links.len()];
    for line in paths.iter().flat_map(|paths| &paths[0]) {
        crossing[*line] += 1;
    }
    let mut total = Estimate {
        events: 0.0,
        memory: 0.0,
    };
    let mut packets = 0.0;
    for (flow, paths) in scenario.flows.iter().zip(&paths) {
        let mtu = build::mtu(scenario, paths);
        let (sender, receiver) = tcp::configure(flow.cc(spec), &flow.model, &flow.socket, mtu)
            .map_err(|error| SimError::no_model(scenario, flow, &error))?;
        let shares = paths[0].iter().filter_map(|&line| {
            let rate = build::rate(scenario, line)? as f64;
            Some(rate / f64::from(crossing[line]))
        });
        let delay = |line: &usize| {
            let link = &scenario.links[line / 2];
            [&link.forward, &link.reverse][line % 2].delay.as_secs_f64()
        };
        let rtt: f64 = paths.iter().flatten().map(delay).sum();
        let window = receiver.window.min(sender.window_limit) as f64 * f64::from(flow.connections);
        let by_window = match rtt > 0.0 && window < 1e15 {
            true => window * 8.0 / rtt,
            false => f64::INFINITY,
        };
        let rate = shares.fold(by_window, f64::min);
        let bits = (rate * duration).min(bytes(flow, duration) * 8.0);
        if !bits.is_finite() {
            return Err(unbounded(scenario, flow));
        }
        let mut segments = bits / 8.0 / f64::from(sender.mss);
        if let Some(work) = Work::of(flow, sender.mss, mtu) {
            let number = work.number(flow, duration, rtt, |way| {
                let rates = paths[way]
                    .iter()
                    .filter_map(|&line| build::rate(scenario, line));
                rates.min().map_or(f64::INFINITY, |rate| rate as f64)
            });
            if !number.is_finite() {
                return Err(unbounded(scenario, flow));
            }
            segments = segments.max(number * work.segments);
            total.memory += number * TRANSFER_BYTES + work.planned * PLANNED_BYTES;
        }
        packets += 2.0 * segments;
        let hops = paths.iter().flatten().count() as f64;
        total.events += segments * (hops + 0.1);
        total.memory += (u64::from(flow.connections) * CONNECTION_BYTES) as f64;
        if flow.quic.is_some() {
            total.memory += f64::from(flow.connections) * quic_endpoint::memory(flow) as f64;
        }
        // In flight: what the path holds outside its queues.
        total.memory += (rate * rtt).min(bits) / 8.0 / f64::from(sender.mss) * PACKET_BYTES as f64;
    }
    // A sender may send a packet for each that has left the queue, and one more.
    let sent = 2.0 * packets;
    total.memory += lines(scenario, sent) + samples(scenario);
    Ok(total)
}

fn unbounded(scenario: &Scenario, flow: &Flow) -> SimError {
    SimError::at(
        scenario,
        &format!("flow.{}", flow.name),
        &flow.name,
        "has no bounded rate on its path, so nothing limits it; give a link a 'rate', or the flow \
         'bytes' or a 'receive_buffer'",
    )
}

/// The transfers or exchanges of a flow, whose number a rate in bits does not bound alone.
struct Work {
    /// Segments with data or a flag of one transfer, both ways.
    segments: f64,
    /// Bytes that one takes on the paths of the data and of the ACKs.
    bytes: [f64; 2],
    /// How many there are to be; infinite without an end.
    wanted: f64,
    /// How many are drawn before the first begins.
    planned: f64,
}

impl Work {
    fn of(flow: &Flow, mss: u32, mtu: u32) -> Option<Work> {
        let (header, mss) = (f64::from(mtu.saturating_sub(mss)), f64::from(mss));
        let segments = |bytes: u64| (bytes as f64 / mss).ceil();
        match &flow.app {
            App::ShortFlows { sizes, count } => {
                let mean = |of: &dyn Fn(u64) -> f64| {
                    sizes.iter().map(|size| of(*size)).sum::<f64>() / sizes.len().max(1) as f64
                };
                let data = mean(&segments);
                let wanted = count.map(|count| f64::from(count) * sizes.len() as f64);
                Some(Work {
                    segments: data + OPENING_SEGMENTS,
                    bytes: [mean(&|size| size as f64) + data * header, 0.0],
                    wanted: wanted.unwrap_or(f64::INFINITY),
                    planned: wanted.unwrap_or(0.0),
                })
            }
            App::RequestResponse {
                request,
                response,
                count,
            } => {
                let wire = |bytes: u64| bytes as f64 + segments(bytes) * header;
                let wanted = count.map(|count| f64::from(count) * f64::from(flow.connections));
                Some(Work {
                    segments: segments(*request) + segments(*response),
                    bytes: [wire(*response), wire(*request)],
                    wanted: wanted.unwrap_or(f64::INFINITY),
                    planned: 0.0,
                })
            }
            App::Bulk { .. } | App::Iperf3 { .. } | App::Chunks { .. } => None,
        }
    }

    /// How many begin at most; `rate` is that of the slowest line, per way.
    fn number(&self, flow: &Flow, duration: f64, rtt: f64, rate: impl Fn(usize) -> f64) -> f64 {
        let connections = f64::from(flow.connections);
        // Both divisions give infinity where nothing limits the number.
        let takes = [0, 1].map(|way| self.bytes[way] * 8.0 / rate(way));
        let by_time = duration / (rtt + takes[0] + takes[1]) * connections;
        let most = by_time.min(duration / takes[0]).min(duration / takes[1]);
        (most + connections).min(self.wanted)
    }
}

/// All bytes that a flow sends in this many seconds.
fn bytes(flow: &Flow, duration: f64) -> f64 {
    match &flow.app {
        App::Bulk { bytes: None } | App::Iperf3 { bytes: None } => f64::INFINITY,
        App::Bulk { bytes: Some(bytes) } | App::Iperf3 { bytes: Some(bytes) } => {
            *bytes as f64 * f64::from(flow.connections)
        }
        App::ShortFlows { sizes, count } => {
            let all: f64 = sizes.iter().map(|size| *size as f64).sum();
            count.map_or(f64::INFINITY, |count| all * f64::from(count))
        }
        App::RequestResponse {
            request,
            response,
            count,
        } => count.map_or(f64::INFINITY, |count| {
            let exchange = *request as f64 + *response as f64;
            exchange * f64::from(count) * f64::from(flow.connections)
        }),
        App::Chunks { chunk, period, .. } => {
            let chunks = (duration / period.as_secs_f64()).ceil();
            chunks * *chunk as f64 * f64::from(flow.connections)
        }
    }
}

/// Memory of the lines with their queues as full as this many packets make them.
fn lines(scenario: &Scenario, sent: f64) -> f64 {
    let directions = scenario.links.iter().flat_map(|l| [&l.forward, &l.reverse]);
    let full = directions.map(|direction| {
        let packets = match direction.queue.as_ref().map(|queue| queue.limit) {
            _ if direction.rate_bps.is_none() => 0,
            Some(QueueLimit::Packets(packets)) => u64::from(packets),
            Some(QueueLimit::Bytes(bytes)) => bytes / 64,
            // Not all queues of the default length are expected to fill.
            None => 64,
        };
        size_of::<Line>() as f64 + (packets as f64).min(sent) * PACKET_BYTES as f64
    });
    full.sum()
}

fn samples(scenario: &Scenario) -> f64 {
    if !scenario.record.series {
        return 0.0;
    }
    let samples = nanos(scenario.duration) / nanos(scenario.record.interval).max(1);
    let flows = scenario.flows.len() as u64 + 1;
    samples as f64 * (flows * SAMPLE_BYTES) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The estimate of the only run of a scenario of two nodes.
    fn of(duration: &str, both: &str, flow: &str) -> Result<Estimate, SimError> {
        let text = format!(
            "[scenario]\nname = \"t\"\nduration = \"{duration}\"\n[record]\nseries = false\n\
             [[node]]\nname = \"a\"\n[[node]]\nname = \"b\"\n\
             [[link]]\nname = \"wan\"\nbetween = [\"a\", \"b\"]\nboth = {{ {both} }}\n\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
        );
        let scenario = Scenario::parse("t.toml", &text).unwrap();
        let run = scenario.runs().remove(0);
        estimate(&scenario.at(&run).unwrap(), &run)
    }

    #[test]
    fn small_exchanges_and_transfers_count_by_number() {
        let asks = "app = \"request-response\"\nrequest = \"1 B\"\nresponse = \"1 B\"\n";
        let fast = "rate = \"1 Gbit/s\"";
        // 56 million exchanges took 4.8 GB.
        let endless = of("60 s", fast, asks).unwrap();
        assert!(endless.memory > 4.8e9, "{endless:?}");
        let counted = of("60 s", fast, &format!("{asks}count = 1000")).unwrap();
        assert!(counted.memory < 1e6 && counted.events < 1e4, "{counted:?}");
        let far = of("60 s", "rate = \"1 Gbit/s\", delay = \"10 ms\"", asks).unwrap();
        assert!(far.memory < 2e6, "{far:?}");
        let sizes: Vec<String> = (1..=40).map(|size| format!("\"{size} kB\"")).collect();
        let sizes = sizes.join(", ");
        let short =
            |count: u32| format!("app = \"short-flows\"\nsizes = [{sizes}]\ncount = {count}\n");
        // All of them are drawn first, however few will begin.
        let many = of("5 s", fast, &short(10_000_000)).unwrap();
        assert!(many.memory > 1e10, "{many:?}");
        let few = of("5 s", fast, &short(10)).unwrap();
        assert!(few.memory < 2e6, "{few:?}");
    }

    #[test]
    fn a_queue_holds_no_more_than_is_sent() {
        let bulk = "app = \"bulk\"";
        let long = of("5 s", "rate = \"20 Mbit/s\", queue = \"600 MB\"", bulk).unwrap();
        assert!(long.memory < 2e7, "{long:?}");
        let short = of("5 s", "rate = \"20 Mbit/s\", queue = \"60 kB\"", bulk).unwrap();
        assert!(short.memory < long.memory, "{short:?}");
    }

    #[test]
    fn no_shipped_scenario_is_too_large() {
        let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scenarios");
        let mut folders = vec![std::path::PathBuf::from(scenarios)];
        let mut looked = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                // Others are radio scenarios or traces.
                let Ok(scenario) = Scenario::load(&path) else {
                    continue;
                };
                let runs = scenario.runs();
                for spec in runs.iter().step_by(runs.len().div_ceil(6)) {
                    // Others have no model here.
                    let Ok(estimate) = estimate(&scenario.at(spec).unwrap(), spec) else {
                        continue;
                    };
                    looked += 1;
                    assert!(estimate.events < RunOptions::MAX_EVENTS as f64, "{path:?}");
                    assert!(
                        estimate.memory < RunOptions::MAX_MEMORY as f64 / 8.0,
                        "{path:?}"
                    );
                }
            }
        }
        assert!(looked > 100, "{looked}");
    }

    #[test]
    fn what_only_a_kernel_has_is_refused() {
        let text = r#"
[scenario]
name = "cake"
duration = "1 s"
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "wan"
between = ["a", "b"]
both = { rate = "1 Mbit/s", queue = "9 packets" }
[[flow]]
name = "f"
from = "a"
to = "b"
app = "bulk"
[[arm]]
name = "baseline"
[[arm]]
name = "cake"
change = { "link.wan.both.queue" = { limit = "64 KiB", discipline = "cake" } }
[[arm]]
name = "up"
change = { "link.wan.both.by" = "up" }
"#;
        let scenario = Scenario::parse("cake.toml", text).unwrap();
        let refused = |arm| {
            let runs: Vec<RunSpec> = scenario
                .runs()
                .into_iter()
                .filter(|it| it.arm == arm)
                .collect();
            check(&scenario, &runs, &RunOptions::default(), 1).err()
        };
        assert!(refused("baseline").is_none());
        for arm in ["cake", "up"] {
            let error = refused(arm).unwrap().to_string();
            assert!(error.contains("`--on virtual`"), "{error}");
        }
    }
}
