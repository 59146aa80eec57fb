//! The effect on one metric, with a confidence sequence.

use serde::{Deserialize, Serialize};

/// The probability that an interval ever misses the true effect, however often one looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level(f64);

impl Level {
    /// Creates a level between 0 and 1, for instance 0.05.
    #[must_use]
    pub fn new(alpha: f64) -> Option<Self> {
        (alpha > 0.0 && alpha < 1.0).then_some(Self(alpha))
    }

    /// The level for each of `n` metrics that are judged together (Bonferroni).
    #[must_use]
    pub fn shared_by(self, n: usize) -> Self {
        Self(self.0 / n.max(1) as f64)
    }
}

/// The ratios of the outcome with the treatment to that without it that are compatible with the
/// observations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The smallest ratio; 0 while nothing is excluded.
    pub low: f64,
    /// The largest ratio; infinite while nothing is excluded.
    pub high: f64,
}

/// The rates at which the bets are placed, each a guess of 1 / (the spread of the differences). A
/// difference of 0.1 is about 10 %.
const BETS: [f64; 8] = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// Effects beyond a factor of e^10, about 22,000, count as infinite.
const MAX_LOG_RATIO: f64 = 10.0;
/// Steps of the bisection; the bound is exact to 20 / 2^50.
const BISECTION_STEPS: u32 = 50;

/// The differences of the pairs so far.
///
/// For a true effect `d`, the differences less `d` are symmetric around 0, each conditional on all
/// earlier ones. Then, for any `b`, the product of `2 / (1 + exp(-2 b (x - d)))` over all pairs is
/// a nonnegative martingale that starts at 1: given the size of `x - d`, its sign is a fair coin,
/// and the two possible values of a factor add up to 2. The mean over several `b` is such a
/// martingale, too. By Ville's inequality it ever reaches `2 / alpha` with probability at most
/// `alpha / 2`. The interval holds every `d` for which neither this martingale nor its mirror image
/// has reached it. (Ramdas, Ruf, Larsson and Koolen 2020, on symmetric distributions. As
/// `cosh(y) <= exp(y^2 / 2)`, each factor is at least that of the self-normalised bound
/// of de la Peña 1999, which Howard et al. 2021 use for symmetric observations.)
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    differences: Vec<f64>,
}

impl Effect {
    /// Adds a pair. A pair in which both are 0 says nothing and is ignored. If one of them is 0,
    /// the effect counts as infinite.
    pub fn add(&mut self, on: f64, off: f64) {
        let difference = match (on > 0.0, off > 0.0) {
            (true, true) => (on / off).ln().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO),
            (true, false) => MAX_LOG_RATIO,
            (false, true) => -MAX_LOG_RATIO,
            (false, false) => return,
        };
        self.differences.push(difference);
    }

    /// The number of pairs that were not ignored.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.differences.len()
    }

    /// The median of the ratios of all pairs; 1 if there are none, and infinite or 0 if at most one
    /// of the two sides had any in half of the pairs.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        let mut sorted = self.differences.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 {
            return 1.0;
        }
        let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        if median >= MAX_LOG_RATIO {
            return f64::INFINITY;
        }
        if median <= -MAX_LOG_RATIO {
            return 0.0;
        }
        median.exp()
    }

    /// The logarithm of the martingale against effects of at most `effect` if `sign` is 1, or of at
    /// least `effect` if it is -1.
    fn evidence(&self, effect: f64, sign: f64) -> f64 {
        let bet = |b: f64| {
            let factor = |x: &f64| {
                let y = -2.0 * b * sign * (x - effect);
                // ln(2 / (1 + e^y)) without overflow.
                std::f64::consts::LN_2 - (y.max(0.0) + (-y.abs()).exp().ln_1p())
            };
            self.differences.iter().map(factor).sum::<f64>()
        };
        let bets = BETS.map(bet);
        let most = bets.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let sum: f64 = bets.iter().map(|one| (one - most).exp()).sum();
        most + (sum / BETS.len() as f64).ln()
    }

    /// Says whether the interval excludes this ratio, without computing the interval.
    #[must_use]
    pub fn excludes(&self, ratio: f64, level: Level) -> bool {
        let limit = (2.0 / level.0).ln();
        let effect = ratio.ln();
        self.evidence(effect, 1.0) >= limit || self.evidence(effect, -1.0) >= limit
    }

    /// The ratios that are compatible with the pairs so far. It contains the true one at all times
    /// at once with a probability of at least 1 - `level`, so one may look after every pair, and
    /// stop.
    #[must_use]
    pub fn interval(&self, level: Level) -> Interval {
        let limit = (2.0 / level.0).ln();
        // The evidence against small effects decreases as the effect grows.
        let excluded = |effect: f64, sign: f64| self.evidence(sign * effect, sign) >= limit;
        let bound = |sign: f64| {
            let (mut out, mut inside) = (-MAX_LOG_RATIO, MAX_LOG_RATIO);
            if !excluded(out, sign) {
                return None;
            }
            for _ in 0..BISECTION_STEPS {
                let middle = f64::midpoint(out, inside);
                if excluded(middle, sign) {
                    out = middle;
                } else {
                    inside = middle;
                }
            }
            Some(sign * out)
        };
        Interval {
            low: bound(1.0).map_or(0.0, f64::exp),
            high: bound(-1.0).map_or(f64::INFINITY, f64::exp),
        }
    }
}

impl Interval {
    /// Whether the interval contains a ratio.
    #[must_use]
    pub fn contains(&self, ratio: f64) -> bool {
        self.low <= ratio && ratio <= self.high
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level() -> Level {
        Level::new(0.05).unwrap()
    }

    fn effect(differences: &[f64]) -> Effect {
        Effect {
            differences: differences.to_vec(),
        }
    }

    #[test]
    fn without_evidence_nothing_is_excluded() {
        for few in [&[][..], &[0.3], &[0.3, 0.3, 0.3]] {
            let interval = effect(few).interval(level());
            assert_eq!((interval.low, interval.high), (0.0, f64::INFINITY));
        }
        assert!((effect(&[]).ratio() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn pairs_of_zeros_say_nothing_and_one_zero_says_much() {
        let mut seen = Effect::default();
        seen.add(0.0, 0.0);
        assert_eq!(seen.pairs(), 0);
        for _ in 0..12 {
            seen.add(0.0, 5.0);
        }
        assert_eq!(seen.pairs(), 12);
        assert!(seen.interval(level()).high < 0.01);
    }

    #[test]
    fn an_effect_that_counts_as_infinite_is_not_shown_as_a_number() {
        let mut effect = Effect::default();
        effect.add(3.0, 0.0);
        assert_eq!(effect.ratio(), f64::INFINITY);
        effect.add(2.0, 0.0);
        assert_eq!(effect.ratio(), f64::INFINITY);
        let mut none = Effect::default();
        none.add(0.0, 3.0);
        assert_eq!(none.ratio(), 0.0);
    }

    #[test]
    fn the_interval_shrinks_around_the_effect() {
        let noise = [0.1, -0.1, 0.03, -0.05, 0.08, -0.06];
        let mut last = f64::INFINITY;
        for n in [30, 120, 480] {
            let seen: Vec<_> = noise.iter().cycle().take(n).map(|x| x - 0.105).collect();
            let seen = effect(&seen);
            let interval = seen.interval(level());
            assert!(interval.contains(0.9), "{interval:?}");
            assert!((seen.ratio() - 0.9).abs() < 0.02);
            let width = interval.high / interval.low;
            assert!(width < last, "{interval:?}");
            last = width;
        }
        assert!(last < 1.03, "{last}");
    }

    #[test]
    fn turning_on_and_off_round_turns_the_interval_round() {
        let seen = [0.2, -0.02, 0.11, 0.3, 0.07, -0.1, 0.15, 0.22, 0.05, 0.01];
        let seen: Vec<_> = seen.iter().cycle().copied().take(40).collect();
        let turned: Vec<_> = seen.iter().map(|x| -x).collect();
        let (one, other) = (
            effect(&seen).interval(level()),
            effect(&turned).interval(level()),
        );
        assert!(
            (one.low * other.high - 1.0).abs() < 1e-9,
            "{one:?} {other:?}"
        );
        assert!(
            (one.high * other.low - 1.0).abs() < 1e-9,
            "{one:?} {other:?}"
        );
    }

    #[test]
    fn levels_lie_between_0_and_1() {
        for bad in [0.0, 1.0, -0.1, f64::NAN] {
            assert_eq!(Level::new(bad), None);
        }
        assert_eq!(level().shared_by(5), Level::new(0.01).unwrap());
    }
}
