//! Results of radio runs: means over seeds, and ratios seed by seed.

use std::collections::BTreeMap;

use ackwise_radio::scenario::{RadioReport, RadioRun};
use ackwise_report::{Experiment, Mean, Spread};

use crate::Error;

/// A metric of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Metric {
    Throughput,
    Energy,
    Efficiency,
}

impl Metric {
    pub fn name(self) -> &'static str {
        match self {
            Metric::Throughput => "throughput",
            Metric::Energy => "energy",
            Metric::Efficiency => "efficiency",
        }
    }

    pub fn unit(self) -> &'static str {
        match self {
            Metric::Throughput => "kbit/s",
            Metric::Energy => "J",
            Metric::Efficiency => "kbit/s per J",
        }
    }

    pub fn of(self, run: &RadioRun) -> f64 {
        match self {
            Metric::Throughput => run.throughput_bps / 1e3,
            Metric::Energy => run.energy_j,
            Metric::Efficiency => run.efficiency_bps_per_j / 1e3,
        }
    }
}

/// A point of measurement: hops along a path, and flows in total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub hops: u64,
    pub flows: usize,
}

impl Place {
    pub fn new(hops: u64, flows: usize) -> Place {
        Place { hops, flows }
    }
}

/// The runs of a scenario by arm, place and seed.
pub(super) struct Points {
    scenario: String,
    runs: BTreeMap<(String, Place), BTreeMap<u64, RadioRun>>,
}

impl Points {
    pub fn new(report: RadioReport) -> Points {
        let mut runs: BTreeMap<_, BTreeMap<u64, RadioRun>> = BTreeMap::new();
        for run in report.runs {
            let place = Place::new(run.hops.unwrap_or(0), run.flows.len());
            let at = runs.entry((run.arm.clone(), place)).or_default();
            at.insert(run.seed, run);
        }
        Points {
            scenario: report.scenario.name,
            runs,
        }
    }

    /// All places, ascending.
    pub fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.runs.keys().map(|(_, place)| *place).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    fn seeds(&self, arm: &str, at: Place) -> Result<&BTreeMap<u64, RadioRun>, Error> {
        let found = self.runs.get(&(arm.to_owned(), at));
        found.ok_or_else(|| Error::Record {
            scenario: self.scenario.clone(),
            what: format!("{arm} did not run at {at:?}"),
        })
    }

    /// A metric of each seed, in ascending order of seeds.
    pub fn values(
        &self,
        arm: &str,
        at: Place,
        of: impl Fn(&RadioRun) -> f64,
    ) -> Result<Vec<f64>, Error> {
        Ok(self.seeds(arm, at)?.values().map(of).collect())
    }

    /// By how much an arm exceeds another, in %, for each seed.
    pub fn gains(&self, arm: &str, to: &str, at: Place, metric: Metric) -> Result<Vec<f64>, Error> {
        let (ours, theirs) = (self.seeds(arm, at)?, self.seeds(to, at)?);
        let both = ours
            .iter()
            .filter_map(|(seed, run)| Some((run, theirs.get(seed)?)));
        Ok(both
            .map(|(a, b)| (metric.of(a) / metric.of(b) - 1.0) * 100.0)
            .collect())
    }

    /// By how much an arm exceeds another, in %, for each seed, averaged over places.
    pub fn mean_gains(
        &self,
        arm: &str,
        to: &str,
        places: &[Place],
        metric: Metric,
    ) -> Result<Vec<f64>, Error> {
        let each: Result<Vec<Vec<f64>>, Error> = places
            .iter()
            .map(|at| self.gains(arm, to, *at, metric))
            .collect();
        Ok(fold(&each?, |gains| {
            gains.iter().sum::<f64>() / gains.len() as f64
        }))
    }

    /// At how many places an arm exceeds another, for each seed.
    pub fn wins(
        &self,
        arm: &str,
        over: &str,
        places: &[Place],
        metric: Metric,
    ) -> Result<Vec<f64>, Error> {
        let each: Result<Vec<Vec<f64>>, Error> = places
            .iter()
            .map(|at| self.gains(arm, over, *at, metric))
            .collect();
        Ok(fold(&each?, |gains| {
            gains.iter().filter(|gain| **gain > 0.0).count() as f64
        }))
    }
}

/// Folds the values of each seed over the places into one value per seed.
pub(super) fn fold(each: &[Vec<f64>], of: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let seeds = each.iter().map(Vec::len).min().unwrap_or(0);
    let at = |seed: usize| each.iter().map(|place| place[seed]).collect::<Vec<f64>>();
    (0..seeds).map(|seed| of(&at(seed))).collect()
}

/// An experiment that measures the mean of one value per seed, with its interval.
pub(super) fn experiment(id: String, what: String, values: Vec<f64>) -> Experiment {
    let Some(mean) = Mean::of(values.iter().copied()) else {
        return Experiment::new(id, what, "undefined");
    };
    // A single seed has no interval, so its value stands for both ends.
    let [low, high] = mean.ci95().unwrap_or([mean.mean; 2]);
    Experiment::new(id, what, mean.mean)
        .spread(Spread::of("seeds", values))
        .ci95(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(arm: &str, hops: u64, seed: u64, throughput_bps: f64) -> RadioRun {
        RadioRun {
            arm: arm.to_owned(),
            seed,
            hops: Some(hops),
            throughput_bps,
            energy_j: 2.0,
            efficiency_bps_per_j: throughput_bps / 2.0,
            flows: vec![Default::default()],
            ..RadioRun::default()
        }
    }

    #[test]
    fn gains_are_formed_seed_by_seed() {
        let report = RadioReport {
            runs: vec![
                run("a", 2, 1, 1000.0),
                run("b", 2, 1, 1500.0),
                run("b", 2, 2, 1000.0),
                run("a", 2, 2, 2000.0),
                run("a", 3, 1, 1000.0),
                run("a", 3, 2, 1000.0),
                run("b", 3, 1, 1100.0),
                run("b", 3, 2, 1100.0),
            ],
            ..RadioReport::default()
        };
        let points = Points::new(report);
        let [two, three] = [Place::new(2, 1), Place::new(3, 1)];
        assert_eq!(points.places(), [two, three]);
        let gains = points.gains("b", "a", two, Metric::Throughput).unwrap();
        assert_eq!(gains, [50.0, -50.0]);
        let both = [two, three];
        let wins = points.wins("b", "a", &both, Metric::Efficiency).unwrap();
        assert_eq!(wins, [2.0, 1.0]);
        let means = points
            .mean_gains("b", "a", &both, Metric::Throughput)
            .unwrap();
        assert!((means[0] - 30.0).abs() < 1e-9 && (means[1] + 20.0).abs() < 1e-9);
        let energy = points.gains("b", "a", two, Metric::Energy).unwrap();
        assert_eq!(energy, [0.0, 0.0]);
        assert!(points.gains("c", "a", two, Metric::Energy).is_err());
        assert!(
            points
                .gains("b", "a", Place::new(4, 1), Metric::Energy)
                .is_err()
        );
    }

    #[test]
    fn an_experiment_carries_its_interval() {
        let e = experiment("x".to_owned(), String::new(), vec![1.0, 2.0, 3.0]);
        let [low, high] = e.ci95.unwrap();
        assert!((low - (2.0 - 2.4841)).abs() < 1e-4 && (high - (2.0 + 2.4841)).abs() < 1e-4);
        let one = experiment("x".to_owned(), String::new(), vec![4.0]);
        assert_eq!(one.ci95, Some([4.0, 4.0]));
    }
}
