//! Samples of queue lengths.

use ackwise_scenario::record::QueueRecord;

use crate::clock::seconds;

/// The length of a queue at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// Time of the sample, ns on [the clock](crate::clock::now_ns).
    pub at_ns: u64,
    /// Packets that wait.
    pub packets: u64,
}

/// Sum of sampled queue lengths, for their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeanLength {
    sum: u64,
    samples: u64,
}

impl MeanLength {
    /// Adds one sample.
    pub fn add(&mut self, packets: u64) {
        self.sum += packets;
        self.samples += 1;
    }

    /// Mean number of packets; `None` without samples.
    #[must_use]
    pub fn packets(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum as f64 / self.samples as f64)
    }
}

/// Writes samples into a record, whose times are seconds since `start_ns`.
pub fn put_samples(samples: &[QueueSample], start_ns: u64, record: &mut QueueRecord) {
    let since_start = |sample: &QueueSample| seconds(sample.at_ns.saturating_sub(start_ns));
    record.t_s = samples.iter().map(since_start).collect();
    record.length_packets = samples.iter().map(|sample| sample.packets as f64).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_seconds_since_the_start_and_packets() {
        let at = |at_ns, packets| QueueSample { at_ns, packets };
        let mut record = QueueRecord::default();
        put_samples(
            &[at(5, 9), at(2_000_000_000, 3)],
            1_000_000_000,
            &mut record,
        );
        assert_eq!(record.t_s, [0.0, 1.0]);
        assert_eq!(record.length_packets, [9.0, 3.0]);
    }

    #[test]
    fn nobody_looked_is_no_mean() {
        let mut mean = MeanLength::default();
        assert_eq!(mean.packets(), None);
        mean.add(2);
        mean.add(3);
        assert_eq!(mean.packets(), Some(2.5));
    }
}
