//! Made-up but plausible records of the shipped scenarios, for inspection and tests.

use std::path::Path;

use ackwise_scenario::record::{
    AckKinds, Completion, CompletionOfSize, Content, NodeRecord, Quantiles, Report, Run, Series,
    Testbed, Traffic,
};
use ackwise_scenario::{App, RunSpec, Scenario};

/// A shipped scenario.
pub fn scenario(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../scenarios")
        .join(format!("{name}.toml"));
    Scenario::load(path).unwrap_or_else(|error| panic!("{error}"))
}

/// A record of it that no engine made.
pub fn record(scenario: &Scenario) -> Report {
    let mut report = Report::new("live", scenario);
    report.version = "0.0.0".to_owned();
    report.environment = Testbed {
        started: Some("2026-01-02T03:04:05Z".to_owned()),
        kernel: Some("Linux 6.12.9".to_owned()),
        machine: Some("x86_64".to_owned()),
        cpu: Some("made up for this sample".to_owned()),
        cpus: Some(2),
        link_emulator: Some("ackwise-queue on TAP (this kernel has no netem)".to_owned()),
        link_lateness_us: Some(Quantiles {
            p50: 43.0,
            p99: 310.0,
            max: Some(4_100.0),
            ..Quantiles::default()
        }),
        datapath: Some("tcx".to_owned()),
    };
    report
        .notes
        .push("These numbers are made up to show the page.".to_owned());
    report.runs = scenario
        .runs()
        .iter()
        .map(|spec| run(scenario, spec))
        .collect();
    report
}

/// A small random number generator, so that the sample is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn segments_per_ack(arm: &str) -> f64 {
    match arm {
        "baseline" => 1.9,
        "adaptive" => 17.0,
        "rate-limit" => 6.0,
        "tack" => 24.0,
        other => {
            let n: f64 = other
                .rsplit('-')
                .next()
                .and_then(|n| n.parse().ok())
                .unwrap_or(2.0);
            n * 0.93
        }
    }
}

/// A rise to the goodput (bit/s) within some seconds, then a sawtooth; the RTT (µs) follows it.
fn series(seconds: f64, goodput: f64, rtt: f64, ratio: f64, random: &mut Random) -> Series {
    let (mut series, mut level) = (Series::default(), 0.1);
    for step in 1..=(seconds * 10.0) as usize {
        level += (1.0 - level) * 0.08;
        let wobble = 1.0 + 0.1 * (random.next() - 0.5);
        let saw = 0.8 + 0.2 * ((step % 70) as f64 / 70.0);
        let now = goodput * level * wobble * saw * 1.1;
        series.t_s.push(step as f64 / 10.0);
        series.goodput_bps.push(Some(now));
        series.ack_rate_hz.push(Some(now / 1448.0 / 8.0 / ratio));
        series.data_rate_hz.push(Some(now / 1448.0 / 8.0));
        series
            .rtt_us
            .push(Some(40e3 + (rtt - 40e3) * saw * wobble * level));
        series
            .cwnd_segments
            .push(Some((now * rtt / 1e6 / 1448.0 / 8.0).round()));
        series
            .ssthresh_segments
            .push((step > 20).then_some(goodput * rtt / 1e6 / 16_000.0));
    }
    series
}

fn run(scenario: &Scenario, spec: &RunSpec) -> Run {
    let seed = spec
        .id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    let mut random = Random(seed | 1);
    let link = &scenario.links[0];
    let down = link.forward.rate_bps.unwrap_or(1_000_000_000) as f64;
    let up = link.reverse.rate_bps.unwrap_or(1_000_000_000) as f64;
    let ratio = segments_per_ack(&spec.arm);
    let reno = if spec.cc == "reno" { 0.8 } else { 1.0 };
    let most = (up / 416.0 * ratio * 1448.0 * 8.0).min(down * 0.955 * reno);
    let goodput = most * (0.93 + 0.06 * random.next());
    let seconds = scenario.duration.as_secs_f64().min(60.0);
    let rtt = if ratio * up < 0.02 * down {
        900e3
    } else {
        60e3
    };
    let series = series(seconds, goodput, rtt, ratio, &mut random);
    let bytes = (goodput * seconds / 8.0) as u64;
    let data = bytes / 1448;
    let acks = (data as f64 / ratio) as u64;
    let completion = completion(scenario, &spec.arm, &mut random);
    Run {
        id: spec.id.clone(),
        arm: spec.arm.clone(),
        cc: spec.cc.clone(),
        seed: spec.seed,
        draw: spec.draw,
        point: spec.point.clone(),
        flow: Some(scenario.flows[0].name.clone()),
        totals: Traffic {
            duration_s: seconds,
            bytes,
            goodput_bps: goodput,
            data_segments: data,
            acks_on_wire: acks,
            retransmits: (random.next() * 200.0) as u64,
            rtt_us: Some(Quantiles {
                p50: rtt * 0.9,
                p99: rtt * 1.2,
                ..Quantiles::default()
            }),
            acks: Some(AckKinds {
                pure: acks - acks / 20,
                sack: acks / 20,
                ..AckKinds::default()
            }),
            ack_bytes_on_wire: Some(acks * 52),
            uplink_share: Some((acks as f64 * 416.0 / seconds / up).min(1.0)),
            segments_per_ack: None,
            jain: None,
            stretch: None,
            timeouts: Some(0),
            completion,
            content: Some(Content {
                ok: true,
                sha256: None,
                bytes,
            }),
            series: scenario.record.series.then_some(series),
        },
        nodes: vec![NodeRecord {
            name: "receiver".to_owned(),
            cpu_process_s: Some(bytes as f64 * 1.1e-9),
            cpu_stack_s: Some(bytes as f64 * 2e-9 + acks as f64 * 1e-6),
            energy_j: None,
        }],
        ..Run::default()
    }
}

fn completion(scenario: &Scenario, arm: &str, random: &mut Random) -> Option<Completion> {
    let (sizes, count) = match &scenario.flows[0].app {
        App::ShortFlows { sizes, count } => (sizes.clone(), count.unwrap_or(100)),
        App::RequestResponse {
            response, count, ..
        } => (vec![*response], count.unwrap_or(100)),
        App::Bulk { .. } | App::Iperf3 { .. } | App::Chunks { .. } => return None,
    };
    let slow = if arm.starts_with("every") { 1.25 } else { 1.0 };
    let mut all = Vec::new();
    let mut by_size = Vec::new();
    for size in sizes {
        let rounds = (size as f64 / 14_480.0 + 1.0).log2().ceil() + 1.0;
        let times: Vec<f64> = (0..count)
            .map(|_| {
                let tail = if random.next() < 0.03 {
                    200e3 * random.next()
                } else {
                    0.0
                };
                (rounds * 40e3 + size as f64 * 0.16) * (1.0 + 0.1 * random.next()) * slow + tail
            })
            .collect();
        all.extend_from_slice(&times);
        by_size.extend(CompletionOfSize::of(size, &times, 200));
    }
    Some(Completion {
        time_us: Quantiles::of(&all)?,
        count: all.len() as u64,
        unfinished: 0,
        late: None,
        by_size,
    })
}
