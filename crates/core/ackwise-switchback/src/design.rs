//! The order of the blocks.

use ackwise_rng::Rng;
use serde::{Deserialize, Serialize};

/// Whether the treatment is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Block {
    /// With the treatment.
    On,
    /// Without the treatment.
    Off,
}

/// The order of blocks: pairs of one block with and one without the treatment, in an order that a
/// fair coin decides for each pair. The same seed gives the same order.
#[derive(Debug, Clone)]
pub struct Design {
    coin: Rng,
    second: Option<Block>,
}

impl Design {
    /// Starts the order for a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            coin: Rng::stream(seed, 0x5317),
            second: None,
        }
    }
}

impl Iterator for Design {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        if let Some(second) = self.second.take() {
            return Some(second);
        }
        let (first, second) = if self.coin.next_u64() >> 63 == 1 {
            (Block::On, Block::Off)
        } else {
            (Block::Off, Block::On)
        };
        self.second = Some(second);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pair_has_both_and_the_coin_is_fair() {
        let blocks: Vec<_> = Design::new(7).take(20_000).collect();
        let mut first_on = 0;
        for pair in blocks.chunks(2) {
            assert_ne!(pair[0], pair[1]);
            first_on += u32::from(pair[0] == Block::On);
        }
        // Five standard deviations.
        assert!((4_750..=5_250).contains(&first_on), "{first_on}");
        let again: Vec<_> = Design::new(7).take(20_000).collect();
        assert_eq!(blocks, again);
        let other: Vec<_> = Design::new(8).take(20_000).collect();
        assert_ne!(blocks, other);
    }
}
