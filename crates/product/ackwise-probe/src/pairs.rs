//! Packets beside data that left next to them.
//!
//! A path that loses for want of room, by noise or in an outage does not look at what it loses. So
//! of two neighbours it loses the one as often as the other: a run of losses, however long, begins
//! and ends between two neighbours once. What is counted is pairs of which one is lost, and the
//! test is that of McNemar.
//!
//! An AQM marks data that are ECN-capable where it drops ACKs, which are not. So a mark counts as
//! a loss here.
//!
//! A queue that overflows loses the later ones of a burst. So what is suspected must be lost more
//! often than data before it, and more often than data behind it.

use crate::compare::Sample;
use crate::stats::{LEVEL, Share, coin};

/// Pairs of neighbours of which one is lost.
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

    /// How likely the suspects lose so often by chance.
    fn chance(self) -> f64 {
        coin(self.suspect_lost, self.data_lost)
    }
}

/// What happens to some packets, and to data beside them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Contrast {
    /// What is looked at.
    pub these: Share,
    /// What it is compared with.
    pub others: Share,
    /// Data left first.
    data_before: Discordant,
    /// Data left second.
    data_behind: Discordant,
}

/// What a packet is in a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// It is looked at.
    Suspect,
    /// It is data to compare with.
    Data,
    /// Neither.
    Aside,
}

impl Contrast {
    /// Of packets in the order in which they left.
    pub fn of<'a>(
        samples: impl IntoIterator<Item = &'a Sample>,
        part: impl Fn(&Sample) -> Part,
    ) -> Self {
        let mut contrast = Self::default();
        let mut last: Option<(Part, &Sample)> = None;
        for it in samples {
            let part = part(it);
            match part {
                Part::Suspect => contrast.these.add(it.is_lost()),
                Part::Data => contrast.others.add(it.is_lost()),
                Part::Aside => continue,
            }
            match (last, part) {
                (Some((Part::Data, data)), Part::Suspect) => contrast.data_before.add(it, data),
                (Some((Part::Suspect, suspect)), Part::Data) => {
                    contrast.data_behind.add(suspect, it);
                }
                _ => {}
            }
            last = Some((part, it));
        }
        contrast
    }

    /// Says whether these are lost more often, beyond chance, than data before and behind them.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.data_before.chance() < LEVEL && self.data_behind.chance() < LEVEL
    }

    /// The same where the order of the two was drawn for each pair.
    #[must_use]
    pub fn holds_in_any_order(&self) -> bool {
        let (before, behind) = (self.data_before, self.data_behind);
        let both = Discordant {
            suspect_lost: before.suspect_lost + behind.suspect_lost,
            data_lost: before.data_lost + behind.data_lost,
        };
        both.chance() < LEVEL
    }
}
