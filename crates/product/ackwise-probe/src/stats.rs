//! Tests for chance: one-sided, without assumptions about how a path loses or delays.

/// A finding counts if its probability by chance is below this: that of nine or more coins that all
/// land on one side.
pub const SIGNIFICANCE_LEVEL: f64 = 0.002;

/// Logarithms of the factorials up to a number.
struct LnFactorials(Vec<f64>);

impl LnFactorials {
    fn up_to(n: usize) -> Self {
        let mut sum = 0.0;
        let logarithms = (0..=n).map(|k| {
            sum += (k.max(1) as f64).ln();
            sum
        });
        Self(logarithms.collect())
    }

    fn ln_choose(&self, n: usize, k: usize) -> f64 {
        self.0[n] - self.0[k] - self.0[n - k]
    }
}

/// A number of things, and how many of them are hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// How many things there are.
    pub of: usize,
    /// How many of them are hits.
    pub hit: usize,
}

impl Share {
    /// Counts one more thing.
    pub fn add(&mut self, hit: bool) {
        self.of += 1;
        self.hit += usize::from(hit);
    }

    /// The share; 0 if there are no things.
    #[must_use]
    pub fn value(self) -> f64 {
        self.hit as f64 / self.of.max(1) as f64
    }
}

/// A share in percent.
#[must_use]
pub fn percent(share: Share) -> String {
    format!("{:.0} %", share.value() * 100.0)
}

/// The probability that a coin lands on this side at least so many times: the sign test.
#[must_use]
pub fn coin(this: usize, other: usize) -> f64 {
    let all = this + other;
    let ln = LnFactorials::up_to(all);
    let tail = (this..=all).map(|k| (ln.ln_choose(all, k) - all as f64 * 2_f64.ln()).exp());
    tail.sum::<f64>().min(1.0)
}

/// The maximum number of values of each kind in the Mann-Whitney test: more than the script has,
/// and few enough whatever the partner sends.
const MAX_VALUES: usize = 40;

/// The probability that values of `a` are so much larger than those of `b` by chance: the exact
/// Mann-Whitney test, with ties against the finding. It uses the first [`MAX_VALUES`] of each.
#[must_use]
pub fn larger(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (&a[..a.len().min(MAX_VALUES)], &b[..b.len().min(MAX_VALUES)]);
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let above = |x: &f64| b.iter().filter(|y| x > y).count();
    let u: usize = a.iter().map(above).sum();
    // ways[n][s]: the number of orders of the first values of `a` among n values of `b` with the
    // sum s, counted by which of them is the last.
    let most = a.len() * b.len();
    let mut none = vec![0.0_f64; most + 1];
    none[0] = 1.0;
    let mut counts = vec![none; b.len() + 1];
    for _ in a {
        for n in 1..=b.len() {
            let (before, from) = counts.split_at_mut(n);
            let mut with = before[n - 1].clone();
            for (sum, of_a) in with[n..].iter_mut().zip(&from[0]) {
                *sum += of_a;
            }
            from[0] = with;
        }
    }
    let orders = &counts[b.len()];
    let tail: f64 = orders[u..].iter().sum();
    tail / orders.iter().sum::<f64>()
}

/// The median; 0 if there are no values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory cubic in these numbers would be terabytes.
    #[test]
    fn what_a_partner_says_takes_little_memory_and_time() {
        let (a, b) = (vec![2.0; 15_000], vec![1.0; 15_000]);
        assert!(larger(&a, &b) < 1e-9);
        assert!(coin(15_000, 0) < 1e-9);
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// Values from R: binom.test, wilcox.test.
    #[test]
    fn the_tests_are_those_of_the_textbooks() {
        assert!(close(coin(8, 2), 56.0 / 1024.0));
        assert!(close(coin(0, 0), 1.0));
        assert!(close(
            larger(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]),
            1.0 / 20.0
        ));
        assert!(close(larger(&[1.0], &[2.0]), 1.0));
        assert!(close(larger(&[], &[2.0]), 1.0));
        // By counting: 18 of the 126 orders have a sum of 15 or more.
        let (a, b) = ([9.0, 8.0, 2.5, 7.0, 1.5], [1.0, 2.0, 3.0, 4.0]);
        assert!(close(larger(&a, &b), 18.0 / 126.0), "{}", larger(&a, &b));
    }
}
