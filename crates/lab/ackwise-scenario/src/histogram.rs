//! A histogram of times with bounded memory and an error below 1 %.

use crate::record::Quantiles;

/// Significant bits of a value: its bucket is at most 1/128 wide.
const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

/// A log-linear histogram of times in nanoseconds; only the range that occurs takes memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Index of the bucket at the front of `counts`.
    first: usize,
    counts: Vec<u32>,
    count: u64,
    sum: u128,
    least: u64,
    greatest: u64,
}

fn index_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    ((u64::from(shift) + 1) * SUB + ((value >> shift) - SUB)) as usize
}

/// The middle of a bucket.
fn middle_of(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB {
        return index;
    }
    let shift = index / SUB - 1;
    ((SUB + index % SUB) << shift) + ((1 << shift) >> 1)
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_many(index_of(value), 1);
        self.least = if self.count == 0 {
            value
        } else {
            self.least.min(value)
        };
        self.greatest = self.greatest.max(value);
        self.count += 1;
        self.sum += u128::from(value);
    }

    fn add_many(&mut self, index: usize, by: u32) {
        if self.counts.is_empty() {
            self.first = index;
        }
        if index < self.first {
            let before = self.first - index;
            self.counts.splice(0..0, std::iter::repeat_n(0, before));
            self.first = index;
        }
        let at = index - self.first;
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] = self.counts[at].saturating_add(by);
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        for (offset, &by) in other.counts.iter().enumerate().filter(|(_, by)| **by > 0) {
            self.add_many(other.first + offset, by);
        }
        self.least = if self.count == 0 {
            other.least
        } else {
            self.least.min(other.least)
        };
        self.greatest = self.greatest.max(other.greatest);
        self.count += other.count;
        self.sum += other.sum;
    }

    /// The largest value; 0 if nothing was counted.
    pub fn max(&self) -> u64 {
        self.greatest
    }

    /// The nearest-rank quantile: the middle of its bucket, clamped to the observed range.
    fn quantile(&self, q: f64) -> u64 {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (offset, &count) in self.counts.iter().enumerate() {
            seen += u64::from(count);
            if seen >= rank {
                return middle_of(self.first + offset).clamp(self.least, self.greatest);
            }
        }
        self.greatest
    }

    /// The quantiles in microseconds; `None` if nothing was counted.
    pub fn quantiles_us(&self) -> Option<Quantiles> {
        let us = |ns: u64| ns as f64 / 1000.0;
        (self.count > 0).then(|| Quantiles {
            p50: us(self.quantile(0.50)),
            p99: us(self.quantile(0.99)),
            min: Some(us(self.least)),
            mean: Some(self.sum as f64 / self.count as f64 / 1000.0),
            max: Some(us(self.greatest)),
            count: Some(self.count),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_counted_has_no_quantiles() {
        assert_eq!(Histogram::default().quantiles_us(), None);
        assert_eq!(Histogram::default().max(), 0);
    }

    #[test]
    fn buckets_are_contiguous_and_ordered() {
        let mut last = 0;
        for value in (0..100_000).chain([u64::MAX / 2, u64::MAX]) {
            let index = index_of(value);
            assert!(
                index == last || index == last + 1 || value > 100_000,
                "{value}"
            );
            last = index;
            assert!(middle_of(index).abs_diff(value) <= value / SUB);
        }
    }

    #[test]
    fn quantiles_are_those_of_a_known_series() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.add(value * 1000));
        let found = histogram.quantiles_us().unwrap();
        assert!((495.0..=505.0).contains(&found.p50), "{found:?}");
        assert!((980.0..=1000.0).contains(&found.p99), "{found:?}");
        assert_eq!((found.min, found.max), (Some(1.0), Some(1000.0)));
        assert_eq!(found.mean, Some(500.5));
        assert_eq!(histogram.max(), 1_000_000);
    }

    #[test]
    fn merging_is_counting_both() {
        let (mut a, mut b, mut both) = <(Histogram, Histogram, Histogram)>::default();
        for value in [3, 70, 9000] {
            a.add(value);
            both.add(value);
        }
        for value in [1, 1_000_000] {
            b.add(value);
            both.add(value);
        }
        a.merge(&b);
        assert_eq!(a.quantiles_us(), both.quantiles_us());
        assert_eq!(a.max(), 1_000_000);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_one_percent(
            values in proptest::collection::vec(1u64..10_000_000_000, 1..300),
            split in 0usize..300,
        ) {
            // Counts in two parts that are merged.
            let split = split.min(values.len());
            let (mut all, mut rest) = (Histogram::default(), Histogram::default());
            values[..split].iter().for_each(|v| all.add(*v));
            values[split..].iter().for_each(|v| rest.add(*v));
            all.merge(&rest);
            let exact = Quantiles::of(&values.iter().map(|v| *v as f64 / 1000.0).collect::<Vec<_>>()).unwrap();
            let found = all.quantiles_us().unwrap();
            for (found, exact) in [(found.p50, exact.p50), (found.p99, exact.p99)] {
                prop_assert!((found - exact).abs() <= 0.01 * exact + 1e-9, "{found} {exact}");
            }
            prop_assert_eq!((found.min, found.max, found.count), (exact.min, exact.max, exact.count));
            prop_assert!((found.mean.unwrap() - exact.mean.unwrap()).abs() <= 1e-9 * exact.mean.unwrap());
        }
    }
}
