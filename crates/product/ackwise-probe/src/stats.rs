//! Is it chance? One-sided tests without assumptions about how a path loses or delays.

/// Below this a finding counts. A report asks some twenty times, so that one in 500 reports of a
/// path that does nothing says something.
pub const LEVEL: f64 = 1e-4;

/// Logarithms of factorials.
fn ln_factorial(n: usize) -> f64 {
    (2..=n).map(|k| (k as f64).ln()).sum()
}

fn ln_choose(n: usize, k: usize) -> f64 {
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// How many.
    pub of: usize,
    /// Of them.
    pub hit: usize,
}

impl Share {
    /// Counts one more.
    pub fn add(&mut self, hit: bool) {
        self.of += 1;
        self.hit += usize::from(hit);
    }

    /// The share, 0 of nothing.
    #[must_use]
    pub fn value(self) -> f64 {
        self.hit as f64 / self.of.max(1) as f64
    }
}

/// How likely a difference is as large as this one, or larger, if `a` is hit no more often than
/// `b`: Fisher's exact test.
#[must_use]
pub fn hit_more(a: Share, b: Share) -> f64 {
    let (hits, all) = (a.hit + b.hit, a.of + b.of);
    let total = ln_choose(all, hits);
    let most = hits.min(a.of);
    let tail = (a.hit..=most).filter(|k| hits - k <= b.of);
    let tail = tail.map(|k| (ln_choose(a.of, k) + ln_choose(b.of, hits - k) - total).exp());
    tail.sum::<f64>().min(1.0)
}

/// How likely a coin falls so many times or more on this side: the sign test.
#[must_use]
pub fn coin(this: usize, other: usize) -> f64 {
    let all = this + other;
    let tail = (this..=all).map(|k| (ln_choose(all, k) - all as f64 * 2_f64.ln()).exp());
    tail.sum::<f64>().min(1.0)
}

/// How likely values of `a` are so much larger than those of `b` by chance: the test of Mann and
/// Whitney, exact, with ties against the finding.
#[must_use]
pub fn larger(a: &[f64], b: &[f64]) -> f64 {
    if a.is_empty() || b.is_empty() {
        return 1.0;
    }
    let above = |x: &f64| b.iter().filter(|y| x > y).count();
    let u: usize = a.iter().map(above).sum();
    // ways[m][s]: orders of m values of a among n of b with the sum s. Counted by the last value.
    let most = a.len() * b.len();
    let mut ways = vec![vec![vec![0.0_f64; most + 1]; b.len() + 1]; a.len() + 1];
    for m in 0..=a.len() {
        for n in 0..=b.len() {
            for s in 0..=most {
                ways[m][n][s] = match (m, n) {
                    (0, _) | (_, 0) => f64::from(u8::from(s == 0)),
                    _ => {
                        let last_of_a = s.checked_sub(n).map_or(0.0, |s| ways[m - 1][n][s]);
                        last_of_a + ways[m][n - 1][s]
                    }
                };
            }
        }
    }
    let orders = &ways[a.len()][b.len()];
    let tail: f64 = orders[u..].iter().sum();
    tail / orders.iter().sum::<f64>()
}

/// The median, 0 of nothing.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    /// Values of R: fisher.test(alternative = "greater"), binom.test, wilcox.test.
    #[test]
    fn the_tests_are_those_of_the_textbooks() {
        let share = |hit, of| Share { of, hit };
        assert!(close(hit_more(share(3, 4), share(1, 4)), 17.0 / 70.0));
        assert!(close(hit_more(share(0, 4), share(4, 4)), 1.0));
        assert!(close(hit_more(share(0, 0), share(0, 0)), 1.0));
        assert!(close(coin(8, 2), 56.0 / 1024.0));
        assert!(close(coin(0, 0), 1.0));
        assert!(close(
            larger(&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]),
            1.0 / 20.0
        ));
        assert!(close(larger(&[1.0], &[2.0]), 1.0));
        assert!(close(larger(&[], &[2.0]), 1.0));
    }
}
