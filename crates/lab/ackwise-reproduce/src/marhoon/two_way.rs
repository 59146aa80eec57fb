//! ACKs-first, which the paper describes but does not try: it needs data in the direction of the ACKs.

use ackwise_report::{Experiment, Spread};

use super::{CC, DURATION_S};
use crate::{Error, Lab, Reproduced};

const PATH: &str = "scenarios/papers/marhoon/two-way.toml";
const TEXT: &str = include_str!("../../../../../scenarios/papers/marhoon/two-way.toml");
const PACKET_BYTES: f64 = 590.0;
const PACKET_BYTES_AGAINST: f64 = 1500.0;

const ARMS: [(&str, &str); 5] = [
    ("baseline", "one queue"),
    ("acks-first", "ACKs first"),
    ("af", "AF"),
    ("af-acks-first", "AF and ACKs first"),
    ("af-acks-first-4", "AF and ACKs first, 4 at most"),
];

pub(super) fn run(lab: &Lab<'_>, all: &mut Reproduced) -> Result<(), Error> {
    let quick = lab.quick();
    let outcome = lab.run_where(PATH, TEXT, |run| !quick || run.seed <= 2)?;
    for (arm, title) in ARMS {
        let (mut with, mut against) = (Vec::new(), Vec::new());
        for run in outcome.runs(arm, CC, &[]) {
            let rate = |segments: u64, bytes: f64| segments as f64 * bytes * 8.0 / DURATION_S;
            let back = outcome.flow(run, "against")?.data_segments;
            let forth = run.totals.data_segments - back;
            with.push(rate(forth, PACKET_BYTES) / 1e6);
            against.push(rate(back, PACKET_BYTES_AGAINST) / 1e3);
        }
        let one = |id: &str, what: String, unit: &str, values: Vec<f64>| {
            let spread = Spread::of("seeds of the start times", values);
            let median = spread.as_ref().map_or(f64::NAN, |s| s.median);
            Experiment::new(format!("marhoon/two-way/{arm}/{id}"), what, median)
                .part("With a download whose data share the 300 kbit/s (not in the paper)")
                .unit(unit)
                .setup("sim; two-way.toml: one flow from the server against the 20")
                .spread(spread)
        };
        all.experiments.extend([
            one("total", format!("{title}: the 20 uploads"), "Mbit/s", with),
            one(
                "against",
                format!("{title}: the download"),
                "kbit/s",
                against,
            ),
        ]);
    }
    Ok(())
}
