//! Compares packets with data that were sent next to them.
//!
//! In each count a packet belongs to at most one pair: otherwise one loss would count twice, and
//! chance would look like a finding.
//!
//! A path that loses packets for lack of room, by noise or in an outage does not look at what it
//! loses. It therefore loses either of two neighbours equally often: a run of losses, however long,
//! begins once and ends once between two neighbours. The counts are of pairs of which exactly one
//! is lost, and the test is McNemar's.
//!
//! Where an AQM drops ACKs, which are not ECN-capable, it marks data that are. So a mark counts as
//! a loss here.
//!
//! A queue that overflows loses the later packets of a burst. So the suspects must be lost more
//! often than the data before them, and more often than the data behind them.

use crate::compare::Sample;
use crate::stats::{SIGNIFICANCE_LEVEL, Share, coin};

/// Counts of pairs of neighbours of which exactly one is lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Discordant {
    suspect_lost: usize,
    data_lost: usize,
}

impl Discordant {
    fn add(&mut self, suspect: &Sample, data: &Sample) {
        self.suspect_lost += usize::from(suspect.is_hit() && !data.is_hit());
        self.data_lost += usize::from(data.is_hit() && !suspect.is_hit());
    }

    /// The probability that the suspects are lost this often by chance.
    fn chance(self) -> f64 {
        coin(self.suspect_lost, self.data_lost)
    }
}

/// The losses of some packets, and of data next to them.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossComparison {
    /// The packets under suspicion.
    pub these: Share,
    /// The data that they are compared with.
    pub others: Share,
    /// Pairs in which the data left first.
    data_before: Discordant,
    /// Pairs in which the data left second.
    data_behind: Discordant,
    /// Pairs in either order with nothing sent in between; no packet belongs to two of them.
    either: Discordant,
}

/// The part of a packet in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It is under suspicion.
    Suspect,
    /// It is data to compare with.
    Data,
    /// It is neither.
    Aside,
}

impl LossComparison {
    /// Compares packets in the order in which they left.
    pub fn of<'a>(
        samples: impl IntoIterator<Item = &'a Sample>,
        part: impl Fn(&Sample) -> Part,
    ) -> Self {
        let mut contrast = Self::default();
        let mut last: Option<(Part, &Sample)> = None;
        // Whether the packet sent just before is not in a pair of `either` yet.
        let mut is_free = false;
        for it in samples {
            let part = part(it);
            match part {
                Part::Suspect => contrast.these.add(it.is_lost()),
                Part::Data => contrast.others.add(it.is_lost()),
                Part::Aside => {
                    is_free = false;
                    continue;
                }
            }
            let pair = match (last, part) {
                (Some((Part::Data, data)), Part::Suspect) => {
                    contrast.data_before.add(it, data);
                    Some((it, data))
                }
                (Some((Part::Suspect, suspect)), Part::Data) => {
                    contrast.data_behind.add(suspect, it);
                    Some((suspect, it))
                }
                _ => None,
            };
            let pair = pair.filter(|_| is_free);
            if let Some((suspect, data)) = pair {
                contrast.either.add(suspect, data);
            }
            is_free = pair.is_none();
            last = Some((part, it));
        }
        contrast
    }

    /// Returns whether the suspects are lost more often, beyond chance, than data before and behind
    /// them.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.data_before.chance() < SIGNIFICANCE_LEVEL
            && self.data_behind.chance() < SIGNIFICANCE_LEVEL
    }

    /// Returns whether the suspects are lost more often, beyond chance, than data, where the order
    /// was random for each pair.
    #[must_use]
    pub fn holds_in_any_order(&self) -> bool {
        self.either.chance() < SIGNIFICANCE_LEVEL
    }
}

#[cfg(test)]
mod tests {
    use ackwise_rng::{Probability, Rng};

    use super::*;
    use crate::record::{Origin, Record, Role};
    use crate::segment::Segment;

    fn sample(role: Role, arrives: bool) -> Sample {
        let sent = Record {
            role,
            ..Record::of(&Segment::default(), 0, 0, Origin::default())
        };
        Sample {
            sent,
            seen: arrives.then_some(sent),
        }
    }

    fn part(it: &Sample) -> Part {
        match it.sent.role {
            Role::Small => Part::Suspect,
            Role::Large => Part::Data,
            _ => Part::Aside,
        }
    }

    /// One letter per packet: `s` is a suspect, `d` is data, `a` is neither; capitals arrive.
    fn contrast(packets: &str) -> LossComparison {
        let samples = packets.chars().map(|letter| {
            let role = match letter.to_ascii_lowercase() {
                's' => Role::Small,
                'd' => Role::Large,
                _ => Role::Ack,
            };
            sample(role, letter.is_ascii_uppercase())
        });
        LossComparison::of(&samples.collect::<Vec<_>>(), part)
    }

    #[test]
    fn a_packet_is_in_one_pair_at_most() {
        for (packets, suspect_lost, data_lost) in [
            ("sD", 1, 0),
            ("Ds", 1, 0),
            ("Sd", 0, 1),
            ("SdS", 0, 1),
            ("sDs", 1, 0),
            ("sDsD", 2, 0),
            ("DDs", 1, 0),
            ("sd", 0, 0),
            // Something else was sent in between.
            ("sAD", 0, 0),
            ("DAs", 0, 0),
            ("sDAs", 1, 0),
        ] {
            let wanted = Discordant {
                suspect_lost,
                data_lost,
            };
            assert_eq!(contrast(packets).either, wanted, "{packets}");
        }
        // The tests by order ignore what was sent in between.
        let it = contrast("DAsAD");
        assert_eq!(
            (it.data_before.suspect_lost, it.data_behind.suspect_lost),
            (1, 1)
        );
    }

    /// Blocks like those of the fast flow, on a path that loses every packet with the same
    /// probability: findings exceed the level by at most three standard deviations.
    #[test]
    fn random_loss_is_found_no_more_often_than_the_level_says() {
        const TRIALS: usize = 10_000;
        for share in [0.02, 0.1, 0.3] {
            let loses = Probability::from_fraction(share);
            let mut rng = Rng::stream(33, (share * 100.0) as u64);
            let mut found = 0;
            for _ in 0..TRIALS {
                let mut samples = Vec::new();
                for _ in 0..83 {
                    let pair = [Role::Small, Role::Large];
                    let first = rng.below(2) as usize;
                    for role in [Role::Ack, pair[first], pair[1 - first]] {
                        samples.push(sample(role, !rng.happens(loses)));
                    }
                }
                found += usize::from(LossComparison::of(&samples, part).holds_in_any_order());
            }
            let wanted = SIGNIFICANCE_LEVEL * TRIALS as f64;
            let bound = wanted + 3.0 * wanted.sqrt();
            assert!((found as f64) < bound, "{share}: {found} of {TRIALS}");
        }
    }
}
