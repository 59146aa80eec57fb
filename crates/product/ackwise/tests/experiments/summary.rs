//! Summarises all experiments of a kind.

use ackwise_switchback::Verdict;
use serde::Serialize;

use super::{Found, Kind, PAIRS, kinds};

/// The permitted error of experiments without an effect.
const ERROR: f64 = 0.05;
/// A less probable result is not considered chance.
const ACCIDENT: f64 = 0.001;

/// A share with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Share {
    pub of: usize,
    pub are: usize,
    /// The 95 % interval of Clopper and Pearson.
    pub low: f64,
    pub high: f64,
}

impl Share {
    pub fn new(are: usize, of: usize) -> Self {
        // The probability decreases as the share grows.
        let solve = |wanted: f64, at_most: usize| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..60 {
                let middle = f64::midpoint(low, high);
                if probability_of_at_most(at_most, of, middle) > wanted {
                    low = middle;
                } else {
                    high = middle;
                }
            }
            low
        };
        Self {
            of,
            are,
            low: if are == 0 { 0.0 } else { solve(0.975, are - 1) },
            high: if are == of { 1.0 } else { solve(0.025, are) },
        }
    }

    /// Returns whether it exceeds the permitted error: with 1,000 or more by the value itself, with
    /// fewer if that is not chance.
    fn is_wrong_too_often(&self) -> bool {
        if self.of >= 1_000 {
            return self.are as f64 > ERROR * self.of as f64;
        }
        self.are > 0 && 1.0 - probability_of_at_most(self.are - 1, self.of, ERROR) < ACCIDENT
    }
}

/// The probability that at most `most` of `of` independent events, each with this probability,
/// happen.
fn probability_of_at_most(most: usize, of: usize, each: f64) -> f64 {
    if each <= 0.0 {
        return 1.0;
    }
    if each >= 1.0 {
        return if most >= of { 1.0 } else { 0.0 };
    }
    let mut exactly = of as f64 * (1.0 - each).ln();
    let mut sum = exactly.exp();
    for k in 1..=most.min(of) {
        let odds = (of - k + 1) as f64 / k as f64 * each / (1.0 - each);
        exactly += odds.ln();
        sum += exactly.exp();
    }
    sum.min(1.0)
}

/// The results of one kind of experiment.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub load: &'static str,
    /// Whether the line carried a tenth less while the policy was on.
    pub harm: bool,
    /// Experiments that found an effect on any metric, however small.
    pub effect: Share,
    /// Experiments with the verdict *harms*.
    pub harms: Share,
    /// The pairs after which half, and 95 %, had that verdict; `null` if they never had.
    pub harms_half: Option<usize>,
    pub harms_95: Option<usize>,
    /// The median ratio of data with the policy to data without.
    pub ratio: f64,
    /// The mean number of pairs.
    pub pairs: f64,
}

impl Row {
    fn new(kind: Kind, of_kind: &[&Found]) -> Self {
        let n = of_kind.len();
        let share = |counts: fn(&Found) -> bool| {
            Share::new(of_kind.iter().filter(|one| counts(one)).count(), n)
        };
        let mut after: Vec<_> = of_kind
            .iter()
            .map(|one| (one.verdict == Verdict::Harms).then_some(one.pairs))
            .map(|after| after.unwrap_or(usize::MAX))
            .collect();
        after.sort_unstable();
        let quantile = |rank: usize| after.get(rank).copied().filter(|pairs| *pairs <= PAIRS);
        let mut ratios: Vec<_> = of_kind.iter().map(|one| one.ratio).collect();
        ratios.sort_by(f64::total_cmp);
        Self {
            load: kind.load.name,
            harm: kind.harm,
            effect: share(|one| !one.effects.is_empty()),
            harms: share(|one| one.verdict == Verdict::Harms),
            harms_half: quantile(n.saturating_sub(1) / 2),
            harms_95: quantile((n * 95).div_ceil(100).saturating_sub(1)),
            ratio: ratios.get(n / 2).copied().unwrap_or(f64::NAN),
            pairs: of_kind.iter().map(|one| one.pairs as f64).sum::<f64>() / n as f64,
        }
    }

    /// Describes which aim it misses, if any.
    fn misses(&self, within: Option<usize>) -> Option<String> {
        let name = self.load;
        if !self.harm {
            let Share { are, of, .. } = self.effect;
            return self
                .effect
                .is_wrong_too_often()
                .then(|| format!("{name}: {are} of {of} find an effect where there is none"));
        }
        let within = within?;
        let found = self.harms_95.is_some_and(|pairs| pairs <= within);
        (!found)
            .then(|| format!("{name}: a loss of a tenth is not found in 95 % in {within} pairs"))
    }
}

/// The kinds for which there are results, and the aims that they miss.
pub fn summary(all: &[Found]) -> (Vec<Row>, Vec<String>) {
    let (mut rows, mut missed) = (Vec::new(), Vec::new());
    for (number, kind) in kinds().into_iter().enumerate() {
        let of_kind: Vec<_> = all.iter().filter(|one| one.kind == number).collect();
        if !of_kind.is_empty() {
            let row = Row::new(kind, &of_kind);
            missed.extend(row.misses(kind.load.within));
            rows.push(row);
        }
    }
    (rows, missed)
}

/// The share of all experiments without an effect that find one.
pub fn wrong(rows: &[Row]) -> Share {
    let without = rows.iter().filter(|row| !row.harm);
    let (are, of) = without.fold((0, 0), |(are, of), row| {
        (are + row.effect.are, of + row.effect.of)
    });
    Share::new(are, of)
}

/// The rows as a table.
pub fn in_text(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<40}{:>6}{:>24}{:>8}{:>10}{:>10}{:>9}\n",
        "", "of", "find an effect", "harms", "half by", "95 % by", "data"
    );
    for row in rows {
        let shown = |pairs: Option<usize>| match pairs {
            Some(pairs) => format!("{pairs} pairs"),
            None => "-".to_owned(),
        };
        let Share { of, are, low, high } = row.effect;
        let share = are as f64 / of as f64 * 100.0;
        let effect = format!("{share:.1} % ({:.1}–{:.1})", low * 100.0, high * 100.0);
        text += &format!(
            "{:<40}{of:>6}{effect:>24}{:>8}{:>10}{:>10}{:>+8.1}%\n",
            format!(
                "{}{}",
                row.load,
                if row.harm { ", a tenth less" } else { "" }
            ),
            row.harms.are,
            shown(row.harms_half),
            shown(row.harms_95),
            (row.ratio - 1.0) * 100.0
        );
    }
    let Share { of, are, low, high } = wrong(rows);
    let (low, high) = (low * 100.0, high * 100.0);
    text +=
        &format!("Without an effect {are} of {of} find one; in truth {low:.1} % to {high:.1} %.\n");
    text
}
