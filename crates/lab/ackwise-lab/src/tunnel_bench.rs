//! `ackwise-lab tunnel-bench`: the cost of bundles of ACKs.

use std::path::Path;
use std::time::Duration;

use ackwise_cli::error::BadInput;
use ackwise_cli::{Format, text};
use ackwise_rng::Probability;
use ackwise_tunnel::Variant;
use ackwise_tunnel::trace::{Recorded, TraceError, TracedPacket, read_pcap};
use ackwise_tunnel::trace_replay::{Outcome, ReplayConfig, replay};
use serde::Serialize;

use crate::cli::BenchArgs;
use crate::input;

/// Time after which all flows count as known, ns.
const KNOWN_AFTER: u64 = 200_000_000;
/// Number of passes, of which the fastest counts.
const PASSES: usize = 20;

/// The document that `--format json` prints.
#[derive(Debug, Serialize)]
struct Report {
    bytes_per_ack: Sizes,
    /// Bytes per ACK from the first packet on.
    bytes_per_ack_from_start: Sizes,
    acks_per_bundle: f64,
    /// Bytes in the other direction per ACK, with all headers, if nothing else flows there.
    feedback_bytes_per_ack: f64,
    /// Wrong headers over all runs, including those with loss, reordering and duplicates.
    wrong_headers: usize,
    lost_beyond_bundle: usize,
    replayed_acks: usize,
    lost_with_bundles: usize,
    /// Speed with entropy coding, the slower of the two variants.
    mux_acks_per_s: f64,
    demux_acks_per_s: f64,
    mux_acks_per_s_aligned: f64,
    demux_acks_per_s_aligned: f64,
}

#[derive(Debug, Default, Serialize)]
struct Sizes {
    aligned: f64,
    entropy: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sack_heavy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sack_heavy_aligned: Option<f64>,
}

struct Bench<'a> {
    args: &'a BenchArgs,
    total: Outcome,
}

impl Bench<'_> {
    fn settings(&self, variant: Variant) -> ReplayConfig {
        ReplayConfig {
            period_ns: self.args.period_ms * 1_000_000,
            rtt_ns: self.args.rtt_ms * 1_000_000,
            ..ReplayConfig::new(variant)
        }
    }

    fn run(&mut self, trace: &[TracedPacket], settings: &ReplayConfig) -> Outcome {
        let outcome = replay(trace, settings);
        self.total.acks += outcome.acks;
        self.total.wrong += outcome.wrong;
        self.total.lost_beyond += outcome.lost_beyond;
        self.total.lost_with_bundles += outcome.lost_with_bundles;
        outcome
    }

    /// Bytes per ACK, counted from a given time on.
    fn size(&mut self, trace: &[TracedPacket], variant: Variant, from: u64) -> f64 {
        let mut settings = self.settings(variant);
        settings.count_from_ns = from;
        self.run(trace, &settings).bytes_per_ack()
    }

    fn sizes(&mut self, plain: &[TracedPacket], sack: Option<&[TracedPacket]>, from: u64) -> Sizes {
        Sizes {
            aligned: self.size(plain, Variant::Aligned, from),
            entropy: self.size(plain, Variant::Entropy, from),
            sack_heavy: sack.map(|sack| self.size(sack, Variant::Entropy, from)),
            sack_heavy_aligned: sack.map(|sack| self.size(sack, Variant::Aligned, from)),
        }
    }

    /// Replays with loss of 1, 2 and 5 %, reordering and duplicates.
    fn faults(&mut self, trace: &[TracedPacket]) {
        for variant in [Variant::Aligned, Variant::Entropy] {
            for (loss, others, seed) in [
                (0.01, 0.0, 1),
                (0.02, 0.0, 2),
                (0.05, 0.0, 3),
                (0.02, 0.2, 4),
            ] {
                let mut settings = self.settings(variant);
                settings.loss = Probability::from_fraction(loss);
                settings.reorder = Probability::from_fraction(others);
                settings.duplicate = Probability::from_fraction(others);
                settings.seed = seed;
                self.run(trace, &settings);
            }
        }
    }

    /// ACKs per second into bundles, and out of them.
    fn speed(&mut self, trace: &[TracedPacket], variant: Variant) -> (f64, f64) {
        let settings = self.settings(variant);
        let (mut mux, mut demux) = (Duration::MAX, Duration::MAX);
        for _ in 0..PASSES {
            let outcome = self.run(trace, &settings);
            mux = mux.min(outcome.mux);
            demux = demux.min(outcome.demux);
        }
        let acks = trace.len() as f64;
        (acks / mux.as_secs_f64(), acks / demux.as_secs_f64())
    }
}

/// Replays the ACKs and shows the cost of their bundles.
pub fn bench(args: &BenchArgs, format: Format) -> anyhow::Result<()> {
    let traces = match &args.pcap {
        Some(path) => vec![read_capture(path)?],
        None => Recorded::ALL
            .iter()
            .map(|which| which.read())
            .collect::<Result<_, _>>()?,
    };
    let plain = &traces[0];
    let sack = traces.get(1).map(Vec::as_slice);
    let last = plain.last().map_or(0, |seen| seen.at_ns);
    if last <= KNOWN_AFTER {
        let what = "the capture is not longer than 200 ms, after which bytes are counted";
        return Err(BadInput::new(what).hint("capture a longer time").into());
    }
    let mut bench = Bench {
        args,
        total: Outcome::default(),
    };
    let bytes_per_ack = bench.sizes(plain, sack, KNOWN_AFTER);
    let bytes_per_ack_from_start = bench.sizes(plain, sack, 0);
    traces.iter().for_each(|trace| bench.faults(trace));
    let settings = bench.settings(Variant::Entropy);
    let usual = bench.run(plain, &settings);
    let (mux, demux) = bench.speed(plain, Variant::Entropy);
    let (mux_aligned, demux_aligned) = bench.speed(plain, Variant::Aligned);
    let report = Report {
        bytes_per_ack,
        bytes_per_ack_from_start,
        acks_per_bundle: usual.acks as f64 / usual.bundles as f64,
        feedback_bytes_per_ack: usual.feedback_bytes as f64 / usual.acks as f64,
        wrong_headers: bench.total.wrong,
        lost_beyond_bundle: bench.total.lost_beyond,
        replayed_acks: bench.total.acks,
        lost_with_bundles: bench.total.lost_with_bundles,
        mux_acks_per_s: mux,
        demux_acks_per_s: demux,
        mux_acks_per_s_aligned: mux_aligned,
        demux_acks_per_s_aligned: demux_aligned,
    };
    match format {
        Format::Json => text::print_json(&report),
        Format::Text => text::print(&table(&report)),
    }
}

fn read_capture(path: &Path) -> anyhow::Result<Vec<TracedPacket>> {
    let refused = |error| BadInput::new(format!("{}: {error}", path.display()));
    let mut magic = None;
    let file = input::read(path, 24, |start| {
        let is_gzip = start.starts_with(&[0x1f, 0x8b]);
        magic = read_pcap(start).err().filter(|_| !is_gzip);
        !matches!(magic, Some(TraceError::Magic(_)))
    })?;
    match (file, magic) {
        (None, Some(error)) => Err(refused(error).into()),
        (file, _) => Ok(read_pcap(&file.unwrap_or_default()).map_err(refused)?),
    }
}

fn table(report: &Report) -> String {
    let size = |bytes: f64| format!("{bytes:.2}");
    let mut rows = vec![vec![String::new(), "aligned".into(), "entropy".into()]];
    let mut row = |name: &str, aligned: String, entropy: String| {
        rows.push(vec![name.to_owned(), aligned, entropy]);
    };
    let (later, start) = (&report.bytes_per_ack, &report.bytes_per_ack_from_start);
    row("bytes per ACK", size(later.aligned), size(later.entropy));
    if let (Some(aligned), Some(entropy)) = (later.sack_heavy_aligned, later.sack_heavy) {
        row("  with SACK blocks", size(aligned), size(entropy));
    }
    row("  from the start", size(start.aligned), size(start.entropy));
    row(
        "ACKs/s into bundles",
        text::count(report.mux_acks_per_s_aligned),
        text::count(report.mux_acks_per_s),
    );
    row(
        "ACKs/s out of bundles",
        text::count(report.demux_acks_per_s_aligned),
        text::count(report.demux_acks_per_s),
    );
    format!(
        "{}\n{:.1} ACKs a bundle; feedback {:.2} bytes per ACK in the other direction\n\
         {} ACKs replayed: {} wrong, {} lost with their bundles, {} lost otherwise\n",
        text::columns(&rows, &[false, true, true]),
        report.acks_per_bundle,
        report.feedback_bytes_per_ack,
        report.replayed_acks,
        report.wrong_headers,
        report.lost_with_bundles,
        report.lost_beyond_bundle,
    )
}
