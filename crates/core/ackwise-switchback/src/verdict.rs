//! Combines the effects on several metrics into a verdict.

use serde::{Deserialize, Serialize};

use crate::Interval;

/// The direction of an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better, as with goodput.
    Higher,
    /// Less is better, as with a round-trip time.
    Lower,
}

/// A metric that the verdict depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct JudgedMetric {
    /// The direction of an improvement.
    pub better: Better,
    /// The median ratio of the pairs.
    pub ratio: f64,
    /// The compatible ratios.
    pub interval: Interval,
}

/// The result of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Some metric certainly got worse, and its median by more than the smallest difference that
    /// matters.
    Harms,
    /// Some metric got better, and none got worse by more than the smallest difference that
    /// matters.
    Helps,
    /// Any difference is below the smallest one that matters.
    NoDifference,
    /// It is not known yet.
    Undecided,
}

/// Judges metrics together. `difference` is the smallest one that matters, as a share, for instance
/// 0.05.
pub(crate) fn judge(metrics: &[JudgedMetric], difference: f64) -> Verdict {
    // Turned into ratios of which more is better.
    let turned = metrics.iter().map(|metric| match metric.better {
        Better::Higher => (metric.ratio, metric.interval),
        Better::Lower => {
            let turned = Interval {
                low: metric.interval.high.recip(),
                high: metric.interval.low.recip(),
            };
            (metric.ratio.recip(), turned)
        }
    });
    let turned: Vec<_> = turned.collect();
    let (least, most) = (1.0 - difference, (1.0 - difference).recip());
    if turned
        .iter()
        .any(|(ratio, i)| i.high < 1.0 && *ratio <= least)
    {
        Verdict::Harms
    } else if turned.is_empty() || !turned.iter().all(|(_, i)| i.low > least) {
        Verdict::Undecided
    } else if turned.iter().any(|(_, i)| i.low > 1.0) {
        Verdict::Helps
    } else if turned.iter().all(|(_, i)| i.high < most) {
        Verdict::NoDifference
    } else {
        Verdict::Undecided
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(metrics: &[(Better, f64, f64)]) -> Verdict {
        let metrics: Vec<_> = metrics
            .iter()
            .map(|&(better, low, high)| JudgedMetric {
                better,
                ratio: if high.is_finite() {
                    f64::midpoint(low, high)
                } else {
                    1.0
                },
                interval: Interval { low, high },
            })
            .collect();
        judge(&metrics, 0.05)
    }

    #[test]
    fn every_verdict_has_its_intervals() {
        use Better::{Higher, Lower};
        let nothing = (Higher, 0.0, f64::INFINITY);
        assert_eq!(verdict(&[]), Verdict::Undecided);
        assert_eq!(verdict(&[nothing]), Verdict::Undecided);
        // Harm in one metric is harm, whatever the others show.
        assert_eq!(
            verdict(&[(Higher, 1.2, 1.5), (Lower, 1.01, 1.3)]),
            Verdict::Harms
        );
        // A certain loss, which may be too small to matter.
        assert_eq!(verdict(&[(Higher, 0.94, 0.99)]), Verdict::Undecided);
        assert_eq!(verdict(&[(Higher, 0.96, 0.99)]), Verdict::NoDifference);
        assert_eq!(verdict(&[nothing, (Higher, 0.5, 0.99)]), Verdict::Harms);
        // An improvement in one metric decides nothing while another may still be harmed.
        assert_eq!(
            verdict(&[(Higher, 1.2, 1.5), (Lower, 0.9, 1.2)]),
            Verdict::Undecided
        );
        assert_eq!(
            verdict(&[(Higher, 0.97, 1.5), (Lower, 0.5, 0.8)]),
            Verdict::Helps
        );
        assert_eq!(
            verdict(&[(Higher, 0.97, 1.02), (Lower, 0.98, 1.04)]),
            Verdict::NoDifference
        );
        assert_eq!(verdict(&[(Higher, 0.97, 1.2)]), Verdict::Undecided);
    }
}
