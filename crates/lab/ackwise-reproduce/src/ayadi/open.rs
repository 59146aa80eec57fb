//! What the survey leaves open, varied one thing at a time.

use super::claims::{saving, sign};
use super::points::{Metric, Place, Points, experiment};
use super::{Arm, DELAYED};
use crate::{Error, Reproduced};

/// Seeds in a short version.
pub(super) const QUICK_SEEDS: u64 = 3;

const BASE: &str = "as-figure-1";
/// Changes to the radios and TCP of all four arms: the name in the file, and a description.
const VARIANTS: [(&str, &str); 10] = [
    (BASE, "as in the figures"),
    ("mac-standard", "802.15.4's own defaults: gives up earlier"),
    ("sense-50m", "carrier sense 50 m"),
    ("sense-and-spoil-50m", "carrier sense and interference 50 m"),
    ("capture-0db", "the stronger frame always survives"),
    ("static-routes", "routes known from the start"),
    ("no-link-feedback", "AODV does not hear of lost frames"),
    ("headers-17b", "headers of 17 B"),
    ("window-64", "a window of 64 segments"),
    ("bit-errors-1e-4", "a bit in 10 000 is wrong"),
];
/// Changes to a single arm.
const ALONE: [(&str, &str, &str); 7] = [
    (
        "timer-100ms",
        "tcp-d2",
        "TCP, d = 2: timer of 100 ms, not 200",
    ),
    (
        "timer-500ms",
        "tcp-d2",
        "TCP, d = 2: timer of 500 ms, not 200",
    ),
    ("kappa-1", "dca", "DCA: waits a gap more"),
    ("kappa-5", "dca", "DCA: waits five gaps more"),
    ("timer-200ms", "tda", "TDA: timer of 200 ms, not 500"),
    (
        "small-4",
        "tda",
        "TDA: a window below 4 is small, not below 25",
    ),
    ("small-0", "tda", "TDA: no window is small"),
];
const HOPS: [u64; 3] = [2, 6, 10];

pub(super) fn add(points: &Points, all: &mut Reproduced) -> Result<(), Error> {
    let setup = "sim; the chain of Fig. 1, one thing changed";
    for (hops, published) in [(2, -20.0), (10, -10.0)] {
        for Arm { name, title } in &DELAYED {
            for (base, called) in [("tcp", "d = 1"), ("tcp-d2", "d = 2")] {
                let part = format!("Left open: energy of {title} against {called}, {hops} hops");
                for (variant, words) in VARIANTS {
                    let [arm, to] = [name, base].map(|arm| format!("{variant}/{arm}"));
                    let at = Place::new(hops, 1);
                    let gains = points.gains(&arm, &to, at, Metric::Energy)?;
                    let id = format!("ayadi/open/energy/{name}-to-{base}/{hops}-hops/{variant}");
                    all.experiments.push(
                        experiment(id, words.to_owned(), gains)
                            .part(part.as_str())
                            .published(published)
                            .tolerance(saving(hops))
                            .variant()
                            .unit("%")
                            .setup(setup),
                    );
                }
            }
        }
    }
    for (hops, published) in [(2, "less"), (6, "more"), (10, "more")] {
        let part = format!("Left open: throughput of DCA against TDA, {hops} hops");
        for (variant, words) in VARIANTS {
            let [arm, to] = ["dca", "tda"].map(|arm| format!("{variant}/{arm}"));
            let gains = points.gains(&arm, &to, Place::new(hops, 1), Metric::Throughput)?;
            let id = format!("ayadi/open/throughput/dca-to-tda/{hops}-hops/{variant}");
            all.experiments.push(
                experiment(id, words.to_owned(), gains)
                    .part(part.as_str())
                    .published(published)
                    .tolerance(sign(published))
                    .variant()
                    .unit("%")
                    .setup(setup),
            );
        }
    }
    let part = "Left open: throughput of TCP, d = 1";
    for (variant, words) in VARIANTS {
        for hops in HOPS {
            let metric = Metric::Throughput;
            let arm = format!("{variant}/tcp");
            let values = points.values(&arm, Place::new(hops, 1), |run| metric.of(run))?;
            let id = format!("ayadi/open/throughput/tcp/{hops}-hops/{variant}");
            all.experiments.push(
                experiment(id, format!("{words}, {hops} hops"), values)
                    .part(part)
                    .unit(metric.unit())
                    .setup(setup),
            );
        }
    }
    timers(points, all)
}

/// Delaying schemes with another timer: throughput relative to that of the figures.
fn timers(points: &Points, all: &mut Reproduced) -> Result<(), Error> {
    for (variant, arm, words) in ALONE {
        for hops in HOPS {
            let [other, base] = [variant, BASE].map(|variant| format!("{variant}/{arm}"));
            let at = Place::new(hops, 1);
            let gains = points.gains(&other, &base, at, Metric::Throughput)?;
            let id = format!("ayadi/open/timer/{arm}/{variant}/{hops}-hops");
            all.experiments.push(
                experiment(id, format!("{words}, {hops} hops"), gains)
                    .part("Left open: timers, throughput against that of the figures")
                    .unit("%")
                    .setup("sim; the chain of Fig. 1, one thing changed"),
            );
        }
    }
    Ok(())
}
