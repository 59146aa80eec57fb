//! Anti-replay protection: each datagram number is accepted once (RFC 6479, RFC 4303 §3.4.3).

const WORDS: usize = 16;
/// How far a datagram number may be below the highest one. The word of the highest number is not
/// full yet, so it does not count.
const SPAN: u64 = 64 * (WORDS as u64 - 1);

/// The datagram numbers that were received in a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReplayWindow {
    /// The highest number that was received, plus one.
    next: u64,
    /// One bit for each number, in a ring of words.
    received: [u64; WORDS],
}

impl ReplayWindow {
    /// Returns the number that has these lower 24 bits and is nearest to the next expected
    /// one. Returns `None` if it would be negative.
    pub fn expand(&self, low: u32) -> Option<u64> {
        let ahead = (low.wrapping_sub(self.next as u32) << 8) as i32 >> 8;
        self.next.checked_add_signed(ahead.into())
    }

    /// Returns whether a number was not received yet. A number below the window counts as
    /// received.
    pub fn is_new(&self, number: u64) -> bool {
        number >= self.next
            || (self.next - number <= SPAN
                && self.received[Self::word(number)] >> (number % 64) & 1 == 0)
    }

    /// Marks a number as received. The datagram must be authentic.
    pub fn mark_received(&mut self, number: u64) {
        if number >= self.next {
            // Clear the words that the window moves over.
            let steps = (number / 64).saturating_sub(self.next.saturating_sub(1) / 64);
            for step in 0..steps.min(WORDS as u64) {
                self.received[Self::word(number - 64 * step)] = 0;
            }
            self.next = number + 1;
        }
        self.received[Self::word(number)] |= 1 << (number % 64);
    }

    fn word(number: u64) -> usize {
        (number / 64) as usize % WORDS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn each_number_is_taken_once(steps in prop::collection::vec(
            (prop_oneof![3 => 0..3_u64, 1 => 0..3000_u64], 0..1100_u64), 1..500)
        ) {
            let (mut window, mut seen, mut highest) = (ReplayWindow::default(), HashSet::new(), 0);
            for (ahead, back) in steps {
                let number = (highest + ahead).saturating_sub(back);
                prop_assert_eq!(window.expand(number as u32 & 0xff_ffff), Some(number));
                if window.is_new(number) {
                    prop_assert!(seen.insert(number));
                    window.mark_received(number);
                } else {
                    prop_assert!(seen.contains(&number) || highest - number >= SPAN);
                }
                highest = highest.max(number);
            }
        }
    }

    #[test]
    fn numbers_are_expanded_across_the_wrap_of_24_bits() {
        let mut window = ReplayWindow::default();
        window.mark_received((1 << 24) - 2);
        assert_eq!(window.expand(0xff_ffff), Some((1 << 24) - 1));
        assert_eq!(window.expand(3), Some((1 << 24) + 3));
        assert_eq!(window.expand(0xff_0000), Some(0xff_0000));
        // Numbers below 0 do not exist.
        assert_eq!(ReplayWindow::default().expand(0xff_ffff), None);
    }
}
