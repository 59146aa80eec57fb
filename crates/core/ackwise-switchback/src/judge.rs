//! Turns the blocks so far into effects and a verdict.

use serde::Serialize;

use crate::outcome::{METRICS, Metric, Outcome};
use crate::verdict::{self, judge};
use crate::{Block, Effect, Level, Verdict};

/// Added to both sides of a pair, as a share of the mean of what both directions carry: a few
/// packets more or less in a hardly used direction are no effect. It dampens the effect on a
/// direction that carries little.
const NEGLIGIBLE_SHARE: f64 = 0.002;

/// The effect on one metric.
#[derive(Debug, Clone, Serialize)]
pub struct MetricEffect {
    /// Its name.
    pub metric: &'static str,
    /// Whether the verdict depends on it.
    pub judged: bool,
    /// The number of pairs that were not ignored.
    pub pairs: usize,
    /// The ratio of the outcome with the policy to that without it; infinite if there was none
    /// without it (`null` in JSON).
    pub ratio: f64,
    /// The smallest compatible ratio.
    pub low: f64,
    /// The largest compatible ratio; infinite while nothing is excluded (`null` in JSON).
    pub high: f64,
}

/// The parameters of the judgment.
#[derive(Debug, Clone, Copy)]
pub struct Judge {
    /// The error of all judged metrics together.
    pub level: Level,
    /// The smallest difference that matters, as a share, for instance 0.05.
    pub difference: f64,
    /// Whether the round-trip time counts. A sender sees only its far leg, from data to their ACK,
    /// and of that the minimum.
    pub judges_rtt: bool,
}

impl Judge {
    /// The effects on these metrics, and the verdict as far as it depends on them.
    #[must_use]
    pub fn effects(&self, blocks: &[Outcome], metrics: &[Metric]) -> (Vec<MetricEffect>, Verdict) {
        let level = self.shared_level();
        let (mut effects, mut known) = (Vec::new(), Vec::new());
        for metric in metrics {
            let effect = effect(blocks, metric);
            let interval = effect.interval(level);
            if self.judges(metric) && effect.pairs() > 0 {
                known.push(verdict::JudgedMetric {
                    better: metric.better,
                    ratio: effect.ratio(),
                    interval,
                });
            }
            effects.push(MetricEffect {
                metric: metric.name,
                judged: self.judges(metric),
                pairs: effect.pairs(),
                ratio: effect.ratio(),
                low: interval.low,
                high: interval.high,
            });
        }
        (effects, judge(&known, self.difference))
    }

    /// The judged metrics on which an effect is certain, however small.
    pub fn certain_effects(&self, blocks: &[Outcome]) -> impl Iterator<Item = &'static Metric> {
        let judged = METRICS.iter().filter(|metric| self.judges(metric));
        judged.filter(|metric| effect(blocks, metric).excludes(1.0, self.shared_level()))
    }

    fn judges(&self, metric: &Metric) -> bool {
        metric.judged && (self.judges_rtt || metric.name != "RTT")
    }

    fn shared_level(&self) -> Level {
        self.level.shared_by(Metric::judged().len())
    }
}

/// The effect on a metric over the pairs of consecutive blocks. An unpaired block is ignored.
#[must_use]
pub fn effect(blocks: &[Outcome], metric: &Metric) -> Effect {
    let mut effect = Effect::default();
    for pair in blocks.chunks_exact(2) {
        let (on, off) = match pair[0].policy {
            Block::On => (&pair[0], &pair[1]),
            Block::Off => (&pair[1], &pair[0]),
        };
        let (Some(a), Some(b)) = ((metric.value)(on), (metric.value)(off)) else {
            continue;
        };
        // The same amount for both sides, and independent of their order.
        let some = if metric.name.ends_with("data") {
            f64::midpoint(negligible_rate(on), negligible_rate(off))
        } else {
            0.0
        };
        effect.add(a + some, b + some);
    }
    effect
}

fn negligible_rate(outcome: &Outcome) -> f64 {
    NEGLIGIBLE_SHARE * (outcome.data_bytes_per_s + outcome.reverse_bytes_per_s)
}
