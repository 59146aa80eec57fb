//! A small deterministic generator and probabilities that it can draw exactly.

/// A seeded generator of 64-bit numbers (Steele, Lea and Flood 2014, "SplitMix64"): a Weyl sequence
/// through a mixing function.
///
/// It is not cryptographically secure. The same seed gives the same sequence on every platform and
/// in every version of this crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Starts the sequence of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Starts an independent sequence for one purpose of a seed, so that
    /// switching one effect on does not shift the draws of another.
    #[must_use]
    pub fn stream(seed: u64, purpose: u64) -> Self {
        let mut parent = Self::new(seed ^ purpose.wrapping_mul(0xd605_bbb5_8c8a_bc03));
        Self::new(parent.next_u64())
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, or 0 if `bound` is 0. The bias is below 2⁻³² for
    /// every bound that fits 32 bits.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether an event of this probability happens now.
    ///
    /// Probabilities 0 and 1 draw nothing.
    pub fn happens(&mut self, probability: Probability) -> bool {
        match probability.0 {
            0 => false,
            ALWAYS => true,
            threshold => (self.next_u64() >> 32) < threshold,
        }
    }
}

const ALWAYS: u64 = 1 << 32;

/// A probability, held as a multiple of 2⁻³².
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Probability(u64);

impl Probability {
    /// Never.
    pub const ZERO: Self = Self(0);
    /// Always.
    pub const ONE: Self = Self(ALWAYS);

    /// Converts a fraction between 0 and 1. Values outside are clamped, and NaN becomes 0.
    #[must_use]
    pub fn from_fraction(fraction: f64) -> Self {
        // `as` saturates, and turns NaN into 0.
        Self(((fraction.clamp(0.0, 1.0) * ALWAYS as f64).round() as u64).min(ALWAYS))
    }

    /// Converts to a fraction between 0 and 1.
    #[must_use]
    pub fn as_fraction(self) -> f64 {
        self.0 as f64 / ALWAYS as f64
    }

    /// Whether this is exactly 0.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // First outputs of SplitMix64 for seed 1234567, as printed in the test
        // data of several independent implementations.
        let mut rng = Rng::new(1_234_567);
        let drawn: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn streams_of_a_seed_differ_and_repeat() {
        let draw = |purpose| {
            let mut rng = Rng::stream(7, purpose);
            [rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::new(1);
        for bound in [1, 2, 3, 1000, u64::MAX] {
            for _ in 0..100 {
                assert!(rng.below(bound) < bound);
            }
        }
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn probabilities_are_met() {
        let mut rng = Rng::new(3);
        let quarter = Probability::from_fraction(0.25);
        let hits = (0..100_000).filter(|_| rng.happens(quarter)).count();
        // Six standard deviations.
        assert!((24_178..=25_822).contains(&hits), "{hits}");
        assert!(!rng.happens(Probability::from_fraction(-1.0)));
        assert!(!rng.happens(Probability::from_fraction(f64::NAN)));
        assert!(rng.happens(Probability::from_fraction(7.0)));
    }
}
