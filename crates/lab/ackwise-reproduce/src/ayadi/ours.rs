//! `hop` compared with DCA and TDA, with more seeds than the figures have: fewer seeds show no
//! difference on the cross and the grid.

use ackwise_report::Experiment;

use super::points::{Metric, Place, Points, experiment, fold};
use crate::{Error, Reproduced};

const PART: &str = "Not in the paper: hop";
const FIELDS: [(&str, &str); 4] = [
    ("chain", "chain, 2 to 10 hops"),
    ("flows", "2, 4, 6 flows over 2, 6, 10 hops"),
    ("cross", "cross of 2 to 8 hops, 2 and 6 flows"),
    ("grid", "grid, 4 flows"),
];
/// The arm, the arm it is compared with, and the name of the comparison.
const PAIRS: [(&str, &str, &str); 6] = [
    ("hop", "dca", "hop against DCA"),
    ("hop", "tda", "hop against TDA"),
    ("hop-patient", "dca", "hop and a patient sender against DCA"),
    ("hop-patient", "tda", "hop and a patient sender against TDA"),
    (
        "hop-patient",
        "tda-patient",
        "hop against TDA, both with a patient sender",
    ),
    (
        "tda-patient",
        "tda",
        "a patient sender against another, both with TDA",
    ),
];
const NOTE: &str = "A patient sender takes four times the timeout and two duplicate ACKs.";

/// Adds the results over the fields, in the order of `FIELDS`.
pub(super) fn add(fields: &[Points], all: &mut Reproduced) -> Result<(), Error> {
    for (points, (id, called)) in fields.iter().zip(FIELDS) {
        for (arm, over, pair) in PAIRS {
            let gains = Gains::of(points, arm, over)?;
            let setup = format!(
                "sim; as in the figures, but {} seeds; the mean over the places of the field",
                gains.seeds.len()
            );
            let places = gains.places.len();
            let id = format!("ayadi/claim/{arm}/{id}-to-{over}");
            let what = format!("efficiency of {pair}: {called}");
            let worst = gains.places.iter().copied().fold(f64::INFINITY, f64::min);
            let ahead = gains.places.iter().filter(|gain| **gain > 0.0).count() as f64;
            let of = |experiment: Experiment| experiment.part(PART).setup(setup.clone()).note(NOTE);
            let gain = experiment(id.clone(), what, gains.seeds).unit("%");
            all.experiments.push(of(gain));
            let what = format!("places where the mean of {pair} is ahead: {called}");
            let count = Experiment::new(format!("{id}/ahead"), what, ahead);
            let count = count.unit(format!("of {places}")).ci95(ahead, ahead);
            all.experiments.push(of(count));
            let what = format!("the place where the mean of {pair} gains least: {called}");
            let least = Experiment::new(format!("{id}/least"), what, worst);
            all.experiments.push(of(least.unit("%").ci95(worst, worst)));
        }
    }
    Ok(())
}

/// By how much an arm's efficiency exceeds another's, in per cent of the other's mean.
struct Gains {
    /// The gain of each seed, averaged over all places.
    seeds: Vec<f64>,
    /// The gain of each place, averaged over all seeds.
    places: Vec<f64>,
}

impl Gains {
    fn of(points: &Points, arm: &str, over: &str) -> Result<Gains, Error> {
        let each: Vec<Vec<f64>> = points
            .places()
            .into_iter()
            .map(|at| differences(points, arm, over, at))
            .collect::<Result<_, _>>()?;
        Ok(Gains {
            seeds: fold(&each, mean),
            places: each.iter().map(|seeds| mean(seeds)).collect(),
        })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The gains at a place, seed by seed. They are relative to the mean, not to the other run of
/// the seed: a mean of ratios would favour the arm that varies more.
fn differences(points: &Points, arm: &str, over: &str, at: Place) -> Result<Vec<f64>, Error> {
    let of = |arm| points.values(arm, at, |run| Metric::Efficiency.of(run));
    let (ours, theirs) = (of(arm)?, of(over)?);
    let base = mean(&theirs);
    let pairs = ours.iter().zip(&theirs);
    Ok(pairs.map(|(a, b)| 100.0 * (a - b) / base).collect())
}
