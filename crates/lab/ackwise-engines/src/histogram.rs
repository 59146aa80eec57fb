//! A histogram of times with bounded memory and bounded error.

use ackwise_scenario::record::Quantiles;

/// Buckets per power of two: values are kept to 1/16, about 6 %.
const SUB: u64 = 16;
const SUB_BITS: u32 = SUB.trailing_zeros();

/// A log-linear histogram of non-negative integers.
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: vec![0; index_of(u64::MAX) + 1],
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

fn index_of(value: u64) -> usize {
    if value < SUB {
        return value as usize;
    }
    let shift = value.ilog2() - SUB_BITS;
    ((u64::from(shift) + 1) * SUB + ((value >> shift) - SUB)) as usize
}

/// The least value of a bucket.
fn floor_of(index: usize) -> u64 {
    let index = index as u64;
    if index < SUB {
        return index;
    }
    let shift = index / SUB - 1;
    (SUB + index % SUB) << shift
}

impl Histogram {
    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        self.buckets[index_of(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Counts everything that another histogram has counted.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The nearest-rank quantile, rounded down to its bucket; 0 if empty.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = ((q * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return floor_of(index).clamp(self.min, self.max);
            }
        }
        0
    }

    /// As the record wants it, in units of `per` values; `None` if empty.
    #[must_use]
    pub fn quantiles(&self, per: f64) -> Option<Quantiles> {
        (self.count > 0).then(|| Quantiles {
            p50: self.quantile(0.5) as f64 / per,
            p99: self.quantile(0.99) as f64 / per,
            min: Some(self.min as f64 / per),
            mean: Some(self.sum as f64 / self.count as f64 / per),
            max: Some(self.max as f64 / per),
            count: Some(self.count),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(floor_of(index) <= value);
            assert!(value - floor_of(index) <= value / SUB);
        }
    }

    #[test]
    fn quantiles_are_within_a_sixteenth() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.add(value * 1000));
        let found = histogram.quantiles(1000.0).unwrap();
        assert!((470.0..=500.0).contains(&found.p50), "{found:?}");
        assert!((930.0..=990.0).contains(&found.p99), "{found:?}");
        assert_eq!((found.min, found.max), (Some(1.0), Some(1000.0)));
        assert_eq!(found.mean, Some(500.5));
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
        assert_eq!(a.quantiles(1.0), both.quantiles(1.0));
        assert_eq!(Histogram::default().quantiles(1.0), None);
    }
}
