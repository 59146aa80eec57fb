//! ACK congestion control by the sender (RFC 5690) on the paper's network; the paper does not try it.

use ackwise_report::{Experiment, Spread};
use ackwise_scenario::record::Run;

use super::arms::first_five;
use super::{ACK_QUEUE, CC, DATA_QUEUE, DURATION_S};
use crate::{Error, Lab, Reproduced};

const PATH: &str = "scenarios/papers/marhoon/ack-ratio.toml";
const TEXT: &str = include_str!("../../../../../scenarios/papers/marhoon/ack-ratio.toml");
/// Seeds in a short version.
const QUICK_SEEDS: u64 = 3;
const PACKET_BYTES: f64 = 590.0;

const ARMS: [(&str, &str); 7] = [
    ("baseline", "an ACK of each segment"),
    ("every-2", "of every second segment"),
    ("rfc5690", "RFC 5690"),
    (
        "every-2-counts",
        "of every second segment, and a sender that counts bytes",
    ),
    ("rfc5690-counts", "RFC 5690, and a sender that counts bytes"),
    ("acc-marks", "RFC 3449's, by marks"),
    (
        "acc-marks-counts",
        "RFC 3449's, by marks, and a sender that counts bytes",
    ),
];

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let quick = lab.quick();
    let outcome = lab.run_where(PATH, TEXT, |run| !quick || run.seed <= QUICK_SEEDS)?;
    for (arm, title) in ARMS {
        let runs = outcome.runs(arm, CC, &[]);
        if runs.is_empty() {
            return Err(outcome.lacks(format_args!("runs of {arm}")));
        }
        let each = |of: &dyn Fn(&Run) -> Result<f64, Error>| -> Result<Vec<f64>, Error> {
            runs.iter().map(|run| of(run)).collect()
        };
        let total = each(&|run| {
            let bits = run.totals.data_segments as f64 * PACKET_BYTES * 8.0;
            Ok(bits / DURATION_S / 1e6)
        })?;
        let five = each(&|run| {
            let first = first_five(&outcome, run)?;
            Ok(first.iter().map(|f| f.rate_mbps(PACKET_BYTES)).sum::<f64>() / 5.0)
        })?;
        let lost = each(&|run| Ok(outcome.queue(run, ACK_QUEUE)?.drops as f64))?;
        let drops = each(&|run| Ok(outcome.queue(run, DATA_QUEUE)?.drops as f64))?;
        let stretch = each(&|run| {
            let segments = run.totals.segments_per_ack();
            segments.ok_or_else(|| outcome.lacks(format_args!("ACKs in {}", run.id)))
        })?;
        let one = |id: &str, what: &str, unit: &str, values: Vec<f64>| {
            let spread = Spread::of("seeds of the start times", values);
            let median = spread.as_ref().map_or(f64::NAN, |s| s.median);
            Experiment::new(
                format!("marhoon/ack-ratio/{arm}/{id}"),
                format!("{title}: {what}"),
                median,
            )
            .part("ACK congestion control by the sender (not in the paper)")
            .unit(unit)
            .setup("sim; ack-ratio.toml")
            .spread(spread)
        };
        all.experiments.extend([
            one("total", "all 20 together", "Mbit/s", total),
            one("throughput", "mean of the first five", "Mbit/s", five),
            one("acks-lost", "ACKs that the downlink dropped", "", lost),
            one("data-drops", "packets dropped on the uplink", "", drops),
            one(
                "segments-per-ack",
                "segments an ACK that left the server",
                "",
                stretch,
            ),
        ]);
    }
    Ok(())
}
